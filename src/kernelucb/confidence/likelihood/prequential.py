r"""The evidence from predictions made one step ahead, by any model."""

from typing import Any

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics import states
from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import LARGEST, finite
from kernelucb._numerics.exclusive import Exclusive
from kernelucb.confidence.assumptions import Assumption, Status
from kernelucb.confidence.fit.predictions import (
    Rows,
    check_predicts,
    rows_of,
    same_inputs,
    saved_rows,
)
from kernelucb.confidence.likelihood.predicted import log_probabilities
from kernelucb.exceptions import StateError
from kernelucb.regression.likelihood.outcomes import Likelihood, Outcomes
from kernelucb.regression.likelihood.regression import LikelihoodRegression

PREDICTED = Assumption(
    "predictions",
    "the predictions behind the radius were made before their outcomes arrived",
    Status.GIVEN,
)


class PrequentialLikelihood:
    r"""Evidence that stays valid when the predicting model is refitted, anytime.

    Every outcome is given a probability from the past before it arrives, by any rule. With
    probability ``1 - delta``, for all rounds at once, the log-likelihood of the true
    function is at least the sum of their logarithms minus ``ln(1/delta)``. The norm bound
    refers to one kernel fixed in advance; the model that predicts may be another one, and
    may be refitted.

    Source: the likelihood ratio with running predictions in the numerator, as of
    Emmenegger et al. (2023); Ville's inequality. Assumes the likelihood, and predictions
    from the past only.

    Example:
        >>> evidence = PrequentialLikelihood("bernoulli")
        >>> for _ in range(rounds):
        ...     evidence.observe(refitted_model, x, y)  # fitted without y
        ...     acqf = LikelihoodUCB(X, Y, fixed_kernel, norm_bound=B, evidence=evidence)
    """

    @checked
    def __init__(self, likelihood: Likelihood = "bernoulli") -> None:
        r"""Evidence before any outcome.

        Args:
            likelihood: ``"bernoulli"``, ``"binomial"`` or ``"poisson"``.
        """
        self._kind: Likelihood = likelihood
        self._exclusive = Exclusive()
        self._log_evidence = 0.0
        self._counts: list[float] = []
        self._amounts: list[float] = []
        self._inputs: Rows = []

    @property
    def num_observations(self) -> int:
        r"""Number of outcomes so far."""
        return len(self._counts)

    @property
    def log_evidence(self) -> float:
        r"""Sum of the logarithms of the probabilities of all outcomes so far."""
        return self._log_evidence

    @checked
    def observe_predictions(
        self,
        log_probability: float | Tensor,
        outcome: float | Tensor,
        X: Tensor,
        *,
        num_trials: float | Tensor | None = None,
        exposure: float | Tensor | None = None,
    ) -> None:
        r"""Add outcomes, one or ``n``, with what was predicted before they arrived.

        Args:
            log_probability: Natural logarithm of the probability that was given to each
                outcome, at most 0. Of several outcomes at once each must be predicted from
                the past, or from those listed before it.
            outcome: 0 or 1, numbers of successes, or counts.
            X: ``n x d`` raw inputs of the outcomes, or the ``d`` numbers of a single one.
            num_trials: As for ``LikelihoodUCB``.
            exposure: As for ``LikelihoodUCB``.

        Raises:
            BotorchTensorDimensionError: If the numbers of values differ.
            InputDataError: If a value is not finite, an outcome impossible, or a
                log-probability above 0.
            ValueError: If ``num_trials`` or ``exposure`` is missing or out of place.
        """
        logs, counts = (
            finite(name, torch.as_tensor(value).detach().double().cpu().reshape(-1))
            for name, value in (("log_probability", log_probability), ("outcome", outcome))
        )
        if len(logs) != len(counts):
            raise BotorchTensorDimensionError(
                f"There are {len(logs)} log-probabilities and {len(counts)} outcomes; give "
                "one of each for every outcome."
            )
        if bool((logs > 0.0).any()):
            raise InputDataError(
                "log_probability must be at most 0: the outcomes are discrete, and no "
                "probability is above 1."
            )
        outcomes = Outcomes.of(self._kind, counts, num_trials, exposure)
        rows = rows_of(X, len(counts), self._inputs)
        with self._exclusive:
            # In one step: an interrupt leaves the old or the new record.
            vars(self).update(
                _log_evidence=self._log_evidence + float(logs.sum()),
                _counts=self._counts + outcomes.counts.tolist(),
                _amounts=self._amounts + outcomes.amounts.tolist(),
                _inputs=self._inputs + rows,
            )

    @checked
    @torch.no_grad()
    def observe(
        self,
        model: Model,
        X: Tensor,
        Y: Tensor,
        *,
        num_trials: float | Tensor | None = None,
        exposure: float | Tensor | None = None,
    ) -> None:
        r"""Add outcomes predicted by a BoTorch model that has not seen them.

        Args:
            model: Fitted to earlier data only. One with a ``BernoulliLikelihood`` predicts
                by that; any other predicts the log odds or the log rate by its Gaussian
                latent posterior, and the outcome by the likelihood.
            X: ``n x d`` inputs that were chosen together, or a single one of ``d`` numbers.
            Y: ``n x 1`` or ``n`` outcomes.
            num_trials: As for ``LikelihoodUCB``.
            exposure: As for ``LikelihoodUCB``.

        Raises:
            BotorchTensorDimensionError: If the shapes do not fit each other or the model.
            InputDataError: If a value is not finite or an outcome impossible, or the model
                gave one of them no probability.
            UnsupportedError: If the model does not predict the value of one function.
        """
        check_predicts(model, X)
        rows = finite("X", X.reshape(-1, X.shape[-1]))
        counts = finite("Y", Y.detach().double().reshape(-1))
        if len(counts) != len(rows):
            raise BotorchTensorDimensionError(
                f"Y must be `n x 1` or `n` with n = {len(rows)}, got shape "
                f"{tuple(Y.shape)}."
            )
        outcomes = Outcomes.of(self._kind, counts, num_trials, exposure)
        logs = log_probabilities(model, rows, outcomes)
        if not bool(torch.isfinite(logs).all()):
            raise InputDataError(
                "The model gave an outcome that came no probability. Mix its predictions "
                "with a constant one, and give them to observe_predictions."
            )
        amounts = {"num_trials": num_trials, "exposure": exposure}
        self.observe_predictions(logs.clamp_max(0.0), counts, rows, **amounts)

    def loss_bound(self, data: LikelihoodRegression) -> float:
        r"""Minus the log-evidence, for a loss without terms that no function changes.

        Raises:
            ValueError: If ``data`` does not hold the same inputs and outcomes, in order.
        """
        own = self._kind, self._counts, self._amounts
        outcomes = data.outcomes
        given = outcomes.kind, outcomes.counts.tolist(), outcomes.amounts.tolist()
        if own != given:
            raise ValueError(
                f"evidence holds {len(own[1])} {own[0]} outcomes and the data "
                f"{len(given[1])} {given[0]} ones, or they differ; give both the same "
                "outcomes, in order."
            )
        if not same_inputs(self._inputs, data):
            raise ValueError(
                "evidence and the data hold different inputs; give both the same "
                "observations, in order."
            )
        return float(outcomes.log_base_measure().sum()) - self._log_evidence

    def state_dict(self) -> dict[str, Any]:
        r"""Plain numbers, for JSON or ``torch.save``."""
        return states.sealed(
            {
                "likelihood": self._kind,
                "log_evidence": self._log_evidence,
                "counts": list(self._counts),
                "amounts": list(self._amounts),
                "inputs": [list(row) for row in self._inputs],
            }
        )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        r"""Go on from a saved state.

        Args:
            state_dict: From one with the same likelihood.

        Raises:
            StateError: If the state is not of such a one; nothing has changed then.
        """
        readers = {
            "likelihood": states.same(self._kind),
            "log_evidence": states.real(-(LARGEST**4), 0.0),
            "counts": states.sequence(states.real(0.0, LARGEST)),
            "amounts": states.sequence(states.real(0.0, LARGEST)),
            "inputs": saved_rows,
        }
        saved = states.read_state("PrequentialLikelihood", state_dict, readers)
        if len({len(saved[name]) for name in ("counts", "amounts", "inputs")}) > 1:
            raise StateError("The state has other numbers of counts, amounts and inputs.")
        with self._exclusive:
            vars(self).update(
                _log_evidence=saved["log_evidence"],
                _counts=saved["counts"],
                _amounts=saved["amounts"],
                _inputs=saved["inputs"],
            )
