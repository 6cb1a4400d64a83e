r"""What a fit leaves: its constraint on functions, and the least norm under it."""

import math
from functools import partial
from typing import Generic, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

from kernelucb._numerics.arrays import increasing_root
from kernelucb.confidence.radius import Radius
from kernelucb.data import KernelRegression, RidgeState
from kernelucb.data.exact import FilteredRegression

_ROOT = 1e-13  # tolerance of the least norm, in ln(tau)
_NEGLIGIBLE = 1e-5  # squared noise units that round-off may hide without a correction
_RESOLVED = 1e-3  # relative tolerance of the least norm where round-off hides more
_START = 1e-6  # a small norm, prior units, from which a search goes up
_FACTOR = 4.0  # by which it goes up
_LITTLE = 0.01  # share of a radius that round-off may hide of a least norm with a meaning
Array = NDArray[np.float64]


class Ridge(NamedTuple):
    r"""Ridge estimates in the eigenbasis, from eigenvalues and squared targets."""

    lam: Array
    squares: Array
    cutoff: float  # the smallest regulariser

    @classmethod
    def of(cls, regression: RidgeState) -> "Ridge":
        r"""The estimates of a state."""
        targets = regression.targets.cpu().numpy()
        lam = regression.eigenvalues.cpu().numpy()
        return cls(lam, targets**2, regression.eigenvalue_cutoff)

    def norm(self, tau: float) -> float:
        r"""``||f - m||``, prior units."""
        shares = 1.0 / (self.lam + tau)
        return math.sqrt(float((self.lam * self.squares) @ (shares * shares)))

    def misfit(self, log_tau: float, squared_radius: float = 0.0) -> float:
        r"""Squared distance from the data beyond a radius, noise units; it increases."""
        tau = math.exp(log_tau)
        left = 1.0 / (self.lam / tau + 1.0)  # no power: NumPy's is ten times as slow
        return float(self.squares @ (left * left)) - squared_radius

    def least_regularizer(
        self, squared_radius: float, start: float, tolerance: float = _ROOT
    ) -> float | None:
        r"""Regulariser ``tau`` of the function of least norm, by its squared radius.

        Infinite where the zero function fits, None where no function fits.
        """
        if float(self.squares.sum()) <= squared_radius:
            return math.inf
        misfit = partial(self.misfit, squared_radius=squared_radius)
        ends = math.log(start), math.log(self.cutoff)
        root = increasing_root(misfit, *ends, tolerance)
        return None if root is None else math.exp(root)


def least_norm(regression: RidgeState, radius: Radius) -> float:
    r"""``min ||f - m||`` subject to the fit, in prior units.

    Ours: the minimiser is a ridge estimate; its regulariser solves
    ``sum (tau z / (lam + tau))^2 = radius^2``, whose left side increases in ``tau``.
    """
    ridge, squared = Ridge.of(regression), radius.squared(regression)
    tau = ridge.least_regularizer(squared, max(radius.tau_ref, ridge.cutoff))
    return math.inf if tau is None else ridge.norm(tau)


def least_misfit(regression: RidgeState, norm: float) -> float:
    r"""``min ||f_w - y_w||^2`` over functions of at most the given norm (prior units)."""
    ridge, lowest = Ridge.of(regression), math.log(regression.eigenvalue_cutoff)
    root = increasing_root(
        lambda log_tau: norm - ridge.norm(math.exp(log_tau)), lowest, lowest, _ROOT
    )
    return ridge.misfit(lowest if root is None else root)


def is_resolved(regression: RidgeState, norm: float, squared_radius: float) -> bool:
    r"""Whether round-off hides little of functions of a given norm (prior units).

    A least norm that is not resolved says only that no function of the kernel explains the
    outcomes; its size has no meaning.
    """
    hidden = norm * math.sqrt(regression.eigenvalue_cutoff)
    return hidden <= _LITTLE * math.sqrt(squared_radius)


