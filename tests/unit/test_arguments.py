r"""One layer checks the types of all arguments of the public classes and functions."""

import contextlib
import inspect
import pickle
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import pytest
import torch
from botorch.exceptions import (
    BotorchTensorDimensionError,
    InputDataError,
    UnsupportedError,
)
from gpytorch.kernels import Kernel, RBFKernel

import kernelucb
from kernelucb import UnknownNoise
from kernelucb._numerics.arguments import checked
from kernelucb._numerics.estimates import EstimatedNumber
from kernelucb.exceptions import NoSafePointError, UncertifiedError
from kernelucb.models.bkb import BKBModel
from kernelucb.models.meta import CosineFeatures, DiscreteMetaModel, complete_matrix
from problems import frozen_kernel, make_problem, uniform


def taking(hint):
    def function(value):
        return value

    function.__annotations__ = {"value": hint}
    return checked(function)


ONE = torch.ones(1, dtype=torch.float64)


@pytest.mark.parametrize(
    ("hint", "value", "read"),
    [
        (float, 1, 1.0),
        (float, np.float32(0.5), 0.5),
        (float, ONE, 1.0),
        (float | None, None, None),
        (int, np.int64(3), 3),
        (bool, np.True_, True),
        (str, "a", "a"),
        (Literal["a", 2], 2, 2),
        (Sequence[float], np.array([1, 2]), [1.0, 2.0]),
        (Sequence[float] | float, ONE[0], 1.0),
        (tuple[float, float], [1, 2], (1.0, 2.0)),
        (tuple[str, ...], ("a",), ["a"]),
        (Mapping[str, float], {"a": 1}, {"a": 1.0}),
        (type[Kernel], RBFKernel, RBFKernel),
        (Callable[[float], float], abs, abs),
        (Any, "whatever", "whatever"),
    ],
)
def test_what_is_taken(hint, value, read):
    result = taking(hint)(value)
    assert result == read
    assert type(result) is type(read)


@pytest.mark.parametrize(
    "value", [torch.ones(1), torch.ones(2, 3), torch.nn.Parameter(torch.ones(1))]
)
@pytest.mark.parametrize("hint", [torch.Tensor, float | torch.Tensor | None])
def test_tensors_are_handed_on(hint, value):
    assert taking(hint)(value) is value


def test_an_estimate_stays_one():
    estimate = EstimatedNumber(2.0)
    assert taking(float | None)(estimate) is estimate


@pytest.mark.parametrize(
    ("hint", "value", "error", "message"),
    [
        (float, True, ValueError, "value must be a number, got True"),
        (float, "loud", ValueError, "value must be a number, got 'loud'"),
        (float, 10**400, ValueError, "value is too large"),
        (float, 1j * ONE, ValueError, "value must be a number, got Tensor"),
        (int, 1.0, ValueError, r"value must be a whole number, got 1\.0"),
        (bool, 1, ValueError, "value must be True or False, got 1"),
        (Literal["a", "b", 1], "c", ValueError, 'must be "a", "b" or 1, got \'c\''),
        (Literal[1], True, ValueError, "value must be 1, got True"),
        (torch.Tensor, [1.0], InputDataError, "must be a torch tensor, got list; convert"),
        (
            torch.Tensor | None,
            ONE.long(),
            InputDataError,
            "got torch.int64; pass a float64",
        ),
        (float | torch.Tensor, ONE.bool(), InputDataError, "got torch.bool"),
        (float | torch.Tensor, None, ValueError, "a number or a tensor, got None"),
        (Kernel, "rbf", UnsupportedError, "must be an instance of Kernel, got 'rbf'"),
        (type[Kernel], torch.Tensor, UnsupportedError, "a subclass of Kernel"),
        (Callable[[float], float], 1, UnsupportedError, "must be callable, got 1"),
        (Sequence[float], "ab", ValueError, "must be a sequence, each a number, got 'ab'"),
        (Sequence[float], [1, None], ValueError, r"value\[1\] must be a number, got None"),
        (Sequence[Kernel], 1, UnsupportedError, "a sequence, each an instance of Kernel"),
        (
            tuple[float, float],
            [1],
            ValueError,
            r"value must be \(a number, a number\), got list",
        ),
        (Mapping[str, float], [1], ValueError, "value must be a mapping, got list"),
        (Mapping[str, float], {"a": "b"}, ValueError, r"value\['a'\] must be a number"),
        (
            Annotated[torch.Tensor, torch.int64],
            ONE,
            ValueError,
            "a dense tensor of torch.i",
        ),
        (
            Annotated[torch.Tensor, torch.int64],
            ONE.long().to_sparse(),
            ValueError,
            "value must be a dense tensor of torch.int64",
        ),
        (torch.Tensor, ONE.to_sparse(), InputDataError, r"a dense tensor, .*to_dense\(\)"),
        (float | torch.Tensor, ONE.to_sparse(), InputDataError, "must be a dense tensor"),
        (float, ONE.to_sparse(), ValueError, "value must be a number, got Tensor"),
    ],
)
def test_what_is_refused(hint, value, error, message):
    with pytest.raises(error, match=message):
        taking(hint)(value)


