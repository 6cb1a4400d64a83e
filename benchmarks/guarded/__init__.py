r"""Guarded search where kernel, norm and noise are known: what it costs, what holds.

Data flow: ``problems -> rules -> play -> tables``.
"""
