r"""BoTorch's optimisers run every bound, find its maximum, and read nothing it lacks.

One row for each place in ``botorch.optim`` (0.18) that reads an attribute of an acquisition
function, tests its type or calls it; one column for each class of band.
"""

from copy import deepcopy

import pytest
import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.exceptions import BotorchError, BotorchTensorDimensionError, UnsupportedError
from botorch.generation.gen import gen_candidates_torch
from botorch.models.model import Model
from botorch.optim import (
    optimize_acqf,
    optimize_acqf_cyclic,
    optimize_acqf_discrete,
    optimize_acqf_discrete_local_search,
    optimize_acqf_mixed,
    optimize_acqf_mixed_alternating,
)
from botorch.optim.homotopy import Homotopy, HomotopyParameter, LinearHomotopySchedule
from botorch.optim.optimize import optimize_acqf_list
from botorch.optim.optimize_homotopy import optimize_acqf_homotopy
from botorch.optim.utils.acquisition_utils import get_X_baseline
from torch.testing import assert_close

from contract.bands import BANDS, CUBE, NORM
from kernelucb import GuardedAcquisition, MartingaleMixtureUCB, MetaPI, SafeSet
from kernelucb.safety import ConstraintWidth
from problems import generator, uniform

X, POINTS, PENDING = (uniform(n, 2, seed) for n, seed in ((8, 21), (6, 22), (2, 23)))
GRID = torch.cartesian_prod(*2 * [torch.linspace(0.0, 1.0, 21, dtype=torch.float64)])


def model_of(name):
    truth = BANDS[name].truth
    torch.manual_seed(0)
    return truth.model_of(X, truth.outcomes(X, generator(0)))


def exact(**options):
    return MartingaleMixtureUCB(model_of("filters"), norm_bound=NORM, **options)


# As BoTorch sees them: of its models, of several outcomes, of no bound.
ACQUISITIONS = {
    **{
        name: lambda name=name: BANDS[name].build(model_of(name))
        for name in BANDS
        if name not in ("family of successes", "convex")  # as others, and slow
    },
    "state": lambda: MartingaleMixtureUCB(exact().band.data, norm_bound=NORM),
    "improvement": lambda: MetaPI(model_of("meta")),
    "width": lambda: ConstraintWidth(SafeSet(exact())),
}
# One for each class of confidence set; the others differ from these in model or width.
PATHS = (
    *("filters", "analytic", "sketched", "budgeted", "meta", "family", "counts", "sum"),
    "width",
)
# One for each way to pass on pending points and to name a model.
CLASSES = ("filters", "meta", "sum", "width")
ONCE = {}


def made(name):
    r"""Each is made once: tests leave it as it was, without pending points."""
    if name not in ONCE:
        ONCE[name] = ACQUISITIONS[name]()
    assert ONCE[name].X_pending is None
    return ONCE[name]


FAST = {"num_restarts": 2, "raw_samples": 8}
FEW = {"maxiter": 3}


def search(acqf, q=1, **options):
    options = {"options": FEW} | FAST | options
    return optimize_acqf(acqf, CUBE, q, **options)


def mixed(acqf, q=1, **options):
    options |= {"fixed_features_list": [{0: 0.2}, {0: 0.6}], "options": FEW}
    return optimize_acqf_mixed(acqf, CUBE, q, **FAST | options)


def alternating(acqf, q=1, **options):
    options = {"discrete_dims": {0: [0.0, 0.5, 1.0]}} | FAST | options
    options |= {"options": {"maxiter_alternating": 2, "maxiter_continuous": 3}}
    return optimize_acqf_mixed_alternating(acqf, CUBE, q=q, **options)


def lattice(acqf, q=1, **options):
    choices = [torch.linspace(0.0, 1.0, 5, dtype=torch.float64)] * 2
    found = optimize_acqf_discrete_local_search(acqf, choices, q, **FAST, **options)
    acqf.set_X_pending(None)  # BoTorch leaves them where it returns no values
    return found


def homotopy(acqf):
    schedule = LinearHomotopySchedule(1.0, 0.0, 2)
    parameter = HomotopyParameter(torch.nn.Parameter(torch.tensor(1.0)), schedule)
    options = {"homotopy": Homotopy([parameter]), "options": FEW} | FAST
    return optimize_acqf_homotopy(acqf, CUBE, q=1, **options)


def around(**options):
    return lambda acqf: search(acqf, options=FEW | {"sample_around_best": True} | options)


BY_TORCH = {"gen_candidates": gen_candidates_torch}
BY_TORCH |= {"options": {"stopping_criterion_options": FEW}}
SINGLE_POINTS = {
    "search": search,
    "nonnegative": lambda acqf: search(acqf, options=FEW | {"nonnegative": True}),
    "fixed feature": lambda acqf: search(acqf, fixed_features={0: 0.5}),
    "torch": lambda acqf: search(acqf, **BY_TORCH),
    "mixed": mixed,
    "alternating": alternating,
    "lattice": lattice,
    "homotopy": homotopy,
}

