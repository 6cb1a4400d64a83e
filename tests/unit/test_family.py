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
from botorch.exceptions import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from gpytorch.kernels import MaternKernel, PeriodicKernel, RBFKernel, RQKernel, ScaleKernel
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
from kernelucb.certificates.boxes import largest_change
from kernelucb.confidence.family import explores_for_all
from kernelucb.data.kernel_family import _log_weight, cover_of_all, fixed_mean
from kernelucb.data.prior import Prior
from kernelucb.exceptions import InconsistentConfidenceSetWarning, UncertifiedError
from problems import (
    RKHSFunction,
    constant_mean,
    family_ucb,
    frozen_kernel,
    generator,
    make_problem,
    remaining,
    uniform,
)
from tolerances import LEAST_NORM, ORDER, REARRANGED

POINTS = uniform(3, 2, 0)
BASES = {
    "rbf": RBFKernel,
    "matern12": lambda: MaternKernel(0.5),
    "matern52": lambda: MaternKernel(2.5),
    "rq": RQKernel,
}


def lengths(family):
    return [kernel.lengthscale.reshape(-1).tolist() for kernel in family]


def gram(kernel, POINTS):
    return kernel(POINTS).to_dense()


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
    values = [own for (own,) in lengths(family)]
    assert values[0] == pytest.approx(ends[1])
    assert values[-1] == pytest.approx(ends[0])
    for longer, shorter in itertools.pairwise(values):
        assert longer / shorter <= ratio * (1.0 + 1e-6)
    own = family.covering(2)[0]  # the longest covers itself and no other
    assert (own.kernel, own.norm_factor) == (family[0], 1.0)


def test_the_kernel_keeps_the_rest_and_is_not_changed():
    kernel = ScaleKernel(MaternKernel(1.5))
    kernel.outputscale = 3.0
    before = copy.deepcopy(kernel.state_dict())
    family = lengthscale_family(kernel, 0.1, 0.2)
    assert all(own.outputscale == pytest.approx(3.0) for own in family)
    assert not any(p.requires_grad for own in family for p in own.parameters())
    assert all(torch.equal(before[name], kernel.state_dict()[name]) for name in before)


@pytest.mark.parametrize("base", BASES)
@given(
    seed=st.integers(0, 1000),
    d=st.integers(1, 6),
    step=st.floats(1.05, 6.0),
    place=st.floats(0.0, 1.0),
)
def test_what_lies_between_is_covered(base, seed, d, step, place):
    r"""Any length scale from a member's own to the next longer one."""
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
    weight = gram(cover.kernel, POINTS[:1]).item() - 1.0
    assert weight <= step**d - 1.0
    lengths = torch.linspace(1.0, step, 301, dtype=torch.float64).unsqueeze(-1)
    x = torch.cat([torch.zeros(1), torch.logspace(-4, 2, 601)]).double()
    log_sum = torch.logaddexp(
        torch.zeros_like(x), math.log(weight * step**d) - (step**2 - 1.0) * x
    )
    own = d * lengths.log() - (lengths.square() - 1.0) * x
    assert float((log_sum - own).min()) >= 0.0
    assert float((log_sum - own).min()) <= math.log1p(2e-3)


@pytest.mark.parametrize("ratio", [1.2, 1.87, 2.0, 5.0, 10.0])
@pytest.mark.parametrize("d", [1, 6, 20, 1000])
def test_no_length_scale_falls_between_the_points_of_the_grid(ratio, d):
    r"""``1 + C h >= (1 + t p)^(d/2) h^t``, at the worst ``h`` of very many ``t``."""
    log_weight = _log_weight(ratio, d)
    t = np.concatenate([np.logspace(-15.0, -1.0, 400_001), np.linspace(0.1, 1.0, 10_001)])
    log_values = 0.5 * d * np.log1p(t[:-1] * (ratio**2 - 1.0))
    log_h = (log_values + np.log(t[:-1]) - log_weight) / (1.0 - t[:-1])
    log_h = np.minimum(log_h, 0.0)
    above = np.logaddexp(0.0, log_weight + log_h) - (log_values + t[:-1] * log_h)
    assert above.min() >= -1e-12 * np.abs(log_values).max()


