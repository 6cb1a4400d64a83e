r"""``at``: the same data with another norm bound or noise scale; delta: the contract."""

import pytest
from torch.testing import assert_close
from two_outcomes import OBJECTIVE, PURITY, made

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    KernelFamilyUCB,
    MartingaleMixtureUCB,
    NormTracker,
    ScalarizedUCB,
    StreamingKernelUCB,
    UnknownNoise,
    WangDeFreitasUCB,
)
from problems import make_problem

PROBLEM = make_problem(n=8)
X, KNOWN = PROBLEM.test_X, {"noise_std": 0.2}
CLOSE = {"rtol": 1e-12, "atol": 1e-12}
BOUNDS = {
    MartingaleMixtureUCB: KNOWN,
    AbbasiYadkoriUCB: KNOWN,
    IGPUCB: KNOWN,
    WangDeFreitasUCB: KNOWN,
    KernelFamilyUCB: KNOWN | {"kernels": [PROBLEM.kernel]},
    StreamingKernelUCB: {"noise_std": UnknownNoise(0.05, 0.5)},
}


@pytest.mark.parametrize("acqf_class", BOUNDS)
def test_is_the_bound_built_anew(acqf_class):
    options = {"norm_bound": 5.0, "maximize": False, **BOUNDS[acqf_class]}
    acqf = acqf_class(PROBLEM.model, **options)
    changes = [{"norm_bound": 8.0, "delta": 0.2}]
    if options["noise_std"] == 0.2 and acqf_class is not KernelFamilyUCB:
        changes.append({"noise_std": 0.3})
    for change in changes:
        before, again = acqf.bounds(X), acqf.at(**change)
        anew = acqf_class(PROBLEM.model, **options | change)
        assert_close(again.bounds(X), anew.bounds(X), **CLOSE)
        assert str(again.assumptions) == str(anew.assumptions)
        assert again.direction == -1
        assert_close(acqf.bounds(X), before, rtol=0.0, atol=0.0)
    assert acqf.at(delta=0.1).regression is acqf.regression or len(changes) == 1


def test_a_tracker_stays_as_it_is_and_constraints_follow():
    tracker = NormTracker()
    acqf = MartingaleMixtureUCB(PROBLEM.model, norm_bound=tracker, noise_std=0.2)
    before = tracker.estimates
    acqf.at(delta=0.5)
    assert tracker.estimates == before
    again, anew = made().at(delta=0.2), made(delta=0.2)
    margins = [each.outcome_constraints.margins(OBJECTIVE.X) for each in (again, anew)]
    assert_close(*margins, **CLOSE)
    assert again.temperature == anew.temperature


def test_a_weighted_sum_shares_delta_as_before():
    acqfs = [
        MartingaleMixtureUCB(model, norm_bound=5.0, noise_std=0.2, delta=delta)
        for model, delta in [(OBJECTIVE.model, 0.01), (PURITY.model, 0.03)]
    ]
    again = ScalarizedUCB(acqfs, [1.0, -2.0]).at(norm_bound=[6.0, 7.0], delta=0.08)
    parts = [
        acqf.at(norm_bound=norm, delta=delta)
        for acqf, norm, delta in zip(acqfs, [6.0, 7.0], [0.02, 0.06], strict=True)
    ]
    anew = ScalarizedUCB(parts, [1.0, -2.0])
    assert_close(again.bounds(OBJECTIVE.X), anew.bounds(OBJECTIVE.X), **CLOSE)
    assert again.assumptions.delta == pytest.approx(0.08)
