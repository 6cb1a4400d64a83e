r"""Successes and counts: whether the bands hold, and how well they search."""