class NormedFit(NamedTuple):
    r"""A fit as it is taken for functions of at most a given norm."""

    constraint: "FitConstraint"
    least: float  # least consistent norm, prior units
    # True where no function of this norm satisfied the fit, and the constraint is larger
    relaxed: bool = False


class DataFit(Protocol):
    r"""The fit of given data: one constraint, or several that may be weighed."""

    def for_least_norm(self) -> "tuple[FitConstraint, float]":
        r"""The constraint whose least consistent norm is large, and this norm."""
        ...

    def for_norm(self, norm: float, sharpest: "FitConstraint", least: float) -> NormedFit:
        r"""The constraint for a norm bound, prior units.

        ``sharpest`` and ``least`` are what ``for_least_norm`` has found.
        """
        ...


# States that know what round-off hides of the outcomes
HidingT_co = TypeVar(
    "HidingT_co",
    bound=KernelRegression | FilteredRegression,
    default=KernelRegression | FilteredRegression,
    covariant=True,
)


class FitConstraint(NamedTuple, Generic[HidingT_co]):
    r"""The data as the fit weighs them, and the radius around them."""

    regression: HidingT_co
    radius: Radius

    def beside_hidden(self, norm: float) -> "FitConstraint[HidingT_co]":
        r"""The constraint, widened for round-off, for a norm bound in prior units."""
        tau_ref, slack = self.radius
        slack = slack + self.regression.hidden_part(norm)
        return FitConstraint(self.regression, Radius(tau_ref, slack))

    def for_least_norm(self) -> "tuple[FitConstraint, float]":
        r"""This constraint, which is the only one, and the least norm under it."""
        return self, least_norm(*self)

    def for_norm(self, norm: float, sharpest: "FitConstraint", least: float) -> NormedFit:
        r"""This constraint, widened where round-off hides more than a little."""
        radius = self.radius.beside_hidden(self.regression.hidden_part(norm))
        constraint = FitConstraint(self.regression, radius)
        return NormedFit(constraint, least_norm(*constraint))


def resolved(
    constraint: FitConstraint[FilteredRegression],
) -> tuple[FitConstraint, float]:
    r"""The constraint widened for round-off, and the least norm under this constraint.

    The larger the norm ``N`` of the true function, the more of the outcomes round-off may
    hide, and the smaller the norm ``L(N)`` that the outcomes then require. So the true norm
    is at least the ``N`` with ``N = L(N)``, which bisection approaches from below. Where no
    ridge estimate above the cut-off fits, the least norm is that of the closest estimate,
    except where repeated outcomes alone misfit by too much.
    """
    regression, radius = constraint
    upper = least_norm(*constraint)
    shows = math.isinf(upper) or regression.hidden_part(upper) > _NEGLIGIBLE
    if not shows or regression.scatter > (squared := radius.squared(regression)):
        return constraint, upper

    def needed(norm: float) -> float:
        return least_norm(*constraint.beside_hidden(norm))

    used, least, lower = upper, needed(upper), 0.0
    if math.isinf(upper) and math.isfinite(least):
        used = upper = max(least, _START)
        while (least := needed(upper)) > upper:
            lower, upper = upper, _FACTOR * upper
        used = upper
    lower = max(lower, least)
    # By hand: each end is a bound that is rounded to its own side, and costs a search.
    while lower < (1.0 - _RESOLVED) * upper and upper > _START:
        middle = math.sqrt(max(lower, _START * upper) * upper)  # the geometric mean
        least = needed(middle)
        if least > middle:
            lower = middle
        else:
            used = upper = middle
            lower = max(lower, least)
    if math.isfinite(lower):
        certain = is_resolved(regression, lower, squared)
        return constraint.beside_hidden(used) if certain else constraint, lower
    misfit = (1.0 + _NEGLIGIBLE) * least_misfit(regression, math.inf)
    wider = FitConstraint(regression, Radius.of(misfit, regression, radius.tau_ref))
    return wider, least_norm(*wider)
