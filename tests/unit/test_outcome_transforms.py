r"""Models of outcomes after Log, Power and Bilog: as if the outcomes had been given so."""

import math
from copy import deepcopy
from pickle import dumps, loads

import pytest
import torch
from botorch.models.transforms.outcome import (
    Bilog,
    ChainedOutcomeTransform,
    Log,
    Power,
    Standardize,
)
from torch.testing import assert_close

from kernelucb import (
    AbbasiYadkoriUCB,
    KernelFamilyUCB,
    KernelThompsonSampling,
    MartingaleMixtureUCB,
    NystromRegression,
    SafeSet,
    SketchedMartingaleMixtureUCB,
    StreamingKernelUCB,
    UnknownNoise,
    check_consistency,
    least_consistent_norm,
)
from kernelucb.data.outcome_map import IDENTITY, outcome_units
from problems import float64, frozen_kernel, frozen_model, make_problem, normal, uniform
from tolerances import EPS, GRADCHECK, REARRANGED

# Every map, and values on the model's scale at which it is looked at.
ABOVE = 3.0 * uniform(40, 1, seed=0)[:, 0].sort().values + 0.01
REAL = 3.0 * normal(40, seed=1).sort().values


def chain(*transforms):
    return ChainedOutcomeTransform(**{f"t{i}": t for i, t in enumerate(transforms)})


# The transform, outcomes, and the end of the model's scale with its outcome.
MAPS = {
    "none": (lambda: None, REAL, -math.inf, -math.inf),
    "log": (Log, ABOVE, -math.inf, 0.0),
    "root": (lambda: Power(0.5), ABOVE, 0.0, 0.0),
    "square": (lambda: Power(2.0), ABOVE, 0.0, 0.0),
    "bilog": (Bilog, REAL, -math.inf, -math.inf),
    "log of root": (lambda: chain(Power(0.5), Log()), ABOVE, -math.inf, 0.0),
    "bilog of log": (lambda: chain(Log(), Bilog()), ABOVE, -math.inf, 0.0),
    "root of log": (lambda: chain(Log(), Power(0.5)), ABOVE + 1.0, 0.0, 1.0),
}
every_map = pytest.mark.parametrize("name", MAPS)


def outcome_map(name):
    return outcome_units(MAPS[name][0]()).outcome_map


@every_map
class TestMap:
    def test_is_botorchs_and_rises(self, name):
        build, Y, _, _ = MAPS[name]
        mapping, values = outcome_map(name), Y
        if (transform := build()) is not None:
            values = transform(Y.unsqueeze(-1))[0].squeeze(-1)
        assert_close(mapping.forward(Y), values, rtol=8 * EPS, atol=8 * EPS)
        assert_close(mapping.inverse(values), Y, rtol=1e-12, atol=1e-12)
        assert bool((values.diff() > 0.0).all())
        everywhere = torch.linspace(-6.0, 6.0, 99, dtype=torch.float64)
        assert bool((mapping.inverse(everywhere).diff() >= 0.0).all())
        huge = float64([-1e4, 1e4, -math.inf, math.inf])
        assert not bool(mapping.inverse(huge).isnan().any())

    def test_gradient(self, name):
        inverse, zero = outcome_map(name).inverse, float64([0.0]).requires_grad_()
        values = float64([-1.3, 0.4, 1.7]).requires_grad_()
        assert torch.autograd.gradcheck(inverse, values, **GRADCHECK)
        inverse(zero).sum().backward()
        assert bool(zero.grad.isfinite().all())

    def test_ends(self, name):
        r"""Beyond the image there are no outcomes: what lies there counts as the end."""
        mapping, (_, Y, least, least_outcome) = outcome_map(name), MAPS[name]
        assert (mapping.least, mapping.least_outcome) == (least, least_outcome)
        assert mapping.takes(Y[0])
        if math.isfinite(least):
            assert float(mapping.inverse(float64(least - 1.0))) == least_outcome
        if math.isfinite(least_outcome):
            assert not mapping.takes(float64(least_outcome - 1.0))
            assert mapping.takes(float64(least_outcome)) == math.isfinite(least)

    @pytest.mark.parametrize("sign", [1, -1])
    def test_largest_gain_against_a_scan(self, name, sign):
        mapping, steps = outcome_map(name), torch.linspace(0.0, 1.0, 401).double()
        for lower, upper, gain in ((-0.9, 0.7, 0.5), (0.2, 0.3, 2.0), (-2.0, -1.0, 0.1)):
            # Values in the image at the point, and at the one that is better by the gain.
            values = (lower + (upper - lower) * steps).clamp_min(mapping.least)
            others = (values + sign * gain).clamp_min(mapping.least)
            gains = (mapping.inverse(others) - mapping.inverse(values)).abs()
            bound = float(mapping.largest_gain(*map(float64, (gain, lower, upper)), sign))
            assert bound >= float(gains.max()) - 1e-12
            simple = len(mapping.steps) < 2 or name == "log of root"
            if simple and lower > mapping.least + gain:
                assert bound <= float(gains.max()) + 1e-12
        infinite = mapping.largest_gain(*map(float64, (1.0, 0.0, math.inf)))
        assert not math.isnan(float(infinite))


def test_units_of_standardize_behind_a_map():
    assert outcome_units(None) == (0.0, 1.0, IDENTITY, False)
    Y, transform = ABOVE.unsqueeze(-1), chain(Log(), Standardize(m=1))
    for nested in (transform, chain(transform, Standardize(m=1))):
        standard, _ = nested.train()(Y)
        offset, scale, mapping, learned = outcome_units(nested.eval())
        assert learned
        values = mapping.inverse(offset + scale * standard)
        assert_close(values, Y, rtol=1e-12, atol=1e-12)
    assert mapping == deepcopy(mapping) == loads(dumps(mapping)) != outcome_map("root")


