r"""Ax experiments with an outcome constraint, on functions of known norm."""

import functools
from typing import NamedTuple

import torch
from ax.api.client import Client
from ax_bench import CURVE_KERNEL, FAST, FIXED, NOISE_STD, NORM, UNIT, next_trial

import kernelucb.ax
from kernelucb import MartingaleMixtureUCB
from problems import RKHSFunction

GRID = torch.linspace(0.0, 1.0, 201, dtype=torch.float64).unsqueeze(-1)
BY_NAME = FIXED | {"norm_bound": {"y": NORM, "z": NORM}}


class Problem(NamedTuple):
    r"""Maximise ``y`` where ``z`` is at least the threshold; ``z`` is largest at start."""

    objective: RKHSFunction
    constraint: RKHSFunction
    threshold: float
    start: float

    def __call__(self, parameters, noise=(0.0, 0.0)):
        x = torch.tensor([[parameters["x"]]], dtype=torch.float64)
        values = (float(self.objective(x)), float(self.constraint(x)))
        # Ax stores 15 digits.
        return {
            name: round(value + NOISE_STD * e, 9)
            for name, value, e in zip("yz", values, noise, strict=True)
        }

    def margin(self, parameters):
        return self({**parameters})["z"] - self.threshold

    @property
    def best(self):
        values = self.objective(GRID).flatten()
        return float(values[self.constraint(GRID).flatten() >= self.threshold].max())


@functools.cache
def problem(seed=0):
    objective, constraint = (
        RKHSFunction.random(CURVE_KERNEL, NORM, d=1, seed=2 * seed + j) for j in (50, 51)
    )
    values = constraint(GRID).flatten()
    threshold = round(float(values.quantile(0.5)), 6)
    return Problem(objective, constraint, threshold, float(GRID[values.argmax()]))


def constrained_client(
    kind="safe",
    seed=0,
    *,
    parameters=UNIT,
    objective="y",
    constraints=None,
    options=BY_NAME,
    acqf_class=MartingaleMixtureUCB,
    **arguments,
):
    own = {"constraints": kind, "num_initial": 2, "seed": 1}
    if kind == "safe":
        own["safe_arms"] = [{"x": problem(seed).start}]
    client = Client(random_seed=0)
    client.configure_experiment(parameters=parameters, name="constrained")
    limits = constraints or [f"z >= {problem(seed).threshold}"]
    client.configure_optimization(objective=objective, outcome_constraints=limits)
    strategy = kernelucb.ax.generation_strategy(
        acqf_class, options, **({"optimizer_options": FAST} | own | arguments)
    )
    client.set_generation_strategy(strategy)
    return client


def observed(client, number, seed=0):
    r"""``number`` more trials with bounded noise; their parameters."""
    chosen = []
    for _ in range(number):
        index, parameters = next_trial(client)
        torch.manual_seed(1000 * seed + index)
        noise = (2.0 * torch.rand(2) - 1.0).tolist()
        outcomes = problem(seed)(parameters, noise)
        client.complete_trial(trial_index=index, raw_data=outcomes)
        chosen.append(parameters)
    return chosen


def acquisition(client):
    return client._generation_strategy.adapter.generator._acquisition
