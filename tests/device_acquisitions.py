r"""A problem on a device, and every acquisition function on it."""

import torch
from botorch.acquisition import LogExpectedImprovement, qLogNoisyExpectedImprovement
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.transforms.input import Normalize
from botorch.models.transforms.outcome import Standardize

from kernelucb import (
    BKBUCB,
    IGPUCB,
    AbbasiYadkoriUCB,
    ConstrainedUCB,
    Filters,
    Grid,
    GuardedAcquisition,
    KernelRegression,
    MartingaleMixtureUCB,
    MetaPI,
    MetaUCB,
    NearNormBall,
    NormTracker,
    NystromRegression,
    OutcomeConstraints,
    PrequentialRadius,
    ScalarizedUCB,
    SketchedMartingaleMixtureUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    UnknownNoise,
    WangDeFreitasUCB,
    lengthscale_family,
)
from kernelucb.acquisition import BoundedNorm, CompactDomain, FiniteDomain, outcome_bands
from kernelucb.models import BKBModel, DiscreteMetaModel, FeatureMetaModel
from problems import (
    family_ucb,
    frozen_kernel,
    make_problem,
    uniform,
)

PROBLEM = make_problem(n=3, d=2, kernel="matern52")
TASKS, FEATURE_TASKS = uniform(40, 2, 11), uniform(40, 3, 12)
SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
NORM = {"norm_bound": 3.0}
UNKNOWN = {"noise_std": UnknownNoise(0.05)}


class There:
    r"""A problem on a device."""

    def __init__(self, device):
        self.device = torch.device(device)
        self.X, self.Y = PROBLEM.X.to(device), PROBLEM.Y.to(device).reshape(-1, 1)
        self.kernel = frozen_kernel("matern52").to(device)
        self.kernels = lengthscale_family(self.kernel, 0.2, 0.4)
        self.noise = torch.full_like(self.Y, 0.1)
        self.model = SingleTaskGP(
            self.X, self.Y, self.noise**2, covar_module=self.kernel, outcome_transform=None
        ).requires_grad_(False)
        self.points = uniform(2, 2, 7).to(device)
        self.square = SQUARE.to(device)
        self.state = KernelRegression(self.X, self.Y, self.kernel, 0.1)
        self.tasks, self.feature_tasks = TASKS.to(device), FEATURE_TASKS.to(device)


def exact(there, **options):
    return MartingaleMixtureUCB(there.model, **(NORM | options))


def fitted(there):
    model = SingleTaskGP(
        there.X,
        there.Y,
        outcome_transform=Standardize(1),
        input_transform=Normalize(2),
    )
    return MartingaleMixtureUCB(model.to(there.device))


def predicted(there):
    radius = PrequentialRadius()
    early = SingleTaskGP(
        there.X[:2], there.Y[:2], covar_module=there.kernel, outcome_transform=None
    )
    radius.observe(early, there.X, there.Y, there.noise)
    radius.observe(early, there.X[:2], there.Y[:2], 0.1)
    X, Y = (torch.cat([part, part[:2]]) for part in (there.X, there.Y))
    state = KernelRegression(X, Y, there.kernel, 0.1)
    return MartingaleMixtureUCB(state, fit=radius, **NORM)


def negative(there):
    return ScalarizedPosteriorTransform(-torch.ones(1).double().to(there.device))


def family(there, **options):
    return family_ucb(there.model, there.kernels, **(NORM | options))


def bkb_model(there):
    return BKBModel(there.X, there.Y, there.kernel, 0.01)


def meta_model(there):
    return DiscreteMetaModel(there.tasks, there.points)


def feature_model(there):
    return FeatureMetaModel(there.X, there.feature_tasks, num_features=2, progress=False)


def sketched_from_model(there):
    state = NystromRegression.from_model(
        there.model, there.X[:2], remainder_points=there.points
    )
    state = state.observe(there.points, there.Y[:2])
    return SketchedMartingaleMixtureUCB(state, fit=Filters("mixture"), **NORM)


