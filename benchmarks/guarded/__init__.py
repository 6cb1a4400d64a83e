r"""Guarded search where kernel, norm and noise are known: what it costs, what holds.

Data flow: ``configuration -> problems -> rules -> {play, coverage} -> (benchmarks.runner)
-> tables``. Run ``python -m benchmarks.guarded arms``.
"""