@pytest.mark.parametrize(("ratio", "most"), [(2.0, 5), (math.sqrt(2.0), 15)])
def test_the_sum_has_less_than_twice_the_variance(ratio, most):
    r"""As far as the documentation says, ``2 - ratio^-d``; beyond that it grows."""
    family = lengthscale_family(RBFKernel(), 0.5 / ratio, 0.5, ratio=1.01 * ratio)
    for d in range(1, most + 1):
        cover = family.covering(d)[1]
        variance = gram(cover.kernel, uniform(1, d, 0)).item()
        assert variance < 2.0
        assert variance == pytest.approx(2.0 - ratio**-d, rel=1e-3)
    beyond = family.covering(2 * most)[1].kernel
    assert gram(beyond, uniform(1, 2 * most, 0)).item() > 2.5


@given(seed=st.integers(0, 1000))
def test_each_coordinate_has_its_own(seed):
    r"""Each cell of length scales has its kernel at the shortest corner; it covers all."""
    family = lengthscale_family(
        RBFKernel(ard_num_dims=2), [0.1, 0.2], [0.4, 0.4], each_coordinate=True
    )
    assert lengths(family) == [
        pytest.approx(pair) for pair in ((0.4, 0.4), (0.2, 0.2), (0.1, 0.2))
    ]
    covers = family.covering(2)
    assert [cover.norm_factor for cover in covers] == pytest.approx([1.0, 2.0, 2.0])
    assert "each coordinate" in family.covers
    points = uniform(12, 2, seed)
    for longer, cover in zip(family, covers[1:], strict=False):
        assert_covered(longer, cover.norm_factor, cover.kernel, points, 4.0)


def test_several_kinds_of_kernel_and_the_columns_that_count():
    family = lengthscale_family([RBFKernel(), MaternKernel(1.5)], 0.1, 0.2)
    kinds = [type(kernel) for kernel in family]
    assert kinds == [RBFKernel, MaternKernel] * 2
    assert family.covers == "RBF or Matern 3/2 with length scales from 0.1 to 0.2"
    family = lengthscale_family(RBFKernel(active_dims=[0, 2]), 0.1, 0.2)
    kernel = family.covering(5)[1].kernel
    assert gram(kernel, uniform(1, 5, 0)).item() == pytest.approx(1.75, rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"shortest": 2.0}, "above longest"),
        ({"ratio": 1.0}, "above 1"),
        ({"each_coordinate": True}, "each coordinate"),
        ({"kernel": RBFKernel(ard_num_dims=3), "shortest": [0.1, 0.1]}, "3 coordinates"),
        ({"ratio": 1.001}, "64 is the limit"),
        ({"shortest": [0.1] * 4, "each_coordinate": True}, "257 kernels"),
    ],
)
def test_what_is_wrong_is_said(arguments, words):
    valid = {"kernel": RBFKernel(), "shortest": 0.1, "longest": 1.0}
    with pytest.raises(ValueError, match=words):
        lengthscale_family(**valid | arguments)


def test_kernels_without_an_order_are_refused():
    for kernel in (PeriodicKernel(), RBFKernel(batch_shape=torch.Size([2]))):
        with pytest.raises(UnsupportedError, match="list of kernels yourself"):
            lengthscale_family(kernel, 0.1, 1.0)


@given(seed=st.integers(0, 100), product=st.booleans())
def test_no_function_of_a_sum_changes_more_than_its_metric(seed, product):
    r"""Branch and bound takes sums and products of kernels that fall with the distance."""
    kernel = lengthscale_family(RBFKernel(), 0.2, 0.4).covering(2)[1].kernel
    if product:
        kernel = (kernel * frozen_kernel("matern52", 0.5)).requires_grad_(False)
    function = RKHSFunction.random(kernel, 3.0, d=2, seed=seed)
    state = KernelRegression(uniform(3, 2, seed), torch.zeros(3).double(), kernel, 0.1)
    change = largest_change(state, 3.0)
    centre, half = uniform(1, 2, seed), 0.3 * uniform(1, 2, seed + 1)
    inside = centre + half * (2.0 * uniform(50, 2, seed + 2) - 1.0)
    largest = (function(inside) - function(centre)).abs().max()
    assert float(largest) <= float(change(centre, half)) + ORDER


