r"""The guard: what it keeps, what it excludes, and that it changes nothing else."""

import copy
import math

import pytest
import torch
from botorch.acquisition import (
    AcquisitionFunction,
    FixedFeatureAcquisitionFunction,
    LogExpectedImprovement,
    PosteriorMean,
    PosteriorStandardDeviation,
    ProximalAcquisitionFunction,
    UpperConfidenceBound,
    qKnowledgeGradient,
    qLogExpectedImprovement,
    qLogNoisyExpectedImprovement,
    qMaxValueEntropy,
    qNegIntegratedPosteriorVariance,
    qSimpleRegret,
    qUpperConfidenceBound,
)
from botorch.acquisition.analytic import (
    LogConstrainedExpectedImprovement,
    ScalarizedPosteriorMean,
)
from botorch.acquisition.monte_carlo import qPosteriorStandardDeviation
from botorch.acquisition.multi_objective import (
    IdentityMCMultiOutputObjective,
    qNoisyExpectedHypervolumeImprovement,
)
from botorch.acquisition.multi_objective.parego import qLogNParEGO
from botorch.acquisition.objective import (
    ConstrainedMCObjective,
    GenericMCObjective,
    LinearMCObjective,
)
from botorch.acquisition.penalized import L2Penalty, PenalizedAcquisitionFunction
from botorch.acquisition.risk_measures import VaR
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.map_saas import EnsembleMapSaasSingleTaskGP
from botorch.models.transforms.input import InputPerturbation
from botorch.optim import optimize_acqf, optimize_acqf_discrete
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close
from two_outcomes import CUBE, GIVEN, LEVEL, OBJECTIVE, PURITY, SEARCH, at, made, weights

from kernelucb import (
    ConstrainedUCB,
    GuardedAcquisition,
    KernelRegression,
    MartingaleMixtureUCB,
    OutcomeConstraints,
    ScalarizedUCB,
)
from kernelucb.acquisition import outcome_bands
from kernelucb.acquisition.guarded import is_ucb_turn
from problems import float64, make_problem, uniform
from tolerances import REARRANGED

# Most of the square is excluded, and of its corners the one far from zero.
GRID = uniform(1000, 2, seed=9)
MODEL = OBJECTIVE.model
# BoTorch adds jitter to the small matrices of qLogNEI, and says so.
pytestmark = pytest.mark.filterwarnings(
    "ignore::linear_operator.utils.warnings.NumericalWarning"
)


class Plain(AcquisitionFunction):
    r"""A smooth function of one point or several, in any unit, largest at one corner."""

    def __init__(self, model, unit=1.0, log=False, **attributes):
        super().__init__(model)
        self.unit, self._log = unit, log
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, X):
        return self.unit * X.square().sum(-1).sum(-1)


def band(**options):
    return MartingaleMixtureUCB(MODEL, norm_bound=5.0, **options)


def guarded(acqf=None, own=None, **options):
    own = band() if own is None else own
    return GuardedAcquisition(acqf or Plain(own.model), own, **options)


def log_nei(model=MODEL, **options):
    return qLogNoisyExpectedImprovement(model, OBJECTIVE.X, **options)


class TestWhatIsExcluded:
    def test_is_what_the_set_says(self):
        acqf = guarded()
        lower, _ = acqf.band.bounds(OBJECTIVE.X)
        _, upper = acqf.band.bounds(GRID)
        assert torch.equal(acqf.reference[0], OBJECTIVE.X[lower.argmax()])
        # Differences of functions are within the bound, and one function meets it.
        excess = acqf.excess(GRID)
        assert bool((excess <= upper - lower.max() + REARRANGED).all())
        for x in GRID[:3]:
            witness = acqf.upper_bound.witness(x.unsqueeze(0))
            gains = witness(GRID) - witness(acqf.reference)
            assert bool((gains <= excess + REARRANGED).all())
        share = float((excess < 0).double().mean())
        wider = float((upper < lower.max()).double().mean())
        assert 0.05 < wider < share < 0.98

    @given(st.integers(0, 10_000))
    def test_every_maximiser_of_a_function_in_the_set_is_kept(self, seed):
        acqf = guarded()
        witness = acqf.upper_bound.witness(uniform(1, 2, seed))
        best = witness(GRID).argmax()
        assert float(acqf.excess(GRID[best : best + 1])) >= -REARRANGED

    def test_small_outcomes_are_the_mirror_image(self):
        mirrored = copy.deepcopy(OBJECTIVE)
        mirrored.Y = -OBJECTIVE.Y
        values = at(guarded(), GRID)
        for options in ({"maximize": False}, {"posterior_transform": weights(-1.0)}):
            own = MartingaleMixtureUCB(mirrored.model, norm_bound=5.0, **options)
            other = at(guarded(own=own), GRID)
            assert_close(other, values, rtol=REARRANGED, atol=REARRANGED)


