r"""Ax: whatever becomes of the search space, the kernel stays that of the parameters."""

import math
import random

import pytest
import torch
from ax.core import Arm, SearchSpace
from ax.core.parameter import (
    ChoiceParameter,
    FixedParameter,
    ParameterType,
    RangeParameter,
)
from ax_bench import *
from botorch.exceptions import UnsupportedError
from torch.testing import assert_close

import kernelucb.ax
from kernelucb import KernelFamilyUCB, KernelRegression, lengthscale_family
from kernelucb.ax.bounds import FittedBound, asked
from kernelucb.ax.experiment import inputs_of
from problems import frozen_kernel

# An experiment of Ax, looked at several times, takes half a second to two.
pytestmark = [*AX_WARNINGS, pytest.mark.usefixtures("unfitted")]

SPACES = {
    "x": [real("x", 0.0, 0.5)],
    "log10(x)": [real("x", 0.01, 10.0, scaling="log")],
}
OWN = {"x": 0.2, "log10(x)": 0.8}


def outcome(parameters):
    return {"y": math.sin(3.0 * parameters["x"])}


def floats(name, low, high, log=False):
    return RangeParameter(name, ParameterType.FLOAT, low, high, log_scale=log)


def change(client, *parameters):
    client._experiment.search_space = SearchSpace([*parameters])


def add(client, x):
    r"""A completed arm anywhere, also outside the search space (Ax's advice, its #768)."""
    trial = client._experiment.new_trial()
    trial.add_arm(Arm({"x": x}))
    trial.mark_running(no_runner_required=True)
    client.complete_trial(trial.index, outcome({"x": x}))


def as_it_was(client, unit, own, ends=(0.0, 0.5)):
    r"""Whether the band is that of the kernel in its first units."""

    def scaled(parameters):
        x = [p["x"] if unit == "x" else math.log10(p["x"]) for p in parameters]
        width = OWN[unit] if own else 0.4 * (ends[1] - ends[0])
        return torch.tensor([x], dtype=torch.float64).mT / width

    arms = [t.arm.parameters for t in client._experiment.trials.values()]
    Y = torch.tensor([outcome(arm)["y"] for arm in arms], dtype=torch.float64)
    state = KernelRegression(scaled(arms), Y, frozen_kernel("matern52", 1.0), NOISE_STD)
    queries = along(*(0.05 + 0.1 * i for i in range(5)))
    fitted = FittedBound(*asked(client))
    found = fitted.band.bounds(inputs_of(fitted.adapter, queries))
    right = MartingaleMixtureUCB(state, norm_bound=NORM).bounds(scaled(queries))
    off = max(float((a - b).abs().max()) for a, b in zip(found, right, strict=True))
    return off <= 1e-6, not fitted.band.assumptions.estimated


def walk(seed, steps):
    r"""Random arms, changes of the space and reopenings; disagreements and refusals."""
    draw, unit = random.Random(seed), ["x", "log10(x)"][seed % 2]
    own = seed % 4 > 1
    low, high = (0.0, 0.5) if unit == "x" else (0.01, 10.0)
    ends = (low, high) if unit == "x" else (-2.0, 1.0)
    scale = {unit: OWN[unit]} if own else 0.4
    client = fixed_client(SPACES[unit], lengthscale=scale, num_initial=1)
    if draw.random() < 0.3:
        next_trial(client)
        client.complete_trial(0, outcome(client._experiment.trials[0].arm.parameters))
    log, wrong, refused = unit != "x", 0, 0
    for x in (0.2, 0.4):
        add(client, x)
    for _ in range(steps):
        what = draw.choice(["arm", "border", "widen", "narrow", "log", "reopen", "trial"])
        if what == "arm":
            add(client, draw.choice([0.3, 0.99, 1.0, draw.uniform(0.02, 3.0)]))
        elif what == "border":
            add(client, draw.choice([max(low, 0.01), high, 1.0]))
        elif what == "reopen":
            client = reopened(client)
        elif what == "trial" and log == (unit != "x"):
            index, parameters = next_trial(client)
            client.complete_trial(index, outcome(parameters))
        elif what in ("widen", "narrow", "log"):
            factor = draw.choice([1.5, 2.0, 4.0])
            high = high * factor if what == "widen" else max(0.45, high / factor)
            log = not log if what == "log" else log
            low = draw.choice([0.01, 0.02]) if log else draw.choice([0.0, 0.1, -1.0])
            change(client, floats("x", low, high, log))
        try:
            agrees, given = as_it_was(client, unit, own, ends)
        except (UnsupportedError, ValueError):
            refused += 1
            assert log != (unit != "x")
        else:
            assert given
            wrong += not agrees
    return wrong, refused


