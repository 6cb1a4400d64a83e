r"""Experiments as people run them: many inputs, categories, contexts and constraints.

Data flow: ``configuration -> problems -> {dimensions, coverage, trials -> {safe, explored}}
-> (benchmarks.runner) -> results``. Run ``python -m benchmarks.experiments dimensions``.
"""
