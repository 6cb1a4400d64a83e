r"""How often claims like these were false, on problems that no kernel made.

``python -m benchmarks.reliability`` measures it, with the functions of this file, and makes
``reliability.csv``. Shares of the past are no theorem: nothing here is certified.
"""

import csv
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from importlib.resources import files
from typing import NamedTuple

import torch
from botorch.exceptions import ModelFittingError, UnsupportedError
from torch import Tensor

from kernelucb._numerics.arrays import in_parts, safe_sqrt
from kernelucb.certificates.task import Task, climbed
from kernelucb.regression import KernelRegression
from kernelucb.regression.from_model import fitted_default

METHODS = MARGIN, DEVIATIONS = "margin", "deviations"
KINDS = "value", "window", "window floor", "anywhere"
WINDOW = 0.05  # half sides of the window that was measured, over the domain's


class Record(NamedTuple):
    r"""What became of claims of one kind, after so many runs, at one level."""

    kind: str  # of `KINDS`
    runs: int  # the record is used from so many on
    method: str  # the norm bound over the least one, or deviations of BoTorch's model
    level: float  # that number
    claims: int
    problems: int
    share_false: float
    # Limit of the share, at 95 %, by a bootstrap over problems; at least 1 / (problems + 1)
    at_most: float
    width: float  # median over problems, as a share of the outcome's range

    def __str__(self) -> str:
        at = "at this margin" if self.method == MARGIN else "at so many deviations"
        return (
            f"of {self.claims:,} claims of this kind {at} on {self.problems} other "
            f"problems {100 * self.share_false:.2g} % were false"
        )

    @property
    def status(self) -> str:
        r"""``"measured: at margin 1.3; of 1,680 claims ..."``."""
        at = f"at margin {self.level:g}"
        if self.method == DEVIATIONS:
            at = f"at {self.level:g} posterior deviations of a fitted SingleTaskGP"
        return f"measured: {at}; {self}"


@cache
def records() -> tuple[Record, ...]:
    r"""The table of the package, the least levels first."""
    path = files("kernelucb.certificates").joinpath("reliability.csv")
    rows = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    kinds = Record.__annotations__.items()
    found = [Record(**{name: kind(row[name]) for name, kind in kinds}) for row in rows]
    return tuple(sorted(found, key=lambda each: each.level))


def _known(kind: str, method: str, runs: int) -> list[Record]:
    own = [each for each in records() if (each.kind, each.method) == (kind, method)]
    count = max((each.runs for each in own if each.runs <= runs), default=0)
    return [each for each in own if each.runs == count]


def at_margin(task: Task, kind: str, margin: float) -> Record | None:
    r"""The record of the largest margin that is not above this one."""
    known = [r for r in _known(kind, MARGIN, _runs(task)) if r.level <= margin]
    return known[-1] if known else None


def _runs(task: Task) -> int:
    r"""Number of runs; 0 where the task is unlike those that were measured."""
    own = task.bound
    unlike = task.constraints is not None or not own.outcome_map.is_identity
    if unlike or own.observed is None or own.noise_scale is None:
        return 0
    return len(own.observed) if isinstance(own.data, KernelRegression) else 0


class Sides(NamedTuple):
    r"""What a method says of the outcome, and of gains over a recommended point."""

    bounds: Callable[[Tensor], tuple[Tensor, Tensor]]  # at `n x d` points
    gain: Callable[[Tensor], Tensor]  # `n` values: how much better points are at most


def by_deviations(
    state: KernelRegression, recommended: Tensor, sign: int, multiple: float
) -> Sides:
    r"""A multiple of posterior standard deviations; ``recommended`` is ``1 x d``."""
    here, own = state.project(recommended), state.mean(recommended)

    def bounds(X: Tensor) -> tuple[Tensor, Tensor]:
        mean, half = state.mean(X), multiple * safe_sqrt(state.variance(X))
        return mean - half, mean + half

    def gain(X: Tensor) -> Tensor:
        change = state.difference(state.project(X), here)
        variance = state.variance_at(change, torch.ones_like(own))
        return sign * (state.mean(X) - own) + multiple * safe_sqrt(variance)

    return Sides(bounds, gain)


def _by_margin(task: Task, recommended: Tensor, margin: float) -> Sides:
    least = task.bound.least_norm_factor
    if not least > 0.0:
        raise UnsupportedError("The data force no norm, so there is no margin.")
    own = task.relaxed(margin * least).confidence_set
    return Sides(own.bounds, lambda X: own.max_gain_over(X, recommended, task.sign))


def measured(
    task: Task, recommended: Tensor, window: Task, reliability: float
) -> Iterator[tuple[Record, tuple[float, ...]]]:
    r"""Claims about a ``1 x d`` point at the least levels of such reliability.

    Of the methods, for each kind the one that was narrower on other problems; the numbers
    are outcome units. None with fewer than 15 runs, outcome constraints or transforms.
    """
    fitted = cache(partial(_fitted, task))
    for kind in KINDS:
        region, found = task if kind == "anywhere" else window, list[Record]()
        for method in METHODS:
            known = _known(kind, method, _runs(task))
            found += [each for each in known if 1.0 - each.at_most >= reliability][:1]
        for record in sorted(found, key=lambda each: each.width):
            with suppress(ModelFittingError, UnsupportedError):  # else the other method
                if record.method == MARGIN:
                    sides = _by_margin(task, recommended, record.level)
                else:
                    sides = by_deviations(fitted(), recommended, task.sign, record.level)
                sides = _in_range(sides, task, recommended)
                yield record, _numbers(kind, sides, region, recommended)
                break


def _in_range(sides: Sides, task: Task, recommended: Tensor) -> Sides:
    r"""The same of a function that stays in a known range: true claims stay true."""
    own, sign = task.confidence_set, task.sign
    ends = -own.limit(-1), own.limit(1)

    def bounds(X: Tensor) -> tuple[Tensor, Tensor]:
        lower, upper = sides.bounds(X)
        return lower.clamp(*ends), upper.clamp(*ends)

    lower, upper = bounds(recommended)
    room = ends[1] - lower if sign > 0 else upper - ends[0]
    return Sides(bounds, lambda X: torch.minimum(sides.gain(X), room))


def _fitted(task: Task) -> KernelRegression:
    state, inputs = task.bound.data, task.bound.observed
    assert inputs is not None
    lower, upper = task.region.lower.amin(0), task.region.upper.amax(0)
    box = torch.stack([lower, torch.where(upper > lower, upper, lower + 1.0)])
    with torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on scales and steps of the fit
        model = fitted_default(inputs.to(box), state.train_targets, box)
    return KernelRegression.of(model, state.noise_scales)


def _numbers(kind: str, sides: Sides, task: Task, recommended: Tensor) -> tuple[float, ...]:
    r"""The numbers of a claim over the points that are looked at, and local searches."""
    if kind == "value":
        lower, upper = sides.bounds(recommended)
        return float(lower), float(upper)
    if kind != "window floor":
        return (max(_largest(sides.gain, task, recommended), 0.0),)

    def shortfall(X: Tensor) -> Tensor:
        lower, upper = sides.bounds(X)
        return -lower if task.sign > 0 else upper

    return (-task.sign * _largest(shortfall, task, recommended),)


def _largest(function: Callable[[Tensor], Tensor], task: Task, own: Tensor) -> float:
    points = torch.cat([task.points, own])
    values = in_parts(points, function)
    if not task.region.is_finite:
        found = climbed(function, points, values, task.region)
        values = torch.cat([values, function(found)])
    return float(values.max())
