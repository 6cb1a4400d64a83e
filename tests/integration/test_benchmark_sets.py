r"""Level sets by a replayed search: held and averaged models, functions, margins."""

import pytest
import torch
from botorch.models import SingleTaskGP

pytest.importorskip("joblib", reason="the benchmarks need kernelucb[bench]")

from benchmarks.runner import quiet, sobol_points
from benchmarks.sets import levels
from kernelucb.calibration import Loop
from kernelucb.data import KernelRegression
from tolerances import LINEAR_SOLVE


@pytest.fixture
def data():
    random = torch.Generator().manual_seed(0)
    X = sobol_points(18, 2, seed=3)
    noise = 0.1 * torch.randn(18, generator=random).double()
    return X, (5.0 + 3.0 * torch.sin(4.0 * X.sum(-1)) + noise).unsqueeze(-1)


def test_a_held_model_takes_parameters_and_unit_from_the_first_rows(data):
    X, Y = data
    first, model = levels.held(X[:12], Y[:12], 12), levels.held(X, Y, 12)
    mine, theirs = (
        dict(each.named_parameters()) | dict(each.outcome_transform.named_buffers())
        for each in (model, first)
    )
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    assert len(model.train_targets) == 18
    # The same as by the formulas of regression with this kernel and noise
    state, points = KernelRegression.from_model(model), sobol_points(9, 2, seed=1)
    mean, variance = levels.moments(model, points)
    torch.testing.assert_close(
        mean, state.mean(points), rtol=LINEAR_SOLVE, atol=LINEAR_SOLVE
    )
    torch.testing.assert_close(
        variance, state.variance(points), rtol=LINEAR_SOLVE, atol=LINEAR_SOLVE
    )
    # Fitted to all rows they would differ
    assert not torch.equal(
        levels.held(X, Y, 18).outcome_transform.means, first.outcome_transform.means
    )


def test_averages_are_those_of_a_mixture_of_models(data):
    X, Y = data
    first, points = levels.held(X[:12], Y[:12], 12), sobol_points(7, 2, seed=1)
    averaged = levels.Averaged(X, Y, first, 4)
    known = (Y - averaged.centre) / averaged.unit
    means, covariances = [], []
    for lengths, noise, mean in zip(
        averaged.lengths, averaged.noise, averaged.mean, strict=True
    ):
        with quiet():
            model = SingleTaskGP(X, known, outcome_transform=None)
        model.covar_module.lengthscale = lengths.unsqueeze(0)
        model.likelihood.noise, model.mean_module.constant = noise, mean
        found = model.eval().posterior(points).distribution
        means.append(found.mean.detach())
        covariances.append(found.covariance_matrix.detach())
    apart = torch.stack(means) - torch.stack(means).mean(0)
    mixed = torch.stack(covariances).mean(0) + apart.mT @ apart / 4
    found = averaged.posterior(points).distribution
    centre, unit = averaged.centre, averaged.unit
    torch.testing.assert_close(
        found.mean, centre + unit * torch.stack(means).mean(0), rtol=0.0, atol=1e-6
    )
    torch.testing.assert_close(
        found.covariance_matrix, unit**2 * mixed, rtol=0.0, atol=1e-6 * float(unit) ** 2
    )
    mean, variance = averaged.moments(points)
    torch.testing.assert_close(mean, found.mean, rtol=LINEAR_SOLVE, atol=LINEAR_SOLVE)
    torch.testing.assert_close(
        variance, found.variance, rtol=LINEAR_SOLVE, atol=LINEAR_SOLVE
    )
    assert len({*averaged.parameters_drawn[:, 0].tolist()}) == 4


def test_drawn_functions_have_unit_deviation_and_a_share_above_the_threshold():
    candidates = sobol_points(200, 2, seed=0)
    functions = levels.StandardizedDraws(candidates)
    for number in range(5):
        problem = functions.draw(number, torch.Generator().manual_seed(number))
        values = problem.values(candidates)
        assert float(values.std()) == pytest.approx(1.0)
        assert 0.09 < float((values >= 0.0).double().mean()) < 0.41
        assert problem.noise_std > 0.0


@pytest.mark.parametrize("policy", levels.POLICIES)
def test_the_search_straddles_the_threshold(data, policy):
    X, Y = data
    candidates = sobol_points(30, 2, seed=0)
    choose = levels.Straddle(candidates, 6.0, **levels.POLICIES[policy])
    loop = Loop(choose, candidates=candidates, starts=12, rounds=20)
    model, candidate = loop.round(X, Y)
    mean, variance = levels.moments(model, candidates)
    near = 1.96 * variance.sqrt() - (mean - 6.0).abs()
    assert torch.equal(candidate[0], candidates[near.argmax()])
