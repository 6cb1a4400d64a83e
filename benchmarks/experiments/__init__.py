r"""Experiments as people run them: many inputs, categories, contexts and constraints."""
