r"""The guard: what it keeps, what it excludes, and that it changes nothing else."""

import copy
import math

import pytest
import torch
from botorch.acquisition import (
    AcquisitionFunction,
    ExpectedImprovement,
    FixedFeatureAcquisitionFunction,
    LogExpectedImprovement,
    PosteriorMean,
    UpperConfidenceBound,
    qKnowledgeGradient,
    qLogNoisyExpectedImprovement,
    qUpperConfidenceBound,
)
from botorch.acquisition.analytic import LogConstrainedExpectedImprovement
from botorch.acquisition.multi_objective import (
    IdentityMCMultiOutputObjective,
    qLogNoisyExpectedHypervolumeImprovement,
)
from botorch.acquisition.multi_objective.parego import qLogNParEGO
from botorch.acquisition.objective import (
    IdentityMCObjective,
    LinearMCObjective,
    ScalarizedPosteriorTransform,
)
from botorch.exceptions import (
    BotorchTensorDimensionError,
    InputDataError,
    UnsupportedError,
)
from botorch.models import ModelListGP
from botorch.optim import optimize_acqf, optimize_acqf_discrete, optimize_acqf_mixed
from hypothesis import given
from hypothesis import strategies as st

from kernelucb import (
    ConstrainedUCB,
    GuardedAcquisition,
    KernelFamilyUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    ScalarizedUCB,
)
from kernelucb.acquisition.guarded import is_ucb_turn
from problems import float64, frozen_kernel, make_problem, uniform
from tolerances import REARRANGED

# Most of the square is excluded, and of its corners the one far from zero.
PROBLEM = make_problem(n=20, d=2, norm=4.0, noise_std=0.05, seed=4)
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
GRID = uniform(1000, 2, seed=9)
# BoTorch adds jitter to the small matrices of qLogNEI, and says so.
pytestmark = pytest.mark.filterwarnings(
    "ignore::linear_operator.utils.warnings.NumericalWarning"
)
SEARCH = {"num_restarts": 2, "raw_samples": 32, "options": {"maxiter": 20}}


class Plain(AcquisitionFunction):
    r"""A smooth function of one point or several, in any unit, largest at one corner."""

    def __init__(self, model, unit=1.0, log=False):
        super().__init__(model)
        self.unit, self._log = unit, log

    def forward(self, X):
        return self.unit * X.square().sum(-1).sum(-1)


def band(**options):
    return MartingaleMixtureUCB(PROBLEM.model, norm_bound=5.0, **options)


def guarded(acqf=None, **options):
    own = band()
    return GuardedAcquisition(acqf or Plain(own.model), own, **options)


def log_nei(model=None, X=None):
    model = model or PROBLEM.model
    return qLogNoisyExpectedImprovement(model, PROBLEM.X if X is None else X)


def test_what_is_excluded_is_what_the_set_says():
    acqf = guarded()
    lower, _ = acqf.band.bounds(PROBLEM.X)
    _, upper = acqf.band.bounds(GRID)
    assert torch.equal(acqf.reference[0], PROBLEM.X[lower.argmax()])
    # Functions of the set: their differences are within the bound, which one of them meets.
    excess = acqf.excess(GRID)
    assert bool((excess <= upper - lower.max() + REARRANGED).all())
    for x in GRID[:3]:
        witness = acqf.band.witness(x.unsqueeze(0))
        gains = witness(GRID) - witness(acqf.reference)
        assert bool((gains <= excess + REARRANGED).all())
    share = float((excess < 0).double().mean())
    wider = float((upper < lower.max()).double().mean())
    assert 0.05 < wider < share < 0.98


@given(st.integers(0, 10_000))
def test_every_maximiser_of_a_function_in_the_set_is_kept(seed):
    acqf = guarded()
    x = uniform(1, 2, seed)
    witness = acqf.band.witness(x)
    best = witness(GRID).argmax()
    assert float(acqf.excess(GRID[best : best + 1])) >= -REARRANGED


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


@pytest.mark.parametrize("name", DOMAINS)
def test_the_maximiser_of_another_domain_is_kept(name):
    options, X = DOMAINS[name]
    values = PROBLEM.function(X)
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
    torch.testing.assert_close(acqf.excess(acqf.reference), torch.zeros(1).double())
    point, _ = optimize_acqf_discrete(acqf, 1, X)
    assert float(acqf.excess(point)) >= 0.0


