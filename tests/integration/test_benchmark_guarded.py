r"""The benchmark of guarded search, in small."""

from types import SimpleNamespace

import pytest
import torch
from botorch.models import SingleTaskGP
from gpytorch.kernels import ScaleKernel
from gpytorch.means import ZeroMean

pytest.importorskip("joblib", reason="needs the extra `bench`")

from benchmarks.guarded.__main__ import ARMS, PROTOCOL, RULES, STUDY
from benchmarks.guarded.play import play, play_sequences
from benchmarks.guarded.problems import Problem
from benchmarks.guarded.rules import Round
from benchmarks.runner import read_table, rkhs_norm
from kernelucb.acquisition.guarded import is_ucb_turn
from tolerances import LINEAR_SOLVE

pytestmark = pytest.mark.slow

SHORT = PROTOCOL | {"rounds": 3, "samples": 4, "raw_samples": 4, "iterations": 1}
SMALL = SHORT | ARMS[1] | {"arms": 20, "seed": 20}
TINY = ["rounds=3", "samples=4", "raw_samples=4", "iterations=1"]


@pytest.mark.parametrize(
    ("name", "only", "change", "rows"),
    [
        ("arms", ["seed=20", "setting=rbf_2_d2"], [*TINY, "arms=20"], 6),
        ("boxes", ["seed=20", "setting=box_matern52_2_d1"], TINY, 4),
        ("coverage", ["block=0"], ["rounds=2", "size=2"], 9),
    ],
)
def test_commands_write_their_tables(tmp_path, name, only, change, rows):
    STUDY.main([name, "--only", *only, "--change", *change, "--output", str(tmp_path)])
    assert len(read_table(tmp_path / "results" / f"{name}.csv")) == rows


def drawn(count=12, **rule):
    problem = Problem.draw(SimpleNamespace(**SMALL, **rule), 3)
    inputs = problem.arms[torch.arange(count) % len(problem.arms)]
    noise = 0.1 * torch.sin(17.0 * torch.arange(count, dtype=torch.float64))
    return Round(problem, inputs, problem.function(inputs) + noise)


def test_functions_have_the_norm_that_is_promised():
    problem = Problem.draw(SimpleNamespace(**SMALL | {"arms": 400}), 3)
    gram = problem.kernel(problem.arms).to_dense()
    values = problem.function(problem.arms)
    gram.diagonal().add_(1e-8)
    interpolant = (values @ torch.linalg.solve(gram, values)).sqrt()
    # At most the norm of the function, of which the arms hide some.
    assert 0.9 * SMALL["norm"] < interpolant < SMALL["norm"]
    weights = torch.linalg.solve(gram, values)
    assert rkhs_norm(problem.kernel, problem.arms, weights) < SMALL["norm"]


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
    (rule,) = (each for each in RULES if each["rule"] == "ei_4")
    for count in range(9, 13):
        data = drawn(count, **rule | {"search": search})
        upper = data.band.bounds(data.problem.arms)[1]
        point = data.point()
        own = float(upper[(data.problem.arms == point).all(-1)].max())
        seen = data.band.bounds(data.inputs)[0]
        assert own >= float(seen.max()) - 1e-9
        if is_ucb_turn(count, 4):
            assert own == pytest.approx(float(upper.max()))


def test_a_run_repeats():
    run = play(SMALL | RULES[2])
    assert run["regret"] == play(SMALL | RULES[2])["regret"]
    assert run["looks"] == [3]
    assert run["recommended"][0] <= run["gaps"][0]


def test_a_band_with_half_the_norm_is_found_out():
    runs = STUDY.tables["coverage"].runs
    task = next(run for run in runs if run["norm_factor"] == 0.5)
    run = play_sequences(task | {"size": 6})
    assert all(any(event) for event in zip(run["missed"], run["contradicted"], strict=True))
