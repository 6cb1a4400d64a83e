r"""Safe sets: what is safe, and that no optimiser leaves them."""

from functools import partial

import pytest
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.models import ModelListGP, SingleTaskGP
from botorch.optim import optimize_acqf, optimize_acqf_discrete
from gpytorch.kernels import ScaleKernel
from torch.testing import assert_close

from kernelucb import (
    KernelBandit,
    KernelRegression,
    MartingaleMixtureUCB,
    MixedSpace,
    SafeSet,
    ScalarizedUCB,
    optimize_acqf_safely,
)
from kernelucb.confidence.band import band_of
from kernelucb.data.kernel_family import fixed_kernel
from kernelucb.exceptions import InconsistentConfidenceSetWarning, UncertifiedError
from kernelucb.safety import ConstraintWidth, gen_safe_initial_conditions
from problems import Problem, float64, make_problem, normal, uniform
from tolerances import GRADCHECK, REARRANGED

NORM, FLOOR = 2.0, 1e-9
FAST = {"num_restarts": 3, "raw_samples": 32}


def box(d):
    return torch.stack([torch.zeros(d), torch.ones(d)]).double()


def bound(problem, **options):
    return MartingaleMixtureUCB(problem.state, norm_bound=NORM, **options)


def seeded(d, seed=0, repeats=3, quantile=None):
    r"""Observations at one point only, the best of some, so that the safe set is thin.

    With a threshold that the seed clears, and most other points do not.
    """
    draft = make_problem(d=d, norm=NORM, noise_std=0.05, seed=seed, kernel="matern52")
    tried = uniform(500, d, seed)
    values = draft.function(tried)
    X = tried[values.argmax()].repeat(repeats, 1)
    Y = draft.function(X) + 0.05 * normal(repeats, seed)
    level = values.max() - 0.5 if quantile is None else values.quantile(quantile)
    problem = Problem(draft.function, X, Y, 0.05, tried)
    acqf = bound(problem)
    return problem, acqf, SafeSet(acqf, float(level), safe_points=X[:1])


class TestWhatIsSafe:
    problem = make_problem(n=8, d=2)
    X = uniform(40, 2, 5)

    @pytest.mark.parametrize("side", [">=", "<="])
    def test_by_the_band_itself_whatever_is_pending(self, side):
        acqf = bound(self.problem)
        lower, upper = acqf.bounds(self.X)
        threshold = float((lower if side == ">=" else upper).quantile(0.4))
        safe_set = SafeSet(acqf, threshold, sides=side)
        acqf.set_X_pending(self.X[:3])
        expected = lower >= threshold if side == ">=" else upper <= threshold
        assert 0 < expected.sum() < len(self.X)
        assert_close(safe_set.is_safe(self.X), expected)
        single = self.X.float()  # judged in double precision
        assert_close(safe_set.margin(single), safe_set.margin(single.double()))

    def test_the_tightest_constraint_decides(self):
        other = make_problem(n=8, d=2, seed=7)
        bands, levels = [bound(self.problem), bound(other)], [-0.3, 0.4]
        both = SafeSet(bands, levels, sides=[">=", "<="])
        single = [
            SafeSet(bands[0], levels[0]).margin(self.X),
            SafeSet(bands[1], levels[1], sides="<=").margin(self.X),
        ]
        assert_close(both.margin(self.X), torch.minimum(*single))
        assert (single[0] < single[1]).any()
        assert (single[1] < single[0]).any()
        sides = torch.stack([torch.stack(band.bounds(self.X)) for band in bands])
        values = ConstraintWidth(both)(self.X.unsqueeze(-2))
        assert_close(values, sides.diff(dim=1).amax(0)[0])  # the kernels' variance is one

    def test_known_points_are_safe_and_only_they(self):
        known = self.X[:2]
        safe_set = SafeSet(bound(self.problem), 100.0, safe_points=known)
        assert_close(safe_set.is_safe(self.X), torch.arange(len(self.X)) < 2)
        assert not safe_set.is_safe(known + 1e-12).any()
        assert (safe_set.margin(known) < 0).all()
        assert_close(safe_set.filter(self.X), known)

    def test_gradients(self):
        safe_set = SafeSet([bound(self.problem), bound(make_problem(d=2))], [0.1, -1.0])
        for margin, intra_point in safe_set.nonlinear_inequality_constraints:
            assert intra_point
            x = self.X[3].clone().requires_grad_()
            assert margin(x).shape == ()
            assert torch.autograd.gradcheck(margin, (x,), **GRADCHECK)


