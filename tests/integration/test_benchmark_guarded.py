r"""The benchmark of guarded search, in small."""

from dataclasses import replace

import pytest
import torch
from botorch.models import SingleTaskGP
from gpytorch.kernels import ScaleKernel
from gpytorch.means import ZeroMean

pytest.importorskip("joblib", reason="needs the extra `bench`")

from benchmarks.guarded import __main__ as command
from benchmarks.guarded import coverage, play
from benchmarks.guarded.configuration import Task
from benchmarks.guarded.problems import Problem
from benchmarks.guarded.rules import Round
from benchmarks.runner import read_table, rkhs_norm
from kernelucb.acquisition.guarded import is_ucb_turn
from tolerances import LINEAR_SOLVE

WHOLE = command.CONFIGURATION
PROTOCOL = replace(WHOLE.protocol, rounds=3, samples=4, raw_samples=4, iterations=1)
ARMS = replace(WHOLE.settings["rbf_2_d2"], arms=20)
BOX = WHOLE.settings["box_matern52_2_d1"]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    parts = {"protocol": PROTOCOL, "seeds": (20,)}
    experiments = {
        "arms": replace(WHOLE.experiments["arms"], settings=(ARMS,), **parts),
        "boxes": replace(WHOLE.experiments["boxes"], settings=(BOX,), **parts),
    }
    few = replace(WHOLE.coverage.protocol, rounds=2)
    part = replace(WHOLE.coverage, protocol=few, sequences=2, wrong_sequences=2, size=2)
    small = replace(WHOLE, experiments=experiments, coverage=part)
    monkeypatch.setattr(command, "CONFIGURATION", small)


@pytest.mark.parametrize(
    ("name", "player"), [("arms", play), ("boxes", play), ("coverage", coverage)]
)
def test_commands_write_their_tables_and_keep_their_runs(
    tmp_path, monkeypatch, name, player
):
    arguments = [name, "--output", str(tmp_path)]
    command.BENCHMARK.main(arguments)
    path = tmp_path / "results"
    rules = getattr(WHOLE.experiments.get(name), "rules", WHOLE.coverage.rules)
    beliefs = 1 + len(WHOLE.coverage.wrong) if name == "coverage" else 1
    assert len(read_table(path / f"{name}.csv")) == beliefs * len(rules)
    before = (path / f"{name}.md").read_text()
    monkeypatch.setattr(player, "play", None)  # all runs are kept
    command.BENCHMARK.main(arguments)
    assert (path / f"{name}.md").read_text() == before


def drawn(count=12):
    problem = Problem.draw(PROTOCOL, ARMS, 3)
    inputs = problem.arms[torch.arange(count) % len(problem.arms)]
    noise = 0.1 * torch.sin(17.0 * torch.arange(count, dtype=torch.float64))
    return Round(problem, inputs, problem.function(inputs) + noise)


def test_functions_have_the_norm_that_is_promised():
    problem = Problem.draw(PROTOCOL, replace(ARMS, arms=400), 3)
    gram = problem.kernel(problem.arms).to_dense()
    values = problem.function(problem.arms)
    gram.diagonal().add_(1e-8)
    interpolant = (values @ torch.linalg.solve(gram, values)).sqrt()
    # At most the norm of the function, of which the arms hide some.
    assert 0.9 * PROTOCOL.norm < interpolant < PROTOCOL.norm
    weights = torch.linalg.solve(gram, values)
    assert rkhs_norm(problem.kernel, problem.arms, weights) < PROTOCOL.norm


def test_the_gaussian_process_is_botorch_s():
    data = drawn()
    ours, inputs, kernel = data.model(), data.inputs, ScaleKernel(data.problem.kernel)
    column = data.outcomes.unsqueeze(-1)
    noise = torch.full_like(column, data.noise_std**2)
    kernel.double().outputscale = torch.tensor(ours.variance, dtype=torch.float64)
    given = {"covar_module": kernel, "mean_module": ZeroMean(), "outcome_transform": None}
    theirs = SingleTaskGP(inputs, column, noise, **given).eval()
    queries = torch.rand(5, 3, 2, dtype=torch.float64)
    for X in (queries, queries[:, :1]):
        found, expected = ours.posterior(X), theirs.posterior(X)
        # GPyTorch keeps the output scale through a softplus, to about 1e-9.
        close = {"rtol": 100.0 * LINEAR_SOLVE, "atol": 100.0 * LINEAR_SOLVE}
        torch.testing.assert_close(found.mean, expected.mean, **close)
        torch.testing.assert_close(found.variance, expected.variance, **close)


def test_the_variance_is_the_likeliest():
    data = drawn()

    def loss(variance):
        covariance = variance * data.problem.kernel(data.inputs).to_dense()
        covariance.diagonal().add_(data.noise_std**2)
        law = torch.distributions.MultivariateNormal(torch.zeros(12).double(), covariance)
        return -float(law.log_prob(data.outcomes))

    best = data.model().variance
    assert loss(best) < min(loss(best / 1.5), loss(best * 1.5))


@pytest.mark.filterwarnings("ignore:A not p.d.:Warning")  # a jitter of BoTorch's
@pytest.mark.parametrize("search", ["LogEI", "qLogNEI", "random UCB"])
def test_a_guarded_rule_plays_possible_maximisers_and_the_upper_bound_in_its_turn(search):
    rule = replace(WHOLE.rules["ei_4"], search=search)
    for count in range(9, 13):
        data = drawn(count)
        upper = data.band.bounds(data.problem.arms)[1]
        point = data.point(rule)
        own = float(upper[(data.problem.arms == point).all(-1)].max())
        seen = data.band.bounds(data.inputs)[0]
        assert own >= float(seen.max()) - 1e-9
        if is_ucb_turn(count, 4):
            assert own == pytest.approx(float(upper.max()))


def test_a_run_repeats():
    task = Task(PROTOCOL, ARMS, WHOLE.rules["nei_4"], 5)
    run = play.play(task)
    assert run.regret == play.play(task).regret
    assert run.rounds == [3]
    assert run.recommended[0] <= run.gaps[0]


def test_a_band_with_half_the_norm_is_found_out():
    part = command.CONFIGURATION.coverage
    wrong = [task for task in part.tasks() if task.norm_factor == 0.5]
    run = coverage.play(replace(wrong[0], size=6))
    assert all(any(event) for event in zip(run.missed, run.contradicted, strict=True))
