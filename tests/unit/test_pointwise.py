r"""What replicates and designs that look at no outcomes say beside a band."""

import math
from functools import partial

import cvxpy
import pytest
import torch
from botorch.models.transforms import Normalize, Standardize
from gpytorch.kernels import RBFKernel
from scipy.stats import chi2

from kernelucb import (
    BandUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    ReplicateNoise,
    SafeSet,
    check_consistency,
    optimum_report,
    regret_certificate,
)
from kernelucb.confidence.band import Band
from kernelucb.confidence.fit import MixtureFit
from kernelucb.confidence.pointwise import FixedDesign, Net, half_width
from kernelucb.confidence.radius import noise_energy_bound
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from problems import RKHSFunction, float64, frozen_kernel, frozen_model, normal, uniform
from tolerances import ORDER

NORM, NOISE = 4.0, 0.5
ARMS = torch.linspace(0.0, 1.0, 12, dtype=torch.float64).unsqueeze(-1)
BOX = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
KERNEL = frozen_kernel("matern52")
FUNCTION = RKHSFunction.random(KERNEL, NORM, d=1, seed=3)


def band(num=4, noise=NOISE, kernel=KERNEL, **options):
    r"""``num`` runs at each of the arms."""
    X = ARMS.repeat(num, 1)
    Y = FUNCTION(X) + NOISE * normal(len(X), 0)
    state = KernelRegression(X, Y, kernel, noise)
    return MartingaleMixtureUCB(state, **{"norm_bound": 1.5 * NORM, **options})


def poor_band():
    r"""One that learns nothing from one arm about the next."""
    return band(num=20, kernel=frozen_kernel("matern12", 0.01), norm_bound=30.0)


def width(of, X=ARMS):
    lower, upper = of.bounds(X)
    return float((upper - lower).mean())


def close(one, other):
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("num_inputs", [None, 30])
def test_replicates_are_intervals_of_robbins_mixture(num_inputs):
    noise = 0.3 + 0.4 * uniform(48, 1, 5)[:, 0]
    cut = band(noise=noise).band.with_replicates(num_inputs, share=0.4)
    inner = band(noise=noise, delta=0.6 * 0.05)
    Y = cut.data.train_targets.reshape(4, 12)
    weights = noise.reshape(4, 12) ** -2
    V = weights.sum(0)
    first = torch.arange(1.0, 13.0).double()
    count = first * (first + 1.0) if num_inputs is None else 30.0 + 0.0 * first
    product = 8.0 * noise[0] ** 2 * V
    squared = (1 + 1 / product) * (torch.log1p(product) + 2 * (count / 0.02).log()) / V
    mean, half = (weights * Y).sum(0) / V, squared.sqrt()
    lower, upper = inner.bounds(ARMS)
    expected = torch.maximum(lower, mean - half), torch.minimum(upper, mean + half)
    close(cut.bounds(ARMS), expected)
    between = ARMS[:-1] + 0.01
    close(cut.bounds(between), inner.bounds(between))
    assert cut.assumptions.certified
    assert cut.delta == pytest.approx(0.05)
    assert "with probability 0.95" in cut.assumptions.guarantee


def test_certificates_and_acquisition_values_use_replicates():
    r"""They are worth more than a poor kernel and a large norm."""
    plain = poor_band()
    cut = plain.band.with_replicates(len(ARMS))
    union = 2 * NOISE * math.sqrt(2 * math.log(2 * len(ARMS) / 0.05) / 20)
    assert width(plain) > 1.5 * union
    assert width(cut) < 1.2 * union
    certificates = [regret_certificate(each, candidates=ARMS) for each in (plain, cut)]
    lost = FUNCTION(ARMS).max() - FUNCTION(certificates[1].recommended.reshape(1, 1))
    assert float(lost) - ORDER <= certificates[1].gap < 0.95 * certificates[0].gap
    close(BandUCB(cut)(ARMS.unsqueeze(1)), cut.bounds(ARMS)[1])
    level, start = float(FUNCTION(ARMS).min()) - 0.6, {"safe_points": ARMS[:1]}
    safe = [SafeSet(each, level, **start).margin(ARMS) >= 0.0 for each in (plain, cut)]
    assert bool((safe[1] | ~safe[0]).all())
    assert int(safe[1].sum()) > int(safe[0].sum())


