r"""Refusals of acquisition functions: of bands, weights, families and constraints."""

from functools import partial

import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.objective import (
    ExpectationPosteriorTransform,
    GenericMCObjective,
    ScalarizedPosteriorTransform,
)
from botorch.exceptions import BotorchTensorDimensionError as Shapes
from botorch.exceptions import UnsupportedError as Unsupported
from botorch.models import KroneckerMultiTaskGP, ModelListGP
from botorch.models.transforms import Log

from kernelucb import (
    BandUCB,
    ConstrainedUCB,
    GuardedAcquisition,
    KernelBandit,
    KernelFamilyUCB,
    MartingaleMixtureUCB,
    NormTracker,
    OutcomeConstraints,
    ScalarizedUCB,
    lengthscale_family,
)
from kernelucb.papers import BOUNDS
from problems import frozen_kernel, frozen_model, make_problem

PROBLEM, KERNEL = make_problem(n=5, d=2), frozen_kernel("rbf")
MODEL, X = PROBLEM.model, PROBLEM.X
TWO, GIVEN = ModelListGP(MODEL, MODEL), {"norm_bound": 3.0}
BANDIT = KernelBandit(KERNEL, norm_bound=1.0, noise_std=0.1)
bound = partial(MartingaleMixtureUCB, MODEL, **GIVEN)
CONSTRUCT = partial(get_acqf_input_constructor(MartingaleMixtureUCB), MODEL)
limited = partial(partial, ConstrainedUCB.from_model, TWO, **GIVEN)
LIMITS = partial(get_acqf_input_constructor(ConstrainedUCB), TWO, **GIVEN)


def weights(*values):
    return ScalarizedPosteriorTransform(torch.tensor(values).double())


def total(*values, model=TWO, norm_bound=3.0):
    given = {"posterior_transform": weights(*values), "norm_bound": norm_bound}
    return partial(ScalarizedUCB.from_model, model, **given)


def weighted(transform):
    return partial(bound, posterior_transform=transform)


def terms(values, transform=None):
    return lambda: ScalarizedUCB([bound(posterior_transform=transform), bound()], values)


def described(**options):
    return partial(KernelFamilyUCB.from_model, MODEL, **options, **GIVEN)


def shortest(kernels, length):
    family = partial(KernelFamilyUCB, MODEL, kernels, **GIVEN)
    return lambda: family().band.relaxed(lengthscale=length)


def named(*names):
    return lambda: OutcomeConstraints(bound(), names=[*names])


RANGE = lengthscale_family(KERNEL, 0.15, 0.6)
SQUARE = GenericMCObjective(lambda Y, X=None: Y[..., 0].square())
EXPECTATION = ExpectationPosteriorTransform(n_w=2)
ENDS = {"shortest": 0.1, "longest": 0.8}
LOG = frozen_model(X, PROBLEM.Y.exp(), KERNEL, 0.1, outcome_transform=Log())
log = partial(MartingaleMixtureUCB, LOG, **GIVEN)
LIMIT, SHAPES = {"constraints": {1: (0.0, None)}}, {"constraints_tuple": (X, X)}
DEPENDENT = KroneckerMultiTaskGP(X, X)
TRACKED = total(1.0, 1.0, norm_bound=NormTracker())
ROWS = [
    ("a model", partial(BandUCB, MODEL), Unsupported, "an instance of Band"),
    ("a bandit", partial(BandUCB, BANDIT), Unsupported, "no set of functions"),
    ("beta", partial(bound, beta=2.0), TypeError, "has no beta"),
    *(
        (f"{each.__name__}'s beta", partial(each, MODEL, 0.2), TypeError, "has no beta")
        for each in (BandUCB, ScalarizedUCB, MartingaleMixtureUCB, *BOUNDS)
    ),
    ("a tensor as beta", lambda: MartingaleMixtureUCB(MODEL, X), TypeError, "has no beta"),
    ("beta in bands", partial(ConstrainedUCB, MODEL, 0.2), TypeError, "has no beta"),
    ("beta of a guard", partial(GuardedAcquisition, MODEL, beta=1.0), TypeError, "no beta"),
    ("mistyped", partial(CONSTRUCT, normbound=1.0), TypeError, "normbound"),
    ("limits for one", partial(CONSTRUCT, constraints=[abs]), Unsupported, "`constraints`"),
    ("an objective", partial(CONSTRUCT, objective=SQUARE), Unsupported, "`objective`"),
    ("two weights", weighted(weights(1.0, 1.0)), Unsupported, "the model has 1 output"),
    ("no weight", weighted(weights(0.0)), Unsupported, "All weights"),
    ("a risk", weighted(EXPECTATION), Unsupported, "use ScalarizedPosteriorTransform"),
    ("a sum of none", terms([0.0, 0.0]), ValueError, "all weights are zero"),
    ("a weight twice", terms([1.0, 1.0], weights(2.0)), Unsupported, "give its weight to"),
    ("dependent", total(1.0, 1.0, model=DEPENDENT), Unsupported, "not independent models"),
    ("one tracker", TRACKED, ValueError, "its own"),
    (
        "a sum after Log",
        lambda: ScalarizedUCB([log()], [1]),
        Unsupported,
        "add up the bands",
    ),
    ("at Log's end", lambda: OutcomeConstraints(log(), 0.0), ValueError, "after Log"),
    ("no family", described(shortest=0.1), ValueError, "needs the option `kernels`"),
    ("two families", described(kernels=RANGE, shortest=0.1), ValueError, "leave out one"),
    ("a kernel's name", described(**ENDS, kernel="cubic"), ValueError, "must be one of"),
    ("a list", shortest([KERNEL], 0.3), Unsupported, "leave out lengthscale"),
    ("too long", shortest(RANGE, 0.7), ValueError, r"give at most 0\.6"),
    ("no limits", limited(constraints={}), ValueError, "has no limit"),
    ("order of limits", limited(constraints={1: (1.0, 1.0)}), ValueError, "lower limit 1"),
    ("a turn", partial(bound, turns=("upper", "gain")), ValueError, "Each of turns must"),
    ("turns as a word", partial(bound, turns="mean"), ValueError, "turns must be words"),
    ("no turns", partial(bound, turns=()), ValueError, "turns must be words"),
    ("temperature", limited(**LIMIT, temperature=-1.0), ValueError, "not be negative"),
    ("twice", limited(**LIMIT, options={"maximize": False}), ValueError, "holds maximize"),
    ("functions", partial(LIMITS, constraints=[abs]), Unsupported, "of samples"),
    ("shapes of limits", partial(LIMITS, **SHAPES), Shapes, "must be `k x 2` and `k x 1`"),
    ("names", named("a", "b"), ValueError, "names must be 1"),
]
