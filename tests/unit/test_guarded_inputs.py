r"""The input constructor of a guarded search with outcome constraints."""

import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.objective import (
    GenericMCObjective,
    LinearMCObjective,
    ScalarizedPosteriorTransform,
)
from botorch.exceptions import UnsupportedError
from botorch.models import ModelListGP
from botorch.utils.datasets import SupervisedDataset
from torch.testing import assert_close
from two_outcomes import GIVEN, GRID, LEVEL, OBJECTIVE, PURITY

from kernelucb import (
    ConstrainedUCB,
    GuardedAcquisition,
    MartingaleMixtureUCB,
    MetaUCB,
    ScalarizedUCB,
)
from problems import float64

# BoTorch adds jitter to the small matrices of qLogNEI, and says so.
pytestmark = pytest.mark.filterwarnings(
    "ignore::linear_operator.utils.warnings.NumericalWarning"
)
MODEL = ModelListGP(OBJECTIVE.model, PURITY.model)
LIMITS = {1: (LEVEL, None)}
TUPLE = float64([[0.0, -1.0]]), float64([[-LEVEL]])
DATA = {
    name: SupervisedDataset(
        each.X, each.Y.reshape(-1, 1), feature_names=["a", "b"], outcome_names=[name]
    )
    for name, each in {"output": OBJECTIVE, "purity": PURITY}.items()
}


def built(band_options=GIVEN, **options):
    construct = get_acqf_input_constructor(GuardedAcquisition)
    own = {"training_data": DATA, "X_baseline": OBJECTIVE.X, "band_options": band_options}
    return GuardedAcquisition(**construct(MODEL, **(own | options)))


@pytest.mark.parametrize(
    "options",
    [
        {"constraints": LIMITS},
        {"constraints_tuple": TUPLE},
        {"constraints_tuple": TUPLE, "constraints": [lambda Y: LEVEL - Y[..., 1]]},
        {"constraints": LIMITS, "objective": LinearMCObjective(float64([1.0, 0.0]))},
        {
            "constraints": LIMITS,
            "posterior_transform": ScalarizedPosteriorTransform(float64([1.0, 0.0])),
        },
    ],
)
def test_bands_are_those_of_the_constrained_bound(options):
    acqf = built(GIVEN | {"delta": 0.1}, **options)
    other = ConstrainedUCB.from_model(MODEL, constraints=LIMITS, delta=0.1, **GIVEN)
    for ours, theirs in zip(acqf.band.bounds(GRID), other.bounds(GRID), strict=True):
        assert torch.equal(ours, theirs)
    limits = acqf.outcome_constraints
    assert torch.equal(
        limits.is_feasible(GRID), other.outcome_constraints.is_feasible(GRID)
    )
    assert acqf.assumptions.delta == pytest.approx(0.1)


def test_the_reference_lies_in_the_domain():
    x, y = built(constraints=LIMITS).reference[0].tolist()
    limit = (torch.tensor([1]), float64([-1.0]), -0.9 * y)
    (context,) = built(constraints=LIMITS, fixed_features={0: 0.98 * x}).reference
    (inside,) = built(
        constraints=LIMITS, bounds=[(0.9 * x, 1.1 * x), (0.0, 0.9 * y)]
    ).reference
    (kept,) = built(constraints=LIMITS, inequality_constraints=[limit]).reference
    assert context[0] == 0.98 * x
    assert 0.9 * x <= inside[0] <= 1.1 * x
    assert inside[1] <= 0.9 * y
    assert kept[1] <= 0.9 * y


def test_the_search_is_told_of_the_constraints_too():
    acqf = built(constraints={1: (None, LEVEL)})
    search = acqf.acqf
    samples = torch.rand(4, 3, 2, dtype=torch.float64)
    (constraint,) = search._constraints
    assert_close(constraint(samples), samples[..., 1] - LEVEL)
    assert_close(search.objective(samples), samples[..., 0])
    assert torch.isfinite(acqf(GRID[:5].unsqueeze(-2))).all()


def test_a_sum_of_outcomes():
    transform = ScalarizedPosteriorTransform(float64([1.0, -0.5]))
    acqf = built(constraints=LIMITS, posterior_transform=transform)
    assert isinstance(acqf.objective_band, ScalarizedUCB)
    samples = torch.rand(4, 3, 2, dtype=torch.float64)
    expected = samples[..., 0] - 0.5 * samples[..., 1]
    assert_close(acqf.acqf.objective(samples), expected)


def test_small_values_of_the_second_outcome():
    transform = ScalarizedPosteriorTransform(float64([-1.0]))
    limits = {0: (0.0, None)}
    acqf = built(constraints=limits, posterior_transform=transform, objective_index=1)
    assert acqf.band.direction == -1
    samples = torch.rand(4, 3, 2, dtype=torch.float64)
    assert_close(acqf.acqf.objective(samples), -samples[..., 1])


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"search": "LogExpectedImprovement"}, UnsupportedError, "takes no constraints"),
        ({"band": ScalarizedUCB}, ValueError, "has no option noise_std, norm_bound"),
        ({"band": MetaUCB}, ValueError, "has no option noise_std, norm_bound"),
        ({"constraints": [lambda Y: Y[..., 1]]}, UnsupportedError, "functions of samples"),
        ({"constraints": {2: (0.0, None)}}, ValueError, r"constraints\[2\]"),
        (
            {"objective": GenericMCObjective(lambda Y, X: Y[..., 0])},
            UnsupportedError,
            "LinearMC",
        ),
        (
            {
                "objective": LinearMCObjective(float64([1.0, 0.0])),
                "posterior_transform": ScalarizedPosteriorTransform(float64([1.0])),
            },
            ValueError,
            "give one of them",
        ),
    ],
)
def test_what_is_refused(options, error, words):
    with pytest.raises(error, match=words):
        built(**({"constraints": LIMITS} | options))


def test_without_constraints_an_index_is_refused():
    with pytest.raises(UnsupportedError, match="only with constraints"):
        built(band=ScalarizedUCB, objective_index=1)


def test_the_default_band():
    assert isinstance(built(constraints=LIMITS).objective_band, MartingaleMixtureUCB)
