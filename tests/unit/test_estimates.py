r"""What this library took from the data stays an estimate when it is handed back."""

import copy
import pickle
import warnings

import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import Warp
from gpytorch.kernels import RBFKernel, ScaleKernel

from kernelucb import (
    BKBUCB,
    AbbasiYadkoriUCB,
    BKBBandit,
    FamilyBandit,
    KernelBandit,
    KernelFamilyUCB,
    KernelRegression,
    KernelThompsonSampling,
    LikelihoodRegression,
    LikelihoodUCB,
    MartingaleMixtureUCB,
    NormTracker,
    NystromRegression,
    PrequentialRadius,
    SketchedMartingaleMixtureUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    StreamingNoiseTracker,
    UnknownNoise,
    breakdown,
    check_consistency,
    describe_norm_bound,
    information_gain,
    least_consistent_norm,
    lengthscale_family,
    optimum_report,
)
from kernelucb._numerics.estimates import Estimate
from kernelucb.acquisition import outcome_bands
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.models import BKBModel
from kernelucb.papers import BoundedNorm
from problems import make_problem, normal

# The fitted models here are of outcomes that are not standardised.
pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.InputDataWarning")

PROBLEM = make_problem(n=12)
STATE, MODEL, X, Y = PROBLEM.state, PROBLEM.model, PROBLEM.X, PROBLEM.Y
COLUMN, WON, KERNEL = Y.unsqueeze(-1), (Y > 0).double(), PROBLEM.kernel
BOX = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
KERNELS = lengthscale_family(RBFKernel(), 0.15, 0.6)
LIMITS = UnknownNoise(lower=0.01)
PLAIN = {"outcome_transform": None}


# A bound of every kind, by norm bound, noise scale and kernel.


def band(norm=9.0, noise=0.1, kernel=None, **options):
    state = STATE if kernel is None else KernelRegression(X, Y, kernel, 0.1)
    return MartingaleMixtureUCB(state, norm_bound=norm, noise_std=noise, **options)


def sketched(norm=9.0, noise=0.1, kernel=KERNEL):
    state = NystromRegression(X, Y, kernel, noise, X)
    return SketchedMartingaleMixtureUCB(state, norm_bound=norm)


def family(norm=9.0, noise=0.1, kernel=None):
    kernels = KERNELS if kernel is None else [kernel]
    return KernelFamilyUCB(STATE, kernels, norm_bound=norm, noise_std=noise)


def budgeted(norm=9.0, noise=0.1, kernel=KERNEL):
    return BKBUCB(BKBModel(X, COLUMN, kernel, alpha=noise * noise), norm_bound=norm)


def counted(norm=9.0, kernel=KERNEL):
    return LikelihoodUCB(LikelihoodRegression(X, WON, kernel), norm_bound=norm)


def bandit(norm=9.0, noise=0.1, kernel=KERNEL, **options):
    own = KernelBandit(kernel, norm_bound=norm, noise_std=noise, **options)
    own.observe(X[:1], Y[0])
    return own


def family_bandit(norm=9.0, noise=0.1, kernel=None):
    kernels = KERNELS if kernel is None else [kernel]
    return FamilyBandit(kernels, norm_bound=norm, noise_std=noise)


def bkb_bandit(norm=9.0, noise=0.1, kernel=KERNEL):
    return BKBBandit(X, kernel, norm_bound=norm, noise_std=noise)


def streaming(norm=9.0, noise=0.01, tracker=None):
    limits = UnknownNoise(lower=noise)
    given = {"norm_bound": norm} if tracker is None else {"tracker": tracker}
    return StreamingKernelUCB(STATE, noise_std=limits, **given)


EVERY = (band, sketched, family, budgeted, bandit, family_bandit, bkb_bandit)
every = {each.__name__: each for each in EVERY}


def fitted():
    r"""A model whose kernel, mean and noise scale may have been fitted."""
    return SingleTaskGP(X, COLUMN, **PLAIN)


def observed(tracker, state=STATE):
    tracker.observe(state)
    return tracker


def streamed():
    return observed(StreamingNoiseTracker(9.0, LIMITS))


def contradicted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        return band(0.01)


# Ways to a number that is about the norm, or larger than it.
RUNS = Y.repeat(5) + 0.1 * normal(60, 7)
REPEATED = KernelRegression(X.repeat(5, 1), RUNS, KERNEL, 0.1)


def broken():
    return breakdown(band(), lambda b: float(b.bounds(X[:1])[0]) > -50.0)


