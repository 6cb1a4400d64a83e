r"""Families of kernels: which they hold, what lies between them, and the bound over one.

``tests/contract`` runs the laws of every band over a union and a family of counts.
"""

import copy
import itertools
import math
import warnings

import numpy as np
import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from gpytorch.kernels import MaternKernel, RBFKernel, RQKernel, ScaleKernel
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import (
    CertifiedGapStopping,
    KernelFamilyUCB,
    KernelRegression,
    LikelihoodRegression,
    LikelihoodUCB,
    MartingaleMixtureUCB,
    lengthscale_family,
    regret_certificate,
)
from kernelucb.confidence.family import explores_for_all
from kernelucb.data.kernel_family import cover_of_all, fixed_mean
from kernelucb.data.prior import Prior
from kernelucb.exceptions import InconsistentConfidenceSetWarning, UncertifiedError
from problems import (
    RKHSFunction,
    constant_mean,
    family_ucb,
    frozen_kernel,
    generator,
    make_problem,
    uniform,
)
from tolerances import LEAST_NORM, ORDER, REARRANGED

BASES = {
    "rbf": RBFKernel,
    "matern12": lambda: MaternKernel(0.5),
    "matern52": lambda: MaternKernel(2.5),
    "rq": RQKernel,
}


def gram(kernel, points):
    return kernel(points).to_dense()


def assert_covered(kernel, factor, cover, points, scale):
    r"""``factor^2 cover - kernel`` is a kernel (Aronszajn): the ball holds the other."""
    difference = factor**2 * gram(cover, points) - gram(kernel, points)
    assert float(torch.linalg.eigvalsh(difference)[0]) >= -REARRANGED * scale


@given(
    ends=st.tuples(st.floats(0.01, 1.0), st.floats(1.0, 100.0)),
    ratio=st.floats(1.2, 5.0),
)
def test_the_ratio_is_never_exceeded_and_the_ends_are_met(ends, ratio):
    family = lengthscale_family(RBFKernel(), *ends, ratio=ratio)
    values = [float(kernel.lengthscale) for kernel in family]
    assert (values[-1], values[0]) == pytest.approx(ends)
    for longer, shorter in itertools.pairwise(values):
        assert longer / shorter <= ratio * (1.0 + 1e-6)
    longest = family.covering(2)[0]  # covers itself and no other
    assert (longest.kernel, longest.norm_factor) == (family[0], 1.0)


@pytest.mark.representatives("rbf")
@pytest.mark.parametrize("base", BASES)
@given(
    seed=st.integers(0, 1000),
    d=st.integers(1, 6),
    step=st.floats(1.05, 6.0),
    place=st.floats(0.0, 1.0),
)
def test_what_lies_between_is_covered(base, seed, d, step, place):
    r"""Any length scale from a member's up to the next longer one."""
    family = lengthscale_family(BASES[base](), 0.3, 0.3 * step, ratio=step * 1.01)
    cover, between = family.covering(d)[-1], copy.deepcopy(family[-1])
    between.lengthscale = 0.3 * step**place
    points = 3.0 * uniform(12, d, seed)
    assert_covered(between, cover.norm_factor, cover.kernel, points, step**d)


@given(d=st.integers(1, 12), step=st.floats(1.01, 8.0))
def test_the_weight_is_enough_at_every_frequency(d, step):
    r"""The densities themselves, RBF: ``S_s + c S_l >= S`` for all length scales between.

    Shortest length scale 1, ``x`` half the squared frequency; over ``exp(-x)``. And at
    twelve tenths of the least that is enough the weight is not far from needed.
    """
    shorter, longer = (frozen_kernel("rbf", scale) for scale in (1.0, step))
    cover = cover_of_all(shorter, longer, step, d)
    if cover.norm_factor > 1.0:
        assert cover.norm_factor == pytest.approx(step ** (d / 2))
        return
    weight = gram(cover.kernel, uniform(1, 2, 0)).item() - 1.0
    assert weight <= step**d - 1.0
    lengths = torch.linspace(1.0, step, 301, dtype=torch.float64).unsqueeze(-1)
    x = torch.cat([torch.zeros(1), torch.logspace(-4, 2, 601)]).double()
    log_sum = torch.logaddexp(
        torch.zeros_like(x), math.log(weight * step**d) - (step**2 - 1.0) * x
    )
    density = d * lengths.log() - (lengths.square() - 1.0) * x
    assert 0.0 <= float((log_sum - density).min()) <= math.log1p(2e-3)


