r"""What replicates and designs that look at no outcomes say beside a band."""

import math
import warnings

import cvxpy
import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models.transforms import Log, Normalize, Standardize
from gpytorch.kernels import LinearKernel, RBFKernel
from scipy.stats import chi2

from kernelucb import (
    AbbasiYadkoriUCB,
    BandUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    NearNormBall,
    ReplicateNoise,
    SafeSet,
    UnknownNoise,
    check_consistency,
    optimum_report,
    regret_certificate,
)
from kernelucb._numerics.digits import at_most
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
    gaps = [regret_certificate(each, candidates=ARMS).gap for each in (plain, cut)]
    truth = FUNCTION(ARMS)
    recommended = regret_certificate(cut, candidates=ARMS).recommended
    lost = float(truth.max() - FUNCTION(recommended.reshape(1, 1)))
    assert lost - ORDER <= gaps[1] < 0.95 * gaps[0]
    close(BandUCB(cut)(ARMS.unsqueeze(1)), cut.bounds(ARMS)[1])
    sides = cut.bounds(ARMS)
    for sign in (1, -1):
        for reference in range(len(ARMS)):
            gain = cut.max_gain_over(ARMS, ARMS[[reference]], sign)
            limit = sides[1] - sides[0][reference]
            if sign < 0:
                limit = sides[1][reference] - sides[0]
            assert bool((gain <= limit + ORDER).all())
            true = sign * (truth - truth[reference])
            assert bool((gain >= true - ORDER).all())
    level, start = float(truth.min()) - 0.6, {"safe_points": ARMS[:1]}
    safe = [SafeSet(each, level, **start).margin(ARMS) >= 0.0 for each in (plain, cut)]
    assert bool((safe[1] | ~safe[0]).all())
    assert int(safe[1].sum()) > int(safe[0].sum())
    between = ARMS[:-1] + 0.03  # never observed, but the reference was
    best = int(sides[0].argmax())
    gain = cut.max_gain_over(between, ARMS[[best]])
    assert bool((gain <= cut.bounds(between)[1] - sides[0][best] + ORDER).all())


def test_replicates_outside_the_band_are_a_contradiction():
    with pytest.warns(InconsistentConfidenceSetWarning):
        small = band(norm_bound=0.3 * NORM, num=40, noise=NOISE)
    model = small.model
    with pytest.warns(InconsistentConfidenceSetWarning):
        cut = MartingaleMixtureUCB(model, norm_bound=0.3 * NORM).band.with_replicates(12)
    assert not cut.assumptions.certified
    lower, upper = cut.bounds(ARMS)
    assert bool((lower <= upper).all())
    own = cut.confidence_set.rule.known.known
    inside = (lower >= own.lower - ORDER) & (upper <= own.upper + ORDER)
    assert bool(inside.all())


def test_a_design_bounds_what_the_ball_and_one_interval_allow():
    r"""Against a cone program over the sections of data and point, weights by matrices."""
    X, kernel = uniform(15, 1, 7), frozen_kernel("rbf")
    Y = 0.5 + FUNCTION(X) + NOISE * normal(15, 8)
    state, points = KernelRegression(X, Y, kernel, NOISE), uniform(4, 1, 9)
    known = FixedDesign([state], NORM, 0.03, points)
    limits = known.limits(points)
    factor = math.sqrt(2 * math.log(2 * 4 / 0.03))
    every = torch.cat([X, points])
    K = kernel(every, every).to_dense().detach()
    gram = K[:15, :15]
    for i in range(4):
        k = K[:15, 15 + i]
        taus = torch.logspace(-4, 4, 33, dtype=torch.float64)
        tried = []
        for tau in taus:
            a = torch.linalg.solve(gram + tau * NOISE**2 * torch.eye(15).double(), k)
            bias = K[15 + i, 15 + i] - 2 * a @ k + a @ gram @ a
            tried.append((NORM * bias.sqrt() + factor * NOISE * a.norm(), a))
        a = min(tried, key=lambda each: float(each[0]))[1]
        root = torch.linalg.cholesky(K + 1e-10 * torch.eye(19).double()).numpy()
        f = cvxpy.Variable(19)  # values at data and points, in the basis of the root
        values = root @ f
        at_x, inner = values[15 + i], a.numpy() @ values[:15]
        noise = factor * NOISE * float(a.norm())
        within = [cvxpy.norm(f) <= NORM, cvxpy.abs(inner - float(a @ Y)) <= noise]
        top = cvxpy.Problem(cvxpy.Maximize(at_x), within).solve(solver="CLARABEL")
        least = cvxpy.Problem(cvxpy.Minimize(at_x), within).solve(solver="CLARABEL")
        assert float(limits.upper[i]) == pytest.approx(top, abs=2e-4)
        assert float(limits.lower[i]) == pytest.approx(least, abs=2e-4)
    other = known.limits(points + 0.01)
    assert torch.isinf(torch.stack(other)).all()


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


