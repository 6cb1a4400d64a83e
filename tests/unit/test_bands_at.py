r"""``at``: the same data with another norm bound or noise scale; delta: the contract."""

from contextlib import suppress

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions import UnsupportedError
from torch.testing import assert_close
from two_outcomes import OBJECTIVE, PURITY

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    BandUCB,
    KernelFamilyUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    NormTracker,
    ScalarizedUCB,
    StreamingKernelUCB,
    UnknownNoise,
    WangDeFreitasUCB,
    optimum_report,
)
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from problems import frozen_model, make_problem

PROBLEM = make_problem(n=8)
X, SCALE = PROBLEM.test_X, {"noise_std": 0.2}
MINUS = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.float64))
CLOSE, SAME = {"rtol": 1e-12, "atol": 1e-12}, {"rtol": 0.0, "atol": 0.0}
BOUNDS = {
    MartingaleMixtureUCB: SCALE,
    AbbasiYadkoriUCB: SCALE,
    IGPUCB: SCALE,
    WangDeFreitasUCB: SCALE,
    KernelFamilyUCB: SCALE | {"kernels": [PROBLEM.kernel]},
    StreamingKernelUCB: {"noise_std": UnknownNoise(0.05, 0.5)},
}
every_bound = pytest.mark.parametrize("acqf_class", BOUNDS)


@every_bound
def test_is_the_bound_built_anew(acqf_class):
    options = {"norm_bound": 5.0, "maximize": False, **BOUNDS[acqf_class]}
    acqf = acqf_class(PROBLEM.model, **options)
    changes = [{"norm_bound": 8.0, "delta": 0.2}]
    if BOUNDS[acqf_class] is SCALE:
        changes.append({"noise_std": 0.3})
    for change in changes:
        before, again = acqf.bounds(X), acqf.band.at(**change)
        anew = acqf_class(PROBLEM.model, **options | change)
        assert_close(again.bounds(X), anew.bounds(X), **CLOSE)
        assert str(again.assumptions) == str(anew.assumptions)
        assert again.direction == -1
        assert_close(acqf.bounds(X), before, **SAME)
    # Where the noise stays, so does the decomposition.
    assert acqf.band.at(delta=0.1).data is acqf.band.data or len(changes) == 1


def test_a_tracker_stays_as_it_is():
    tracker = NormTracker()
    acqf = MartingaleMixtureUCB(PROBLEM.model, norm_bound=tracker, noise_std=0.2)
    before = tracker.norm_bound
    acqf.band.at(delta=0.5)
    assert tracker.norm_bound == before


def test_a_weighted_sum_shares_delta_as_before():
    acqfs = [
        MartingaleMixtureUCB(model, norm_bound=5.0, noise_std=0.2, delta=delta)
        for model, delta in [(OBJECTIVE.model, 0.01), (PURITY.model, 0.03)]
    ]
    again = ScalarizedUCB(acqfs, [1.0, -2.0]).band.at(norm_bound=[6.0, 7.0], delta=0.08)
    parts = [
        acqf.band.at(norm_bound=norm, delta=delta)
        for acqf, norm, delta in zip(acqfs, [6.0, 7.0], [0.02, 0.06], strict=True)
    ]
    anew = ScalarizedUCB(parts, [1.0, -2.0])
    assert_close(again.bounds(OBJECTIVE.X), anew.bounds(OBJECTIVE.X), **CLOSE)
    assert again.assumptions.delta == pytest.approx(0.08)


ROADS = {
    "bounds": lambda band: band,
    "delta": lambda band: band.at(delta=0.02),
    "noise": lambda band: band.at(noise_std=0.3),
    "relaxed": lambda band: band.relaxed(1.3, 2.0),
    "range": lambda band: band.within(-9.0, 9.0).at(delta=0.02),
    "replicates": lambda band: band.with_replicates(),
    "design": lambda band: band.with_fixed_design(4, candidates=X).relaxed(1.0, 1.5),
}


