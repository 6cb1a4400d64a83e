r"""The regret certificate: exact on finite sets, proven on boxes."""

import math

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from gpytorch.kernels import LinearKernel
from gpytorch.means import LinearMean, Mean
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch.testing import assert_close

from kernelucb import (
    AbbasiYadkoriUCB,
    CertifiedGapStopping,
    Grid,
    KernelRegression,
    MartingaleMixtureUCB,
    MixedSpace,
    NystromRegression,
    SketchedMartingaleMixtureUCB,
    SrinivasUCB,
    WangDeFreitasUCB,
    optimum_report,
    regret_certificate,
)
from kernelucb.certificates.boxes import (
    CellFunction,
    Search,
    largest_change,
    largest_in_region,
)
from kernelucb.certificates.spaces import Region
from kernelucb.confidence.martingale_mixture.dual import Ellipsoids
from kernelucb.exceptions import InconsistentConfidenceSetWarning, UncertifiedError
from oracles import socp
from problems import (
    KERNELS,
    frozen_kernel,
    frozen_model,
    make_problem,
    uniform,
    with_point,
)
from tolerances import ORDER, SEARCHED, SOCP

NORM = 3.0
LINE = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
FORMS = [{}, {"form": Grid()}, {"form": "convex"}]


def bound(problem, **options):
    return MartingaleMixtureUCB(problem.model, norm_bound=NORM, **options)


def mesh(per_side, d):
    axes = [torch.linspace(0.0, 1.0, per_side, dtype=torch.float64)] * d
    return torch.cartesian_prod(*axes).reshape(-1, d)


@pytest.mark.parametrize("name", KERNELS)
def test_is_the_largest_difference_over_the_set(name):
    r"""One cone program for each candidate."""
    problem = make_problem(n=8, d=2, kernel=name, norm=NORM, seed=5)
    candidates = uniform(6, 2, 9)
    acqf = bound(problem, fit="martingale")
    certificate = regret_certificate(acqf, candidates)
    squared = acqf.function_constraints.radius.squared(acqf.regression)
    noise = torch.full((8,), problem.noise_std).double()
    expected = []
    for x in candidates:
        points = torch.cat([problem.X, x.unsqueeze(0), certificate.recommended[None]])
        K = problem.kernel(points).to_dense()
        expected.append(socp.largest_difference(K, problem.Y, noise, squared, NORM))
    assert certificate.gap == pytest.approx(max(expected), abs=SOCP)
    challenger = candidates[max(range(6), key=expected.__getitem__)]
    assert torch.equal(certificate.challenger, challenger)
    assert certificate.certified
    assert certificate.resolution == 0.0


def test_a_point_s_gain_over_itself_is_not_searched_for(monkeypatch):
    r"""It is zero at every regulariser; the search there took as many steps as allowed."""
    steps, slopes = [], Ellipsoids.slopes
    monkeypatch.setattr(
        Ellipsoids, "slopes", lambda *given: steps.append(0) or slopes(*given)
    )
    problem = make_problem(n=8)
    acqf = MartingaleMixtureUCB(problem.state, norm_bound=3.0)
    X = problem.test_X
    others = acqf.confidence_set.max_gain_over(X[1:], X[:1])
    needed = len(steps)
    gains = acqf.confidence_set.max_gain_over(X, X[:1])
    assert_close(gains[1:], others)
    assert float(gains[0]) == 0.0
    assert len(steps) == 2 * needed


@given(seed=st.integers(0, 200), n=st.integers(1, 25), maximize=st.booleans())
def test_between_the_true_regret_and_the_sides_of_the_band(seed, n, maximize):
    problem = make_problem(n=n, d=2, norm=NORM, noise_std=0.2, seed=seed)
    candidates, truth = uniform(30, 2, seed), problem.function(uniform(30, 2, seed))
    acqf = bound(problem, maximize=maximize, delta=1e-3)
    certificate = regret_certificate(acqf, candidates)
    lower, upper = acqf.bounds(candidates)
    index = int((candidates == certificate.recommended).all(-1).nonzero()[0])
    if maximize:
        sides = upper.max() - lower[index]
        regret = truth.max() - truth[index]
        assert index == int(lower.argmax())
    else:
        sides = upper[index] - lower.min()
        regret = truth[index] - truth.min()
        assert index == int(upper.argmin())
    assert certificate.gap <= float(sides) + ORDER
    assert certificate.gap >= float(regret) - ORDER


