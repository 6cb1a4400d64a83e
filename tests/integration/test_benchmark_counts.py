r"""The benchmark of successes and counts, in small."""

from dataclasses import replace

import numpy as np
import pytest
import torch

pytest.importorskip("joblib", reason="needs the extra `bench`")

from benchmarks.counts import __main__ as command
from benchmarks.counts import coverage, regret, rivals, safe, width
from benchmarks.counts.exact_set import Basis, ExactSet, Losses, penalised
from benchmarks.counts.problems import Problem, grid
from benchmarks.counts.variational import VariationalBand
from benchmarks.runner import fixed_kernel, read_table, rkhs_norm
from benchmarks.speed import counts as speed

pytestmark = pytest.mark.slow

WHOLE = command.CONFIGURATION
GAP = 1e-4  # of ExactSet


@pytest.fixture(autouse=True)
def small(monkeypatch):
    kernels = {"kernels": ("rbf",), "dimensions": (1,)}
    many = {"likelihoods": ("poisson",), **kernels}
    hard = {"all_successes": WHOLE.coverage.hard["all_successes"]}
    beliefs = {
        name: replace(belief, sequences=2, further_sequences=2)
        for name, belief in WHOLE.coverage.beliefs.items()
    }
    few = {"candidates": 9, "batches": (1, 2), "size": 2, "hard": hard, "beliefs": beliefs}
    short = {"functions": 1, "large": 20, "large_functions": 1, "queries": 4}
    short |= {
        "loose_observations": 10,
        "many_dimensions": 3,
        "many_observations": 10,
        "observations": (10, 20),
        "exact_queries": 3,
        "large_queries": 2,
    }
    short |= {"variational_iterations": 2, **kernels}
    brief = {"rounds": 3, "runs": 1, "candidates": 9, "variational_iterations": 2}
    parts = {
        "coverage": replace(WHOLE.coverage, **many, **few),
        "width": replace(WHOLE.width, **short),
        "regret": replace(WHOLE.regret, **kernels, **brief),
        "safe": replace(WHOLE.safe, kernels=("rbf",), variational_runs=1, **brief),
    }
    monkeypatch.setattr(command, "CONFIGURATION", replace(WHOLE, **parts))


@pytest.mark.parametrize(
    ("name", "player", "count"),
    [
        ("coverage", coverage, 12),
        ("width", width, 56),
        ("regret", regret, 5),
        ("safe", safe, 2),
    ],
)
def test_commands_write_their_tables_and_keep_their_runs(
    tmp_path, monkeypatch, name, player, count
):
    arguments = [name, "--output", str(tmp_path)]
    command.BENCHMARK.main(arguments)
    path = tmp_path / "results"
    assert len(read_table(path / f"{name}.csv")) == count
    before = (path / f"{name}.md").read_text()
    monkeypatch.setattr(player, "play", None)  # all runs are kept
    command.BENCHMARK.main(arguments)
    assert (path / f"{name}.md").read_text() == before


def test_speed_compares_pairs_on_the_same_function(tmp_path, monkeypatch):
    monkeypatch.setattr(speed, "SIZES", (6,))
    path = tmp_path / "counts.csv"
    speed.BENCHMARK.main(["--seeds", "1", "--output", str(path)])
    rows = read_table(path)
    assert len(rows) == len(speed.LIKELIHOODS) * len(speed.FORMS) * len(speed.MEASURES)
    assert (rows.of_sums.astype(float) > 0.0).all()


def _losses(likelihood, latent, random):
    if likelihood == "poisson":
        sizes = random.uniform(0.5, 2.0, len(latent))
        return Losses(likelihood, random.poisson(sizes * np.exp(latent)) * 1.0, sizes)
    sizes = random.integers(1, 4, len(latent)) * 1.0
    drawn = random.binomial(sizes.astype(int), 1.0 / (1.0 + np.exp(-latent)))
    return Losses(likelihood, drawn * 1.0, sizes)


@pytest.mark.parametrize("likelihood", ["binomial", "poisson"])
@pytest.mark.parametrize(("kernel", "dimension"), [("rbf", 1), ("matern52", 2)])
def test_the_exact_set_is_that_of_a_cone_program(likelihood, kernel, dimension):
    cvxpy = pytest.importorskip("cvxpy")
    random = np.random.default_rng(3)
    kernel = fixed_kernel(kernel, 0.15)
    X = torch.from_numpy(random.random((12, dimension)))
    queries = torch.from_numpy(random.random((2, dimension)))
    mean, norm_bound = 0.4, 2.5
    basis = Basis(kernel, X, queries)
    coordinates = random.standard_normal(basis.rows.shape[1])
    coordinates *= 2.0 / np.linalg.norm(coordinates)
    latent = mean + basis.rows @ coordinates
    losses = _losses(likelihood, latent, random)
    limit = losses(latent)[0].sum() + 2.0
    lower, upper = ExactSet(basis, losses, mean, norm_bound, limit).bounds()
    z = cvxpy.Variable(basis.rows.shape[1])
    values = mean + basis.rows @ z
    growth = cvxpy.exp(values) if likelihood == "poisson" else cvxpy.logistic(values)
    loss = losses.sizes @ growth - losses.outcomes @ values
    inside = [cvxpy.norm(z) <= norm_bound, loss <= limit]
    for row, low, high in zip(basis.queries, lower, upper, strict=True):
        for sign, value in ((-1.0, low), (1.0, high)):
            problem = cvxpy.Problem(cvxpy.Maximize(sign * (row @ z)), inside)
            best = mean + sign * problem.solve(solver="CLARABEL")
            # Inside by the barrier's gap at most; the cone solver is exact to 1e-6.
            assert -1e-6 <= sign * (best - value) <= GAP + 1e-6


