r"""The Ax experiments that the tests of `kernelucb.ax` run, on functions of known norm."""

import functools
import json
import math
from itertools import count

import pandas
import pytest
import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.data import Data

import kernelucb.ax
from kernelucb import (
    KernelFamilyUCB,
    LikelihoodUCB,
    MartingaleMixtureUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    UnknownNoise,
)
from kernelucb.models import DiscreteMetaModel
from kernelucb.papers import BOUNDS
from problems import RKHSFunction, frozen_kernel
from tolerances import SEARCHED

AX_WARNINGS = [
    # pandas 4 will drop arguments that Ax 1.3 still passes.
    pytest.mark.filterwarnings("ignore::pandas.errors.Pandas4Warning:ax[.]"),
    # Ax's client calls a method that Ax has renamed.
    pytest.mark.filterwarnings("ignore:add_tracking_metric is:DeprecationWarning:ax[.]"),
    # Ax reopens outcome constraints in a way that it has deprecated itself.
    pytest.mark.filterwarnings("ignore:Passing `metric` to Out:DeprecationWarning:ax[.]"),
    # Ax's remark on an arm outside the search space.
    pytest.mark.filterwarnings("ignore:Parameterization .* out-of-design:RuntimeWarning"),
    # BoTorch's remarks on a line search that stops at a flat optimum; it starts again once.
    pytest.mark.filterwarnings("ignore:Optimization failed:RuntimeWarning:botorch[.]"),
    # Ax copies a tensor with torch.tensor when it counts objectives.
    pytest.mark.filterwarnings("ignore:To copy construct from:UserWarning:ax[.]"),
    # Of a strategy of which the kernel is fitted.
    pytest.mark.filterwarnings("ignore:A norm bound is given, but no kernel"),
    # A Monte Carlo function at a point that was observed has a singular covariance.
    pytest.mark.filterwarnings("ignore:A not p.d.::linear_operator"),
]


@pytest.fixture
def unfitted(request, monkeypatch):
    r"""Ax's models keep the parameters that they are made with; slow tests fit them.

    A fit is half the time of a look at an experiment, and here nothing is asserted of it.
    """
    if request.node.get_closest_marker("slow") is None:
        where = "ax.generators.torch.botorch_modular.utils.fit_gpytorch_mll"
        monkeypatch.setattr(where, lambda mll: mll.eval())


FAST = {"num_restarts": 2, "raw_samples": 16}
OPTIONS = {"norm_bound": 300.0, "noise_std": 1.0}
SEARCH = "qLogNoisyExpectedImprovement"
REQUIRED = dict.fromkeys((MartingaleMixtureUCB, *BOUNDS), OPTIONS) | {
    SrinivasUCB: {"noise_std": 1.0},
    StreamingKernelUCB: {"norm_bound": 300.0, "noise_std": UnknownNoise(0.1, 50.0)},
    KernelFamilyUCB: OPTIONS | {"shortest": 0.5, "longest": 1.0, "mean": 5000.0},
}


def real(name, low=0.0, high=1.0, **options):
    kind = {"parameter_type": "float", "bounds": (low, high)}
    return RangeParameterConfig(name=name, **kind, **options)


def whole(name, low, high):
    return RangeParameterConfig(name=name, parameter_type="int", bounds=(low, high))


def choice(name, values, is_ordered=False):
    kind = {bool: "bool", int: "int", float: "float", str: "str"}[type(values[0])]
    return ChoiceParameterConfig(
        name=name, parameter_type=kind, values=list(values), is_ordered=is_ordered
    )


UNIT = [real("x")]
SQUARE = [real("x"), real("t")]
PLANE = [real("u", -5.0, 10.0), real("v", 0.0, 15.0)]
KIND = choice("kind", "abc")


def make_client(
    parameters=PLANE,
    objective="y",
    acqf_class=MartingaleMixtureUCB,
    options=OPTIONS,
    limits=None,
    parameter_constraints=(),
    **arguments,
):
    r"""An experiment; ``limits`` are its outcome constraints."""
    torch.manual_seed(0)
    client = Client(random_seed=0)
    client.configure_experiment(parameters, parameter_constraints=parameter_constraints)
    client.configure_optimization(objective=objective, outcome_constraints=limits)
    arguments = {"num_initial": 3, "seed": 1, "optimizer_options": FAST} | arguments
    client.set_generation_strategy(
        kernelucb.ax.generation_strategy(acqf_class, options, **arguments)
    )
    return client


def searching(search=SEARCH, **arguments):
    return make_client(search=search, **arguments)


def next_trial(client, context=None):
    trials = client.get_next_trials(max_trials=1, fixed_parameters=context)
    ((index, parameters),) = trials.items()
    return index, parameters


