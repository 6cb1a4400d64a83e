r"""A bandit for when the kernel is not known: bounds over a family of kernels."""

import logging
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from kernelucb._numerics.checks import finite, one_of, whole_number
from kernelucb._numerics.estimates import estimated_parts, with_numbers
from kernelucb._numerics.saving import opened, saved
from kernelucb.bandit.kernel_bandit import KernelBandit
from kernelucb.bandit.observations import allowed_columns, saved_inputs
from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.confidence.family.members import (
    contradicted_in_words,
    covering,
    in_use,
    of_family,
    per_kernel,
)
from kernelucb.confidence.family.select import Select, explores_for_all
from kernelucb.confidence.family.settings import tied_scale
from kernelucb.confidence.fit.choice import ClosedForm, fit_of
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.regression.named import kernel_in_words
from kernelucb.regression.prior import Prior

_LOG = logging.getLogger(__name__)


class FamilyBandit:
    r"""Bounds over a family of kernels for finite, changing sets of arms, anytime.

    What ``KernelFamilyUCB`` is to ``MartingaleMixtureUCB``, this is to ``KernelBandit``:
    ``bounds`` is the union of the bands of those kernels that no round has contradicted,
    each at the full ``delta``, and holds the true function at every arm and every round at
    once with probability ``1 - delta``, whoever chose the arms. A kernel that was
    contradicted is left out for good. A round costs ``O(n^2)`` for each kernel that is
    left. The bands are those of ``KernelBandit``, whose filters are fewer than those of
    ``KernelFamilyUCB``, so kernels may fall out later.

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

    def __init__(
        self,
        kernels: Sequence[Kernel],
        *,
        norm_bound: float | Sequence[float],
        noise_std: float,
        delta: float = 0.05,
        fit: ClosedForm = "filters",
        select: Select = "alternate",
        widest_every: int = 8,
        mean_module: Mean | None = None,
    ) -> None:
        r"""Family bandit without observations.

        Args:
            kernels: The family, from the simplest to the roughest, output scales included;
                float64 copies are kept. Trainable parameters count as estimated.
            norm_bound: Bound on the RKHS norm of ``f - mean`` under the kernel that is
                true, outcome units: one number for all kernels or one for each. Those of a
                ``lengthscale_family`` are those of its ``covering`` kernels.
            noise_std: Sub-Gaussian noise scale, outcome units.
            delta: Failure probability of all rounds together.
            fit: See ``KernelBandit``. A covariance scale that is not given is tied to the
                norm bound, as in ``KernelFamilyUCB``.
            select: ``"alternate"``, ``"simplest"`` or ``"widest"``: how ``select`` chooses;
                see ``KernelFamilyUCB``. The bounds do not depend on it.
            widest_every: In one of how many rounds ``"alternate"`` explores for all
                kernels.
            mean_module: Known prior mean, outcome units; zero when absent.

        Raises:
            ValueError: If an argument is out of its range, there is no kernel, the number
                of norm bounds differs, or the kernels take different numbers of columns.
        """
        norms = per_kernel(norm_bound, kernels)
        columns = reduce(_common, map(allowed_columns, kernels))
        if len(columns) == 0:
            raise ValueError("The kernels take different numbers of input columns.")
        parts = [estimated_parts(kernel, mean_module) for kernel in kernels]
        numbers = [with_numbers(frozenset(), norm, noise_std) for norm in norms]
        self._estimated = frozenset[str]().union(*parts, *numbers)
        self.kernels, self._norms = kernels, tuple(norms)
        self._noise_std, self._mean = noise_std, mean_module
        self._fit: Any = fit
        self._widest_every = whole_number("widest_every", widest_every)
        one_of("select", select, "alternate", "simplest", "widest")
        self._select: Select = select
        self.delta = delta
        self._begin(columns[0])

    def _begin(self, dimension: int) -> None:
        r"""The bandits of the kernels that cover the family for arms of a dimension."""
        # None where a kernel was contradicted, but for one where none is left.
        self._bandits: list[KernelBandit | None] = [*self._members(dimension)]
        self._dimension = dimension
        self._contradicted_at: list[int | None] = [None] * len(self._bandits)

    def _members(self, dimension: int) -> list[KernelBandit]:
        r"""Bandits without observations."""
        covers = covering(self.kernels, dimension)
        return [
            KernelBandit(
                cover.kernel,
                norm_bound=norm,
                noise_std=self._noise_std,
                delta=self.delta,
                fit=self._fit_for(norm),
                mean_module=self._mean,
            )
            for cover, norm in zip(covers, in_use(self._norms, covers), strict=True)
        ]

    def _fit_for(self, norm_bound: float) -> Any:
        return fit_of(self._fit, tied_scale(norm_bound))

    @property
    def _in_use(self) -> list[KernelBandit]:
        r"""The bandits whose union is the whole, the simplest first."""
        return [bandit for bandit in self._bandits if bandit is not None]

    @property
    def num_observations(self) -> int:
        r"""Number of observations."""
        return self._in_use[0].num_observations

    @property
    def contradicted_at(self) -> tuple[int | None, ...]:
        r"""For each kernel, after how many observations it was contradicted, or None."""
        return tuple(self._contradicted_at)

    @property
    def consistent(self) -> tuple[bool, ...]:
        r"""For each kernel, whether no round has contradicted it.

        False for a true one with probability ``delta`` at most.
        """
        return tuple(count is None for count in self._contradicted_at)

    @property
    def assumptions(self) -> Assumptions:
        r"""What the guarantee rests on, and what the data contradict."""
        member, given = self._in_use[0].premises, self._estimated
        whole = of_family(member, self.kernels, self._norms, given, combine="any")
        counts = [count for count in self._contradicted_at if count is not None]
        if len(counts) < len(self._contradicted_at):
            return whole
        statement = (
            f"The data contradict all {len(counts)} kernels at this delta, the last after "
            f"{max(counts)} observations. The norm bound or the noise scale is too small, "
            "or the right kernel is not among them."
        )
        return whole.with_item(Assumption("kernel", statement, Status.VIOLATED))

    def report(self) -> str:
        r"""Which kernels were contradicted and what the bounds rest on, in words."""
        contradicted = [not consistent for consistent in self.consistent]
        count = self.num_observations
        lines = contradicted_in_words(self.kernels, contradicted, count, self.delta)
        for kernel, at in zip(self.kernels, self._contradicted_at, strict=True):
            after = "consistent" if at is None else f"contradicted after {at} observations"
            lines.append(f"  {kernel_in_words(kernel)}: {after}")
        return "\n".join([*lines, str(self.assumptions)])

    @torch.no_grad()
    def bounds(self, arms: Tensor) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound at arms; see ``KernelBandit.bounds``.

        Raises:
            BotorchTensorDimensionError: If the arms are no matrix, or have another number
                of columns than those observed.
            InputDataError: If a value is not finite.
        """
        arms = self._ready(arms)
        with _without_warnings():
            sides = [bandit.bounds(arms) for bandit in self._in_use]
        lower, upper = zip(*sides, strict=True)
        return torch.stack(lower).amin(0), torch.stack(upper).amax(0)

    @torch.no_grad()
    def select(self, arms: Tensor) -> int:
        r"""Index of the arm to play, the first where several tie.

        Args:
            arms: ``a x d`` arms, at least one.

        Raises:
            BotorchTensorDimensionError: As ``bounds``.
            InputDataError: As ``bounds``, or if there are no arms.
        """
        arms = self._ready(arms)
        if len(arms) == 0:
            raise InputDataError("There are no arms to select from.")
        count = self.num_observations
        whole = explores_for_all(self._select, self._widest_every, count)
        chosen = self._in_use if whole else self._in_use[:1]
        with _without_warnings():
            uppers = [bandit.bounds(arms)[1] for bandit in chosen]
        return int(torch.stack(uppers).amax(0).argmax())

    @torch.no_grad()
    def observe(self, x: Tensor, y: float | Tensor) -> None:
        r"""Add one observation; see ``KernelBandit.observe``.

        Raises:
            BotorchTensorDimensionError: If it is not one arm with as many columns as those
                observed, or not one outcome.
            InputDataError: If a value is not finite.
        """
        x = self._ready(x.unsqueeze(0) if x.dim() == 1 else x)
        before = any(self.consistent)
        self._add(x, y)
        if before and not any(self.consistent):
            statement = self.assumptions["kernel"].statement
            warnings.warn(statement, InconsistentConfidenceSetWarning, stacklevel=3)

    def _add(self, x: Tensor, y: float | Tensor) -> None:
        with _without_warnings():
            for bandit in self._in_use:
                bandit.observe(x, y)
            if any(self.consistent):
                self._leave_out()

    def _leave_out(self) -> None:
        r"""Drop the bandits that the data contradict, for good."""
        count, widened = self.num_observations, dict[float, int]()
        bandits = [*self._bandits]
        for index, bandit in enumerate(bandits):
            if bandit is not None and bandit.bands.contradiction() is not None:
                text = "Kernel %d of %d is contradicted for good, at %d observations."
                _LOG.info(text, index, len(bandits), count)
                self._contradicted_at[index], bandits[index] = count, None
                widened.setdefault(bandit.bands.widening(), index)
        if not any(self.consistent):  # go on with the one that is widened the least
            nearest = widened[min(widened)]
            bandits[nearest] = self._bandits[nearest]
        self._bandits = bandits

    @torch.no_grad()
    def state_dict(self) -> dict[str, Any]:
        r"""The observations and the arguments, in copies; save it with ``torch.save``."""
        data = self._in_use[0].observations
        inputs = data.inputs.reshape(data.count, self._dimension).cpu()
        return saved(
            self,
            self._settings(inputs),
            inputs=inputs,
            outcomes=data.outcomes.cpu(),
            grids=[each and each.bands.grid.remembered for each in self._bandits],
        )

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        r"""Observe anew what a bandit made with the same arguments had observed.

        Raises:
            StateError: If it was saved by a bandit with other arguments or by another
                version; nothing is loaded then.
        """
        own = self._in_use[0].observations.inputs
        settings = self._settings(saved_inputs(state_dict, own))
        names = "inputs", "outcomes", "grids"
        inputs, outcomes, grids = opened(self, settings, state_dict, *names)
        self._begin(inputs.shape[1])
        for x, y in zip(inputs.unsqueeze(1), outcomes, strict=True):
            self._add(x, y)
        for bandit, grid in zip(self._bandits, grids, strict=True):
            if bandit is not None and grid is not None:
                bandit.bands.grid.recall(grid)

    def _settings(self, inputs: Tensor) -> dict[str, Any]:
        r"""What must be the same where a state is loaded; see ``KernelBandit``."""
        own = {"select": self._select, "widest_every": self._widest_every}
        members = [each.settings(inputs) for each in self._members(inputs.shape[1])]
        return {"members": members, **own}

    def _ready(self, arms: Tensor) -> Tensor:
        r"""Checked arms; bandits for their dimension where nothing was observed yet."""
        if arms.dim() != 2:
            shape = tuple(arms.shape)
            raise BotorchTensorDimensionError(f"Arms must be `a x d`, got shape {shape}.")
        arms, dimension = finite("The arms", arms), arms.shape[1]
        if self.num_observations == 0:
            for kernel in self.kernels:
                Prior(kernel, self._mean).check_fits(arms)
            if dimension != self._dimension:
                self._begin(dimension)
        elif dimension != self._dimension:
            raise BotorchTensorDimensionError(
                f"Arms have {dimension} columns; those observed have {self._dimension}."
            )
        return arms


def _common(left: range, right: range) -> range:
    return range(max(left.start, right.start), min(left.stop, right.stop))


@contextmanager
def _without_warnings() -> Generator[None]:
    r"""A single contradicted kernel is no reason to warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        yield
