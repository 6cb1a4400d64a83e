r"""Observations pooled by distinct input, in buffers."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module


class ResizableModule(Module):
    r"""A module whose buffers take the shapes that a saved state has."""

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, *args: Any
    ) -> None:
        for name, buffer in self._buffers.items():
            saved = state_dict.get(prefix + name)
            if buffer is not None and saved is not None and saved.shape != buffer.shape:
                setattr(self, name, buffer.new_empty(saved.shape))
        super()._load_from_state_dict(state_dict, prefix, *args)


class CountedObservations(ResizableModule):
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
        self._positions: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def num_observations(self) -> int:
        r"""Number of observations, repeats included."""
        return int(self.counts.sum())

    def add(self, inputs: Tensor, outcomes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r"""Pool observations whose inputs are equal to the last bit.

        Args:
            inputs: ``n x d`` inputs.
            outcomes: ``n`` outcomes.

        Returns:
            What changed: indices of distinct inputs, numbers and summed outcomes to add.
        """
        if len(self._positions) != len(self):  # after loading a state
            self._positions = {key: at for at, key in enumerate(_keys(self.inputs))}
        known, first = len(self), []
        where = []
        for row, key in enumerate(_keys(inputs)):
            position = self._positions.setdefault(key, len(self._positions))
            if position == known + len(first):
                first.append(row)
            where.append(position)
        index = torch.tensor(where, device=self.inputs.device)
        touched, inverse = index.unique(return_inverse=True)
        counts = self.counts.new_zeros(len(touched))
        counts = counts.index_add(0, inverse, torch.ones_like(outcomes))
        sums = self.sums.new_zeros(len(touched)).index_add(0, inverse, outcomes)
        pad = self.counts.new_zeros(len(first))
        self.inputs = torch.cat([self.inputs, inputs[first]])
        self.counts = torch.cat([self.counts, pad]).index_add(0, touched, counts)
        self.sums = torch.cat([self.sums, pad]).index_add(0, touched, sums)
        return touched, counts, sums


def _keys(inputs: Tensor) -> list[bytes]:
    return [row.tobytes() for row in (inputs + 0.0).cpu().numpy()]  # -0.0 becomes 0.0