def ask(client, context, outcome):
    index, parameters = next_trial(client, context)
    client.complete_trial(trial_index=index, raw_data=outcome(parameters))
    return parameters


def wave(parameters):
    u, v = parameters["u"], parameters["v"]
    return 5000.0 + 80.0 * math.sin(u / 3.0) + 60.0 * math.cos(v / 4.0)


def waves(parameters):
    return {"y": wave(parameters)}


def run(client, number, outcome=waves):
    for _ in range(number):
        ask(client, None, outcome)
    return client


def attached(client, arms, outcome):
    r"""Completed trials of given arms, which no search has chosen."""
    for parameters in arms:
        index = client.attach_trial(parameters=parameters)
        client.complete_trial(trial_index=index, raw_data=outcome(parameters))
    return client


def along(*values, name="x"):
    return [{name: value} for value in values]


CONTRADICTION = "kernelucb.exceptions.InconsistentConfidenceSetWarning"
SOME = along(0.1, 0.4, 0.8)
# Arms that no search has chosen, spread over the plane.
SPREAD = [{"u": 3.3 * i - 4.0, "v": (7.0 * i) % 15.0} for i in range(5)]


CUBE = torch.tensor([[-5.0, 0.0], [10.0, 15.0]], dtype=torch.float64)
QUERIES = torch.tensor([[0.0, 5.0], [9.0, 2.0], [-4.0, 14.0]], dtype=torch.float64)


def batch(client, number):
    r"""A batch trial, begun."""
    experiment = client._experiment
    (runs,) = client._generation_strategy.gen(experiment=experiment, n=number)
    trial = experiment.new_batch_trial(generator_runs=runs)
    return trial.mark_running(no_runner_required=True)


def report(client, trial, outcome, arms=None):
    r"""Attach the outcomes of the arms of a trial, all of them by default."""
    entries = [
        {"arm_name": arm.name, "metric_name": name, "metric_signature": name, "mean": mean}
        for arm in (trial.arms if arms is None else arms)
        for name, mean in outcome(arm.parameters).items()
    ]
    df = pandas.DataFrame.from_records(entries)
    client._experiment.attach_data(
        Data(df=df.assign(trial_index=trial.index, sem=math.nan))
    )


def node(client):
    return client._generation_strategy.current_node_name


def built(client):
    r"""What Ax built for the last trial."""
    return client._generation_strategy.adapter.generator._acquisition


def stopping(client, gap=0.1, **arguments):
    return kernelucb.ax.CertifiedGapStoppingStrategy(gap, client, **arguments)


def points(*parameterizations, names=("u", "v")):
    return torch.tensor(
        [[p[name] for name in names] for p in parameterizations], dtype=torch.float64
    )


def rows(tensor):
    return sorted(tuple(round(value, 9) for value in row) for row in tensor.tolist())


NORM, NOISE_STD = 2.0, 0.05
FIXED = {"kernel": "matern52", "lengthscale": 0.4, "noise_std": NOISE_STD}
CURVE_KERNEL = frozen_kernel("matern52", 0.4)
CURVE = RKHSFunction.random(CURVE_KERNEL, NORM, d=1, seed=5)
GRID = torch.linspace(0.0, 1.0, 101, dtype=torch.float64).unsqueeze(-1)


def value_at(function, parameters):
    return float(function(torch.tensor([[parameters["x"]]], dtype=torch.float64)))


def curve(parameters, sign=1.0, unit=1.0):
    r"""A function of norm 2 for the kernel of `fixed_client`, times sign and unit."""
    return {"y": sign * unit * value_at(CURVE, parameters)}


def fixed_client(
    parameters=UNIT, objective="y", unit=1.0, lengthscale=0.4, options=None, **arguments
):
    r"""An experiment whose kernel, mean and noise are given, outcomes in ``unit``."""
    prior = FIXED | {"lengthscale": lengthscale, "outputscale": unit**2}
    prior |= {"noise_std": unit * NOISE_STD}
    options = prior | ({"norm_bound": NORM} if options is None else options)
    return make_client(parameters, objective, options=options, **arguments)


class Problem:
    r"""Maximise ``y`` where ``z`` is at least the threshold; ``z`` is largest at start."""

    def __init__(self, seed=0):
        seeds = {"y": 2 * seed + 50, "z": 2 * seed + 51}
        self.functions = {
            name: RKHSFunction.random(CURVE_KERNEL, NORM, d=1, seed=each)
            for name, each in seeds.items()
        }
        grid = torch.linspace(0.0, 1.0, 201, dtype=torch.float64).unsqueeze(-1)
        values = self.functions["z"](grid)
        self.threshold = round(float(values.quantile(0.5)), 6)
        self.start = float(grid[values.argmax()])

    def __call__(self, parameters, noise=(0.0, 0.0)):
        # Ax stores 15 digits.
        return {
            name: round(value_at(function, parameters) + NOISE_STD * e, 9)
            for (name, function), e in zip(self.functions.items(), noise, strict=True)
        }