# These read the inputs that the model was trained on.
AROUND = {
    "around": around(),
    "around, perturbed": around(sample_around_best_prob_perturb=0.5),
    "spray": lambda acqf: alternating(acqf, discrete_dims=None, cat_dims={0: [0.0, 1.0]}),
}

SEQUENCES = {
    "search": lambda acqf: search(acqf, 2, sequential=True),
    "discrete": lambda acqf: optimize_acqf_discrete(acqf, 2, POINTS),
    "cyclic": lambda acqf: optimize_acqf_cyclic(
        acqf, CUBE, 2, options=FEW, cyclic_options={"maxiter": 1}, **FAST
    ),
    "list": lambda acqf: optimize_acqf_list(
        [acqf, deepcopy(acqf)], CUBE, options=FEW, **FAST
    ),
    "mixed": lambda acqf: mixed(acqf, 2, return_acq_values=False),
    "alternating": lambda acqf: alternating(acqf, 2, return_acq_values=False),
    "lattice": lambda acqf: lattice(acqf, 2, return_acq_values=False),
}

JOINT = {"search": search, "mixed": mixed, "alternating": alternating, "lattice": lattice}


def of_each(uses):
    r"""Every use of one bound of each class, and a plain search of every path."""
    pairs = [(use, name) for use in uses for name in CLASSES]
    pairs += [("search", name) for name in PATHS if name not in CLASSES]
    return pytest.mark.parametrize(("use", "name"), pairs)


def feasible(result, count=1):
    candidates = result[0]
    assert candidates.shape[-1] == 2
    assert candidates.reshape(-1, 2).shape[0] >= count
    assert bool(((candidates >= 0.0) & (candidates <= 1.0)).all())


# Three steps are too few to converge.
@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.OptimizationWarning")
@of_each(SINGLE_POINTS)
def test_single_points(use, name):
    result = SINGLE_POINTS[use](made(name))
    if isinstance(result, tuple):
        feasible(result)


# Where a model has no observed inputs in BoTorch's sense, BoTorch says so and goes on.
@pytest.mark.filterwarnings("ignore:Failed to extract X_baseline")
@pytest.mark.parametrize("name", ACQUISITIONS)
def test_observed_inputs(name):
    acqf = made(name)
    baseline = get_X_baseline(acqf)
    if isinstance(acqf.model, Model) and hasattr(acqf.model, "train_inputs"):
        assert_close(baseline, X)
    else:
        assert baseline is None
    for use in AROUND if name in PATHS else ("around",):
        feasible(AROUND[use](acqf))


@pytest.mark.one_in(2)
@of_each(SEQUENCES)
def test_points_in_sequence(use, name):
    acqf = made(name)
    if isinstance(acqf, ConstraintWidth):
        with pytest.raises(UnsupportedError, match="choose one point at a time"):
            SEQUENCES[use](acqf)
        return
    feasible(SEQUENCES[use](acqf), 2)
    assert acqf.X_pending is None


@pytest.mark.parametrize("use", JOINT)
def test_joint_values(use):
    acqf, width = made("filters"), made("width")
    first = UpperConfidenceBound(acqf.model, 2.0)
    guards = [GuardedAcquisition(*each) for each in ((acqf, acqf), (first, acqf))]
    guards[1].ucb_every = 2
    for each in (acqf, *guards):
        with pytest.raises(BotorchTensorDimensionError, match="return_acq_values=False"):
            JOINT[use](each, 2)
        assert each.X_pending is None
    with pytest.raises(BotorchError, match=r"must be `b x 1 x d`|one point at a time"):
        JOINT[use](width, 2)


@pytest.mark.parametrize("name", ["filters", "Srinivas", "streaming"])
def test_maximum(name):
    acqf, options = made(name), {"num_restarts": 8, "raw_samples": 256}
    point, value = optimize_acqf(acqf, CUBE, q=1, **options)
    feasible((point,))
    with torch.no_grad():
        values = acqf(GRID.unsqueeze(-2))
    assert float(value) >= float(values.max()) - 1e-3
    chosen, _ = optimize_acqf_discrete(acqf, q=1, choices=GRID)
    assert torch.equal(chosen[0], GRID[values.argmax()])
    points, values = optimize_acqf(acqf, CUBE, q=3, sequential=True, **options)
    assert acqf.X_pending is None  # BoTorch restores what was there
    # Pending points push the next ones away, and lower what they promise.
    assert float(torch.pdist(points).min()) > 1e-3
    assert float(values[-1]) < float(values[0])
