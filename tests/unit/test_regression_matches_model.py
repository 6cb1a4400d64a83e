r"""The regression state is the model's own posterior, in outcome units."""

import pytest
import torch
from botorch.models.transforms.input import ChainedInputTransform, Normalize, Round, Warp
from botorch.models.transforms.outcome import ChainedOutcomeTransform, Standardize
from gpytorch.kernels import LinearKernel, MaternKernel, PeriodicKernel, ScaleKernel
from gpytorch.means import ConstantMean, LinearMean
from torch.testing import assert_close

from kernelucb import KernelRegression
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
