r"""How far functions of bounded norm reach over a domain, and how fast they change."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar
from kernelucb._numerics.domains import check_one_domain, checked_box, checked_points
from kernelucb.regression import KernelRegression
from kernelucb.regression.likelihood.regression import LikelihoodRegression

Data = KernelRegression | LikelihoodRegression

_SCAN = 1024
_MOST_CORNERS = 1024

# Slopes are measured over steps with this squared kernel metric, as a share of the prior
# variance: about 1e-3 length scales, which leaves relative errors of h^2 = 1e-6 after
# extrapolation and 16 eps / 1e-6 = 4e-9 from round-off.
_SMALL = 1e-6
_MARGIN = 1e-6
# Below this share round-off hides any change across the domain.
_UNSEEN = 1e-12
# Halving the step multiplies the squared slope by 1 where the kernel has a derivative,
# and by 2 for Matern 1/2.
_DIVERGES = 1.5
_MOST_HALVINGS = 60
# Above this share at the smallest step, the length scale is smaller than that step.
_SATURATED = 0.5


@dataclass(frozen=True)
class InputChange:
    r"""How much ``f - m`` can change along one input.

    Attributes:
        name: Name of the input.
        step: Length of a step, raw units.
        over_step: Largest change over that step, outcome units.
        over_side: Largest change over the side of the domain, outcome units.
        side: Length of that side, raw units.
        slope: Largest slope, outcome units per raw unit; None where it has no bound
            because the kernel has no derivative (Matern 1/2), infinite where the length
            scale is too small to see across the domain.
    """

    name: str
    step: float
    over_step: float
    over_side: float
    side: float
    slope: float | None

    def __str__(self) -> str:
        if self.slope is None:
            slope = "slope without bound (the kernel has no derivative)"
        elif math.isinf(self.slope):
            slope = "the length scale is too small to see across the domain"
        else:
            slope = f"slope at most {self.slope:.3g} per unit"
        return (
            f"{self.name}: at most {self.over_step:.3g} over a step of {self.step:.3g}, "
            f"{self.over_side:.3g} over all {self.side:.3g}; {slope}"
        )


class NormBall:
    r"""All functions ``f`` with ``||f - m|| <= B``, over a domain.

    Where the prior is the same everywhere (RBF, Matern and rational quadratic kernels,
    inputs as they are or behind ``Normalize``), the numbers hold at every point of the
    domain; otherwise they are the largest over the domain's points. ``norm`` is ``B`` in
    prior units, the domain is in raw units.
    """

    def __init__(
        self, data: Data, norm: float, bounds: Tensor | None, candidates: Tensor | None
    ) -> None:
        self.prior, self.norm = data.prior, norm
        self.everywhere = data.prior.is_stationary
        domain = _domain(bounds, candidates, data.dimension)
        self.box, self.domain = (part.to(data.train_inputs) for part in domain)
        self.points = self.box[:1] if self.everywhere else self.domain
        inputs = self.prior.transform(self.points)
        self.variance = float(self.prior.variance(inputs).max())
        self.range = self.norm * math.sqrt(self.variance)

    @property
    def across(self) -> float:
        r"""Largest change of ``f - m`` between two points of the domain, outcome units."""
        if not self.everywhere:
            return 2.0 * self.range
        corners = self.prior.transform(self.box)
        return self.norm * float(self.prior.metric(corners[:1], corners[1:]))

    def changes(
        self, steps: Sequence[float] | Tensor | None, names: Sequence[str] | None
    ) -> tuple[InputChange, ...]:
        r"""How much ``f - m`` can change along each input, over a step or all of it."""
        sides = (self.box[1] - self.box[0]).tolist()
        lengths = [0.1 * side for side in sides] if steps is None else list(steps)
        lengths = [positive_scalar("Every one of steps", step) for step in lengths]
        names = [f"input {i}" for i in range(len(sides))] if names is None else list(names)
        if len(names) != len(sides):
            raise BotorchTensorDimensionError(
                f"input_names must be {len(sides)} names, one for each input, got {names}."
            )
        if len(lengths) != len(sides):
            raise BotorchTensorDimensionError(
                f"steps must be {len(sides)} numbers, one for each input, got {lengths}."
            )
        for step, side in zip(lengths, sides, strict=True):
            if step > side:
                raise ValueError(
                    f"steps must lie within the domain: {step:.6g} is longer than its side "
                    f"of {side:.6g}."
                )
        return tuple(
            InputChange(
                name=names[column],
                step=step,
                over_step=self.norm * self._metric(column, step),
                over_side=self.norm * self._metric(column, side),
                side=side,
                slope=self._slope(column),
            )
            for column, (step, side) in enumerate(zip(lengths, sides, strict=True))
        )

    def _slope(self, column: int) -> float | None:
        r"""Largest slope of ``f - m`` along one input; see ``InputChange``.

        ``B sqrt(d^2 k(x, x') / dx dx')`` at ``x' = x``: the limit of
        ``B d_k(x, x + h) / h`` for small ``h``, extrapolated from two steps and rounded up
        by 1e-6 of itself. For a kernel that depends on ``x - x'`` alone no quotient exceeds
        the limit: ``d_k^2 = 2 int (1 - cos(w h)) dF(w) <= h^2 int w^2 dF(w)`` with its
        spectral measure ``F``. So ``f - m`` changes over any step by at most the slope
        times the step.
        """
        step = float(self.box[1, column] - self.box[0, column])
        across = self._metric(column, step)
        if across**2 <= _UNSEEN * self.variance:
            return self.norm * across / step
        # Shorter ones would be rounded by more than the margin.
        largest = float(self.points[:, column].abs().max())
        shortest = 2.0 * torch.finfo(self.points.dtype).eps / _MARGIN * largest
        small = False
        for _ in range(_MOST_HALVINGS):
            small = self._metric(column, step) ** 2 <= _SMALL * self.variance
            if small or step <= shortest:
                break
            step *= 0.5
        coarse, fine = (self._metric(column, each * step) ** 2 for each in (1.0, 0.5))
        if fine > _SATURATED * self.variance:
            return math.inf
        coarse, fine = coarse / step**2, fine / (0.5 * step) ** 2
        if fine > _DIVERGES * coarse:
            return None
        if not small:
            return math.inf
        # The error of the squared quotient is of order h for Matern 3/2, else of order h^2.
        limit = max(2.0 * fine - coarse, fine)
        return self.norm * math.sqrt(limit) * (1.0 + _MARGIN)

    def _metric(self, column: int, step: float) -> float:
        r"""Largest kernel metric over a step along one input, at most its side."""
        left = self.points.clone()
        left[:, column] = left[:, column].clamp(max=float(self.box[1, column]) - step)
        right = left.clone()
        right[:, column] += step
        inputs = self.prior.transform(left), self.prior.transform(right)
        return float(self.prior.metric(*inputs).max())


def _domain(
    bounds: Tensor | None, candidates: Tensor | None, dimension: int
) -> tuple[Tensor, Tensor]:
    r"""The box of a domain, and points in it for priors that vary over the domain."""
    check_one_domain(candidates=candidates, bounds=bounds)
    if bounds is not None:
        box = checked_box(bounds, dimension)
        scan = draw_sobol_samples(box, n=_SCAN, q=1, seed=0).squeeze(-2)
        corners = box
        if 2**dimension <= _MOST_CORNERS:
            corners = torch.cartesian_prod(*box.unbind(-1)).reshape(-1, dimension)
        return box, torch.cat([scan, corners])
    points = checked_points("candidates", cast(Tensor, candidates), dimension)
    box = torch.stack([points.amin(0), points.amax(0)])
    flat = (box[0] == box[1]).nonzero().flatten().tolist()
    if flat:
        raise InputDataError(
            f"All candidates have the same value in column {flat[0]}; give bounds instead, "
            "with the limits between which it may vary."
        )
    return box, points
