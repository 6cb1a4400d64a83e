r"""Bandits over changing arms: sets from all data at once are their oracle."""

import math
import warnings
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
from kernelucb.confidence.radius import Radius, energy_ball, mixture_radius
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from problems import (
    KERNELS,
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
OPTIONS = {
    "exact": {"fit": "martingale"},
    "grid": {"fit": "martingale", "form": [0.003, 0.01, 0.1]},
    "analytic": {"fit": "martingale", "form": "analytic"},
    "filters": {},
    "energy": {"form": NOISE**2},
    "abbasi_yadkori": {"bound": "abbasi_yadkori"},
    "igp": {"bound": "igp_ucb"},
}
BOUNDS = tuple(OPTIONS)
MIXTURES = BOUNDS[:5]
# A minimum over the bandit's regularisers, over one over all of them.
WIDER = 1.02


def make_bandit(kernel, bound="filters", norm_bound=NORM, **options):
    given = {"norm_bound": norm_bound, "noise_std": NOISE, "delta": DELTA}
    return KernelBandit(kernel, **given | OPTIONS[bound] | options)


def regression_of(bandit):
    prior = bandit.prior
    given = prior.covar_module, bandit.noise_std, prior.mean_module
    return KernelRegression(bandit.inputs, bandit.outcomes, *given)


class Both:
    r"""The intersection of two bands."""

    def __init__(self, *bands):
        self.bands = bands

    def bounds(self, arms):
        lower, upper = zip(*(band.bounds(arms) for band in self.bands), strict=True)
        return torch.maximum(*lower), torch.minimum(*upper)


def theorem(bandit, fit="filters", form="dual", covariance_scale=1.0, **options):
    r"""The bandit's bound by its theorem, from all observations at once."""
    state, norm = regression_of(bandit), float(bandit.norm_bound)
    options |= {"norm_bound": norm, "delta": DELTA}
    if (bound := options.pop("bound", None)) == "igp_ucb":
        return IGPUCB(state, **options)
    if bound == "abbasi_yadkori":
        return AbbasiYadkoriUCB(state, alpha=None if form == "dual" else form, **options)
    radius = mixture_radius(state, DELTA, covariance_scale)
    if fit == "martingale":
        radius = radius.beside_hidden(state.hidden_part(norm))
    else:
        given = DELTA, radius.squared(state), PRIOR_WEIGHTS
        squared, _ = energy_ball(state.num_observations, *given)
        squared += state.hidden_part(norm)
        radius = Radius.of(squared, state, radius.tau_ref)
    sides = Constraints(radius, norm, None)
    if form == "dual":
        band = ExactSet(state, sides, bandit.premises)
        older = bandit._renewed_at  # the whole mixture of filters holds as well
        if fit == "martingale" or older == 0:
            return band
        given = bandit.inputs[:older], bandit.outcomes[:older], bandit.prior.covar_module
        state = KernelRegression(*given, bandit.noise_std, bandit.prior.mean_module)
        norm = norm if bandit._tracker is None else deepcopy(bandit._tracker)
        chosen = {"fit": "filters", "covariance_scale": covariance_scale}
        whole = MartingaleMixtureUCB(state, norm_bound=norm, delta=DELTA, **chosen)
        return Both(band, whole)
    if form == "analytic":
        form = bandit.noise_std**2
    taus = float64(form).reshape(-1) / bandit.noise_std**2
    return GridSet(state, sides, taus, bandit.premises)


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
    (lower, upper), (below, above) = (
        bandit.bounds(arms),
        theorem(bandit, **options).bounds(arms),
    )
    slack = tolerance * norm
    if options.get("form", "dual") != "dual" or "bound" in options:
        assert_close((lower, upper), (below, above), rtol=0.0, atol=slack)
    assert bool((torch.maximum(lower - below, above - upper) <= slack).all())
    assert bool((upper - lower <= wider * (above - below) + 2.0 * slack).all())


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize(
    "case", ["rbf", "matern52", "linear", "repeated arms", "estimated norm"]
)
def test_is_the_stateless_bound(case, bound):
    r"""Eigenvalues at round-off are counted differently where bases are made in turn.

    Also of a kernel of finite rank and varying variance, and of a few arms played often.
    """
    kernel, tolerance = frozen_kernel(case if case in KERNELS else "matern52"), BANDIT
    norm_bound, arms = None if case == "estimated norm" else NORM, None
    if case == "rbf":
        tolerance = BANDIT_UNRESOLVED
    if case == "linear":
        kernel = ScaleKernel(LinearKernel()).double().requires_grad_(False)
        tolerance = BANDIT_AT_DATA
    if case == "repeated arms":
        arms, tolerance = uniform(6, DIMENSION, 5), BANDIT_AT_DATA
    bandit = make_bandit(kernel, bound, norm_bound)
    game = Game(kernel, seed=1, arms=arms, every=1 if arms is None else 2)
    for rounds in (1, 1, 1, 5, 1, 1, 12, 40):  # up to 62, over several eigenbases
        game.play(bandit, rounds)
        points = torch.cat([game.arms(), uniform(3, DIMENSION, rounds)])
        assert_same(bandit, points, tolerance, **OPTIONS[bound])
    status = Status.ESTIMATED if norm_bound is None else Status.GIVEN
    assert bandit.assumptions["norm"].status is status
    if case == "linear":  # no variance at all
        origin = torch.zeros(1, DIMENSION, dtype=torch.float64)
        assert_close(bandit.bounds(origin), (origin[:, 0], origin[:, 0]))


@pytest.mark.parametrize(
    ("bound", "name", "rounds"),
    [
        ("exact", "rbf", 200),
        ("filters", "rbf", 200),
        ("filters", "matern32", 200),
        ("energy", "matern52", 300),
        ("abbasi_yadkori", "matern32", 150),
    ],
)
def test_does_not_drift(bound, name, rounds):
    kernel = frozen_kernel(name)
    bandit, game = make_bandit(kernel, bound), Game(kernel, seed=2, dimension=3)
    for _ in range(3):
        game.play(bandit, rounds // 3)
        data = bandit.inputs[-5:]
        arms = torch.cat([game.arms(), data, data + 1e-4])
        assert bandit.is_growing
        assert_same(bandit, arms, **OPTIONS[bound])


@pytest.mark.parametrize(
    ("name", "noise"), [("matern32", 0.01), ("rbf", 0.1), ("matern52", 1.0)]
)
def test_hardly_wider_than_over_every_regulariser(name, noise):
    kernel = frozen_kernel(name)
    bandit = make_bandit(kernel, "exact", noise_std=noise)
    game = Game(kernel, 3, noise=noise)
    for rounds in (1, 1, 4, 15, 59):
        game.play(bandit, rounds)
        arms = torch.cat([uniform(50, DIMENSION, 0), bandit.inputs[-5:]])
        assert_same(bandit, arms, BANDIT_AT_DATA, wider=1.03, fit="martingale")
        (lower, upper), (below, above) = (
            each.bounds(arms) for each in (bandit, theorem(bandit, "martingale"))
        )
        assert float((upper - lower).mean()) <= 1.01 * float((above - below).mean())


@pytest.mark.parametrize("name", ["rbf", "matern32"])
def test_hardly_wider_than_the_default_bound(name):
    r"""All filters of the stateless default need the spectrum in every round."""
    kernel = frozen_kernel(name)
    bandit, game = make_bandit(kernel), Game(kernel, seed=2)
    game.play(bandit, 71)
    arms = game.arms()
    lower, upper = bandit.bounds(arms)
    for fit, most in (("filters", 1.06), ("martingale", 0.95)):
        acqf = MartingaleMixtureUCB(
            regression_of(bandit), norm_bound=NORM, delta=DELTA, fit=fit
        )
        below, above = acqf.bounds(arms)
        assert float((upper - lower).mean()) <= most * float((above - below).mean())


@pytest.mark.parametrize("bound", BOUNDS)
def test_without_observations(bound):
    bandit = make_bandit(frozen_kernel("matern52", outputscale=2.0), bound)
    lower, upper = bandit.bounds(uniform(7, 2, 0))
    assert_close(lower, -upper, rtol=0.0, atol=0.0)
    ball = NORM * torch.full((7,), 2.0).double().sqrt()
    if bound in ("exact", "filters"):
        assert_close(upper, ball, rtol=REARRANGED, atol=0.0)
    else:
        assert bool((upper > ball).all())
    assert bandit.assumptions.certified


CHOICES = [
    ("exact", {"covariance_scale": 0.3}),
    ("grid", {"covariance_scale": 0.3, "form": [0.004, 0.05]}),
    ("filters", {"covariance_scale": [0.05, 1.0, 4.0]}),
    ("energy", {"covariance_scale": "mixture", "form": 0.03}),
    ("abbasi_yadkori", {"form": 0.02}),
    ("igp", {"horizon": 70}),
]


@pytest.mark.parametrize(("bound", "options"), CHOICES)
def test_options_reach_the_bound(bound, options):
    kernel, mean = frozen_kernel("matern52", outputscale=1.5), constant_mean(3.0)
    bandit = make_bandit(kernel, bound, mean_module=mean, **options)
    game, options = Game(kernel, seed=4, mean=3.0), OPTIONS[bound] | options
    if isinstance(scale := options.get("covariance_scale"), str):
        options["covariance_scale"] = [2.0**power for power in range(-8, 9)]
        assert scale == "mixture"
    for rounds in (1, 2, 37):
        game.play(bandit, rounds)
        assert_same(bandit, game.arms(), **options)


@pytest.mark.parametrize("bound", MIXTURES)
def test_an_empty_set_is_said_once_and_widened(bound):
    kernel, norm = frozen_kernel("rbf"), 0.3
    bandit, game = make_bandit(kernel, bound, norm_bound=norm), Game(kernel, seed=9)
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always")
        game.play(bandit, 15)
        arms = game.arms()
        found = bandit.bounds(arms)
        assumptions = bandit.assumptions
    assert [m.category for m in messages] == [InconsistentConfidenceSetWarning]
    assert assumptions["norm"].status is Status.VIOLATED
    if "form" in OPTIONS[bound]:
        return
    given = {"norm_bound": norm, "delta": DELTA, **OPTIONS[bound]}
    with pytest.warns(InconsistentConfidenceSetWarning):
        acqf = MartingaleMixtureUCB(regression_of(bandit), **given)
    assert_close(found, acqf.bounds(arms), rtol=0.0, atol=BANDIT)


class TestEstimatedNorm:
    def test_the_estimate_follows_the_data_and_never_falls(self):
        kernel = frozen_kernel("rbf")
        bandit, game = make_bandit(kernel, norm_bound=None), Game(kernel, seed=3)
        before, tracker = 0.0, NormTracker.cautious()
        for _ in range(15):  # as long as every observation brings a new estimate
            game.play(bandit, 1)
            tracker.observe(regression_of(bandit), delta=DELTA)
            assert bandit.norm_bound == pytest.approx(tracker.norm_bound)
            assert bandit.norm_bound >= before
            before = bandit.norm_bound
        game.play(bandit, 45)
        least = least_consistent_norm(regression_of(bandit), delta=DELTA)
        assert 0.5 * NORM < least <= bandit.norm_bound

    @pytest.mark.parametrize("bound", MIXTURES)
    def test_no_contradiction_with_hardly_any_room(self, bound):
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


class TestNoiseNextToRoundOff:
    KERNELS = (
        frozen_kernel("rbf"),
        frozen_kernel("matern12"),
        frozen_kernel("matern52"),
        LinearKernel().double().requires_grad_(False),
        PolynomialKernel(power=2).double().requires_grad_(False),
        (LinearKernel() + RBFKernel()).double().requires_grad_(False),
    )

    def check(self, bound, kernel, X, noise, error, seed=0):
        r"""The bounds hold the truth, and are those of all data up to round-off."""
        function = RKHSFunction.random(kernel, NORM, DIMENSION, seed)
        deviation = float(kernel(X, diag=True).max().sqrt())
        scale, norm, options = noise * deviation, 1.1 * NORM, dict(OPTIONS[bound])
        if (
            options.get("form", "analytic") != "analytic"
        ):  # relative to the noise variance, as otherwise
            options["form"] = (float64(options["form"]) * (scale / NOISE) ** 2).tolist()
        given = {"norm_bound": norm, "noise_std": scale, "delta": DELTA}
        bandit = KernelBandit(kernel, **given, **options)
        arms = torch.cat([uniform(ARMS, DIMENSION, 9), X[:3], X[-2:] + 1e-9])
        Y, truth = function(X) + scale * error, function(arms)
        for index, (x, y) in enumerate(zip(X, Y, strict=True)):
            bandit.observe(x, y)
            if index not in (4, FEW - 1):
                continue
            lower, upper = bandit.bounds(arms)
            assert bool((lower <= truth).all() and (truth <= upper).all())
            if bandit.is_growing:
                given = agreement(noise), NORM * deviation
                assert_same(bandit, arms, *given, 1.05, **options)

    @pytest.mark.parametrize(
        ("noise", "seeds"), [(1e-7, (0, 4)), (1e-6, (1, 3)), (1e-4, (2, 5)), (1e-2, (0, 3))]
    )
    @pytest.mark.parametrize("bound", BOUNDS)
    def test_holds_the_truth_and_is_the_stateless_bound(self, bound, noise, seeds):
        r"""Inputs are fresh, repeated or nearly repeated; outcomes exact or noisy."""
        for seed in seeds:
            X = uniform(FEW, DIMENSION, seed + 1)
            if seed % 3:
                X = X[torch.arange(FEW) % 5]
                X = X + (seed % 3 - 1) * 1e-7 * uniform(FEW, DIMENSION, seed + 2)
            self.check(
                bound, self.KERNELS[seed], X, noise, seed % 2 * normal(FEW, seed), seed
            )

    @pytest.mark.parametrize("noise", [1e-13, 1e-10])
    @pytest.mark.parametrize("bound", MIXTURES)
    def test_mixtures_hold_at_any_noise(self, bound, noise):
        r"""They take a larger ridge parameter, as the stateless classes do."""
        X = uniform(FEW, DIMENSION, 1)[torch.arange(FEW) % 5]
        for kernel in self.KERNELS[:2]:
            self.check(bound, kernel, X, noise, 0.0)

    def test_noise_below_the_rounding_of_kernel_values_is_refused(self):
        r"""Where the theorem fixes the ridge parameter; the smallest noise is named."""
        given, kernel = {"norm_bound": 2.0, "bound": "abbasi_yadkori"}, self.KERNELS[3]
        bandit = KernelBandit(kernel, noise_std=1e-8, **given)
        near, far = 0.1 * torch.ones(1, 2).double(), torch.ones(1, 2).double()
        bandit.observe(near[0], 0.1)
        needed = math.sqrt(EPS * float(kernel(far, diag=True)))
        with pytest.raises(ValueError, match=f"noise_std must be at least {needed:.4g}"):
            bandit.observe(far[0], 1.0)
        assert torch.equal(bandit.inputs, near)
        bandit = KernelBandit(kernel, noise_std=1.001 * needed, **given)
        bandit.observe(far[0], 1.0)
        lower, upper = bandit.bounds(far)
        assert float(lower) <= 1.0 <= float(upper)

    def test_from_scratch_after_growing(self):
        r"""The state passes from growing systems to none as the observations add up."""
        kernel = frozen_kernel("matern52")
        bandit = make_bandit(kernel, "analytic", noise_std=1.3e-5)
        X = uniform(12, 2, 1)
        truth, growing = RKHSFunction.random(kernel, NORM, DIMENSION, 0)(X), []
        for x, y in zip(X, truth, strict=True):
            bandit.observe(x, y)
            growing.append(bandit.is_growing)
            lower, upper = bandit.bounds(X)
            assert bool((lower <= truth).all() and (truth <= upper).all())
        assert growing[0]
        assert not growing[-1]


RANGE = lengthscale_family(RBFKernel(), 0.1, 1.6)
ROUNDS = 30
PLACES = uniform(40, 2, seed=5)
FUNCTION = RKHSFunction.random(frozen_kernel("rbf", 0.3), 0.8 * NORM, 2, seed=0)
VALUES = FUNCTION(PLACES)
OUTCOMES = VALUES + NOISE * normal(len(PLACES), seed=1)


def make_family(kernels=RANGE, norm_bound=NORM, **options):
    return FamilyBandit(kernels, norm_bound=norm_bound, noise_std=NOISE, **options)


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
    r"""Arms of another dimension have other covers."""
    bandit = make_family()
    for arms in (PLACES, PLACES[:, :1], PLACES):
        covers = RANGE.covering(arms.shape[1])
        largest = max(float(cover.kernel(arms[:1], diag=True)) for cover in covers)
        lower, upper = bandit.bounds(arms)
        assert_close(upper, torch.full_like(upper, NORM * largest**0.5))
        assert torch.equal(lower, -upper)


def test_norm_bounds_of_a_plain_list_and_a_mean():
    kernels = [frozen_kernel("rbf", 0.5), frozen_kernel("matern52", 0.3)]
    bandit = make_family(kernels, norm_bound=[2.0, 4.0], mean=constant_mean(3.0))
    lower, upper = bandit.bounds(PLACES)
    assert_close(upper, torch.full_like(upper, 7.0))
    assert_close(lower, torch.full_like(lower, -1.0))
    assert bandit.assumptions.certified
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
    lower, upper = bandit.bounds(PLACES)
    assert bool((lower < upper).all())
