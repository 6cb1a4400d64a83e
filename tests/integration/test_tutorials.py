r"""Every tutorial runs in its short mode and is committed with its outputs."""

from pathlib import Path

import pytest
from notebooks import exit_code, short_sources

nbformat = pytest.importorskip("nbformat")

TUTORIALS = sorted((Path(__file__).parents[2] / "tutorials").glob("*.ipynb"))
SECONDS = 600


def cells_of(path):
    return nbformat.read(path, as_version=4).cells


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_committed_with_outputs_and_without_clutter(path):
    cells = [cell for cell in cells_of(path) if cell.cell_type == "code"]
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


# As long as all other tests together; the process that they come from imports everything.
@pytest.mark.slow
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_runs_in_short_mode(path, tmp_path):
    assert exit_code(short_sources(cells_of(path)), tmp_path, SECONDS) == 0


@pytest.mark.slow  # in a process of its own, as above
def test_a_cell_that_fails_is_noticed(tmp_path):
    cells = ["x = __import__('os').environ['X']", "assert x == '1'"]
    assert exit_code(cells, tmp_path, SECONDS, X="1") == 0
    assert exit_code(cells, tmp_path, SECONDS, X="2") == 1
