r"""One acquisition function of each class, for each kind of model."""

import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import ModelListGP
from botorch.models.transforms import Log, Normalize, Standardize
from gpytorch.distributions import MultivariateNormal
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ZeroMean
from gpytorch.models import ExactGP

from kernelucb import (
    BKBUCB,
    IGPUCB,
    AbbasiYadkoriUCB,
    ConstrainedUCB,
    KernelFamily,
    KernelFamilyUCB,
    MartingaleMixtureUCB,
    MetaPI,
    MetaUCB,
    NystromRegression,
    SafeSet,
    ScalarizedUCB,
    SketchedMartingaleMixtureUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    UnknownNoise,
    WangDeFreitasUCB,
)
from kernelucb.models import BKBModel, CosineFeatures, FeatureMetaModel
from kernelucb.safety import ConstraintWidth
from problems import (
    frozen_kernel,
    frozen_model,
    likelihood_ucb,
    make_problem,
    normal,
    uniform,
)

PROBLEM = make_problem(n=8, d=2, noise_std=0.3, seed=21)
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
POINTS, PENDING = uniform(6, 2, seed=22), uniform(2, 2, seed=23)


def transformed_model():
    return frozen_model(
        PROBLEM.X,
        PROBLEM.Y,
        PROBLEM.kernel,
        0.3,
        input_transform=Normalize(d=2, bounds=2.0 * CUBE),
        outcome_transform=Standardize(m=1),
    )


def logarithmic_model():
    return frozen_model(
        PROBLEM.X, PROBLEM.Y.exp(), PROBLEM.kernel, 0.3, outcome_transform=Log()
    )


class PlainGP(ExactGP):
    def __init__(self):
        likelihood = GaussianLikelihood().double()
        likelihood.noise = 0.09
        super().__init__(PROBLEM.X, PROBLEM.Y, likelihood)
        self.mean_module, self.covar_module = ZeroMean(), PROBLEM.kernel

    def forward(self, x):
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))


def sketch():
    return NystromRegression.from_model(PROBLEM.model, PROBLEM.X[:4])


def budgeted():
    return BKBModel(PROBLEM.X, PROBLEM.Y.unsqueeze(-1), PROBLEM.kernel, 0.09, qbar=5.0)


def meta():
    features = CosineFeatures(torch.tensor([[1.0, 2.0], [2.0, 0.0]]), torch.zeros(2))
    values = normal(40 * 6, seed=3).reshape(40, 6)
    model = FeatureMetaModel(POINTS, values, features)
    return model.condition_on_observations(PENDING, torch.ones(2, 1).double())


def total():
    transform = ScalarizedPosteriorTransform(torch.tensor([1.0, -2.0]).double())
    models = ModelListGP(PROBLEM.model, PROBLEM.model)
    return ScalarizedUCB.from_model(models, norm_bound=3.0, posterior_transform=transform)


def width():
    return ConstraintWidth(SafeSet(MartingaleMixtureUCB(PROBLEM.model, norm_bound=3.0)))


def constrained():
    models = ModelListGP(PROBLEM.model, PROBLEM.model)
    return ConstrainedUCB.from_model(models, constraints={1: (0.0, 9.0)}, norm_bound=3.0)


KERNELS = [frozen_kernel("rbf", 0.3), frozen_kernel("matern52", 0.2)]
STREAMING = {"norm_bound": 3.0, "noise_std": UnknownNoise(0.1, 1.0)}


def successes():
    r"""Of so many trials that no point may be as good as the norm bound allows."""
    counts = (500.0 * PROBLEM.Y.sigmoid()).round()
    options = {"likelihood": "binomial", "num_trials": 500, "norm_bound": 10.0}
    return likelihood_ucb(PROBLEM.X, counts, frozen_kernel("rbf", 1.0), **options)


ACQUISITIONS = {
    "exact": lambda: MartingaleMixtureUCB(PROBLEM.model, norm_bound=3.0),
    "minimized": lambda: MartingaleMixtureUCB(
        PROBLEM.model, norm_bound=3.0, maximize=False
    ),
    "transformed": lambda: MartingaleMixtureUCB(transformed_model(), norm_bound=5.0),
    "logarithmic": lambda: MartingaleMixtureUCB(logarithmic_model(), norm_bound=3.0),
    "plain": lambda: MartingaleMixtureUCB(PlainGP(), norm_bound=3.0),
    "state": lambda: MartingaleMixtureUCB(PROBLEM.state, norm_bound=3.0),
    "analytic": lambda: MartingaleMixtureUCB(
        PROBLEM.model, norm_bound=3.0, form="analytic"
    ),
    "Abbasi-Yadkori": lambda: AbbasiYadkoriUCB(PROBLEM.model, norm_bound=3.0),
    "IGP": lambda: IGPUCB(PROBLEM.model, norm_bound=3.0),
    "Srinivas": lambda: SrinivasUCB(PROBLEM.model),
    "Wang-de Freitas": lambda: WangDeFreitasUCB(PROBLEM.model, norm_bound=3.0),
    "streaming": lambda: StreamingKernelUCB(PROBLEM.model, **STREAMING),
    "sketched": lambda: SketchedMartingaleMixtureUCB(sketch(), norm_bound=3.0),
    "budgeted": lambda: BKBUCB(budgeted(), norm_bound=3.0),
    "meta": lambda: MetaUCB(meta()),
    "improvement": lambda: MetaPI(meta()),
    "family": lambda: KernelFamilyUCB(
        PROBLEM.model, KernelFamily(KERNELS, select="widest"), norm_bound=3.0
    ),
    "all kernels": lambda: KernelFamilyUCB(
        PROBLEM.model, KernelFamily(KERNELS, combine="all"), norm_bound=6.0
    ),
    "successes": successes,
    "sum": total,
    "constrained": constrained,
    "width": width,
}

# One for each class of confidence set; the others differ from these in model or width.
PATHS = (
    "exact",
    "analytic",
    "sketched",
    "budgeted",
    "meta",
    "family",
    "successes",
    "sum",
    "width",
)
ONCE = {}


def made(name):
    r"""Each is made once: tests leave it as it was, without pending points."""
    torch.manual_seed(0)
    if name not in ONCE:
        ONCE[name] = ACQUISITIONS[name]()
    assert ONCE[name].X_pending is None
    return ONCE[name]
