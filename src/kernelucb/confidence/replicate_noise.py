r"""Upper confidence limits on noise scales, from repeated runs."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from botorch.exceptions import InputDataError
from scipy.stats import chi2
from torch import Tensor

from kernelucb._numerics.checks import (
    finite,
    positive_scalar,
    probability,
    training_targets,
)
from kernelucb._numerics.digits import as_given, at_most
from kernelucb._numerics.estimates import EstimatedNumber, estimated, is_estimate
from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.confidence.fit.choice import Fit, fit_of
from kernelucb.confidence.fit.prequential import PrequentialRadius
from kernelucb.regression.outcome_map import IDENTITY, OutcomeMap
from kernelucb.regression.pooling import distinct_rows

# Levels to which the limits of several groups are rounded up.
_STEP = 1.1
_ROUNDED = 1e-5  # of a column, where runs are compared with those of a model


class NoiseGroup(NamedTuple):
    r"""The replicates of one group of inputs.

    Attributes:
        label: Number that ``groups`` assigns to the inputs of this group.
        degrees: Degrees of freedom: number of runs minus number of different inputs.
        estimate: Root of the pooled variance, outcome units; counts as estimated when given
            to a band, as the limits do.
    """

    label: float
    degrees: int
    estimate: float

    def limits(self, delta: float) -> tuple[float, float]:
        r"""Lower and upper confidence limit, each at ``delta``, outcome units."""
        ends = self.degrees / chi2.ppf([1.0 - delta, delta], self.degrees)
        lower, upper = map(EstimatedNumber, self.estimate * np.sqrt(ends))
        return lower, upper


class ReplicateNoise:
    r"""Upper limits on the noise scale from repeated runs, one for each group of inputs.

    Given as ``noise_std``, the upper confidence limits replace the noise scale and take a
    ``share`` of the band's ``delta``, so the noise scale counts as given. The repeated runs
    may be outcomes of the band as well, if ``between`` names two scales between which the
    noise was expected before the data: the fit is fixed for these. Without ``between`` it
    is fixed for the limits, so they must be other, earlier runs, such as a pilot study; if
    they are the band's, the noise counts as estimated. Numbers taken out of this object
    count as estimated.

    Source: the chi-square limit of a pooled variance, and a union bound over groups.
    Assumes independent Gaussian noise of one scale in each group, and a number of
    replicates that was fixed beforehand. With one group the band's sets are nested in the
    scale, at no further cost; with several groups the limits are rounded up to levels of
    ratio 1.1, which share ``delta`` (``docs/mathematics.md``). The limits are one event for
    all later rounds; limits from more replicates than planned are not covered.

    Example:
        >>> noise = ReplicateNoise(X, Y, between=(1.0, 20.0))
        >>> MartingaleMixtureUCB(model, norm_bound=100.0, noise_std=noise)

    Args:
        train_X: ``n x d`` inputs, in which rows are repeated, as the model takes them.
        train_Y: ``n`` or ``n x 1`` outcomes, on the scale on which the noise is Gaussian.
        between: Two noise scales, outcome units, fixed before the data. With one group the
            upper limit may lie outside, and the band is wider; with several groups an upper
            limit above raises ``ValueError``.
        groups: Maps ``n x d`` inputs to ``n`` numbers, one number for each group; fixed
            before the data. One group when absent.
        share: Share of the band's ``delta`` that the limits take, between 0 and 1.

    Raises:
        InputDataError: If a group has no repeated input, or a value is not finite.
        ValueError: If a number is out of its range.
    """

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        *,
        between: tuple[float, float] | None = None,
        groups: Callable[[Tensor], Tensor] | None = None,
        share: float = 0.1,
    ) -> None:
        targets = finite("train_Y", training_targets(train_X, train_Y))
        self._runs = torch.cat([train_X.detach().to(targets), targets.unsqueeze(-1)], -1)
        self._groups, self.share = groups, probability("share", share)
        self.between: tuple[float, float] | None = None
        self._guessed = False
        if between is not None:
            low, high = (positive_scalar("between", each) for each in between)
            if not low < high:
                raise ValueError(f"between must be two increasing scales, got {between}.")
            self.between = float(low), float(high)
            self._guessed = is_estimate(low) or is_estimate(high)
        first, index = distinct_rows(train_X.detach().double())
        counts = torch.bincount(index).to(targets)
        means = torch.zeros_like(counts).index_add(0, index, targets) / counts
        squares = (targets - means[index]).square()
        labels = self._labels(train_X)
        self.groups: tuple[NoiseGroup, ...] = ()
        for label in labels.unique().tolist():
            own = labels == label
            degrees = int(own.sum()) - int((labels[first] == label).sum())
            if degrees < 1 or not float(squares[own].sum()) > 0.0:
                raise InputDataError(
                    f"Group {label:g} has no repeated input whose outcomes differ; merge "
                    "it with another group, or give noise_std as a number."
                )
            estimate = math.sqrt(float(squares[own].sum()) / degrees)
            self.groups += (NoiseGroup(label, degrees, EstimatedNumber(estimate)),)

    def _labels(self, X: Tensor) -> Tensor:
        if self._groups is None:
            return torch.zeros(len(X), dtype=torch.float64)
        return torch.as_tensor(self._groups(X), dtype=torch.float64).reshape(len(X))

    @property
    def num_levels(self) -> int:
        r"""Number of vectors of scales that share the band's ``delta``."""
        if self.between is None or len(self.groups) == 1:
            return 1
        low, high = self.between
        return (math.ceil(math.log(high / low) / math.log(_STEP)) + 1) ** len(self.groups)

    def limits(self, delta: float) -> dict[float, tuple[float, float]]:
        r"""Lower and upper limits of the groups' scales by their labels, outcome units.

        All upper limits hold at once with probability ``1 - delta``, and so do all lower
        ones. They count as estimated when given to a band, which knows of no such delta.
        """
        part = probability("delta", delta) / len(self.groups)
        return {group.label: group.limits(part) for group in self.groups}

    def scales(self, X: Tensor, delta: float) -> Tensor:
        r"""Noise scales at ``n x d`` inputs for a band at ``delta``, ``n`` values.

        They count as estimated when given to a band, which knows of no such ``delta``.

        Raises:
            ValueError: If a limit is above ``between``, or an input is of a group without
                replicates.
        """
        known: dict[float, float] = {}
        for label, (_, upper) in self.limits(self.share * delta).items():
            known[label] = upper
            if self.num_levels > 1 and self.between is not None:
                low, high = self.between
                level = max(0, math.ceil(math.log(upper / low) / math.log(_STEP)))
                known[label] = low * _STEP**level
                if upper > high:
                    raise ValueError(
                        f"The noise scale of group {label:g} may be {upper:.4g}, and "
                        f"between ends at {high:.4g}; give limits that were known "
                        "beforehand, or fewer groups."
                    )
        labels = self._labels(X).tolist()
        if unknown := set(labels) - known.keys():
            raise ValueError(
                f"There are no replicates of the groups {sorted(unknown)}, in which there "
                "are inputs."
            )
        values = torch.tensor([known[label] for label in labels], dtype=torch.float64)
        return estimated(values)

    def factor(self, delta: float) -> float:
        r"""Upper limit at a band's ``delta`` over the scale that the fit was fixed for."""
        if self.between is None or self.num_levels > 1:
            return 1.0
        ((_, upper),) = self.limits(self.share * delta).values()
        return float(upper) / math.sqrt(self.between[0] * self.between[1])

    def applied(self, fit: Fit, delta: float) -> tuple[Fit, float]:
        r"""The fit of a band at ``delta``, and the failure probability left for it."""
        left, chosen = (1.0 - self.share) * delta / self.num_levels, fit_of(fit)
        if isinstance(chosen, PrequentialRadius):
            raise ValueError(
                "A PrequentialRadius has its own noise scales; leave out noise_std."
            )
        if chosen.filters:
            chosen = replace(chosen, noise_factor=self.factor(delta))
        return chosen, left

    def _of_these(self, X: Tensor, Y: Tensor) -> bool:
        r"""Whether most of the runs are among ``n x d`` inputs and their ``n`` outcomes."""
        rows, runs = torch.cat([X.to(Y), Y.unsqueeze(-1)], -1), self._runs.to(Y)
        if rows.shape[-1] != runs.shape[-1]:
            return False
        near = _ROUNDED * runs.abs().amax(0)
        found = ((rows.unsqueeze(1) - runs).abs() <= near).all(-1)
        # Rounded outcomes may agree by chance.
        return float(max(found.any(0).double().mean(), found.any(1).double().mean())) > 0.5

    def assumptions(
        self,
        known: Assumptions,
        delta: float,
        X: Tensor,
        Y: Tensor,
        outcome_map: OutcomeMap = IDENTITY,
    ) -> Assumptions:
        r"""Assumptions of a band at ``delta``, from those with a given noise scale.

        ``X`` and ``Y`` are the ``n x d`` inputs and ``n`` outcomes of the band, on the
        scale of an outcome map.
        """
        if not outcome_map.is_identity and self._of_these(X, outcome_map.inverse(Y)):
            raise ValueError(
                "The replicates are outcomes before the model's outcome transform, and the "
                f"noise is additive{outcome_map.after}: transform them too, as Y.log()."
            )
        limits = [upper for _, upper in self.limits(self.share * delta).values()]
        scales = " and ".join(map(at_most, limits))
        degrees = " and ".join(str(group.degrees) for group in self.groups)
        where = "" if len(limits) == 1 else " in its group"
        which = "that may be outcomes of the band"
        status = Status.ESTIMATED if self._guessed else Status.GIVEN
        if self.between is None:
            which = "that are no outcomes of the band, and came before these"
            if self._of_these(X, Y):
                status = Status.ESTIMATED
                which = "that are outcomes of the band, whose fit was fixed after them"
        statement = (
            f"the noise is independent and Gaussian{where}, with scales of at most "
            f"{scales}: upper limits from replicates {which}, with {degrees} degrees of "
            "freedom that were fixed beforehand"
        )
        if status is Status.ESTIMATED:
            statement += " (give between, or replicates that are no outcomes of the band)"
        if self.num_levels > 1 and self.between is not None:
            low, high = self.between
            statement += f"; expected between {as_given(low)} and {as_given(high)}"
        whole = delta - (known.delta or 0.0)
        return known.spending("chi-square limits of the noise", whole).with_item(
            Assumption("noise", statement, status)
        )

    def __repr__(self) -> str:
        groups = ", ".join(
            f"{each.estimate:.4g} ({each.degrees} degrees of freedom)"
            for each in self.groups
        )
        return f"ReplicateNoise({groups})"
