r"""The contract of a state: what a confidence set is computed from."""

from typing import Protocol, Self

from torch import Tensor

from kernelucb.regression.outcome_map import OutcomeMap


class Points(Protocol):
    r"""Query points as a state sees them."""

    @property
    def baseline(self) -> Tensor:
        r"""``b`` values that the support function is measured from, outcome units."""
        ...

    def detach(self) -> Self:
        r"""The same points without gradients."""
        ...


class State(Protocol):
    r"""What every confidence set and acquisition function asks of its state."""

    @property
    def dimension(self) -> int:
        r"""Number of raw input columns ``d``."""
        ...

    @property
    def num_observations(self) -> int:
        r"""Number of outcomes, the most of any function."""
        ...

    @property
    def prior_std(self) -> float:
        r"""Prior standard deviation of the outcome, outcome units."""
        ...

    @property
    def outcome_map(self) -> OutcomeMap:
        r"""From outcomes to the scale that the state is on, in whose units all else is."""
        ...

    def mean(self, X: Tensor) -> Tensor:
        r"""Estimate of the function at ``b x d`` points, ``b`` values, outcome units."""
        ...

    def project(self, X: Tensor) -> Points:
        r"""``b x d`` raw query points as the state sees them; differentiable in ``X``."""
        ...

    def with_pending(self, X_pending: Tensor) -> "State":
        r"""The state with variances conditioned on ``p x d`` pending points as well.

        For variances only: the means of the result may be others.
        """
        ...
