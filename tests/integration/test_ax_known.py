r"""Ax: what may be said of trials that another strategy chose, or nobody's."""

import pytest
import torch
from ax.core.analysis_card import NotApplicableStateAnalysisCard
from ax_bench import *
from botorch.exceptions import UnsupportedError

import kernelucb.ax
from kernelucb import ScalarizedUCB, describe_norm_bound
from kernelucb.exceptions import UncertifiedError

pytestmark = [*AX_WARNINGS, pytest.mark.usefixtures("unfitted")]

PRIOR = {"kernel": "matern52", "lengthscale": {"x": 0.5}, "norm_bound": 2.0}
PRIOR |= {"noise_std": 0.01}
CARDS = kernelucb.ax.GapAnalysis, kernelucb.ax.CalibratedGapAnalysis


def hill(parameters):
    return {"y": -((parameters["x"] - 0.3) ** 2)}


def experiment():
    client = Client(random_seed=0)
    client.configure_experiment([real("x")])
    client.configure_optimization("y")
    return client


def known(**changes):
    return kernelucb.ax.generation_strategy(MartingaleMixtureUCB, PRIOR | changes)


@pytest.fixture(scope="module")
def played():
    r"""Six trials of Ax's default: a centre and Sobol points."""
    client = experiment()
    for _ in range(6):
        index, parameters = next_trial(client)
        client.complete_trial(index, hill(parameters))
    return client


def test_a_report_of_ax_s_own_search_is_that_of_the_same_trials_attached(played):
    r"""To an experiment whose own strategy knows as much, apart from who chose them."""
    own = experiment()
    own.set_generation_strategy(known())
    for trial in played._experiment.trials.values():
        own.complete_trial(
            own.attach_trial(trial.arm.parameters), hill(trial.arm.parameters)
        )
    expected = kernelucb.ax.optimum_report(own)
    assert expected.certificate.certified
    for source in (played, played._experiment, played._generation_strategy):
        report = kernelucb.ax.optimum_report(source, known=known())
        assert report.certificate.certified
        found = report.certificate.gap, report.lower, report.upper
        wanted = expected.certificate.gap, expected.lower, expected.upper
        assert found == pytest.approx(wanted)
        band = kernelucb.ax.current_bound(source, known=known())
        assert band.norm_bounds == kernelucb.ax.current_bound(own).norm_bounds


def test_without_knowledge_the_report_is_one_of_estimates(played):
    report = kernelucb.ax.optimum_report(played)
    assert not report.certificate.certified
    assert {"kernel", "norm", "noise"} <= {*report.certificate.assumptions.estimated}
    best = kernelucb.ax.recommended_arm(played)
    assert best.arm.name in played._experiment.arms_by_name


def test_an_experiment_without_any_strategy_is_asked_as_well():
    client = attached(experiment(), [{"x": x} for x in (0.1, 0.35, 0.6, 0.9)], hill)
    assert kernelucb.ax.recommended_arm(client, known=known()).parameters == {"x": 0.35}
    stopping = kernelucb.ax.CertifiedGapStoppingStrategy(5.0, client, known=known())
    assert stopping.decide().stop


def test_a_stop_needs_what_is_known_and_says_where_to_give_it(played):
    with pytest.raises(UncertifiedError, match=r"known=kernelucb.ax.generation_strategy"):
        kernelucb.ax.CertifiedGapStoppingStrategy(5.0, played)
    rule = kernelucb.ax.CertifiedGapStoppingStrategy(5.0, played, known=known())
    decision = rule.decide()
    assert decision.stop
    assert decision.certificate.certified
    tight = kernelucb.ax.CertifiedGapStoppingStrategy(1e-6, played, known=known())
    assert not tight.decide().stop


def test_the_cards_of_band_and_gap_take_what_is_known(played):
    gap = kernelucb.ax.GapAnalysis(known=known(), most_rounds=2)
    band = kernelucb.ax.BandAnalysis("x", known=known())
    of_replays = kernelucb.ax.CalibratedGapAnalysis()
    *found, refused = played.compute_analyses([gap, band, of_replays], display=False)
    assert all("certified" in card.df or "y" in card.title for card in found)
    assert found[0].df["certified"].all()
    # What a calibrated gap rests on is the policy itself.
    assert isinstance(refused, NotApplicableStateAnalysisCard)


def test_a_strategy_without_an_experiment_says_so():
    with pytest.raises(ValueError, match="has no experiment yet"):
        kernelucb.ax.current_bound(known())


def test_what_a_norm_means_is_said_in_parameters_and_units(played):
    units = {"x": "mm", "y": "%"}
    found = kernelucb.ax.describe_norm_bound(played, 2.0, known=known(), units=units)
    text = str(found)
    assert "What a norm of at most 2 means, in %:" in text
    assert "x (mm): at most " in text
    assert found.estimated == ()
    assert found.prior_mean == 0.0
    # Half of the box, as the length scale of the options
    band = kernelucb.ax.current_bound(played, known=known())
    expected = describe_norm_bound(
        band.data, 2.0, bounds=torch.tensor([[0.0], [1.0]]).double()
    )
    assert float(found.across) == pytest.approx(float(expected.across))


def test_a_sum_has_a_norm_for_each_outcome():
    client = experiment()
    client.configure_optimization("y + 0.5*z")
    options = PRIOR | {"norm_bound": {"y": 2.0, "z": 2.0}}
    client.set_generation_strategy(kernelucb.ax.generation_strategy(ScalarizedUCB, options))
    for x in (0.1, 0.6):
        client.complete_trial(client.attach_trial({"x": x}), {"y": x, "z": -x})
    with pytest.raises(UnsupportedError, match=r"`y \+ 0.5\*z` has a norm bound for each"):
        kernelucb.ax.describe_norm_bound(client, 2.0)
