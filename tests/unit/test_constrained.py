r"""Search among the points that may be feasible."""

import copy
import pickle

import pytest
import torch
from botorch.acquisition import FixedFeatureAcquisitionFunction
from botorch.exceptions import BotorchTensorDimensionError
from botorch.optim import optimize_acqf, optimize_acqf_discrete
from torch.testing import assert_close
from two_outcomes import CUBE, GRID, LEVEL, SEARCH, at, made

from kernelucb.optim import chunked
from problems import uniform
from tolerances import REARRANGED


class TestValues:
    def test_without_a_binding_constraint_the_band_alone(self):
        for temperature in (0.0, 0.02):
            acqf = made({1: (-50.0, 50.0)}, temperature=temperature)
            assert torch.equal(at(acqf), at(acqf.band))
            assert all(map(torch.equal, acqf.bounds(GRID), acqf.band.bounds(GRID)))

    def test_the_edge_is_that_of_the_constraints_band(self):
        exact, smooth = made(temperature=0.0), made()
        inside = exact.outcome_constraints.may_be_feasible(GRID)
        assert 20 < inside.sum() < len(GRID) - 20
        assert torch.equal(at(exact)[inside], at(exact.band)[inside])
        assert float(at(exact)[~inside].max()) < -1e20
        paid = (at(smooth.band) - at(smooth)) / smooth._unit
        assert 0.0 <= float(paid[inside].min()) < float(paid[inside].max()) < 0.02
        far = smooth.outcome_constraints.possible_margin(GRID) < -0.08
        assert float(paid[far].min()) > 0.69

    def test_the_best_of_a_finite_set_is_the_best_that_may_be_feasible(self):
        acqf = made(temperature=0.0)
        chosen, value = optimize_acqf_discrete(acqf, 1, GRID)
        inside = GRID[acqf.outcome_constraints.may_be_feasible(GRID)]
        assert_close(value, at(acqf.band, inside).max())
        assert bool(acqf.outcome_constraints.may_be_feasible(chosen))
        assert torch.equal(chunked.argmax(acqf, GRID)[0], chosen)

    def test_if_nothing_may_be_feasible_the_nearest(self):
        acqf = made({1: (50.0, None)}, temperature=0.0)
        assert not acqf.outcome_constraints.may_be_feasible(GRID).any()
        chosen, _ = optimize_acqf_discrete(acqf, 1, GRID)
        nearest = GRID[acqf.outcome_constraints.possible_margin(GRID).argmax()]
        assert torch.equal(chosen[0], nearest)

    @pytest.mark.parametrize("where", ["inside", "edge", "outside"])
    def test_gradients(self, where):
        acqf = made({1: (LEVEL, 3.0)})
        margin = acqf.outcome_constraints.possible_margin(GRID)
        order = {"inside": -margin, "edge": margin.abs(), "outside": margin}[where]
        X = GRID[order.argsort()[:2]].unsqueeze(-2).requires_grad_()
        assert torch.autograd.gradcheck(acqf, (X,), eps=1e-6, atol=1e-5, rtol=1e-4)

    def test_outside_the_gradient_leads_back(self):
        acqf = made()
        margin = acqf.outcome_constraints.possible_margin
        outside = GRID[margin(GRID) < -0.2].requires_grad_()
        (gradient,) = torch.autograd.grad(at(acqf, outside).sum(), outside)
        with torch.no_grad():
            further = outside + 1e-4 * gradient / gradient.norm(dim=-1, keepdim=True)
        assert len(outside) > 20
        assert bool((margin(further) > margin(outside)).all())

    @pytest.mark.parametrize("shape", [(1,), (5, 1), (4, 3, 1), (0, 1)])
    def test_shapes(self, shape):
        acqf = made()
        X = uniform(max(1, torch.Size(shape).numel()), 2, 3)[: torch.Size(shape).numel()]
        X = X.reshape(*shape, 2)
        assert acqf(X).shape == acqf.band(X).shape

    def test_only_one_point_at_a_time(self):
        with pytest.raises(BotorchTensorDimensionError, match="b x 1 x d"):
            made()(GRID.reshape(-1, 2, 2))


class TestSearch:
    def test_a_batch_one_after_the_other(self):
        torch.manual_seed(0)
        acqf = made()
        points, _ = optimize_acqf(acqf, CUBE, q=3, sequential=True, **SEARCH)
        assert points.shape == (3, 2)
        assert acqf.X_pending is None
        assert bool((acqf.outcome_constraints.possible_margin(points) > -5.0 * 0.02).all())
        apart = torch.cdist(points, points) + torch.eye(3)
        assert float(apart.min()) > 1e-3

    def test_pending_points_narrow_the_objective_alone(self):
        acqf, alone = made(), made(X_pending=GRID[:3])
        assert torch.equal(alone.X_pending, GRID[:3])
        before = acqf.outcome_constraints.possible_margin(GRID)
        acqf.set_X_pending(GRID[:3])
        assert torch.equal(acqf.outcome_constraints.possible_margin(GRID), before)
        assert torch.equal(at(acqf), at(alone))
        assert bool((at(acqf) <= at(made()) + REARRANGED).all())
        acqf.set_X_pending(None)
        assert torch.equal(at(acqf), at(made()))
        fixed = FixedFeatureAcquisitionFunction(acqf, 2, [0], [0.3])
        fixed.X_pending = GRID[:1, 1:]
        assert acqf.X_pending.tolist() == [[0.3, float(GRID[0, 1])]]

    def test_small_outcomes(self):
        down = made(maximize=False)
        assert down.direction == -1
        inside = down.outcome_constraints.possible_margin(GRID) > 1.0
        lower, _ = down.bounds(GRID)
        assert_close(at(down)[inside], -lower[inside])

    def test_copies_and_states(self):
        acqf = made({0: (None, 9.0), 1: (LEVEL, 3.0)})
        for same in (copy.deepcopy(acqf), pickle.loads(pickle.dumps(acqf))):
            assert torch.equal(at(same), at(acqf))
            assert same.assumptions == acqf.assumptions
            assert same.outcome_constraints.constraints[0].band is same.band
        acqf.load_state_dict(acqf.state_dict())