@pytest.mark.parametrize("options", FORMS)
def test_forms_are_in_order(options):
    problem = make_problem(n=10, d=2, kernel="matern52", norm=NORM)
    exact, other = (
        regret_certificate(bound(problem, **o), uniform(8, 2, 1)).gap for o in ({}, options)
    )
    assert exact <= other + 1e-6


def test_follows_the_direction_of_the_outcome():
    problem, candidates = make_problem(n=10, d=2, norm=NORM), uniform(20, 2, 1)
    transform = ScalarizedPosteriorTransform(weights=torch.tensor([-2.0]).double())
    smallest = regret_certificate(bound(problem, maximize=False), candidates)
    turned = regret_certificate(bound(problem, posterior_transform=transform), candidates)
    both = bound(problem, posterior_transform=transform, maximize=False)
    assert turned.gap == smallest.gap
    assert regret_certificate(both, candidates).gap == pytest.approx(
        regret_certificate(bound(problem), candidates).gap
    )


@pytest.mark.parametrize(
    ("bound_class", "options"),
    [(AbbasiYadkoriUCB, {"norm_bound": NORM}), (SrinivasUCB, {})],
)
def test_other_bounds_give_the_difference_of_their_sides(bound_class, options):
    problem, candidates = make_problem(n=10, d=2), uniform(20, 2, 1)
    acqf = bound_class(problem.model, **options)
    lower, upper = acqf.bounds(candidates)
    certificate = regret_certificate(acqf, candidates)
    assert certificate.gap == pytest.approx(float(upper.max() - lower.max()))
    assert certificate.rigorous  # on a finite set
    # Theorem 1 is about a domain of its own, which the candidates may not be.
    assert certificate.certified is (bound_class is AbbasiYadkoriUCB)


def test_the_point_to_certify_may_be_given():
    problem, candidates = make_problem(n=10, d=2, norm=NORM), uniform(20, 2, 1)
    acqf = bound(problem)
    best = regret_certificate(acqf, candidates)
    worse = regret_certificate(acqf, candidates, recommended=candidates[3])
    assert torch.equal(worse.recommended, candidates[3])
    alone = regret_certificate(acqf, candidates[3:4])
    assert alone.gap == pytest.approx(0.0, abs=1e-6)
    assert best.gap > 0.0


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("d", "per_side"), [(1, 4001), (2, 121)])
def test_branch_and_bound_agrees_with_a_fine_grid(name, d, per_side):
    problem = make_problem(n=12, d=d, kernel=name, norm=NORM, seed=2)
    box = LINE if d == 1 else SQUARE
    acqf = bound(problem)
    certificate = regret_certificate(acqf, bounds=box)
    assert certificate.certified
    best = certificate.recommended
    grid = regret_certificate(acqf, with_point(mesh(per_side, d), best), recommended=best)
    assert certificate.gap >= grid.gap - 1e-9
    assert certificate.gap - certificate.resolution <= grid.gap * 1.001 + 1e-9
    assert certificate.resolution <= 0.05 * certificate.gap + 1e-9


