r"""The state of a kernel bandit: bounds for arms, one observation at a time."""

from typing import NamedTuple, cast

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import finite
from kernelucb._numerics.estimates import estimated_parts
from kernelucb.bandit.bands import Bands
from kernelucb.bandit.observations import Observations, Query
from kernelucb.bandit.rule import Alphas, Bound, Rule
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.martingale_mixture import CovarianceScale
from kernelucb.confidence.norm_bound import NormBoundLike
from kernelucb.regression import KernelRegression
from kernelucb.regression.prior import Prior

_CHUNK = 1024


class KernelBandit:
    r"""Confidence bounds for finite, changing sets of arms, anytime.

    Gives the bounds of the stateless classes (``MartingaleMixtureUCB``,
    ``AbbasiYadkoriUCB``, ``IGPUCB``) after every single observation, at a cost of
    ``O(n^2)`` a round instead of ``O(n^3)``. The exact bound keeps the eigenbasis of the
    older observations, renewed now and then, and a Schur complement for the newest; the
    others keep Cholesky factors that grow row by row.

    Source: Flynn & Reeb (2024), Algorithm 1, and the sources of the classes named above,
    with their assumptions: a kernel and mean fixed before the data, conditionally
    sub-Gaussian noise of scale ``noise_std``, ``||f - mean||_H <= norm_bound``, and
    outcomes that are reported whatever their noise.

    Example:
        >>> bandit = KernelBandit(covar_module, norm_bound=10.0, noise_std=0.1)
        >>> for _ in range(1000):
        ...     arms = torch.rand(100, 3, dtype=torch.float64)
        ...     index = bandit.select(arms)
        ...     bandit.update(arms[index], play(arms[index]))
    """

    @checked
    def __init__(
        self,
        covar_module: Kernel,
        *,
        norm_bound: NormBoundLike = None,
        noise_std: float,
        delta: float = 0.05,
        covariance_scale: CovarianceScale = 1.0,
        bound: Bound = "exact",
        alphas: Alphas = None,
        horizon: int = 1000,
        mean_module: Mean | None = None,
    ) -> None:
        r"""Kernel bandit without observations.

        Args:
            covar_module: Kernel of the prior, output scale included; a float64 copy is
                kept. Trainable parameters count as estimated.
            norm_bound: Bound on the RKHS norm of ``f - mean``, outcome units. By default
                it is estimated from the data by ``NormTracker.cautious()``, again after
                every sixteenth part of new observations, and never falls.
            noise_std: Sub-Gaussian noise scale, outcome units.
            delta: Failure probability of all rounds together.
            covariance_scale: Scale ``c`` of the martingale mixture, several, or
                ``"mixture"``; see ``MartingaleMixtureUCB``.
            bound: ``"exact"`` (the maximum over the confidence set), ``"grid"`` (the
                minimum over a grid of ridge parameters), ``"analytic"`` (one of them),
                ``"abbasi_yadkori"`` or ``"igp"``.
            alphas: Ridge parameters, outcome units squared: a grid for ``"grid"`` (the
                paper's when absent), one number for ``"analytic"`` (``noise_std^2 / c``
                when absent) and ``"abbasi_yadkori"`` (``noise_std^2`` when absent).
            horizon: Number of rounds that ``"igp"`` must hold for.
            mean_module: Known prior mean; zero when absent.

        Raises:
            ValueError: If an argument is out of its range.
        """
        self.rule = Rule.of(
            bound, norm_bound, noise_std, delta, covariance_scale, alphas, horizon
        )
        self._estimated = estimated_parts(covar_module, mean_module)
        self.prior = Prior(covar_module, mean_module)
        self._reset()

    def _reset(self) -> None:
        self.observations = Observations(self.prior, self.rule.noise_std)
        self._bands = Bands(self.rule, self.observations)
        self._last: Query | None = None

    @property
    def num_observations(self) -> int:
        r"""Number of observations ``n``."""
        return self.observations.count

    @property
    def prior_std(self) -> float:
        r"""Prior standard deviation of the outcome (root mean square over the inputs).

        Raises:
            InputDataError: If there are no observations yet.
        """
        if self.num_observations == 0:
            raise InputDataError("There are no observations yet; add one first.")
        return float(self.prior.variance(self.observations.inputs).mean().sqrt())

    @property
    def assumptions(self) -> Assumptions:
        r"""What the guarantee rests on, and what the data contradict."""
        # Only what describes the model is read, and there may be no data yet.
        noise_std = torch.tensor([self.rule.noise_std], dtype=torch.float64)
        given = _Given(self._estimated, noise_std)
        assumptions = self.rule.assumptions(cast(KernelRegression, given))
        contradiction = self._bands.contradiction()
        return assumptions.with_item(contradiction) if contradiction else assumptions

    @checked
    @torch.no_grad()
    def bounds(self, arms: Tensor) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound at arms.

        Args:
            arms: ``a x d`` arms.

        Returns:
            Two ``a``-vectors in outcome units, float64.

        Raises:
            BotorchTensorDimensionError: If the shape is another.
            InputDataError: If a value is not finite.
        """
        mean, lower, upper = self._supports(self._checked_arms(arms), (-1, 1))
        return mean - lower, mean + upper

    @checked
    @torch.no_grad()
    def select(self, arms: Tensor) -> int:
        r"""Index of the arm with the largest upper bound, the first where several tie.

        Args:
            arms: ``a x d`` arms, at least one.
        """
        arms = self._checked_arms(arms)
        if len(arms) == 0:
            raise InputDataError("There are no arms to select from.")
        mean, upper = self._supports(arms, (1,))
        return int((mean + upper).argmax())

    @checked
    @torch.no_grad()
    def update(self, x: Tensor, y: float | Tensor) -> None:
        r"""Add one observation.

        Args:
            x: The arm played, ``d`` or ``1 x d``.
            y: Its outcome, one number.

        Raises:
            BotorchTensorDimensionError: If a shape is another.
            InputDataError: If a value is not finite.
            ValueError: If ``bound="igp"`` and its horizon is over.
        """
        x = self._checked_arms(x.unsqueeze(0) if x.dim() == 1 else x)
        y = torch.as_tensor(y, dtype=torch.float64)
        if len(x) != 1 or y.numel() != 1:
            raise BotorchTensorDimensionError(
                f"update takes one arm and one outcome, got {len(x)} and {y.numel()}."
            )
        outcome = float(finite("y", y))
        if self.rule.bound == "igp" and self.num_observations >= self.rule.horizon:
            raise ValueError(
                f"horizon is {self.rule.horizon}, and there are as many observations "
                "already; the bound holds up to the horizon only."
            )
        query = self._recalled(x)
        self._last = None
        self._bands.update(query, outcome)

    def state_dict(self) -> dict[str, Tensor]:
        r"""The observations and what the numerics remember, as tensors.

        Save it with ``torch.save``; a bandit made with the same arguments resumes from it.
        """
        return {
            "inputs": self.observations.inputs.clone(),
            "outcomes": self.observations.outcomes.clone(),
            **self._bands.state_dict(),
        }

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        r"""Resume from ``state_dict()`` of a bandit made with the same arguments.

        Args:
            state_dict: Tensors as saved.

        Raises:
            InputDataError: If entries are missing or not finite.
            BotorchTensorDimensionError: If their shapes do not fit together.
            ValueError: If ``bound="igp"`` and its horizon is over.
        """
        missing = {"inputs", "outcomes"} - state_dict.keys()
        if missing:
            raise InputDataError(f"The state lacks {', '.join(sorted(missing))}.")
        inputs, outcomes = state_dict["inputs"], state_dict["outcomes"]
        if inputs.dim() != 2 or outcomes.shape != inputs.shape[:1]:
            raise BotorchTensorDimensionError(
                "inputs must be `n x d` and outcomes `n`, got shapes "
                f"{tuple(inputs.shape)} and {tuple(outcomes.shape)}."
            )
        finite("inputs", inputs)
        finite("outcomes", outcomes)
        if self.rule.bound == "igp" and len(outcomes) > self.rule.horizon:
            raise ValueError(
                f"horizon is {self.rule.horizon}, and the state has {len(outcomes)} "
                "observations; the bound holds up to the horizon only."
            )
        self._reset()
        self._bands.replay(inputs.to(self.observations.inputs), outcomes, state_dict)

    def _supports(self, arms: Tensor, signs: tuple[int, ...]) -> list[Tensor]:
        r"""Prior mean and largest deviations from it, to each side."""
        parts = []
        for chunk in arms.split(_CHUNK) if len(arms) else [arms]:
            self._last = self.observations.query(chunk)
            parts.append([self._last.prior_mean, *self._bands.supports(self._last, signs)])
        return [torch.cat(values) for values in zip(*parts, strict=True)]

    def _recalled(self, x: Tensor) -> Query:
        r"""An arm as the observations see it, from the last query where it was there."""
        if self._last is not None:
            match = (self._last.inputs == x).all(-1).nonzero()
            if len(match):
                index = int(match[0])
                return self._last.at(index)
        return self.observations.query(x)

    def _checked_arms(self, arms: Tensor) -> Tensor:
        if arms.dim() != 2:
            raise BotorchTensorDimensionError(
                f"Arms must be `a x d`, got shape {tuple(arms.shape)}."
            )
        dimension = self.observations.dimension
        if dimension is not None and arms.shape[1] != dimension:
            raise BotorchTensorDimensionError(
                f"Arms have {arms.shape[1]} columns; those observed have {dimension}."
            )
        return finite("The arms", arms).detach().to(self.observations.inputs)


class _Given(NamedTuple):
    estimated: frozenset[str]
    noise_std: Tensor
