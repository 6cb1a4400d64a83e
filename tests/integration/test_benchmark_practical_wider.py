r"""The practical benchmark: mixed domains, batches, rivals."""

import pytest
import torch
from practical_bench import repository_importable, task  # noqa: F401

pytestmark = pytest.mark.slow

BATCH_METHODS = ("q_log_nei", "q_log_nei_joint", "q_ucb_2")
BATCH_METHODS += ("thompson", "random", "mixture_ucb")


def test_a_mixed_domain_has_its_optimum_at_a_point_of_the_seed():
    from benchmarks.practical.problems import environment_of

    first, again, other = (environment_of(task("ackley_mixed", seed=s)) for s in (0, 0, 1))
    best = [played.function.x_opt for played in (first, again, other)]
    assert torch.equal(best[0], best[1])
    assert not torch.equal(best[0], best[2])
    assert first.optimum == 0.0
    assert first.value(best[0]) == pytest.approx(0.0, abs=1e-6)  # sqrt of rounding
    points = torch.stack([first.random_point() for _ in range(20)])
    for drawn in (points, first.spread(20)):
        assert drawn.shape == (20, 8)
        assert set(drawn[:, :5].flatten().tolist()) == {0.0, 1.0}
        assert len(set(drawn[:, 5:].flatten().tolist())) == 60


@pytest.mark.parametrize("method", ["q_log_nei", "gibbon", "mixture_ucb"])
def test_the_search_in_a_mixed_domain_stays_in_it(method, monkeypatch):
    from benchmarks.practical import problems
    from benchmarks.practical.play import play

    evaluated = []
    value = problems.Mixed.value
    monkeypatch.setattr(
        problems.Mixed, "value", lambda self, x: (evaluated.append(x), value(self, x))[1]
    )
    run = play(task("ackley_mixed", method))
    assert len(run.regret) == 8 + 2
    chosen = torch.stack(evaluated)
    assert set(chosen[:, :5].flatten().tolist()) == {0.0, 1.0}
    assert run.failed_searches == 0


@pytest.mark.parametrize("problem", ["hartmann_6_batch", "slice_localization_batch"])
@pytest.mark.parametrize(
    "method",
    ["q_log_nei", "q_log_nei_joint", "q_ucb_2", "thompson", "random", "mixture_ucb"],
)
def test_a_batch_is_chosen_before_its_outcomes_are_known(problem, method):
    r"""The last batch is what is left; within a batch the recommendation stands."""
    from benchmarks.practical.play import play

    run = play(task(problem, method, rounds=6))
    assert len(run.regret) == 8 + 6
    assert len(run.recommended) == 1 + 6
    assert len(set(run.recommended[:4])) == 1
    assert run.recommended[4] == run.recommended[5]
    if method != "random":
        assert len(set(run.regret[8:12])) > 1, "the points of a batch differ"
    assert (run.failed_fits, run.failed_searches) == (0, 0)


@pytest.mark.parametrize(
    ("problem", "method", "count", "sequential", "around"),
    [
        ("hartmann_6_batch", "q_log_nei", 4, True, False),
        ("hartmann_6_batch", "q_log_nei_joint", 4, False, False),
        ("hartmann_6_batch", "thompson", 1, False, False),
        ("levy_10", "q_log_nei_around", 1, False, True),
        ("levy_10", "q_log_nei", 1, False, False),
    ],
)
def test_how_a_continuous_domain_is_searched(
    problem, method, count, sequential, around, monkeypatch
):
    from benchmarks.practical import problems
    from benchmarks.practical.play import play

    asked = []

    def searched(acquisition, bounds, **options):
        asked.append(options)
        return torch.rand(options["q"], bounds.shape[-1], dtype=torch.float64), None

    monkeypatch.setattr(problems, "optimize_acqf", searched)
    play(task(problem, method, rounds=4))
    assert len(asked) == (1 if count == 4 else 4)
    for options in asked:
        assert (options["q"], options["sequential"]) == (count, sequential)
        assert options["options"].get("sample_around_best", False) == around


def test_gibbon_takes_the_maximum_over_points_of_the_domain():
    from benchmarks.practical.learners import make_learner
    from benchmarks.practical.problems import environment_of

    for name, count in (("levy_10", 1000), ("kc1", 200)):
        wanted = task(name, "gibbon")
        played, learner = environment_of(wanted), make_learner(wanted)
        points = played.spread(learner.candidates)
        assert points.shape == (count, wanted.problem.dimension)
        assert len(set(map(tuple, points.tolist()))) == count
        assert float(points.min()) >= 0.0
        assert float(points.max()) <= 1.0
    assert set(map(tuple, points.tolist())) == set(map(tuple, played.rows.tolist()))


def test_ax_knows_all_outcomes_and_depends_on_the_seed_alone():
    pytest.importorskip("ax", reason="the rival needs kernelucb[ax]")
    from benchmarks.practical.fitting import fitted_model
    from benchmarks.practical.learners import make_learner
    from benchmarks.practical.play import play
    from benchmarks.practical.problems import environment_of

    wanted = task("hartmann_3", "ax_default")
    assert play(wanted).regret == play(wanted).regret
    played, learner = environment_of(wanted), make_learner(wanted)
    points = [played.random_point() for _ in range(wanted.starts)]
    outcomes = [played.observe(point) for point in points]
    for _ in range(2):
        values = torch.tensor(outcomes, dtype=torch.float64)
        model, _ = fitted_model(torch.stack(points), values, None)
        points += learner.select(model, played, 1)
        outcomes.append(played.observe(points[-1]))
    summary = learner.client.summarize()
    inputs = torch.tensor(summary[["x0", "x1", "x2"]].to_numpy())
    torch.testing.assert_close(inputs, torch.stack(points), rtol=0, atol=0)
    assert summary["value"].dropna().tolist() == pytest.approx(outcomes[:-1])
    # Ax itself begins with one quasi-random trial, however many are attached.
    assert summary["generation_node"].tolist()[-2:] == ["Sobol", "MBM"]
