r"""``at``: the band of the same data with another norm bound, noise scale or delta."""

import pytest
import torch
from botorch.models import ModelListGP
from torch.testing import assert_close
from two_outcomes import GIVEN, LEVEL, OBJECTIVE, PURITY

from kernelucb import (
    BKBUCB,
    IGPUCB,
    AbbasiYadkoriUCB,
    ConstrainedUCB,
    KernelFamilyUCB,
    LikelihoodRegression,
    LikelihoodUCB,
    MartingaleMixtureUCB,
    NormTracker,
    NystromRegression,
    ScalarizedUCB,
    SketchedMartingaleMixtureUCB,
    StreamingKernelUCB,
    UnknownNoise,
    WangDeFreitasUCB,
)
from kernelucb.acquisition.base import part_at
from kernelucb.models import BKBModel
from problems import frozen_kernel, make_problem

PROBLEM = make_problem(n=8)
X, KERNEL = PROBLEM.test_X, PROBLEM.kernel
COUNTS = LikelihoodRegression(PROBLEM.X, (PROBLEM.Y > 0).double(), KERNEL)
SKETCH = NystromRegression(
    PROBLEM.X, PROBLEM.Y, KERNEL, 0.2, inducing_points=PROBLEM.X[::2]
)
UNKNOWN = {"noise_std": UnknownNoise(0.05, 0.5)}
PAIR = ModelListGP(OBJECTIVE.model, PURITY.model)
BOUNDS = {
    MartingaleMixtureUCB: (PROBLEM.model, {"noise_std": 0.2}),
    AbbasiYadkoriUCB: (PROBLEM.model, {"noise_std": 0.2}),
    IGPUCB: (PROBLEM.model, {"noise_std": 0.2}),
    WangDeFreitasUCB: (PROBLEM.model, {"noise_std": 0.2}),
    StreamingKernelUCB: (PROBLEM.model, UNKNOWN),
    KernelFamilyUCB: (
        PROBLEM.model,
        {"noise_std": 0.2, "kernels": [KERNEL, frozen_kernel("matern52", 0.2)]},
    ),
    LikelihoodUCB: (COUNTS, {}),
    SketchedMartingaleMixtureUCB: (SKETCH, {}),
    BKBUCB: (BKBModel(PROBLEM.X, PROBLEM.Y, KERNEL, alpha=0.04), {"noise_std": 0.2}),
}


@pytest.mark.parametrize(
    "changes", [{"norm_bound": 8.0}, {"norm_bound": 8.0, "delta": 0.2}, {"delta": 0.01}]
)
@pytest.mark.parametrize("acqf_class", BOUNDS)
def test_is_the_bound_built_anew(acqf_class, changes):
    model, options = BOUNDS[acqf_class]
    acqf = acqf_class(model, norm_bound=5.0, maximize=False, **options)
    again = acqf.at(**changes)
    anew = acqf_class(model, maximize=False, **{"norm_bound": 5.0, **options, **changes})
    assert_close(again.bounds(X), anew.bounds(X), rtol=1e-12, atol=1e-12)
    assert str(again.assumptions) == str(anew.assumptions)
    assert again.direction == -1
    assert again.model is acqf.model or acqf_class is LikelihoodUCB
    assert_close(again.at(norm_bound=5.0, delta=0.05).bounds(X), acqf.bounds(X))


@pytest.mark.parametrize("acqf_class", list(BOUNDS)[:4])
def test_another_noise_scale(acqf_class):
    model, options = BOUNDS[acqf_class]
    again = acqf_class(model, norm_bound=5.0, **options).at(noise_std=0.3)
    anew = acqf_class(model, norm_bound=5.0, noise_std=0.3)
    assert_close(again.bounds(X), anew.bounds(X), rtol=1e-12, atol=1e-12)


def test_the_decomposition_is_kept():
    acqf = MartingaleMixtureUCB(PROBLEM.model, norm_bound=5.0, noise_std=0.2)
    again = acqf.at(norm_bound=6.0).at(delta=0.1)
    assert again.regression is acqf.regression


def test_a_tracker_stays_as_it_is():
    tracker = NormTracker()
    acqf = MartingaleMixtureUCB(PROBLEM.model, norm_bound=tracker, noise_std=0.2)
    before = tracker.estimates
    acqf.at(delta=0.5)
    assert tracker.estimates == before


def test_a_weighted_sum():
    acqfs = [
        MartingaleMixtureUCB(model, norm_bound=5.0, noise_std=0.2, delta=delta)
        for model, delta in [(OBJECTIVE.model, 0.01), (PURITY.model, 0.03)]
    ]
    again = ScalarizedUCB(acqfs, [1.0, -2.0]).at(norm_bound=[6.0, 7.0], delta=0.08)
    anew = ScalarizedUCB(
        [
            acqfs[0].at(norm_bound=6.0, delta=0.02),
            acqfs[1].at(norm_bound=7.0, delta=0.06),
        ],
        [1.0, -2.0],
    )
    points = OBJECTIVE.X
    assert_close(again.bounds(points), anew.bounds(points), rtol=1e-12, atol=1e-12)
    assert again.assumptions.delta == pytest.approx(0.08)


def test_a_constrained_bound():
    limits = {1: (LEVEL, None)}
    acqf = ConstrainedUCB.from_model(PAIR, constraints=limits, **GIVEN)
    again = acqf.at(delta=0.2)
    anew = ConstrainedUCB.from_model(PAIR, constraints=limits, delta=0.2, **GIVEN)
    points = OBJECTIVE.X
    for find in (
        lambda a: a.bounds(points),
        lambda a: a.outcome_constraints.margins(points),
    ):
        assert_close(find(again), find(anew), rtol=1e-12, atol=1e-12)
    assert again.temperature == acqf.temperature
    assert part_at(acqf.band, {id(acqf.band): again.band}) is again.band
    assert torch.isfinite(again(points[:2].unsqueeze(-2))).all()
