r"""What safe sets and the search within them refuse."""

from functools import partial

import torch
from botorch.exceptions import BotorchTensorDimensionError as Shapes
from botorch.exceptions import InputDataError as Data
from botorch.exceptions import UnsupportedError as Unsupported

from kernelucb import (
    KernelBandit,
    MartingaleMixtureUCB,
    MetaUCB,
    MixedSpace,
    SafeSet,
    optimize_acqf_safely,
)
from kernelucb.acquisition import outcome_bands
from kernelucb.exceptions import NoSafePointError, UncertifiedError
from kernelucb.models import DiscreteMetaModel
from kernelucb.safety import ConstraintWidth, gen_safe_initial_conditions
from problems import make_problem, uniform

PROBLEM = make_problem(d=2)
X, BOX = uniform(3, 2, 0), torch.stack([torch.zeros(2), torch.ones(2)]).double()
BAND = MartingaleMixtureUCB(PROBLEM.state, norm_bound=2.0)
SAFE, NONE = SafeSet(BAND, -9.0), SafeSet(BAND, 50.0)
OUTSIDE = SafeSet(BAND, 50.0, safe_points=X + 2.0)
INSIDE = SafeSet(BAND, 50.0, safe_points=X)
CONTEXT = {"fixed_features": {0: 0.123}}
AWAY = {"inequality_constraints": [(torch.tensor([0]), torch.ones(1).double(), 0.999)]}
FAST = {"num_restarts": 2, "raw_samples": 8}
NEVER = [(torch.tensor([0]), torch.ones(1).double(), 2.0)]
BANDIT = KernelBandit(PROBLEM.kernel, norm_bound=2.0, noise_std=0.1)
FEW_BOUNDS = partial(outcome_bands, 2 * [PROBLEM.model], num_bounds=1)
META = MetaUCB(DiscreteMetaModel(uniform(40, 3, 1), X))


def search(safe_set=SAFE, bounds=BOX, **options):
    return lambda: optimize_acqf_safely(BAND, safe_set, bounds, **(FAST | options))


def starts(safe_set=SAFE, **options):
    return lambda: gen_safe_initial_conditions(BAND, BOX, safe_set=safe_set, **options)


def limits(lower, upper):
    return lambda: SafeSet([BAND, BAND], [lower, upper], sides=[">=", "<="])


def width(X, **pending):
    acqf = ConstraintWidth(SAFE)
    return acqf.set_X_pending(X) if pending else acqf(X)


narrow = {"bounds": None, "space": MixedSpace(BOX[:, :1])}
empty = {"bounds": None, "space": MixedSpace(BOX, inequality_constraints=NEVER)}
ROWS = [
    ("no band", lambda: SafeSet([], 0.0), ValueError, "bands is empty"),
    ("thresholds", lambda: SafeSet([BAND], [0.0, 1.0]), ValueError, "2 entries for 1"),
    ("sides", lambda: SafeSet(BAND, sides=">"), ValueError, "sides must be"),
    ("a model", lambda: SafeSet(PROBLEM.model), Unsupported, "an instance of Band"),
    ("points", lambda: SafeSet(BAND, safe_points=X * torch.nan), Data, "safe_points cont"),
    ("columns", lambda: SafeSet(BAND, safe_points=X[:, :1]), Shapes, "safe_points must be"),
    ("no point", lambda: SafeSet(BAND, safe_points=X[:0]), Data, "no safe_points"),
    ("asked others", lambda: SAFE.is_safe(X[:, :1]), Shapes, "X has 1 columns"),
    ("new bandit", lambda: SafeSet(BANDIT).margin(X), Data, "are no observations yet"),
    ("num_bounds", FEW_BOUNDS, ValueError, "num_bounds is 1, below"),
    ("single points", lambda: SafeSet(META), UncertifiedError, "for all points and all"),
    ("filter", lambda: NONE.filter(X), NoSafePointError, "None of the 3 candidates"),
    ("repair", lambda: NONE.repair(X), NoSafePointError, "No anchor"),
    ("nothing safe", search(NONE), NoSafePointError, "Give safe_points"),
    ("safe elsewhere", search(OUTSIDE), NoSafePointError, "None of the safe_points is whe"),
    ("in no context", search(INSIDE, **CONTEXT), NoSafePointError, "fixed_features and"),
    ("where none may go", search(INSIDE, **AWAY), NoSafePointError, "linear constraints"),
    ("starts elsewhere", starts(OUTSIDE), NoSafePointError, r"the first is \(2\.\d+, 2\."),
    (
        "limits swapped",
        search(bounds=BOX.flip(0)),
        ValueError,
        "input 0 in bounds is above",
    ),
    ("limits crossed", limits(0.5, 0.2), ValueError, "at least 0.5 and at most 0.2"),
    ("limits equal", limits(0.5, 0.5), ValueError, r'\(side ">="\) must be below'),
    ("starts", starts(NONE), NoSafePointError, "No point that was tried"),
    ("no domain", search(bounds=None), ValueError, "bounds or space"),
    ("another space", search(**narrow), Shapes, "1 columns"),
    ("empty space", search(**empty), Data, "keeps inequality_constraints"),
    ("q", search(q=0), ValueError, "q must be a whole number"),
    ("several starts", starts(q=2), Unsupported, "sequential=True"),
    ("equalities", starts(equality_constraints=NEVER), Unsupported, "fixed_features"),
    ("a width of two", lambda: width(X), Shapes, "b x 1 x d"),
    ("pending", lambda: width(X, pending=True), Unsupported, "one point at a time"),
]