@pytest.mark.filterwarnings("ignore")  # PyTorch's own: not all that they do is final
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(2, 2).to_sparse_csr(),
        lambda: torch.nested.nested_tensor([ONE, ONE]),
    ],
)
def test_tensors_in_parts_are_refused(make):
    with pytest.raises(InputDataError, match="value must be a dense tensor"):
        taking(torch.Tensor)(make())
    with pytest.raises(ValueError, match="value must be a number"):
        taking(float)(make())


class Described:
    r"""Has a constructor with a signature of its own."""

    @checked
    def __init__(self, first: float, *, second: "int" = 2) -> None:
        r"""The constructor's own words."""
        self.first, self.second = first, second

    @classmethod
    @checked
    def made(cls, first: float) -> "Described":
        return cls(first)


def test_the_function_looks_as_it_did():
    assert (
        str(inspect.signature(Described)) == "(first: float, *, second: 'int' = 2) -> None"
    )
    assert Described.__init__.__doc__ == "The constructor's own words."
    assert typing.get_type_hints(Described.__init__)["second"] is int
    assert pickle.loads(pickle.dumps(Described(1, second=3))).second == 3
    assert type(Described.made(1).first) is float


@pytest.mark.parametrize(
    ("arguments", "options"),
    [((), {}), ((1.0, 2), {}), ((1.0,), {"third": 1}), ((1.0,), {"first": 1.0})],
)
def test_python_itself_counts_and_names_arguments(arguments, options):
    with pytest.raises(TypeError, match=r"Described\.__init__\(\)"):
        Described(*arguments, **options)


def test_hints_that_only_a_type_checker_sees_are_not_checked():
    @checked
    def function(value: "OnlyForTypeCheckers", other: float) -> None:  # noqa: F821
        return value

    assert function("anything", "x") == "anything"


