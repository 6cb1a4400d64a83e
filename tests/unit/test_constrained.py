r"""Search among the points that may be feasible."""

import copy
import math
import pickle

import pytest
import torch
from botorch.acquisition import (
    FixedFeatureAcquisitionFunction,
    LogExpectedImprovement,
    qLogNoisyExpectedImprovement,
)
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.objective import (
    ExpectationPosteriorTransform,
    ScalarizedPosteriorTransform,
)
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.models import ModelListGP, MultiTaskGP, SingleTaskGP
from botorch.models.transforms import Log
from botorch.optim import optimize_acqf, optimize_acqf_discrete
from torch.testing import assert_close

from kernelucb import (
    AbbasiYadkoriUCB,
    ConstrainedUCB,
    GuardedAcquisition,
    KernelFamilyUCB,
    MartingaleMixtureUCB,
    OutcomeConstraints,
    ScalarizedUCB,
    outcome_bands,
    regret_certificate,
)
from kernelucb.acquisition.guarded import is_ucb_turn
from kernelucb.optim import chunked
from problems import float64, frozen_kernel, frozen_model, make_problem, uniform
from tolerances import REARRANGED

OBJECTIVE = make_problem(n=20, d=2, norm=4.0, noise_std=0.05, seed=4)
PURITY = make_problem(n=20, d=2, norm=4.0, noise_std=0.05, seed=6)
MODEL = ModelListGP(OBJECTIVE.model, PURITY.model)
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
GRID = uniform(300, 2, seed=9)
LEVEL = 0.0
SEARCH = {"num_restarts": 2, "raw_samples": 32, "options": {"maxiter": 20}}
GIVEN = {"norm_bound": 5.0, "noise_std": 0.05}
pytestmark = pytest.mark.filterwarnings(
    "ignore::linear_operator.utils.warnings.NumericalWarning"
)


def made(limits=None, **options):
    limits = {1: (LEVEL, None)} if limits is None else limits
    return ConstrainedUCB.from_model(MODEL, constraints=limits, **(GIVEN | options))


def weights(*values, offset=0.0):
    return ScalarizedPosteriorTransform(torch.tensor(values).double(), offset)


def at(acqf, X=GRID):
    return acqf(X.unsqueeze(-2))


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


def test_a_certificate_counts_feasible_points_alone():
    acqf = made({0: (None, 0.5), 1: (LEVEL, None)}, delta=0.1)
    certificate = regret_certificate(acqf, GRID)
    by_hand = regret_certificate(acqf.band, GRID, constraints=acqf.outcome_constraints)
    assert certificate.gap == by_hand.gap
    assert bool(acqf.outcome_constraints.is_feasible(certificate.recommended))
    assert certificate.gap != regret_certificate(acqf.band, GRID).gap
    assert certificate.assumptions.delta == pytest.approx(0.1)


def test_a_certificate_on_a_box_knows_the_scale_of_a_constraint():
    other = frozen_model(
        PURITY.X, PURITY.Y.exp(), PURITY.kernel, 0.05, outcome_transform=Log()
    )
    objective, *bands = outcome_bands([OBJECTIVE.model, PURITY.model, other], **GIVEN)
    levels = math.log(2.2), 2.2
    plain, mapped = (
        regret_certificate(objective, bounds=CUBE, constraints=OutcomeConstraints(*pair))
        for pair in zip(bands, levels, strict=True)
    )
    assert mapped.gap == pytest.approx(plain.gap, rel=REARRANGED)


