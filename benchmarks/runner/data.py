r"""Data sets of the papers, which are not part of the repository."""

import os
from pathlib import Path

import numpy as np

from benchmarks.runner.folders import ROOT

VARIABLE = "KERNELUCB_DATA"


def load_data(name: str) -> dict[str, np.ndarray]:
    r"""The arrays of ``<name>.npz``.

    The folder is the environment variable ``KERNELUCB_DATA``, or ``../shared/data`` beside
    the repository.

    Raises:
        FileNotFoundError: If the file is absent.
    """
    folder = Path(os.environ.get(VARIABLE) or ROOT.parent / "shared" / "data")
    path = folder / f"{name}.npz"
    if not path.is_file():
        raise FileNotFoundError(
            f"The data set {path} is absent: set {VARIABLE} to the folder that holds "
            f"{path.name}. The data are not part of this repository."
        )
    with np.load(path, allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}
