r"""The regret certificate: exact on finite sets, proven on boxes, also of mixed spaces,
contexts, constrained and transformed outcomes.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from botorch.models import MixedSingleTaskGP, SingleTaskGP
from botorch.models.transforms.input import (
    ChainedInputTransform,
    Log10,
    Normalize,
    OneHotToNumeric,
    Round,
    Warp,
)
from botorch.models.transforms.outcome import Bilog, Log, Power
from gpytorch.kernels import LinearKernel
from gpytorch.means import LinearMean, Mean
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    CertifiedGapStopping,
    KernelRegression,
    MartingaleMixtureUCB,
    MixedSpace,
    NystromRegression,
    ScalarizedUCB,
    SketchedMartingaleMixtureUCB,
    WangDeFreitasUCB,
    optimum_report,
    regret_certificate,
)
from kernelucb.certificates.boxes import (
    CellFunction,
    Search,
    change_in,
    cover,
    largest_in_region,
)
from kernelucb.certificates.spaces import Region
from kernelucb.certificates.words import gaps_in_words
from kernelucb.confidence.outcome_constraints import OutcomeConstraints
from kernelucb.data.prior import is_monotone
from kernelucb.exceptions import InconsistentConfidenceSetWarning, UncertifiedError
from oracles import socp
from oracles.filtered import counted
from problems import (
    KERNELS,
    RKHSFunction,
    frozen_kernel,
    frozen_model,
    make_problem,
    normal,
    uniform,
    with_point,
)
from tolerances import ORDER, SEARCHED, SOCP

NORM, FLOOR = 3.0, 1e-9
LINE = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
CUBE = torch.tensor([[0.0] * 3, [1.0] * 3], dtype=torch.float64)
LEVELS = [0.0, 0.3, 0.6, 1.0]
FINE = torch.linspace(0.0, 1.0, 401).tolist()


def bound(problem, **options):
    return MartingaleMixtureUCB(problem.model, norm_bound=NORM, **options)


def mesh(per_side, d):
    axes = [torch.linspace(0.0, 1.0, per_side, dtype=torch.float64)] * d
    return torch.cartesian_prod(*axes).reshape(-1, d)


def three(**options):
    return make_problem(**{"n": 14, "d": 3, "norm": NORM, "seed": 2, **options})


def enumerated(*columns):
    return torch.cartesian_prod(
        *(torch.tensor(each, dtype=torch.float64) for each in columns)
    )


@pytest.mark.parametrize(
    ("name", "fit"), [("rbf", "martingale"), ("matern32", "martingale"), ("rbf", "filters")]
)
def test_is_the_largest_difference_over_the_set(name, fit):
    r"""One cone program for each candidate."""
    problem = make_problem(n=8, d=2, kernel=name, norm=NORM, seed=5)
    candidates = uniform(6, 2, 9)
    acqf = bound(problem, fit=fit)
    certificate = regret_certificate(acqf, candidates)
    squared = acqf.band.function_constraints.radius.squared(
        acqf.band.confidence_set.regression
    )
    given = problem.Y, problem.state.noise_std, squared, NORM, counted(acqf)
    expected = []
    for x in candidates:
        points = torch.cat([problem.X, x.unsqueeze(0), certificate.recommended[None]])
        K = problem.kernel(points).to_dense()
        expected.append(socp.largest_difference(K, *given))
    assert certificate.gap == pytest.approx(max(expected), abs=SOCP)
    challenger = candidates[max(range(6), key=expected.__getitem__)]
    assert torch.equal(certificate.challenger, challenger)
    assert certificate.certified
    assert certificate.resolution == 0.0


def test_a_point_gains_nothing_over_itself():
    problem = make_problem(n=8)
    acqf = MartingaleMixtureUCB(problem.state, norm_bound=3.0)
    X, best = problem.test_X, problem.test_X[:1]
    assert float(acqf.band.confidence_set.max_gain_over(X, best)[0]) == 0.0
    assert regret_certificate(acqf, best, recommended=best).gap == 0.0


@given(seed=st.integers(0, 200), n=st.integers(1, 25), maximize=st.booleans())
def test_between_the_true_regret_and_the_sides_of_the_band(seed, n, maximize):
    problem = make_problem(n=n, d=2, norm=NORM, noise_std=0.2, seed=seed)
    candidates, sign = uniform(30, 2, seed), 1.0 if maximize else -1.0
    truth = sign * problem.function(candidates)
    acqf = bound(problem, maximize=maximize, delta=1e-3)
    certificate = regret_certificate(acqf, candidates)
    low, high = sorted((sign * side for side in acqf.bounds(candidates)), key=torch.sum)
    index = int((candidates == certificate.recommended).all(-1).nonzero()[0])
    assert index == int(low.argmax())
    assert certificate.gap <= float(high.max() - low[index]) + ORDER
    assert certificate.gap >= float(truth.max() - truth[index]) - ORDER


def test_where_nothing_is_proven_it_says_heuristic():
    problem = make_problem(n=10, d=2, norm=NORM)
    linear = LinearKernel().double().requires_grad_(False)
    state = KernelRegression(problem.X, problem.Y, linear, 0.5)
    for acqf in (
        AbbasiYadkoriUCB(problem.model, norm_bound=NORM),
        MartingaleMixtureUCB(state, norm_bound=20.0),
    ):
        certificate = regret_certificate(acqf, bounds=SQUARE)
        assert not certificate.certified
        assert math.isinf(certificate.resolution)
        assert str(certificate).startswith("heuristic: the maximum over the domain comes")
        assert not CertifiedGapStopping(1e6, bounds=SQUARE)(acqf).stop


def of_mean(mean, recommended=0.0):
    r"""A prior mean that changes within a cell counts as well as the kernel."""
    X, kernel = uniform(10, 1, 1), frozen_kernel("rbf", 0.5)
    state = KernelRegression(X, mean(X).detach(), kernel, 0.1, mean_module=mean)
    point = torch.tensor([[recommended]], dtype=torch.float64)
    acqf = MartingaleMixtureUCB(state, norm_bound=0.1)
    return regret_certificate(acqf, bounds=LINE, recommended=point)


class Bump(Mean):
    def forward(self, x):
        return 10.0 * torch.exp(-(((x[..., 0] - 0.12345) / 1e-6) ** 2))


def test_a_known_bump_is_not_overlooked():
    r"""Between all points that are looked at, a peak a thousand times the gap."""
    certificate = of_mean(Bump())
    assert certificate.gap < 10.0  # it was not seen,
    assert not certificate.rigorous  # and that is said
    assert not certificate.certified


@pytest.mark.parametrize(
    ("slope", "recommended"), [(3.0, 0.0), (-1000.0, 0.0), (1000.0, 0.4996)]
)
def test_a_slope_is_bounded(slope, recommended):
    r"""Without the mean's part, a cell next to the optimum would be cut off."""
    mean = LinearMean(1).double().requires_grad_(False)
    mean.weights.fill_(slope)
    certificate = of_mean(mean, recommended)
    # The mean alone rises by the slope to the end, or falls from its recommended end.
    rise = max(slope, 0.0) * (1.0 - recommended)
    assert certificate.certified
    assert rise <= certificate.gap <= rise * 1.05 + 0.25


