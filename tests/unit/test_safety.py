r"""Safe sets: what is safe, and that no optimiser leaves them."""

from functools import partial

import pytest
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.optim import optimize_acqf, optimize_acqf_discrete
from torch.testing import assert_close

from kernelucb import (
    KernelRegression,
    MartingaleMixtureUCB,
    MixedSpace,
    SafeSet,
    level_set,
    optimize_acqf_safely,
)
from kernelucb.acquisition import outcome_bands
from kernelucb.certificates.spaces import as_domain
from kernelucb.data.kernel_family import fixed_kernel
from kernelucb.exceptions import InconsistentConfidenceSetWarning, UncertifiedError
from kernelucb.safety import ConstraintWidth, gen_safe_initial_conditions
from problems import Problem, float64, make_problem, normal, uniform
from tolerances import GRADCHECK

NORM, FLOOR = 2.0, 1e-9
FAST = {"num_restarts": 3, "raw_samples": 32}


def box(d):
    return torch.stack([torch.zeros(d), torch.ones(d)]).double()


def bound(problem, **options):
    return MartingaleMixtureUCB(problem.state, norm_bound=NORM, **options)


def seeded(d, seed=0, quantile=None):
    r"""Observations at one point only, the best of some, so that the safe set is thin.

    With a threshold that the seed clears, and most other points do not.
    """
    draft = make_problem(d=d, norm=NORM, noise_std=0.05, seed=seed, kernel="matern52")
    tried = uniform(500, d, seed)
    values = draft.function(tried)
    X = tried[values.argmax()].repeat(3, 1)
    Y = draft.function(X) + 0.05 * normal(3, seed)
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

    def test_margins_and_widths_are_in_prior_standard_deviations(self):
        r"""Otherwise constraints in different units would be compared wrongly."""
        problem = make_problem(d=2, seed=7, outputscale=9.0)
        small, large = bound(self.problem), bound(problem)
        both = SafeSet([small, large], [-0.3, 0.4], sides=[">=", "<="])
        (lower, upper), (low, high) = (each.bounds(self.X) for each in (small, large))
        margins = lower + 0.3, (0.4 - high) / 3.0
        assert_close(both.margins(self.X)[0], torch.stack(margins))
        assert_close(both.margin(self.X), torch.minimum(*margins))
        widths = torch.maximum(upper - lower, (high - low) / 3.0)
        assert_close(ConstraintWidth(both)(self.X.unsqueeze(-2)), widths)

    def test_known_points_are_safe_and_only_they(self):
        safe_set = SafeSet(bound(self.problem), 100.0, safe_points=self.X[:2])
        assert_close(safe_set.is_safe(self.X), torch.arange(len(self.X)) < 2)
        assert not safe_set.is_safe(self.X[:2] + 1e-12).any()
        assert (safe_set.margin(self.X[:2]) < 0).all()
        assert_close(safe_set.filter(self.X), self.X[:2])

    def test_says_the_limits_in_the_users_words(self):
        units = {"names": ["pressure", "pressure"], "units": {"pressure": "bar"}}
        band = bound(self.problem)
        safe_set = SafeSet([band, band], [-9.0, 9.0], sides=[">=", "<="], **units)
        said = "pressure is at least -9 bar and pressure is at most 9 bar"
        assert f"satisfies the constraints ({said}) in" in str(safe_set.assumptions)
        limits = safe_set.with_bands([band, band])
        assert said in str(limits.assumptions)
        assert said in level_set(limits, bounds=box(2), max_evaluations=10).sentence

    def test_gradients(self):
        safe_set = SafeSet([bound(self.problem), bound(make_problem(d=2))], [0.1, -1.0])
        for margin, intra_point in safe_set.nonlinear_inequality_constraints:
            assert intra_point
            x = self.X[3].clone().requires_grad_()
            assert margin(x).shape == ()
            assert torch.autograd.gradcheck(margin, (x,), **GRADCHECK)


