r"""Bandits over changing arms: sets from all data at once are their oracle."""

import math
from copy import deepcopy

import pytest
import torch
from gpytorch.kernels import LinearKernel, PolynomialKernel, RBFKernel, ScaleKernel
from torch.testing import assert_close

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    FamilyBandit,
    KernelBandit,
    KernelFamilyUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    NormTracker,
    least_consistent_norm,
    lengthscale_family,
)
from kernelucb.confidence.assumptions import Status
from kernelucb.confidence.dual import ExactSet, GridSet
from kernelucb.confidence.filters import PRIOR_WEIGHTS
from kernelucb.confidence.mixture import Constraints
from kernelucb.confidence.radius import (
    Radius,
    covariance_scales,
    energy_ball,
    mixture_radius,
)
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from problems import (
    RKHSFunction,
    constant_mean,
    float64,
    frozen_kernel,
    normal,
    remaining,
    uniform,
)
from tolerances import BANDIT, BANDIT_AT_DATA, BANDIT_UNRESOLVED, EPS, REARRANGED

NORM, NOISE, DELTA, ARMS, DIMENSION, FEW = 5.0, 0.1, 0.05, 25, 2, 14
# Where an option does not matter to a law of bandits, another than the default.
OPTIONS = {
    "exact": {"fit": "martingale"},
    "grid": {"fit": "martingale", "form": [0.003, 0.01, 0.1], "covariance_scale": 0.3},
    "analytic": {"fit": "martingale", "form": "analytic"},
    "filters": {"covariance_scale": [0.05, 1.0, 4.0]},
    "energy": {"form": 0.03, "covariance_scale": [0.3, 2.0]},
    "abbasi_yadkori": {"bound": "abbasi_yadkori", "form": 0.02},
    "igp": {"bound": "igp_ucb", "horizon": 300},
}
BOUNDS = tuple(OPTIONS)
MIXTURES = BOUNDS[:5]
# A minimum over the bandit's regularisers, over one over all of them.
WIDER = 1.02


def make_bandit(kernel, bound="filters", norm_bound=NORM, **options):
    given = {"norm_bound": norm_bound, "noise_std": NOISE, "delta": DELTA}
    return KernelBandit(kernel, **given | OPTIONS[bound] | options)


def regression_of(bandit, count=None):
    prior, data = bandit.prior, (bandit.inputs[:count], bandit.outcomes[:count])
    return KernelRegression(*data, prior.covar_module, bandit.noise_std, prior.mean_module)


def theorem(bandit, fit="filters", bound="martingale_mixture", **options):
    r"""The bandit's bound by its theorem, from all observations at once, as bands."""
    state, norm = regression_of(bandit), float(bandit.norm_bound)
    given, form = {"norm_bound": norm, "delta": DELTA}, options.get("form", "dual")
    if bound == "igp_ucb":
        return [IGPUCB(state, **given, **options)]
    if bound == "abbasi_yadkori":
        return [AbbasiYadkoriUCB(state, alpha=options.get("form"), **given)]
    if fit == "martingale":
        return [MartingaleMixtureUCB(state, fit=fit, **given, **options)]
    scale = options.get("covariance_scale", 1.0)
    radius = mixture_radius(state, DELTA, covariance_scales(scale))
    squared = radius.squared(state)
    squared, _ = energy_ball(state.num_observations, DELTA, squared, PRIOR_WEIGHTS)
    squared += state.hidden_part(norm)
    sides = Constraints(Radius.of(squared, state, radius.tau_ref), norm, None)
    if form != "dual":
        taus = float64(form).reshape(-1) / bandit.noise_std**2
        return [GridSet(state, sides, taus, bandit.premises)]
    band, older = ExactSet(state, sides, bandit.premises), bandit._renewed_at
    if older == 0:
        return [band]
    state = regression_of(bandit, older)  # the whole mixture of filters holds as well
    given["norm_bound"] = deepcopy(bandit._ball) if bandit._estimates else norm
    return [band, MartingaleMixtureUCB(state, covariance_scale=scale, **given)]


