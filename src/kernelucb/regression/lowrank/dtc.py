r"""Observations, and inducing points that are drawn from them by posterior variance."""

from collections.abc import Callable
from copy import copy

import torch
from numpy.random import SeedSequence
from torch import Tensor

from kernelucb.regression.lowrank.basis import Basis, EigenBasis
from kernelucb.regression.lowrank.sketch import ROWS, Sketch, Sketched
from kernelucb.regression.pooling import Change, Tally
from kernelucb.regression.prior import Prior

# Observations of the first step are drawn with prior variances, all at once.
_FIRST_BLOCK = 64
_PURPOSE = 0x424B42  # any number


class DTCState(Sketched):
    r"""The deterministic training conditional of inducing points drawn from the data.

    The inputs are the distinct observed ones, in the order in which they came. With the
    inducing points as they are, an observation costs ``O(r^3)``; drawing them again costs
    ``O(u m^2)`` for ``u`` distinct inputs. See ``Sketch`` for the formulas.

    Source: Calandriello et al. (2019), Algorithm 1 and Eq. 4.

    Attributes:
        qbar: Oversampling factor: inducing points grow in proportion.
        inducing_index: ``m`` positions of the inducing points among the inputs.
        generator_state: State of the generator of the draws.
    """

    def __init__(
        self, prior: Prior, like: Tensor, alpha: float, qbar: float, seed: int
    ) -> None:
        r"""State without observations, for kernel inputs like ``n x d'`` ones."""
        self.prior, self.qbar = prior, qbar
        self.inputs, self.counts, self.sums, self.squares = Tally.empty(like)
        self.residual_variance = self.counts
        self.inducing_index = torch.empty(0, dtype=torch.long, device=like.device)
        self.generator_state = first_state(seed)
        self.basis: Basis = Basis.empty(prior, like)
        self._features = like.new_zeros(0, 0)
        self._sketched(Sketch.empty(0, alpha, like))

    @property
    def tally(self) -> Tally:
        r"""The observations."""
        return Tally(self.inputs, self.counts, self.sums, self.squares)

    @property
    def features(self) -> Tensor:
        r"""``u x r`` features of the inputs."""
        return self._features

    @property
    def variance(self) -> Tensor:
        r"""``u`` latent variances at the inputs; computed when first asked for."""
        if self._variance is None:
            self._variance = self.sketch.variance(self.features, self.residual_variance)
        return self._variance

    @torch.no_grad()
    def observe(self, inputs: Tensor, residuals: Tensor) -> "DTCState":
        r"""The state after more observations, with inducing points drawn again.

        In blocks that at most double the number of observations: a block is drawn with the
        variances of the step before, which are larger: as accurate, and more generous.
        ``residuals`` are outcomes minus prior means.
        """
        state, start = copy(self), 0
        while start < len(inputs):
            block = slice(start, start + max(_FIRST_BLOCK, state.num_observations))
            known, before = len(state.counts), state.variance
            change = state._add(inputs[block], residuals[block])
            features, left = state._project(state.inputs[known:])
            after = torch.cat([before, state.sketch.variance(features, left)])
            if not state._resample(after):
                state._extend(features, left, change)
            start = block.stop
        return state

    @torch.no_grad()
    def conditioned(self, inputs: Tensor, residuals: Tensor) -> "DTCState":
        r"""The state after observations whose inputs become inducing points, undrawn."""
        state = copy(self)
        change = state._add(inputs, residuals)
        index = torch.cat([self.inducing_index, change.places]).unique()
        if len(index) > len(self.inducing_index):
            state.inducing_index = index
            state._refresh()
        else:
            state._extend(self.features[:0], self.residual_variance[:0], change)
        return state

    @torch.no_grad()
    def resampled(self) -> "DTCState":
        r"""The state with inducing points drawn again, by the variances of now."""
        state = copy(self)
        state._resample(self.variance)
        return state

    @torch.no_grad()
    def replaced(
        self, tally: Tally, inducing_index: Tensor, generator_state: Tensor
    ) -> "DTCState":
        r"""A state of other observations and inducing points; see the attributes."""
        state = copy(self)
        state.inputs, state.counts, state.sums, state.squares = tally
        state.inducing_index, state.generator_state = inducing_index, generator_state
        state._refresh()
        return state

    def moved(self, move: Callable[[Tensor], Tensor]) -> "DTCState":
        r"""The state computed anew where ``move`` puts tensors; the prior is there."""
        tally = Tally(*map(move, self.tally))
        return self.replaced(tally, move(self.inducing_index), self.generator_state)

    def _add(self, inputs: Tensor, residuals: Tensor) -> Change:
        tally, change = self.tally.extended(inputs, residuals)
        self.inputs, self.counts, self.sums, self.squares = tally
        return change

    def _resample(self, variance: Tensor) -> bool:
        r"""Draw inducing points; whether they are others than before."""
        probabilities = inclusion_probabilities(
            variance, self.counts, self.sketch.alpha, self.qbar
        )
        index, self.generator_state = draw(probabilities, self.generator_state)
        if torch.equal(index, self.inducing_index):
            return False
        self.inducing_index = index
        self._refresh()
        return True

    def _extend(self, features: Tensor, left: Tensor, change: Change) -> None:
        r"""Update what is computed, for the same inducing points."""
        self._features = torch.cat([self.features, features])
        self.residual_variance = torch.cat([self.residual_variance, left])
        index, counts, sums, _ = change
        self._sketched(self.sketch.observe(self.features[index], counts, sums))

    def _refresh(self) -> None:
        r"""Compute everything anew from the observations and the inducing points."""
        self.basis = EigenBasis.of(self.prior, self.inputs[self.inducing_index])
        self._features, self.residual_variance = self._project(self.inputs)
        empty = Sketch.empty(self.features.shape[1], self.sketch.alpha, self.inputs)
        self._sketched(empty.observe(self.features, self.counts, self.sums))

    def _sketched(self, sketch: Sketch) -> None:
        self.sketch, self._variance = sketch, None

    def _project(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        r"""Features of very many inputs, in memory for hardly more than the result."""
        features = inputs.new_empty(len(inputs), self.basis.matrix.shape[-1])
        residual_variance = inputs.new_empty(len(inputs))
        for start in range(0, len(inputs), ROWS):
            rows = slice(start, start + ROWS)
            features[rows], residual_variance[rows] = self.basis.project(inputs[rows])
        return features, residual_variance


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
    uniform, state = uniform_numbers(len(probabilities), state)
    drawn = (uniform.to(probabilities.device) < probabilities).nonzero().squeeze(-1)
    if len(drawn) == 0:
        drawn = probabilities.argmax().reshape(1)
    return drawn, state


def draw_some(weights: Tensor, size: int, state: Tensor) -> tuple[Tensor, Tensor]:
    r"""Like ``draw``, with a given number of inputs, nearly in proportion to weights.

    Those with the smallest ``u / weight`` for uniform ``u``; all where there are no more.

    Source: Ohlsson (1998), sequential Poisson sampling.
    """
    uniform, state = uniform_numbers(len(weights), state)
    order = (uniform.to(weights.device) / weights).argsort()
    return order[:size].sort().values, state


def first_state(seed: int) -> Tensor:
    r"""State of a generator that ``torch.manual_seed(seed)`` has nothing in common with.

    With the same numbers as in random inputs, draws would depend on where these lie.
    """
    mixed = SeedSequence([_PURPOSE, seed % 2**64]).generate_state(1)
    return torch.Generator().manual_seed(int(mixed[0])).get_state()


def uniform_numbers(count: int, state: Tensor) -> tuple[Tensor, Tensor]:
    r"""``count`` float64 numbers in [0, 1) on the CPU, and the generator's next state."""
    generator = torch.Generator()
    generator.set_state(state.cpu())
    numbers = torch.rand(count, dtype=torch.float64, generator=generator)
    return numbers, generator.get_state()
