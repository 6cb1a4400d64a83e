r"""The house is measured as it says."""

import json

import pytest

from benchmarks import house


@pytest.mark.slow
def test_the_size_of_the_house(capsys):
    text = '"""W."""\n\n# Why.\nx = """\nkept\n"""\ndef f():\n    "Doc."\n    return x\n'
    assert house.code_lines(text) == {4, 5, 6, 7, 9}
    house.main(["--json"])
    figures = json.loads(capsys.readouterr().out)
    assert figures["src"]["files"] == len(list(house.PACKAGE.rglob("*.py")))
    assert figures["entered"]["kernelucb"]["functions"] > 1