def bands_of(scale):
    r"""Each kind of band on the same problem, with outcomes in another unit."""
    problem = make_problem(n=12, d=2, norm=NORM)
    kernel = ScaleKernel(problem.kernel).double().requires_grad_(False)
    kernel.outputscale = scale**2
    X, Y, noise = problem.X, scale * problem.Y, scale * problem.noise_std
    norm = {"norm_bound": NORM}  # of the scaled kernel
    bandit = KernelBandit(kernel, noise_std=noise, **norm)
    for x, y in zip(X, Y, strict=True):
        bandit.observe(x, y)
    exact = MartingaleMixtureUCB(KernelRegression(X, Y, kernel, noise), **norm)
    total = ScalarizedUCB([exact, exact], [1.0, 0.5])
    return {"exact": exact, "bandit": bandit, "sum": total}


def test_margins_do_not_depend_on_the_unit_of_the_outcome():
    r"""Otherwise constraints in different units would be compared wrongly."""
    X, small, large = uniform(20, 2, 3), bands_of(1.0), bands_of(1000.0)
    for kind in small:
        margins = [
            SafeSet(bands[kind], 0.2 * scale).margin(X)
            for bands, scale in ((small, 1.0), (large, 1000.0))
        ]
        assert_close(margins[1], margins[0], rtol=1e-6, atol=1e-6)
        units = [band_of("band", each[kind]).prior_std for each in (small, large)]
        assert_close(margins[1] * units[1], large[kind].bounds(X)[0] - 200.0)
        assert units[1] == pytest.approx(1000.0 * units[0])
        assert float(margins[0].std()) > 0.01


class TestFromModels:
    def make(self, **options):
        first, second = make_problem(d=2), make_problem(d=2, seed=9)
        models = ModelListGP(first.model, second.model)
        arguments = {"norm_bound": [2.0, 3.0], "delta": 0.1} | options
        return SafeSet.from_models(models, [-5.0, 5.0], sides=[">=", "<="], **arguments)

    def test_shares_delta(self):
        safe_set = self.make(safe_points=uniform(4, 2, 0))
        first, second = (constraint.band for constraint in safe_set.constraints)
        assert (first.delta, second.delta) == (0.05, 0.05)
        assert_close(first.norm_bounds[0], 2.0, rtol=REARRANGED, atol=0.0)
        assert_close(second.norm_bounds[0], 3.0, rtol=REARRANGED, atol=0.0)
        assumptions = safe_set.assumptions
        assert assumptions.delta == pytest.approx(0.1)
        assert "with probability 0.9" in assumptions.guarantee
        assert assumptions.anytime
        assert assumptions.certified
        assert assumptions["constraint 2: norm"].statement.endswith("at most 3")
        assert "the 4 safe points" in assumptions["safe points"].statement
        with_objective = self.make(num_bounds=3)
        assert [c.band.delta for c in with_objective.constraints] == [0.1 / 3, 0.1 / 3]
        assert "with probability 0.933" in with_objective.assumptions.guarantee

    @pytest.mark.parametrize("allow", [False, True])
    def test_a_violated_band_is_refused_whatever_is_allowed(self, allow):
        with (
            pytest.warns(InconsistentConfidenceSetWarning),
            pytest.raises(UncertifiedError, match="no guarantee: norm violated"),
        ):
            self.make(norm_bound=1e-3, allow_estimated=allow)

    @pytest.mark.filterwarnings("ignore:Data .* is not standardized")
    def test_models_of_several_columns(self):
        X = uniform(6, 2, 0)
        Y = torch.stack([X.sum(-1), X.prod(-1)], -1)
        model = SingleTaskGP(X, Y, torch.full_like(Y, 0.01), outcome_transform=None)
        with pytest.raises(UncertifiedError, match="heuristic: kernel, mean estimated"):
            SafeSet.from_models(model, norm_bound=20.0)
        safe_set = SafeSet.from_models(model, norm_bound=20.0, allow_estimated=True)
        assert str(safe_set.assumptions).startswith("heuristic: kernel of constraint 1")