TENT = CellFunction(
    values=[lambda X: 1.0 - 3.0 * (X - 0.2501).abs().sum(-1)],
    changes=[lambda centres, halves: 3.0 * halves.sum(-1)],
    joined=lambda parts: parts[0],
    limits=[math.inf],
)


@pytest.mark.parametrize("below", [0.0, 5.0])
@pytest.mark.parametrize("most", [1, 9, 33, 3000])
def test_what_a_search_shows_is_above_what_it_has_not_found(below, most):
    r"""A tent next to where cells meet: a bound below its slopes leaves out the top.

    Where no value is positive the tolerance has nothing to refer to.
    """
    function = TENT._replace(values=[lambda X: TENT.values[0](X) - below])
    search = Search(function, Region.of(SQUARE))
    result = largest_in_region(search, tolerance=0.05, max_evaluations=most)
    assert result.value <= 1.0 - below <= result.upper
    assert most < 3000 or result.upper < 1.06 - below
    kept = cover(Search(function, search.region), most)
    top = SQUARE.new_full((2,), 0.2501)
    holds = ((top - kept.centres).abs() <= kept.halves).all(-1)
    assert bool(holds.any()) == (below == 0.0) or most == 1


def test_the_bound_on_cells_finds_what_a_local_search_misses():
    r"""Thirty observations leave peaks between them that few starts reach."""
    kernel, X = frozen_kernel("matern52", 0.03), uniform(30, 1, 4)
    state = KernelRegression(X, torch.zeros(30).double(), kernel, 0.01)
    acqf = MartingaleMixtureUCB(state, norm_bound=1.0)
    middle = X[:1]
    grid = regret_certificate(acqf, with_point(mesh(4001, 1), middle), recommended=middle)
    for most in (1, 15, 63, 10_000):
        options = {"recommended": middle, "max_evaluations": most, "tolerance": 1e-3}
        found = regret_certificate(acqf, bounds=LINE, **options)
        assert found.gap >= grid.gap - FLOOR
    assert found.gap - found.resolution >= 0.99 * grid.gap


