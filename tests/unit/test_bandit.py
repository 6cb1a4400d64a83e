r"""The kernel bandit against the stateless classes on the same data."""

import warnings

import pytest
import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from gpytorch.kernels import LinearKernel, ScaleKernel
from gpytorch.means import ConstantMean
from torch.testing import assert_close

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    Analytic,
    Filters,
    Grid,
    KernelBandit,
    KernelRegression,
    MartingaleMixture,
    MartingaleMixtureUCB,
)
from kernelucb.confidence import ridge_band
from kernelucb.confidence.assumptions import Status
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.fit.radius import Radius, mixture_radius
from kernelucb.confidence.martingale_mixture import forms
from kernelucb.confidence.martingale_mixture.dual import ExactSet, GridSet
from kernelucb.confidence.martingale_mixture.problem import consistent_constraints
from kernelucb.confidence.norm.least import least_norm
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.regression.exact import FilteredRegression, SpectralFilter
from oracles import closed_forms
from problems import KERNELS, RKHSFunction, float64, frozen_kernel, normal, uniform
from tolerances import (
    BANDIT,
    BANDIT_AT_DATA,
    BANDIT_UNRESOLVED,
    LINEAR_SOLVE,
    REARRANGED,
)

NORM, NOISE, DELTA, ARMS, DIMENSION = 5.0, 0.1, 0.05, 25, 2
OPTIONS = {
    "exact": {"fit": "martingale"},
    "grid": {"fit": "martingale", "form": Grid()},
    "analytic": {"fit": "martingale", "form": "analytic"},
    "filters": {},
    "energy": {"form": "analytic"},
    "abbasi_yadkori": {"bound": "abbasi_yadkori"},
    "igp": {"bound": "igp_ucb"},
}
BOUNDS = tuple(OPTIONS)
MIXTURES = ("exact", "grid", "analytic", "filters", "energy")


def stateless(bandit: KernelBandit, kernel, norm_bound=NORM, **options):
    r"""The acquisition function of the same name from all observations at once."""
    data = bandit.observations
    regression = KernelRegression(
        data.inputs, data.outcomes, kernel, NOISE, options.pop("mean_module", None)
    )
    bands = bandit.bands
    if isinstance(getattr(bands, "fit", None), Filters):
        return same_fit(bandit, regression)
    options = {"norm_bound": norm_bound, "delta": DELTA, **options}
    match bands.source:
        case ridge_band.ABBASI_YADKORI_SOURCE:
            form = options.pop("form", Analytic())
            return AbbasiYadkoriUCB(regression, alpha=form.alpha, **options)
        case ridge_band.IGP_UCB_SOURCE:
            return IGPUCB(regression, **options)
        case forms.ANALYTIC_SOURCE:
            options = {"fit": "martingale", "form": "analytic", **options}
            return MartingaleMixtureUCB(regression, **options)
        case GridSet.source:
            options = {"fit": "martingale", "form": Grid(), **options}
            return MartingaleMixtureUCB(regression, **options)
        case _:
            options = {"fit": "martingale", **options}
            exact = MartingaleMixtureUCB(regression, **options).confidence_set
            return on_the_grid(bandit, exact)


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
    return KernelBandit(
        kernel,
        norm_bound=norm_bound,
        noise_std=NOISE,
        delta=DELTA,
        **{**OPTIONS[bound], **options},
    )


class Game:
    r"""Fresh arms each round, outcomes of a function of norm ``NORM`` plus the mean."""

    def __init__(self, kernel, seed=0, dimension=DIMENSION, mean=0.0):
        self.function = RKHSFunction.random(kernel, NORM, dimension, seed)
        self.dimension, self.round, self.mean = dimension, 1000 * seed, mean

    def arms(self):
        self.round += 1
        return uniform(ARMS, self.dimension, self.round)

    def play(self, bandit, rounds):
        for _ in range(rounds):
            arms = self.arms()
            x = arms[bandit.select(arms)]
            bandit.observe(x, self.outcome(x))

    def outcome(self, x):
        r"""A noisy value, the same in one round however often it is asked for."""
        noise = NOISE * float(normal(1, self.round))
        return self.mean + float(self.function(x.unsqueeze(0))) + noise


def tolerance_of(bound, name):
    r"""Eigenvalues at round-off are counted differently where bases are made in turn."""
    fixed = ("analytic", "energy", "abbasi_yadkori", "igp")
    return BANDIT_UNRESOLVED if name == "rbf" and bound in fixed else BANDIT


