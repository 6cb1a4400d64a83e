r"""The experiments of Calandriello et al. (2019), BKB, and of its batched successor BBKB.

Data flow: ``configuration -> problems -> learners -> {play, accuracy} ->
(benchmarks.runner) -> {regret, theorem1}``; ``timing`` (with ``yardstick``) and
``starvation`` stand beside. Run one experiment with
``python -m benchmarks.papers.bkb_2019 regret``.
"""
