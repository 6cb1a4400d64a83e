r"""Safe search on mixed spaces, and their combinations as BoTorch takes them."""

import math

import pytest
import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from botorch.optim import optimize_acqf, optimize_acqf_mixed

from kernelucb import MartingaleMixtureUCB, MixedSpace, SafeSet, optimize_acqf_safely
from kernelucb.exceptions import NoSafePointError
from problems import float64, make_problem

NORM, FLOOR = 2.0, 1e-9
FAST = {"num_restarts": 2, "raw_samples": 16}
CUBE = torch.tensor([[0.0] * 4, [1.0] * 4], dtype=torch.float64)
LEVELS = [0.0, 0.3, 0.6, 1.0]
CODES = ([1.0, 0.0], [0.0, 1.0])


def setting(seed=3, quantile=0.5, **options):
    r"""A bound, and a safe set by its own lower side: half of the listed points."""
    problem = make_problem(n=30, d=4, norm=NORM, seed=seed, **options)
    acqf = MartingaleMixtureUCB(problem.model, norm_bound=NORM)
    level = float(acqf.bounds(finite().region().points)[0].quantile(quantile))
    return acqf, SafeSet(acqf, level, safe_points=problem.X[:1])


def finite(**options):
    listed = {0: LEVELS, 3: [0.0, 0.4, 0.8]}
    return MixedSpace(CUBE, discrete_dims=listed, one_hot=[[1, 2]], **options)


def mixed(**options):
    return MixedSpace(CUBE, discrete_dims={0: LEVELS}, one_hot=[[1, 2]], **options)


class TestSafely:
    @pytest.mark.parametrize("seed", [0, 3])
    @pytest.mark.parametrize("fixed", [None, {2: 1.0}, {1: 0.0, 0: 0.3}])
    def test_a_finite_space_is_its_enumeration(self, seed, fixed):
        acqf, safe_set = setting(seed)
        points = finite().region(fixed).points
        safe = points[safe_set.margin(points) >= 0.0]
        assert len(safe) > 0
        assert len(safe) < len(points) or fixed is not None
        best, index = acqf(safe.unsqueeze(-2)).max(0)
        x, value = optimize_acqf_safely(
            acqf, safe_set, space=finite(), fixed_features=fixed, **FAST
        )
        assert torch.equal(x, safe[index].unsqueeze(0))
        assert float(value) == pytest.approx(float(best), abs=FLOOR)

    @pytest.mark.parametrize("seed", [0, 3])
    def test_a_mixed_space_is_at_least_a_grid_of_it(self, seed):
        acqf, safe_set = setting(seed)
        torch.manual_seed(seed)
        x, value = optimize_acqf_safely(
            acqf, safe_set, space=mixed(), num_restarts=4, raw_samples=64
        )
        assert bool(safe_set.is_safe(x).all())
        assert float(x[0, 0]) in LEVELS
        assert x[0, 1:3].tolist() in CODES
        assert 0.0 <= float(x[0, 3]) <= 1.0
        axis = torch.linspace(0.0, 1.0, 201).tolist()
        rows = [[a, *code, b] for a in LEVELS for code in CODES for b in axis]
        grid = safe_set.filter(float64(rows))
        # Half a cell of the grid times slopes of the bound below 10.
        assert float(value) >= float(acqf(grid.unsqueeze(-2)).max()) - 0.025
        assert float(value) == pytest.approx(float(acqf(x)), abs=FLOOR)

    def test_constraints_of_the_space_and_of_the_search(self):
        acqf, safe_set = setting()
        # x0 + x3 <= 0.9 of the space, x3 >= 0.2 of the search.
        pair = (torch.tensor([0, 3]), torch.tensor([-1.0, -1.0]).double(), -0.9)
        single = (torch.tensor([3]), torch.tensor([1.0]).double(), 0.2)
        space = mixed(inequality_constraints=[pair])
        assert all(row[0] < 0.95 for row in space.fixed_features_list())
        x, _ = optimize_acqf_safely(
            acqf,
            safe_set,
            space=space,
            inequality_constraints=[single],
            fixed_features={1: 1.0},
            **FAST,
        )
        assert bool(safe_set.is_safe(x).all())
        assert float(x[0, 0] + x[0, 3]) <= 0.9 + FLOOR
        assert float(x[0, 3]) >= 0.2 - FLOOR
        assert x[0, 1:3].tolist() == [1.0, 0.0]

    @pytest.mark.parametrize("space", [finite(), mixed()])
    def test_several_points(self, space):
        acqf, safe_set = setting()
        x, values = optimize_acqf_safely(acqf, safe_set, space=space, q=3, **FAST)
        assert x.shape == (3, 4)
        assert values.shape == (3,)
        assert bool(safe_set.is_safe(x).all())
        assert acqf.X_pending is None
        assert {float(each) for each in x[:, 0]} <= set(LEVELS)

    def test_a_context_between_listed_values_and_numbers(self):
        acqf, safe_set = setting()
        fixed = {3: 0.5, 0: 0.6}
        space = mixed()
        x, value = optimize_acqf_safely(
            acqf, safe_set, space=space, fixed_features=fixed, **FAST
        )
        rows = safe_set.filter(space.region(fixed).points)
        assert float(value) == pytest.approx(float(acqf(rows.unsqueeze(-2)).max()))
        assert (float(x[0, 0]), float(x[0, 3])) == (0.6, 0.5)

    def test_known_points_count_in_their_combination(self):
        r"""Before the bands show anything, the known point of the space is returned."""
        acqf, _ = setting()
        inside = float64([[0.3, 0.0, 1.0, 0.37]])
        outside = float64([[0.31, 0.5, 1.0, 0.37]])
        safe_set = SafeSet(acqf, 50.0, safe_points=torch.cat([outside, inside]))
        x, _ = optimize_acqf_safely(acqf, safe_set, space=mixed(), **FAST)
        assert torch.equal(x, inside)
        with pytest.raises(NoSafePointError, match="No point of the space"):
            optimize_acqf_safely(
                acqf, SafeSet(acqf, 50.0, safe_points=outside), space=finite(), **FAST
            )

    def test_bad_input_is_refused_before_work(self):
        acqf, safe_set = setting()
        with pytest.raises(ValueError, match="either bounds or space"):
            optimize_acqf_safely(acqf, safe_set, CUBE, space=mixed())
        with pytest.raises(ValueError, match="either bounds or space"):
            optimize_acqf_safely(acqf, safe_set)
        with pytest.raises(BotorchTensorDimensionError, match="space has 3 columns"):
            optimize_acqf_safely(acqf, safe_set, space=MixedSpace(CUBE[:, :3]))
        with pytest.raises(ValueError, match="does not list"):
            optimize_acqf_safely(acqf, safe_set, space=mixed(), fixed_features={0: 0.5})
        with pytest.raises(ValueError, match="no column -1"):
            optimize_acqf_safely(acqf, safe_set, space=mixed(), fixed_features={-1: 0.5})
        with pytest.raises(ValueError, match="num_restarts"):
            optimize_acqf_safely(acqf, safe_set, space=mixed(), num_restarts=0)
        never = mixed(
            inequality_constraints=[(torch.tensor([0]), torch.ones(1).double(), 2.0)]
        )
        with pytest.raises(InputDataError, match="keeps inequality_constraints"):
            optimize_acqf_safely(acqf, safe_set, space=never)