@settings(max_examples=15)
@given(
    seed=st.integers(0, 200),
    d=st.integers(1, 2),
    name=st.sampled_from(KERNELS),
    maximize=st.booleans(),
)
def test_branch_and_bound_encloses_what_a_local_search_finds(seed, d, name, maximize):
    r"""A box of unequal sides; the best point of a grid, improved by Nelder and Mead."""
    problem = make_problem(n=8, d=d, kernel=name, norm=NORM, noise_std=0.2, seed=seed)
    acqf = bound(problem, maximize=maximize)
    box = torch.tensor([[0.1, -0.3], [0.9, 0.2]], dtype=torch.float64)[:, :d]
    certificate = regret_certificate(acqf, bounds=box)
    recommended = certificate.recommended.unsqueeze(0)

    def excess(X):
        points = torch.as_tensor(X, dtype=torch.float64).reshape(-1, d)
        values = acqf.confidence_set.max_gain_over(points, recommended, acqf.direction)
        return values.detach()

    grid = box[0] + (box[1] - box[0]) * mesh(41, d)
    start = grid[excess(grid).argmax()]
    search = minimize(
        lambda x: -float(excess(x)), start, method="Nelder-Mead", bounds=box.mT.tolist()
    )
    largest = max(-search.fun, 0.0)
    assert certificate.gap >= largest - ORDER
    assert certificate.gap - certificate.resolution <= 1.001 * largest + ORDER
    assert certificate.resolution <= 0.05 * certificate.gap + ORDER


def test_three_dimensions_and_few_evaluations_stay_valid():
    problem = make_problem(n=20, d=3, kernel="matern52", norm=NORM, seed=4)
    box = torch.tensor([[0.0] * 3, [1.0] * 3], dtype=torch.float64)
    acqf = bound(problem)
    few = regret_certificate(acqf, bounds=box, max_evaluations=500)
    many = regret_certificate(acqf, bounds=box, max_evaluations=20_000)
    best = many.recommended
    grid = regret_certificate(acqf, with_point(mesh(21, 3), best), recommended=best)
    assert few.certified
    assert few.gap >= many.gap >= grid.gap - 1e-9
    assert few.resolution >= many.resolution
    assert many.gap - many.resolution <= 1.02 * grid.gap  # the grid's cells are 0.05 wide


def test_where_nothing_is_proven_it_says_heuristic():
    problem = make_problem(n=10, d=2, norm=NORM)
    linear = LinearKernel().double().requires_grad_(False)
    state = KernelRegression(problem.X, problem.Y, linear, 0.5)
    cases = [
        (AbbasiYadkoriUCB(problem.model, norm_bound=NORM), SQUARE),
        (MartingaleMixtureUCB(state, norm_bound=20.0), SQUARE),
    ]
    for acqf, box in cases:
        certificate = regret_certificate(acqf, bounds=box)
        assert not certificate.rigorous
        assert not certificate.certified
        assert math.isinf(certificate.resolution)
        assert str(certificate).startswith("heuristic: the maximum over the domain comes")
        assert not CertifiedGapStopping(1e6, bounds=box)(acqf).stop


def test_input_transforms_and_units():
    r"""The same problem on [0, 10] with Normalize, outcomes in thousands."""
    problem = make_problem(n=12, d=1, norm=NORM, seed=2)
    acqf = bound(problem)
    plain = regret_certificate(acqf, bounds=LINE)
    transform = Normalize(d=1, bounds=10.0 * LINE)
    model = frozen_model(
        10.0 * problem.X, problem.Y, problem.kernel, 0.1, input_transform=transform
    )
    scaled = regret_certificate(
        MartingaleMixtureUCB(model, norm_bound=NORM), bounds=10.0 * LINE
    )
    assert scaled.gap == pytest.approx(plain.gap, rel=1e-6)
    found = torch.stack([plain.recommended, scaled.recommended / 10.0])
    lower, _ = acqf.bounds(found)
    assert_close(lower[1], lower[0], rtol=SEARCHED, atol=SEARCHED)


@given(seed=st.integers(0, 100), name=st.sampled_from(KERNELS))
def test_no_function_changes_more_than_the_kernel_metric(seed, name):
    problem = make_problem(n=3, d=2, kernel=name, norm=NORM, seed=seed)
    change = largest_change(problem.state, NORM)
    centre, half = uniform(1, 2, seed), 0.3 * uniform(1, 2, seed + 1)
    inside = centre + half * (2.0 * uniform(50, 2, seed + 2) - 1.0)
    largest = (problem.function(inside) - problem.function(centre)).abs().max()
    assert float(largest) <= float(change(centre, half)) + ORDER