def test_points_that_no_context_of_the_constraint_allows_are_no_reference():
    acqf = guarded(inequality_constraints=SUM, fixed_features={0: 0.7})
    assert acqf.reference.shape == (0, 2)
    assert torch.equal(acqf.excess(GRID), torch.full_like(GRID[:, 0], torch.inf))
    assert math.isfinite(float(acqf(GRID[:1])))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"fixed_features": {2: 0.0}}, ValueError, "There is no column 2"),
        ({"fixed_features": {-1: 0.0}}, ValueError, "There is no column -1"),
        (
            {"inequality_constraints": [(torch.tensor([2]), float64([1.0]), 0.0)]},
            ValueError,
            "There is no column 2",
        ),
        ({"bounds": CUBE.flip(0)}, ValueError, "below its upper"),
        ({"bounds": CUBE[:, :1]}, BotorchTensorDimensionError, "bounds must be `2 x 2`"),
        ({"bounds": [(0.0, 1.0)] * 2}, InputDataError, "bounds must be a torch"),
    ],
)
def test_domains_that_are_none(options, error, words):
    with pytest.raises(error, match=words):
        guarded(**options)


def test_the_set_is_never_empty():
    acqf = guarded(temperature=0.0)
    assert float(acqf.excess(acqf.reference)) == 0.0
    chosen, _ = optimize_acqf_discrete(acqf, 1, torch.cat([PROBLEM.X, CUBE]))
    assert float(acqf.excess(chosen)) >= 0.0


@pytest.mark.parametrize("log", [True, False])
def test_values_inside_are_those_of_the_function(log):
    acqf = guarded(Plain(PROBLEM.model, log=log))
    inside = GRID[acqf.excess(GRID) >= 0.0].unsqueeze(-2)
    assert len(inside) > 10
    paid = (acqf.acqf(inside) - acqf(inside)) / acqf._unit
    assert float(paid.min()) >= 0.0
    assert float(paid.max()) < 0.02


def test_outside_the_gradient_leads_back():
    acqf = guarded(Plain(PROBLEM.model, unit=0.0, log=True))
    outside = GRID[acqf.excess(GRID) < -0.1].unsqueeze(-2).requires_grad_()
    (gradient,) = torch.autograd.grad(acqf(outside).sum(), outside)
    with torch.no_grad():
        length = gradient.norm(dim=-1, keepdim=True)
        further = outside + 1e-4 * gradient / length
    assert bool((acqf.excess(further[:, 0]) > acqf.excess(outside[:, 0])).all())


