r"""Observations, and inducing points that are drawn from them by posterior variance."""

from typing import Any

import torch
from torch import Tensor

from kernelucb._numerics.frozen import Fixed, draft_of
from kernelucb.regression.lowrank.basis import Basis, EigenBasis
from kernelucb.regression.lowrank.draws import draw, first_state, inclusion_probabilities
from kernelucb.regression.lowrank.sketch import ROWS, Sketch
from kernelucb.regression.pooling import Change, Tally
from kernelucb.regression.prior import Prior

# Observations of the first step are drawn with prior variances, all at once.
_FIRST_BLOCK = 64
_COMPARED = 8  # inputs at which a saved state shows its kernel


class DTCState(Fixed):
    r"""The deterministic training conditional of inducing points drawn from the data.

    See ``Sketch`` for the formulas. With the inducing points as they are, an observation
    costs ``O(r^3)``; drawing them again costs ``O(u m^2)`` for ``u`` distinct inputs. Each
    step makes another state and leaves this one as it is.

    Source: Calandriello et al. (2019), Algorithm 1 and Eq. 4.

    Attributes:
        distinct_inputs: ``u x d'`` kernel inputs in the order in which they came.
        counts: ``u`` numbers of observations.
        sums: ``u`` sums of outcomes minus prior means.
        squares: ``u`` sums of their squares.
        inducing_index: ``m`` positions of the inducing points among the distinct inputs.
        prior_values: Kernel matrix of the first inputs, to tell saved kernels apart.
        features: ``u x r`` features of the distinct inputs.
        residual_variance: ``u`` values, what the features leave of the prior variances.
        sketch: The observations as the features see them.
    """

    distinct_inputs: Tensor
    counts: Tensor
    sums: Tensor
    squares: Tensor
    inducing_index: Tensor
    generator_state: Tensor
    prior_values: Tensor
    features: Tensor
    residual_variance: Tensor

    def __init__(
        self, prior: Prior, like: Tensor, alpha: float, qbar: float, seed: int
    ) -> None:
        r"""State without observations.

        Args:
            prior: Prior in the units of the outcomes.
            like: ``n x d'`` kernel inputs, of which shape and device count.
            alpha: Ridge parameter, in the squared units of the outcomes.
            qbar: Oversampling factor: inducing points grow in proportion.
            seed: Seed of the draws.
        """
        super().__init__()
        self.prior, self.alpha, self.qbar = prior, alpha, qbar
        tally = Tally.empty(like)
        for name, value in zip(_TALLY, tally, strict=True):
            self.register_buffer(name, value)
        index = torch.empty(0, dtype=torch.long, device=like.device)
        self.register_buffer("inducing_index", index)
        self.register_buffer("generator_state", first_state(seed))
        self.register_buffer("prior_values", like.new_zeros(0, 0))
        self.register_buffer("features", like.new_zeros(0, 0), persistent=False)
        self.register_buffer("residual_variance", tally.counts, persistent=False)
        self.basis = Basis.empty(prior, like)
        self.sketch = Sketch.empty(0, alpha, like)
        self._variance = self.sketch, tally.counts

    @property
    def tally(self) -> Tally:
        r"""The observations."""
        return Tally(*(getattr(self, name) for name in _TALLY))

    @property
    def num_observations(self) -> int:
        r"""Number of observations, repeats included."""
        return int(self.counts.sum())

    @property
    def variance(self) -> Tensor:
        r"""``u`` latent variances at the distinct inputs."""
        if self._variance[0] is not self.sketch:
            value = self.sketch.variance(self.features, self.residual_variance)
            self._variance = self.sketch, value
        return self._variance[1]

    @property
    def prior_variance(self) -> Tensor:
        r"""``u`` prior variances at the distinct inputs."""
        return self.prior.variance(self.distinct_inputs)

    @torch.no_grad()
    def observe(self, inputs: Tensor, residuals: Tensor) -> "DTCState":
        r"""With more observations, and the inducing points drawn again.

        In blocks that at most double the number of observations: a block is drawn with the
        variances of the step before, which are larger: as accurate, and more generous.

        Args:
            inputs: ``n x d'`` kernel inputs.
            residuals: ``n`` outcomes minus prior means.
        """
        state, start = draft_of(self), 0
        while start < len(inputs):
            block = slice(start, start + max(_FIRST_BLOCK, state.num_observations))
            state._add_resampled(inputs[block], residuals[block])
            start = block.stop
        return state

    def _add_resampled(self, inputs: Tensor, residuals: Tensor) -> None:
        known, before = len(self.counts), self.variance
        change = self._add(inputs, residuals)
        features, left = self._project(self.distinct_inputs[known:])
        if not self._resample(torch.cat([before, self.sketch.variance(features, left)])):
            self._extend(features, left, change)

    @torch.no_grad()
    def conditioned(self, inputs: Tensor, residuals: Tensor) -> "DTCState":
        r"""With more observations, whose inputs become inducing points, without a draw.

        Args:
            inputs: ``n x d'`` kernel inputs.
            residuals: ``n`` outcomes minus prior means.
        """
        state = draft_of(self)
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
        r"""With inducing points drawn again, by the variances of now."""
        state = draft_of(self)
        state._resample(self.variance)
        return state

    @torch.no_grad()
    def replaced(
        self, tally: Tally, inducing_index: Tensor, generator_state: Tensor
    ) -> "DTCState":
        r"""With other observations and inducing points; see the attributes."""
        state = draft_of(self)
        state._set_tally(tally)
        state.inducing_index, state.generator_state = inducing_index, generator_state
        state._refresh()
        return state

    def _set_tally(self, tally: Tally) -> None:
        for name, value in zip(_TALLY, tally, strict=True):
            setattr(self, name, value)

    def _add(self, inputs: Tensor, residuals: Tensor) -> Change:
        tally, change = self.tally.extended(inputs, residuals)
        self._set_tally(tally)
        return change

    def _resample(self, variance: Tensor) -> bool:
        r"""Draw inducing points; whether they are others than before."""
        probabilities = inclusion_probabilities(
            variance, self.counts, self.alpha, self.qbar
        )
        index, self.generator_state = draw(probabilities, self.generator_state)
        if torch.equal(index, self.inducing_index):
            return False
        self.inducing_index = index
        self._refresh()
        return True

    def _extend(self, features: Tensor, left: Tensor, change: Change) -> None:
        r"""Update what is computed, for the same inducing points."""
        index, counts, sums, _ = change
        self.features = torch.cat([self.features, features])
        self.residual_variance = torch.cat([self.residual_variance, left])
        self.sketch = self.sketch.observe(self.features[index], counts, sums)

    def _refresh(self) -> None:
        r"""Compute everything anew from the observations and the inducing points."""
        inputs = self.distinct_inputs
        first = inputs[:_COMPARED]
        self.prior_values = self.prior.covariance(first, first)
        self.basis = EigenBasis.of(self.prior, inputs[self.inducing_index])
        self.features, self.residual_variance = self._project(inputs)
        empty = Sketch.empty(self.features.shape[1], self.alpha, inputs)
        self.sketch = empty.observe(self.features, self.counts, self.sums)

    def _project(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        r"""Of very many inputs, in memory for hardly more than the result."""
        features = inputs.new_empty(len(inputs), self.basis.matrix.shape[-1])
        residual_variance = inputs.new_empty(len(inputs))
        for start in range(0, len(inputs), ROWS):
            rows = slice(start, start + ROWS)
            features[rows], residual_variance[rows] = self.basis.project(inputs[rows])
        return features, residual_variance

    def _apply(self, fn: Any, recurse: bool = True) -> "DTCState":
        super()._apply(fn, recurse)
        tensors = {k: v for k, v in self.sketch._asdict().items() if k != "alpha"}
        moved = {name: fn(value) for name, value in tensors.items()}
        self.sketch = self.sketch._replace(**moved)
        return self


_TALLY = ("distinct_inputs", "counts", "sums", "squares")
