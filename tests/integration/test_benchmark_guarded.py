r"""The benchmark of guarded search, in small."""

from types import SimpleNamespace

import pytest
import torch
from botorch.models import SingleTaskGP
from gpytorch.kernels import ScaleKernel
from gpytorch.means import ZeroMean

pytest.importorskip("joblib", reason="needs the extra `bench`")

from benchmarks.guarded.__main__ import ARMS, PROTOCOL, RULES, STUDY
from benchmarks.guarded.play import play_sequences
from benchmarks.guarded.rules import Problem, Round
from kernelucb.acquisition.guarded import is_ucb_turn
from tolerances import LINEAR_SOLVE

SHORT = PROTOCOL | {"rounds": 3, "samples": 4, "raw_samples": 4, "iterations": 1}
SMALL = SHORT | ARMS[1] | {"arms": 20, "seed": 20}


def drawn(count=12, **rule):
    problem = Problem.draw(SimpleNamespace(**SMALL, **rule), 3)
    inputs = problem.arms[torch.arange(count) % len(problem.arms)]
    noise = 0.1 * torch.sin(17.0 * torch.arange(count, dtype=torch.float64))
    return Round(problem, inputs, problem.function(inputs) + noise)


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


def test_a_band_with_half_the_norm_is_found_out():
    runs = STUDY.tables["coverage"].runs
    task = next(run for run in runs if run["norm_factor"] == 0.5)
    run = play_sequences(task | {"size": 6})
    assert all(any(event) for event in zip(run["missed"], run["contradicted"], strict=True))
