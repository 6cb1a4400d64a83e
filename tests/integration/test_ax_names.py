r"""Names and columns in Ax: length scales by parameter, ordered choices, metrics."""

import pytest
import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax_bench import AX_WARNINGS, make_client, next_trial, reopened, run
from constrained_bench import constrained_client, observed
from sympy import SympifyError

import kernelucb.ax
from kernelucb.ax.spaces import parameters_of_columns

pytestmark = [pytest.mark.slow, *AX_WARNINGS]
MIXED = [
    ChoiceParameterConfig(
        name="solvent", parameter_type="str", values=["a", "b", "c"], is_ordered=False
    ),
    RangeParameterConfig(name="heat", parameter_type="float", bounds=(20.0, 80.0)),
    ChoiceParameterConfig(name="bath", parameter_type="int", values=[7], is_ordered=False),
    ChoiceParameterConfig(
        name="stirred", parameter_type="str", values=["no", "yes"], is_ordered=False
    ),
]
SCALES = {"heat": 0.3, "solvent": 2.0, "stirred": 0.7}


def outcome(parameters):
    return {"y": parameters["heat"] / 80.0 + (parameters["solvent"] == "b")}


def mixed_client(lengthscale, parameters=MIXED):
    options = {"kernel": "rbf", "lengthscale": lengthscale, "noise_std": 0.1}
    return make_client(parameters, options=options | {"norm_bound": 5.0})


def columns(acqf):
    kernel = acqf.regression.prior.covar_module
    return getattr(kernel, "base_kernel", kernel).lengthscale.flatten()


def test_length_scales_by_parameter_are_those_by_column():
    clients = [mixed_client(s) for s in (SCALES, [2.0, 2.0, 2.0, 0.3, 0.7])]
    names = None
    for client in clients:
        run(client, 4, outcome)
    by_name, by_column = (kernelucb.ax.current_bound(reopened(c)) for c in clients)
    names = clients[0]._generation_strategy.adapter.parameters
    expected = [SCALES[name] for name in parameters_of_columns(names)]
    assert sorted(expected) == [0.3, 0.7, 2.0, 2.0, 2.0]
    assert columns(by_name).tolist() == pytest.approx(expected)
    assert by_name.assumptions.certified
    assert by_column.assumptions.certified


@pytest.mark.parametrize(
    "scales",
    [
        {"heat": 0.3, "solvent": 2.0},
        SCALES | {"pressure": 1.0},
        SCALES | {"bath": 1.0},
    ],
)
def test_other_names_are_refused_before_the_first_trial(scales):
    with pytest.raises(ValueError, match="inputs of the bound are heat, solvent, stirred"):
        next_trial(mixed_client(scales))


def test_wrong_scales_by_name():
    for scales in ({}, {"heat": 0.0}):
        with pytest.raises(ValueError, match="lengthscale"):
            mixed_client(scales)


def test_columns_of_choices():
    names = ["u", "v_OH_PARAM_0", "v_OH_PARAM_12", "w_OH_PARAM_x"]
    assert parameters_of_columns(names) == ["u", "v", "v", "w_OH_PARAM_x"]


@pytest.mark.parametrize(
    ("kind", "values", "wanted"),
    [
        ("float", [1.0, 2.0, 10.0], [0.0, 1.0 / 9.0, 1.0]),
        ("int", [1, 2, 10], [0.0, 1.0 / 9.0, 1.0]),
        ("str", ["low", "middle", "high"], [0.0, 0.5, 1.0]),
    ],
)
def test_an_ordered_choice_is_its_value_and_one_of_words_its_position(kind, values, wanted):
    choice = ChoiceParameterConfig(
        name="x", parameter_type=kind, values=values, is_ordered=True
    )
    client = mixed_client({"x": 0.5, "heat": 0.3}, [choice, MIXED[1]])
    for i, value in enumerate(values):
        index = client.attach_trial({"x": value, "heat": 50.0})
        client.complete_trial(trial_index=index, raw_data={"y": 0.1 * i})
    run(client, 1, lambda _: {"y": 0.0})
    seen = kernelucb.ax.current_bound(client).regression.train_inputs[:3, 0]
    assert torch.allclose(seen.double(), torch.tensor(wanted).double())


def test_the_objective_is_printed_once():
    client = constrained_client()
    observed(client, 3)
    best = kernelucb.ax.recommended_arm(client)
    assert best.objective_name == "y"
    lines = str(best).splitlines()
    assert [line.split(": ")[0].strip() for line in lines[1:3]] == ["y (objective)", "z"]
    assert sum("y" in line.split(": ")[0] for line in lines[1:3]) == 1


def test_constraints_have_the_names_of_their_metrics():
    client = constrained_client("explored")
    observed(client, 3)
    names = kernelucb.ax.optimum_report(client).certificate.assumptions
    assert {item.name.partition(": ")[0] for item in names.items} == {"objective", "z"}


@pytest.mark.parametrize("name", ["yield", "in", "lambda"])
def test_ax_parses_no_metric_of_a_python_word(name):
    client = Client(random_seed=0)
    client.configure_experiment(parameters=MIXED, name="words")
    with pytest.raises(SympifyError):
        client.configure_optimization(objective=name)
