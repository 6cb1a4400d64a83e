r"""Mean widths of every band on the same data, and whether the function is outside."""

import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.counts.exact_set import Basis, ExactSet
from benchmarks.counts.problems import Interval, Problem
from benchmarks.counts.rivals import GaussianBand, VariationalBand, losses_of, running_limit
from benchmarks.runner import outside, quiet
from kernelucb.confidence.likelihood.evidence import Ratio
from kernelucb.confidence.likelihood.tangents import LikelihoodForm
from kernelucb.exceptions import InconsistentConfidenceSetWarning

_INDUCING = 36  # points of a grid
_GRIDS = 2  # dimensions up to which a grid is fine
ELLIPSOID, UNCUT, EXACT = "ellipsoid", "uncut ellipsoid", "whole set"
FORMS: dict[str, LikelihoodForm] = {
    ELLIPSOID: "ellipsoid",
    "tangents": "tangent",
    UNCUT: "ellipsoid",
}
RUNNING, GAUSSIAN, VARIATIONAL = "running estimators", "Gaussian band", "variational GP"
BANDS = (*FORMS, EXACT, RUNNING, GAUSSIAN, VARIATIONAL)


@quiet(InconsistentConfidenceSetWarning)  # a set may be empty; it is widened
def play_width(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Measures of each band that there is for the kind of outcome.

    Returns:
        ``bands``: by name, ``width`` (mean, of probability or rate) and ``latent_width``
        (of log odds or log rate) at the points of the whole set; ``width_all`` at all
        query points; ``room``, how far the limit on the loss is above the loss of the
        function, in nats; ``missed``, whether the function is outside at any of these
        points; ``seconds`` of processor time; ``containment``, how far the whole set
        stays inside at the worst point. ``probability_norm``: that of the Gaussian band,
        with its margin; 0 for counts.
    """
    task = SimpleNamespace(**settings)
    case, norm = _Case(task), 0.0
    case.ours_and_exact()
    case.measure(RUNNING, case.running, True)
    if task.likelihood == "bernoulli" and task.dimension <= _GRIDS:
        band = GaussianBand(case.problem)
        norm = band.norm_bound
        case.measure(GAUSSIAN, partial(band.bounds, case.X, case.Y, case.queries))
        case.measure(VARIATIONAL, case.variational)
    return {"bands": case.bands, "probability_norm": norm}


class _Case:
    r"""One function, its data, and the bands on them."""

    def __init__(self, task: SimpleNamespace) -> None:
        self.task = task
        self.problem = Problem(task, task.function, f"n{task.observations}")
        self.X = self.problem.points(task.observations)
        self.Y = self.problem.outcomes(self.X)
        self.queries = self.problem.points(task.queries)
        self.few = self.queries[: task.exact_queries]
        self.basis = Basis(self.problem.kernel, self.X, self.few)
        self.losses = losses_of(self.problem, self.Y)
        self.loss = float(self.losses(self.problem.latent(self.X).numpy())[0].sum())
        self.bands: dict[str, dict[str, float]] = {}

    def measure(self, name: str, compute: Callable[[], Any], latent: bool = False) -> Any:
        r"""Width and misses of a band at the first queries; its sides."""
        start, row = time.process_time(), self.bands.setdefault(name, {})
        sides = compute()
        row["seconds"] = time.process_time() - start
        lower, upper = map(self.problem.link, sides) if latent else sides
        truth = self.problem.link(self.problem.latent(self.queries[: len(lower)]))
        widths = upper - lower
        row["width"] = float(widths[: len(self.few)].mean())
        row["missed"] = bool(outside(truth, lower, upper, 1e-9 * truth).any())
        if len(lower) == len(self.queries):
            row["width_all"] = float(widths.mean())
        return sides

    def ours_and_exact(self) -> None:
        r"""The forms of our set, and how far the whole one stays inside them."""
        found: dict[str, Interval] = {}
        for name in FORMS:
            found[name] = self.measure(name, partial(self.form, name), True)
        limit = self.loss + self.bands[ELLIPSOID]["room"]
        found[EXACT] = self.measure(EXACT, partial(self.convex, limit), True)
        for name, sides in found.items():
            lower, upper = (side[: len(self.few)] for side in sides)
            self.bands[name]["latent_width"] = float((upper - lower).mean())
            inside = torch.minimum(found[EXACT][0] - lower, upper - found[EXACT][1])
            if name != EXACT:
                self.bands[name]["containment"] = float(inside.min())

    def form(self, name: str) -> Interval:
        r"""Log odds or log rates of a form of our set."""
        band = self.problem.band(self.X, self.Y, form=FORMS[name])
        self.bands[name]["room"] = Ratio(band.delta).level(band.data) - self.loss
        if name == UNCUT:
            return band.confidence_set.ellipsoid.bounds(self.queries)
        return band.latent_bounds(self.queries)

    def convex(self, limit: float) -> Interval:
        r"""Log odds or log rates of the convex set at the first query points."""
        ball = self.task.mean, self.task.norm_bound
        lower, upper = ExactSet(self.basis, self.losses, *ball, limit).bounds()
        return torch.from_numpy(lower), torch.from_numpy(upper)

    def running(self) -> Interval:
        task, stride = self.task, max(1, len(self.Y) // 100)
        options = task.mean, task.penalty, task.delta, stride
        limit = running_limit(self.basis.rows, self.losses, *options)
        self.bands[RUNNING]["room"] = limit - self.loss
        return self.convex(limit)

    def variational(self) -> Interval:
        iterations = self.task.variational_iterations
        band = VariationalBand(self.problem.grid(_INDUCING), iterations)
        return band.fitted(self.X, self.Y).bounds(self.queries)