def test_it_stops_when_the_gap_is_small():
    problem = make_problem(n=40, d=1, norm=1.0, noise_std=0.05)
    acqf = MartingaleMixtureUCB(problem.model, norm_bound=1.0)
    gap = regret_certificate(acqf, bounds=LINE).gap
    assert CertifiedGapStopping(1.1 * gap, bounds=LINE)(acqf).stop
    decision = CertifiedGapStopping(0.9 * gap, bounds=LINE)(acqf)
    assert not decision.stop
    assert "from the optimum" in decision.reason
    assert decision.certificate.gap == gap


def test_estimates_need_consent_and_are_named():
    X = uniform(10, 1, 0)
    model = SingleTaskGP(X, X.sin())  # trainable and standardised
    acqf = MartingaleMixtureUCB(model, norm_bound=NORM, noise_std=0.1)
    words = (
        r"kernel, mean estimated(?s:.*)requires_grad_\(False\)(?s:.*)allow_estimated=True"
    )
    with pytest.raises(UncertifiedError, match=words):
        CertifiedGapStopping(1e3, bounds=LINE)(acqf)
    decision = CertifiedGapStopping(1e3, bounds=LINE, allow_estimated=True)(acqf)
    assert decision.stop
    assert decision.reason.startswith("heuristic: kernel, mean estimated: at most")
    assert not decision.certificate.certified


def test_no_stop_on_a_bound_for_one_round_nor_on_a_contradiction():
    r"""The round in which it would stop is not fixed in advance."""
    model = make_problem(n=40, d=1, norm=5.0, noise_std=0.01).model
    once = WangDeFreitasUCB(model, norm_bound=9.0, fixed_design=True)
    with pytest.warns(InconsistentConfidenceSetWarning):
        wrong = MartingaleMixtureUCB(model, norm_bound=0.5)
    reasons = {once: "a round that the data choose", wrong: "no guarantee: norm violated"}
    for acqf, words in reasons.items():
        decision = CertifiedGapStopping(1e3, bounds=LINE)(acqf)
        assert not decision.stop
        assert words in decision.reason


PLANE = bound(make_problem(n=10, d=2, norm=NORM))
HALF = MixedSpace(SQUARE, discrete_dims={1: [0.0, 0.25, 0.5, 1.0]})
SUM = [(torch.tensor([0, 1]), torch.tensor([-1.0, -1.0]).double(), -0.8)]
ELSEWHERE, MOVED = SQUARE.new_tensor([[0.4, 0.9], [0.4, 0.25]])


@pytest.mark.parametrize(
    "domain",
    [
        {"bounds": SQUARE},
        {"space": HALF},
        {"candidates": torch.stack([ELSEWHERE, *SQUARE])},
    ],
    ids=["box", "space", "candidates"],
)
def test_certificate_report_and_stop_share_one_task(domain):
    r"""In a context, into which the recommended point is moved."""
    few, there, acqf = (
        {"max_evaluations": 50},
        {"fixed_features": {1: 0.25}},
        PLANE.band.relaxed(),
    )
    own = regret_certificate(acqf, recommended=MOVED, **domain, **few, **there)
    for other in (
        regret_certificate(acqf, recommended=ELSEWHERE, **domain, **few, **there),
        CertifiedGapStopping(1.0, **domain, **few)(acqf, ELSEWHERE, **there).certificate,
        optimum_report(acqf, recommended=ELSEWHERE, **domain, **few, **there).certificate,
    ):
        assert torch.equal(other.recommended, MOVED)
        assert (other.gap, other.resolution) == (own.gap, own.resolution)


