r"""The regression state is the model's own posterior, in outcome units."""

import pickle

import pytest
import torch
from botorch.exceptions import InputDataError
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.transforms.input import ChainedInputTransform, Normalize, Round, Warp
from botorch.models.transforms.outcome import ChainedOutcomeTransform, Standardize
from gpytorch.kernels import LinearKernel, MaternKernel, PeriodicKernel, ScaleKernel
from gpytorch.means import ConstantMean, LinearMean
from torch.testing import assert_close

from kernelucb import KernelRegression, SafeSet
from kernelucb.regression.from_model import observed_inputs
from problems import float64, frozen_kernel, frozen_model, normal, uniform
from tolerances import LINEAR_SOLVE, POSTERIOR

N, D = 12, 2
X = 10.0 * uniform(N, D, seed=1)
Y = 3.0 + 2.0 * torch.sin(X).sum(-1) + 0.3 * normal(N, seed=2)
TEST_X = 10.0 * uniform(20, D, seed=3)
BOUNDS = torch.tensor([[0.0, 0.0], [10.0, 10.0]], dtype=torch.float64)


def ard_matern():
    kernel = MaternKernel(nu=2.5, ard_num_dims=D)
    kernel.lengthscale = torch.tensor([0.4, 1.7])
    return kernel


def linear():
    kernel = LinearKernel()
    kernel.variance = 0.3
    return kernel


def learned_warp():
    warp = Warp(d=D, indices=[0, 1], bounds=BOUNDS)
    warp.concentration0.data.fill_(1.7)
    warp.concentration1.data.copy_(torch.tensor([0.6, 2.2]))
    return warp


def normalize():
    return Normalize(d=D, bounds=BOUNDS)


KERNELS = {
    "rbf": lambda: frozen_kernel("rbf", lengthscale=1.5),
    "matern12": lambda: frozen_kernel("matern12", lengthscale=1.5),
    "matern32": lambda: frozen_kernel("matern32", lengthscale=1.5),
    "ard matern": ard_matern,
    "scaled": lambda: frozen_kernel("matern52", lengthscale=1.5, outputscale=4.0),
    "additive": lambda: frozen_kernel("rbf", 0.9) + ScaleKernel(ard_matern()),
    "product": lambda: frozen_kernel("rbf", 2.0) * PeriodicKernel(),
    "linear": linear,
}

INPUT_TRANSFORMS = {
    "normalize": normalize,
    "normalize, learned bounds": lambda: Normalize(d=D),
    "warp, learned": learned_warp,
    "round": lambda: Round(integer_indices=[1], approximate=False),
    "chained": lambda: ChainedInputTransform(
        round=Round(integer_indices=[0], approximate=False),
        warp=learned_warp(),
        normalize=normalize(),
    ),
}


def assert_same_posterior(model, tolerance=POSTERIOR):
    state = KernelRegression.from_model(model)
    posterior = model.posterior(TEST_X)
    scale = float(Y.std())
    assert_close(
        state.mean(TEST_X), posterior.mean[:, 0], rtol=tolerance, atol=tolerance * scale
    )
    assert_close(
        state.variance(TEST_X),
        posterior.variance[:, 0],
        rtol=tolerance,
        atol=tolerance * float(state.project(TEST_X).prior_variance.max()),
    )


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels(kernel, standardize):
    transform = Standardize(m=1) if standardize else None
    covar_module = KERNELS[kernel]()
    assert_same_posterior(
        frozen_model(X, Y, covar_module, 0.3, mean=0.4, outcome_transform=transform)
    )


@pytest.mark.parametrize("transform", INPUT_TRANSFORMS)
def test_input_transforms(transform):
    model = frozen_model(
        X,
        Y,
        frozen_kernel("matern52", lengthscale=0.5),
        0.3,
        mean=-0.7,
        outcome_transform=Standardize(m=1),
        input_transform=INPUT_TRANSFORMS[transform](),
    )
    assert_same_posterior(model)


