r"""Claims and stops inside Optuna, BoFire and BayBE, in their own loops."""

import math

import pandas as pd
import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError

from kernelucb import MartingaleMixtureUCB, regret_certificate
from kernelucb.exceptions import InconsistentConfidenceSetWarning, UncertifiedError
from kernelucb.integrations import History, Settings
from kernelucb.integrations.core import unit_cube
from problems import normal, uniform

NOISE = 0.1
GIVEN = Settings(norm_bound=4.0, noise_std=NOISE, lengthscale=0.4)


def hill(x):
    return math.exp(-8.0 * (x - 0.3) ** 2)


def history(n=20, maximize=True):
    X = uniform(n, 1, 0)
    Y = torch.tensor([hill(float(x)) for x in X]).double() + NOISE * normal(n, 1)
    return History(X, Y if maximize else -Y, maximize, ("x",))


@pytest.mark.parametrize("maximize", [True, False])
def test_a_history_has_the_gap_of_its_band(maximize):
    runs = history(maximize=maximize)
    band = runs.band(GIVEN)
    assert isinstance(band, MartingaleMixtureUCB)
    assert band.assumptions.certified
    # The run that a tool calls the best is not the one with the best lower bound.
    at = int((runs.Y if maximize else -runs.Y).argmax())
    found = regret_certificate(band, bounds=runs.box, recommended=runs.X[at : at + 1])
    assert runs.gap(GIVEN) == found.gap
    assert found.gap > regret_certificate(band, bounds=runs.box).gap
    assert 1.0 - hill(float(runs.X[at])) <= found.gap
    assert " of its range" in str(runs.report(GIVEN))
    ranged = Settings(norm_bound=4.0, noise_std=NOISE, outcome_range=(-1.1, 1.1))
    assert runs.band(ranged).outcome_range == (-1.1, 1.1)


def test_nothing_stops_by_what_the_data_contradict():
    with pytest.warns(InconsistentConfidenceSetWarning):
        assert history().gap(Settings(norm_bound=0.1, noise_std=NOISE)) == math.inf


def test_an_unknown_noise_scale_and_an_estimated_norm():
    assert history().band(Settings(norm_bound=4.0)).noise_interval is not None
    with pytest.raises(UncertifiedError, match="norm bound"):
        Settings(noise_std=NOISE)
    estimated = Settings(noise_std=NOISE, allow_estimated=True)
    assert not history().band(estimated).assumptions.certified