def assert_same(bandit, kernel, arms, tolerance=BANDIT, **options):
    found = bandit.bounds(arms)
    expected = stateless(bandit, kernel, **options).bounds(arms)
    norm = options.get("norm_bound", NORM)
    for ours, theirs in zip(found, expected, strict=True):
        assert_close(ours, theirs, rtol=0.0, atol=tolerance * norm)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("name", KERNELS)
def test_is_the_stateless_bound(name, bound):
    kernel = frozen_kernel(name)
    bandit, game = make_bandit(kernel, bound), Game(kernel, seed=1)
    for rounds in (1, 1, 1, 5, 1, 1, 12, 40):  # up to 62, over several eigenbases
        game.play(bandit, rounds)
        assert_same(bandit, kernel, game.arms(), tolerance_of(bound, name))


@pytest.mark.parametrize("noise", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("name", KERNELS)
def test_hardly_wider_than_over_every_regulariser(name, noise):
    kernel = frozen_kernel(name)
    bandit = KernelBandit(kernel, norm_bound=NORM, noise_std=noise, fit="martingale")
    function = RKHSFunction.random(kernel, NORM, DIMENSION, 3)
    for turn in range(80):
        arms = uniform(ARMS, DIMENSION, turn)
        index = bandit.select(arms) if turn % 2 else turn % ARMS
        x = arms[index : index + 1]
        bandit.observe(x, function(x) + noise * normal(1, turn))
        if turn not in (0, 1, 5, 20, 79):
            continue
        arms = torch.cat([uniform(50, DIMENSION, 0), bandit.observations.inputs[-5:]])
        lower, upper = bandit.bounds(arms)
        regression = bandit.observations.regression()
        exact = MartingaleMixtureUCB(regression, norm_bound=NORM, fit="martingale")
        below, above = exact.bounds(arms)
        assert bool((upper - lower <= 1.003 * (above - below)).all())
        narrower = torch.maximum(above - upper, lower - below)
        assert float(narrower.max()) <= BANDIT_AT_DATA * NORM


@pytest.mark.parametrize("bound", ["analytic", "abbasi_yadkori"])
def test_growing_systems_are_linear_solves(bound):
    kernel = frozen_kernel("matern32")
    bandit, game = make_bandit(kernel, bound), Game(kernel, seed=1)
    game.play(bandit, 150)
    X, Y, arms = bandit.observations.inputs, bandit.observations.outcomes, game.arms()
    K, k = kernel(X).to_dense(), kernel(arms, X).to_dense()
    mean, sd = closed_forms.ridge(K, k, kernel(arms, diag=True), Y, NOISE**2)
    lower, upper = bandit.bounds(arms)
    assert_close(0.5 * (lower + upper), mean, rtol=0.0, atol=LINEAR_SOLVE)
    ratio = (upper - lower) / sd
    assert_close(ratio, ratio.mean().expand(ARMS), rtol=LINEAR_SOLVE, atol=0.0)


@pytest.mark.parametrize(
    ("bound", "name", "rounds"),
    [
        ("exact", "rbf", 200),
        ("filters", "rbf", 200),
        ("filters", "matern32", 200),
        ("energy", "matern52", 300),
    ],
)
def test_does_not_drift(bound, name, rounds):
    kernel = frozen_kernel(name)
    bandit, game = make_bandit(kernel, bound), Game(kernel, seed=2, dimension=3)
    for _ in range(3):
        game.play(bandit, rounds // 3)
        data = bandit.observations.inputs[-5:]
        assert_same(bandit, kernel, torch.cat([game.arms(), data, data + 1e-4]))


@pytest.mark.parametrize("bound", BOUNDS)
def test_without_observations(bound):
    kernel = frozen_kernel("matern52", outputscale=2.0)
    bandit, arms = make_bandit(kernel, bound), uniform(7, 2, 0)
    lower, upper = bandit.bounds(arms)
    assert_close(lower, -upper, rtol=0.0, atol=0.0)
    ball = NORM * torch.full((7,), 2.0).double().sqrt()
    if bound in ("exact", "filters"):
        assert_close(upper, ball, rtol=REARRANGED, atol=0.0)
    else:
        assert bool((upper > ball).all())
    assert bandit.select(arms) == 0
    assert bandit.num_observations == 0
    assert bandit.assumptions.certified


@pytest.mark.parametrize("bound", BOUNDS)
def test_repeated_arms(bound):
    r"""A few fixed arms, each played many times: a kernel matrix of low rank."""
    kernel = frozen_kernel("matern32")
    bandit, game = make_bandit(kernel, bound), Game(kernel, seed=3)
    arms = uniform(6, DIMENSION, 5)
    for turn in range(45):
        game.arms()
        x = arms[bandit.select(arms) if turn % 2 else turn % 6]
        bandit.observe(x, game.outcome(x))
        if turn in (1, 7, 20, 44):
            assert_same(
                bandit, kernel, torch.cat([arms, game.arms()]), tolerance=BANDIT_AT_DATA
            )


@pytest.mark.parametrize("bound", BOUNDS)
def test_options_reach_the_bound(bound):
    kernel, mean = frozen_kernel("rbf", outputscale=1.5), ConstantMean().double()
    mean.constant = float64(3.0)
    shared = {"mean_module": mean}
    extra = {
        "exact": {"fit": MartingaleMixture(0.3)},
        "grid": {"fit": MartingaleMixture(0.3), "form": Grid([0.004, 0.05])},
        "analytic": {"fit": MartingaleMixture(0.3), "form": Analytic(0.03)},
        "filters": {"fit": Filters(0.3)},
        "energy": {"fit": Filters(0.3), "form": Analytic(0.03)},
        "abbasi_yadkori": {"form": Analytic(0.02)},
        "igp": {"horizon": 70},
    }[bound]
    bandit = make_bandit(kernel, bound, **shared, **extra)
    game = Game(kernel, seed=4, mean=3.0)
    game.play(bandit, 40)
    assert_same(bandit, kernel, game.arms(), **shared, **extra)


@pytest.mark.parametrize("bound", MIXTURES)
@pytest.mark.parametrize("scales", [[0.05, 1.0, 4.0], "mixture"])
def test_scale_mixture(bound, scales):
    kernel = frozen_kernel("matern52")
    fit = (Filters if bound in ("filters", "energy") else MartingaleMixture)(scales)
    bandit = make_bandit(kernel, bound, fit=fit)
    game = Game(kernel, seed=5)
    for rounds in (1, 2, 30):
        game.play(bandit, rounds)
        assert_same(bandit, kernel, game.arms(), fit=fit)


def test_a_kernel_of_finite_rank_and_varying_variance():
    kernel = ScaleKernel(LinearKernel()).double().requires_grad_(False)
    bandit, game = make_bandit(kernel), Game(kernel, seed=6)
    for rounds in (1, 2, 30):
        game.play(bandit, rounds)
        assert_same(bandit, kernel, game.arms(), tolerance=BANDIT_AT_DATA)
    origin = torch.zeros(1, DIMENSION, dtype=torch.float64)  # no variance at all
    assert_close(bandit.bounds(origin), (origin[:, 0], origin[:, 0]))


def test_select_takes_the_largest_upper_bound():
    kernel = frozen_kernel("rbf")
    for bound in BOUNDS:
        bandit, game = make_bandit(kernel, bound), Game(kernel, seed=7)
        game.play(bandit, 15)
        for _ in range(5):
            arms = game.arms()
            assert bandit.select(arms) == int(bandit.bounds(arms)[1].argmax())


@pytest.mark.parametrize("bound", BOUNDS)
def test_an_outcome_need_not_be_of_an_arm_last_offered(bound):
    kernel = frozen_kernel("matern32")
    one, other, game = make_bandit(kernel, bound), make_bandit(kernel, bound), Game(kernel)
    for _ in range(20):
        arms = game.arms()
        one.bounds(arms)
        for bandit in (one, other):
            bandit.observe(arms[3], game.outcome(arms[3]))
    arms = game.arms()
    for ours, theirs in zip(one.bounds(arms), other.bounds(arms), strict=True):
        assert_close(ours, theirs, rtol=0.0, atol=BANDIT * NORM)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("rounds", [0, 5, 37])
def test_resumes_where_it_was(bound, rounds, tmp_path):
    kernel = frozen_kernel("rbf")
    first, game = make_bandit(kernel, bound), Game(kernel, seed=8)
    game.play(first, rounds)
    torch.save(first.state_dict(), tmp_path / "bandit.pt")
    second = make_bandit(kernel, bound)
    second.load_state_dict(torch.load(tmp_path / "bandit.pt", weights_only=True))
    assert second.num_observations == rounds
    for _ in range(12):
        arms = game.arms()
        for ours, theirs in zip(first.bounds(arms), second.bounds(arms), strict=True):
            assert_close(ours, theirs, rtol=0.0, atol=BANDIT * NORM)
        for bandit in (first, second):
            bandit.observe(arms[4], game.outcome(arms[4]))


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
    kinds = [m.category for m in messages]
    assert kinds == [InconsistentConfidenceSetWarning]
    assert assumptions["norm"].status is Status.VIOLATED
    with pytest.warns(InconsistentConfidenceSetWarning):
        theirs = stateless(bandit, kernel, norm_bound=norm).bounds(arms)
    assert_close(ours, theirs, rtol=0.0, atol=BANDIT)


def test_single_precision_is_taken_as_double():
    bandit = make_bandit(frozen_kernel("rbf"))
    arms = torch.rand(4, 2)
    bandit.observe(arms[0], torch.tensor(0.5))
    lower, upper = bandit.bounds(arms)
    assert lower.dtype == upper.dtype == torch.float64
    for ours, theirs in zip((lower, upper), bandit.bounds(arms.double()), strict=True):
        assert_close(ours, theirs, rtol=REARRANGED, atol=0.0)


def test_many_arms_are_scored_in_parts():
    bandit, game = make_bandit(frozen_kernel("rbf")), Game(frozen_kernel("rbf"))
    game.play(bandit, 10)
    arms = uniform(1500, DIMENSION, 0)
    whole = bandit.bounds(arms)
    parts = [bandit.bounds(part) for part in arms.split(500)]
    for index, values in enumerate(whole):
        expected = torch.cat([part[index] for part in parts])
        assert_close(values, expected, rtol=0.0, atol=BANDIT * NORM)
    assert bandit.select(arms) == int(whole[1].argmax())
    bandit.observe(arms[3], 0.0)  # not in the last part


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm_bound": -1.0}, "norm_bound must be a finite number above 0"),
        ({"noise_std": 0.0}, "noise_std must be a finite number above 0"),
        ({"delta": 1.0}, "delta must lie strictly between 0 and 1"),
        ({"bound": "best"}, 'bound must be "martingale_mixture", "abbasi_yadkori" or'),
        ({"form": "convex"}, 'form must be "dual" or "analytic"'),
        ({"bound": "igp_ucb", "horizon": 0}, "horizon must be a finite number above 0"),
        ({"horizon": 9}, 'bound="martingale_mixture" takes no horizon; leave it out'),
        ({"bound": "igp_ucb", "form": "analytic"}, 'bound="igp_ucb" takes no form'),
        ({"bound": "igp_ucb", "fit": "filters"}, "takes no fit; leave it out"),
        ({"bound": "abbasi_yadkori", "fit": "martingale"}, "takes no fit"),
        ({"fit": "energy"}, 'fit must be "filters", "martingale"'),
        ({"bound": "abbasi_yadkori", "form": "dual"}, "takes one ridge parameter"),
        ({"bound": "abbasi_yadkori", "form": Grid()}, "takes one ridge parameter"),
    ],
)
def test_wrong_arguments(options, message):
    options = {"norm_bound": 1.0, "noise_std": 0.1, **options}
    with pytest.raises(ValueError, match=message):
        KernelBandit(frozen_kernel("rbf"), **options)


