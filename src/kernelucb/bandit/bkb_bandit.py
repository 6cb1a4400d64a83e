r"""Budgeted kernel bandit: very many arms, very many rounds (BKB and BBKB)."""

import math
from collections.abc import Sequence
from copy import copy
from typing import Any

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from kernelucb._numerics import states
from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import finite, finite_scalar, positive_scalar, whole_number
from kernelucb._numerics.estimates import (
    EstimatedNumber,
    estimated_parts,
    with_numbers,
)
from kernelucb._numerics.exclusive import Exclusive
from kernelucb.bandit.batch_search import pick_batch
from kernelucb.bandit.bkb_state import BKBState
from kernelucb.bandit.bounds import raise_estimate
from kernelucb.bandit.plays import read_plays
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.bkb import BKBRadius, BKBRule
from kernelucb.confidence.norm.tracker import (
    NormBoundLike,
    NormTracker,
    estimated_norm,
    tracker_of,
)
from kernelucb.confidence.statements import Knowledge
from kernelucb.regression.lowrank.arms import SketchedArms
from kernelucb.regression.lowrank.ridge import DTCRegression
from kernelucb.regression.lowrank.sketch import check_noise
from kernelucb.regression.prior import Prior

_LARGEST_BATCH = 1000  # arms in a batch where no number is given
_BLOCK = 64  # observed arms that the certified width takes together: a few milliseconds


