r"""Kernels and means by name, and families of kernels with different length scales.

A kernel covers a range of length scales if every function of bounded norm under a length
scale of the range has bounded norm under the kernel. Then finitely many kernels suffice for
all length scales between two ends, with no gap in the guarantee.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, cast, overload

import numpy as np
import torch
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from gpytorch.kernels import (
    AdditiveKernel,
    Kernel,
    MaternKernel,
    ProductKernel,
    RBFKernel,
    RQKernel,
    ScaleKernel,
)
from gpytorch.means import ConstantMean, Mean
from scipy.special import expit
from torch import Tensor
from torch.nn import Parameter

from kernelucb._numerics.checks import (
    as_double,
    finite_scalar,
    positive_scalar,
    positive_values,
)
from kernelucb._numerics.digits import coordinate, sides
from kernelucb._numerics.estimates import (
    Number,
    frozen_copy,
    is_estimate,
    plain,
    remember_trained,
    trained_parameters,
)
from kernelucb._numerics.kernels import Stationary, read_kernel

_SMOOTHNESS = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
KERNELS = ("rbf", *_SMOOTHNESS)
# Their spectral densities are mixtures of centred Gaussians, so they fall along rays.
NESTED = (RBFKernel, MaternKernel, RQKernel)
# In words; a sum is in parentheses, so that a sum times a kernel is read one way.
_COMBINED: dict[type, tuple[str, str]] = {
    AdditiveKernel: ("({})", " plus "),
    ProductKernel: ("{}", " times "),
}
_MOST_MEMBERS = 64
_ROUNDING = 1e-9  # steps, and relative of length scales
# A grid of log odds, over which a maximum is taken.
_REACH = 40.0
_GRID = 100_000
_MARGIN = 1e-3  # above the step, which is the most that the function rises in between
Lengths = Number | Sequence[float] | Tensor


def fixed_kernel(
    name: str, lengthscale: Lengths | None, outputscale: Number
) -> ScaleKernel:
    r"""A frozen kernel by name, of one length scale or one for each column; a variance."""
    if name not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, got {name!r}.")
    if lengthscale is None:
        raise ValueError(f'kernel="{name}" needs the option `lengthscale`.')
    lengths = as_double(plain(lengthscale), "lengthscale").reshape(1, -1)
    positive_values("lengthscale", lengths.reshape(-1), lengths.numel())
    columns = lengths.shape[1] if lengths.shape[1] > 1 else None
    base: Kernel = RBFKernel(ard_num_dims=columns)
    if name in _SMOOTHNESS:
        base = MaternKernel(nu=_SMOOTHNESS[name], ard_num_dims=columns)
    scaled = ScaleKernel(base).double()  # before values are set, which float32 would round
    base.lengthscale = lengths
    scaled.outputscale = as_double(positive_scalar("outputscale", outputscale))
    if is_estimate(lengthscale):
        remember_trained(base, frozenset({"raw_lengthscale"}))
    if is_estimate(outputscale):
        remember_trained(scaled, frozenset({"raw_outputscale"}))
    return scaled.requires_grad_(False)


class NamedKernel(NamedTuple):
    r"""A kernel, by its name or given, before the inputs are known that it is for."""

    kernel: Kernel
    num_lengths: int  # that must be those of the inputs; 1 where any inputs do

    @classmethod
    def of(
        cls, name: str, lengthscale: Lengths | None, outputscale: Number
    ) -> "NamedKernel":
        r"""The kernel of a name; arguments and errors as for ``fixed_kernel``."""
        kernel = fixed_kernel(name, lengthscale, outputscale)
        return cls(kernel, unscaled(kernel).lengthscale.numel())

    def fitting(self, inputs: Tensor) -> Kernel:
        r"""The kernel; refused if ``n x d'`` inputs have another number of columns."""
        count, columns = self.num_lengths, inputs.shape[-1]
        if count not in (1, columns):
            raise BotorchTensorDimensionError(
                f"lengthscale has {count} entries; the kernel's inputs have {columns} "
                "columns."
            )
        return self.kernel


