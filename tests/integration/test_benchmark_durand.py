r"""The Durand benchmark: pooled histories, Lemma 3, shares of delta, streams."""

import numpy as np
import pytest
import torch

pytest.importorskip("joblib", reason="the benchmark needs kernelucb[bench]")

from benchmarks.papers.durand_2018.__main__ import STUDY
from benchmarks.papers.durand_2018.play import (
    History,
    Learner,
    PooledRegression,
    kernel_of,
    watch,
)
from kernelucb import (
    AbbasiYadkoriUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    StreamingKernelUCB,
    UnknownNoise,
)
from tolerances import PERMUTATION, REARRANGED

NORM = 5.0
KNOWN = {"norm_bound": NORM, "noise_std": 0.1, "delta": 0.1}
UNKNOWN = KNOWN | {"noise_std": UnknownNoise(0.01, 1.0)}
BOUNDS = {
    "theorem1": lambda state: AbbasiYadkoriUCB(state, alpha=0.01 / NORM**2, **KNOWN),
    "exact": lambda state: MartingaleMixtureUCB(state, covariance_scale="mixture", **KNOWN),
    "corollary1": lambda state: StreamingKernelUCB(state, **UNKNOWN),
    "joint": lambda state: MartingaleMixtureUCB(state, **UNKNOWN),
}


def task_of(table: str, method: str) -> dict:
    return next(run for run in STUDY.tables[table].runs if run["method"] == method)


def pooled_and_raw(rounds: int = 80):
    r"""One history as the bandits keep it, and the state of all of its rows."""
    task = task_of("joint", "joint")
    history = History(task)
    indices = torch.randint(30, (rounds,))
    arms = history.arms[indices]
    outcomes = arms[:, 0].sin() + 0.1 * torch.randn(rounds, dtype=torch.float64)
    for index, outcome in zip(indices.tolist(), outcomes.tolist(), strict=True):
        history.observe(index, outcome)
    return history, KernelRegression(arms, outcomes, kernel_of(task), 1.0)


@pytest.mark.parametrize("rounds", [1, 80])
@pytest.mark.parametrize("name", BOUNDS)
def test_a_pooled_history_gives_the_bounds_of_its_rows(name, rounds):
    history, raw = pooled_and_raw(rounds)
    pooled = PooledRegression.of_history(history)
    assert pooled.num_observations == raw.num_observations == rounds
    ours, theirs = BOUNDS[name](pooled).band, BOUNDS[name](raw).band
    sides = zip(ours.bounds(history.arms), theirs.bounds(history.arms), strict=True)
    for left, right in sides:
        torch.testing.assert_close(left, right, atol=NORM * PERMUTATION, rtol=0.0)
    rel = {"corollary1": REARRANGED, "joint": PERMUTATION}.get(name)
    if rel is not None:
        ends = [[*map(float, each.noise_interval)] for each in (ours, theirs)]
        assert ends[0] == pytest.approx(ends[1], rel=rel)
    if name == "corollary1":  # three quarters of delta are for the noise
        learner = Learner(task_of("joint", name))
        learner.values(pooled, history.arms)
        assert learner.tracker.delta == pytest.approx(0.075, rel=REARRANGED)
    if (name, rounds) == ("joint", 80):  # the scatter of repeated outcomes counts
        history.scatter = 0.0
        without = BOUNDS[name](PooledRegression.of_history(history)).band
        assert without.noise_interval[1] < 0.9 * theirs.noise_interval[1]


# Sixty rounds, as the intervals shrink slowly: half a second.
def test_a_stream_s_intervals_shrink():
    found = watch(STUDY.tables["noise"].runs[0] | {"rounds": 60})
    assert {20, 50, 60} <= set(found["kept"])
    for name, intervals in found["intervals"].items():
        if name != "joint":  # nothing is carried along
            lower, upper = np.array(intervals).T
            assert (np.diff(lower) >= 0.0).all()
            assert (upper[1:] <= upper[:-1]).all()
    last = {name: widths[-1] for name, widths in found["widths"].items()}
    assert last["exact"] < last["joint"] < 0.2 * last["adaptive"]
