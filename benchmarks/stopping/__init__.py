r"""How often stopping rules stop too early, all of them looking at the same runs."""
