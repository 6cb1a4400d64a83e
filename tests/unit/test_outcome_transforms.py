r"""Models of outcomes after Log, Power and Bilog: as if the outcomes had been given so."""

import math
from copy import deepcopy
from pickle import dumps, loads

import pytest
import torch
from botorch.exceptions import UnsupportedError
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
    check_consistency,
    describe_norm_bound,
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
        transform, own = build(), outcome_map(name)
        values, back = Y, Y
        if transform is not None:
            values = transform(Y.unsqueeze(-1))[0]
            back = transform.untransform(values)[0].reshape(-1)
            values = values.squeeze(-1)
        assert_close(own.forward(Y), values, rtol=8 * EPS, atol=8 * EPS)
        assert_close(own.inverse(values), back, rtol=1e-13, atol=1e-13)
        assert_close(own.inverse(values), Y, rtol=1e-12, atol=1e-12)
        assert bool((values.diff() > 0.0).all())
        everywhere = torch.linspace(-6.0, 6.0, 99, dtype=torch.float64)
        assert bool((own.inverse(everywhere).diff() >= 0.0).all())
        huge = torch.tensor([-1e4, 1e4, -math.inf, math.inf], dtype=torch.float64)
        assert not bool(own.inverse(huge).isnan().any())

    def test_gradient(self, name):
        own = outcome_map(name)
        values = torch.tensor([-1.3, 0.4, 1.7], dtype=torch.float64).requires_grad_()
        assert torch.autograd.gradcheck(own.inverse, values, **GRADCHECK)
        zero = torch.zeros(1, dtype=torch.float64).requires_grad_()
        own.inverse(zero).sum().backward()
        assert bool(zero.grad.isfinite().all())

    def test_ends(self, name):
        r"""Beyond the image there are no outcomes: what lies there counts as the end."""
        own, (_, Y, least, least_outcome) = outcome_map(name), MAPS[name]
        assert (own.least, own.least_outcome) == (least, least_outcome)
        if math.isfinite(least):
            assert float(own.inverse(float64(least - 1.0))) == least_outcome
        assert own.takes(Y[0])
        if math.isfinite(least_outcome):
            assert not own.takes(float64(least_outcome - 1.0))
            assert own.takes(float64(least_outcome)) == math.isfinite(least)

    @pytest.mark.parametrize("sign", [1, -1])
    def test_largest_gain_against_a_scan(self, name, sign):
        own, steps = outcome_map(name), torch.linspace(0.0, 1.0, 401, dtype=torch.float64)
        for lower, upper, gain in ((-0.9, 0.7, 0.5), (0.2, 0.3, 2.0), (-2.0, -1.0, 0.1)):
            # Values in the image at the point, and at the one that is better by the gain.
            values = (lower + (upper - lower) * steps).clamp_min(own.least)
            others = (values + sign * gain).clamp_min(own.least)
            gains = (own.inverse(others) - own.inverse(values)).abs()
            bound = float(own.largest_gain(*map(float64, (gain, lower, upper)), sign))
            assert bound >= float(gains.max()) - 1e-12
            if (len(own.steps) < 2 or name == "log of root") and lower > own.least + gain:
                assert bound <= float(gains.max()) + 1e-12
        infinite = own.largest_gain(*map(float64, (1.0, 0.0, math.inf)))
        assert not math.isnan(float(infinite))


def test_units_of_standardize_behind_a_map():
    assert outcome_units(None) == (0.0, 1.0, IDENTITY, False)
    transform, Y = chain(Log(), Standardize(m=1)), ABOVE.unsqueeze(-1)
    standard, _ = transform(Y)
    offset, scale, own, learned = outcome_units(transform.eval())
    assert learned
    assert_close(offset + scale * standard, Y.log(), rtol=1e-13, atol=1e-13)
    nested = chain(transform, Standardize(m=1))
    standard, _ = nested.train()(Y)
    offset, scale, own, _ = outcome_units(nested.eval())
    assert_close(own.inverse(offset + scale * standard), Y, rtol=1e-12, atol=1e-12)
    assert own == deepcopy(own) == loads(dumps(own)) != outcome_map("root")


# Models of transformed outcomes, and models that were given the transformed outcomes.
PROBLEM = make_problem(n=9, d=2, noise_std=0.2, kernel="matern52", seed=5)
X, POINTS, KERNEL = PROBLEM.X, PROBLEM.test_X, PROBLEM.kernel
CANDIDATES = POINTS.unsqueeze(-2)
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
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


def by_hand():
    return frozen_model(X, LATENT, KERNEL, 0.2)


def pair(build):
    r"""Of the model of transformed outcomes, and of the one by hand."""
    return build(transformed()), build(by_hand())


def band(model, **options):
    return MartingaleMixtureUCB(model, **NORM | options)


def sketched(model):
    return SketchedMartingaleMixtureUCB(NystromRegression.from_model(model, X[:4]), **NORM)


BOUNDS = {
    "minimized": lambda model: band(model, maximize=False),
    "with an error": lambda model: band(model, norm_bound=NearNormBall(3.0, 0.1)),
    "unknown noise": lambda model: band(model, noise_std=LIMITS),
    "estimated norm": MartingaleMixtureUCB,
    "Abbasi-Yadkori": lambda model: AbbasiYadkoriUCB(model, **NORM),
    "Srinivas": SrinivasUCB,
    "streaming": lambda model: StreamingKernelUCB(model, **NORM, noise_std=LIMITS),
    "sketched": sketched,
    "family": lambda model: KernelFamilyUCB(model, [KERNEL], **NORM),
}


