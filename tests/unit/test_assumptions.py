r"""What the guarantee rests on: given, estimated or violated."""

import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import Warp
from botorch.models.transforms.outcome import Standardize

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    MartingaleMixtureUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    WangDeFreitasUCB,
)
from kernelucb.confidence.assumptions import Status
from problems import frozen_model, make_problem

PROBLEM = make_problem(n=6)
G, E = Status.GIVEN, Status.ESTIMATED


def statuses(model, **options):
    acqf = MartingaleMixtureUCB(model, norm_bound=50.0, **options)
    names = ("kernel", "mean", "noise", "norm")
    return tuple(acqf.assumptions[name].status for name in names)


def trainable(part):
    model = PROBLEM.model
    getattr(model, part).requires_grad_(True)
    return model


def test_everything_given():
    assumptions = MartingaleMixtureUCB(PROBLEM.model, norm_bound=3.0).assumptions
    assert statuses(PROBLEM.model) == (G, G, G, G)
    assert assumptions.certified
    assert assumptions.anytime
    assert "not marked" not in str(assumptions)


def test_trainable_parts_are_estimated():
    assert statuses(trainable("covar_module")) == (E, G, G, G)
    assert statuses(trainable("likelihood")) == (G, G, E, G)
    mean = frozen_model(PROBLEM.X, PROBLEM.Y, PROBLEM.kernel, 0.1, mean=0.5)
    assert statuses(mean) == (G, G, G, G)
    mean.mean_module.requires_grad_(True)
    assert statuses(mean) == (G, E, G, G)


def test_default_botorch_model_is_estimated_throughout_but_the_norm():
    model = SingleTaskGP(PROBLEM.X, PROBLEM.Y.unsqueeze(-1))
    assert statuses(model) == (E, E, E, G)
    assert not MartingaleMixtureUCB(model, norm_bound=50.0).assumptions.certified


def test_given_noise_std_is_given():
    assert statuses(trainable("likelihood"), noise_std=0.1) == (G, G, G, G)


def test_known_noise_of_each_observation_is_given():
    noise = torch.full_like(PROBLEM.Y, 0.1)
    noise[0] = 0.2
    model = frozen_model(PROBLEM.X, PROBLEM.Y, PROBLEM.kernel, noise)
    assert statuses(model) == (G, G, G, G)
    assumptions = MartingaleMixtureUCB(model, norm_bound=50.0).assumptions
    assert "0.1 to 0.2" in assumptions["noise"].statement


def test_standardize_estimates_the_mean():
    model = frozen_model(
        PROBLEM.X, PROBLEM.Y, PROBLEM.kernel, 0.1, outcome_transform=Standardize(m=1)
    )
    assert statuses(model) == (G, E, G, G)


def test_trainable_input_warping_is_part_of_the_kernel():
    model = frozen_model(
        PROBLEM.X, PROBLEM.Y, PROBLEM.kernel, 0.1, input_transform=Warp(d=1, indices=[0])
    )
    assert statuses(model) == (G, G, G, G)
    model.input_transform.requires_grad_(True)
    assert statuses(model) == (E, G, G, G)


@pytest.mark.parametrize(
    ("acqf", "anytime", "source"),
    [
        (MartingaleMixtureUCB(PROBLEM.model, norm_bound=3.0), True, "Flynn & Reeb"),
        (AbbasiYadkoriUCB(PROBLEM.model, norm_bound=3.0), True, "Abbasi-Yadkori"),
        (IGPUCB(PROBLEM.model, norm_bound=3.0), True, "Chowdhury & Gopalan"),
        (WangDeFreitasUCB(PROBLEM.model, norm_bound=3.0), False, "Wang & de Freitas"),
        (
            StreamingKernelUCB(PROBLEM.model, norm_bound=3.0, noise_lower=0.05),
            True,
            "Durand, Maillard & Pineau (2018), Corollary 1",
        ),
        (SrinivasUCB(PROBLEM.model), True, "Theorem 1"),
        (SrinivasUCB(PROBLEM.model, theorem=2), True, "Theorem 2"),
        (SrinivasUCB(PROBLEM.model, theorem=3, norm_bound=3.0), True, "Theorem 3"),
    ],
)
def test_source_and_rounds(acqf, anytime, source):
    assert acqf.assumptions.anytime is anytime
    assert source in str(acqf.assumptions)
    assert "probability 0.95" in acqf.assumptions.guarantee


def test_horizon_is_part_of_the_guarantee():
    acqf = IGPUCB(PROBLEM.model, norm_bound=3.0, horizon=77)
    assert "every round up to 77" in acqf.assumptions.guarantee


def test_scaled_srinivas_has_no_guarantee():
    assumptions = SrinivasUCB(PROBLEM.model, scale=0.2).assumptions
    assert assumptions.guarantee.startswith("heuristic, no guarantee")
    assert assumptions["theorem"].status is Status.VIOLATED
    assert not assumptions.certified
    assert SrinivasUCB(PROBLEM.model, scale=2.0).assumptions.certified


def test_bayesian_bounds_assume_a_sample_not_a_norm():
    assumptions = SrinivasUCB(PROBLEM.model).assumptions
    assert "sample of the GP" in assumptions["prior"].statement
    with pytest.raises(KeyError):
        assumptions["norm"]
