r"""A family of kernels as users give it: kernels, their mean and the search rule."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gpytorch.kernels import Kernel
from gpytorch.means import Mean

from kernelucb._numerics.checks import one_of
from kernelucb.regression.kernel_family import Cover, LengthscaleFamily
from kernelucb.regression.named import fixed_mean

Select = Literal["alternate", "simplest", "widest"] | int
# Multiples of the golden ratio modulo one are spread evenly, along arithmetic progressions
# as well: so also where observations come in batches of equal size.
GOLDEN_RATIO = 0.5 * (1.0 + 5.0**0.5)
_ALTERNATE = 8  # one in so many rounds


@dataclass(frozen=True, eq=False)
class KernelFamily:
    r"""Kernels, their prior mean, and the search rule.

    Example:
        >>> family = KernelFamily(kernels, select="widest", mean=0.5)
        >>> acqf = KernelFamilyUCB(model, family, norm_bound=5.0, noise_std=0.1)

    Attributes:
        kernels: From the simplest to the roughest, output scales included; fixed before the
            data, so frozen (``requires_grad_(False)``), as those of ``lengthscale_family``
            are.
        select: Upper bound that the search maximises; band and certificates do not depend
            on ``select``. ``"widest"``: the union's bound, which explores for the roughest
            kernel. ``"simplest"``: the bound of the first consistent kernel, which alone
            can miss a narrow spike for ever, if no outcome contradicts this kernel. A
            number ``w`` takes ``"widest"`` in one of ``w`` rounds, spread evenly over the
            numbers of observations and pending points, and ``"simplest"`` in the other
            rounds; ``"alternate"`` stands for 8.
        mean: Known prior mean, outcome units: a number, or a frozen GPyTorch mean.

    Raises:
        ValueError: If there is no kernel, or an argument is out of its range.
    """

    kernels: Sequence[Kernel]
    select: Select = "alternate"
    mean: float | Mean | None = None

    def __post_init__(self) -> None:
        if len(self.kernels) == 0:
            raise ValueError("kernels is empty; a family needs at least one kernel.")
        if not isinstance(self.select, int) or self.select < 1:
            one_of("select", self.select, "alternate", "simplest", "widest")

    @classmethod
    def of(cls, kernels: "Sequence[Kernel] | KernelFamily") -> "KernelFamily":
        r"""A family as given, or of plain kernels."""
        return kernels if isinstance(kernels, KernelFamily) else cls(kernels)

    @property
    def prior_mean(self) -> Mean | None:
        r"""The mean as a module; None where it is zero."""
        return fixed_mean(self.mean)

    def covering(self, dimension: int) -> list[Cover]:
        r"""Covers of the kernels for ``dimension`` input columns.

        In a ``LengthscaleFamily`` each cover also holds the lengths up to the next kernel;
        otherwise each kernel is its own cover.
        """
        if isinstance(self.kernels, LengthscaleFamily):
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