class TestFromModel:
    def test_delta_is_shared_among_the_outcomes_in_use(self):
        acqf = made(delta=0.1)
        assert acqf.band.delta == 0.05
        assert acqf.outcome_constraints.constraints[0].band.delta == 0.05
        assumptions = acqf.assumptions
        assert assumptions.delta == pytest.approx(0.1)
        assert assumptions.certified
        assert assumptions.guarantee == (
            "the bands of objective and constraints hold in every round at once with "
            "probability 0.9"
        )
        assert assumptions["objective: norm"].statement.endswith("at most 5")
        assert acqf.confidence_set is acqf.band.confidence_set

    def test_an_outcome_counts_once(self):
        acqf = made({0: (-1.0, 1.0)}, delta=0.1)
        assert acqf.band.delta == 0.1
        assert acqf.assumptions.delta == 0.1
        first, second = acqf.outcome_constraints.constraints
        assert first.band is second.band is acqf.band
        assert [c.side for c in (first, second)] == [">=", "<="]

    def test_each_outcome_its_own(self):
        kernels = [frozen_kernel("rbf", 0.3), frozen_kernel("matern52", 0.2)]
        acqf = ConstrainedUCB.from_model(
            MODEL,
            constraints={0: (0.9, None)},
            objective_index=1,
            norm_bound=[8.0, 30.0],
            noise_std=[0.05, 0.07],
            bound=[AbbasiYadkoriUCB, KernelFamilyUCB],
            options=[{}, {"kernels": kernels}],
        )
        assert isinstance(acqf.band, KernelFamilyUCB)
        (constraint,) = acqf.outcome_constraints.constraints
        assert isinstance(constraint.band, AbbasiYadkoriUCB)
        assert "at most 8" in acqf.assumptions["constraint 1: norm"].statement
        assert constraint.threshold == 0.9

    @pytest.mark.filterwarnings("ignore:Data .* is not standardized")
    def test_a_model_of_several_columns(self):
        Y = torch.stack([OBJECTIVE.Y, OBJECTIVE.function(OBJECTIVE.X).neg()], -1)
        model = SingleTaskGP(OBJECTIVE.X, Y, torch.full_like(Y, 0.01))
        acqf = ConstrainedUCB.from_model(
            model, constraints={1: (None, 1.0)}, norm_bound=9.0
        )
        assert_close(acqf.band.regression.train_targets, OBJECTIVE.Y)
        assert "objective: kernel" in acqf.assumptions.estimated

    def test_a_weighted_sum(self):
        acqf = made(posterior_transform=weights(1.0, -0.5, offset=2.0), delta=0.1)
        assert isinstance(acqf.band, ScalarizedUCB)
        assert acqf.assumptions.delta == pytest.approx(0.1)
        expected = ScalarizedUCB.from_model(
            MODEL, posterior_transform=weights(1.0, -0.5, offset=2.0), delta=0.1, **GIVEN
        )
        assert_close(acqf.bounds(GRID), expected.bounds(GRID))
        second = acqf.outcome_constraints.constraints[0].band
        assert second is acqf.band.acqfs[1]
        assert acqf(GRID[:1]).shape == (1,)

    @pytest.mark.parametrize("transform", [weights(-2.0), weights(-2.0, 0.0)])
    def test_a_weight_for_the_objective_alone(self, transform):
        acqf = made(posterior_transform=transform)
        assert acqf.direction == -1
        lower, _ = acqf.bounds(GRID)
        inside = acqf.outcome_constraints.possible_margin(GRID) > 1.0
        assert_close(at(acqf)[inside], -2.0 * lower[inside])

    def test_as_ax_gives_them(self):
        build = get_acqf_input_constructor(ConstrainedUCB)
        matrix = torch.tensor([[0.0, -2.0], [0.0, 1.0], [1.0, 1.0]]).double()
        limits = torch.tensor([[-2.0 * LEVEL], [3.0], [7.0]]).double()
        inputs = build(
            MODEL,
            constraints_tuple=(matrix, limits),
            constraints=[lambda Y: Y],
            posterior_transform=weights(1.0, 0.0),
            **GIVEN,
        )
        acqf = ConstrainedUCB(**inputs)
        first, second, total = acqf.outcome_constraints.constraints
        assert first.band is second.band
        assert (first.threshold, first.side, second.side) == (LEVEL, ">=", "<=")
        assert isinstance(total.band, ScalarizedUCB)
        assert acqf.assumptions.delta == pytest.approx(0.05)
        lower, _ = first.band.bounds(GRID)
        assert_close(total.band.bounds(GRID)[0], acqf.bounds(GRID)[0] + lower)

    def test_a_weighted_objective_in_a_weighted_constraint(self):
        build = get_acqf_input_constructor(ConstrainedUCB)
        rows = torch.tensor([[1.0, 1.0]]).double(), torch.tensor([[7.0]]).double()
        transform = weights(-1.0, 0.0)
        inputs = build(
            MODEL, constraints_tuple=rows, posterior_transform=transform, **GIVEN
        )
        plain = MartingaleMixtureUCB(OBJECTIVE.model, **GIVEN, delta=0.025)
        lower, upper = ConstrainedUCB(**inputs).bounds(GRID)
        assert_close((-upper, -lower), plain.bounds(GRID))


