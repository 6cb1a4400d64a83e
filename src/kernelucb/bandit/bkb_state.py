r"""What a budgeted kernel bandit remembers: replaced as a whole, saved, and checked."""

import logging
from copy import copy
from hashlib import sha256
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kernelucb._numerics import states
from kernelucb._numerics.checks import LARGEST
from kernelucb.bandit.saved import prior_values
from kernelucb.confidence.norm.tracker import NormTracker
from kernelucb.exceptions import StateError
from kernelucb.regression.lowrank.arms import SketchedArms
from kernelucb.regression.lowrank.draws import draw, inclusion_probabilities
from kernelucb.regression.pooling import LARGEST_COUNT, Change, check_tally

_LOG = logging.getLogger(__name__)
# Inducing arms are dropped when there are more than this many times those just drawn.
_SLACK = 2


class BKBState(NamedTuple):
    r"""All that observations change; a step makes another one.

    Attributes:
        arms: Posterior of the arms.
        generator: State of the generator of the draws.
        information: ``sum_s ln(1 + var(x_s) / alpha)`` with the variances before each
            batch.
        norm: Norm bound, outcome units; a tracker where it is estimated.
    """

    arms: SketchedArms
    generator: Tensor
    information: float
    norm: float | NormTracker

    def observed(self, index: Tensor, outcomes: Tensor, qbar: float) -> "BKBState":
        r"""After more outcomes, with the inducing arms drawn again.

        Args:
            index: ``n`` arms, which may repeat.
            outcomes: ``n`` outcomes.
            qbar: Oversampling factor.
        """
        arms = self.arms
        before = arms.variance
        gain = float(torch.log1p(before[index] / arms.alpha).sum())
        change = Change.of(index, outcomes - arms.prior_mean[index])
        total = arms.counts.index_add(0, change.places, change.counts)
        drawn, generator = self._draw(before, total, qbar)
        new = drawn[~torch.isin(drawn, arms.inducing)]
        if len(arms.inducing) + len(new) > _SLACK * len(drawn):
            _LOG.info(
                "Inducing arms are made anew: %d instead of %d, most no longer drawn.",
                *(len(drawn), len(arms.inducing)),
            )
            arms, new = arms.without_inducing(), drawn
        _LOG.debug("%d inducing arms drawn, %d of them new.", len(drawn), len(new))
        arms = arms.observe(change, new)
        return BKBState(arms, generator, self.information + gain, copy(self.norm))

    def _draw(self, variance: Tensor, counts: Tensor, qbar: float) -> tuple[Tensor, Tensor]:
        r"""Inducing arms drawn with the variances of the step before."""
        seen = counts.nonzero().squeeze(-1)
        probabilities = inclusion_probabilities(
            variance[seen], counts[seen], self.arms.alpha, qbar
        )
        position, generator = draw(probabilities, self.generator)
        return seen[position], generator

    def saved(self) -> dict[str, Any]:
        r"""Copies of what is needed to go on."""
        return {
            "candidates": _digest(self.arms.inputs),
            "prior": prior_values(self.arms.prior, self.arms.inputs),
            "counts": self.arms.counts.clone(),
            "sums": self.arms.sums.clone(),
            "squares": self.arms.squares.clone(),
            "inducing": self.arms.inducing.clone(),
            "generator": self.generator.clone(),
            "information": self.information,
            "norm_bound": self._saved_norm,
        }

    @property
    def _saved_norm(self) -> float | list[float]:
        if isinstance(self.norm, NormTracker):
            return list(self.norm.estimates)
        return self.norm

    def loaded(self, saved: object, arguments: dict[str, Any]) -> "BKBState":
        r"""The state of a saved bandit for the same arms; this one stays as it is.

        Args:
            saved: ``saved()``, and the bandit's arguments.
            arguments: The arguments that they must equal.

        Raises:
            StateError: If an entry is not what it should be.
        """
        own = self.arms
        size = len(own.counts)
        readers = {
            **{name: states.same(value) for name, value in arguments.items()},
            "candidates": states.same(_digest(own.inputs)),
            "prior": _same_prior(own),
            "counts": states.reals((size,), 0.0, LARGEST_COUNT),
            "sums": states.reals((size,)),
            "squares": states.reals((size,), 0.0),
            "inducing": states.wholes((None,), 0, size - 1),
            "generator": states.generator_state,
            "information": states.real(0.0),
            "norm_bound": self._norm_reader(),
        }
        entries = states.read_state("BKBBandit", saved, readers)
        names = ("counts", "sums", "squares")
        tally = [entries[name].to(own.counts) for name in names]
        inducing = entries["inducing"].to(own.inducing)
        information = entries["information"]
        check_tally(*tally)
        _check_inducing(tally[0], inducing)
        # No variance is above the prior's; a little more for rounding.
        largest = torch.log1p(own.prior_variance / own.alpha) * (1.0 + 1e-9)
        if information > float(tally[0] @ largest):
            raise StateError(f"information is {information}, more than the counts allow.")
        norm = copy(self.norm)
        if isinstance(norm, NormTracker):
            bound, least = entries["norm_bound"]
            norm.estimates = bound, least
        arms = own.rebuilt(inducing, *tally)
        return BKBState(arms, entries["generator"], information, norm)

    def _norm_reader(self) -> states.Reader:
        r"""An estimate may grow with the data; a number given must be the same."""
        tracker = self.norm
        if not isinstance(tracker, NormTracker):
            return states.same(tracker)

        def read(name: str, value: Any) -> list[float]:
            norms = states.sequence(states.real(0.0, LARGEST))(name, value)
            norm, least = norms if len(norms) == 2 else (0.0, 0.0)
            if norm < tracker.smallest_estimate(least):
                raise StateError(f"No estimate of the norm and least norm is {norms}.")
            return norms

        return read


def _check_inducing(counts: Tensor, inducing: Tensor) -> None:
    if len(inducing.unique()) != len(inducing) or bool((counts[inducing] == 0.0).any()):
        raise StateError("inducing must hold different arms, each of them observed.")
    if len(inducing) == 0 and bool((counts > 0.0).any()):
        raise StateError("inducing must hold an arm where there are observations.")


def _same_prior(arms: SketchedArms) -> states.Reader:
    r"""The same prior gives the same values."""

    def read(name: str, value: Any) -> Tensor:
        own = prior_values(arms.prior, arms.inputs)
        saved = states.reals(own.shape)(name, value).to(own)
        if not states.same_values(saved, own):
            raise StateError(
                f"{name} holds values of another kernel or mean; build the bandit with the "
                "same."
            )
        return saved

    return read


def _digest(candidates: Tensor) -> str:
    return sha256(candidates.cpu().contiguous().numpy().tobytes()).hexdigest()
