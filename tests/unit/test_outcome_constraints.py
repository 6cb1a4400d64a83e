r"""Outcome constraints: what their bands say, and the bands that share a delta."""

import copy
import pickle

import pytest
import torch
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.models import ModelListGP
from torch.testing import assert_close

from kernelucb import (
    AbbasiYadkoriUCB,
    ConstrainedUCB,
    KernelBandit,
    KernelFamilyUCB,
    MartingaleMixtureUCB,
    OutcomeConstraints,
    SafeSet,
    ScalarizedUCB,
)
from kernelucb.acquisition import outcome_bands
from kernelucb.exceptions import UncertifiedError
from problems import frozen_kernel, make_problem, uniform
from tolerances import GRADCHECK

FIRST, SECOND = make_problem(n=8, d=2), make_problem(n=8, d=2, seed=7)
X = uniform(40, 2, 5)


def bands(**options):
    return outcome_bands([FIRST.model, SECOND.model], norm_bound=2.0, **options)


def constraints(thresholds=(-0.3, 0.4), sides=(">=", "<=")):
    return OutcomeConstraints(bands(), thresholds, sides=sides)


def between_limits(band):
    return OutcomeConstraints([band, band], [-1.0, 1.0], sides=[">=", "<="])


class TestClassification:
    def test_margins_are_those_of_the_bands(self):
        both = constraints()
        (lower, upper), (low, high) = (each.band.bounds(X) for each in both.constraints)
        certain, possible = both.margins(X)
        assert_close(certain, torch.stack([lower + 0.3, 0.4 - high]))
        assert_close(possible, torch.stack([upper + 0.3, 0.4 - low]))
        assert_close(both.certain_margin(X), certain.amin(0))
        assert_close(both.possible_margin(X), possible.amin(0))

    def test_points_are_of_three_kinds(self):
        problem = make_problem(n=20, d=2, norm=4.0, noise_std=0.05, seed=4)
        band = MartingaleMixtureUCB(problem.model, norm_bound=5.0)
        both = OutcomeConstraints([band, band], [-2.0, 0.5], sides=[">=", "<="])
        certain, possible = both.is_feasible(X), both.may_be_feasible(X)
        assert not (certain & ~possible).any()
        assert 0 < certain.sum() < possible.sum() < len(X)

    @pytest.mark.parametrize("side", [">=", "<="])
    def test_what_is_infeasible_is_certain_on_the_other_side(self, side):
        band, other = bands()[0], {">=": "<=", "<=": ">="}[side]
        given = OutcomeConstraints(band, 0.1, sides=side)
        reverse = OutcomeConstraints(band, 0.1, sides=other)
        assert_close(given.possible_margin(X), -reverse.certain_margin(X))

    def test_a_safe_set_says_the_same(self):
        own = bands()
        safe_set = SafeSet(own, [-0.3, 0.4], sides=[">=", "<="])
        given = OutcomeConstraints(own, [-0.3, 0.4], sides=[">=", "<="])
        assert torch.equal(safe_set.margin(X), given.certain_margin(X))
        assert torch.equal(safe_set.is_safe(X), given.is_feasible(X))

    def test_shapes_and_precision(self):
        both = constraints()
        batch = X.reshape(4, 10, 2)
        assert both.margins(batch)[0].shape == (2, 4, 10)
        assert_close(both.possible_margin(batch).reshape(-1), both.possible_margin(X))
        assert both.is_feasible(X[0]).shape == ()
        assert both.certain_margin(X.float()).dtype == torch.float64

    def test_gradients(self):
        both = constraints()
        x = X[3].clone().requires_grad_()
        assert torch.autograd.gradcheck(both.margins, (x,), **GRADCHECK)

    def test_pending_points_do_not_matter(self):
        both = constraints()
        before = both.possible_margin(X)
        both.constraints[0].band.set_X_pending(X[:3])
        assert torch.equal(both.possible_margin(X), before)

    def test_a_kernel_bandit_is_a_band(self):
        bandit = KernelBandit(FIRST.kernel, norm_bound=2.0, noise_std=0.1)
        for x, y in zip(FIRST.X, FIRST.Y, strict=True):
            bandit.observe(x, y)
        given = OutcomeConstraints(bandit, 0.1)
        assert_close(given.possible_margin(X), bandit.bounds(X)[1] - 0.1)
        assert given.constraints[0].band.confidence_set is None

    def test_what_branch_and_bound_needs(self):
        first, second = constraints().constraints
        assert (first.sign, second.sign) == (1, -1)

    def test_copies(self):
        both = OutcomeConstraints(
            [band := bands()[0], band], [-1.0, 1.0], sides=[">=", "<="]
        )
        for same in (copy.deepcopy(both), pickle.loads(pickle.dumps(both))):
            assert torch.equal(same.possible_margin(X), both.possible_margin(X))
            assert same.assumptions == both.assumptions