LINE = torch.stack([torch.linspace(0.0, 1.0, 501).double()] * 2, -1)
# Where x1 + x2 is at most 0.6, as BoTorch writes it.
SUM = [(torch.tensor([0, 1]), float64([-1.0, -1.0]), -0.6)]
DOMAINS = {
    "context": ({"fixed_features": {1: 0.0}}, LINE * float64([1.0, 0.0])),
    "box": ({"bounds": float64([[0.0, 0.0], [0.4, 0.5]])}, GRID * float64([0.4, 0.5])),
    "constraint": ({"inequality_constraints": SUM}, GRID[GRID.sum(-1) <= 0.6]),
    "context in a box": (
        {"bounds": float64([[0.6, 0.3], [1.0, 0.5]]), "fixed_features": {1: 0.0}},
        LINE * float64([0.4, 0.0]) + float64([0.6, 0.0]),
    ),
    "context and constraint": (
        {"fixed_features": {1: 0.3}, "inequality_constraints": SUM},
        LINE * float64([0.3, 0.0]) + float64([0.0, 0.3]),
    ),
}


class TestDomains:
    @pytest.mark.parametrize("name", DOMAINS)
    def test_the_maximiser_of_another_domain_is_kept(self, name):
        options, X = DOMAINS[name]
        values = OBJECTIVE.function(X)
        lower, upper = band().bounds(X)
        assert bool(((lower <= values) & (values <= upper)).all())
        best = X[values.argmax()].unsqueeze(0)
        # A reference from elsewhere excludes the whole domain.
        assert float(guarded().excess(X).max()) < 0.0
        acqf = guarded(**options, temperature=0.0)
        assert float(acqf.excess(best)) >= 0.0
        assert float(acqf.acqf(best)) == float(acqf(best))
        gap = (acqf.reference - X).abs().amax(-1).min()
        assert float(gap) < (1e-3 if "context" in name else 0.1)
        assert_close(acqf.excess(acqf.reference), torch.zeros(1).double())
        point, _ = optimize_acqf_discrete(acqf, 1, X)
        assert float(acqf.excess(point)) >= 0.0


class TestValues:
    @pytest.mark.parametrize("log", [True, False])
    def test_inside_are_those_of_the_function(self, log):
        acqf = guarded(Plain(MODEL, log=log))
        inside = GRID[acqf.excess(GRID) >= 0.0].unsqueeze(-2)
        assert len(inside) > 10
        paid = (acqf.acqf(inside) - acqf(inside)) / acqf._unit
        assert 0.0 <= float(paid.min()) <= float(paid.max()) < 0.02

    def test_the_gradient_is_right_and_leads_back_from_outside(self):
        X = GRID[:6].reshape(3, 2, 2).clone().requires_grad_()
        options = {"eps": 1e-6, "atol": 1e-5, "rtol": 1e-4}
        assert torch.autograd.gradcheck(guarded(log_nei()), (X,), **options)
        acqf = guarded(Plain(MODEL, unit=0.0, log=True))
        outside = GRID[acqf.excess(GRID) < -0.1].unsqueeze(-2).requires_grad_()
        (gradient,) = torch.autograd.grad(acqf(outside).sum(), outside)
        with torch.no_grad():
            further = outside + 1e-4 * gradient / gradient.norm(dim=-1, keepdim=True)
        assert bool((acqf.excess(further[:, 0]) > acqf.excess(outside[:, 0])).all())

    @pytest.mark.parametrize("kernel", ["rbf", "matern32", "matern52"])
    def test_gradients_are_finite_at_and_next_to_the_reference(self, kernel):
        problem = make_problem(n=20, d=2, norm=4.0, noise_std=0.05, seed=4, kernel=kernel)
        acqf = guarded(own=MartingaleMixtureUCB(problem.model, norm_bound=20.0))
        for step in (0.0, 1e-12, 1e-9, 1e-6):
            X = (acqf.reference + step).requires_grad_()
            (gradient,) = torch.autograd.grad(acqf.excess(X).sum(), X)
            assert bool(torch.isfinite(gradient).all())

    @pytest.mark.parametrize("unit", [1e-2, 1.0, 1e6])
    def test_the_unit_of_the_function_does_not_matter(self, unit):
        acqf = guarded(Plain(MODEL, unit))
        torch.manual_seed(0)
        point, _ = optimize_acqf(acqf, CUBE, q=1, **SEARCH)
        width = 0.02 * acqf.band.prior_std
        assert float(acqf.excess(point)) > -5.0 * width
        # The corner where the function is largest is excluded, the best of the rest found.
        assert float(acqf.excess(CUBE[1:])) < -10.0 * width
        within = GRID[acqf.excess(GRID) > 3.0 * width]
        largest = float(at(acqf.acqf, within).max())
        assert float(acqf.acqf(point)) > largest - 0.1 * unit


