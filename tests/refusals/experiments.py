r"""What Ax experiments cannot have, refused before a trial is paid for where it shows."""

import warnings
from functools import partial

from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig
from ax.generators.torch.botorch_modular.utils import ModelConfig
from botorch.exceptions import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.transforms.outcome import Log, Standardize

import kernelucb.ax
from integration import ax_bench as bench
from kernelucb import LikelihoodUCB, MartingaleMixtureUCB, MetaUCB, NormTracker
from kernelucb._numerics.estimates import Estimate
from kernelucb.exceptions import UncertifiedError


def strategy(acqf_class=MartingaleMixtureUCB, options=bench.BY_NAME, **arguments):
    return lambda: kernelucb.ax.generation_strategy(acqf_class, options, **arguments)


def option(**changes):
    return strategy(options=bench.FIXED | {"norm_bound": 1.0} | changes)


def trial(make=bench.fixed_client, arms=(), context=None, **arguments):
    r"""The next trial of an experiment, which Ax handles with warnings of its own."""

    def ask():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            client = bench.attached(make(**arguments), arms, bench.curve)
            bench.next_trial(client, context)

    return ask


def limited(limit):
    return trial(partial(bench.constrained_client, "explored"), limits=[limit])


LOGS = ModelConfig(
    botorch_model_class=SingleTaskGP, outcome_transform_classes=[Log, Standardize], name="l"
)
ESTIMATE = 1.2 * Estimate(3.0)
SAFE = {"constraints": "safe", "safe_arms": bench.along(0.5)}
BRANCHES = {"dependent_parameters": {"a": ["x"], "b": ["t"]}, "values": ["a", "b"]}
PARENT = ChoiceParameterConfig(name="m", parameter_type="str", **BRANCHES)
OTHER = bench.FIXED | {"norm_bound": {"y": 1.0, "purity": 2.0}}
SCALES = {"x": 0.3, "pressure": 1.0}
ROWS = [
    ("unknown", option(norm=1.0), ValueError, "no option `norm`; it takes .*norm_bound"),
    ("tracker", option(norm_bound=NormTracker()), ValueError, "Ax cannot store"),
    ("estimate", option(norm_bound=ESTIMATE), ValueError, "norm_bound is an estimate"),
    ("missing", strategy(LikelihoodUCB, {"norm_bound": 1.0}), ValueError, "needs the opt"),
    ("units", strategy(model_config=LOGS), UnsupportedError, "Report the transformed outc"),
    (
        "prior",
        strategy(MetaUCB, {}),
        UnsupportedError,
        "=kernelucb.ax.meta_model_config",
    ),
    ("arms", strategy(constraints="safe"), ValueError, "needs safe_arms, at least one arm"),
    (
        *("safe", strategy(options=bench.FIXED, **SAFE)),
        *(UncertifiedError, r"estimates \(norm\)"),
    ),
    (
        *("blind", strategy(search="LogNoisyExpectedImprovement")),
        *(UnsupportedError, "cannot be told the objective"),
    ),
    ("several", trial(objective="y, z"), UnsupportedError, "several: `y"),
    (
        *("limits", trial(limits=["z >= 1"], arms=bench.SOME)),
        *(UnsupportedError, 'cannot keep outcome constraints.*"safe".*"explored"'),
    ),
    ("relative", limited("z >= 0.9 * baseline"), UnsupportedError, "is relative"),
    ("sum", limited("z + w >= 0.9"), UnsupportedError, "is on a sum of outcomes"),
    (
        *("names", trial(bench.constrained_client, options=OTHER)),
        *(ValueError, "outcomes purity, y"),
    ),
    (
        *("hierarchy", trial(parameters=[PARENT, *bench.SQUARE])),
        *(UnsupportedError, "an arm has depends on m"),
    ),
    ("scales", trial(lengthscale=SCALES), ValueError, "pressure.*of the bound are x "),
    ("context", trial(context={"x": 20.0}), ValueError, "x=20.0, which is o"),
    ("none", lambda: kernelucb.ax.last_bound(Client()), ValueError, "no generation strat"),
]