def test_gradcheck():
    acqf = guarded(log_nei())
    X = GRID[:6].reshape(3, 2, 2).clone().requires_grad_()
    assert torch.autograd.gradcheck(acqf, (X,), eps=1e-6, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("shape", [(2,), (1,), (5, 1), (5, 3), (4, 5, 2)])
def test_shapes_are_those_of_the_function(shape):
    acqf = guarded(log_nei())
    X = uniform(math.prod(shape), 2, seed=3).reshape(*shape, 2)
    assert acqf(X).shape == acqf.acqf(X).shape


@pytest.mark.parametrize("unit", [1e-2, 1.0, 1e6])
def test_the_unit_of_the_function_does_not_matter(unit):
    acqf = guarded(Plain(PROBLEM.model, unit))
    torch.manual_seed(0)
    point, _ = optimize_acqf(acqf, CUBE, q=1, **SEARCH)
    width = 0.02 * acqf.band.prior_std
    assert float(acqf.excess(point)) > -5.0 * width
    # The corner where the function is largest is excluded, the best of the rest is found.
    assert float(acqf.excess(CUBE[1:])) < -10.0 * width
    within = GRID[acqf.excess(GRID) > 3.0 * width]
    assert float(acqf.acqf(point)) > float(acqf.acqf(within.unsqueeze(-2)).max()) - (
        0.1 * unit
    )


def test_a_candidate_of_a_finite_set_is_inside():
    acqf = guarded(temperature=0.0)
    chosen, _ = optimize_acqf_discrete(acqf, 5, GRID)
    assert bool((acqf.excess(chosen) >= 0.0).all())
    inside = GRID[acqf.excess(GRID) >= 0.0]
    best = acqf.acqf(inside.unsqueeze(-2)).topk(5).indices
    assert {tuple(x) for x in chosen.tolist()} == {tuple(x) for x in inside[best].tolist()}


def test_of_a_finite_set_without_possible_maximisers_the_likeliest():
    acqf = guarded(temperature=0.0)
    excess = acqf.excess(GRID)
    outside = GRID[excess < 0.0]
    chosen, _ = optimize_acqf_discrete(acqf, 1, outside)
    nearest = float(excess[excess < 0.0].max())
    assert float(acqf.excess(chosen)) == pytest.approx(nearest, abs=REARRANGED)


@pytest.mark.parametrize("kernel", ["rbf", "matern32", "matern52"])
def test_gradients_are_finite_at_and_next_to_the_reference(kernel):
    problem = make_problem(n=20, d=2, norm=4.0, noise_std=0.05, seed=4, kernel=kernel)
    own = MartingaleMixtureUCB(problem.model, norm_bound=20.0)
    acqf = GuardedAcquisition(Plain(own.model), own)
    for step in (0.0, 1e-12, 1e-9, 1e-6):
        X = (acqf.reference + step).requires_grad_()
        (gradient,) = torch.autograd.grad(acqf.excess(X).sum(), X)
        assert bool(torch.isfinite(gradient).all())


FUNCTIONS = {
    "LogEI": lambda m: LogExpectedImprovement(m, PROBLEM.Y.max()),
    "UCB": lambda m: UpperConfidenceBound(m, 2.0),
    "mean": PosteriorMean,
    "qUCB": lambda m: qUpperConfidenceBound(m, 2.0),
    "qLogNEI": log_nei,
    "band": lambda m: band(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_any_function_is_optimised_within_the_guard(name):
    torch.manual_seed(1)
    acqf = guarded(FUNCTIONS[name](PROBLEM.model))
    point, value = optimize_acqf(acqf, CUBE, q=1, **SEARCH)
    assert math.isfinite(float(value))
    assert float(acqf.excess(point)) > -5.0 * 0.02 * acqf.band.prior_std


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.NumericsWarning")
def test_expected_improvement_keeps_its_small_values():
    best = PROBLEM.Y.max() + 0.5
    acqf = guarded(ExpectedImprovement(PROBLEM.model, best))
    inside = acqf.excess(GRID) >= 0.0
    own = acqf.acqf(GRID.unsqueeze(-2))
    ours = acqf(GRID.unsqueeze(-2))
    assert int(ours.argmax()) == int(torch.where(inside, own, 0.0).argmax())


def test_joint_batches_with_constraints_and_fixed_features():
    acqf = guarded(log_nei())
    torch.manual_seed(0)
    constraint = (torch.tensor([0, 1]), float64(1.0).repeat(2), 0.8)  # x1 + x2 >= 0.8
    points, _ = optimize_acqf(
        acqf, CUBE, q=3, inequality_constraints=[constraint], **SEARCH
    )
    assert points.shape == (3, 2)
    assert bool((points.sum(-1) >= 0.8 - 1e-6).all())
    fixed, _ = optimize_acqf_mixed(acqf, CUBE, 2, 2, [{0: 0.2}, {0: 0.7}], raw_samples=16)
    assert set(fixed[:, 0].tolist()) <= {0.2, 0.7}


def test_a_sequential_batch_tells_both_of_its_pending_points():
    acqf = guarded(log_nei())
    alone = acqf.acqf.X_pending
    points, _ = optimize_acqf(acqf, CUBE, q=3, sequential=True, **SEARCH)
    assert points.shape == (3, 2)
    assert alone is None
    assert acqf.X_pending is None
    assert acqf.band.X_pending is None
    acqf.set_X_pending(points)
    assert torch.equal(acqf.X_pending, points)
    assert torch.equal(acqf.band.X_pending, points)
    before = acqf.excess(GRID)
    acqf.set_X_pending(None)
    assert torch.equal(acqf.excess(GRID), before)


def test_pending_points_of_the_function_are_kept():
    own = qLogNoisyExpectedImprovement(PROBLEM.model, PROBLEM.X, X_pending=GRID[:2])
    assert guarded(own).X_pending is not None or own.incremental
    other = qUpperConfidenceBound(PROBLEM.model, 2.0, X_pending=GRID[:2])
    assert torch.equal(guarded(other).band.X_pending, GRID[:2])


def test_analytic_functions_refuse_pending_points_as_they_do_alone():
    acqf = guarded(LogExpectedImprovement(PROBLEM.model, 0.0))
    acqf.set_X_pending(None)
    with pytest.raises(UnsupportedError, match="X_pending"):
        acqf.set_X_pending(GRID[:1])


def test_fixed_features():
    fixed = FixedFeatureAcquisitionFunction(guarded(log_nei()), 2, [0], [0.3])
    assert fixed(GRID[:4, 1:].unsqueeze(-2)).shape == (4,)
    fixed.X_pending = GRID[:1, 1:]
    assert fixed.acq_func.band.X_pending.tolist() == [[0.3, float(GRID[0, 1])]]


def test_small_outcomes_are_the_mirror_image():
    mirrored = copy.deepcopy(PROBLEM)
    mirrored.Y = -PROBLEM.Y
    plain = band()
    down = MartingaleMixtureUCB(mirrored.model, norm_bound=5.0, maximize=False)
    by_weight = MartingaleMixtureUCB(
        mirrored.model,
        norm_bound=5.0,
        posterior_transform=ScalarizedPosteriorTransform(-torch.ones(1).double()),
    )
    values = GuardedAcquisition(Plain(plain.model), plain)(GRID.unsqueeze(-2))
    for other in (down, by_weight):
        own = GuardedAcquisition(Plain(other.model), other)(GRID.unsqueeze(-2))
        torch.testing.assert_close(own, values, rtol=REARRANGED, atol=REARRANGED)


def test_both_must_seek_the_same():
    down = band(maximize=False)
    with pytest.raises(UnsupportedError, match="seeks large outcomes and the band small"):
        GuardedAcquisition(UpperConfidenceBound(down.model, 2.0), down)
    GuardedAcquisition(UpperConfidenceBound(down.model, 2.0, maximize=False), down)
    transform = ScalarizedPosteriorTransform(-torch.ones(1).double())
    with pytest.raises(UnsupportedError, match="seeks small outcomes and the band large"):
        guarded(PosteriorMean(PROBLEM.model, transform))


def two_outcomes():
    return ModelListGP(PROBLEM.model, PROBLEM.model)


def weights(*values):
    return torch.tensor(values, dtype=torch.float64)


def hypervolume(model):
    return qLogNoisyExpectedHypervolumeImprovement(model, weights(-3.0, -3.0), PROBLEM.X)


SEVERAL = {
    "hypervolume": hypervolume,
    "scalarized at random": lambda m: qLogNParEGO(m, PROBLEM.X),
    "no objective": Plain,
    "first of two": lambda m: _with(Plain(m), objective=IdentityMCObjective()),
    "an objective for each": lambda m: _with(
        Plain(m), objective=IdentityMCMultiOutputObjective()
    ),
}
ONE_OF_TWO = {
    "sum": lambda m: qUpperConfidenceBound(
        m, 2.0, objective=LinearMCObjective(weights(1.0, 0.5))
    ),
    "transform": lambda m: PosteriorMean(
        m, ScalarizedPosteriorTransform(weights(1.0, 0.0))
    ),
    "constrained": lambda m: LogConstrainedExpectedImprovement(
        m, 0.0, objective_index=0, constraints={1: (0.0, None)}
    ),
    "constrained bound": lambda m: ConstrainedUCB.from_model(
        m, constraints={1: (0.0, None)}, norm_bound=5.0
    ),
    "sum of bounds": lambda m: ScalarizedUCB([band(), band()], [1.0, 0.5]),
}


def _with(acqf, **attributes):
    for name, value in attributes.items():
        setattr(acqf, name, value)
    return acqf


@pytest.mark.parametrize("name", SEVERAL)
def test_functions_of_several_objectives_are_refused(name):
    with pytest.raises(UnsupportedError, match="one objective"):
        guarded(SEVERAL[name](two_outcomes()))


@pytest.mark.parametrize("name", ONE_OF_TWO)
def test_one_objective_of_several_outcomes(name):
    assert guarded(ONE_OF_TWO[name](two_outcomes()))(GRID[:1]).shape == (1,)


def test_one_shot_functions_are_refused():
    with pytest.raises(UnsupportedError, match="one-shot"):
        guarded(qKnowledgeGradient(PROBLEM.model, num_fantasies=2))


@given(st.integers(1, 12), st.integers(0, 500), st.integers(1, 500))
def test_one_point_of_each_block_is_the_upper_bounds(every, start, rounds):
    first = start * every
    turns = [is_ucb_turn(count, every) for count in range(first, first + rounds)]
    assert sum(turns) >= rounds // every
    blocks = [turns[i : i + every] for i in range(0, rounds - every + 1, every)]
    assert all(sum(block) == 1 for block in blocks)


@pytest.mark.parametrize("every", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("step", [2, 3, 4, 5, 8])
def test_no_batch_size_misses_all_turns(every, step):
    for start in range(every):
        turns = [is_ucb_turn(start + step * i, every) for i in range(400)]
        assert 0.7 / every < sum(turns) / 400 < 1.4 / every


def test_on_its_turn_the_upper_bound_is_maximised():
    own = band()
    turns = {}
    for count in range(4):
        pending = GRID[:count] if count else None
        acqf = GuardedAcquisition(log_nei(), own, ucb_every=4, X_pending=pending)
        is_turn = is_ucb_turn(20 + count, 4)
        turns[count] = is_turn
        values = acqf(GRID.unsqueeze(-2))
        assert torch.equal(values, own(GRID.unsqueeze(-2))) == is_turn
        # In the first round, not in the one in which it is the bound's turn.
        with pytest.raises(BotorchTensorDimensionError, match="sequential=True"):
            acqf(GRID.reshape(500, 2, 2))
    assert sum(turns.values()) == 1
    points, _ = optimize_acqf(
        GuardedAcquisition(log_nei(), band(), ucb_every=2), CUBE, 4, sequential=True,
        **SEARCH,
    )  # fmt: skip
    assert points.shape == (4, 2)


def test_bands_of_several_kernels_and_of_sums():
    kernels = [frozen_kernel("rbf", 0.3), frozen_kernel("matern52", 0.2)]
    family = KernelFamilyUCB(PROBLEM.model, kernels, norm_bound=20.0)
    acqf = GuardedAcquisition(log_nei(), family, ucb_every=3)
    _, upper = family.bounds(GRID)
    exact = upper - family.bounds(PROBLEM.X)[0].max()
    assert bool((acqf.excess(GRID) <= exact + REARRANGED).all())
    both = ScalarizedUCB([band(), band()], [1.0, 0.5])
    assert GuardedAcquisition(log_nei(), both, observed=PROBLEM.X)(GRID[:1]).shape == (1,)


def test_what_was_observed_must_be_known():
    transformed = KernelRegression.from_model(PROBLEM.model)
    transformed.prior.input_transform = torch.nn.Identity()
    own = MartingaleMixtureUCB(transformed, norm_bound=5.0)
    with pytest.raises(UnsupportedError, match="give them as `observed`"):
        GuardedAcquisition(Plain(PROBLEM.model), own)
    with pytest.raises(BotorchTensorDimensionError, match="observed must be `n x 2`"):
        guarded(observed=PROBLEM.X[:, :1])


def test_printed_in_a_few_lines():
    acqf = guarded(log_nei())
    assert repr(acqf).splitlines() == [
        "GuardedAcquisition(acqf=qLogNoisyExpectedImprovement, band=MartingaleMixtureUCB, "
        "norm_bound=5, delta=0.05, num_observations=20)",
        "  " + str(acqf.assumptions).partition("\n")[0],
    ]


def test_copies_and_states():
    acqf = guarded(log_nei())
    values = acqf(GRID[:5].unsqueeze(-2))
    assert torch.equal(copy.deepcopy(acqf)(GRID[:5].unsqueeze(-2)), values)
    acqf.load_state_dict(acqf.state_dict())
