r"""Bandits over changing arms: the stateless classes on the same data are their oracle."""

import math
import warnings

import pytest
import torch
from gpytorch.kernels import LinearKernel, PolynomialKernel, RBFKernel, ScaleKernel
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    FamilyBandit,
    KernelBandit,
    KernelFamily,
    KernelFamilyUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    NormTracker,
    least_consistent_norm,
    lengthscale_family,
)
from kernelucb.bandit.filters import Ratio, TwoFilters, partial_fractions, tangent_price
from kernelucb.confidence.assumptions import Status
from kernelucb.confidence.dual import ExactSet, GridSet
from kernelucb.confidence.filters import PRIOR_WEIGHTS
from kernelucb.confidence.fit import fit_of
from kernelucb.confidence.mixture import consistent_constraints
from kernelucb.confidence.norm import least_norm
from kernelucb.confidence.radius import KernelFree, Radius, mixture_radius
from kernelucb.confidence.sets import ConfidenceSet
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.regression.exact import FilteredRegression, SpectralFilter
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
from tolerances import (
    BANDIT,
    BANDIT_AT_DATA,
    BANDIT_UNRESOLVED,
    EPS,
    PARTIAL_FRACTIONS,
    REARRANGED,
)

NORM, NOISE, DELTA, ARMS, DIMENSION, FEW = 5.0, 0.1, 0.05, 25, 2, 14
OPTIONS = {
    "exact": {"fit": "martingale"},
    "grid": {"fit": "martingale", "form": "grid"},
    "analytic": {"fit": "martingale", "form": "analytic"},
    "filters": {},
    "energy": {"form": "analytic"},
    "abbasi_yadkori": {"bound": "abbasi_yadkori"},
    "igp": {"bound": "igp_ucb"},
}
BOUNDS = tuple(OPTIONS)
FILTERED = ("filters", "energy")
MIXTURES = ("exact", "grid", "analytic", *FILTERED)


def stateless(bandit, bound, kernel, norm_bound=NORM, mean_module=None, **options):
    r"""The acquisition function of the same name from all observations at once."""
    data, noise = bandit.observations, bandit.bands.noise_std
    regression = KernelRegression(data.inputs, data.outcomes, kernel, noise, mean_module)
    if bound in FILTERED:
        return same_fit(bandit, regression)
    options = {**OPTIONS[bound], "norm_bound": norm_bound, "delta": DELTA, **options}
    options.pop("bound", None)
    if bound == "igp":
        return IGPUCB(regression, **options)
    if bound == "abbasi_yadkori":
        alpha = options.pop("form", None)
        return AbbasiYadkoriUCB(regression, alpha=alpha, **options)
    acqf = MartingaleMixtureUCB(regression, **options)
    return on_the_grid(bandit, acqf.confidence_set) if bound == "exact" else acqf


class WithinTheBall:
    r"""A set whose bounds are at most the ball's of the norm constraint."""

    def __init__(self, confidence_set):
        self.confidence_set = confidence_set

    def bounds(self, arms):
        regression = self.confidence_set.regression
        lower, upper = self.confidence_set.bounds(arms)
        ball = self.confidence_set.constraints.norm * regression.prior.variance(arms).sqrt()
        mean = regression.prior.mean(arms)
        return torch.maximum(lower, mean - ball), torch.minimum(upper, mean + ball)


def on_the_grid(bandit, exact):
    r"""The exact set over the regularisers of the bandit, unless it has it from scratch."""
    if not isinstance(exact, ExactSet) or is_stateless(bandit):
        return exact
    taus = bandit.bands.grid.regularizers(bandit.observations.inputs)
    grid = GridSet(exact.regression, exact.constraints, taus, exact.assumptions)
    return WithinTheBall(grid)


def is_stateless(bandit):
    return isinstance(bandit.bands.current(), ConfidenceSet)


