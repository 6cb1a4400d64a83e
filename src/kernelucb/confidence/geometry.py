r"""The confidence set of martingale mixtures: a fit constraint and a norm constraint."""

import math
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from kernelucb._numerics.arrays import Array
from kernelucb.confidence.assumptions import Assumption, Status
from kernelucb.confidence.fit.mixture import Radius
from kernelucb.confidence.norm.least import is_resolved, least_misfit
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.regression import RidgeState

# An empty set is widened until it holds one function, and by this much more; so is a set
# that holds hardly more than one (outcomes 1e8 prior deviations off, say). Strong duality
# and the conic solver need an interior, and round-off must not close it.
INTERIOR = 1e-6
_TINY = torch.finfo(torch.float64).tiny


class Constraints(NamedTuple):
    r"""``{ f : ||f_w - y_w|| <= radius, ||f - m||_H <= norm }``.

    Source: Flynn & Reeb (2024), Lemma 4.2; ``excess`` is the squared radius of Corollary
    4.3, in noise units.

    Attributes:
        radius: Squared radius of the fit, noise units.
        norm: Norm bound, prior units.
        contradiction: The assumption that was relaxed because the set was empty, or None.
    """

    radius: Radius
    norm: float
    contradiction: Assumption | None

    def excess(self, regression: RidgeState, regularizer: Tensor) -> Tensor:
        r"""``radius^2 + tau norm^2 - quadratic_form(tau)``, one value for each ``tau``.

        ``Rtilde^2 / noise_std^2``. Negative for some ``tau`` exactly when the set is
        empty.
        """
        drop = regression.quadratic_form_drop(self.radius.tau_ref, regularizer)
        return self.excess_from(regularizer, drop)

    def excess_from(self, regularizer: Array, drop: Array) -> Array:
        r"""As ``excess``, from ``quadratic_form(tau_ref) - quadratic_form(tau)``."""
        return self.radius.slack + regularizer * self.norm**2 + drop

    def log_excess_slopes(
        self, tau: Array, sums: Sequence[Array]
    ) -> tuple[Array, Array, Array]:
        r"""Excess at ``b`` values of ``tau``; two derivatives of its log in ``ln(tau)``.

        ``sums`` are, for each, ``sum_i w_i / (lam_i + tau)`` with the weights of
        ``quadratic_form_drop``, and ``sum_i z_i^2 lam_i / (lam_i + tau)^p`` for ``p`` = 2
        and 3.
        """
        excess = self.excess_from(tau, (self.radius.tau_ref - tau) * sums[0]).clip(_TINY)
        share = tau / excess
        slope = share * (self.norm**2 - sums[1])
        return excess, slope, slope - slope * slope + 2.0 * tau * share * sums[2]


def consistent_constraints(
    regression: RidgeState,
    radius: Radius,
    norm: float,
    least: float,
    relaxed: bool = False,
) -> Constraints:
    r"""The constraints, relaxed with a warning where no function satisfies them.

    ``norm`` bounds the norm, ``least`` is the least consistent one, both in prior units.
    ``relaxed`` says that ``radius`` is one that some function within the norm satisfies,
    in place of the one that none does.
    """
    if relaxed:
        contradiction = _too_small(norm, least, regression.outcome_scale)
        action = "The bound uses Flynn & Reeb's radius instead, which some of them satisfy."
        announce(contradiction, action)
        return Constraints(radius, norm, contradiction)
    if least <= norm or is_resolved(regression, least, radius.squared(regression)):
        scale = regression.outcome_scale
        return attainable_norm(radius, norm, least, scale)
    needed = least_misfit(regression, norm) * (1.0 + INTERIOR)
    slack = needed - float(regression.quadratic_form(radius.tau_ref))
    statement = (
        f"No function of any norm (norm bound {norm * regression.outcome_scale:.4g}, least "
        f"consistent norm {least * regression.outcome_scale:.4g}) fits the data at this "
        "delta: repeated or nearly repeated inputs differ by more than the noise scale "
        "allows. noise_std is too small."
    )
    factor = math.sqrt(needed / radius.squared(regression))
    action = f"The bound uses a fit radius {factor:.3g} times as large instead."
    contradiction = Assumption("noise", statement, Status.VIOLATED)
    announce(contradiction, action)
    return Constraints(Radius(radius.tau_ref, slack), norm, contradiction)


def attainable_norm(
    radius: Radius, norm: float, least: float, outcome_scale: float
) -> Constraints:
    r"""As ``consistent_constraints``, for a finite ``least``: the norm is relaxed.

    ``outcome_scale`` is the number of outcome units per prior unit, for the message.
    """
    if least <= norm:
        return Constraints(radius, max(norm, least * (1.0 + INTERIOR)), None)
    contradiction = _too_small(norm, least, outcome_scale)
    announce(contradiction, "The bound uses the least consistent norm instead.")
    return Constraints(radius, least * (1.0 + INTERIOR), contradiction)


def _too_small(norm: float, least: float, outcome_scale: float) -> Assumption:
    statement = (
        f"No function of norm at most {norm * outcome_scale:.4g} fits the data at this "
        f"delta: the least consistent norm is {least * outcome_scale:.4g}. The norm bound "
        "or the noise scale is too small, or the kernel is wrong."
    )
    return Assumption("norm", statement, Status.VIOLATED)


def announce(contradiction: Assumption, action: str) -> None:
    r"""Warn of a contradiction and say what is done; a filter makes it an error."""
    message = f"{contradiction.statement} {action}"
    warnings.warn(message, InconsistentConfidenceSetWarning, stacklevel=4)