@given(seed=st.integers(0, 1000))
def test_each_coordinate_has_its_own(seed):
    r"""Each cell of length scales has its kernel at the shortest corner; it covers all."""
    family = lengthscale_family(
        RBFKernel(ard_num_dims=2), [0.1, 0.2], [0.4, 0.4], each_coordinate=True
    )
    corners = [kernel.lengthscale.reshape(-1).tolist() for kernel in family]
    assert corners == [pytest.approx(pair) for pair in ((0.4, 0.4), (0.2, 0.2), (0.1, 0.2))]
    covers, points = family.covering(2), uniform(12, 2, seed)
    assert [cover.norm_factor for cover in covers] == pytest.approx([1.0, 2.0, 2.0])
    for longer, cover in zip(family, covers[1:], strict=False):
        assert_covered(longer, cover.norm_factor, cover.kernel, points, 4.0)


def test_a_kernel_keeps_its_other_numbers_and_its_columns():
    scaled = ScaleKernel(RBFKernel(active_dims=[0, 2]))
    scaled.outputscale = 3.0
    family = lengthscale_family(scaled, 0.1, 0.2)
    assert not any(p.requires_grad for kernel in family for p in kernel.parameters())
    cover = family.covering(5)[1].kernel
    assert gram(cover, uniform(1, 5, 0)).item() == pytest.approx(3.0 * 1.75, rel=1e-3)


@given(seed=st.integers(0, 100), product=st.booleans())
def test_no_function_of_a_sum_changes_more_than_its_metric(seed, product):
    r"""Branch and bound takes sums and products of kernels that fall with the distance."""
    kernel = lengthscale_family(RBFKernel(), 0.2, 0.4).covering(2)[1].kernel
    if product:
        kernel = (kernel * frozen_kernel("matern52", 0.5)).requires_grad_(False)
    function = RKHSFunction.random(kernel, 3.0, d=2, seed=seed)
    state = KernelRegression(uniform(3, 2, seed), torch.zeros(3).double(), kernel, 0.1)
    centre, half = uniform(1, 2, seed), 0.3 * uniform(1, 2, seed + 1)
    inside = centre + half * (2.0 * uniform(50, 2, seed + 2) - 1.0)
    largest = (function(inside) - function(centre)).abs().max()
    assert float(largest) <= float(state.prior.change_in_cells(3.0, centre, half)) + ORDER


PROBLEM = make_problem(n=25, d=2, norm=3.0, seed=5)
KERNELS = [frozen_kernel("rbf", scale) for scale in (0.6, 0.3, 0.15)]
X = torch.cat([uniform(40, 2, 7), PROBLEM.X[:3]])
GIVEN = {"norm_bound": 6.0, "noise_std": 0.1}
RANGE = lengthscale_family(RBFKernel(), 0.15, 0.6)


def family(kernels=KERNELS, problem=PROBLEM, **options):
    return family_ucb(problem.state, kernels, **GIVEN | options)


def single(kernel, problem=PROBLEM, norm_bound=6.0):
    r"""The bound for one kernel, its scale tied to the norm bound as a family's is."""
    state = KernelRegression(problem.X, problem.Y, kernel, 0.1)
    scale = (norm_bound / 10.0) ** 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        return MartingaleMixtureUCB(state, norm_bound=norm_bound, covariance_scale=scale)


def near(found, expected, tolerance=ORDER):
    r"""The search of one point does not depend on the others, so up to its tolerance."""
    assert_close(found, expected, rtol=0.0, atol=tolerance)


def is_the_union(acqf, members, points):
    r"""The definition: the largest and smallest of the bounds of consistent members."""
    left = [each for each in members if not each.assumptions.violated]
    assert acqf.consistent == tuple(each in left for each in members)
    sides = torch.stack([torch.stack(each.bounds(points)) for each in left])
    near(acqf.bounds(points), (sides[:, 0].amin(0), sides[:, 1].amax(0)))


# Four bands for each example: half a second.
@given(seed=st.integers(0, 500), d=st.integers(1, 3), n=st.integers(1, 30))
def test_the_union_of_the_consistent_members(seed, d, n):
    problem, points = make_problem(n=n, d=d, norm=3.0, seed=seed), uniform(30, d, seed + 9)
    members = [single(kernel, problem) for kernel in KERNELS]
    is_the_union(family(problem=problem), members, points)


