r"""Constraints on outcomes: certainly feasible, possibly feasible, infeasible points."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from kernelucb._numerics.arrays import in_parts
from kernelucb._numerics.checks import finite_scalar, one_of
from kernelucb._numerics.digits import as_given
from kernelucb._numerics.domains import rows_of
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.band import (
    Band,
    BandLike,
    band_of,
    check_dimensions,
    joined_assumptions,
)
from kernelucb.confidence.sets import Described
from kernelucb.data.from_model import per_output

Side = Literal[">=", "<="]


class Constraint(NamedTuple):
    r"""One outcome that must stay on one side of a threshold.

    Margins and widths are in prior standard deviations, on the scale of the band's
    confidence set: the scale of ``log(Y)`` for a model of ``log(Y)``. A margin has the same
    sign on either scale.

    Attributes:
        band: A confidence band of the outcome.
        threshold: Outcome units.
        side: ``">="`` where the outcome must be at least the threshold, else ``"<="``.
    """

    band: Band
    threshold: float
    side: Side

    @property
    def sign(self) -> int:
        r"""1 where the outcome must be at least the threshold, -1 where at most."""
        return 1 if self.side == ">=" else -1

    @property
    def level(self) -> float:
        r"""The threshold on the scale of the band's set, such as its logarithm."""
        threshold = torch.tensor(self.threshold, dtype=torch.float64)
        return float(self.band.outcome_map.forward(threshold))

    def margin(self, X: Tensor) -> Tensor:
        r"""Least margin of the band at ``n x d`` points, prior standard deviations."""
        return self.margins(*self.band.latent_bounds(X))[0]

    def margins(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        r"""Least and largest margin of values between two bounds, units of ``level``.

        In prior standard deviations of the outcome: the first is at least 0 where all these
        values satisfy the constraint, the second where at least one of them does.
        """
        low, high = (lower, upper) if self.sign > 0 else (upper, lower)
        unit = self.sign * self.band.prior_std  # without units, so that outcomes compare
        return (low - self.level) / unit, (high - self.level) / unit

    def width(self, X: Tensor) -> Tensor:
        r"""Width of the band at ``n x d`` points, in prior standard deviations."""
        lower, upper = self.band.latent_bounds(X)
        return (upper - lower) / self.band.prior_std


class OutcomeConstraints(Described):
    r"""Outcomes that must stay on one side of a threshold, and their confidence bands.

    While the bands hold, every point is of one of three kinds:

    - *certainly feasible*: every band lies on the right side of its threshold, so the point
      satisfies all constraints. Recommend and use certainly feasible points alone.
    - *possibly feasible*: no band excludes the point. The best feasible point is possibly
      feasible, so a search need look nowhere else. Certainly feasible points are possibly
      feasible as well.
    - *infeasible*: some band lies on the wrong side, so the point violates that constraint.

    If the ``assumptions`` are true, then with the probability stated there the kinds
    *certainly feasible* and *infeasible* are right at every point that the bands cover, in
    every round that they cover. The constraints are on the functions, not on noisy
    outcomes. Bands that rest on estimates are accepted for a search, and ``assumptions``
    says so; ``SafeSet`` refuses such bands. Pending points change nothing.

    For an outcome with a lower and an upper limit give two constraints on the same band,
    whose failure probability then counts once.

    Example:
        >>> bands = outcome_bands([purity, pressure], norm_bound=[3.0, 5.0], delta=0.05)
        >>> constraints = OutcomeConstraints(bands, [0.9, 8.0], sides=[">=", "<="])
        >>> usable = X[constraints.is_feasible(X)]
        >>> worth_a_try = X[constraints.may_be_feasible(X)]

    Attributes:
        constraints: One ``Constraint`` for each band, in their order.
        names: Names of the constraints, in the same order.
        units: Units of the outcomes by these names.
    """

    def __init__(
        self,
        bands: BandLike | Sequence[BandLike],
        thresholds: float | Sequence[float] = 0.0,
        *,
        sides: Side | Sequence[Side] = ">=",
        names: Sequence[str] | None = None,
        units: Mapping[str, str] | None = None,
    ) -> None:
        r"""Constraints on one outcome or several.

        Args:
            bands: Confidence band of each constrained outcome, such as
                ``MartingaleMixtureUCB``; ``outcome_bands`` makes them from models.
            thresholds: One threshold for all outcomes or one for each, outcome units.
            sides: ``">="`` where an outcome must be at least its threshold, ``"<="`` where
                at most; one for all outcomes or one for each.
            names: Names of the outcomes in ``assumptions`` and reports, one for each band
                (two limits of an outcome share its name); by default ``"constraint 1"``
                and so on.
            units: Units of the outcomes by these names, for print.

        Raises:
            ValueError: If there is no band, thresholds, sides or names do not fit, two
                bands have one name, or the limits of an outcome leave no value.
            UnsupportedError: If an entry of ``bands`` is no ``Band``, such as a model.
            BotorchTensorDimensionError: If the bands' inputs differ in dimension.
        """
        listed: list[Any] = list(bands) if isinstance(bands, Sequence) else [bands]
        if not listed:
            raise ValueError("bands is empty; give a band for each constrained outcome.")
        listed = [band_of("bands", band) for band in listed]
        check_dimensions("bands", listed)
        levels = per_output("thresholds", thresholds, len(listed))
        levels = [finite_scalar("thresholds", level) for level in levels]
        directions = per_output("sides", sides, len(listed))
        for band, level, side in zip(listed, levels, directions, strict=True):
            one_of("sides", side, ">=", "<=")
            scale = band.outcome_map  # a logarithm, say, has no level for a threshold of 0
            if not scale.takes(torch.tensor(level, dtype=torch.float64)):
                raise ValueError(
                    f"thresholds must be {scale.domain} for a model of the outcome"
                    f"{scale.after}, got {level:g}."
                )
        self.constraints = tuple(map(Constraint, listed, levels, directions))
        for band in listed:
            ours = [each for each in self.constraints if each.band is band]
            least = max((e.threshold for e in ours if e.sign > 0), default=-math.inf)
            most = min((e.threshold for e in ours if e.sign < 0), default=math.inf)
            if not least < most:
                raise ValueError(
                    f"thresholds leave no value of one outcome: at least {least:.6g} and "
                    f'at most {most:.6g}. Its lower limit (side ">=") must be below its '
                    'upper one (side "<=").'
                )
        if names is None:
            names = [f"constraint {i}" for i in range(1, len(listed) + 1)]
        if isinstance(names, str) or len(names) != len(listed):
            raise ValueError(
                f"names must be {len(listed)}, one for each band, got {names!r}."
            )
        self.names, owners = tuple(names), dict[str, Band]()
        self.units = units or {}
        for name, band in zip(names, listed, strict=True):  # two limits share a name
            if name == "objective" or owners.setdefault(name, band) is not band:
                raise ValueError(f"names has {name!r}, which is another band's.")

    @property
    def bands(self) -> dict[str, Band]:
        r"""The band of each constraint, by the constraint's name."""
        return dict(zip(self.names, (each.band for each in self.constraints), strict=True))

    def with_bands(self, bands: Sequence[Band]) -> "OutcomeConstraints":
        r"""The same limits on other bands, one for each constraint in their order."""
        _, thresholds, sides = zip(*self.constraints, strict=True)
        return OutcomeConstraints(
            bands, thresholds, sides=sides, names=self.names, units=self.units
        )

    @property
    def assumptions(self) -> Assumptions:
        r"""The assumptions of the classification: all bands at once."""
        return joined_assumptions(
            self.bands,
            f"every certainly feasible point satisfies the constraints ({self.in_words()}),"
            " and every infeasible one violates one of them,",
        )

    def in_words(self, units: Mapping[str, str] | None = None) -> str:
        r"""``"purity is at least 0.9 and pressure is at most 8 bar"``."""
        ends, named = {">=": "at least", "<=": "at most"}, {**self.units, **(units or {})}
        said = [  # a sum with 0.0 is never -0
            f"{name} is {ends[side]} {as_given(level + 0.0)} {named.get(name, '')}".rstrip()
            for name, (_, level, side) in zip(self.names, self.constraints, strict=True)
        ]
        return " and ".join(said)

    def margins(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Certain and possible margin of each constraint at ``... x d`` points.

        Two ``c x ...`` tensors for ``c`` constraints, differentiable, float64: lower and
        upper bound minus the threshold (for ``"<="``, the threshold minus upper and lower
        bound), in prior standard deviations of each outcome, so that different units
        compare.

        Raises:
            BotorchTensorDimensionError: If the points have other dimensions than the bands.
            InputDataError: If a value is not finite.
        """
        bands = {id(each.band): each.band for each in self.constraints}  # asked once each

        def both(rows: Tensor) -> Tensor:
            sides = {key: band.latent_bounds(rows) for key, band in bands.items()}
            pairs = [each.margins(*sides[id(each.band)]) for each in self.constraints]
            return torch.stack([torch.stack(each) for each in zip(*pairs, strict=True)])

        certain, possible = in_parts(rows_of(X), both)
        shape = (len(self.constraints), *X.shape[:-1])
        return certain.reshape(shape), possible.reshape(shape)

    def certain_margin(self, X: Tensor) -> Tensor:
        r"""Least certain margin of all constraints at ``... x d`` points.

        A differentiable ``...`` tensor, see ``margins``; at least 0 where a point is
        certainly feasible.
        """
        return self.margins(X)[0].amin(0)

    def possible_margin(self, X: Tensor) -> Tensor:
        r"""Least possible margin of all constraints at ``... x d`` points.

        A differentiable ``...`` tensor, see ``margins``; below 0 where a point is
        infeasible.
        """
        return self.margins(X)[1].amin(0)

    @torch.no_grad()
    def feasibility(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Whether ``... x d`` points are certainly feasible, and whether possibly.

        Twice ``...`` booleans, from one look at the bands.
        """
        certain, possible = self.margins(X)
        return certain.amin(0) >= 0.0, possible.amin(0) >= 0.0

    @torch.no_grad()
    def num_failing(self, X: Tensor) -> tuple[int, int]:
        r"""At how many of ``n x d`` points some limit is not kept: at least, at most.

        Not all open points can fail at once, nor keep their limits at once: each set says
        how many of them one of its functions can have beyond a level. A point fails if one
        limit does, so the limits' counts of failures add up; kept points keep every limit,
        so the smallest count of these holds.
        """
        certain, possible = self.margins(X)
        open_ = (certain < 0.0).any(0) & (possible >= 0.0).all(0)
        surely, count = int((possible < 0.0).any(0).sum()), int(open_.sum())
        failing, keeping = 0, count
        for each, margins in zip(self.constraints, certain, strict=True):
            mine = open_ & (margins < 0.0)  # elsewhere this limit is surely kept
            beyond = partial(each.band.required_set.most_beyond, X[mine], each.level)
            failing += beyond(-each.sign)
            keeping = min(keeping, beyond(each.sign) + count - int(mine.sum()))
        return surely + count - keeping, surely + min(failing, count)

    def is_feasible(self, X: Tensor) -> Tensor:
        r"""Whether ``... x d`` points are certainly feasible, ``...`` booleans."""
        return self.feasibility(X)[0]

    def may_be_feasible(self, X: Tensor) -> Tensor:
        r"""Whether ``... x d`` points are possibly feasible, ``...`` booleans."""
        return self.feasibility(X)[1]


def constrained_band(name: str, value: BandLike) -> tuple[Band, OutcomeConstraints | None]:
    r"""The band of an acquisition function, or a band, and constraints that come with it.

    Raises:
        UnsupportedError: For an object that has no band, such as a model.
    """
    return band_of(name, value), getattr(value, "outcome_constraints", None)
