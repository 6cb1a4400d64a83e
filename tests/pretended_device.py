r"""A device that pretends: its tensors are on the CPU, but do not mix with those that are.

Code that makes tensors on the CPU whatever the device of its inputs fails here as it would
on a GPU. Made of torch's hooks for back ends that are written in Python.

Example:
    >>> with pretended_device() as device:
    ...     acqf = MartingaleMixtureUCB(model.to(device), norm_bound=3.0)
    ...     acqf.bounds(X.to(device))
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import backend_registration
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

AVAILABLE = hasattr(backend_registration, "_setup_privateuseone_for_python_backend")

_COPIES = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
# Torch takes the indices from anywhere.
_INDEXED = (torch.ops.aten.index.Tensor, torch.ops.aten.index_put_.default)


@cache
def _device() -> torch.device:
    backend_registration._setup_privateuseone_for_python_backend("pretended")
    # Asked for by torch.random.fork_rng, which looks at every device that there is.
    module: Any = torch.get_device_module("pretended")
    module.get_rng_state = lambda device=None: torch.get_rng_state()
    module.set_rng_state = lambda state, device=None: None
    return torch.device("pretended:0")


if AVAILABLE:
    # Torch counts the devices once, at its first backward pass, which may come before.
    _device()


class _Pretended(Tensor):
    r"""A tensor on the pretended device; what it holds is on the CPU."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> "_Pretended":
        tensor = Tensor._make_wrapper_subclass(  # pyright: ignore
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=_device(),
        )
        tensor.held = held
        return tensor

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None):
        return _run(func, args, kwargs or {})


class _Mode(TorchDispatchMode):
    r"""Makes new tensors on the pretended device where they are asked for there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
        return _run(func, args, kwargs or {})


class _Functions(TorchFunctionMode):
    r"""Tensors from Python numbers and back, which torch does without asking the mode."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
        kwargs = kwargs or {}
        if func is Tensor.tolist:
            return args[0].cpu().tolist()
        if func in (Tensor.__getitem__, Tensor.__setitem__):
            args = (args[0], _index(args[1]), *args[2:])
        if func is Tensor.new_tensor:
            like, *data = args
            kwargs = {"dtype": like.dtype, "device": like.device, **kwargs}
            func, args = torch.tensor, data
        if func in (torch.tensor, torch.as_tensor) and "device" in kwargs:
            device, rest = (
                kwargs["device"],
                {k: kwargs[k] for k in kwargs.keys() - {"device"}},
            )
            return func(*args, **rest).to(device)
        return func(*args, **kwargs)


def _index(key: Any) -> Any:
    r"""Lists in an index as tensors on the CPU."""
    if isinstance(key, tuple):
        return tuple(_index(part) for part in key)
    if isinstance(key, list):
        return torch.tensor(key) if key else torch.empty(0, dtype=torch.long)
    return key


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    given: list[Tensor] = []
    asked = kwargs.get("device")
    if asked is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    held_args = _mapped(lambda each: _held(each, given), args)
    held_kwargs = {
        name: _mapped(lambda each: _held(each, given), kwargs[name]) for name in kwargs
    }
    known = {id(each.held): each for each in given if isinstance(each, _Pretended)}
    pretended = bool(known) if asked is None else torch.device(asked).type == _device().type
    if known and func not in (*_COPIES, *_INDEXED):
        _refuse_strangers(func, given)
    if pretended and kwargs.get("generator") is not None:
        raise RuntimeError(f"{func} has a generator of the CPU, on the pretended device.")
    if func is torch.ops.aten.copy_.default:
        pretended = isinstance(args[0], _Pretended)
    result = func(*held_args, **held_kwargs)
    if not pretended:
        return result
    if torch.Tag.inplace_view in func.tags:  # the shape outside changes as that inside
        with no_dispatch():
            func(*args, **kwargs)
    # What is changed in place stays the tensor that it is.
    return _mapped(
        lambda each: known[id(each)] if id(each) in known else _Pretended(each), result
    )


def _refuse_strangers(func: Any, given: list[Tensor]) -> None:
    for each in given:
        if not isinstance(each, _Pretended) and each.dim() > 0:
            raise RuntimeError(
                f"{func} mixes a tensor of shape {tuple(each.shape)} on the CPU with those "
                "on the pretended device."
            )


def _mapped(function: Callable[[Tensor], Tensor], value: Any) -> Any:
    r"""A nest of lists and tuples with its tensors replaced."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, (list, tuple)):
        return type(value)([_mapped(function, part) for part in value])
    return value


def _held(value: Tensor, given: list[Tensor]) -> Tensor:
    given.append(value)
    return value.held if isinstance(value, _Pretended) else value


@contextmanager
def pretended_device() -> Iterator[torch.device]:
    r"""The pretended device, while the block runs."""
    device = _device()
    with _Mode(), _Functions():
        yield device
