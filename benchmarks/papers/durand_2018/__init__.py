r"""The experiments of Durand, Maillard & Pineau (2018): regression with unknown noise.

Data flow: ``configuration -> problems -> {streams, play} -> (benchmarks.runner) ->
{tables, figures}``. ``streams`` watches noise intervals and bands while uniform inputs come
in; ``play`` lets a bandit choose them, with ``pooled`` and ``learners``. Run one experiment
with ``python -m benchmarks.papers.durand_2018 noise``.
"""
