r"""One wrong argument at a time, in every public constructor, function and method."""