def same_fit(bandit, regression):
    r"""The stateless set with the weights of the bandit's filters, priced by the data."""
    bound, filters = bandit.bands, bandit.bands.filters
    if not bandit.bands.is_resolved:
        state, radius = bound.constraint(regression)
    elif filters is None or is_stateless(bandit):
        state, radius = regression, radius_of(bandit, regression)
    else:
        state, squared = filtered(regression, bound, filters)
        squared += filters.ratio.at_zero * hidden_part(bandit)
        radius = Radius(1.0, squared - float(state.quadratic_form(1.0)))
    norm, least = bound.norm_bound, least_norm(state, radius)
    constraints = consistent_constraints(state, radius, norm, least)
    return on_the_grid(bandit, bound.confidence_set(state, constraints))


def hidden_part(bandit):
    return bandit.bands.spectrum.basis.hidden_part(bandit.bands.norm_bound)


def radius_of(bandit, regression):
    bound = bandit.bands
    predicted = mixture_radius(regression, bound.delta, bound.fit.scales)
    form = float(regression.quadratic_form(predicted.tau_ref))
    count = regression.num_observations
    return bound.with_energy(predicted, form, count, hidden_part(bandit))


def filtered(regression, bound, filters):
    r"""The filtered data, and the squared radius of their fit."""
    corner, floor = filters.corner, filters.floor
    level, weights = filters.share * filters.slope, float64([1.0 - filters.share])
    own = SpectralFilter(level, weights, float64([floor]), float64([corner]))
    predicted = mixture_radius(regression, bound.delta, bound.fit.scales).squared(
        regression
    )
    log_det, count = float(regression.log_det(corner)), regression.num_observations
    squared = filters.squared_radius(predicted, log_det, count, bound.delta)
    return FilteredRegression(regression, own), squared


def make_bandit(kernel, bound="filters", norm_bound=NORM, **options):
    given = {"norm_bound": norm_bound, "noise_std": NOISE, "delta": DELTA}
    return KernelBandit(kernel, **given | OPTIONS[bound] | options)


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
            bandit.observe(x, self.outcome(x))

    def outcome(self, x):
        r"""A noisy value, the same in one round however often it is asked for."""
        noise = self.noise * float(normal(1, self.round))
        return self.mean + float(self.function(x.unsqueeze(0))) + noise


def assert_near(found, expected, tolerance=BANDIT, norm=NORM):
    assert_close(found, expected, rtol=0.0, atol=tolerance * norm)


def assert_same(bandit, bound, kernel, arms, tolerance=BANDIT, **options):
    found = bandit.bounds(arms)
    assert_near(found, stateless(bandit, bound, kernel, **options).bounds(arms), tolerance)


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
    if case == "rbf" and bound in ("analytic", "energy", "abbasi_yadkori", "igp"):
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
        norm = bandit.norm_bound
        assert_same(bandit, bound, kernel, points, tolerance, norm_bound=norm)
    status = Status.ESTIMATED if norm_bound is None else Status.GIVEN
    assert bandit.assumptions["norm"].status is status
    if case == "linear":  # no variance at all
        origin = torch.zeros(1, DIMENSION, dtype=torch.float64)
        assert_close(bandit.bounds(origin), (origin[:, 0], origin[:, 0]))


@pytest.mark.parametrize(
    ("name", "noise"), [("matern32", 0.01), ("rbf", 0.1), ("matern52", 1.0)]
)
def test_hardly_wider_than_over_every_regulariser(name, noise):
    kernel = frozen_kernel(name)
    bandit = make_bandit(kernel, "exact", noise_std=noise)
    game = Game(kernel, 3, noise=noise)
    for rounds in (1, 1, 4, 15, 59):
        game.play(bandit, rounds)
        arms = torch.cat([uniform(50, DIMENSION, 0), bandit.observations.inputs[-5:]])
        lower, upper = bandit.bounds(arms)
        regression = bandit.observations.regression()
        exact = MartingaleMixtureUCB(regression, norm_bound=NORM, fit="martingale")
        below, above = exact.bounds(arms)
        assert bool((upper - lower <= 1.003 * (above - below)).all())
        narrower = torch.maximum(above - upper, lower - below)
        assert float(narrower.max()) <= BANDIT_AT_DATA * NORM


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
        data = bandit.observations.inputs[-5:]
        assert_same(bandit, bound, kernel, torch.cat([game.arms(), data, data + 1e-4]))


