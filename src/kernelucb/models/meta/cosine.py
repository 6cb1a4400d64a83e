r"""Cosine basis functions, trained on the tasks."""

from collections.abc import Sequence
from copy import deepcopy

import torch
from botorch.exceptions import BotorchTensorDimensionError
from rich.progress import Progress
from torch import Tensor
from torch.nn import Module, Parameter

from kernelucb._numerics.checks import finite
from kernelucb.models.meta.tasks import TaskGroup

_SCALES = (1.0, 2.0, 4.0, 8.0, 16.0)  # first guesses of the frequencies' size
_HELD_OUT = 0.2
_STEPS, _PATIENCE, _RATE = 300, 50, 0.02  # of Adam, on inputs scaled to a range of 1
RIDGE = 1e-6  # of the mean squared feature: keeps a head solvable, and no more


class CosineFeatures(Module):
    r"""``cos(x^T frequencies + phases)``, the basis functions of Wang et al. (2018).

    Args:
        frequencies: ``d x K``.
        phases: ``K``, of the same type.

    Raises:
        BotorchTensorDimensionError: If they are not ``d x K`` and ``K``.
        InputDataError: If a value is not finite.

    Attributes:
        of_the_tasks: Whether a ``FeatureMetaModel`` trained them on its own tasks.
    """

    of_the_tasks = False

    def __init__(self, frequencies: Tensor, phases: Tensor) -> None:
        super().__init__()
        if frequencies.dim() != 2 or frequencies.numel() == 0:
            raise BotorchTensorDimensionError(
                f"frequencies must be `d x K`, got shape {tuple(frequencies.shape)}."
            )
        if phases.shape != frequencies.shape[1:]:
            raise BotorchTensorDimensionError(
                f"phases must have K = {frequencies.shape[1]} values, one for each column "
                f"of frequencies, got shape {tuple(phases.shape)}."
            )
        finite("frequencies", frequencies)
        finite("phases", phases)
        self.frequencies = Parameter(frequencies)
        self.phases = Parameter(phases)

    def forward(self, X: Tensor) -> Tensor:
        r"""``... x K`` features of ``... x d`` inputs."""
        return torch.cos(X @ self.frequencies + self.phases)

    @classmethod
    def train_on(
        cls,
        groups: Sequence[TaskGroup],
        num_features: int,
        seed: int,
        progress: bool,
    ) -> "CosineFeatures":
        r"""A network of one hidden layer with a linear head for each task.

        Each step fits the heads by least squares on a random four fifths of the inputs, and
        takes an Adam step on the features to reduce the error at the other fifth. A fifth
        of all inputs is held out from every step: training stops when the error there has
        not improved for 50 steps, and the best features are kept. Deterministic for a
        given ``seed``.
        """
        generator = torch.Generator().manual_seed(seed)
        stacked = torch.cat([inputs for inputs, _ in groups])
        span = stacked.amax(0) - stacked.amin(0)
        span = torch.where(span > 0, span, 1.0)
        scaled = [TaskGroup(inputs / span, values) for inputs, values in groups]
        kept, held = _split(scaled, generator)

        def unseen_error(features: Module) -> float:
            with torch.no_grad():
                return float(_error(features, kept, held))

        size = (stacked.shape[-1], num_features)
        normal = torch.randn(size, generator=generator, dtype=torch.float64).to(stacked)
        turns = torch.rand(num_features, generator=generator).to(stacked)
        starts = [cls(scale * normal, 2.0 * torch.pi * turns) for scale in _SCALES]
        network = min(starts, key=unseen_error)
        best, least, waited = deepcopy(network), unseen_error(network), 0
        optimizer = torch.optim.Adam(network.parameters(), lr=_RATE)
        with Progress(disable=not progress, transient=True) as bar:
            for _ in bar.track(range(_STEPS), description="basis functions"):
                optimizer.zero_grad()
                _error(network, *_split(kept, generator)).backward()
                optimizer.step()
                error, waited = unseen_error(network), waited + 1
                if error < least:
                    best, least, waited = deepcopy(network), error, 0
                if waited >= _PATIENCE:
                    break
        frequencies = best.frequencies.detach() / span.unsqueeze(-1)
        return cls(frequencies, best.phases.detach()).requires_grad_(False)


def _split(
    groups: Sequence[TaskGroup], generator: torch.Generator
) -> tuple[list[TaskGroup], list[TaskGroup]]:
    r"""A random part of each group's inputs, and the fifth of them that is held out."""
    kept, held = list[TaskGroup](), list[TaskGroup]()
    for inputs, values in groups:
        order = torch.randperm(len(inputs), generator=generator)
        cut = max(1, round(len(order) * (1.0 - _HELD_OUT)))
        for part, index in ((kept, order[:cut]), (held, order[cut:])):
            part.append(TaskGroup(inputs[index], values[index]))
    return kept, held


def _error(
    features: Module, fitted: Sequence[TaskGroup], predicted: Sequence[TaskGroup]
) -> Tensor:
    r"""Mean squared error at ``predicted`` of heads that were fitted to ``fitted``."""
    total, count = fitted[0].values.new_zeros(()), 0
    for fit, rest in zip(fitted, predicted, strict=True):
        design = features(fit.inputs)
        gram = design.mT @ design
        ridge = RIDGE * len(design) * torch.eye(len(gram)).to(gram)
        heads = torch.linalg.solve(gram + ridge, design.mT @ fit.values)
        total = total + (features(rest.inputs) @ heads - rest.values).square().sum()
        count += rest.values.numel()
    return total / max(count, 1)
