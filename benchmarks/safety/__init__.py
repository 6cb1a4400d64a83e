r"""Safe sets: how often they are left, and whether the optimum is found in them."""
