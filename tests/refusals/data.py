r"""What data, models and kernels are refused, with the words that say what to change."""

from copy import deepcopy

import botorch.settings
import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models import ModelListGP, MultiTaskGP, SingleTaskGP
from botorch.models.contextual import LCEAGP
from botorch.models.fully_bayesian import SaasFullyBayesianSingleTaskGP
from botorch.models.transforms import Bilog, Log, Normalize, Power, Standardize
from botorch.models.transforms.input import AppendFeatures
from botorch.models.transforms.outcome import ChainedOutcomeTransform, StratifiedStandardize
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import PolynomialKernel, RBFKernel, RBFKernelGrad
from gpytorch.likelihoods import (
    FixedNoiseGaussianLikelihood,
    GaussianLikelihood,
    StudentTLikelihood,
)
from gpytorch.models import ExactGP

from kernelucb import (
    BKBUCB,
    BKBBandit,
    KernelRegression,
    NystromRegression,
    SketchedMartingaleMixtureUCB,
    information_gain,
    lengthscale_family,
)
from kernelucb._numerics.spectral import kernel_spectrum
from kernelucb.data.kernel_family import fixed_kernel
from kernelucb.data.nystrom import ridge_factor
from kernelucb.models import BKBModel
from problems import constant_mean, float64, frozen_kernel, frozen_model, normal, uniform

