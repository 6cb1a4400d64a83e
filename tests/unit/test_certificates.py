r"""The regret certificate: exact on finite sets, proven on boxes, also of mixed spaces,
contexts, constrained and transformed outcomes.
"""

import math

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
from gpytorch.kernels import LinearKernel
from gpytorch.means import LinearMean, Mean
from hypothesis import given, settings
from hypothesis import strategies as st

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
    float64,
    frozen_kernel,
    frozen_model,
    make_problem,
    uniform,
    with_point,
)
from tolerances import ORDER, SOCP

NORM, FLOOR = 3.0, 1e-9
LINE, SQUARE, CUBE = (float64([[0.0] * d, [1.0] * d]) for d in (1, 2, 3))
LEVELS = [0.0, 0.3, 0.6, 1.0]
FINE = torch.linspace(0.0, 1.0, 401).tolist()


def bound(problem, **options):
    return MartingaleMixtureUCB(problem.model, norm_bound=NORM, **options)


def three(**options):
    return make_problem(**{"n": 14, "d": 3, "norm": NORM, "seed": 2, **options})


def enumerated(*columns):
    return torch.cartesian_prod(*map(float64, columns))


@pytest.mark.parametrize(("name", "fit"), [("matern32", "martingale"), ("rbf", "filters")])
def test_is_the_largest_difference_over_the_set(name, fit):
    r"""One cone program for each candidate."""
    problem = make_problem(n=8, d=2, kernel=name, norm=NORM, seed=5)
    acqf, candidates = bound(problem, fit=fit), uniform(6, 2, 9)
    certificate, band = regret_certificate(acqf, candidates), acqf.band
    squared = band.function_constraints.radius.squared(band.confidence_set.regression)
    given = problem.Y, problem.state.noise_std, squared, NORM, counted(acqf)
    expected = []
    for x in candidates:
        points = torch.stack([*problem.X, x, certificate.recommended])
        expected.append(socp.largest_difference(problem.kernel(points).to_dense(), *given))
    assert certificate.gap == pytest.approx(max(expected), abs=SOCP)
    challenger = candidates[max(range(6), key=expected.__getitem__)]
    assert torch.equal(certificate.challenger, challenger)
    assert (certificate.certified, certificate.resolution) == (True, 0.0)


def of_mean(mean):
    r"""A band around a prior mean, which changes within a cell as the kernel does."""
    X, kernel = uniform(10, 1, 1), frozen_kernel("rbf", 0.5)
    state = KernelRegression(X, mean(X).detach(), kernel, 0.1, mean_module=mean)
    return MartingaleMixtureUCB(state, norm_bound=0.1)


class Bump(Mean):
    r"""Between all points that are looked at, a peak a thousand times the gap."""

    def forward(self, x):
        return 10.0 * torch.exp(-(((x[..., 0] - 0.12345) / 1e-6) ** 2))


LINEAR = LinearKernel().double().requires_grad_(False)
SHORT = make_problem(n=10, norm=NORM)
UNPROVEN = {
    "bound": AbbasiYadkoriUCB(SHORT.model, norm_bound=NORM),
    "kernel": MartingaleMixtureUCB(
        KernelRegression(SHORT.X, SHORT.Y, LINEAR, 5.0), norm_bound=20.0
    ),
    "mean": of_mean(Bump()),
}


@pytest.mark.parametrize("name", UNPROVEN)
def test_where_nothing_is_proven_it_says_heuristic(name):
    certificate = regret_certificate(UNPROVEN[name], bounds=LINE)
    assert not certificate.certified
    assert math.isinf(certificate.resolution)
    assert str(certificate).startswith("heuristic: the maximum over the domain comes")
    assert not CertifiedGapStopping(1e6, bounds=LINE)(UNPROVEN[name]).stop


# Branch and bound of a steep mean, which cuts many cells: half a second.
@pytest.mark.representatives("-1000.0-0.0")
@pytest.mark.parametrize(("slope", "at"), [(3.0, 0.0), (-1000.0, 0.0), (1000.0, 0.4996)])
def test_a_slope_is_bounded(slope, at):
    r"""Without the mean's part, a cell next to the optimum would be cut off."""
    mean = LinearMean(1).double().requires_grad_(False)
    mean.weights.fill_(slope)
    certificate = regret_certificate(of_mean(mean), bounds=LINE, recommended=float64([at]))
    # The mean alone rises by the slope to the end, or falls from its recommended end.
    rise = max(slope, 0.0) * (1.0 - at)
    assert certificate.certified
    assert rise <= certificate.gap <= rise * 1.05 + 0.25


