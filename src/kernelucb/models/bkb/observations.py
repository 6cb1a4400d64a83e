r"""Observations pooled by distinct input, in buffers."""

from collections.abc import Mapping
from copy import copy
from typing import Any, NamedTuple, TypeVar

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor
from torch.nn import Module

_Module = TypeVar("_Module", bound=Module)


def draft_of(module: _Module) -> _Module:
    r"""A copy whose tensors and modules can be replaced without those of the original."""
    draft = copy(module)
    draft._buffers, draft._modules = dict(module._buffers), dict(module._modules)
    return draft


class PartOfModel(Module):
    r"""A module that is loaded with all of the ``BKBModel``, which replaces it.

    Loading goes through the parts as well, and finds there what the model has put in.
    """

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, *args: Any
    ) -> None:
        for name, buffer in self._buffers.items():
            saved = state_dict.get(prefix + name)
            if buffer is None or not torch.is_tensor(saved):
                continue
            if not torch.equal(saved.to(buffer), buffer):
                raise UnsupportedError(
                    f"{type(self).__name__} is loaded with the model that it is part of: "
                    "call load_state_dict of the BKBModel."
                )
        super()._load_from_state_dict(state_dict, prefix, *args)


class Change(NamedTuple):
    r"""What observations add.

    Attributes:
        index: ``k`` distinct inputs, ascending.
        counts: ``k`` numbers of observations there.
        sums: ``k`` sums of outcomes.
    """

    index: Tensor
    counts: Tensor
    sums: Tensor


class CountedObservations(PartOfModel):
    r"""Distinct inputs in the order they came, how often each came, and summed outcomes.

    Attributes:
        inputs: ``u x d`` distinct inputs.
        counts: ``u`` numbers of observations.
        sums: ``u`` sums of outcomes.
    """

    inputs: Tensor
    counts: Tensor
    sums: Tensor

    def __init__(self, dimension: int, device: torch.device) -> None:
        super().__init__()
        self.register_buffer(
            "inputs", torch.empty(0, dimension, dtype=torch.float64, device=device)
        )
        self.register_buffer("counts", self.inputs.new_empty(0))
        self.register_buffer("sums", self.inputs.new_empty(0))
        # Shared with earlier observations; whose rows are fewer than these makes its own.
        self._positions: dict[bytes, int] = {}

    def replaced(
        self, inputs: Tensor, counts: Tensor, sums: Tensor
    ) -> "CountedObservations":
        r"""Observations with these tensors; see the class."""
        other = draft_of(self)
        other.inputs, other.counts, other.sums = inputs, counts, sums
        return other

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def num_observations(self) -> int:
        r"""Number of observations, repeats included."""
        return int(self.counts.sum())

    def extended(
        self, inputs: Tensor, outcomes: Tensor
    ) -> tuple["CountedObservations", Change]:
        r"""Pooled with more observations, whose inputs are equal to the last bit.

        Args:
            inputs: ``n x d`` inputs.
            outcomes: ``n`` outcomes.
        """
        positions = self._positions
        if len(positions) != len(self):  # a loaded state, or rows that were not kept
            positions = {key: at for at, key in enumerate(input_keys(self.inputs))}
        known: dict[bytes, int] = {}
        first, where = [], []
        for row, key in enumerate(input_keys(inputs)):
            position = positions.get(key, known.get(key))
            if position is None:
                position = known[key] = len(self) + len(first)
                first.append(row)
            where.append(position)
        index = torch.tensor(where, device=self.inputs.device)
        touched, inverse = index.unique(return_inverse=True)
        counts = self.counts.new_zeros(len(touched))
        counts = counts.index_add(0, inverse, torch.ones_like(outcomes))
        sums = self.sums.new_zeros(len(touched)).index_add(0, inverse, outcomes)
        pad = self.counts.new_zeros(len(first))
        extended = self.replaced(
            torch.cat([self.inputs, inputs[first]]),
            torch.cat([self.counts, pad]).index_add(0, touched, counts),
            torch.cat([self.sums, pad]).index_add(0, touched, sums),
        )
        positions.update(known)
        extended._positions = positions
        return extended, Change(touched, counts, sums)


def input_keys(inputs: Tensor) -> list[bytes]:
    r"""What tells rows apart."""
    return [row.tobytes() for row in (inputs + 0.0).cpu().numpy()]  # -0.0 becomes 0.0