class TestOptimisation:
    @pytest.mark.parametrize(("d", "seed"), [(1, 0), (2, 1), (5, 2)])
    def test_from_one_seed(self, d, seed):
        problem, acqf, safe_set = seeded(d, seed, quantile=0.5)
        x, value = optimize_acqf_safely(acqf, safe_set, box(d), **FAST)
        assert x.shape == (1, d)
        assert bool(safe_set.is_safe(x))
        assert bool(((x >= 0) & (x <= 1)).all())
        assert_close(acqf(x), value.reshape(1))
        # It left the seed, whose upper bound is the smallest around.
        assert float(value) > float(acqf(problem.X[:1])) + 1e-3

    def test_as_good_as_a_fine_grid(self):
        _, acqf, safe_set = seeded(1)
        grid = torch.linspace(0, 1, 5001, dtype=torch.float64).unsqueeze(-1)
        _, best = optimize_acqf_discrete(acqf, q=1, choices=safe_set.filter(grid))
        _, value = optimize_acqf_safely(acqf, safe_set, box(1), num_restarts=4)
        # Halves of a grid cell, 1e-4, times slopes of the bound below 20.
        assert float(value) > float(best) - 2e-3

    def test_several_points_and_the_pending_ones(self):
        problem, acqf, safe_set = seeded(2)
        acqf.set_X_pending(problem.X[:1])
        x, values = optimize_acqf_safely(acqf, safe_set, box(2), q=2, **FAST)
        assert x.shape == (2, 2)
        assert values.shape == (2,)
        assert bool(safe_set.is_safe(x).all())
        assert_close(acqf.X_pending, problem.X[:1])
        assert (x[0] - x[1]).abs().max() > 1e-3

    def test_before_the_bands_show_anything_the_best_known_point_is_returned(self):
        acqf, known = bound(make_problem(d=2, n=4)), uniform(3, 2, 4)
        safe_set = SafeSet(acqf, 50.0, safe_points=known)
        x, value = optimize_acqf_safely(acqf, safe_set, box(2), **FAST)
        values = acqf(known.unsqueeze(-2))
        assert_close(x[0], known[values.argmax()])
        assert_close(value, values.max())

    @pytest.mark.parametrize("columns", [(0, 2), (-1, 0)])
    def test_fixed_features_in_any_order(self, columns):
        problem, acqf, safe_set = seeded(3, seed=4, repeats=6)
        fixed = {column: float(problem.X[0, column]) for column in columns}
        x, value = optimize_acqf_safely(
            acqf, safe_set, box(3), fixed_features=fixed, **FAST
        )
        assert torch.equal(x[0, ::2], problem.X[0, ::2])
        assert float(value) > float(acqf(problem.X[:1]))  # a search, not the known point

    @pytest.mark.parametrize("column", [0, 1, 3, -2])
    def test_a_context_may_be_any_column(self, column):
        r"""The search is as good, wherever the columns stand."""
        order = list(range(1, 4))
        order.insert(column % 4, 0)
        X, kernel = torch.rand(40, 4, dtype=torch.float64), fixed_kernel("rbf", 1.5, 1.0)
        good = X @ float64([0.25, 0.5, 0.75, 1.0])
        heat = X @ float64([0.5, 1.0, 0.0, 0.5]) + X[:, 2] ** 2
        acqf, limit = (
            MartingaleMixtureUCB(
                KernelRegression(X[:, order], y, kernel, 0.05), norm_bound=20.0
            )
            for y in (good, heat)
        )
        safe_set, fixed = SafeSet(limit, 1.8, sides="<="), {column: 0.8}
        x, value = optimize_acqf_safely(acqf, safe_set, box(4), fixed_features=fixed)
        assert bool(safe_set.is_safe(x))  # alone, at the edge
        assert float(x[0, column]) == 0.8
        assert float(value) == pytest.approx(2.1113, abs=1e-3)

    def test_a_context_may_lie_outside_the_limits(self):
        r"""As BoTorch and the guard take it: the limits are those of a search elsewhere."""
        X = uniform(15, 2, seed=1)
        state = KernelRegression(X, X.sum(-1), fixed_kernel("rbf", 0.5, 1.0), 0.1)
        band = MartingaleMixtureUCB(state, norm_bound=8.0)
        safe_set, limits = SafeSet(band, -5.0, safe_points=X[:3]), box(2)
        limits[1, 1], context = 0.05, {1: float(X[0, 1])}
        point, _ = optimize_acqf_safely(band, safe_set, limits, fixed_features=context)
        assert float(point[0, 1]) == context[1] > 0.05

    def test_the_pieces_fit_optimize_acqf_and_other_acquisition_functions(self):
        problem, acqf, safe_set = seeded(2)
        x, _ = optimize_acqf(
            acqf,
            box(2),
            q=1,
            nonlinear_inequality_constraints=safe_set.nonlinear_inequality_constraints,
            ic_generator=partial(gen_safe_initial_conditions, safe_set=safe_set),
            post_processing_func=safe_set.repair,
            **FAST,
        )
        assert bool(safe_set.is_safe(x))
        improvement = LogExpectedImprovement(problem.model, float(problem.Y.max()))
        for other in (improvement, ConstraintWidth(safe_set)):
            x, value = optimize_acqf_safely(other, safe_set, box(2), **FAST)
            assert bool(safe_set.is_safe(x))
            assert float(value) > float(other(problem.X[:1].unsqueeze(0)))


