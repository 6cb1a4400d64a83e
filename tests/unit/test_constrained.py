r"""Outcome constraints: what is called feasible, and the search among such points."""

import math

import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.optim import optimize_acqf_discrete
from torch.testing import assert_close
from two_outcomes import GIVEN, GRID, LEVEL, MODEL, OBJECTIVE, PURITY, at, made, weights

from kernelucb import (
    AbbasiYadkoriUCB,
    ConstrainedUCB,
    KernelBandit,
    KernelFamilyUCB,
    MartingaleMixtureUCB,
    OutcomeConstraints,
    SafeSet,
    ScalarizedUCB,
    regret_certificate,
)
from kernelucb.acquisition import outcome_bands
from kernelucb.acquisition.constrained import edge_penalty
from kernelucb.optim import chunked
from problems import frozen_kernel
from tolerances import GRADCHECK

SIDES = {"sides": [">=", "<="]}


def bands(**options):
    return outcome_bands(MODEL, **GIVEN | options)


def between(band, low=-1.0, high=1.0, **options):
    return OutcomeConstraints([band, band], [low, high], **SIDES, **options)


def test_margins_are_those_of_the_bands():
    given = bands(), [-0.3, 0.4]
    both = OutcomeConstraints(*given, **SIDES)
    (lower, upper), (low, high) = (each.band.bounds(GRID) for each in both.constraints)
    certain, possible = both.margins(GRID)
    assert_close(certain, torch.stack([lower + 0.3, 0.4 - high]))
    assert_close(possible, torch.stack([upper + 0.3, 0.4 - low]))
    assert_close(both.certain_margin(GRID), certain.amin(0))
    assert_close(both.possible_margin(GRID), possible.amin(0))


def test_a_kernel_bandit_is_a_band():
    bandit = KernelBandit(PURITY.kernel, **GIVEN)
    for x, y in zip(PURITY.X, PURITY.Y, strict=True):
        bandit.observe(x, y)
    given = OutcomeConstraints(bandit, 0.1)
    assert_close(given.possible_margin(GRID), bandit.bounds(GRID)[1] - 0.1)


class TestAssumptions:
    def test_failure_probabilities_add_up_and_each_band_counts_once(self):
        first, second = bands(delta=0.1)
        assumptions = OutcomeConstraints([first, second]).assumptions
        assert assumptions.delta == pytest.approx(0.1)
        assert assumptions.certified
        assert assumptions["constraint 2: norm"].statement.endswith("at most 5")
        assert between(first).assumptions.delta == first.delta == 0.05
        assert between(first).assumptions["constraint 1, constraint 2: norm"]
        assert SafeSet([first, first], [-9.0, 9.0], **SIDES).assumptions.delta == 0.05
        inner = ScalarizedUCB([first, second], [1.0, 2.0])
        mixed = OutcomeConstraints([second, ScalarizedUCB([inner, first], [1.0, 1.0])])
        assert mixed.assumptions.delta == pytest.approx(0.1)
        assert mixed.assumptions["constraint 1, constraint 2 (term 2): norm"]

    def test_what_is_estimated_reads_as_one(self):
        named = between(bands()[0], names=["pH", "pH"]).assumptions
        assert "at most 5" in named["pH: norm"].statement
        constraints = between(MartingaleMixtureUCB(PURITY.model))
        acqf = ConstrainedUCB(MartingaleMixtureUCB(OBJECTIVE.model), constraints)
        words = "heuristic: norm of objective, norm of constraint 1 and constraint 2 estim"
        assert acqf.assumptions.summary.startswith(words)

    def test_a_certificate_counts_feasible_points_alone(self):
        acqf = made({0: (None, 0.5), 1: (LEVEL, None)}, delta=0.1)
        certificate = regret_certificate(acqf, GRID)
        by_hand = regret_certificate(acqf.band, GRID, constraints=acqf.outcome_constraints)
        assert certificate.gap == by_hand.gap != regret_certificate(acqf.band, GRID).gap
        assert bool(acqf.outcome_constraints.is_feasible(certificate.recommended))
        assert certificate.assumptions.delta == pytest.approx(0.1)