PROBLEM = make_problem(n=4, d=2)
STATE = PROBLEM.state
KERNEL = frozen_kernel("rbf")
X, Y = PROBLEM.X, PROBLEM.Y.reshape(-1, 1)
SUCCESSES = (Y.median() < Y).double()
NORM = {"norm_bound": 3.0}
BOUND = kernelucb.AbbasiYadkoriUCB(STATE, **NORM)
SAFE = kernelucb.SafeSet(BOUND, -9.0)
TASKS = {
    "task_values": uniform(9, 4, 5).double(),
    "candidates": X,
}
# A call of everything that is public and takes arguments, by its valid ones.
CALLS = {
    "AbbasiYadkoriUCB": {"model": STATE, **NORM},
    "BKBBandit": {"candidates": X, "covar_module": KERNEL, **NORM, "noise_std": 0.1},
    "BKBUCB": {"model": BKBModel(X, Y, KERNEL, 0.01), **NORM},
    "BoundedNorm": {},
    "CertifiedGapStopping": {"gap": 1.0, "candidates": X},
    "CompactDomain": {},
    "ConstrainedUCB": {"band": BOUND, "constraints": kernelucb.OutcomeConstraints(BOUND)},
    "ConstraintWidth": {"safe_set": SAFE},
    "FamilyBandit": {"kernels": [KERNEL], **NORM, "noise_std": 0.1},
    "FamilyTracker": {},
    "FiniteDomain": {},
    "GuardedAcquisition": {"acqf": BOUND, "band": BOUND, "observed": X},
    "IGPUCB": {"model": STATE, **NORM},
    "KernelBandit": {"covar_module": KERNEL, "noise_std": 0.1, **NORM},
    "KernelFamilyUCB": {"model": STATE, "kernels": [KERNEL], **NORM},
    "KernelRegression": {
        "train_X": X,
        "train_Y": Y,
        "covar_module": KERNEL,
        "noise_std": 0.1,
    },
    "KernelThompsonSampling": {"model": STATE, **NORM},
    "LikelihoodBandit": {"covar_module": KERNEL, **NORM},
    "LikelihoodRegression": {"train_X": X, "train_Y": SUCCESSES, "covar_module": KERNEL},
    "LikelihoodUCB": {"train_X": X, "train_Y": SUCCESSES, "kernel": KERNEL, **NORM},
    "MartingaleMixtureUCB": {"model": STATE, **NORM, "form": "analytic"},
    "MetaPI": {"model": DiscreteMetaModel(**TASKS)},
    "MetaUCB": {"model": DiscreteMetaModel(**TASKS), "delta": 0.9},
    "MixedSpace": {
        "bounds": torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64),
        "discrete_dims": {0: [0.0, 1.0]},
    },
    "NormTracker": {},
    "NystromRegression": {
        "train_X": X,
        "train_Y": Y,
        "covar_module": KERNEL,
        "noise_std": 0.1,
        "inducing_points": X[:2],
    },
    "OutcomeConstraints": {"bands": BOUND, "thresholds": -9.0},
    "PrequentialLikelihood": {},
    "PrequentialRadius": {},
    "SafeSet": {"bands": BOUND, "thresholds": -9.0},
    "ScalarizedUCB": {"acqfs": [BOUND, BOUND], "weights": [1.0, 2.0]},
    "SketchedMartingaleMixtureUCB": {
        "model": kernelucb.NystromRegression(X, Y, KERNEL, 0.1, X[:2]),
        **NORM,
    },
    "SrinivasUCB": {"model": STATE},
    "StreamingKernelUCB": {"model": STATE, **NORM, "noise_std": UnknownNoise(0.1)},
    "StreamingNoiseTracker": {**NORM, "noise_std": UnknownNoise(0.1)},
    "UnknownNoise": {},
    "WangDeFreitasUCB": {"model": STATE, **NORM},
    "check_consistency": {"model": STATE, **NORM},
    "describe_norm_bound": {"model": STATE, **NORM, "candidates": X},
    "information_gain": {"model": STATE},
    "lengthscale_family": {"kernel": RBFKernel(), "shortest": 0.1, "longest": 0.8},
    "least_consistent_norm": {"model": STATE},
    "optimize_acqf_safely": {
        "acq_function": BOUND,
        "safe_set": SAFE,
        "bounds": torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64),
        "num_restarts": 1,
        "raw_samples": 4,
        "options": {"maxiter": 1},
    },
    "optimum_report": {"acqf": BOUND, "candidates": X},
    "outcome_bands": {"models": PROBLEM.model, **NORM},
    "regret_certificate": {"acqf": BOUND, "candidates": X},
}
# What is returned, never made by the user.
RESULTS = {
    *("ConsistencyCheck", "NormDescription", "OptimumReport", "PossibleCombination"),
    *("LikelihoodNormDescription", "RegretCertificate"),
}
MORE = {
    BKBModel: {"train_X": X, "train_Y": Y, "covar_module": KERNEL, "alpha": 0.1},
    CosineFeatures: {"frequencies": X.mT, "phases": X[:, 0]},
    DiscreteMetaModel: TASKS,
    complete_matrix: {"values": X},
}
PUBLIC = {getattr(kernelucb, name): valid for name, valid in CALLS.items()} | MORE
WRONG = [
    None,
    True,
    "x",
    b"x",
    -1,
    1.5,
    float("nan"),
    10**400,
    1j,
    [1],
    [],
    ["a"],
    [None],
    {"a": 1},
    {1},
    object(),
    object,
    abs,
    np.array([1.0, 2.0]),
    torch.ones(2, dtype=torch.int64),
    torch.ones(2, 2, dtype=torch.complex128),
    torch.tensor(float("nan")),
    torch.ones(3, 3, 3, dtype=torch.float64),
    torch.zeros(0),
    torch.ones(4, 2, dtype=torch.float64).to_sparse(),
    KERNEL,
    BOUND,
]
TYPED = (
    ValueError,
    BotorchTensorDimensionError,
    InputDataError,
    UnsupportedError,
    UncertifiedError,
    NoSafePointError,
)


def test_everything_public_is_there():
    assert {*CALLS, *RESULTS} == set(kernelucb.__all__)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("public", PUBLIC, ids=lambda public: public.__name__)
def test_one_wrong_argument(public):
    valid = PUBLIC[public]
    for name in inspect.signature(public).parameters:
        for value in WRONG:
            # Some are fair for some arguments; what counts is that no other error comes.
            with contextlib.suppress(*TYPED):
                public(**{**valid, name: value})


@pytest.mark.parametrize("public", PUBLIC, ids=lambda public: public.__name__)
def test_an_object_of_no_kind_is_refused_for_every_argument(public):
    for name in inspect.signature(public).parameters:
        with pytest.raises(TYPED, match=name):
            public(**{**PUBLIC[public], name: object()})
