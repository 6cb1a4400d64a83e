r"""The attack kept as a benchmark, in short: nothing silently wrong, no raw error."""

import pytest
import torch

from benchmarks.attack import numerics
from benchmarks.attack.bounds import KINDS, Attacked
from benchmarks.attack.problems import make_problem
from benchmarks.attack.verdicts import judge
from benchmarks.runner import stream
from kernelucb import KernelBandit, KernelRegression

pytestmark = pytest.mark.slow


@pytest.mark.filterwarnings("ignore")
def test_nothing_is_silently_wrong_and_no_error_is_raw():
    verdicts = {seed: numerics.play(seed) for seed in range(0, 13_500, 337)}
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
