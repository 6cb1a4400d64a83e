r"""Bayesian optimisation on the tables of HPO-B, beside the published runs."""