class TestStartsAndRepair:
    def test_starts_are_inside_a_set_that_sobol_points_miss(self):
        _, acqf, safe_set = seeded(5, seed=2, quantile=0.9)
        assert safe_set.is_safe(uniform(256, 5, 1)).sum() == 0
        options = {"num_restarts": 6, "raw_samples": 128, "safe_set": safe_set}
        starts = gen_safe_initial_conditions(acqf, box(5), **options)
        assert starts.shape == (6, 1, 5)
        assert bool((safe_set.margin(starts) >= 0).all())
        assert len(torch.unique(starts, dim=0)) == 6

    def test_repair_goes_back_no_further_than_twice(self):
        problem, _, safe_set = seeded(1)
        line = torch.linspace(0, 1, 20_001, dtype=torch.float64).unsqueeze(-1)
        anchor = float(problem.X[0])
        inside = safe_set.is_safe(line)
        beyond = line[~inside & (line[:, 0] < anchor)][-1, 0]
        for excess in (1e-6, 1e-3):
            x = (beyond - excess).reshape(1, 1)
            repaired = safe_set.repair(x)
            assert bool(safe_set.is_safe(repaired))
            # The spacing of the line, 5e-5, is what `beyond` is uncertain by.
            assert float(repaired - x) <= 2.0 * (excess + 5e-5)

    def test_repair_leaves_safe_points_alone_and_needs_an_anchor(self):
        problem, _, safe_set = seeded(2)
        X = torch.cat([problem.X[:1], uniform(5, 2, 3)])
        repaired, safe = safe_set.repair(X), safe_set.is_safe(X)
        assert not safe.all()
        assert_close(repaired[safe], X[safe], rtol=0.0, atol=0.0)
        assert bool(safe_set.is_safe(repaired).all())


CUBE = torch.tensor([[0.0] * 4, [1.0] * 4], dtype=torch.float64)
LEVELS, CODES = [0.0, 0.3, 0.6, 1.0], ([1.0, 0.0], [0.0, 1.0])


def finite(**options):
    listed = {0: LEVELS, 3: [0.0, 0.4, 0.8]}
    return MixedSpace(CUBE, discrete_dims=listed, one_hot=[[1, 2]], **options)


def mixed(**options):
    return MixedSpace(CUBE, discrete_dims={0: LEVELS}, one_hot=[[1, 2]], **options)


def rows_of(per_side):
    axis = torch.linspace(0.0, 1.0, per_side).tolist()
    return float64([[a, *code, b] for a in LEVELS for code in CODES for b in axis])


