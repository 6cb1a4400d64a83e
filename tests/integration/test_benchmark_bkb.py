r"""The BKB benchmark: exact learners are exact, the yardstick is BKB, resumable."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from kernelucb import BKBBandit, KernelBandit
from kernelucb.confidence.bkb import Budget, practical_width
from tolerances import BANDIT, SKETCH

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
pytest.importorskip("joblib", reason="the benchmark needs kernelucb[bench]")


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    r"""Small data sets in place of the real ones."""
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.papers.bkb_2019 import problems

    random = np.random.default_rng(0)
    for name in ("cadata", "abalone"):
        X = random.standard_normal((60, 3))
        np.savez(tmp_path / f"{name}.npz", X=X, y=np.sin(X.sum(1)))
    monkeypatch.setenv("KERNELUCB_DATA", str(tmp_path))
    problems.rows_of.cache_clear()
    yield
    problems.rows_of.cache_clear()


def called(output, *arguments):
    r"""A command as its line is read."""
    from benchmarks.papers.bkb_2019.__main__ import BENCHMARK

    return BENCHMARK.call([*arguments, "--output", str(output)])


def configuration():
    from benchmarks.papers.bkb_2019.configuration import Configuration
    from benchmarks.runner import load_configuration

    whole = load_configuration(Configuration)
    return replace(
        whole,
        regret=replace(whole.regret, arms=40, rounds=15),
        theorem1={
            play: replace(section, arms=40, rounds=15, checks=(1, 5, 15))
            for play, section in whole.theorem1.items()
        },
        widths=replace(whole.widths, observations=60),
        time=replace(whole.time, rounds=(3, 6)),
    )


def setting_of():
    plan = configuration()
    return plan.setting(plan.regret, "cadata")


def method(name):
    return configuration().methods[name]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("exact_mixture", {"form": "analytic", "fit": "martingale"}),
        ("exact_igp", {"bound": "igp_ucb"}),
    ],
)
def test_exact_learners_have_the_bounds_of_the_kernel_bandit(name, options):
    from benchmarks.papers.bkb_2019.learners import Learner
    from benchmarks.papers.bkb_2019.problems import problem_of

    setting = setting_of()
    problem = problem_of(setting, 0)
    learner = Learner(problem, method(name), setting, 0)
    bandit = KernelBandit(
        problem.kernel,
        norm_bound=setting.norm_bound,
        noise_std=setting.noise_std,
        delta=setting.delta,
        **options,
        **({"horizon": setting.rounds} if "bound" in options else {}),
    )
    for arm in (3, 17, 3, 8, 30, 3):
        outcome = float(problem.rewards[arm])
        learner.observe([arm], [outcome])
        bandit.observe(problem.arms[arm], outcome)
        arms = learner.bandit.arms
        upper = arms.mean + learner.exact_width() * arms.variance.sqrt()
        assert_close(upper, bandit.bounds(problem.arms)[1], rtol=0, atol=BANDIT)
        assert learner.select() == [bandit.select(problem.arms)]


def test_yardstick_is_bkb():
    r"""The same arms as ``BKBBandit`` where every observed arm is inducing."""
    from benchmarks.papers.bkb_2019.problems import problem_of
    from benchmarks.papers.bkb_2019.yardstick import NumpyBKB

    problem = problem_of(setting_of(), 0)
    yardstick = NumpyBKB(problem.arms.numpy(), 3.0, 0.1, 1.0, 0.1, 1e9, 0)
    bandit = BKBBandit(
        problem.arms,
        problem.kernel,
        norm_bound=1.0,
        noise_std=0.1,
        delta=0.1,
        qbar=1e9,
        radius="practical",
    )
    for _ in range(12):
        arm = bandit.select()
        outcome = float(problem.rewards[arm])
        assert yardstick.step(lambda arm: float(problem.rewards[arm])) == arm
        bandit.observe(arm, outcome)
        _, variance = yardstick.posterior()
        assert_close(
            torch.from_numpy(0.01 * variance), bandit.arms.variance, rtol=0, atol=SKETCH
        )
    assert practical_width(Budget.of(bandit.arms), 1.0, 0.1, 0.1) == bandit.width


def test_regret_is_resumable_and_tabulated(tmp_path):
    from benchmarks.papers.bkb_2019.regret import run_regret

    plan, call = configuration(), called(tmp_path / "out", "regret")
    methods = list(plan.methods.values())
    files = run_regret(plan, call, 2, methods)
    assert all(path.exists() for path in files)
    table = files[1].read_text()
    for one in methods:
        assert table.count(f"| {one.label} |") == 2  # once for each data set
    assert table.count("| 1.000 ± 0.000 |") >= 2  # exact over exact
    runs = sorted((tmp_path / "out" / "runs").rglob("*.json"))
    assert len(runs) == 2 * 2 * len(methods)
    times = [path.stat().st_mtime_ns for path in runs]
    run_regret(plan, call, 2, methods)
    assert [path.stat().st_mtime_ns for path in runs] == times


def test_theorem_1_table(tmp_path):
    from benchmarks.papers.bkb_2019.theorem1 import run_theorem1
    from benchmarks.runner import read_table

    csv, table = run_theorem1(configuration(), called(tmp_path, "theorem1"), 3)
    rows = read_table(csv).query("qbar == 'theorem'").to_dict("records")
    assert [row["round"] for row in rows] == ["1", "5", "15"] * 2
    assert [row["play"] for row in rows] == ["bound"] * 3 + ["random"] * 3
    assert rows[-1]["distinct"] == "15"
    for row in rows:  # all observed arms are inducing, so the ratio is one
        assert float(row["smallest"]) == pytest.approx(1.0, abs=1e-6)
        assert float(row["largest"]) == pytest.approx(1.0, abs=1e-6)
        assert row["missed"] == "0"
    assert table.read_text().count("Theorem 1 allows") == 2


def test_widths(tmp_path):
    from benchmarks.papers.bkb_2019.widths import run_widths
    from benchmarks.runner import read_table

    rows = read_table(run_widths(configuration(), tmp_path)[0]).to_dict("records")
    assert len(rows) == 9
    for row in rows:
        assert float(row["exact"]) <= float(row["certified"]) < float(row["theorem2"])


def test_time_and_starvation(tmp_path):
    from benchmarks.papers.bkb_2019.starvation import run_starvation
    from benchmarks.papers.bkb_2019.timing import run_long, run_time

    assert "| 1 to 6 |" in run_time(configuration(), tmp_path)[1].read_text()
    assert run_long(configuration(), tmp_path, 30)[0].read_text().count("| 30 |") == 2
    lines = run_starvation(0, called(tmp_path, "starvation").folders)[0].read_text()
    rows = [line.split("|")[1:4] for line in lines.splitlines()[4:]]
    ratios = {name.strip(): (float(low), float(high)) for name, low, high in rows}
    assert ratios["SoR, the same points"][0] < 1e-3  # starved
    assert ratios["BKB (DTC)"][0] > 1 / 3


def test_missing_data(monkeypatch, tmp_path):
    from benchmarks.papers.bkb_2019 import __main__ as command
    from benchmarks.papers.bkb_2019 import problems

    monkeypatch.setenv("KERNELUCB_DATA", str(tmp_path / "nowhere"))
    problems.rows_of.cache_clear()
    with pytest.raises(SystemExit, match="KERNELUCB_DATA"):
        command.BENCHMARK.main(["regret", "--output", str(tmp_path / "out")])
