r"""An upper bound on how far a recommended point is from the optimum, and when to stop."""

import logging
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from operator import itemgetter

import torch
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar, whole_number
from kernelucb._numerics.domains import FixedFeatures, points_or_box
from kernelucb.certificates.spaces import MixedSpace, as_domain
from kernelucb.certificates.task import Task, climbed
from kernelucb.certificates.wording import Wording
from kernelucb.certificates.words import RegretCertificate, StoppingDecision
from kernelucb.confidence.band import BandLike
from kernelucb.confidence.outcome_constraints import OutcomeConstraints

_SAME = 1e-6  # relative difference of a gap and what a range leaves


@points_or_box
@torch.no_grad()
def regret_certificate(
    acqf: BandLike,
    candidates: Tensor | None = None,
    *,
    bounds: Tensor | None = None,
    space: MixedSpace | None = None,
    fixed_features: FixedFeatures | None = None,
    constraints: OutcomeConstraints | None = None,
    recommended: Tensor | None = None,
    tolerance: float = 0.05,
    max_evaluations: int = 100_000,
    outcome: str = "the outcome",
    units: Mapping[str, str] | None = None,
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
        outcome: Name of the outcome.
        units: Its unit by that name, ``{"yield": "%"}``, for print.

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
    domain = as_domain(
        candidates=candidates, bounds=bounds, space=space, fixed_features=fixed_features
    )
    task = Task.of(acqf, constraints, domain, recommended)
    certificate, _ = certify(task, tolerance, max_evaluations)
    return replace(certificate, wording=Wording((), outcome, units or {}))


@torch.no_grad()
def certify(
    task: Task, tolerance: float = 0.05, max_evaluations: int = 100_000
) -> tuple[RegretCertificate, float]:
    r"""The certificate of a task, and its gap on the scale of the objective's set."""
    positive_scalar("tolerance", tolerance)
    whole_number("max_evaluations", max_evaluations)
    functions, points = task.bound.required_set, task.points
    best = task.best_point(points) if task.recommended is None else task.recommended
    gain = task.gain(best)
    gains = task.values(gain, points)
    # A point gains nothing over itself, however wrong the model is there.
    itself = (points == best).all(-1).to(gains)
    found, index = (gains - 2.0 * functions.model_error * itself).max(0)
    best_found = max(float(found), 0.0), points[index]
    if not task.region.is_finite:
        better = climbed(partial(gain, functions), points, gains, task.region)
        if len(better) > 0:
            found, index = task.values(gain, better).max(0)
            best_found = max(best_found, (float(found), better[index]), key=itemgetter(0))
    # The recommended point stays, so only f(x) changes within a cell.
    most = task.largest(gain, tolerance, max_evaluations, best_found)
    value, challenger, upper = most or (*best_found, best_found[0])
    latent, rigorous = max(upper, value), most is not None
    # Behind a transform a gain in outcome units depends on where the value itself may lie.
    ends = functions.bounds(best.unsqueeze(0))
    gain_in_units = functions.regression.outcome_map.largest_gain
    gap, found = gain_in_units(best.new_tensor([latent, value]), *ends, task.sign).tolist()
    resolution = gap - found if rigorous else math.inf
    points, rest = (best, challenger), (task.assumptions, task.region.words)
    room = functions.gain_limit(best.unsqueeze(0), task.sign)
    of_range = rigorous and latent >= (1.0 - _SAME) * room
    return RegretCertificate(gap, *points, rigorous, resolution, *rest, of_range), latent


_LOG = logging.getLogger(__name__)


class CertifiedGapStopping:
    r"""Stop when no point can be better than the recommended point by more than ``gap``.

    The rule may be asked after every round, since it stops on anytime bounds only. With
    certified bounds, and if the given assumptions are true, the probability of ever
    stopping at a recommended point more than ``gap`` below the optimum is at most
    ``delta``. A bound with an estimated assumption is refused unless
    ``allow_estimated=True``; the probability of an error is then unknown, and the reason
    says so. The rule never stops if the maximum over the domain is not rigorous, or if the
    bound is not anytime, does not hold at all points at once, or has a violated assumption.

    Source: see ``regret_certificate``, which explains the other arguments and errors.

    Args:
        gap: Largest regret to accept, outcome units.
        allow_estimated: Whether to stop on a bound whose kernel, mean, noise or norm was
            estimated.
        outcome: Name of the outcome, for the reason.
        units: Units by name, likewise.

    Example:
        >>> stopping = CertifiedGapStopping(0.1, bounds=bounds)
        >>> while not stopping(acqf).stop:
        ...     ...
    """

    @points_or_box
    def __init__(
        self,
        gap: float,
        candidates: Tensor | None = None,
        *,
        bounds: Tensor | None = None,
        space: MixedSpace | None = None,
        max_evaluations: int = 100_000,
        allow_estimated: bool = False,
        outcome: str = "the outcome",
        units: Mapping[str, str] | None = None,
    ) -> None:
        self.gap = positive_scalar("gap", gap)
        self.domain = as_domain(candidates=candidates, bounds=bounds, space=space)
        self.max_evaluations = max_evaluations
        self.allow_estimated = allow_estimated
        self.wording = Wording((), outcome, units or {})

    def __call__(
        self,
        acqf: BandLike,
        recommended: Tensor | None = None,
        *,
        fixed_features: FixedFeatures | None = None,
        constraints: OutcomeConstraints | None = None,
    ) -> StoppingDecision:
        r"""Decide from the bound of the data so far; see ``regret_certificate``.

        Raises:
            UncertifiedError: If the bound has an estimated assumption and
                ``allow_estimated`` is not set.
        """
        domain = self.domain.in_context(fixed_features)
        task = Task.of(acqf, constraints, domain, recommended)
        task.assumptions.check_certified(type(self).__name__, self.allow_estimated)
        found, _ = certify(task, max_evaluations=self.max_evaluations)
        certificate = replace(found, wording=self.wording)
        stop = not certificate.obstacle and certificate.gap <= self.gap
        reason = certificate.reason(self.gap)
        _LOG.info("%s: %s.", "Stop" if stop else "Go on", reason)
        return StoppingDecision(stop, reason, certificate)
