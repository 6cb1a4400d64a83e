r"""What this library took from the data stays an estimate when it is handed back."""

import copy
import math
import pickle
import warnings

import numpy as np
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
    FamilyTracker,
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
    SafeSet,
    SketchedMartingaleMixtureUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    StreamingNoiseTracker,
    UnknownNoise,
    check_consistency,
    describe_norm_bound,
    information_gain,
    least_consistent_norm,
    lengthscale_family,
)
from kernelucb._numerics.estimates import EstimatedNumber, estimated
from kernelucb.acquisition import BoundedNorm, outcome_bands
from kernelucb.exceptions import InconsistentConfidenceSetWarning, UncertifiedError
from kernelucb.models import BKBModel
from problems import (
    family_ucb,
    likelihood_ucb,
    make_problem,
)

# The fitted models here are of outcomes that are not standardised.
pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.InputDataWarning")

PROBLEM = make_problem(n=12)
STATE, MODEL = PROBLEM.state, PROBLEM.model
BOX = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
KERNELS = lengthscale_family(RBFKernel(), 0.15, 0.6)
COUNTS = LikelihoodRegression(
    PROBLEM.X, (PROBLEM.Y > 0).double(), PROBLEM.kernel, likelihood="bernoulli"
)


def fitted():
    r"""A model whose kernel, mean and noise scale may have been fitted."""
    return SingleTaskGP(PROBLEM.X, PROBLEM.Y.unsqueeze(-1), outcome_transform=None)


def band(**options):
    given = {"norm_bound": 9.0, "noise_std": 0.1}
    return MartingaleMixtureUCB(STATE, **given | options)


