r"""Learners on the grasp domain: one of 162 grasps at a time, none twice."""

from collections.abc import Callable
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
from benchmarks.papers.wang_2018.problems import (
    Settings,
    first_left_out,
    grasp_data,
    grasp_tasks,
    name_of_data,
    own_stream,
)
from benchmarks.runner import stream
from kernelucb import MetaPI, MetaUCB
from kernelucb.confidence.meta import exploration_factor
from kernelucb.models import DiscreteMetaModel

NUM_ARMS = 162
_PRIORS: dict[str, Any] = {}  # the last prior
_ORDERS = 500  # of the random learner
ARMS = torch.arange(NUM_ARMS, dtype=torch.float64).unsqueeze(-1)  # names, not features
Scores = Callable[[list[int], Tensor], Tensor]  # of all arms, from arms played and rewards


def play_grasp(task: Settings) -> list[float]:
    r"""Rewards of the grasps tried, in their order."""
    rewards, thetas = grasp_data()
    truth, random = rewards[task["problem"]], own_stream(task)
    if task["method"] == "random":
        return _random(truth, random, task["evaluations"])
    score = _learner(task, truth, thetas, random)
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


def _learner(task: Settings, truth: Tensor, thetas: Tensor, random: np.random.Generator):
    name = task["method"]
    if name == "plain":
        return _plain(task, thetas, random)
    if name == "tlsm":
        return _tlsm(task, thetas)
    target = float(truth.max()) if name == "pem_pi_oracle" else None
    return _estimated_prior(task, target)


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