@pytest.mark.parametrize("bound", BOUNDS)
def test_without_observations(bound):
    kernel = frozen_kernel("matern52", outputscale=2.0)
    bandit = make_bandit(kernel, bound)
    lower, upper = bandit.bounds(uniform(7, 2, 0))
    assert_close(lower, -upper, rtol=0.0, atol=0.0)
    ball = NORM * torch.full((7,), 2.0).double().sqrt()
    if bound in ("exact", "filters"):
        assert_close(upper, ball, rtol=REARRANGED, atol=0.0)
    else:
        assert bool((upper > ball).all())
    assert bandit.assumptions.certified


CHOICES = [
    ("exact", {"fit": "martingale", "covariance_scale": 0.3}),
    ("grid", {"fit": "martingale", "covariance_scale": 0.3, "form": [0.004, 0.05]}),
    ("analytic", {"fit": "martingale", "covariance_scale": 0.3, "form": 0.03}),
    ("filters", {"covariance_scale": 0.3}),
    ("energy", {"covariance_scale": 0.3, "form": 0.03}),
    ("abbasi_yadkori", {"form": 0.02}),
    ("igp", {"horizon": 70}),
    *(
        (bound, {**OPTIONS[bound], "covariance_scale": scales})
        for bound in MIXTURES
        for scales in ([0.05, 1.0, 4.0], "mixture")
    ),
]


@pytest.mark.parametrize(("bound", "options"), CHOICES)
def test_options_reach_the_bound(bound, options):
    kernel, mean = frozen_kernel("matern52", outputscale=1.5), constant_mean(3.0)
    bandit = make_bandit(kernel, bound, mean_module=mean, **options)
    game = Game(kernel, seed=4, mean=3.0)
    for rounds in (1, 2, 37):
        game.play(bandit, rounds)
        assert_same(bandit, bound, kernel, game.arms(), mean_module=mean, **options)


@pytest.mark.parametrize("bound", MIXTURES)
def test_an_empty_set_is_said_once_and_widened(bound):
    kernel, norm = frozen_kernel("rbf"), 0.3
    bandit, game = make_bandit(kernel, bound, norm_bound=norm), Game(kernel, seed=9)
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always")
        game.play(bandit, 15)
        arms = game.arms()
        ours = bandit.bounds(arms)
        assumptions = bandit.assumptions
    assert [m.category for m in messages] == [InconsistentConfidenceSetWarning]
    assert assumptions["norm"].status is Status.VIOLATED
    with pytest.warns(InconsistentConfidenceSetWarning):
        theirs = stateless(bandit, bound, kernel, norm_bound=norm).bounds(arms)
    assert_near(ours, theirs, norm=1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bound": "best"}, 'bound must be "martingale_mixture", "abbasi_yadkori" or'),
        ({"bound": "igp_ucb", "horizon": 0}, "horizon must be"),
        ({"bound": "abbasi_yadkori", "fit": "martingale"}, "takes no fit"),
        ({"bound": "abbasi_yadkori", "form": "grid"}, "takes one ridge parameter"),
    ],
)
def test_wrong_arguments(options, message):
    given = {"norm_bound": 1.0, "noise_std": 0.1}
    with pytest.raises(ValueError, match=message):
        KernelBandit(frozen_kernel("rbf"), **given | options)


def test_igp_ends_at_its_horizon():
    bandit, x = make_bandit(frozen_kernel("rbf"), "igp", horizon=2), uniform(1, 2, 0)[0]
    bandit.observe(x, 0.0)
    bandit.observe(x, 0.1)
    with pytest.raises(ValueError, match="horizon is 2"):
        bandit.observe(x, 0.1)


