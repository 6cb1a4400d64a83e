r"""A page to sign from a table of runs, behind ``python -m kernelucb report``."""
