r"""Safe sets: what is safe, and that no optimiser leaves them."""

from functools import partial

import pytest
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.exceptions import (
    BotorchTensorDimensionError,
    InputDataError,
    UnsupportedError,
)
from botorch.models import ModelListGP, SingleTaskGP
from botorch.optim import optimize_acqf, optimize_acqf_discrete
from gpytorch.kernels import ScaleKernel
from torch.testing import assert_close

from kernelucb import (
    BKBUCB,
    AbbasiYadkoriUCB,
    KernelBandit,
    KernelRegression,
    MartingaleMixtureUCB,
    NystromRegression,
    SafeSet,
    ScalarizedUCB,
    SketchedMartingaleMixtureUCB,
    optimize_acqf_safely,
)
from kernelucb.exceptions import (
    InconsistentConfidenceSetWarning,
    NoSafePointError,
    UncertifiedError,
)
from kernelucb.models import BKBModel
from kernelucb.safety import ConstraintWidth, gen_safe_initial_conditions
from problems import Problem, float64, make_problem, normal, uniform
from tolerances import GRADCHECK, REARRANGED, SCALE

NORM = 2.0
FAST = {"num_restarts": 3, "raw_samples": 32}


def box(d):
    return torch.stack([torch.zeros(d), torch.ones(d)]).double()


def seeded_problem(d, seed=0, repeats=3, noise_std=0.05):
    r"""Observations at one point only, the best of some, so that the safe set is thin."""
    draft = make_problem(d=d, norm=NORM, noise_std=noise_std, seed=seed, kernel="matern52")
    tried = uniform(500, d, seed)
    best = tried[draft.function(tried).argmax()].unsqueeze(0)
    X = best.repeat(repeats, 1)
    Y = draft.function(X) + noise_std * normal(repeats, seed)
    return Problem(draft.function, X, Y, noise_std, tried)


def level(problem):
    r"""A threshold that the seed clears, and most other points do not."""
    return float(problem.function(problem.X[:1])) - 0.5


def bound(problem, **options):
    return MartingaleMixtureUCB(problem.state, norm_bound=NORM, **options)


class TestWhatIsSafe:
    problem = make_problem(n=8, d=2)
    X = uniform(40, 2, 5)

    @pytest.mark.parametrize("side", [">=", "<="])
    def test_by_the_band_itself(self, side):
        acqf = bound(self.problem)
        lower, upper = acqf.bounds(self.X)
        threshold = float((lower if side == ">=" else upper).quantile(0.4))
        safe_set = SafeSet(acqf, threshold, sides=side)
        expected = lower >= threshold if side == ">=" else upper <= threshold
        assert 0 < expected.sum() < len(self.X)
        assert_close(safe_set.is_safe(self.X), expected)

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

    def test_margins_do_not_depend_on_units(self):
        factor, problem = 1e6, self.problem
        kernel = ScaleKernel(problem.kernel).double()
        kernel.outputscale = float64(factor**2)
        state = KernelRegression(
            problem.X,
            factor * problem.Y,
            kernel.requires_grad_(False),
            factor * problem.noise_std,
        )
        plain = SafeSet(AbbasiYadkoriUCB(problem.state, norm_bound=NORM), 0.1)
        units = SafeSet(AbbasiYadkoriUCB(state, norm_bound=NORM), 0.1 * factor)
        assert_close(units.margin(self.X), plain.margin(self.X), rtol=SCALE, atol=SCALE)

    def test_known_points_are_safe_and_only_they(self):
        known = self.X[:2]
        safe_set = SafeSet(bound(self.problem), 100.0, safe_points=known)
        expected = torch.arange(len(self.X)) < 2
        assert_close(safe_set.is_safe(self.X), expected)
        assert not safe_set.is_safe(known + 1e-12).any()
        assert (safe_set.margin(known) < 0).all()
        assert_close(safe_set.filter(self.X), known)

    def test_shapes(self):
        safe_set = SafeSet(bound(self.problem), 0.1)
        batch = self.X.reshape(4, 10, 2)
        assert_close(safe_set.margin(batch).reshape(-1), safe_set.margin(self.X))
        assert safe_set.is_safe(batch).shape == (4, 10)
        assert safe_set.is_safe(self.X[0]).shape == ()

    def test_single_precision_is_judged_in_double(self):
        safe_set = SafeSet(bound(self.problem), 0.1)
        single = self.X.float()
        assert safe_set.margin(single).dtype == torch.float64
        assert_close(safe_set.margin(single), safe_set.margin(single.double()))

    def test_pending_points_do_not_matter(self):
        acqf = bound(self.problem)
        safe_set = SafeSet(acqf, 0.1)
        before = safe_set.margin(self.X)
        acqf.set_X_pending(self.X[:3])
        assert_close(safe_set.margin(self.X), before)

    def test_gradients(self):
        safe_set = SafeSet([bound(self.problem), bound(make_problem(d=2))], [0.1, -1.0])
        for margin, intra_point in safe_set.nonlinear_inequality_constraints:
            assert intra_point
            x = self.X[3].clone().requires_grad_()
            assert margin(x).shape == ()
            assert torch.autograd.gradcheck(margin, (x,), **GRADCHECK)

    def test_a_kernel_bandit_is_a_band(self):
        bandit = KernelBandit(self.problem.kernel, norm_bound=NORM, noise_std=0.1)
        for x, y in zip(self.problem.X, self.problem.Y, strict=True):
            bandit.observe(x, y)
        lower, _ = bandit.bounds(self.X)
        threshold = float(lower.quantile(0.6))
        safe_set = SafeSet(bandit, threshold)
        assert_close(safe_set.filter(self.X), self.X[lower >= threshold])
        assert safe_set.assumptions.delta == 0.05


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
    sketch = NystromRegression(X, Y, kernel, noise, X[:6])
    budgeted = BKBModel(X, Y.unsqueeze(-1), kernel, alpha=noise**2, qbar=1e9)
    return {
        "exact": exact,
        "bandit": bandit,
        "sketched": SketchedMartingaleMixtureUCB(sketch, **norm),
        "budgeted": BKBUCB(budgeted, noise_std=noise, **norm),
        "sum": ScalarizedUCB([exact, exact], [1.0, 0.5]),
    }


