r"""Kernel regression in the span of a few inducing points (DTC, Nystrom features).

With features ``z(x) = (K_SS^{1/2})^+ k_S(x)``, ``Z`` those of the observed inputs and
``V = Z^T Z + lam I``::

    mean(x) = z(x)^T V^-1 Z^T y
    var(x)  = k(x, x) - |z(x)|^2 + lam z(x)^T V^-1 z(x)

Source: Calandriello et al. (2019), Eq. 4; the predictive of Titsias' collapsed bound with
the same inducing points. Features are only defined up to a rotation; here they are
coordinates in the eigenbasis of ``K_SS``, ascending.
"""

from typing import NamedTuple

import torch
from botorch.exceptions import InputDataError
from numpy.random import SeedSequence
from torch import Tensor

from kernelucb._numerics.features import lost_lengths
from kernelucb._numerics.spectral import kernel_spectrum

# Rows that are worked on together, so that nothing as large as the features is needed.
_ROWS = 4096
_PURPOSE = 0x424B42  # any number
# Least noise in prior deviations: a thousand times the rounding of such outcomes.
_LEAST_NOISE = 1e3 * torch.finfo(torch.float64).eps


def feature_basis(matrix: Tensor) -> tuple[Tensor, Tensor]:
    r"""Map from covariances with inducing points to features, and what it leaves of these.

    One ``eigh``. Directions that cannot be told from zero (repeated or collinear inducing
    points) are left out, as the pseudo-inverse does.

    Args:
        matrix: ``m x m`` kernel matrix ``K_SS`` of the inducing points.

    Returns:
        An ``m x r`` matrix, and ``m`` lengths; see ``lost_lengths``.
    """
    values, vectors, cutoff = kernel_spectrum(0.5 * (matrix + matrix.mT))
    resolved = values > 0
    lost = lost_lengths(vectors[:, ~resolved], 1.0, cutoff)
    return vectors[:, resolved] / values[resolved].sqrt(), lost


class Sketch(NamedTuple):
    r"""Observations as ``r`` features see them.

    Attributes:
        gram: ``Z^T Z``, ``r x r``; a repeated input counts as often as it was observed.
        moments: ``Z^T (y - m)``, ``r`` values.
        regularizer: ``lam``.
        factor: Lower Cholesky factor of ``V = gram + lam I``.
        weights: ``V^-1 moments``, ``r`` values.
    """

    gram: Tensor
    moments: Tensor
    regularizer: float
    factor: Tensor
    weights: Tensor

    @classmethod
    def of(cls, gram: Tensor, moments: Tensor, regularizer: float) -> "Sketch":
        r"""From the sums over observations; one Cholesky factorisation."""
        factor = regularized_factor(gram, regularizer)
        weights = torch.cholesky_solve(moments.unsqueeze(-1), factor).squeeze(-1)
        return cls(gram, moments, regularizer, factor, weights)

    @classmethod
    def empty(cls, num_features: int, regularizer: float, like: Tensor) -> "Sketch":
        r"""Without observations: the prior."""
        gram = like.new_zeros(num_features, num_features)
        return cls.of(gram, like.new_zeros(num_features), regularizer)

    def observe(self, features: Tensor, counts: Tensor, sums: Tensor) -> "Sketch":
        r"""With more observations; one Cholesky factorisation.

        Args:
            features: ``n x r`` features of distinct inputs.
            counts: ``n`` numbers of observations there.
            sums: ``n`` sums of outcomes minus prior means.
        """
        gram = self.gram.clone()
        for part, weights in zip(features.split(_ROWS), counts.split(_ROWS), strict=True):
            gram.addmm_(part.mT, weights.unsqueeze(-1) * part)
        return Sketch.of(gram, self.moments + features.mT @ sums, self.regularizer)

    def mean(self, features: Tensor) -> Tensor:
        r"""Posterior mean minus prior mean at points with ``n x r`` features."""
        return features @ self.weights

    def residual_features(self, features: Tensor) -> Tensor:
        r"""What the observations leave of ``n x r`` features.

        Inner products of ``sqrt(lam) V^{-1/2} z(x)`` are posterior covariances in the span
        of the inducing points.
        """
        solved = torch.linalg.solve_triangular(self.factor, features.mT, upper=False)
        return self.regularizer**0.5 * solved.mT

    def variance(self, features: Tensor, residual_variance: Tensor) -> Tensor:
        r"""Latent variance: a sum of positive terms, so it does not cancel near the data.

        Args:
            features: ``n x r`` features.
            residual_variance: ``n`` values ``k(x, x) - |z(x)|^2``.
        """
        parts = features.split(_ROWS)
        left = [self.residual_features(part).square().sum(-1) for part in parts]
        return residual_variance + torch.cat(left)