def test_a_length_scale_between_two_kernels_is_covered():
    r"""By the sum of both, whose ball holds that of every kernel between."""
    acqf = family(RANGE)
    is_the_union(acqf, [single(cover.kernel) for cover in RANGE.covering(2)], X)
    assert "RBF with length scales from 0.15 to 0.6" in acqf.assumptions["kernel"].statement
    near(family(list(RANGE)).bounds(X), family(KERNELS).bounds(X), REARRANGED)


SMOOTH, SHARP = (
    lengthscale_family(frozen_kernel(name), 0.2, 0.8) for name in ("rbf", "matern12")
)
FAMILIES = {
    "sum": SMOOTH + SHARP,
    "rising": SMOOTH[::-1],
    "slices": SHARP[1:] + SMOOTH[::2] + SHARP[:1],
    "two kinds": lengthscale_family([RBFKernel(), MaternKernel(0.5)], 0.2, 0.8),
    "ratios": lengthscale_family(RBFKernel(), 0.2, 0.7, ratio=1.5) + SHARP,
}


@pytest.mark.covering
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("shortest", [0.1, 0.2, 0.3, 0.8])
def test_from_a_length_scale_upwards_all_stay_covered_whatever_their_order(name, shortest):
    whole = FAMILIES[name]
    norms = [20.0 + number for number in range(len(whole))]
    part = family(whole, norm_bound=norms).band.relaxed(lengthscale=shortest)

    def covered(kernels):
        grid = np.linspace(shortest, 1.0, 100)[1:]
        found = set()
        for kernel, each in zip(kernels, kernels.members, strict=True):
            least, most = kernel.lengthscale.item(), kernel.lengthscale.item() * each.step
            found |= {(type(kernel), x) for x in grid if least <= x <= most}
        return found

    kept = part.rebuild.keywords["kernels"]
    assert covered(kept) == covered(whole)
    if shortest != 0.3 and name not in ("slices", "ratios"):  # one grid, of which it is
        assert min(part.lengthscales) > 0.999 * shortest
    rest = [norms[index] for index in whole.reaching(shortest)]
    assert part.norm_bounds == pytest.approx(tuple(rest))
    assert len(part.consistent) == len(part.least_norms) == len(kept)


def test_kernels_that_differ_in_more_than_their_length_scale_are_of_several_kinds():
    r"""Two output scales: that of 0.2 in one does not cover that of the other."""
    large, small = (frozen_kernel("rbf", 0.3, scale) for scale in (9.0, 1.5))
    both = lengthscale_family(large, 0.1, 0.4)[2:] + lengthscale_family(small, 0.1, 0.2)
    kept = [both[index] for index in both.reaching(0.2)]
    assert {float(kernel.outputscale) for kernel in kept} == {9.0, 1.5}


def test_a_norm_bound_is_that_of_each_length_scale_where_kernels_cover_by_a_larger_one():
    each = lengthscale_family(RBFKernel(), [0.3] * 2, [0.6] * 2, each_coordinate=True)
    acqf, (_, cover) = family(each), each.covering(2)
    assert cover.norm_factor == pytest.approx(2.0)
    assert acqf.band.norm_bounds == pytest.approx((6.0, 6.0))
    alone = float(single(each[1], norm_bound=12.0).band.least_norms[0])
    assert float(acqf.band.least_norms[1]) == pytest.approx(0.5 * alone, rel=LEAST_NORM)


def test_a_family_of_norm_bounds():
    r"""Balls of one kernel are nested: the largest is the band, the smallest the search."""
    acqf = family(KERNELS[1:2] * 3, norm_bound=[0.1, 4.0, 8.0], select="simplest")
    assert acqf.consistent == (False, True, True)
    assert_close(acqf.bounds(X), single(KERNELS[1], norm_bound=8.0).bounds(X))
    near(acqf(X.unsqueeze(1)), single(KERNELS[1], norm_bound=4.0).bounds(X)[1])


