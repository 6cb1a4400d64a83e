r"""What a budgeted kernel bandit remembers: replaced as a whole, saved, and checked."""

from hashlib import sha256
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kernelucb._numerics import states
from kernelucb._numerics.checks import LARGEST
from kernelucb._numerics.nystrom import draw, inclusion_probabilities, same_values
from kernelucb.bandit.sketched_arms import SketchedArms
from kernelucb.exceptions import StateError

# Inducing arms are dropped when there are more than this many times those just drawn.
_SLACK = 2
_COMPARED = 8
_LARGEST_COUNT = 2.0**53  # beyond, one more observation would be lost to rounding


class BKBState(NamedTuple):
    r"""All that observations change; a step makes another one.

    Attributes:
        arms: Posterior of the arms.
        generator: State of the generator of the draws.
        information: ``sum_s ln(1 + var(x_s) / lam)`` with the variances before each batch.
    """

    arms: SketchedArms
    generator: Tensor
    information: float

    def observed(self, index: Tensor, outcomes: Tensor, qbar: float) -> "BKBState":
        r"""After more outcomes, with the inducing arms drawn again.

        Args:
            index: ``n`` arms, which may repeat.
            outcomes: ``n`` outcomes.
            qbar: Oversampling factor.
        """
        arms = self.arms
        before = arms.variance
        gain = float(torch.log1p(before[index] / arms.regularizer).sum())
        distinct, inverse = index.unique(return_inverse=True)
        zeros = outcomes.new_zeros(len(distinct))
        counts = zeros.index_add(0, inverse, torch.ones_like(outcomes))
        sums = zeros.index_add(0, inverse, outcomes - arms.prior_mean[index])
        total = arms.counts.index_add(0, distinct, counts)
        drawn, generator = self._draw(before, total, qbar)
        new = drawn[~torch.isin(drawn, arms.inducing)]
        if len(arms.inducing) + len(new) > _SLACK * len(drawn):
            arms, new = arms.without_inducing(), drawn
        arms = arms.observe(distinct, counts, sums, new)
        return BKBState(arms, generator, self.information + gain)

    def _draw(self, variance: Tensor, counts: Tensor, qbar: float) -> tuple[Tensor, Tensor]:
        r"""Inducing arms drawn with the variances of the step before."""
        seen = counts.nonzero().squeeze(-1)
        probabilities = inclusion_probabilities(
            variance[seen], counts[seen], self.arms.regularizer, qbar
        )
        position, generator = draw(probabilities, self.generator)
        return seen[position], generator

    def saved(self) -> dict[str, Any]:
        r"""Copies of what is needed to go on."""
        return {
            "candidates": _digest(self.arms.candidates),
            "prior": _prior_values(self.arms),
            "counts": self.arms.counts.clone(),
            "sums": self.arms.sums.clone(),
            "inducing": self.arms.inducing.clone(),
            "generator": self.generator.clone(),
            "information": self.information,
        }

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
            "candidates": states.same(_digest(own.candidates)),
            "prior": _same_prior(own),
            "counts": states.reals((size,), 0.0, _LARGEST_COUNT),
            "sums": states.reals((size,)),
            "inducing": states.wholes((None,), 0, size - 1),
            "generator": states.generator_state,
            "information": states.real(0.0),
        }
        entries = states.read_state("BKBBandit", saved, readers)
        counts, sums = (entries[name].to(own.counts) for name in ("counts", "sums"))
        inducing = entries["inducing"].to(own.inducing)
        information = entries["information"]
        _check_observations(counts, sums, inducing)
        # No variance is above the prior's; a little more for rounding.
        largest = torch.log1p(own.prior_variance / own.regularizer) * (1.0 + 1e-9)
        if information > float(counts @ largest):
            raise StateError(f"information is {information}, more than the counts allow.")
        arms = own.rebuilt(inducing, counts, sums)
        return BKBState(arms, entries["generator"], information)


def _check_observations(counts: Tensor, sums: Tensor, inducing: Tensor) -> None:
    if not torch.equal(counts, counts.round()):
        raise StateError("counts must be whole numbers.")
    # Of outcomes, and of prior means, none of which is larger than LARGEST.
    if bool((sums.abs() > 2.0 * LARGEST * counts).any()):
        raise StateError("sums are larger than those of so many outcomes can be.")
    if len(inducing.unique()) != len(inducing) or bool((counts[inducing] == 0.0).any()):
        raise StateError("inducing must hold different arms, each of them observed.")
    if len(inducing) == 0 and bool((counts > 0.0).any()):
        raise StateError("inducing must hold an arm where there are observations.")


def _same_prior(arms: SketchedArms) -> states.Reader:
    r"""The same prior gives the same values."""

    def read(name: str, value: Any) -> Tensor:
        own = _prior_values(arms)
        saved = states.reals(own.shape)(name, value).to(own)
        if not same_values(saved, own):
            raise StateError(
                f"{name} holds values of another kernel or mean; build the bandit with the "
                "same."
            )
        return saved

    return read


def _prior_values(arms: SketchedArms) -> Tensor:
    r"""Covariances and means of the first arms, which tell priors from each other."""
    first = arms.candidates[:_COMPARED]
    mean = arms.prior_mean[:_COMPARED].unsqueeze(0)
    return torch.cat([arms.prior.covariance(first, first), mean])


def _digest(candidates: Tensor) -> str:
    return sha256(candidates.cpu().contiguous().numpy().tobytes()).hexdigest()