def constraints(there):
    (band,) = outcome_bands([there.model], noise_std=0.1, **NORM)
    return OutcomeConstraints(band, -9.0)


def constrained(there):
    models = ModelListGP(there.model, there.model)
    return ConstrainedUCB.from_model(models, constraints={1: (0.0, 9.0)}, **NORM)


def guarded(there):
    return GuardedAcquisition(
        LogExpectedImprovement(there.model, there.Y.max()), exact(there)
    )


def guarded_and_constrained(there):
    improvement = qLogNoisyExpectedImprovement(there.model, there.X)
    band = ConstrainedUCB(exact(there), constraints(there))
    return GuardedAcquisition(improvement, band, ucb_every=2)


ACQUISITIONS = {
    "exact": exact,
    "small outcomes": lambda t: exact(t, maximize=False),
    "fitted": fitted,
    "cautious": lambda t: exact(t, norm_bound="cautious"),
    "tracked norm": lambda t: exact(t, norm_bound=NormTracker()),
    "model error": lambda t: exact(t, norm_bound=NearNormBall(NORM["norm_bound"], 0.1)),
    "martingale": lambda t: exact(t, fit="martingale"),
    "mixture": lambda t: exact(t, fit=Filters("mixture")),
    "analytic": lambda t: exact(t, form="analytic"),
    "grid": lambda t: exact(t, form=Grid()),
    "own grid": lambda t: exact(t, form=Grid([0.1, 1.0])),
    "several noises": lambda t: exact(t, noise_std=t.noise),
    "weighted": lambda t: exact(t, posterior_transform=negative(t)),
    "unknown noise": lambda t: MartingaleMixtureUCB(
        t.state, noise_std=UnknownNoise(), **NORM
    ),
    "noise between": lambda t: MartingaleMixtureUCB(
        t.state, noise_std=UnknownNoise(0.01, 1.0), **NORM
    ),
    "predicted": predicted,
    "AY": lambda t: AbbasiYadkoriUCB(t.model, **NORM),
    "IGP": lambda t: IGPUCB(t.model, **NORM),
    "WdF": lambda t: WangDeFreitasUCB(t.model, **NORM),
    "Srinivas": lambda t: SrinivasUCB(t.model, theorem=BoundedNorm(**NORM)),
    "Srinivas 2": lambda t: SrinivasUCB(t.model, theorem=CompactDomain()),
    "Srinivas 1": lambda t: SrinivasUCB(t.model, theorem=FiniteDomain(40)),
    "streaming": lambda t: StreamingKernelUCB(t.state, **UNKNOWN, **NORM),
    "streaming, no norm": lambda t: StreamingKernelUCB(t.state, **UNKNOWN),
    "scalarized": lambda t: ScalarizedUCB(
        [ACQUISITIONS[name](t) for name in ("AY", "IGP")], [1.0, -2.0]
    ),
    "sketched": lambda t: SketchedMartingaleMixtureUCB(
        NystromRegression(t.X, t.Y, t.kernel, 0.1, t.X[:2]), **NORM
    ),
    "sketched from model": sketched_from_model,
    "BKB": lambda t: BKBUCB(bkb_model(t).observe(t.points, t.Y[:2]), **NORM),
    "meta": lambda t: MetaUCB(feature_model(t), delta=0.9),
    "meta PI": lambda t: MetaPI(
        feature_model(t).condition_on_observations(t.X[:2], t.Y[:2]), target=1.0
    ),
    "described by names": lambda t: MartingaleMixtureUCB.from_model(
        SingleTaskGP(t.X, t.Y), kernel="rbf", lengthscale=0.5, noise_std=0.1, **NORM
    ),
    "family": family,
    "widest of a family": lambda t: family(t, select="widest"),
    "all of a family": lambda t: family(t, combine="all", norm_bound=9.0),
    "constrained": constrained,
    "guarded": guarded,
    "guarded and constrained": guarded_and_constrained,
}
