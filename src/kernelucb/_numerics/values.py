r"""Value objects: frozen, compared by value, their arguments checked."""

from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

from kernelucb._numerics.arguments import checked

Class = TypeVar("Class", bound=type[Any])


@dataclass_transform(frozen_default=True)
def value_object(cls: Class) -> Class:
    r"""A frozen dataclass whose arguments are checked against its type hints."""
    made = dataclass(frozen=True)(cls)
    made.__init__ = checked(made.__init__)
    return made