def test_an_input_with_one_value_is_no_nan():
    X = unit_cube([[2.0, 7.0], [3.0, 7.0]], (1.0, 7.0), (5.0, 7.0))
    assert X.tolist() == [[0.25, 0.0], [0.5, 0.0]]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_optuna_stops_a_study():
    optuna = pytest.importorskip("optuna", reason="needs Optuna")
    from kernelucb.integrations.optuna import CertifiedGapEvaluator, study_history

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    random = torch.Generator().manual_seed(0)

    def objective(trial):
        x = trial.suggest_float("x", 1e-2, 1.0, log=True)
        place = 1.0 + math.log10(x) / 2.0  # in the unit interval
        return hill(place) + NOISE * float(torch.randn((), generator=random))

    terminator = optuna.terminator.Terminator(
        CertifiedGapEvaluator(GIVEN, min_trials=10),
        optuna.terminator.StaticErrorEvaluator(constant=0.6),
        min_n_trials=10,
    )
    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=0)
    )
    callback = optuna.terminator.TerminatorCallback(terminator)
    study.optimize(objective, n_trials=120, callbacks=[callback])
    assert 10 <= len(study.trials) < 120
    runs = study_history(study)
    assert runs.gap(GIVEN) < 0.6
    assert float(runs.X.min()) >= 0.0
    assert float(runs.X.max()) <= 1.0
    with pytest.raises(InputDataError, match="no completed run"):
        study_history(optuna.create_study())
    of_kinds = optuna.create_study()
    of_kinds.optimize(lambda trial: len(trial.suggest_categorical("kind", "ab")), 1)
    with pytest.raises(UnsupportedError, match="kind"):
        study_history(of_kinds)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_bofire_converges():
    pytest.importorskip("bofire.strategies.api", reason="needs BoFire")
    from bofire.data_models.domain.api import Domain, Inputs, Outputs
    from bofire.data_models.features.api import ContinuousInput, ContinuousOutput
    from bofire.data_models.objectives.api import MaximizeObjective
    from bofire.data_models.strategies.api import SoboStrategy
    from bofire.strategies.api import map as mapped

    from kernelucb.integrations.bofire import CertifiedGapCriterion

    domain = Domain(
        inputs=Inputs(features=[ContinuousInput(key="x", bounds=(10.0, 20.0))]),
        outputs=Outputs(
            features=[ContinuousOutput(key="y", objective=MaximizeObjective())]
        ),
    )
    runs = history(60)

    def strategy(gap):
        criterion = CertifiedGapCriterion(
            gap=gap, norm_bound=4.0, noise_std=NOISE, lengthscale=0.4
        )
        return mapped(SoboStrategy(domain=domain, convergence_criterion=criterion))

    frame = pd.DataFrame({"x": 10.0 + 10.0 * runs.X[:, 0], "y": runs.Y, "valid_y": 1})
    gap = runs.gap(GIVEN)
    for accepted, converged in ((1.001 * gap, True), (0.999 * gap, False)):
        own = strategy(accepted)
        assert not own.has_converged()
        own.tell(frame)
        assert own.has_converged() is converged


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_baybe_says_what_a_campaign_supports():
    pytest.importorskip("baybe", reason="needs BayBE")
    from baybe import Campaign
    from baybe.parameters import NumericalDiscreteParameter
    from baybe.searchspace import SearchSpace
    from baybe.targets import NumericalTarget

    from kernelucb.integrations.baybe import campaign_history, campaign_report

    values = [10.0 + 0.5 * i for i in range(21)]
    space = SearchSpace.from_product([NumericalDiscreteParameter("x", values)])
    campaign = Campaign(space, NumericalTarget("y").to_objective())
    random = torch.Generator().manual_seed(0)
    for _ in range(3):
        asked = campaign.recommend(4)
        noise = NOISE * torch.randn(4, generator=random)
        asked["y"] = [
            hill((x - 10.0) / 10.0) + float(e)
            for x, e in zip(asked["x"], noise, strict=True)
        ]
        campaign.add_measurements(asked)
    report = campaign_report(campaign, GIVEN)
    assert len(campaign_history(campaign).Y) == 12
    assert report.certificate.assumptions.certified
    assert report.lower <= 1.0 <= report.upper + 1e-9


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("maximize", [True, False])
def test_ax_takes_trials_from_the_band(maximize):
    pytest.importorskip("ax", reason="needs Ax")
    from ax.api.client import Client
    from ax.api.configs import RangeParameterConfig
    from ax.generation_strategy.generation_strategy import GenerationStrategy

    from kernelucb.integrations.ax import BandGenerationNode, experiment_history

    def client_of(objective="y", **options):
        client = Client()
        x = {"name": "x", "bounds": (1e-2, 1.0), "parameter_type": "float"}
        client.configure_experiment([RangeParameterConfig(**x, scaling="log", **options)])
        client.configure_optimization(objective)
        node = BandGenerationNode(GIVEN, initial=3)
        client.set_generation_strategy(GenerationStrategy(nodes=[node]))
        return client

    client, sign = client_of("y" if maximize else "-y"), 1.0 if maximize else -1.0
    random = torch.Generator().manual_seed(0)
    for _ in range(6):
        trials = client.get_next_trials(2)
        assert len({each["x"] for each in trials.values()}) == 2
        for index, own in trials.items():
            y = hill(1.0 + math.log10(own["x"]) / 2.0)
            y += NOISE * float(torch.randn((), generator=random))
            client.complete_trial(index, {"y": sign * y})
    runs = experiment_history(client._experiment)
    assert runs.maximize is maximize
    assert 1.0 - hill(float(runs.best)) <= runs.gap(GIVEN) < 2.0
    # The search went to the hill: half of its own trials are near the top.
    assert int(((runs.X[4:, 0] - 0.3).abs() < 0.2).sum()) >= 4
    with pytest.raises(UnsupportedError, match="float range"):
        client_of("y, z").get_next_trials(1)
