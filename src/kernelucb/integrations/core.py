r"""From a history of runs to a band, a gap and a report."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from kernelucb._numerics.checks import finite, training_targets
from kernelucb.acquisition import MartingaleMixtureUCB
from kernelucb.certificates import OptimumReport, optimum_report, regret_certificate
from kernelucb.confidence.unknown_noise import UnknownNoise
from kernelucb.exceptions import UncertifiedError
from kernelucb.regression import KernelRegression
from kernelucb.regression.named import fixed_kernel, fixed_mean


@dataclass(frozen=True)
class Settings:
    r"""The assumptions of a band: numbers that were fixed before the first run.

    Inputs are in the unit cube. A stop is certified if ``norm_bound`` is given: for
    sub-Gaussian noise of scale ``noise_std``, or without ``noise_std`` for independent
    Gaussian noise of one unknown scale. A norm bound that is left out is estimated from the
    runs, and the stop is heuristic.

    Attributes:
        norm_bound: Bound on the RKHS norm of ``f - mean``, outcome units.
        noise_std: Sub-Gaussian noise scale, outcome units; None for Gaussian noise of an
            unknown scale.
        kernel: ``"matern52"``, ``"matern32"``, ``"matern12"`` or ``"rbf"``.
        lengthscale: One length scale, or one for each input, as shares of the inputs'
            ranges.
        outputscale: Prior variance, outcome units squared.
        mean: Prior mean, outcome units.
        outcome_range: Least and largest value of the function anywhere, outcome units; None
            if not known.
        delta: Failure probability of all rounds together.
        allow_estimated: Whether to act on an estimated norm bound.

    Raises:
        UncertifiedError: If ``norm_bound`` is left out and ``allow_estimated`` is not set.
    """

    norm_bound: float | None = None
    noise_std: float | None = None
    kernel: str = "matern52"
    lengthscale: float | Sequence[float] = 0.5
    outputscale: float = 1.0
    mean: float = 0.0
    outcome_range: tuple[float, float] | None = None
    delta: float = 0.05
    allow_estimated: bool = False

    def __post_init__(self) -> None:
        if self.norm_bound is None and not self.allow_estimated:
            raise UncertifiedError(
                "A stop needs a norm bound that was given (describe_norm_bound says what a "
                "number means); or pass allow_estimated=True to act on an estimate."
            )


def unit_cube(values: Any, lower: Any, upper: Any) -> Tensor:
    r"""``n x d`` values as shares of ``d`` ranges; 0 where a range is one value."""
    X, low, high = (torch.as_tensor(v, dtype=torch.float64) for v in (values, lower, upper))
    return (X - low) / torch.where(high > low, high - low, 1.0)


@dataclass(frozen=True)
class History:
    r"""Completed runs of one outcome.

    Attributes:
        X: ``n x d`` inputs in the unit cube.
        Y: ``n`` outcomes in their own units.
        maximize: Whether large outcomes are sought.
        names: Names of the ``d`` inputs, for reports.

    Raises:
        InputDataError: If there is no run, or an outcome is not finite.
        BotorchTensorDimensionError: If the shapes do not fit together.
    """

    X: Tensor
    Y: Tensor
    maximize: bool = True
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if len(self.X) == 0:
            raise InputDataError("There is no completed run; a band needs at least one.")
        finite("The outcomes of the history", training_targets(self.X, self.Y))

    @property
    def box(self) -> Tensor:
        r"""``2 x d`` limits of the unit cube."""
        ends = torch.zeros(2, self.X.shape[1], dtype=torch.float64)
        ends[1] = 1.0
        return ends

    def band(self, settings: Settings) -> MartingaleMixtureUCB:
        r"""The band of these runs; see ``MartingaleMixtureUCB``."""
        kernel = fixed_kernel(settings.kernel, settings.lengthscale, settings.outputscale)
        known = settings.noise_std
        # The state wants a number, which an unknown scale does not use.
        noise = math.sqrt(settings.outputscale) if known is None else known
        state = KernelRegression(
            self.X.double(), self.Y, kernel, noise, fixed_mean(settings.mean)
        )
        band = MartingaleMixtureUCB(
            state,
            norm_bound=settings.norm_bound,
            noise_std=UnknownNoise() if known is None else None,
            delta=settings.delta,
            maximize=self.maximize,
        )
        known_range = settings.outcome_range
        return band if known_range is None else band.within(*known_range)

    @property
    def best(self) -> Tensor:
        r"""``1 x d`` inputs of the run with the best outcome, the tools' best run."""
        index = int((self.Y if self.maximize else -self.Y).argmax())
        return self.X[index : index + 1].double()

    def gap(self, settings: Settings, **options: Any) -> float:
        r"""The gap of ``regret_certificate``, outcome units; infinite if not rigorous.

        How much better than ``best`` any point of the unit cube may be; ``options`` are
        those of ``regret_certificate``, for another domain or recommended point. Infinite
        as well where the data contradict an assumption, so that no rule stops.
        """
        if not options.keys() & {"candidates", "bounds", "space"}:
            options = {"bounds": self.box} | options
        options = {"recommended": self.best} | options
        found = regret_certificate(self.band(settings), **options)
        if found.assumptions.violated or not found.rigorous:
            return math.inf
        return found.gap

    def report(self, settings: Settings, **options: Any) -> OptimumReport:
        r"""``optimum_report`` over the unit cube, or over the domain in ``options``."""
        if "candidates" not in options:
            options = {"bounds": self.box} | options
        if self.names is not None:
            units = dict.fromkeys(self.names, "of its range")
            options = {"names": [*self.names], "units": units} | options
        return optimum_report(self.band(settings), **options)
