r"""Slow computations of the same numbers, written from the papers' equations.

Nothing here imports the library, so that a mistake cannot be on both sides.
"""