def fixed_mean(value: Number | Mean | None) -> Mean | None:
    r"""A mean as given, or a constant one, estimated if ``value`` is; zero is None."""
    if value is None or isinstance(value, Mean):
        return value
    if value == 0.0 and not is_estimate(value):
        return None
    module = ConstantMean().double()
    module.constant = as_double(finite_scalar("mean", value))
    if is_estimate(value):
        remember_trained(module, frozenset({"raw_constant"}))
    return module.requires_grad_(False)


def kernel_in_words(kernel: Kernel) -> str:
    r"""``"RBF, length scale 0.4"``, of sums and products their parts, or the class."""
    base: Any = unscaled(kernel)
    if found := _COMBINED.get(type(base)):
        form, word = found
        return form.format(word.join(map(kernel_in_words, base.kernels)))
    if type(base) not in NESTED:
        return type(kernel).__name__
    return f"{kind_of(base)}, length scale {in_words(base.lengthscale.reshape(-1))}"


def unscaled(kernel: Kernel) -> Any:
    r"""The kernel without its output scales."""
    base: Any = kernel
    while type(base) is ScaleKernel:
        base = base.base_kernel
    return base


def kind_of(base: Kernel) -> str:
    r"""``"RBF"``, ``"Matern 5/2"`` or ``"rational quadratic"``."""
    if type(base) is MaternKernel:
        return f"Matern {int(2 * base.nu)}/2"
    return "RBF" if type(base) is RBFKernel else "rational quadratic"


def in_words(values: Tensor) -> str:
    r"""One number where all are the same, otherwise ``"(0.1, 0.2)"``."""
    texts = [f"{value:.4g}" for value in values.tolist()]
    return texts[0] if len(set(texts)) == 1 else f"({', '.join(texts)})"


class Cover(NamedTuple):
    r"""A kernel whose norm balls contain the norm balls of a range of length scales."""

    kernel: Kernel
    norm_factor: float  # factor of the norm bound under this kernel, at least 1


class _Member(NamedTuple):
    r"""A kernel of a family, and the length scales that it covers beyond its own."""

    kernel: Kernel
    # The longest length scale covered over its own, one number or one for each coordinate
    step: Tensor
    together: bool  # whether coordinates become longer together

    def cover(self, dimension: int) -> Cover:
        r"""Cover of the member's range, for inputs with ``dimension`` columns."""
        base = unscaled(self.kernel)
        active: Any = self.kernel.active_dims  # a ScaleKernel's count, not its base's
        columns = dimension if active is None else len(active)
        if len(self.step) not in (1, columns):  # GPyTorch would broadcast a single column
            raise UnsupportedError(
                f"The family has {len(self.step)} length scales for each kernel, and the "
                f"kernels' inputs have {columns} columns."
            )
        ratio, largest = (float(extreme) for extreme in self.step.aminmax())
        if largest == 1.0:
            return Cover(self.kernel, 1.0)
        if not (self.together and math.isclose(ratio, largest)):
            # Each on its own: ||f||_{l'} <= prod_i (l_i / l'_i)^{1/2} ||f||_l.
            return Cover(self.kernel, math.sqrt(float(self.step.expand(columns).prod())))
        longer = _with_lengths(self.kernel, largest * base.lengthscale.reshape(-1))
        return cover_of_all(self.kernel, longer, largest, columns)


class Covered(NamedTuple):
    r"""What kernels of a family cover, in words."""

    words: str
    in_part: bool = False  # whether they are a slice of those that cover it

    def __str__(self) -> str:
        return f"{self.words}, in part" if self.in_part else self.words


