r"""The stops by a family of kernels in Ax experiments."""

import logging
import warnings

import torch
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.utils.common.logger import set_ax_logger_levels

import kernelucb.ax
from benchmarks.unknown_kernel.stops import (
    GAP,
    GIVEN,
    LONGEST,
    NOISE_STD,
    SHORTEST,
    START,
    Game,
    Referee,
    Run,
    Task,
    noises,
)
from kernelucb import KernelFamilyUCB

_FAST = {"num_restarts": 2, "raw_samples": 16}


def play_in_ax(task: Task) -> Run:
    r"""Play in a client with Ax's model refitted; the family's stop is that of its rule."""
    set_ax_logger_levels(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ax's own
        return _play(task)


def _play(task: Task) -> Run:
    game = Game.of(task)
    referee, client = Referee(game), _client(task, len(game.arms))
    rule = kernelucb.ax.CertifiedGapStoppingStrategy(GAP, client)
    inputs: list[int] = []
    outcomes: list[float] = []
    for noise in noises(task):
        ((index, parameters),) = client.get_next_trials(max_trials=1).items()
        inputs.append(int(parameters["x"]))
        outcomes.append(float(game.values[inputs[-1]] + NOISE_STD * noise))
        client.complete_trial(trial_index=index, raw_data={"y": outcomes[-1]})
        if len(inputs) < START:
            continue
        if "family" not in referee.stops:
            decision = rule.decide()
            if decision.stop:
                best = int(decision.arm.parameters["x"])
                referee.note("family", len(inputs), best)
        Y = torch.tensor(outcomes, dtype=torch.float64)
        referee.ask({"known": game.known(game.arms[inputs], Y)}, len(inputs))
        if len(referee.stops) == 2:
            break
    return referee.run


def _client(task: Task, arms: int) -> Client:
    client = Client(random_seed=task.seed)
    client.configure_experiment(
        parameters=[
            RangeParameterConfig(name="x", parameter_type="int", bounds=(0, arms - 1))
        ]
    )
    client.configure_optimization(objective="y")
    strategy = kernelucb.ax.generation_strategy(
        KernelFamilyUCB,
        {"shortest": SHORTEST, "longest": LONGEST, "kernel": task.kernel, **GIVEN}
        | {"select": "widest"},
        num_initial=START,
        seed=task.seed,
        optimizer_options=_FAST,
    )
    client.set_generation_strategy(strategy)
    return client
