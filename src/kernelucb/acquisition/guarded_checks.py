r"""What a guard can be put around, and what it must know."""

from typing import Any

from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.acquisition import OneShotAcquisitionFunction
from botorch.acquisition.analytic import AnalyticAcquisitionFunction
from botorch.acquisition.multi_objective.base import (
    MultiObjectiveAnalyticAcquisitionFunction,
    MultiObjectiveMCAcquisitionFunction,
)
from botorch.acquisition.multi_objective.objective import MCMultiOutputObjective
from botorch.acquisition.objective import IdentityMCObjective
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb.acquisition.base import KernelUCB

_FOR_SEVERAL = (
    MultiObjectiveAnalyticAcquisitionFunction,
    MultiObjectiveMCAcquisitionFunction,
)
_OF_EACH_OUTCOME = (IdentityMCObjective, MCMultiOutputObjective)


def check_guard(acqf: AcquisitionFunction, band: KernelUCB[Any, Any]) -> None:
    r"""Refuse what has several objectives or seeks the other direction, and one-shot."""
    name = type(acqf).__name__
    if isinstance(acqf, OneShotAcquisitionFunction):
        raise UnsupportedError(
            f"{name} is a one-shot function: its points are candidates and fantasies "
            "together. Guard another one, such as qLogNoisyExpectedImprovement."
        )
    if _is_of_several(acqf):
        raise UnsupportedError(
            f"{name} is for several outcomes, and the band is for one objective: a point "
            "that cannot be its optimum may be the best for another. Give an objective or "
            "posterior_transform that makes one of them, or search without a guard."
        )
    direction = _direction(acqf)
    if direction * band.direction < 0:
        names = {1: "large", -1: "small"}
        raise UnsupportedError(
            f"{name} seeks {names[direction]} outcomes and the band "
            f"{names[band.direction]} ones; give both the same maximize and "
            "posterior_transform."
        )


def _is_of_several(acqf: AcquisitionFunction) -> bool:
    r"""Whether it is for several objectives, or nothing makes one of several outcomes."""
    if isinstance(acqf, _FOR_SEVERAL):
        return True
    objective: Any = getattr(acqf, "objective", None)
    transform: Any = getattr(acqf, "posterior_transform", None)
    is_one = (
        hasattr(acqf, "objective_index")
        or getattr(transform, "scalarize", False)
        or (objective is not None and not isinstance(objective, _OF_EACH_OUTCOME))
    )
    return not is_one and getattr(getattr(acqf, "model", None), "num_outputs", 1) > 1


def _direction(acqf: AcquisitionFunction) -> int:
    r"""1 if it surely seeks large outcomes, -1 if small ones, 0 if that is not known."""
    transform = getattr(acqf, "posterior_transform", None)
    objective = getattr(acqf, "objective", None)
    maximize = getattr(acqf, "maximize", None)
    if maximize is None:
        sign = int(isinstance(objective, IdentityMCObjective))
    else:
        sign = 1 if maximize else -1
    if transform is None:
        return sign
    weights = getattr(transform, "weights", None)
    if not isinstance(weights, Tensor) or weights.numel() != 1:
        return 0
    return sign if float(weights) > 0.0 else -sign


def check_pending(acqf: AcquisitionFunction, count: int) -> None:
    r"""Refuse pending points where the acquisition function cannot have any."""
    if isinstance(acqf, AnalyticAcquisitionFunction):
        raise UnsupportedError(
            f"{type(acqf).__name__} is analytic and cannot account for pending points, and "
            f"there are {count} (X_pending; in Ax, trials that are running or abandoned). "
            "Guard a Monte Carlo function, such as qLogNoisyExpectedImprovement."
        )