@pytest.mark.parametrize("sizes", [48, [24, 24]])
def test_a_design_narrows_the_band_over_a_box_and_at_points(sizes):
    plain = band(num=4)
    X = torch.cat([ARMS, uniform(50, 1, 4)])
    for domain in ({"bounds": BOX}, {"candidates": X}):
        cut = plain.band.with_fixed_design(sizes, **domain)
        inner = plain.band.at(delta=0.025)
        lower, upper = cut.bounds(X)
        sides = inner.bounds(X)
        assert bool((lower >= sides[0] - ORDER).all() & (upper <= sides[1] + ORDER).all())
        limit = 0.95 if sizes == 48 else 1.01
        assert width(cut, X) < limit * width(plain, X)
        assert "without looking" in cut.assumptions["design"].statement
    cut, outside = (
        plain.band.with_fixed_design(48, bounds=BOX),
        torch.tensor([[1.5]]).double(),
    )
    close(cut.bounds(outside), inner.bounds(outside))
    pair = [BandUCB(each)(ARMS.unsqueeze(1)) for each in (cut, inner)]
    close(*pair)  # a box has no steps


def test_later_runs_do_not_change_a_design():
    X = torch.cat([ARMS.repeat(2, 1), torch.full((9, 1), 0.4).double()])
    Y = FUNCTION(X) + NOISE * normal(len(X), 2)
    known = []
    for last in (24, 33):
        state = KernelRegression(X[:last], Y[:last], frozen_kernel("matern52"), NOISE)
        acqf = MartingaleMixtureUCB(state, norm_bound=NORM)
        cut = acqf.band.with_fixed_design(24, candidates=ARMS)
        known.append(cut.confidence_set.rule.known.limits(ARMS))
    close(*known)


@pytest.mark.parametrize("of_design", [False, True])
def test_larger_norms_and_noises_rest_on_one_event(of_design):
    r"""Sets of larger factors hold those of smaller ones, from the same weights."""

    def cut(plain):
        if of_design:
            return plain.band.with_fixed_design(48, bounds=BOX)
        return plain.band.with_replicates(20)

    whole, before, last = cut(band()), None, (1.0, 1.0)
    for factors in [(1.0, 1.0), (1.0, 1.5), (2.0, 1.5), (2.0, 3.0)]:
        known = whole.relaxed(*factors).confidence_set.rule.known.limits(ARMS)
        if before is not None:
            assert bool((known.lower <= before.lower + ORDER).all())
            assert bool((known.upper >= before.upper - ORDER).all())
            wider = (known.upper - known.lower) - (before.upper - before.lower)
            larger = factors[1] > last[1] or (of_design and factors[0] > last[0])
            assert bool((wider > 1e-3).all()) == larger
        before, last = known, factors
    # One law of guesses: the interval at the larger scale is no interval made for it.
    if not of_design:
        V = float64(4 / (3 * NOISE) ** 2)
        level = math.log(20 / 0.025)
        half = half_width(V, 8.0 * NOISE**2, level)
        assert float(before.upper[0] - before.lower[0]) == pytest.approx(2 * float(half))


@pytest.mark.parametrize("norm", [1.5 * NORM, 0.1 * NORM, None, "cautious"])
def test_the_weights_of_a_design_do_not_know_its_outcomes(norm):
    r"""Also where the norm bound was estimated, or raised as the data contradict it."""
    X, found = ARMS.repeat(4, 1), []
    for seed in range(2):
        state = KernelRegression(X, FUNCTION(X) + NOISE * normal(48, seed), KERNEL, NOISE)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
            cut = MartingaleMixtureUCB(state, norm_bound=norm)
            cut = cut.band.with_fixed_design(48, candidates=ARMS).relaxed(2.0)
        design = cut.confidence_set.rule.known
        found.append(design._estimate(design.batches[0], ARMS).weights)
    close(*found)