def everything(band):
    r"""Numbers of all that is built from a band later on."""
    found = {"observed": band.observed, "noise scale": band.noise_scale}
    for name, road in ROADS.items():
        with suppress(UnsupportedError, ValueError):  # no such road for this bound
            found[name] = road(band).bounds(X)
    return found


def assert_same(after, before):
    assert before.keys() == after.keys() >= {"observed", "bounds", "delta", "range"}
    for name, value in before.items():
        assert_close(after[name], value, **SAME, msg=name)


@pytest.mark.covering
@every_bound
@pytest.mark.parametrize("given", [True, False])
def test_the_model_may_change_afterwards(acqf_class, given):
    r"""A band keeps what it read: kernel, mean, noise, data and inputs."""
    model, options = make_problem(n=8).model, {"norm_bound": 5.0, **BOUNDS[acqf_class]}
    if options["noise_std"] == 0.2 and not given:
        del options["noise_std"]
    band = acqf_class(model, **options).band
    before = everything(band)
    model.covar_module.lengthscale = 2.0
    model.likelihood.noise = torch.tensor(0.5, dtype=torch.float64)
    model.set_train_data(model.train_inputs[0] + 0.3, model.train_targets - 1.0)
    assert_same(everything(band), before)


@pytest.mark.parametrize("build", [KernelRegression, frozen_model])
def test_tensors_may_change_in_place_afterwards(build):
    inputs, noise = PROBLEM.X.clone(), torch.full((8,), 0.2, dtype=torch.float64)
    model = build(inputs, PROBLEM.Y, PROBLEM.kernel, 0.2)
    band = MartingaleMixtureUCB(model, norm_bound=5.0, noise_std=noise).band
    before = everything(band)
    inputs.add_(7.0), noise.mul_(5.0)
    if build is frozen_model:
        model.train_inputs[0].add_(3.0)
    assert_same(everything(band), before)


def contradicted(acqf_class, **options):
    problem = make_problem(n=12, norm=4.0)
    with pytest.warns(InconsistentConfidenceSetWarning):
        return acqf_class(problem.model, norm_bound=0.2, **options).band


@pytest.mark.filterwarnings("ignore::kernelucb.exceptions.InconsistentConfidenceSetWarning")
def test_a_contradicted_band_stays_so_until_another_norm_bound_is_given():
    band = contradicted(MartingaleMixtureUCB).relaxed(2.0)
    assert band.assumptions.violated
    assert band.at(delta=0.02).relaxed().assumptions.violated
    assert band.at(norm_bound=30.0).assumptions.certified
    assert band.at(norm_bound=band.norm_bounds[0]).assumptions.estimated == ("norm",)
    assert band.at(noise_std=0.3, delta=0.1).assumptions.violated


@pytest.mark.filterwarnings("ignore::kernelucb.exceptions.InconsistentConfidenceSetWarning")
def test_a_family_stays_contradicted_until_another_norm_bound_is_given():
    family = contradicted(KernelFamilyUCB, kernels=[PROBLEM.kernel]).relaxed(50.0)
    assert family.consistent == (True,)
    assert family.assumptions.summary == "no guarantee: kernel violated"
    assert family.at(delta=0.02).assumptions.violated
    assert family.at(norm_bound=10.0).assumptions.certified


@pytest.mark.parametrize("options", [{"maximize": False}, {"posterior_transform": MINUS}])
def test_what_is_sought_travels_with_the_band(options):
    r"""Else a report on a band of small outcomes would be about the largest."""
    band = MartingaleMixtureUCB(PROBLEM.state, norm_bound=5.0, **options).band
    roads = [band, band.at(delta=0.1), band.relaxed(2.0), band.within(-50.0, 50.0)]
    roads += [band.with_replicates(), band.within(-50.0, 50.0).relaxed().at(delta=0.1)]
    for each in roads:
        assert each.direction == -1
        found = optimum_report(each, candidates=X)
        assert torch.equal(found.recommended, X[each.bounds(X)[1].argmin()])
    assert_close(BandUCB(band)(X.unsqueeze(1)), -band.bounds(X)[0], **CLOSE)
    assert BandUCB(band, maximize=True).band.direction == 1
