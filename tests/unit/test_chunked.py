r"""The best of very many candidates, a chunk at a time."""

import sys
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from botorch.acquisition.analytic import PosteriorMean
from botorch.exceptions import InputDataError
from hypothesis import given
from hypothesis import strategies as st

from kernelucb import (
    BKBUCB,
    AbbasiYadkoriUCB,
    MartingaleMixtureUCB,
    NystromRegression,
    SketchedMartingaleMixtureUCB,
)
from kernelucb.confidence import dual
from kernelucb.models import BKBModel
from kernelucb.optim import sharded
from kernelucb.optim.chunked import argmax
from problems import frozen_kernel, make_problem, normal, uniform
from tolerances import ORDER

LAM = 0.04
MODEL = BKBModel(
    uniform(30, 2, 0), normal(30, 1).unsqueeze(-1), frozen_kernel("matern52"), LAM, 1.0
)
PROBLEM = make_problem(n=25, d=2, kernel="matern52")


SKETCH = NystromRegression(PROBLEM.X, PROBLEM.Y, PROBLEM.kernel, 0.1, PROBLEM.X[:8])
exact = partial(MartingaleMixtureUCB, PROBLEM.state, norm_bound=3.0)
BOUNDS = {
    "bkb": BKBUCB(MODEL, norm_bound=2.0, noise_std=0.3),
    "exact": exact(),
    "pending": exact(X_pending=uniform(3, 2, 8)),
    "minimum": exact(maximize=False),
    "sketched": SketchedMartingaleMixtureUCB(SKETCH, norm_bound=3.0),
    "ridge": AbbasiYadkoriUCB(PROBLEM.state, norm_bound=3.0),
}


@pytest.fixture(params=BOUNDS)
def acqf(request):
    return BOUNDS[request.param]


def test_majorant_is_above(acqf):
    X = uniform(200, 2, 5).unsqueeze(-2)
    assert bool((acqf.majorant(X) >= acqf(X) - ORDER).all())


def test_searches_are_few(monkeypatch):
    r"""Counted where Newton's method starts: a small share of the candidates."""
    searched, plain = [], dual._parabola_vertex

    def counted(values, best):
        searched.append(len(best))
        return plain(values, best)

    monkeypatch.setattr(dual, "_parabola_vertex", counted)
    acqf, candidates = BOUNDS["exact"], uniform(5000, 2, 6)
    best = argmax(acqf, candidates, 500)
    assert sum(searched) < 0.05 * len(candidates)
    assert best.index == int(acqf(candidates.unsqueeze(-2)).argmax())


@given(
    st.sampled_from(sorted(BOUNDS)),
    st.integers(1, 50),
    st.integers(1, 60),
    st.integers(0, 10**6),
)
def test_as_in_one_piece(name, count, chunk_size, seed):
    acqf, candidates = BOUNDS[name], uniform(count, 2, seed)
    values = acqf(candidates.unsqueeze(-2))
    best = argmax(acqf, candidates, chunk_size)
    assert best.index == int(values.argmax())
    assert torch.equal(best.point, candidates[best.index : best.index + 1])
    assert best.value == pytest.approx(float(values.max()))


def test_first_of_several(acqf):
    assert argmax(acqf, uniform(1, 2, 0).expand(10, 2), 3).index == 0


def test_never_more_than_a_chunk_at_once():
    sizes = []

    class Recorded(PosteriorMean):
        def forward(self, X):
            sizes.append(len(X))
            return super().forward(X)

    candidates = uniform(100, 2, 3)
    best = argmax(Recorded(MODEL), candidates, 30)
    assert sizes == [30, 30, 30, 10]
    assert best.value == pytest.approx(float(MODEL.posterior(candidates).mean.max()))


class RayInOneProcess:
    r"""What ``sharded`` asks of Ray, without workers; counts the tasks."""

    tasks, connected = 0, False
    put = get = staticmethod(lambda value: value)

    def init(self):
        self.connected = True

    def is_initialized(self):
        return self.connected

    def cluster_resources(self):
        return {"CPU": 2.0}

    def remote(self, max_retries):
        def made(function):
            def run(*arguments):
                self.tasks += 1
                return function(*arguments)

            return SimpleNamespace(remote=run)

        return made


def test_shards_are_those_of_one_process_and_errors_count_all_candidates(monkeypatch):
    ray, candidates = RayInOneProcess(), uniform(95, 2, 1)
    monkeypatch.setitem(sys.modules, "ray", ray)
    acqf = MartingaleMixtureUCB(make_problem(n=6, d=2).model, norm_bound=3.0)
    for few in (candidates[:10], candidates):
        assert not ray.connected
        best, expected = sharded.argmax(acqf, few, 10), argmax(acqf, few, 10)
        assert (best.index, best.value) == (expected.index, expected.value)
    assert (ray.connected, ray.tasks) == (True, 5)  # of at most 4 for each processor
    candidates[70] = torch.nan
    with pytest.raises(InputDataError, match="Counted from candidate 60"):
        sharded.argmax(acqf, candidates, 10, num_shards=4)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"kernelucb\[ray\]"):
        sharded.argmax(acqf, candidates)
