r"""The benchmark of broken promises, with few seeds and rounds."""

from dataclasses import replace

import pytest
import torch

from benchmarks.runner import fixed_kernel, read_table
from benchmarks.trust import __main__ as command
from benchmarks.trust import demo, edges, experiments, functions, lost, stops, unsafe
from benchmarks.trust.counts import Group, cells, count, header
from kernelucb import optimum_report
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from tolerances import REARRANGED

pytestmark = pytest.mark.slow

STOP = stops.Task("rbf", "spike", "given", False, 20, 0)
EDGE = unsafe.Task("known", 10.0, "given", False, 4, 3)
KNOWN = demo.Run(0, 1, 2.0, 1.0, norm_bound=10.0, norm=9.5)


def test_functions_have_the_norm_that_is_promised():
    kernel = fixed_kernel("matern52", 0.1)
    gram = kernel(functions.line()).to_dense()
    gram.diagonal().add_(1e-10)
    for kind in ("random", "spike"):
        values = functions.drawn_values(kind, kernel, 10.0, seed=1)
        interpolant = (values @ torch.linalg.solve(gram, values)).sqrt()
        # At most the norm of the function itself, and 20 points to a length scale, with a
        # jitter of 1e-10, leave less than a thousandth of it out.
        assert 9.99 < interpolant < 10.0


def test_the_spike_is_the_higher_and_narrower_hill():
    kernel = fixed_kernel("rbf", 0.1)
    values = functions.drawn_values("spike", kernel, 10.0, seed=0)
    halves = values[:100], values[100:]
    wide, narrow = sorted(halves, key=lambda half: float(half.max()))
    assert narrow.max() > 3.5 * wide.max()
    assert int((wide > wide.max() / 2).sum()) > int((narrow > narrow.max() / 2).sum())


@pytest.mark.parametrize("name", functions.TEST_FUNCTIONS)
def test_test_functions_are_standardised(name):
    candidates, values = functions.test_function(name)
    assert candidates.shape == (len(values), functions.TEST_FUNCTIONS[name][0])
    assert float(values.std()) == pytest.approx(1.0, rel=REARRANGED)


def test_an_estimate_stops_on_the_wide_hill_and_a_norm_given_does_not():
    given = stops.play(STOP)
    assert given.stopped > 0
    assert not given.false_stop
    estimate = replace(STOP, norm_bound="none", allow_estimated=True)
    assert stops.play(estimate).false_stop
    assert stops.play(estimate) == stops.play(estimate)


@pytest.mark.parametrize(
    "task",
    [
        replace(STOP, norm_bound="none"),
        replace(STOP, kernel=stops.FITTED, function="Forrester"),
    ],
)
def test_estimates_are_refused_by_default(task):
    assert stops.play(task) == stops.Run(refused=True)


def test_estimated_bands_are_refused_by_default():
    assert unsafe.play(replace(EDGE, norm_bound="none")) == unsafe.Run(refused=True)
    assert unsafe.play(replace(EDGE, model="fitted")) == unsafe.Run(refused=True)
    assert unsafe.play(EDGE) == unsafe.Run()


def test_losses_depend_on_the_noise_or_not():
    task = lost.Task("0", 50, 0)
    assert (lost._reported(task) >= 0.0).all()
    everything = lost._reported(replace(task, losses="none"))
    fair = lost._reported(replace(task, losses="random"))
    assert everything.min() < 0.0
    assert fair.min() < 0.0
    assert not (fair == everything).all()


def test_statements_are_compared_with_the_function():
    game = edges._Game.of(0, fixed_kernel("matern52", edges.LENGTHSCALE))
    assert game.covered(game.band()) == edges.Run("certified")
    with pytest.warns(InconsistentConfidenceSetWarning):
        assert not game.covered(game.band(norm_bound=0.1)).true
    report = optimum_report(game.band(), bounds=edges._UNIT)
    assert game.optimum(report) == edges.Run("certified")
    higher = replace(report, lower=report.upper, upper=report.upper + 1.0)
    assert game.optimum(higher).wrong


def test_a_refusal_is_no_statement(monkeypatch):
    def refused(game):
        raise ValueError

    monkeypatch.setitem(edges.EDGES, "refused", refused)
    run = edges.play(edges.Task("refused", 0))
    assert (run.refused, run.certified, run.wrong) == (True, False, False)


def test_rates_come_with_exact_intervals():
    group = Group({"what": "x"}, [], lambda run: run, promise=0.05)
    row = count(group, [False] * 200)
    assert row["upper"] == pytest.approx(1.0 - 0.025 ** (1 / 200))
    assert (row["events"], row["rate"], row["lower"], row["kept"]) == (0, 0.0, 0.0, "yes")
    assert count(group, [False] * 20)["kept"] == "undecided"
    assert count(group, [True] * 20 + [False] * 20)["kept"] == "no"
    assert count(replace(group, promise=None), [True])["kept"] == ""
    assert len(header(row, "events")) == len(cells(row))


@pytest.mark.parametrize("name", experiments.EXPERIMENTS)
def test_commands_write_their_table_and_keep_their_runs(name, tmp_path, monkeypatch):
    monkeypatch.setattr(experiments, "STOP_ROUNDS", 2)
    monkeypatch.setattr(experiments, "TEST_FUNCTIONS", ("Forrester",))
    monkeypatch.setattr(experiments, "CONSTRAINT_NORMS", (2.0,))
    monkeypatch.setattr(experiments, "UNSAFE_ROUNDS", 2)
    monkeypatch.setattr(experiments, "LOST_OUTCOMES", 3)
    monkeypatch.setattr(experiments, "DEMO_FUNCTIONS", ("rkhs",))
    monkeypatch.setattr(edges, "EDGES", dict([*edges.EDGES.items()][:2]))
    arguments = [name, "--seeds", "1", "--output", str(tmp_path)]
    if name == "demo":
        known = experiments.EXPERIMENTS[name]._replace(play=lambda _: KNOWN)
        monkeypatch.setitem(experiments.EXPERIMENTS, name, known)
    command.BENCHMARK.main(arguments)
    experiment = experiments.EXPERIMENTS[name]
    groups = experiment.groups(1)
    rows = read_table(tmp_path / "results" / f"{name}.csv")
    assert len(rows) == len(groups)
    assert {"runs", "events", "rate", "lower", "upper", "kept"} <= set(rows.columns)
    assert any(group.promise for group in groups)
    table = (tmp_path / "results" / f"{name}.md").read_text()
    assert table.count("\n") == 2 + len(groups)
    assert experiment.event in table
    stale = experiment._replace(play=None)  # all runs are kept
    monkeypatch.setitem(experiments.EXPERIMENTS, name, stale)
    command.BENCHMARK.main(arguments)


def test_the_demo_is_counted():
    run = demo.play(demo.Task("rkhs", False, 1, 0))
    assert run.missed_rounds == 0
    assert run.final_gap >= run.final_regret
    assert run.norm_bound >= run.norm
