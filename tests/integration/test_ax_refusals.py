r"""Experiments that a bound cannot serve are refused before a trial is paid for."""

import pytest
from ax.adapter.registry import Generators
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig
from ax.api.protocols.metric import IMetric
from ax.api.protocols.runner import IRunner
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from ax.orchestration.orchestrator import Orchestrator
from ax.orchestration.orchestrator_options import OrchestratorOptions
from ax_bench import (
    AX_WARNINGS,
    PLANE,
    UNIT,
    begun,
    curve,
    fixed_client,
    make_client,
    next_trial,
    node,
    run,
)
from botorch.exceptions import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.transforms.outcome import Bilog, Log, Standardize

import kernelucb.ax
from kernelucb import MartingaleMixtureUCB, ScalarizedUCB

pytestmark = [pytest.mark.slow, *AX_WARNINGS]

CONSTRAINT = ["z >= 1"]
UNSUPPORTED = [
    ("y", CONSTRAINT, "cannot keep outcome constraints, and the experiment has .*z >= 1"),
    ("y, z", None, "is for one objective, and the experiment has several: `y, z`"),
    ("y, z", ["z >= 1"], "is for one objective"),
    ("y + 2*z", None, "the objective `y . 2.z` is a sum of several; use ScalarizedUCB"),
]


def refused(client, message, error=UnsupportedError):
    trials = len(client._experiment.trials)
    with pytest.raises(error, match=message):
        client.get_next_trials(max_trials=2)
    assert len(client._experiment.trials) == trials


class TestBeforeTheFirstTrial:
    @pytest.mark.parametrize(("objective", "constraints", "message"), UNSUPPORTED)
    def test_one_outcome(self, objective, constraints, message):
        client = make_client(objective=objective, constraints=constraints)
        refused(client, message)

    @pytest.mark.parametrize(("objective", "constraints", "message"), UNSUPPORTED[:3])
    def test_sums(self, objective, constraints, message):
        client = make_client(
            objective=objective, constraints=constraints, acqf_class=ScalarizedUCB
        )
        refused(client, f"ScalarizedUCB {message}")

    @pytest.mark.parametrize("option", ["norm_bound", "noise_std"])
    @pytest.mark.parametrize("objective", ["y - 2*z", "y"])
    def test_an_entry_for_each_outcome_of_a_sum(self, option, objective):
        options = {"norm_bound": 1.0, option: [1.0, 2.0, 3.0]}
        client = make_client(objective=objective, acqf_class=ScalarizedUCB, options=options)
        refused(client, f"{option} has 3 entries for [12] outcomes", ValueError)

    @pytest.mark.parametrize(
        ("parameters", "columns"),
        [
            (UNIT, 1),
            ([*PLANE, *UNIT], 3),
            (
                [
                    *UNIT,
                    ChoiceParameterConfig(
                        name="kind",
                        parameter_type="str",
                        values=["a", "b", "c"],
                        is_ordered=False,
                    ),
                ],
                4,
            ),
        ],
    )
    def test_a_length_scale_for_each_input(self, parameters, columns):
        client = fixed_client(parameters, lengthscale=[0.1, 0.2])
        refused(client, f"lengthscale has 2 entries for {columns} inputs", ValueError)
        next_trial(fixed_client(parameters, lengthscale=[0.1] * columns))

    def test_when_the_optimization_is_configured_after_the_strategy(self):
        client = Client(random_seed=0)
        client.configure_experiment(parameters=UNIT)
        strategy = kernelucb.ax.generation_strategy(
            MartingaleMixtureUCB, {"norm_bound": 1.0}
        )
        client.set_generation_strategy(strategy)
        client.configure_optimization(objective="y", outcome_constraints=CONSTRAINT)
        refused(client, "cannot keep outcome constraints")

    def test_trials_attached_by_hand_do_not_hide_it(self):
        # Ax drops constraints on metrics without data.
        client = fixed_client(constraints=CONSTRAINT)
        for x in (0.1, 0.5, 0.9):
            index = client.attach_trial(parameters={"x": x})
            client.complete_trial(trial_index=index, raw_data=curve({"x": x}))
        refused(client, "cannot keep outcome constraints")
        with pytest.raises(UnsupportedError, match="cannot keep outcome constraints"):
            kernelucb.ax.current_bound(client)
        with pytest.raises(UnsupportedError, match="cannot keep outcome constraints"):
            kernelucb.ax.CertifiedGapStoppingStrategy(1.0, client)

    def test_in_the_orchestrator(self):
        client = fixed_client(constraints=CONSTRAINT)
        client.configure_metrics([Nothing("y"), Nothing("z")])
        client.configure_runner(Never())
        options = OrchestratorOptions(init_seconds_between_polls=0)
        orchestrator = Orchestrator(
            client._experiment, client._generation_strategy, options
        )
        with pytest.raises(UnsupportedError, match="cannot keep outcome constraints"):
            orchestrator.run_n_trials(3)
        assert len(client._experiment.trials) == 0


