r"""What acts on a guarantee in Ax refuses estimates, and so does what Ax stores."""

from collections.abc import Sequence

from kernelucb._numerics.estimates import is_estimate
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.exceptions import UncertifiedError

# How to give what was estimated.
_OWN_KERNEL = (
    "kernel=... and lengthscale=... in the options, which fix kernel and mean of the bound "
    "(or the bound KernelFamilyUCB, which needs only a range of length scales)"
)
_WAYS = {
    "kernel": _OWN_KERNEL,
    "mean": _OWN_KERNEL,
    "norm": "norm_bound=... in the options",
    "noise": "noise_std=... in the options (or report a standard error with every outcome)",
    "information gain": "theorem=BoundedNorm(information_gain=...) in the options",
}


def check_storable(name: str, value: object) -> None:
    r"""Refuse a number that is marked as estimated: Ax would store it without the mark.

    Raises:
        ValueError: If it is.
    """
    if is_estimate(value):
        cautious = 'use "cautious", or ' if name == "norm_bound" else ""
        raise ValueError(
            f"{name} is an estimate, which Ax would store as a plain number, as if it were "
            f"given; {cautious}state the number yourself with float(...)."
        )


def check_given(
    user: str, assumptions: Sequence[Assumptions], allow_estimated: bool
) -> None:
    r"""Refuse estimates unless they are allowed, and say what to change in Ax.

    Raises:
        UncertifiedError: If one of the ``assumptions`` was estimated and that is not
            allowed. ``user`` is what would act on it.
    """
    estimated = dict.fromkeys(name for each in assumptions for name in each.estimated)
    if allow_estimated or not estimated:
        return
    names = [name.rpartition(": ")[2] for name in estimated]
    ways = dict.fromkeys(_WAYS[name] for name in names if name in _WAYS)
    give = f"give generation_strategy {', and '.join(ways)}, or " if ways else ""
    raise UncertifiedError(
        f"{user} needs a certified bound. The generation strategy's rests on estimates "
        f"({', '.join(estimated)}), so its probability is not known: {give}pass "
        "allow_estimated=True to act on them."
    )