class TestFixedFeaturesList:
    def test_the_real_optimiser_takes_it(self):
        acqf, _ = setting()
        # x0 <= x3: of the levels 0.6 and 1.0 little is left.
        limits = [(torch.tensor([3, 0]), torch.tensor([1.0, -1.0]).double(), 0.0)]
        space = mixed(inequality_constraints=limits)
        rows = space.fixed_features_list()
        assert len(rows) == 8
        assert rows[0] == {0: 0.0, 1: 1.0, 2: 0.0}
        x, value = optimize_acqf_mixed(
            acqf,
            space.bounds,
            q=1,
            num_restarts=4,
            raw_samples=64,
            fixed_features_list=rows,
            inequality_constraints=space.constraints or None,
        )
        assert {i: float(x[0, i]) for i in (0, 1, 2)} in rows
        assert float(x[0, 0]) <= float(x[0, 3]) + FLOOR
        axis = torch.linspace(0.0, 1.0, 101).tolist()
        grid = [[a, *code, b] for a in LEVELS for code in CODES for b in axis if a <= b]
        best = float(acqf(float64(grid).unsqueeze(-2)).max())
        assert float(value) >= best - FLOOR

    def test_contexts_and_spaces_without_listed_values(self):
        acqf, _ = setting()
        rows = mixed().fixed_features_list({3: 0.25, 1: 1.0})
        assert rows == [{0: level, 1: 1.0, 2: 0.0, 3: 0.25} for level in LEVELS]
        plain = MixedSpace(CUBE)
        assert plain.fixed_features_list() == [{}]
        assert plain.listed_columns == []
        options = {"q": 1, "num_restarts": 4, "raw_samples": 64}
        found = []
        for search, own in (
            (optimize_acqf_mixed, {"fixed_features_list": plain.fixed_features_list()}),
            (optimize_acqf, {}),
        ):
            torch.manual_seed(0)
            found.append(search(acqf, plain.bounds, **own, **options)[1])
        assert float(found[0]) == pytest.approx(float(found[1]), abs=1e-6)
        every = finite().fixed_features_list()
        x, value = optimize_acqf_mixed(
            acqf, CUBE, fixed_features_list=every, **{**options, "raw_samples": 2}
        )
        points = finite().region().points
        assert float(value) == pytest.approx(float(acqf(points.unsqueeze(-2)).max()))
        assert {i: float(x[0, i]) for i in range(4)} in every

    def test_bad_input(self):
        with pytest.raises(ValueError, match="does not list"):
            mixed().fixed_features_list({0: 0.5})
        with pytest.raises(ValueError, match="fixed_features must be"):
            mixed().fixed_features_list({3: math.nan})
        limits = [(torch.tensor([0]), torch.ones(1).double(), 2.0)]
        with pytest.raises(InputDataError, match="keeps inequality_constraints"):
            mixed(inequality_constraints=limits).fixed_features_list()
