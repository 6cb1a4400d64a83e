r"""Ridge estimates of filtered data as sums of ridge estimates at other regularisers."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from kernelucb.bandit.history import Fit, Moments
from kernelucb.bandit.spectral import SchurSystems, SpectralHistory, SpectralPoints

# Roots that nearly agree are kept apart by the square root of this, relative: the sums then
# lose as much by cancelling as by having moved.
_APART = 1e-11


class Ratio(NamedTuple):
    r"""The filter ``a(lam) = (top lam + foot) / (lam + corner)``.

    It rises, from above zero: ``0 < foot <= top corner``.
    """

    top: float
    foot: float
    corner: float


class Terms(NamedTuple):
    r"""``m`` pairs of terms, or one of each pair of conjugates with twice its weights.

    Attributes:
        nodes: Positions of the regularisers ``tau``.
        roots: ``rho``, one or two for each of them.
        variance: Weights of the variances at ``rho``.
        mean: Weights of the estimates at ``rho``.
    """

    nodes: Tensor  # m
    roots: Tensor  # k x m
    variance: Tensor  # k x m
    mean: Tensor  # k x m


class Resolvents(NamedTuple):
    r"""Filtered ridge estimates as sums of unfiltered ones.

    With ``a(lam)`` a ``Ratio``, ``a lam + tau = top (lam + rho1)(lam + rho2) / (lam + g)``
    with two positive or two conjugate numbers ``rho`` of positive real part, so that

        ``tau / (a lam + tau) = sum_k v_k rho_k / (lam + rho_k)``,   ``v_1 + v_2 = 1``,
        ``a / (a lam + tau)   = sum_k w_k / (lam + rho_k)``,         ``w_1 + w_2 = 1``.

    The first turns variances, the second estimates and quadratic forms at the ``rho`` into
    those of the filtered data at ``tau``.
    """

    regularizers: Tensor  # tau
    pairs: Terms  # where both roots are real
    conjugates: Terms  # of conjugate roots, the one with the positive imaginary part

    @classmethod
    def of(cls, ratio: Ratio, regularizers: Tensor) -> "Resolvents":
        r"""Those of a filter at ``m`` values of ``tau``."""
        half = 0.5 * (ratio.foot + regularizers) / ratio.top
        product = regularizers * (ratio.corner / ratio.top)
        square = half.square() - product
        least = _APART * product
        square = torch.where(square < 0, square.clamp_max(-least), square.clamp_min(least))
        real = square > 0
        larger = half[real] + square[real].sqrt()
        roots = torch.stack([product[real] / larger, larger])
        pairs = _terms(ratio, real.nonzero()[:, 0], roots)
        root = torch.complex(half[~real], (-square[~real]).sqrt())
        both = _terms(ratio, (~real).nonzero()[:, 0], torch.stack([root, root.conj()]))
        conjugates = Terms(both.nodes, *(2.0 * each[:1] for each in both[1:]))
        return cls(regularizers, pairs, conjugates._replace(roots=root.unsqueeze(0)))

    def systems(self, history: SpectralHistory) -> "FilteredSystems":
        r"""The systems of the filtered data."""
        found = [
            (terms, history.systems(f"filtered {name}", terms.roots.flatten()))
            for name, terms in (("pairs", self.pairs), ("conjugates", self.conjugates))
            if len(terms.nodes)
        ]
        return FilteredSystems(self.regularizers, found)


class FilteredSystems(NamedTuple):
    r"""The systems of the filtered data at ``m`` regularisers; see ``Resolvents``."""

    regularizers: Tensor
    found: list[tuple[Terms, SchurSystems]]

    def quadratic_form(self) -> Tensor:
        r"""``y_w^T A (A K_w + tau)^-1 y_w tau`` for each ``tau``, ``A = a(K_w)``."""
        form = torch.empty_like(self.regularizers)
        for terms, systems in self.found:
            values = systems.fit().quadratic_form.view_as(terms.roots) / terms.roots
            form[terms.nodes] = _sum(terms.mean, values)
        return self.regularizers * form

    def moments(self, points: SpectralPoints) -> Moments:
        r"""Ridge estimates at arms; see ``Systems``."""
        count, size = len(points.features), len(self.regularizers)
        deviation = points.features.new_empty(count, size)
        variance = torch.empty_like(deviation)
        for terms, systems in self.found:
            found = systems.analytic_moments(points)
            shape = (count, *terms.roots.shape)
            deviation[:, terms.nodes] = _sum(terms.mean, found.deviation.view(shape))
            variance[:, terms.nodes] = _sum(terms.variance, found.variance.view(shape))
        return Moments(deviation, variance.clamp_min(0.0))


def _terms(ratio: Ratio, nodes: Tensor, roots: Tensor) -> Terms:
    gap = torch.stack([roots[1] - roots[0], roots[0] - roots[1]])
    others = roots.flip(0)
    variance = others * (ratio.corner - roots) / (ratio.corner * gap)
    return Terms(nodes, roots, variance, (ratio.foot / ratio.top - roots) / gap)


def _sum(weights: Tensor, values: Tensor) -> Tensor:
    r"""Real part of the sum of ``k`` terms at each node."""
    total: Any = (weights * values).sum(-2)
    return total.real if total.is_complex() else total
