r"""Every tutorial runs in its short mode and is committed with its outputs."""

from pathlib import Path

import pytest
from notebooks import exit_code, short_sources

nbformat = pytest.importorskip("nbformat")

TUTORIALS = sorted((Path(__file__).parents[2] / "tutorials").glob("*.ipynb"))
SECONDS = 600


def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_committed_with_outputs_and_without_clutter(path):
    cells = code_cells(read(path))
    outputs = [output for cell in cells for output in cell.outputs]
    assert all(cell.execution_count for cell in cells)
    assert any(output.output_type == "stream" for output in outputs)
    assert not [output for output in outputs if output.output_type == "error"]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert "site-packages" not in path.read_text()
    assert "assert " in cells[-1].source
    assert not [cell for cell in cells if "environ" in cell.source]
    for cell in cells:
        assert all(name in cell.source for name in cell.metadata.get("short", {}))


# One of them is quick; the others are as long as all other tests together.
QUICK = "02"
SLOW = [path for path in TUTORIALS if not path.stem.startswith(QUICK)]
RUNS = [path for path in TUTORIALS if path.stem.startswith(QUICK)]
RUNS += [pytest.param(path, marks=pytest.mark.slow) for path in SLOW]


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_runs_in_short_mode(path, tmp_path):
    assert exit_code(short_sources(read(path).cells), tmp_path, SECONDS) == 0


def test_a_cell_that_fails_is_noticed(tmp_path):
    cells = ["x = __import__('os').environ['X']", "assert x == '1'"]
    assert exit_code(cells, tmp_path, SECONDS, X="1") == 0
    assert exit_code(cells, tmp_path, SECONDS, X="2") == 1