def sides_of(bandit, arms, **options):
    r"""Both sides of the bandit, and those of the bands that its theorem intersects."""
    sides = [band.bounds(arms) for band in theorem(bandit, **options)]
    lower, upper = map(torch.stack, zip(*sides, strict=True))
    return *bandit.bounds(arms), lower.amax(0), upper.amin(0)


class Game:
    r"""Arms each round, and outcomes of a function of norm ``NORM`` plus the mean.

    Arms are fresh unless they are given. The bandit chooses all, or every other one.
    """

    def __init__(
        self, kernel, seed=0, dimension=DIMENSION, mean=0.0, noise=NOISE, arms=None, every=1
    ):
        self.function = RKHSFunction.random(kernel, NORM, dimension, seed)
        self.dimension, self.round, self.mean = dimension, 1000 * seed, mean
        self.noise, self.given, self.every = noise, arms, every

    def arms(self):
        self.round += 1
        fresh = uniform(ARMS, self.dimension, self.round)
        return fresh if self.given is None else self.given

    def play(self, bandit, rounds):
        for _ in range(rounds):
            arms = self.arms()
            chosen = self.round % self.every == 0
            x = arms[bandit.select(arms) if chosen else self.round % len(arms)]
            noise = self.noise * float(normal(1, self.round))
            bandit.observe(x, self.mean + float(self.function(x.unsqueeze(0))) + noise)


def assert_same(bandit, arms, tolerance=BANDIT, norm=NORM, wider=WIDER, **options):
    r"""Never narrower than the theorem allows, and hardly wider."""
    lower, upper, below, above = sides_of(bandit, arms, **options)
    slack = tolerance * norm
    if options.get("form", "dual") != "dual" or "bound" in options:
        assert_close((lower, upper), (below, above), rtol=0.0, atol=slack)
    assert bool((torch.maximum(lower - below, above - upper) <= slack).all())
    assert bool((upper - lower <= wider * (above - below) + 2.0 * slack).all())


LINEAR = ScaleKernel(LinearKernel()).double().requires_grad_(False)
# Eigenvalues at round-off are counted differently where bases are made in turn.
CASES = {
    "rbf": (frozen_kernel("rbf"), BANDIT_UNRESOLVED, {}),
    "matern52": (frozen_kernel("matern52"), BANDIT, {}),
    "finite rank": (LINEAR, BANDIT_AT_DATA, {}),
    "repeated arms": (
        *(frozen_kernel("matern52"), BANDIT_AT_DATA),
        {"arms": uniform(6, DIMENSION, 5), "every": 2},
    ),
    "estimated norm": (frozen_kernel("matern52"), BANDIT, {}),
    "prior mean": (frozen_kernel("matern52", outputscale=1.5), BANDIT, {"mean": 3.0}),
}


# Every set, and every kind of kernel, once: of 42, seven.
@pytest.mark.covering
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("case", CASES)
def test_is_the_stateless_bound(case, bound):
    kernel, tolerance, options = CASES[case]
    norm_bound = None if case == "estimated norm" else NORM
    game = Game(kernel, seed=1, **options)
    bandit = make_bandit(kernel, bound, norm_bound, mean_module=constant_mean(game.mean))
    origin = torch.zeros(1, DIMENSION, dtype=torch.float64)  # of no variance if linear
    for rounds in (1, 1, 1, 5, 1, 1, 12, 40):  # up to 62, over several eigenbases
        game.play(bandit, rounds)
        points = torch.cat([game.arms(), origin, uniform(3, DIMENSION, rounds)])
        assert_same(bandit, points, tolerance, **OPTIONS[bound])
    status = Status.ESTIMATED if norm_bound is None else Status.GIVEN
    assert bandit.assumptions["norm"].status is status