class TestWhatIsTakenFromTheModel:
    def test_neither_its_kernel_nor_its_mean(self):
        r"""A model that was fitted, and standardises, gives the same certified band.

        A search on it may stop, which one by its kernel may not.
        """
        Y = 7.0 + 100.0 * PROBLEM.Y.unsqueeze(-1)
        options = {"norm_bound": 600.0, "noise_std": 10.0}
        fitted = SingleTaskGP(PROBLEM.X, Y, outcome_transform=Standardize(1))
        acqf = family_ucb(fitted, KERNELS, **options, mean=constant_mean(7.0))
        assert acqf.assumptions.certified
        expected = tuple(7.0 + 100.0 * side for side in family().bounds(X))
        assert_close(acqf.bounds(X), expected, rtol=REARRANGED, atol=REARRANGED)
        assert CertifiedGapStopping(1e4, X)(acqf).stop
        with pytest.raises(UncertifiedError):
            CertifiedGapStopping(1e4, X)(MartingaleMixtureUCB(fitted, **options))

    def test_its_inputs_where_their_scaling_was_given(self):
        box = torch.tensor([[0.0, 0.0], [2.0, 2.0]], dtype=torch.float64)
        Y = PROBLEM.Y.unsqueeze(-1)
        scaled = SingleTaskGP(2.0 * PROBLEM.X, Y, input_transform=Normalize(2, bounds=box))
        acqf = KernelFamilyUCB(scaled, KERNELS, **GIVEN)
        assert acqf.assumptions.certified
        near(acqf.bounds(2.0 * X), family().bounds(X), REARRANGED)
        learned = SingleTaskGP(2.0 * PROBLEM.X, Y, input_transform=Normalize(2))
        for model in (learned, KernelRegression.of(learned)):
            acqf = KernelFamilyUCB(model, KERNELS, **GIVEN)
            assert acqf.assumptions.estimated == ("kernel",)

    def test_its_noise_unless_that_is_given(self):
        data = PROBLEM.X, PROBLEM.Y.unsqueeze(-1)
        learned = KernelFamilyUCB(SingleTaskGP(*data), KERNELS, norm_bound=6.0)
        assert learned.assumptions.estimated == ("noise",)
        model = SingleTaskGP(*data, torch.full_like(data[1], 0.01))
        acqf = KernelFamilyUCB(model, KERNELS, norm_bound=6.0)
        assert acqf.assumptions.certified
        assert_close(acqf.bounds(X), family().bounds(X), rtol=1e-6, atol=1e-6)