def test_sources_share_delta_and_can_be_asked_again():
    both = band().band.within(-9.0, 9.0).with_replicates(20, share=0.2)
    both = both.with_fixed_design(48, candidates=ARMS, share=0.5)
    assert both.delta == pytest.approx(0.05)
    assert both.outcome_range == (-9.0, 9.0)
    names = [item.name for item in both.assumptions.items]
    assert {"replicates", "design", "range"} <= {*names}
    own = both.confidence_set
    while hasattr(own, "rule"):
        own = own.parts[0]
    assert own.assumptions.delta == pytest.approx(0.05 * 0.5 * 0.8)
    again = both.at(delta=0.01).at(delta=0.05)
    close(again.bounds(ARMS), both.bounds(ARMS))
    assert both.at(delta=0.01).delta == pytest.approx(0.01)


def test_bad_questions_are_refused():
    plain = band()
    state = KernelRegression(ARMS, ARMS[:, 0], LinearKernel(), 0.1)
    linear = MartingaleMixtureUCB(state, norm_bound=9.0)
    near, unknown = band(norm_bound=NearNormBall(NORM, 0.1)), band(noise_std=UnknownNoise())
    for use, error, words in (
        (lambda: plain.band.with_replicates(5), ValueError, "num_inputs is 5"),
        (lambda: plain.band.with_replicates(share=1.0), ValueError, "share"),
        (lambda: plain.band.with_fixed_design(10), ValueError, "candidates or bounds"),
        (lambda: plain.band.with_fixed_design(49, bounds=BOX), ValueError, "49 runs"),
        (lambda: near.band.with_fixed_design(4, bounds=BOX), UnsupportedError, "one norm"),
        (unknown.band.with_replicates, UnsupportedError, "noise scale"),
        (lambda: linear.band.with_fixed_design(4, bounds=BOX), UnsupportedError, "as cand"),
    ):
        with pytest.raises(error, match=words):
            use()


def test_other_bounds_take_replicates_as_well():
    state = band().band.data
    acqf = AbbasiYadkoriUCB(state, norm_bound=300.0).band.with_replicates(12)
    assert width(acqf) < width(AbbasiYadkoriUCB(state, norm_bound=300.0))


def replicated(num=4, noise=NOISE, **options):
    X = ARMS.repeat(num, 1)
    return X, FUNCTION(X) + noise * normal(len(X), 0)


def test_the_noise_of_replicates_is_a_chi_square_limit():
    X, Y = replicated()
    noise = ReplicateNoise(X, Y, between=(0.1, 5.0), share=0.2)
    Z = Y.reshape(4, 12)
    squares = float((Z - Z.mean(0)).square().sum())
    ((lower, upper),) = noise.limits(0.01).values()
    assert upper == pytest.approx(math.sqrt(squares / chi2.ppf(0.01, 36)))
    assert lower == pytest.approx(math.sqrt(squares / chi2.ppf(0.99, 36)))
    acqf = MartingaleMixtureUCB(band().band.data, norm_bound=NORM, noise_std=noise)
    assert acqf.assumptions.certified
    assert acqf.band.delta == pytest.approx(0.05)
    assert "with probability 0.95" in acqf.assumptions.guarantee
    assert f"at most {at_most(upper)}" in acqf.assumptions["noise"].statement
    assert float(acqf.band.data.noise_scales[0]) == pytest.approx(upper)
    # The fit is fixed for the middle of what was expected, at what is left of delta.
    fit = MixtureFit(True, noise_factor=upper / math.sqrt(0.5))
    options = {"norm_bound": NORM, "noise_std": upper, "fit": fit, "delta": 0.04}
    close(acqf.bounds(ARMS), MartingaleMixtureUCB(acqf.model, **options).bounds(ARMS))
    again = acqf.band.at(delta=0.01)
    assert float(again.data.noise_scales[0]) > upper
    close(again.at(delta=0.05).bounds(ARMS), acqf.bounds(ARMS))


def test_groups_share_delta_over_levels_of_their_scales():
    X, Y = replicated()
    right = X[:, 0] > 0.5
    Y = torch.where(right, FUNCTION(X) + 4.0 * (Y - FUNCTION(X)), Y)
    groups = {"groups": lambda each: (each[:, 0] > 0.5).double()}
    noise = ReplicateNoise(X, Y, between=(0.1, 10.0), **groups)
    assert noise.num_levels == 50**2
    acqf = MartingaleMixtureUCB(band().band.data, norm_bound=NORM, noise_std=noise)
    scales, limits = acqf.band.data.noise_scales, noise.limits(0.1 * 0.05)
    for label, (_, upper) in limits.items():
        own = scales[right == bool(label)]
        assert bool((own >= upper).all())
        assert bool((own <= 1.1 * upper).all())
        level = math.log(float(own[0]) / 0.1) / math.log(1.1)
        assert level == pytest.approx(round(level))
    options = {"norm_bound": NORM, "noise_std": scales, "delta": 0.045 / 50**2}
    close(acqf.bounds(ARMS), MartingaleMixtureUCB(acqf.model, **options).bounds(ARMS))
    Z = FUNCTION(X) + torch.where(right, 4.0, 1.0) * NOISE * normal(len(X), 1)
    pilot = ReplicateNoise(X, Z, **groups)
    assert pilot.num_levels == 1
    known = MartingaleMixtureUCB(acqf.model, norm_bound=NORM, noise_std=pilot)
    assert "no outcomes of the band" in known.assumptions["noise"].statement
    assert width(known) < width(acqf)
    with pytest.raises(ValueError, match="between ends at"):
        ReplicateNoise(X, Y, between=(0.1, 0.2), **groups).scales(X, 0.05)
    with pytest.raises(InputDataError, match="no repeated input"):
        ReplicateNoise(ARMS, FUNCTION(ARMS))


