r"""The best of very many candidates, a chunk at a time."""

import sys
from functools import partial

import pytest
import torch
from botorch.acquisition.analytic import PosteriorMean
from hypothesis import given
from hypothesis import strategies as st

from kernelucb import (
    BKBUCB,
    AbbasiYadkoriUCB,
    MartingaleMixtureUCB,
    NystromRegression,
    SketchedMartingaleMixtureUCB,
)
from kernelucb.models import BKBModel
from kernelucb.optim import sharded
from kernelucb.optim.chunked import argmax
from problems import frozen_kernel, make_problem, normal, uniform
from tolerances import ORDER

MODEL = BKBModel(
    uniform(30, 2, 0), normal(30, 1).unsqueeze(-1), frozen_kernel("matern52"), 0.04, 1.0
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


@pytest.mark.parametrize("acqf", BOUNDS.values(), ids=BOUNDS)
def test_majorant_is_above_and_of_equal_ones_the_first_is_chosen(acqf):
    X = uniform(200, 2, 5)
    assert bool((acqf.majorant(X[:, None]) >= acqf(X[:, None]) - ORDER).all())
    assert argmax(acqf, X[:1].expand(10, 2), 3).index == 0


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


class Recorded:
    r"""How many points each evaluation is of."""

    sizes: tuple[int, ...] = ()

    def forward(self, X):
        self.sizes += (len(X),)
        return super().forward(X)


class RecordedMean(Recorded, PosteriorMean):
    pass


class RecordedBound(Recorded, MartingaleMixtureUCB):
    pass


def test_never_more_than_a_chunk_at_once_and_searches_are_few():
    candidates, plain = uniform(5000, 2, 3), RecordedMean(MODEL)
    best = argmax(plain, candidates[:100], 30)
    assert plain.sizes == (30, 30, 30, 10)
    assert best.value == pytest.approx(float(MODEL.posterior(candidates[:100]).mean.max()))
    searched = RecordedBound(PROBLEM.state, norm_bound=3.0)
    argmax(searched, candidates, 500)
    assert sum(searched.sizes) < 0.05 * len(candidates)


def test_without_ray_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"kernelucb\[ray\]"):
        sharded.argmax(BOUNDS["exact"], uniform(9, 2, 0))