class TestAssumptions:
    def test_failure_probabilities_add_up(self):
        assumptions = constraints().assumptions
        assert assumptions.delta == pytest.approx(0.05)
        assert assumptions.certified
        assert assumptions.guarantee == (
            "every certainly feasible point satisfies the constraints, and every "
            "infeasible one violates one of them, in every round at once with "
            "probability 0.95"
        )
        assert assumptions["constraint 2: norm"].statement.endswith("at most 2")

    def test_a_band_between_two_limits_counts_once(self):
        band = bands()[0]
        both = OutcomeConstraints([band, band], [-1.0, 1.0], sides=[">=", "<="])
        assert both.assumptions.delta == band.delta == 0.025
        assert "constraint 1, constraint 2: norm" in {
            i.name for i in both.assumptions.items
        }
        safe_set = SafeSet([band, band], [-9.0, 9.0], sides=[">=", "<="])
        assert safe_set.assumptions.delta == band.delta

    def test_a_term_of_a_sum_counts_once(self):
        own = bands()
        total = ScalarizedUCB(own, [1.0, 2.0])
        deeper = ScalarizedUCB([total, own[0]], [1.0, 1.0])
        assert OutcomeConstraints([total, own[1]]).assumptions.delta == pytest.approx(0.05)
        mixed = OutcomeConstraints([own[1], deeper]).assumptions
        assert mixed.delta == pytest.approx(0.05)
        assert "constraint 1, constraint 2 (term 2): norm" in {i.name for i in mixed.items}

    def test_estimates_are_said(self):
        estimated = OutcomeConstraints(MartingaleMixtureUCB(FIRST.model))
        assert estimated.assumptions.summary == "heuristic: norm of constraint 1 estimated"


class TestNames:
    def test_they_stand_in_assumptions_and_reports(self):
        own = [*bands(), bands()[0]]
        own = [own[0], own[1], own[1]]
        named = OutcomeConstraints(
            own, [0.0, -1.0, 1.0], sides=[">=", ">=", "<="], names=["purity", "pH", "pH"]
        )
        assert named.names == ("purity", "pH", "pH")
        assert "at most 2" in named.assumptions["pH: norm"].statement
        assert len(named.assumptions.items) == len(constraints().assumptions.items)
        safe_set = SafeSet(own[0], -9.0, names=["purity"])
        assert safe_set.assumptions["purity: norm"]

    def test_what_is_estimated_reads_as_one(self):
        band = MartingaleMixtureUCB(FIRST.model)
        limits = OutcomeConstraints([band, band], [-1.0, 1.0], sides=[">=", "<="])
        acqf = ConstrainedUCB(MartingaleMixtureUCB(FIRST.model), limits)
        assert acqf.assumptions.summary == (
            "heuristic: norm of objective, norm of constraint 1 and constraint 2 estimated"
        )
        with pytest.raises(UncertifiedError, match="norm of constraint 1 and"):
            acqf.assumptions.check_certified("This", False)

    @pytest.mark.parametrize(
        "names",
        [["a"], "ab", ["a", "a"], ["a", ""], ["objective", "a"]],
    )
    def test_wrong_names(self, names):
        with pytest.raises(ValueError, match="names"):
            OutcomeConstraints(bands(), names=names)


class TestBands:
    def test_share_delta(self):
        assert [band.delta for band in bands(delta=0.1)] == [0.05, 0.05]
        assert [band.delta for band in bands(delta=0.1, num_bounds=4)] == [0.025, 0.025]

    def test_each_outcome_its_own(self):
        kernels = [frozen_kernel("rbf", 0.3), frozen_kernel("matern52", 0.2)]
        first, second = outcome_bands(
            ModelListGP(FIRST.model, SECOND.model),
            norm_bound=[2.0, 30.0],
            noise_std=[0.1, 0.2],
            bound=[AbbasiYadkoriUCB, KernelFamilyUCB],
            options=[{"maximize": False}, {"kernels": kernels}],
        )
        assert isinstance(first, AbbasiYadkoriUCB)
        assert not first.maximize
        assert isinstance(second, KernelFamilyUCB)
        assert "at most 30" in str(second.assumptions)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"num_bounds": 1}, "num_bounds is 1, below the number of outcomes 2"),
            ({"noise_std": [0.1]}, "noise_std has 1 entries for 2"),
            ({"delta": 1.0}, "delta must lie strictly"),
            ({"options": {"delta": 0.1}}, "options holds delta"),
            ({"options": {"wave": 1}}, "MartingaleMixtureUCB has no option wave"),
            ({"options": [{}]}, "options has 1 entries for 2"),
        ],
    )
    def test_bad_input(self, options, message):
        with pytest.raises(ValueError, match=message):
            bands(**options)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([],), ValueError, "bands is empty"),
        ((bands(), [0.0]), ValueError, "thresholds has 1 entries for 2"),
        ((bands(), float("inf")), ValueError, "thresholds must be a finite number"),
        ((torch.nn.Identity(),), UnsupportedError, "bands must be an instance of Band"),
        (
            ([bands()[0], AbbasiYadkoriUCB(make_problem(d=3).model, norm_bound=2.0)],),
            BotorchTensorDimensionError,
            r"inputs of \[2, 3\] columns; they must agree",
        ),
    ],
)
def test_bad_input(arguments, error, message):
    with pytest.raises(error, match=message):
        OutcomeConstraints(*arguments)


def test_bad_points():
    with pytest.raises(BotorchTensorDimensionError, match="3 columns"):
        constraints().is_feasible(torch.zeros(1, 3).double())
    with pytest.raises(BotorchTensorDimensionError, match=r"X must be `\.\.\. x d`"):
        constraints().possible_margin(torch.zeros(()).double())
