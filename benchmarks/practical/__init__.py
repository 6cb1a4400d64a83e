r"""The recommended start of this library against what people use today."""
