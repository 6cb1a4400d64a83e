r"""Models of outcomes after Log, Power and Bilog: as if the outcomes had been given so."""

import math
import warnings
from copy import deepcopy
from pickle import dumps, loads

import pytest
import torch
from botorch.acquisition.analytic import LogExpectedImprovement
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.transforms.outcome import (
    Bilog,
    ChainedOutcomeTransform,
    Log,
    Power,
    Standardize,
)
from botorch.optim import optimize_acqf
from torch.testing import assert_close

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    FamilyTracker,
    GuardedAcquisition,
    KernelFamily,
    KernelFamilyUCB,
    KernelRegression,
    KernelThompsonSampling,
    MartingaleMixtureUCB,
    NearNormBall,
    NormTracker,
    NystromRegression,
    PrequentialRadius,
    SafeSet,
    ScalarizedUCB,
    SketchedMartingaleMixtureUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    UnknownNoise,
    WangDeFreitasUCB,
    check_consistency,
    describe_norm_bound,
    least_consistent_norm,
)
from kernelucb.exceptions import StateError
from kernelucb.models import BKBModel
from problems import frozen_kernel, frozen_model, make_problem, normal
from tolerances import GRADCHECK, REARRANGED, SEARCHED, SINGLE

PROBLEM = make_problem(n=9, d=2, noise_std=0.2, kernel="matern52", seed=5)
X, POINTS = PROBLEM.X, PROBLEM.test_X
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
# Values on the models' scale, and the outcomes that are given to the models.
LATENT = PROBLEM.Y - PROBLEM.Y.min() + 0.1
CASES = {
    "log": (Log, torch.exp),
    "root": (lambda: Power(0.5), torch.square),
    "square": (lambda: Power(2.0), torch.sqrt),
    "bilog": (Bilog, lambda t: t.sign() * t.abs().expm1()),
    "log of root": (
        lambda: ChainedOutcomeTransform(a=Power(0.5), b=Log()),
        lambda t: t.exp().square(),
    ),
}
NORM, LIMITS = {"norm_bound": 3.0}, UnknownNoise(0.05, 0.5)


def transformed(name, **options):
    build, inverse = CASES[name]
    Y = inverse(LATENT)
    return frozen_model(X, Y, PROBLEM.kernel, 0.2, outcome_transform=build(), **options)


def by_hand(**options):
    return frozen_model(X, LATENT, PROBLEM.kernel, 0.2, **options)


def sketched(model):
    state = NystromRegression.from_model(model, X[:4])
    return SketchedMartingaleMixtureUCB(state, **NORM)


BOUNDS = {
    "exact": lambda model: MartingaleMixtureUCB(model, **NORM),
    "minimized": lambda model: MartingaleMixtureUCB(model, **NORM, maximize=False),
    "with an error": lambda model: MartingaleMixtureUCB(
        model, norm_bound=NearNormBall(NORM["norm_bound"], 0.1)
    ),
    "unknown noise": lambda model: MartingaleMixtureUCB(model, **NORM, noise_std=LIMITS),
    "estimated norm": MartingaleMixtureUCB,
    "Abbasi-Yadkori": lambda model: AbbasiYadkoriUCB(model, **NORM),
    "IGP": lambda model: IGPUCB(model, **NORM),
    "Srinivas": SrinivasUCB,
    "Wang-de Freitas": lambda model: WangDeFreitasUCB(model, **NORM),
    "streaming": lambda model: StreamingKernelUCB(model, **NORM, noise_std=LIMITS),
    "sketched": sketched,
    "family": lambda model: KernelFamilyUCB(model, [PROBLEM.kernel], **NORM),
}


@pytest.fixture(params=CASES)
def name(request):
    return request.param


def three_bands(own, other):
    r"""Latent sides of one, its sides, and sides of the other."""
    bands = own.latent_bounds(POINTS), own.bounds(POINTS), other.bounds(POINTS)
    return zip(*bands, strict=True)