class TestEstimatedNorm:
    def test_the_estimate_follows_the_data_and_never_falls(self):
        kernel = frozen_kernel("rbf")
        bandit, game = make_bandit(kernel, norm_bound=None), Game(kernel, seed=3)
        before, tracker = 0.0, NormTracker.cautious()
        for _ in range(15):  # as long as every observation brings a new estimate
            game.play(bandit, 1)
            tracker.observe(bandit.observations.regression(), delta=DELTA)
            assert bandit.norm_bound == pytest.approx(tracker.norm_bound)
            assert bandit.norm_bound >= before
            before = bandit.norm_bound
        game.play(bandit, 45)
        least = least_consistent_norm(bandit.observations.regression(), delta=DELTA)
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
        r"""The bounds hold the truth, and are the stateless class's up to round-off."""
        function = RKHSFunction.random(kernel, NORM, DIMENSION, seed)
        deviation = float(kernel(X, diag=True).max().sqrt())
        scale, norm = noise * deviation, 1.1 * NORM
        bandit = make_bandit(kernel, bound, norm, noise_std=scale)
        arms = torch.cat([uniform(ARMS, DIMENSION, 9), X[:3], X[-2:] + 1e-9])
        Y, truth = function(X) + scale * error, function(arms)
        for index, (x, y) in enumerate(zip(X, Y, strict=True)):
            bandit.observe(x, y)
            if index not in (4, FEW - 1):
                continue
            lower, upper = bandit.bounds(arms)
            assert bool((lower <= truth).all() and (truth <= upper).all())
            expected = stateless(bandit, bound, kernel, norm_bound=norm).bounds(arms)
            assert_near((lower, upper), expected, agreement(noise), NORM * deviation)

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
        given = {"norm_bound": 2.0, "bound": "abbasi_yadkori"}
        smallest = f"noise_std must be at least {math.sqrt(EPS):.4g}"
        with pytest.raises(ValueError, match=smallest):
            KernelBandit(frozen_kernel("rbf"), noise_std=1e-8, **given)
        kernel = self.KERNELS[3]
        bandit = KernelBandit(kernel, noise_std=1e-8, **given)
        near, far = 0.1 * torch.ones(1, 2).double(), torch.ones(1, 2).double()
        bandit.observe(near[0], 0.1)
        needed = math.sqrt(EPS * float(kernel(far, diag=True)))
        with pytest.raises(ValueError, match=f"noise_std must be at least {needed:.4g}"):
            bandit.observe(far[0], 1.0)
        assert torch.equal(bandit.observations.inputs, near)
        bandit = KernelBandit(kernel, noise_std=1.001 * needed, **given)
        bandit.observe(far[0], 1.0)
        lower, upper = bandit.bounds(far)
        assert float(lower) <= 1.0 <= float(upper)

    def test_from_scratch_after_growing(self):
        r"""The state passes from growing systems to none as the observations add up."""
        kernel = frozen_kernel("matern52")
        one = make_bandit(kernel, "analytic", noise_std=1.3e-5)
        X = uniform(12, 2, 1)
        truth = RKHSFunction.random(kernel, NORM, DIMENSION, 0)(X)
        resolved = []
        for x, y in zip(X, truth, strict=True):
            one.observe(x, y)
            resolved.append(one.bands.is_resolved)
            lower, upper = one.bounds(X)
            assert bool((lower <= truth).all() and (truth <= upper).all())
        assert resolved[0]
        assert not resolved[-1]


KERNEL = frozen_kernel("rbf")


def played(rounds):
    bandit, game = make_bandit(KERNEL, "filters"), Game(KERNEL, seed=8)
    game.play(bandit, rounds)
    return bandit, game


def test_prices_are_those_of_the_whole_mixture():
    r"""At the round in which the weights are chosen, with the slope of that round."""
    bandit, _ = played(64)
    bound, filters = bandit.bands, bandit.bands.filters
    mixture = bound.mixture(bandit.observations.regression())
    weights = [0.0] * len(mixture.prices)
    weights[0], weights[1 + filters.hybrid] = filters.share, 1.0 - filters.share
    expected = mixture.ellipsoid(float64(weights).numpy()).squared_radius
    expected += filters.ratio.at_zero * mixture.regression.hidden_part(NORM)
    found = bandit.bands.current().squared_radius
    assert found == pytest.approx(expected, rel=BANDIT)


