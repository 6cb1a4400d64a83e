r"""The attack kept as a benchmark, in short: nothing silently wrong, no raw error."""

from collections import Counter

import pytest
import torch

from benchmarks.attack import __main__ as command
from benchmarks.attack import numerics
from benchmarks.attack.bounds import KINDS, Attacked
from benchmarks.attack.families import FAMILIES
from benchmarks.attack.problems import make_problem
from benchmarks.attack.tables import save_counts, save_table
from benchmarks.attack.tasks import play, tasks_of
from benchmarks.attack.verdicts import Verdict, judge
from benchmarks.runner import read_table, stream
from kernelucb import KernelBandit, KernelRegression

pytestmark = pytest.mark.slow

# Cases of each family, spread evenly over it.
SHORT = {
    "numerics": 40,
    "precision": 5,
    "botorch": 12,
}


def test_every_family_has_a_short_form():
    assert SHORT.keys() == FAMILIES.keys()


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.filterwarnings("ignore")
def test_nothing_is_silently_wrong_and_no_error_is_raw(name):
    family = FAMILIES[name]
    step = family.count() // SHORT[name]
    verdicts = {seed: family.play(seed) for seed in range(0, SHORT[name] * step, step)}
    bad = [(s, *v) for s, v in verdicts.items() if v.kind in ("untyped", "wrong")]
    assert not bad, "\n".join(map(str, bad))


class TestTheHarness:
    r"""It sees what it must see."""

    def test_a_band_that_is_too_narrow_is_silently_wrong(self):
        problem = make_problem(1)
        attacked = KINDS["dual"].build(problem, problem.norm, stream(1))

        def narrow(X):
            lower, upper = attacked.bounds(X)
            return upper - 1e-3 * (upper - lower), upper

        verdict = judge(
            lambda: numerics.check_band(Attacked(narrow), problem, True, stream(1))
        )
        assert verdict.kind == "wrong"
        assert verdict.where == "_check_inside"

    def test_a_band_that_depends_on_its_neighbours_is_silently_wrong(self):
        problem = make_problem(1)
        attacked = KINDS["dual"].build(problem, problem.norm, stream(1))

        def neighbourly(X):
            lower, upper = attacked.bounds(X)
            return lower, upper + 1e-3 * len(X) * (upper - lower)

        verdict = judge(
            lambda: numerics.check_band(Attacked(neighbourly), problem, True, stream(1))
        )
        assert verdict.kind == "wrong"
        assert verdict.where == "_check_neighbours"

    def test_nan_is_silently_wrong(self):
        problem = make_problem(1)
        nothing = Attacked(lambda X: (X[:, 0] * torch.nan, X[:, 0]))
        verdict = judge(lambda: numerics.check_band(nothing, problem, True, stream(1)))
        assert verdict.kind == "wrong"

    def test_the_truth_is_inside_where_everything_is_right(self):
        problem = make_problem(1)
        attacked = KINDS["dual"].build(problem, problem.norm, stream(1))
        numerics.check_band(attacked, problem, True, stream(1))

    @pytest.mark.parametrize("error", [TypeError, IndexError, RuntimeError, ValueError])
    def test_what_python_raises_is_a_raw_error(self, error):
        def attempt():
            raise error("raw")

        assert judge(attempt).kind == "untyped"

    def test_what_the_library_means_is_a_refusal(self):
        bandit = KernelBandit(make_problem(1).kernel, norm_bound=1.0, noise_std=0.1)
        refused = (
            lambda: bandit.bounds(torch.zeros(2, 3, 4)),
            lambda: KernelRegression.from_model(None),  # pyright: ignore
            lambda: KernelBandit(bandit.prior.covar_module, noise_std=-1.0),
        )
        for attempt in refused:
            verdict = judge(attempt)
            assert verdict.kind == "typed"
            assert verdict.where


def test_counts_and_distinct_failures_are_saved(tmp_path):
    def seen(seed):
        kinds = ("ok", "typed", "untyped", "wrong")
        return Verdict(
            kinds[seed % 4], f"a.py:{seed} f", f"off: by {seed}.5", f"case {seed}"
        )

    family = FAMILIES["numerics"]._replace(play=seen, count=lambda: 10, chunk=4)
    runs = [play(task, family) for task in tasks_of("numerics", family, None)]
    assert [sum(run.counts.values()) for run in runs] == [4, 4, 2]
    save_counts(tmp_path, "before", {"numerics": runs})
    (row,) = read_table(tmp_path / "before.csv").to_dict("records")
    assert Counter({key: int(row[key]) for key in ("ok", "typed", "untyped", "wrong")}) == {
        "ok": 3,
        "typed": 3,
        "untyped": 2,
        "wrong": 2,
    }
    failures = read_table(tmp_path / "before_failures.csv").to_dict("records")
    assert [(row["kind"], row["cases"], row["seed"]) for row in failures] == [
        ("untyped", "2", "2"),
        ("wrong", "2", "3"),
    ]
    assert "| numerics |" in save_table(tmp_path).read_text(encoding="utf-8")


def test_the_command_resumes(tmp_path, monkeypatch):
    played = []
    family = FAMILIES["precision"]._replace(
        play=lambda seed: played.append(seed) or Verdict("ok"), count=lambda: 6, chunk=2
    )
    monkeypatch.setitem(FAMILIES, "precision", family)
    command.BENCHMARK.main(["precision", "--cases", "2", "--output", str(tmp_path)])
    command.BENCHMARK.main(["precision", "--output", str(tmp_path)])
    assert played == [0, 1, 2, 3, 4, 5]
    table = read_table(tmp_path / "results" / "after.csv")
    assert table["cases"].tolist() == ["6"]