class BKBBandit:
    r"""Budgeted kernel bandit on a fixed finite set of arms, in ``O(A m)`` memory.

    The band of ``BKBUCB`` for every arm. After each step the inducing arms are drawn again
    by posterior variance; those drawn before are kept as well until they would be more than
    twice those just drawn. A larger set is at least as accurate (its span contains the
    other), and additions cost ``O(A m)`` where another set would cost ``O(A m^2)``.

    ``batch_select`` plays several arms before it hears of their outcomes: means stay, and
    variances are conditioned on the arms picked. The batch ends when those arms could have
    changed a variance by more than the factor ``batch_growth``, or after 1000 arms.

    ``observe`` and ``load_state_dict`` leave the old state or the new one, also when they
    are interrupted. A bandit is for one thread at a time.

    Source: Calandriello et al. (2019), Algorithm 1 (BKB); Calandriello et al. (2020) for
    batches (BBKB). Assumptions as for ``BKBUCB``.

    Example:
        >>> bandit = BKBBandit(candidates, kernel, norm_bound=1.0, noise_std=0.1)
        >>> while bandit.num_observations < 20_000:
        ...     arms = bandit.batch_select()
        ...     bandit.observe(arms, [play(arm) for arm in arms])
    """

    @checked
    def __init__(
        self,
        candidates: Tensor,
        covar_module: Kernel,
        *,
        norm_bound: NormBoundLike = None,
        noise_std: float,
        delta: float = 0.05,
        qbar: float = 2.0,
        radius: BKBRadius = "certified",
        epsilon: float = 0.5,
        alpha: float | None = None,
        batch_growth: float = 1.1,
        seed: int = 0,
        mean_module: Mean | None = None,
    ) -> None:
        r"""Bandit without observations.

        Args:
            candidates: ``A x d`` arms.
            covar_module: Kernel of the prior, output scale included; a frozen float64 copy
                is kept.
            norm_bound: Bound on the RKHS norm of ``f - mean``, outcome units. A
                ``NormTracker``, ``"cautious"`` or None (the same here, where the kernel is
                fixed) to estimate it from the data, anew after every sixteenth part of new
                observations. A tracker given is raised with the bandit's own.
            noise_std: Sub-Gaussian noise scale, outcome units.
            delta: Failure probability.
            qbar: Oversampling factor; see ``BKBModel``.
            radius: ``"certified"``, ``"theorem2"`` or ``"practical"``; see ``BKBUCB``.
            epsilon: Accuracy of the sketch that ``"theorem2"`` counts on.
            alpha: Ridge parameter, in the squared units of the outcomes; ``noise_std^2``
                when absent, as in the paper. The width is about ``norm_bound + noise_std
                sqrt(gain / alpha)``: where the second part is much the larger, a larger
                one means fewer inducing arms, longer batches and narrower bands where
                little has been observed.
            batch_growth: ``C`` above 1; larger ones make longer batches and wider bands.
            seed: Seed of the draws.
            mean_module: Known prior mean; zero when absent.

        Raises:
            BotorchTensorDimensionError: If the candidates are no matrix.
            InputDataError: If there are none, or a value is not finite.
            UnsupportedError: If kernel or mean are of another class.
            ValueError: If an argument is out of its range, or of another type, or the noise
                is lost in the rounding of the prior's deviations.
        """
        if candidates.dim() != 2:
            raise BotorchTensorDimensionError(
                f"candidates must be `A x d`, got shape {tuple(candidates.shape)}."
            )
        if len(candidates) == 0:
            raise InputDataError("There are no arms to select from.")
        tracker = tracker_of("cautious" if norm_bound is None else norm_bound)
        norm = tracker or float(positive_scalar("norm_bound", norm_bound))
        qbar = positive_scalar("qbar", qbar)
        self.rule = BKBRule(radius, delta, epsilon, qbar).checked()
        self.noise_std = float(positive_scalar("noise_std", noise_std))
        alpha = self.noise_std**2 if alpha is None else alpha
        self.alpha = float(positive_scalar("alpha", alpha))
        self.batch_growth = finite_scalar("batch_growth", batch_growth)
        if self.batch_growth <= 1.0:
            raise ValueError(f"batch_growth must be above 1, got {batch_growth}.")
        self.candidates = finite("candidates", candidates).detach().double()
        parts = estimated_parts(covar_module, mean_module)
        self._estimated = with_numbers(parts, norm_bound, noise_std)
        self.prior = Prior(covar_module, mean_module).to(candidates.device)
        self.prior.check_fits(self.candidates)
        self._exclusive = Exclusive()
        with torch.no_grad():
            arms = SketchedArms(self.prior, self.candidates, self.alpha)
        check_noise("The root of alpha", self.alpha**0.5, arms.prior_variance)
        generator = torch.Generator().manual_seed(seed % 2**64)
        self._tracker = norm_bound if isinstance(norm_bound, NormTracker) else None
        state = BKBState(arms, generator.get_state(), 0.0, norm)
        self._replace(self._with_norm(state._replace(norm=copy(norm))))

    @property
    def arms(self) -> SketchedArms:
        r"""Posterior of the arms, with their numbers of observations."""
        return self._state.arms

    @property
    def num_observations(self) -> int:
        r"""Number of observations ``t``."""
        return int(self.arms.counts.sum())

    @property
    def inducing(self) -> Tensor:
        r"""Indices of the inducing arms."""
        return self.arms.inducing

    @property
    def norm_bound(self) -> float:
        r"""The norm bound in use, outcome units."""
        guessed = isinstance(self._state.norm, NormTracker) or "norm" in self._estimated
        return EstimatedNumber(self._norm) if guessed else self._norm

    @property
    def _norm(self) -> float:
        norm = self._state.norm
        return norm.estimates[0] if isinstance(norm, NormTracker) else norm

    @property
    def assumptions(self) -> Assumptions:
        r"""What the guarantee rests on."""
        norm = self._state.norm
        if isinstance(norm, NormTracker):
            statement = estimated_norm(*norm.estimates)
        else:
            regression = self._regression(self.arms)
            statement = self.rule.norm(self.norm_bound, regression).assumption
        known = Knowledge(self._estimated, self.candidates.new_tensor([self.noise_std]))
        return self.rule.assumptions(self.num_observations, known, statement)

    def _regression(self, arms: SketchedArms) -> DTCRegression:
        dimension, estimated = self.candidates.shape[1], self._estimated
        return DTCRegression(self.prior, arms, self.noise_std, dimension, estimated)

    @property
    def width(self) -> float:
        r"""Multiplier of the latent standard deviation, ``beta / sqrt(alpha)``."""
        return self.rule.width(self.arms, self._norm, self.noise_std, _BLOCK)

    @property
    def batch_width(self) -> float:
        r"""The multiplier within a batch, where variances stand for larger ones.

        At the start of the batch they were up to ``C`` times as large. The other widths
        are multiplied by ``sqrt(C)``; the practical one is ``norm_bound + noise_std
        sqrt((C sum_s ln(1 + var(x_s) / alpha) + ln(1/delta)) / alpha)`` with the variances
        before each batch, which no theorem covers.
        """
        if self.rule.radius != "practical":
            return self.width * self.batch_growth**0.5
        gain = self.batch_growth * self._state.information + math.log(1.0 / self.rule.delta)
        return self._norm + self.noise_std * math.sqrt(gain / self.alpha)

    def bounds(self) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound of every arm, two ``A``-vectors in outcome units."""
        with self._exclusive:
            mean = self.arms.mean
            radius = self.width * self.arms.variance.sqrt()
            return mean - radius, mean + radius

    @torch.no_grad()
    def select(self) -> int:
        r"""The arm with the largest upper bound, the first where several tie."""
        return int(self.bounds()[1].argmax())

    @checked
    @torch.no_grad()
    def batch_select(self, max_size: int | None = None) -> list[int]:
        r"""Arms to play together; an arm may come several times.

        Where variances are far below ``alpha`` the rule would allow very many arms, and the
        time for a batch grows with the square of their number. A batch may always be
        shorter than the rule allows.

        Args:
            max_size: Largest batch; 1000 when absent. At least one arm is picked.

        Raises:
            ValueError: If the size is not a whole number above zero.
        """
        largest = _LARGEST_BATCH if max_size is None else max_size
        whole_number("max_size", largest)
        with self._exclusive:
            return pick_batch(self.arms, self.batch_width, self.batch_growth, largest)

    @torch.no_grad()  # read_plays checks the arguments: tensors of whole numbers are right
    def observe(
        self, arms: int | Sequence[int] | Tensor, outcomes: float | Sequence[float] | Tensor
    ) -> None:
        r"""Add outcomes, and draw the inducing arms again.

        Args:
            arms: Indices of the arms played, or one.
            outcomes: Their outcomes.

        Raises:
            BotorchTensorDimensionError: If there are not as many outcomes as arms.
            InputDataError: If an outcome is no finite number, or an arm does not exist.
            RuntimeError: If another thread is using the bandit.
        """
        with self._exclusive:
            index, values = read_plays(arms, outcomes, self.arms.counts)
            before = _stage(self.num_observations)
            state = self._state.observed(index, values, self.rule.qbar)
            if _stage(int(state.arms.counts.sum())) > before:
                state = self._with_norm(state)
            self._replace(state)

    def _with_norm(self, state: BKBState) -> BKBState:
        r"""With the norm bound that is estimated from it; where one was given, as it is."""
        tracker = state.norm
        if isinstance(tracker, NormTracker):
            raise_estimate(tracker, self._tracker)
            self.rule.norm(tracker, self._regression(state.arms))
        return state

    def state_dict(self) -> dict[str, Any]:
        r"""Everything that is needed to go on; save it with ``torch.save``."""
        with self._exclusive:
            return states.sealed({**self._state.saved(), **self._arguments()})

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        r"""Resume from ``state_dict()`` of a bandit made with the same arguments.

        Args:
            state_dict: As saved; copied.

        Raises:
            StateError: If entries are missing or not what they should be, or are of a
                bandit with other arms or arguments. The bandit is as before then.
        """
        with self._exclusive:
            self._replace(self._state.loaded(state_dict, self._arguments()))

    def _replace(self, state: BKBState) -> None:
        r"""As a whole, so that an interrupted update leaves the old one."""
        self._state = state
        if isinstance(state.norm, NormTracker):
            raise_estimate(self._tracker, state.norm)

    def _arguments(self) -> dict[str, Any]:
        r"""Arguments of the construction that the observations do not change."""
        rule = self.rule._asdict()
        own = {name: getattr(self, name) for name in ("noise_std", "alpha", "batch_growth")}
        # Plain numbers: those that say that they were estimated need their class to load.
        plain = {name: float(value) for name, value in own.items()}
        return plain | {n: v if n == "radius" else float(v) for n, v in rule.items()}


def _stage(count: int) -> int:
    r"""Rises with every observation at first, then with every sixteenth part of them."""
    return math.floor(math.log(count, 17.0 / 16.0)) if count else -1