problem = functools.cache(Problem)


def is_kept(arms, outcome=None, low=None, seed=0):
    r"""Whether no arm violates the constraint of the problem."""
    low = problem(seed).threshold if low is None else low
    return min((outcome or problem(seed))({**arm})["z"] for arm in arms) >= low


def in_square(parameters):
    r"""The problem with a slope along the context ``t``."""
    outcomes = problem()(parameters)
    return {name: value + 0.1 * parameters["t"] for name, value in outcomes.items()}


BY_NAME = FIXED | {"norm_bound": {"y": NORM, "z": NORM}}


def constrained_client(kind="safe", seed=0, **arguments):
    r"""An experiment with the constraint of a problem."""
    usual = {"parameters": UNIT, "options": BY_NAME, "num_initial": 2, "constraints": kind}
    usual["limits"] = [f"z >= {problem(seed).threshold}"]
    if kind == "safe":
        usual["safe_arms"] = along(problem(seed).start)
    return make_client(**usual | arguments)


def observed(client, number, seed=0):
    r"""``number`` more trials with bounded noise; their parameters."""

    def outcome(parameters):
        return problem(seed)(parameters, next(noise))

    generator = torch.Generator().manual_seed(seed)
    noise = iter((2.0 * torch.rand(number, 2, generator=generator) - 1.0).tolist())
    return [ask(client, None, outcome) for _ in range(number)]


LOG_ODDS = RKHSFunction.random(frozen_kernel("rbf", 0.3), NORM, 1, seed=7)
COUNTED = {"kernel": "rbf", "lengthscale": 0.3, "norm_bound": NORM}
BINOMIAL = COUNTED | {"likelihood": "binomial", "num_trials": 20}
LIKELIHOODS = {
    "bernoulli": COUNTED | {"likelihood": "bernoulli"},
    "binomial": BINOMIAL,
    "poisson": COUNTED | {"likelihood": "poisson", "exposure": 2.5, "mean": 1.0},
}


def successes(parameters, number=20):
    r"""A proportion of successes, as a trial would report it; ``x`` is a share."""
    chance = float(LOG_ODDS(torch.tensor([[parameters["x"]]]).double()).sigmoid())
    generator = torch.Generator().manual_seed(int(1e6 * parameters["x"]))
    draws = torch.rand(number, generator=generator, dtype=torch.float64) < chance
    return {"y": float(draws.double().mean())}


def count_client(parameters=UNIT, options=BINOMIAL, **arguments):
    return make_client(parameters, acqf_class=LikelihoodUCB, options=options, **arguments)


def arms_model(number=4, tasks=60):
    r"""A prior at ``number`` arms, estimated from earlier tasks."""
    arms = torch.arange(number, dtype=torch.float64)
    peaks = torch.linspace(1.0, number - 2.0, tasks, dtype=torch.float64).unsqueeze(-1)
    values = torch.exp(-(((arms - peaks) / 2.0) ** 2))
    noise = torch.randn(tasks, number, generator=torch.Generator().manual_seed(0))
    return DiscreteMetaModel(values + 0.05 * noise.double(), arms.unsqueeze(-1))


def reopened(client):
    return Client._from_json_snapshot(json.loads(json.dumps(client._to_json_snapshot())))


SEEDS = count(1)


def chosen(client, index):
    r"""The values that the search for a trial reached; without a search, its parameters.

    Many points may have such a value but for the last digits: at which a search ends then
    depends on the processor.
    """
    trial = client._experiment.trials[index]
    (generated,) = trial.generator_runs
    values = (generated.gen_metadata or {}).get("expected_acquisition_value")
    return trial.arm.parameters if values is None else values


def go_on_alike(client, twin, context=None):
    r"""The next trial of an experiment; its twin chooses as well, whatever the seed."""
    values, close = [], {"rel": SEARCHED, "abs": SEARCHED}
    for each in (client, twin):
        torch.manual_seed(next(SEEDS))
        index, parameters = next_trial(each, context)
        values.append(chosen(each, index))
    if values[0] != pytest.approx(values[1], **close):  # the search did not converge
        acqfs = [built(each).acqf for each in (client, twin)]
        generator = torch.Generator().manual_seed(0)
        queries = torch.rand(64, 1, acqfs[0].band.data.dimension, generator=generator)
        ours, theirs = (acqf(queries.double()).tolist() for acqf in acqfs)
        assert ours == pytest.approx(theirs, **close)
    return index, parameters