# As many rounds as a drift needs.
@pytest.mark.representatives("igp-matern32")
@pytest.mark.parametrize(
    ("bound", "name"), [("exact", "rbf"), ("energy", "matern52"), ("igp", "matern32")]
)
def test_does_not_drift(bound, name):
    kernel = frozen_kernel(name)
    bandit, game = make_bandit(kernel, bound), Game(kernel, seed=2, dimension=3)
    for _ in range(3):
        game.play(bandit, 80)
        data = bandit.inputs[-5:]
        assert bandit.is_growing
        assert_same(bandit, torch.cat([game.arms(), data, data + 1e-4]), **OPTIONS[bound])


def test_hardly_wider_than_the_default_bound():
    r"""All filters of the stateless default need the spectrum in every round."""
    kernel = frozen_kernel("matern32")
    bandit, game = make_bandit(kernel), Game(kernel, seed=2)
    game.play(bandit, 71)
    arms, state = game.arms(), regression_of(bandit)
    lower, upper = bandit.bounds(arms)
    for fit, most in (("filters", 1.06), ("martingale", 0.95)):
        acqf = MartingaleMixtureUCB(state, norm_bound=NORM, delta=DELTA, fit=fit)
        below, above = acqf.bounds(arms)
        assert float((upper - lower).mean()) <= most * float((above - below).mean())


@pytest.mark.parametrize("bound", BOUNDS)
def test_without_observations(bound):
    bandit = make_bandit(frozen_kernel("matern52", outputscale=2.0), bound)
    lower, upper = bandit.bounds(uniform(7, 2, 0))
    assert torch.equal(lower, -upper)
    ball = torch.full_like(upper, NORM * 2.0**0.5)
    if bound in ("exact", "filters"):
        assert_close(upper, ball, rtol=REARRANGED, atol=0.0)
    assert bool((upper >= ball * (1.0 - REARRANGED)).all())
    assert bandit.assumptions.certified


@pytest.mark.representatives("filters", "exact")
@pytest.mark.parametrize("bound", MIXTURES)
def test_an_empty_set_is_said_once_and_widened(bound):
    kernel, norm = frozen_kernel("rbf"), 0.3
    bandit, game = make_bandit(kernel, bound, norm_bound=norm), Game(kernel, seed=9)
    with pytest.warns(InconsistentConfidenceSetWarning) as messages:
        game.play(bandit, 15)
    assert len(messages) == 1
    assert bandit.assumptions["norm"].status is Status.VIOLATED
    given = {"norm_bound": norm, "delta": DELTA, **OPTIONS[bound]}
    with pytest.warns(InconsistentConfidenceSetWarning):
        acqf = MartingaleMixtureUCB(regression_of(bandit), **given)
    arms = game.arms()
    assert_close(bandit.bounds(arms), acqf.bounds(arms), rtol=0.0, atol=BANDIT)


def test_the_estimate_follows_the_data_and_never_falls():
    kernel = frozen_kernel("rbf")
    bandit = make_bandit(kernel, norm_bound=None, covariance_scale=1.0)
    game = Game(kernel, seed=3)
    before, tracker = 0.0, NormTracker(inflation=1.5, floor=4.0)
    for _ in range(15):  # as long as every observation brings a new estimate
        game.play(bandit, 1)
        tracker.observe(regression_of(bandit), delta=DELTA)
        assert float(bandit.norm_bound) == pytest.approx(float(tracker.norm_bound))
        assert bandit.norm_bound >= before
        before = bandit.norm_bound
    game.play(bandit, 45)
    least = least_consistent_norm(regression_of(bandit), delta=DELTA)
    assert 0.5 * NORM < least <= bandit.norm_bound


@pytest.mark.representatives("exact")
@pytest.mark.parametrize("bound", MIXTURES)
def test_no_contradiction_with_hardly_any_room(bound):
    r"""The next outcome could empty the set; warnings are errors here."""
    kernel = frozen_kernel("matern32")
    tracker = NormTracker(inflation=1.0 + 1e-9, floor=1e-3)
    bandit, game = make_bandit(kernel, bound, tracker), Game(kernel, seed=4)
    game.play(bandit, 60)
    lower, upper = bandit.bounds(game.arms())
    assert bool((lower <= upper).all())
    assert bandit.assumptions["norm"].status is Status.ESTIMATED


