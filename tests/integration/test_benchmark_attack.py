r"""The attack kept as a benchmark, in short: nothing silently wrong, no raw error."""

import pytest
import torch

from benchmarks.attack import numerics
from benchmarks.attack.bounds import KINDS, Attacked
from benchmarks.attack.problems import make_problem
from benchmarks.attack.verdicts import judge
from benchmarks.runner import stream


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_nothing_is_silently_wrong_and_no_error_is_raw():
    verdicts = {seed: numerics.play(seed) for seed in range(0, 13_500, 337)}
    bad = [(s, *v) for s, v in verdicts.items() if v.kind in ("untyped", "wrong")]
    assert not bad, "\n".join(map(str, bad))


def wrong_bands():
    r"""The band as it is, and what is wrong with others, by the check that says so."""
    problem = make_problem(1)
    attacked = KINDS["dual"].build(problem, problem.norm, stream(1))

    def changed(change):
        def bounds(X):
            lower, upper = attacked.bounds(X)
            return change(lower, upper, upper - lower)

        return problem, Attacked(bounds)

    return {
        "": (problem, attacked),
        "truth outside": changed(lambda low, up, width: (up - 1e-3 * width, up)),
        "alone it differs": changed(
            lambda low, up, width: (low, up + 1e-3 * len(up) * width)
        ),
        "bounds are not finite": changed(lambda low, up, width: (low * torch.nan, up)),
    }


@pytest.mark.parametrize(
    "words", ["", "truth outside", "alone it differs", "bounds are not finite"]
)
def test_what_is_wrong_is_seen(words):
    problem, attacked = wrong_bands()[words]
    verdict = judge(lambda: numerics.check_band(attacked, problem, True, stream(1)))
    assert verdict.kind == ("wrong" if words else "ok")
    assert verdict.message.startswith(words)
