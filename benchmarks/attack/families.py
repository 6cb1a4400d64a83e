r"""The families by name."""

from benchmarks.attack import numerics
from benchmarks.attack.fuzz import play as fuzz
from benchmarks.attack.tasks import Family

FAMILIES: dict[str, Family] = {
    "numerics": numerics.FAMILY,
    "fuzz": fuzz.FAMILY,
}
