r"""Budgeted kernel bandit: very many arms, very many rounds (BKB and BBKB)."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from kernelucb._numerics.checks import (
    as_double,
    finite,
    finite_scalar,
    positive_scalar,
    whole_number,
)
from kernelucb._numerics.domains import checked_points
from kernelucb._numerics.estimates import estimated_parts, with_numbers
from kernelucb.bandit.kernel_bandit import OfBoundedNorm
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.norm import NormBoundLike
from kernelucb.data.nystrom import DTCRegression, SketchedData, check_noise
from kernelucb.data.prior import Prior
from kernelucb.papers.bkb import BKBRadius, BKBRule

# Inducing arms are dropped when there are more than this many times the ones just drawn.
_SLACK = 2.0
_STALE = 64  # arms whose variances in a batch are brought up to date in one product
_LARGEST_BATCH = 1000  # arms in a batch where no number is given
_BLOCK = 64  # observed arms that the certified width takes together: a few milliseconds


class BKBBandit(OfBoundedNorm):
    r"""Budgeted kernel bandit on a fixed finite set of arms, in ``O(A m)`` memory.

    The band of ``BKBUCB`` for every arm. After each step the inducing arms are drawn again
    by posterior variance; earlier inducing arms are kept as well, as long as there are at
    most twice as many as just drawn. A larger set is at least as accurate, since its span
    contains the span of the smaller set, and adding arms costs ``O(A m)`` where a new set
    would cost ``O(A m^2)``.

    ``batch_select`` picks several arms before their outcomes are known: means stay, and
    variances are conditioned on the arms picked. The batch ends when the picked arms could
    have changed a variance by more than the factor ``batch_growth``, or after 1000 arms.

    Source: Calandriello et al. (2019), Algorithm 1 (BKB); Calandriello et al. (2020) for
    batches (BBKB). Assumptions as for ``BKBUCB``.

    Example:
        >>> bandit = BKBBandit(candidates, kernel, norm_bound=1.0, noise_std=0.1)
        >>> while bandit.num_observations < 20_000:
        ...     arms = bandit.batch_select()
        ...     bandit.observe(arms, [play(arm) for arm in arms])
    """

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
                ``NormTracker`` or None (one of inflation 1.5 and floor 4) to estimate it
                from the data, anew after every sixteenth part of new
                observations. A given ``NormTracker`` is used and updated.
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
        super().__init__(norm_bound)
        self.rule = BKBRule(radius, delta, epsilon)
        self.noise_std = positive_scalar("noise_std", noise_std)
        alpha = self.noise_std**2 if alpha is None else alpha
        self.alpha = positive_scalar("alpha", alpha)
        self.batch_growth = finite_scalar("batch_growth", batch_growth)
        if self.batch_growth <= 1.0:
            raise ValueError(f"batch_growth must be above 1, got {batch_growth}.")
        self.candidates = checked_points("candidates", candidates)
        parts = estimated_parts(covar_module, mean_module)
        self._estimated = with_numbers(parts, norm_bound, noise_std)
        self.prior = Prior(covar_module, mean_module).to(candidates.device)
        self.prior.check_fits(self.candidates)
        # Of a generator on the CPU, so that every device draws the same.
        draws = torch.Generator().manual_seed(seed % 2**64).get_state()
        given = self.prior, self.candidates, self.alpha, positive_scalar("qbar", qbar)
        with torch.no_grad():
            self.arms = SketchedData.empty(*given, draws)  # posterior of every arm
        check_noise("The root of alpha", self.alpha**0.5, self.arms.prior_variance)
        # sum_s ln(1 + var(x_s) / alpha) with the variances before each batch.
        self._information, self._estimate_at = 0.0, 0
        self._estimate_norm()

    @property
    def num_observations(self) -> int:
        r"""Number of observations ``t``."""
        return int(self.arms.counts.sum())

    @property
    def inducing(self) -> Tensor:
        r"""Indices of the inducing arms."""
        return self.arms.inducing

    @property
    def assumptions(self) -> Assumptions:
        r"""The assumptions of the guarantee."""
        norm, state = self._norm, self._regression()
        if not self._estimates:  # the data may contradict it
            norm = self.rule.norm(self._ball, state)
        return self.rule.assumptions(state, norm.assumption)

    def _regression(self) -> DTCRegression:
        dimension, estimated = self.candidates.shape[1], self._estimated
        return DTCRegression(self.prior, self.arms, self.noise_std, dimension, estimated)

    def _estimate_norm(self) -> None:
        r"""With every observation at first, then with every sixteenth part of them."""
        count = self.num_observations
        if self._estimates and count >= self._estimate_at:
            self.rule.norm(self._ball, self._regression())
            self._estimate_at = count + max(1, count // 16)

    @property
    def width(self) -> float:
        r"""Multiplier of the latent standard deviation, ``beta / sqrt(alpha)``."""
        return self.rule.width(self.arms, self._norm.value, self.noise_std, _BLOCK)

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
        gain = self.batch_growth * self._information + math.log(1.0 / self.rule.delta)
        return self._norm.value + self.noise_std * math.sqrt(gain / self.alpha)

    def bounds(self) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound of every arm, two ``A``-vectors in outcome units."""
        mean, radius = self.arms.mean, self.width * self.arms.variance.sqrt()
        return mean - radius, mean + radius

    @torch.no_grad()
    def select(self) -> int:
        r"""The arm with the largest upper bound, the first where several tie."""
        return int(self.bounds()[1].argmax())

    @torch.no_grad()
    def batch_select(self, max_size: int | None = None) -> list[int]:
        r"""Arms to play together; an arm may come several times.

        Where variances are far below ``alpha`` the rule would allow very many arms, and the
        time for a batch grows with the square of their number. A batch may always be
        shorter than the rule allows.

        Source: Calandriello et al. (2020), Algorithm 1.

        Args:
            max_size: Largest batch; 1000 when absent. At least one arm is picked.

        Raises:
            ValueError: If the size is not a whole number above zero.
        """
        largest = whole_number("max_size", _LARGEST_BATCH if max_size is None else max_size)
        arms, width = self.arms, self.batch_width
        start, reached = arms.variance, 1.0
        upper = arms.mean + width * start.sqrt()
        columns = start.new_zeros(arms.features.shape[1], 0)
        updated = torch.zeros_like(arms.inputs[:, 0], dtype=torch.long)  # arms picked then
        picked: list[int] = []
        while len(picked) < largest and reached <= self.batch_growth:
            # Bounds only fall in a batch, so one that is up to date and above all others,
            # up to date or not, is the largest.
            while int(updated[best := int(upper.argmax())]) < len(picked):
                top = upper.topk(min(_STALE, len(upper))).indices
                top[-1] = best  # among equals it may be missing
                fallen = (arms.features[top] @ columns).square().sum(-1)
                quadratic = (arms.quadratic[top] - fallen).clamp_min(0.0)
                variance = arms.residual_variance[top] + arms.alpha * quadratic
                upper[top] = arms.mean[top] + width * variance.sqrt()
                updated[top] = len(picked)
            picked.append(best)
            reached += float(start[best]) / arms.alpha
            # V^-1 z / sqrt(1 + z^T V^-1 z) for V with the arms picked before: quadratic
            # forms fall by the squares of the features' products with it.
            z = arms.features[best].unsqueeze(-1)
            column = arms.sketch.solve(z) - columns @ (columns.mT @ z)
            column = column / (1.0 + z.mT @ column).sqrt()
            columns = torch.cat([columns, column], dim=1)
        return picked

    @torch.no_grad()
    def observe(
        self, arms: int | Sequence[int] | Tensor, outcomes: float | Sequence[float] | Tensor
    ) -> None:
        r"""Add outcomes, and draw the inducing arms again.

        Args:
            arms: Indices of the arms played, or one.
            outcomes: Their outcomes.

        Raises:
            BotorchTensorDimensionError: If there are not as many outcomes as arms.
            InputDataError: If an outcome is not finite, or an arm does not exist.
        """
        like: Any = self.arms.mean
        index = torch.as_tensor(arms).detach().reshape(-1).to(like.device)
        given = as_double(outcomes, "outcomes")
        values = finite("outcomes", given).detach().reshape(-1).to(like)
        if len(index) != len(values) or len(index) == 0:
            raise BotorchTensorDimensionError(
                "observe takes as many outcomes as arms, got "
                f"{len(values)} and {len(index)}."
            )
        if bool(((index < 0) | (index >= len(like))).any()):
            raise InputDataError(f"Arms are whole numbers from 0 to {len(like) - 1}.")
        variance, index = self.arms.variance[index.long()], index.long()
        self.arms = self.arms.observe(index, values - self.arms.prior_mean[index], _SLACK)
        self._information += float(torch.log1p(variance / self.alpha).sum())
        self._estimate_norm()
