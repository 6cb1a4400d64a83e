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
from copy import copy
from typing import NamedTuple

import torch
from botorch.exceptions import InputDataError
from gpytorch.settings import lazily_evaluate_kernels
from numpy.random import SeedSequence
from torch import Tensor
from torch.linalg import solve_triangular

from kernelucb.regression.lowrank.basis import ROWS, Basis
from kernelucb.regression.pooling import distinct_rows
from kernelucb.regression.prior import Prior

_LOG = logging.getLogger(__name__)
# Least noise in prior deviations: a thousand times the rounding of such outcomes.
_LEAST_NOISE = 1e3 * torch.finfo(torch.float64).eps
# Observations of the first step are drawn with prior variances, all at once.
_FIRST_BLOCK = 64
_FIRST_CAPACITY = 32
# Inducing points that are added together: their `eigh` and their covariances stay small.
_PART = 512
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

    def residual_features(self, features: Tensor) -> Tensor:
        r"""Posterior features: what observations leave of ``n x r`` features.

        Inner products of ``sqrt(alpha) V^{-1/2} z(x)`` are posterior covariances in the
        span of the inducing points.
        """
        return self.alpha**0.5 * solve_triangular(self.factor, features.mT, upper=False).mT

    def variance(self, features: Tensor, residual_variance: Tensor) -> Tensor:
        r"""Latent variance: a sum of positive terms, so it does not cancel near the data.

        Of ``n x r`` features and ``n`` values ``k(x, x) - |z(x)|^2``.
        """
        parts = features.split(ROWS)
        left = [self.residual_features(part).square().sum(-1) for part in parts]
        return residual_variance + torch.cat(left)


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


