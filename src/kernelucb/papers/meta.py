r"""Meta BO: Wang, Kim & Kaelbling (2018), Regret bounds for meta Bayesian optimization with
an unknown Gaussian process prior.

The multiplier of Eq. 12 (``exploration_factor``), the band of Lemma 11 and Corollary 6, and
the two acquisition functions: ``MetaUCB`` (Eq. 11) and ``MetaPI`` (Section 4.1). The
estimated prior is in ``meta_model.py`` with ``meta_candidates.py`` and
``meta_features.py``.

What differs from the paper: ``assumptions`` says where a search goes beyond the proof,
which takes the inputs evaluated so far as independent of the training functions.
"""

import math
from typing import NamedTuple

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb._numerics.arrays import safe_sqrt
from kernelucb._numerics.checks import finite_scalar, probability
from kernelucb._numerics.digits import one_minus
from kernelucb.acquisition.ucb import BandUCB
from kernelucb.confidence.assumptions import REPORTED, Assumption, Assumptions, Status
from kernelucb.confidence.band import Band, inputs_of, rebuildable
from kernelucb.confidence.sets import QueryPoints, StateSet
from kernelucb.data.outcome_map import IDENTITY
from kernelucb.papers.meta_model import MetaModel

_ESTIMATES = {
    "values": "missing training values were completed exactly",
    "features": "f lies in the span of the basis functions, which were trained on the same "
    "tasks (the theorem takes them as given)",
    "inputs": "the inputs evaluated so far do not depend on the training functions (the "
    "proof conditions on them, but a search that uses the prior chooses them)",
}


class PosteriorPoints(NamedTuple):
    r"""``b`` posterior means and variances of query points, outcome units."""

    baseline: Tensor  # the posterior mean
    variance: Tensor

    def rows(self, mask: Tensor) -> "PosteriorPoints":
        r"""The points where ``mask`` is true."""
        return PosteriorPoints(self.baseline[mask], self.variance[mask])


class PosteriorState:
    r"""The posterior of a ``kernelucb.papers.meta_model.MetaModel`` as a set reads it."""

    outcome_map = IDENTITY

    def __init__(self, model: MetaModel) -> None:
        self.model, self.dimension = model, model.dimension
        self.num_observations, self.prior_std = model.num_evaluations, model.prior_std

    def mean(self, X: Tensor) -> Tensor:
        r"""Posterior mean at ``b x d`` points, ``b`` values, outcome units."""
        return self.project(X).baseline

    def project(self, X: Tensor) -> PosteriorPoints:
        r"""Posterior mean and variance at ``b x d`` points; differentiable in ``X``."""
        posterior = self.model.joint(X.double().unsqueeze(-2))
        return PosteriorPoints(
            *(m.reshape(-1) for m in (posterior.mean, posterior.variance))
        )

    def with_pending(self, X_pending: Tensor) -> "PosteriorState":
        r"""The state with pending points evaluated at their posterior means."""
        pending = X_pending.detach().double()
        means = self.mean(pending).detach().unsqueeze(-1)
        return PosteriorState(self.model.condition_on_observations(pending, means))


class PosteriorBand(StateSet[PosteriorState, PosteriorPoints]):
    r"""Posterior mean plus or minus ``width`` posterior standard deviations.

    Variances come from ``design``: the same posterior, or that with pending points.
    """

    has_hessian = True

    def __init__(
        self, regression: PosteriorState, width: float, assumptions: Assumptions
    ) -> None:
        super().__init__(regression, assumptions)
        self.width = width

    def support(self, points: QueryPoints[PosteriorPoints], sign: int) -> Tensor:
        return self.width * safe_sqrt(points.design.variance)


def exploration_factor(num_tasks: int, round_number: int, delta: float) -> float:
    r"""``zeta_t``, the multiplier of the estimated standard deviation.

    ``(sqrt(6 (N - 3 + t + 2 sqrt(t L) + 2 L) / (delta N (N - t - 1))) +
    sqrt(2 ln(3 / delta))) / sqrt(1 - 2 sqrt(L / (N - t)))`` with ``L = ln(6 / delta)``.

    Source: Wang, Kim & Kaelbling (2018), Eq. 12, for ``N`` training functions and the
    evaluation ``t`` about to be made.

    Raises:
        ValueError: If ``N`` is not above ``t + 4 L``.
    """
    n, t, log = num_tasks, round_number, math.log(6.0 / delta)
    if n <= t + 4.0 * log:
        needed = math.floor(t + 4.0 * log) + 1
        raise ValueError(
            f"Evaluation {t} with delta = {delta:g} needs at least {needed} training "
            f"functions (more than t + 4 ln(6/delta)), and there are {n}. Use more, a "
            "larger delta, or MetaPI."
        )
    mean_error = 6.0 * (n - 3 + t + 2.0 * math.sqrt(t * log) + 2.0 * log)
    mean_error = math.sqrt(mean_error / (delta * n * (n - t - 1)))
    sample = math.sqrt(2.0 * math.log(3.0 / delta))
    return (mean_error + sample) / math.sqrt(1.0 - 2.0 * math.sqrt(log / (n - t)))


