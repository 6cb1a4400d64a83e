r"""Saved states of a ``BKBModel``: every entry is checked before the model takes any."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from kernelucb._numerics import states
from kernelucb._numerics.checks import LARGEST
from kernelucb._numerics.exclusive import Exclusive
from kernelucb._numerics.frozen import draft_of
from kernelucb.exceptions import StateError
from kernelucb.models.bkb.strategy import BKBVariationalStrategy
from kernelucb.regression.pooling import (
    LARGEST_COUNT,
    Tally,
    check_tally,
    distinct_rows,
)

_STRATEGY = "model.variational_strategy."
_STATE = _STRATEGY + "state."
_TRANSFORMS = {"input_transform", "outcome_transform"}
_TALLY = ("distinct_inputs", "counts", "sums", "squares")


class CheckedLoading(Module):
    r"""Takes a saved state as a whole or not at all, also as a part of another module."""

    dimension: int
    _exclusive: Exclusive
    _learned: set[str]

    def load_state_dict(
        self, state_dict: Any, strict: bool = True, assign: bool = False, **_: Any
    ) -> Any:
        r"""Resume from the state of a model made with the same arguments.

        Args:
            state_dict: As saved; copied.
            strict: For BoTorch; all entries are wanted in any case, since only some of
                them would make a mixture of two models.
            assign: For torch; entries are copied in any case.

        Raises:
            StateError: If entries are missing or not what they should be, or are of a model
                with other arguments. The model is as before then.
        """
        if not isinstance(state_dict, Mapping):
            raise StateError(
                f"The state of BKBModel must be a mapping, got {type(state_dict).__name__}."
            )
        return Module.load_state_dict(self, state_dict, strict)

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, *arguments: Any, **options: Any
    ) -> None:
        r"""Called for the module itself and within another one.

        After this the parts are loaded one by one, and find what is there already.
        """
        saved = {
            name.removeprefix(prefix) if prefix else name: value
            for name, value in state_dict.items()
            if not prefix or name.startswith(prefix)
        }
        with self._exclusive, torch.no_grad():
            entries = _read_entries(self.state_dict(), saved, self._learned)
            self._modules = _loaded_modules(self._modules, entries, self.dimension)
        super()._load_from_state_dict(state_dict, prefix, *arguments, **options)


def _read_entries(
    own: Mapping[str, Tensor], saved: Any, learned: set[str]
) -> dict[str, Any]:
    r"""Checked copies of the entries of a saved state.

    Args:
        own: The model's state.
        saved: What was saved.
        learned: Names of modules whose tensors are learned from the data; those of all
            others must be the model's own.

    Raises:
        StateError: If an entry is missing, unknown, or not what it should be.
    """
    dimension = own[_STRATEGY + "inducing_points"].shape[-1]
    vector, matrix = (None,), (None, dimension)
    inputs = states.reals(matrix, -LARGEST, LARGEST)
    readers: dict[str, states.Reader] = {
        _STRATEGY + "inducing_points": inputs,
        _STATE + "inducing_index": states.wholes(vector, 0),
        _STATE + "generator_state": states.generator_state,
        _STATE + "prior_values": states.reals((None, None)),
        _STATE + "distinct_inputs": inputs,
        _STATE + "counts": states.reals(vector, 1.0, LARGEST_COUNT),
        _STATE + "sums": states.reals(vector),
        _STATE + "squares": states.reals(vector, 0.0),
    }
    for name, tensor in own.items():
        # A flag says that a transform is trained, as the model's own is.
        free = name.split(".")[0] in learned and tensor.is_floating_point()
        free_reader = states.reals(tensor.shape, -LARGEST, LARGEST)
        reader = free_reader if free else _equal(tensor)
        readers.setdefault(name, reader)
    entries = states.read_entries("BKBModel", saved, readers)
    tally = Tally(*(entries[_STATE + name] for name in _TALLY))
    _check_observations(tally)
    _check_inducing(entries, tally.inputs)
    return entries


def _check_observations(tally: Tally) -> None:
    inputs, counts, sums, squares = tally
    if not 0 < len(inputs) == len(counts) == len(sums) == len(squares):
        raise StateError(
            "distinct_inputs, counts, sums and squares must be as many, one at least."
        )
    if len(distinct_rows(inputs)[0]) < len(inputs):
        raise StateError("distinct_inputs must differ from each other.")
    check_tally(counts, sums, squares)


def _check_inducing(entries: Mapping[str, Tensor], inputs: Tensor) -> None:
    index = entries[_STATE + "inducing_index"]
    if not 0 < len(index) == len(index.unique()) or int(index.max()) >= len(inputs):
        raise StateError("inducing_index must hold different inputs of the observations.")
    if not torch.equal(inputs[index], entries[_STRATEGY + "inducing_points"]):
        raise StateError("inducing_points must be the inputs at inducing_index.")


def _loaded_modules(
    modules: Mapping[str, Any], entries: Mapping[str, Tensor], dimension: int
) -> dict[str, Any]:
    r"""The modules of a model with checked entries in place of their own tensors.

    Args:
        modules: Those of the model, which stay as they are.
        entries: What ``_read_entries`` returned.
        dimension: Number of raw input columns.

    Raises:
        StateError: If a transform makes no sense, or the posterior is not finite.
    """
    loaded = dict(modules)
    for name in _TRANSFORMS & modules.keys():
        loaded[name] = deepcopy(modules[name])
        own = loaded[name].state_dict()
        loaded[name].load_state_dict({key: entries[f"{name}.{key}"] for key in own})
    _check_transforms(loaded, entries, dimension)
    gp = loaded["model"] = draft_of(modules["model"])
    own = gp.variational_strategy.state
    part = {
        name.removeprefix(_STATE): value.to(own.counts.device)
        for name, value in entries.items()
    }
    tally = Tally(*(part[name] for name in _TALLY))
    state = own.replaced(tally, part["inducing_index"], part["generator_state"].cpu())
    _check_kernel(state.prior_values, part["prior_values"])
    state.prior_values = part["prior_values"]
    gp.variational_strategy = BKBVariationalStrategy(gp, state)
    return loaded


def _check_kernel(own: Tensor, saved: Tensor) -> None:
    r"""The same kernel gives the same values."""
    count = len(saved)
    fits = 0 < count <= len(own) and saved.shape == (count, count)
    if not fits or not states.same_values(saved, own[:count, :count]):
        raise StateError(
            "prior_values are those of another kernel; build the model with the same."
        )


def _check_transforms(
    modules: Mapping[str, Any], entries: Mapping[str, Tensor], dimension: int
) -> None:
    r"""Loaded transforms must be finite, tell points apart, and rise with the outcome."""
    probe = torch.tensor([[0.0], [1.0], [2.0]]).to(entries[_STRATEGY + "inducing_points"])
    if "input_transform" in modules:
        values = modules["input_transform"](probe.expand(-1, dimension))
        if not bool(values.isfinite().all()) or torch.equal(values[0], values[1]):
            raise StateError("input_transform does not tell inputs apart.")
    if "outcome_transform" in modules:
        values = modules["outcome_transform"].untransform(probe)[0]
        if not bool(values.isfinite().all()) or not bool((values.diff(dim=0) > 0.0).all()):
            raise StateError("outcome_transform does not rise with the outcome.")
    for name, square in entries.items():  # those of Standardize
        if name.endswith("._stdvs_sq"):
            scale = entries[name.removesuffix("_stdvs_sq") + "stdvs"]
            if not torch.equal(scale.square(), square):
                raise StateError(f"{name} must be the squares of stdvs.")


def _equal(own: Tensor) -> states.Reader:
    r"""Reader of a tensor that was given when the model was made."""

    def read(name: str, value: Any) -> Tensor:
        same = isinstance(value, Tensor) and value.dtype == own.dtype
        if not same or not torch.equal(value.detach().to(own.device), own):
            raise StateError(
                f"{name} is not what it is here; build the model with the saved arguments."
            )
        return own.detach().clone()

    return read