class SketchedData:
    r"""Observations at ``u`` inputs, and inducing points drawn from these by variance.

    Posterior mean and variance of every input are kept up to date at low rank: ``k``
    observations, and ``k`` more inducing points, change ``z^T V^-1 z`` by ``k`` squares
    each. A step costs ``O(u r k)`` for ``r`` features (for few ``k`` the time to read them,
    once) and ``O(r^3)``; other inducing points cost ``O(u m^2)``. A step returns another
    state and leaves this one as it is.

    A draw counts with the variances of the step before, which are larger: as accurate, and
    more generous. Inducing points drawn before are kept where all together are at most
    ``slack`` times the ones just drawn: a larger set is at least as accurate, since its
    span contains the other. Without slack other inducing points are computed anew, which is
    the most accurate.

    Source: Calandriello et al. (2019), Algorithm 1 and Eq. 4; block matrix inversion.

    Attributes:
        prior: Prior in the units of the outcomes.
        inputs: ``u x d'`` distinct kernel inputs, with or without observations.
        alpha: Ridge parameter, in the squared units of the outcomes.
        qbar: Oversampling factor: inducing points grow in proportion.
        generator_state: State of the generator of the draws.
        tally: Observations at each input.
        inducing: ``m`` positions of the inducing points among the inputs.
        basis: Features of the inducing points.
        sketch: The observations as the features see them.
        mean: ``u`` posterior means.
        quadratic: ``u`` values ``z^T V^-1 z``.
        residual_variance: ``u`` values, what the features leave of ``prior_variance``.
    """

    def __init__(
        self,
        prior: Prior,
        inputs: Tensor,
        alpha: float,
        qbar: float,
        generator_state: Tensor,
        slack: float = 0.0,
    ) -> None:
        r"""``u x d'`` inputs without observations."""
        self.prior, self.alpha, self.qbar, self.slack = prior, alpha, qbar, slack
        self.generator_state = generator_state
        none = inputs.new_zeros(len(inputs))
        self._set_inputs(inputs, Tally(none, none, none))
        self._forget()

    def _set_inputs(self, inputs: Tensor, tally: Tally) -> None:
        self.inputs, self.tally = inputs, tally
        self.prior_mean, self.prior_variance = (
            self.prior.mean(inputs),
            self.prior.variance(inputs),
        )

    def _forget(self) -> None:
        r"""Drop all inducing points; the observations stay."""
        self._storage = self.inputs.new_empty(len(self.inputs), 0)
        self._filled = [0]  # columns that any state has written to the storage
        self.inducing = torch.empty(0, dtype=torch.long, device=self.inputs.device)
        self.basis = Basis.empty(self.prior, self.inputs, whole=True)
        nothing = self.basis.matrix
        self.sketch = Sketch.of(nothing, nothing.new_zeros(0), self.alpha)
        self.mean, self.residual_variance = self.prior_mean, self.prior_variance
        self.quadratic = torch.zeros_like(self.mean)

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

    @property
    def features(self) -> Tensor:
        r"""``u x r`` features of the inputs."""
        return self._storage[:, : len(self.sketch.gram)]

    @property
    def variance(self) -> Tensor:
        r"""``u`` latent variances."""
        return self.residual_variance + self.alpha * self.quadratic

    @torch.no_grad()
    def observe(self, index: Tensor, residuals: Tensor) -> "SketchedData":
        r"""With more outcomes minus prior means, and inducing points drawn again.

        ``index`` are the places of the ``n`` observations among the inputs.
        """
        state = copy(self)
        state.tally = self.tally.extended(index, residuals)
        seen = state.observed
        drawn, state.generator_state = draw(
            inclusion_probabilities(
                self.variance[seen], state.counts[seen], self.alpha, self.qbar
            ),
            self.generator_state,
        )
        drawn = seen[drawn]
        new = drawn[~torch.isin(drawn, self.inducing)]
        same = len(new) == 0 and len(drawn) == len(self.inducing)
        if not same and len(self.inducing) + len(new) > self.slack * len(drawn):
            _LOG.debug("%d inducing points drawn, all made anew.", len(drawn))
            return state._anew(drawn)
        _LOG.debug("%d inducing points drawn, %d of them new.", len(drawn), len(new))
        state._learn(state.counts - self.counts, new)
        return state

    @torch.no_grad()
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
        return self.observe(self.inducing[:0], self.mean[:0])

    @torch.no_grad()
    def conditioned(self, inputs: Tensor, residuals: Tensor) -> "SketchedData":
        r"""After observations at inputs that become inducing points, nothing drawn."""
        state, index = self._with_inputs(inputs)
        before, state.tally = state.counts, state.tally.extended(index, residuals)
        places = torch.cat([self.inducing, index]).unique()
        if len(places) > len(self.inducing):
            return state._anew(places)
        state._learn(state.counts - before, places[:0])
        return state

    @torch.no_grad()
    def restored(
        self, inputs: Tensor, tally: Tally, inducing: Tensor, generator_state: Tensor
    ) -> "SketchedData":
        r"""The state of other inputs, observations, inducing points and draws."""
        state = copy(self)
        state._set_inputs(inputs, tally)
        state.generator_state = generator_state
        return state._anew(inducing)

    def moved(self, move: Callable[[Tensor], Tensor]) -> "SketchedData":
        r"""The state computed anew where ``move`` puts tensors; the prior is there."""
        moved = move(self.inputs), Tally(*map(move, self.tally)), move(self.inducing)
        return self.restored(*moved, self.generator_state)

    def _anew(self, inducing: Tensor) -> "SketchedData":
        r"""This state with everything computed again, for other inducing points."""
        self._forget()
        self._learn(torch.zeros_like(self.counts), inducing)
        return self

    def _with_inputs(self, inputs: Tensor) -> tuple["SketchedData", Tensor]:
        r"""The state with the distinct ones of more inputs, and the place of each."""
        state, known = copy(self), len(self.inputs)
        every = torch.cat([self.inputs, inputs])
        first, index = distinct_rows(every)
        if len(first) > known:
            new = every[first[known:]]
            features, left = self.basis.project(new)
            zeros = left.new_zeros(len(new))
            state._set_inputs(
                every[first], Tally(*(torch.cat([t, zeros]) for t in self.tally))
            )
            state._storage = torch.cat([self.features, features])
            state._filled = [features.shape[1]]
            state.residual_variance = torch.cat([self.residual_variance, left])
            told = self.sketch.variance(features, zeros) / self.alpha
            state.quadratic = torch.cat([self.quadratic, told])
            mean = state.prior_mean[known:] + features @ self.sketch.weights
            state.mean = torch.cat([self.mean, mean])
        return state, index[known:]

    def _learn(self, more: Tensor, points: Tensor) -> None:
        r"""Take ``u`` numbers of further observations and then inducing points into it."""
        first, *others = points.split(_PART)
        self._update(more, first)
        for part in others:
            self._update(torch.zeros_like(more), part)

    def _update(self, more: Tensor, points: Tensor) -> None:
        r"""One pass over the features for further observations and inducing points.

        Observations lower the quadratic forms by squares. With the orthonormal directions
        that the inducing points add, the block inverse of the larger ``V`` adds
        ``|rest|^2``, where ``rest`` are the new coordinates less what the old ones predict
        of them; its blocks are blocks of the larger Cholesky factor.
        """
        old, room, features = self.sketch, self.residual_variance, self.features
        told = more.nonzero().squeeze(-1)
        weighted = more[told].sqrt().unsqueeze(-1) * features[told]
        solved = old.solve(weighted.mT)
        factor = ridge_factor(weighted @ solved, 1.0)
        lowering = solve_triangular(factor.mT, solved, upper=True, left=False)
        covariance, spanned = features[:, :0], features[:0].mT
        if len(points):
            known, rank = self.basis.matrix.shape
            self.inducing = torch.cat([self.inducing, points])
            self.basis = self.basis.extended(self.inputs[points], features[points])
            directions = self.basis.matrix[known:, rank:]
            with lazily_evaluate_kernels(False):  # half the time for few columns
                covariance = self.prior.covariance(self.inputs, self.inputs[points])
            covariance = covariance @ directions
            spanned = features[points].mT @ directions
        seen, rank = self.observed, len(old.gram)
        own = features[seen]
        added = _within(covariance[seen] - own @ spanned, room[seen])
        both = torch.cat([own, added], dim=1)
        columns = both.mT @ (self.counts[seen].unsqueeze(-1) * added)
        gram = torch.cat([old.gram + weighted.mT @ weighted, columns[:rank].mT])
        gram = torch.cat([gram, columns], dim=1)
        # The old block of the factor is the old factor: one Cholesky of the larger Gram
        # matrix gives the sketch and, by its last rows, the change of every variance.
        self.sketch = new = Sketch.of(gram, both.mT @ self.tally.sums[seen], self.alpha)
        half = new.factor[rank:, :rank]
        predicting = solve_triangular(new.factor[:rank, :rank].mT, half.mT, upper=True)
        # Thin products are up to twice as fast with columns that are contiguous.
        parts = spanned, predicting, lowering, new.weights[:rank].unsqueeze(-1)
        products = features @ torch.cat([part.mT for part in parts]).mT
        spanned, predicted, drops, mean = products.split([p.shape[1] for p in parts], dim=1)
        added = _within(covariance - spanned, room)
        corner = new.factor[rank:, rank:]
        rest = solve_triangular(corner.mT, added - predicted, upper=True, left=False)
        change = rest.square().sum(-1) - drops.square().sum(-1)
        self.quadratic = (self.quadratic + change).clamp_(min=0.0)
        self.mean = self.prior_mean + (mean + added @ new.weights[rank:, None])[:, 0]
        self.residual_variance = (room - added.square().sum(-1)).clamp_(min=0.0)
        self._append(rank, added)

    def _append(self, rank: int, added: Tensor) -> None:
        r"""Add columns behind the ``rank`` features, in storage that grows geometrically.

        States that follow each other share it, unless another one was there first.
        """
        total = rank + added.shape[1]
        if total > self._storage.shape[1] or self._filled[0] > rank:
            capacity = max(_FIRST_CAPACITY, total + total // 2)
            storage = self._storage.new_empty(len(added), capacity)
            storage[:, :rank] = self._storage[:, :rank]
            self._storage, self._filled = storage, [rank]
        self._storage[:, rank:total] = added
        self._filled[0] = total


def _within(coordinates: Tensor, room: Tensor) -> Tensor:
    r"""``u x k`` coordinates, reduced where round-off explains more than there is."""
    explained = coordinates.square().sum(-1)
    excess = explained > room
    factors = (room / explained.where(excess, 1.0)).sqrt().where(excess, 1.0)
    return coordinates * factors.unsqueeze(-1)


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


def check_noise(name: str, noise_std: float, variance: Tensor) -> None:
    r"""Raise ``ValueError`` where the least noise is rounding beside prior variances."""
    deviation = float(variance.max().sqrt())
    least = _LEAST_NOISE * deviation
    if noise_std < least:
        raise ValueError(
            f"{name} is {noise_std:.3g}; with prior deviations of up to {deviation:.3g} it "
            f"must be at least {least:.3g} to be told from rounding. Give a larger one, or "
            "bring inputs and outcomes to order one."
        )


def ridge_factor(matrix: Tensor, alpha: float) -> Tensor:
    r"""Lower Cholesky factor of ``matrix + alpha I``, for a semi-definite matrix."""
    eye = torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    factor, failed = torch.linalg.cholesky_ex(matrix + alpha * eye)
    if int(failed):
        raise InputDataError(
            f"The ridge parameter (noise variance) {alpha:.3g} is lost in the rounding of "
            "the kernel's values. Use a larger one, or bring the inputs to order one: a "
            "polynomial kernel takes powers of their size."
        )
    return factor