class TestGuard:
    constraints = OutcomeConstraints(
        outcome_bands(PURITY.model, num_bounds=2, **GIVEN), LEVEL
    )
    band = MartingaleMixtureUCB(OBJECTIVE.model, delta=0.025, **GIVEN)

    def guard(self, constraints=None, **options):
        search = qLogNoisyExpectedImprovement(OBJECTIVE.model, OBJECTIVE.X)
        constraints = constraints or self.constraints
        return GuardedAcquisition(search, self.band, constraints=constraints, **options)

    def test_the_reference_is_certainly_feasible(self):
        acqf = self.guard()
        feasible = OBJECTIVE.X[self.constraints.is_feasible(OBJECTIVE.X)]
        assert 0 < len(feasible) < len(OBJECTIVE.X)
        lower, _ = self.band.bounds(feasible)
        assert torch.equal(acqf.reference[0], feasible[lower.argmax()])

    def test_both_restrictions_hold(self):
        acqf = self.guard(temperature=0.0)
        chosen, _ = optimize_acqf_discrete(acqf, 3, GRID, unique=True)
        assert bool((acqf.excess(chosen) >= 0.0).all())
        assert bool(self.constraints.may_be_feasible(chosen).all())
        inside = (acqf.excess(GRID) >= 0.0) & self.constraints.may_be_feasible(GRID)
        values = at(acqf)
        assert float(values[inside].min()) > -1e3
        assert float(values[~inside].max()) < -1e20

    def test_before_any_point_is_certainly_feasible(self):
        upper = self.constraints.constraints[0].band.bounds(GRID)[1]
        none = OutcomeConstraints(
            self.constraints.constraints[0].band, float(upper.quantile(0.8))
        )
        acqf = self.guard(none)
        assert acqf.reference.shape == (0, 2)
        assert bool((acqf.excess(GRID) == torch.inf).all())
        torch.manual_seed(0)
        more = {"num_restarts": 4, "raw_samples": 128}
        point, value = optimize_acqf(acqf, CUBE, q=2, **more)
        assert bool(torch.isfinite(value))
        assert bool((none.possible_margin(point) > -5.0 * 0.02).all())
        assert torch.equal(copy.deepcopy(acqf).reference, acqf.reference)

    def test_turns_are_those_of_the_constrained_bound(self):
        turn = next(n for n in range(20, 24) if is_ucb_turn(n, 4))
        pending = GRID[: turn - 20] if turn > 20 else None
        acqf = self.guard(ucb_every=4, X_pending=pending)
        plain = ConstrainedUCB(self.band, self.constraints)
        assert_close(at(acqf), at(plain))
        acqf.set_X_pending(None)

    def test_assumptions(self):
        assert self.guard().assumptions.delta == pytest.approx(0.05)
        assert GuardedAcquisition(self.band, self.band).assumptions.delta == 0.025

    def test_a_constrained_search_in_a_guard(self):
        acqf = GuardedAcquisition(made(), self.band, constraints=self.constraints)
        assert at(acqf).shape == (len(GRID),)
        with pytest.raises(UnsupportedError, match="seeks small outcomes"):
            GuardedAcquisition(made(maximize=False), self.band)

    def test_a_constraint_on_other_inputs(self):
        other = OutcomeConstraints(
            MartingaleMixtureUCB(make_problem(d=3).model, norm_bound=2.0)
        )
        search = LogExpectedImprovement(OBJECTIVE.model, float64(0.0))
        with pytest.raises(BotorchTensorDimensionError, match="columns; they must agree"):
            GuardedAcquisition(search, self.band, constraints=other)
        with pytest.raises(BotorchTensorDimensionError, match="columns; they must agree"):
            ConstrainedUCB(self.band, other)


