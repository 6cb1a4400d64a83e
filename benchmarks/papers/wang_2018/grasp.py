r"""Learners on the grasp domain: one of 162 grasps at a time, none twice."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.papers.wang_2018.gaussian import (
    PooledPrior,
    condition,
    fit,
    squared_exponential,
    standardised,
)
from benchmarks.runner import load_data, stream
from benchmarks.runner.study import Settings
from kernelucb import MetaPI, MetaUCB
from kernelucb.models import DiscreteMetaModel
from kernelucb.papers.meta import exploration_factor

NUM_ARMS = 162
_PRIORS: dict[str, Any] = {}  # the last prior
_ORDERS = 500  # of the random learner
ARMS = torch.arange(NUM_ARMS, dtype=torch.float64).unsqueeze(-1)  # names, not features
Scores = Callable[[list[int], Tensor], Tensor]  # of all arms, from arms played and rewards


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


def play_grasp(task: Settings) -> list[float]:
    r"""Rewards of the grasps tried, in their order."""
    rewards, thetas = grasp_data()
    names = "own", task["domain"], task["method"], task["problem"]
    truth, random = rewards[task["problem"]], stream(task["seed"], *names)
    if task["method"] == "random":
        return _random(truth, random, task["evaluations"])
    if task["method"] == "plain":
        score = _plain(task, thetas, random)
    elif task["method"] == "tlsm":
        score = _tlsm(task, thetas)
    else:
        target = float(truth.max()) if task["method"] == "pem_pi_oracle" else None
        score = _estimated_prior(task, target)
    played: list[int] = []
    for _ in range(task["evaluations"]):
        scores = score(played, truth[played]).clone()
        scores[played] = -torch.inf
        played.append(int(scores.argmax()))
    return truth[played].tolist()


def _random(truth: Tensor, random: np.random.Generator, evaluations: int) -> list[float]:
    r"""Best reward so far, averaged over many orders: hardly any noise of its own."""
    orders = random.permuted(np.tile(np.arange(NUM_ARMS), (_ORDERS, 1)), axis=1)
    rewards = truth.numpy()[orders[:, :evaluations]]
    return np.maximum.accumulate(rewards, axis=1).mean(0).tolist()


def _estimated_prior(task: Settings, target: float | None) -> Scores:
    state = [_prior(task)]

    def scores(played: list[int], y: Tensor) -> Tensor:
        if played:
            last, outcome = ARMS[played[-1:]], y[-1:].unsqueeze(-1)
            state[0] = state[0].condition_on_observations(last, outcome)
        if task["method"] == "pem_ucb":
            acqf = MetaUCB(state[0], delta=task["delta"])
        else:
            acqf = MetaPI(state[0], target=target)
        return acqf(ARMS.unsqueeze(1))

    return scores


def _prior(task: Settings) -> DiscreteMetaModel:
    r"""The prior; the problems that are left out together share it."""
    key = name_of_data(task), first_left_out(task)
    if _PRIORS.get("key") != key:
        _PRIORS.update(key=key, prior=DiscreteMetaModel(grasp_tasks(task), ARMS))
    return _PRIORS["prior"]


def _plain(task: Settings, thetas: Tensor, random: np.random.Generator) -> Scores:
    r"""A GP on the grasp parameters, fitted to the problem's own rewards."""
    first = torch.from_numpy(random.random(len(thetas)))

    def scores(played: list[int], y: Tensor) -> Tensor:
        if not played:
            return first
        chosen = fit(thetas[played], y)
        mean = torch.full((len(thetas),), chosen.mean, dtype=torch.float64)
        covariance = chosen.variance * squared_exponential(thetas, thetas, chosen.length)
        return _upper(task, *condition(mean, covariance, played, y, chosen.noise), played)

    return scores


def _tlsm(task: Settings, thetas: Tensor) -> Scores:
    r"""Yogatama & Mann (2014): one response surface for all standardised problems."""
    values = grasp_tasks(task)
    random = stream(task["seed"], "pool", name_of_data(task), task["problem"])
    chosen = torch.from_numpy(random.permutation(values.numel())[: task["pooled_points"]])
    pool = PooledPrior.of(thetas, standardised(values, 1), chosen)
    mean, covariance = pool.mean(thetas), pool.covariance(thetas, thetas)

    def scores(played: list[int], y: Tensor) -> Tensor:
        own = standardised(y, 0) if played else y
        posterior = condition(mean, covariance, played, own, pool.own.noise)
        return _upper(task, *posterior, played)

    return scores


def _upper(task: Settings, mean: Tensor, covariance: Tensor, played: list[int]) -> Tensor:
    r"""The paper gives all methods the same multiplier."""
    zeta = exploration_factor(len(grasp_data()[0]) - 1, len(played) + 1, task["delta"])
    return mean + zeta * covariance.diagonal().clamp_min(0.0).sqrt()
