r"""Bandits whose length scale is not known: a family of kernels against its rivals.

Data flow: ``settings -> configuration -> problems -> members -> {learners, balancing,
practice} -> {play, coverage, boxes, published} -> (benchmarks.runner) -> tables``. Run
``python -m benchmarks.unknown_kernel regret``.
"""