@pytest.mark.parametrize("sign", [1, -1])
def test_gains_keep_to_replicates(sign):
    r"""Also at points between the arms, which were never observed."""
    cut, X = (
        poor_band().band.with_replicates(len(ARMS)),
        torch.cat([ARMS, ARMS[:-1] + 0.03]),
    )
    sides, truth = cut.bounds(X), sign * FUNCTION(X)
    lower, upper = sides if sign > 0 else (-sides[1], -sides[0])
    for reference in range(len(ARMS)):
        gain = cut.max_gain_over(X, X[[reference]], sign)
        assert bool((gain <= upper - lower[reference] + ORDER).all())
        assert bool((gain >= truth - truth[reference] - ORDER).all())


@pytest.mark.parametrize("fit", ["filters", "martingale"])
def test_replicates_outside_the_band_are_a_contradiction(fit):
    r"""One arm stands out by twice the noise, which a smooth function of norm 3 cannot."""
    X = ARMS.repeat(20, 1)
    Y = 2.0 * NOISE * (X[:, 0] == ARMS[5, 0]) + NOISE * normal(len(X), 2)
    state = KernelRegression(X, Y, frozen_kernel("rbf", 1.0), NOISE)
    plain = MartingaleMixtureUCB(state, norm_bound=3.0, fit=fit).band
    assert plain.assumptions.certified
    with pytest.warns(InconsistentConfidenceSetWarning, match="alone contradict"):
        cut = plain.with_replicates(12)
    assert cut.assumptions.summary == "no guarantee: norm violated"
    (lower, upper), intervals = cut.bounds(ARMS), cut.confidence_set.limits.intervals
    assert bool((lower <= upper).all())
    assert bool((lower >= intervals.lower - ORDER).all())
    assert bool((upper <= intervals.upper + ORDER).all())


def chosen_weights(gram, k, variance, factor):
    r"""Weights of the outcomes with the least bias plus noise, by matrices."""
    tried, noise = [], NOISE**2 * torch.eye(len(gram)).double()
    for tau in torch.logspace(-4, 4, 33, dtype=torch.float64):
        a = torch.linalg.solve(gram + tau * noise, k)
        bias = variance - 2 * a @ k + a @ gram @ a
        tried.append((float(NORM * bias.sqrt() + factor * NOISE * a.norm()), a))
    return min(tried, key=lambda each: each[0])[1]


def test_a_design_bounds_what_the_ball_and_one_interval_allow():
    r"""Against a cone program over the sections of data and point."""
    X, points, kernel = uniform(15, 1, 7), uniform(4, 1, 9), frozen_kernel("rbf")
    Y = 0.5 + FUNCTION(X) + NOISE * normal(15, 8)
    state = KernelRegression(X, Y, kernel, NOISE)
    design = FixedDesign([state], NORM, 0.03, points)
    limits, factor = design.limits(points), math.sqrt(2 * math.log(2 * 4 / 0.03))
    K = kernel(torch.cat([X, points])).to_dense().detach()
    root = torch.linalg.cholesky(K + 1e-10 * torch.eye(19).double()).numpy()
    for i in range(4):
        a = chosen_weights(K[:15, :15], K[:15, 15 + i], K[15 + i, 15 + i], factor)
        f = cvxpy.Variable(19)  # in the basis of the root: values at data and points
        at_x, estimate = (root @ f)[15 + i], a.numpy() @ (root @ f)[:15]
        near = cvxpy.abs(estimate - float(a @ Y)) <= factor * NOISE * float(a.norm())
        within = [cvxpy.norm(f) <= NORM, near]
        top = cvxpy.Problem(cvxpy.Maximize(at_x), within).solve(solver="CLARABEL")
        least = cvxpy.Problem(cvxpy.Minimize(at_x), within).solve(solver="CLARABEL")
        assert float(limits.upper[i]) == pytest.approx(top, abs=2e-4)
        assert float(limits.lower[i]) == pytest.approx(least, abs=2e-4)
    assert torch.isinf(torch.stack(design.limits(points + 0.01))).all()


