r"""The experiments of Wang, Kim & Kaelbling (2018): priors estimated from earlier tasks.

Data flow: ``configuration -> problems -> {grasp, synthetic} -> play ->
(benchmarks.runner) -> {tables, figures}``. Run one experiment
with ``python -m benchmarks.papers.wang_2018 grasp``.
"""
