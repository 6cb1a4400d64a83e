r"""From a model to numbers: its own posterior, in outcome units, or a refusal."""

import pickle

import pytest
import torch
from botorch.exceptions import UnsupportedError
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.transforms.input import ChainedInputTransform, Normalize, Round, Warp
from botorch.models.transforms.outcome import ChainedOutcomeTransform, Standardize
from gpytorch.kernels import LinearKernel, ScaleKernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from gpytorch.means import LinearMean
from gpytorch.models import IndependentModelList
from torch.testing import assert_close

from kernelucb import KernelRegression, MartingaleMixtureUCB
from kernelucb.data.from_model import observed_inputs
from problems import PlainGP, frozen_kernel, frozen_model, normal, uniform
from tolerances import LINEAR_SOLVE, POSTERIOR

# Models here are of data as they come.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*not contained to the unit cube"),
    pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning"),
]

N, D = 12, 2
X = 10.0 * uniform(N, D, seed=1)
Y = 3.0 + 2.0 * torch.sin(X).sum(-1) + 0.3 * normal(N, seed=2)
TEST_X, OTHER_X = 10.0 * uniform(20, D, seed=3), 10.0 * uniform(N, D, seed=5)
BOUNDS = torch.tensor([[0.0, 0.0], [10.0, 10.0]], dtype=torch.float64)
COLUMN = Y.unsqueeze(-1)
SCALES = torch.linspace(0.1, 0.4, N, dtype=torch.float64)
KERNEL = frozen_kernel("matern52", 1.5)


def ard_matern():
    kernel = frozen_kernel("matern52")
    kernel.ard_num_dims = D
    kernel.raw_lengthscale.data = torch.tensor([[-0.7, 1.5]]).double()
    return kernel


def learned_warp():
    warp = Warp(d=D, indices=[0, 1], bounds=BOUNDS)
    warp.concentration0.data.fill_(1.7)
    warp.concentration1.data.copy_(torch.tensor([0.6, 2.2]))
    return warp


def normalize(**options):
    return Normalize(d=D, bounds=BOUNDS, **options)


def chained(*transforms):
    return ChainedInputTransform(**{f"t{i}": t for i, t in enumerate(transforms)})


def rounded(*indices, **options):
    return Round(integer_indices=[*indices], approximate=False, **options)


INPUT_TRANSFORMS = {
    "none": lambda: None,
    "normalize": normalize,
    "normalize, learned bounds": lambda: Normalize(d=D),
    "warp, learned": learned_warp,
    "round": lambda: rounded(1),
    "chained": lambda: chained(rounded(0), learned_warp(), normalize()),
    "not of the data": lambda: normalize(transform_on_train=False),
    "not of queries": lambda: normalize(transform_on_eval=False),
    "rounded queries": lambda: chained(normalize(), rounded(1, transform_on_train=False)),
}
MODELS = {
    "ard matern": {"kernel": ard_matern, "mean": LinearMean(D)},
    "sum": {"kernel": lambda: frozen_kernel("rbf", 0.9) + ScaleKernel(ard_matern())},
    "linear": {"kernel": LinearKernel},
    "noise of each": {"noise_std": SCALES},
    "one observation": {"X": X[:1], "Y": Y[:1]},
}


def model_of(X=X, Y=Y, kernel=lambda: frozen_kernel("rbf", 1.5), noise_std=0.3, **options):
    return frozen_model(X, Y, kernel(), noise_std, **options)


def assert_same_posterior(model, tolerance=POSTERIOR):
    state, posterior = KernelRegression.from_model(model), model.posterior(TEST_X)
    mean, variance = posterior.mean[:, 0], posterior.variance[:, 0]
    room = tolerance * float(state.project(TEST_X).prior_variance.max())
    assert_close(state.mean(TEST_X), mean, rtol=tolerance, atol=tolerance * float(Y.std()))
    assert_close(state.variance(TEST_X), variance, rtol=tolerance, atol=room)


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("case", MODELS)
def test_the_posterior_is_the_models(case, standardize):
    transform = Standardize(m=1) if standardize and case != "one observation" else None
    model = model_of(**({"mean": 0.4} | MODELS[case]), outcome_transform=transform)
    assert_same_posterior(model)
    if case == "noise of each":
        assert_close(KernelRegression.from_model(model).noise_std, SCALES)


@pytest.mark.parametrize("name", INPUT_TRANSFORMS)
def test_whatever_botorch_itself_does_to_the_inputs(name):
    r"""Further observations, copies, other precision, a refit."""
    make = INPUT_TRANSFORMS[name]
    transforms = {"outcome_transform": Standardize(m=1), "input_transform": make()}
    assert_same_posterior(model_of(mean=-0.7, **transforms))
    model = model_of(input_transform=make())
    assert_same_posterior(model)
    more = model.condition_on_observations(OTHER_X[:3], COLUMN[:3])
    assert torch.equal(observed_inputs(more), torch.cat([X, OTHER_X[:3]]))
    assert_same_posterior(more)
    copied = pickle.loads(pickle.dumps(model))
    assert torch.equal(observed_inputs(copied.train()), X)
    KernelRegression.from_model(copied.eval().float())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", INPUT_TRANSFORMS)
