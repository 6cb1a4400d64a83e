r"""Ax: which arms of several objectives are real trade-offs, whoever chose them."""

import math

import pytest
import torch
from ax.core.analysis_card import NotApplicableStateAnalysisCard
from ax.exceptions.core import DataRequiredError
from ax_bench import *
from botorch.exceptions import UnsupportedError
from torch.testing import assert_close

import kernelucb.ax
from kernelucb import KernelRegression, LikelihoodUCB, OutcomeConstraints
from kernelucb.certificates import pareto_set
from kernelucb.confidence.band import Band
from problems import frozen_kernel

# An experiment of Ax, looked at several times, takes half a second to two.
pytestmark = [*AX_WARNINGS, pytest.mark.usefixtures("unfitted")]

BEAM = [real("width", 1.0, 3.0), real("height", 1.0, 3.0)]
NORMS = {"mass": 20.0, "bend": 8.0, "price": 9.0}
# In centimetres: the trials came before the strategy.
PRIOR = {"kernel": "matern52", "lengthscale": {"width": 1.8, "height": 1.8}}
PRIOR |= {"outputscale": 4.0, "noise_std": 0.02}
SIZES = [(1.2, 1.1), (1.5, 2.0), (2.0, 2.9), (1.1, 2.6), (2.8, 1.3), (2.4, 2.3), (1.3, 1.8)]
ARMS = [{"width": width, "height": height} for width, height in SIZES]
EPSILON = {"mass": 0.3, "bend": 0.1}
ROUND_OFF = {"rtol": 1e-6, "atol": 1e-6}


def beam(parameters):
    r"""Mass and deflection of a beam, and what nobody asks for: no sums of kernels."""
    width, height = parameters["width"], parameters["height"]
    return {"mass": width * height, "bend": 4.0 / (width * height**3)}


def priced(parameters):
    return beam(parameters) | {"price": 2.0 + parameters["width"] - parameters["height"]}


def experiment(objective="-mass, -bend", limits=None, parameters=BEAM):
    client = Client(random_seed=0)
    client.configure_experiment(parameters)
    client.configure_optimization(objective, limits)
    return client


def known(names=("mass", "bend"), acqf_class=MartingaleMixtureUCB, **changes):
    norms = {name: NORMS[name] for name in names}
    options = PRIOR | {"norm_bound": norms} | changes
    return kernelucb.ax.generation_strategy(acqf_class, options)


def by_hand(arms, names=("mass", "bend"), signs=(-1, -1)):
    X = (points(*arms, names=("width", "height")) - 1.0) / 2.0
    kernel = frozen_kernel("matern52", 0.9, 4.0)
    bands = list[Band]()
    for name in names:
        Y = torch.tensor([priced(arm)[name] for arm in arms], dtype=torch.float64)
        state, share = KernelRegression(X, Y, kernel, 0.02), 0.05 / len(names)
        bands.append(MartingaleMixtureUCB(state, norm_bound=NORMS[name], delta=share).band)
    return X, [band.seeking(sign) for band, sign in zip(bands, signs, strict=False)], bands