def test_without_a_scale_named_before_replicates_must_be_other_runs():
    r"""Else the fit, which is fixed for their limits, would know the band's outcomes."""
    X, Y = replicated()
    more, options = uniform(5, 1, 0), {"norm_bound": NORM}
    later = torch.cat([X, more]), torch.cat([Y, FUNCTION(more) + NOISE * normal(5, 2)])
    state = KernelRegression(*later, KERNEL, NOISE)
    for noise, named in [
        (ReplicateNoise(X, Y), ("noise",)),
        (ReplicateNoise(X, Y, between=(0.1, 5.0)), ()),
        (ReplicateNoise(X, FUNCTION(X) + NOISE * normal(48, 3)), ()),
    ]:
        acqf = MartingaleMixtureUCB(state, noise_std=noise, **options)
        assert acqf.assumptions.estimated == named
        ours = "give between" in acqf.assumptions["noise"].statement
        assert ours == bool(named)


def test_numbers_taken_out_of_replicates_are_estimates():
    r"""A band that is given one knows of no delta that the limit takes."""
    noise = ReplicateNoise(*replicated(), between=(0.1, 5.0))
    (lower, upper), scales = noise.limits(0.01)[0.0], noise.scales(ARMS, 0.05)
    (group,) = noise.groups
    for number in (group.estimate, *group.limits(0.05), lower, upper, scales[0], 2 * upper):
        acqf = MartingaleMixtureUCB(band().band.data, norm_bound=NORM, noise_std=number)
        assert acqf.assumptions.estimated == ("noise",)


def test_replicates_of_a_noise_that_was_not_known():
    X, Y = replicated()
    noise = ReplicateNoise(X, Y, between=(0.1, 5.0))
    acqf = MartingaleMixtureUCB(band().band.data, norm_bound=NORM, noise_std=noise)
    cut = acqf.band.with_replicates(12).with_fixed_design(48, candidates=ARMS)
    inner, upper = acqf.band.at(delta=0.0125), noise.limits(0.1 * 0.0125)[0.0][1]
    assert float(inner.data.noise_scales[0]) == pytest.approx(upper)
    V = float64(4 / upper**2)
    half = half_width(V, 8.0 * 0.5, math.log(12 / 0.0125))
    own = cut.confidence_set.parts[0].rule.known.known
    close(own.upper - own.lower, (2.0 * half).expand(12))


def test_a_noise_scale_may_be_a_function_of_the_input():
    def scale(X):
        return 0.3 + X[:, 0]

    model = frozen_model(
        2.0 * ARMS, FUNCTION(ARMS), KERNEL, 0.5, input_transform=Normalize(1)
    )
    known = MartingaleMixtureUCB(model, norm_bound=9.0, noise_std=scale)
    numbers = MartingaleMixtureUCB(model, norm_bound=9.0, noise_std=scale(2.0 * ARMS))
    close(known.bounds(ARMS), numbers.bounds(ARMS))
    assert known.assumptions.certified == numbers.assumptions.certified
    close(
        known.band.at(norm_bound=10.0).bounds(ARMS),
        numbers.band.at(norm_bound=10.0).bounds(ARMS),
    )


def two_noises(seed=0):
    r"""Repeated runs whose noise grows with the outcome."""
    X = uniform(60, 1, seed).repeat(4, 1)
    Y = 10.0 * X[:, 0] + (0.2 + 2.0 * X[:, 0]) * normal(240, seed + 1)
    return X, Y


