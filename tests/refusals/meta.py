r"""What the models of earlier tasks and their bounds refuse."""

from functools import partial

import torch
from botorch.exceptions import BotorchTensorDimensionError as Shapes
from botorch.exceptions import InputDataError as Data
from botorch.exceptions import UnsupportedError as Unsupported

from kernelucb import MartingaleMixtureUCB, MetaUCB
from kernelucb.models import CosineFeatures, DiscreteMetaModel, FeatureMetaModel
from problems import generator, make_problem, uniform

X = uniform(6, 1, 0)
VALUES = uniform(40, 6, 1)
GAPS = VALUES.masked_fill(torch.rand(40, 6, generator=generator(4)) < 0.3, torch.nan)
SPAN = uniform(3, 5, 2) @ uniform(5, 6, 3)  # 3 tasks on 6 candidates
COSINES = CosineFeatures(torch.ones(1, 2).double(), torch.arange(2.0).double())
Y = torch.ones(2, 1).double()


def discrete(values=VALUES, candidates=X):
    return DiscreteMetaModel(values, candidates)


def features(inputs=X, values=VALUES, module=COSINES):
    return FeatureMetaModel(inputs, values, module)


MODEL, BASES = discrete(), features()
bound, after = partial(MetaUCB, delta=0.05), features(X, VALUES[:3])
after = after.condition_on_observations
uneven = partial(features, [X, X[:1]], [VALUES[0], VALUES[1, :1]])
flat = partial(features, module=torch.nn.Flatten(0))
stored = features(module=torch.nn.Identity()).constructor_options

ROWS = [
    ("one task", lambda: discrete(VALUES[:1]), Data, "at least 2 training tasks, got 1"),
    ("equal candidates", lambda: discrete(VALUES, 0.0 * X), Data, "equal rows"),
    ("other candidates", lambda: discrete(VALUES[:, :5]), Shapes, "must be `N x 6`"),
    ("gaps", lambda: discrete(GAPS), Data, "25% .* too much to complete"),
    ("an empty task", lambda: discrete(GAPS.mul(torch.nan)), Data, "have fewer than 1"),
    ("no candidate", lambda: MODEL.posterior(X + 0.01), Data, "not one of the"),
    ("few inputs", uneven, Data, "1 inputs for 2 independent"),
    ("no vectors", flat, Shapes, "`n x K` values"),
    (
        "fewer values",
        lambda: features(X, VALUES[:, :3]),
        Shapes,
        "task_inputs must be `M x d",
    ),
    ("phases", lambda: CosineFeatures(X.mT, X[:2, 0]), Shapes, r"phases `K`, got .*\(2,\)"),
    ("stored features", stored, Unsupported, "use CosineFeatures"),
    ("in a bound", lambda: MartingaleMixtureUCB(MODEL), Unsupported, "single-task GP"),
    ("span", lambda: discrete(SPAN).norm_bound(0.5), Data, "100% of the tasks are not"),
    ("norms", lambda: MODEL.norm_bound(0.99, VALUES[:1]), Data, "needs at least 99 tasks"),
    (
        "few functions",
        lambda: bound(discrete(VALUES[:18])),
        ValueError,
        "at least 21 .* 18",
    ),
    ("X", lambda: BASES.posterior(X.expand(6, 2)), Shapes, "X must be"),
    ("Y", partial(after, X[:2], Y[:, 0]), Shapes, "Y"),
    ("batch", partial(after, X[None], Y[None]), Unsupported, "without batch"),
    ("too many", partial(after, X[:2], Y), Data, "most 1 evaluations; .* 4"),
    ("GP", partial(MetaUCB, make_problem().model), Unsupported, "no estimated prior"),
]
