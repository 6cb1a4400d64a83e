r"""Numerical building blocks that torch, scipy and BoTorch do not have."""