PROBLEM = make_problem(n=25, d=2, norm=3.0, seed=5)
KERNELS = [frozen_kernel("rbf", scale) for scale in (0.6, 0.3, 0.15)]
X = torch.cat([uniform(40, 2, 7), PROBLEM.X[:3]])
GIVEN = {"norm_bound": 6.0, "noise_std": 0.1}
# Tied to the norm bound, as the family does.
SCALED = {"covariance_scale": 0.36}
RANGE = lengthscale_family(RBFKernel(), 0.15, 0.6)


def family(kernels=KERNELS, problem=PROBLEM, **options):
    return family_ucb(problem.state, kernels, **GIVEN | options)


def single(kernel, problem=PROBLEM, **options):
    state = KernelRegression(problem.X, problem.Y, kernel, 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        return MartingaleMixtureUCB(state, **GIVEN | SCALED | options)


def bands(acqfs, points=X):
    return torch.stack([torch.stack(acqf.bounds(points)) for acqf in acqfs])


def near(found, expected, tolerance=ORDER):
    r"""The search of one point does not depend on the others, so up to its tolerance."""
    assert_close(found, expected, rtol=0.0, atol=tolerance)


def is_the_union(acqf, own, points):
    r"""The definition: the largest and smallest of the bounds of consistent members."""
    assert acqf.consistent == tuple(not each.assumptions.violated for each in own)
    kept = bands([each for each in own if not each.assumptions.violated], points)
    near(acqf.bounds(points), (kept[:, 0].amin(0), kept[:, 1].amax(0)))


@given(seed=st.integers(0, 500), d=st.integers(1, 3), n=st.integers(1, 30))
def test_the_union_of_the_consistent_members(seed, d, n):
    problem, points = make_problem(n=n, d=d, norm=3.0, seed=seed), uniform(30, d, seed + 9)
    own = [single(kernel, problem) for kernel in KERNELS]
    is_the_union(family(problem=problem), own, points)


def test_a_length_scale_between_two_kernels_is_covered():
    r"""By the sum of both, whose ball holds that of every kernel between."""
    acqf = family(RANGE)
    assert acqf.band.norm_bounds == (6.0, 6.0, 6.0)
    is_the_union(acqf, [single(cover.kernel) for cover in RANGE.covering(2)], X)
    assert "RBF with length scales from 0.15 to 0.6" in acqf.assumptions["kernel"].statement
    plain = family(list(RANGE))
    near(plain.bounds(X), family(KERNELS).bounds(X), REARRANGED)
    assert "from 0.15" not in plain.assumptions["kernel"].statement


@pytest.mark.parametrize("whole", [KERNELS, lengthscale_family(RBFKernel(), 0.15, 9.6)])
def test_what_was_contradicted_is_left_out_for_good_by_the_caller(whole):
    r"""The same band, of fewer kernels; a slice keeps the length scales between them."""
    whole = [frozen_kernel("rbf", 3.0), *whole] if isinstance(whole, list) else whole
    acqf = family(whole)
    part = whole[acqf.consistent.index(True) :]
    if isinstance(whole, list):
        part = [k for k, c in zip(whole, acqf.consistent, strict=True) if c]
    assert 0 < len(part) == sum(acqf.consistent) < len(whole)
    again = family(part)
    assert all(map(torch.equal, again.bounds(X), acqf.bounds(X)))
    assert again.assumptions.certified
    for _ in range(3):
        part = remaining(part, [True] * len(part))
    assert family(part).assumptions == again.assumptions


SMOOTH, SHARP = (
    lengthscale_family(frozen_kernel(name), 0.2, 0.8) for name in ("rbf", "matern12")
)
FAMILIES = {
    "sum": SMOOTH + SHARP,
    "rising": SMOOTH[::-1],
    "repeated": SMOOTH + lengthscale_family(RBFKernel(), 0.2, 0.4),
    "slices": SHARP[1:] + SMOOTH[::2] + SHARP[:1],
    "two kinds": lengthscale_family([RBFKernel(), MaternKernel(0.5)], 0.2, 0.8),
    "ratios": lengthscale_family(RBFKernel(), 0.2, 0.7, ratio=1.5) + SHARP,
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("shortest", [0.1, 0.2, 0.3, 0.4, 0.8])
def test_from_a_length_scale_upwards_all_stay_covered_whatever_their_order(name, shortest):
    whole = FAMILIES[name]
    norms = [20.0 + number for number in range(len(whole))]
    part = family(whole, norm_bound=norms).band.relaxed(lengthscale=shortest)

    def covered(kernels):
        members = zip(kernels, kernels.members, strict=True)
        grid = np.linspace(shortest, 1.0, 100)[1:]
        ranges = [(type(k), float(k.lengthscale), float(each.step)) for k, each in members]
        return {(t, x) for t, own, step in ranges for x in grid if own <= x <= own * step}

    kept = part.rebuild.keywords["kernels"]
    assert covered(kept) == covered(whole)
    if shortest != 0.3 and name not in ("slices", "ratios"):  # one grid, of which it is
        assert min(part.lengthscales) > 0.999 * shortest
    rest = [norms[index] for index in whole.reaching(shortest)]
    assert part.norm_bounds == pytest.approx(tuple(rest))
    assert len(part.consistent) == len(part.least_norms) == len(kept)


def test_a_shortest_length_scale_needs_a_union_of_length_scales():
    for kernels in (KERNELS, lengthscale_family(RBFKernel(), [0.2] * 2, [0.4] * 2)):
        with pytest.raises(UnsupportedError, match="leave out lengthscale"):
            family(kernels).band.relaxed(lengthscale=0.3)
    with pytest.raises(ValueError, match=r"give at most 0\.6"):
        family(RANGE).band.relaxed(lengthscale=0.7)


def test_a_norm_bound_is_that_of_each_length_scale_where_kernels_cover_by_a_larger_one():
    each = lengthscale_family(RBFKernel(), [0.3] * 2, [0.6] * 2, each_coordinate=True)
    acqf, (_, cover) = family(each), each.covering(2)
    assert cover.norm_factor == pytest.approx(2.0)
    assert acqf.band.norm_bounds == pytest.approx((6.0, 6.0))
    alone = single(each[1], norm_bound=12.0, covariance_scale=1.44).band.least_norms[0]
    assert acqf.band.least_norms[1] == pytest.approx(0.5 * alone, rel=LEAST_NORM)


def test_a_family_of_norm_bounds():
    r"""Balls of one kernel are nested: the largest is the band, the smallest the search."""
    acqf = family(KERNELS[1:2] * 3, norm_bound=[0.1, 4.0, 8.0], select="simplest")
    assert acqf.consistent == (False, True, True)
    options = {"norm_bound": 8.0, "covariance_scale": 0.64}
    assert_close(acqf.bounds(X), single(KERNELS[1], **options).bounds(X))
    smaller = single(KERNELS[1], norm_bound=4.0, covariance_scale=0.16).bounds(X)[1]
    near(acqf(X.unsqueeze(1)), smaller)


class TestWhatIsTakenFromTheModel:
    def test_neither_its_kernel_nor_its_mean(self):
        r"""A model that was fitted, and standardises, gives the same certified band.

        A search on it may stop, which one by its own kernel may not.
        """
        Y = 7.0 + 100.0 * PROBLEM.Y.unsqueeze(-1)
        options = {"norm_bound": 600.0, "noise_std": 10.0}
        fitted = SingleTaskGP(PROBLEM.X, Y, outcome_transform=Standardize(1))
        fitted.covar_module.lengthscale = 0.05
        acqf = family_ucb(fitted, KERNELS, **options, mean=constant_mean(7.0))
        assert acqf.assumptions.certified
        own = tuple(7.0 + 100.0 * side for side in family().bounds(X))
        assert_close(acqf.bounds(X), own, rtol=REARRANGED, atol=REARRANGED)
        assert CertifiedGapStopping(1e4, X)(acqf).stop
        with pytest.raises(UncertifiedError):
            CertifiedGapStopping(1e4, X)(MartingaleMixtureUCB(fitted, **options))

    def test_its_inputs_where_their_scaling_was_given(self):
        box = torch.tensor([[0.0, 0.0], [2.0, 2.0]], dtype=torch.float64)
        Y = PROBLEM.Y.unsqueeze(-1)
        given = SingleTaskGP(2.0 * PROBLEM.X, Y, input_transform=Normalize(2, bounds=box))
        acqf = KernelFamilyUCB(given, KERNELS, **GIVEN)
        assert acqf.assumptions.certified
        near(acqf.bounds(2.0 * X), family().bounds(X), REARRANGED)
        learned = SingleTaskGP(2.0 * PROBLEM.X, Y, input_transform=Normalize(2))
        for model in (learned, KernelRegression.of(learned)):
            acqf = KernelFamilyUCB(model, KERNELS, **GIVEN)
            assert acqf.assumptions.estimated == ("kernel",)

    def test_its_noise_unless_that_is_given(self):
        model = SingleTaskGP(PROBLEM.X, PROBLEM.Y.unsqueeze(-1))
        acqf = KernelFamilyUCB(model, KERNELS, norm_bound=6.0)
        assert acqf.assumptions.estimated == ("noise",)
        scales = torch.full_like(PROBLEM.Y, 0.01).unsqueeze(-1)
        model = SingleTaskGP(PROBLEM.X, PROBLEM.Y.unsqueeze(-1), scales)
        acqf = KernelFamilyUCB(model, KERNELS, norm_bound=6.0)
        assert acqf.assumptions.certified
        assert_close(acqf.bounds(X), family().bounds(X), rtol=1e-6, atol=1e-6)


def explores(select, count):
    every = {"alternate": 8, "widest": 1, "simplest": None}.get(select, select)
    return explores_for_all(count, every)


class TestSearch:
    r"""``"alternate"``, the default, explores for all kernels in one of eight rounds."""

    POINTS = uniform(6, 2, 3).unsqueeze(1)
    ROUNDS = tuple(n for n in range(40_000) if explores("alternate", n))

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
        assert all(explores("widest", n) for n in range(20))
        assert not any(explores("simplest", n) for n in range(20))

    @pytest.mark.parametrize("step", range(2, 33))
    def test_batches_of_one_size_do_not_fall_between(self, step):
        r"""Whatever the remainder, few of the batches in a row explore for none but one."""
        for remainder in range(step):
            own = [n // step for n in self.ROUNDS if n % step == remainder]
            longest = max(b - a for a, b in itertools.pairwise([-1, *own]))
            assert longest <= 90

    def test_pending_points_count(self):
        r"""Of a batch chosen one after the other some explore for all."""
        acqf, kinds = family(norm_bound=8.0), []
        widest, n = family(norm_bound=8.0, select="widest"), len(PROBLEM.Y)
        for count in range(14):
            pending = uniform(count, 2, 1) if count else None
            for each in (acqf, widest):
                each.set_X_pending(pending)
            kinds.append(torch.equal(acqf(self.POINTS), widest(self.POINTS)))
        assert kinds == [explores("alternate", n + c) for c in range(14)]
        assert any(kinds)


class TestCertificates:
    def test_on_points_by_the_definition(self):
        acqf = family(norm_bound=8.0)
        best = X[:1]
        certificate = regret_certificate(acqf, X, recommended=best)
        parts = acqf.band.confidence_set.parts
        gains = torch.stack([part.max_gain_over(X, best) for part in parts])
        assert certificate.gap == pytest.approx(float(gains.max()), abs=ORDER)
        assert certificate.certified

    def test_on_boxes_it_is_above_every_point(self):
        problem = make_problem(n=15, d=1, norm=3.0, seed=5)
        kernels = [frozen_kernel("rbf", 0.3), frozen_kernel("matern52", 0.4)]
        acqf = family(kernels, problem, norm_bound=8.0)
        line = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
        certificate = regret_certificate(acqf, bounds=line)
        assert certificate.certified
        points = torch.linspace(0, 1, 4001, dtype=torch.float64).unsqueeze(-1)
        best = certificate.recommended.unsqueeze(0)
        largest = float(acqf.band.confidence_set.max_gain_over(points, best).max())
        assert largest <= certificate.gap + ORDER
        assert certificate.gap - certificate.resolution <= largest + 1e-3


def construct(**options):
    build = get_acqf_input_constructor(KernelFamilyUCB)
    return KernelFamilyUCB(**build(model=PROBLEM.model, **options))


class TestNamesAndNumbers:
    @pytest.mark.parametrize("by_botorch", [True, False])
    def test_is_the_family_that_is_described(self, by_botorch):
        options = {"kernel": ["rbf", "matern32"], "ratio": 1.7, "each_coordinate": True}
        options |= {"shortest": [0.3, 0.4], "longest": torch.tensor([0.8, 0.4])}
        options |= {"outputscale": 2.5, "mean": 0.5, "delta": 0.1, **GIVEN}
        actual = construct(**options)
        if not by_botorch:
            actual = KernelFamilyUCB.from_model(PROBLEM.model, **options)
        bases = [ScaleKernel(base).double() for base in (RBFKernel(), MaternKernel(1.5))]
        for base in bases:
            base.outputscale = torch.tensor(2.5, dtype=torch.float64)
            base.requires_grad_(False)
        ends = ([0.3, 0.4], [0.8, 0.4])
        kernels = lengthscale_family(bases, *ends, 1.7, each_coordinate=True)
        given = {"mean": constant_mean(0.5), "delta": 0.1, **GIVEN}
        expected = KernelFamilyUCB(PROBLEM.model, kernels, **given)
        assert_close(actual.bounds(X), expected.bounds(X))
        assert actual.band.norm_bounds == pytest.approx(expected.band.norm_bounds)
        assert actual.report() == expected.report()
        assert actual.assumptions.certified

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"shortest": 0.1}, "needs the option `kernels`, or `shortest` and `longest`"),
            ({"kernels": RANGE, "shortest": 0.1}, "Both kernels and shortest are given"),
            ({"longest": 0.8, "kernel": "cubic"}, "kernel must be one of rbf, matern12"),
            ({"longest": 0.8, "kernel": []}, "kernel is empty"),
        ],
    )
    def test_what_does_not_fit_together(self, options, message):
        options = {"shortest": 0.2} | options if "longest" in options else options
        with pytest.raises(ValueError, match=message):
            construct(**options, **GIVEN)