FUNCTIONS = {
    "LogEI": lambda: LogExpectedImprovement(MODEL, OBJECTIVE.Y.max()),
    "UCB": lambda: UpperConfidenceBound(MODEL, 2.0),
    "mean": lambda: PosteriorMean(MODEL),
    "qUCB": lambda: qUpperConfidenceBound(MODEL, 2.0),
    "qLogNEI": log_nei,
    "band": band,
}


class TestSearch:
    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_any_function_is_optimised_within_the_guard(self, name):
        torch.manual_seed(1)
        acqf = guarded(FUNCTIONS[name]())
        point, value = optimize_acqf(acqf, CUBE, q=1, **SEARCH)
        assert math.isfinite(float(value))
        assert float(acqf.excess(point)) > -5.0 * 0.02 * acqf.band.prior_std

    def test_candidates_of_a_finite_set_are_inside_or_the_likeliest(self):
        acqf = guarded(temperature=0.0)
        excess = acqf.excess(GRID)
        inside, outside = GRID[excess >= 0.0], GRID[excess < 0.0]
        chosen, _ = optimize_acqf_discrete(acqf, 5, GRID)
        best = inside[at(acqf.acqf, inside).topk(5).indices]
        assert set(map(tuple, chosen.tolist())) == set(map(tuple, best.tolist()))
        chosen, _ = optimize_acqf_discrete(acqf, 1, outside)
        nearest = float(excess[excess < 0.0].max())
        assert float(acqf.excess(chosen)) == pytest.approx(nearest, abs=REARRANGED)

    def test_a_sequential_batch_tells_both_of_its_pending_points(self):
        acqf = guarded(log_nei())
        points, _ = optimize_acqf(acqf, CUBE, q=3, sequential=True, **SEARCH)
        assert points.shape == (3, 2)
        assert acqf.X_pending is acqf.upper_bound.X_pending is None
        before = acqf.excess(GRID)
        acqf.set_X_pending(points)
        assert torch.equal(acqf.X_pending, points)
        assert torch.equal(acqf.upper_bound.X_pending, points)
        assert torch.equal(acqf.excess(GRID), before)
        fixed = FixedFeatureAcquisitionFunction(acqf, 2, [0], [0.3])
        fixed.X_pending = GRID[:1, 1:]
        assert acqf.upper_bound.X_pending.tolist() == [[0.3, float(GRID[0, 1])]]


