r"""The referee sees what changes, and the parts that round-off does not move stand."""

import json
import math

import pytest

from benchmarks import house
from benchmarks.golden import __main__ as golden

OLD = {
    "lower bound": [0.0, 1.0], "upper bound": [1.0, 3.0], "value": [1.0, 3.0],
    "optimum box": [2.0], "words": "certified", "mask": [0.0, 1.0],
}  # fmt: skip


@pytest.mark.parametrize("part", ["baselines", "meta"])
def test_the_numbers_stand(part):
    golden.BENCHMARK.main(["compare", "--part", part])


@pytest.mark.parametrize(
    ("changed", "size"),
    [
        ({"upper bound": [1.0, 3.0 + 2e-3]}, 1e-3),  # of the width there
        ({"optimum box": [2.0 + 2e-3]}, 1e-3),
        ({"words": "heuristic"}, math.inf),
        ({"mask": [1.0, 1.0]}, 1.0),
        ({"value": [1.0]}, math.inf),
        ({"value": [1.0, math.nan]}, math.inf),
    ],
)
def test_sees_a_change(changed, size):
    found = dict(golden.differences(OLD, OLD | changed))
    (name,) = changed
    assert found.pop(name) == pytest.approx(size)
    assert not any(found.values())
    assert size > golden.allowed(name, {})


def test_a_quantity_that_is_gone_is_a_change():
    found = dict(golden.differences(OLD, {n: v for n, v in OLD.items() if n != "mask"}))
    assert found["mask"] == math.inf


def test_does_not_freeze_by_accident():
    with pytest.raises(SystemExit, match="overwrites the referee"):
        golden.BENCHMARK.main(["freeze"])


def test_the_size_of_the_house(capsys):
    text = (
        '"""Words."""\n\n# Why.\nx = """\nkept\n"""\ndef f():\n    "Doc."\n    return x\n'
    )
    assert house.code_lines(text) == {4, 5, 6, 7, 9}
    house.BENCHMARK.main(["--json"])
    figures = json.loads(capsys.readouterr().out)
    assert figures["src"]["files"] == len(list(house.PACKAGE.rglob("*.py")))
    assert figures["entered"]["kernelucb"]["functions"] > 1
    assert figures.keys() == json.loads(house.BEFORE.read_text(encoding="utf-8")).keys()