KINDS = ("bernoulli", "binomial", "poisson")
NORM = 3.0
PLACES = uniform(20, 2, 7)


def outcomes(kind="binomial", n=9, seed=0, kernel=KERNELS[1], amount=6.0):
    r"""Successes or counts of a function of this norm, and how much was tried."""
    inputs, random = uniform(n, 2, seed), generator(seed + 1)
    latent = RKHSFunction.random(kernel, NORM, 2, seed)(inputs)
    options = {"likelihood": kind}
    if kind == "poisson":
        Y = torch.poisson(amount * latent.exp(), random)
        return LikelihoodRegression(inputs, Y, RBFKernel(), exposure=amount, **options)
    draws = torch.rand(n, int(amount), dtype=torch.float64, generator=random)
    successes = (draws < torch.sigmoid(latent).unsqueeze(-1)).double()
    if kind == "bernoulli":
        return LikelihoodRegression(inputs, successes[:, 0], RBFKernel(), **options)
    options["num_trials"] = amount
    return LikelihoodRegression(inputs, successes.sum(-1), RBFKernel(), **options)


def under(counts, kernel, mean=0.0, **options):
    r"""The bound for one kernel."""
    prior = Prior(kernel, fixed_mean(mean), outcome_map=counts.prior.outcome_map)
    parts = counts.train_inputs, counts.outcomes, counts.dimension, frozenset()
    own = LikelihoodRegression.from_parts(prior, *parts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        return LikelihoodUCB(own, **{"norm_bound": NORM} | options)


def of_counts(counts, kernels=KERNELS, **options):
    return family_ucb(counts, kernels, **{"norm_bound": NORM} | options)


ROUGH = outcomes("poisson", n=20, kernel=frozen_kernel("rbf", 0.1), seed=4, amount=200.0)


class TestCounts:
    @pytest.mark.parametrize("kind", KINDS)
    def test_the_union_is_that_of_the_bounds_for_the_covering_kernels(self, kind):
        counts = outcomes(kind)
        acqf, covers = of_counts(counts, RANGE), RANGE.covering(2)
        own = [under(counts, cover.kernel) for cover in covers]
        is_the_union(acqf, own, PLACES)
        assert acqf.band.norm_bounds == (NORM,) * 3
        for ours, each in zip(acqf.band.least_norms, own, strict=True):
            assert ours == pytest.approx(each.band.least_norms[0], rel=LEAST_NORM)
        link = torch.exp if kind == "poisson" else torch.sigmoid
        latent = torch.stack(acqf.band.latent_bounds(PLACES))
        assert_close(torch.stack(acqf.bounds(PLACES)), link(latent))

    def test_kernels_that_are_too_smooth_are_left_out(self):
        acqf = of_counts(ROUGH)
        assert acqf.consistent == (False, False, True)
        is_the_union(acqf, [under(ROUGH, kernel) for kernel in KERNELS], PLACES)
        assert acqf.assumptions.certified
        assert "20 observations contradict 2" in acqf.report()

    def test_all_kernels_contradicted(self):
        with pytest.warns(InconsistentConfidenceSetWarning) as caught:
            acqf = of_counts(ROUGH, norm_bound=0.5)
        assert len(caught) == 1
        assert "the outcomes do not follow the likelihood" in str(caught[0].message)
        assert acqf.assumptions.violated
        least = acqf.band.least_norms
        nearest = KERNELS[least.index(min(least))]
        near(acqf.bounds(PLACES), under(ROUGH, nearest, norm_bound=0.5).bounds(PLACES))


def test_families_of_two_kinds_are_one():
    rbf, matern = (
        lengthscale_family(frozen_kernel(name), 0.1, 0.4) for name in ("rbf", "matern52")
    )
    both = rbf + matern
    assert [*both] == [*rbf, *matern]
    assert repr(both) == (
        f"LengthscaleFamily({len(rbf) + len(matern)} kernels: {rbf.covers}, or "
        f"{matern.covers})"
    )
    with pytest.raises(TypeError, match="LengthscaleFamily"):
        rbf + "matern52"


def test_the_estimate_of_a_family_of_one_is_that_kernels():
    own = single(KERNELS[0])
    near(family(KERNELS[:1]).band.data.mean(X), own.band.data.mean(X))


def test_kernels_that_differ_in_more_than_their_length_scale_are_of_several_kinds():
    r"""Two output scales: that of 0.2 in one does not cover that of the other."""

    def scaled(scale):
        return frozen_kernel("rbf", 0.3, scale)

    both = lengthscale_family(scaled(9.0), 0.1, 0.4)[2:] + lengthscale_family(
        scaled(1.5), 0.1, 0.2
    )
    kept = [both[index] for index in both.reaching(0.2)]
    assert {float(kernel.outputscale) for kernel in kept} == {9.0, 1.5}


def test_kernels_may_change_afterwards():
    kernel = frozen_kernel("rbf", 0.3)
    acqf = family([kernel])
    before = acqf.report(), acqf.bounds(PROBLEM.X), acqf.band.relaxed(2.0).bounds(PROBLEM.X)
    kernel.lengthscale = 2.0
    after = acqf.report(), acqf.bounds(PROBLEM.X), acqf.band.relaxed(2.0).bounds(PROBLEM.X)
    assert before[0] == after[0]
    assert_close(after[1:], before[1:], rtol=0.0, atol=0.0)
