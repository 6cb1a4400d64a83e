r"""What a norm bound means, in the units of the outcomes."""

import math
from collections.abc import Sequence
from typing import Any, overload

import torch
from botorch.exceptions import BotorchTensorDimensionError
from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import positive_scalar, probability
from kernelucb._numerics.estimates import EstimatedNumber
from kernelucb.confidence.misspecification import check_consistency, data_of
from kernelucb.confidence.norm.ball import Domain, InputChange, NormBall
from kernelucb.confidence.norm.described import (
    LikelihoodNormDescription,
    NormDescription,
    Tally,
)
from kernelucb.regression import KernelRegression
from kernelucb.regression.likelihood.regression import LikelihoodRegression

_PARTS = ("kernel", "mean", "noise")


@overload
def describe_norm_bound(
    model: LikelihoodRegression,
    norm_bound: float,
    *,
    bounds: Tensor | None = None,
    candidates: Tensor | None = None,
    steps: Sequence[float] | Tensor | None = None,
    delta: float = 0.05,
    input_names: Sequence[str] | None = None,
    outcome_unit: str | None = None,
) -> LikelihoodNormDescription: ...
@overload
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
    outcome_unit: str | None = None,
) -> NormDescription: ...


@checked
@torch.no_grad()
def describe_norm_bound(
    model: Model | KernelRegression | LikelihoodRegression,
    norm_bound: float,
    noise_std: float | Tensor | None = None,
    *,
    bounds: Tensor | None = None,
    candidates: Tensor | None = None,
    steps: Sequence[float] | Tensor | None = None,
    delta: float = 0.05,
    input_names: Sequence[str] | None = None,
    outcome_unit: str | None = None,
) -> NormDescription | LikelihoodNormDescription:
    r"""Say what a norm bound means: range, slope, and what the data say about it.

    Compare range and slope with what you know of the process. A function of norm at most
    ``B`` obeys ``|f(x) - m(x)| <= B sqrt(k(x, x))``, and ``f - m`` changes between two
    points by at most ``B d_k(x, x')`` with the kernel metric
    ``d_k = ||k(x, .) - k(x', .)||``. Some function of norm ``B`` attains each.

    For successes and counts (a ``LikelihoodRegression``) ``f`` is the log odds or the log
    rate, and the text adds the probabilities or rates between which functions of that norm
    stay, where the prior mean is constant.

    Source: Cauchy-Schwarz in the RKHS; ``check_consistency`` for what the data say; for
    ``noise_reach`` the sub-Gaussian tail ``2 exp(-u^2 / 2)`` and a union bound over the
    observations, for their present number and not anytime.

    Example:
        >>> box = torch.tensor([[20.0, 1.0], [100.0, 6.0]], dtype=torch.float64)
        >>> print(describe_norm_bound(model, 30.0, bounds=box, steps=[10.0, 0.5]))

    Args:
        model: A single-output exact GP, a ``KernelRegression``, or a
            ``LikelihoodRegression``, for which ``noise_std`` has no meaning.
        norm_bound: Bound on the RKHS norm of ``f - mean``, outcome units; of log odds or
            log rates for successes and counts.
        noise_std: Noise scale in outcome units; from the likelihood when absent.
        bounds: ``2 x d`` lower and upper limits of a box. Either these or ``candidates``.
        candidates: ``n x d`` points, all of the domain.
        steps: ``d`` steps, one along each input, for which the largest change is given;
            raw units. By default a tenth of the domain.
        delta: Failure probability of each statement about the data.
        input_names: ``d`` names of the inputs, for the text.
        outcome_unit: Name of the outcome's unit, for the text, which adds the transform
            that the model's outcomes went through (Log, Power, Bilog), if any. For
            successes and counts the name of the probability or the rate, such as "number
            of pores per metre".

    Returns:
        A ``NormDescription``; for a ``LikelihoodRegression`` a
        ``LikelihoodNormDescription``.

    Raises:
        ValueError: If a scalar is out of its range, not exactly one of ``bounds`` and
            ``candidates`` is given, or ``noise_std`` is given for a
            ``LikelihoodRegression``.
        BotorchTensorDimensionError: If a shape or a number of names does not fit.
        InputDataError: If a value is not finite.
        UnsupportedError: If the model cannot be represented, or it is the ``regression``
            of a ``LikelihoodUCB`` in place of its ``data``.
    """
    norm_bound = positive_scalar("norm_bound", norm_bound)
    probability("delta", delta)
    data = data_of(model, noise_std, noise_std is not None)
    domain = Domain.of(bounds, candidates, data.dimension)
    ball = NormBall(data, float(norm_bound) / data.prior.scale, domain)
    shared = {
        "norm_bound": norm_bound,
        "range": ball.range,
        "across": ball.across,
        "inputs": _changes(ball, domain, steps, input_names),
        "everywhere": ball.everywhere,
        "prior_mean": _constant_mean(data, domain),
        "consistency": check_consistency(data, norm_bound, delta=delta),
        "estimated": tuple(part for part in _PARTS if part in data.estimated),
        "delta": delta,
    }
    if isinstance(data, LikelihoodRegression):
        return _of_likelihood(data, outcome_unit, shared)
    return _of_noisy(data, outcome_unit, shared)


def _of_noisy(
    regression: KernelRegression, unit: str | None, shared: dict[str, Any]
) -> NormDescription:
    residuals = regression.train_targets - regression.prior.mean(regression.train_inputs)
    unit = "outcome units" if unit is None else unit
    return NormDescription(
        **shared,
        largest_observed=EstimatedNumber(residuals.abs().max()),
        noise_reach=_noise_reach(regression, shared["delta"]),
        outcome_unit=f"{unit}{regression.outcome_map.after}",
    )


def _of_likelihood(
    data: LikelihoodRegression, unit: str | None, shared: dict[str, Any]
) -> LikelihoodNormDescription:
    kind, counts, amounts = data.outcomes
    zeros = data.mean.new_zeros(len(data.mean))
    pooled = (zeros.index_add(0, data.index, part).tolist() for part in (counts, amounts))
    at_inputs = [Tally(*pair) for pair in zip(*pooled, strict=True)]
    if unit is None:
        rate = "rate for each unit of exposure"
        unit = rate if kind == "poisson" else "probability of a success"
    return LikelihoodNormDescription(
        **shared,
        kind=kind,
        total=Tally(float(counts.sum()), float(amounts.sum())),
        # Of equal rates the one from more trials or exposure.
        lowest=min(at_inputs, key=lambda tally: (tally.rate, -tally.amount)),
        highest=max(at_inputs, key=lambda tally: (tally.rate, tally.amount)),
        outcome_unit=unit,
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


def _constant_mean(
    data: KernelRegression | LikelihoodRegression, domain: Domain
) -> float | None:
    r"""The prior mean if it is the same at all points of the domain and the data."""
    prior, inputs = data.prior, data.train_inputs
    points = prior.transform(domain.points.to(inputs))
    means = prior.mean(torch.cat([points, inputs]))
    return float(means[0]) if bool((means == means[0]).all()) else None


def _noise_reach(regression: KernelRegression, delta: float) -> float:
    deviations = math.sqrt(2.0 * math.log(2.0 * regression.num_observations / delta))
    reach = deviations * float(regression.noise_scales.max())
    return EstimatedNumber(reach) if "noise" in regression.estimated else reach
