r"""Margins of the default policy, from replays."""
