r"""Observations as the features of a few inducing points see them.

With features ``z(x) = (K_SS^{1/2})^+ k_S(x)``, ``Z`` the features of the observed inputs
and ``V = Z^T Z + alpha I``::

    mean(x) = z(x)^T V^-1 Z^T y
    var(x)  = k(x, x) - |z(x)|^2 + alpha z(x)^T V^-1 z(x)

Source: Calandriello et al. (2019), Eq. 4; the predictive of Titsias' collapsed bound with
the same inducing points. Features are only defined up to a rotation; see ``Basis``.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from numpy.random import SeedSequence
from torch import Tensor
from torch.linalg import solve_triangular

from kernelucb._numerics.estimates import draft_of
from kernelucb._numerics.spectral import cutoff_of
from kernelucb.regression.nystrom import (
    ROWS,
    Basis,
    evidence_bounds,
    in_eigenbasis,
    ridge_factor,
)
from kernelucb.regression.pooling import distinct_rows
from kernelucb.regression.prior import Prior
from kernelucb.regression.state import RidgeState

_LOG = logging.getLogger(__name__)
# Observations of the first step are drawn with prior variances, all at once.
_FIRST_BLOCK = 64
_PURPOSE = 0x424B42  # any number


class Sketch(NamedTuple):
    r"""Observations as ``r`` features see them."""

    gram: Tensor  # `Z^T Z`, `r x r`; a repeated input counts as often as it was observed
    moments: Tensor  # `Z^T (y - m)`, `r` values
    alpha: float  # ridge parameter, in the squared units of the outcomes
    factor: Tensor  # lower Cholesky factor of `V = gram + alpha I`
    weights: Tensor  # `V^-1 moments`, `r` values

    @classmethod
    def of(cls, gram: Tensor, moments: Tensor, alpha: float) -> "Sketch":
        r"""From the sums over observations; one Cholesky factorisation."""
        factor = ridge_factor(gram, alpha)
        weights = torch.cholesky_solve(moments.unsqueeze(-1), factor).squeeze(-1)
        return cls(gram, moments, alpha, factor, weights)

    @property
    def log_det(self) -> float:
        r"""``ln det(I + Z^T Z / alpha)``, rounded up."""
        rounding = len(self.gram) * torch.finfo(self.gram.dtype).eps
        diagonal = self.gram.diagonal() + self.alpha
        pivots = self.factor.diagonal().square() + rounding * diagonal
        return float((pivots / self.alpha).log().sum())

    def solve(self, right: Tensor) -> Tensor:
        r"""``V^-1`` times ``r x k`` columns."""
        return torch.cholesky_solve(right, self.factor) if len(right) else right

    def quadratic(self, features: Tensor) -> Tensor:
        r"""``z^T V^-1 z`` of ``n x r`` features: sums of squares, which do not cancel."""
        halves = (
            solve_triangular(self.factor, part.mT, upper=False).square().sum(0)
            for part in features.split(ROWS)
        )
        return torch.cat([*halves])


class Tally(NamedTuple):
    r"""Observations added up at each of ``u`` places."""

    counts: Tensor  # `u` numbers of observations, zero where there are none
    sums: Tensor  # `u` sums of outcomes minus prior means
    squares: Tensor  # `u` sums of their squares

    def extended(self, index: Tensor, residuals: Tensor) -> "Tally":
        r"""With more outcomes minus prior means, at the places ``index``."""
        values = torch.ones_like(residuals), residuals, residuals.square()
        totals = zip(self, values, strict=True)
        return Tally(*(old.index_add(0, index, more) for old, more in totals))


@dataclass(frozen=True, eq=False)
class SketchedData:
    r"""Observations at ``u`` inputs, and inducing points drawn from these by variance.

    All else is computed from these when it is asked for, in ``O(u m^2)``, or follows from
    the step before where inducing points only come in addition. A step returns another
    state and leaves this one as it is.

    A draw counts with the variances of the step before, which are larger: as accurate, and
    more generous. Inducing points drawn before are kept where all together are at most
    ``slack`` times the ones just drawn: a larger set is at least as accurate, since its
    span contains the other.

    Source: Calandriello et al. (2019), Algorithm 1 and Eq. 4.

    Attributes:
        prior: Prior in the units of the outcomes.
        inputs: ``u x d'`` distinct kernel inputs, with or without observations.
        alpha: Ridge parameter, in the squared units of the outcomes.
        qbar: Oversampling factor: inducing points grow in proportion.
        generator_state: State of the generator of the draws.
        slack: Largest ratio of all inducing points to the ones just drawn.
        tally: Observations at each input.
        inducing: ``m`` positions of the inducing points among the inputs.
    """

    prior: Prior
    inputs: Tensor
    alpha: float
    qbar: float
    generator_state: Tensor
    slack: float
    tally: Tally
    inducing: Tensor

    @classmethod
    def empty(
        cls,
        prior: Prior,
        inputs: Tensor,
        alpha: float,
        qbar: float,
        generator_state: Tensor,
        slack: float = 0.0,
    ) -> "SketchedData":
        r"""``u x d'`` inputs without observations."""
        none = inputs.new_zeros(len(inputs))
        tally, inducing = Tally(none, none, none), none[:0].long()
        return cls(prior, inputs, alpha, qbar, generator_state, slack, tally, inducing)

    @property
    def counts(self) -> Tensor:
        r"""``u`` numbers of observations."""
        return self.tally.counts

    @property
    def observed(self) -> Tensor:
        r"""Positions of the inputs with observations, ascending."""
        return self.counts.nonzero().squeeze(-1)

    @property
    def num_observations(self) -> int:
        r"""Number of observations, repeats included."""
        return int(self.counts.sum())

    @cached_property
    def prior_mean(self) -> Tensor:
        r"""``u`` prior means."""
        return self.prior.mean(self.inputs)

    @cached_property
    def prior_variance(self) -> Tensor:
        r"""``u`` prior variances."""
        return self.prior.variance(self.inputs)

    @cached_property
    @torch.no_grad()
    def basis(self) -> Basis:
        r"""Features of the inducing points."""
        return Basis.of(self.prior, self.inputs[self.inducing], whole=True)

    @cached_property
    @torch.no_grad()
    def _projected(self) -> tuple[Tensor, Tensor]:
        return self.basis.project(self.inputs)

    @property
    def features(self) -> Tensor:
        r"""``u x r`` features of the inputs."""
        return self._projected[0]

    @property
    def residual_variance(self) -> Tensor:
        r"""``u`` values, what the features leave of ``prior_variance``; rounded up."""
        return self._projected[1]

    @cached_property
    def sketch(self) -> Sketch:
        r"""The observations as the features see them."""
        seen = self.observed
        rows, counts, sums = self.features[seen], self.counts[seen], self.tally.sums[seen]
        gram = rows.mT @ (counts.unsqueeze(-1) * rows)
        return Sketch.of(gram, rows.mT @ sums, self.alpha)

    @cached_property
    def mean(self) -> Tensor:
        r"""``u`` posterior means."""
        return self.prior_mean + self.features @ self.sketch.weights

    @cached_property
    def quadratic(self) -> Tensor:
        r"""``u`` values ``z^T V^-1 z``."""
        return self.sketch.quadratic(self.features)

    @property
    def variance(self) -> Tensor:
        r"""``u`` latent variances."""
        return self.residual_variance + self.alpha * self.quadratic

    def observe(self, index: Tensor, residuals: Tensor) -> "SketchedData":
        r"""With more outcomes minus prior means, and inducing points drawn again.

        ``index`` are the places of the ``n`` observations among the inputs.
        """
        tally = self.tally.extended(index, residuals)
        seen = tally.counts.nonzero().squeeze(-1)
        chances = inclusion_probabilities(
            self.variance[seen], tally.counts[seen], self.alpha, self.qbar
        )
        drawn, generator_state = draw(chances, self.generator_state)
        drawn = seen[drawn]
        new = drawn[~torch.isin(drawn, self.inducing)]
        total = len(self.inducing) + len(new)
        grows = total <= max(self.slack * len(drawn), len(drawn))
        inducing = torch.cat([self.inducing, new]) if grows else drawn
        _LOG.debug("%d inducing points drawn, %d in all.", len(drawn), len(inducing))
        state = replace(
            self, tally=tally, inducing=inducing, generator_state=generator_state
        )
        same = {"prior_mean": self.prior_mean, "prior_variance": self.prior_variance}
        vars(state).update(same | (self._grown(tally, new) if grows else {}))
        return state

    @torch.no_grad()
    def _grown(self, tally: Tally, new: Tensor) -> dict[str, Any]:
        r"""What follows from the observations with ``k`` more inducing points.

        In ``O(u r k)`` for ``r`` features, where all anew would cost ``O(u r^2)``.
        Observations lower the quadratic forms by squares. With the orthonormal directions
        that the inducing points add, the block inverse of the larger ``V`` adds
        ``|rest|^2``, where ``rest`` are the new coordinates less what the old ones predict
        of them; its blocks are blocks of the larger Cholesky factor.
        """
        (features, room), old, rank = self._projected, self.sketch, len(self.sketch.gram)
        basis = self.basis.extended(self.inputs[new], features[new])
        directions = basis.matrix[len(self.inducing) :, rank:]
        sections = self.prior.covariance(self.inputs, self.inputs[new]) @ directions
        added = sections - features @ (features[new].mT @ directions)
        explained = added.square().sum(-1, keepdim=True)
        # Reduced where round-off explains more than there is.
        added = added * (room.unsqueeze(-1) / explained).sqrt().clamp_max(1.0).nan_to_num()
        seen, more = tally.counts.nonzero().squeeze(-1), tally.counts - self.counts
        rows = torch.cat([features[seen], added[seen]], dim=1)
        columns = rows.mT @ (tally.counts[seen].unsqueeze(-1) * added[seen])
        weighted = more.sqrt().unsqueeze(-1)[more > 0] * features[more > 0]
        gram = torch.cat([old.gram + weighted.mT @ weighted, columns[:rank].mT])
        gram = torch.cat([gram, columns], dim=1)
        sketch = Sketch.of(gram, rows.mT @ tally.sums[seen], self.alpha)
        solved = old.solve(weighted.mT)
        factor = ridge_factor(weighted @ solved, 1.0)
        drops = features @ solve_triangular(factor.mT, solved, upper=True, left=False)
        inner, corner = sketch.factor[:rank, :rank], sketch.factor[rank:, rank:]
        half = solve_triangular(inner.mT, sketch.factor[rank:, :rank].mT, upper=True)
        rest = added - features @ half
        rest = solve_triangular(corner.mT, rest, upper=True, left=False)
        change = rest.square().sum(-1) - drops.square().sum(-1)
        left = (room - added.square().sum(-1)).clamp_min(0.0)
        return {
            "basis": basis,
            "_projected": (torch.cat([features, added], dim=1), left),
            "sketch": sketch,
            "quadratic": (self.quadratic + change).clamp_min(0.0),
        }

    def observe_at(self, inputs: Tensor, residuals: Tensor) -> "SketchedData":
        r"""As ``observe``, at ``n x d'`` inputs that may be new.

        In blocks that at most double the number of observations.
        """
        state, start = self, 0
        while start < len(inputs):
            block = slice(start, start + max(_FIRST_BLOCK, state.num_observations))
            state, index = state._with_inputs(inputs[block])
            state, start = state.observe(index, residuals[block]), block.stop
        return state

    def resampled(self) -> "SketchedData":
        r"""With inducing points drawn again, by the variances of now."""
        return self.observe(self.inducing[:0], self.tally.sums[:0])

    def conditioned(self, inputs: Tensor, residuals: Tensor) -> "SketchedData":
        r"""After observations at inputs that become inducing points, nothing drawn."""
        state, index = self._with_inputs(inputs)
        inducing = torch.cat([self.inducing, index]).unique()
        tally = state.tally.extended(index, residuals)
        return replace(state, tally=tally, inducing=inducing)

    def moved(self, move: Callable[[Tensor], Tensor]) -> "SketchedData":
        r"""The state where ``move`` puts tensors; the prior is there."""
        tally, inducing = Tally(*map(move, self.tally)), move(self.inducing)
        return replace(self, inputs=move(self.inputs), tally=tally, inducing=inducing)

    def _with_inputs(self, inputs: Tensor) -> tuple["SketchedData", Tensor]:
        r"""The state with the distinct ones of more inputs, and the place of each."""
        every, count = torch.cat([self.inputs, inputs]), len(self.inputs)
        first, index = distinct_rows(every)
        zeros = self.counts.new_zeros(len(first) - count)
        tally = Tally(*(torch.cat([total, zeros]) for total in self.tally))
        return replace(self, inputs=every[first], tally=tally), index[count:]


