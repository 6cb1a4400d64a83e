r"""Confidence sets over a family of kernels."""
