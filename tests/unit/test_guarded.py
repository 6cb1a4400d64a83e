r"""The guard: what it keeps, what it excludes, and that it changes nothing else."""

import copy
import math

import pytest
import torch
from botorch.acquisition import (
    AcquisitionFunction,
    FixedFeatureAcquisitionFunction,
    PosteriorMean,
    PosteriorStandardDeviation,
    UpperConfidenceBound,
    qKnowledgeGradient,
    qLogExpectedImprovement,
    qLogNoisyExpectedImprovement,
    qSimpleRegret,
)
from botorch.acquisition.analytic import LogConstrainedExpectedImprovement
from botorch.acquisition.monte_carlo import qPosteriorStandardDeviation
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
    MartingaleMixtureUCB,
    OutcomeConstraints,
    ScalarizedUCB,
)
from kernelucb.acquisition import outcome_bands
from kernelucb.acquisition.turns import turn_at
from problems import float64, make_problem, uniform
from tolerances import GRADCHECK, REARRANGED

# Most of the square is excluded, and of its corners the one far from zero.
GRID = uniform(400, 2, seed=9)
MODEL = OBJECTIVE.model
# BoTorch adds jitter to the small matrices of qLogNEI, and says so.
pytestmark = pytest.mark.filterwarnings(
    "ignore::linear_operator.utils.warnings.NumericalWarning"
)


class Plain(AcquisitionFunction):
    r"""A smooth function of one point or several, in any unit, largest at one corner."""

    def __init__(self, model=MODEL, unit=1.0, log=False, **attributes):
        super().__init__(model)
        self.unit, self._log = unit, log
        vars(self).update(attributes)

    def forward(self, X):
        return self.unit * X.square().sum(-1).sum(-1)


def band(**options):
    return MartingaleMixtureUCB(MODEL, norm_bound=5.0, **options)


def guarded(acqf=None, bound=None, **options):
    return GuardedAcquisition(acqf or Plain(), bound or band(), **options)


def log_nei(**options):
    return qLogNoisyExpectedImprovement(MODEL, OBJECTIVE.X, **options)


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
        assert 20 < (upper < lower.max()).sum() < (excess < 0).sum() < 392

    @given(st.integers(0, 10_000))
    def test_every_maximiser_of_a_function_in_the_set_is_kept(self, seed):
        acqf = guarded()
        witness = acqf.upper_bound.witness(uniform(1, 2, seed))
        best = witness(GRID).argmax()
        assert float(acqf.excess(GRID[best : best + 1])) >= -REARRANGED

    @pytest.mark.parametrize(
        "options", [{"maximize": False}, {"posterior_transform": weights(-1.0)}]
    )
    def test_small_outcomes_are_the_mirror_image(self, options):
        mirrored = copy.deepcopy(OBJECTIVE)
        mirrored.Y = -OBJECTIVE.Y
        bound = MartingaleMixtureUCB(mirrored.model, norm_bound=5.0, **options)
        values, other = at(guarded(), GRID), at(guarded(bound=bound), GRID)
        assert_close(other, values, rtol=REARRANGED, atol=REARRANGED)