@pytest.mark.parametrize("standardize", [False, True])
def test_known_noise_of_each_observation(standardize):
    noise_std = 0.1 + uniform(N, 1, seed=5)[:, 0]
    transform = Standardize(m=1) if standardize else None
    model = frozen_model(
        X, Y, frozen_kernel("rbf", 1.5), noise_std, outcome_transform=transform
    )
    assert_same_posterior(model)
    assert_close(KernelRegression.from_model(model).noise_std, noise_std)


def test_chained_standardize_transforms():
    transform = ChainedOutcomeTransform(first=Standardize(m=1), second=Standardize(m=1))
    model = frozen_model(
        X, Y, frozen_kernel("rbf", 1.5), 0.3, mean=0.2, outcome_transform=transform
    )
    # What a second standardisation learns is 0 and 1, which would hide the order.
    second = model.outcome_transform["second"]
    second.means.fill_(0.7)
    second.stdvs.fill_(1.9)
    second._stdvs_sq.fill_(1.9**2)
    assert_same_posterior(model)


@pytest.mark.parametrize("mean", [None, 1.3, LinearMean(D)], ids=["zero", "const", "lin"])
def test_means(mean):
    assert_same_posterior(frozen_model(X, Y, frozen_kernel("rbf", 1.5), 0.3, mean=mean))


def test_model_with_default_hyper_parameters_in_training_mode():
    r"""What a user has in hand after construction: trainable, in train mode."""
    from botorch.models import SingleTaskGP

    model = SingleTaskGP(X, Y.unsqueeze(-1), input_transform=Normalize(d=D))
    model.train()
    assert_same_posterior(model, LINEAR_SOLVE)


def test_one_observation():
    model = frozen_model(X[:1], Y[:1], frozen_kernel("rbf", 1.5), 0.3, mean=0.4)
    assert_same_posterior(model)


def test_state_from_tensors_equals_state_from_model():
    mean = ConstantMean().double()
    mean.constant = float64(0.4)
    kernel = frozen_kernel("rbf", 1.5)
    from_model = KernelRegression.from_model(frozen_model(X, Y, kernel, 0.3, mean=0.4))
    for outcomes in (Y, Y.unsqueeze(-1)):
        state = KernelRegression(X, outcomes, kernel, 0.3, mean)
        for quantity in ("mean", "variance"):
            assert_close(
                getattr(state, quantity)(TEST_X),
                getattr(from_model, quantity)(TEST_X),
                rtol=POSTERIOR,
                atol=POSTERIOR,
            )


def test_noise_std_in_outcome_units_overrides_the_likelihood():
    kernel = frozen_kernel("rbf", 1.5)
    transform = Standardize(m=1)
    model = frozen_model(X, Y, kernel, 0.3, outcome_transform=transform)
    state = KernelRegression.from_model(model, noise_std=0.7)
    standardized = frozen_model(
        X, Y, kernel, 0.7 / float(Y.std()), outcome_transform=Standardize(m=1)
    )
    posterior = standardized.posterior(TEST_X)
    assert_close(state.mean(TEST_X), posterior.mean[:, 0], rtol=POSTERIOR, atol=POSTERIOR)


OTHER_X = 10.0 * uniform(N, D, seed=5)


def transformed(transform=normalize, kernel=None, **options):
    r"""A model of ``X`` and ``Y`` that has been put into eval mode."""
    kernel = frozen_kernel("matern52") if kernel is None else kernel
    return frozen_model(X, Y, kernel, 0.1, input_transform=transform(), **options).eval()


def raw_in_eval_mode(model):
    model.set_train_data(OTHER_X, Y)


def transformed_in_eval_mode(model):
    r"""BoTorch keeps the old raw inputs, and goes back to them in training mode."""
    model.set_train_data(model.transform_inputs(OTHER_X), Y)


def more_in_eval_mode(model):
    model.set_train_data(torch.cat([X, OTHER_X]), torch.cat([Y, Y]), strict=False)


def other_transform_in_eval_mode(model):
    model.load_state_dict(transformed(lambda: Normalize(d=D)).state_dict())


