r"""The five experiments: their runs, what is counted, and what was promised."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from benchmarks.runner import ROOT, read_table
from benchmarks.trust import demo, edges, lost, stops, unsafe
from benchmarks.trust.counts import Group
from benchmarks.trust.functions import TEST_FUNCTIONS
from kernelucb._demo.run import Run as Demo

STOP_ROUNDS, UNSAFE_ROUNDS, LOST_OUTCOMES, DEMO_ROUNDS = 40, 20, 100, Demo.rounds
_BEFORE = ROOT / "benchmarks" / "trust" / "results" / "edges_before.csv"
CONSTRAINT_NORMS, DEMO_FUNCTIONS = (2.0, 10.0), demo.FUNCTIONS

_RULES = {
    ("given", False): "`norm_bound=10`",
    ("none", False): "`norm_bound=None`",
    ("none", True): "`norm_bound=None`, `allow_estimated=True`",
    ("cautious", True): '`norm_bound="cautious"`, `allow_estimated=True`',
    ("tracker", True): "`NormTracker.cautious()` kept, `allow_estimated=True`",
}
_BANDS = {
    ("known", "given", False): ("kernel and noise", "`norm_bound=B`"),
    ("known", "none", False): ("kernel and noise", _RULES["none", False]),
    ("known", "none", True): ("kernel and noise", _RULES["none", True]),
    ("known", "cautious", True): ("kernel and noise", _RULES["cautious", True]),
    ("fitted", "given", False): ("nothing: fitted", "`norm_bound=B`"),
    ("fitted", "none", False): ("nothing: fitted", _RULES["none", False]),
    ("fitted", "none", True): ("nothing: fitted", _RULES["none", True]),
    ("fitted", "cautious", True): ("nothing: fitted", _RULES["cautious", True]),
}
_LOSSES = {
    "none": "none",
    "random": "by a fair coin",
    "-1": "noise below -1 sd",
    "-0.5": "noise below -0.5 sd",
    "0": "noise below 0",
}


class Experiment(NamedTuple):
    r"""One command and its table.

    Attributes:
        run_type: Of its runs.
        play: Plays a task.
        groups: The rows, from the number of seeds.
        seeds: How many by default.
        event: What is counted, in words.
    """

    run_type: type
    play: Callable[[Any], Any]
    groups: Callable[[int], list[Group]]
    seeds: int
    event: str


def _number(attribute: str) -> Callable[[Sequence[Any]], int]:
    r"""In how many runs this is true, or above zero."""
    return lambda runs: sum(bool(getattr(run, attribute)) for run in runs)


def _has(attribute: str) -> Callable[[Any], bool]:
    return lambda run: getattr(run, attribute) > 0


def _stops(seeds: int) -> list[Group]:
    groups = []
    for function in ("random", "spike"):
        for (norm_bound, allowed), rule in _RULES.items():
            tasks = [
                stops.Task(kernel, function, norm_bound, allowed, STOP_ROUNDS, seed)
                for kernel in ("rbf", "matern52")
                for seed in range(seeds)
            ]
            promise = stops.DELTA if norm_bound == "given" else None
            labels = {"functions": function, "given": "kernel and noise", "rule": rule}
            groups.append(_stop_group(labels, tasks, promise))
    for norm_bound, allowed in (("none", False), ("none", True), ("cautious", True)):
        tasks = [
            stops.Task(stops.FITTED, function, norm_bound, allowed, STOP_ROUNDS, seed)
            for function in TEST_FUNCTIONS
            for seed in range((seeds + 1) // 2)
        ]
        rule = _RULES[norm_bound, allowed]
        labels = {"functions": "test functions", "given": "nothing: fitted", "rule": rule}
        groups.append(_stop_group(labels, tasks, None))
    return groups


def _stop_group(
    labels: dict[str, str], tasks: Sequence[stops.Task], promise: float | None
) -> Group:
    worst = "worst regret at a stop / accepted"
    numbers = {
        "refused": _number("refused"),
        "stops": _number("stopped"),
        worst: lambda runs: max(run.regret for run in runs),
    }
    return Group(labels, tasks, lambda run: run.false_stop, promise, numbers)


def _unsafe(seeds: int) -> list[Group]:
    numbers = {
        "refused": _number("refused"),
        "contradicted": _number("contradicted"),
        "unsafe evaluations": lambda runs: sum(run.unsafe for run in runs),
    }
    groups = []
    for norm in CONSTRAINT_NORMS:
        for (model, norm_bound, allowed), (given, band) in _BANDS.items():
            tasks = [
                unsafe.Task(model, norm, norm_bound, allowed, UNSAFE_ROUNDS, seed)
                for seed in range(seeds)
            ]
            certified = (model, norm_bound) == ("known", "given")
            promise = unsafe.DELTA if certified else None
            labels = {"norm B": f"{norm:g}", "given": given, "band": band}
            groups.append(Group(labels, tasks, _has("unsafe"), promise, numbers))
    return groups


def _demo(seeds: int) -> list[Group]:
    groups = []
    for estimate in (False, True):
        # What is not promised needs fewer runs to be seen broken.
        count = (seeds + 3) // 4 if estimate else seeds
        played = {
            function: [
                demo.Task(function, estimate, DEMO_ROUNDS, seed) for seed in range(count)
            ]
            for function in DEMO_FUNCTIONS
        }
        played["all"] = [task for tasks in played.values() for task in tasks]
        for function, tasks in played.items():
            for event, attribute in (
                ("band misses", "missed_rounds"),
                ("gap below the regret", "gap_below_regret_rounds"),
            ):
                command = "`--estimate`" if estimate else "default"
                labels = {"command": command, "function": function, "event": event}
                promise = None if estimate else Demo.delta
                groups.append(Group(labels, tasks, _has(attribute), promise))
    return groups


def _lost(seeds: int) -> list[Group]:
    groups = []
    for losses, words in _LOSSES.items():
        tasks = [lost.Task(losses, LOST_OUTCOMES, seed) for seed in range(seeds)]
        promise = lost.DELTA if losses in ("none", "random") else None
        groups.append(Group({"lost": words}, tasks, _has("missed"), promise))
    return groups


def _edges(seeds: int) -> list[Group]:
    played = {
        edge: [edges.Task(edge, seed) for seed in range(seeds)] for edge in edges.EDGES
    }
    played["all"] = [task for tasks in played.values() for task in tasks]
    groups = []
    for edge, tasks in played.items():
        numbers = {"refused": _number("refused"), "certified": _number("certified")}
        if _BEFORE.exists():
            numbers["false before"] = partial(_before, edge)
        groups.append(
            Group({"edge": edge}, tasks, lambda run: run.wrong, edges.DELTA, numbers)
        )
    return groups


def _before(edge: str, _: Sequence[edges.Run]) -> str:
    r"""How many were false and certified in version 1.1, in words."""
    row = read_table(_BEFORE).set_index("edge").loc[edge]
    return f"{row['events']} of {row['runs']}"


EXPERIMENTS = {
    "stops": Experiment(stops.Run, stops.play, _stops, 100, "false stops"),
    "unsafe": Experiment(unsafe.Run, unsafe.play, _unsafe, 200, "unsafe runs"),
    "demo": Experiment(demo.Run, demo.play, _demo, 100, "runs with the event"),
    "lost": Experiment(lost.Run, lost.play, _lost, 200, "runs with a miss"),
    "edges": Experiment(edges.Run, edges.play, _edges, 40, "false and certified"),
}