class TestSearch:
    r"""By default one of eight rounds explores for all kernels."""

    POINTS = uniform(6, 2, 3).unsqueeze(1)
    ROUNDS = tuple(n for n in range(40_000) if explores_for_all(n, 8))

    def test_simplest_is_the_first_consistent_kernel_and_widest_the_band(self):
        kernels = [frozen_kernel("rbf", 3.0), *KERNELS]
        acqf = family(kernels, select="simplest")
        assert acqf.consistent == (False, True, True, True)
        near(acqf(self.POINTS), single(KERNELS[0])(self.POINTS))
        widest = family(kernels, select="widest")
        near(widest(self.POINTS), widest.bounds(self.POINTS.squeeze(1))[1])
        for other in (widest, family(kernels)):
            near(other.bounds(X), acqf.bounds(X), 0.0)

    def test_an_eighth_of_all_and_never_far_apart(self):
        gaps = {after - before for before, after in itertools.pairwise(self.ROUNDS)}
        assert gaps == {5, 8, 13}
        assert len(self.ROUNDS) == pytest.approx(40_000 / 8, abs=5)
        assert all(explores_for_all(n, 1) > explores_for_all(n, None) for n in range(20))

    @pytest.mark.parametrize("step", range(2, 33))
    def test_batches_of_one_size_do_not_fall_between(self, step):
        r"""Whatever the remainder, few of the batches in a row explore for none but one."""
        for remainder in range(step):
            batches = [n // step for n in self.ROUNDS if n % step == remainder]
            assert max(b - a for a, b in itertools.pairwise([-1, *batches])) <= 90

    def test_pending_points_count(self):
        r"""Of a batch chosen one after the other some explore for all."""
        acqf, widest = family(norm_bound=8.0), family(norm_bound=8.0, select="widest")
        for count in range(14):
            pending = uniform(count, 2, 1) if count else None
            for each in (acqf, widest):
                each.set_X_pending(pending)
            same = torch.equal(acqf(self.POINTS), widest(self.POINTS))
            assert same == explores_for_all(len(PROBLEM.Y) + count, 8)


def test_a_certificate_on_points_by_the_definition():
    acqf, best = family(norm_bound=8.0), X[:1]
    certificate = regret_certificate(acqf, X, recommended=best)
    parts = acqf.band.confidence_set.parts
    gains = torch.stack([part.max_gain_over(X, best) for part in parts])
    assert certificate.gap == pytest.approx(float(gains.max()), abs=ORDER)
    assert certificate.certified


def test_names_and_numbers_are_the_family_that_they_describe():
    options = {"kernel": ["rbf", "matern32"], "ratio": 1.7, "each_coordinate": True}
    options |= {"shortest": [0.3, 0.4], "longest": torch.tensor([0.8, 0.4])}
    options |= {"outputscale": 2.5, "mean": 0.5, "delta": 0.1, **GIVEN}
    arguments = get_acqf_input_constructor(KernelFamilyUCB)(PROBLEM.model, **options)
    actual = KernelFamilyUCB(**arguments)
    bases = [frozen_kernel(name, outputscale=2.5) for name in ("rbf", "matern32")]
    ends = ([0.3, 0.4], [0.8, 0.4])
    kernels = lengthscale_family(bases, *ends, 1.7, each_coordinate=True)
    given = {"mean": constant_mean(0.5), "delta": 0.1, **GIVEN}
    expected = KernelFamilyUCB(PROBLEM.model, kernels, **given)
    assert_close(actual.bounds(X), expected.bounds(X))
    assert actual.report() == expected.report()


def poisson(n=9, kernel=KERNELS[1], seed=0, exposure=6.0):
    r"""Counts, at rates of a function of norm 3."""
    inputs = uniform(n, 2, seed)
    rates = exposure * RKHSFunction.random(kernel, 3.0, 2, seed)(inputs).exp()
    Y, options = torch.poisson(rates, generator(seed + 1)), {"exposure": exposure}
    return LikelihoodRegression(inputs, Y, RBFKernel(), likelihood="poisson", **options)


def under(counts, kernel, norm_bound=3.0):
    r"""The bound for one kernel."""
    prior = Prior(kernel, fixed_mean(0.0), outcome_map=counts.prior.outcome_map)
    parts = counts.train_inputs, counts.outcomes, counts.dimension, frozenset()
    state = LikelihoodRegression.from_parts(prior, *parts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        return LikelihoodUCB(state, norm_bound=norm_bound)


ROUGH = poisson(n=20, kernel=frozen_kernel("rbf", 0.1), seed=4, exposure=200.0)


class TestCounts:
    def test_the_union_is_that_of_the_bounds_for_the_covering_kernels(self):
        counts, covers = poisson(), RANGE.covering(2)
        acqf = family_ucb(counts, RANGE, norm_bound=3.0)
        members = [under(counts, cover.kernel) for cover in covers]
        is_the_union(acqf, members, X)
        least = [float(each.band.least_norms[0]) for each in members]
        found = [float(norm) for norm in acqf.band.least_norms]
        assert found == pytest.approx(least, rel=LEAST_NORM)

    def test_kernels_that_are_too_smooth_are_left_out(self):
        acqf = family_ucb(ROUGH, KERNELS, norm_bound=3.0)
        assert acqf.consistent == (False, False, True)
        near(acqf.bounds(X), under(ROUGH, KERNELS[2]).bounds(X))
        assert acqf.assumptions.certified
        assert "20 observations contradict 2" in acqf.report()

    # A set of counts for each kernel, all raised to their least norms: half a second.
    def test_all_kernels_contradicted(self):
        words = "the outcomes do not follow the likelihood"
        with pytest.warns(InconsistentConfidenceSetWarning, match=words) as caught:
            acqf = family_ucb(ROUGH, KERNELS, norm_bound=0.5)
        assert len(caught) == 1
        assert acqf.assumptions.violated
        least = acqf.band.least_norms
        nearest = KERNELS[least.index(min(least))]
        near(acqf.bounds(X), under(ROUGH, nearest, norm_bound=0.5).bounds(X))


def test_kernels_may_change_afterwards():
    kernel = frozen_kernel("rbf", 0.3)
    acqf = family([kernel])
    before = acqf.report(), acqf.bounds(X), acqf.band.relaxed(2.0).bounds(X)
    kernel.lengthscale = 2.0
    assert acqf.report() == before[0]
    after = acqf.bounds(X), acqf.band.relaxed(2.0).bounds(X)
    assert_close(after, before[1:], rtol=0.0, atol=0.0)
