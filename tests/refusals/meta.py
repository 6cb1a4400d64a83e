r"""What the models of earlier tasks and their bounds refuse."""

import math
from functools import partial

import torch
from botorch.exceptions import BotorchTensorDimensionError as Shapes
from botorch.exceptions import InputDataError as Data
from botorch.exceptions import UnsupportedError as Unsupported

from kernelucb import MartingaleMixtureUCB, MetaPI, MetaUCB
from kernelucb.models import CosineFeatures, DiscreteMetaModel, FeatureMetaModel
from problems import generator, make_problem, uniform

X = uniform(6, 1, 0)
VALUES = uniform(40, 6, 1)
GAPS = VALUES.masked_fill(torch.rand(40, 6, generator=generator(4)) < 0.8, torch.nan)
SPAN = uniform(3, 5, 2) @ uniform(5, 6, 3)  # 3 tasks on 6 candidates
COSINES = CosineFeatures(torch.ones(1, 2).double(), torch.arange(2.0).double())
Y = torch.ones(2, 1).double()
UNEVEN = [VALUES[0], VALUES[1, :1]], [X, X[:1]]
models = {
    "candidates": lambda values=VALUES: DiscreteMetaModel(values, X),
    "features": lambda values=VALUES, inputs=X: FeatureMetaModel(inputs, values, COSINES),
}
discrete, features = models.values()


def other(module):
    return FeatureMetaModel(X, VALUES, module)


ROWS = [
    ("one task", lambda: discrete(VALUES[:1]), Data, "at least 2 training tasks, got 1"),
    ("flat candidates", lambda: DiscreteMetaModel(VALUES, X[:, 0]), Shapes, "candidates"),
    ("equal candidates", lambda: DiscreteMetaModel(VALUES, 0.0 * X), Data, "equal rows"),
    ("other candidates", lambda: discrete(VALUES[:, :5]), Shapes, "must be `N x 6`"),
    ("gaps", lambda: discrete(GAPS), Data, "too much to complete|have fewer than"),
    ("an empty task", lambda: discrete(GAPS.mul(torch.nan)), Data, "have fewer than 1"),
    ("no candidate", lambda: discrete().posterior(X + 0.01), Data, "not one of the"),
    ("NaN", lambda: features(VALUES * torch.nan), Data, "task_values contains NaN"),
    ("few inputs", lambda: features(*UNEVEN), Data, "1 inputs for 2 independent"),
    ("no vectors", lambda: other(torch.nn.Flatten(0)), Shapes, "`n x K` values"),
    (
        "fewer values",
        lambda: features(VALUES[:, :3]),
        Shapes,
        "task_inputs must be `M x d`",
    ),
    ("flat inputs", lambda: features([X[:, 0]], [Y]), Shapes, "task_inputs must be"),
    ("no tasks", lambda: features([], []), Shapes, "task_inputs must be"),
    ("frequencies", lambda: CosineFeatures(X[0], X[0]), Shapes, "must be `d x K`"),
    ("phases", lambda: CosineFeatures(X.mT, X[:2, 0]), Shapes, r"phases `K`, got .*\(2,\)"),
    (
        *("other columns", lambda: features().task_norms(X.expand(6, 2), VALUES[:1])),
        *(Shapes, "task_inputs must be `M x 1`"),
    ),
    (
        *("stored features", lambda: other(torch.nn.Identity()).constructor_options()),
        *(Unsupported, "use CosineFeatures"),
    ),
    ("in a bound", lambda: MartingaleMixtureUCB(discrete()), Unsupported, "single-task GP"),
    ("span", lambda: discrete(SPAN).norm_bound(0.5), Data, "100% of the tasks are not"),
    (
        *("norms", lambda: discrete().norm_bound(0.99, VALUES[:1])),
        *(Data, "needs at least 99 tasks, got 6"),
    ),
    ("probability", lambda: discrete().norm_bound(1.0), ValueError, "probability must lie"),
    ("delta", lambda: MetaUCB(discrete(), delta=1.0), ValueError, "delta must lie"),
    ("target", lambda: MetaPI(discrete(), target=math.nan), ValueError, "target must be"),
    (
        *("too few functions", lambda: MetaUCB(discrete(VALUES[:18]), delta=0.05)),
        *(ValueError, "Evaluation 1 .* at least 21 .* there are 18"),
    ),
]
for kind, make in models.items():
    after = make(VALUES[:3]).condition_on_observations
    ROWS += [
        (f"{kind}, X", lambda m=make: m().posterior(X.expand(6, 2)), Shapes, "X must be"),
        (
            f"{kind}, Y",
            lambda m=make: m().condition_on_observations(X[:2], Y[:, 0]),
            Shapes,
            "Y",
        ),
        (f"{kind}, NaN", partial(after, X[:2], Y * torch.nan), Data, "Y contains NaN"),
        (f"{kind}, batch", partial(after, X[None], Y[None]), Unsupported, "without batch"),
        (f"{kind}, too many", partial(after, X[:2], Y), Data, "most 1 evaluations; .* 4"),
    ]
for bound in (MetaUCB, MetaPI):
    acqf, name = bound(discrete()), bound.__name__
    ROWS += [
        (f"{name}, q", partial(acqf, X[:2]), Shapes, "b x 1 x d"),
        (
            f"{name}, GP",
            partial(bound, make_problem().model),
            Unsupported,
            "no estimated prior",
        ),
    ]