def test_a_net_has_a_point_near_every_point():
    kernel = RBFKernel(ard_num_dims=2).double()
    kernel.lengthscale = torch.tensor([[0.1, 1.0]]).double()
    state = KernelRegression(uniform(5, 2, 1), normal(5, 2), kernel, NOISE)
    bounds = torch.tensor([[-1.0, 0.0], [1.0, 3.0]]).double()
    net = Net(state.prior, bounds, 0.25)
    X = bounds[0] + (bounds[1] - bounds[0]) * uniform(500, 2, 3)
    X = torch.cat([X, bounds])
    near = net.nearest(X)
    assert float(state.prior.metric(near, X).max()) <= 0.25 + ORDER
    assert len(torch.unique(near, dim=0)) <= math.exp(net.log_size) + ORDER
    assert float(net.counts[0]) > 3 * float(net.counts[1])


@pytest.mark.parametrize("domain", ["bounds", "candidates"])
@pytest.mark.parametrize(("sizes", "limit"), [(48, 0.95), ([24, 24], 1.01)])
def test_a_design_narrows_the_band(sizes, limit, domain):
    plain, X = band(), torch.cat([ARMS, uniform(50, 1, 4)])
    domain = {domain: BOX if domain == "bounds" else X}
    cut, inner = plain.band.with_fixed_design(sizes, **domain), plain.band.at(delta=0.025)
    (lower, upper), sides = cut.bounds(X), inner.bounds(X)
    assert bool((lower >= sides[0] - ORDER).all() & (upper <= sides[1] + ORDER).all())
    assert width(cut, X) < limit * width(plain, X)
    outside = torch.tensor([[1.5]]).double()
    close(cut.bounds(outside), inner.bounds(outside))
    if "bounds" in domain:  # an acquisition function has no steps at the cells of a box
        close(*(BandUCB(each)(ARMS.unsqueeze(1)) for each in (cut, inner)))


def test_later_runs_do_not_change_a_design():
    X = torch.cat([ARMS.repeat(2, 1), torch.full((9, 1), 0.4).double()])
    Y = FUNCTION(X) + NOISE * normal(len(X), 2)
    found = []
    for last in (24, 33):
        state = KernelRegression(X[:last], Y[:last], frozen_kernel("matern52"), NOISE)
        acqf = MartingaleMixtureUCB(state, norm_bound=NORM)
        cut = acqf.band.with_fixed_design(24, candidates=ARMS)
        found.append(cut.confidence_set.limits.limits(ARMS))
    close(*found)


REPLICATES = partial(Band.with_replicates, num_inputs=20)
DESIGN = partial(Band.with_fixed_design, num_runs=48, bounds=BOX)


# Both by default: the design alone, in two seconds, finds a noise factor left out.
@pytest.mark.parametrize("cut", [REPLICATES, DESIGN])
def test_larger_norms_and_noises_rest_on_one_event(cut):
    r"""Limits of larger factors hold those of smaller ones, from the same weights."""
    factors = (1.0, 1.0), (1.0, 1.5), (2.0, 1.5), (2.0, 3.0)
    relaxed = [cut(band().band).relaxed(*each) for each in factors]
    limits = [each.confidence_set.limits.limits(ARMS) for each in relaxed]
    grown = (True, cut is DESIGN, True)  # replicates know of no norm
    for before, after, larger in zip(limits, limits[1:], grown, strict=False):
        assert bool((after.lower <= before.lower + ORDER).all())
        assert bool((after.upper >= before.upper - ORDER).all())
        wider = (after.upper - after.lower) - (before.upper - before.lower)
        assert bool((wider > 1e-3).all()) == larger


def test_intervals_of_a_larger_noise_keep_their_law_of_guesses():
    cut = REPLICATES(band().band).relaxed(2.0, 3.0).confidence_set.limits.intervals
    V = float64(4 / (3 * NOISE) ** 2)
    half = half_width(V, 8.0 * NOISE**2, math.log(20 / 0.025))
    close(cut.upper - cut.lower, (2.0 * half).expand(12))