class TestTurns:
    @given(st.integers(1, 12), st.integers(0, 500), st.integers(1, 500))
    def test_one_point_of_each_block_is_the_upper_bounds(self, every, start, rounds):
        first = start * every
        turns = [is_ucb_turn(count, every) for count in range(first, first + rounds)]
        assert sum(turns) >= rounds // every
        blocks = [turns[i : i + every] for i in range(0, rounds - every + 1, every)]
        assert all(sum(block) == 1 for block in blocks)

    @pytest.mark.parametrize("every", [2, 3, 4, 5, 8])
    @pytest.mark.parametrize("step", [2, 3, 4, 5, 8])
    def test_no_batch_size_misses_all_turns(self, every, step):
        for start in range(every):
            turns = [is_ucb_turn(start + step * i, every) for i in range(400)]
            assert 0.7 / every < sum(turns) / 400 < 1.4 / every

    @pytest.mark.parametrize("limited", [False, True])
    def test_on_its_turn_the_upper_bound_is_maximised(self, limited):
        own = ConstrainedUCB(band(), CONSTRAINTS) if limited else band()
        turns = []
        for count in range(4):
            pending = GRID[:count] if count else None
            acqf = guarded(log_nei(), own, ucb_every=4, X_pending=pending)
            turns.append(is_ucb_turn(20 + count, 4))
            assert torch.equal(at(acqf, GRID), at(own, GRID)) == turns[-1]
            # In the first round, not in the one in which it is the bound's turn.
            with pytest.raises(BotorchTensorDimensionError, match="sequential=True"):
                acqf(GRID.reshape(500, 2, 2))
        assert sum(turns) == 1
        acqf = guarded(log_nei(), band(), ucb_every=2)
        points, _ = optimize_acqf(acqf, CUBE, 4, sequential=True, **SEARCH)
        assert points.shape == (4, 2)


# BoTorch compiles C++ for its logarithm, for half a minute.
HYPERVOLUME = qNoisyExpectedHypervolumeImprovement
SEVERAL = {
    "hypervolume": lambda m: HYPERVOLUME(m, float64([-3.0, -3.0]), OBJECTIVE.X),
    "scalarized at random": lambda m: qLogNParEGO(m, OBJECTIVE.X),
    "no objective": Plain,
    "one for each": lambda m: Plain(m, objective=IdentityMCMultiOutputObjective()),
    "one shot": lambda m: qKnowledgeGradient(MODEL, num_fantasies=2),
}
ONE_OF_TWO = {
    "sum": lambda m: qUpperConfidenceBound(
        m, 2.0, objective=LinearMCObjective(float64([1.0, 0.5]))
    ),
    "transform": lambda m: PosteriorMean(m, weights(1.0, 0.0)),
    "constrained": lambda m: LogConstrainedExpectedImprovement(
        m, 0.0, objective_index=0, constraints={1: (0.0, None)}
    ),
    "constrained bound": lambda m: made(),
    "sum of bounds": lambda m: ScalarizedUCB([band(), band()], [1.0, 0.5]),
}


class TestObjectives:
    @pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.NumericsWarning")
    @pytest.mark.parametrize("name", SEVERAL)
    def test_functions_of_several_objectives_are_refused(self, name):
        with pytest.raises(UnsupportedError, match=r"one objective|one-shot"):
            guarded(SEVERAL[name](ModelListGP(MODEL, MODEL)))

    @pytest.mark.parametrize("name", ONE_OF_TWO)
    def test_one_objective_of_several_outcomes(self, name):
        own = made() if name.startswith("constrained") else None
        acqf = guarded(ONE_OF_TWO[name](ModelListGP(MODEL, MODEL)), own)
        assert acqf(GRID[:1]).shape == (1,)

    def test_both_must_seek_the_same(self):
        down = band(maximize=False)
        guarded(UpperConfidenceBound(MODEL, 2.0, maximize=False), down)
        with pytest.raises(UnsupportedError, match="large outcomes and the band small"):
            guarded(UpperConfidenceBound(MODEL, 2.0), down)
        with pytest.raises(UnsupportedError, match="small outcomes and the band large"):
            guarded(PosteriorMean(MODEL, weights(-1.0)))


TWO = ModelListGP(MODEL, PURITY.model)
PERTURBED = SingleTaskGP(
    OBJECTIVE.X,
    OBJECTIVE.Y.unsqueeze(-1),
    input_transform=InputPerturbation(0.01 * GRID[:4]),
)
ENSEMBLE = EnsembleMapSaasSingleTaskGP(OBJECTIVE.X, OBJECTIVE.Y.unsqueeze(-1))


def linear(*values):
    return LinearMCObjective(float64(values))


def smaller(Y, X=None):
    return -Y[..., 0]


def feasible_part(Y):
    return Y[..., -1] - 1.0


def regret(objective, model=MODEL, **options):
    return qSimpleRegret(model, objective=objective, **options)


