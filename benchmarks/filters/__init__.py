r"""The mixture of filters against the exact set of the paper: width, price, weights."""