SHAPE = BotorchTensorDimensionError
N, D = 12, 2
X, Y = uniform(N, D, seed=1), 3.0 + normal(N, seed=2)
COLUMN, OTHER_X = Y.unsqueeze(-1), uniform(N, D, seed=5)
TASKS = torch.cat([X, torch.arange(2.0).double().repeat(N // 2)[:, None]], dim=-1)
KERNEL, EIGHTH = frozen_kernel("matern52"), PolynomialKernel(8)


class PlainGP(ExactGP):
    def __init__(self, train_x=X, train_y=Y, likelihood=None, kernel=KERNEL):
        super().__init__(train_x, train_y, likelihood or GaussianLikelihood().double())
        self.mean_module, self.covar_module = constant_mean(0.3), deepcopy(kernel)

    def forward(self, x):
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))


class Warped(PlainGP):
    def forward(self, x):
        return super().forward(x.square())


class Transformed(PlainGP):
    outcome_transform = Log()


def single_task(**options):
    return SingleTaskGP(X, COLUMN, **{"outcome_transform": None} | options)


def without(attribute):
    model = single_task()
    delattr(model, attribute)
    return model


def student():
    model = without("likelihood")
    model.likelihood = StudentTLikelihood()
    return model


def fully_bayesian():
    r"""The class alone: its constructor needs JAX, which the library does not."""
    model = SaasFullyBayesianSingleTaskGP.__new__(SaasFullyBayesianSingleTaskGP)
    torch.nn.Module.__init__(model)
    return model


def with_data(X, Y):
    model = single_task().eval()
    with botorch.settings.validate_input_scaling(False):
        model.set_train_data(X, Y, strict=False)
    return model


def exchanged(X, Y):
    r"""In eval mode, in which BoTorch takes inputs as they are."""
    scaling = Normalize(D, bounds=torch.tensor([[0.0] * D, [10.0] * D]).double())
    model = single_task(input_transform=scaling).eval()
    model.set_train_data(X, Y, strict=False)
    return model


def nan(values):
    values = values.clone()
    values[1] = torch.nan
    return values


MODELS = [
    (
        "a list",
        lambda: ModelListGP(single_task(), single_task()),
        r"ScalarizedUCB\.from_model\(model, posterior_transform=posterior_transform,",
    ),
    ("fully Bayesian", fully_bayesian, "SaasFullyBayesian.* is an ensemble.* guard it"),
    (
        "multi-task",
        lambda: MultiTaskGP(TASKS, COLUMN, task_feature=-1),
        "not an exact .* of one outcome .* one SingleTaskGP .* guard it",
    ),
    (
        "a batch",
        lambda: SingleTaskGP(X.expand(3, N, D), COLUMN.expand(3, N, 1)),
        r"batch shape \(3,\).* the model before them and X_pending.* guard it",
    ),
    (
        "stratified outcomes",
        lambda: SingleTaskGP(
            TASKS,
            COLUMN,
            outcome_transform=StratifiedStandardize(
                -1, all_task_values=torch.tensor([0, 1])
            ),
        ),
        "Stratified.* is not one of Standardize",
    ),
    (
        "appended features",
        lambda: single_task(input_transform=AppendFeatures(torch.zeros(2, 1)).eval()),
        "AppendFeatures turns one point into several",
    ),
    ("Student-t noise", student, "StudentT.* not Gaussian"),
    ("no mean module", lambda: without("mean_module"), "attributes `mean_module`"),
    (
        "a kernel that cannot be copied",
        lambda: LCEAGP(X, COLUMN, None, decomposition={"a": [0], "b": [1]}),
        "cannot be copied",
    ),
    ("a kernel", lambda: KERNEL, "Expected a BoTorch model"),
    ("warped inputs", lambda: Warped(), "its own `forward`"),
    ("a transform", lambda: Transformed(), "outcome_transform, which GPyTorch"),
    ("two inputs", lambda: PlainGP((X, X), Y), "takes 2 input tensors"),
]
TRANSFORMS = {
    "does not rise": Power(-1.0),
    "one model for each": Log(outputs=[0]),
    "Use Bilog first": ChainedOutcomeTransform(a=Standardize(m=1), b=Bilog()),
}
DATA = [
    (
        "no data",
        lambda: SingleTaskGP(X[:0], COLUMN[:0], outcome_transform=None),
        InputDataError,
        r"no training data; .* at least one",
    ),
    ("NaN", lambda: with_data(nan(X), Y), InputDataError, "inputs contains NaN .* remove"),
    ("a column", lambda: PlainGP(X, COLUMN), SHAPE, r"train_Y\.squeeze\(-1\)"),
    ("fewer outcomes", lambda: PlainGP(X, Y[:-1]), SHAPE, "outcomes of shape"),
    (
        "noise of others",
        lambda: PlainGP(likelihood=FixedNoiseGaussianLikelihood(Y[:4].square())),
        InputDataError,
        "4 noise variances for 12 observations",
    ),
    (
        "outcomes below a power's",
        lambda: frozen_model(X, Y - 9.0, KERNEL, 0.2, outcome_transform=Power(3.0)),
        InputDataError,
        "outcomes below 0",
    ),
    ("raw inputs", lambda: exchanged(OTHER_X, Y), InputDataError, r"Call model\.train\(\)"),
]


def read(build):
    return lambda: KernelRegression.from_model(build())


def state(X=X, Y=Y, kernel=KERNEL, noise_std=0.1):
    return lambda: KernelRegression(X, Y, kernel, noise_std)


def lengths(shortest, longest, ratio=2.0, **options):
    kernels = lengthscale_family(RBFKernel(), shortest, longest, ratio, **options)
    return kernels.covering(D)


def nystrom(inducing=X[:3], noise_std=0.1):
    return NystromRegression(X, Y, KERNEL, noise_std, inducing)


def budgeted():
    return BKBModel(X, COLUMN, KERNEL, alpha=0.01)


APART = torch.tensor([1.0] * (N - 1) + [0.9e-8]).double()
NEGATIVE = torch.diag(float64([1.0, 2.0, -0.5]))
KERNELS = {
    "other columns": RBFKernel(ard_num_dims=5).double(),
    "a column that is not there": RBFKernel(active_dims=(7,)).double(),
    "derivatives of a kernel": RBFKernelGrad().double(),
    "a batch of kernels by itself": RBFKernel(batch_shape=torch.Size([2])).double(),
}
GIVEN = {"norm_bound": 3.0, "noise_std": 0.1}
ROWS = [
    *((label, read(build), UnsupportedError, words) for label, build, words in MODELS),
    *((label, read(build), error, words) for label, build, error, words in DATA),
    *(
        (
            words,
            lambda t=t: KernelRegression.from_model(
                frozen_model(X, Y, KERNEL, 0.2, outcome_transform=t)
            ),
            UnsupportedError,
            words,
        )
        for words, t in TRANSFORMS.items()
    ),
    *(
        (label, lambda k=k, use=use: use(k), UnsupportedError, "columns|one value")
        for label, k in KERNELS.items()
        for use in (
            lambda k: KernelRegression(X, Y, k, 0.1),
            lambda k: BKBBandit(X, k, **GIVEN),
            lambda k: information_gain(k, X, noise_std=0.1),
        )
    ),
    ("one row of inputs", state(X[0]), SHAPE, "must be `n x"),
    ("one outcome less", state(X, Y[:-1]), SHAPE, "must be `n x"),
    ("no observations", state(X[:0], Y[:0]), InputDataError, "at least one"),
    ("inputs that are NaN", state(X * torch.nan), InputDataError, "train_X contains NaN"),
    ("infinite outcomes", state(X, Y / 0.0), InputDataError, "train_Y contains NaN or inf"),
    ("huge inputs", state(1e80 * X), InputDataError, r"beyond 1e\+75"),
    ("a kernel too large", state(1e40 * X, kernel=EIGHTH), InputDataError, "not finite"),
    (
        "a query too large",
        lambda: state(kernel=EIGHTH)().mean(1e40 * X),
        InputDataError,
        "not finite",
    ),
    ("a name for a kernel", state(kernel="rbf"), UnsupportedError, "Expected a GPyTorch"),
    ("noise scales apart", state(noise_std=APART), ValueError, "apart"),
    ("pending columns", lambda: state()().with_pending(X[:, :1]), SHAPE, "b x 2"),
    (
        "a negative eigenvalue",
        lambda: kernel_spectrum(NEGATIVE),
        InputDataError,
        "not a positive semi-definite kernel",
    ),
    ("no inducing point", lambda: nystrom(X[:0]), SHAPE, "an inducing point"),
    (
        "noise that is rounding",
        lambda: nystrom(noise_std=1e-14),
        ValueError,
        "must be at least",
    ),
    (
        "noise of new observations",
        lambda: nystrom(noise_std=0.1 + X[:, 0]).observe(X[:1], Y[:1]),
        ValueError,
        "noise_std is needed",
    ),
    (
        "a ridge that is rounding",
        lambda: ridge_factor(torch.diag(float64([1.0, -1e-3])), 1e-4),
        InputDataError,
        "ridge parameter",
    ),
    (
        "no sketch",
        lambda: SketchedMartingaleMixtureUCB(single_task(), norm_bound=3.0),
        UnsupportedError,
        "NystromReg",
    ),
    (
        "no budget",
        lambda: BKBUCB(single_task(), norm_bound=3.0),
        UnsupportedError,
        "use BKBModel",
    ),
    ("a point of BKB", lambda: budgeted().posterior(X[0]), SHAPE, "X must be"),
    ("columns of BKB", lambda: budgeted().observe(X[:, :1], Y), SHAPE, "X must be `n x 2`"),
    (
        "a batch of BKB",
        lambda: budgeted().observe(X[None], Y[None]),
        UnsupportedError,
        "without batch dim",
    ),
    ("BKB's dtype", lambda: budgeted().float(), UnsupportedError, "leave its dtype alone"),
    (
        "BKB of logarithms",
        lambda: BKBModel(
            X, COLUMN.abs(), KERNEL, 0.04, outcome_transform=Log()
        ).regression(),
        UnsupportedError,
        "transform the outcomes yourself",
    ),
    ("far apart", lambda: lengths(1e-60, 1.0, 1e60), ValueError, "use a smaller ratio"),
    ("ends", lambda: lengths([0.1, 0.2], [1.0] * 3), ValueError, "shortest has 2 entries"),
    (
        "columns of a family",
        lambda: lengths([0.5] * 3, [1.0] * 3, each_coordinate=True),
        UnsupportedError,
        "2 col",
    ),
    ("no length", lambda: fixed_kernel("rbf", [], 1.0), ValueError, "lengthscale is empty"),
]