class TestPriorMean:
    r"""A prior mean that changes within a cell counts as well as the kernel."""

    BUMP = 10.0

    def certificate(self, mean):
        X = uniform(10, 1, 1)
        kernel = frozen_kernel("rbf", 0.5)
        state = KernelRegression(X, mean(X).detach(), kernel, 0.1, mean_module=mean)
        acqf = MartingaleMixtureUCB(state, norm_bound=0.1)
        return regret_certificate(acqf, bounds=LINE, recommended=LINE[:1])

    def test_a_known_bump_is_not_overlooked(self):
        r"""Between all points that are looked at, a peak a thousand times the gap."""
        bump = self.BUMP

        class Bump(Mean):
            def forward(self, x):
                return bump * torch.exp(-(((x[..., 0] - 0.12345) / 1e-6) ** 2))

        certificate = self.certificate(Bump())
        assert certificate.gap < bump  # it was not seen,
        assert not certificate.rigorous  # and that is said
        assert not certificate.certified

    @pytest.mark.parametrize("slope", [3.0, -1000.0])
    def test_a_slope_is_bounded(self, slope):
        mean = LinearMean(1).double().requires_grad_(False)
        mean.weights.fill_(slope)
        certificate = self.certificate(mean)
        assert certificate.certified
        # The mean alone rises by the slope over the box, or falls from its recommended end.
        assert certificate.gap >= max(slope, 0.0)
        assert certificate.gap <= max(slope, 0.0) * 1.05 + 0.25

    def test_a_slope_counts_from_the_best_end(self):
        r"""Without the mean's part, a cell next to the optimum would be cut off."""
        mean = LinearMean(1).double().requires_grad_(False)
        mean.weights.fill_(1000.0)
        X = uniform(10, 1, 1)
        state = KernelRegression(
            X, mean(X).detach(), frozen_kernel("rbf", 0.5), 0.1, mean_module=mean
        )
        acqf = MartingaleMixtureUCB(state, norm_bound=0.1)
        middle = torch.tensor([[0.4996]], dtype=torch.float64)
        certificate = regret_certificate(acqf, bounds=LINE, recommended=middle)
        assert certificate.gap >= 1000.0 * (1.0 - 0.4996)


def test_a_function_without_positive_values():
    r"""The relative tolerance has nothing to refer to; the bound reached is returned."""
    function = CellFunction(
        values=[lambda X: -1.0 - X.sum(-1)],
        changes=[lambda centres, halves: halves.sum(-1)],
        joined=lambda parts: parts[0],
    )
    search = Search(function, Region.of(SQUARE))
    result = largest_in_region(search, tolerance=0.05, max_evaluations=3000)
    assert result.value <= -1.0 <= result.upper
    assert result.upper < -0.9


def test_a_sketched_band_on_a_box():
    problem = make_problem(n=12, d=1, norm=NORM)
    state = NystromRegression(problem.X, problem.Y, problem.kernel, 0.1, problem.X[:6])
    acqf = SketchedMartingaleMixtureUCB(state, norm_bound=NORM)
    certificate = regret_certificate(acqf, bounds=LINE)
    assert certificate.certified
    assert certificate.gap >= regret_certificate(bound(problem), bounds=LINE).gap - ORDER