def test_data_are_exchanged_in_training_mode(name):
    r"""The remedy that the refusal names, before and after it; raw inputs follow."""
    make = INPUT_TRANSFORMS[name]
    model = model_of(input_transform=make())
    other = model_of(OTHER_X, input_transform=make()).train()
    other.load_state_dict(model.state_dict())  # bounds learned from the first data
    model.set_train_data(OTHER_X, Y)
    model.train()
    model.set_train_data(OTHER_X, Y)
    for _ in range(2):
        assert torch.equal(observed_inputs(model), OTHER_X)
        assert_same_posterior(model)
    expected = KernelRegression.from_model(other).mean(TEST_X)
    assert_close(KernelRegression.from_model(model).mean(TEST_X), expected)


def test_chained_standardize_transforms():
    transform = ChainedOutcomeTransform(a=Standardize(m=1), second=Standardize(m=1))
    model = model_of(mean=0.2, outcome_transform=transform)
    # A second standardisation learns 0 and 1, which would hide the order.
    second = model.outcome_transform["second"]
    second.means.fill_(0.7)
    second.stdvs.fill_(1.9)
    second._stdvs_sq.fill_(1.9**2)
    assert_same_posterior(model)


def test_noise_std_in_outcome_units_overrides_the_likelihood():
    model = model_of(outcome_transform=Standardize(m=1))
    state = KernelRegression.from_model(model, noise_std=0.7)
    noise = 0.7 / float(Y.std())
    other = model_of(noise_std=noise, outcome_transform=Standardize(m=1))
    mean = other.posterior(TEST_X).mean[:, 0]
    assert_close(state.mean(TEST_X), mean, rtol=POSTERIOR, atol=POSTERIOR)


def test_defaults_and_single_precision_which_is_raised_before_it_is_transformed():
    r"""BoTorch leaves raw inputs in single precision, and rounds queries alone."""
    model = SingleTaskGP(X, COLUMN, input_transform=Normalize(d=D))
    assert_same_posterior(model.train(), LINEAR_SOLVE)  # as a user has it
    for name in ("normalize", "rounded queries"):
        made = INPUT_TRANSFORMS[name]()
        model = SingleTaskGP(X.float(), COLUMN.float(), input_transform=made)
        state = KernelRegression.from_model(model)
        assert_close(state.train_inputs, normalize()(X.float().double()))


def single_task(noise_std=0.2):
    return frozen_model(X, Y, KERNEL, noise_std, mean=0.3)


def test_an_exact_gp_is_read_as_the_single_task_gp():
    fixed = PlainGP(X, Y, KERNEL, FixedNoiseGaussianLikelihood(SCALES.square()))
    for one, other in (
        (PlainGP(X, Y, KERNEL), single_task()),
        (fixed, single_task(SCALES)),
        # One column may be left out.
        (PlainGP(X[:, 0], Y, KERNEL), PlainGP(X[:, :1], Y, KERNEL)),
    ):
        points = TEST_X[:, : KernelRegression.from_model(other).dimension]
        means = [KernelRegression.from_model(m).mean(points) for m in (one, other)]
        assert_close(*means, rtol=1e-12, atol=1e-12)


# BoTorch models with methods of their own.


class WarpedForward(SingleTaskGP):
    def forward(self, x):
        return super().forward(x**3)


class OtherMean(SingleTaskGP):
    def forward(self, x):
        prior = super().forward(x)
        return type(prior)(prior.mean + 0.1, prior.lazy_covariance_matrix)


class OwnPosterior(SingleTaskGP):
    def posterior(self, X, *arguments, **options):
        return super().posterior(X + 0.1, *arguments, **options)


class OwnTransform(SingleTaskGP):
    def transform_inputs(self, X, input_transform=None):
        return X**3


class SameForward(SingleTaskGP):
    def forward(self, x):
        return super().forward(x)


@pytest.mark.parametrize("kind", [WarpedForward, OtherMean, OwnPosterior, OwnTransform])
@pytest.mark.parametrize("count", [1, N])
def test_another_prior_than_kernel_and_mean_is_refused(kind, count):
    model = kind(X[:count] / 10.0, COLUMN[:count], outcome_transform=None)
    with pytest.raises(UnsupportedError, match="SingleTaskGP"):
        KernelRegression.from_model(model)


def test_a_forward_that_says_the_same_is_taken():
    models = [make(X, COLUMN) for make in (SameForward, SingleTaskGP)]
    means = [KernelRegression.from_model(model).mean(X) for model in models]
    assert torch.equal(*means)
    single = SameForward(X.float(), COLUMN.float(), input_transform=Normalize(D))
    assert KernelRegression.from_model(single).num_observations == N


@pytest.mark.parametrize("kind", [ModelListGP, IndependentModelList])
def test_a_list_of_one_model_is_the_model(kind):
    model = single_task() if kind is ModelListGP else PlainGP(X, Y, KERNEL)
    one, listed = (MartingaleMixtureUCB(m, norm_bound=99.0) for m in (model, kind(model)))
    assert torch.equal(listed.bounds(X)[1], one.bounds(X)[1])
    assert torch.equal(listed.band.observed, one.band.observed)
    assert listed.assumptions.summary == one.assumptions.summary