@pytest.mark.parametrize("name", ["rbf", "matern32"])
def test_hardly_wider_than_with_all_hybrids(name):
    r"""Two weights, held for up to eight rounds, against the best of all in each round."""
    kernel = frozen_kernel(name)
    bandit, game = make_bandit(kernel, "filters"), Game(kernel, seed=2)
    game.play(bandit, 71)
    data, arms = bandit.observations, game.arms()
    regression = KernelRegression(data.inputs, data.outcomes, kernel, NOISE)
    lower, upper = bandit.bounds(arms)
    for fit, most in (("filters", 1.03), ("martingale", 0.9)):
        acqf = MartingaleMixtureUCB(regression, norm_bound=NORM, delta=DELTA, fit=fit)
        below, above = acqf.bounds(arms)
        assert float((upper - lower).mean()) <= most * float((above - below).mean())


def test_an_empty_filtered_set_gives_way_to_the_ball(monkeypatch):
    bandit, game = played(70)
    arms = game.arms()
    narrow = bandit.bounds(arms)
    monkeypatch.setattr(TwoFilters, "squared_radius", lambda *_: 1e-3)
    bandit.bands._current = None
    found = bandit.bounds(arms)
    bandit.bands.filters = bandit.bands._current = None
    ball = bandit.bounds(arms)
    assert_near(found, ball)
    assert float((ball[1] - ball[0]).mean()) > float((narrow[1] - narrow[0]).mean())


@given(
    top=st.floats(0.01, 1.0),
    rise=st.floats(1e-6, 1.0 - 1e-6),
    log_corner=st.floats(-6.0, 6.0),
    centre=st.floats(-6.0, 6.0),
)
def test_sums_of_resolvents_are_the_filtered_ones(top, rise, log_corner, centre):
    r"""One eigenvalue at a time, where roots nearly agree too."""
    corner = math.exp(log_corner)
    ratio = Ratio(top, top * corner * (1.0 - rise), corner)
    turn = corner * top * (1.0 - math.sqrt(rise)) ** 2  # both roots agree there
    taus = torch.linspace(-1.5, 1.5, 20).double().add(centre).exp()
    taus = torch.cat([taus, turn * float64([1.0, 1.0 + 1e-9, 1.0 - 1e-14])])
    lam = torch.cat([torch.zeros(1), torch.logspace(-8, 6, ARMS)]).double().unsqueeze(-1)
    filters = (ratio.top * lam + ratio.foot) / (lam + ratio.corner)
    variance, form = torch.zeros_like(filters * taus), torch.zeros_like(filters * taus)
    for terms in partial_fractions(ratio, taus).values():
        shrinkage = terms.roots / (lam + terms.roots)
        variance += terms.summed(shrinkage, terms.variance, len(taus))
        form += terms.summed(shrinkage, terms.form, len(taus))
    below = filters * lam + taus
    assert_close(variance, taus / below, rtol=0.0, atol=PARTIAL_FRACTIONS)
    assert_close(taus * form, filters * taus / below, rtol=0.0, atol=PARTIAL_FRACTIONS)


@given(
    count=st.integers(1, 500),
    per_round=st.floats(0.5, 3.0),
    slope=st.floats(1e-3, 1.0),
)
def test_a_tangent_of_any_slope_lies_below_the_mixture(count, per_round, slope):
    predicted = per_round * count + 2.0 * math.log(1.0 / DELTA)
    mixed = KernelFree.of(count, DELTA, predicted, PRIOR_WEIGHTS)
    ball, found = mixed.ball, tangent_price(mixed, slope)
    energies = torch.linspace(0.0, ball.squared_radius, 400, dtype=torch.float64).tolist()
    gaps = [2.0 * mixed.at(e)[0] - (slope * e - found) for e in energies]
    scale = 1.0 + ball.squared_radius
    assert min(gaps) >= -REARRANGED * scale
    step = scale / 400.0  # the touching point lies between two of them
    assert min(gaps) <= step * max(ball.slope, slope)


