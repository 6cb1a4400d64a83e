r"""The experiments of Srinivas, Krause, Kakade & Seeger (2010), GP-UCB.

Data flow: ``configuration -> priors -> {tabulated, learners} -> play ->
(benchmarks.runner) -> summaries -> {tables, figures}``; ``gain`` stands beside. Run one
experiment with ``python -m benchmarks.papers.srinivas_2010 synthetic``.
"""
