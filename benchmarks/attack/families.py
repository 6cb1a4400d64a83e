r"""The families by name."""

from benchmarks.attack import (
    botorch_checks,
    devices,
    interrupts,
    numerics,
    precision,
    states,
)
from benchmarks.attack.fuzz import play as fuzz
from benchmarks.attack.tasks import Family

FAMILIES: dict[str, Family] = {
    "numerics": numerics.FAMILY,
    "precision": precision.FAMILY,
    "fuzz": fuzz.FAMILY,
    "states": states.FAMILY,
    "interrupts": interrupts.FAMILY,
    "devices": devices.FAMILY,
    "botorch": botorch_checks.FAMILY,
}