# Outcomes that contradict the norm do so under the right kernel as well.
@pytest.mark.one_in(2)
@pytest.mark.filterwarnings("ignore::kernelucb.exceptions.InconsistentConfidenceSetWarning")
@pytest.mark.parametrize(
    "seed", [0, 3, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 12))]
)
def test_a_random_life_of_a_space_leaves_the_kernel(seed):
    # A model of Ax is fitted at each of the steps.
    assert walk(seed, 3)[0] == 0


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("far", [0.99, 1.0])
def test_an_arm_where_ax_drops_its_scaling(far, own):
    client = fixed_client(SPACES["x"], lengthscale={"x": 0.2} if own else 0.4)
    for x in (0.0, 0.1, 0.4, far):
        add(client, x)
    assert as_it_was(client, "x", own) == (True, True)


class TestLater:
    r"""After a change, every road has the first kernel or none."""

    @staticmethod
    def _roads(client):
        known = client._generation_strategy
        for ask in (
            kernelucb.ax.current_bound,
            kernelucb.ax.recommended_arm,
            lambda _: kernelucb.ax.optimum_report(client, max_evaluations=50),
            lambda _: stopping(client).decide(),
            lambda _: kernelucb.ax.BandAnalysis("x")._card(client._experiment, known),
            next_trial,
        ):
            yield lambda ask=ask: ask(client)

    @pytest.mark.slow
    def test_a_number_is_refused_where_the_scale_changes(self):
        client = fixed_client(SPACES["x"], num_initial=1)
        attached(client, along(0.1, 0.3), outcome)
        change(client, floats("x", 0.01, 0.5, log=True))
        for ask in self._roads(reopened(client)):
            with pytest.raises(UnsupportedError, match=r"changed .*: log10\(x\) cannot"):
                ask()
        change(client, floats("x", 0.1, 0.3))
        assert as_it_was(client, "x", False) == (True, True)

    @pytest.mark.slow
    def test_nothing_recorded_the_space_before_the_outcomes(self):
        client = Client(random_seed=0)
        client.configure_experiment(SPACES["x"])
        client.configure_optimization(objective="y")
        attached(client, along(0.1, 0.3), outcome)
        for scale, estimated in ((0.4, ("length scales",)), ({"x": 0.2}, ())):
            other = fixed_client(SPACES["x"], lengthscale=scale, num_initial=1)
            client.set_generation_strategy(other._generation_strategy)
            band = kernelucb.ax.current_bound(client)
            assert band.assumptions.estimated == estimated
            report = kernelucb.ax.optimum_report(client, max_evaluations=50)
            assert report.certificate.assumptions.estimated == estimated
        # With a trial of its own before them, the generator kept the space.
        client = Client(random_seed=0)
        client.configure_experiment(SPACES["x"])
        client.configure_optimization(objective="y")
        client.configure_generation_strategy(initialize_with_center=False)
        run(client, 2, outcome)
        change(client, floats("x", 0.0, 2.0))
        client.set_generation_strategy(fixed_client(SPACES["x"])._generation_strategy)
        assert as_it_was(client, "x", False) == (True, True)

    def test_before_the_first_trial_all_may_change(self):
        client = fixed_client(SPACES["x"])
        change(client, floats("x", 0.0, 1.0))
        client.mark_trial_failed(next_trial(client)[0])
        change(client, floats("x", 0.0, 4.0))
        for x in (0.1, 0.3):
            add(client, x)
        band = kernelucb.ax.current_bound(client)
        assert band.data.train_inputs.flatten().tolist() == pytest.approx([0.1, 0.3])

    @pytest.mark.parametrize("scale", [[0.2, 0.3], {"x": 0.1, "t": 0.3}])
    def test_a_parameter_becomes_a_constant(self, scale):
        space = [*SPACES["x"], real("t", 0.0, 1.0)]
        client = fixed_client(space, lengthscale=scale)
        arms = [{"x": x, "t": 0.5} for x in (0.1, 0.4)]
        attached(client, arms, outcome)
        before = kernelucb.ax.current_bound(client).bounds(points(*arms, names="xt"))
        change(client, floats("x", 0.0, 1.0), FixedParameter("t", ParameterType.FLOAT, 0.5))
        band = kernelucb.ax.current_bound(client)
        assert_close(band.bounds(points(*arms, names="x")), before)
        assert band.assumptions.certified

    def test_a_new_parameter_needs_units(self):
        client = attached(fixed_client(SPACES["x"]), along(0.1, 0.4), outcome)
        new = RangeParameter("t", ParameterType.FLOAT, 0.0, 9.0, backfill_value=1.0)
        client._experiment.add_parameters_to_search_space([new])
        with pytest.raises(UnsupportedError, match="t cannot be input"):
            kernelucb.ax.current_bound(client)
        both = fixed_client(lengthscale={"x": 0.2, "t": 3.0}, parameters=SPACES["x"])
        client.set_generation_strategy(both._generation_strategy)
        assert kernelucb.ax.current_bound(client).assumptions.certified

    @pytest.mark.covering
    @pytest.mark.parametrize("scale", [0.4, {"x": 0.2, "k": 1.0}])
    @pytest.mark.parametrize("ordered", [True, False])
    def test_words(self, scale, ordered):
        words = choice("k", "abc", is_ordered=ordered)
        client = fixed_client([*SPACES["x"], words], lengthscale=scale)
        arms = [{"x": 0.1, "k": "b"}, {"x": 0.3, "k": "c"}]
        attached(client, arms, outcome)
        before = FittedBound(*asked(client))
        sides = before.band.bounds(inputs_of(before.adapter, arms))
        for values in ("cab", "bcde"):
            k = ChoiceParameter(
                "k", ParameterType.STRING, list(values), ordered, sort_values=False
            )
            change(client, floats("x", 0.0, 1.0), k)
            if ordered:  # their places are numbers
                with pytest.raises(UnsupportedError, match="k cannot be input"):
                    kernelucb.ax.current_bound(client)
            else:
                now = FittedBound(*asked(client))
                assert_close(now.band.bounds(inputs_of(now.adapter, arms)), sides)

    def test_families_and_units_in_part(self):
        options = {"shortest": {"x": 0.1}, "longest": {"x": 0.3}, "kernel": "matern32"}
        options |= {"norm_bound": NORM, "noise_std": NOISE_STD}
        client = make_client(SPACES["x"], acqf_class=KernelFamilyUCB, options=options)
        attached(client, along(0.1, 0.4, 1.0), outcome)
        kernels = lengthscale_family([frozen_kernel("matern32", 1.0)], 0.1, 0.3)
        X = points(*along(0.1, 0.4, 1.0), names="x")
        state = KernelRegression(X, torch.sin(3.0 * X[:, 0]), kernels[0], NOISE_STD)
        wanted = KernelFamilyUCB(state, kernels=kernels, norm_bound=NORM).bounds(X)
        assert_close(kernelucb.ax.current_bound(client).bounds(X), wanted)
        half = make_client(
            SPACES["x"], acqf_class=KernelFamilyUCB, options=options | {"longest": 0.3}
        )
        with pytest.raises(ValueError, match=r"shortest is .*, and the inputs"):
            next_trial(half)


def test_a_log_scaled_parameter_has_decades_for_units():
    for scale, works in (({"x": 0.8}, False), ({"log10(x)": 0.8}, True)):
        client = fixed_client(SPACES["log10(x)"], lengthscale=scale)
        attached(client, along(0.1, 3.0), outcome)
        if works:
            assert as_it_was(client, "log10(x)", True) == (True, True)
        else:
            with pytest.raises(ValueError, match=r"inputs of the bound are log10\(x\)"):
                kernelucb.ax.current_bound(client)


def test_decisions_print_in_sentences():
    client = attached(fixed_client(), SOME, curve)
    first, *others = str(stopping(client, 100.0).decide()).splitlines()
    assert first.startswith("Stop: arm 2_0: certified: at most ")
    assert others[0].startswith("certified, if what was given is true")
    assert str(stopping(client, 1e-6).decide()).startswith("Go on: arm ")
