r"""A bandit for when the kernel is not known: bounds over a family of kernels."""

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import finite, whole_number
from kernelucb._numerics.exclusive import Exclusive
from kernelucb.bandit import family_saved
from kernelucb.bandit.family import Family, Shared
from kernelucb.bandit.family_bands import NEVER, FamilyBands
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.family.select import explores_for_all
from kernelucb.confidence.fit.choice import ClosedForm
from kernelucb.confidence.fit.mixture import CovarianceScale
from kernelucb.exceptions import (
    InconsistentConfidenceSetError,
    InconsistentConfidenceSetWarning,
)

BanditSelect = Literal["alternate", "simplest", "widest", "balancing"]


class FamilyBandit:
    r"""Bounds over a family of kernels for finite, changing sets of arms, anytime.

    What ``KernelFamilyUCB`` is to ``MartingaleMixtureUCB``, this is to ``KernelBandit``:
    ``bounds`` is the union of the bands of those kernels that no round has contradicted,
    each at the full ``delta``, and holds the true function at every arm and every round at
    once with probability ``1 - delta``, whoever chose the arms. A kernel that was
    contradicted is left out for good. A round costs ``O(n^2)`` for each kernel that is
    left. The bands are those of ``KernelBandit``, whose filters are fewer than those of
    ``KernelFamilyUCB``, so kernels may fall out later.

    **Search.** ``"alternate"``, ``"simplest"`` and ``"widest"`` are those of
    ``KernelFamilyUCB``. ``"balancing"`` plays the kernel with the least suspected regret
    over its own plays, and drops one whose outcomes are too low for its band; see
    ``Balance``. It compares averages over different rounds, so it is for one set of arms
    that does not change. What it drops is not played any more and stays in ``bounds``.
    Once each kernel has been played, the ``n`` plays of one that is not dropped, whose
    bands were ``W`` wide there in sum, have with probability ``1 - 2 delta`` a regret of at
    most

        ``W + 2 sqrt(xi n) + (n / n*) (W* + 2 sqrt(xi n*))``

    where ``*`` is the true kernel and ``xi`` is of the order of
    ``noise_std^2 ln(rounds / delta)``; the rule keeps ``n / n*`` near the squared ratio of
    the suspected regrets for one play. The theorem is ours (``docs/mathematics.md``), the
    algorithm that of Ziomek, Adachi & Osborne (2024), whose Theorem 4.1 gives a rate in the
    number of rounds.

    An interruption leaves the state before a call or after it. A bandit is for one thread
    at a time; a call that overlaps with another raises a RuntimeError.

    Source: the union is ours (``docs/mathematics.md``), over the sets of ``KernelBandit``,
    with their assumptions: conditionally sub-Gaussian noise of scale ``noise_std``, and
    outcomes that are reported whatever their noise.

    Example:
        >>> kernels = lengthscale_family(RBFKernel(), shortest=0.1, longest=0.8)
        >>> bandit = FamilyBandit(kernels, norm_bound=5.0, noise_std=0.1)
        >>> for _ in range(300):
        ...     index = bandit.select(arms)
        ...     bandit.observe(arms[index], play(arms[index]))
        >>> print(bandit.report())
    """

    @checked
    def __init__(
        self,
        kernels: Sequence[Kernel],
        *,
        norm_bound: float | Sequence[float],
        noise_std: float,
        delta: float = 0.05,
        fit: ClosedForm = "filters",
        covariance_scale: CovarianceScale | None = None,
        select: BanditSelect = "alternate",
        widest_every: int = 8,
        mean_module: Mean | None = None,
        strict: bool = False,
    ) -> None:
        r"""Family bandit without observations.

        Args:
            kernels: The family, from the simplest to the roughest, output scales included;
                float64 copies are kept. Trainable parameters count as estimated.
            norm_bound: Bound on the RKHS norm of ``f - mean`` under the kernel that is
                true, outcome units: one number for all kernels or one for each. Those of a
                ``lengthscale_family`` are multiplied by its ``norm_factors``.
            noise_std: Sub-Gaussian noise scale, outcome units.
            delta: Failure probability of all rounds together.
            fit: See ``KernelBandit``.
            covariance_scale: See ``MartingaleMixtureUCB``; tied to the norm bound when
                absent, as in ``KernelFamilyUCB``.
            select: ``"alternate"``, ``"simplest"``, ``"widest"`` or ``"balancing"``: how
                ``select`` chooses. The bounds do not depend on it.
            widest_every: In one of how many rounds ``"alternate"`` explores for all
                kernels.
            mean_module: Known prior mean, outcome units; zero when absent.
            strict: Raise instead of warning when the data contradict every kernel.

        Raises:
            ValueError: If an argument is out of its range, there is no kernel, the number
                of norm bounds differs, or the kernels take different numbers of columns.
        """
        shared = Shared(noise_std, delta, fit, covariance_scale)
        self._family = Family.of(kernels, mean_module, norm_bound, shared)
        self._widest_every = whole_number("widest_every", widest_every)
        self._select: BanditSelect = select
        self._strict = strict
        self._exclusive = Exclusive()
        self._now = self._family.fresh()  # all that changes, replaced as one

    @property
    def num_observations(self) -> int:
        r"""Number of observations."""
        return self._now.observations.count

    @property
    def contradicted_at(self) -> tuple[int | None, ...]:
        r"""For each kernel, after how many observations it was contradicted, or None."""
        counts = self._now.contradicted_at
        return tuple(None if count == NEVER else count for count in counts)

    @property
    def consistent(self) -> tuple[bool, ...]:
        r"""For each kernel, whether no round has contradicted it.

        False for a true one with probability ``delta`` at most.
        """
        return self._now.consistent

    @property
    def assumptions(self) -> Assumptions:
        r"""What the guarantee rests on, and what the data contradict."""
        return self._family.assumptions(self.contradicted_at)

    def report(self) -> str:
        r"""Which kernels were contradicted and what the bounds rest on, in words."""
        return self._family.report(self.contradicted_at, self.num_observations)

    @checked
    @torch.no_grad()
    def bounds(self, arms: Tensor) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound at arms; see ``KernelBandit.bounds``.

        Raises:
            BotorchTensorDimensionError: If the arms are no matrix, or have another number
                of columns than those observed.
            InputDataError: If a value is not finite.
            InconsistentConfidenceSetError: If ``strict`` is set and no kernel is left.
        """
        with self._exclusive:
            now, arms = self._ready(arms)
            sides = now.bounds(arms)
            self._now = now
        return sides

    @checked
    @torch.no_grad()
    def select(self, arms: Tensor) -> int:
        r"""Index of the arm to play, the first where several tie.

        With ``select="balancing"`` the next observation counts as a play if it is of this
        arm.

        Args:
            arms: ``a x d`` arms, at least one.

        Raises:
            BotorchTensorDimensionError: As ``bounds``.
            InputDataError: As ``bounds``, or if there are no arms.
            InconsistentConfidenceSetError: As ``bounds``.
        """
        with self._exclusive:
            now, arms = self._ready(arms)
            if len(arms) == 0:
                raise InputDataError("There are no arms to select from.")
            if self._select == "balancing":
                index, now = now.balanced(arms)
            else:
                count = now.observations.count
                whole = explores_for_all(self._select, self._widest_every, count)
                index = int(now.limits(arms, 1, first_only=not whole).argmax())
            self._now = now
        return index

    @checked
    @torch.no_grad()
    def observe(self, x: Tensor, y: float | Tensor) -> None:
        r"""Add one observation; see ``KernelBandit.observe``.

        Raises:
            BotorchTensorDimensionError: If it is not one arm with as many columns as those
                observed, or not one outcome.
            InputDataError: If a value is not finite.
            InconsistentConfidenceSetError: If ``strict`` is set and it contradicts the last
                kernel, after it was added; or if none was left before.
        """
        with self._exclusive:
            now, arm = self._ready(x.unsqueeze(0) if x.dim() == 1 else x)
            outcome = finite("y", torch.as_tensor(y, dtype=torch.float64))
            if len(arm) != 1 or outcome.numel() != 1:
                raise BotorchTensorDimensionError(
                    f"observe takes one arm and one outcome, got {len(arm)} and "
                    f"{outcome.numel()}."
                )
            before = any(now.consistent)
            now = now.observe(arm, float(outcome), self._family.delta)
            self._now = now
            if before and not any(now.consistent):
                self._check_strict(now)
                warnings.warn(
                    self.assumptions["kernel"].statement,
                    InconsistentConfidenceSetWarning,
                    stacklevel=3,
                )

    @torch.no_grad()
    def state_dict(self) -> dict[str, Any]:
        r"""The observations, the arguments and what was contradicted, in copies.

        Save it with ``torch.save``; a bandit made with the same arguments resumes from it.
        """
        with self._exclusive:
            return family_saved.as_state(self._now, self._family, self._arguments)

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        r"""Resume from ``state_dict()`` of a bandit made with the same arguments.

        Raises:
            StateError: If it was saved by a bandit with other arguments or by another
                version, or was changed since; nothing is loaded.
        """
        with self._exclusive:
            self._now = family_saved.read(state_dict, self._family, self._arguments)

    @property
    def _arguments(self) -> dict[str, Any]:
        r"""The arguments as plain values, for saved states."""
        own = {"select": self._select, "widest_every": self._widest_every}
        return {"bounds": self._family.arguments, **own}

    def _ready(self, arms: Tensor) -> tuple[FamilyBands, Tensor]:
        r"""Bands that may be changed before they are published, and checked arms."""
        if arms.dim() != 2:
            shape = tuple(arms.shape)
            raise BotorchTensorDimensionError(f"Arms must be `a x d`, got shape {shape}.")
        now, dimension = self._now, arms.shape[1]
        self._check_strict(now)
        arms = finite("The arms", arms).detach().to(now.observations.inputs)
        if now.observations.count == 0:
            self._family.check_fits(arms)
        if dimension == now.dimension:
            return now.fork(), arms
        if now.observations.count > 0:
            raise BotorchTensorDimensionError(
                f"Arms have {dimension} columns; those observed have {now.dimension}."
            )
        return self._family.fresh(dimension), arms

    def _check_strict(self, now: FamilyBands) -> None:
        if self._strict and not any(now.consistent):
            raise InconsistentConfidenceSetError(self.assumptions["kernel"].statement)
