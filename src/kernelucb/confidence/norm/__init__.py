r"""The RKHS norm: its least consistent value, bounds, estimates and what they mean."""
