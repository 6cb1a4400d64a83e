r"""A bandit whose outcomes are successes or counts."""

import warnings
from typing import Any, NamedTuple

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.arrays import in_parts
from kernelucb._numerics.checks import finite, positive_scalar, probability
from kernelucb._numerics.estimates import estimated_parts
from kernelucb._numerics.exclusive import Exclusive
from kernelucb.bandit.likelihood_plays import PooledPlays
from kernelucb.bandit.observations import allowed_columns
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.fit.mixture import CovarianceScale, covariance_scales
from kernelucb.confidence.likelihood.evidence import LIKELIHOOD_SCALES, Ratio
from kernelucb.confidence.likelihood.problem import likelihood_set
from kernelucb.confidence.likelihood.tangents import CutEllipsoid
from kernelucb.confidence.martingale_mixture.function_set import FunctionSet
from kernelucb.confidence.norm.tracker import given_norm
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.regression import KernelRegression
from kernelucb.regression.likelihood.losses import LINKS, Likelihood, Outcomes
from kernelucb.regression.prior import Prior


class _Now(NamedTuple):
    r"""All that changes, replaced as one.

    Attributes:
        plays: The outcomes so far.
        band: The set that they leave; None before the first outcome, and until it is asked
            for.
        warned: Whether the user has been told of a contradiction.
    """

    plays: PooledPlays
    band: FunctionSet[KernelRegression] | None = None
    warned: bool = False


