r"""Which combinations of listed values may still hold the optimum."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kernelucb.certificates.optimum import PossibleMaximisers
from kernelucb.certificates.regions import FixedFeatures
from kernelucb.certificates.spaces import MixedSpace


@dataclass(frozen=True)
class PossibleCombination:
    r"""A combination of listed values that may hold the optimum, and where.

    Attributes:
        label: For print: the listed values by the names of their inputs; of a one-hot
            group the name of the input that is 1.
        values: The listed values by the names of their inputs.
        region: For each of the other inputs that is not given, by name, two limits within
            which every point of the combination lies that may be an optimum. Where the
            certificate is not ``rigorous``, of those that were looked at.
        share: Share of the points looked at in this combination that may be an optimum;
            0 if none of them may be, or none was looked at.
        share_at_most: Upper bound on that share over the whole combination; 1 where
            nothing is known.
    """

    label: str
    values: dict[str, float]
    region: dict[str, tuple[float, float]]
    share: float
    share_at_most: float

    def to_dict(self) -> dict[str, Any]:
        r"""Plain numbers, lists and texts, as JSON takes them."""
        return {
            "values": self.values,
            "region": {name: list(limits) for name, limits in self.region.items()},
            "share": self.share,
            "share_at_most": self.share_at_most,
        }

    def __str__(self) -> str:
        if not self.region:
            return self.label
        limits = [f"{name} {a:.4g} to {b:.4g}" for name, (a, b) in self.region.items()]
        at_most = f", at most {self.share_at_most:.3g}" if self.share_at_most < 1.0 else ""
        return (
            f"{self.label}: a share of {self.share:.3g} of it{at_most}, within "
            f"{', '.join(limits)}"
        )


def possible_combinations(
    space: MixedSpace,
    fixed_features: FixedFeatures | None,
    possible: PossibleMaximisers,
    names: tuple[str, ...],
) -> tuple[tuple[PossibleCombination, ...], int]:
    r"""Those that may hold the optimum, the largest share first, and how many there are.

    Args:
        space: A space with listed values.
        fixed_features: Columns that are given.
        possible: Of this space.
        names: Of the ``d`` inputs.
    """
    region, columns = space.region(fixed_features), space.listed_columns
    rows, count = region.lower[:, columns], len(region.lower)
    open_columns = [i for i in range(len(names)) if i not in region.fixed]
    tried = _owners(rows, possible.points[:, columns])
    left = _counts(tried[possible.mask], count) / _counts(tried, count).clamp_min(1.0)
    found: list[PossibleCombination] = []
    for index, pieces in _grouped(_owners(rows, possible.lower[:, columns])):
        at_most = min(float(possible.sizes[pieces].sum()), 1.0)
        lower = possible.lower[pieces].amin(0).tolist()
        upper = possible.upper[pieces].amax(0).tolist()
        values = dict(zip(columns, rows[index].tolist(), strict=True))
        found.append(
            PossibleCombination(
                label=space.label(values, names),
                values={names[i]: value for i, value in values.items()},
                region={names[i]: (lower[i], upper[i]) for i in open_columns},
                share=min(float(left[index]), at_most),
                share_at_most=at_most,
            )
        )
    found.sort(key=lambda each: (each.share_at_most, each.share), reverse=True)
    return tuple(found), count


def _owners(rows: Tensor, values: Tensor) -> Tensor:
    r"""For each of ``n x c`` values the index of the row that it equals."""
    _, inverse = torch.cat([rows, values]).unique(dim=0, return_inverse=True)
    index_of = torch.empty_like(inverse)
    index_of[inverse[: len(rows)]] = torch.arange(len(rows), device=rows.device)
    return index_of[inverse[len(rows) :]]


def _counts(owners: Tensor, count: int) -> Tensor:
    return torch.bincount(owners, minlength=count).double()


def _grouped(owners: Tensor) -> Iterator[tuple[int, Tensor]]:
    r"""The owners, each with the positions at which it is."""
    order = owners.argsort()
    present, sizes = owners[order].unique_consecutive(return_counts=True)
    yield from zip(present.tolist(), order.split(sizes.tolist()), strict=True)