@pytest.mark.parametrize("bound", BOUNDS)
def test_every_bound_by_hand(bound):
    own, other = pair(BOUNDS[bound])
    assert_close(own.band.latent_bounds(POINTS), other.bounds(POINTS), **CLOSE)
    for side, expected in zip(own.bounds(POINTS), other.bounds(POINTS), strict=True):
        assert_close(side, expected.exp(), rtol=REARRANGED, atol=0.0)
    assert_close(own(CANDIDATES), other(CANDIDATES), **CLOSE)
    assert own.band.direction == other.band.direction
    assert math.isclose(own.band.prior_std, other.band.prior_std)
    assert own.assumptions["outcome transform"]


@pytest.mark.parametrize("name", INVERSES)
def test_every_transform_by_hand(name):
    own, other = band(transformed(name)), band(by_hand()).bounds(POINTS)
    assert_close(own.band.latent_bounds(POINTS), other, **CLOSE)
    for side, expected in zip(own.bounds(POINTS), other, strict=True):
        # Where the band leaves the image, there are no outcomes to take out.
        outcomes = INVERSES[name](expected.clamp_min(own.band.outcome_map.least))
        assert_close(side, outcomes, rtol=REARRANGED, atol=REARRANGED)


def test_standardize_comes_last_and_is_undone():
    kernel, standardize = frozen_kernel("matern52", 0.3), Standardize(m=1)
    transform = chain(Log(), deepcopy(standardize))
    own = band(frozen_model(X, LATENT.exp(), kernel, 0.3, outcome_transform=transform))
    other = band(frozen_model(X, LATENT, kernel, 0.3, outcome_transform=standardize))
    assert_close(own.band.latent_bounds(POINTS), other.bounds(POINTS), **CLOSE)
    assert own.assumptions.estimated == other.assumptions.estimated == ("mean",)
    noise = other.band.data.noise_std
    assert_close(own.band.data.noise_std, noise, rtol=REARRANGED, atol=0.0)


def test_what_is_assumed():
    known = band(transformed()).assumptions
    assert known.certified
    assert "conditionally sub-Gaussian after Log" in known["noise"].statement
    assert "noise is additive" in known["outcome transform"].statement
    assert "median" in str(known)
    assert "outcomes are above 0" in str(known)
    names = [item.name for item in band(by_hand()).assumptions.items]
    assert "outcome transform" not in names
    # Variances in outcome units are an approximation after Log.
    model = transformed(noise_std=0.1 * LATENT.exp())
    assert band(model).assumptions.estimated == ("noise",)
    assert band(model, noise_std=0.1).assumptions.certified


def test_safe_sets_decide_as_the_bounds_do():
    own, other = pair(band)
    lower, upper = own.bounds(POINTS)
    threshold = float(lower.median())
    for side in (">=", "<="):
        safe = SafeSet(own, threshold, sides=side)
        latent = SafeSet(other, math.log(threshold), sides=side)
        assert_close(safe.margin(POINTS), latent.margin(POINTS), **CLOSE)
        inside = lower >= threshold if side == ">=" else upper <= threshold
        clear = safe.margin(POINTS).abs() > REARRANGED
        assert bool((safe.is_safe(POINTS) == inside)[clear].all())
    with pytest.raises(ValueError, match=r"thresholds must be above 0 .* after Log"):
        SafeSet(own, 0.0)
    root = band(transformed("root"))
    with pytest.raises(ValueError, match="thresholds must be at least 0"):
        SafeSet(root, -1.0)
    assert SafeSet(root, 0.0)


def test_samples_are_outcomes():
    def drawn(model):
        sampler = KernelThompsonSampling(model, **NORM)
        torch.manual_seed(2)
        values = sampler.sample_values(POINTS, 3)
        paths = sampler.paths(2, num_features=32)(POINTS)
        chosen = sampler(POINTS, 4)
        best = sampler.optimize(CUBE, num_features=32, raw_samples=32, num_restarts=2)
        loads(dumps(sampler.paths()))
        return values, paths, chosen, best

    (values, paths, chosen, best), (latent, functions, points, point) = pair(drawn)
    assert_close((values, paths), (latent.exp(), functions.exp()), rtol=1e-7, atol=0.0)
    assert torch.equal(chosen, points)
    assert_close(best, point, rtol=0.0, atol=1e-5)


def test_numbers_are_in_units_of_the_transformed_outcome():
    for number in (least_consistent_norm, lambda model: NormTracker().observe(model)):
        assert math.isclose(*pair(number), rel_tol=1e-9)
    causes = pair(lambda model: check_consistency(model, 0.1).cause)
    assert causes[0] == causes[1]
    words = describe_norm_bound(transformed(), 3.0, bounds=CUBE, outcome_unit="kg")
    assert "kg after Log" in str(words)


def test_what_needs_outcome_units_refuses():
    own, Y = band(transformed()), LATENT.exp()
    with pytest.raises(UnsupportedError, match="add up the bands themselves"):
        ScalarizedUCB([own, own], [1.0, -1.0])
    with pytest.raises(UnsupportedError, match="observe_predictions"):
        PrequentialRadius().observe(transformed(), X, Y, 0.2)
