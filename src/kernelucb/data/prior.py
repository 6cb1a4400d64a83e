r"""Prior mean and covariance in the units of the outcomes."""

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models.transforms.input import (
    ChainedInputTransform,
    InputStandardize,
    InputTransform,
    Log10,
    Normalize,
    OneHotToNumeric,
    Round,
    Warp,
)
from botorch.sampling.pathwise import GeneralizedLinearPath, gen_kernel_features
from gpytorch.kernels import Kernel
from gpytorch.means import ConstantMean, LinearMean, Mean, ZeroMean
from torch import Tensor
from torch.nn import Module

from kernelucb._numerics.digits import coordinate
from kernelucb._numerics.estimates import frozen_copy
from kernelucb._numerics.kernels import (
    EVALUATION_ERRORS,
    Reader,
    Reading,
    allowed_columns,
    fitting_reading,
    read_kernel,
)
from kernelucb.data.kernel_family import kernel_in_words
from kernelucb.data.outcome_map import IDENTITY, OutcomeMap


def _none(_: InputTransform) -> dict[int, int]:
    return {}


def _codes(transform: InputTransform) -> dict[int, int]:
    codes: Any = transform.categorical_features
    return codes or {}


# Input transforms that take each column by itself and keep its order, but for the codes of
# categories: numbers of columns that they take together, by the first of these.
_ALONG_COLUMNS: dict[type, Callable[[Any], dict[int, int]]] = {
    Normalize: _none,
    InputStandardize: _none,
    Log10: _none,
    Warp: _none,
    Round: _codes,
    OneHotToNumeric: _codes,
}
_LINEAR = (ZeroMean, ConstantMean, LinearMean)


class _Plain(NamedTuple):
    r"""Plain numbers of a prior, outcome units."""

    kernel: Reading
    mean: float | None  # of a constant mean