LINE = torch.stack([torch.linspace(0.0, 1.0, 501).double()] * 2, -1)
# Where x1 + x2 is at most 0.6, as BoTorch writes it.
SUM = [(torch.tensor([0, 1]), float64([-1.0, -1.0]), -0.6)]
DOMAINS = {
    "box": ({"bounds": float64([[0.0, 0.0], [0.4, 0.5]])}, GRID * float64([0.4, 0.5])),
    "context in a box": (
        {"bounds": float64([[0.6, 0.3], [1.0, 0.5]]), "fixed_features": {1: 0.0}},
        LINE * float64([0.4, 0.0]) + float64([0.6, 0.0]),
    ),
    "context and constraint": (
        {"fixed_features": {-1: 0.3}, "inequality_constraints": SUM},
        LINE * float64([0.3, 0.0]) + float64([0.0, 0.3]),
    ),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_the_maximiser_of_another_domain_is_kept(name):
    options, X = DOMAINS[name]
    values = OBJECTIVE.function(X)
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
        acqf = guarded(Plain(log=log))
        inside = GRID[acqf.excess(GRID) >= 0.0].unsqueeze(-2)
        assert len(inside) > 10
        paid = (acqf.acqf(inside) - acqf(inside)) / acqf._unit
        assert 0.0 <= float(paid.min()) <= float(paid.max()) < 0.02

    def test_the_gradient_is_right_and_leads_back_from_outside(self):
        X = GRID[:6].reshape(3, 2, 2).clone().requires_grad_()
        assert torch.autograd.gradcheck(guarded(log_nei()), (X,), **GRADCHECK)
        acqf = guarded(Plain(unit=0.0, log=True))
        outside = GRID[acqf.excess(GRID) < -0.1].unsqueeze(-2).requires_grad_()
        (gradient,) = torch.autograd.grad(acqf(outside).sum(), outside)
        with torch.no_grad():
            further = outside + 1e-4 * gradient / gradient.norm(dim=-1, keepdim=True)
        assert bool((acqf.excess(further[:, 0]) > acqf.excess(outside[:, 0])).all())

    @pytest.mark.parametrize("kernel", ["rbf", "matern32"])
    def test_gradients_are_finite_at_and_next_to_the_reference(self, kernel):
        problem = make_problem(n=20, d=2, norm=4.0, noise_std=0.05, seed=4, kernel=kernel)
        acqf = guarded(bound=MartingaleMixtureUCB(problem.model, norm_bound=20.0))
        for step in (0.0, 1e-12, 1e-9, 1e-6):
            X = (acqf.reference + step).requires_grad_()
            (gradient,) = torch.autograd.grad(acqf.excess(X).sum(), X)
            assert bool(torch.isfinite(gradient).all())

    @pytest.mark.parametrize("unit", [1e-2, 1.0, 1e6])
    def test_the_unit_of_the_function_does_not_matter(self, unit):
        acqf = guarded(Plain(unit=unit))
        torch.manual_seed(0)
        point, _ = optimize_acqf(acqf, CUBE, q=1, **SEARCH)
        width = 0.02 * acqf.band.prior_std
        assert float(acqf.excess(point)) > -5.0 * width
        # The corner where the function is largest is excluded, the best of the rest found.
        assert float(acqf.excess(CUBE[1:])) < -10.0 * width
        largest = float(at(acqf.acqf, GRID[acqf.excess(GRID) > 3.0 * width]).max())
        assert float(acqf.acqf(point)) > largest - 0.1 * unit


TWO, BOTH = ModelListGP(MODEL, MODEL), ModelListGP(MODEL, PURITY.model)
PERTURBED = SingleTaskGP(
    OBJECTIVE.X,
    OBJECTIVE.Y.unsqueeze(-1),
    input_transform=InputPerturbation(0.01 * GRID[:4]),
)
ENSEMBLE = EnsembleMapSaasSingleTaskGP(OBJECTIVE.X, OBJECTIVE.Y.unsqueeze(-1))


class TestSearch:
    @pytest.mark.parametrize(
        "build",
        [
            lambda: UpperConfidenceBound(MODEL, 2.0),
            log_nei,
            band,
            # No bound takes an ensemble.
            lambda: qLogExpectedImprovement(ENSEMBLE, 0.0),
        ],
    )
    def test_any_function_is_optimised_within_the_guard(self, build):
        torch.manual_seed(1)
        acqf = guarded(build())
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
    @given(st.integers(1, 12), st.integers(0, 500))
    def test_each_turn_of_a_block_comes_once(self, every, start):
        turns = range(every)
        found = [turn_at(turns, start * every + place) for place in turns]
        assert sorted(found) == [*turns]

    @pytest.mark.parametrize("every", [2, 3, 4, 5, 8])
    @pytest.mark.parametrize("step", [2, 3, 4, 5, 8])
    def test_no_batch_size_misses_all_turns(self, every, step):
        for start in range(every):
            turns = [turn_at(range(every), start + step * i) for i in range(400)]
            assert 0.7 / every < turns.count(0) / 400 < 1.4 / every

    @pytest.mark.representatives("True")
    @pytest.mark.parametrize("limited", [False, True])
    def test_on_its_turn_the_upper_bound_is_maximised(self, limited):
        bound = ConstrainedUCB(band(), CONSTRAINTS) if limited else band()
        turns = []
        for count in range(4):
            pending = GRID[:count] if count else None
            acqf = guarded(log_nei(), bound, ucb_every=4, X_pending=pending)
            turns.append(turn_at(range(4), 20 + count) == 0)
            assert torch.equal(at(acqf, GRID), at(bound, GRID)) == turns[-1]
        assert sum(turns) == 1
        with pytest.raises(BotorchTensorDimensionError, match="sequential=True"):
            acqf(GRID.reshape(200, 2, 2))


def linear(*values):
    return LinearMCObjective(float64(values))


def smaller(Y, X=None):
    return -Y[..., 0]


def feasible_part(Y):
    return Y[..., -1] - 1.0


def regret(objective, model=MODEL, **options):
    return qSimpleRegret(model, objective=objective, **options)


def generic(function, model=MODEL):
    return regret(GenericMCObjective(function), model)


# The optimum that each seeks may be another than the band's, in either direction.
OTHER = {
    "scalarized at random": lambda: qLogNParEGO(TWO, OBJECTIVE.X),
    "no objective": lambda: Plain(TWO),
    "one shot": lambda: qKnowledgeGradient(MODEL, num_fantasies=2),
    "of inputs too": lambda: generic(lambda Y, X: X[..., 0] - Y[..., 0]),
    "turning": lambda: generic(lambda Y, X: -((Y[..., 0] - OBJECTIVE.Y.median()) ** 2)),
    "constrained": lambda: regret(ConstrainedMCObjective(smaller, [feasible_part]), BOTH),
    "limits": lambda: log_nei(constraints=[feasible_part]),
    "analytic limits": lambda: LogConstrainedExpectedImprovement(
        BOTH, 0.0, 0, {1: (0.0, None)}
    ),
    "risk": lambda: regret(VaR(0.5, 4, linear(-1.0)), PERTURBED),
}
# Each seeks small outcomes: of the first output, where there are two.
SMALL = {
    "UCB": lambda: UpperConfidenceBound(MODEL, 2.0, maximize=False),
    "weight": lambda: log_nei(objective=linear(-1.0)),
    "steps": lambda: generic(lambda Y, X: -(Y[..., 0] > 0.0).double()),
    "saturated": lambda: generic(lambda Y, X: -(Y[..., 0].relu())),
    "twice": lambda: regret(linear(2.0), posterior_transform=weights(-1.0)),
    "both": lambda: regret(linear(-1.0, -0.5), BOTH),
    "transform of two": lambda: PosteriorMean(BOTH, weights(-1.0, 0.0)),
    "ensemble": lambda: regret(linear(-1.0), ENSEMBLE),
    "penalised": lambda: PenalizedAcquisitionFunction(
        regret(linear(-1.0)), L2Penalty(float64([0.0, 0.0])), 0.1
    ),
    "band": lambda: band(maximize=False),
}
# These have no direction of one outcome.
EITHER = {
    "smallest deviation": lambda: PosteriorStandardDeviation(MODEL, maximize=False),
    "sampled deviation": lambda: qPosteriorStandardDeviation(MODEL, objective=linear(-1.0)),
    "a difference": lambda: regret(linear(-1.0, 0.5), BOTH),
}
OPPOSITE = "small outcomes and the band"


class TestObjectives:
    @pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.NumericsWarning")
    @pytest.mark.parametrize("name", OTHER)
    def test_what_may_have_another_optimum_is_refused(self, name):
        for maximize in (True, False):
            with pytest.raises(UnsupportedError):
                guarded(OTHER[name](), band(maximize=maximize))

    @pytest.mark.parametrize("name", SMALL)
    def test_a_search_for_small_outcomes_is_refused_around_large_ones(self, name):
        acqf = SMALL[name]()
        with pytest.raises(UnsupportedError, match=OPPOSITE):
            guarded(acqf)
        guarded(acqf, band(maximize=False))

    @pytest.mark.parametrize("name", EITHER)
    @pytest.mark.parametrize("maximize", [True, False])
    def test_what_has_no_direction_of_one_outcome_is_taken(self, name, maximize):
        guarded(EITHER[name](), band(maximize=maximize))

    def test_limits_are_taken_by_a_bound_that_has_them_or_beside_feasible_points(self):
        for acqf in (OTHER["analytic limits"](), made()):
            assert guarded(acqf, made())(GRID[:1]).shape == (1,)
        guarded(log_nei(constraints=[feasible_part]), observed=GRID[:3])

    def test_a_weighted_sum_is_asked_along_its_weights(self):
        single = [band(), MartingaleMixtureUCB(PURITY.model, norm_bound=5.0)]
        difference = regret(linear(-1.0, 2.0), BOTH)
        guarded(difference, ScalarizedUCB(single, [-1.0, 2.0]))
        with pytest.raises(UnsupportedError, match=OPPOSITE):
            guarded(difference, ScalarizedUCB(single, [1.0, -2.0]))

    def test_a_sum_with_a_weight_of_zero_has_a_direction(self):
        transform = weights(0.0, -1.0)
        total = ScalarizedUCB.from_model(BOTH, posterior_transform=transform, **GIVEN)
        for bound in (total, total.band.at(delta=0.02)):
            guarded(regret(linear(0.0, -1.0), BOTH), bound)
            with pytest.raises(UnsupportedError, match=OPPOSITE):
                guarded(regret(linear(0.0, 1.0), BOTH), bound)


CONSTRAINTS = OutcomeConstraints(outcome_bands(PURITY.model, num_bounds=2, **GIVEN), LEVEL)


class TestConstraints:
    def guard(self, constraints=CONSTRAINTS, **options):
        bound = MartingaleMixtureUCB(MODEL, delta=0.025, **GIVEN)
        return guarded(log_nei(), ConstrainedUCB(bound, constraints), **options)

    def test_the_reference_is_certainly_feasible(self):
        acqf = self.guard()
        feasible = OBJECTIVE.X[CONSTRAINTS.is_feasible(OBJECTIVE.X)]
        assert 0 < len(feasible) < len(OBJECTIVE.X)
        lower, _ = acqf.band.bounds(feasible)
        assert torch.equal(acqf.reference[0], feasible[lower.argmax()])
        assert acqf.assumptions.delta == pytest.approx(0.05)

    def test_both_restrictions_hold(self):
        acqf = self.guard(temperature=0.0)
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
