r"""Budgeted kernel bandit: very many arms, very many rounds (BKB and BBKB)."""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from kernelucb._numerics.checks import (
    finite,
    finite_scalar,
    positive_scalar,
    probability,
    whole_number,
)
from kernelucb._numerics.estimates import estimated_parts
from kernelucb._numerics.nystrom import draw, inclusion_probabilities
from kernelucb.bandit.sketched_arms import SketchedArms
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.bkb import (
    Budget,
    bkb_assumptions,
    certified_width,
    practical_width,
)
from kernelucb.regression.prior import Prior

# Inducing arms are dropped when there are more than this many times those just drawn.
_SLACK = 2
# Arms whose hallucinated variances are brought up to date together.
_BLOCK = 64


class BKBBandit:
    r"""Budgeted kernel bandit on a fixed finite set of arms, in ``O(A m)`` memory.

    The band of ``BKBUCB`` for every arm. After each step the inducing arms are drawn again
    by posterior variance; those drawn before are kept as well until they would be more than
    twice those just drawn. A larger set is at least as accurate (its span contains the
    other), and additions cost ``O(A m)`` where another set would cost ``O(A m^2)``.

    ``batch_select`` plays several arms before it hears of their outcomes: means stay, and
    variances are conditioned on the arms picked. The batch ends when those arms could have
    changed a variance by more than the factor ``batch_growth``.

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
        norm_bound: float,
        noise_std: float,
        delta: float = 0.05,
        qbar: float = 2.0,
        radius: Literal["certified", "practical"] = "certified",
        epsilon: float = 0.5,
        regularizer: float | None = None,
        batch_growth: float = 1.1,
        seed: int = 0,
        mean_module: Mean | None = None,
    ) -> None:
        r"""Bandit without observations.

        Args:
            candidates: ``A x d`` arms.
            covar_module: Kernel of the prior, output scale included; a frozen float64 copy
                is kept.
            norm_bound: Bound on the RKHS norm of ``f - mean``, outcome units.
            noise_std: Sub-Gaussian noise scale, outcome units.
            delta: Failure probability.
            qbar: Oversampling factor; see ``BKBModel``.
            radius: ``"certified"`` (Theorem 2) or ``"practical"``; see ``BKBUCB``.
            epsilon: Accuracy of the sketch that the certified radius counts on.
            regularizer: ``lam``; ``noise_std^2`` when absent, as in the paper. The width is
                about ``sqrt(lam) norm_bound + noise_std sqrt(gain)`` over ``sqrt(lam)``:
                where the second part is much the larger, a larger one means fewer inducing
                arms, longer batches and narrower bands where little has been observed.
            batch_growth: ``C`` above 1; larger ones make longer batches and wider bands.
            seed: Seed of the draws.
            mean_module: Known prior mean; zero when absent.

        Raises:
            BotorchTensorDimensionError: If the candidates are no matrix.
            InputDataError: If there are none, or a value is not finite.
            ValueError: If an argument is out of its range.
        """
        if candidates.dim() != 2:
            raise BotorchTensorDimensionError(
                f"candidates must be `A x d`, got shape {tuple(candidates.shape)}."
            )
        if len(candidates) == 0:
            raise InputDataError("There are no arms to select from.")
        if radius not in ("certified", "practical"):
            raise ValueError(f'radius must be "certified" or "practical", got {radius!r}.')
        self.radius: str = radius
        self.norm_bound = positive_scalar("norm_bound", norm_bound)
        self.noise_std = positive_scalar("noise_std", noise_std)
        self.delta = probability("delta", delta)
        self.qbar = positive_scalar("qbar", qbar)
        self.epsilon = probability("epsilon", epsilon)
        lam = noise_std**2 if regularizer is None else regularizer
        self.regularizer = positive_scalar("regularizer", lam)
        self.batch_growth = finite_scalar("batch_growth", batch_growth)
        if self.batch_growth <= 1.0:
            raise ValueError(f"batch_growth must be above 1, got {batch_growth}.")
        self.candidates = finite("candidates", candidates).detach().double()
        self._estimated = estimated_parts(covar_module, mean_module)
        self.prior = Prior(covar_module, mean_module).to(candidates.device)
        self._generator = torch.Generator().manual_seed(seed).get_state()
        with torch.no_grad():
            self.arms = SketchedArms(self.prior, self.candidates, self.regularizer)
        self._information = 0.0

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
        r"""What the guarantee rests on."""
        return bkb_assumptions(
            self.radius,
            self.num_observations,
            self.qbar,
            self.delta,
            self.epsilon,
            self.norm_bound,
            self.noise_std,
            self._estimated,
        )

    @property
    def width(self) -> float:
        r"""Multiplier of the latent standard deviation, ``beta / sqrt(lam)``."""
        budget = self._budget()
        if self.radius == "practical":
            return practical_width(budget, self.norm_bound, self.noise_std, self.delta)
        return certified_width(
            budget, self.norm_bound, self.noise_std, self.delta, self.epsilon
        )

    @property
    def batch_width(self) -> float:
        r"""The multiplier within a batch, where variances stand for larger ones.

        At the start of the batch they were up to ``C`` times as large. The certified width
        is multiplied by ``sqrt(C)``; the practical one is ``norm_bound + noise_std
        sqrt((C sum_s ln(1 + var(x_s) / lam) + ln(1/delta)) / lam)`` with the variances
        before each batch, which no theorem covers.
        """
        if self.radius == "certified":
            return self.width * self.batch_growth**0.5
        gain = self.batch_growth * self._information + math.log(1.0 / self.delta)
        return self.norm_bound + self.noise_std * math.sqrt(gain / self.regularizer)

    def bounds(self) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound of every arm, two ``A``-vectors in outcome units."""
        mean = self.arms.mean
        radius = self.width * self.arms.variance.sqrt()
        return mean - radius, mean + radius

    @torch.no_grad()
    def select(self) -> int:
        r"""The arm with the largest upper bound, the first where several tie."""
        return int(self.bounds()[1].argmax())

    @torch.no_grad()
    def batch_select(self, max_size: int | None = None) -> list[int]:
        r"""Arms to play together; an arm may come several times.

        Variances only fall while the batch is picked, and means stay, so an arm whose
        bound is up to date and larger than all others', up to date or not, is the best.

        Args:
            max_size: Largest batch; without it the rule alone decides.

        Returns:
            At least one index.
        """
        limit = math.inf if max_size is None else whole_number("max_size", max_size)
        arms, lam, width = self.arms, self.regularizer, self.batch_width
        mean, start, quadratic = arms.mean, arms.variance, arms.quadratic.clone()
        upper = mean + width * start.sqrt()
        applied = torch.zeros(len(mean), dtype=torch.long, device=mean.device)
        columns = mean.new_zeros(arms.features.shape[1], 0)
        picked: list[int] = []
        growth = 1.0
        while len(picked) < limit and growth <= self.batch_growth:
            best = int(upper.argmax())
            while int(applied[best]) < len(picked):
                top = upper.topk(min(_BLOCK, len(upper))).indices
                top[-1] = best  # among equals it may be missing
                stale = top[applied[top] < len(picked)]
                products = arms.features[stale] @ columns
                fallen = arms.quadratic[stale] - products.square().sum(-1)
                quadratic[stale] = fallen.clamp(min=0.0)
                variance = arms.unexplained[stale] + lam * quadratic[stale]
                upper[stale] = mean[stale] + width * variance.sqrt()
                applied[stale] = len(picked)
                best = int(upper.argmax())
            picked.append(best)
            growth += float(start[best]) / lam
            column = arms.hallucination(best, columns)
            columns = torch.cat([columns, column.unsqueeze(-1)], dim=1)
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
        state = self.arms
        index = torch.as_tensor(arms, device=state.counts.device).reshape(-1)
        values = torch.as_tensor(outcomes, dtype=torch.float64).reshape(-1)
        values = finite("outcomes", values).to(state.counts)
        if len(index) != len(values) or len(index) == 0:
            raise BotorchTensorDimensionError(
                f"observe takes as many outcomes as arms, got {len(values)} and "
                f"{len(index)}."
            )
        if index.is_floating_point() or not 0 <= int(index.min()) <= int(index.max()) < len(
            self.candidates
        ):
            raise InputDataError(
                f"Arms are whole numbers from 0 to {len(self.candidates) - 1}."
            )
        before = state.variance
        self._information += float(torch.log1p(before[index] / self.regularizer).sum())
        distinct, inverse = index.unique(return_inverse=True)
        zeros = values.new_zeros(len(distinct))
        counts = zeros.index_add(0, inverse, torch.ones_like(values))
        sums = zeros.index_add(0, inverse, values - state.prior_mean[index])
        drawn = self._draw(before, state.counts.index_add(0, distinct, counts))
        new = drawn[~torch.isin(drawn, state.inducing)]
        if len(state.inducing) + len(new) > _SLACK * len(drawn):
            state.forget()
            new = drawn
        state.observe(distinct, counts, sums, new)

    def _draw(self, variance: Tensor, counts: Tensor) -> Tensor:
        r"""Inducing arms drawn with the variances of the step before."""
        seen = counts.nonzero().squeeze(-1)
        probabilities = inclusion_probabilities(
            variance[seen], counts[seen], self.regularizer, self.qbar
        )
        position, self._generator = draw(probabilities, self._generator)
        return seen[position]

    def _budget(self) -> Budget:
        counts, lam = self.arms.counts, self.regularizer
        return Budget(
            self.num_observations,
            float(counts @ self.arms.variance) / lam,
            float(counts @ self.arms.prior_variance),
            lam,
        )

    def state_dict(self) -> dict[str, Tensor]:
        r"""Everything that is needed to go on, as tensors; save it with ``torch.save``."""
        return {
            "counts": self.arms.counts.clone(),
            "sums": self.arms.sums.clone(),
            "inducing": self.arms.inducing.clone(),
            "generator": self._generator.clone(),
            "information": torch.tensor(self._information, dtype=torch.float64),
        }

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        r"""Resume from ``state_dict()`` of a bandit made with the same arguments.

        Args:
            state_dict: Tensors as saved.

        Raises:
            InputDataError: If entries are missing, or are for another number of arms.
        """
        missing = self.state_dict().keys() - state_dict.keys()
        if missing:
            raise InputDataError(f"The state lacks {', '.join(sorted(missing))}.")
        if state_dict["counts"].shape != self.arms.counts.shape:
            raise InputDataError(
                f"The state is for {len(state_dict['counts'])} arms, not "
                f"{len(self.candidates)}."
            )
        self.arms.counts = state_dict["counts"].to(self.arms.counts)
        self.arms.sums = state_dict["sums"].to(self.arms.sums)
        self._generator = state_dict["generator"].cpu().clone()
        self._information = float(state_dict["information"])
        self.arms.rebuild(state_dict["inducing"].to(self.arms.inducing))