@dataclass(frozen=True, eq=False, repr=False)
class LengthscaleFamily(Sequence[Kernel]):
    r"""Kernels of several length scales, which cover the length scales in between.

    An immutable sequence of kernels. The norm balls of its ``covering`` kernels contain all
    functions of bounded norm under any length scale of the family. Slices and sums of
    families are families; a plain list of the kernels covers their own length scales only.

    Source: ours, from the order of spectral densities (``docs/mathematics.md``), for RBF,
    Matern and rational quadratic kernels on any domain.

    Attributes:
        members: The kernels, and the length scales that each of them covers.
        covered: What the families that were added up cover, each in words.
    """

    members: tuple[_Member, ...]
    covered: tuple[Covered, ...]

    @property
    def covers(self) -> str:
        r"""What the family covers, in words."""
        return ", or ".join(map(str, self.covered))

    def covering(self, dimension: int) -> list[Cover]:
        r"""Covers of the kernels' ranges, for inputs with ``dimension`` columns."""
        return [each.cover(dimension) for each in self.members]

    @property
    def lengthscales(self) -> tuple[float, ...]:
        r"""The length scale of each kernel; empty if a kernel has several."""
        lengths = [unscaled(kernel).lengthscale for kernel in self]
        single = all(length.numel() == 1 for length in lengths)
        return tuple(float(length) for length in lengths) if single else ()

    def reaching(self, lengthscale: float) -> list[int]:
        r"""Indices of kernels that cover all length scales from ``lengthscale`` upwards.

        Each kernel of at least this length scale; and a shorter one whose range goes beyond
        it, or ends there without another kernel of its kind that begins there.
        """
        least, most = lengthscale * (1.0 - _ROUNDING), lengthscale * (1.0 + _ROUNDING)
        kinds = [_kind(kernel) for kernel in self]
        rows = [*zip(kinds, self.lengthscales, self.members, strict=True)]
        begun = {kind for kind, length, _ in rows if least <= length <= most}
        return [
            index
            for index, (kind, length, member) in enumerate(rows)
            if length >= least
            or length * float(member.step) > (most if kind in begun else least)
        ]

    def ranges_in_words(self, chosen: Sequence[bool]) -> str:
        r"""Range of the chosen kernels in words, ``"length scales from 0.4 to 0.8"``.

        Empty where they are of several kinds, or have several length scales each.
        """
        kinds = {kind_of(unscaled(kernel)) for kernel in self}
        if len(kinds) > 1 or not (self.lengthscales and any(chosen)):
            return ""
        ranges: list[list[float]] = []  # of neighbours, the longest first
        for least, member, is_chosen in zip(
            self.lengthscales, self.members, chosen, strict=True
        ):
            most = least * float(member.step)
            if is_chosen and ranges and math.isclose(ranges[-1][0], most):
                ranges[-1][0] = least
            elif is_chosen:
                ranges.append([least, most])
        texts = [
            coordinate(least)
            if least == most
            else "from {} to {}".format(*sides(least, most, inwards=True))
            for least, most in ranges
        ]
        return f"length scales {' and '.join(texts)}"

    def __add__(self, other: object) -> "LengthscaleFamily":
        if not isinstance(other, LengthscaleFamily):
            return NotImplemented
        covered = dict.fromkeys(self.covered + other.covered)  # slices joined again: once
        return LengthscaleFamily(self.members + other.members, tuple(covered))

    def __len__(self) -> int:
        return len(self.members)

    @overload
    def __getitem__(self, index: int) -> Kernel: ...

    @overload
    def __getitem__(self, index: slice) -> "LengthscaleFamily": ...

    def __getitem__(self, index: int | slice) -> "Kernel | LengthscaleFamily":
        if not isinstance(index, slice):
            return self.members[index].kernel
        *others, last = self.covered
        covered = *others, last._replace(in_part=True)
        return LengthscaleFamily(self.members[index], covered)

    def __repr__(self) -> str:
        return f"LengthscaleFamily({len(self)} kernels: {self.covers})"