def agreement(noise):
    r"""Largest difference, in norm bounds, at noise in prior deviations.

    The stateless classes drop eigenvalues below ``4 EPS lam_max``, which moves a mean by up
    to ``sqrt(4 EPS n) / (2 noise)``; Cholesky factors keep them.
    """
    return BANDIT_AT_DATA + math.sqrt(4.0 * EPS * FEW) / (2.0 * noise)


AWKWARD = (
    frozen_kernel("rbf"),
    frozen_kernel("matern12"),
    frozen_kernel("matern52"),
    LinearKernel().double().requires_grad_(False),
    PolynomialKernel(power=2).double().requires_grad_(False),
    (LinearKernel() + RBFKernel()).double().requires_grad_(False),
)
SMALL = [
    *((bound, 1e-13, seed) for bound in MIXTURES for seed in (0, 1)),
    *((bound, noise, seed) for bound in BOUNDS for noise, seed in ((1e-7, 4), (1e-6, 3))),
    *((bound, noise, seed) for bound in BOUNDS for noise, seed in ((1e-4, 5), (1e-2, 2))),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("bound", "noise", "seed"), SMALL)
def test_noise_next_to_round_off(bound, noise, seed):
    r"""The bounds hold the truth, and are those of all data up to round-off.

    Inputs are fresh, repeated or nearly repeated; outcomes exact or noisy. Mixtures take a
    larger ridge parameter where kernel values do not resolve the noise, as in one go.
    """
    X, kernel = uniform(FEW, DIMENSION, seed + 1), AWKWARD[seed]
    if seed % 3:
        near = (seed % 3 - 1) * 1e-7 * uniform(FEW, DIMENSION, seed + 2)
        X = X[torch.arange(FEW) % 5] + near
    function = RKHSFunction.random(kernel, NORM, DIMENSION, seed)
    deviation = float(kernel(X, diag=True).max().sqrt())
    scale, options = noise * deviation, dict(OPTIONS[bound])
    if isinstance(form := options.get("form"), list | float):  # relative to the noise
        options["form"] = (float64(form) * (scale / NOISE) ** 2).tolist()
    given = {"norm_bound": 1.1 * NORM, "noise_std": scale, "delta": DELTA}
    bandit = KernelBandit(kernel, **given, **options)
    arms = torch.cat([uniform(ARMS, DIMENSION, 9), X[:3], X[-2:] + 1e-9])
    outcomes, truth = function(X) + seed % 2 * scale * normal(FEW, seed), function(arms)
    for part in ((0, 5), (5, FEW)):
        for index in range(*part):
            bandit.observe(X[index], outcomes[index])
        lower, upper = bandit.bounds(arms)
        assert bool((lower <= truth).all() and (truth <= upper).all())
        if bandit.is_growing:
            given = agreement(noise), NORM * deviation
            assert_same(bandit, arms, *given, 1.05, **options)


def test_noise_below_the_rounding_of_kernel_values_is_refused():
    r"""Where the theorem fixes the ridge parameter; the smallest noise is named."""
    given, kernel = {"norm_bound": 2.0, "bound": "abbasi_yadkori"}, AWKWARD[3]
    bandit, far = KernelBandit(kernel, noise_std=1e-8, **given), float64([[1.0, 1.0]])
    bandit.observe(0.1 * far[0], 0.1)
    needed = math.sqrt(EPS * float(kernel(far, diag=True)))
    with pytest.raises(ValueError, match=f"noise_std must be at least {needed:.4g}"):
        bandit.observe(far[0], 1.0)
    assert torch.equal(bandit.inputs, 0.1 * far)
    bandit = KernelBandit(kernel, noise_std=1.001 * needed, **given)
    bandit.observe(far[0], 1.0)
    lower, upper = bandit.bounds(far)
    assert float(lower) <= 1.0 <= float(upper)


