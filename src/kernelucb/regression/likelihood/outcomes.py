r"""Successes and counts as users give them: checked, and added up at repeated inputs."""

from typing import Literal, NamedTuple

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from kernelucb._numerics.checks import positive_values
from kernelucb.regression.likelihood.losses import BinomialLoss, Loss, PoissonLoss
from kernelucb.regression.outcome_map import OutcomeMap, Step

Likelihood = Literal["bernoulli", "binomial", "poisson"]
LINKS = {
    "bernoulli": OutcomeMap((Step("Logit"),)),
    "binomial": OutcomeMap((Step("Logit"),)),
    "poisson": OutcomeMap((Step("Log"),)),
}
# Larger counts have no neighbours among 64-bit numbers.
_LARGEST_COUNT = 2.0**53


class Outcomes(NamedTuple):
    r"""Outcomes, and how much was tried for each.

    Attributes:
        kind: Their distribution given the latent value.
        counts: ``n`` successes or counts.
        amounts: ``n`` numbers of trials, or exposures.
    """

    kind: Likelihood
    counts: Tensor
    amounts: Tensor

    @classmethod
    def of(
        cls,
        likelihood: Likelihood,
        counts: Tensor,
        num_trials: float | Tensor | None,
        exposure: float | Tensor | None,
    ) -> "Outcomes":
        r"""From what the user gave, ``n`` finite outcomes.

        Raises:
            ValueError: If an argument is missing, or has no meaning for the likelihood.
            InputDataError: If an outcome is impossible.
        """
        if exposure is not None and likelihood != "poisson":
            raise ValueError('exposure is for likelihood="poisson"; leave it out.')
        if num_trials is not None and likelihood != "binomial":
            raise ValueError('num_trials is for likelihood="binomial"; leave it out.')
        if num_trials is None and likelihood == "binomial":
            raise ValueError(
                'likelihood="binomial" needs num_trials, one number or one for each '
                'outcome; for outcomes that are 0 or 1 use "bernoulli".'
            )
        name, amount = "num_trials", 1.0 if num_trials is None else num_trials
        if likelihood == "poisson":
            name, amount = "exposure", 1.0 if exposure is None else exposure
        amounts = positive_values(name, amount, len(counts)).to(counts)
        outcomes = cls(likelihood, counts, amounts)
        outcomes.check()
        return outcomes

    def check(self) -> None:
        r"""Refuse outcomes that the likelihood gives no probability."""
        if self.kind != "poisson":
            _check_whole("num_trials", self.amounts)
        if self.kind == "bernoulli" and bool(
            ((self.counts != 0.0) & (self.counts != 1.0)).any()
        ):
            raise InputDataError(
                'train_Y must be 0 or 1 for likelihood="bernoulli"; for numbers of '
                'successes use "binomial" with num_trials, for counts "poisson".'
            )
        _check_whole("train_Y", self.counts)
        if self.kind == "binomial" and bool((self.counts > self.amounts).any()):
            raise InputDataError(
                "train_Y has more successes than num_trials; train_Y must be numbers of "
                "successes (not proportions), of num_trials each."
            )

    def pooled_loss(self, index: Tensor, count: int) -> Loss:
        r"""The loss at ``count`` inputs; outcome ``i`` was observed at ``index[i]``."""
        zeros = self.counts.new_zeros(count)
        sums = (zeros.index_add(0, index, part) for part in self[1:])
        return (PoissonLoss if self.kind == "poisson" else BinomialLoss)(*sums)

    def log_base_measure(self) -> Tensor:
        r"""What ``-loss`` lacks of the log-probability of each outcome, ``n`` values."""
        if self.kind == "poisson":
            known = torch.special.xlogy(self.counts, self.amounts)
            return known - torch.lgamma(self.counts + 1.0)
        rest = self.amounts - self.counts
        parts = (torch.lgamma(part + 1.0) for part in (self.amounts, self.counts, rest))
        whole, successes, failures = parts
        return whole - successes - failures


def _check_whole(name: str, values: Tensor) -> None:
    whole = (values == values.round()) & (values >= 0.0) & (values <= _LARGEST_COUNT)
    if not bool(whole.all()):
        wrong = float(values[~whole][0])
        raise InputDataError(
            f"{name} must hold whole numbers from 0 to 2^53, got {wrong:g}."
        )
