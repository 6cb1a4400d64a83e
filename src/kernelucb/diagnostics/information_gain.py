r"""Information gain of points, and bounds on its maximum."""

import math
from typing import Literal, get_args

import torch
from botorch.models.model import Model
from gpytorch.kernels import Kernel
from torch import Tensor

from kernelucb._numerics.checks import one_of, positive_scalar, whole_number
from kernelucb._numerics.domains import checked_points
from kernelucb._numerics.estimates import (
    EstimatedNumber,
    estimated_parts,
    with_noise,
)
from kernelucb._numerics.spectral import kernel_spectrum
from kernelucb.regression import KernelRegression
from kernelucb.regression.prior import Prior

Method = Literal["exact", "greedy", "spectral", "upper_bound"]

# Greedy maximisation of a monotone submodular function reaches this share of the maximum.
_GREEDY_SHARE = 1.0 - 1.0 / math.e


@torch.no_grad()
def information_gain(
    model: Model | Kernel | KernelRegression,
    X: Tensor | None = None,
    *,
    noise_std: float | None = None,
    num_points: int | None = None,
    method: Method = "exact",
) -> float:
    r"""Information gain ``I(y; f) = 1/2 ln det(I + K / noise_std^2)``, or a bound on it.

    Source: ``"greedy"`` is Srinivas et al. (2010), Eq. (5), ``gamma_T <= I(greedy set) /
    (1 - 1/e)``. ``"spectral"`` is their Eq. (8) without its factor ``1 / (1 - 1/e)``
    (ours): theirs bounds what the greedy rule attains and is divided by that share, ours
    bounds the determinant of any choice; see ``_spectral_gain``. ``"upper_bound"`` is the
    smaller of the second and of a bound along the greedy rule that is never above the
    first; see ``_greedy_bounds``.

    Args:
        model: A kernel, or a model whose kernel (and noise) is used, in outcome units.
        X: ``n x d`` points: those observed (``"exact"``; the model's training inputs when
            absent) or the finite domain to choose from (the bounds).
        noise_std: Noise scale in outcome units; from the likelihood when absent (the
            largest where there are several).
        num_points: ``T``, how many points may be chosen, with repeats; ``n`` when absent.
        method: ``"exact"`` for the gain of ``X`` itself; for an upper bound on the largest
            gain ``gamma_T`` of ``num_points`` points of ``X``, ``"upper_bound"``, or one
            of the two bounds by name, ``"greedy"`` or ``"spectral"``.

    Returns:
        The gain in nats; as a number for ``BoundedNorm`` it counts as estimated where it is
        that of the model's own inputs, or its kernel or noise scale were estimated.

    Raises:
        ValueError: If a scalar is out of its range or missing.
        BotorchTensorDimensionError: If ``X`` is not ``n x d``.
        InputDataError: If ``X`` is empty or not finite.
        UnsupportedError: If the model cannot be represented.
    """
    one_of("method", method, *get_args(Method))
    observed = X is None and method == "exact"
    if isinstance(model, Kernel):
        for name, given in {"noise_std": noise_std, "X": X}.items():
            if given is None:
                raise ValueError(f"{name} is needed when only a kernel is given.")
        prior, parts = Prior(model), estimated_parts(model)
        inputs, scale = torch.empty(0), 0.0  # both are given
    else:
        data = KernelRegression.of(model)
        prior, inputs, parts = data.prior, data.train_inputs, data.estimated
        scale = float(data.noise_scales.max())
    if noise_std is not None:
        scale = float(positive_scalar("noise_std", noise_std))
        parts = with_noise(parts, noise_std)
    if X is not None:
        inputs = prior.transform(checked_points("X", X))
    count = len(inputs) if num_points is None else whole_number("num_points", num_points)
    prior.check_fits(inputs)
    ratios = prior.covariance(inputs, inputs) / scale**2
    if method == "exact":
        gain = 0.5 * float(torch.log1p(kernel_spectrum(ratios)[0]).sum())
    elif method == "spectral":
        gain = _spectral_gain(kernel_spectrum(ratios)[0], count)
    else:
        gain, along = _greedy_bounds(ratios, count)
        if method == "upper_bound":
            gain = min(along, _spectral_gain(kernel_spectrum(ratios)[0], count))
    return EstimatedNumber(gain) if observed or parts & {"kernel", "noise"} else gain


def _greedy_bounds(ratios: Tensor, num_points: int) -> tuple[float, float]:
    r"""Two bounds from points chosen one by one, at the largest posterior variance.

    ``ratios`` is the ``n x n`` prior covariance over the noise variance; points may be
    chosen again.

    Source: the first is Srinivas et al. (2010), Eq. (5). The second is that of Minoux
    (1978): by submodularity any ``T`` points add at most ``T`` times the largest gain of
    one point to a set, here to the one of each step. That largest gain only falls, and
    Eq. (5) follows from these inequalities, so their smallest is never above it.
    """
    variance = ratios.diagonal().clone()
    rows = ratios.new_zeros(num_points, len(ratios))
    gain, bound = 0.0, math.inf
    for step in range(num_points):
        best = int(variance.argmax())
        largest = 0.5 * math.log1p(float(variance[best]))
        bound = min(bound, gain + num_points * largest)
        gain += largest
        covariance = ratios[best] - rows[:step, best] @ rows[:step]
        rows[step] = covariance / torch.sqrt(1.0 + variance[best])
        variance = (variance - rows[step].square()).clamp_min(0.0)
    last = gain + num_points * 0.5 * math.log1p(float(variance.max()))
    return gain / _GREEDY_SHARE, min(bound, last)


def _spectral_gain(eigenvalues: Tensor, num_points: int) -> float:
    r"""``max 1/2 sum ln(1 + m_i lam_i)`` over ``m >= 0`` with ``sum m_i = num_points``.

    The maximum in Srinivas et al. (2010), Eq. (8), over real numbers, which can only
    enlarge it, as a bound on ``gamma_T`` itself (ours). Points chosen ``m_s`` times have
    the gain ``1/2 ln det(I + A M)`` with ``A`` the kernel matrix of the domain over the
    noise variance and ``M = diag(m)``. The products of the ``k`` largest eigenvalues of
    ``A M`` are at most those of ``A`` and ``M`` (Horn 1950), and ``ln(1 + e^u)`` is convex
    and increasing, so ``det(I + A M) <= prod_i (1 + lam_i m_i)``, both sorted. At most
    ``num_points`` of the ``m_s`` are not zero, so only as many eigenvalues count.
    Water-filling: ``m_i = max(level - 1/lam_i, 0)``, the level found by how many
    directions are active.
    """
    values = eigenvalues[eigenvalues > 0].sort(descending=True).values[:num_points]
    if len(values) == 0:
        return 0.0
    counts = torch.arange(1, len(values) + 1, dtype=values.dtype, device=values.device)
    levels = (num_points + (1.0 / values).cumsum(0)) / counts
    active = int((levels > 1.0 / values).nonzero().max()) + 1
    return 0.5 * float((levels[active - 1] * values[:active]).log().sum())
