r"""What a norm bound means, in the units of the outcomes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from botorch.exceptions import BotorchTensorDimensionError
from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import positive_scalar, probability
from kernelucb.confidence.misspecification import ConsistencyCheck, check_consistency
from kernelucb.confidence.norm.ball import Domain, InputChange, NormBall
from kernelucb.regression import KernelRegression

_PARTS = ("kernel", "mean", "noise")
_CAVEAT = (
    "No data can show that a norm bound is large enough: whether it is rests on what you "
    "know of the range and the slope above."
)


@dataclass(frozen=True)
class NormDescription:
    r"""What a norm bound means for a model, outcome units; ``print`` it.

    ``m`` is the prior mean, ``y`` the observed outcomes. Range and changes are those of the
    functions whose norm is at most ``norm_bound``, whether or not the true function is one
    of them.

    Attributes:
        norm_bound: The norm bound that is described.
        range: Largest ``|f(x) - m(x)|`` over the domain.
        across: Largest change of ``f - m`` between any two points of the domain.
        inputs: Changes along each input.
        everywhere: Whether these hold at every point of the domain: for RBF, Matern and
            rational quadratic kernels, without input transform or behind ``Normalize``.
            Otherwise they are the largest over candidates, or over Sobol points and
            corners of the box.
        prior_mean: The prior mean where it is constant; None where it varies.
        largest_observed: Largest observed ``|y - m|``.
        noise_reach: With probability ``1 - delta`` the noise stays below this in all
            observed outcomes.
        consistency: The least consistent norm, and whether the norm bound is below it.
        estimated: Which of kernel, mean and noise may come from the same data.
        delta: Failure probability of ``noise_reach``, and of ``consistency``.
        outcome_unit: Name of the outcome's unit, for the text.
    """

    norm_bound: float
    range: float
    across: float
    inputs: tuple[InputChange, ...]
    everywhere: bool
    prior_mean: float | None
    largest_observed: float
    noise_reach: float
    consistency: ConsistencyCheck
    estimated: tuple[str, ...]
    delta: float
    outcome_unit: str

    @property
    def ratio(self) -> float:
        r"""The norm bound over the least consistent norm; infinite where that is zero."""
        least = self.consistency.least_consistent_norm
        return math.inf if least == 0.0 else self.norm_bound / least

    @property
    def summary(self) -> str:
        r"""What is estimated or contradicted, in one line."""
        if not self.consistency.consistent:
            return (
                "no guarantee: the data contradict the norm bound, the kernel or the noise"
            )
        if self.estimated:
            return f"heuristic: {', '.join(self.estimated)} estimated"
        return "kernel, mean and noise given; the norm bound is yours to justify"

    def __str__(self) -> str:
        lines = [
            self.summary,
            f"What a norm of at most {self.norm_bound:.4g} means, in {self.outcome_unit}:",
            *(f"  {line}" for line in self._meaning()),
            "What the data say:",
            *(f"  {line}" for line in self._evidence()),
            _CAVEAT,
        ]
        return "\n".join(lines)

    def _meaning(self) -> list[str]:
        subject, reach = "f", f"f(x) is within {self.range:.3g} of the prior mean"
        if self.prior_mean is None:
            subject, reach = "f - m", f"{reach} m(x), which varies"
        else:
            low, high = self.prior_mean - self.range, self.prior_mean + self.range
            reach += f" {self.prior_mean:.4g}: between {low:.4g} and {high:.4g}"
        lines = [
            reach,
            f"{subject} changes by at most {self.across:.3g} between any two points; along",
            *(f"  {change}" for change in self.inputs),
        ]
        if not self.everywhere:
            lines.append(
                "these are the largest values at points of the domain, not proven between "
                "them: this prior differs from place to place"
            )
        return lines

    def _evidence(self) -> list[str]:
        least = self.consistency.least_consistent_norm
        observed = (
            f"the largest |y - prior mean| is {self.largest_observed:.3g}; noise alone "
            f"stays below {self.noise_reach:.3g} with probability {1 - self.delta:.6g}"
        )
        if least == 0.0:
            norm = "least consistent norm 0: the data say nothing about the norm yet"
        elif math.isinf(least):
            norm = "no norm is consistent with the data at this noise scale"
        else:
            norm = f"least consistent norm {least:.4g}, {self._status()}; "
            norm += f"the norm bound is {self.ratio:.3g} times that"
        return [observed, norm, self.consistency.remedy]

    def _status(self) -> str:
        if self.estimated:
            return f"not certified: {', '.join(self.estimated)} estimated"
        return (
            f"certified with probability {1 - self.delta:.6g} if kernel, mean and noise "
            "are as given"
        )


@checked
@torch.no_grad()
def describe_norm_bound(
    model: Model | KernelRegression,
    norm_bound: float,
    noise_std: float | Tensor | None = None,
    *,
    bounds: Tensor | None = None,
    candidates: Tensor | None = None,
    steps: Sequence[float] | Tensor | None = None,
    delta: float = 0.05,
    input_names: Sequence[str] | None = None,
    outcome_unit: str = "outcome units",
) -> NormDescription:
    r"""Say what a norm bound means: range, slope, and what the data say about it.

    Compare range and slope with what you know of the process. A function of norm at most
    ``B`` obeys ``|f(x) - m(x)| <= B sqrt(k(x, x))``, and ``f - m`` changes between two
    points by at most ``B d_k(x, x')`` with the kernel metric
    ``d_k = ||k(x, .) - k(x', .)||``. Some function of norm ``B`` attains each.

    Source: Cauchy-Schwarz in the RKHS; ``check_consistency`` for what the data say; for
    ``noise_reach`` the sub-Gaussian tail ``2 exp(-u^2 / 2)`` and a union bound over the
    observations, for their present number and not anytime.

    Example:
        >>> box = torch.tensor([[20.0, 1.0], [100.0, 6.0]], dtype=torch.float64)
        >>> print(describe_norm_bound(model, 30.0, bounds=box, steps=[10.0, 0.5]))

    Args:
        model: A single-output exact GP, or a ``KernelRegression``.
        norm_bound: Bound on the RKHS norm of ``f - mean``, outcome units.
        noise_std: Noise scale in outcome units; from the likelihood when absent.
        bounds: ``2 x d`` lower and upper limits of a box. Either these or ``candidates``.
        candidates: ``n x d`` points, all of the domain.
        steps: ``d`` steps, one along each input, for which the largest change is given;
            raw units. By default a tenth of the domain.
        delta: Failure probability of each statement about the data.
        input_names: ``d`` names of the inputs, for the text.
        outcome_unit: Name of the outcome's unit, for the text, which adds the transform
            that the model's outcomes went through (Log, Power, Bilog), if any.

    Raises:
        ValueError: If a scalar is out of its range, or not exactly one of ``bounds`` and
            ``candidates`` is given.
        BotorchTensorDimensionError: If a shape or a number of names does not fit.
        InputDataError: If a value is not finite.
        UnsupportedError: If the model cannot be represented.
    """
    norm_bound = positive_scalar("norm_bound", norm_bound)
    probability("delta", delta)
    regression = KernelRegression.of(model, noise_std)
    domain = Domain.of(bounds, candidates, regression.dimension)
    ball = NormBall(regression, regression.norm_in_prior_units(norm_bound), domain)
    residuals = regression.train_targets - regression.prior.mean(regression.train_inputs)
    return NormDescription(
        norm_bound=norm_bound,
        range=ball.range,
        across=ball.across,
        inputs=_changes(ball, domain, steps, input_names),
        everywhere=ball.everywhere,
        prior_mean=_constant_mean(regression, domain),
        largest_observed=float(residuals.abs().max()),
        noise_reach=_noise_reach(regression, delta),
        consistency=check_consistency(regression, norm_bound, delta=delta),
        estimated=tuple(part for part in _PARTS if part in regression.estimated),
        delta=delta,
        outcome_unit=f"{outcome_unit}{regression.outcome_map.after}",
    )


def _changes(
    ball: NormBall,
    domain: Domain,
    steps: Sequence[float] | Tensor | None,
    names: Sequence[str] | None,
) -> tuple[InputChange, ...]:
    sides = domain.sides.tolist()
    if names is None:
        names = [f"input {column}" for column in range(len(sides))]
    if len(names) != len(sides):
        raise BotorchTensorDimensionError(
            f"input_names must be {len(sides)} names, one for each input, got {names!r}."
        )
    return tuple(
        InputChange(
            name=names[column],
            step=step,
            over_step=ball.change(column, step),
            over_side=ball.change(column, side),
            side=side,
            slope=ball.slope(column),
        )
        for column, (step, side) in enumerate(
            zip(_checked_steps(steps, sides), sides, strict=True)
        )
    )


def _checked_steps(
    steps: Sequence[float] | Tensor | None, sides: list[float]
) -> list[float]:
    if steps is None:
        return [0.1 * side for side in sides]
    listed = steps.reshape(-1) if isinstance(steps, Tensor) else steps
    values = [positive_scalar("Every one of steps", step) for step in listed]
    if len(values) != len(sides):
        raise BotorchTensorDimensionError(
            f"steps must be {len(sides)} numbers, one for each input, got {len(values)}."
        )
    for step, side in zip(values, sides, strict=True):
        if step > side:
            raise ValueError(
                f"steps must lie within the domain: {step:.6g} is longer than its side of "
                f"{side:.6g}."
            )
    return values


def _constant_mean(regression: KernelRegression, domain: Domain) -> float | None:
    r"""The prior mean if it is the same at all points of the domain and the data."""
    prior = regression.prior
    points = prior.transform(domain.points.to(regression.eigenvalues))
    means = prior.mean(torch.cat([points, regression.train_inputs]))
    return float(means[0]) if bool((means == means[0]).all()) else None


def _noise_reach(regression: KernelRegression, delta: float) -> float:
    deviations = math.sqrt(2.0 * math.log(2.0 * regression.num_observations / delta))
    return deviations * float(regression.noise_std.max())
