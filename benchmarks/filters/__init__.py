r"""The mixture of filters against the exact set of the paper: width, price, weights.

Data flow: ``configuration -> problems -> {width, calibrated, weights} ->
(benchmarks.runner) -> tables``; ``sets`` builds the bands that are compared. Run one with
``python -m benchmarks.filters width``; times are in ``benchmarks.speed.filters``.
"""
