r"""The law of devices: the same numbers there, and nothing made on the CPU on the way.

``device()`` is CUDA where there is a GPU. Elsewhere it pretends: its tensors are on the
CPU, but do not mix with those that are, so code that makes tensors on the CPU whatever the
device of its inputs fails as on a GPU. Made of torch's hooks for back ends in Python.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import backend_registration
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
# A copy goes from one device to another, and torch takes the indices from anywhere.
FREE = (
    aten._to_copy.default,
    aten.copy_.default,
    aten.index.Tensor,
    aten.index_put_.default,
)
CUDA = torch.cuda.is_available()
AVAILABLE = CUDA or hasattr(backend_registration, "_setup_privateuseone_for_python_backend")
if AVAILABLE and not CUDA:
    # Before torch counts the devices, once, at its first backward pass.
    backend_registration._setup_privateuseone_for_python_backend("pretended")
    module: Any = torch.get_device_module("pretended")
    # Asked for by torch.random.fork_rng, which looks at every device that there is.
    module.get_rng_state = lambda device=None: torch.get_rng_state()
    module.set_rng_state = lambda state, device=None: None


class Pretended(Tensor):
    r"""A tensor on the pretended device; what it holds is on the CPU."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> "Pretended":
        layout: Any = {"strides": held.stride(), "storage_offset": held.storage_offset()}
        layout |= {"dtype": held.dtype, "device": torch.device("pretended:0")}
        tensor = Tensor._make_wrapper_subclass(cls, held.size(), **layout)  # pyright: ignore
        tensor.held = held
        return tensor

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None):
        return run(func, args, kwargs or {})


class Made(TorchDispatchMode):
    r"""Makes new tensors on the pretended device where they are asked for there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
        return run(func, args, kwargs or {})


class Numbers(TorchFunctionMode):
    r"""Tensors from Python numbers and back, which torch does without asking the mode."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
        kwargs = kwargs or {}
        if func is Tensor.tolist:
            return args[0].cpu().tolist()
        if func in (Tensor.__getitem__, Tensor.__setitem__):
            args = (args[0], index_of(args[1]), *args[2:])
        if func is Tensor.new_tensor:
            kwargs = {"dtype": args[0].dtype, "device": args[0].device, **kwargs}
            func, args = torch.tensor, args[1:]
        if func in (torch.tensor, torch.as_tensor) and "device" in kwargs:
            device = kwargs.pop("device")
            return func(*args, **kwargs).to(device)
        return func(*args, **kwargs)


def index_of(key: Any) -> Any:
    r"""Lists in an index as tensors on the CPU."""
    if isinstance(key, tuple):
        return tuple(map(index_of, key))
    return (
        torch.tensor(key, dtype=None if key else torch.long) if type(key) is list else key
    )


def mapped(function: Callable[[Tensor], Tensor], nest: Any) -> Any:
    r"""A nest of lists and tuples with its tensors replaced; torch's own takes longer."""
    if isinstance(nest, Tensor):
        return function(nest)
    if isinstance(nest, (list, tuple)):
        return type(nest)([mapped(function, part) for part in nest])
    return nest


def run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    given: list[Tensor] = []

    def within(each: Tensor) -> Tensor:
        given.append(each)
        return each.held if isinstance(each, Pretended) else each

    inner = mapped(within, args)
    named = {name: mapped(within, value) for name, value in kwargs.items()}
    held = {id(each.held): each for each in given if isinstance(each, Pretended)}
    there, asked = bool(held), kwargs.get("device")
    if asked is not None:
        there = torch.device(asked).type == "pretended"
        named["device"] = torch.device("cpu")
    if held and func not in FREE:
        for each in given:
            if not isinstance(each, Pretended) and each.dim() > 0:
                raise RuntimeError(f"{func} mixes a tensor on the CPU, {each.shape}.")
    if there and kwargs.get("generator") is not None:
        raise RuntimeError(f"{func} has a generator of the CPU, on the pretended device.")
    if func is aten.copy_.default:
        there = isinstance(args[0], Pretended)
    result = func(*inner, **named)
    if not there:
        return result
    if torch.Tag.inplace_view in func.tags:  # the shape outside changes as that inside
        with no_dispatch():
            func(*args, **kwargs)
    # What is changed in place stays the tensor that it is.
    return mapped(lambda r: held[id(r)] if id(r) in held else Pretended(r), result)


@contextmanager
def device() -> Iterator[torch.device]:
    r"""CUDA, or the pretended device while the block runs."""
    if CUDA:
        yield torch.device("cuda", torch.cuda.current_device())
        return
    with Made(), Numbers():
        yield torch.device("pretended:0")