NORMS = {
    "estimated": lambda: band(None).band.norm_bounds[0],
    "larger": lambda: band(NormTracker(inflation=1.5)).band.norm_bounds[0],
    "contradicted": lambda: contradicted().band.norm_bounds[0],
    "least": lambda: band().band.least_norms[0],
    "relaxed": lambda: band(None).band.relaxed(1.2).norm_bounds[0],
    "contradicted, relaxed": lambda: contradicted().band.relaxed(1.2).norm_bounds[0],
    "margin": lambda: 9.0 * band().band.relaxed().least_norm_factor,
    "breakdown": lambda: broken().norm_bound,
    "least of a breakdown": lambda: broken().least_consistent_norm,
    "norm of its noise": lambda: broken().at_norm_bound,
    "report": lambda: optimum_report(band(None), X).norm_bounds[0],
    "unknown noise": lambda: band(None, UnknownNoise()).band.norm_bounds[0],
    "Abbasi-Yadkori": lambda: AbbasiYadkoriUCB(STATE).band.norm_bounds[0],
    "streaming": lambda: streaming(None).band.norm_bounds[0],
    "sketched": lambda: sketched(None).band.norm_bounds[0],
    "least, sketched": lambda: sketched().band.least_norms[0],
    "counts": lambda: counted(None).band.norm_bounds[0],
    "least, counts": lambda: counted().band.least_norms[0],
    "tracker": lambda: observed(NormTracker()).norm_bound,
    "least, tracker": lambda: observed(NormTracker()).least_consistent_norm,
    "observe": lambda: NormTracker().observe(STATE),
    "copied": lambda: copy.deepcopy(observed(NormTracker())).norm_bound,
    "family": lambda: family().band.least_norms[0],
    "least_consistent_norm": lambda: least_consistent_norm(STATE),
    "check": lambda: check_consistency(STATE, 9.0).least_consistent_norm,
    "largest outcome": lambda: describe_norm_bound(STATE, 9.0, bounds=BOX).observed.largest,
    "bandit": lambda: bandit(None).norm_bound,
    "BKB bandit": lambda: bkb_bandit(None).norm_bound,
    "budgeted": lambda: budgeted(None).band.norm_bounds[0],
}


def norm_status(norm_bound):
    return band(norm_bound).assumptions["norm"].status


@pytest.mark.one_in(2)
@pytest.mark.parametrize("way", NORMS)
def test_a_norm_from_the_data_is_an_estimate(way):
    number = max(NORMS[way](), Estimate(0.1))  # the least norm may be 0
    assert isinstance(number, Estimate)
    assert norm_status(100.0 * number * 1.5) == "estimated"
    assert norm_status(100.0 * float(number) + 100.0) == "given"  # the user's own statement


def test_an_estimate_is_no_float():
    number = copy.deepcopy(pickle.loads(pickle.dumps(Estimate(9.0))))
    assert (number, 2 * number, f"{number:.1f}") == (Estimate(9.0), Estimate(18.0), "9.0")
    assert 8.0 < number <= 9.0
    assert round(number / 7, 2) == Estimate(1.29)
    assert not isinstance(number, float)
    for refused in (lambda: number + 1.0, lambda: 1.0 / number, lambda: number**2):
        with pytest.raises(TypeError, match=r"float\(\.\.\.\)"):
            refused()


def test_a_number_that_was_given_or_is_stated_is_given():
    for number in (
        float(band(None).band.norm_bounds[0]) + 1.0,
        band().band.norm_bounds[0],
        bandit().norm_bound,
        sketched().band.norm_bounds[0],
        family().band.norm_bounds[0],
    ):
        assert norm_status(number) == "given"
    assert norm_status(family(Estimate(9.0)).band.norm_bounds[0]) == "estimated"
    assert type(STATE.noise_std) is torch.Tensor
    changed = KernelRegression.from_model(fitted()).with_noise_std(0.1)
    assert type(changed.noise_std) is torch.Tensor


def honours(build, assumption, number):
    r"""Whether a bound says of a number whether it was given or estimated."""
    for value, status in (
        (number, "given"),
        (Estimate(number), "estimated"),
    ):
        assert build(value).assumptions[assumption].status == status


# Where a norm bound enters.
NORM_TAKERS = every | {
    "martingale": lambda b: band(b, fit="martingale"),
    "unknown noise": lambda b: band(b, UnknownNoise()),
    "counts": counted,
    "Abbasi-Yadkori": lambda b: AbbasiYadkoriUCB(STATE, norm_bound=b),
    "Srinivas": lambda b: SrinivasUCB(STATE, theorem=BoundedNorm(b, 10.0)),
    "Thompson": lambda b: KernelThompsonSampling(STATE, norm_bound=b),
    "streaming": streaming,
    "streaming tracker": lambda b: streaming(tracker=StreamingNoiseTracker(b, LIMITS)),
    "family, one each": lambda b: family([b] + [20.0] * (len(KERNELS) - 1)),
    "outcome_bands": lambda b: outcome_bands([MODEL], norm_bound=[b])[0],
    "igp bandit": lambda b: bandit(b, bound="igp_ucb"),
}