@pytest.mark.parametrize("bound", BOUNDS)
def test_bounds_by_hand(bound):
    own, other = BOUNDS[bound](transformed("log")), BOUNDS[bound](by_hand())
    pairs = three_bands(own, other)
    for latent, side, expected in pairs:
        assert_close(latent, expected, rtol=0.0, atol=REARRANGED)
        assert_close(side, expected.exp(), rtol=REARRANGED, atol=0.0)
    candidates = POINTS.unsqueeze(-2)
    assert_close(own(candidates), other(candidates), rtol=0.0, atol=REARRANGED)
    assert own.direction == other.direction
    assert math.isclose(own.prior_std, other.prior_std)


def test_every_transform_by_hand(name):
    own, other = BOUNDS["exact"](transformed(name)), BOUNDS["exact"](by_hand())
    inverse, least = CASES[name][1], own.outcome_map.least
    pairs = three_bands(own, other)
    for latent, side, expected in pairs:
        assert_close(latent, expected, rtol=0.0, atol=REARRANGED)
        # Where the band leaves the image, there are no outcomes to take out.
        inside = expected.clamp_min(least)
        assert_close(side, inverse(inside), rtol=REARRANGED, atol=REARRANGED)
    assert bool((own.bounds(POINTS)[0] <= own.bounds(POINTS)[1]).all())


def test_a_band_that_leaves_the_image_ends_where_outcomes_do():
    lower, upper = MartingaleMixtureUCB(transformed("root"), norm_bound=9.0).bounds(POINTS)
    assert float(lower.min()) == 0.0
    assert bool((upper > 0.0).all())


def test_standardize_comes_last_and_is_undone():
    chain = ChainedOutcomeTransform(log=Log(), standardize=Standardize(m=1))
    kernel = frozen_kernel("matern52", 0.3)
    own = frozen_model(X, LATENT.exp(), kernel, 0.3, outcome_transform=chain)
    other = frozen_model(X, LATENT, kernel, 0.3, outcome_transform=Standardize(m=1))
    one, expected = BOUNDS["exact"](own), BOUNDS["exact"](other)
    assert_close(
        one.latent_bounds(POINTS), expected.bounds(POINTS), rtol=0.0, atol=REARRANGED
    )
    assert one.assumptions.estimated == expected.assumptions.estimated == ("mean",)
    noise = one.regression.noise_std
    assert_close(noise, expected.regression.noise_std, rtol=REARRANGED, atol=0.0)


def test_what_is_assumed():
    known = BOUNDS["exact"](transformed("log")).assumptions
    assert known.certified
    assert "conditionally sub-Gaussian after Log" in known["noise"].statement
    assert "noise is additive" in known["outcome transform"].statement
    assert "median" in str(known)
    assert "outcomes are above 0" in str(known)
    assert "outcome transform" not in [
        i.name for i in BOUNDS["exact"](by_hand()).assumptions.items
    ]
    for bound in BOUNDS.values():
        assert bound(transformed("bilog")).assumptions["outcome transform"]


def test_variances_given_in_outcome_units_are_an_approximation_after_log():
    deviations = 0.1 * LATENT.exp()
    kernel, Y = PROBLEM.kernel, LATENT.exp()
    model = frozen_model(X, Y, kernel, deviations, outcome_transform=Log())
    assert MartingaleMixtureUCB(model, **NORM).assumptions.estimated == ("noise",)
    assert MartingaleMixtureUCB(model, **NORM, noise_std=0.1).assumptions.certified


def test_gradients(name):
    acqf = BOUNDS["exact"](transformed(name))
    X = POINTS[:3].clone().requires_grad_()

    def sides(X):
        return torch.stack(acqf.bounds(X))

    assert torch.autograd.gradcheck(sides, X, **GRADCHECK)


def test_copies_pickles_and_states(name):
    acqf = BOUNDS["exact"](transformed(name))
    for twin in (deepcopy(acqf), loads(dumps(acqf))):
        assert_close(twin.bounds(POINTS), acqf.bounds(POINTS), rtol=0.0, atol=0.0)
        twin.load_state_dict(acqf.state_dict())
    with pytest.raises(StateError):
        acqf.load_state_dict(BOUNDS["exact"](by_hand()).state_dict())