RANGE = lengthscale_family(RBFKernel(), 0.1, 1.6)
ROUNDS = 30
PLACES = uniform(40, 2, seed=5)
FUNCTION = RKHSFunction.random(frozen_kernel("rbf", 0.3), 0.8 * NORM, 2, seed=0)
VALUES = FUNCTION(PLACES)
OUTCOMES = VALUES + NOISE * normal(len(PLACES), seed=1)


def make_family(kernels=RANGE, norm_bound=NORM, **options):
    names = ("select", "mean")
    known = {name: options.pop(name) for name in names if name in options}
    family = KernelFamily(kernels, **known)
    return FamilyBandit(family, norm_bound=norm_bound, noise_std=NOISE, **options)


def test_it_is_the_union_of_single_bandits_that_were_never_contradicted():
    bandit = make_family()
    singles = []
    for cover in RANGE.covering(2):
        options = {"noise_std": NOISE, "fit": fit_of("filters", (NORM / 10.0) ** 2)}
        singles.append(KernelBandit(cover.kernel, norm_bound=NORM, **options))
    at = [None] * len(singles)
    for count in range(ROUNDS + 1):
        if count % 10 == 0:
            kept = [own for own, gone in zip(singles, at, strict=True) if gone is None]
            lower, upper = torch.stack([torch.stack(k.bounds(PLACES)) for k in kept], 1)
            union = lower.amin(0), upper.amax(0)
            assert_near(bandit.bounds(PLACES), union, norm=2.0 * NORM)
        assert bandit.contradicted_at == tuple(at)
        assert bandit.consistent == tuple(gone is None for gone in at)
        assert bandit.num_observations == count
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
            bandit.observe(PLACES[count], OUTCOMES[count])
            for index, own in enumerate(singles):
                own.observe(PLACES[count], OUTCOMES[count])
                if at[index] is None and own.assumptions.violated:
                    at[index] = count + 1
    assert 0 < sum(gone is not None for gone in at) < len(at)
    assert f"contradicted after {at[0]} observations" in bandit.report()


@pytest.mark.parametrize("select", ["alternate", "simplest", "widest"])
def test_it_is_the_stateless_class_where_what_was_contradicted_stays_out(select):
    bandit, kernels = make_family(select=select, fit="martingale"), RANGE
    for count in range(1, ROUNDS + 1):
        bandit.observe(PLACES[count], OUTCOMES[count])
        data = PLACES[1 : count + 1], OUTCOMES[1 : count + 1]
        regression = KernelRegression(*data, FUNCTION.kernel, NOISE)
        family = KernelFamily(kernels, select=select)
        acqf = KernelFamilyUCB(regression, family, norm_bound=NORM, fit="martingale")
        kernels = remaining(kernels, acqf.consistent)
        assert bandit.consistent == tuple(kernel in [*kernels] for kernel in RANGE)
        if count % 5 == 0:
            (lower, upper), (below, above) = bandit.bounds(PLACES), acqf.bounds(PLACES)
            slack = 0.003 * (above - below)  # of the grid of regularisers
            for wider in (below - lower, upper - above):
                assert bool(((wider >= -BANDIT * NORM) & (wider <= slack)).all())
            scores = acqf(PLACES.unsqueeze(1))
            assert bool(scores.max() - scores[bandit.select(PLACES)] <= slack.max())
    whole = KernelFamilyUCB(regression, RANGE, norm_bound=NORM, fit="martingale")
    assert bandit.assumptions == whole.assumptions


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
    assert bandit.contradicted_at == (2,) * 5
    assert bandit.assumptions.violated
    assert "no guarantee: kernel violated" in bandit.report()
    bandit.observe(PLACES[2], -50.0)
    assert bandit.select(PLACES) in range(len(PLACES))
    lower, upper = bandit.bounds(PLACES)
    assert bool((lower < upper).all())
