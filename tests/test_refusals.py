r"""Every refusal of the package, one row each: a call, the error, and words of it."""

from importlib import import_module
from pathlib import Path

import pytest

ROOMS = sorted(path.stem for path in (Path(__file__).parent / "refusals").glob("*.py"))
ROWS = [
    pytest.param(call, error, words, id=f"{room}: {label}")
    for room in ROOMS
    for label, call, error, words in import_module(f"refusals.{room}").ROWS
]


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")
@pytest.mark.parametrize(("call", "error", "words"), ROWS)
def test_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
