r"""Small data sets in place of those of the papers, which are not in the repository."""

import numpy as np
import pytest


@pytest.fixture
def small_data(tmp_path_factory, monkeypatch):
    r"""Their folder; what the benchmarks remember of others is forgotten."""
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
    monkeypatch.setattr(grasp, "_PRIORS", {})
    monkeypatch.setenv("KERNELUCB_DATA", str(folder))
    caches = (problems.rows_of, priors.prior_of, priors._readings, grasp.grasp_data)
    for cache in caches:
        cache.cache_clear()
    yield folder
    for cache in caches:
        cache.cache_clear()