@pytest.mark.filterwarnings("ignore::kernelucb.exceptions.InconsistentConfidenceSetWarning")
@pytest.mark.parametrize("norm", [1.5 * NORM, 0.1 * NORM, None])
def test_the_weights_of_a_design_do_not_know_its_outcomes(norm):
    r"""Also where the norm bound was estimated, or raised as the data contradict it."""
    X, found = ARMS.repeat(4, 1), []
    for seed in range(2):
        state = KernelRegression(X, FUNCTION(X) + NOISE * normal(48, seed), KERNEL, NOISE)
        cut = MartingaleMixtureUCB(state, norm_bound=norm).band
        cut = cut.with_fixed_design(48, candidates=ARMS).relaxed(2.0)
        design = cut.confidence_set.limits
        found.append(design._estimate(design.batches[0], ARMS).weights)
    close(*found)


def test_sources_share_delta_and_can_be_asked_again():
    both = band().band.within(-9.0, 9.0).with_replicates(20, share=0.2)
    both = both.with_fixed_design(48, candidates=ARMS, share=0.5)
    assert both.delta == pytest.approx(0.05)
    names = [item.name for item in both.assumptions.items]
    assert {"replicates", "design", "range"} <= {*names}
    innermost = both.confidence_set
    while hasattr(innermost, "limits"):
        innermost = innermost.parts[0]
    assert innermost.assumptions.delta == pytest.approx(0.05 * 0.5 * 0.8)
    again = both.at(delta=0.01).at(delta=0.05)
    close(again.bounds(ARMS), both.bounds(ARMS))
    assert both.at(delta=0.01).delta == pytest.approx(0.01)


def replicated():
    X = ARMS.repeat(4, 1)
    return X, FUNCTION(X) + NOISE * normal(len(X), 0)


def with_noise(noise):
    return MartingaleMixtureUCB(band().band.data, norm_bound=NORM, noise_std=noise)


def test_the_noise_of_replicates_is_a_chi_square_limit():
    X, Y = replicated()
    noise = ReplicateNoise(X, Y, between=(0.1, 5.0), share=0.2)
    squares = float((Y.reshape(4, 12) - Y.reshape(4, 12).mean(0)).square().sum())
    lower, upper = map(float, *noise.limits(0.01).values())
    assert upper == pytest.approx(math.sqrt(squares / chi2.ppf(0.01, 36)))
    assert lower == pytest.approx(math.sqrt(squares / chi2.ppf(0.99, 36)))
    acqf = with_noise(noise)
    assert acqf.assumptions.certified
    assert acqf.band.delta == pytest.approx(0.05)
    assert float(acqf.band.data.noise_scales[0]) == pytest.approx(upper)
    # The fit is fixed for the middle of what was expected, at what is left of delta.
    fit = MixtureFit(True, noise_factor=upper / math.sqrt(0.5))
    options = {"norm_bound": NORM, "noise_std": upper, "fit": fit, "delta": 0.04}
    close(acqf.bounds(ARMS), MartingaleMixtureUCB(acqf.model, **options).bounds(ARMS))
    again = acqf.band.at(delta=0.01)
    assert float(again.data.noise_scales[0]) > upper
    close(again.at(delta=0.05).bounds(ARMS), acqf.bounds(ARMS))


RIGHT = ARMS.repeat(4, 1)[:, 0] > 0.5
GROUPS = {"groups": lambda each: (each[:, 0] > 0.5).double()}