@pytest.mark.parametrize("kind", ["exact", "bandit", "sketched", "sum"])
def test_margins_do_not_depend_on_the_unit_of_the_outcome(kind):
    r"""Otherwise constraints in different units would be compared wrongly."""
    X, margins = uniform(20, 2, 3), []
    for scale in (1.0, 1000.0):
        safe_set = SafeSet(bands_of(scale)[kind], 0.2 * scale)
        margins.append(safe_set.margin(X))
    assert_close(margins[1], margins[0], rtol=1e-6, atol=1e-6)
    assert float(margins[0].std()) > 0.01


def test_the_budgeted_band_has_its_unit():
    r"""Its width has a logarithm that depends on the unit; the unit itself does not."""
    small, large = (bands_of(scale)["budgeted"] for scale in (1.0, 1000.0))
    assert large.prior_std == pytest.approx(1000.0 * small.prior_std)
    X = uniform(20, 2, 3)
    margin = SafeSet(large, 200.0).margin(X)
    assert_close(margin * large.prior_std, large.bounds(X)[0] - 200.0)


def test_a_band_without_a_unit_is_no_constraint():
    bandit = KernelBandit(make_problem().kernel, norm_bound=NORM, noise_std=0.1)
    with pytest.raises(InputDataError, match="There are no observations yet"):
        SafeSet(bandit, 0.0).margin(uniform(2, 1, 0))


class TestFromModels:
    def make(self, **options):
        first, second = make_problem(d=2), make_problem(d=2, seed=9)
        models = ModelListGP(first.model, second.model)
        arguments = {"norm_bound": [2.0, 3.0], "delta": 0.1} | options
        return SafeSet.from_models(models, [-5.0, 5.0], sides=[">=", "<="], **arguments)

    def test_shares_delta(self):
        first, second = (constraint.band for constraint in self.make().constraints)
        assert (first.delta, second.delta) == (0.05, 0.05)
        assert_close(first.norm_bound, 2.0, rtol=REARRANGED, atol=0.0)
        assert_close(second.norm_bound, 3.0, rtol=REARRANGED, atol=0.0)
        assumptions = self.make().assumptions
        assert assumptions.delta == pytest.approx(0.1)
        assert "with probability 0.9" in assumptions.guarantee
        assert assumptions.anytime
        assert assumptions.certified
        assert assumptions["constraint 2: norm"].statement.endswith("at most 3")

    def test_the_objective_may_share_it_too(self):
        safe_set = self.make(num_bounds=3)
        assert [c.band.delta for c in safe_set.constraints] == [0.1 / 3, 0.1 / 3]
        assert "with probability 0.933" in safe_set.assumptions.guarantee

    def test_known_points_are_an_assumption(self):
        safe_set = self.make(safe_points=uniform(4, 2, 0))
        assert "the 4 safe points" in safe_set.assumptions["safe points"].statement

    def test_contradicted_assumptions_raise(self):
        with pytest.raises(InconsistentConfidenceSetWarning):
            self.make(norm_bound=1e-3)

    def test_a_violated_band_is_refused_whatever_is_allowed(self):
        for allow in (False, True):
            with (
                pytest.warns(InconsistentConfidenceSetWarning),
                pytest.raises(UncertifiedError, match="no guarantee: norm violated"),
            ):
                self.make(norm_bound=1e-3, allow_estimated=allow)


