r"""Mean widths of every band on the same data, and whether the function is outside."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from benchmarks.counts.configuration import WidthTask
from benchmarks.counts.exact_set import Basis, ExactSet
from benchmarks.counts.problems import Problem, grid, link, loss_limit
from benchmarks.counts.rivals import GaussianBand, losses_of, running_limit
from benchmarks.counts.variational import VariationalBand
from benchmarks.runner import RunStore
from kernelucb.confidence.likelihood.tangents import LikelihoodForm
from kernelucb.exceptions import InconsistentConfidenceSetWarning

_INDUCING = 36  # points of a grid
_GRIDS = 2  # dimensions up to which a grid is fine
ELLIPSOID, TANGENTS, EXACT = "ellipsoid", "tangents", "whole set"
UNCUT = "uncut ellipsoid"
FORMS: dict[str, LikelihoodForm] = {
    ELLIPSOID: "ellipsoid",
    TANGENTS: "tangent",
    UNCUT: "ellipsoid",
}
RUNNING, GAUSSIAN, VARIATIONAL = "running estimators", "Gaussian band", "variational GP"
BANDS = (*FORMS, EXACT, RUNNING, GAUSSIAN, VARIATIONAL)
Interval = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Run:
    r"""What is measured for each band that there is for the kind of outcome.

    Attributes:
        widths: Mean widths of probability or rate, at the points of the whole set.
        all_widths: At all query points, where a band is computed there.
        latent_widths: Of log odds or log rate, at the points of the whole set, for the
            forms of ``LikelihoodUCB`` and ``EXACT``.
        room: How far the limit on the loss is above the loss of the function, in nats,
            with the evidence of these and of ``RUNNING``.
        missed: Whether the function is outside at any of these points.
        seconds: Of processor time.
        containment: How far the whole set stays inside the forms, at the worst point.
        norm: Of the probability function, as the Gaussian band has it; 0 for counts.
    """

    widths: dict[str, float]
    all_widths: dict[str, float]
    latent_widths: dict[str, float]
    room: dict[str, float]
    missed: dict[str, bool]
    seconds: dict[str, float]
    containment: dict[str, float]
    norm: float


class _Case:
    r"""One function, its data, and the bands on them."""

    def __init__(self, task: WidthTask) -> None:
        self.task, self.setting = task, task.setting
        name = f"n{task.observations}"
        self.problem = Problem.draw(task.protocol, task.setting, task.function, name)
        self.X = self.problem.points(task.observations)
        self.Y = self.problem.outcomes(self.X)
        self.queries = self.problem.points(task.queries)
        self.few = self.queries[: task.exact_queries]
        latent = self.problem.latent(self.X).numpy()
        self.loss = float(losses_of(self.problem, self.Y)(latent)[0].sum())
        self.run = Run({}, {}, {}, {}, {}, {}, {}, 0.0)

    def measure(self, name: str, compute: Callable[[], Interval], points: Tensor) -> None:
        r"""Width and misses of a band of probabilities or rates."""
        start = time.process_time()
        lower, upper = compute()
        self.run.seconds[name] = time.process_time() - start
        truth = link(self.problem.latent(points), self.setting)
        slack = 1e-9 * truth
        outside = (truth < lower - slack) | (truth > upper + slack)
        widths = upper - lower
        self.run.widths[name] = float(widths[: len(self.few)].mean())
        self.run.missed[name] = bool(outside.any())
        if len(points) == len(self.queries):
            self.run.all_widths[name] = float(widths.mean())

    def ours_and_exact(self) -> Basis:
        r"""The forms of our set, and how far the exact one stays inside them."""
        found: dict[str, Interval] = {}
        basis = Basis(self.problem.kernel, self.X, self.few)

        def form(name: str) -> Interval:
            band = self.problem.band(self.X, self.Y, form=FORMS[name])
            self.run.room[name] = loss_limit(band) - self.loss
            if name == UNCUT:
                return band.confidence_set.ellipsoid.bounds(self.queries)
            return band.latent_bounds(self.queries)

        def linked(name: str, compute: Callable[[], Interval]) -> Interval:
            found[name] = compute()
            lower, upper = found[name]
            return link(lower, self.setting), link(upper, self.setting)

        for name in FORMS:
            self.measure(name, partial(linked, name, partial(form, name)), self.queries)
        limit = self.loss + self.run.room[ELLIPSOID]
        exact = partial(self.convex, basis, limit)
        self.measure(EXACT, partial(linked, EXACT, exact), self.few)
        for name, sides in found.items():
            lower, upper = (side[: len(self.few)] for side in sides)
            self.run.latent_widths[name] = float((upper - lower).mean())
            inside = torch.minimum(found[EXACT][0] - lower, upper - found[EXACT][1])
            if name != EXACT:
                self.run.containment[name] = float(inside.min())
        return basis

    def convex(self, basis: Basis, limit: float) -> Interval:
        r"""Log odds or log rates of the convex set at the first query points."""
        exact = ExactSet(
            basis,
            losses_of(self.problem, self.Y),
            self.setting.mean,
            self.setting.norm_bound,
            limit,
        )
        lower, upper = exact.bounds()
        return torch.from_numpy(lower), torch.from_numpy(upper)

    def running(self, basis: Basis) -> Interval:
        r"""The convex set of running estimators."""
        limit = running_limit(
            basis.rows,
            losses_of(self.problem, self.Y),
            self.setting.mean,
            self.task.penalty,
            self.problem.delta,
            stride=max(1, len(self.Y) // 100),
        )
        self.run.room[RUNNING] = limit - self.loss
        lower, upper = self.convex(basis, limit)
        return link(lower, self.setting), link(upper, self.setting)

    def variational(self) -> Interval:
        r"""Two standard deviations of the fitted model."""
        inducing = grid(_INDUCING, self.setting.dimension)
        band = VariationalBand(inducing, self.task.variational_iterations)
        band.fit(self.X, self.Y)
        return band.bounds(self.queries)


def play(task: WidthTask) -> Run:
    r"""All bands of one problem."""
    with warnings.catch_warnings():  # a set may be empty; it is widened
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        return _play(task)


def _play(task: WidthTask) -> Run:
    case = _Case(task)
    basis = case.ours_and_exact()
    case.measure(RUNNING, lambda: case.running(basis), case.few)
    norm = 0.0
    if task.setting.likelihood == "bernoulli" and task.setting.dimension <= _GRIDS:
        gaussian = GaussianBand(case.problem, task.misfit)
        norm = gaussian.norm_bound
        case.measure(
            GAUSSIAN, lambda: gaussian.bounds(case.X, case.Y, case.queries), case.queries
        )
        case.measure(VARIATIONAL, case.variational, case.queries)
    return replace(case.run, norm=norm)


def rows(store: RunStore[Run], tasks: Sequence[WidthTask]) -> list[dict]:
    r"""One row for each function and band."""
    found = []
    for task in tasks:
        run = store.load(task)
        for name in run.widths:
            latent = run.latent_widths.get(name, np.nan)
            found.append(
                {
                    "likelihood": task.setting.likelihood,
                    "kernel": task.setting.kernel,
                    "dimension": task.setting.dimension,
                    "observations": task.observations,
                    "given": f"{task.setting.norm_bound:g}",
                    "function": task.function,
                    "band": name,
                    "width": f"{run.widths[name]:.5g}",
                    "width_all": f"{run.all_widths.get(name, np.nan):.5g}",
                    "latent_width": f"{latent:.5g}",
                    "room": f"{run.room.get(name, np.nan):.4g}",
                    "missed": int(run.missed[name]),
                    "seconds": f"{run.seconds[name]:.3g}",
                    "containment": f"{run.containment.get(name, np.nan):.3g}",
                    "norm_bound": f"{run.norm:.4g}",
                }
            )
    return found
