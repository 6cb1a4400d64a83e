r"""A certified band for very many observations: how wide, how fast, how much memory."""