def test_groups_share_delta_over_levels_of_their_scales():
    X, Y = replicated()
    Y = torch.where(RIGHT, FUNCTION(X) + 4.0 * (Y - FUNCTION(X)), Y)
    noise = ReplicateNoise(X, Y, between=(0.1, 10.0), **GROUPS)
    assert noise.num_levels == 50**2
    acqf = with_noise(noise)
    scales, limits = acqf.band.data.noise_scales, noise.limits(0.1 * 0.05)
    for label, (_, upper) in limits.items():
        (scale,) = scales[bool(label) == RIGHT].unique()
        assert upper <= float(scale) <= 1.1 * upper
        level = math.log(float(scale) / 0.1) / math.log(1.1)
        assert level == pytest.approx(round(level))
    options = {"norm_bound": NORM, "noise_std": scales, "delta": 0.045 / 50**2}
    close(acqf.bounds(ARMS), MartingaleMixtureUCB(acqf.model, **options).bounds(ARMS))
    with pytest.raises(ValueError, match="between ends at"):
        ReplicateNoise(X, Y, between=(0.1, 0.2), **GROUPS).scales(X, 0.05)


def test_a_pilot_takes_no_levels():
    X, scatter = ARMS.repeat(4, 1), torch.where(RIGHT, 4.0, 1.0) * NOISE
    data = X, FUNCTION(X) + scatter * normal(len(X), 1)
    pilot, ours = (ReplicateNoise(*data, between=b, **GROUPS) for b in (None, (0.1, 10.0)))
    assert pilot.num_levels == 1
    acqf = with_noise(pilot)
    assert "no outcomes of the band" in acqf.assumptions["noise"].statement
    assert width(acqf) < width(with_noise(ours))


def test_without_a_scale_named_before_replicates_must_be_other_runs():
    r"""Else the fit, which is fixed for their limits, would know the band's outcomes."""
    X, Y = replicated()
    for noise, named in [
        (ReplicateNoise(X, Y), ("noise",)),
        (ReplicateNoise(X, Y, between=(0.1, 5.0)), ()),
        (ReplicateNoise(X, FUNCTION(X) + NOISE * normal(48, 3)), ()),
    ]:
        assert with_noise(noise).assumptions.estimated == named


def test_numbers_taken_out_of_replicates_are_estimates():
    r"""A band that is given one knows of no delta that the limit takes."""
    X, Y = replicated()
    noise = ReplicateNoise(X, Y, between=(0.1, 5.0))
    (group,), (lower, upper) = noise.groups, noise.limits(0.01)[0.0]
    for number in (group.estimate, lower, 2 * upper, noise.scales(X, 0.05)):
        assert with_noise(number).assumptions.estimated == ("noise",)


def test_replicates_of_a_noise_that_was_not_known():
    noise = ReplicateNoise(*replicated(), between=(0.1, 5.0))
    acqf = with_noise(noise)
    cut = acqf.band.with_replicates(12).with_fixed_design(48, candidates=ARMS)
    inner, upper = acqf.band.at(delta=0.0125), float(noise.limits(0.1 * 0.0125)[0.0][1])
    assert float(inner.data.noise_scales[0]) == pytest.approx(upper)
    half = half_width(float64(4 / upper**2), 8.0 * 0.5, math.log(12 / 0.0125))
    intervals = cut.confidence_set.parts[0].limits.intervals
    close(intervals.upper - intervals.lower, (2.0 * half).expand(12))


def test_a_noise_scale_may_be_a_function_of_the_input():
    def scale(X):
        return 0.3 + X[:, 0]

    inputs = {"input_transform": Normalize(1)}
    model = frozen_model(2.0 * ARMS, FUNCTION(ARMS), KERNEL, 0.5, **inputs)
    given = scale, scale(2.0 * ARMS)
    one, other = (
        MartingaleMixtureUCB(model, norm_bound=9.0, noise_std=each) for each in given
    )
    close(one.bounds(ARMS), other.bounds(ARMS))
    close(*(each.band.at(norm_bound=10.0).bounds(ARMS) for each in (one, other)))