class TestValues:
    def test_without_a_binding_constraint_the_band_alone(self):
        acqf = made({1: (-50.0, 50.0)})
        assert torch.equal(at(acqf), at(acqf.band))

    def test_the_edge_is_where_the_constraint_may_just_hold(self):
        exact, smooth = made(temperature=0.0), made()
        inside = exact.outcome_constraints.may_be_feasible(GRID)
        assert 20 < inside.sum() < len(GRID) - 20
        assert torch.equal(at(exact)[inside], at(exact.band)[inside])
        assert float(at(exact)[~inside].max()) < -1e20
        paid = (at(smooth.band) - at(smooth)) / smooth._unit
        assert 0.0 <= float(paid[inside].min()) < float(paid[inside].max()) < 0.02
        far = smooth.outcome_constraints.possible_margin(GRID) < -0.08
        assert float(paid[far].min()) > 0.69

    def test_one_more_is_paid_for_every_temperature_from_minus_four_of_them(self):
        margins = 0.02 * torch.tensor([-4.0, -104.0, -105.0]).double()
        expected = pytest.approx([math.log(2.0), 100.0, 101.0])
        assert edge_penalty(margins, 0.02).tolist() == expected

    def test_the_best_of_a_finite_set_is_the_best_that_may_be_feasible(self):
        acqf = made(temperature=0.0)
        chosen, value = optimize_acqf_discrete(acqf, 1, GRID)
        inside = GRID[acqf.outcome_constraints.may_be_feasible(GRID)]
        assert_close(value, at(acqf.band, inside).max())
        assert bool(acqf.outcome_constraints.may_be_feasible(chosen))
        assert torch.equal(chunked.argmax(acqf, GRID)[0], chosen)

    def test_the_nearest_is_best_if_nothing_may_be_feasible(self):
        acqf = made({1: (50.0, None)}, temperature=0.0)
        margin = acqf.outcome_constraints.possible_margin(GRID)
        assert at(acqf).argmax() == margin.argmax()

    @pytest.mark.parametrize("where", ["inside", "edge", "outside"])
    def test_gradients(self, where):
        acqf = made({1: (LEVEL, 3.0)})
        margin = acqf.outcome_constraints.possible_margin(GRID)
        order = {"inside": -margin, "edge": margin.abs(), "outside": margin}[where]
        X = GRID[order.argsort()[:2]].unsqueeze(-2).requires_grad_()
        assert torch.autograd.gradcheck(acqf, (X,), **GRADCHECK)

    def test_pending_points_by_assignment_and_the_majorant(self):
        acqf, other = made(), made()
        acqf.X_pending = GRID[:2]
        other.set_X_pending(GRID[:2])
        assert_close(at(acqf), at(other))
        assert not torch.equal(at(acqf), at(made()))
        assert bool((acqf.majorant(GRID[:, None]) >= at(acqf) - 1e-9).all())


class TestFromModel:
    def test_delta_is_shared_among_the_outcomes_in_use(self):
        acqf = made(delta=0.1)
        assert acqf.band.delta == 0.05
        assert acqf.assumptions.delta == pytest.approx(0.1)
        assert acqf.assumptions["objective: norm"].statement.endswith("at most 5")
        assert [band.delta for band in bands(delta=0.1, num_bounds=4)] == [0.025, 0.025]

    def test_an_outcome_counts_once(self):
        acqf = made({0: (-1.0, 1.0)}, delta=0.1)
        assert acqf.band.delta == acqf.assumptions.delta == 0.1
        first, second = acqf.outcome_constraints.constraints
        assert first.band is second.band is acqf.band
        assert [c.side for c in (first, second)] == [">=", "<="]

    @pytest.mark.parametrize("transform", [weights(-2.0), weights(-2.0, 0.0)])
    def test_a_weight_for_the_objective_alone(self, transform):
        acqf = made(posterior_transform=transform)
        assert acqf.band.direction == -1
        inside = acqf.outcome_constraints.possible_margin(GRID) > 1.0
        assert_close(at(acqf)[inside], -2.0 * acqf.bounds(GRID)[0][inside])

    def test_each_outcome_has_its_class_and_numbers(self):
        acqf = ConstrainedUCB.from_model(
            MODEL,
            constraints={0: (0.9, None)},
            objective_index=1,
            norm_bound=[8.0, 30.0],
            noise_std=[0.05, 0.07],
            bound=[AbbasiYadkoriUCB, KernelFamilyUCB],
            options=[{}, {"kernels": [frozen_kernel("rbf", 0.3)]}],
        )
        assert acqf.band.consistent
        (limited,) = acqf.outcome_constraints.bands.values()
        assert "Abbasi-Yadkori" in limited.assumptions.source
        assert "at most 8" in acqf.assumptions["constraint 1: norm"].statement

    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_as_ax_gives_them(self, sign):
        matrix = torch.tensor([[0.0, -2.0], [0.0, 1.0], [1.0, 1.0]]).double()
        limits = torch.tensor([[-2.0 * LEVEL], [3.0], [7.0]]).double()
        rows = {"constraints_tuple": (matrix, limits), "constraints": [lambda Y: Y]}
        build = get_acqf_input_constructor(ConstrainedUCB)
        transform = {"posterior_transform": weights(sign, 0.0)}
        acqf = ConstrainedUCB(**build(MODEL, **transform, **rows, **GIVEN))
        first, second, total = acqf.outcome_constraints.constraints
        assert first.band is second.band
        assert (first.threshold, first.side, second.side) == (LEVEL, ">=", "<=")
        assert acqf.assumptions.delta == pytest.approx(0.05)
        plain = MartingaleMixtureUCB(OBJECTIVE.model, **GIVEN, delta=0.025).bounds(GRID)
        sides = acqf.bounds(GRID) if sign > 0.0 else [-s for s in acqf.bounds(GRID)[::-1]]
        assert_close(tuple(sides), plain)
        assert_close(total.band.bounds(GRID)[0], plain[0] + first.band.bounds(GRID)[0])
