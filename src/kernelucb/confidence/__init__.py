r"""Confidence sets: the mathematics, one theorem per file."""