class TestOptimisation:
    @pytest.mark.parametrize(("d", "seed"), [(1, 0), (2, 1), (5, 2)])
    def test_from_one_seed(self, d, seed):
        problem = seeded_problem(d, seed)
        acqf = bound(problem)
        threshold = float(problem.function(problem.test_X).quantile(0.5))
        safe_set = SafeSet(acqf, threshold, safe_points=problem.X[:1])
        x, value = optimize_acqf_safely(acqf, safe_set, box(d), **FAST)
        assert x.shape == (1, d)
        assert bool(safe_set.is_safe(x))
        assert bool(((x >= 0) & (x <= 1)).all())
        assert_close(acqf(x), value.reshape(1))
        # It left the seed, whose upper bound is the smallest around.
        assert float(value) > float(acqf(problem.X[:1])) + 1e-3

    def test_as_good_as_a_fine_grid(self):
        problem = seeded_problem(1)
        acqf = bound(problem)
        safe_set = SafeSet(acqf, level(problem), safe_points=problem.X[:1])
        grid = torch.linspace(0, 1, 5001, dtype=torch.float64).unsqueeze(-1)
        _, best = optimize_acqf_discrete(acqf, q=1, choices=safe_set.filter(grid))
        _, value = optimize_acqf_safely(acqf, safe_set, box(1), num_restarts=4)
        # Halves of a grid cell, 1e-4, times slopes of the bound below 20.
        assert float(value) > float(best) - 2e-3

    def test_several_points_and_the_pending_ones(self):
        problem = seeded_problem(2)
        acqf = bound(problem)
        pending = problem.X[:1]
        acqf.set_X_pending(pending)
        safe_set = SafeSet(acqf, level(problem), safe_points=problem.X[:1])
        x, values = optimize_acqf_safely(acqf, safe_set, box(2), q=2, **FAST)
        assert x.shape == (2, 2)
        assert values.shape == (2,)
        assert bool(safe_set.is_safe(x).all())
        assert_close(acqf.X_pending, pending)
        assert (x[0] - x[1]).abs().max() > 1e-3

    def test_before_the_bands_show_anything_the_best_known_point_is_returned(self):
        problem = make_problem(d=2, n=4)
        acqf = bound(problem)
        known = uniform(3, 2, 4)
        safe_set = SafeSet(acqf, 50.0, safe_points=known)
        x, value = optimize_acqf_safely(acqf, safe_set, box(2), **FAST)
        values = acqf(known.unsqueeze(-2))
        assert_close(x[0], known[values.argmax()])
        assert_close(value, values.max())

    def test_without_anything_safe(self):
        acqf = bound(make_problem(d=2))
        with pytest.raises(NoSafePointError, match="Give safe_points"):
            optimize_acqf_safely(acqf, SafeSet(acqf, 50.0), box(2), **FAST)
        outside = SafeSet(acqf, 50.0, safe_points=torch.full((1, 2), 2.0))
        with pytest.raises(NoSafePointError, match="observe the constraints there"):
            optimize_acqf_safely(acqf, outside, box(2), **FAST)

    def test_fixed_features_and_linear_constraints(self):
        problem = seeded_problem(3, seed=2)
        acqf = bound(problem)
        safe_set = SafeSet(acqf, level(problem), safe_points=problem.X[:1])
        start = problem.X[0]
        linear = [(torch.tensor([0, 1]), torch.ones(2).double(), float(start[:2].sum()))]
        x, _ = optimize_acqf_safely(
            acqf,
            safe_set,
            box(3),
            fixed_features={2: float(start[2])},
            inequality_constraints=linear,
            **FAST,
        )
        assert bool(safe_set.is_safe(x))
        assert float(x[0, 2]) == float(start[2])
        assert float(x[0, :2].sum()) >= float(start[:2].sum()) - 1e-8

    @pytest.mark.parametrize("order", [(2, 0), (-1, 0)])
    def test_fixed_features_in_any_order(self, order):
        problem = seeded_problem(3, seed=4, repeats=6)
        acqf = bound(problem)
        safe_set = SafeSet(acqf, level(problem), safe_points=problem.X[:1])
        values = {0: float(problem.X[0, 0]), 2: float(problem.X[0, 2])}
        found = []
        for columns in (order, (0, 2)):
            torch.manual_seed(0)
            fixed = {column: values[column % 3] for column in columns}
            found.append(
                optimize_acqf_safely(acqf, safe_set, box(3), fixed_features=fixed, **FAST)
            )
        (x, value), (other_x, other_value) = found
        assert torch.equal(x, other_x)
        assert float(value) == float(other_value)
        assert float(value) > float(acqf(problem.X[:1]))  # a search, not the known point

    def test_other_acquisition_functions(self):
        problem = seeded_problem(2)
        safe_set = SafeSet(bound(problem), level(problem), safe_points=problem.X[:1])
        acqf = LogExpectedImprovement(problem.model, best_f=float(problem.Y.max()))
        x, _ = optimize_acqf_safely(acqf, safe_set, box(2), **FAST)
        assert bool(safe_set.is_safe(x))

    def test_the_pieces_fit_optimize_acqf(self):
        problem = seeded_problem(2)
        acqf = bound(problem)
        safe_set = SafeSet(acqf, level(problem), safe_points=problem.X[:1])
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