def test_round_off_is_no_reason_to_refuse():
    r"""Points in single precision, whose decimals are others."""
    edge = SQUARE.new_tensor([0.1, 0.7])
    space = MixedSpace(
        0.7 * SQUARE, discrete_dims={0: [0.1, 0.3]}, inequality_constraints=SUM
    )
    for domain in {"space": space}, {"candidates": torch.stack([*SQUARE, edge])}:
        given = torch.nextafter(edge.float(), SQUARE.new_ones(2).float())
        found = regret_certificate(PLANE, recommended=given, **domain)
        assert found.recommended.tolist() == pytest.approx(edge.tolist(), abs=1e-9)
        assert "space" in domain or torch.equal(found.recommended, edge)


def constrained(seed=1):
    objective, other = three(seed=seed), three(seed=seed + 50, n=40)
    level = float(other.function(uniform(500, 3, 3)).median())
    return bound(objective), OutcomeConstraints(bound(other), level)


def mixed_model(maximize):
    r"""A sum and product of a Matern and a categorical kernel."""
    X = uniform(12, 3, 1)
    X[:, 2] = (3.0 * X[:, 2]).floor()
    model = MixedSingleTaskGP(X, X.sum(-1, keepdim=True).sin(), cat_dims=[2])
    model.outcome_transform = None
    options = {"norm_bound": NORM, "noise_std": 0.1, "maximize": maximize}
    return MartingaleMixtureUCB(model.requires_grad_(False), **options)


def total(maximize):
    bands = [bound(three(kernel="matern52", seed=seed)) for seed in (2, 3)]
    return ScalarizedUCB(bands, [1.0, -0.5], maximize=maximize)


def normalized(maximize):
    r"""Inputs on [0, 10]."""
    problem, transform = make_problem(n=12, norm=NORM), Normalize(d=1, bounds=10.0 * LINE)
    data = 10.0 * problem.X, problem.Y, problem.kernel, 0.1
    model = frozen_model(*data, input_transform=transform)
    return MartingaleMixtureUCB(model, norm_bound=NORM, maximize=maximize)


def sketched(maximize):
    problem = make_problem(n=12, norm=NORM)
    state = NystromRegression(problem.X, problem.Y, problem.kernel, 0.1, problem.X[:6])
    return SketchedMartingaleMixtureUCB(state, norm_bound=NORM, maximize=maximize)


class Domain(NamedTuple):
    r"""A grid of a domain, the domain, and a bound; the grid misses little of it."""

    grid: torch.Tensor
    domain: dict
    build: Callable = lambda maximize: bound(three(kernel="matern52"), maximize=maximize)
    tolerance: float = 0.02
    near: float = 1.01


ONE_AXIS = MixedSpace(CUBE, discrete_dims={0: LEVELS, 2: [0.0, 1.0]})
UNEQUAL = torch.tensor([[0.1, -0.3], [0.9, 0.2]], dtype=torch.float64)
TRIANGLE = MixedSpace(CUBE, discrete_dims={2: [0.0, 0.5]}, inequality_constraints=SUM)
BELOW = enumerated(FINE[::5], FINE[::5], [0.0, 0.5])
GRIDS = {
    "a box of unequal sides": Domain(
        UNEQUAL[0] + (UNEQUAL[1] - UNEQUAL[0]) * mesh(101, 2),
        {"bounds": UNEQUAL},
        lambda maximize: bound(make_problem(n=8, d=2, norm=NORM), maximize=maximize),
        tolerance=0.05,
    ),
    "one continuous input": Domain(
        enumerated(LEVELS, FINE, [0.0, 1.0]),
        {"space": ONE_AXIS},
        tolerance=0.01,
        near=1.001,
    ),
    "a context": Domain(
        enumerated(FINE[::8], FINE[::8], [0.4]),
        {"bounds": CUBE, "fixed_features": {2: 0.4}},
    ),
    "a linear constraint": Domain(
        BELOW[BELOW[:, :2].sum(-1) <= 0.8 + FLOOR], {"space": TRIANGLE}
    ),
    "a sum": Domain(
        enumerated(FINE[::10], FINE[::10], [0.5]),
        {"bounds": CUBE, "fixed_features": {2: 0.5}},
        total,
    ),
    "BoTorch's mixed model": Domain(
        enumerated(FINE[::8], FINE[::8], [0.0, 1.0, 2.0]),
        {"space": MixedSpace(CUBE, discrete_dims={2: [0, 1, 2]})},
        mixed_model,
    ),
    "normalized inputs": Domain(10.0 * mesh(1001, 1), {"bounds": 10.0 * LINE}, normalized),
    "a sketch": Domain(mesh(1001, 1), {"bounds": LINE}, sketched),
}