def test_wrong_arms_and_outcomes():
    bandit, arms = make_bandit(frozen_kernel("rbf")), uniform(4, 2, 0)
    bandit.observe(arms[0], 1.0)
    for call in (bandit.bounds, bandit.select):
        with pytest.raises(BotorchTensorDimensionError, match="Arms must be `a x d`"):
            call(arms[0])
        with pytest.raises(BotorchTensorDimensionError, match="those observed have 2"):
            call(uniform(4, 3, 0))
        with pytest.raises(InputDataError, match="NaN"):
            call(arms * torch.nan)
    with pytest.raises(InputDataError, match="no arms"):
        bandit.select(arms[:0])
    assert [len(side) for side in bandit.bounds(arms[:0])] == [0, 0]
    with pytest.raises(BotorchTensorDimensionError, match="one arm and one outcome"):
        bandit.observe(arms, 1.0)
    with pytest.raises(BotorchTensorDimensionError, match="one arm and one outcome"):
        bandit.observe(arms[0], torch.ones(2))
    with pytest.raises(InputDataError, match="y contains NaN"):
        bandit.observe(arms[0], torch.nan)
    assert bandit.num_observations == 1


def test_igp_ends_at_its_horizon():
    bandit, x = make_bandit(frozen_kernel("rbf"), "igp", horizon=2), uniform(1, 2, 0)[0]
    bandit.observe(x, 0.0)
    bandit.observe(x, 0.1)
    with pytest.raises(ValueError, match="horizon is 2"):
        bandit.observe(x, 0.1)