class TestBandsOfSeveralOutcomes:
    def make(self, norm_bound=(2.0, 3.0), **options):
        models = [make_problem(d=2).model, make_problem(d=2, seed=9).model]
        bands = outcome_bands(models, norm_bound=norm_bound, delta=0.1, num_bounds=3)
        return SafeSet(bands, [-5.0, 5.0], sides=[">=", "<="], **options)

    def test_share_delta(self):
        assumptions = self.make(safe_points=uniform(4, 2, 0)).assumptions
        assert assumptions.delta == pytest.approx(0.2 / 3.0)
        assert assumptions.certified
        assert assumptions["constraint 2: norm"].statement.endswith("at most 3")
        assert "the 4 safe points" in assumptions["safe points"].statement

    @pytest.mark.parametrize("allow", [False, True])
    def test_a_violated_band_is_refused_whatever_is_allowed(self, allow):
        with (
            pytest.warns(InconsistentConfidenceSetWarning),
            pytest.raises(UncertifiedError, match="no guarantee: norm violated"),
        ):
            self.make(norm_bound=1e-3, allow_estimated=allow)

    def test_estimated_bands_are_allowed_by_name(self):
        with pytest.raises(UncertifiedError, match="heuristic: norm estimated"):
            self.make(norm_bound=None)
        assumptions = self.make(norm_bound=None, allow_estimated=True).assumptions
        assert str(assumptions).startswith("heuristic: norm of constraint 1")


class TestOptimisation:
    @pytest.mark.representatives("2-1")
    @pytest.mark.parametrize(("d", "seed"), [(1, 0), (2, 1), (5, 2)])
    def test_from_one_seed(self, d, seed):
        problem, acqf, safe_set = seeded(d, seed, quantile=0.5)
        x, value = optimize_acqf_safely(acqf, safe_set, box(d), **FAST)
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
        assert (x.shape, values.shape) == ((2, 2), (2,))
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

    # A safe search in four dimensions from start to end: a second.
    @pytest.mark.representatives("3")
    @pytest.mark.parametrize("column", [0, 1, 3, -2])
    def test_a_context_may_be_any_column(self, column):
        r"""The search is as good, wherever the columns stand."""
        order = [1, 2, 3]
        order.insert(column % 4, 0)
        X, kernel = torch.rand(40, 4, dtype=torch.float64), fixed_kernel("rbf", 1.5, 1.0)
        good = X @ float64([0.25, 0.5, 0.75, 1.0])
        heat = X @ float64([0.5, 1.0, 0.0, 0.5]) + X[:, 2] ** 2
        states = (KernelRegression(X[:, order], y, kernel, 0.05) for y in (good, heat))
        acqf, limit = (MartingaleMixtureUCB(each, norm_bound=20.0) for each in states)
        safe_set, fixed = SafeSet(limit, 1.8, sides="<="), {column: 0.8}
        x, value = optimize_acqf_safely(acqf, safe_set, box(4), fixed_features=fixed)
        assert bool(safe_set.is_safe(x))  # alone, at the edge
        assert float(x[0, column]) == 0.8
        assert float(value) == pytest.approx(2.1113, abs=1e-3)

    def test_a_context_may_lie_outside_the_limits(self):
        r"""As BoTorch and the guard take it: the limits are those of a search elsewhere."""
        problem = make_problem(n=15, d=2)
        safe_set = SafeSet(bound(problem), -5.0, safe_points=problem.X[:3])
        limits, context = box(2), {1: float(problem.X[0, 1])}
        limits[1, 1] = 0.5 * context[1]
        given = {"fixed_features": context} | FAST
        point, _ = optimize_acqf_safely(bound(problem), safe_set, limits, **given)
        assert float(point[0, 1]) == context[1]

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

    def test_starts_are_inside_a_set_that_sobol_points_miss(self):
        _, acqf, safe_set = seeded(5, seed=2, quantile=0.9)
        assert safe_set.is_safe(uniform(256, 5, 1)).sum() == 0
        options = {"num_restarts": 6, "raw_samples": 128, "safe_set": safe_set}
        starts = gen_safe_initial_conditions(acqf, box(5), **options)
        assert bool((safe_set.margin(starts) >= 0).all())
        assert torch.unique(starts, dim=0).shape == (6, 1, 5)


