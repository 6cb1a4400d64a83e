r"""Bandits whose length scale is not known: a family of kernels against its rivals."""