class TestStopping:
    def test_stops_when_the_gap_is_small(self):
        problem = make_problem(n=40, d=1, norm=1.0, noise_std=0.05)
        acqf = MartingaleMixtureUCB(problem.model, norm_bound=1.0)
        gap = regret_certificate(acqf, bounds=LINE).gap
        assert CertifiedGapStopping(1.1 * gap, bounds=LINE)(acqf).stop
        decision = CertifiedGapStopping(0.9 * gap, bounds=LINE)(acqf)
        assert not decision.stop
        assert "from the optimum" in decision.reason
        assert decision.certificate.gap == gap

    def test_the_point_to_certify_may_be_given(self):
        acqf, X = bound(make_problem(n=10, d=1, norm=NORM)), LINE[:1]
        decision = CertifiedGapStopping(1.0, bounds=LINE)(acqf, X)
        expected = regret_certificate(acqf, bounds=LINE, recommended=X)
        assert decision.certificate.gap == expected.gap
        assert torch.equal(decision.certificate.recommended, X[0])

    def test_estimates_need_consent_and_are_named(self):
        X = uniform(10, 1, 0)
        model = SingleTaskGP(X, X.sin())  # trainable and standardised
        acqf = MartingaleMixtureUCB(model, norm_bound=NORM, noise_std=0.1)
        with pytest.raises(UncertifiedError, match="kernel, mean estimated") as refusal:
            CertifiedGapStopping(1e3, bounds=LINE)(acqf)
        assert "requires_grad_(False)" in str(refusal.value)
        assert "allow_estimated=True" in str(refusal.value)
        decision = CertifiedGapStopping(1e3, bounds=LINE, allow_estimated=True)(acqf)
        assert decision.stop
        assert decision.reason.startswith("heuristic: kernel, mean estimated: at most")
        assert decision.certificate.rigorous
        assert not decision.certificate.certified

    @pytest.mark.parametrize("norm_bound", [None, "cautious"])
    def test_an_estimated_norm_needs_consent(self, norm_bound):
        problem = make_problem(n=10, d=1, norm=NORM)
        acqf = MartingaleMixtureUCB(problem.model, norm_bound=norm_bound)
        with pytest.raises(UncertifiedError, match="heuristic: norm estimated"):
            CertifiedGapStopping(1e3, bounds=LINE)(acqf)

    def test_not_on_a_bound_for_one_round(self):
        r"""The round in which it would stop is not fixed in advance."""
        problem = make_problem(n=10, d=1)
        acqf = WangDeFreitasUCB(problem.model, norm_bound=NORM, fixed_design=True)
        decision = CertifiedGapStopping(1e3, bounds=LINE)(acqf)
        assert not decision.stop
        assert "a round that the data choose" in decision.reason

    def test_not_on_data_that_contradict_the_assumptions(self):
        problem = make_problem(n=40, d=1, norm=5.0, noise_std=0.01)
        with pytest.warns(InconsistentConfidenceSetWarning):
            acqf = MartingaleMixtureUCB(problem.model, norm_bound=0.5)
        decision = CertifiedGapStopping(100.0, bounds=LINE)(acqf)
        assert not decision.stop
        assert decision.reason.startswith("no guarantee: norm violated")


def asked(ask, acqf, *candidates, recommended=None, fixed_features=None, **domain):
    r"""Each public way to a certificate: its gap, and its recommended point."""
    if ask is CertifiedGapStopping:
        rule = CertifiedGapStopping(1.0, *candidates, max_evaluations=500, **domain)
        return rule(acqf, recommended, fixed_features=fixed_features).certificate
    given = {"recommended": recommended, "fixed_features": fixed_features}
    found = ask(acqf, *candidates, max_evaluations=500, **given, **domain)
    return found.certificate if ask is optimum_report else found


