r"""Certificates with categories and integers, given inputs and constrained outcomes."""

import math

import pytest
import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models import MixedSingleTaskGP
from botorch.models.transforms.input import (
    ChainedInputTransform,
    Log10,
    Normalize,
    OneHotToNumeric,
    Round,
    Warp,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelucb import (
    CertifiedGapStopping,
    MartingaleMixtureUCB,
    MixedSpace,
    ScalarizedUCB,
    regret_certificate,
)
from kernelucb.certificates.boxes import change_in
from kernelucb.confidence.outcome_constraints import OutcomeConstraints
from kernelucb.exceptions import NoSafePointError
from kernelucb.regression.prior import is_monotone
from problems import frozen_model, make_problem, uniform, with_point
from tolerances import ORDER

NORM, FLOOR = 3.0, 1e-9
CUBE = torch.tensor([[0.0] * 3, [1.0] * 3], dtype=torch.float64)
LEVELS = [0.0, 0.3, 0.6, 1.0]


def bound(problem, **options):
    return MartingaleMixtureUCB(problem.model, norm_bound=NORM, **options)


def three(**options):
    return make_problem(**{"n": 14, "d": 3, "norm": NORM, "seed": 2, **options})


def enumerated(*columns):
    return torch.cartesian_prod(*(torch.tensor(each).double() for each in columns))


FINE = torch.linspace(0.0, 1.0, 401).tolist()


def test_a_finite_space_is_its_enumeration():
    acqf = bound(three())
    space = MixedSpace(CUBE, discrete_dims={0: LEVELS}, one_hot=[[1, 2]])
    assert len(space.region().points) == 8
    rows = [[level, *code] for level in LEVELS for code in ([1.0, 0.0], [0.0, 1.0])]
    expected = regret_certificate(acqf, torch.tensor(rows).double())
    found = regret_certificate(acqf, space=space)
    assert found.gap == expected.gap
    assert torch.equal(found.recommended, expected.recommended)
    assert torch.equal(found.challenger, expected.challenger)
    assert found.certified


@pytest.mark.parametrize("maximize", [True, False])
def test_one_continuous_input_agrees_with_a_fine_grid(maximize):
    acqf = bound(three(kernel="matern52"), maximize=maximize)
    space = MixedSpace(CUBE, discrete_dims={0: LEVELS, 2: [0.0, 1.0]})
    found = regret_certificate(acqf, space=space, tolerance=0.01)
    grid = enumerated(LEVELS, FINE, [0.0, 1.0])
    best = found.recommended
    other = regret_certificate(acqf, with_point(grid, best), recommended=best)
    assert found.certified
    assert found.gap >= other.gap - FLOOR
    assert found.gap - found.resolution <= 1.001 * other.gap + FLOOR
    assert found.resolution <= 0.01 * found.gap + FLOOR
    for point in (found.recommended, found.challenger):
        assert float(point[0]) in LEVELS
        assert float(point[2]) in (0.0, 1.0)


def test_a_context_is_a_slice():
    acqf = bound(three())
    fixed = regret_certificate(acqf, bounds=CUBE, fixed_features={2: 0.4})
    grid = enumerated(FINE[::8], FINE[::8], [0.4])
    best = fixed.recommended
    sliced = regret_certificate(acqf, with_point(grid, best), recommended=best)
    assert float(fixed.recommended[2]) == float(fixed.challenger[2]) == 0.4
    assert fixed.gap >= sliced.gap - FLOOR
    assert fixed.gap - fixed.resolution <= 1.01 * sliced.gap + FLOOR
    candidates = uniform(40, 3, 5)
    moved = candidates.clone()
    moved[:, 2] = 0.4
    by_columns = regret_certificate(acqf, candidates, fixed_features={2: 0.4})
    assert by_columns.gap == pytest.approx(regret_certificate(acqf, moved).gap, rel=1e-12)
    everything = {0: 0.1, 1: 0.2, 2: 0.4}
    assert regret_certificate(acqf, bounds=CUBE, fixed_features=everything).gap <= FLOOR


def test_a_context_may_be_one_of_the_listed_values():
    acqf = bound(three())
    space = MixedSpace(CUBE, discrete_dims={0: LEVELS}, one_hot=[[1, 2]])
    for fixed, count in (({0: 0.3}, 2), ({1: 1.0}, 4), ({0: 0.3, 2: 1.0}, 1)):
        points = space.region(fixed).points
        assert len(points) == count
        found = regret_certificate(acqf, space=space, fixed_features=fixed)
        assert found.gap == regret_certificate(acqf, candidates=points).gap


def test_linear_constraints_cut_the_domain():
    acqf = bound(three())
    # x0 + x1 <= 0.8 as sums that are at least something.
    limits = [(torch.tensor([0, 1]), torch.tensor([-1.0, -1.0]).double(), -0.8)]
    space = MixedSpace(CUBE, discrete_dims={2: [0.0, 0.5]}, inequality_constraints=limits)
    found = regret_certificate(acqf, space=space, tolerance=0.02)
    grid = enumerated(FINE[::5], FINE[::5], [0.0, 0.5])
    grid = grid[grid[:, :2].sum(-1) <= 0.8 + FLOOR]
    best = found.recommended
    other = regret_certificate(acqf, with_point(grid, best), recommended=best)
    whole = regret_certificate(acqf, bounds=CUBE, recommended=found.recommended)
    for point in (found.recommended, found.challenger):
        assert float(point[:2].sum()) <= 0.8 + FLOOR
    assert other.gap - FLOOR <= found.gap <= whole.gap + FLOOR
    assert found.gap - found.resolution <= 1.01 * other.gap + FLOOR
    never = [(torch.tensor([0]), torch.tensor([1.0]).double(), 2.0)]
    with pytest.raises(InputDataError, match="keeps inequality_constraints"):
        regret_certificate(acqf, space=MixedSpace(CUBE, inequality_constraints=never))


def constrained(seed=1):
    objective, other = three(seed=seed), three(seed=seed + 50, n=40)
    band = bound(other)
    level = float(other.function(uniform(500, 3, 3)).median())
    return bound(objective), OutcomeConstraints(band, level)


def test_outcome_constraints_on_finite_sets_by_hand():
    acqf, constraints = constrained()
    X = uniform(300, 3, 9)
    certificate = regret_certificate(acqf, X, constraints=constraints)
    kept, allowed = constraints.is_feasible(X), constraints.may_be_feasible(X)
    assert 0 < int(kept.sum()) < int(allowed.sum()) < len(X)
    lower = acqf.bounds(X)[0].where(kept, -math.inf)
    best = X[lower.argmax()]
    assert torch.equal(certificate.recommended, best)
    gains = acqf.confidence_set.max_gain_over(X[allowed], best.unsqueeze(0))
    assert certificate.gap == pytest.approx(float(gains.max()), rel=1e-9)
    assert certificate.assumptions.delta == pytest.approx(0.1)
    assert certificate.certified


def test_outcome_constraints_on_boxes_agree_with_a_fine_grid():
    acqf, constraints = constrained()
    space = MixedSpace(CUBE, discrete_dims={0: LEVELS})
    options = {"constraints": constraints, "max_evaluations": 20_000}
    found = regret_certificate(acqf, space=space, **options)
    grid = enumerated(LEVELS, FINE[::8], FINE[::8])
    best = found.recommended
    other = regret_certificate(
        acqf, with_point(grid, best), constraints=constraints, recommended=best
    )
    free = regret_certificate(acqf, space=space, recommended=found.recommended)
    assert bool(constraints.is_feasible(found.recommended))
    assert bool(constraints.may_be_feasible(found.challenger))
    assert other.gap - FLOOR <= found.gap <= free.gap + free.resolution + FLOOR
    assert found.gap - found.resolution <= 1.05 * other.gap + FLOOR


def test_only_certainly_feasible_points_are_recommended():
    acqf, constraints = constrained()
    X = uniform(300, 3, 9)
    doubtful = X[~constraints.is_feasible(X)][0]
    with pytest.raises(NoSafePointError, match="recommended is not certainly feasible"):
        regret_certificate(acqf, X, constraints=constraints, recommended=doubtful)
    hopeless = OutcomeConstraints(constraints.constraints[0].band, 1e3)
    with pytest.raises(NoSafePointError, match="No point that was tried"):
        regret_certificate(acqf, X, constraints=hopeless)


@pytest.mark.parametrize("d", [4, 6])
def test_many_inputs_leave_a_gap_open_and_say_how_much(d):
    r"""What is shown encloses what thousands of points find."""
    problem = make_problem(n=20, d=d, norm=NORM, seed=4)
    box = torch.tensor([[0.0] * d, [1.0] * d], dtype=torch.float64)
    acqf = bound(problem)
    few = regret_certificate(acqf, bounds=box, max_evaluations=500)
    many = regret_certificate(acqf, bounds=box, max_evaluations=4000)
    best = many.recommended
    points = regret_certificate(
        acqf, with_point(uniform(2000, d, 1), best), recommended=best
    )
    assert few.certified
    assert few.gap >= many.gap >= points.gap - FLOOR
    assert many.gap - many.resolution >= points.gap - FLOOR  # the local search found more
    assert not CertifiedGapStopping(0.5 * many.gap, bounds=box)(acqf).stop


def test_a_sum_of_outcomes_is_rigorous_on_boxes():
    first, second = (bound(three(seed=seed)) for seed in (2, 3))
    acqf = ScalarizedUCB([first, second], [1.0, -0.5])
    box, fixed = CUBE, {2: 0.5}
    found = regret_certificate(acqf, bounds=box, fixed_features=fixed, tolerance=0.02)
    grid = enumerated(FINE[::10], FINE[::10], [0.5])
    best = found.recommended
    other = regret_certificate(acqf, with_point(grid, best), recommended=best)
    assert found.certified
    assert other.gap - FLOOR <= found.gap
    assert found.gap - found.resolution <= 1.01 * other.gap + FLOOR


class TestKernelsAndTransforms:
    def mixed(self):
        X = uniform(12, 3, 1)
        X[:, 2] = (3.0 * X[:, 2]).floor()
        model = MixedSingleTaskGP(X, X.sum(-1, keepdim=True).sin(), cat_dims=[2])
        model.outcome_transform = None
        return X, model.requires_grad_(False)

    def test_botorch_s_mixed_model(self):
        r"""Its sum and product of a Matern and a categorical kernel."""
        _, model = self.mixed()
        acqf = MartingaleMixtureUCB(model, norm_bound=NORM, noise_std=0.1)
        space = MixedSpace(CUBE, discrete_dims={2: [0, 1, 2]})
        found = regret_certificate(acqf, space=space)
        grid = enumerated(FINE[::8], FINE[::8], [0.0, 1.0, 2.0])
        best = found.recommended
        other = regret_certificate(acqf, with_point(grid, best), recommended=best)
        assert found.rigorous
        assert other.gap - FLOOR <= found.gap
        assert found.gap - found.resolution <= 1.01 * other.gap + FLOOR

    TRANSFORMS = (
        (Round(integer_indices=[1]), ()),
        (ChainedInputTransform(log=Log10(indices=[0]), unit=Normalize(d=3)), ()),
        (Warp(d=3, indices=[0, 1]).requires_grad_(False), ()),
        (OneHotToNumeric(3, {1: 2}), (1, 2)),
    )

    @settings(max_examples=20)
    @given(index=st.integers(0, 3), seed=st.integers(0, 100))
    def test_no_function_changes_more_in_a_cell(self, index, seed):
        transform, fixed = self.TRANSFORMS[index]
        X = 0.1 + uniform(5, 3, seed)
        X[:, list(fixed)] = X[:, list(fixed)].round()
        problem = make_problem(n=5, d=transform(X.clone()).shape[-1], norm=NORM, seed=seed)
        transform = transform.eval()
        Y = problem.function(transform(X))
        model = frozen_model(X, Y, problem.kernel, 0.1, input_transform=transform)
        acqf = MartingaleMixtureUCB(model, norm_bound=NORM)
        change = change_in(acqf.confidence_set, fixed)
        centre, half = X[:1], 0.08 * uniform(1, 3, seed + 1)
        half[:, list(fixed)] = 0.0
        inside = centre + half * (2.0 * uniform(50, 3, seed + 2) - 1.0)
        values = [problem.function(transform(part)) for part in (inside, centre)]
        largest = float((values[0] - values[1]).abs().max())
        assert largest <= float(change(centre, half)) + ORDER

    def test_codes_that_may_change_are_not_taken(self):
        assert is_monotone(None)
        assert is_monotone(Normalize(d=3))
        assert not is_monotone(OneHotToNumeric(3, {1: 2}))
        assert not is_monotone(OneHotToNumeric(3, {1: 2}), fixed=[1])
        assert is_monotone(OneHotToNumeric(3, {1: 2}), fixed=[1, 2])
        assert not is_monotone(Round(categorical_features={1: 2}))


BAD_SPACES = (
    ({"discrete_dims": {3: [0.0]}}, ValueError, "no column 3"),
    ({"discrete_dims": {0: [0.0]}, "one_hot": [[0, 1]]}, ValueError, "listed twice"),
    ({"discrete_dims": {0: []}}, ValueError, "at least one value"),
    ({"discrete_dims": {0: [math.nan]}}, ValueError, "discrete_dims must be"),
    ({"discrete_dims": {0: range(30)}, "max_combinations": 20}, ValueError, "30 comb"),
    (
        {"inequality_constraints": [(torch.tensor([0, 1]), torch.ones(1).double(), 0.0)]},
        BotorchTensorDimensionError,
        "as many columns as coefficients",
    ),
)


@pytest.mark.parametrize(("options", "error", "words"), BAD_SPACES)
def test_bad_spaces(options, error, words):
    with pytest.raises(error, match=words):
        MixedSpace(CUBE, **options)


def test_bad_input():
    acqf = bound(three())
    space = MixedSpace(CUBE, discrete_dims={0: LEVELS})
    with pytest.raises(ValueError, match="below its upper limit"):
        MixedSpace(CUBE.flip(0), discrete_dims={0: LEVELS})
    with pytest.raises(ValueError, match="candidates or bounds or space"):
        regret_certificate(acqf, bounds=CUBE, space=space)
    with pytest.raises(ValueError, match="does not list"):
        regret_certificate(acqf, space=space, fixed_features={0: 0.5})
    with pytest.raises(ValueError, match="outside its limits"):
        regret_certificate(acqf, space=space, fixed_features={1: 1.5})
    with pytest.raises(ValueError, match="no column 7"):
        regret_certificate(acqf, space=space, fixed_features={7: 1.5})
    with pytest.raises(BotorchTensorDimensionError, match="space has 2 columns"):
        regret_certificate(acqf, space=MixedSpace(CUBE[:, :2]))
    objective, constraints = constrained()
    narrow = bound(make_problem(d=2))
    with pytest.raises(BotorchTensorDimensionError, match="must agree"):
        regret_certificate(narrow, bounds=CUBE[:, :2], constraints=constraints)
    objective.outcome_constraints = constraints
    with pytest.raises(UnsupportedError, match="constraints of its own"):
        regret_certificate(objective, bounds=CUBE, constraints=constraints)


def test_stopping_takes_spaces_and_contexts():
    problem = make_problem(n=40, d=2, norm=1.0, noise_std=0.05)
    acqf = MartingaleMixtureUCB(problem.model, norm_bound=1.0)
    space = MixedSpace(CUBE[:, :2], discrete_dims={1: LEVELS})
    gap = regret_certificate(acqf, space=space, fixed_features={0: 0.4}).gap
    rule = CertifiedGapStopping(1.01 * gap, space=space)
    assert rule(acqf, fixed_features={0: 0.4}).stop
    assert not rule(acqf).stop
