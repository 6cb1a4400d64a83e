r"""Successes or counts of a bandit, added up at each arm, and their saved state."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from kernelucb._numerics import states
from kernelucb._numerics.checks import LARGEST
from kernelucb.bandit.saved import prior_values
from kernelucb.exceptions import StateError
from kernelucb.regression.likelihood.losses import Outcomes
from kernelucb.regression.likelihood.regression import LikelihoodRegression
from kernelucb.regression.pooling import distinct_rows
from kernelucb.regression.prior import Prior


class PooledPlays(NamedTuple):
    r"""Outcomes of a bandit; every change makes new ones.

    Attributes:
        inputs: ``u x d`` distinct arms, in the order in which they were first played.
        outcomes: The sums at each.
        num_observations: Number of outcomes.
    """

    inputs: Tensor
    outcomes: Outcomes
    num_observations: int

    @property
    def dimension(self) -> int | None:
        r"""Number of input columns; None before the first outcome."""
        return self.inputs.shape[1] if self.num_observations else None

    def extended(self, inputs: Tensor, outcomes: Outcomes) -> "PooledPlays":
        r"""With ``n`` more outcomes at ``n x d`` arms."""
        known, own = self.num_observations, self.outcomes
        every = torch.cat([self.inputs, inputs]) if known else inputs
        first, index = distinct_rows(every)
        zeros = own.counts.new_zeros(len(first))
        counts, amounts = (
            zeros.index_add(0, index, torch.cat([old, new.to(old)]))
            for old, new in zip(own[1:], outcomes[1:], strict=True)
        )
        pooled = own._replace(counts=counts, amounts=amounts)
        return PooledPlays(every[first], pooled, known + len(inputs))

    def data(self, prior: Prior, estimated: frozenset[str]) -> LikelihoodRegression:
        r"""The data under a prior."""
        known = self.outcomes, self.inputs.shape[1], estimated
        return LikelihoodRegression.from_parts(prior, self.inputs, *known)

    def as_state(
        self, arguments: Mapping[str, Any], prior: Prior, warned: bool
    ) -> dict[str, Any]:
        r"""The state as a mapping that ``read`` takes; see ``LikelihoodBandit``."""
        return states.sealed(
            {
                "arguments": dict(arguments),
                "inputs": self.inputs.cpu().clone(),
                "counts": self.outcomes.counts.cpu().clone(),
                "amounts": self.outcomes.amounts.cpu().clone(),
                "num_observations": self.num_observations,
                "prior": prior_values(prior, self.inputs).cpu(),
                "warned": warned,
            }
        )

    def read(
        self, state: object, arguments: Mapping[str, Any], prior: Prior, columns: range
    ) -> tuple["PooledPlays", bool]:
        r"""What ``as_state`` was given, for a bandit with the same arguments.

        These plays say of what kind the outcomes are, and where they are stored.

        Raises:
            StateError: If it is of another bandit, or was changed.
        """
        saved = states.read_state(
            "LikelihoodBandit",
            state,
            {
                "arguments": states.same(dict(arguments)),
                "inputs": states.reals((None, None), -LARGEST, LARGEST),
                "counts": states.reals((None,), 0.0, LARGEST),
                "amounts": states.reals((None,), 0.0, LARGEST),
                "num_observations": states.whole(0),
                "prior": states.reals((None, None)),
                "warned": states.flag,
            },
        )
        names = "inputs", "counts", "amounts"
        inputs, counts, amounts = (saved[name].to(self.inputs) for name in names)
        if not len(inputs) == len(counts) == len(amounts) <= saved["num_observations"]:
            raise StateError("The state has other numbers of inputs, counts and amounts.")
        outcomes = self.outcomes._replace(counts=counts, amounts=amounts)
        plays = PooledPlays(inputs, outcomes, saved["num_observations"])
        plays._check_outcomes()
        if len(inputs):
            plays._check_prior(saved["prior"], prior, columns)
        return plays, saved["warned"]

    def _check_outcomes(self) -> None:
        whole, amounts = self.outcomes, self.outcomes.amounts
        if len(amounts) == 0 and self.num_observations > 0:
            raise StateError("num_observations is above 0, and there are no inputs.")
        if self.outcomes.kind == "bernoulli":  # sums of several
            whole = whole._replace(kind="binomial")
            if float(amounts.sum()) != self.num_observations:
                raise StateError("amounts must add up to num_observations.")
        try:
            whole.check()
        except InputDataError as error:
            raise StateError(f"The outcomes cannot be: {error}") from error
        if not bool((amounts > 0.0).all()):
            raise StateError("amounts must be above 0.")

    def _check_prior(self, saved: Tensor, prior: Prior, columns: range) -> None:
        if (width := self.inputs.shape[1]) not in columns:
            raise StateError(f"inputs have {width} columns; the kernel takes {columns[0]}.")
        try:
            own = prior_values(prior, self.inputs)
        except (RuntimeError, IndexError, ValueError) as error:
            raise StateError(f"The kernel does not take the inputs: {error}") from error
        if own.shape != saved.shape or not states.same_values(saved.to(own), own):
            raise StateError(
                "prior holds values of another kernel or mean; build the bandit with the "
                "same."
            )