class Prior(Module):
    r"""Mean ``offset + scale * m(x)`` and covariance ``scale^2 * k(x, x')``.

    A frozen float64 copy: refitting the model later does not change a prior that was
    taken from it, and no gradient flows to the hyper-parameters. What was trainable counts
    as estimated wherever a part of the copy is handed in as a kernel or a mean.

    Args:
        covar_module: The kernel ``k`` of the (standardised) model.
        mean_module: The mean ``m`` of the (standardised) model; zero when absent.
        input_transform: Applied to query points before ``m`` and ``k``.
        offset: Outcome units at the model's zero.
        scale: Outcome units per unit of the model.
        outcome_map: From outcomes to the scale that all of this is on; outcome units are
            the units after it.
    """

    covar_module: Any
    mean_module: Any

    def __init__(
        self,
        covar_module: Kernel,
        mean_module: Mean | None = None,
        input_transform: InputTransform | None = None,
        offset: float = 0.0,
        scale: float = 1.0,
        outcome_map: OutcomeMap = IDENTITY,
    ) -> None:
        super().__init__()
        self.covar_module = frozen_copy(covar_module)
        self.mean_module = None if mean_module is None else frozen_copy(mean_module)
        transform = None if input_transform is None else frozen_copy(input_transform)
        self.input_transform = transform
        self.offset, self.scale, self.outcome_map = offset, scale, outcome_map
        self._plain: _Plain | None = None
        # How the kernel is read, once it was compared with GPyTorch's values.
        self._reading: Reader | None = None

    def replaced(
        self, covar_module: Kernel, mean_module: Mean | None, inputs: Tensor
    ) -> "Prior":
        r"""Another kernel and mean, outcome units, that fit ``n x d'`` inputs.

        Input transform and outcome map are those of this one.
        """
        given: Any = covar_module, mean_module, self.input_transform
        prior = Prior(*given, outcome_map=self.outcome_map).to(inputs.device)
        prior.check_fits(inputs)
        return prior

    @property
    def plain(self) -> _Plain:
        r"""Plain numbers of the prior; read when first asked for."""
        if self._plain is None:
            kernel = (self._reading or read_kernel)(self.covar_module, self.scale**2)
            self._plain = _Plain(kernel, self._constant_mean())
        return self._plain

    @property
    def kernel_in_words(self) -> str:
        r"""``"RBF, length scale 0.4 after Normalize, standard deviation 2"``."""
        transform, variance = self.input_transform, self.plain.kernel.variance
        after = "" if transform is None else f" after {type(transform).__name__}"
        words = f"{kernel_in_words(self.covar_module)}{after}"
        if variance is None:
            return words
        unit = "" if self.scale == 1.0 else " of standardised outcomes"
        return f"{words}, standard deviation {variance**0.5 / self.scale:.4g}{unit}"

    @property
    def mean_in_words(self) -> str:
        r"""The number of a constant mean, on the scale of the prior; else its class."""
        constant = self.plain.mean
        given = (
            type(self.mean_module).__name__ if constant is None else coordinate(constant)
        )
        return f"{given}{self.outcome_map.after}"

    def _constant_mean(self) -> float | None:
        mean: Any = self.mean_module
        if mean is None or type(mean) is ZeroMean:
            return self.offset
        constant: Any = mean.constant if type(mean) is ConstantMean else None
        if constant is None or constant.numel() != 1:
            return None
        return self.offset + self.scale * float(constant)

    def _compare(self, inputs: Tensor) -> None:
        r"""Choose the reading of the kernel at some inputs, if there are any."""
        if len(inputs):
            self._reading = fitting_reading(self.covar_module, self.scale**2, inputs)
            self._plain = None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        self._plain = None  # read again on the other device
        return super()._apply(fn, recurse)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Tensor],
        prefix: str,
        local_metadata: dict[str, object],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        self._plain = None  # read again from the loaded parameters
        found = missing_keys, unexpected_keys, error_msgs
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, *found)

    @torch.no_grad()
    def check_fits(self, inputs: Tensor) -> None:
        r"""Raise ``UnsupportedError`` unless ``n x d'`` inputs have one value each.

        The shape is that of the first one; at some of them the kernel's values are compared
        with GPyTorch's, which are used if ours are others.
        """
        point, self._reading = inputs[:1], None  # compared anew at these inputs
        modules = self.covar_module, self.mean_module
        names = " or ".join(type(each).__name__ for each in modules if each is not None)
        try:
            self._compare(inputs)
            values = self.covariance(point, point), self.variance(point), self.mean(point)
        except EVALUATION_ERRORS as error:
            raise UnsupportedError(
                f"{names} does not take inputs of {point.shape[-1]} columns: {error}"
            ) from error
        shapes = [tuple(each.shape) for each in values]
        if len(point) and shapes != [(1, 1), (1,), (1,)]:  # no points have any shape
            raise UnsupportedError(
                f"{names} gives a covariance, a variance and a mean of shapes {shapes} for "
                "one point; a bound is for one value for each pair of points (no "
                "derivatives, no tasks, no batches)."
            )

    @property
    def has_constant_variance(self) -> bool:
        r"""Whether values surely fall with the distance, from the same everywhere."""
        if self._reading is None and self.plain.kernel.falls:
            columns = allowed_columns(self.covar_module).start
            with suppress(UnsupportedError, *EVALUATION_ERRORS):  # not known without inputs
                device = next(self.parameters(), torch.empty(0)).device
                self._compare(torch.zeros(1, columns, dtype=torch.float64, device=device))
        return self._reading is not None and self.plain.kernel.falls

    @property
    def is_stationary(self) -> bool:
        r"""Whether the covariance surely depends on differences of raw inputs alone."""
        affine = self.input_transform is None or type(self.input_transform) is Normalize
        return self.has_constant_variance and affine

    @property
    def shortest_lengthscale(self) -> float:
        r"""Of all kernels and inputs, units of kernel inputs; 1 where there is none."""
        kernels = self.covar_module, *self.covar_module.sub_kernels()
        lengths = [x.lengthscale.min() for x in kernels if x.has_lengthscale]
        return min(map(float, lengths), default=1.0)

    def transform(self, X: Tensor) -> Tensor:
        r"""Map ``n x d`` raw inputs to the kernel's inputs, ``n x d'``."""
        return X if self.input_transform is None else self.input_transform(X)

    @torch.no_grad()
    def untransformed(self, inputs: Tensor) -> Tensor | None:
        r"""Raw inputs of ``n x d'`` kernel inputs; None if the transform has no inverse."""
        transform = self.input_transform
        if transform is None:
            return inputs
        try:
            raw = transform.untransform(inputs)
        except NotImplementedError:
            return None
        off = (transform(raw) - inputs).abs().amax()
        return raw if bool(off <= 1e-12 * inputs.abs().amax()) else None

    def mean(self, inputs: Tensor) -> Tensor:
        r"""Prior mean at ``n x d'`` kernel inputs, ``n`` values in outcome units."""
        constant = self.plain.mean
        if constant is not None:
            return inputs.new_full(inputs.shape[:-1], constant)
        return self.offset + self.scale * self.mean_module(inputs)

    def variance(self, inputs: Tensor) -> Tensor:
        r"""Prior variance at ``n x d'`` kernel inputs, ``n`` values."""
        if self._reading is None:
            self._compare(inputs)
        kernel = self.plain.kernel
        constant = kernel.variance
        if constant is not None:
            return inputs.new_full(inputs.shape[:-1], constant)
        return kernel.values(inputs, inputs, pairs=True)

    def covariance(self, left: Tensor, right: Tensor) -> Tensor:
        r"""Prior covariance of ``n x d'`` and ``m x d'`` kernel inputs, ``n x m``.

        A row does not depend on the other points on the left: queries belong there.
        """
        if self._reading is None:
            self._compare(right if len(right) else left)
        return self.plain.kernel.values(left, right)

    def covariance_of(self, left: Tensor, right: Tensor) -> Tensor:
        r"""Prior covariance of ``n`` kernel inputs with one, or with ``n``, one by one."""
        if len(right) == 1:
            return self.covariance(left, right)[:, 0]
        return self.plain.kernel.values(left, right, pairs=True)

    def gram(self, inputs: Tensor, noise_std: Tensor | None = None) -> Tensor:
        r"""Kernel matrix of ``n x d'`` kernel inputs; over noise scales, where given.

        Raises:
            InputDataError: If it is not finite.
        """
        matrix = self.covariance(inputs, inputs)
        if noise_std is not None:
            matrix = matrix / noise_std.outer(noise_std)
        if not bool(torch.isfinite(matrix).all()):
            raise InputDataError(
                "The kernel matrix is not finite: the inputs are too large for the kernel, "
                "or noise_std is too small beside the prior. Rescale the inputs "
                "(input_transform=Normalize(d)), or use a larger noise_std."
            )
        return 0.5 * (matrix + matrix.mT)  # rounding need not be symmetric

    def paths(self, like: Tensor, count: int, num_features: int) -> GeneralizedLinearPath:
        r"""Draws without mean and scale: random sums of BoTorch's Fourier features.

        For kernel inputs like ``n x d'`` ones; the features are an even number.
        """
        kernel = self.covar_module
        try:
            features = gen_kernel_features(
                kernel=kernel, num_inputs=like.shape[-1], num_outputs=num_features
            )
        except NotImplementedError as error:
            raise UnsupportedError(
                f"BoTorch has no Fourier features for {type(kernel).__name__}; sample on a "
                "finite set of candidates, or use an RBF or Matern kernel."
            ) from error
        size = count, features.num_outputs
        weights = torch.randn(size, dtype=like.dtype, device=like.device)
        return GeneralizedLinearPath(feature_map=features, weight=weights)

    def bounds_changes(self, fixed: Collection[int] = ()) -> bool:
        r"""Whether ``change_in_cells`` holds; cells have no room in ``fixed`` raw columns.

        The covariance must surely fall with the distance along each raw input, and the mean
        be linear.
        """
        linear = self.mean_module is None or type(self.mean_module) in _LINEAR
        falls = linear and self.has_constant_variance
        return falls and is_monotone(self.input_transform, fixed)

    def change_in_cells(self, norm: float, centres: Tensor, halves: Tensor) -> Tensor:
        r"""How much a function with ``||f - m|| <= norm`` changes in ``n`` cells at most.

        Cells are given by ``n x d`` centres and half sides, raw inputs. The input transform
        is monotone in each column, so the corner is farthest from the centre.
        """
        # Not the halves themselves: a transform need not be linear.
        middle, upper, lower = (
            self.transform(centres + step)
            for step in (torch.zeros_like(halves), halves, -halves)
        )
        reach = torch.maximum((upper - middle).abs(), (lower - middle).abs())
        change = norm * self.metric(middle, middle + reach)
        if not isinstance(self.mean_module, LinearMean):
            return change
        slopes = self.mean_module.get_parameter("weights").reshape(-1).abs()
        return change + self.scale * (reach @ slopes)

    def metric(self, left: Tensor, right: Tensor, *, part: Reading | None = None) -> Tensor:
        r"""Kernel metric ``||k(x, .) - k(x', .)||`` of ``n`` pairs of kernel inputs.

        Rounded up, so that it stays an upper bound for pairs next to each other.
        """
        if self._reading is None:
            self._compare(left)
        kernel = self.plain.kernel if part is None else part  # or a part of a sum
        one, other = (kernel.values(each, each, pairs=True) for each in (left, right))
        prior_variance, between = one + other, kernel.values(left, right, pairs=True)
        rounding = 8.0 * torch.finfo(prior_variance.dtype).eps * prior_variance
        return (prior_variance - 2.0 * between + rounding).clamp_min(0.0).sqrt()


def is_monotone(transform: InputTransform | None, fixed: Collection[int] = ()) -> bool:
    r"""Whether each kernel input surely rises or falls with a single raw input.

    Args:
        transform: An input transform; None leaves inputs as they are.
        fixed: Raw columns that do not change, so that what becomes of them does not count.
    """
    if transform is None:
        return True
    is_chain = type(transform) is ChainedInputTransform
    decoded = False
    for step in [*transform.values()] if is_chain else [transform]:
        codes_of = _ALONG_COLUMNS.get(type(step))
        if codes_of is None:
            return False
        codes = {s + i for s, count in codes_of(step).items() for i in range(count)}
        # After a decoding, columns have other numbers.
        if codes and (decoded or not codes <= set(fixed)):
            return False
        decoded = decoded or type(step) is OneHotToNumeric
    return True
