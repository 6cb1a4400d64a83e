r"""Estimates, of numbers and of modules, and copies that keep what was estimated."""

from copy import copy, deepcopy
from dataclasses import dataclass
from functools import total_ordering
from typing import Any, NoReturn, TypeVar

import torch
from botorch.exceptions import UnsupportedError
from botorch.models.transforms.input import InputTransform
from torch import Tensor
from torch.nn import Module
from typing_extensions import TypeIs

ModuleT = TypeVar("ModuleT", bound=Module)


@total_ordering
@dataclass(frozen=True, eq=False)
class Estimate:
    r"""A number, or a tensor of noise scales, that this library took from the data.

    It is no float, so it cannot pass for a number that was given: a bound that takes it
    says so in its assumptions. Multiples of it are estimates as well, and it compares as a
    number; anything else needs ``float(estimate)`` (of a tensor ``estimate.value``), which
    is the user's own statement.
    """

    value: Any

    def __float__(self) -> float:
        return float(self.value)

    def __str__(self) -> str:
        numbers = torch.as_tensor(self.value).reshape(-1).tolist()
        return f"{', '.join(f'{number:.4g}' for number in numbers)} (estimated)"

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __mul__(self, factor: object) -> "Estimate":
        return Estimate(self.value * plain(factor))

    __rmul__ = __mul__

    def __truediv__(self, divisor: object) -> "Estimate":
        return Estimate(self.value / plain(divisor))

    def __round__(self, digits: int | None = None) -> "Estimate":
        return Estimate(round(self.value, digits))

    def __eq__(self, other: object) -> bool:
        return bool(self.value == plain(other))

    def __lt__(self, other: object) -> bool:
        return bool(self.value < plain(other))

    def __bool__(self) -> bool:
        return bool(self.value)

    def __hash__(self) -> int:
        return hash(self.value)

    def _refused(self, other: object = None) -> NoReturn:
        raise TypeError(
            f"{self} was estimated from the data; use float(...) of it, which states the "
            "number as yours."
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __rtruediv__ = _refused
    __pow__ = __rpow__ = __neg__ = __abs__ = _refused


class WrittenEstimate(Estimate, float):
    r"""An estimate that JSON writes as a number; one that is read is the reader's own."""

    __array_ufunc__ = None  # NumPy leaves its multiples to `Estimate`


Number = float | Estimate


def is_estimate(value: object) -> TypeIs[Estimate]:
    r"""Whether a number, or a tensor of noise scales, was taken from the data."""
    return isinstance(value, Estimate)


def plain(value: object) -> Any:
    r"""A number or a tensor, whether estimated or not."""
    return value.value if isinstance(value, Estimate) else value


def with_noise(parts: frozenset[str], noise_std: object) -> frozenset[str]:
    r"""Estimated parts of a model once its noise scale is replaced by ``noise_std``."""
    noise = {"noise"} if is_estimate(noise_std) else set[str]()
    return (parts - {"noise"}) | noise


def with_numbers(
    parts: frozenset[str], norm_bound: object, noise_std: object
) -> frozenset[str]:
    r"""Estimated parts, with ``"norm"`` where the norm bound is an estimate."""
    norm = {"norm"} if is_estimate(norm_bound) else set[str]()
    return with_noise(parts, noise_std) | norm


# What a module remembers: names of its parameters that were trainable before the freeze.
_TRAINED = "_trained_parameters"


def trained_parameters(module: Module) -> frozenset[str]:
    r"""Names of a module's own parameters that are, or were before a freeze, trainable."""
    names: set[str] = set(vars(module).get(_TRAINED, ()))
    for name, parameter in module.named_parameters(recurse=False):
        if parameter.requires_grad:
            names.add(name)
    return frozenset(names)


def remember_trained(module: Module, names: frozenset[str]) -> None:
    r"""Let a module say that these of its parameters, and no others, were trainable."""
    vars(module)[_TRAINED] = names


def trainable(module: Module | None) -> bool:
    r"""Whether a fit would change any of the module's parameters, or may have done so."""
    return module is not None and any(map(trained_parameters, _parts(module)))


def frozen_copy(module: ModuleT, remember: bool = True) -> ModuleT:
    r"""A float64 copy that is not trained; what was trainable counts as estimated.

    With ``remember=False``, for what was trained on other data, it does not.

    Raises:
        UnsupportedError: If it is no module, or cannot be copied.
    """
    parts = _parts(module)
    try:
        frozen = deepcopy(module)
    except (RuntimeError, TypeError) as error:  # tensors computed from others, locks
        raise UnsupportedError(
            f"{type(module).__name__} cannot be copied, and a frozen copy of it is kept: "
            f"{error}. Use one whose tensors are parameters or buffers."
        ) from error
    copies = list(frozen.modules())
    if len(copies) != len(parts):
        raise UnsupportedError(
            f"{type(module).__name__} has other parts than a copy of it, and a frozen copy "
            "is kept; use a kernel or mean that Python's deepcopy copies."
        )
    for copied, part in zip(copies, parts, strict=True):
        if remember:
            remember_trained(copied, trained_parameters(part))
    frozen.eval()  # LCEAKernel's returns nothing
    return frozen.to(torch.float64).requires_grad_(False)


def _parts(module: object) -> list[Module]:
    r"""All modules of a kernel or a mean; what is none, such as a class, is refused."""
    if not isinstance(module, Module):
        raise UnsupportedError(
            f"Expected a GPyTorch kernel or mean, got {module!r}; give one that was built, "
            "such as gpytorch.kernels.RBFKernel()."
        )
    return list(module.modules())


def draft_of(module: ModuleT) -> ModuleT:
    r"""A copy whose tensors and parts can be replaced without those of the original."""
    draft = copy(module)
    own = {name: dict(vars(module)[name]) for name in ("_buffers", "_modules")}
    vars(draft).update(own)
    return draft


def estimated_parts(
    covar_module: Module, mean_module: Module | None = None
) -> frozenset[str]:
    r"""Which of ``"kernel"`` and ``"mean"`` are trainable, so may have been fitted.

    A frozen copy of ours, as states have, of one that was trainable counts as it does.
    """
    parts = {"kernel": covar_module, "mean": mean_module}
    return frozenset(name for name, module in parts.items() if trainable(module))


def learns(transform: InputTransform | None, inputs: Tensor) -> bool:
    r"""Whether an input transform is fitted to the data.

    Some say so: trainable ones, ``Normalize`` without bounds and ``InputStandardize``.
    Others are tried on ``n x d`` raw inputs: copies in training mode that saw one half of
    these and the other half must transform all of them in the same way.
    """
    if transform is None:
        return False
    parts: list[Any] = list(transform.modules())
    if trainable(transform) or any(getattr(p, "learn_coefficients", False) for p in parts):
        return True
    half = max(1, len(inputs) // 2)
    outputs = []
    for part in (inputs[:half], inputs[-half:]):
        probe = deepcopy(transform).train()
        probe(part)
        outputs.append(probe.eval()(inputs))
    return not torch.equal(*outputs)
