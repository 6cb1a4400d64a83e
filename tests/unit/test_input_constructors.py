r"""BoTorch and Ax build every bound through its input constructor."""

import inspect

import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.objective import (
    GenericMCObjective,
    IdentityMCObjective,
    ScalarizedPosteriorTransform,
)
from botorch.exceptions import UnsupportedError
from botorch.utils.datasets import SupervisedDataset
from torch.testing import assert_close

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    MartingaleMixtureUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    UnknownNoise,
    WangDeFreitasUCB,
)
from problems import make_problem

PROBLEM = make_problem(n=6)
NORM_CLASSES = [
    MartingaleMixtureUCB,
    AbbasiYadkoriUCB,
    IGPUCB,
    WangDeFreitasUCB,
    StreamingKernelUCB,
]
CLASSES = [*NORM_CLASSES, SrinivasUCB]


def options_of(acqf_class):
    if acqf_class is StreamingKernelUCB:
        return {"norm_bound": 3.0, "noise_std": UnknownNoise(0.05, 1.0)}
    return {} if acqf_class is SrinivasUCB else {"norm_bound": 3.0}


@pytest.mark.parametrize("acqf_class", CLASSES)
def test_built_through_the_constructor(acqf_class):
    options = {
        **options_of(acqf_class),
        **(
            {"noise_std": UnknownNoise(0.05, 0.5)}
            if acqf_class is StreamingKernelUCB
            else {"noise_std": 0.2}
        ),
        "delta": 0.01,
        "maximize": False,
        "X_pending": PROBLEM.test_X[:1],
        "posterior_transform": ScalarizedPosteriorTransform(
            torch.tensor([-2.0], dtype=torch.float64)
        ),
    }
    arguments = get_acqf_input_constructor(acqf_class)(model=PROBLEM.model, **options)
    X = PROBLEM.test_X.unsqueeze(-2)
    value = acqf_class(**arguments)(X)
    assert_close(value, acqf_class(PROBLEM.model, **options)(X))
    plain = acqf_class(PROBLEM.model, **options_of(acqf_class))(X)
    assert (value - plain).abs().max() > 1e-2  # the options arrived


@pytest.mark.parametrize("acqf_class", CLASSES)
def test_what_ax_always_passes_is_accepted(acqf_class):
    arguments = get_acqf_input_constructor(acqf_class)(
        model=PROBLEM.model,
        training_data=SupervisedDataset(
            X=PROBLEM.X,
            Y=PROBLEM.Y.unsqueeze(-1),
            feature_names=["x"],
            outcome_names=["y"],
        ),
        X_baseline=PROBLEM.X,
        X_pending=None,
        posterior_transform=None,
        objective=IdentityMCObjective(),
        constraints=None,
        objective_thresholds=None,
        **options_of(acqf_class),
    )
    assert set(arguments) <= set(inspect.signature(acqf_class).parameters)
    acqf_class(**arguments)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("constraints", [lambda Y: Y[..., 0]]),
        ("constraints_tuple", (torch.ones(1, 1), torch.zeros(1, 1))),
        ("objective_thresholds", torch.zeros(2)),
        ("ref_point", [0.0, 0.0]),
        ("objective", GenericMCObjective(lambda Y, X=None: Y[..., 0] ** 2)),
    ],
)
@pytest.mark.parametrize("acqf_class", CLASSES)
def test_what_would_be_ignored_is_rejected(acqf_class, name, value):
    construct = get_acqf_input_constructor(acqf_class)
    with pytest.raises(UnsupportedError, match=f"does not take `{name}`"):
        construct(model=PROBLEM.model, **options_of(acqf_class), **{name: value})


def test_missing_required_option():
    construct = get_acqf_input_constructor(StreamingKernelUCB)
    with pytest.raises(ValueError, match=r"StreamingKernelUCB needs .*`noise_std`"):
        construct(model=PROBLEM.model)


@pytest.mark.parametrize("acqf_class", [c for c in CLASSES if c is not StreamingKernelUCB])
def test_nothing_but_the_model_is_required(acqf_class):
    acqf = acqf_class(**get_acqf_input_constructor(acqf_class)(model=PROBLEM.model))
    assert bool(torch.isfinite(acqf(PROBLEM.test_X.unsqueeze(-2))).all())


@pytest.mark.parametrize("acqf_class", CLASSES)
def test_misspelt_option(acqf_class):
    construct = get_acqf_input_constructor(acqf_class)
    with pytest.raises(TypeError, match="normbound"):
        construct(model=PROBLEM.model, **options_of(acqf_class), normbound=1.0)


@pytest.mark.parametrize("acqf_class", CLASSES)
def test_arguments_after_the_model_are_keyword_only(acqf_class):
    with pytest.raises(TypeError, match="takes by position only model"):
        acqf_class(PROBLEM.model, 3.0)
