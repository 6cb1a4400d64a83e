r"""What is known of the optimum, in one object."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb.certificates.combinations import (
    PossibleCombination,
    possible_combinations,
)
from kernelucb.certificates.optimum import interval, possible_maximisers
from kernelucb.certificates.regions import FixedFeatures
from kernelucb.certificates.regret import (
    RegretCertificate,
    in_outcome_units,
    solved,
)
from kernelucb.certificates.spaces import MixedSpace
from kernelucb.certificates.task import Bound
from kernelucb.confidence.outcome_constraints import OutcomeConstraints

_MOST_LINES = 5  # of combinations, in print


@dataclass(frozen=True)
class OptimumReport:
    r"""How large the optimum is, and where it may lie.

    All parts of the report hold together, with the probability of the ``certificate``'s
    assumptions.

    Attributes:
        lower: Lower end of the interval that holds the optimum over the domain: ``max f``,
            or ``min f`` where small outcomes are sought; outcome units. With outcome
            constraints, the optimum among the feasible points.
        upper: Upper end of that interval.
        certificate: The recommended point and its gap, and what all of this rests on.
        share: Share of the points looked at that may still be an optimum.
        share_at_most: Upper bound on that share over the whole domain (each combination of
            listed values counts the same); 1 where nothing is known.
        region: ``2 x d`` limits of a box that holds every point that may be an optimum.
            Where the certificate is not ``rigorous``, of those that were looked at.
        names: Names of the ``d`` inputs.
        combinations: On a ``MixedSpace``, the combinations of listed values that may hold
            the optimum, the largest share first. All others surely do not, if the
            certificate is ``rigorous``. Empty without listed values.
        combination_count: How many combinations the space has, with the inputs that are
            given; 0 without listed values.
    """

    lower: float
    upper: float
    certificate: RegretCertificate
    share: float
    share_at_most: float
    region: Tensor
    names: tuple[str, ...]
    combinations: tuple[PossibleCombination, ...] = ()
    combination_count: int = 0

    @property
    def recommended(self) -> Tensor:
        r"""``d`` coordinates of the recommended point."""
        return self.certificate.recommended

    @property
    def gap(self) -> float:
        r"""How far the recommended point may be from the optimum, outcome units."""
        return self.certificate.gap

    @property
    def certified(self) -> bool:
        r"""Whether interval, gap and region are; see ``RegretCertificate``."""
        return self.certificate.certified

    @property
    def summary(self) -> str:
        r"""``"certified"``, or what keeps it from being that."""
        return self.certificate.summary

    def to_dict(self) -> dict[str, Any]:
        r"""Plain numbers, lists and texts, as JSON takes them."""
        return {
            "summary": self.summary,
            "certified": self.certified,
            "optimum": [self.lower, self.upper],
            "recommended": self._named(self.recommended),
            "gap": self.gap,
            "gap_found": self.gap - self.certificate.resolution
            if self.certificate.rigorous
            else self.gap,
            "share": self.share,
            "share_at_most": self.share_at_most,
            "region": self._region(),
            "combinations": [each.to_dict() for each in self.combinations],
            "combination_count": self.combination_count,
            "assumptions": str(self.certificate.assumptions),
        }

    def to_json(self) -> str:
        r"""``to_dict`` as text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def __str__(self) -> str:
        at_most = f", at most {self.share_at_most:.3g}" if self.share_at_most < 1.0 else ""
        return "\n".join(
            [
                f"{self.summary}: the optimum is between {self.lower:.4g} and "
                f"{self.upper:.4g}",
                f"recommended: {self._listed(self.recommended)}, at most {self.gap:.4g} "
                "from the optimum",
                f"where the optimum may be: a share of {self.share:.3g} of the domain"
                f"{at_most}, within {self._limits()}",
                *self._combination_lines(),
                str(self.certificate.assumptions),
            ]
        )

    def _combination_lines(self) -> list[str]:
        if self.combination_count < 2:
            return []
        left = [f"  {each}" for each in self.combinations[:_MOST_LINES]]
        more = len(self.combinations) - len(left)
        return [
            f"combinations that may hold it: {len(self.combinations)} of "
            f"{self.combination_count}",
            *left,
            *([f"  and {more} more"] if more > 0 else []),
        ]

    def _region(self) -> dict[str, list[Any]]:
        r"""Limits of the region by the names of the inputs."""
        low, high = self.region.tolist()
        return {name: [a, b] for name, a, b in zip(self.names, low, high, strict=True)}

    def _limits(self) -> str:
        return ", ".join(
            f"{name} {a:.4g}" if a == b else f"{name} {a:.4g} to {b:.4g}"
            for name, (a, b) in self._region().items()
        )

    def _named(self, point: Tensor) -> dict[str, Any]:
        return dict(zip(self.names, point.tolist(), strict=True))

    def _listed(self, point: Tensor) -> str:
        return ", ".join(
            f"{name} {value:.4g}" for name, value in self._named(point).items()
        )