class Never(IRunner):
    def run_trial(self, trial_index, parameterization):
        raise AssertionError("a trial was handed out")


class Nothing(IMetric):
    pass


class TestConfiguredLater:
    @pytest.mark.parametrize(("objective", "constraints", "message"), UNSUPPORTED)
    @pytest.mark.parametrize("trials", [1, 4])
    def test_refused_until_it_is_taken_back(self, trials, objective, constraints, message):
        client = begun(trials)
        client.configure_optimization(objective=objective, outcome_constraints=constraints)
        refused(client, message)
        client.configure_optimization(objective="y")
        run(client, 1, curve)

    def test_the_direction_is_that_of_the_present_objective(self):
        client = begun(4)
        assert kernelucb.ax.last_bound(client).direction == 1
        client.configure_optimization(objective="-y")
        run(client, 1, curve)
        assert node(client) == "MartingaleMixtureUCB"
        assert kernelucb.ax.last_bound(client).direction == -1


class TestReopened:
    # Ax reopens constraints by arguments that it has replaced.
    @pytest.mark.filterwarnings("ignore:Passing `metric` to:DeprecationWarning:ax[.]")
    @pytest.mark.parametrize("trials", [0, 4])
    def test_refused_as_before(self, trials, tmp_path):
        client = begun(trials)
        reopened = Client.load_from_json_file(saved(client, tmp_path))
        reopened.configure_optimization(objective="y", outcome_constraints=CONSTRAINT)
        refused(reopened, "cannot keep outcome constraints")
        again = Client.load_from_json_file(saved(reopened, tmp_path))
        refused(again, "cannot keep outcome constraints")
        again.configure_optimization(objective="y")
        run(again, 1, curve)

    def test_nodes_are_stored_with_all_their_arguments(self, tmp_path):
        client = run(fixed_client(min_observed=2), 4, curve)
        reopened = Client.load_from_json_file(saved(client, tmp_path))
        before, after = client._generation_strategy, reopened._generation_strategy
        before._unset_non_persistent_state_fields()
        after._unset_non_persistent_state_fields()
        assert after._nodes == before._nodes
        assert len(after._nodes[0].transition_criteria) == 2


def saved(client, folder):
    path = str(folder / "bench.json")
    client.save_to_json_file(path)
    return path


def test_outcomes_that_ax_transforms_are_not_those_reported():
    # A node made by hand, with the transforms that Ax takes by default.
    client = begun(4)
    arguments = dict(client._generation_strategy._nodes[1].generator_spec.generator_kwargs)
    del arguments["transforms"]
    spec = GeneratorSpec(Generators.BOTORCH_MODULAR, generator_kwargs=arguments)
    own = GenerationStrategy(nodes=[GenerationNode(name="own", generator_specs=[spec])])
    client.set_generation_strategy(own)
    with pytest.raises(UnsupportedError, match="no bound of this package on outcomes as"):
        kernelucb.ax.current_bound(client)


@pytest.mark.parametrize("transforms", [[Log], [Log, Standardize], [Bilog]])
def test_transformed_outcomes(transforms):
    r"""Ax's best arms and the stopping gap are in units of the metric."""
    config = ModelConfig(
        botorch_model_class=SingleTaskGP, outcome_transform_classes=transforms, name="own"
    )
    with pytest.raises(UnsupportedError, match=r"Report the transformed outcome as the "):
        kernelucb.ax.generation_strategy(
            MartingaleMixtureUCB, options={"norm_bound": 1.0}, model_config=config
        )
