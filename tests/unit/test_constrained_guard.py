r"""Guards and certificates under outcome constraints."""

import copy
import math

import pytest
import torch
from botorch.acquisition import qLogNoisyExpectedImprovement
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.models.transforms import Log
from botorch.optim import optimize_acqf, optimize_acqf_discrete
from torch.testing import assert_close
from two_outcomes import CUBE, GIVEN, GRID, LEVEL, OBJECTIVE, PURITY, at, made

from kernelucb import (
    ConstrainedUCB,
    GuardedAcquisition,
    MartingaleMixtureUCB,
    OutcomeConstraints,
    regret_certificate,
)
from kernelucb.acquisition import outcome_bands
from kernelucb.acquisition.guarded import is_ucb_turn
from problems import frozen_model, make_problem
from tolerances import REARRANGED

# BoTorch adds jitter to the small matrices of qLogNEI, and says so.
pytestmark = pytest.mark.filterwarnings(
    "ignore::linear_operator.utils.warnings.NumericalWarning"
)


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


class TestGuard:
    constraints = OutcomeConstraints(
        outcome_bands(PURITY.model, num_bounds=2, **GIVEN), LEVEL
    )
    band = MartingaleMixtureUCB(OBJECTIVE.model, delta=0.025, **GIVEN)

    def guard(self, constraints=None, **options):
        search = qLogNoisyExpectedImprovement(OBJECTIVE.model, OBJECTIVE.X)
        band = ConstrainedUCB(self.band, constraints or self.constraints)
        return GuardedAcquisition(search, band, **options)

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
        acqf = GuardedAcquisition(made(), ConstrainedUCB(self.band, self.constraints))
        assert at(acqf).shape == (len(GRID),)
        with pytest.raises(UnsupportedError, match="seeks small outcomes"):
            GuardedAcquisition(made(maximize=False), self.band)

    def test_a_constraint_on_other_inputs(self):
        other = OutcomeConstraints(
            MartingaleMixtureUCB(make_problem(d=3).model, norm_bound=2.0)
        )
        with pytest.raises(BotorchTensorDimensionError, match="columns; they must agree"):
            ConstrainedUCB(self.band, other)
