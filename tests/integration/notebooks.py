r"""Notebooks, each in a process of its own that starts with everything imported."""

import multiprocessing
import os
from pathlib import Path
from typing import Any

Cell = Any  # nbformat's

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    ["IPython", "matplotlib_inline.backend_inline", "kernelucb.ax", "kernelucb.plotting"]
)


def short_sources(cells: list[Cell]) -> list[str]:
    r"""Code with the numbers of a short run, which a cell of parameters keeps as metadata.

    Claims that only the numbers in the notebook can meet are in cells tagged "full".
    """
    sources: list[str] = []
    for cell in cells:
        if cell.cell_type == "code" and "full" not in cell.metadata.get("tags", []):
            sources.append(cell.source)
            short = cell.metadata.get("short", {})
            sources += [f"{name} = {value!r}" for name, value in short.items()]
    return sources


def run_cells(sources: list[str], folder: Path, environment: dict[str, str]) -> None:
    r"""As Jupyter's kernel does: IPython's shell, with the figures of every cell drawn."""
    os.chdir(folder)
    os.environ.update(environment, MPLBACKEND="module://matplotlib_inline.backend_inline")
    from IPython.core.interactiveshell import InteractiveShell
    from matplotlib_inline.backend_inline import configure_inline_support

    shell = InteractiveShell.instance()
    configure_inline_support(shell, os.environ["MPLBACKEND"])
    for source in sources:
        shell.run_cell(source).raise_error()


def exit_code(sources: list[str], folder: Path, seconds: float, **environment: str):
    r"""Of the process that runs the cells; negative where it had to be ended."""
    process = SERVER.Process(target=run_cells, args=(sources, folder, environment))
    process.start()
    process.join(seconds)
    process.kill()
    process.join()
    return process.exitcode
