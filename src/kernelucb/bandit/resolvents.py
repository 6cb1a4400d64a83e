r"""Ridge estimates of filtered data as sums of ridge estimates at other regularisers."""

from typing import NamedTuple

import torch
from torch import Tensor

from kernelucb._numerics.chebyshev import SINGULARITY, ChebyshevInterval, node_count
from kernelucb.bandit.history import Moments
from kernelucb.bandit.spectral import SchurSystems, SpectralHistory, SpectralPoints

# Roots that nearly agree are kept apart by the square root of this, relative: the sums then
# lose as much by cancelling as by having moved.
_APART = 1e-11
_INTERPOLATION_ERROR, _LARGEST_WEIGHT = 1e-11, 30.0
_SHORTEST = 1e-3  # interval in ln(rho)


class Ratio(NamedTuple):
    r"""The filter ``a(lam) = (top lam + foot) / (lam + corner)``.

    It rises, from above zero: ``0 < foot <= top corner``.
    """

    top: float
    foot: float
    corner: float

    @property
    def at_zero(self) -> float:
        r"""``a(0)``."""
        return self.foot / self.corner


class Terms(NamedTuple):
    r"""Estimates at ``k`` regularisers, as they count for those at ``m`` values of ``tau``.

    Only real parts count.
    """

    roots: Tensor  # k regularisers rho, positive or complex with a positive real part
    variance: Tensor  # k x m weights of the variances at rho
    mean: Tensor  # k x m weights of the ridge estimates at rho
    form: Tensor  # k x m weights of the quadratic forms at rho, over tau

    @classmethod
    def at(cls, ratio: Ratio, roots: Tensor, others: Tensor) -> "Terms":
        r"""Those of one root of each pair, for as many ``tau``."""
        gap = others - roots
        variance = others * (ratio.corner - roots) / (ratio.corner * gap)
        mean = (ratio.foot / ratio.top - roots) / gap
        return cls(roots, variance.diag(), mean.diag(), (mean / roots).diag())

    def interpolated(self) -> "Terms":
        r"""The same from Chebyshev nodes in ``ln(rho)``, where these are fewer.

        Not where large weights would multiply the error.
        """
        arguments = self.roots.log()
        lower, upper = (float(end) for end in arguments.aminmax())
        upper = max(upper, lower + _SHORTEST)
        count = node_count(0.5 * (upper - lower), SINGULARITY, _INTERPOLATION_ERROR)
        largest = max(float(weights.abs().max()) for weights in (self.variance, self.mean))
        if count >= len(self.roots) or largest > _LARGEST_WEIGHT:
            return self
        interval = ChebyshevInterval(lower, upper, count, 1, self.roots)
        share = interval.interpolation(arguments).mT
        return Terms(interval.nodes.exp(), *(share @ weights for weights in self[1:]))

    def and_at(self, other: "Terms") -> "Terms":
        r"""Those of both, for the same ``tau``."""
        return Terms(*(torch.cat(pair) for pair in zip(self, other, strict=True)))

    def spread(self, nodes: Tensor) -> "Terms":
        r"""The same for more ``tau``, of which these are some."""
        chosen = torch.eye(len(nodes)).to(self.roots)[nodes]
        return Terms(self.roots, *(weights @ chosen for weights in self[1:]))


class Resolvents(NamedTuple):
    r"""Filtered ridge estimates as sums of unfiltered ones.

    With ``a(lam)`` a ``Ratio``, ``a lam + tau = top (lam + rho1)(lam + rho2) / (lam + g)``
    with two positive or two conjugate numbers ``rho`` of positive real part, so that

        ``tau / (a lam + tau) = sum_k v_k rho_k / (lam + rho_k)``,   ``v_1 + v_2 = 1``,
        ``a / (a lam + tau)   = sum_k w_k / (lam + rho_k)``,         ``w_1 + w_2 = 1``.

    The first turns variances, the second estimates and quadratic forms at the ``rho`` into
    those of the filtered data at ``tau``. Of two conjugates one is enough.

    Source: ours; see ``docs/mathematics.md``.
    """

    regularizers: Tensor  # m values tau
    terms: dict[str, Terms]

    @classmethod
    def of(cls, ratio: Ratio, regularizers: Tensor) -> "Resolvents":
        r"""Those of a filter at ``m`` values of ``tau``."""
        half = 0.5 * (ratio.foot + regularizers) / ratio.top
        product = regularizers * (ratio.corner / ratio.top)
        square = half.square() - product
        least = _APART * product
        square = torch.where(square < 0, square.minimum(-least), square.maximum(least))
        real, terms = square > 0, dict[str, Terms]()
        if bool(real.any()):
            larger = half[real] + square[real].sqrt()
            smaller = product[real] / larger
            second = Terms.at(ratio, larger, smaller).interpolated()
            pairs = Terms.at(ratio, smaller, larger).and_at(second)
            terms["pairs"] = pairs.spread(real)
        if not bool(real.all()):
            root = torch.complex(half[~real], (-square[~real]).sqrt())
            one = Terms.at(ratio, root, root.conj())
            both = Terms(root, *(2.0 * weights for weights in one[1:]))
            terms["conjugates"] = both.spread(~real)
        return cls(regularizers, terms)

    def systems(self, history: SpectralHistory) -> "FilteredSystems":
        r"""The systems of the filtered data."""
        systems = [
            (terms, history.systems(name, terms.roots))
            for name, terms in self.terms.items()
        ]
        return FilteredSystems(self.regularizers, systems)


class FilteredSystems(NamedTuple):
    r"""The systems of the filtered data at ``m`` regularisers; see ``Resolvents``."""

    regularizers: Tensor
    systems: list[tuple[Terms, SchurSystems]]

    def quadratic_form(self) -> Tensor:
        r"""``tau y_w^T A (A K_w + tau)^-1 y_w`` for each ``tau``, with ``A = a(K_w)``."""
        forms = (
            _real(found.fit().quadratic_form @ terms.form) for terms, found in self.systems
        )
        return self.regularizers * sum(forms, torch.zeros_like(self.regularizers))

    def moments(self, points: SpectralPoints) -> Moments:
        r"""Ridge estimates at arms; see ``Systems``."""
        like = points.features.new_zeros(len(points.features), len(self.regularizers))
        deviation, variance = like, like
        for terms, systems in self.systems:
            found = systems.analytic_moments(points)
            deviation = deviation + _real(found.deviation @ terms.mean)
            variance = variance + _real(found.variance @ terms.variance)
        return Moments(deviation, variance.clamp_min(0.0))


def _real(values: Tensor) -> Tensor:
    return values.real if values.is_complex() else values