def contradicted(**options):
    r"""A band whose norm bound the data contradict, so that it is widened."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        return band(norm_bound=0.01, **options)


def with_unknown_noise():
    return band(noise_std=UnknownNoise())


def tracked():
    tracker = NormTracker()
    tracker.observe(STATE)
    return tracker


def streamed():
    tracker = StreamingNoiseTracker(9.0, UnknownNoise(lower=0.01))
    tracker.observe(STATE)
    return tracker


def family_tracked():
    tracker = FamilyTracker()
    family_ucb(STATE, KERNELS, norm_bound=9.0, tracker=tracker)
    return tracker


def bandit(**options):
    given = {"norm_bound": 9.0, "noise_std": 0.1}
    own = KernelBandit(PROBLEM.kernel, **given | options)
    own.observe(PROBLEM.X[:1], PROBLEM.Y[0])
    return own


def sketched(**options):
    given = {"norm_bound": 9.0}
    state = NystromRegression(PROBLEM.X, PROBLEM.Y, PROBLEM.kernel, 0.1, PROBLEM.X)
    return SketchedMartingaleMixtureUCB(state, **given | options)


# Ways to a number that is about the norm, or larger than it.
NORMS = {
    "band.norm_bound": lambda: band(norm_bound=None).norm_bound,
    "band.norm_bound, cautious": lambda: band(norm_bound="cautious").norm_bound,
    "norm of a contradicted band": lambda: contradicted().norm_bound,
    "band.least_consistent_norm": lambda: band().least_consistent_norm,
    "unknown noise": lambda: band(norm_bound=None, noise_std=UnknownNoise()).norm_bound,
    "AbbasiYadkoriUCB": lambda: AbbasiYadkoriUCB(STATE).norm_bound,
    "StreamingKernelUCB": lambda: (
        StreamingKernelUCB(STATE, noise_std=UnknownNoise(lower=0.01)).norm_bound
    ),
    "sketched.norm_bound": lambda: sketched(norm_bound=None).norm_bound,
    "sketched.least_consistent_norm": lambda: sketched().least_consistent_norm,
    "LikelihoodUCB.norm_bound": lambda: LikelihoodUCB(COUNTS).norm_bound,
    "LikelihoodUCB.least_consistent_norm": lambda: (
        LikelihoodUCB(COUNTS, norm_bound=9.0).least_consistent_norm + 1.0
    ),
    "tracker.norm_bound": lambda: tracked().norm_bound,
    "tracker.least_consistent_norm": lambda: tracked().least_consistent_norm,
    "tracker.observe": lambda: NormTracker().observe(STATE),
    "loaded tracker": lambda: loaded(tracked(), NormTracker()).norm_bound,
    "copied tracker": lambda: copy.deepcopy(tracked()).norm_bound,
    "FamilyTracker": lambda: family_tracked().least_consistent_norms[0],
    "loaded FamilyTracker": lambda: loaded(
        family_tracked(), FamilyTracker()
    ).least_consistent_norms[0],
    "family": lambda: KernelFamilyUCB(
        STATE, KERNELS, norm_bound=9.0
    ).least_consistent_norms[0],
    "least_consistent_norm": lambda: least_consistent_norm(STATE),
    "1.2 * least_consistent_norm": lambda: 1.2 * least_consistent_norm(STATE),
    "check_consistency": lambda: check_consistency(STATE, 9.0).least_consistent_norm,
    "largest outcome": lambda: describe_norm_bound(STATE, 9.0, bounds=BOX).observed.largest,
    "bandit": lambda: bandit(norm_bound=None).norm_bound,
    "BKBBandit": lambda: BKBBandit(PROBLEM.X, PROBLEM.kernel, noise_std=0.1).norm_bound,
    "BKBUCB": lambda: BKBUCB(budgeted()).norm_bound,
}


def budgeted():
    return BKBModel(PROBLEM.X, PROBLEM.Y.unsqueeze(-1), PROBLEM.kernel, alpha=0.01)


def loaded(old, new):
    new.load_state_dict(old.state_dict())
    return new


# What is done with such a number before it is handed back.
ARITHMETIC = {
    "as it is": lambda n: n,
    "sum": lambda n: 1 + n + 1.0,
    "difference": lambda n: n - 0.1,
    "from": lambda n: 1e3 - n,
    "multiple": lambda n: 1.2 * n * 2,
    "quotient": lambda n: n / 2,
    "over": lambda n: 5.0 / n,
    "power": lambda n: n**2,
    "of power": lambda n: 2**n,
    "sign": lambda n: abs(-n),
    "round": lambda n: round(n, 1),
    "to a whole number": lambda n: round(n),
    "upwards": math.ceil,
    "largest": lambda n: max(0.1, n, 0.2),
    "all": lambda n: sum([n, n]),
    "numpy float": lambda n: np.float64(2.0) * n,
    "numpy single": lambda n: np.float32(2.0) * n,
    "numpy whole": lambda n: n * np.int64(2),
    "numpy function": lambda n: np.sqrt(n),
    "tensor": lambda n: torch.tensor(2.0) * n,
    "by tensor": lambda n: n * torch.tensor(2.0),
    "item": lambda n: (n * torch.tensor(2.0)).item(),
    "tensor function": lambda n: (n + torch.zeros(2)).max().sqrt(),
    "of a list": lambda n: (n + torch.zeros(2)).tolist()[0],
    "pickle": lambda n: pickle.loads(pickle.dumps(n)),
    "deepcopy": copy.deepcopy,
}


def norm_status(norm_bound):
    return band(norm_bound=norm_bound).assumptions["norm"].status


@pytest.mark.parametrize("way", NORMS)
def test_a_norm_from_the_data_is_an_estimate(way):
    number = NORMS[way]()
    assert isinstance(number, float)
    assert math.isfinite(number)
    if number > 0.0:
        assert norm_status(1000.0 * number) == "estimated"
    with pytest.raises(UncertifiedError, match="norm estimated"):
        SafeSet(band(norm_bound=number + 100.0), safe_points=PROBLEM.X)


@pytest.mark.parametrize("way", ARITHMETIC)
def test_arithmetic_leaves_it_one(way):
    number = ARITHMETIC[way](EstimatedNumber(9.0))
    assert norm_status(number + 100.0) == "estimated"


def test_a_number_that_the_user_states_is_given():
    assert norm_status(float(band(norm_bound=None).norm_bound) + 1.0) == "given"
    assert norm_status(100.0) == "given"


def test_a_norm_that_was_given_stays_so():
    assert norm_status(band().norm_bound) == "given"
    assert norm_status(bandit().norm_bound) == "given"
    assert norm_status(sketched().norm_bound) == "given"
    own = KernelFamilyUCB(STATE, KERNELS, norm_bound=9.0)
    assert norm_status(own.norm_bounds[0]) == "given"
    guessed = KernelFamilyUCB(STATE, KERNELS, norm_bound=EstimatedNumber(9.0))
    assert norm_status(guessed.norm_bounds[0]) == "estimated"


def test_a_tracker_as_saved_holds_plain_numbers(tmp_path):
    for tracker in (tracked(), streamed(), family_tracked()):
        torch.save(tracker.state_dict(), tmp_path / "state.pt")
        torch.load(tmp_path / "state.pt", weights_only=True)


# Where a norm bound enters.
TAKERS = {
    "band": lambda b: band(norm_bound=b),
    "strict": lambda b: band(norm_bound=b, fit="martingale"),
    "unknown noise": lambda b: band(norm_bound=b, noise_std=UnknownNoise()),
    "sketched": lambda b: sketched(norm_bound=b),
    "AbbasiYadkoriUCB": lambda b: AbbasiYadkoriUCB(STATE, norm_bound=b),
    "BKBUCB": lambda b: BKBUCB(budgeted(), norm_bound=b),
    "SrinivasUCB": lambda b: SrinivasUCB(STATE, theorem=BoundedNorm(b, 10.0)),
    "Thompson": lambda b: KernelThompsonSampling(STATE, norm_bound=b),
    "streaming": lambda b: StreamingKernelUCB(
        STATE, norm_bound=b, noise_std=UnknownNoise(lower=0.01)
    ),
    "streaming tracker": lambda b: StreamingKernelUCB(
        STATE,
        noise_std=UnknownNoise(lower=0.01),
        tracker=StreamingNoiseTracker(b, UnknownNoise(lower=0.01)),
    ),
    "family": lambda b: KernelFamilyUCB(STATE, KERNELS, norm_bound=b),
    "family, one each": lambda b: KernelFamilyUCB(
        STATE, KERNELS, norm_bound=[b] + [20.0] * (len(KERNELS) - 1)
    ),
    "outcome_bands": lambda b: outcome_bands([MODEL], norm_bound=[b])[0],
    "LikelihoodUCB": lambda b: LikelihoodUCB(COUNTS, norm_bound=b),
    "KernelBandit": lambda b: bandit(norm_bound=b),
    "KernelBandit, igp": lambda b: bandit(norm_bound=b, bound="igp_ucb"),
    "FamilyBandit": lambda b: FamilyBandit(KERNELS, norm_bound=b, noise_std=0.1),
    "BKBBandit": lambda b: BKBBandit(
        PROBLEM.X, PROBLEM.kernel, norm_bound=b, noise_std=0.1
    ),
}


@pytest.mark.parametrize("taker", TAKERS)
def test_every_bound_honours_it(taker):
    number = 20.0 + least_consistent_norm(STATE)
    build = TAKERS[taker]
    assert build(number).assumptions["norm"].status == "estimated"
    assert build(float(number)).assumptions["norm"].status == "given"
    tensor = torch.tensor(2.0, dtype=torch.float64) * number
    assert build(tensor).assumptions["norm"].status == "estimated"


# Ways to a number that is about the noise scale.
NOISES = {
    "band.regression.noise_std": lambda: (
        MartingaleMixtureUCB(fitted()).regression.noise_std
    ),
    "twice that": lambda: 2 * MartingaleMixtureUCB(fitted()).regression.noise_std,
    "its mean": lambda: MartingaleMixtureUCB(fitted()).regression.noise_std.mean(),
    "one of them": lambda: KernelRegression.from_model(fitted()).noise_std[0],
    "the set's": lambda: MartingaleMixtureUCB(fitted()).confidence_set.regression.noise_std,
    "as a number": lambda: (
        1.5 * KernelRegression.from_model(fitted()).noise_std.max().item()
    ),
    "sketched": lambda: NystromRegression.from_model(fitted(), PROBLEM.X).noise_std,
    "noise_interval[1]": lambda: with_unknown_noise().noise_interval[1],
    "noise_interval[0]": lambda: with_unknown_noise().noise_interval[0] + 0.1,
    "streaming": lambda: StreamingKernelUCB(
        STATE, norm_bound=9.0, noise_std=UnknownNoise(lower=0.1)
    ).noise_interval[0],
    "tracker.lower": lambda: streamed().lower + 0.1,
    "tracker.observe": lambda: StreamingNoiseTracker(9.0, UnknownNoise(0.01, 1.0)).observe(
        STATE
    )[1],
    "loaded tracker": lambda: (
        loaded(streamed(), StreamingNoiseTracker(9.0, UnknownNoise(lower=0.01))).lower + 0.1
    ),
}


@pytest.mark.parametrize("way", NOISES)
def test_a_noise_scale_from_the_data_is_an_estimate(way):
    noise = NOISES[way]()
    for model in (MODEL, STATE):
        own = MartingaleMixtureUCB(model, norm_bound=1e3, noise_std=noise)
        assert own.assumptions["noise"].status == "estimated"
        assert type(own.bounds(PROBLEM.test_X)[0]) is torch.Tensor


def test_a_noise_scale_that_was_given_stays_so():
    assert type(STATE.noise_std) is torch.Tensor
    own = MartingaleMixtureUCB(MODEL, norm_bound=9.0, noise_std=STATE.noise_std)
    assert own.assumptions.certified
    changed = KernelRegression.from_model(fitted()).with_noise_std(0.1)
    assert type(changed.noise_std) is torch.Tensor


def predicted(noise_std):
    radius = PrequentialRadius()
    zeros, known = torch.zeros(len(PROBLEM.Y)), (PROBLEM.Y, noise_std, PROBLEM.X)
    radius.observe_predictions(zeros, zeros + 1.0, *known)
    return radius


# Where a noise scale enters: one number.
NOISE_TAKERS = {
    "model": lambda s: MartingaleMixtureUCB(MODEL, norm_bound=9.0, noise_std=s),
    "state": lambda s: band(noise_std=s),
    "from tensors": lambda s: MartingaleMixtureUCB(
        KernelRegression(PROBLEM.X, PROBLEM.Y, PROBLEM.kernel, s), norm_bound=9.0
    ),
    "sketched": lambda s: SketchedMartingaleMixtureUCB(
        NystromRegression(PROBLEM.X, PROBLEM.Y, PROBLEM.kernel, s, PROBLEM.X),
        norm_bound=9.0,
    ),
    "sketched model": lambda s: SketchedMartingaleMixtureUCB(
        NystromRegression.from_model(MODEL, PROBLEM.X, noise_std=s), norm_bound=9.0
    ),
    "new observations": lambda s: SketchedMartingaleMixtureUCB(
        NystromRegression(PROBLEM.X, PROBLEM.Y, PROBLEM.kernel, 0.1, PROBLEM.X).observe(
            PROBLEM.X, PROBLEM.Y, s
        ),
        norm_bound=9.0,
    ),
    "train_Yvar": lambda s: MartingaleMixtureUCB(
        SingleTaskGP(
            PROBLEM.X,
            PROBLEM.Y.unsqueeze(-1),
            train_Yvar=s**2 * torch.ones(len(PROBLEM.X), 1, dtype=torch.float64),
            covar_module=PROBLEM.kernel,
            outcome_transform=None,
        ).requires_grad_(False),
        norm_bound=9.0,
    ),
    "family": lambda s: KernelFamilyUCB(STATE, KERNELS, norm_bound=9.0, noise_std=s),
    "outcome_bands": lambda s: outcome_bands([MODEL], norm_bound=9.0, noise_std=[s])[0],
    "predictions": lambda s: MartingaleMixtureUCB(STATE, norm_bound=9.0, fit=predicted(s)),
    "predictions, sketched": lambda s: SketchedMartingaleMixtureUCB(
        NystromRegression(PROBLEM.X, PROBLEM.Y, PROBLEM.kernel, float(s), PROBLEM.X),
        norm_bound=9.0,
        fit=predicted(s),
    ),
    "loaded predictions": lambda s: MartingaleMixtureUCB(
        STATE, norm_bound=9.0, fit=loaded(predicted(s), PrequentialRadius())
    ),
    "family with predictions": lambda s: KernelFamilyUCB(
        STATE, KERNELS, norm_bound=9.0, fit=predicted(s)
    ),
    "limits": lambda s: band(noise_std=UnknownNoise(0.01, s + 1.0)),
    "streaming limits": lambda s: StreamingKernelUCB(
        STATE, norm_bound=9.0, noise_std=UnknownNoise(0.01 * s)
    ),
    "BKBUCB": lambda s: BKBUCB(budgeted(), norm_bound=9.0, noise_std=s),
    "BKBUCB, alpha": lambda s: BKBUCB(
        BKBModel(PROBLEM.X, PROBLEM.Y.unsqueeze(-1), PROBLEM.kernel, alpha=s**2),
        norm_bound=9.0,
    ),
    "KernelBandit": lambda s: bandit(noise_std=s),
    "FamilyBandit": lambda s: FamilyBandit(KERNELS, norm_bound=9.0, noise_std=s),
    "BKBBandit": lambda s: BKBBandit(
        PROBLEM.X, PROBLEM.kernel, norm_bound=9.0, noise_std=s
    ),
}


@pytest.mark.parametrize("taker", NOISE_TAKERS)
def test_every_bound_honours_an_estimated_noise_scale(taker):
    build = NOISE_TAKERS[taker]
    assert build(0.1).assumptions["noise"].status == "given"
    assert build(EstimatedNumber(0.1)).assumptions["noise"].status == "estimated"
    scale = estimated(torch.tensor(0.1, dtype=torch.float64))
    assert build(scale).assumptions["noise"].status == "estimated"


def test_an_estimated_noise_scale_changes_no_number():
    plain, marked = band(noise_std=0.1), band(noise_std=EstimatedNumber(0.1))
    for one, other in zip(
        plain.bounds(PROBLEM.test_X), marked.bounds(PROBLEM.test_X), strict=True
    ):
        assert torch.equal(one, other)


# Ways to a kernel that may have been fitted.
def fitted_prior():
    return KernelRegression.from_model(fitted()).prior


FITTED_KERNELS = {
    "state.prior": lambda: fitted_prior().covar_module,
    "band.regression": lambda: MartingaleMixtureUCB(fitted()).regression.prior.covar_module,
    "of tensors": lambda: (
        KernelRegression(PROBLEM.X, PROBLEM.Y, RBFKernel().double(), 0.1).prior.covar_module
    ),
    "frozen again": lambda: fitted_prior().covar_module.requires_grad_(False),
    "scaled": lambda: ScaleKernel(fitted_prior().covar_module).requires_grad_(False),
    "sum": lambda: fitted_prior().covar_module + RBFKernel().requires_grad_(False),
    "deepcopy": lambda: copy.deepcopy(fitted_prior().covar_module),
    "pickle": lambda: pickle.loads(pickle.dumps(fitted_prior().covar_module)),
    "of the copy's state": lambda: (
        KernelRegression(
            PROBLEM.X, PROBLEM.Y, fitted_prior().covar_module, 0.1
        ).prior.covar_module
    ),
    "sketched": lambda: (
        NystromRegression.from_model(fitted(), PROBLEM.X).prior.covar_module
    ),
    "counts": lambda: (
        LikelihoodRegression(
            PROBLEM.X, (PROBLEM.Y > 0).double(), RBFKernel()
        ).prior.covar_module
    ),
    "bandit": lambda: bandit_with(RBFKernel()).prior.covar_module,
    "BKBModel": lambda: (
        BKBModel(
            PROBLEM.X, PROBLEM.Y.unsqueeze(-1), RBFKernel().double(), alpha=0.01
        ).state.prior.covar_module
    ),
    "output scale of a family": lambda: lengthscale_family(
        ScaleKernel(RBFKernel()), 0.1, 0.4
    )[0],
}


def bandit_with(kernel):
    return KernelBandit(kernel, norm_bound=9.0, noise_std=0.1)


# Where a kernel enters.
KERNEL_TAKERS = {
    "tensors": lambda k: MartingaleMixtureUCB(
        KernelRegression(PROBLEM.X, PROBLEM.Y, k, 0.1), norm_bound=1e3
    ),
    "model": lambda k: MartingaleMixtureUCB(model_with(k), norm_bound=1e3),
    "sketched": lambda k: SketchedMartingaleMixtureUCB(
        NystromRegression(PROBLEM.X, PROBLEM.Y, k, 0.1, PROBLEM.X), norm_bound=1e3
    ),
    "family": lambda k: KernelFamilyUCB(STATE, [k], norm_bound=1e3),
    "counts": lambda k: likelihood_ucb(
        PROBLEM.X, (PROBLEM.Y > 0).double(), k, norm_bound=1e3
    ),
    "BKBUCB": lambda k: BKBUCB(
        BKBModel(PROBLEM.X, PROBLEM.Y.unsqueeze(-1), k, alpha=0.01), norm_bound=1e3
    ),
    "KernelBandit": bandit_with,
    "FamilyBandit": lambda k: FamilyBandit([k], norm_bound=9.0, noise_std=0.1),
    "BKBBandit": lambda k: BKBBandit(PROBLEM.X, k, norm_bound=9.0, noise_std=0.1),
}


def model_with(kernel):
    return SingleTaskGP(
        PROBLEM.X,
        PROBLEM.Y.unsqueeze(-1),
        covar_module=kernel,
        outcome_transform=None,
    ).requires_grad_(False)


@pytest.mark.parametrize("way", FITTED_KERNELS)
def test_the_frozen_kernel_of_a_fitted_state_is_an_estimate(way):
    kernel = FITTED_KERNELS[way]()
    state = KernelRegression(PROBLEM.X, PROBLEM.Y, kernel, 0.1)
    assert state.estimated == {"kernel"}


@pytest.mark.parametrize("taker", KERNEL_TAKERS)
def test_every_bound_honours_such_a_kernel(taker):
    build = KERNEL_TAKERS[taker]
    assert build(fitted_prior().covar_module).assumptions["kernel"].status == "estimated"
    given = build(STATE.prior.covar_module)
    assert given.assumptions["kernel"].status == "given"


def test_a_family_replaces_length_scales_and_nothing_else():
    scaled = KernelRegression(
        PROBLEM.X, PROBLEM.Y, ScaleKernel(RBFKernel()).requires_grad_(False), 0.1
    ).prior.covar_module
    of_fitted = KernelRegression(PROBLEM.X, PROBLEM.Y, RBFKernel(), 0.1).prior.covar_module
    own = (scaled, of_fitted, RBFKernel())
    for kernels in (lengthscale_family(kernel, 0.1, 0.4) for kernel in own):
        bound = KernelFamilyUCB(STATE, kernels, norm_bound=9.0)
        assert bound.assumptions["kernel"].status == "given"
    for kernel in (ScaleKernel(RBFKernel()), fitted_scaled()):
        kernels = lengthscale_family(kernel, 0.1, 0.4)
        bound = KernelFamilyUCB(STATE, kernels, norm_bound=9.0)
        assert bound.assumptions["kernel"].status == "estimated"


def test_an_estimated_output_scale_of_a_described_family():
    for scale, status in ((2.0, "given"), (EstimatedNumber(2.0), "estimated")):
        bound = KernelFamilyUCB.from_model(
            STATE, shortest=0.1, longest=0.4, outputscale=scale, norm_bound=9.0
        )
        assert bound.assumptions["kernel"].status == status


def fitted_scaled():
    kernel = ScaleKernel(RBFKernel())
    return KernelRegression(PROBLEM.X, PROBLEM.Y, kernel, 0.1).prior.covar_module


@pytest.mark.parametrize(
    ("gain", "status"),
    [
        (lambda: 1.0 + information_gain(MODEL), "estimated"),  # that of the points so far
        (lambda: 1.0 + information_gain(MODEL, method="upper_bound"), "given"),
        (lambda: 1.0 + information_gain(fitted(), PROBLEM.X, noise_std=0.1), "estimated"),
        (lambda: 1.0 + information_gain(PROBLEM.kernel, PROBLEM.X, noise_std=0.1), "given"),
        (
            lambda: information_gain(
                PROBLEM.kernel, PROBLEM.X, noise_std=EstimatedNumber(0.05)
            ),
            "estimated",
        ),
    ],
)
def test_a_gain_from_the_data_is_an_estimate(gain, status):
    bound = SrinivasUCB(MODEL, theorem=BoundedNorm(9.0, 10.0 * gain()))
    assert bound.assumptions["information gain"].status == status


def test_the_frozen_input_transform_of_a_fitted_state_is_an_estimate():
    for trained in (True, False):
        warp = Warp(d=1, indices=[0], bounds=BOX).requires_grad_(trained)
        model = SingleTaskGP(
            PROBLEM.X, PROBLEM.Y.unsqueeze(-1), input_transform=warp, outcome_transform=None
        )
        again = SingleTaskGP(
            PROBLEM.X,
            PROBLEM.Y.unsqueeze(-1),
            covar_module=PROBLEM.kernel,
            input_transform=KernelRegression.from_model(model).prior.input_transform,
            outcome_transform=None,
        ).requires_grad_(False)
        expected = {"kernel"} if trained else set()
        assert KernelRegression.from_model(again).estimated == expected


def test_the_frozen_mean_of_a_fitted_state_is_an_estimate():
    mean = fitted_prior().mean_module
    state = KernelRegression(PROBLEM.X, PROBLEM.Y, PROBLEM.kernel, 0.1, mean)
    assert state.estimated == {"mean"}