class LikelihoodBandit:
    r"""Bounds on success probabilities or rates of finite, changing sets of arms, anytime.

    Gives the bounds of ``LikelihoodUCB`` on all outcomes so far: given the past, an outcome
    is 1 with probability ``sigmoid(f(x))`` (``"bernoulli"``), a number of successes
    (``"binomial"``), or a Poisson count of mean ``exposure * exp(f(x))`` (``"poisson"``).

    **Cost.** Outcomes of one arm are added up, so a round costs ``O(u^3)`` in the number
    ``u`` of distinct arms played, however many outcomes there are. It cannot be
    ``O(u^2)``, as it is for ``KernelBandit``: there an outcome adds a row to a matrix that
    stays as it is. Here each outcome moves the estimate at every arm, and with it how much
    all earlier outcomes count (the curvature of their likelihood depends on where the
    function lies), so the whole matrix changes. Outcomes that are observed together are
    one round, and nothing is solved until bounds are asked for.

    An interruption leaves the state before a call or after it. A bandit is for one thread
    at a time; a call that overlaps with another raises a RuntimeError.

    Source: as ``LikelihoodUCB`` (likelihood ratio: Emmenegger et al. 2023; how it is
    bounded: ours), with its assumptions: the likelihood, a kernel, mean and norm bound
    fixed before the data, ``||f - mean||_H <= norm_bound``, and outcomes that are reported
    whatever they are.

    Example:
        >>> bandit = LikelihoodBandit(kernel, norm_bound=3.0)
        >>> for _ in range(200):
        ...     index = bandit.select(arms)
        ...     bandit.observe(arms[index], converted(arms[index]))  # 0 or 1
        >>> lower, upper = bandit.bounds(arms)  # probabilities

    Attributes:
        norm_bound: As given.
        delta: As given.
    """

    @checked
    def __init__(
        self,
        covar_module: Kernel,
        *,
        norm_bound: float,
        likelihood: Likelihood = "bernoulli",
        delta: float = 0.05,
        covariance_scale: CovarianceScale = LIKELIHOOD_SCALES,
        mean_module: Mean | None = None,
    ) -> None:
        r"""Bandit without outcomes.

        Args:
            covar_module: Kernel of the log odds or the log rate, output scale included; a
                float64 copy is kept. Trainable parameters count as estimated.
            norm_bound: Bound on the RKHS norm of ``f - mean``.
            likelihood: ``"bernoulli"``, ``"binomial"`` or ``"poisson"``.
            delta: Failure probability of all rounds together.
            covariance_scale: See ``LikelihoodUCB``.
            mean_module: Known prior mean of the log odds or log rate; zero when absent.

        Raises:
            ValueError: If an argument is out of its range.
        """
        self.norm_bound = positive_scalar("norm_bound", norm_bound)
        self.delta = probability("delta", delta)
        scales = covariance_scales(covariance_scale)
        self._ratio = Ratio(self.delta, covariance_scale=scales)
        self._kind: Likelihood = likelihood
        self._estimated = estimated_parts(covar_module, mean_module)
        self.prior = Prior(covar_module, mean_module, outcome_map=LINKS[likelihood])
        self._columns = allowed_columns(covar_module)
        self._exclusive = Exclusive()
        none = next(self.prior.parameters(), torch.zeros(0)).detach().new_zeros(0).double()
        self._empty = PooledPlays(none.reshape(0, 0), Outcomes(likelihood, none, none), 0)
        self._now = _Now(self._empty)

    @property
    def num_observations(self) -> int:
        r"""Number of outcomes."""
        return self._now.plays.num_observations

    @property
    def num_distinct(self) -> int:
        r"""Number of distinct arms played, on which the cost of a round depends."""
        return len(self._now.plays.inputs)

    @property
    def assumptions(self) -> Assumptions:
        r"""What the guarantee rests on, and what the data contradict."""
        with self._exclusive:
            band = self._solved()
        if band is not None:
            return band.assumptions
        norm = given_norm(self.norm_bound)
        assumptions = self._ratio.assumptions(self._kind, self._estimated, norm)
        return assumptions.by(CutEllipsoid.source)

    @checked
    @torch.no_grad()
    def bounds(self, arms: Tensor) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound on the success probability or the rate at arms.

        Args:
            arms: ``a x d`` arms.

        Returns:
            Two ``a``-vectors, float64.

        Raises:
            BotorchTensorDimensionError: If the arms are no matrix, or have another number
                of columns than those observed.
            InputDataError: If a value is not finite.
        """
        with self._exclusive:
            lower, upper = LINKS[self._kind].inverse(self._sides(arms, (-1, 1)))
        return lower, upper

    @checked
    @torch.no_grad()
    def latent_bounds(self, arms: Tensor) -> tuple[Tensor, Tensor]:
        r"""``bounds`` on the log odds or the log rate; arguments and errors as there."""
        with self._exclusive:
            lower, upper = self._sides(arms, (-1, 1))
        return lower, upper

    @checked
    @torch.no_grad()
    def select(self, arms: Tensor) -> int:
        r"""Index of the arm with the largest upper bound, the first where several tie.

        Args:
            arms: ``a x d`` arms, at least one.

        Raises:
            InputDataError: If there are no arms; other errors as ``bounds``.
        """
        with self._exclusive:
            upper = self._sides(arms, (1,))[0]
        if len(upper) == 0:
            raise InputDataError("There are no arms to select from.")
        return int(upper.argmax())

    @checked
    @torch.no_grad()
    def observe(
        self,
        x: Tensor,
        y: float | Tensor,
        *,
        num_trials: float | Tensor | None = None,
        exposure: float | Tensor | None = None,
    ) -> None:
        r"""Add one outcome, or several.

        Args:
            x: The arm played, ``d``, or ``n x d`` of them.
            y: 0 or 1, a number of successes, or a count; ``n`` for several arms.
            num_trials: For ``"binomial"``, one number or ``n``.
            exposure: For ``"poisson"``, one number or ``n``, above 0; 1 when absent.

        Raises:
            BotorchTensorDimensionError: As ``bounds``, or if the numbers of both differ.
            InputDataError: If a value is not finite, or an outcome impossible.
            ValueError: If ``num_trials`` or ``exposure`` is missing or out of place.
        """
        with self._exclusive:
            now = self._now
            inputs = self._checked_arms(x.unsqueeze(0) if x.dim() == 1 else x)
            counts = finite("y", torch.as_tensor(y).detach().double().reshape(-1))
            if len(counts) != len(inputs) or len(inputs) == 0:
                raise BotorchTensorDimensionError(
                    f"observe takes as many outcomes as arms, got {len(counts)} and "
                    f"{len(inputs)}."
                )
            outcomes = Outcomes.of(self._kind, counts, num_trials, exposure)
            self._now = _Now(now.plays.extended(inputs, outcomes), None, now.warned)

    @torch.no_grad()
    def state_dict(self) -> dict[str, Any]:
        r"""The outcomes and the arguments, in copies.

        Save it with ``torch.save``; a bandit made with the same arguments resumes from it.
        """
        with self._exclusive:
            plays, _, warned = self._now
            return plays.as_state(self._arguments, self.prior, warned)

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        r"""Resume from ``state_dict()`` of a bandit made with the same arguments.

        Raises:
            StateError: If it was saved by a bandit with other arguments or by another
                version, or was changed since; nothing is loaded.
        """
        with self._exclusive:
            own = self._arguments, self.prior, self._columns
            plays, warned = self._empty.read(state_dict, *own)
            self._now = _Now(plays, warned=warned)

    @property
    def _arguments(self) -> dict[str, Any]:
        r"""The arguments as plain values, for saved states."""
        return {
            "likelihood": self._kind,
            "norm_bound": float(self.norm_bound),
            "delta": self.delta,
            "covariance_scale": list(covariance_scales(self._ratio.covariance_scale)),
        }

    def _sides(self, arms: Tensor, signs: tuple[int, ...]) -> Tensor:
        r"""Latent bounds at arms, a row for each sign."""
        arms, band = self._checked_arms(arms), self._solved()

        def evaluate(part: Tensor) -> Tensor:
            if band is None:
                reach = float(self.norm_bound) * self.prior.variance(part).sqrt()
                return torch.stack([self.prior.mean(part) + sign * reach for sign in signs])
            points = band.project(part)
            supports = [sign * band.support(points, sign).value for sign in signs]
            return points.baseline + torch.stack(supports)

        return in_parts(arms, evaluate)

    def _solved(self) -> FunctionSet[KernelRegression] | None:
        r"""The set that the outcomes leave; None before the first one."""
        now = self._now
        if now.band is not None or now.plays.num_observations == 0:
            return now.band
        data = now.plays.data(self.prior, self._estimated)
        with warnings.catch_warnings():  # said once, below
            warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
            band = likelihood_set(data, self.norm_bound, self._ratio)
        contradiction = band.constraints.contradiction
        self._now = _Now(now.plays, band, now.warned or contradiction is not None)
        if contradiction is not None and not now.warned:
            message = f"{contradiction.statement} That norm is used instead."
            warnings.warn(message, InconsistentConfidenceSetWarning, stacklevel=4)
        return band

    def _checked_arms(self, arms: Tensor) -> Tensor:
        if arms.dim() != 2:
            shape = tuple(arms.shape)
            raise BotorchTensorDimensionError(f"Arms must be `a x d`, got shape {shape}.")
        dimension = self._now.plays.dimension
        if dimension not in (None, arms.shape[1]):
            raise BotorchTensorDimensionError(
                f"Arms have {arms.shape[1]} columns; those observed have {dimension}."
            )
        arms = finite("The arms", arms).detach().to(self._empty.inputs)
        if dimension is None:
            self.prior.check_fits(arms)
        return arms
