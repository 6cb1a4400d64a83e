r"""What Ax must know to store an experiment with these bounds; saving it without a gap."""

# Ax has no public way to what is read here.
# pyright: reportPrivateUsage=false

import json
import os
from math import isfinite
from pathlib import Path
from typing import Any

import pandas as pd
from ax.api.client import Client
from ax.generation_strategy.generation_node import GenerationNode
from ax.storage import botorch_modular_registry as registry
from ax.storage.json_store.encoders import generation_node_to_dict
from ax.storage.json_store.registry import CORE_DECODER_REGISTRY, CORE_ENCODER_REGISTRY

from kernelucb.acquisition import ConstrainedUCB, GuardedAcquisition
from kernelucb.ax.acquisition import BoundAcquisition
from kernelucb.ax.options import KNOWN, VALUES
from kernelucb.ax.strategy import KernelUCBNode
from kernelucb.models import DiscreteMetaModel, FeatureMetaModel

# Ax's error about a name that it does not know prints the name: these say what to do.
# Experiments that were saved without it can still be read.
_HINT = " (import kernelucb.ax first)"


def register_for_storage() -> None:
    r"""Register bounds, models, value objects and nodes with Ax's storage, by name."""
    for acqf_class in (*KNOWN, ConstrainedUCB, GuardedAcquisition):
        registry.register_acquisition_function(acqf_class)
    registry.register_acquisition(BoundAcquisition)
    hinted = BoundAcquisition.__name__ + _HINT
    registry.ACQUISITION_REGISTRY[BoundAcquisition] = hinted
    registry.REVERSE_ACQUISITION_REGISTRY[hinted] = BoundAcquisition
    for model in (DiscreteMetaModel, FeatureMetaModel):
        registry.register_model(model)
    for value in VALUES:  # Ax encodes them as dataclasses
        CORE_DECODER_REGISTRY[value.__name__] = value
    CORE_ENCODER_REGISTRY[KernelUCBNode] = _node_to_dict
    for name in ("KernelUCBNode", "SafeArmsNode"):
        CORE_DECODER_REGISTRY[name] = CORE_DECODER_REGISTRY[name + _HINT] = KernelUCBNode
    CORE_ENCODER_REGISTRY[pd.DataFrame] = _table_to_dict


def _node_to_dict(node: GenerationNode) -> dict[str, Any]:
    return generation_node_to_dict(node) | {"__type": type(node).__name__ + _HINT}


def _table_to_dict(table: pd.DataFrame) -> dict[str, str]:
    r"""What Ax writes, but numbers in 17 digits: Ax keeps ten decimals in any unit."""
    columns = json.loads(str(table.to_json()))
    texts = {name: json.dumps(rows) for name, rows in columns.items()}
    for name, column in table.select_dtypes("float64").items():
        # The reader is exact to 1e-15 only where one digit stands before the point.
        cells = [f"{value:.16e}" if isfinite(value) else "null" for value in column]
        rows = (f'"{label}":{cell}' for label, cell in zip(table.index, cells, strict=True))
        texts[str(name)] = f"{{{','.join(rows)}}}"
    text = ",".join(f"{json.dumps(name)}:{rows}" for name, rows in texts.items())
    return {"__type": "DataFrame", "value": f"{{{text}}}"}


def save(client: Client, path: str | Path) -> None:
    r"""Save a client so that a kill at any moment leaves a whole file: the old or the new.

    ``Client.save_to_json_file`` empties the file before it writes, so a crash in between
    loses the experiment. This writes the same text to ``<path>.partial`` in the same
    folder, waits until it is on the disk, and then renames it. The next save overwrites a
    ``.partial`` file that was left behind. One process at a time may save to a path.
    ``Client.load_from_json_file`` reads the file, in a new process after
    ``import kernelucb.ax``. (An Ax ``StorageConfig`` with a database
    saves every trial by itself.)

    Example:
        >>> kernelucb.ax.save(client, "experiment.json")  # after every trial
        >>> import kernelucb.ax  # in a new process
        >>> client = Client.load_from_json_file("experiment.json")

    Args:
        client: The Ax client, configured.
        path: The file, new or to be replaced. Where it is a link, what it points to is.

    Raises:
        OSError: If the file cannot be written; what was there stays.
    """
    text = json.dumps(client._to_json_snapshot())
    target = Path(path).resolve()
    partial = target.with_name(f"{target.name}.partial")
    try:
        with partial.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
