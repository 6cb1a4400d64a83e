r"""Training tasks and the functions to optimise, from data or from named random streams."""

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.runner import load_data, stream

Settings = dict[str, Any]


@lru_cache(maxsize=1)
def grasp_data() -> tuple[Tensor, Tensor]:
    r"""Rewards (problems x grasps) and grasp parameters (grasps x 58)."""
    data = load_data("metabo_ag")
    return torch.from_numpy(data["rewards"]), torch.from_numpy(data["thetas"])


def first_left_out(task: Settings) -> int:
    r"""The first of the problems that are left out together."""
    return task["problem"] - task["problem"] % task["held_out"]


def grasp_tasks(task: Settings) -> Tensor:
    r"""Training rewards of a problem, NaN where missing, without those left out with it."""
    rewards, _ = grasp_data()
    first = first_left_out(task)
    kept = torch.ones(len(rewards), dtype=torch.bool)
    kept[first : first + task["held_out"]] = False
    values = rewards[kept]
    random = stream(task["seed"], "training", name_of_data(task), first)
    if task["share"] < 1.0:
        number = round(task["share"] * len(values))
        values = values[torch.from_numpy(random.permutation(len(values))[:number])]
    gone = torch.from_numpy(random.random(values.shape) < task["missing"])
    return values.masked_fill(gone, torch.nan)


def name_of_data(task: Settings) -> str:
    r"""Names the random choice of training data."""
    together = "" if task["held_out"] == 1 else f"_held_out_{task['held_out']}"
    return f"share_{task['share']:g}_missing_{task['missing']:g}{together}"


def own_stream(task: Settings) -> np.random.Generator:
    r"""Noise and random choices of one method on one problem."""
    return stream(task["seed"], "own", task["domain"], task["method"], task["problem"])
