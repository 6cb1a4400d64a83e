r"""Constrained experiments that cannot be served are refused as early as possible."""

import pytest
import torch
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax_bench import FIXED, GUARDED_WARNINGS, OPTIONS, PLANE, UNIT
from botorch.exceptions import UnsupportedError
from constrained_bench import BY_NAME, constrained_client, observed, problem

import kernelucb.ax
from kernelucb import MartingaleMixtureUCB, MetaUCB, SrinivasUCB
from kernelucb.exceptions import UncertifiedError
from kernelucb.models import DiscreteMetaModel

pytestmark = [pytest.mark.slow, *GUARDED_WARNINGS]

ARMS = [{"x": 0.5}]
GIVEN = {"options": BY_NAME, "constraints": "safe"}
PRIOR_FITTED = {"norm_bound": 2.0, "noise_std": 0.05}


def strategy(acqf_class=MartingaleMixtureUCB, **arguments):
    return kernelucb.ax.generation_strategy(acqf_class, **(GIVEN | arguments))


class TestAtConstruction:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({}, "needs safe_arms: parameters of at least one arm"),
            ({"safe_arms": []}, "needs safe_arms"),
            (
                {"safe_arms": [{"x": object()}]},
                "x cannot be a object",
            ),
            ({"constraints": "strict"}, "constraints must be"),
            ({"constraints": None, "safe_arms": ARMS}, "safe_arms is for constraints="),
            ({"constraints": "explored", "expand_every": 2}, "expand_every is for"),
            ({"constraints": None, "allow_estimated": True}, "allow_estimated is for"),
            ({"safe_arms": ARMS, "expand_every": 0}, "expand_every must be a whole"),
            (
                {"safe_arms": ARMS, "optimizer_options": {"sequential": True}},
                "A safe search has no optimizer option sequential",
            ),
            (
                {"safe_arms": ARMS, "options": {"norm_bound": {"y": 1.0}, "delta": {}}},
                "delta is one number for all outcomes",
            ),
            (
                {"safe_arms": ARMS, "options": BY_NAME | {"noise_std": {"y": 1.0}}},
                "noise_std is given for the outcomes y, and there are bounds of y, z",
            ),
            (
                {"safe_arms": ARMS, "options": {"norm_bound": {"y": 1.0, "z": -1.0}}},
                "norm_bound must be",
            ),
        ],
    )
    def test_arguments(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            strategy(**arguments)

    @pytest.mark.parametrize(
        ("arguments", "lacking", "way"),
        [
            ({"options": PRIOR_FITTED}, "kernel, mean", "kernel=... and lengthscale=..."),
            ({"options": FIXED}, "norm", "norm_bound=... in the options"),
            (
                {"options": FIXED | {"norm_bound": {"y": 1.0, "z": "cautious"}}},
                "norm",
                "norm_bound=... in the options",
            ),
        ],
    )
    def test_safety_does_not_rest_on_estimates(self, arguments, lacking, way):
        with pytest.raises(UncertifiedError, match=f"safe. needs .*{lacking}.*{way}"):
            strategy(safe_arms=ARMS, **arguments)
        strategy(safe_arms=ARMS, allow_estimated=True, **arguments)

    def test_safety_is_for_all_rounds(self):
        with pytest.raises(UncertifiedError, match="A safe set cannot rest on"):
            strategy(kernelucb.WangDeFreitasUCB, safe_arms=ARMS)

    def test_bounds_for_one_outcome(self, meta):
        with pytest.raises(UnsupportedError, match="MetaUCB has the prior of one outcome"):
            strategy(MetaUCB, model_config=meta, options={}, safe_arms=ARMS)

    @pytest.mark.parametrize("search", ["LogExpectedImprovement", "qMaxValueEntropy"])
    def test_a_search_that_takes_no_constraints(self, search):
        with pytest.raises(UnsupportedError, match=f"{search} takes no outcome constrai"):
            strategy(constraints="explored", search=search)

    def test_a_bound_that_is_a_heuristic_explores(self):
        options = {"noise_std": 0.1}
        strategy(SrinivasUCB, constraints="explored", options=options)


@pytest.fixture
def meta():
    values = torch.randn(30, 4, dtype=torch.float64)
    candidates = torch.arange(4, dtype=torch.float64).unsqueeze(-1)
    return kernelucb.ax.meta_model_config(DiscreteMetaModel(values, candidates))


def refused(client, message, error=UnsupportedError):
    trials = len(client._experiment.trials)
    with pytest.raises(error, match=message):
        client.get_next_trials(max_trials=1)
    assert len(client._experiment.trials) == trials


class TestBeforeTheFirstTrial:
    def test_both_ways_are_said(self):
        client = constrained_client(None, safe_arms=None)
        refused(client, 'constraints="safe" with safe_arms .*constraints="explored"')

    @pytest.mark.parametrize("kind", ["safe", "explored"])
    def test_no_constraints(self, kind):
        client = constrained_client(kind)
        client.configure_optimization(objective="y")
        refused(client, "The strategy is for outcome constraints, and the experiment has")

    @pytest.mark.parametrize("kind", ["safe", "explored"])
    @pytest.mark.parametrize(
        ("constraint", "message"),
        [
            ("z >= 0.9 * baseline", "relative to a baseline that is only known through"),
            ("z + w >= 0.9", "is on a sum of outcomes, of which Ax 1.3 keeps only"),
        ],
    )
    def test_constraints(self, kind, constraint, message):
        refused(constrained_client(kind, constraints=[constraint]), message)

    def test_several_objectives(self):
        client = constrained_client("explored", objective="y, w")
        refused(client, "has several: `y, w`. Maximise a weighted sum .* ScalarizedUCB")

    def test_sums(self):
        client = constrained_client("explored", objective="y + w")
        refused(client, "is a sum of several; use ScalarizedUCB")

    @pytest.mark.parametrize("kind", ["safe", "explored"])
    def test_outcomes_of_other_names(self, kind):
        options = BY_NAME | {"norm_bound": {"y": 1.0, "purity": 2.0}}
        client = constrained_client(kind, options=options)
        message = "given for the outcomes purity, y, and there are bounds of y, z"
        refused(client, message, ValueError)

    @pytest.mark.parametrize(
        ("arm", "message"),
        [
            ({"x": 1.5}, "not a valid"),
            ({}, "lacks the parameter `x`: give it"),
            ({"x": 0.5, "w": 1.0}, "w"),
        ],
    )
    def test_safe_arms(self, arm, message):
        client = constrained_client(safe_arms=[{"x": 0.5}, arm])
        refused(client, message, Exception)

    def test_too_many_combinations(self):
        space = [
            RangeParameterConfig(name=name, parameter_type="int", bounds=(0, 200))
            for name in ("m", "n")
        ]
        client = constrained_client(parameters=space, safe_arms=[{"m": 0, "n": 0}])
        refused(client, "there are 40401 combinations, more than 10000")

    def test_configured_anew_in_between(self):
        client = constrained_client()
        observed(client, 3)
        client.configure_optimization(objective="y")
        refused(client, "the experiment has none")
        low = problem().threshold
        client.configure_optimization(objective="y", outcome_constraints=[f"z >= {low}"])
        observed(client, 1)

    def test_a_length_scale_for_each_input_of_each_outcome(self):
        options = BY_NAME | {"lengthscale": {"y": [0.3, 0.3], "z": [0.3] * 3}}
        arm = {"u": 0.0, "v": 0.0}
        client = constrained_client(parameters=PLANE, options=options, safe_arms=[arm])
        refused(client, "lengthscale has 3 entries for 2 inputs", ValueError)
        options["lengthscale"]["z"] = 0.4
        client = constrained_client(parameters=PLANE, options=options, safe_arms=[arm])
        assert client.get_next_trials(max_trials=1) == {0: arm}


def test_stopping_on_estimates_is_refused_when_it_is_made():
    client = Client()
    client.configure_experiment(parameters=UNIT)
    client.set_generation_strategy(
        kernelucb.ax.generation_strategy(
            MartingaleMixtureUCB, OPTIONS, constraints="explored"
        )
    )
    with pytest.raises(UncertifiedError, match="kernel, mean"):
        kernelucb.ax.CertifiedGapStoppingStrategy(1.0, client)