def test_the_check_tells_noise_that_differs_from_too_little_noise_and_norm():
    r"""Repeated runs whose noise grows with the outcome."""
    X = uniform(60, 1, 0).repeat(4, 1)
    even = 10.0 * X[:, 0] + normal(240, 9)
    Y = 10.0 * X[:, 0] + (0.2 + 2.0 * X[:, 0]) * normal(240, 1)
    kernel = frozen_kernel("rbf", 0.5, 25.0)

    def check(Y, noise, norm):
        return check_consistency(KernelRegression(X, Y, kernel, noise), norm)

    differs = check(Y, 0.5, 20.0)
    assert differs.cause == "noise by region"
    scales = [region.estimate for region in differs.regions]
    assert scales == sorted(scales)
    assert scales[2] > 2.0 * scales[0]
    assert check(even, 0.3, 20.0).cause == "noise"
    assert check(even, 1.0, 0.5).cause == "norm"
    assert check(Y, 0.2 + 2.0 * X[:, 0], 20.0).consistent
    for outcomes, noise, named in (even, 1.0, False), (Y, 3.0, True):
        assert ("differs" in check(outcomes, noise, 20.0).remedy) == named


@pytest.mark.slow
def test_regions_of_one_noise_rarely_differ():
    r"""1,000 tables of one scale: the chance of a difference is one in a thousand."""
    X = uniform(30, 1, 0).repeat(3, 1)
    alarms = 0
    for seed in range(1000):
        state = KernelRegression(X, normal(90, seed), KERNEL, 1.0)
        alarms += "differs" in check_consistency(state, 9.0).remedy
    assert alarms <= 6  # more with probability 1e-4


def test_noise_between_points_of_a_net_is_bounded_by_its_energy():
    r"""Noise as bad at a point as it can be where it vanishes at the net's only point."""
    state = KernelRegression(uniform(24, 1, 2), normal(24, 3), KERNEL, NOISE)
    design = FixedDesign([state], 1e-3, 0.05, BOX, is_box=True)
    design.net = Net(state.prior, BOX, 10.0)
    assert design.net.log_size == 0.0
    X = torch.tensor([[0.05], [0.9], [0.5]]).double()  # the last one is the net
    found = design._estimate(state, X)
    *units, centre = found.weights / found.weights.norm(dim=-1, keepdim=True)
    length = math.sqrt(noise_energy_bound(24, 0.1 * 0.05))
    for i, unit in enumerate(units):
        across = unit - (unit @ centre) * centre
        state.targets = length * across / across.norm()
        lower, upper = design.limits(X[[i]])
        error, scale = float(found.weights[i] @ state.targets), found.weights[i].norm()
        assert design.factor * float(scale) < error <= float(scale * found.deviation[i])
        assert float(lower) - ORDER <= 0.0 <= float(upper) + ORDER


# The weights of two designs on a net of the box: half a second.
@pytest.mark.parametrize("domain", [{"candidates": ARMS}, {"bounds": BOX}])
def test_a_design_is_in_outcome_units_where_the_model_is_standardised(domain):
    X = ARMS.repeat(3, 1)
    Y = 5.0 + 3.0 * FUNCTION(X) + NOISE * normal(len(X), 4)
    model = frozen_model(X, Y, KERNEL, 0.2, outcome_transform=Standardize(1))
    acqf = MartingaleMixtureUCB(model, norm_bound=15.0, noise_std=NOISE)
    scale, offset = float(acqf.band.data.outcome_scale), float(Y.mean())
    assert scale > 1.5
    kernel = frozen_kernel("matern52", outputscale=scale**2)
    other = MartingaleMixtureUCB(
        KernelRegression(X, Y - offset, kernel, NOISE), norm_bound=15.0 / scale
    )
    (lower, upper), sides = (
        each.band.with_fixed_design(36, **domain).bounds(ARMS) for each in (acqf, other)
    )
    close((lower - offset, upper - offset), sides)


@pytest.mark.filterwarnings("ignore::kernelucb.exceptions.InconsistentConfidenceSetWarning")
def test_limits_of_other_replicates_lift_no_contradiction():
    r"""A pilot of little noise, and runs that scatter a hundred times as much."""
    pilot = FUNCTION(ARMS).repeat(4) + 0.005 * normal(48, 1)
    quiet = band(noise_std=ReplicateNoise(ARMS.repeat(4, 1), pilot))
    for acqf in band(noise=0.005), quiet:
        assert acqf.assumptions.summary == "no guarantee: noise violated"
    assert quiet.band.relaxed().assumptions.violated
    assert optimum_report(quiet, ARMS).claims == ()
