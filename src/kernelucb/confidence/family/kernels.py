r"""A family of kernels as users give it: kernels, assumption, search rule and tracker."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gpytorch.kernels import Kernel
from gpytorch.means import Mean

from kernelucb._numerics.checks import instance_of, one_of
from kernelucb.confidence.family.tracker import FamilyTracker
from kernelucb.regression.kernel_family import Cover, LengthscaleFamily
from kernelucb.regression.named import fixed_mean

Combine = Literal["any", "all"]
Select = Literal["alternate", "simplest", "widest"] | int
# Multiples of the golden ratio modulo one are spread evenly, along arithmetic progressions
# as well: so also where observations come in batches of equal size.
GOLDEN_RATIO = 0.5 * (1.0 + 5.0**0.5)
_ALTERNATE = 8  # one in so many rounds


@dataclass(frozen=True, eq=False)
class KernelFamily:
    r"""Kernels, the assumption on them, the search rule, and a tracker of earlier rounds.

    Example:
        >>> tracker = FamilyTracker()  # kernels once contradicted stay so
        >>> family = KernelFamily(kernels, tracker=tracker)
        >>> acqf = KernelFamilyUCB(model, family, norm_bound=5.0, noise_std=0.1)

    Attributes:
        kernels: From the simplest to the roughest, output scales included; fixed before the
            data, so frozen (``requires_grad_(False)``), as those of ``lengthscale_family``
            are.
        combine: ``"any"``: ``f - mean`` keeps the norm bound of at least one kernel, and
            the band is a union. ``"all"``: ``f - mean`` keeps the norm bound of every
            kernel; the band is the intersection of the kernels' bands, whose fits hold
            together with probability ``1 - delta``, and the search maximises its upper
            bound whatever ``select`` is. Where the data contradict a kernel, the band is
            the union.
        select: Upper bound that the search maximises; band and certificates do not depend
            on ``select``. ``"widest"``: the union's bound, which explores for the roughest
            kernel. ``"simplest"``: the bound of the first consistent kernel, which alone
            can miss a narrow spike for ever, if no outcome contradicts this kernel. A
            number ``w`` takes ``"widest"`` in one of ``w`` rounds, spread evenly over the
            numbers of observations and pending points, and ``"simplest"`` in the other
            rounds; ``"alternate"`` stands for 8.
        mean: Known prior mean, outcome units: a number, or a frozen GPyTorch mean.
        tracker: Remembers the kernels that earlier rounds contradicted, which stay left
            out; updated with the model's data. For ``combine="any"`` only.

    Raises:
        ValueError: If there is no kernel, an argument is out of its range, or there is a
            tracker for an intersection.
    """

    kernels: Sequence[Kernel]
    combine: Combine = "any"
    select: Select = "alternate"
    mean: float | Mean | None = None
    tracker: FamilyTracker | None = None

    def __post_init__(self) -> None:
        if len(self.kernels) == 0:
            raise ValueError("kernels is empty; a family needs at least one kernel.")
        one_of("combine", self.combine, "any", "all")
        if not isinstance(self.select, int) or self.select < 1:
            one_of("select", self.select, "alternate", "simplest", "widest")
        if self.tracker is not None:
            instance_of("tracker", self.tracker, FamilyTracker)
            if self.combine == "all":
                raise ValueError(
                    'tracker is for combine="any": with "all" a contradicted kernel is not '
                    "left out, it contradicts the whole. Leave it out."
                )

    @classmethod
    def of(cls, kernels: "Sequence[Kernel] | KernelFamily") -> "KernelFamily":
        r"""A family as given, or of plain kernels."""
        return kernels if isinstance(kernels, KernelFamily) else cls(kernels)

    @property
    def prior_mean(self) -> Mean | None:
        r"""The mean as a module; None where it is zero."""
        return fixed_mean(self.mean)

    def untracked(self) -> "KernelFamily":
        r"""The same family without its tracker."""
        return replace(self, tracker=None)

    def covering(self, dimension: int) -> list[Cover]:
        r"""Covers of the kernels for ``dimension`` input columns.

        In a union of length scales each cover also holds the lengths up to the next kernel;
        otherwise each kernel is its own cover.
        """
        if self.combine == "any" and isinstance(self.kernels, LengthscaleFamily):
            return self.kernels.covering(dimension)
        return [Cover(kernel, 1.0) for kernel in self.kernels]

    def explores_for_all(self, count: int) -> bool:
        r"""Whether the round after ``count`` observations explores for all kernels.

        Otherwise the round explores for the simplest consistent kernel. The answer follows
        from the count alone, so nothing need be remembered between rounds.
        """
        every = {"alternate": _ALTERNATE, "widest": 1}.get(str(self.select), self.select)
        if not isinstance(every, int):
            return False
        return count * GOLDEN_RATIO % 1.0 * every < 1.0