# Models of transformed outcomes, and models that were given the transformed outcomes.
PROBLEM = make_problem(n=9, d=2, noise_std=0.2, kernel="matern52", seed=5)
X, POINTS, KERNEL = PROBLEM.X, PROBLEM.test_X, PROBLEM.kernel
LATENT = PROBLEM.Y - PROBLEM.Y.min() + 0.1
INVERSES = {
    "log": torch.exp,
    "root": torch.square,
    "square": torch.sqrt,
    "bilog": lambda t: t.sign() * t.abs().expm1(),
    "log of root": lambda t: t.exp().square(),
}
NORM, LIMITS = {"norm_bound": 3.0}, UnknownNoise(0.05, 0.5)
CLOSE = {"rtol": 0.0, "atol": REARRANGED}


def transformed(name="log", noise_std=0.2):
    Y, transform = INVERSES[name](LATENT), MAPS[name][0]()
    return frozen_model(X, Y, KERNEL, noise_std, outcome_transform=transform)


def pair(build):
    r"""Of the model of transformed outcomes, and of the one by hand."""
    return build(transformed()), build(frozen_model(X, LATENT, KERNEL, 0.2))


def band(model, **options):
    return MartingaleMixtureUCB(model, **NORM | options)


def sketched(model):
    return SketchedMartingaleMixtureUCB(NystromRegression.from_model(model, X[:4]), **NORM)


BOUNDS = {
    "minimized": lambda model: band(model, maximize=False),
    "unknown noise": lambda model: band(model, noise_std=LIMITS),
    "Abbasi-Yadkori": lambda model: AbbasiYadkoriUCB(model, **NORM),
    "streaming": lambda model: StreamingKernelUCB(model, **NORM, noise_std=LIMITS),
    "sketched": sketched,
    "family": lambda model: KernelFamilyUCB(model, [KERNEL], **NORM),
}


@pytest.mark.parametrize("bound", BOUNDS)
def test_every_bound_by_hand(bound):
    log, plain = pair(BOUNDS[bound])
    assert_close(log.band.latent_bounds(POINTS), plain.bounds(POINTS), **CLOSE)
    for side, expected in zip(log.bounds(POINTS), plain.bounds(POINTS), strict=True):
        assert_close(side, expected.exp(), rtol=REARRANGED, atol=0.0)
    assert_close(log(POINTS.unsqueeze(-2)), plain(POINTS.unsqueeze(-2)), **CLOSE)
    assert math.isclose(log.band.prior_std, plain.band.prior_std)
    assert log.assumptions["outcome transform"]


@pytest.mark.parametrize("name", INVERSES)
def test_every_transform_by_hand(name):
    bound, (_, plain) = band(transformed(name)), pair(band)
    sides = plain.bounds(POINTS)
    assert_close(bound.band.latent_bounds(POINTS), sides, **CLOSE)
    for side, expected in zip(bound.bounds(POINTS), sides, strict=True):
        # Where the band leaves the image, there are no outcomes to take out.
        outcomes = INVERSES[name](expected.clamp_min(bound.band.outcome_map.least))
        assert_close(side, outcomes, rtol=REARRANGED, atol=REARRANGED)


def test_standardize_comes_last_and_is_undone():
    kernel, standardize = frozen_kernel("matern52", 0.3), Standardize(m=1)
    transform = chain(Log(), deepcopy(standardize))
    log = band(frozen_model(X, LATENT.exp(), kernel, 0.3, outcome_transform=transform))
    plain = band(frozen_model(X, LATENT, kernel, 0.3, outcome_transform=standardize))
    assert_close(log.band.latent_bounds(POINTS), plain.bounds(POINTS), **CLOSE)
    assert log.assumptions.estimated == plain.assumptions.estimated == ("mean",)
    assert_close(log.band.data.noise_std, plain.band.data.noise_std, **CLOSE)


def test_assumptions_name_the_transform_and_its_approximation():
    log, plain = (each.assumptions for each in pair(band))
    assert log.certified
    assert "conditionally sub-Gaussian after Log" in log["noise"].statement
    assert "noise is additive" in log["outcome transform"].statement
    assert "outcome transform" not in [item.name for item in plain.items]
    # Variances in outcome units are an approximation after Log.
    model = transformed(noise_std=0.1 * LATENT.exp())
    assert band(model).assumptions.estimated == ("noise",)
    assert band(model, noise_std=0.1).assumptions.certified


@pytest.mark.parametrize("side", [">=", "<="])
def test_safe_sets_decide_as_the_bounds_do(side):
    log, plain = pair(band)
    safe = SafeSet(log, 1.5, sides=side)
    latent = SafeSet(plain, math.log(1.5), sides=side)
    assert_close(safe.margin(POINTS), latent.margin(POINTS), **CLOSE)


def test_samples_are_outcomes():
    def drawn(model):
        sampler = KernelThompsonSampling(model, **NORM)
        torch.manual_seed(2)
        values = sampler.sample_values(POINTS, 3)
        return values, sampler.paths(2, num_features=32)(POINTS), sampler(POINTS, 4)

    (*samples, chosen), (*latent, points) = pair(drawn)
    assert_close(samples, [each.exp() for each in latent], rtol=1e-7, atol=0.0)
    assert torch.equal(chosen, points)


def test_numbers_are_in_units_of_the_transformed_outcome():
    assert math.isclose(*pair(least_consistent_norm), rel_tol=1e-9)
    log, plain = pair(lambda model: check_consistency(model, 0.1).cause)
    assert log == plain
