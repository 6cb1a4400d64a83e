r"""The Wang et al. benchmark in a tiny size: the paper's protocol."""

import math

import pytest
import torch

pytest.importorskip("joblib", reason="the benchmark needs kernelucb[bench]")


@pytest.mark.usefixtures("small_data")
def test_the_arms_are_those_of_the_released_protocol():
    r"""Against Eqs. 3, 4 and 12 written out: leave one out, no repeats."""
    from benchmarks.papers.wang_2018.__main__ import STUDY, play
    from benchmarks.papers.wang_2018.grasp import grasp_data

    task = STUDY.tables["grasp"].runs[0] | {"evaluations": 6}
    assert (task["method"], task["problem"]) == ("pem_ucb", 0)
    truth, others = grasp_data()[0].split([1, len(grasp_data()[0]) - 1])
    mean, k, count, truth = others.mean(0), torch.cov(others.mT), len(others), truth[0]
    played, values = [], play(task)["values"]
    for t in range(6):
        gain = k[:, played] @ torch.linalg.pinv(k[played][:, played], hermitian=True)
        left = (k - gain @ k[played]).diagonal().clamp_min(0.0) * (count - 1)
        log, n = math.log(600.0), t + 1
        zeta = math.sqrt(2.0 * math.log(300.0)) + math.sqrt(
            6.0
            * (count - 3 + n + 2.0 * math.sqrt(n * log) + 2.0 * log)
            / (0.01 * count * (count - n - 1))
        )
        zeta /= math.sqrt(1.0 - 2.0 * math.sqrt(log / (count - n)))
        deviation = (left / (count - t - 1)).sqrt()
        score = mean + gain @ (truth[played] - mean[played]) + zeta * deviation
        score[played] = -torch.inf
        played.append(int(score.argmax()))
        assert values[t] == float(truth[played[-1]])
