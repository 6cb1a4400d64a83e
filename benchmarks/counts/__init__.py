r"""Successes and counts: whether the bands hold, how narrow they are, how well they search.

Data flow: ``configuration -> problems -> {coverage, width, regret, safe} ->
(benchmarks.runner) -> tables``; ``rivals`` has the other bands, ``exact_set`` the convex
set itself and ``variational`` BoTorch's model. Run ``python -m benchmarks.counts width``;
times are in ``benchmarks.speed.counts``.
"""
