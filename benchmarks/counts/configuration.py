r"""What ``config.toml`` says."""

import math
from dataclasses import dataclass, replace
from itertools import product
from pathlib import PurePath

from benchmarks import runner
from benchmarks.counts.settings import Coverage, Protocol, Setting


@dataclass(frozen=True)
class WidthTask(runner.Task):
    r"""One function and its data, on which all bands are computed.

    Attributes:
        exact_queries: Of the ``queries``, how many the whole set is computed at.
    """

    protocol: Protocol
    setting: Setting
    observations: int
    queries: int
    exact_queries: int
    penalty: float
    misfit: float
    variational_iterations: int
    function: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each setting."""
        folder = f"{self.setting.name}-n{self.observations}"
        return PurePath(folder, f"function-{self.function:02d}.json")


@dataclass(frozen=True)
class Width:
    r"""Every setting of a grid; attributes as in ``config.toml``."""

    protocol: Protocol
    likelihoods: tuple[str, ...]
    kernels: tuple[str, ...]
    dimensions: tuple[int, ...]
    observations: tuple[int, ...]
    lengthscale: float
    norm: float
    norm_bound: float
    loose_norm_bound: float
    loose_observations: int
    many_dimensions: int
    many_observations: int
    functions: int
    large: int
    large_functions: int
    queries: int
    exact_queries: int
    large_queries: int
    penalty: float
    misfit: float
    variational_iterations: int

    def tasks(
        self, functions: int | None = None, observations: int | None = None
    ) -> list[WidthTask]:
        r"""All functions, or the first of each setting with at most so many data."""
        found = []
        for n, setting in self._cases():
            if observations is None or n <= observations:
                is_large = n >= self.large
                count = self.large_functions if is_large else self.functions
                exact = self.large_queries if is_large else self.exact_queries
                found += [
                    WidthTask(
                        self.protocol,
                        setting,
                        n,
                        self.queries,
                        exact,
                        self.penalty,
                        self.misfit,
                        self.variational_iterations,
                        function,
                    )
                    for function in range(min(functions or count, count))
                ]
        return found

    def _cases(self) -> list[tuple[int, Setting]]:
        r"""Numbers of observations and settings, with what is harder last."""
        few, many = self.dimensions, (self.many_dimensions,)
        sizes = [(n, self.norm_bound, few) for n in self.observations]
        sizes.append((self.loose_observations, self.loose_norm_bound, few))
        bounds = self.norm_bound, self.loose_norm_bound
        sizes += [(self.many_observations, bound, many) for bound in bounds]
        found = []
        for n, bound, dimensions in sizes:
            for kind in product(self.likelihoods, self.kernels, dimensions):
                length = self.lengthscale * math.sqrt(kind[-1])
                setting = Setting(*kind, length, self.norm, bound)
                loose = bound != self.norm_bound
                label = f"{setting.name}_bound_{bound:g}" if loose else ""
                found.append((n, replace(setting, label=label)))
        return found


@dataclass(frozen=True)
class RegretTask(runner.Task):
    r"""One run of one method on one function."""

    protocol: Protocol
    setting: Setting
    method: str
    rounds: int
    candidates: int
    penalty: float
    misfit: float
    variational_iterations: int
    run: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each setting and method."""
        method = self.method.replace(" ", "-")
        return PurePath(self.setting.name, method, f"run-{self.run:03d}.json")


@dataclass(frozen=True)
class Regret:
    r"""Every method on the same functions; attributes as in ``config.toml``."""

    protocol: Protocol
    kernels: tuple[str, ...]
    dimensions: tuple[int, ...]
    methods: tuple[str, ...]
    lengthscale: float
    norm: float
    norm_bound: float
    rounds: int
    runs: int
    candidates: int
    penalty: float
    misfit: float
    variational_iterations: int

    def tasks(self, runs: int | None = None) -> list[RegretTask]:
        r"""All runs; one is finished by every method before the next begins."""
        return [
            RegretTask(
                self.protocol,
                Setting(
                    "bernoulli",
                    kernel,
                    d,
                    self.lengthscale * math.sqrt(d),
                    self.norm,
                    self.norm_bound,
                ),
                method,
                self.rounds,
                self.candidates,
                self.penalty,
                self.misfit,
                self.variational_iterations,
                run,
            )
            for run in range(min(runs or self.runs, self.runs))
            for kernel in self.kernels
            for d in self.dimensions
            for method in self.methods
        ]


@dataclass(frozen=True)
class SafeTask(runner.Task):
    r"""One run of one method with a constraint on a probability."""

    protocol: Protocol
    setting: Setting
    method: str
    threshold: float
    start: float
    rounds: int
    candidates: int
    variational_iterations: int
    run: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each setting and method."""
        method = self.method.replace(" ", "-")
        return PurePath(self.setting.name, method, f"run-{self.run:03d}.json")


@dataclass(frozen=True)
class Safe:
    r"""Runs that must stay where a failure probability is low.

    Attributes:
        runs: For each kernel, of the first method.
        variational_runs: Of the others.
    """

    protocol: Protocol
    kernels: tuple[str, ...]
    methods: tuple[str, ...]
    lengthscale: float
    norm: float
    norm_bound: float
    mean: float
    threshold: float
    start: float
    num_trials: int
    rounds: int
    candidates: int
    runs: int
    variational_runs: int
    variational_iterations: int
    false_alarm: float

    def tasks(self, runs: int | None = None) -> list[SafeTask]:
        r"""All runs of one method after the other."""
        counts = {each: self.variational_runs for each in self.methods}
        counts[self.methods[0]] = self.runs
        return [
            SafeTask(
                self.protocol,
                Setting(
                    "binomial",
                    kernel,
                    1,
                    self.lengthscale,
                    self.norm,
                    self.norm_bound,
                    self.mean,
                    self.num_trials,
                ),
                method,
                self.threshold,
                self.start,
                self.rounds,
                self.candidates,
                self.variational_iterations,
                run,
            )
            for method in self.methods
            for run in range(min(runs or self.runs, counts[method]))
            for kernel in self.kernels
        ]


@dataclass(frozen=True)
class Configuration:
    r"""The whole of ``config.toml``."""

    protocol: Protocol
    coverage: Coverage
    width: Width
    regret: Regret
    safe: Safe