# Each seeks small outcomes: of the first output, where there are two.
SMALL = {
    "weight": lambda: log_nei(objective=linear(-1.0)),
    "callable": lambda: regret(GenericMCObjective(smaller)),
    "saturated": lambda: regret(GenericMCObjective(lambda Y, X: -(Y[..., 0].relu()))),
    "twice": lambda: regret(linear(2.0), posterior_transform=weights(-1.0)),
    "both": lambda: regret(linear(-1.0, -0.5), TWO),
    "transform of two": lambda: PosteriorMean(TWO, weights(-1.0, 0.0)),
    "ensemble": lambda: regret(linear(-1.0), ENSEMBLE),
    "fixed": lambda: FixedFeatureAcquisitionFunction(regret(linear(-1.0)), 2, [0], [0.3]),
    "penalised": lambda: PenalizedAcquisitionFunction(
        regret(linear(-1.0)), L2Penalty(float64([0.0, 0.0])), 0.1
    ),
    "near the last": lambda: ProximalAcquisitionFunction(
        UpperConfidenceBound(MODEL, 2.0, maximize=False), float64([1.0, 1.0]), beta=1.0
    ),
    "scalarized mean": lambda: ScalarizedPosteriorMean(MODEL, float64([-1.0])),
    "entropy": lambda: qMaxValueEntropy(MODEL, GRID, maximize=False),
}
EITHER = {
    "deviation": lambda: PosteriorStandardDeviation(MODEL),
    "smallest deviation": lambda: PosteriorStandardDeviation(MODEL, maximize=False),
    "sampled deviation": lambda: qPosteriorStandardDeviation(MODEL, objective=linear(-1.0)),
    "integrated": lambda: qNegIntegratedPosteriorVariance(
        MODEL, GRID, posterior_transform=weights(-1.0)
    ),
    "a difference": lambda: regret(linear(-1.0, 0.5), TWO),
}


# The optimum that each seeks may be another than the band's, in either direction.
OTHER = {
    "of inputs too": lambda: regret(GenericMCObjective(lambda Y, X: X[..., 0] - Y[..., 0])),
    "constrained": lambda: regret(ConstrainedMCObjective(smaller, [feasible_part])),
    "one of two": lambda: regret(ConstrainedMCObjective(smaller, [feasible_part]), TWO),
    "limits": lambda: log_nei(constraints=[feasible_part]),
    "analytic limits": lambda: LogConstrainedExpectedImprovement(
        TWO, 0.0, 0, {1: (0.0, None)}
    ),
    "risk": lambda: regret(VaR(0.5, 4, linear(-1.0)), PERTURBED),
    "perturbed": lambda: qSimpleRegret(PERTURBED),
}


class TestDirections:
    @pytest.mark.parametrize("name", OTHER)
    def test_what_may_have_another_optimum_is_refused(self, name):
        for maximize in (True, False):
            with pytest.raises(UnsupportedError, match="may be its best"):
                guarded(OTHER[name](), band(maximize=maximize))

    def test_limits_are_taken_beside_feasible_points(self):
        guarded(log_nei(constraints=[feasible_part]), observed=GRID[:3])

    def test_a_sum_with_a_weight_of_zero_has_a_direction(self):
        transform = weights(0.0, -1.0)
        total = ScalarizedUCB.from_model(TWO, posterior_transform=transform, **GIVEN)
        for own in (total, total.band.at(delta=0.02)):
            guarded(regret(linear(0.0, -1.0), TWO), own)
            with pytest.raises(UnsupportedError, match="small outcomes and the band"):
                guarded(regret(linear(0.0, 1.0), TWO), own)

    @pytest.mark.parametrize("name", SMALL)
    def test_a_search_for_small_outcomes_is_refused_around_large_ones(self, name):
        acqf = SMALL[name]()
        with pytest.raises(UnsupportedError, match="small outcomes and the band large"):
            guarded(acqf)
        if name != "fixed":  # of one column
            guarded(acqf, band(maximize=False))

    @pytest.mark.parametrize("name", EITHER)
    def test_what_has_no_direction_of_one_outcome_is_taken(self, name):
        for maximize in (True, False):
            guarded(EITHER[name](), band(maximize=maximize))

    def test_an_objective_that_turns_has_another_optimum(self):
        middle = float(OBJECTIVE.Y.median())
        turning = GenericMCObjective(lambda Y, X: -((Y[..., 0] - middle) ** 2))
        with pytest.raises(UnsupportedError, match="both rises and falls"):
            guarded(regret(turning))

    def test_a_weighted_sum_is_asked_along_its_weights(self):
        single = [band(), MartingaleMixtureUCB(PURITY.model, norm_bound=5.0)]
        difference = regret(linear(-1.0, 2.0), TWO)
        guarded(difference, ScalarizedUCB(single, [-1.0, 2.0]))
        with pytest.raises(UnsupportedError, match="small outcomes and the band large"):
            guarded(difference, ScalarizedUCB(single, [1.0, -2.0]))

    def test_a_model_that_no_bound_takes_is_kept_for_the_search(self):
        with pytest.raises(UnsupportedError, match=r"GuardedAcquisition\(acqf_of_your"):
            MartingaleMixtureUCB(ENSEMBLE, norm_bound=5.0)
        acqf = guarded(qLogExpectedImprovement(ENSEMBLE, 0.0))
        point, _ = optimize_acqf(acqf, CUBE, 1, num_restarts=1, raw_samples=8)
        assert float(acqf.excess(point)) > -5.0 * 0.02