@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("name", GRIDS)
def test_domains_agree_with_fine_grids(name, maximize):
    grid, domain, build, tolerance, near = GRIDS[name]
    acqf = build(maximize)
    found = regret_certificate(acqf, **domain, tolerance=tolerance)
    best = found.recommended
    other = regret_certificate(acqf, with_point(grid, best), recommended=best)
    assert found.rigorous
    assert found.certified or name == "BoTorch's mixed model"
    assert found.gap >= other.gap - FLOOR
    assert found.gap - found.resolution <= near * other.gap + FLOOR
    assert found.resolution <= tolerance * found.gap + FLOOR


def test_an_outcome_constraint_agrees_with_a_fine_grid():
    acqf, constraints = constrained()
    grid = enumerated(LEVELS, FINE[::8], FINE[::8])
    space, own = MixedSpace(CUBE, discrete_dims={0: LEVELS}), {"constraints": constraints}
    options = {"space": space, "max_evaluations": 20_000}
    found = regret_certificate(acqf, **options, **own)
    best = found.recommended
    other = regret_certificate(acqf, with_point(grid, best), recommended=best, **own)
    assert found.certified
    assert found.gap >= other.gap - FLOOR
    assert found.gap - found.resolution <= 1.05 * other.gap + FLOOR
    free = regret_certificate(acqf, **options, recommended=best)
    assert found.gap <= free.gap + free.resolution + FLOOR
    assert bool(constraints.is_feasible(best))
    assert bool(constraints.may_be_feasible(found.challenger))


def test_a_finite_space_is_its_enumeration():
    acqf, space = (
        bound(three()),
        MixedSpace(CUBE, discrete_dims={0: LEVELS}, one_hot=[[1, 2]]),
    )
    rows = [[level, *code] for level in LEVELS for code in ([1.0, 0.0], [0.0, 1.0])]
    assert space.region().points.tolist() == rows
    for fixed, count in ({}, 8), ({0: 0.3}, 2), ({1: 1.0}, 4), ({0: 0.3, 2: 1.0}, 1):
        points = space.region(fixed).points
        assert len(points) == count
        found = regret_certificate(acqf, space=space, fixed_features=fixed)
        expected = regret_certificate(acqf, candidates=points)
        assert (found.certified, found.gap) == (True, expected.gap)
        assert torch.equal(found.challenger, expected.challenger)


def test_outcome_constraints_on_finite_sets_by_hand():
    acqf, constraints = constrained()
    X = uniform(300, 3, 9)
    certificate = regret_certificate(acqf, X, constraints=constraints)
    kept, allowed = constraints.is_feasible(X), constraints.may_be_feasible(X)
    assert 0 < int(kept.sum()) < int(allowed.sum()) < len(X)
    best = X[acqf.bounds(X)[0].where(kept, -math.inf).argmax()]
    assert torch.equal(certificate.recommended, best)
    gains = acqf.band.confidence_set.max_gain_over(X[allowed], best.unsqueeze(0))
    assert certificate.gap == pytest.approx(float(gains.max()), rel=1e-9)
    assert certificate.assumptions.delta == pytest.approx(0.1)


TRANSFORMS = (
    (None, ()),
    (Round(integer_indices=[1]), ()),
    (ChainedInputTransform(log=Log10(indices=[0]), unit=Normalize(d=3)), ()),
    (Warp(d=3, indices=[0, 1]).requires_grad_(False), ()),
    (OneHotToNumeric(3, {1: 2}), (1, 2)),
)


@settings(max_examples=20)
@given(st.integers(0, 4), st.sampled_from(KERNELS), st.integers(0, 100))
def test_no_function_changes_more_in_a_cell(index, name, seed):
    given, fixed = TRANSFORMS[index]
    transform = given.eval() if given else lambda X: X
    X = 0.1 + uniform(5, 3, seed)
    X[:, list(fixed)] = X[:, list(fixed)].round()
    d = transform(X.clone()).shape[-1]
    problem = make_problem(n=5, d=d, kernel=name, norm=NORM, seed=seed)
    Y = problem.function(transform(X))
    model = frozen_model(X, Y, problem.kernel, 0.1, input_transform=given)
    acqf = MartingaleMixtureUCB(model, norm_bound=NORM)
    change = change_in(acqf.band.confidence_set, fixed)
    centre, half = X[:1], 0.08 * uniform(1, 3, seed + 1)
    half[:, list(fixed)] = 0.0
    inside = centre + half * (2.0 * uniform(50, 3, seed + 2) - 1.0)
    values = [problem.function(transform(part)) for part in (inside, centre)]
    largest = float((values[0] - values[1]).abs().max())
    assert largest <= float(change(centre, half)) + ORDER