def meta_assumptions(model: MetaModel, claim: str, band: bool = True) -> Assumptions:
    r"""Assumptions of the regret bounds, and of the band where the paper covers it.

    Source: Wang, Kim & Kaelbling (2018), Theorem 2 (a finite domain) or Theorem 4 (given
    basis functions).
    """
    prior = Assumption(
        "prior",
        f"f and the {model.num_tasks} training functions are independent samples of one "
        "Gaussian process, with independent Gaussian noise of one scale",
        Status.GIVEN,
    )
    names = [*model.estimated, *["inputs"] * bool(model.num_evaluations)]
    estimates = [Assumption(each, _ESTIMATES[each], Status.ESTIMATED) for each in names]
    source = f"Wang, Kim & Kaelbling (2018), Theorem {2 if model.finite_domain else 4}"
    source += "; band: Lemma 11 and Corollary 6" if band else ""
    items = (prior, *estimates, REPORTED)
    return Assumptions(source, claim, anytime=False, items=items, all_points=False)


# Standard deviations count as at least this share of the distance to the target: the
# improvement is then finite where nothing is left to learn, and ordered by the mean.
_SMALLEST_RATIO = 1e-8


@rebuildable(lambda model: model)
def meta_band(model: MetaModel, delta: float) -> Band:
    r"""The band of ``MetaUCB``."""
    _check_model(model)
    probability("delta", delta)
    zeta = exploration_factor(model.num_tasks, model.num_evaluations + 1, delta)
    claim = (
        "the band holds at a point and a round fixed in advance, and the regret bound "
        f"for the whole search, each with probability {one_minus(delta)}"
    )
    assumptions = meta_assumptions(model, claim)
    whole = PosteriorBand(PosteriorState(model), zeta, assumptions)
    return _of_set(model, whole, {"zeta": zeta})


@rebuildable(lambda model: model)
def _one_deviation(model: MetaModel) -> Band:
    r"""The band of ``MetaPI``: the mean plus and minus one standard deviation."""
    _check_model(model)
    claim = "the regret bound for the whole search, for a target of at least max f"
    assumptions = meta_assumptions(model, claim, band=False).without_guarantee(
        "the band is one standard deviation; no theorem covers that"
    )
    return _of_set(model, PosteriorBand(PosteriorState(model), 1.0, assumptions), {})


def _of_set(model: MetaModel, whole: PosteriorBand, constants: dict[str, float]) -> Band:
    return Band(
        whole, data=whole.regression, observed=inputs_of(model), constants=constants
    )


class MetaUCB(BandUCB):
    r"""Upper confidence bound under a prior estimated from earlier tasks.

    ``mu_t + zeta_t sqrt(k_t)`` with the unbiased posterior estimates of the model.

    Source: Wang, Kim & Kaelbling (2018), Eq. 11 with Eq. 12; Theorem 2 (finite domain) and
    Theorem 4 (given basis functions) bound the best-sample simple regret of ``T`` rounds
    if there are at least ``4 ln(6 / delta) + T + 2`` training functions. Not anytime: by
    Lemma 11 and Corollary 6 each side of the band holds at a point and a round fixed in
    advance. The band assumes that ``f`` and the training functions are samples of one
    Gaussian process; for a band without this assumption give ``model.to_gp(...)`` and
    ``model.norm_bound(...)`` to ``MartingaleMixtureUCB``, which also explains the other
    arguments.

    Args:
        model: A ``DiscreteMetaModel`` or ``FeatureMetaModel``, conditioned on the
            evaluations so far, if any.
        delta: Failure probability.

    Raises:
        ValueError: If ``delta`` is not between 0 and 1, or the training functions are too
            few for it at this round; the message says how many are needed.
        UnsupportedError: If the model or the transform cannot be represented.
    """

    def __init__(
        self,
        model: MetaModel,
        *,
        delta: float = 0.05,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        band = meta_band(model, delta)
        super().__init__(band, maximize, posterior_transform, X_pending, model)


class MetaPI(BandUCB):
    r"""Probability of improvement under a prior estimated from earlier tasks.

    ``(mu_t - target) / sqrt(k_t)``, which orders points as the probability of improvement
    does.
    ``bounds`` is the mean plus and minus one standard deviation, without a guarantee.

    Source: Wang, Kim & Kaelbling (2018), Section 4.1; the regret bounds of Theorems 2 and 4
    need a target of at least ``max f``. Unlike ``MetaUCB``, ``MetaPI`` needs only two more
    training functions than evaluations. Other arguments and errors: see ``MetaUCB``.

    Args:
        target: Value to exceed (to fall below, where the outcome is minimised); by default
            the largest (smallest) value of the training functions and of the evaluations
            so far.

    Attributes:
        target: The value to exceed, outcome units.
    """

    def __init__(
        self,
        model: MetaModel,
        *,
        target: float | None = None,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        given = None if target is None else finite_scalar("target", target)
        band = _one_deviation(model)
        super().__init__(band, maximize, posterior_transform, X_pending, model)
        smallest, largest = model.value_range
        best = largest if self.band.direction > 0 else smallest
        self.target = best if given is None else given

    def _value(self, X: Tensor, cheap: bool = False) -> Tensor:
        points = self._scoring.project(X)
        lead = self.band.direction * (points.baseline - self.target)
        deviation = safe_sqrt(points.design.variance)
        open_ = deviation > _SMALLEST_RATIO * lead.detach().abs()
        # Not 0 / 0: its NaN would reach the gradient, although ``where`` leaves it out.
        ratio = lead / deviation.where(open_, 1.0)
        # A point that is decided exceeds the target surely or never; leads order the rest.
        decided = torch.where(lead > 0, 1.0, -1.0) / _SMALLEST_RATIO + lead
        return ratio.where(open_, decided)


def _check_model(model: object) -> None:
    if not isinstance(model, MetaModel):
        raise UnsupportedError(
            f"{type(model).__name__} has no estimated prior; use DiscreteMetaModel or "
            "FeatureMetaModel of kernelucb.models."
        )
