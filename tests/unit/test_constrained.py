r"""Outcome constraints: what is called feasible, and the search among such points."""

import math

import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.optim import optimize_acqf_discrete
from torch.testing import assert_close
from two_outcomes import (
    CUBE,
    GIVEN,
    GRID,
    LEVEL,
    MODEL,
    OBJECTIVE,
    PURITY,
    at,
    made,
    weights,
)

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
from kernelucb.exceptions import UncertifiedError
from kernelucb.optim import chunked
from problems import frozen_kernel

KERNELS = [frozen_kernel("rbf", 0.3), frozen_kernel("matern52", 0.2)]
SIDES = {"sides": [">=", "<="]}
build = get_acqf_input_constructor(ConstrainedUCB)


def bands(**options):
    return outcome_bands(MODEL, **GIVEN | options)


def between(band, low=-1.0, high=1.0, **options):
    return OutcomeConstraints([band, band], [low, high], **SIDES, **options)


class TestMargins:
    def test_are_the_bands_own(self):
        both = OutcomeConstraints(bands(), [-0.3, 0.4], **SIDES)
        (lower, upper), (low, high) = (each.band.bounds(GRID) for each in both.constraints)
        certain, possible = both.margins(GRID)
        assert_close(certain, torch.stack([lower + 0.3, 0.4 - high]))
        assert_close(possible, torch.stack([upper + 0.3, 0.4 - low]))
        assert_close(both.certain_margin(GRID), certain.amin(0))
        assert_close(both.possible_margin(GRID), possible.amin(0))
        safe_set = SafeSet(bands(), [-0.3, 0.4], **SIDES)
        assert torch.equal(safe_set.margin(GRID), both.certain_margin(GRID))

    def test_a_kernel_bandit_is_a_band(self):
        bandit = KernelBandit(PURITY.kernel, **GIVEN)
        for x, y in zip(PURITY.X, PURITY.Y, strict=True):
            bandit.observe(x, y)
        given = OutcomeConstraints(bandit, 0.1)
        assert_close(given.possible_margin(GRID), bandit.bounds(GRID)[1] - 0.1)
        assert given.constraints[0].band.confidence_set is None


class TestAssumptions:
    def test_failure_probabilities_add_up_and_each_band_counts_once(self):
        own = bands(delta=0.1)
        assumptions = OutcomeConstraints(own).assumptions
        assert assumptions.delta == pytest.approx(0.1)
        assert assumptions.certified
        assert assumptions.guarantee == (
            "every certainly feasible point satisfies the constraints, and every "
            "infeasible one violates one of them, in every round at once with "
            "probability 0.9"
        )
        assert assumptions["constraint 2: norm"].statement.endswith("at most 5")
        assert between(own[0]).assumptions.delta == own[0].delta == 0.05
        assert between(own[0]).assumptions["constraint 1, constraint 2: norm"]
        safe_set = SafeSet([own[0], own[0]], [-9.0, 9.0], **SIDES)
        assert safe_set.assumptions.delta == 0.05
        deeper = ScalarizedUCB([ScalarizedUCB(own, [1.0, 2.0]), own[0]], [1.0, 1.0])
        mixed = OutcomeConstraints([own[1], deeper]).assumptions
        assert mixed.delta == pytest.approx(0.1)
        assert mixed["constraint 1, constraint 2 (term 2): norm"]

    def test_what_is_estimated_reads_as_one(self):
        named = between(bands()[0], names=["pH", "pH"]).assumptions
        assert "at most 5" in named["pH: norm"].statement
        band = MartingaleMixtureUCB(PURITY.model)
        acqf = ConstrainedUCB(MartingaleMixtureUCB(OBJECTIVE.model), between(band))
        assert acqf.assumptions.summary == (
            "heuristic: norm of objective, norm of constraint 1 and constraint 2 estimated"
        )
        with pytest.raises(UncertifiedError, match="norm of constraint 1 and"):
            acqf.assumptions.check_certified("This", False)

    def test_a_certificate_counts_feasible_points_alone(self):
        acqf = made({0: (None, 0.5), 1: (LEVEL, None)}, delta=0.1)
        certificate = regret_certificate(acqf, GRID)
        by_hand = regret_certificate(acqf.band, GRID, constraints=acqf.outcome_constraints)
        assert certificate.gap == by_hand.gap != regret_certificate(acqf.band, GRID).gap
        assert bool(acqf.outcome_constraints.is_feasible(certificate.recommended))
        assert certificate.assumptions.delta == pytest.approx(0.1)