@pytest.mark.parametrize("ask", [regret_certificate, optimum_report, CertifiedGapStopping])
class TestDomain:
    r"""What is asked about is what the user meant."""

    @pytest.mark.parametrize("box", [LINE, SQUARE])
    def test_two_rows_by_position_may_be_a_box_and_are_refused(self, ask, box):
        r"""Taken for two candidates, they left out the optimum and said "certified"."""
        acqf = bound(make_problem(n=10, d=box.shape[1], norm=NORM))
        with pytest.raises(ValueError, match=r"candidates= .* bounds="):
            asked(ask, acqf, box)
        two = asked(ask, acqf, candidates=box)
        three = asked(ask, acqf, torch.cat([box, box[:1]]))
        assert three.gap == pytest.approx(two.gap, abs=ORDER)

    @pytest.mark.parametrize(
        "domain",
        [
            {"candidates": uniform(9, 2, 1)},
            {"bounds": 0.8 * SQUARE},
            {"bounds": 0.8 * SQUARE, "fixed_features": {0: 0.5}},
            {"space": MixedSpace(SQUARE, discrete_dims={1: [0.0, 0.5, 1.0]})},
            {
                "space": MixedSpace(
                    SQUARE,
                    inequality_constraints=[
                        (torch.tensor([0, 1]), torch.tensor([-1.0, -1.0]), -1.0)
                    ],
                )
            },
        ],
    )
    def test_a_recommended_point_outside_it_is_refused(self, ask, domain):
        r"""What it is worth says nothing of the optimum there."""
        acqf = bound(make_problem(n=10, d=2, norm=NORM))
        outside = SQUARE.new_tensor([0.4, 0.9])
        with pytest.raises(ValueError, match="recommended lies outside the domain"):
            asked(ask, acqf, recommended=outside, **domain)

    def test_a_recommended_point_is_moved_into_the_context(self, ask):
        acqf, there = (
            bound(make_problem(n=10, d=2, norm=NORM)),
            {"fixed_features": {1: 0.25}},
        )
        elsewhere, moved = SQUARE.new_tensor([[0.4, 0.9], [0.4, 0.25]])
        space = MixedSpace(SQUARE, discrete_dims={1: [0.0, 0.25, 1.0]})
        for domain in (
            {"bounds": SQUARE},
            {"space": space},
            {"candidates": torch.stack([elsewhere, *SQUARE])},
        ):
            found = asked(ask, acqf, recommended=elsewhere, **domain, **there)
            own = asked(ask, acqf, recommended=moved, **domain, **there)
            assert torch.equal(found.recommended, moved)
            assert found.gap == own.gap

    def test_round_off_is_no_reason_to_refuse(self, ask):
        r"""Points in single precision, whose decimals are others."""
        acqf = bound(make_problem(n=10, d=2, norm=NORM))
        edge = SQUARE.new_tensor([0.1, 0.7])
        limits = [(torch.tensor([0, 1]), SQUARE.new_tensor([-1.0, -1.0]), -0.8)]
        space = MixedSpace(
            0.7 * SQUARE, discrete_dims={0: [0.1, 0.3]}, inequality_constraints=limits
        )
        for domain in ({"space": space}, {"candidates": torch.stack([*SQUARE, edge])}):
            given = torch.nextafter(edge.float(), SQUARE.new_ones(2).float())
            found = asked(ask, acqf, recommended=given, **domain)
            assert found.recommended.tolist() == pytest.approx(edge.tolist(), abs=1e-9)
            if "candidates" in domain:
                assert torch.equal(found.recommended, edge)


def test_bad_input():
    acqf = bound(make_problem(n=5, d=2))
    with pytest.raises(ValueError, match="either candidates or bounds"):
        regret_certificate(acqf)
    with pytest.raises(ValueError, match="either candidates or bounds"):
        regret_certificate(acqf, candidates=SQUARE, bounds=SQUARE)
    with pytest.raises(ValueError, match="either candidates or bounds"):
        CertifiedGapStopping(1.0)
    with pytest.raises(ValueError, match="gap must be a finite number above 0"):
        CertifiedGapStopping(0.0, bounds=SQUARE)
    with pytest.raises(BotorchTensorDimensionError, match="candidates must be `n x 2`"):
        regret_certificate(acqf, candidates=LINE)
    with pytest.raises(BotorchTensorDimensionError, match="bounds must be `2 x 2`"):
        regret_certificate(acqf, bounds=LINE)
    with pytest.raises(ValueError, match="below its upper limit"):
        regret_certificate(acqf, bounds=SQUARE.flip(0))
    with pytest.raises(InputDataError, match="There are no candidates"):
        regret_certificate(acqf, SQUARE[:0])
    with pytest.raises(InputDataError, match="bounds contains NaN"):
        regret_certificate(acqf, bounds=SQUARE * math.nan)
    with pytest.raises(BotorchTensorDimensionError, match="recommended must be `n x 2`"):
        regret_certificate(acqf, bounds=SQUARE, recommended=LINE[:1])
    for name in ("tolerance", "max_evaluations"):
        with pytest.raises(ValueError, match=name):
            regret_certificate(acqf, bounds=SQUARE, **{name: 0})