class TestStartsAndRepair:
    def test_starts_are_inside_a_set_that_sobol_points_miss(self):
        problem = seeded_problem(5, seed=2)
        acqf = bound(problem)
        threshold = float(problem.function(problem.test_X).quantile(0.9))
        safe_set = SafeSet(acqf, threshold, safe_points=problem.X[:1])
        assert safe_set.is_safe(uniform(256, 5, 1)).sum() == 0
        starts = gen_safe_initial_conditions(
            acqf, box(5), num_restarts=6, raw_samples=128, safe_set=safe_set
        )
        assert starts.shape == (6, 1, 5)
        assert bool((safe_set.margin(starts) >= 0).all())
        assert len(torch.unique(starts, dim=0)) == 6

    def test_starts_reject_what_they_cannot_do(self):
        acqf = bound(make_problem(d=2))
        safe_set = SafeSet(acqf, -9.0)
        with pytest.raises(UnsupportedError, match="sequential=True"):
            gen_safe_initial_conditions(acqf, box(2), q=2, safe_set=safe_set)
        equality = [(torch.tensor([0]), torch.ones(1).double(), 0.5)]
        with pytest.raises(UnsupportedError, match="fixed_features"):
            gen_safe_initial_conditions(
                acqf, box(2), equality_constraints=equality, safe_set=safe_set
            )

    def test_repair_goes_back_no_further_than_twice(self):
        problem = seeded_problem(1)
        safe_set = SafeSet(bound(problem), level(problem), safe_points=problem.X[:1])
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

    def test_repair_leaves_safe_points_alone(self):
        problem = seeded_problem(2)
        safe_set = SafeSet(bound(problem), level(problem), safe_points=problem.X[:1])
        X = torch.cat([problem.X[:1], uniform(5, 2, 3)])
        repaired = safe_set.repair(X)
        safe = safe_set.is_safe(X)
        assert not safe.all()
        assert_close(repaired[safe], X[safe], rtol=0.0, atol=0.0)
        assert bool(safe_set.is_safe(repaired).all())

    def test_repair_needs_an_anchor(self):
        safe_set = SafeSet(bound(make_problem(d=2)), 50.0)
        with pytest.raises(NoSafePointError, match="No anchor"):
            safe_set.repair(uniform(1, 2, 0))
        with pytest.raises(NoSafePointError, match="No anchor"):
            safe_set.repair(uniform(1, 2, 0), anchors=uniform(2, 2, 1))


