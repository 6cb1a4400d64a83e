r"""Calibrated stops of Ax experiments."""

import pytest
import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.exceptions.analysis import AnalysisNotApplicableStateError
from ax_bench import AX_WARNINGS
from botorch.exceptions import UnsupportedError

from kernelucb.ax import (
    AxPolicy,
    CalibratedGapAnalysis,
    CalibratedGapStoppingStrategy,
    generation_strategy,
)
from kernelucb.calibration import Loop, Margins, RegretClaim, Simulator, calibrate

pytestmark = AX_WARNINGS
BOX = torch.tensor([[0.0], [10.0]]).double()


def parabola(generator):
    best = 10.0 * float(torch.rand((), generator=generator))
    return lambda X: -(X[:, 0] - best).square() / 20.0, 0.05


def client_of(*further, metric="y", **options):
    client, x = (
        Client(),
        RangeParameterConfig(name="x", parameter_type="float", bounds=(0.0, 10.0)),
    )
    client.configure_experiment(parameters=[x, *further])
    client.configure_optimization(metric)
    client.set_generation_strategy(generation_strategy(seed=0, **options))
    return client


def play(client, trials, sign=1.0, error=None):
    for _ in range(trials):
        for index, setting in client.get_next_trials(1).items():
            value = sign * -((setting["x"] - 4.0) ** 2) / 20.0
            outcome = value if error is None else (value, error)
            client.complete_trial(index, raw_data={"y": outcome})
    return client


@pytest.fixture(scope="module")
def margins():
    r"""As of seven replays, whose numbers do not matter here."""
    few = torch.linspace(1.0, 3.0, 7).double().unsqueeze(-1)
    statistics = {name: 100.0 * few for name in ("residual", "noise", "norm")}
    loop = Loop.default(BOX, rounds=9)
    return Margins(loop, "a draw", {"RegretClaim()": few}, statistics, first=6)


def test_an_experiment_stops_with_a_reason(margins):
    client = play(client_of(), 4)
    stopping = CalibratedGapStoppingStrategy(
        5.0, client, delta=0.3, margins=margins, units={"y": "%"}
    )
    assert str(stopping.decide()) == "Go on: claims are made from 6 outcomes on"
    play(client, 3)
    found = stopping.decide()
    assert found.stop, str(found)
    assert str(found).startswith(f"Stop: arm {found.arm.name}: calibrated: true in 70 %")
    assert "every trial comes from the strategy" in str(found)
    assert "y at the recommended input is at most " in str(found)
    assert str(found.reason).endswith("% from the optimum, accepted 5 %")
    # The arm of best posterior mean, in the units of the metric.
    model = client._generation_strategy.adapter.generator.surrogate.model
    assert abs(found.arm.parameters["x"] - 4.0) < 2.0, model
    assert 0.0 <= float(found.claim.upper) <= 5.0
    stopped, reason = stopping.should_stop_optimization(client._experiment)
    assert (stopped, reason) == (True, found.reason)
    play(client, 3)
    assert "no guarantee: rounds violated" in str(stopping.decide())


def test_a_card_shows_the_gap_of_every_trial(margins, monkeypatch):
    monkeypatch.setattr("kernelucb.ax.calibrated.default_margins", lambda *_, **__: margins)
    client = play(client_of(), 5)
    analysis = CalibratedGapAnalysis(delta=0.3)
    with pytest.raises(AnalysisNotApplicableStateError, match="made from 6 outcomes"):
        analysis.compute(client._experiment, client._generation_strategy)
    play(client, 3)
    card = analysis.compute(client._experiment, client._generation_strategy)
    assert card.df["trial_index"].tolist() == [5, 6, 7]
    stopping = CalibratedGapStoppingStrategy(1.0, client, delta=0.3, margins=margins)
    found = stopping.decide()
    assert card.df["gap"].iloc[-1] == pytest.approx(float(found.claim.upper), rel=1e-3)
    assert card.title.startswith(f"Gap of arm {found.arm.name}: calibrated: true in 70 %")
    assert "certified" not in card.title


def test_small_outcomes_are_sought(margins):
    client = play(client_of(metric="-y"), 7, sign=-1.0)
    stopping = CalibratedGapStoppingStrategy(5.0, client, delta=0.3, margins=margins)
    found = stopping.decide()
    assert found.stop
    assert abs(found.arm.parameters["x"] - 4.0) < 2.0


def attached(client):
    trial = client.attach_trial({"x": 5.0})
    client.complete_trial(trial, raw_data={"y": 1.0})
    return play(client, 6)


def several(client):
    client.get_next_trials(2)
    return client


def failed(client):
    (index,) = client.get_next_trials(1)
    client.mark_trial_failed(index)
    return client


LEVELS = ChoiceParameterConfig(
    name="k", parameter_type="int", values=[0, 1, 2], is_ordered=True
)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: attached(client_of()), "trial 0 is not from Sobol"),
        (lambda: several(play(client_of(), 7)), "several trials are under way"),
        (lambda: failed(play(client_of(), 7)), "trials failed: 1"),
        (lambda: play(client_of(), 7, error=0.1), "outcomes have standard errors"),
        (lambda: play(client_of(LEVELS), 7), "there are integers or choices"),
        (lambda: play(client_of(num_initial=6), 7), "trial 5 is not from Martingale"),
        (
            lambda: play(client_of(options={"norm_bound": 2.0, "mean": 0.0}), 7),
            "the options are not those of generation_strategy",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:A norm bound is given")
def test_an_experiment_that_left_the_policy_goes_on(build, words, margins, monkeypatch):
    monkeypatch.setattr("kernelucb.ax.calibrated.default_margins", lambda *_, **__: margins)
    found = CalibratedGapStoppingStrategy(1e6, build(), delta=0.3).decide()
    assert not found.stop
    assert str(found).startswith("Go on")
    assert "no guarantee: policy violated" in found.reason
    assert words in str(found)


def test_a_strategy_without_a_bound_is_refused():
    client = Client()
    x = RangeParameterConfig(name="x", parameter_type="float", bounds=(0.0, 1.0))
    client.configure_experiment(parameters=[x])
    client.configure_optimization("y")
    client.get_next_trials(1)
    with pytest.raises(UnsupportedError, match="no bound of this package"):
        CalibratedGapStoppingStrategy(1.0, client)


# Five seconds: two replays of Ax, and one again.
@pytest.mark.slow
def test_a_strategy_is_replayed(tmp_path):
    loop = Loop(AxPolicy(BOX), BOX, rounds=7, scale_free=True)
    margins = calibrate(loop, Simulator(parabola), 2, tmp_path / "ax", progress=False)
    assert margins.scores["RegretClaim()"].shape == (2, 3)
    assert margins.margin(RegretClaim(), 0.5) >= 0.0
