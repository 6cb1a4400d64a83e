r"""Every tutorial runs in its short mode and is committed with its outputs."""

from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

TUTORIALS = sorted((Path(__file__).parents[2] / "tutorials").glob("*.ipynb"))
CELL_SECONDS = 120

# Both come from how Jupyter's own processes talk and end, not from the notebook: a socket
# that the event loop closes late, and a notice about unencrypted local connections.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_tutorials_were_found():
    assert len(TUTORIALS) >= 2


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


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_runs_in_short_mode(path, monkeypatch, tmp_path):
    monkeypatch.setenv("KERNELUCB_TUTORIAL_SHORT", "1")
    # The kernel inherits it; the backend of this process may not exist there.
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    client = nbclient.NotebookClient(
        read(path),
        timeout=CELL_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()  # raises CellExecutionError where a cell fails