class TestMixedSpaces:
    @staticmethod
    def setting(seed=3):
        r"""A bound, and a safe set by its own lower side: half of the listed points."""
        problem = make_problem(n=30, d=4, norm=NORM, seed=seed)
        acqf = bound(problem)
        level = float(acqf.bounds(finite().region().points)[0].quantile(0.5))
        return acqf, SafeSet(acqf, level, safe_points=problem.X[:1])

    @pytest.mark.parametrize("fixed", [None, {2: 1.0}, {1: 0.0, 0: 0.3}])
    def test_a_finite_space_is_its_enumeration(self, fixed):
        acqf, safe_set = self.setting()
        points = finite().region(fixed).points
        safe = points[safe_set.margin(points) >= 0.0]
        assert len(safe) > 0
        assert len(safe) < len(points) or fixed is not None
        best, index = acqf(safe.unsqueeze(-2)).max(0)
        given = {"space": finite(), "fixed_features": fixed} | FAST
        x, value = optimize_acqf_safely(acqf, safe_set, **given)
        assert torch.equal(x, safe[index].unsqueeze(0))
        assert float(value) == pytest.approx(float(best), abs=FLOOR)
        several, values = optimize_acqf_safely(acqf, safe_set, q=3, **given)
        assert (several.shape, values.shape) == ((3, 4), (3,))
        assert bool(safe_set.is_safe(several).all())
        assert {float(each) for each in several[:, 0]} <= set(LEVELS)
        assert acqf.X_pending is None

    @pytest.mark.slow
    def test_a_mixed_space_is_at_least_a_grid_of_it(self):
        acqf, safe_set = self.setting()
        x, value = optimize_acqf_safely(
            acqf, safe_set, space=mixed(), num_restarts=4, raw_samples=64
        )
        assert bool(safe_set.is_safe(x).all())
        assert float(x[0, 0]) in LEVELS
        assert x[0, 1:3].tolist() in CODES
        assert 0.0 <= float(x[0, 3]) <= 1.0
        grid = safe_set.filter(rows_of(201))
        # Half a cell of the grid times slopes of the bound below 10.
        assert float(value) >= float(acqf(grid.unsqueeze(-2)).max()) - 0.025
        assert float(value) == pytest.approx(float(acqf(x)), abs=FLOOR)

    def test_constraints_of_the_space_and_of_the_search(self):
        acqf, safe_set = self.setting()
        # x0 + x3 <= 0.9 of the space, x3 >= 0.2 of the search.
        pair = (torch.tensor([0, 3]), torch.tensor([-1.0, -1.0]).double(), -0.9)
        single = (torch.tensor([3]), torch.tensor([1.0]).double(), 0.2)
        space = mixed(inequality_constraints=[pair])
        rows = space.fixed_features_list()  # what is left of the listed combinations
        assert rows == [{0: a, 1: b, 2: c} for a in LEVELS[:3] for b, c in CODES]
        in_context = mixed().fixed_features_list({3: 0.25, 1: 1.0})
        assert in_context == [{0: level, 1: 1.0, 2: 0.0, 3: 0.25} for level in LEVELS]
        assert MixedSpace(CUBE).fixed_features_list() == [{}]
        given = {"inequality_constraints": [single], "fixed_features": {1: 1.0}}
        x, _ = optimize_acqf_safely(acqf, safe_set, space=space, **given, **FAST)
        assert bool(safe_set.is_safe(x).all())
        assert float(x[0, 0] + x[0, 3]) <= 0.9 + FLOOR
        assert float(x[0, 3]) >= 0.2 - FLOOR
        assert x[0, 1:3].tolist() == [1.0, 0.0]

    def test_known_points_count_in_their_combination(self):
        r"""Before the bands show anything, the known point of the space is returned."""
        acqf, _ = self.setting()
        known = float64([[0.31, 0.5, 1.0, 0.37], [0.3, 0.0, 1.0, 0.37]])
        safe_set = SafeSet(acqf, 50.0, safe_points=known)
        x, _ = optimize_acqf_safely(acqf, safe_set, space=mixed(), **FAST)
        assert torch.equal(x, known[1:])