def lengthscale_family(
    kernel: Kernel | Sequence[Kernel],
    shortest: Lengths,
    longest: Lengths,
    ratio: float = 2.0,
    *,
    each_coordinate: bool = False,
) -> LengthscaleFamily:
    r"""Kernels with length scales from the longest to the shortest, in equal ratios.

    Example:
        >>> kernels = lengthscale_family(RBFKernel(), 0.1, 0.8)
        >>> acqf = KernelFamilyUCB(model, kernels, norm_bound=5.0, noise_std=0.1)

    Args:
        kernel: ``RBFKernel``, ``MaternKernel`` or ``RQKernel``, perhaps in a
            ``ScaleKernel``; its own length scale is ignored, and a trainable output scale
            counts as estimated. With several kernels, such as an RBF and a Matern kernel,
            each gets every length scale: name the smoothest first.
        shortest: Shortest length scale, in units of the kernel's inputs; one number, or one
            for each of ``d`` coordinates.
        longest: Longest length scale, in the same form.
        ratio: Largest ratio between neighbouring length scales, above 1. A smaller ratio
            gives more kernels, each of which covers a shorter range of length scales.
        each_coordinate: With False, all coordinates go from the longest to the shortest
            together, in the same number of steps. With True, each coordinate has a length
            scale of its own, in all combinations, and ``shortest`` and ``longest`` have one
            number for each coordinate.

    Returns:
        The kernels, frozen copies. The first kernel covers the longest length scale, every
        other kernel the range from the next longer length scale down to its own. To cover a
        range, ``KernelFamilyUCB`` uses a weighted sum of both kernels (``covering``), whose
        prior variance is less than twice as large at ratio 2 in up to 5 dimensions and at
        ratio ``sqrt(2)`` in up to 15; in more dimensions the variance grows fast, so use a
        smaller ratio. With ``each_coordinate``, or where coordinates have different ratios,
        the kernel is used with a norm bound up to ``ratio^{d/2}`` times as large.

    Raises:
        ValueError: If a number is out of its range, the ends differ in number or do not fit
            the kernel, or there would be more than 64 kernels.
        UnsupportedError: If the kernel is another one.
    """
    bases = [kernel] if isinstance(kernel, Kernel) else list(kernel)
    if not bases:
        raise ValueError("kernel is empty; give at least one.")
    estimated = is_estimate(shortest) or is_estimate(longest)
    short, long = _ends(plain(shortest), plain(longest), bases)
    if finite_scalar("ratio", ratio) <= 1.0:
        raise ValueError(f"ratio must be above 1, got {ratio}.")
    if each_coordinate and len(long) == 1:
        raise ValueError(
            "each_coordinate=True needs one shortest and one longest length scale for each "
            "coordinate; give sequences."
        )
    spread = (long / short).log() / math.log(ratio)
    counts = (spread - _ROUNDING).ceil().clamp_min(0.0).int().tolist()
    counts = counts if each_coordinate else [max(counts)] * len(counts)
    step = (long / short) ** (1.0 / as_double(counts).clamp_min(1.0))
    members = [
        _Member(
            _with_lengths(base, long * step**-taken, estimated),
            torch.where(taken > 0, step, 1.0),
            together=not each_coordinate,
        )
        for taken in map(as_double, _corners(counts, len(bases), each_coordinate))
        for base in bases
    ]
    names = " or ".join(dict.fromkeys(kind_of(unscaled(base)) for base in bases))
    covers = f"{names} with length scale {in_words(long)}"
    if bool((short < long).any()):
        scales = "length scales of each coordinate" if each_coordinate else "length scales"
        covers = f"{names} with {scales} from {in_words(short)} to {in_words(long)}"
    return LengthscaleFamily(tuple(members), (Covered(covers),))


def _kind(kernel: Kernel) -> tuple[type, float, float, tuple[int, ...] | None]:
    r"""All of a kernel but its length scale."""
    read = cast(Stationary, read_kernel(kernel))  # as all kernels of a family are
    taken = None if read.columns is None else tuple(read.columns.tolist())
    return read.kind, read.shape, read.variance, taken


def _ends(
    shortest: Lengths, longest: Lengths, bases: Sequence[Kernel]
) -> tuple[Tensor, Tensor]:
    r"""Both ends, with one entry or one for each coordinate, as the kernels take them."""
    # The kernels may be on a device; what is computed of a few numbers is on the CPU.
    ends = {"shortest": shortest, "longest": longest}
    short, long = (as_double(each, name).cpu().reshape(-1) for name, each in ends.items())
    count = max(len(short), len(long))
    for name, value in (("shortest", short), ("longest", long)):
        if len(value) not in (1, count) or len(value) == 0:
            raise ValueError(
                f"shortest has {len(short)} entries and longest {len(long)}; give one "
                "number, or one for each coordinate."
            )
        positive_values(name, value, len(value))
    for kernel in bases:
        base, active = unscaled(kernel), cast(Tensor | None, kernel.active_dims)
        if type(base) not in NESTED or len(base.batch_shape) > 0:
            raise UnsupportedError(
                f"{type(base).__name__} has no known order of length scales; use an RBF, "
                "Matern or rational quadratic kernel without batch dimensions, or make "
                "the list of kernels yourself."
            )
        columns = base.ard_num_dims or (None if active is None else len(active))
        if count > 1 and columns not in (None, count):
            raise ValueError(
                f"shortest and longest have {count} entries, the kernel has {columns} "
                "coordinates."
            )
    if bool((short > long).any()):
        raise ValueError(
            f"shortest ({in_words(short)}) is above longest ({in_words(long)})."
        )
    return short.expand(count), long.expand(count)