TENT = CellFunction(
    values=[lambda X: (1.0 - 3.0 * (X - 0.2501).abs().sum(-1)).expand(2, -1)],
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


def test_it_stops_when_the_gap_is_small():
    acqf = MartingaleMixtureUCB(
        make_problem(n=40, norm=1.0, noise_std=0.05).model, norm_bound=1.0
    )
    gap = regret_certificate(acqf, bounds=LINE).gap
    assert CertifiedGapStopping(1.1 * gap, bounds=LINE)(acqf).stop
    decision = CertifiedGapStopping(0.9 * gap, bounds=LINE)(acqf)
    assert (decision.stop, decision.certificate.gap) == (False, gap)


def test_estimates_need_consent_and_are_named():
    X = uniform(10, 1, 0)
    model = SingleTaskGP(X, X.sin())  # trainable and standardised
    acqf = MartingaleMixtureUCB(model, norm_bound=NORM, noise_std=0.1)
    with pytest.raises(UncertifiedError, match=r"kernel, mean estimated(?s:.*)allow_estim"):
        CertifiedGapStopping(1e3, bounds=LINE)(acqf)
    decision = CertifiedGapStopping(1e3, bounds=LINE, allow_estimated=True)(acqf)
    assert decision.stop
    assert decision.reason.startswith("heuristic: kernel, mean estimated: at most")
    assert not decision.certificate.certified


# Two certificates by branch and bound, one of a norm that is raised: a second.
def test_no_stop_on_a_bound_for_one_round_nor_on_a_contradiction():
    r"""The round in which it would stop is not fixed in advance."""
    model = make_problem(n=12, d=1, norm=5.0, noise_std=0.01).model
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
LISTED = torch.stack([ELSEWHERE, *SQUARE])


@pytest.mark.parametrize("domain", [{"space": HALF}, {"candidates": LISTED}])
def test_certificate_report_and_stop_share_one_task(domain):
    r"""In a context, into which the recommended point is moved."""
    few, there = {"max_evaluations": 50}, {"fixed_features": {1: 0.25}}
    band, options = PLANE.band.relaxed(), {**domain, **few, **there}
    first = regret_certificate(band, recommended=MOVED, **options)
    for other in (
        regret_certificate(band, recommended=ELSEWHERE, **options),
        CertifiedGapStopping(1.0, **domain, **few)(band, ELSEWHERE, **there).certificate,
        optimum_report(band, recommended=ELSEWHERE, **options).certificate,
    ):
        assert torch.equal(other.recommended, MOVED)
        assert (other.gap, other.resolution) == (first.gap, first.resolution)


def test_round_off_is_no_reason_to_refuse():
    r"""Points in single precision, whose decimals are others."""
    edge = SQUARE.new_tensor([0.1, 0.7])
    given = torch.nextafter(edge.float(), SQUARE.new_ones(2).float())
    levels = {"discrete_dims": {0: [0.1, 0.3]}, "inequality_constraints": SUM}
    for domain in {"space": MixedSpace(0.7 * SQUARE, **levels)}, {"candidates": edge[None]}:
        found = regret_certificate(PLANE, recommended=given, **domain)
        assert found.recommended.tolist() == pytest.approx(edge.tolist(), abs=1e-9)


def median():
    r"""A band and a level that half of its values reach."""
    other = three(seed=51, n=40)
    return bound(other), float(other.function(uniform(500, 3, 3)).median())


def objective(maximize):
    return bound(three(seed=1), maximize=maximize)


def plane(maximize):
    return bound(make_problem(n=8, d=2, norm=NORM), maximize=maximize)


def matern(maximize):
    return bound(three(kernel="matern52"), maximize=maximize)


def total(maximize):
    bands = [bound(three(kernel="matern52", seed=seed)) for seed in (2, 3)]
    return ScalarizedUCB(bands, [1.0, -0.5], maximize=maximize)


def mixed_model(maximize):
    r"""A sum and product of a Matern and a categorical kernel."""
    X = uniform(12, 3, 1)
    X[:, 2] = (3.0 * X[:, 2]).floor()
    model = MixedSingleTaskGP(X, X.sum(-1, keepdim=True).sin(), cat_dims=[2])
    model.outcome_transform = None
    options = {"norm_bound": NORM, "noise_std": 0.1, "maximize": maximize}
    return MartingaleMixtureUCB(model.requires_grad_(False), **options)


def sketched(maximize):
    problem = make_problem(n=12, norm=NORM)
    state = NystromRegression(problem.X, problem.Y, problem.kernel, 0.1, problem.X[:6])
    return SketchedMartingaleMixtureUCB(state, norm_bound=NORM, maximize=maximize)


CONSTRAINTS = OutcomeConstraints(*median())
LOW, HIGH = UNEQUAL = float64([[0.1, -0.3], [0.9, 0.2]])
TRIANGLE = MixedSpace(CUBE, discrete_dims={2: [0.0, 0.5]}, inequality_constraints=SUM)
BELOW, WORDS = enumerated(FINE[::5], FINE[::5], [0.0, 0.5]), [0.0, 1.0, 2.0]
BOX = enumerated(FINE[::4], FINE[::4])
LINED = MixedSpace(CUBE, discrete_dims={0: LEVELS})
CONTEXT = {"bounds": CUBE, "fixed_features": {2: 0.5}}
# A grid that misses little of a domain, the domain, and a bound.
GRIDS = {
    "unequal sides": (LOW + (HIGH - LOW) * BOX, {"bounds": UNEQUAL}, plane),
    "linear": (BELOW[BELOW[:, :2].sum(-1) <= 0.8 + FLOOR], {"space": TRIANGLE}, matern),
    "sum in a context": (enumerated(FINE[::10], FINE[::10], [0.5]), CONTEXT, total),
    "BoTorch's mixed model": (
        enumerated(FINE[::8], FINE[::8], WORDS),
        {"space": MixedSpace(CUBE, discrete_dims={2: WORDS})},
        mixed_model,
    ),
    "sketch": (float64(FINE)[:, None], {"bounds": LINE}, sketched),
    "outcome constraint": (
        enumerated(LEVELS, FINE[::8], FINE[::8]),
        {"space": LINED, "constraints": CONSTRAINTS},
        objective,
    ),
}


@pytest.mark.covering
@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("name", GRIDS)
def test_domains_agree_with_fine_grids(name, maximize):
    grid, domain, build = GRIDS[name]
    acqf, limits, tolerance = build(maximize), domain.get("constraints"), 0.02
    found = regret_certificate(acqf, **domain, tolerance=tolerance)
    best = found.recommended
    listed = {"candidates": with_point(grid, best), "constraints": limits}
    other = regret_certificate(acqf, **listed, recommended=best)
    assert found.rigorous
    assert found.certified or name == "BoTorch's mixed model"
    assert found.gap >= other.gap - FLOOR
    assert found.gap - found.resolution <= 1.01 * other.gap + FLOOR
    assert found.resolution <= tolerance * found.gap + FLOOR
    assert limits is None or bool(limits.may_be_feasible(found.challenger))


def test_a_finite_space_is_its_enumeration():
    r"""Columns count from either end, as in BoTorch."""
    acqf = bound(three())
    space = MixedSpace(CUBE, discrete_dims={-3: LEVELS}, one_hot=[[-2, 2]])
    rows = [[level, *code] for level in LEVELS for code in ([1.0, 0.0], [0.0, 1.0])]
    assert space.region().points.tolist() == rows
    for fixed, count in ({}, 8), ({-3: 0.3}, 2), ({1: 1.0}, 4), ({0: 0.3, -1: 1.0}, 1):
        points = space.region(fixed).points
        assert len(points) == len(space.fixed_features_list(fixed)) == count
        found = regret_certificate(acqf, space=space, fixed_features=fixed)
        expected = regret_certificate(acqf, candidates=points)
        assert (found.certified, found.gap) == (True, expected.gap)
        assert torch.equal(found.challenger, expected.challenger)


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
    change = acqf.band.confidence_set.change_in(fixed)
    centre, half = X[:1], 0.08 * uniform(1, 3, seed + 1)
    half[:, list(fixed)] = 0.0
    inside = centre + half * (2.0 * uniform(50, 3, seed + 2) - 1.0)
    values = [problem.function(transform(part)) for part in (inside, centre)]
    largest = float((values[0] - values[1]).abs().max())
    assert largest <= float(change(centre, half)) + ORDER


@pytest.mark.parametrize(
    ("transform", "fixed", "expected"),
    [
        (Normalize(d=3), (), True),
        (OneHotToNumeric(3, {1: 2}), [1], False),
        (OneHotToNumeric(3, {1: 2}), [1, 2], True),
        (Round(categorical_features={1: 2}), (), False),
    ],
)
def test_codes_that_may_change_are_not_taken(transform, fixed, expected):
    assert is_monotone(transform, fixed) is expected


def test_gaps_of_one_round_or_up_to_a_horizon_say_so():
    problem, grid = make_problem(n=6), {"candidates": uniform(5, 1, 0)}
    one = WangDeFreitasUCB(problem.model, norm_bound=5.0, noise_std=0.1, fixed_design=True)
    some = IGPUCB(problem.model, norm_bound=5.0, noise_std=0.1, horizon=40)
    single, limited = (regret_certificate(each, **grid) for each in (one, some))
    assert gaps_in_words([single] * 2) == "gap, certified in one round only"
    assert gaps_in_words([limited] * 2) == "certified gap up to round 40"
