r"""Where things lie, how they are written, and the error of what a caller should change."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

ROOT = Path(__file__).parents[2]
DATA = "KERNELUCB_DATA"


class BenchmarkError(ValueError):
    r"""Says what to change in a command, file or folder; shown without a traceback."""


def write_atomically(path: Path, text: str) -> None:
    r"""Write a file that is there in full or not at all, whenever this is interrupted."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".partial-{os.getpid()}-{path.name}")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())  # else a machine that goes leaves an empty file
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def load_data(name: str) -> dict[str, np.ndarray]:
    r"""The arrays of ``<name>.npz``, a data set that is not part of the repository.

    The folder is the environment variable ``KERNELUCB_DATA``, or ``../shared/data`` beside
    the repository.

    Raises:
        FileNotFoundError: If the file is absent.
    """
    path = _data_path(f"{name}.npz")
    with np.load(path, allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}


def table_of(name: str) -> tuple[Tensor, Tensor]:
    r"""Distinct settings in the unit cube, and the mean outcome of each, of ``<name>.csv``.

    Errors as for ``load_data``.
    """
    X, replicates = replicates_of(name)
    return X, torch.tensor([each.mean() for each in replicates], dtype=torch.float64)


def replicates_of(name: str) -> tuple[Tensor, list[np.ndarray]]:
    r"""Distinct settings in the unit cube, and all outcomes of each, of ``<name>.csv``.

    The outcome is the column ``yield`` where there is one, else the last; columns of text
    count as categories, one column of 0 and 1 for each.
    """
    frame = pd.read_csv(_data_path(f"{name}.csv"), encoding="utf-8-sig")
    if "yield" in frame.columns:  # other columns name the same categories again
        names = ["Base", "Ligand", "Solvent", "Concentration", "Temp_C", "yield"]
        frame = pd.get_dummies(frame[names], columns=names[:3], dtype=float)
        frame["yield"] = frame.pop("yield")
    groups = frame.groupby([*frame.columns[:-1]])[frame.columns[-1]]
    settings = [*groups.groups]
    X = torch.tensor(settings, dtype=torch.float64)
    X = (X - X.amin(0)) / (X.amax(0) - X.amin(0))
    return X, [group.to_numpy(dtype=np.float64) for _, group in groups]


def _data_path(name: str) -> Path:
    folder = Path(os.environ.get(DATA) or ROOT.parent / "shared" / "data")
    path = folder / name
    if not path.is_file():
        raise FileNotFoundError(
            f"The data set {path} is absent: set {DATA} to the folder that holds "
            f"{path.name}. The data are not part of this repository."
        )
    return path
