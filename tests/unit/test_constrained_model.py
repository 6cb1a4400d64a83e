r"""Objective and constraints from one model, and what is refused."""

import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.objective import ExpectationPosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.models import ModelListGP, MultiTaskGP, SingleTaskGP
from torch.testing import assert_close
from two_outcomes import CUBE, GIVEN, GRID, LEVEL, MODEL, OBJECTIVE, at, made, weights

from kernelucb import (
    AbbasiYadkoriUCB,
    ConstrainedUCB,
    KernelFamilyUCB,
    MartingaleMixtureUCB,
    ScalarizedUCB,
)
from problems import frozen_kernel


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
            ({"objective_index": 2}, "objective_index: the model has the outputs 0"),
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

    def test_several_objectives(self):
        with pytest.raises(UnsupportedError, match="give limits for all but one in cons"):
            made(objective_index=[0, 1])

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
