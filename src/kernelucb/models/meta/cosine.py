r"""Cosine basis functions, trained on the tasks."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from rich.progress import Progress
from torch import Tensor
from torch.nn import Module, Parameter

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import finite, tensor

_SCALES = (1.0, 2.0, 4.0, 8.0, 16.0)  # first guesses of the frequencies, per input range
_HELD_OUT = 0.2
RIDGE = 1e-6  # of the mean squared feature: keeps a head solvable, and no more


class TaskGroup(NamedTuple):
    r"""Tasks that were observed at the same inputs.

    Attributes:
        inputs: ``m x d``.
        values: ``m x n``, one column for each task.
    """

    inputs: Tensor
    values: Tensor


class CosineFeatures(Module):
    r"""``cos(x^T frequencies + phases)``, the basis functions of Wang et al. (2018).

    Args:
        frequencies: ``d x K``.
        phases: ``K``, of the same type.

    Raises:
        BotorchTensorDimensionError: If the shapes are others.
        InputDataError: If a value is not finite, or the types differ.
    """

    @checked
    def __init__(self, frequencies: Tensor, phases: Tensor) -> None:
        super().__init__()
        if frequencies.dim() != 2 or frequencies.numel() == 0:
            raise BotorchTensorDimensionError(
                f"frequencies must be `d x K`, got shape {tuple(frequencies.shape)}."
            )
        if phases.shape != frequencies.shape[1:]:
            raise BotorchTensorDimensionError(
                f"phases must have K = {frequencies.shape[1]} values, as frequencies has "
                f"columns, got shape {tuple(phases.shape)}."
            )
        _check_type("phases", phases, frequencies)
        finite("frequencies", frequencies)
        finite("phases", phases)
        self.frequencies = Parameter(frequencies)
        self.phases = Parameter(phases)

    def forward(self, X: Tensor) -> Tensor:
        r"""``... x K`` features of ``... x d`` inputs.

        Raises:
            BotorchTensorDimensionError: If there is another number of columns.
            InputDataError: If the inputs are of another type than the frequencies.
        """
        if tensor("X", X).dim() < 1 or X.shape[-1] != len(self.frequencies):
            raise BotorchTensorDimensionError(
                f"X must be `... x {len(self.frequencies)}`, got shape {tuple(X.shape)}."
            )
        _check_type("X", X, self.frequencies)
        return torch.cos(X @ self.frequencies + self.phases)

    @classmethod
    def train_on(
        cls,
        groups: Sequence[TaskGroup],
        num_features: int,
        *,
        steps: int = 300,
        patience: int = 50,
        learning_rate: float = 0.02,
        seed: int = 0,
        progress: bool = True,
    ) -> "CosineFeatures":
        r"""A network of one hidden layer with a linear head for each task.

        The heads are solved for, not trained: each step fits them on a random four fifths
        of the inputs and descends on the error at the rest (Adam). Training stops when the
        error on a fifth of the inputs that no step sees has not improved for ``patience``
        steps; the best features are kept. Deterministic for a given ``seed``.

        Args:
            groups: The tasks, grouped by their inputs.
            num_features: ``K``.
            steps: Largest number of steps.
            patience: Steps without improvement before training stops.
            learning_rate: Of Adam, with frequencies in units of the inverse input range.
            seed: Of the first frequencies and all splits.
            progress: Show a progress bar.
        """
        generator = torch.Generator().manual_seed(seed)
        stacked = torch.cat([group.inputs for group in groups])
        span = stacked.amax(0) - stacked.amin(0)
        span = torch.where(span > 0, span, 1.0)
        kept, held = zip(
            *(_split(group, generator, _HELD_OUT) for group in groups), strict=True
        )
        size = (stacked.shape[-1], num_features)
        normal = torch.randn(size, generator=generator, dtype=torch.float64).to(stacked)
        turns = torch.rand(num_features, generator=generator).to(stacked)
        phases = 2.0 * torch.pi * turns
        starts = [cls(scale * normal, phases) for scale in _SCALES]

        def unseen_error(features: Module) -> float:
            with torch.no_grad():
                return float(_error(features, kept, held, span))

        network = min(starts, key=unseen_error)
        best, waited = unseen_error(network), 0
        state = _copied_state(network)
        optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate)
        with Progress(disable=not progress, transient=True) as bar:
            task = bar.add_task("basis functions", total=steps)
            for _ in range(steps):
                parts = [_split(group, generator, _HELD_OUT) for group in kept]
                fitted, predicted = zip(*parts, strict=True)
                loss = _error(network, fitted, predicted, span)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                error, waited = unseen_error(network), waited + 1
                if error < best:
                    best, waited, state = error, 0, _copied_state(network)
                bar.update(task, advance=1)
                if waited >= patience:
                    break
        frequencies = state["frequencies"] / span.unsqueeze(-1)
        return cls(frequencies, state["phases"]).requires_grad_(False)


def _check_type(name: str, value: Tensor, frequencies: Tensor) -> None:
    if value.dtype != frequencies.dtype:
        raise InputDataError(
            f"{name} is {value.dtype} and frequencies {frequencies.dtype}; give both the "
            "same type."
        )


def _split(
    group: TaskGroup, generator: torch.Generator, share: float
) -> tuple[TaskGroup, TaskGroup]:
    r"""A random part of the inputs, and the share of them that is left."""
    order = torch.randperm(len(group.inputs), generator=generator)
    cut = max(1, round(len(order) * (1.0 - share)))
    return tuple(  # pyright: ignore[reportReturnType]
        TaskGroup(group.inputs[part], group.values[part])
        for part in (order[:cut], order[cut:])
    )


def _error(
    features: Module,
    fitted: Sequence[TaskGroup],
    predicted: Sequence[TaskGroup],
    span: Tensor,
) -> Tensor:
    r"""Mean squared error at other inputs of heads that were fitted to some."""
    total, count = span.new_zeros(()), 0
    for fit, rest in zip(fitted, predicted, strict=True):
        design = features(fit.inputs / span)
        gram = design.mT @ design
        ridge = RIDGE * len(design) * torch.eye(len(gram)).to(gram)
        heads = torch.linalg.solve(gram + ridge, design.mT @ fit.values)
        total = total + (features(rest.inputs / span) @ heads - rest.values).square().sum()
        count += rest.values.numel()
    return total / max(count, 1)


def _copied_state(network: Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in network.state_dict().items()}
