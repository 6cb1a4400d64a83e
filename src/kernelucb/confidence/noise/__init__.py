r"""Noise of unknown scale."""