def check_noise(name: str, noise_std: float, variance: Tensor) -> None:
    r"""Check that outcomes of the prior's size tell the noise from their rounding.

    Args:
        name: What the noise scale is called, for the message.
        noise_std: The least noise scale.
        variance: Prior variances, at least one.

    Raises:
        ValueError: Otherwise.
    """
    deviation = float(variance.max().sqrt())
    least = _LEAST_NOISE * deviation
    if noise_std < least:
        raise ValueError(
            f"{name} is {noise_std:.3g}; with prior deviations of up to {deviation:.3g} it "
            f"must be at least {least:.3g} to be told from rounding. Give a larger one, or "
            "bring inputs and outcomes to order one."
        )


def regularized_factor(matrix: Tensor, regularizer: float) -> Tensor:
    r"""Lower Cholesky factor of ``matrix + lam I``.

    Args:
        matrix: ``r x r``, positive semi-definite to round-off.
        regularizer: ``lam``.

    Raises:
        InputDataError: If round-off of the matrix hides ``lam``.
    """
    eye = torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    factor, failed = torch.linalg.cholesky_ex(matrix + regularizer * eye)
    if int(failed):
        raise InputDataError(
            f"The regulariser (noise variance) {regularizer:.3g} is lost in the rounding "
            "of the kernel's values. Use a larger one, or bring the inputs to order one: a "
            "polynomial kernel takes powers of their size."
        )
    return factor


def inclusion_probabilities(
    variance: Tensor, counts: Tensor, regularizer: float, qbar: float
) -> Tensor:
    r"""Probability that each distinct input becomes an inducing point.

    ``min(1, qbar count var / lam)``.

    Source: Calandriello et al. (2019), Algorithm 1, with one draw for all observations at
    an input: as probable as any of their own draws, or more, which Theorem 1 allows.

    Args:
        variance: ``n`` latent variances of the previous step.
        counts: ``n`` numbers of observations.
        regularizer: ``lam``.
        qbar: Oversampling factor.
    """
    return (qbar / regularizer * counts * variance).clamp(max=1.0)


def draw(probabilities: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    r"""Indices of the inputs drawn, ascending and never none, and the generator's state.

    Random numbers are drawn on the CPU, so they do not depend on the device. Where no input
    is drawn, the most probable one is taken.

    Args:
        probabilities: ``n`` inclusion probabilities.
        state: State of a ``torch.Generator``.
    """
    uniform, state = uniform_numbers(len(probabilities), state)
    drawn = (uniform.to(probabilities.device) < probabilities).nonzero().squeeze(-1)
    if len(drawn) == 0:
        drawn = probabilities.argmax().reshape(1)
    return drawn, state


def draw_some(weights: Tensor, size: int, state: Tensor) -> tuple[Tensor, Tensor]:
    r"""Like ``draw``, with a given number of inputs, nearly in proportion to weights.

    Those with the smallest ``u / weight`` for uniform ``u``.

    Source: Ohlsson (1998), sequential Poisson sampling.

    Args:
        weights: ``n`` values, not negative.
        size: How many are drawn; all where there are no more.
        state: State of a ``torch.Generator``.
    """
    uniform, state = uniform_numbers(len(weights), state)
    order = (uniform.to(weights.device) / weights).argsort()
    return order[:size].sort().values, state


def first_state(seed: int) -> Tensor:
    r"""State of a generator that ``torch.manual_seed(seed)`` has nothing in common with.

    With the same numbers as in random inputs, draws would depend on where these lie.
    """
    mixed = SeedSequence([_PURPOSE, seed % 2**64]).generate_state(1)
    return torch.Generator().manual_seed(int(mixed[0])).get_state()


def uniform_numbers(count: int, state: Tensor) -> tuple[Tensor, Tensor]:
    r"""``count`` float64 numbers in [0, 1) on the CPU, and the generator's next state."""
    generator = torch.Generator()
    generator.set_state(state.cpu())
    numbers = torch.rand(count, dtype=torch.float64, generator=generator)
    return numbers, generator.get_state()


def same_values(saved: Tensor, own: Tensor) -> bool:
    r"""Whether prior values are the same up to what devices make of them.

    Args:
        saved: Values of the kernel of a saved state.
        own: Values of one's own, of the same shape.
    """
    rounding = 1e-9 * float(own.abs().max())
    return torch.allclose(saved.to(own), own, rtol=1e-9, atol=1e-3 * rounding)