@pytest.mark.parametrize("taker", NORM_TAKERS)
def test_every_bound_honours_a_norm(taker):
    honours(NORM_TAKERS[taker], "norm", 20.0)


# Ways to a number that is about the noise scale.
NOISES = {
    "of a band": lambda: 2 * MartingaleMixtureUCB(fitted()).band.data.noise_std,
    "the set's": lambda: (
        MartingaleMixtureUCB(fitted()).band.confidence_set.regression.noise_std
    ),
    "sketched": lambda: NystromRegression.from_model(fitted(), X).noise_std,
    "scale of a band": lambda: MartingaleMixtureUCB(fitted()).band.noise_scale,
    "breakdown": lambda: broken().noise_std,
    "region": lambda: check_consistency(REPEATED, 9.0).regions[0].estimate,
    "interval": lambda: band(noise=UnknownNoise()).band.noise_interval[1],
    "streaming": lambda: streaming(noise=0.1).band.noise_interval[0],
    "tracker": lambda: 10.0 * streamed().lower,
}


@pytest.mark.parametrize("way", NOISES)
def test_a_noise_scale_from_the_data_is_an_estimate(way):
    noise = NOISES[way]()
    for model in (MODEL, STATE):
        own = MartingaleMixtureUCB(model, norm_bound=1e3, noise_std=noise)
        assert own.assumptions["noise"].status == "estimated"
        assert type(own.bounds(PROBLEM.test_X)[0]) is torch.Tensor


def predicted(noise_std):
    radius = PrequentialRadius()
    zeros = torch.zeros(len(Y))
    radius.observe_predictions(zeros, zeros + 1.0, Y, noise_std, X)
    return radius


# Where a noise scale enters.
NOISE_TAKERS = every | {
    "of a model": lambda s: MartingaleMixtureUCB(MODEL, norm_bound=9.0, noise_std=s),
    "new observations": lambda s: SketchedMartingaleMixtureUCB(
        NystromRegression(X, Y, KERNEL, 0.1, X).observe(X, Y, s), norm_bound=9.0
    ),
    "outcome_bands": lambda s: outcome_bands([MODEL], norm_bound=9.0, noise_std=[s])[0],
    "predictions": lambda s: band(noise=None, fit=predicted(s)),
    "copied predictions": lambda s: band(noise=None, fit=copy.deepcopy(predicted(s))),
    "predictions of a family": lambda s: KernelFamilyUCB(
        STATE, KERNELS, norm_bound=9.0, fit=predicted(s)
    ),
    "limits": lambda s: band(noise=UnknownNoise(0.01, 9.0 * s)),
    "streaming limits": lambda s: streaming(noise=s),
}


@pytest.mark.parametrize("taker", NOISE_TAKERS)
def test_every_bound_honours_a_noise_scale(taker):
    build = NOISE_TAKERS[taker]
    honours(
        lambda value: build(noise=value) if taker in every else build(value), "noise", 0.1
    )


def test_an_estimated_noise_scale_changes_no_number():
    plain, marked = band(), band(noise=Estimate(0.1))
    assert all(map(torch.equal, plain.bounds(X), marked.bounds(X)))


# Ways to a kernel that may have been fitted.


def fitted_prior():
    return KernelRegression.from_model(fitted()).prior


def fitted_kernel():
    return fitted_prior().covar_module


FITTED_KERNELS = {
    "state": fitted_kernel,
    "band": lambda: MartingaleMixtureUCB(fitted()).band.data.prior.covar_module,
    "frozen again": lambda: fitted_kernel().requires_grad_(False),
    "scaled": lambda: ScaleKernel(fitted_kernel()).requires_grad_(False),
    "sum": lambda: fitted_kernel() + RBFKernel().requires_grad_(False),
    "copies": lambda: copy.deepcopy(pickle.loads(pickle.dumps(fitted_kernel()))),
    "of the copy's state": lambda: (
        KernelRegression(X, Y, fitted_kernel(), 0.1).prior.covar_module
    ),
    "sketched": lambda: NystromRegression.from_model(fitted(), X).prior.covar_module,
    "counts": lambda: LikelihoodRegression(X, WON, RBFKernel()).prior.covar_module,
    "bandit": lambda: bandit(kernel=RBFKernel()).prior.covar_module,
    "budgeted": lambda: (
        BKBModel(X, COLUMN, RBFKernel().double(), alpha=0.01).state.prior.covar_module
    ),
    "family": lambda: lengthscale_family(ScaleKernel(RBFKernel()), 0.1, 0.4)[0],
}