def _corners(
    counts: list[int], num_bases: int, each_coordinate: bool
) -> list[tuple[int, ...]]:
    r"""How many steps each coordinate of a member is below the longest; simplest first.

    The longest of all; then, each coordinate on its own, the combinations that cover a
    range in every coordinate that has one.
    """
    longest = (0,) * len(counts)
    cells = math.prod(max(count, 1) for count in counts) if each_coordinate else counts[0]
    number = num_bases * (1 + cells)
    if number > _MOST_MEMBERS:
        raise ValueError(
            f"The family would have {number} kernels, and {_MOST_MEMBERS} is the limit. "
            "Use a larger ratio, a smaller range of length scales, or "
            "each_coordinate=False."
        )
    if not each_coordinate:
        return [(taken,) * len(counts) for taken in range(counts[0] + 1)]
    ranges = [range(min(count, 1), count + 1) for count in counts]
    rest = [corner for corner in itertools.product(*ranges) if any(corner)]
    return [longest, *sorted(rest, key=sum)]


def _with_lengths(kernel: Kernel, lengths: Tensor, estimated: bool = False) -> Kernel:
    r"""A frozen copy with other length scales; other parts keep their status."""
    member: Any = frozen_copy(kernel)
    base = unscaled(member)
    trained = trained_parameters(base) - {"raw_lengthscale"}
    remember_trained(base, trained | ({"raw_lengthscale"} if estimated else set()))
    lengths = lengths.to(base.raw_lengthscale.device)
    if len(lengths) > 1 and base.lengthscale.shape[-1] == 1:
        base.ard_num_dims = len(lengths)
        base.raw_lengthscale = Parameter(lengths.new_zeros(1, len(lengths)), False)
    base.lengthscale = lengths.expand_as(base.lengthscale)
    return member


def cover_of_all(shorter: Kernel, longer: Kernel, ratio: float, dimension: int) -> Cover:
    r"""Covers the length scales between those of two kernels, ``ratio`` times apart.

    ``k_s + c k_l`` at the same norm bound, or the shorter one at a larger norm bound:
    whichever has the smaller prior variance.

    Source: ours; ``docs/mathematics.md``.
    """
    # Norm balls grow with spectral densities: if the density of `k_s + c k_l` is larger at
    # every frequency, its ball contains those of all length scales in between.
    log_nested = dimension * math.log(ratio)
    log_share = _log_weight(ratio, dimension) - log_nested
    if np.logaddexp(0.0, log_share) >= log_nested:
        return Cover(shorter, math.exp(0.5 * log_nested))
    scaled = ScaleKernel(longer).double().to(next(longer.parameters()).device)
    scaled.outputscale = as_double(math.exp(log_share))
    both: Any = AdditiveKernel(shorter, scaled)
    return Cover(both.requires_grad_(False), 1.0)


@lru_cache(maxsize=256)
def _log_weight(ratio: float, dimension: int) -> float:
    r"""``ln C``: smallest ``C`` with ``1 + C h >= (1 + t p)^(d/2) h^t`` on the unit square.

    With ``p = ratio^2 - 1``; ``t`` stands for the length scale, ``h`` for the frequency.
    For each ``t`` the worst ``h`` is known. Sufficient where ``dimension p^2`` is at most
    ``4 exp(40)``: see ``docs/mathematics.md``.
    """
    odds = np.linspace(-_REACH, _REACH, _GRID + 1)
    t, rest, log_rest = expit(odds), expit(-odds), -np.logaddexp(0.0, odds)
    log_values = 0.5 * dimension * np.log1p(t * (ratio**2 - 1.0))
    inside = log_values + log_rest >= 0.0
    needed = np.log(t) + (log_values + rest * log_rest) / t
    log_nested = dimension * math.log(ratio)
    at_zero = log_nested + math.log(-math.expm1(-log_nested))
    largest = max(needed[inside], default=-math.inf)
    return max(at_zero, float(largest)) + math.log1p(_MARGIN)
