r"""An upper bound on how far a recommended point is from the optimum."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar, whole_number
from kernelucb._numerics.digits import at_most
from kernelucb._numerics.domains import FixedFeatures, points_or_box
from kernelucb.certificates.boxes import largest_in_region
from kernelucb.certificates.spaces import Domain, MixedSpace
from kernelucb.certificates.task import Task, climbed
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.band import Band
from kernelucb.confidence.outcome_constraints import OutcomeConstraints


@dataclass(frozen=True)
class RegretCertificate:
    r"""How much better than the recommended point any other point can be.

    If the certificate is ``certified`` and the given assumptions are true, the optimum over
    the domain exceeds the value at the recommended point by at most ``gap``, with the
    probability of the bound; in every round at once if the bound is anytime. Otherwise
    ``summary`` says what is missing.

    Attributes:
        gap: Upper bound on ``max f - f(recommended)`` (``f(recommended) - min f`` where
            small outcomes are sought) over the feasible points, at least 0; units of the
            outcomes given to the model, before any posterior transform. For a model of
            transformed outcomes, such as ``Log``, ``f`` is the median of the outcome.
        recommended: ``d`` coordinates of the recommended point.
        challenger: ``d`` coordinates of the point that may be better by ``gap``.
        rigorous: Whether ``gap`` is at least the maximum over the domain: point by point on
            finite sets, by branch and bound on boxes and mixed spaces. Otherwise ``gap``
            comes from a search and may be too small.
        resolution: How far ``gap`` may lie above the exact maximum over the domain,
            outcome units: ``gap - resolution`` was found at the challenger. 0 on finite
            sets, infinite where the maximum is not rigorous.
        assumptions: What the probability rests on.
        domain: Names of the points that count, for sentences.
    """

    gap: float
    recommended: Tensor
    challenger: Tensor
    rigorous: bool
    resolution: float
    assumptions: Assumptions
    domain: Domain = field(default_factory=Domain)

    @property
    def certified(self) -> bool:
        r"""Whether the gap is rigorous, the band holds at all points, and all was given."""
        return self.rigorous and self.assumptions.all_points and self.assumptions.certified

    @property
    def summary(self) -> str:
        r"""``"certified"``, or the reasons why the certificate is not certified."""
        if self.certified:
            return "certified" + ("" if self.assumptions.anytime else " in one round only")
        lacking = [] if self.assumptions.certified else [self.assumptions.summary]
        if not self.assumptions.all_points:
            lacking.append("heuristic: the band does not hold at all points at once")
        if not self.rigorous:
            lacking.append("heuristic: the maximum over the domain comes from a search")
        return "; ".join(lacking)

    @property
    def sentence(self) -> str:
        r"""``"at most 0.12 from the optimum of the feasible points"``."""
        return f"at most {at_most(self.gap)} from the optimum{self.domain.of}"

    def __str__(self) -> str:
        return f"{self.summary}: {self.sentence}\n{self.assumptions}"


def gaps_in_words(run: Sequence[RegretCertificate]) -> str:
    r"""What the gaps of several rounds are: certified, some of them, or why none is."""
    certified = sum(each.certified and each.assumptions.anytime for each in run)
    if run and certified == len(run):
        horizons = [x.assumptions.horizon for x in run if x.assumptions.horizon is not None]
        return "certified gap" + (f" up to round {min(horizons):g}" if horizons else "")
    if certified > 0:
        return f"gap, certified in {certified} of {len(run)} rounds"
    reasons = dict.fromkeys(each.summary for each in run)
    return f"gap, {'; '.join(reasons)}" if reasons else "gap, no certificate"


@points_or_box
@torch.no_grad()
def regret_certificate(
    acqf: Band,
    candidates: Tensor | None = None,
    *,
    bounds: Tensor | None = None,
    space: MixedSpace | None = None,
    fixed_features: FixedFeatures | None = None,
    constraints: OutcomeConstraints | None = None,
    recommended: Tensor | None = None,
    tolerance: float = 0.05,
    max_evaluations: int = 100_000,
) -> RegretCertificate:
    r"""Bound the regret of a recommended point, at any time if the bound is anytime.

    ``MartingaleMixtureUCB`` (all forms but the closed form), ``KernelFamilyUCB``,
    ``LikelihoodUCB`` and ``SketchedMartingaleMixtureUCB`` bound ``f(x) - f(recommended)``
    over their set of functions, which is tighter than an upper minus a lower bound. All
    other bounds give an upper minus a lower bound.

    **Contexts.** With ``fixed_features`` the optimum and the recommended point have these
    values: the best setting at today's temperature. Certificates of several contexts, each
    with a recommended point of its own, hold together without a correction if the band
    holds at all points at once. Without ``fixed_features`` the recommended point is
    compared with every setting in every context.

    **Outcome constraints.** With ``constraints`` the optimum is sought among the points
    that satisfy them, the recommended point is certainly feasible, and points that are
    surely infeasible do not count. The certificate's ``assumptions`` are those of all
    bands, whose failure probabilities add up.

    **Many continuous inputs.** Branch and bound is rigorous with any number of inputs, but
    beyond three continuous ones ``max_evaluations`` are mostly used up before it is done.
    The exact maximum then lies between ``gap - resolution``, which was found, and ``gap``.

    Source: the confidence set's own theorem; on boxes
    ``|f(x) - f(x')| <= B d_k(x, x') + |m(x) - m(x')|`` where ``||f - m|| <= B``, with
    ``d_k`` the kernel metric. That needs an RBF, Matern, rational quadratic or categorical
    kernel (or sums and products of them), an input transform column by column and a
    constant or linear prior mean; elsewhere the maximum is not ``rigorous``.

    Args:
        acqf: A bound of this package, or another ``Band`` with a ``confidence_set``.
        candidates: ``n x d`` points, the whole domain; give two points by name, since two
            rows could be a box. Exactly one of ``candidates``, ``bounds`` and ``space``.
        bounds: ``2 x d`` lower and upper limits of a box.
        space: A box in which some inputs take listed values only.
        fixed_features: Columns that are given, and their values.
        constraints: Outcomes that must stay on their side of a threshold; by default the
            constraints of ``acqf``, if any.
        recommended: ``d`` or ``1 x d`` point of the domain; its columns in
            ``fixed_features`` take the values given there. By default the point of the
            domain whose lower bound is largest (whose upper bound is smallest, if small
            outcomes are sought), on boxes as found by a search, so perhaps a point that was
            never observed.
        tolerance: On boxes, the share of the gap that branch and bound may leave open.
        max_evaluations: On boxes, the largest number of points looked at; when they are
            used up the certificate is valid but looser (see ``resolution``).

    Raises:
        ValueError: If not exactly one domain is given, a scalar is out of its range, a
            fixed value does not fit the domain, ``recommended`` lies outside it, or two
            rows are given by position, which may be two candidates or a box.
        BotorchTensorDimensionError: If a tensor has the wrong shape.
        InputDataError: If a value is not finite or the domain is empty.
        NoSafePointError: If no point is certainly feasible, or ``recommended`` is not.
        UnsupportedError: If ``acqf`` has no ``confidence_set``, or has constraints of its
            own and ``constraints`` are given as well.
    """
    domain = candidates, bounds, space
    task = Task.of(acqf, constraints, *domain, fixed_features, recommended)
    return certificate_of(task, tolerance, max_evaluations)


@torch.no_grad()
def certificate_of(
    task: Task, tolerance: float = 0.05, max_evaluations: int = 100_000
) -> RegretCertificate:
    r"""The certificate of a task; see ``regret_certificate``."""
    return in_outcome_units(latent_certificate(task, tolerance, max_evaluations), task)


def in_outcome_units(certificate: RegretCertificate, task: Task) -> RegretCertificate:
    r"""A certificate on the scale of the set, converted to outcome units."""
    lower, upper = task.confidence_set.bounds(certificate.recommended.unsqueeze(0))

    def gap_of(gain: float) -> float:
        largest = task.confidence_set.regression.outcome_map.largest_gain
        return float(largest(lower.new_tensor(gain), lower, upper, task.sign))

    gap, resolution = certificate.gap, certificate.resolution
    if math.isfinite(resolution):
        resolution = gap_of(gap) - gap_of(max(gap - resolution, 0.0))
    return replace(certificate, gap=gap_of(gap), resolution=resolution)


def latent_certificate(
    task: Task, tolerance: float, max_evaluations: int
) -> RegretCertificate:
    r"""The certificate on the scale of the objective's set."""
    positive_scalar("tolerance", tolerance)
    whole_number("max_evaluations", max_evaluations)
    recommended = task.recommended
    if recommended is None:
        recommended = task.best_point(task.points)
    scan = _on_points(task, recommended)
    if task.region.is_finite:
        return scan
    # The recommended point stays, so only f(x) changes within a cell.
    gain, points = task.gain(scan.recommended), task.points
    of_points = partial(gain, task.confidence_set)
    better = climbed(of_points, points, task.values(gain, points), task.region)
    if len(better) > 0:
        found, index = task.values(gain, better).max(0)
        if float(found) > scan.gap:
            scan = replace(scan, gap=float(found), challenger=better[index])
    search = task.search(gain)
    if search is None:
        return replace(scan, rigorous=False, resolution=math.inf)
    known = scan.gap, scan.challenger
    value, challenger, upper = largest_in_region(search, tolerance, max_evaluations, known)
    gap = max(upper, value)
    return replace(scan, gap=gap, challenger=challenger, resolution=gap - value)


def _on_points(task: Task, recommended: Tensor) -> RegretCertificate:
    r"""The certificate for ``d`` coordinates of a point over the points looked at."""
    points = task.points
    gains = task.values(task.gain(recommended), points)
    # A point gains nothing over itself, however wrong the model is there.
    itself = (points == recommended).all(-1).to(gains)
    gap, index = (gains - 2.0 * task.confidence_set.model_error * itself).max(0)
    return RegretCertificate(
        gap=max(float(gap), 0.0),
        recommended=recommended,
        challenger=points[index],
        rigorous=True,
        resolution=0.0,
        assumptions=task.assumptions,
        domain=task.domain,
    )
