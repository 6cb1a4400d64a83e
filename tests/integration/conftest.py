r"""Small data sets in place of those of the papers, which are not in the repository."""

import numpy as np
import pytest


@pytest.fixture
def small_data(tmp_path_factory, monkeypatch):
    r"""Their folder; what the benchmarks remember of others is forgotten."""
    from benchmarks.hpob import problems as hpob
    from benchmarks.hpob import tasks
    from benchmarks.papers.bkb_2019 import problems
    from benchmarks.papers.srinivas_2010 import priors
    from benchmarks.papers.wang_2018 import grasp

    random, folder = np.random.default_rng(0), tmp_path_factory.mktemp("data")
    for name in ("cadata", "abalone"):
        X = random.standard_normal((60, 3))
        np.savez(folder / f"{name}.npz", X=X, y=np.sin(X.sum(1)))
    readings = 20.0 + random.standard_normal((48, 6)) @ random.standard_normal((6, 6))
    np.savez(folder / "intel_temperature.npz", T=readings, n_train_rows=np.int64(40))
    rewards, thetas = random.standard_normal((60, 162)), random.random((162, 4))
    np.savez(folder / "metabo_ag.npz", rewards=rewards, thetas=thetas)
    np.savez(folder / "hpob.npz", **_hpob(random))
    monkeypatch.setattr(grasp, "_PRIORS", {})
    monkeypatch.setenv("KERNELUCB_DATA", str(folder))
    caches = (problems.rows_of, priors.prior_of, priors._readings, grasp.grasp_data)
    caches += (hpob.table, hpob.arrays, tasks.task_of, tasks.norm_of)
    for cache in caches:
        cache.cache_clear()
    yield folder
    for cache in caches:
        cache.cache_clear()


def _hpob(random):
    r"""Tables of 120 rows with a constant input and a row that comes twice; random runs."""
    from benchmarks.hpob.problems import PUBLISHED, TABLES

    arrays = {}
    for name in TABLES:
        X = np.insert(random.random((120, 2)), 1, 0.5, axis=1)
        X[1], y = X[0], np.sin(4.0 * X.sum(1))
        arrays[f"table:{name}"] = np.column_stack([X, y]).astype(np.float32)
        normalised = (y - y.min()) / np.ptp(y)
        starts = random.choice(np.sort(normalised)[30:90], (5, 1))
        for method in PUBLISHED:
            values = np.hstack([starts, random.choice(normalised, (5, 100))])
            best = np.maximum.accumulate(values, axis=1).astype(np.float32)
            arrays[f"run:{method}:{name}"] = best
    return arrays