class TestValues:
    def test_without_a_binding_constraint_the_band_alone(self):
        for temperature in (0.0, 0.02):
            acqf = made({1: (-50.0, 50.0)}, temperature=temperature)
            assert torch.equal(at(acqf), at(acqf.band))
            assert all(map(torch.equal, acqf.bounds(GRID), acqf.band.bounds(GRID)))

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
        # One more for every further temperature, from a margin of minus four of them.
        margins = 0.02 * torch.tensor([-4.0, -104.0, -105.0]).double()
        four, *further = edge_penalty(margins, 0.02).tolist()
        assert (four, further) == (
            pytest.approx(math.log(2.0)),
            pytest.approx([100.0, 101.0]),
        )

    def test_the_best_of_a_finite_set_is_the_best_that_may_be_feasible(self):
        acqf = made(temperature=0.0)
        chosen, value = optimize_acqf_discrete(acqf, 1, GRID)
        inside = GRID[acqf.outcome_constraints.may_be_feasible(GRID)]
        assert_close(value, at(acqf.band, inside).max())
        assert bool(acqf.outcome_constraints.may_be_feasible(chosen))
        assert torch.equal(chunked.argmax(acqf, GRID)[0], chosen)
        # The nearest if nothing may be feasible.
        acqf = made({1: (50.0, None)}, temperature=0.0)
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

    def test_a_weight_for_the_objective_alone(self):
        for transform in (weights(-2.0), weights(-2.0, 0.0)):
            acqf = made(posterior_transform=transform)
            assert acqf.band.direction == -1
            inside = acqf.outcome_constraints.possible_margin(GRID) > 1.0
            assert_close(at(acqf)[inside], -2.0 * acqf.bounds(GRID)[0][inside])


class TestFromModel:
    def test_delta_is_shared_among_the_outcomes_in_use(self):
        acqf = made(delta=0.1)
        assert acqf.band.delta == 0.05
        assert acqf.outcome_constraints.constraints[0].band.delta == 0.05
        assert acqf.assumptions.delta == pytest.approx(0.1)
        assert acqf.assumptions.guarantee == (
            "the bands of objective and constraints hold in every round at once with "
            "probability 0.9"
        )
        assert acqf.assumptions["objective: norm"].statement.endswith("at most 5")
        assert [band.delta for band in bands(delta=0.1, num_bounds=4)] == [0.025, 0.025]

    def test_an_outcome_counts_once(self):
        acqf = made({0: (-1.0, 1.0)}, delta=0.1)
        assert acqf.band.delta == acqf.assumptions.delta == 0.1
        first, second = acqf.outcome_constraints.constraints
        assert first.band is second.band is acqf.band
        assert [c.side for c in (first, second)] == [">=", "<="]

    def test_each_outcome_its_own(self):
        acqf = ConstrainedUCB.from_model(
            MODEL,
            constraints={0: (0.9, None)},
            objective_index=1,
            norm_bound=[8.0, 30.0],
            noise_std=[0.05, 0.07],
            bound=[AbbasiYadkoriUCB, KernelFamilyUCB],
            options=[{}, {"kernels": KERNELS}],
        )
        assert acqf.band.consistent
        (constraint,) = acqf.outcome_constraints.constraints
        assert "Abbasi-Yadkori" in constraint.band.assumptions.source
        assert "at most 8" in acqf.assumptions["constraint 1: norm"].statement
        assert constraint.threshold == 0.9

    def test_as_ax_gives_them(self):
        matrix = torch.tensor([[0.0, -2.0], [0.0, 1.0], [1.0, 1.0]]).double()
        limits = torch.tensor([[-2.0 * LEVEL], [3.0], [7.0]]).double()
        rows = {"constraints_tuple": (matrix, limits), "constraints": [lambda Y: Y]}
        acqf = ConstrainedUCB(
            **build(MODEL, posterior_transform=weights(1.0, 0.0), **rows, **GIVEN)
        )
        first, second, total = acqf.outcome_constraints.constraints
        assert first.band is second.band
        assert (first.threshold, first.side, second.side) == (LEVEL, ">=", "<=")
        assert acqf.assumptions.delta == pytest.approx(0.05)
        lower, _ = first.band.bounds(GRID)
        assert_close(total.band.bounds(GRID)[0], acqf.bounds(GRID)[0] + lower)
        negative = build(MODEL, posterior_transform=weights(-1.0, 0.0), **rows, **GIVEN)
        plain = MartingaleMixtureUCB(OBJECTIVE.model, **GIVEN, delta=0.025).bounds(GRID)
        lower, upper = ConstrainedUCB(**negative).bounds(GRID)
        assert_close((-upper, -lower), plain)


def test_bad_input():
    dimension, (own, _) = BotorchTensorDimensionError, bands()
    pair = {"constraints_tuple": (CUBE, CUBE)}
    far = torch.zeros(1, 3).double()
    for call, error, message in (
        (lambda: made({}), ValueError, "There are no constraints; give one"),
        (lambda: made({1: (1.0, 1.0)}), ValueError, "lower limit 1 must be below the"),
        (lambda: made(temperature=-1.0), ValueError, "temperature must not be negative"),
        (lambda: made(options={"maximize": False}), ValueError, "options holds maximize"),
        (lambda: between(own, names=["a"]), ValueError, "names"),
        (lambda: build(MODEL, constraints=[abs]), UnsupportedError, "functions of samples"),
        (lambda: build(MODEL, **pair), dimension, "must be `k x 2` and `k x 1`"),
        (lambda: OutcomeConstraints(far), UnsupportedError, "must be an instance of Band"),
        (lambda: OutcomeConstraints(own).is_feasible(far), dimension, "columns"),
    ):
        with pytest.raises(error, match=message):
            call()


def test_pending_points_by_assignment_and_the_majorant():
    acqf, other = made(), made()
    acqf.X_pending = GRID[:2]
    other.set_X_pending(GRID[:2])
    assert_close(at(acqf), at(other))
    assert not torch.equal(at(acqf), at(made()))
    assert bool((acqf.majorant(GRID[:, None]) >= at(acqf) - 1e-9).all())