@checked
@torch.no_grad()
def optimum_report(
    acqf: Bound,
    candidates: Tensor | None = None,
    *,
    bounds: Tensor | None = None,
    space: MixedSpace | None = None,
    fixed_features: FixedFeatures | None = None,
    constraints: OutcomeConstraints | None = None,
    recommended: Tensor | None = None,
    names: Sequence[str] | None = None,
    tolerance: float = 0.05,
    max_evaluations: int = 100_000,
) -> OptimumReport:
    r"""Report the optimum's value, where it may lie, and how good the best point is.

    On a finite domain every number is exact for the band. On boxes and mixed spaces the
    interval's far end, the gap and the region come from branch and bound (see
    ``regret_certificate``) and are rigorous where its kernel and mean are known ones.

    Source: the confidence set's own theorem. The optimum is at least what any point of the
    domain is worth at least, and at most what one may be worth. A point may be an optimum
    if some function of the set is at least as good there as at the recommended point, which
    is one of the domain. The gap is that of ``regret_certificate``.

    Args:
        acqf: An acquisition function of this package.
        candidates: ``n x d`` points, the whole domain; two of them as ``candidates=``, lest
            they be a box. Either these, ``bounds`` or ``space``.
        bounds: ``2 x d`` lower and upper limits of a box.
        space: A box in which some inputs take listed values only.
        fixed_features: Columns that are given, and their values.
        constraints: Outcomes that must stay on their side of a threshold; those of
            ``acqf``, if it has some, when absent.
        recommended: ``d`` or ``1 x d`` point; see ``regret_certificate``.
        names: Of the inputs, for print and picture; ``x0``, ``x1`` and so on when absent.
        tolerance: Share of the gap, and of the interval, that may be left open.
        max_evaluations: On boxes, the largest number of points looked at, for the gap, the
            interval and the region each.

    Raises:
        ValueError: As ``regret_certificate``, and if the number of names is not that of the
            inputs.
        BotorchTensorDimensionError: If a tensor has the wrong shape.
        InputDataError: If a value is not finite or the domain is empty.
        NoSafePointError: If no point is certainly feasible, or ``recommended`` is not.
    """
    where = candidates, bounds, space, fixed_features
    budget = tolerance, max_evaluations
    task, domain, certificate = solved(acqf, constraints, *where, recommended, *budget)
    dimension = task.confidence_set.regression.dimension
    labels = tuple(f"x{i}" for i in range(dimension)) if names is None else tuple(names)
    if len(labels) != dimension:
        raise ValueError(f"There are {len(labels)} names for {dimension} inputs.")
    lower, upper = interval(task, domain, certificate, *budget)
    possible = possible_maximisers(task, domain, certificate.recommended, max_evaluations)
    share = min(float(possible.mask.double().mean()), possible.share_at_most)
    combinations, count = (), 0
    if space is not None and space.listed_columns:
        own = (space, fixed_features, possible, labels)
        combinations, count = possible_combinations(*own)
    return OptimumReport(
        lower=lower,
        upper=upper,
        certificate=in_outcome_units(certificate, task),
        share=share,
        share_at_most=possible.share_at_most,
        region=possible.box,
        names=labels,
        combinations=combinations,
        combination_count=count,
    )
