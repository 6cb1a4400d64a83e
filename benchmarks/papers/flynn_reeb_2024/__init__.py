r"""The experiments of Flynn & Reeb (2024), with the exact bound at every round.

Data flow: ``configuration -> problems -> learners -> play -> (benchmarks.runner) ->
summaries -> {tables, figures}``; ``yardsticks`` and ``timing`` stand beside. Run one
experiment with ``python -m benchmarks.papers.flynn_reeb_2024 table1``.
"""