def inclusion_probabilities(
    variance: Tensor, counts: Tensor, alpha: float, qbar: float
) -> Tensor:
    r"""Probability ``min(1, qbar count var / alpha)`` that an input becomes inducing.

    From ``n`` latent variances of the previous step and numbers of observations.

    Source: Calandriello et al. (2019), Algorithm 1, with one draw for all observations at
    an input: as probable as any of their own draws, or more, which Theorem 1 allows.
    """
    return (qbar / alpha * counts * variance).clamp(max=1.0)


def draw(probabilities: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    r"""Indices of the inputs drawn, ascending and never none, and the generator's state.

    Where no input is drawn, the most probable one is taken. ``state`` is that of a
    ``torch.Generator``.
    """
    generator = torch.Generator()  # on the CPU, so that every device draws the same
    generator.set_state(state.cpu())
    uniform = torch.rand(len(probabilities), dtype=torch.float64, generator=generator)
    drawn = (uniform.to(probabilities.device) < probabilities).nonzero().squeeze(-1)
    if len(drawn) == 0:
        drawn = probabilities.argmax().reshape(1)
    return drawn, generator.get_state()


def first_state(seed: int) -> Tensor:
    r"""State of a generator that ``torch.manual_seed(seed)`` has nothing in common with.

    With the same numbers as in random inputs, draws would depend on where these lie.
    """
    mixed = SeedSequence([_PURPOSE, seed % 2**64]).generate_state(1)
    return torch.Generator().manual_seed(int(mixed[0])).get_state()


class DTCRegression(RidgeState):
    r"""The deterministic training conditional in the eigenbasis of its observations.

    ``mean`` and ``variance`` at ``regularizer`` are those of Calandriello et al. (2019),
    Eq. 4.

    Attributes:
        data: Observations and inducing points, in the model's units.
        regularizer: ``tau = alpha / noise_std^2`` of the sketch.
        remainder: Bound on the eigenvalues of what the features leave of the whitened
            kernel matrix: its trace.
    """

    spectrum: Tensor
    residual_variance: Tensor

    @torch.no_grad()
    def __init__(
        self,
        prior: Prior,
        data: SketchedData,
        noise_std: float,
        dimension: int,
        estimated: frozenset[str],
    ) -> None:
        r"""State of a sketch; one ``eigh``.

        Prior and noise scale are in outcome units, of which ``prior.scale`` make a unit of
        the data.
        """
        super().__init__()
        self.prior, self.data = prior, data
        self.dimension, self.estimated = dimension, estimated
        precision, sketch = (prior.scale / noise_std) ** 2, data.sketch
        self.regularizer = sketch.alpha * precision
        sums = sketch.gram, sketch.moments, data.tally.squares.sum()
        whitened = (precision * each for each in sums)
        eigenvalues, targets, rotation = in_eigenbasis(*whitened)
        left = precision * data.counts * data.residual_variance
        self._keep(
            eigenvalues=eigenvalues,
            targets=targets,
            noise_scales=targets.new_full((1,), noise_std),
            spectrum=eigenvalues,  # not widened
            residual_variance=left,
        )
        self.eigenvalue_cutoff = cutoff_of(eigenvalues)
        self.remainder = float(left.sum())
        self.basis = data.basis.rotated(rotation)
        variance = data.counts @ data.prior_variance / max(self.num_observations, 1)
        self.prior_std = prior.scale * float(variance) ** 0.5

    @property
    def num_observations(self) -> int:
        r"""Number of observations ``n``."""
        return self.data.num_observations

    def coordinates(self, inputs: Tensor, prior_variance: Tensor) -> tuple[Tensor, Tensor]:
        r"""Features of the inducing points, rotated, and what they leave."""
        features, rest = self.basis.project(inputs)
        return self.prior.scale * features, self.prior.scale**2 * rest

    def with_pending(self, X_pending: Tensor) -> "DTCRegression":
        r"""The state with ``p x d`` raw inputs added, which become inducing points."""
        X = self._checked(X_pending).detach()
        if len(X) == 0:
            return self
        inputs = self.prior.transform(X.to(self.eigenvalues))
        data = self.data.moved(lambda part: part.to(inputs.device))
        data = data.conditioned(inputs, inputs.new_zeros(len(inputs)))
        noise_std = float(self.noise_scales)
        return DTCRegression(self.prior, data, noise_std, self.dimension, self.estimated)

    def widened(self) -> "DTCRegression":
        r"""The state with the remainder added to all eigenvalues, for norms.

        The whitened kernel matrix is at most ``Z Z^T + remainder``, so the least norm of a
        ridge estimate within some distance of the outcomes here is at most that of any
        function within this distance: with a valid radius, a valid lower bound on the norm.
        """
        state = draft_of(self)
        state.eigenvalues = self.eigenvalues + self.remainder
        return state

    def evidence_terms(self, regularizers: Tensor) -> tuple[Tensor, Tensor]:
        r"""See ``evidence_bounds``; ``g`` regularisers ``tau``."""
        spectrum, left = self.spectrum, self.residual_variance
        return evidence_bounds(spectrum, self.targets, left, regularizers)