class TestRepair:
    @pytest.mark.representatives("1e-06")
    @pytest.mark.parametrize("excess", [1e-6, 1e-3])
    def test_goes_back_no_further_than_twice(self, excess):
        problem, _, safe_set = seeded(1)
        line = torch.linspace(0, 1, 20_001, dtype=torch.float64).unsqueeze(-1)
        below = ~safe_set.is_safe(line) & (line[:, 0] < float(problem.X[0]))
        x = line[below][-1:] - excess
        repaired = safe_set.repair(x)
        assert bool(safe_set.is_safe(repaired))
        # The spacing of the line, 5e-5, is what its last point below is uncertain by.
        assert float(repaired - x) <= 2.0 * (excess + 5e-5)

    def test_leaves_safe_points_alone(self):
        problem, _, safe_set = seeded(2)
        X = torch.cat([problem.X[:1], uniform(5, 2, 3)])
        repaired, safe = safe_set.repair(X), safe_set.is_safe(X)
        assert not safe.all()
        assert_close(repaired[safe], X[safe], rtol=0.0, atol=0.0)
        assert bool(safe_set.is_safe(repaired).all())


LEVELS, CODES = [0.0, 0.3, 0.6, 1.0], ([1.0, 0.0], [0.0, 1.0])


def space_of(discrete=None, **options):
    listed = {0: LEVELS} | (discrete or {})
    return MixedSpace(box(4), discrete_dims=listed, one_hot=[[1, 2]], **options)


class TestMixedSpaces:
    FINITE = space_of({3: [0.0, 0.4, 0.8]})

    @classmethod
    def setting(cls):
        r"""A bound, and a safe set by its own lower side: half of the listed points."""
        problem = make_problem(n=30, d=4, norm=NORM, seed=3)
        acqf = bound(problem)
        level = float(acqf.bounds(cls.FINITE.region().points)[0].quantile(0.5))
        return acqf, SafeSet(acqf, level, safe_points=problem.X[:1])

    def test_listed_points_are_combined_as_a_finite_space_of_them_is(self):
        whole = as_domain(space=self.FINITE, fixed_features={3: 0.4}).combined()
        points = self.FINITE.region().points
        listed = as_domain(candidates=points, fixed_features={3: 0.4}).combined()
        assert torch.equal(listed.bounds, whole.bounds)
        rows = [{*(tuple(row.items()) for row in each.values)} for each in (listed, whole)]
        assert rows[0] == rows[1]
        assert len(rows[0]) == len(listed.values) == 8

    @pytest.mark.parametrize("fixed", [None, {2: 1.0}, {1: 0.0, 0: 0.3}])
    def test_a_finite_space_is_its_enumeration(self, fixed):
        acqf, safe_set = self.setting()
        points = self.FINITE.region(fixed).points
        safe = points[safe_set.margin(points) >= 0.0]
        assert 0 < len(safe) < len(points) or fixed is not None
        best, index = acqf(safe.unsqueeze(-2)).max(0)
        given = {"space": self.FINITE, "fixed_features": fixed} | FAST
        x, value = optimize_acqf_safely(acqf, safe_set, **given)
        assert torch.equal(x, safe[index].unsqueeze(0))
        assert float(value) == pytest.approx(float(best), abs=FLOOR)
        several, _ = optimize_acqf_safely(acqf, safe_set, q=3, **given)
        assert {*map(tuple, several.tolist())} <= {*map(tuple, safe.tolist())}

    @pytest.mark.slow
    def test_a_mixed_space_is_at_least_a_grid_of_it(self):
        acqf, safe_set = self.setting()
        options = {"num_restarts": 4, "raw_samples": 64}
        x, value = optimize_acqf_safely(acqf, safe_set, space=space_of(), **options)
        assert bool(safe_set.is_safe(x).all())
        assert float(x[0, 0]) in LEVELS
        assert x[0, 1:3].tolist() in CODES
        axis = torch.linspace(0.0, 1.0, 201).tolist()
        grid = float64([[a, *code, b] for a in LEVELS for code in CODES for b in axis])
        grid = safe_set.filter(grid)
        # Half a cell of the grid times slopes of the bound below 10.
        assert float(value) >= float(acqf(grid.unsqueeze(-2)).max()) - 0.025
        assert float(value) == pytest.approx(float(acqf(x)), abs=FLOOR)

    def test_constraints_of_the_space_and_of_the_search(self):
        acqf, safe_set = self.setting()
        # x0 + x3 <= 0.9 of the space, x3 >= 0.2 of the search.
        pair = (torch.tensor([0, 3]), float64([-1.0, -1.0]), -0.9)
        single = (torch.tensor([3]), float64([1.0]), 0.2)
        space = space_of(inequality_constraints=[pair])
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
        x, _ = optimize_acqf_safely(acqf, safe_set, space=space_of(), **FAST)
        assert torch.equal(x, known[1:])