class TestConstraintWidth:
    problem = seeded_problem(2)
    safe_set = SafeSet(
        [bound(problem), bound(make_problem(n=3, d=2))], [level(problem), -5.0]
    )
    X = uniform(20, 2, 3)

    def test_the_widest_band(self):
        widths = []
        for constraint in self.safe_set.constraints:
            lower, upper = constraint.band.bounds(self.X)
            widths.append(upper - lower)  # the kernels' variance is one
        values = ConstraintWidth(self.safe_set)(self.X.unsqueeze(-2))
        assert_close(values, torch.maximum(*widths))

    def test_is_optimised_like_any_other(self):
        acqf = ConstraintWidth(self.safe_set)
        safe_set = SafeSet(
            bound(self.problem), level(self.problem), safe_points=self.problem.X[:1]
        )
        x, value = optimize_acqf_safely(acqf, safe_set, box(2), **FAST)
        assert bool(safe_set.is_safe(x))
        assert float(value) > float(acqf(self.problem.X[:1].unsqueeze(0)))

    def test_rejects_what_it_cannot_do(self):
        acqf = ConstraintWidth(self.safe_set)
        acqf.set_X_pending(None)
        with pytest.raises(UnsupportedError, match="one point at a time"):
            acqf.set_X_pending(self.X)
        with pytest.raises(BotorchTensorDimensionError, match="b x 1 x d"):
            acqf(self.X)


class TestBadInput:
    acqf = bound(make_problem(d=2))

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            (([], 0.0), ValueError, "bands is empty"),
            (([acqf], [0.0, 1.0]), ValueError, "thresholds has 2 entries for 1"),
            ((acqf, float("nan")), ValueError, "thresholds must be a finite number"),
        ],
    )
    def test_constraints(self, arguments, error, message):
        with pytest.raises(error, match=message):
            SafeSet(*arguments)

    def test_sides(self):
        with pytest.raises(ValueError, match='sides must be ">=" or "<="'):
            SafeSet(self.acqf, sides=">")

    @pytest.mark.parametrize(
        ("shape", "error", "message"),
        [
            ((2,), BotorchTensorDimensionError, "safe_points must be"),
            ((0, 2), InputDataError, "There are no safe_points"),
        ],
    )
    def test_shape_of_safe_points(self, shape, error, message):
        with pytest.raises(error, match=message):
            SafeSet(self.acqf, safe_points=torch.zeros(shape))

    def test_values(self):
        bad = torch.full((1, 2), float("nan"), dtype=torch.float64)
        with pytest.raises(InputDataError, match="safe_points contains NaN"):
            SafeSet(self.acqf, safe_points=bad)
        with pytest.raises(InputDataError, match="NaN"):
            SafeSet(self.acqf).is_safe(bad)

    def test_columns(self):
        with pytest.raises(BotorchTensorDimensionError, match="3 columns"):
            SafeSet(self.acqf).is_safe(torch.zeros(1, 3).double())

    @pytest.mark.parametrize("shape", [(), (0,), (8, 0)])
    def test_points_without_columns(self, shape):
        with pytest.raises(BotorchTensorDimensionError, match=r"X must be `\.\.\. x d` w"):
            SafeSet(self.acqf).margin(torch.zeros(shape).double())

    def test_no_points_have_no_margins(self):
        assert SafeSet(self.acqf).margin(torch.zeros(0, 2).double()).shape == (0,)

    def test_no_models(self):
        with pytest.raises(ValueError, match="models is empty"):
            SafeSet.from_models([], norm_bound=1.0)

    def test_no_candidate_is_safe(self):
        with pytest.raises(NoSafePointError, match="None of the 3 candidates"):
            SafeSet(self.acqf, 50.0).filter(uniform(3, 2, 0))

    def test_number_of_bounds(self):
        models = [make_problem().model, make_problem(seed=1).model]
        with pytest.raises(ValueError, match="num_bounds is 1, below"):
            SafeSet.from_models(models, norm_bound=2.0, num_bounds=1)
        with pytest.raises(ValueError, match="norm_bound has 3 entries for 2"):
            SafeSet.from_models(models, norm_bound=[1.0, 2.0, 3.0])

    def test_number_of_points(self):
        with pytest.raises(ValueError, match="q must be a whole number"):
            optimize_acqf_safely(self.acqf, SafeSet(self.acqf), box(2), q=0)


@pytest.mark.filterwarnings("ignore:Data .* is not standardized")
def test_models_of_several_columns():
    X = uniform(6, 2, 0)
    Y = torch.stack([X.sum(-1), X.prod(-1)], -1)
    model = SingleTaskGP(X, Y, torch.full_like(Y, 0.01), outcome_transform=None)
    with pytest.raises(UncertifiedError, match="heuristic: kernel, mean estimated"):
        SafeSet.from_models(model, norm_bound=20.0)
    safe_set = SafeSet.from_models(model, norm_bound=20.0, allow_estimated=True)
    assert str(safe_set.assumptions).startswith("heuristic: kernel of constraint 1")
    targets = [c.band.regression.train_targets for c in safe_set.constraints]
    assert_close(torch.stack(targets, -1), Y)
