r"""``state_dict`` of objects that follow from their arguments and become no others."""

from collections.abc import Mapping
from typing import Any

from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from kernelucb._numerics.saving import plain_digest, same_tensors
from kernelucb.confidence.base import Described
from kernelucb.confidence.outcome_constraints import OutcomeConstraints
from kernelucb.exceptions import StateError


class BuiltOnce(Described, AcquisitionFunction):
    r"""An acquisition function that takes only the state of one that was built alike.

    Attributes:
        others: Prefixes of parts of the state that are not this object's own.
    """

    others: tuple[str, ...] = ()

    def get_extra_state(self) -> Tensor:
        r"""A fingerprint of how this was built, part of ``state_dict()``."""
        return plain_digest(self._settings())

    def set_extra_state(self, state: Tensor) -> None:
        r"""Nothing to set: ``load_state_dict`` takes no other fingerprint."""

    def _settings(self) -> Any:
        r"""What it was built of beside tensors, as plain values."""
        raise NotImplementedError

    def load_state_dict(self, state_dict: Any, *arguments: Any, **options: Any) -> Any:
        r"""Load the state of one that was built alike, which changes nothing.

        What was built of its data and arguments cannot become another one.

        Raises:
            StateError: If the state is of any other one.
        """
        if not isinstance(state_dict, Mapping) or not all(
            isinstance(name, str) for name in state_dict
        ):
            raise StateError("A state must be the mapping that state_dict() returns.")
        return super().load_state_dict(state_dict, *arguments, **options)

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, *arguments: Any, **options: Any
    ) -> None:
        # What is no tensor follows from data and arguments when the object is built.
        others = tuple(f"{prefix}{other}" for other in self.others)
        saved, own = (
            {
                name: value
                for name, value in each.items()
                if name.startswith(prefix) and not name.startswith(others)
            }
            for each in (state_dict, self.state_dict(prefix=prefix))
        )
        if saved.keys() != own.keys() or not all(
            isinstance(saved[name], Tensor) and same_tensors(saved[name], value)
            for name, value in own.items()
        ):
            raise StateError(
                f"This state was not saved by this {type(self).__name__}: data, prior, "
                "norm bound, radius and thresholds are fixed when it is built. Build it "
                "again from the model; to keep one, use copy.deepcopy or pickle."
            )
        super()._load_from_state_dict(state_dict, prefix, *arguments, **options)


def plain_limits(constraints: OutcomeConstraints | None) -> list[Any]:
    r"""Thresholds and sides, and which of them are on one band, as plain values."""
    limits = () if constraints is None else constraints.constraints
    places = [id(limit.band) for limit in limits]
    return [(limit.threshold, limit.side, places.index(id(limit.band))) for limit in limits]
