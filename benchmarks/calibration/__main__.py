r"""Command line: ``python -m benchmarks.calibration validity``."""

from benchmarks.calibration.play import AS_AX, policies, validity
from benchmarks.calibration.problems import FAMILIES, REACTION_NOISE
from benchmarks.calibration.results import (
    OURS,
    gaps_from_tasks,
    margins_of_policies,
    true_in_fresh_runs,
)
from benchmarks.calibration.stops import NAMES, stopped, stops_by_default
from benchmarks.calibration.tasks import SPACES, searched
from benchmarks.runner.study import Study, grid

STUDY = Study("benchmarks.calibration", "Claims calibrated by replays: are they true?")
_LISTED = {"points": 128, "deviations": 2.0, "starts": 5, "rounds": 16, "seed": 0}
VALIDITY = grid(_LISTED, {"number": range(399), "family": [*FAMILIES]})
STUDY.table("validity", VALIDITY, validity)(true_in_fresh_runs)

_SEARCH = {"num_restarts": 4, "raw_samples": 64, "starts": 5, "rounds": 20, "seed": 0}
_SEARCH |= {"family": "prior of BoTorch"}
_PAIRS = [
    OURS,
    ("BoTorch", "no improvement"),  # its two other turns
    ("BoTorch", "upper bound"),
    ("BoTorch", "qLogNEI"),
    ("Matern", "default"),
    ("BayBE", "default"),
]
_POLICIES = [dict(zip(("model", "rule"), pair, strict=True)) for pair in _PAIRS]
_POLICIES.append(_POLICIES[0] | {"rule": AS_AX, "num_restarts": 20, "raw_samples": 1024})
POLICIES = grid(_SEARCH, {"number": range(39)}, _POLICIES)
STUDY.table("policies", POLICIES, policies)(margins_of_policies)

_TASKS = {"deviations": 2.0, "starts": 5, "rounds": 40, "looks": [[20, 40]]}
_DRAWS = {"task": "reaction", "points": 128, "noise_std": REACTION_NOISE}
_TABLES = {"points": 200, "apart": 0.05, "noise_std": 0.01}
TASKS = grid(_TASKS, _DRAWS, {"number": range(199)})
TASKS += grid(_TASKS, _TABLES, {"number": range(3), "task": SPACES})
STUDY.table("tasks", TASKS, searched)(gaps_from_tasks)

_DEFAULT = {"rule": "default", "starts": 5, "rounds": 40, "seed": 0}
STOPS = grid(_DEFAULT, {"number": range(3), "function": NAMES})
STUDY.table("stops", STOPS, stopped)(stops_by_default)

if __name__ == "__main__":
    STUDY.main()