def is_alike(found, expected):
    for name in ("optimal", "dominated", "open", "undecided", "feasible"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
    for name in ("lower", "upper"):
        assert_close(getattr(found, name), getattr(expected, name), **ROUND_OFF)


@pytest.fixture(scope="module")
def beams():
    r"""The arms with their outcomes; no claim changes the experiment."""
    return attached(experiment(), ARMS, beam)


@pytest.mark.filterwarnings("ignore:Encountered a .MultiObjective. without")
@pytest.mark.filterwarnings("ignore:ObjectiveThreshold is dep:DeprecationWarning:ax[.]")
@pytest.mark.parametrize(
    "own", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["attached", "own"]
)
def test_arms_of_ax_s_own_search_are_sorted_as_by_hand(own, beams):
    client = run(experiment(), 7, beam) if own else beams
    front = kernelucb.ax.pareto_front(client, EPSILON, known())
    arms = [arm.parameters for arm in front.arms]
    assert len(arms) == 7
    X, bands, _ = by_hand(arms)
    is_alike(front.verdict, pareto_set(bands, X, [0.3, 0.1]))
    assert (front.verdict.maximize, front.hypervolume) == ((False, False), None)
    assert front.verdict.certified
    assert len(front.names["dominated"]) >= 1
    assert sum(map(len, front.names.values())) == 7
    # Of the true values no arm beats an optimal one by more, and one beats each dominated.
    values = torch.tensor([[beam(arm)[name] for name in EPSILON] for arm in arms])
    for i, arm in enumerate(front.arms):
        if arm.name in front.names["optimal"]:
            gains = values[i] - values - torch.tensor([0.3, 0.1])
            assert not (gains > 0.0).all(-1).any()
        if arm.name in front.names["dominated"]:
            assert (values <= values[i]).all(-1).sum() > 1
    if own:
        before = len(client._experiment.trials)
        next_trial(client)  # Ax's search goes on
        assert len(client._experiment.trials) == before + 1


@pytest.mark.representatives("-bend, 2*mass")
@pytest.mark.parametrize("objective", ["-mass, -bend", "mass, -bend", "-bend, 2*mass"])
def test_directions_are_the_experiment_s(objective):
    client = attached(experiment(objective), ARMS, beam)
    front = kernelucb.ax.pareto_front(client, 0.2, known())
    names = ["bend", "mass"] if objective.startswith("-b") else ["mass", "bend"]
    signs = [1 if name == "mass" and "-mass" not in objective else -1 for name in names]
    X, bands, _ = by_hand(ARMS, names, signs)
    assert front.objectives == names
    is_alike(front.verdict, pareto_set(bands, X, 0.2))


# Bands of three outcomes, twice: 0.7 seconds.
@pytest.mark.representatives("limits2-sides2")
@pytest.mark.parametrize(
    ("limits", "sides"),
    [
        (["price <= 3.0"], [("price", 3.0, "<=")]),
        (["mass <= 4.6"], [("mass", 4.6, "<=")]),
        (
            ["2*mass <= 9.2", "-bend >= -1.3", "price >= 1.2"],
            [("price", 1.2, ">="), ("mass", 4.6, "<="), ("bend", 1.3, "<=")],
        ),
    ],
)
def test_constraints_and_thresholds_are_limits(limits, sides):
    client = attached(experiment(limits=limits), ARMS, priced)
    names = ["mass", "bend", "price"] if "price" in str(limits) else ["mass", "bend"]
    front = kernelucb.ax.pareto_front(client, EPSILON, known(names))
    X, bands, every = by_hand(ARMS, names)
    kept, ends, how = zip(*sides, strict=True)
    constrained = OutcomeConstraints(
        [every[names.index(name)] for name in kept], ends, sides=how
    )
    expected = pareto_set(bands, X, [0.3, 0.1], constraints=constrained)
    is_alike(front.verdict, expected)
    assert not front.verdict.feasible[1].all()
    if len(limits) == 3:
        assert front.hypervolume == pytest.approx(
            expected.hypervolume([4.6, 1.3]), rel=1e-5
        )
        low, high = front.hypervolume
        assert 0.0 < low < high
        assert "  hypervolume of the feasible arms: " in str(front)
    else:
        assert front.hypervolume is None
    options = PRIOR | {"norm_bound": {name: NORMS[name] for name in names}}
    searching = kernelucb.ax.generation_strategy(
        options=options, search=SEARCH, constraints="safe", safe_arms=ARMS[:1]
    )  # what it has for trials does not count
    is_alike(kernelucb.ax.pareto_front(client, EPSILON, searching).verdict, front.verdict)
    for name in names:
        assert f"  [given] {name}: the RKHS norm of f - mean is at most" in str(front)
    assert front.verdict.assumptions.delta == pytest.approx(0.05)


def test_limits_that_no_arm_keeps_leave_nothing():
    client = attached(experiment(limits=["mass <= 0.1", "bend <= 9"]), ARMS, beam)
    front = kernelucb.ax.pareto_front(client, 0.1, known())
    assert [*map(len, front.names.values())] == [0, 0, 0, 0, len(ARMS)]
    assert "open:" not in str(front)
    assert f"  infeasible: {', '.join(arm.name for arm in front.arms)}" in str(front)
    assert front.hypervolume == (0.0, 0.0)


def test_only_completed_arms_count_and_the_others_are_assumptions():
    client = attached(experiment(), ARMS[:4], beam)
    attached(client, [ARMS[0]], beam)  # again
    attached(client, [{"width": 2.0, "height": 3.5}], beam)  # outside
    for lose in (Client.mark_trial_failed, Client.mark_trial_abandoned):
        lose(client, client.attach_trial(ARMS[5]))
    client.complete_trial(client.attach_trial(ARMS[4]), {"mass": math.nan, "bend": 1.0})
    client.attach_trial({"width": 3.0, "height": 3.0})  # under way
    front = kernelucb.ax.pareto_front(client, 0.1, known())
    assert [arm.parameters for arm in front.arms] == ARMS[:5]
    said = front.verdict.assumptions.items
    missing = [x.statement for x in said if "missing" in x.name]
    assert len(missing) == 2
    lost = "trials failed: 1, trials abandoned: 1, trials completed without an outcome: 1;"
    assert all(lost in each for each in missing)
    assert front.verdict.certified


class TestStatus:
    def test_reported_standard_errors_are_the_noise(self):
        def outcome(parameters):
            return {name: (value, 0.05) for name, value in beam(parameters).items()}

        client = attached(experiment(), ARMS, outcome)
        front = kernelucb.ax.pareto_front(client, 0.1, known(noise_std=None))
        assert "bend: the noise is conditionally sub-Gaussian with scale 0.05" in str(front)
        assert front.verdict.certified

    @pytest.mark.representatives("changes0-norm")
    @pytest.mark.parametrize(
        ("changes", "estimated"),
        [({"norm_bound": None}, "norm"), ({"kernel": None}, "kernel")],
    )
    def test_estimates_are_heuristic(self, changes, estimated, beams):
        if "kernel" in changes:
            strategy = kernelucb.ax.generation_strategy()
        else:
            strategy = known(**changes)
        front = kernelucb.ax.pareto_front(beams, 0.1, strategy)
        assert not front.verdict.certified
        assert str(front).startswith("heuristic: ")
        assert f"{estimated} of mass" in front.verdict.summary
        (card,) = client_cards(beams, kernelucb.ax.FrontAnalysis(0.1, strategy))
        assert card.title == f"Front of mass, bend: {front.verdict.summary}"
        assert card.subtitle.endswith("without noise may lie outside of it")

    @pytest.mark.representatives("0.1")
    @pytest.mark.filterwarnings(f"ignore::{CONTRADICTION}")
    @pytest.mark.parametrize("norm", [None, 0.1])
    def test_a_card_states_nothing_that_is_not_certified(self, norm, beams):
        strategy = known(lengthscale=0.9, norm_bound=norm)
        card = kernelucb.ax.FrontAnalysis(0.1, strategy).compute(beams._experiment)
        words = "The data contradict what was given" if norm else "may lie outside of it"
        assert words in card.subtitle
        assert "lie between" not in card.subtitle


def client_cards(client, *analyses):
    if client._maybe_generation_strategy is None:
        client.configure_generation_strategy()
    return client.compute_analyses(analyses=list(analyses), display=False)


class TestCard:
    def test_boxes_are_the_bounds(self, beams):
        analysis = kernelucb.ax.FrontAnalysis(EPSILON, known(), units={"mass": "kg"})
        (card,) = client_cards(beams, analysis)
        alone = analysis.compute(beams._experiment)  # without any strategy
        assert alone.title == card.title
        front = kernelucb.ax.pareto_front(beams, EPSILON, known())
        counts = ", ".join(f"{len(arms)} {kind}" for kind, arms in front.names.items())
        assert card.title == f"Front of mass, bend: {counts}, certified"
        figure, df = card.get_figure(), card.df.set_index("arm_name")
        assert df["bend upper"].tolist() == pytest.approx(
            front.verdict.upper[:, 1].tolist()
        )
        drawn = 0
        for trace in figure.data:
            kind = trace.name.split()[0]
            assert (" is worse by" in trace.name) == (kind == "covered")
            for k, arm in enumerate(front.names[kind]):
                x, y = (side[6 * k : 6 * k + 5] for side in (trace.x, trace.y))
                assert {min(x), max(x)} == {*df.loc[arm, ["mass lower", "mass upper"]]}
                assert {min(y), max(y)} == {*df.loc[arm, ["bend lower", "bend upper"]]}
                assert trace.text[6 * k] == arm
                assert df.loc[arm, "kind"] == kind
                drawn += 1
        assert drawn == len(ARMS)
        layout = figure.layout
        assert (layout.xaxis.title.text, layout.yaxis.title.text) == ("mass (kg)", "bend")
        (note,) = (each.text for each in layout.annotations)
        assert "[given] mass: the RKHS norm of f - mean is at most 20" in note.replace(
            "&nbsp;", " "
        )

    def test_where_nothing_can_be_drawn_it_says_why(self):
        client = experiment()
        (card,) = client_cards(client, kernelucb.ax.FrontAnalysis(0.1, known()))
        assert isinstance(card, NotApplicableStateAnalysisCard)
        assert "No trial has been observed yet" in card.blob


@pytest.mark.parametrize(
    ("make", "strategy", "error", "message"),
    [
        (lambda: experiment("mass"), known, UnsupportedError, "optimum_report"),
        (lambda: experiment("mass - bend"), known, UnsupportedError, "metric of its own"),
        (lambda: experiment("mass - price, bend"), known, UnsupportedError, "price, bend`"),
        (
            lambda: experiment(limits=["price >= 0.9 * baseline"]),
            *(known, UnsupportedError, "relative to a baseline"),
        ),
        (
            lambda: experiment(limits=["price + weight <= 3"]),
            *(known, UnsupportedError, "on a sum of outcomes"),
        ),
        (experiment, lambda: known(["mass"]), ValueError, "is given for the outcomes mass"),
        (
            experiment,
            lambda: kernelucb.ax.generation_strategy(LikelihoodUCB, LIKELIHOODS["poisson"]),
            *(UnsupportedError, "plain outcome"),
        ),
        (
            lambda: experiment(limits=["price <= 1"]),
            lambda: known(NORMS),
            *(DataRequiredError, "price not found"),
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:.*relative")
def test_what_is_not_supported_says_what_to_change(make, strategy, error, message):
    client = attached(make(), ARMS[:3], lambda _: {"mass": 0.4, "bend": 0.8})
    with pytest.raises(error, match=message):
        kernelucb.ax.pareto_front(client, 0.1, strategy())


def test_epsilon_is_for_the_objectives():
    client = attached(experiment(), ARMS[:3], beam)
    with pytest.raises(ValueError, match="epsilon is given for the outcomes mass, "):
        kernelucb.ax.pareto_front(client, {"mass": 0.1}, known())
