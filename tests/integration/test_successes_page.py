r"""What the page on successes and counts prints, runs and says is so."""

import re
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from problems import frozen_kernel, likelihood_ucb, uniform
from tolerances import REARRANGED

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "successes.md").read_text()


@pytest.mark.filterwarnings("ignore::botorch.exceptions.InputDataWarning")  # of 0 and 1
def test_the_code_runs_as_printed(capsys):
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        exec(block, names)
    output = capsys.readouterr().out
    assert "certified, if what was given is true" in output
    assert re.search(r"^certified: at most 0\.\d\d from the best", output, re.MULTILINE)
    assert "heuristic: kernel, mean estimated - certified" in output
    assert bool((names["lower"] > 0.0).all() and (names["upper"] < 1.0).all())
    assert 0 < int(names["safe_set"].is_safe(names["X"]).sum()) < len(names["X"])


def test_a_batch_is_the_sum_of_its_parts():
    X, kernel = uniform(4, 1, 0), frozen_kernel("rbf", 0.3)
    tested, survived = torch.tensor([3, 1, 5, 2]), torch.tensor([2, 1, 4, 0])
    rows = X.repeat_interleave(tested, 0)
    numbers = zip(tested.tolist(), survived.tolist(), strict=True)
    parts = torch.cat([torch.arange(n) < k for n, k in numbers]).double()
    single = likelihood_ucb(rows, parts, kernel, norm_bound=3.0)
    batch = {"likelihood": "binomial", "num_trials": tested.double()}
    whole = likelihood_ucb(X, survived.double(), kernel, norm_bound=3.0, **batch)
    line = uniform(9, 1, 1)
    assert_close(single.bounds(line), whole.bounds(line), rtol=0.0, atol=REARRANGED)


@pytest.mark.parametrize(("norm", "lowest"), [(2, 12), (3, 5), (4, 2)])
def test_what_a_norm_bound_allows(norm, lowest):
    low, high = torch.sigmoid(torch.tensor([-norm, norm])).mul(100).round().int().tolist()
    assert (low, high) == (lowest, 100 - lowest)
    words = f"{low} to {high} %"
    assert f"{words} for $B={norm}$" in PAGE or f"{words} for {norm}" in PAGE
