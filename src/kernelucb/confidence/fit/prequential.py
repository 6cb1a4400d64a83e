r"""A radius from predictions made one step ahead, by any model."""

import math
from typing import Any

import torch
from botorch.exceptions import BotorchTensorDimensionError
from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics import states
from kernelucb._numerics.arguments import checked
from kernelucb._numerics.arrays import in_parts
from kernelucb._numerics.checks import (
    LARGEST,
    SMALLEST,
    as_double,
    finite,
    positive_values,
    probability,
)
from kernelucb._numerics.estimates import estimated, is_estimate
from kernelucb._numerics.exclusive import Exclusive
from kernelucb.confidence.assumptions import Assumption, Status
from kernelucb.confidence.fit.energy import energy_source, with_energy
from kernelucb.confidence.fit.mixture import Radius
from kernelucb.confidence.fit.predictions import (
    ROUNDED,
    Rows,
    check_predicts,
    predicted,
    rows_of,
    same_inputs,
    same_sums,
    saved_rows,
)
from kernelucb.exceptions import StateError
from kernelucb.regression import KernelRegression, NystromRegression, RidgeState

PREDICTED = Assumption(
    "predictions",
    "the predictions behind the radius were made before their outcomes arrived, and the "
    "noise scales were not fitted to these",
    Status.GIVEN,
)
_LARGEST_SQUARE = LARGEST**4  # of an outcome over a noise scale


