r"""Functions near the maximisers over a likelihood-ratio set, for each point."""

from typing import Any

import torch
from torch import Tensor

from kernelucb._numerics.arrays import Array, as_array, library_of
from kernelucb._numerics.quasiconvex import minimize_quasiconvex
from kernelucb._numerics.safe_math import safe_sqrt
from kernelucb.confidence.base import Support
from kernelucb.confidence.likelihood.tangents import TINY, TangentSet, unknown_gap
from kernelucb.regression import Projection

# Least eigenvalue, over the regulariser, of a direction that is searched in, and how many:
# with all of them bands of rates are up to 2 % narrower.
_LEAST_SHARE, _MOST_INFORMED = 0.03, 40
_STEPS = 2  # one more narrows bands of log rates by up to 3 % at a norm bound of 7
_LEAST_PULL = 1e-9  # over that of the norm alone; keeps systems of equations regular
# Accuracy of the edge: what is left of the loss times the step, over that from the centre.
_RELATIVE_TOLERANCE = 1e-10


class SearchedSet(TangentSet):
    r"""Tangents at functions that a few steps of Newton's method find for each point.

    The first function lies from the centre in the direction of the posterior covariance
    with the point, where the losses add up to ``level``. A step solves the stationarity of
    the Lagrangian, ``multiple * sum_i l'_i k(x_i, .) + pull * (f - mean) = sign k(x, .)``,
    linearised at the function and with the multipliers of the tangents there, and moves
    towards the centre or away from it until the losses add up to ``level`` again. Steps are
    in the informed directions only, those of which the data tell something (as in the
    likelihood-informed subspaces of Cui et al. 2014); the bound is in all.

    Source: ours; ``docs/mathematics.md``. Args: see ``TangentSet``.
    """

    informed: Tensor
    informed_features: Tensor
    informed_centre: Tensor
    products: Tensor
    entries: Tensor
    source = "Tangents of the losses (ours)"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        regression, features = self.regression, self.observed_features
        self.room = max(self.level - self.centre.loss, 0.0)
        scale = 2.0 * self.room / self.constraints.norm**2
        self.regularizer = max(scale, regression.eigenvalue_cutoff)
        informed = regression.eigenvalues > _LEAST_SHARE * self.regularizer
        self.register_buffer("informed", informed.nonzero().squeeze(-1)[-_MOST_INFORMED:])
        self.register_buffer("informed_features", features[:, self.informed])
        self.register_buffer("informed_centre", self.centre_weights[self.informed])
        first, second = torch.triu_indices(*2 * self.informed.shape)
        products = self.informed_features[:, first] * self.informed_features[:, second]
        self.register_buffer("products", products)
        entries = torch.zeros(*2 * self.informed.shape, dtype=torch.long)
        entries[first, second] = entries[second, first] = torch.arange(len(first))
        self.register_buffer("entries", entries.to(products.device))

    def _support_of_difference(self, change: Projection, sign: int, cheap: bool) -> Support:
        r"""See ``FunctionSet``; none is cheap, since the ellipsoid's is not near."""
        return self.bounded(change, sign, *self.searched(change, sign))

    def near_maximisers(self, points: Projection, sign: int) -> tuple[Tensor, Tensor]:
        r"""See ``TangentSet``; how far the bounds are above the maxima is not known."""
        lam = self.regression.eigenvalues[self.informed]
        features = points.features[:, self.informed]
        rest = (points.prior_variance - features.square().sum(-1)).clamp_min(0.0)
        points = points._replace(features=features, residual_variance=rest)
        direction = sign * features / (lam + self.regularizer)
        spread = (lam * direction.detach().square()).sum(-1, keepdim=True)
        direction = direction * (2.0 * self.room / spread.clamp_min(TINY)).sqrt()
        for _ in range(_STEPS):
            weights, latent = self._to_the_edge(direction)
            direction = self._newton(points, sign, weights, latent) - self.informed_centre
        return self._to_the_edge(direction)[1], unknown_gap(points)

    def _newton(
        self, points: Projection, sign: int, weights: Tensor, latent: Tensor
    ) -> Tensor:
        r"""Newton's method for maximisers, ``b x k``, with the multipliers of tangents."""
        tangents = self.tangents(latent, self.informed_features)
        features = sign * points.features
        multiple = self.multiple(points, sign, tangents).unsqueeze(-1)
        pulled = features - multiple * tangents.slopes
        length = safe_sqrt(pulled.square().sum(-1) + points.residual_variance)
        least = _LEAST_PULL * points.prior_variance.sqrt().clamp_min(TINY)
        pull = (torch.maximum(length, least) / self.constraints.norm).unsqueeze(-1)
        bend = (self._data.loss.curvature(latent) @ self.products)[:, self.entries]
        system = multiple.unsqueeze(-1) * bend + torch.diag_embed(pull.expand_as(weights))
        step = torch.linalg.solve(system, (pulled - pull * weights).unsqueeze(-1))
        return weights + step.squeeze(-1)

    def _to_the_edge(self, direction: Tensor) -> tuple[Tensor, Tensor]:
        r"""From the centre in ``b x k`` directions to where the losses add up to the level.

        No farther than the diameter of the norm ball; looked for first at the length of the
        directions. ``b x k`` coordinates, and ``b x u`` values at the data; differentiable
        in the directions.
        """
        length = direction.norm(dim=-1, keepdim=True).clamp_min(TINY)
        longest = direction * (2.0 * self.constraints.norm / length)
        change = longest @ self.informed_features.mT
        centre, loss = self.centre.latent, self._data.loss
        with torch.no_grad():
            start = (0.5 * length / self.constraints.norm).clamp_max(1.0).squeeze(-1)
            share = self._share(change, start).unsqueeze(-1)
            slope = (loss.slope(centre + share * change) * change).sum(-1, keepdim=True)
            free = (share < 1.0) & (slope > TINY)
        # One more step of Newton's method, for its gradient.
        excess = loss.value(centre + share * change).sum(-1, keepdim=True) - self.level
        share = share - torch.where(free, excess / torch.where(free, slope, 1.0), 0.0)
        return self.informed_centre + share * longest, centre + share * change

    def _share(self, change: Tensor, start: Tensor) -> Tensor:
        r"""Shares in [0, 1] of ``b x u`` changes that take the losses to the level.

        The search begins at ``b`` of them.
        """
        centre, loss, data = self.centre.latent, self._data.loss, change

        def slopes(share: Array) -> tuple[Array, Array]:
            latent = centre + torch.as_tensor(share).unsqueeze(-1) * data
            excess = loss.value(latent).sum(-1) - self.level
            slope = (loss.slope(latent) * data).sum(-1)
            number = torch.isfinite(excess + slope)  # elsewhere the loss overflows
            excess = torch.where(number, excess, torch.inf)
            return as_array(excess), as_array(torch.where(number, slope, torch.nan))

        xp = library_of(as_array(centre))
        whole = xp.ones_like(as_array(change[:, 0]))
        inside = slopes(whole)[0] <= 0.0
        found = minimize_quasiconvex(
            slopes,
            lower=xp.where(inside, whole, 0.0),
            upper=whole,
            start=xp.where(inside, whole, as_array(start)),
            tolerance=whole * (_RELATIVE_TOLERANCE * self.room),
        )
        return torch.as_tensor(found.argument)
