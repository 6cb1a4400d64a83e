r"""The experiments of Calandriello et al. (2019), BKB, and its batched successor BBKB."""
