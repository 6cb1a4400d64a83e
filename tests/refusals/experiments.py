r"""What Ax experiments cannot have, refused before a trial is paid for where it shows."""

import warnings

from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig
from ax.generators.torch.botorch_modular.utils import ModelConfig
from botorch.exceptions import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.transforms.outcome import Log, Standardize

import kernelucb.ax
from integration.ax_bench import (
    BY_NAME,
    FIXED,
    REQUIRED,
    SEARCH,
    SQUARE,
    UNIT,
    along,
    attached,
    constrained_client,
    curve,
    fixed_client,
    make_client,
    next_trial,
)
from kernelucb import (
    LikelihoodUCB,
    MartingaleMixtureUCB,
    MetaUCB,
    NormTracker,
    StreamingKernelUCB,
)
from kernelucb._numerics.estimates import Estimate
from kernelucb.exceptions import UncertifiedError


def strategy(acqf_class=MartingaleMixtureUCB, options=BY_NAME, **arguments):
    return lambda: kernelucb.ax.generation_strategy(acqf_class, options, **arguments)


def option(**changes):
    return strategy(options=FIXED | {"norm_bound": 1.0} | changes)


def trial(client, arms=(), outcome=curve, context=None):
    r"""The next trial of an experiment, which Ax handles with warnings of its own."""

    def ask():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            next_trial(attached(client(), arms, outcome), context)

    return ask


def with_limit(limit):
    return lambda: constrained_client("explored", limits=[limit])


def noisy(parameters):
    return {"y": (parameters["x"], 1.0 + parameters["x"])}


def hierarchical():
    branches = {"dependent_parameters": {"a": ["x"], "b": ["t"]}, "values": ["a", "b"]}
    parent = ChoiceParameterConfig(name="m", parameter_type="str", **branches)
    return fixed_client([parent, *SQUARE])


LOGS = ModelConfig(
    botorch_model_class=SingleTaskGP, outcome_transform_classes=[Log, Standardize], name="l"
)
ESTIMATE = 1.2 * Estimate(3.0)
SAFE = {"constraints": "safe", "safe_arms": along(0.5)}
SCALES = {"x": 0.3, "pressure": 1.0}
STREAMING = {"acqf_class": StreamingKernelUCB, "options": REQUIRED[StreamingKernelUCB]}
LIMIT, THREE = ["z >= 1"], along(0.1, 0.5, 0.9)
OTHER = {"options": FIXED | {"norm_bound": {"y": 1.0, "purity": 2.0}}}
ROWS = [
    ("unknown", option(norm=1.0), ValueError, "no option `norm`; it takes .*norm_bound"),
    ("tracker", option(norm_bound=NormTracker()), ValueError, "Ax cannot store"),
    ("estimate", option(norm_bound=ESTIMATE), ValueError, "norm_bound is an estimate"),
    ("missing", strategy(LikelihoodUCB, {"norm_bound": 1.0}), ValueError, "needs the opt"),
    ("units", strategy(model_config=LOGS), UnsupportedError, "Report the transformed outc"),
    ("prior", strategy(MetaUCB, {}), UnsupportedError, "need model_config=meta_model"),
    ("arms", strategy(constraints="safe"), ValueError, "safe_arms .*at least one arm"),
    ("safe", strategy(options=FIXED, **SAFE), UncertifiedError, r"estimates \(norm\)"),
    (
        *("blind", strategy(search="LogNoisyExpectedImprovement")),
        *(UnsupportedError, "cannot be told the objective"),
    ),
    (
        *("search", strategy(search=SEARCH, search_options={"alpha": 1.0})),
        *(ValueError, "no option `alpha`; it takes temp"),
    ),
    ("several", trial(lambda: make_client(UNIT, "y, z")), UnsupportedError, "several: `y"),
    (
        *("limits", trial(lambda: fixed_client(limits=LIMIT), THREE)),
        *(UnsupportedError, 'cannot keep outcome constraints.*"safe".*"explored"'),
    ),
    ("relative", trial(with_limit("z >= 0.9 * baseline")), UnsupportedError, "is relative"),
    ("sum", trial(with_limit("z + w >= 0.9")), UnsupportedError, "is on a sum of outcomes"),
    ("names", trial(lambda: constrained_client(**OTHER)), ValueError, "outcomes purity, y"),
    ("hierarchy", trial(hierarchical), UnsupportedError, "an arm has depends on m"),
    (
        "scales",
        trial(lambda: fixed_client(lengthscale=SCALES)),
        ValueError,
        "entries x, ",
    ),
    ("context", trial(fixed_client, context={"x": 20.0}), ValueError, "x=20.0, which is o"),
    (
        *("noises", trial(lambda: make_client(UNIT, **STREAMING), THREE, noisy)),
        *(UnsupportedError, "one noise scale for each observation"),
    ),
    ("none", lambda: kernelucb.ax.last_bound(Client()), ValueError, "no generation strat"),
]
