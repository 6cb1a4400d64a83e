r"""A page to sign from a table of runs, behind ``kernelucb.report``."""
