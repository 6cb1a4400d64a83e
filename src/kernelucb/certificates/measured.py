r"""How often claims at a margin were false, on problems that no kernel made.

``python -m benchmarks.reliability package`` makes ``reliability.csv`` from what was
measured. Shares of the past are no theorem: nothing here is certified.
"""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from kernelucb.confidence.band import Band
from kernelucb.regression import KernelRegression

WINDOW = 0.05  # half sides of the window that was measured, over the domain's


class Record(NamedTuple):
    r"""What became of claims of one kind, after so many runs, at one margin."""

    kind: str  # "value", "window" or "anywhere"
    runs: int  # the record is used from so many on
    level: float  # the norm bound over the least one
    claims: int
    problems: int
    share_false: float

    def __str__(self) -> str:
        return (
            f"of {self.claims:,} claims of this kind at this margin on {self.problems} "
            f"other problems {100 * self.share_false:.2g} % were false"
        )


@cache
def records() -> tuple[Record, ...]:
    r"""The table of the package, the least margins first."""
    path = files("kernelucb.certificates").joinpath("reliability.csv")
    rows = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    kinds = Record.__annotations__.items()
    found = [Record(**{name: kind(row[name]) for name, kind in kinds}) for row in rows]
    return tuple(sorted(found, key=lambda each: each.level))


def at_margin(band: Band, kind: str, margin: float) -> str | None:
    r"""The record of the largest margin that is not above this one.

    None for a band unlike those that were measured, or with fewer runs.
    """
    likes = band.outcome_map.is_identity and isinstance(band.data, KernelRegression)
    if not likes or band.observed is None or band.noise_scale is None:
        return None
    runs = len(band.observed)
    same = [each for each in records() if each.kind == kind and each.runs <= runs]
    most = max((each.runs for each in same), default=0)
    found = [each for each in same if each.runs == most and each.level <= margin]
    return str(found[-1]) if found else None
