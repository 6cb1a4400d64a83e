r"""Every band of the package as ``check_band`` takes it: its builder and its truth."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import ModelListGP
from botorch.models.transforms import Log, Normalize, Standardize

from kernelucb import (
    BKBUCB,
    IGPUCB,
    AbbasiYadkoriUCB,
    ConstrainedUCB,
    KernelFamilyUCB,
    LikelihoodRegression,
    LikelihoodUCB,
    MartingaleMixtureUCB,
    MetaUCB,
    NearNormBall,
    NystromRegression,
    ScalarizedUCB,
    SketchedMartingaleMixtureUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    UnknownNoise,
    WangDeFreitasUCB,
)
from kernelucb.models import BKBModel, CosineFeatures, FeatureMetaModel
from kernelucb.testing import Truth
from problems import frozen_kernel, frozen_model, normal


class Band(NamedTuple):
    r"""``skip`` says why a law does not apply."""

    build: Callable
    truth: Truth
    skip: dict[str, str]


NORM = 3.0
TRUTH = Truth.of_norm(NORM, noise_std=0.2, dimension=2, seed=1)
KERNELS = [frozen_kernel("rbf", 0.3), frozen_kernel("matern52", 0.2)]
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
UNKNAPART = UnknownNoise(0.1, 1.0)


def of(function, model=None, observe=None):
    return Truth(function, TRUTH.kernel, TRUTH.noise_std, 2, observe, model)


def transformed(X, Y):
    scale = Standardize(m=1)
    scale(Y.unsqueeze(-1))
    noise, inputs = TRUTH.noise_std / float(scale.stdvs), Normalize(d=2, bounds=CUBE)
    transforms = {"outcome_transform": Standardize(m=1), "input_transform": inputs}
    return frozen_model(X, Y, TRUTH.kernel, noise, **transforms)


def logarithmic(X, Y):
    return frozen_model(X, Y, TRUTH.kernel, TRUTH.noise_std, outcome_transform=Log())


def growth(X, random):
    return TRUTH.outcomes(X, random).exp()


def successes(X, random):
    return torch.bernoulli(TRUTH.function(X).sigmoid(), generator=random)


def counts(X, random):
    return torch.poisson(TRUTH.function(X).exp(), generator=random)


def outcomes_of(likelihood):
    return lambda X, Y: LikelihoodRegression(X, Y, TRUTH.kernel, likelihood=likelihood)


def sketched(model, **options):
    state = NystromRegression.from_model(model, model.train_inputs[0][:5])
    return SketchedMartingaleMixtureUCB(state, norm_bound=NORM, **options)


def budgeted(X, Y):
    return BKBModel(X, Y.unsqueeze(-1), TRUTH.kernel, TRUTH.noise_std**2, qbar=5.0)


def total(model, **options):
    weights = torch.tensor([1.5, -0.5], dtype=torch.float64)
    transform = ScalarizedPosteriorTransform(weights)
    if options.pop("posterior_transform", None) is not None:
        transform = ScalarizedPosteriorTransform(-weights)
    models = ModelListGP(model, model)
    return ScalarizedUCB.from_model(
        models, norm_bound=NORM, posterior_transform=transform, **options
    )


def constrained(model, **options):
    models = ModelListGP(model, model)
    limits = {1: (0.0, 9.0)}
    return ConstrainedUCB.from_model(models, constraints=limits, norm_bound=NORM, **options)


def meta(X, Y):
    features = CosineFeatures(torch.tensor([[1.0, 2.0], [2.0, 0.0]]), torch.zeros(2))
    places, values = X[:6], normal(40 * len(X[:6]), seed=3).reshape(40, -1)
    model = FeatureMetaModel(places, values, features)
    return model.condition_on_observations(X, Y.unsqueeze(-1))


BALL = {"contradiction": "a ball around an estimate is never empty"}
APART = {"estimates": "the kernels are not the model's"}
RANDOM = {"order of data": "inducing points are taken in the order of the data"}
WHOLE = {"contradiction": "outcomes of its kind have no such size"}
TABLE = {
    "pending points": "earlier tasks say how values hang together, pending or not",
    "repeated inputs": "values without noise leave no width",
}
martingale = partial(MartingaleMixtureUCB, norm_bound=NORM)

BANDS = {
    "filters": Band(martingale, TRUTH, {}),
    "martingale": Band(partial(martingale, fit="martingale"), TRUTH, {}),
    "analytic": Band(partial(martingale, form="analytic"), TRUTH, {}),
    "convex": Band(
        partial(martingale, form="convex"), TRUTH, {"no points": "a conic program each"}
    ),
    "near the ball": Band(
        partial(martingale, norm_bound=NearNormBall(NORM, 0.1)), TRUTH, {}
    ),
    "unknown noise": Band(partial(martingale, noise_std=UNKNAPART), TRUTH, {}),
    "transformed": Band(
        partial(martingale, norm_bound=10.0), of(TRUTH.function, transformed), {}
    ),
    "logarithmic": Band(
        martingale, of(lambda X: TRUTH.function(X).exp(), logarithmic, growth), {}
    ),
    "Abbasi-Yadkori": Band(partial(AbbasiYadkoriUCB, norm_bound=NORM), TRUTH, BALL),
    "IGP": Band(partial(IGPUCB, norm_bound=NORM), TRUTH, BALL),
    "Srinivas": Band(SrinivasUCB, TRUTH, BALL),
    "Wang-de Freitas": Band(partial(WangDeFreitasUCB, norm_bound=NORM), TRUTH, BALL),
    "streaming": Band(
        partial(StreamingKernelUCB, norm_bound=NORM, noise_std=UNKNAPART), TRUTH, {}
    ),
    "sketched": Band(sketched, TRUTH, RANDOM),
    "budgeted": Band(
        partial(BKBUCB, norm_bound=NORM), of(TRUTH.function, budgeted), BALL | RANDOM
    ),
    "meta": Band(MetaUCB, of(TRUTH.function, meta), BALL | APART | RANDOM | TABLE),
    "family": Band(
        partial(KernelFamilyUCB, kernels=KERNELS, widest_every=1, norm_bound=NORM),
        TRUTH,
        APART,
    ),
    "family of successes": Band(
        partial(KernelFamilyUCB, kernels=KERNELS, widest_every=1, norm_bound=NORM),
        of(lambda X: TRUTH.function(X).sigmoid(), outcomes_of("bernoulli"), successes),
        APART | WHOLE,
    ),
    "successes": Band(
        partial(LikelihoodUCB, norm_bound=NORM),
        of(lambda X: TRUTH.function(X).sigmoid(), outcomes_of("bernoulli"), successes),
        APART | WHOLE,
    ),
    "counts": Band(
        partial(LikelihoodUCB, norm_bound=NORM),
        of(lambda X: TRUTH.function(X).exp(), outcomes_of("poisson"), counts),
        APART | WHOLE,
    ),
    "sum": Band(total, TRUTH, {"directions": "its posterior transform is what it bounds"}),
    "constrained": Band(constrained, TRUTH, {"known range": "its parts take one"}),
}