def test_single_precision():
    acqf = BOUNDS["exact"](transformed("log"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lower, _ = acqf.bounds(POINTS.float())
    assert lower.dtype == torch.float32
    expected = acqf.bounds(POINTS.float().double())[0]
    assert_close(lower.double(), expected, rtol=SINGLE, atol=0.0)


def test_optimisation_finds_the_same_value():
    own, hand = (BOUNDS["exact"](model) for model in (transformed("log"), by_hand()))
    values = []
    for acqf in (own, hand):
        torch.manual_seed(0)
        point, value = optimize_acqf(acqf, CUBE, q=1, num_restarts=2, raw_samples=16)
        values += [float(value), float(hand(point))]
    assert values == pytest.approx(4 * [values[0]], rel=SEARCHED, abs=SEARCHED)


def test_posterior_transforms():
    model, candidates = transformed("log"), POINTS.unsqueeze(-2)

    def scalarized(weight, offset=0.0):
        return ScalarizedPosteriorTransform(torch.tensor([weight]).double(), offset)

    negative = MartingaleMixtureUCB(model, **NORM, posterior_transform=scalarized(-1.0))
    assert negative.direction == -1
    lower, _ = negative.latent_bounds(POINTS)
    assert_close(negative(candidates), -lower, rtol=0.0, atol=REARRANGED)
    for other in (scalarized(2.0), scalarized(1.0, 0.5)):
        with pytest.raises(UnsupportedError, match="weight 1 or -1 without an offset"):
            MartingaleMixtureUCB(model, **NORM, posterior_transform=other)


def test_safe_sets_decide_as_the_bounds_do():
    band = BOUNDS["exact"](transformed("log"))
    threshold = float(band.bounds(POINTS)[0].median())
    for side in (">=", "<="):
        safe = SafeSet(band, threshold, sides=side)
        latent = SafeSet(BOUNDS["exact"](by_hand()), math.log(threshold), sides=side)
        assert_close(safe.margin(POINTS), latent.margin(POINTS), rtol=0.0, atol=REARRANGED)
        lower, upper = band.bounds(POINTS)
        inside = lower >= threshold if side == ">=" else upper <= threshold
        clear = safe.margin(POINTS).abs() > REARRANGED
        assert bool((safe.is_safe(POINTS) == inside)[clear].all())
    with pytest.raises(ValueError, match=r"thresholds must be above 0 .* after Log"):
        SafeSet(band, 0.0)
    with pytest.raises(ValueError, match="thresholds must be at least 0"):
        SafeSet(BOUNDS["exact"](transformed("root")), -1.0)
    assert SafeSet(BOUNDS["exact"](transformed("root")), 0.0)


def test_guarded_search_is_on_the_models_scale():
    bands = [BOUNDS["exact"](model) for model in (transformed("log"), by_hand())]
    guards = [
        GuardedAcquisition(LogExpectedImprovement(by_hand(), best_f=1.0), band)
        for band in bands
    ]
    excesses = [guard.excess(POINTS) for guard in guards]
    assert_close(*excesses, rtol=0.0, atol=REARRANGED)
    assert_close(*[guard(POINTS.unsqueeze(-2)) for guard in guards], rtol=0.0, atol=1e-8)


def test_samples_are_outcomes():
    drawn = []
    for model in (transformed("log"), by_hand()):
        sampler = KernelThompsonSampling(model, **NORM)
        torch.manual_seed(2)
        values = sampler.sample_values(POINTS, 3)
        paths = sampler.paths(2, num_features=32)(POINTS)
        chosen = sampler(POINTS, 4)
        best = sampler.optimize(CUBE, num_features=32, raw_samples=32, num_restarts=2)
        drawn.append((values, paths, chosen, best))
        loads(dumps(sampler.paths()))
    (values, paths, chosen, best), (latent, functions, points, point) = drawn
    assert_close(values, latent.exp(), rtol=1e-7, atol=0.0)
    assert_close(paths, functions.exp(), rtol=1e-7, atol=0.0)
    assert torch.equal(chosen, points)
    assert_close(best, point, rtol=0.0, atol=1e-5)


def test_numbers_are_in_units_of_the_transformed_outcome():
    own, other = transformed("log"), by_hand()
    least = [least_consistent_norm(model) for model in (own, other)]
    assert math.isclose(*least, rel_tol=1e-9)
    trackers = [NormTracker().observe(model) for model in (own, other)]
    assert math.isclose(*trackers, rel_tol=1e-9)
    assert check_consistency(own, 0.1).cause == check_consistency(other, 0.1).cause
    words = str(describe_norm_bound(own, 3.0, bounds=CUBE, outcome_unit="kg"))
    assert "kg after Log" in words


def test_more_observations_of_a_sketch_are_outcomes():
    state = NystromRegression.from_model(transformed("log"), X[:4])
    added = state.observe(POINTS, POINTS[:, 0].exp())
    other = NystromRegression.from_model(by_hand(), X[:4]).observe(POINTS, POINTS[:, 0])
    bands = [SketchedMartingaleMixtureUCB(each, **NORM) for each in (added, other)]
    (lower, _), (expected, _) = (band.latent_bounds(POINTS) for band in bands)
    assert_close(lower, expected, rtol=0.0, atol=1e-8)
    with pytest.raises(
        InputDataError, match="above 0, since the model is of them after Log"
    ):
        state.observe(POINTS, -POINTS[:, 0])


def test_what_needs_outcome_units_refuses():
    band = BOUNDS["exact"](transformed("log"))
    with pytest.raises(UnsupportedError, match="add up the bands themselves"):
        ScalarizedUCB([band, band], [1.0, -1.0])
    with pytest.raises(UnsupportedError, match="observe_predictions"):
        PrequentialRadius().observe(transformed("log"), X, LATENT.exp(), 0.2)
    kernel, Y = PROBLEM.kernel, LATENT.exp().unsqueeze(-1)
    model = BKBModel(X, Y, kernel, 0.04, outcome_transform=Log())
    with pytest.raises(UnsupportedError, match="transform the outcomes yourself"):
        model.regression()


def test_predictions_of_the_transformed_outcome_give_a_radius():
    radius = PrequentialRadius()
    states = [KernelRegression.from_model(m, 0.2) for m in (transformed("log"), by_hand())]
    mean = torch.zeros_like(LATENT)
    radius.observe_predictions(mean, mean + 1.0, LATENT, 0.2, X)
    own, other = (MartingaleMixtureUCB(each, **NORM, fit=radius) for each in states)
    assert_close(own.latent_bounds(POINTS), other.bounds(POINTS), rtol=0.0, atol=1e-9)


def test_a_family_is_of_one_scale():
    family = KernelFamily([PROBLEM.kernel], tracker=FamilyTracker())
    KernelFamilyUCB(transformed("log"), family, **NORM)
    with pytest.raises(ValueError, match="another family"):
        KernelFamilyUCB(by_hand(), family, **NORM)


class OwnPosterior(SingleTaskGP):
    shift = 0.0

    def posterior(self, X, *arguments, **options):
        return super().posterior(X + self.shift, *arguments, **options)


@pytest.mark.parametrize("build", [Log, lambda: Power(2.0)])
def test_a_posterior_of_ones_own_is_compared_before_the_transform(build):
    Y = LATENT.sqrt().unsqueeze(-1)
    kernel = deepcopy(PROBLEM.kernel)
    model = OwnPosterior(X, Y, covar_module=kernel, outcome_transform=build())
    KernelRegression.from_model(model)
    model.shift = 0.1
    with pytest.raises(UnsupportedError, match="its own `posterior`"):
        KernelRegression.from_model(model)


REFUSED = {
    "a falling power": (Power(-1.0), LATENT, UnsupportedError, "does not rise"),
    "a constant power": (Power(0.0), LATENT, UnsupportedError, "does not rise"),
    "one of several": (Log(outputs=[0]), LATENT, UnsupportedError, "one model for each"),
    "Standardize first": (
        ChainedOutcomeTransform(a=Standardize(m=1), b=Bilog()),
        LATENT,
        UnsupportedError,
        "Use Bilog first, Standardize last",
    ),
    "negative outcomes of a power": (
        Power(3.0),
        normal(len(X), seed=4),
        InputDataError,
        "outcomes below 0",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case):
    transform, Y, error, message = REFUSED[case]
    model = frozen_model(X, Y, PROBLEM.kernel, 0.2, outcome_transform=transform)
    with pytest.raises(error, match=message):
        KernelRegression.from_model(model)