@pytest.mark.parametrize("way", FITTED_KERNELS)
def test_the_frozen_kernel_of_a_fitted_state_is_an_estimate(way):
    state = KernelRegression(X, Y, FITTED_KERNELS[way](), 0.1)
    assert state.estimated == {"kernel"}


@pytest.mark.parametrize("taker", [*every, "counts"])
def test_every_bound_honours_a_kernel(taker):
    build = (every | {"counts": counted})[taker]
    for kernel, status in ((fitted_kernel(), "estimated"), (KERNEL, "given")):
        bound = build(norm=1e3, kernel=kernel)
        assert bound.assumptions["kernel"].status == status


def test_a_family_replaces_length_scales_and_nothing_else():
    scaled = ScaleKernel(RBFKernel()).requires_grad_(False)
    fitted_scale = KernelRegression(X, Y, ScaleKernel(RBFKernel()), 0.1).prior.covar_module
    for kernel, status in (
        (scaled, "given"),
        (KernelRegression(X, Y, RBFKernel(), 0.1).prior.covar_module, "given"),
        (ScaleKernel(RBFKernel()), "estimated"),
        (fitted_scale, "estimated"),
    ):
        kernels = lengthscale_family(kernel, 0.1, 0.4)
        bound = KernelFamilyUCB(STATE, kernels, norm_bound=9.0)
        assert bound.assumptions["kernel"].status == status
    for scale, status in ((2.0, "given"), (Estimate(2.0), "estimated")):
        bound = KernelFamilyUCB.from_model(
            STATE, shortest=0.1, longest=0.4, outputscale=scale, norm_bound=9.0
        )
        assert bound.assumptions["kernel"].status == status


@pytest.mark.parametrize("name", ["shortest", "longest"])
def test_a_family_from_an_estimated_length_scale_is_an_estimate(name):
    ends = {"shortest": 0.1, "longest": 0.4}
    ends[name] = Estimate(ends[name])
    of_names = KernelFamilyUCB.from_model(STATE, norm_bound=9.0, **ends)
    kernel = RBFKernel().requires_grad_(False)
    family = KernelFamilyUCB(STATE, lengthscale_family(kernel, **ends), norm_bound=9.0)
    for bound in (of_names, family):
        assert bound.assumptions.estimated == ("kernel",)


@pytest.mark.parametrize("name", [None, "lengthscale", "outputscale", "mean"])
def test_a_kernel_by_name_keeps_an_estimate(name):
    options = {"lengthscale": 0.3, "outputscale": 2.0, "mean": 0.1}
    options |= {} if name is None else {name: Estimate(options[name])}
    bound = MartingaleMixtureUCB.from_model(
        MODEL, kernel="rbf", norm_bound=9.0, noise_std=0.1, **options
    )
    part = {None: (), "mean": ("mean",)}.get(name, ("kernel",))
    assert bound.assumptions.estimated == part


@pytest.mark.parametrize(
    ("arguments", "options", "status"),
    [
        ([MODEL], {}, "estimated"),  # the gain of the points so far
        ([MODEL], {"method": "upper_bound"}, "given"),
        ([fitted, X], {"noise_std": 0.1}, "estimated"),
        ([KERNEL, X], {"noise_std": 0.1}, "given"),
        ([KERNEL, X], {"noise_std": Estimate(0.05)}, "estimated"),
    ],
)
def test_a_gain_from_the_data_is_an_estimate(arguments, options, status):
    arguments = [fitted() if each is fitted else each for each in arguments]
    gain = 100.0 * information_gain(*arguments, **options)
    bound = SrinivasUCB(MODEL, theorem=BoundedNorm(9.0, gain))
    assert bound.assumptions["information gain"].status == status


def test_mean_and_input_transform_of_a_fitted_state_are_estimates():
    state = KernelRegression(X, Y, KERNEL, 0.1, fitted_prior().mean_module)
    assert state.estimated == {"mean"}
    for trained in (True, False):
        warp = Warp(d=1, indices=[0], bounds=BOX).requires_grad_(trained)
        model = SingleTaskGP(X, COLUMN, input_transform=warp, **PLAIN)
        frozen = KernelRegression.from_model(model).prior.input_transform
        options = {"covar_module": KERNEL, "input_transform": frozen, **PLAIN}
        again = SingleTaskGP(X, COLUMN, **options).requires_grad_(False)
        expected = {"kernel"} if trained else set()
        assert KernelRegression.from_model(again).estimated == expected
