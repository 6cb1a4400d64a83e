r"""Confidence sets for outcomes that are successes or counts."""
