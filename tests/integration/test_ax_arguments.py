r"""Wrong arguments of `kernelucb.ax` are refused in words, before any trial."""

import pytest
import torch
from ax.api.client import Client
from ax_bench import AX_WARNINGS, FIXED, fixed_client
from botorch.exceptions import UnsupportedError

import kernelucb.ax
from kernelucb import MartingaleMixtureUCB, ScalarizedUCB

pytestmark = AX_WARNINGS

GIVEN = {"norm_bound": 1.0}
STRATEGY = kernelucb.ax.generation_strategy


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"options": 3}, "options must be a mapping"),
        ({"options": ["norm_bound"]}, "options must be a mapping"),
        ({"seed": "a"}, "seed must be"),
        ({"seed": 1.5}, "seed must be"),
        ({"seed": -1}, "seed must be from 0"),
        ({"seed": 2**32}, "seed must be from 0"),
        ({"model_config": "rbf"}, "model_config must be"),
        ({"model_config": {"y": "rbf"}}, "model_config"),
        ({"constraints": "feasible"}, "constraints must be"),
        ({"safe_arms": {"x": 1.0}}, "safe_arms must be"),
        ({"allow_estimated": "no"}, "allow_estimated must be True or False"),
        ({"optimizer_options": ["q"]}, "optimizer_options must be"),
        ({"optimizer_options": {"num_restarts": "a"}}, "num_restarts must be a whole"),
        ({"optimizer_options": {"raw_samples": 0}}, "raw_samples must be a whole"),
        ({"optimizer_options": {"q": 3}}, "Leave out the option `q`"),
        ({"optimizer_options": {"return_best_only": False}}, "Ax sets it itself"),
    ],
)
def test_strategies(arguments, message):
    with pytest.raises((ValueError, UnsupportedError), match=message):
        STRATEGY(MartingaleMixtureUCB, **({"options": GIVEN} | arguments))


def test_nested_options_and_classes():
    with pytest.raises(ValueError, match="options must be a mapping"):
        STRATEGY(ScalarizedUCB, GIVEN | {"options": 3})
    for other in (None, [], MartingaleMixtureUCB.__mro__[1], torch.nn.Module):
        with pytest.raises((ValueError, UnsupportedError), match="acqf_class must be"):
            STRATEGY(other, GIVEN)


@pytest.mark.parametrize("lengthscale", ["a", None, True, 10**400, [], [0.1, 0.0], {}])
def test_length_scales(lengthscale):
    with pytest.raises(ValueError, match="lengthscale"):
        STRATEGY(MartingaleMixtureUCB, FIXED | GIVEN | {"lengthscale": lengthscale})


@pytest.mark.parametrize("source", [3, None, "client"])
def test_sources(source):
    stopping = kernelucb.ax.CertifiedGapStoppingStrategy
    for use in (
        kernelucb.ax.last_bound,
        kernelucb.ax.current_bound,
        kernelucb.ax.recommended_arm,
        lambda source: stopping(1.0, source),
    ):
        with pytest.raises(UnsupportedError, match="source must be"):
            use(source)
        with pytest.raises(ValueError, match="The client has no generation strategy"):
            use(Client())


def test_flags_and_models():
    with pytest.raises(ValueError, match="allow_estimated must be True or False"):
        kernelucb.ax.CertifiedGapStoppingStrategy(1.0, fixed_client(), allow_estimated="no")
    with pytest.raises(UnsupportedError, match="model must be"):
        kernelucb.ax.meta_model_config("a")