class PrequentialRadius:
    r"""Radius of the fit that stays valid when the predicting model is refitted, anytime.

    Every outcome is predicted from the past before it arrives, by any rule: latent mean
    ``m_s`` and variance ``v_s`` at its input. With probability ``1 - delta``, for all
    rounds at once, the true function's values at the inputs lie within ``r`` noise units of
    the outcomes, with ``r^2`` at most 0.45 above

        ``sum_s [ (y_s - m_s)^2 / (noise_s^2 + v_s) + ln(1 + v_s / noise_s^2) ]
        + 2 ln(1/delta)``

    and about what the energy of the noise allows where the predictions are bad. No theorem
    covers the closed form of a kernel that was refitted to the same data. The norm bound
    refers to one kernel fixed in advance: give ``MartingaleMixtureUCB`` a model with that
    kernel and all data, and this radius. The refitted model predicts, and may choose the
    points.

    Source: Flynn & Reeb (2024), Theorem 4.1 with the sequence of predictive distributions
    as the mixture (ours); for a fixed kernel scaled by ``c`` it is their Eq. (8). Assumes
    conditionally sub-Gaussian noise of that scale, and predictions from the past only.

    Example:
        >>> radius = PrequentialRadius(delta=0.05)
        >>> for _ in range(rounds):
        ...     radius.observe(refitted_model, x, y, noise_std=0.1)  # fitted without y
        ...     acqf = MartingaleMixtureUCB(
        ...         KernelRegression(X, Y, fixed_kernel, 0.1), norm_bound=B, fit=radius
        ...     )

    Attributes:
        delta: Failure probability.
    """

    source = energy_source(
        "Flynn & Reeb (2024), Theorem 4.1, for predictions one step ahead"
    )

    @checked
    def __init__(self, delta: float = 0.05) -> None:
        r"""Radius before any observation.

        Args:
            delta: Failure probability.

        Raises:
            ValueError: If it is not strictly between 0 and 1.
        """
        self.delta = probability("delta", delta)
        self._exclusive = Exclusive()
        self._squared = self._least_squared
        self._noise_std: list[float] = []
        self._estimated = False  # whether a noise scale was
        self._outcomes: list[float] = []
        self._inputs: Rows = []

    @property
    def _least_squared(self) -> float:
        r"""That of the predictions before the first, which can only add to it."""
        return 2.0 * math.log(1.0 / self.delta)

    @property
    def num_observations(self) -> int:
        r"""Number of observations so far."""
        return len(self._noise_std)

    @property
    def squared(self) -> float:
        r"""``r^2``, noise units."""
        return with_energy(self._squared, self.num_observations, self.delta)

    @property
    def noise_std(self) -> Tensor:
        r"""Noise scales of the observations, in order, outcome units."""
        noise = torch.tensor(self._noise_std, dtype=torch.float64)
        return estimated(noise) if self._estimated else noise

    @checked
    def observe_predictions(
        self,
        mean: float | Tensor,
        variance: float | Tensor,
        outcome: float | Tensor,
        noise_std: float | Tensor,
        X: Tensor,
    ) -> None:
        r"""Add outcomes, one or ``n``, with what was predicted before they arrived.

        Args:
            mean: Predicted means, outcome units.
            variance: Predicted *latent* variances, without noise, outcome units squared.
            outcome: Outcomes.
            noise_std: Sub-Gaussian noise scale, one number or one per outcome; known, not
                fitted to these outcomes.
            X: ``n x d`` raw inputs of the outcomes, or the ``d`` numbers of a single one.
                The radius holds for the data with these, in this order.

        Raises:
            BotorchTensorDimensionError: If the numbers of values differ.
            InputDataError: If a value is not finite.
            ValueError: If a variance is negative or a noise scale not above 0.
        """
        given = {"mean": mean, "variance": variance, "outcome": outcome}
        means, variances, outcomes = (
            finite(name, torch.as_tensor(value).detach().double().cpu().reshape(-1))
            for name, value in given.items()
        )
        if not len(means) == len(variances) == len(outcomes):
            raise BotorchTensorDimensionError(
                f"There are {len(means)} means, {len(variances)} variances and "
                f"{len(outcomes)} outcomes; give one of each for every observation."
            )
        if bool((variances < 0.0).any()):
            raise ValueError("variance must not be negative.")
        noise = positive_values("noise_std", noise_std, len(outcomes)).cpu()
        squares = noise.square()
        terms = (outcomes - means).square() / (squares + variances)
        terms = terms + torch.log1p(variances / squares)
        rows = rows_of(X, len(outcomes), self._inputs)
        with self._exclusive:
            self._keep(
                self._squared + float(terms.sum()),
                self._noise_std + noise.tolist(),
                self._outcomes + outcomes.tolist(),
                self._inputs + rows,
                self._estimated or is_estimate(noise_std),
            )

    def _keep(
        self,
        squared: float,
        noise_std: list[float],
        outcomes: list[float],
        inputs: Rows,
        noise_was_estimated: bool,
    ) -> None:
        # In one step: an interrupt leaves the old or the new record.
        kept = {"_noise_std": noise_std, "_outcomes": outcomes, "_inputs": inputs}
        vars(self).update(_squared=squared, _estimated=noise_was_estimated, **kept)

    @checked
    @torch.no_grad()
    def observe(
        self, model: Model, X: Tensor, Y: Tensor, noise_std: float | Tensor
    ) -> None:
        r"""Add outcomes predicted by a BoTorch model that has not seen them.

        Args:
            model: Fitted to earlier data only; its latent posterior is the prediction.
            X: ``n x d`` inputs that were chosen together, or a single one of ``d`` numbers.
            Y: ``n x 1`` or ``n`` outcomes.
            noise_std: As for ``observe_predictions``.

        Raises:
            BotorchTensorDimensionError: If the shapes do not fit each other or the model.
            InputDataError: If a value is not finite.
            UnsupportedError: If the model does not predict the value of one function.
        """
        check_predicts(model, X)
        rows = finite("X", X.reshape(-1, X.shape[-1]))
        if Y.numel() != len(rows):
            raise BotorchTensorDimensionError(
                f"Y must be `n x 1` or `n` with n = {len(rows)}, got shape "
                f"{tuple(Y.shape)}."
            )
        finite("Y", Y)
        positive_values("noise_std", noise_std, len(rows))
        means, variances = in_parts(rows, lambda part: predicted(model, part))
        self.observe_predictions(means, variances.clamp_min(0.0), Y, noise_std, rows)

    @checked
    def radius(self, regression: RidgeState) -> Radius:
        r"""The radius in the form that the confidence sets take.

        Args:
            regression: The same observations under the kernel of the norm bound.

        Raises:
            UnsupportedError: If ``regression`` is not a regression state.
            ValueError: If it does not hold the same observations in the same order: their
                number, noise scales, inputs or outcomes differ.
        """
        noise = regression.noise_scales.cpu()
        own = torch.tensor(self._noise_std, dtype=torch.float64)
        if not (len(noise) == len(own) and torch.equal(noise, own)):
            raise ValueError(
                f"fit holds {len(own)} observations and the model {len(noise)}, or their "
                "noise scales differ; give both the same observations, in order."
            )
        if not self._is_of(regression):
            raise ValueError(
                "fit and the model hold different inputs or outcomes; give both the same "
                "observations, in order."
            )
        tau_ref = 1.0
        slack = self.squared - float(regression.quadratic_form(tau_ref))
        return Radius(tau_ref, slack)

    def _is_of(self, regression: RidgeState) -> bool:
        r"""Whether a state holds these inputs and outcomes; of a sketch, their sums."""
        outcomes = as_double(self._outcomes)
        if isinstance(regression, KernelRegression):
            far = (regression.train_targets.cpu() - outcomes).abs()
            near = far <= ROUNDED * (outcomes.abs() + self.noise_std)
            return bool(near.all()) and same_inputs(self._inputs, regression)
        is_sketch = isinstance(regression, NystromRegression)
        return is_sketch and same_sums(self._inputs, outcomes, regression)

    def state_dict(self) -> dict[str, Any]:
        r"""Plain numbers, for JSON or ``torch.save``."""
        return states.sealed(
            {
                "delta": self.delta,
                "squared": self._squared,
                "noise_std": list(self._noise_std),
                "outcomes": list(self._outcomes),
                "inputs": [list(row) for row in self._inputs],
                "estimated": self._estimated,
            }
        )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        r"""Go on from a saved state.

        Args:
            state_dict: From a radius with the same ``delta``.

        Raises:
            StateError: If the state is not of such a radius; nothing has changed then.
        """
        readers = {
            "delta": states.same(self.delta),
            "squared": states.real(self._least_squared, _LARGEST_SQUARE),
            "noise_std": states.sequence(states.real(SMALLEST, LARGEST)),
            "outcomes": states.sequence(states.real(-LARGEST, LARGEST)),
            "inputs": saved_rows,
            "estimated": states.flag,
        }
        saved = states.read_state("PrequentialRadius", state_dict, readers)
        counts = [len(saved[name]) for name in ("noise_std", "outcomes", "inputs")]
        if len(set(counts)) > 1:
            raise StateError(
                f"The state has {counts[0]} noise scales, {counts[1]} outcomes and "
                f"{counts[2]} inputs; their numbers must agree."
            )
        with self._exclusive:
            names = ("squared", "noise_std", "outcomes", "inputs", "estimated")
            self._keep(*(saved[name] for name in names))