def test_codes_that_may_change_are_not_taken():
    assert is_monotone(Normalize(d=3))
    assert not is_monotone(OneHotToNumeric(3, {1: 2}))
    assert not is_monotone(OneHotToNumeric(3, {1: 2}), fixed=[1])
    assert is_monotone(OneHotToNumeric(3, {1: 2}), fixed=[1, 2])
    assert not is_monotone(Round(categorical_features={1: 2}))


MATERN, NOISE_STD, SIZE = frozen_kernel("matern52", 0.4), 0.1, 2.0
LATENT_F = RKHSFunction.random(MATERN, SIZE, d=1, seed=3)
X, GRID = uniform(12, 1, seed=4), torch.linspace(0, 1, 41, dtype=torch.float64)[:, None]
# On the models' scale; above zero, where powers are.
SHIFT = 2.0 * SIZE
LATENT = SHIFT + LATENT_F(X) + NOISE_STD * normal(len(X), seed=5)
CASES = {
    "log": (Log, torch.exp),
    "root": (lambda: Power(0.5), torch.square),
    "square": (lambda: Power(2.0), torch.sqrt),
    "bilog": (Bilog, torch.expm1),
}


def on_scale(name=None, **options):
    transform, Y = None, LATENT
    if name is not None:
        build, inverse = CASES[name]
        transform, Y = build(), inverse(LATENT)
    model = frozen_model(X, Y, MATERN, NOISE_STD, mean=SHIFT, outcome_transform=transform)
    return MartingaleMixtureUCB(model, norm_bound=SIZE, **options)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("domain", [{"candidates": GRID}, {"bounds": LINE}])
def test_gaps_are_in_outcome_units(name, maximize, domain):
    acqf, other = on_scale(name, maximize=maximize), on_scale(maximize=maximize)
    own, latent = (regret_certificate(each, **domain) for each in (acqf, other))
    found = torch.stack([own.recommended, latent.recommended])
    promised = other.bounds(found)[0 if maximize else 1]
    assert_close(promised[0], promised[1], rtol=SEARCHED, atol=SEARCHED)
    best = own.recommended.unsqueeze(0)
    sign, outcome_map = acqf.band.direction, acqf.band.outcome_map
    sides = torch.cat(other.bounds(best))
    worst = (
        outcome_map.inverse(sides + sign * latent.gap) - outcome_map.inverse(sides)
    ).abs()
    assert math.isclose(own.gap, float(worst.max()), rel_tol=1e-6)
    # The true gap, of medians.
    truth = outcome_map.inverse(SHIFT + LATENT_F(GRID))
    there = outcome_map.inverse(SHIFT + LATENT_F(best))
    assert own.gap >= float((sign * (truth - there)).max())
    assert own.certified
    assert 0.0 <= own.resolution <= own.gap
    assert (own.resolution == 0.0) == (latent.resolution == 0.0)


def test_columns_count_from_either_end_as_in_botorch():
    acqf, given = bound(three()), (torch.tensor([-1.0, -1.0]).double(), -1.5)
    first, same = (
        MixedSpace(
            CUBE,
            discrete_dims={column: LEVELS},
            one_hot=[group],
            inequality_constraints=[(torch.tensor([column, 2]), *given)],
        )
        for column, group in ((-3, [-2, 2]), (0, [1, 2]))
    )
    assert first.fixed_features_list({-1: 1.0}) == same.fixed_features_list({2: 1.0})
    found = regret_certificate(acqf, space=first, fixed_features={-1: 1.0})
    assert found.gap == regret_certificate(acqf, space=same, fixed_features={2: 1.0}).gap


def test_gaps_of_one_round_or_up_to_a_horizon_say_so():
    problem, grid = make_problem(n=6), {"candidates": uniform(5, 1, 0)}
    one = WangDeFreitasUCB(problem.model, norm_bound=5.0, noise_std=0.1, fixed_design=True)
    some = IGPUCB(problem.model, norm_bound=5.0, noise_std=0.1, horizon=40)
    single, limited = (regret_certificate(each, **grid) for each in (one, some))
    assert gaps_in_words([single] * 2) == "gap, certified in one round only"
    assert gaps_in_words([limited] * 2) == "certified gap up to round 40"
