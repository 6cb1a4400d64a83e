r"""The families by name."""

from benchmarks.attack import botorch_checks, numerics, precision
from benchmarks.attack.tasks import Family

FAMILIES: dict[str, Family] = {
    "numerics": numerics.FAMILY,
    "precision": precision.FAMILY,
    "botorch": botorch_checks.FAMILY,
}
