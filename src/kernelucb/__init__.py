r"""Confidence bounds you can trust, as BoTorch acquisition functions.

The data flow one way::

    BoTorch model --> regression state --> confidence set --> acquisition function
      (X, y, k,         (one eigh, then      (radius, lower,     (b x 1 x d -> b)
       noise)            any tau in O(n))      upper)

``MartingaleMixtureUCB`` replaces BoTorch's ``UpperConfidenceBound``; ``acqf.bounds(X)``
is a band that holds for every point and every round at once with probability
``1 - delta``, and ``acqf.assumptions`` says what that rests on.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from kernelucb._public import *  # noqa: F403
else:
    # The first public name asked for imports them all, not the root itself: BoTorch is
    # lazy too, and only to derive from its acquisition function imports more than it does.
    def __getattr__(name: str) -> Any:
        public = vars(import_module("kernelucb._public"))
        names = {key: value for key, value in public.items() if not key.startswith("_")}
        if name == "__all__":
            return sorted(names)
        # The subpackages are loaded with the names.
        found = names.get(name, sys.modules.get(f"{__name__}.{name}"))
        if found is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return found

    def __dir__() -> list[str]:
        return ["__version__", *__getattr__("__all__")]
