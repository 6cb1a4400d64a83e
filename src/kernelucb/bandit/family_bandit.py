r"""A bandit for an unknown kernel: bounds over a family of kernels."""

import logging
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from kernelucb._numerics.kernels import allowed_columns
from kernelucb.bandit.kernel_bandit import KernelBandit
from kernelucb.confidence import family
from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.confidence.radius import CovarianceScale
from kernelucb.data.kernel_family import fixed_mean
from kernelucb.exceptions import InconsistentConfidenceSetWarning

_LOG = logging.getLogger(__name__)


class FamilyBandit:
    r"""Bounds over a family of kernels for finite, changing sets of arms, anytime.

    ``bounds`` is the union of the bands of all kernels that no round has contradicted, each
    a ``KernelBandit`` at the full ``delta``. The union holds the true function at every arm
    and every round at once with probability ``1 - delta``, for arms chosen from the past by
    any rule. A contradicted kernel is left out for good. A round costs ``O(n^2)`` for each
    remaining kernel. ``KernelBandit`` has fewer filters than ``KernelFamilyUCB``, so
    kernels may be contradicted in later rounds than there.

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

    Attributes:
        contradicted_at: For each kernel, after how many observations it was contradicted,
            or None. Not None for the true kernel with probability at most ``delta``.
    """

    def __init__(
        self,
        kernels: Sequence[Kernel],
        *,
        norm_bound: float | Sequence[float],
        noise_std: float,
        delta: float = 0.05,
        fit: str = "filters",
        covariance_scale: CovarianceScale | None = None,
        mean: float | Mean | None = None,
        widest_every: int | None = 8,
    ) -> None:
        r"""Family bandit without observations.

        Args:
            kernels: The family, from the simplest to the roughest. Float64 copies are kept.
                Trainable parameters count as estimated.
            norm_bound: Bound on the RKHS norm of ``f - mean`` under the kernel that is
                true, outcome units: one number for all kernels or one for each. Those of a
                ``lengthscale_family`` are those of its ``covering`` kernels.
            noise_std: Sub-Gaussian noise scale, outcome units.
            delta: Failure probability of all rounds together.
            fit: See ``KernelBandit``.
            covariance_scale: See ``KernelBandit``; by default tied to the norm bound, as in
                ``KernelFamilyUCB``.
            mean: Prior mean, outcome units: a number, or a frozen GPyTorch mean.
            widest_every: See ``KernelFamilyUCB``.

        Raises:
            ValueError: If an argument is out of its range, there is no kernel, or the
                number of norm bounds differs.
            UnsupportedError: If a kernel does not take the arms (from ``bounds`` on).
        """
        if len(kernels) == 0:
            raise ValueError("kernels is empty; a family needs at least one kernel.")
        self.kernels, self._mean = kernels, fixed_mean(mean)
        self.widest_every = widest_every
        self._norms = family.per_kernel(norm_bound, kernels)
        self._is_tied = fit == "filters" or covariance_scale is None
        self._scale = covariance_scale
        self._options: dict[str, Any] = {"noise_std": noise_std, "delta": delta, "fit": fit}
        self._begin(allowed_columns(kernels[0]).start)

    def _begin(self, dimension: int) -> None:
        r"""The bandits of the kernels that cover the family for arms of a dimension."""
        covers = family.covering(self.kernels, dimension)
        self._dimension, self._bandits = dimension, dict[int, KernelBandit]()
        self.contradicted_at: list[int | None] = [None] * len(covers)
        for i, (cover, norm) in enumerate(zip(covers, self._norms, strict=True)):
            norm = norm * cover.norm_factor
            options: dict[str, Any] = self._options | {"norm_bound": norm}
            scale = family.tied_scale(float(norm)) if self._scale is None else self._scale
            options |= {"covariance_scale": scale, "mean_module": self._mean}
            self._bandits[i] = KernelBandit(cover.kernel, **options)
            self._bandits[i].warned = True  # no user is told of a single kernel
        parts = [bandit.estimated for bandit in self._bandits.values()]
        self._estimated = frozenset[str]().union(*parts)

    @property
    def _simplest(self) -> KernelBandit:
        r"""The first bandit that is left."""
        return next(iter(self._bandits.values()))

    @property
    def num_observations(self) -> int:
        r"""Number of observations."""
        return self._simplest.num_observations

    @property
    def consistent(self) -> tuple[bool, ...]:
        r"""For each kernel, whether no round has contradicted the kernel."""
        return tuple(count is None for count in self.contradicted_at)

    @property
    def assumptions(self) -> Assumptions:
        r"""The assumptions of the guarantee, and those that the data contradict."""
        given = self.kernels, self._norms, self._estimated
        whole = family.of_family(self._simplest.premises, *given, is_tied=self._is_tied)
        counts = [count for count in self.contradicted_at if count is not None]
        if len(counts) < len(self.contradicted_at):
            return whole
        statement = (
            f"The data contradict all {len(counts)} kernels at this delta, the last after "
            f"{max(counts)} observations. The norm bound or the noise scale is too small, "
            "or the right kernel is not among them."
        )
        return whole.with_item(Assumption("kernel", statement, Status.VIOLATED))

    def report(self) -> str:
        r"""Which kernels were contradicted and what the bounds rest on, in words."""
        verdicts = [
            "consistent" if at is None else f"contradicted after {at} observations"
            for at in self.contradicted_at
        ]
        out = [at is not None for at in self.contradicted_at]
        found = self.num_observations, self.assumptions
        return family.family_report(self.kernels, verdicts, out, *found)

    def bounds(self, arms: Tensor) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound at arms; see ``KernelBandit.bounds``."""
        self._fit_columns(arms)
        sides = [bandit.bounds(arms) for bandit in self._bandits.values()]
        lower, upper = zip(*sides, strict=True)
        return torch.stack(lower).amin(0), torch.stack(upper).amax(0)

    def select(self, arms: Tensor) -> int:
        r"""Index of the arm to play; see ``KernelBandit.select``."""
        self._fit_columns(arms)
        explores = family.explores_for_all(self.num_observations, self.widest_every)
        upper = (self if explores else self._simplest).bounds(arms)[1]
        if len(upper) == 0:
            raise InputDataError("There are no arms to select from.")
        return int(upper.argmax())

    def observe(self, x: Tensor, y: float | Tensor) -> None:
        r"""Add one observation; see ``KernelBandit.observe``."""
        self._fit_columns(x.unsqueeze(0) if x.dim() == 1 else x)
        for bandit in self._bandits.values():
            bandit.observe(x, y)
        if any(self.consistent):
            self._leave_out()

    def _fit_columns(self, arms: Tensor) -> None:
        r"""Begin again for arms of another dimension, where nothing was observed yet."""
        other = arms.dim() == 2 and arms.shape[1] != self._dimension
        if other and self.num_observations == 0:
            self._begin(arms.shape[1])

    def _leave_out(self) -> None:
        r"""Drop the bandits that the data contradict, for good."""
        out = {i: each for i, each in self._bandits.items() if each.assumptions.violated}
        for i in out:
            self.contradicted_at[i] = self.num_observations
            text = "Kernel %d of %d is contradicted for good, at %d observations."
            _LOG.info(text, i, len(self.contradicted_at), self.num_observations)
        if len(out) < len(self._bandits):
            self._bandits = {i: self._bandits[i] for i in self._bandits if i not in out}
            return
        # Go on with the one whose norm bound is exceeded by the smallest factor.
        nearest = min(
            out, key=lambda i: (out[i].stateless().norm or 0) / float(out[i].norm_bound)
        )
        self._bandits = {nearest: out[nearest]}
        statement = self.assumptions["kernel"].statement
        warnings.warn(statement, InconsistentConfidenceSetWarning, stacklevel=3)