def test_the_check_tells_noise_that_differs_from_too_little_noise_and_norm():
    X, Y = two_noises()
    kernel = frozen_kernel("rbf", 0.5, 25.0)

    def cause(Y, noise, norm):
        state = KernelRegression(X, Y, kernel, noise)
        return check_consistency(state, norm)

    differs = cause(Y, 0.5, 20.0)
    assert differs.cause == "noise by region"
    scales = [region.estimate for region in differs.regions]
    assert scales == sorted(scales)
    assert scales[2] > 2.0 * scales[0]
    assert "differs by region" in differs.remedy
    even = 10.0 * X[:, 0] + normal(240, 9)
    assert cause(even, 0.3, 20.0).cause == "noise"
    assert cause(even, 1.0, 0.5).cause == "norm"
    enough = cause(even, 1.0, 20.0)
    assert enough.consistent
    assert "differs" not in enough.remedy
    assert "differs" in cause(Y, 3.0, 20.0).remedy
    assert cause(Y, 0.2 + 2.0 * X[:, 0], 20.0).consistent


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
    X = uniform(24, 1, 2)
    state = KernelRegression(X, normal(24, 3), KERNEL, NOISE)
    known = FixedDesign([state], 1e-3, 0.05, BOX, is_box=True)
    known.net = Net(state.prior, BOX, 10.0)
    assert known.net.log_size == 0.0
    points = torch.tensor([[0.05], [0.9]]).double()
    far = known._estimate(state, torch.cat([points, BOX.mean(0, keepdim=True)]))
    units = far.weights / far.weights.norm(dim=-1, keepdim=True)
    length = math.sqrt(noise_energy_bound(24, 0.1 * 0.05))
    for i in range(2):
        across = units[i] - (units[i] @ units[2]) * units[2]
        state.targets = length * across / across.norm()
        lower, upper = known.limits(points[i : i + 1])
        shown = known._estimate(state, points[i : i + 1])
        error = float(shown.weights @ state.targets)
        assert error > known.factor * float(shown.weights.norm())
        noise = float((shown.weights.norm() * shown.deviation).squeeze())
        assert error <= noise
        assert float(lower) <= ORDER
        assert float(upper) >= -ORDER


def test_a_design_is_in_outcome_units_where_the_model_is_standardised():
    X = ARMS.repeat(3, 1)
    Y = 5.0 + 3.0 * FUNCTION(X) + NOISE * normal(len(X), 4)
    model = frozen_model(X, Y, KERNEL, 0.2, outcome_transform=Standardize(1))
    acqf = MartingaleMixtureUCB(model, norm_bound=15.0, noise_std=NOISE)
    state = acqf.band.data
    assert state.outcome_scale > 1.5
    kernel = frozen_kernel("matern52", outputscale=float(state.outcome_scale) ** 2)
    offset = float(state.prior.mean(ARMS)[0])
    plain = KernelRegression(X, Y - offset, kernel, NOISE)
    other = MartingaleMixtureUCB(plain, norm_bound=15.0 / float(state.outcome_scale))
    for domain in ({"candidates": ARMS}, {"bounds": BOX}):
        lower, upper = acqf.band.with_fixed_design(36, **domain).bounds(ARMS)
        sides = other.band.with_fixed_design(36, **domain).bounds(ARMS)
        close((lower - offset, upper - offset), sides)


@pytest.mark.filterwarnings("ignore::kernelucb.exceptions.InconsistentConfidenceSetWarning")
def test_limits_of_other_replicates_lift_no_contradiction():
    r"""A pilot of little noise, and runs that scatter a hundred times as much."""
    quiet = ReplicateNoise(
        ARMS.repeat(4, 1), FUNCTION(ARMS).repeat(4) + 0.005 * normal(48, 1)
    )
    assert band(noise=0.005).assumptions.summary == "no guarantee: noise violated"
    acqf = band(noise_std=quiet)
    assert acqf.assumptions.summary == "no guarantee: noise violated"
    assert acqf.band.relaxed().assumptions.violated
    report = optimum_report(acqf, ARMS)
    assert not report.certified
    assert report.claims[0].kind == "best run"


def test_replicates_before_a_transform_are_refused():
    X, Y = ARMS.repeat(4, 1), FUNCTION(ARMS).repeat(4) + 0.05 * normal(48, 2)
    model = frozen_model(X, Y.exp(), KERNEL, 0.05, outcome_transform=Log())
    noise = {"between": (0.01, 0.2)}
    MartingaleMixtureUCB(model, norm_bound=9.0, noise_std=ReplicateNoise(X, Y, **noise))
    with pytest.raises(ValueError, match="transform them too"):
        MartingaleMixtureUCB(model, norm_bound=9.0, noise_std=ReplicateNoise(X, Y.exp()))