def test_an_empty_exact_set_is_refused():
    X = torch.linspace(0.0, 1.0, 6, dtype=torch.float64).unsqueeze(-1)
    basis = Basis(fixed_kernel("rbf", 0.3), X, X)
    losses = Losses("bernoulli", np.tile([0.0, 1.0], 3), np.ones(6))
    with pytest.raises(ValueError, match="No function"):
        ExactSet(basis, losses, 0.0, 1.0, 0.1)


def test_running_estimators_predict_before_they_see():
    random = np.random.default_rng(0)
    X = torch.from_numpy(random.random((7, 1)))
    basis = Basis(fixed_kernel("rbf", 0.3), X, X)
    losses = Losses("bernoulli", random.integers(0, 2, 7) * 1.0, np.ones(7))
    expected = np.log(1.0 / 0.05)
    for count in range(7):
        kept = losses.part(slice(count))
        z = penalised(basis.rows[:count], kept, 0.0, 1.0)
        latent, outcome = basis.rows[count] @ z, losses.outcomes[count]
        expected += np.log1p(np.exp(latent)) - outcome * latent
    limit = rivals.running_limit(basis.rows, losses, 0.0, 1.0, 0.05)
    # Seven estimates, each within the root of the convergence limit.
    assert limit == pytest.approx(expected, abs=1e-5)


def test_running_estimators_have_the_radius_of_stpy():
    r"""Against the class in a checkout of https://github.com/Mojusko/stpy on the path."""
    module = pytest.importorskip("stpy.probability.bernoulli_likelihood")
    random = np.random.default_rng(1)
    X = torch.from_numpy(random.random((9, 1)))
    basis = Basis(fixed_kernel("rbf", 0.3), X, X)
    losses = Losses("bernoulli", random.integers(0, 2, 9) * 1.0, np.ones(9))
    estimates = [
        torch.from_numpy(penalised(basis.rows[:n], losses.part(slice(n)), 0.0, 1.0))
        for n in range(10)
    ]
    theirs = module.BernoulliLikelihoodCanonical()
    outcomes = torch.from_numpy(losses.outcomes).unsqueeze(-1)
    theirs.load_data((torch.from_numpy(basis.rows), outcomes))
    given = {"evidence": [1.0] * 9, "estimator_sequence": estimates}
    radius = theirs.confidence_parameter_likelihood_ratio(0.05, given)
    limit = rivals.running_limit(basis.rows, losses, 0.0, 1.0, 0.05)
    assert limit == pytest.approx(float(radius), abs=1e-5)


def test_functions_have_the_norm_that_is_promised():
    for number, setting in enumerate(WHOLE.coverage.settings):
        problem = Problem.draw(WHOLE.protocol, setting, number)
        norm = rkhs_norm(problem.kernel, problem.centres, problem.weights)
        assert float(norm) == pytest.approx(setting.norm)
        assert setting.norm < setting.norm_bound


@pytest.mark.parametrize(("dimension", "lengthscale"), [(1, 0.2), (2, 0.3)])
def test_the_norm_of_a_matern_probability_is_nearly_that_of_a_finer_grid(
    dimension, lengthscale
):
    setting = replace(
        WHOLE.regret.tasks(1)[-1].setting,
        kernel="matern52",
        dimension=dimension,
        lengthscale=lengthscale,
    )
    problem = Problem.draw(WHOLE.protocol, setting, 0)
    norms = []
    for count in (100, 400, 900):
        points = grid(count, dimension)
        target = problem.latent(points).sigmoid() - 0.5
        norms.append(rivals.interpolant_norm(problem.kernel, points, target))
    assert norms == sorted(norms)
    assert rivals.probability_norm(problem, 0.0) > norms[-1]


def test_the_norm_of_an_rbf_probability_grows_without_end_as_the_misfit_falls():
    setting = replace(WHOLE.regret.tasks(1)[0].setting, kernel="rbf", dimension=1)
    problem = Problem.draw(WHOLE.protocol, setting, 0)
    norms = [rivals.probability_norm(problem, misfit) for misfit in (3e-2, 1e-3, 1e-5)]
    assert norms == sorted(norms)
    assert norms[-1] > 2.0 * norms[0]


def test_wrong_bands_are_found_out_and_true_ones_are_not():
    part = WHOLE.coverage
    setting = part.setting("binomial", "rbf", 1)
    tasks = [
        replace(task, size=3, batches=(5, 20))
        for task in part.tasks(1)
        if task.setting == setting and task.chooser == "nearest miss"
    ]
    found = {task.belief.name: coverage.play(task) for task in tasks}
    events = {name: run.missed + run.contradicted for name, run in found.items()}
    assert not any(events.pop("truth"))
    assert len(events) == 2
    assert all(any(wrong) for wrong in events.values())


def test_a_variational_band_begins_its_fit_at_the_last_one():
    X = torch.linspace(0.0, 1.0, 20, dtype=torch.float64).unsqueeze(-1)
    Y = (X.squeeze(-1) > 0.5).double()
    once, twice = (VariationalBand(grid(9, 1), 40) for _ in range(2))
    once.fit(X, Y)
    twice.fit(X, Y)
    twice.fit(X, Y)
    assert bool((once.probability(X) != twice.probability(X)).any())
    lower, upper = twice.bounds(X)
    inside = twice.probability(X)
    assert bool(((lower < inside) & (inside < upper)).all())
    assert float(inside[0]) < 0.5 < float(inside[-1])


def test_a_safe_run_starts_where_it_is_safe():
    task = WHOLE.safe.tasks(1)[0]
    problem, start = safe._with_start(task)
    failing = problem.latent(grid(task.candidates, 1)).sigmoid()
    assert float(failing[start]) <= task.start
    assert float(failing.max()) > task.threshold