RANGE = lengthscale_family(RBFKernel(), 0.1, 1.6)
ROUNDS = 30
PLACES = uniform(40, 2, seed=5)
FUNCTION = RKHSFunction.random(frozen_kernel("rbf", 0.3), 0.8 * NORM, 2, seed=0)
VALUES = FUNCTION(PLACES)
OUTCOMES = VALUES + NOISE * normal(len(PLACES), seed=1)


def make_family(kernels=RANGE, norm_bound=NORM, **options):
    return FamilyBandit(kernels, norm_bound=norm_bound, noise_std=NOISE, **options)


# Two bandits side by side over many rounds: two seconds.
@pytest.mark.representatives("8")
@pytest.mark.parametrize("every", [8, None, 1])
def test_it_is_the_stateless_class_where_what_was_contradicted_stays_out(every):
    r"""Contradictions show on the bandit's regularisers a round later at most."""
    bandit, kernels = make_family(widest_every=every, fit="martingale"), RANGE
    for count in range(1, ROUNDS + 1):
        bandit.observe(PLACES[count], OUTCOMES[count])
        data = PLACES[1 : count + 1], OUTCOMES[1 : count + 1]
        regression = KernelRegression(*data, FUNCTION.kernel, NOISE)
        options = {"norm_bound": NORM, "fit": "martingale", "widest_every": every}
        acqf = KernelFamilyUCB(regression, kernels, **options)
        kernels = remaining(kernels, acqf.consistent)
        assert bandit.consistent == tuple(kernel in [*kernels] for kernel in RANGE)
        if count % 5 == 0:
            (lower, upper), (below, above) = bandit.bounds(PLACES), acqf.bounds(PLACES)
            slack = 0.01 * (above - below)  # of the regularisers
            for wider in (below - lower, upper - above):
                assert bool(((wider >= -BANDIT * NORM) & (wider <= slack)).all())
            scores = acqf(PLACES.unsqueeze(1))
            assert bool(scores.max() - scores[bandit.select(PLACES)] <= slack.max())
    assert 0 < sum(bandit.consistent) < len(RANGE)
    at = next(filter(None, bandit.contradicted_at))
    assert f"contradicted after {at} observations" in bandit.report()
    assert bandit.assumptions.certified


def test_before_any_observation_it_is_the_union_of_the_norm_balls():
    r"""Arms of another dimension have other covers; a plain list may have its norms."""
    bandit = make_family()
    for arms in (PLACES, PLACES[:, :1], PLACES):
        covers = RANGE.covering(arms.shape[1])
        largest = max(float(cover.kernel(arms[:1], diag=True)) for cover in covers)
        lower, upper = bandit.bounds(arms)
        assert_close(upper, torch.full_like(upper, NORM * largest**0.5))
        assert torch.equal(lower, -upper)
    kernels = [frozen_kernel("rbf", 0.5), frozen_kernel("matern52", 0.3)]
    bandit = make_family(kernels, norm_bound=[2.0, 4.0], mean=constant_mean(3.0))
    lower, upper = bandit.bounds(PLACES)
    assert_close((lower, upper), (0.0 * lower - 1.0, 0.0 * upper + 7.0))
    assert "is at most 2 to 4, by kernel" in str(bandit.assumptions)


def test_where_none_is_left_it_warns_once_and_goes_on():
    r"""A warning filter that raises does so after the observation."""
    bandit = make_family(norm_bound=0.5)
    bandit.observe(PLACES[0], 0.0)
    assert bandit.assumptions.certified
    with pytest.raises(InconsistentConfidenceSetWarning, match="contradict all 5 kernels"):
        bandit.observe(PLACES[1], 50.0)
    assert bandit.contradicted_at == [2] * 5
    assert bandit.assumptions.violated
    assert "no guarantee: kernel violated" in bandit.report()
    bandit.observe(PLACES[2], -50.0)
    assert bandit.select(PLACES) in range(len(PLACES))
