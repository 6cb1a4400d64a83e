r"""What data, models and kernels are refused, with the words that say what to change."""

import botorch.settings
import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models import ModelListGP, MultiTaskGP, SingleTaskGP
from botorch.models.approximate_gp import ApproximateGPyTorchModel
from botorch.models.contextual import LCEAGP
from botorch.models.fully_bayesian import SaasFullyBayesianSingleTaskGP
from botorch.models.transforms import Bilog, Log, Normalize, Power, Standardize
from botorch.models.transforms.input import AppendFeatures
from botorch.models.transforms.outcome import ChainedOutcomeTransform, StratifiedStandardize
from gpytorch.kernels import MaternKernel, PolynomialKernel, RBFKernel, RBFKernelGrad
from gpytorch.likelihoods import (
    FixedNoiseGaussianLikelihood,
    GaussianLikelihood,
    StudentTLikelihood,
)

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
from kernelucb.data.nystrom import ridge_factor
from kernelucb.models import BKBInducingPointAllocator, BKBModel
from problems import (
    OwnGP,
    PlainGP,
    constant_mean,
    float64,
    frozen_kernel,
    frozen_model,
    normal,
    uniform,
)

SHAPE, Data, Unread = BotorchTensorDimensionError, InputDataError, UnsupportedError
N, D = 12, 2
X, Y = uniform(N, D, seed=1), 3.0 + normal(N, seed=2)
COLUMN, OTHER_X = Y.unsqueeze(-1), uniform(N, D, seed=5)
TASKS = torch.cat([X, torch.arange(2.0).double().repeat(N // 2)[:, None]], dim=-1)
KERNEL, EIGHTH = frozen_kernel("matern52"), PolynomialKernel(8)


def single_task(X=X, **options):
    return SingleTaskGP(X, COLUMN[: len(X)], **{"outcome_transform": None} | options)


def unnamed():
    model = single_task()
    del model.mean_module
    return model


def student():
    model = single_task()
    model.likelihood = StudentTLikelihood()
    return model


def transformed(model):
    r"""GPyTorch's own model, which would leave the transform out."""
    model.outcome_transform = Log()
    return model


def fully_bayesian():
    r"""The class alone: its constructor needs JAX, which the library does not."""
    model = SaasFullyBayesianSingleTaskGP.__new__(SaasFullyBayesianSingleTaskGP)
    torch.nn.Module.__init__(model)
    return model


def exchanged(X, transform=None):
    r"""In eval mode, in which BoTorch takes inputs as they are."""
    model = single_task(input_transform=transform).eval()
    with botorch.settings.validate_input_scaling(False):
        model.set_train_data(X, Y, strict=False)
    return model


def stratified():
    transform = StratifiedStandardize(-1, all_task_values=torch.tensor([0, 1]))
    return single_task(TASKS, outcome_transform=transform)


def of_outcomes(transform, Y=Y):
    return frozen_model(X, Y, KERNEL, 0.2, outcome_transform=transform)


PLAIN = PlainGP(X, Y, KERNEL)
FOUR, CONTEXTS = FixedNoiseGaussianLikelihood(Y[:4].square()), {"a": [0], "b": [1]}
APPENDED = AppendFeatures(torch.zeros(2, 1)).eval()
SCALING = Normalize(D, bounds=torch.tensor([[0.0] * D, [10.0] * D]).double())
LATE = ChainedOutcomeTransform(a=Standardize(m=1), b=Bilog())
BATCH = X.expand(3, N, D), COLUMN.expand(3, N, 1)
NAN = X * torch.nan
SUM = r"ScalarizedUCB\.from_model\(model, posterior_transform=posterior_transform,"
ALONE = "not an exact .* of one outcome .* one SingleTaskGP .* guard it"
PENDING = r"batch shape \(3,\).* the model before them and X_pending.* guard it"
MODELS = [
    ("a list", lambda: ModelListGP(single_task(), single_task()), Unread, SUM),
    ("an ensemble", fully_bayesian, Unread, "SaasFullyBayesian.* is an ensemble.* guard"),
    ("tasks", lambda: MultiTaskGP(TASKS, COLUMN, task_feature=-1), Unread, ALONE),
    ("a batch", lambda: SingleTaskGP(*BATCH), Unread, PENDING),
    ("strata", stratified, Unread, "Stratified.* is not one of Standardize"),
    ("features", lambda: single_task(input_transform=APPENDED), Unread, "one point into"),
    ("Student-t noise", student, Unread, "StudentT.* not Gaussian"),
    ("other names", unnamed, Unread, "attributes `mean_module`"),
    ("contexts", lambda: LCEAGP(X, COLUMN, None, CONTEXTS), Unread, "cannot be copied"),
    ("two inputs", lambda: PlainGP((X, X), Y, KERNEL), Unread, "takes 2 input tensors"),
    ("noise of others", lambda: PlainGP(X, Y, KERNEL, FOUR), Data, "4 noise variances for"),
    ("a transform", lambda: transformed(PLAIN), Unread, "which GPyTorch does not"),
    ("no data", lambda: single_task(X[:0]), Data, r"no training data; .* at least one"),
    ("NaN", lambda: exchanged(NAN), Data, "inputs contains NaN .* remove"),
    ("a column", lambda: PlainGP(X, COLUMN, KERNEL), SHAPE, r"train_Y\.squeeze\(-1\)"),
    ("raw inputs", lambda: exchanged(OTHER_X, SCALING), Data, r"Call model\.train\(\)"),
    ("falling", lambda: of_outcomes(Power(-1.0)), Unread, "does not rise"),
    ("late", lambda: of_outcomes(LATE), Unread, "Use Bilog first"),
    ("below", lambda: of_outcomes(Power(3.0), Y - 9.0), Data, "outcomes below 0"),
]


def read(build):
    return lambda: KernelRegression.from_model(build())


def state(X=X, Y=Y, kernel=KERNEL, noise_std=0.1):
    return lambda: KernelRegression(X, Y, kernel, noise_std)


def lengths(count, columns, **options):
    ends = [0.5] * count, [1.0] * columns
    return lambda: lengthscale_family(RBFKernel(), *ends, **options).covering(D)


def nystrom(inducing=X[:3], noise_std=0.1):
    return NystromRegression(X, Y, KERNEL, noise_std, inducing)


def budgeted(Y=COLUMN, kernel=KERNEL, **options):
    return BKBModel(X, Y, kernel, alpha=0.01, **options)


def own(kernel=KERNEL, likelihood=None, mean=None):
    r"""A GP with the strategy of BKB."""
    likelihood = GaussianLikelihood().double() if likelihood is None else likelihood
    return OwnGP(X, Y, kernel, constant_mean(0.0) if mean is None else mean, likelihood)


class Warped(OwnGP):
    def forward(self, x):
        return super().forward(x**2)


def warped():
    given = X, Y, KERNEL, constant_mean(0.0), GaussianLikelihood().double()
    return BKBUCB(Warped(*given), **BOUND)


def scaled():
    model = ApproximateGPyTorchModel(own(), GaussianLikelihood())
    model.input_transform = SCALING
    return BKBUCB(model, **BOUND)


def allocated(X=X, count=3):
    allocate = BKBInducingPointAllocator(0.1).allocate_inducing_points
    return lambda: allocate(X, KERNEL, count, X.shape[:-2])


def repeated():
    r"""Where BoTorch would take the same inputs for each of a batch."""
    allocate = BKBInducingPointAllocator(0.1).allocate_inducing_points
    return allocate(X, KERNEL, 3, torch.Size([2]))


FREE, SMALL = MaternKernel().double(), BKBInducingPointAllocator
APART = torch.tensor([1.0] * (N - 1) + [0.9e-8]).double()
NEGATIVE = torch.diag(float64([1.0, 2.0, -0.5]))
FIVE, SLOPES = RBFKernel(ard_num_dims=5).double(), RBFKernelGrad().double()
GIVEN, BOUND = {"norm_bound": 3.0, "noise_std": 0.1}, {"norm_bound": 3.0}
LOGS = {"Y": COLUMN.abs(), "outcome_transform": Log()}
ROWS = [
    *((label, read(build), error, words) for label, build, error, words in MODELS),
    ("other columns", state(kernel=FIVE), Unread, "columns"),
    ("other columns of arms", lambda: BKBBandit(X, FIVE, **GIVEN), Unread, "columns"),
    ("gain", lambda: information_gain(FIVE, X, noise_std=0.1), Unread, "columns"),
    ("slopes", state(kernel=SLOPES), Unread, "one value for each pair"),
    ("a name for a kernel", state(kernel="rbf"), Unread, "Expected a GPyTorch"),
    ("one row of inputs", state(X[0]), SHAPE, "must be `n x"),
    ("one outcome less", state(X, Y[:-1]), SHAPE, "must be `n x"),
    ("no observations", state(X[:0], Y[:0]), Data, "at least one"),
    ("inputs that are NaN", state(NAN), Data, "train_X contains NaN"),
    ("a kernel too large", state(1e40 * X, kernel=EIGHTH), Data, "not finite"),
    ("far", lambda: state(kernel=EIGHTH)().mean(1e40 * X), Data, "not finite at some"),
    ("noise scales apart", state(noise_std=APART), ValueError, "apart"),
    ("pending columns", lambda: state()().with_pending(X[:, :1]), SHAPE, "b x 2"),
    ("negative", lambda: kernel_spectrum(NEGATIVE), Data, "not a positive semi-definite"),
    ("a lost ridge", lambda: ridge_factor(NEGATIVE, 0.1), Data, "ridge parameter"),
    ("no inducing point", lambda: nystrom(X[:0]), SHAPE, "an inducing point"),
    ("rounding", lambda: nystrom(noise_std=1e-14), ValueError, "must be at least"),
    (
        "noise of new ones",
        lambda: nystrom(noise_std=0.1 + X[:, 0]).observe(X[:1], Y[:1]),
        ValueError,
        "noise_std is needed",
    ),
    (
        "no sketch",
        lambda: SketchedMartingaleMixtureUCB(single_task(), **BOUND),
        Unread,
        "NystromReg",
    ),
    ("no budget", lambda: BKBUCB(single_task(), **BOUND), Unread, "use BKBModel"),
    ("columns of BKB", lambda: budgeted().observe(X[:, :1], Y), SHAPE, "X must be `n x 2`"),
    ("BKB's dtype", lambda: budgeted().float(), Unread, "leave its dtype alone"),
    (
        "BKB of logarithms",
        lambda: budgeted(**LOGS).regression(),
        Unread,
        "transform the outcomes yourself",
    ),
    ("a strategy's noise", lambda: own(likelihood=FOUR), Unread, "of GaussianLikelihood"),
    (
        "no kernel",
        lambda: own(kernel=X)(X),
        Unread,
        "covar_module .* of Kernel, got Tensor",
    ),
    ("no mean", lambda: own(mean=KERNEL)(X), Unread, "mean_module .* of Mean, got Matern"),
    ("warped", warped, Unread, "forward .* Put what warps the inputs into the kernel"),
    ("a query of it", lambda: own()(X[:, :1]), SHAPE, "X must be `... x q x 2`"),
    ("a strategy's dtype", lambda: own().float(), Unread, "leave the dtype alone"),
    ("a transform of its model", scaled, Unread, "does not know of its model's transforms"),
    (
        "an ELBO without gradient",
        lambda: own(FREE).eval().variational_strategy.kl_divergence(),
        Unread,
        r"Call train\(\) of the model",
    ),
    ("points of batches", allocated(X.expand(3, N, D)), Unread, "without batch dimensions"),
    ("points of one batch", repeated, Unread, "without batch dimensions"),
    ("points of NaN", allocated(NAN), Data, "contains NaN"),
    ("no points", allocated(count=0), ValueError, "num_inducing must be a whole number"),
    ("no noise of points", lambda: SMALL(0.0), ValueError, "alpha must be a finite number"),
    ("ends", lengths(2, 3), ValueError, "shortest has 2 entries"),
    ("columns of a family", lengths(3, 3, each_coordinate=True), Unread, "2 col"),
]