CHANGES = {
    "raw": raw_in_eval_mode,
    "transformed": transformed_in_eval_mode,
    "more": more_in_eval_mode,
    "transform": other_transform_in_eval_mode,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_inputs_that_are_not_the_transformed_raw_ones_are_refused(change):
    model = transformed()
    change(model)
    listed = ModelListGP(transformed(), model)
    uses = (
        lambda: KernelRegression.from_model(model),
        lambda: observed_inputs(model),
        lambda: SafeSet.from_models(listed, norm_bound=99.0, noise_std=0.1),
    )
    for use in uses:
        with pytest.raises(InputDataError, match=r"Call model\.train\(\) before"):
            use()


@pytest.mark.filterwarnings("ignore:.*not contained to the unit cube")
@pytest.mark.parametrize("transform", INPUT_TRANSFORMS.values(), ids=INPUT_TRANSFORMS)
def test_data_are_exchanged_in_training_mode(transform):
    r"""The remedy that the refusal names, before and after it; the raw inputs follow."""
    model, kernel = transformed(transform), frozen_kernel("matern52")
    other = frozen_model(OTHER_X, Y, kernel, 0.1, input_transform=transform()).train()
    other.load_state_dict(model.state_dict())  # learned bounds are those of the first data
    model.set_train_data(OTHER_X, Y)
    model.train()
    model.set_train_data(OTHER_X, Y)
    assert torch.equal(observed_inputs(model), OTHER_X)
    assert_same_posterior(model)
    assert torch.equal(observed_inputs(model), OTHER_X)
    expected = KernelRegression.from_model(other)
    assert_close(KernelRegression.from_model(model).mean(TEST_X), expected.mean(TEST_X))


def only_for_queries():
    return ChainedInputTransform(
        first=normalize(),
        second=Round(integer_indices=[1], approximate=False, transform_on_train=False),
    )


MORE_TRANSFORMS = {
    **INPUT_TRANSFORMS,
    "not of the data": lambda: Normalize(d=D, bounds=BOUNDS, transform_on_train=False),
    "not of queries": lambda: Normalize(d=D, bounds=BOUNDS, transform_on_eval=False),
    "rounded queries": only_for_queries,
}


@pytest.mark.filterwarnings("ignore:.*not contained to the unit cube")
@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")
@pytest.mark.parametrize("transform", MORE_TRANSFORMS.values(), ids=MORE_TRANSFORMS)
def test_what_botorch_itself_does_to_the_inputs_is_taken(transform):
    r"""Further observations, copies, other precision, a loaded state, a refit."""
    model = transformed(transform)
    assert_same_posterior(model)
    conditioned = model.condition_on_observations(OTHER_X[:3], Y[:3].unsqueeze(-1))
    assert torch.equal(observed_inputs(conditioned), torch.cat([X, OTHER_X[:3]]))
    assert_same_posterior(conditioned)
    loaded = frozen_model(X, Y, model.covar_module, 0.1, input_transform=transform())
    loaded.load_state_dict(model.state_dict())
    assert_same_posterior(loaded)
    copied = pickle.loads(pickle.dumps(model))
    assert_same_posterior(copied)
    copied.train()
    assert torch.equal(observed_inputs(copied), X)
    KernelRegression.from_model(copied.eval().float())


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")
def test_a_model_that_went_from_single_to_double_precision_is_taken():
    r"""BoTorch leaves its raw inputs in single precision."""
    single = SingleTaskGP(X.float(), Y.float().unsqueeze(-1), input_transform=normalize())
    assert_same_posterior(single.eval().double())


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")
def test_single_precision_inputs_are_transformed_in_double_precision():
    r"""Where the model has transformed all of them: those before a query's rounding."""
    for transform in (normalize, only_for_queries):
        model = SingleTaskGP(
            X.float(), Y.float().unsqueeze(-1), input_transform=transform()
        )
        state = KernelRegression.from_model(model)
        assert_close(state.train_inputs, normalize()(X.float().double()))
