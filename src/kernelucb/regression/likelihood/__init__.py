r"""Outcomes that are successes or counts, and a prior of what they depend on."""