def test_the_order_of_columns_does_not_matter():
    problem = make_problem(n=20, d=3, norm=4.0, seed=4)
    columns, points, found = [2, 0, 1], 2.0 * uniform(99, 3, 2), []
    for order in ([0, 1, 2], columns):
        own = MartingaleMixtureUCB(
            KernelRegression(problem.X[:, order], problem.Y, problem.kernel, 0.1),
            norm_bound=9.0,
        )
        context = {order.index(2) - 3: 0.4}
        acqf = guarded(own=own, acqf=Plain(own.model), fixed_features=context)
        found.append((at(acqf, points[:, order]), acqf.reference, acqf._unit))
    (values, reference, unit), (others, moved, same) = found
    assert_close(others, values, rtol=REARRANGED, atol=REARRANGED)
    assert torch.equal(moved, reference[:, columns])
    assert same == pytest.approx(unit, rel=REARRANGED)


CONSTRAINTS = OutcomeConstraints(outcome_bands(PURITY.model, num_bounds=2, **GIVEN), LEVEL)


class TestConstraints:
    def guard(self, constraints=CONSTRAINTS, **options):
        own = MartingaleMixtureUCB(MODEL, delta=0.025, **GIVEN)
        return guarded(log_nei(), ConstrainedUCB(own, constraints), **options)

    def test_the_reference_is_certainly_feasible(self):
        acqf = self.guard()
        feasible = OBJECTIVE.X[CONSTRAINTS.is_feasible(OBJECTIVE.X)]
        assert 0 < len(feasible) < len(OBJECTIVE.X)
        lower, _ = acqf.band.bounds(feasible)
        assert torch.equal(acqf.reference[0], feasible[lower.argmax()])
        assert acqf.assumptions.delta == pytest.approx(0.05)

    def test_both_restrictions_hold(self):
        acqf = self.guard(temperature=0.0)
        chosen, _ = optimize_acqf_discrete(acqf, 3, GRID, unique=True)
        assert bool((acqf.excess(chosen) >= 0.0).all())
        assert bool(CONSTRAINTS.may_be_feasible(chosen).all())
        inside = (acqf.excess(GRID) >= 0.0) & CONSTRAINTS.may_be_feasible(GRID)
        values = at(acqf, GRID)
        assert float(values[inside].min()) > -1e3
        assert float(values[~inside].max()) < -1e20

    def test_before_any_point_is_certainly_feasible(self):
        limited = CONSTRAINTS.constraints[0].band
        none = OutcomeConstraints(limited, float(limited.bounds(GRID)[1].quantile(0.8)))
        acqf = self.guard(none)
        assert acqf.reference.shape == (0, 2)
        assert bool((acqf.excess(GRID) == torch.inf).all())
        torch.manual_seed(0)
        point, value = optimize_acqf(acqf, CUBE, q=2, num_restarts=4, raw_samples=128)
        assert bool(torch.isfinite(value))
        assert bool((none.possible_margin(point) > -5.0 * 0.02).all())