class TestBadInput:
    @pytest.mark.parametrize(
        ("limits", "message"),
        [
            ({}, "There are no constraints; give one"),
            ({1: (None, None)}, r"constraints\[1\] has no limit"),
            ({1: (1.0, 1.0)}, "the lower limit 1 must be below the upper 1"),
            ({1: (float("nan"), None)}, r"constraints\[1\] \(None for no limit\) must be"),
            ({1: (None, float("inf"))}, r"constraints\[1\] \(None for no limit\) must be"),
            ({2: (0.0, None)}, r"constraints\[2\]: the model has the outputs 0 to 1"),
            ({-1: (0.0, None)}, r"constraints\[-1\]: the model has the outputs 0 to 1"),
            ({1: 0.9}, "constraints"),
            (None, "There are no constraints"),
        ],
    )
    def test_limits(self, limits, message):
        with pytest.raises(ValueError, match=message):
            ConstrainedUCB.from_model(MODEL, constraints=limits, **GIVEN)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"objective_index": 2}, "objective_index is 2; the model has the outputs 0"),
            ({"norm_bound": [1.0]}, "norm_bound has 1 entries for 2"),
            ({"temperature": -1.0}, "temperature must not be negative"),
            ({"options": {"maximize": False}}, "options holds maximize"),
            (
                {"objective_index": 1, "posterior_transform": weights(1.0, 1.0)},
                "leave out objective_index",
            ),
        ],
    )
    def test_options(self, options, message):
        with pytest.raises(ValueError, match=message):
            made(**options)

    @pytest.mark.parametrize(
        ("transform", "message"),
        [
            (weights(1.0, 1.0, 1.0), "3 weights; the model has 2"),
            (weights(0.0, 0.0), "All weights"),
            (ExpectationPosteriorTransform(2), "use ScalarizedPosteriorTransform"),
        ],
    )
    def test_transforms(self, transform, message):
        with pytest.raises(UnsupportedError, match=message):
            made(posterior_transform=transform)

    def test_models(self):
        one = ModelListGP(OBJECTIVE.model)
        with pytest.raises(
            ValueError, match=r"constraints\[1\]: the model has the outputs 0"
        ):
            ConstrainedUCB.from_model(one, constraints={1: (0.0, None)}, **GIVEN)
        alone = [
            ConstrainedUCB.from_model(each, constraints={0: (0.0, None)}, **GIVEN)
            for each in (one, OBJECTIVE.model)
        ]
        assert_close(*(acqf.bounds(GRID) for acqf in alone))
        X = torch.cat([GRID[:6], torch.arange(2).repeat(3).unsqueeze(-1)], -1)
        tasks = MultiTaskGP(X, X[:, :1], task_feature=-1)
        with pytest.raises(UnsupportedError, match="not independent models; use a ModelL"):
            ConstrainedUCB.from_model(tasks, constraints={1: (0.0, None)}, **GIVEN)
        batch = GRID[:12].reshape(2, 6, 2)
        batched = SingleTaskGP(batch, batch + 1.0, batch + 1.0)
        with pytest.raises(UnsupportedError, match="build one model without"):
            ConstrainedUCB.from_model(batched, constraints={1: (0.0, None)}, **GIVEN)

    @pytest.mark.parametrize(
        ("given", "error", "message"),
        [
            ({"constraints": [abs]}, UnsupportedError, "functions of samples"),
            ({"ref_point": [0.0]}, UnsupportedError, "one objective; weigh several"),
            ({"objective_thresholds": 1}, UnsupportedError, "use ConstrainedUCB with th"),
            (
                {"constraints_tuple": (CUBE, CUBE)},
                BotorchTensorDimensionError,
                "must be `k x 2` and `k x 1`",
            ),
            (
                {"constraints_tuple": (CUBE, CUBE[:, :1])},
                ValueError,
                "a row without weights",
            ),
            (
                {"constraints": {1: (0, 1)}, "constraints_tuple": (CUBE, CUBE)},
                ValueError,
                "both given",
            ),
        ],
    )
    def test_what_ax_may_give(self, given, error, message):
        build = get_acqf_input_constructor(ConstrainedUCB)
        with pytest.raises(error, match=message):
            build(MODEL, **given, **GIVEN)

    def test_other_bounds_say_what_takes_constraints(self):
        build = get_acqf_input_constructor(MartingaleMixtureUCB)
        with pytest.raises(UnsupportedError, match="use ConstrainedUCB"):
            build(OBJECTIVE.model, constraints=[abs])
