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
from botorch.models.approximate_gp import ApproximateGPyTorchModel
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.fully_bayesian import SaasFullyBayesianSingleTaskGP
from botorch.models.map_saas import EnsembleMapSaasSingleTaskGP
from botorch.models.transforms.input import AppendFeatures, InputPerturbation
from botorch.models.transforms.outcome import StratifiedStandardize
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import RBFKernel
from gpytorch.likelihoods import StudentTLikelihood
from gpytorch.means import ZeroMean
from gpytorch.models import ApproximateGP
from gpytorch.models.deep_gps import DeepGP
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy

from kernelucb import KernelRegression, MartingaleMixtureUCB, SafeSet
from problems import frozen_kernel, frozen_model, make_problem, uniform

X = uniform(6, 2, seed=1)
Y = X.sum(-1, keepdim=True) + 0.5


def task_inputs():
    return torch.cat([X, torch.tensor([[0.0, 1.0]]).double().repeat(1, 3).mT], dim=-1)


def multi_task_with_one_output():
    return MultiTaskGP(task_inputs(), Y, task_feature=-1, output_tasks=[0])


def stratified():
    transform = StratifiedStandardize(
        stratification_idx=-1,
        all_task_values=torch.tensor([0, 1]),
    )
    return SingleTaskGP(task_inputs(), Y, outcome_transform=transform)


class Variational(ApproximateGP):
    def __init__(self):
        distribution = CholeskyVariationalDistribution(len(X))
        super().__init__(VariationalStrategy(self, X, distribution))
        self.mean_module, self.covar_module = ZeroMean(), RBFKernel()

    def forward(self, x):
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))


def variational_by_gpytorch():
    return Variational().double()


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
        "has 2 outputs that depend on each other, .* one SingleTaskGP",
    ),
    "multi-task, one output": (multi_task_with_one_output, "is not an exact single-task"),
    "Kronecker": (
        lambda: KroneckerMultiTaskGP(X, Y.repeat(1, 2)),
        "has 2 outputs that depend on each other",
    ),
    "pairwise": (lambda: PairwiseGP(X, torch.tensor([[0, 1]])), "is not an exact"),
    "batch": (
        lambda: SingleTaskGP(X.expand(3, 6, 2), Y.expand(3, 6, 1)),
        re.escape("batch shape (3,)"),
    ),
    "list of multi-task": (
        lambda: ModelListGP(multi_task_with_one_output(), SingleTaskGP(X, Y)),
        "has 2 outputs",
    ),
    "GPyTorch, variational": (variational_by_gpytorch, "is not an exact"),
    "deep": (lambda: DeepGP(), "is not an exact"),
    "wrapped variational": (
        lambda: ApproximateGPyTorchModel(variational_by_gpytorch(), num_outputs=1),
        "is not an exact",
    ),
    "ensemble": (lambda: EnsembleMapSaasSingleTaskGP(X, Y), "is an ensemble"),
    "deterministic": (
        lambda: GenericDeterministicModel(lambda X: X[..., :1]),
        "is not an exact",
    ),
    "stratified outcomes": (stratified, "Stratified.* is not one of Standardize"),
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
    "a string": (lambda: "model", "Expected a BoTorch model|model must be"),
    "a kernel": (
        lambda: frozen_kernel("rbf"),
        "Expected a BoTorch model or a GPyTorch ExactGP, got RBFKernel",
    ),
    "nothing": (lambda: None, "Expected a BoTorch model|model must be"),
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


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")
@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: SingleTaskVariationalGP(X, Y), "is not an exact"),
        (multi_task_with_one_output, "is not an exact single-task"),
        (
            lambda: MultiTaskGP(task_inputs(), Y, task_feature=-1),
            "MultiTaskGP are not independent models; use a ModelListGP",
        ),
        (lambda: SingleTaskGP(X.expand(3, 6, 2), Y.expand(3, 6, 1)), "batch shape"),
    ],
)
def test_models_in_lists_are_rejected(model, message):
    r"""Wherever one band is made for each outcome."""
    with pytest.raises(UnsupportedError, match=message):
        SafeSet.from_models([SingleTaskGP(X, Y), model()], norm_bound=1.0, noise_std=0.1)
    listed = ModelListGP(SingleTaskGP(X, Y), model())
    with pytest.raises(UnsupportedError, match=message):
        SafeSet.from_models(listed, norm_bound=1.0, noise_std=0.1, allow_estimated=True)


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
