r"""What a family bandit is made of: kernels, their priors and their bounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import torch
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from kernelucb._numerics.estimates import estimated_parts, with_numbers
from kernelucb.bandit.bounds import BanditBound
from kernelucb.bandit.family_bands import FamilyBands
from kernelucb.bandit.observations import allowed_columns
from kernelucb.bandit.options import BoundName, Options, bound_of
from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.confidence.family.problem import covering, in_use
from kernelucb.confidence.family.settings import scale_of
from kernelucb.confidence.family.statements import (
    contradicted_in_words,
    of_family,
    per_kernel,
)
from kernelucb.confidence.fit.choice import ClosedForm
from kernelucb.confidence.fit.mixture import CovarianceScale
from kernelucb.confidence.statements import Knowledge
from kernelucb.regression.kernel_family import Cover
from kernelucb.regression.named import kernel_in_words
from kernelucb.regression.prior import Prior


class Shared(NamedTuple):
    r"""What all kernels share; see ``FamilyBandit``."""

    noise_std: float
    delta: float
    fit: ClosedForm
    covariance_scale: CovarianceScale | None

    def bound(self, norm_bound: float) -> BanditBound:
        r"""The bound of one kernel."""
        scale = scale_of(self.covariance_scale, norm_bound)
        options = Options(None, None, self.fit, scale, None)
        name: BoundName = "martingale_mixture"
        return bound_of(name, norm_bound, self.noise_std, self.delta, options)


@dataclass(frozen=True, eq=False)
class Family:
    r"""The arguments of ``FamilyBandit``, which do not change.

    Attributes:
        kernels: As given.
        mean: Prior mean, or None.
        norm_bounds: As given, one for each kernel, outcome units.
        shared: What all bounds share.
        estimated: Which of ``"kernel"``, ``"mean"``, ``"noise"`` and ``"norm"`` were.
        columns: Numbers of input columns that all kernels take.
    """

    kernels: Sequence[Kernel]
    mean: Mean | None
    norm_bounds: tuple[float, ...]
    shared: Shared
    estimated: frozenset[str]
    columns: range

    @classmethod
    def of(
        cls,
        kernels: Sequence[Kernel],
        mean_module: Mean | None,
        norm_bound: float | Sequence[float],
        shared: Shared,
    ) -> "Family":
        r"""From the arguments, checked.

        Raises:
            ValueError: As ``FamilyBandit``.
        """
        norms = tuple(per_kernel(norm_bound, kernels))
        columns = reduce(_common, map(allowed_columns, kernels))
        if len(columns) == 0:
            raise ValueError("The kernels take different numbers of input columns.")
        parts = [estimated_parts(kernel, mean_module) for kernel in kernels]
        numbers = [with_numbers(frozenset(), norm, shared.noise_std) for norm in norms]
        estimated = frozenset[str]().union(*parts, *numbers)
        norms = tuple(map(float, norms))
        family = cls(kernels, mean_module, norms, shared, estimated, columns)
        family.fresh()  # checks the numbers
        return family

    @property
    def delta(self) -> float:
        r"""Failure probability."""
        return self.shared.delta

    @property
    def arguments(self) -> list[dict[str, Any]]:
        r"""The bounds as given, as plain values, for saved states."""
        return [self.shared.bound(norm).arguments for norm in self.norm_bounds]

    def _covers(self, dimension: int) -> list[Cover]:
        return covering(self.kernels, dimension)

    def priors(self, dimension: int) -> list[Prior]:
        r"""The prior under each covering kernel for arms with so many columns."""
        return [Prior(cover.kernel, self.mean) for cover in self._covers(dimension)]

    def bounds(self, dimension: int) -> list[BanditBound]:
        r"""The bound of each kernel for arms with so many columns."""
        used = in_use(self.norm_bounds, self._covers(dimension))
        return [self.shared.bound(norm) for norm in used]

    def fresh(self, dimension: int | None = None) -> FamilyBands:
        r"""The bands without observations; by default for the fewest columns."""
        dimension = self.columns[0] if dimension is None else dimension
        return FamilyBands.fresh(dimension, self.priors(dimension), self.bounds(dimension))

    def check_fits(self, arms: Tensor) -> None:
        r"""Raise ``UnsupportedError`` unless all kernels take such ``a x d`` arms."""
        for kernel in self.kernels:
            Prior(kernel, self.mean).check_fits(arms)

    def assumptions(self, contradicted_at: Sequence[int | None]) -> Assumptions:
        r"""What the guarantee rests on, and what the data contradict.

        Args:
            contradicted_at: After how many observations each kernel was, or None.
        """
        bound = self.shared.bound(self.norm_bounds[0])
        noise_std = torch.tensor([bound.noise_std], dtype=torch.float64)
        member = bound.assumptions(Knowledge(self.estimated, noise_std))
        names = (self.kernels, self.norm_bounds, self.estimated)
        whole = of_family(member, *names, combine="any")
        counts = [count for count in contradicted_at if count is not None]
        if len(counts) < len(contradicted_at):
            return whole
        statement = (
            f"The data contradict all {len(counts)} kernels at this delta, the last after "
            f"{max(counts)} observations. The norm bound or the noise scale is too small, "
            "or the right kernel is not among them."
        )
        return whole.with_item(Assumption("kernel", statement, Status.VIOLATED))

    def report(self, contradicted_at: Sequence[int | None], num_observations: int) -> str:
        r"""Which kernels were contradicted, a line for each, and the assumptions."""
        contradicted = [count is not None for count in contradicted_at]
        lines = contradicted_in_words(
            self.kernels, contradicted, num_observations, self.delta
        )
        for kernel, count in zip(self.kernels, contradicted_at, strict=True):
            after = f"contradicted after {count} observations"
            verdict = "consistent" if count is None else after
            lines.append(f"  {kernel_in_words(kernel)}: {verdict}")
        return "\n".join([*lines, str(self.assumptions(contradicted_at))])


def _common(left: range, right: range) -> range:
    return range(max(left.start, right.start), min(left.stop, right.stop))
