r"""The saved state of a kernel bandit, checked before any of it is used."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from kernelucb._numerics import states
from kernelucb._numerics.checks import LARGEST
from kernelucb.bandit.bounds import BanditBound
from kernelucb.bandit.mixtures import Dual
from kernelucb.bandit.search import LONGEST_INTERVAL
from kernelucb.bandit.two_filters import TwoFilters
from kernelucb.exceptions import StateError
from kernelucb.regression.prior import Prior

# An estimated norm bound is renewed after this share of new observations: rare enough that
# O(n^3) for an estimate is O(n^2) a round.
_ESTIMATES = 16
_COMPARED = 8
# No logarithm of a positive float64 is larger in size.
_LARGEST_LOG = 745.2


def largest_wait(count: int) -> int:
    r"""After so many more observations an estimated norm bound is renewed."""
    return max(1, count // _ESTIMATES)


class Saved(NamedTuple):
    r"""What a state holds; see ``KernelBandit.state_dict``."""

    inputs: Tensor  # n x d
    outcomes: Tensor  # n
    prior: Tensor  # covariances and means of the first inputs; tells priors apart
    norm: list[float] | None  # its estimate, least consistent norm; None where it was given
    estimate_at: int  # number of observations at which the norm is next estimated
    renewed: int  # number of observations in the eigenbasis
    interval: list[float] | None = None  # of the search for regularisers, in ln(tau)
    seen: list[float] | None = None  # extreme minimisers since the last eigenbasis
    warned: bool = False  # whether the user has been told of a contradiction
    filters: list[float] | None = None  # share, slope and index of ``TwoFilters``

    def as_state(self, bound: BanditBound) -> dict[str, Any]:
        r"""The state as a mapping that ``read`` takes."""
        return states.sealed({"arguments": bound.arguments, **self._asdict()})


def read(state: object, bound: BanditBound, prior: Prior, columns: range) -> Saved:
    r"""What ``as_state`` returned, for a bandit with the same bound and prior.

    Args:
        state: What was saved.
        bound: The bound and its parameters.
        prior: Prior of the outcomes.
        columns: Numbers of input columns that its kernel takes.

    Raises:
        StateError: If it is of another bandit, or was changed.
    """
    logs = states.optional(states.sequence(states.real(-_LARGEST_LOG, _LARGEST_LOG)))
    norms = states.sequence(states.real(0.0, LARGEST))
    values = states.read_state(
        "KernelBandit",
        state,
        {
            "arguments": states.same(bound.arguments),
            "inputs": states.reals((None, None), -LARGEST, LARGEST),
            "outcomes": states.reals((None,), -LARGEST, LARGEST),
            "prior": states.reals((None, None)),
            "norm": states.optional(norms),
            "estimate_at": states.whole(1),
            "renewed": states.whole(0),
            "interval": logs,
            "seen": logs,
            "warned": states.flag,
            "filters": states.optional(states.sequence(states.real(0.0, LARGEST))),
        },
    )
    del values["arguments"]
    saved = Saved(**values)
    _check_data(saved, bound)
    if len(saved.inputs):
        _check_prior(saved, bound, prior, columns)
    _check_norm(saved, bound)
    _check_search(saved)
    _check_filters(saved, bound)
    return saved


def _check_data(saved: Saved, bound: BanditBound) -> None:
    count = len(saved.outcomes)
    if len(saved.inputs) != count:
        raise StateError(f"There are {len(saved.inputs)} inputs and {count} outcomes.")
    if saved.renewed > count:
        raise StateError(f"renewed is {saved.renewed}, with {count} observations.")
    if count > bound.num_rounds:
        raise StateError(
            f"horizon is {bound.num_rounds}, and the state has {count} observations; the "
            "bound holds up to the horizon only."
        )


def _check_prior(saved: Saved, bound: BanditBound, prior: Prior, columns: range) -> None:
    if (width := saved.inputs.shape[1]) not in columns:
        raise StateError(f"inputs have {width} columns; the kernel takes {columns[0]}.")
    inputs = saved.inputs.to(next(prior.parameters(), saved.inputs).device)
    try:
        bound.check_noise(prior.variance(inputs))
        own = prior_values(prior, inputs)
    except (RuntimeError, IndexError, ValueError) as error:
        raise StateError(f"The kernel does not take the inputs: {error}") from error
    if own.shape != saved.prior.shape or not states.same_values(saved.prior.to(own), own):
        raise StateError(
            "prior holds values of another kernel or mean; build the bandit with the same."
        )


def prior_values(prior: Prior, inputs: Tensor) -> Tensor:
    r"""Covariances and means of the first inputs, ``m + 1 x m``."""
    first = inputs[:_COMPARED]
    if len(first) == 0:
        return inputs.new_empty(1, 0)
    return torch.cat([prior.covariance(first, first), prior.mean(first).unsqueeze(0)])


def _check_norm(saved: Saved, bound: BanditBound) -> None:
    count, tracker = len(saved.outcomes), bound.tracker
    if (saved.norm is None) != (tracker is None):
        raise StateError("norm must be there exactly where the norm is estimated.")
    if tracker is None or saved.norm is None:
        if saved.estimate_at != 1:
            raise StateError("estimate_at must be 1 where the norm is given.")
        return
    if len(saved.norm) != 2:
        raise StateError(f"norm must be two numbers, got {len(saved.norm)}.")
    norm, least = saved.norm
    if count and norm < tracker.smallest_estimate(least):
        raise StateError(f"No estimate of the norm is {norm} with {least} the least one.")
    if not count < saved.estimate_at <= count + largest_wait(count):
        raise StateError(f"estimate_at must soon follow {count}, got {saved.estimate_at}.")


def _check_search(saved: Saved) -> None:
    for name, ends in (("interval", saved.interval), ("seen", saved.seen)):
        if ends is not None and not (len(ends) == 2 and ends[0] <= ends[1]):
            raise StateError(f"{name} must be a lower and an upper end, got {ends}.")
    if saved.interval is None:
        if saved.seen is not None:
            raise StateError("seen is there without an interval.")
        return
    lower, upper = saved.interval
    if not 0.0 < upper - lower <= LONGEST_INTERVAL:
        raise StateError(
            f"interval must have a length in (0, {LONGEST_INTERVAL}], got {saved.interval}."
        )


def _check_filters(saved: Saved, bound: BanditBound) -> None:
    if saved.filters is None:
        return
    if not (isinstance(bound, Dual) and bound.fit == "filters" and saved.renewed):
        raise StateError("filters are there for a bound or a state that has none.")
    try:
        TwoFilters.saved(saved.filters, bound.hybrids)
    except ValueError as error:
        raise StateError(f"filters cannot be {saved.filters}: {error}") from error
