r"""Models that have no kernel-regression state are refused, one by one."""

import re

import botorch.settings
import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models import (
    KroneckerMultiTaskGP,
    ModelListGP,
    MultiTaskGP,
    PairwiseGP,
    SingleTaskGP,
    SingleTaskVariationalGP,
)
from botorch.models.fully_bayesian import SaasFullyBayesianSingleTaskGP
from botorch.models.transforms.input import AppendFeatures, InputPerturbation
from botorch.models.transforms.outcome import (
    Bilog,
    ChainedOutcomeTransform,
    Log,
    Power,
    Standardize,
)
from gpytorch.likelihoods import StudentTLikelihood

from kernelucb import KernelRegression, MartingaleMixtureUCB
from problems import frozen_kernel, frozen_model, make_problem, uniform

X = uniform(6, 2, seed=1)
Y = X.sum(-1, keepdim=True) + 0.5


def task_inputs():
    return torch.cat([X, torch.tensor([[0.0, 1.0]]).double().repeat(1, 3).mT], dim=-1)


def multi_task_with_one_output():
    return MultiTaskGP(task_inputs(), Y, task_feature=-1, output_tasks=[0])


def with_outcome_transform(transform):
    return SingleTaskGP(X, Y, outcome_transform=transform)


def with_input_transform(transform):
    return SingleTaskGP(X, Y, input_transform=transform)


def perturbation():
    return InputPerturbation(perturbation_set=torch.zeros(2, 2).double()).eval()


def without_gaussian_likelihood():
    model = SingleTaskGP(X, Y)
    model.likelihood = StudentTLikelihood()
    return model


def without_mean_module():
    model = SingleTaskGP(X, Y)
    model.prior_mean = model.mean_module
    del model.mean_module
    return model


def fully_bayesian():
    r"""The class alone: its constructor needs JAX, which the library does not."""
    model = SaasFullyBayesianSingleTaskGP.__new__(SaasFullyBayesianSingleTaskGP)
    torch.nn.Module.__init__(model)
    return model


MODELS = {
    "several outputs": (lambda: SingleTaskGP(X, Y.repeat(1, 2)), "has 2 outputs"),
    "list of one": (lambda: ModelListGP(SingleTaskGP(X, Y)), r"model\.models\[0\]"),
    "list of two": (
        lambda: ModelListGP(SingleTaskGP(X, Y), SingleTaskGP(X, Y)),
        r"ScalarizedUCB\.from_model",
    ),
    "fully Bayesian": (fully_bayesian, "SaasFullyBayesian.* is an ensemble"),
    "variational": (lambda: SingleTaskVariationalGP(X, Y), "is not an exact"),
    "multi-task": (
        lambda: MultiTaskGP(task_inputs(), Y, task_feature=-1),
        "has 2 outputs",
    ),
    "multi-task, one output": (multi_task_with_one_output, "is not an exact single-task"),
    "Kronecker": (lambda: KroneckerMultiTaskGP(X, Y.repeat(1, 2)), "has 2 outputs"),
    "pairwise": (lambda: PairwiseGP(X, torch.tensor([[0, 1]])), "is not an exact"),
    "batch": (
        lambda: SingleTaskGP(X.expand(3, 6, 2), Y.expand(3, 6, 1)),
        re.escape("batch shape (3,)"),
    ),
    "log outcomes": (lambda: with_outcome_transform(Log()), "outcome transform Log"),
    "power outcomes": (lambda: with_outcome_transform(Power(0.5)), "transform Power"),
    "bilog outcomes": (lambda: with_outcome_transform(Bilog()), "transform Bilog"),
    "log in a chain": (
        lambda: with_outcome_transform(
            ChainedOutcomeTransform(log=Log(), standardize=Standardize(m=1))
        ),
        "outcome transform Log .* Use Standardize",
    ),
    "appended features": (
        lambda: with_input_transform(AppendFeatures(torch.zeros(2, 1).double())),
        "AppendFeatures turns one point into several",
    ),
    "perturbed inputs": (
        lambda: with_input_transform(perturbation()),
        "InputPerturbation turns one point into several",
    ),
    "Student-t noise": (
        without_gaussian_likelihood,
        "likelihood StudentT.* not Gaussian",
    ),
    "no mean module": (without_mean_module, "must have attributes `mean_module`"),
    "a string": (lambda: "model", "model must be an instance of Model"),
    "a kernel": (lambda: frozen_kernel("rbf"), "Expected a BoTorch model, got RBFKernel"),
    "nothing": (lambda: None, "model must be an instance of Model"),
}


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")
@pytest.mark.parametrize("case", MODELS)
def test_model_is_rejected(case):
    build, message = MODELS[case]
    model = build()
    with pytest.raises(UnsupportedError, match=message):
        KernelRegression.from_model(model)
    with pytest.raises(UnsupportedError, match=message):
        MartingaleMixtureUCB(model, norm_bound=1.0, noise_std=0.1)


def test_empty_data_are_rejected():
    model = SingleTaskGP(X[:0], Y[:0], outcome_transform=None)
    with pytest.raises(InputDataError, match=r"no training data; .* at least one"):
        KernelRegression.from_model(model)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_outcomes_that_are_not_finite_are_rejected(bad):
    model = frozen_model(X, Y.clone(), frozen_kernel("rbf"), 0.1)
    model.train_targets[2] = bad
    with pytest.raises(InputDataError, match=r"training outcomes contains NaN .* remove"):
        KernelRegression.from_model(model)


def test_inputs_that_are_not_finite_are_rejected():
    bad_X = X.clone()
    bad_X[1, 0] = torch.nan
    with botorch.settings.validate_input_scaling(False):
        model = frozen_model(X, Y, frozen_kernel("rbf"), 0.1)
        model.set_train_data(bad_X, Y[:, 0], strict=False)
    with pytest.raises(InputDataError, match=r"training inputs contains NaN .* remove"):
        KernelRegression.from_model(model)


def test_a_state_is_accepted_wherever_a_model_is():
    problem = make_problem()
    from_state = MartingaleMixtureUCB(problem.state, norm_bound=3.0)
    from_model = MartingaleMixtureUCB(problem.model, norm_bound=3.0)
    for one, other in zip(
        from_state.bounds(problem.test_X), from_model.bounds(problem.test_X), strict=True
    ):
        torch.testing.assert_close(one, other)
