r"""Thompson sampling: Durand, Maillard & Pineau (2018), Streaming kernel regression with
provably adaptive mean, variance, and regularization, Algorithm 1 and Theorem 5.

The noise scale is unknown (the band of Corollary 1, in ``streaming.py``) or known (that of
Theorem 1, in ``kernelucb.confidence.ridge``).

What differs from the paper: samples may be taken as functions on a continuous domain, by
random Fourier features of the prior; and the factor of the deviation may be left out, which
``assumptions`` says.
"""

import torch
from botorch.generation.sampling import MaxPosteriorSampling
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.model import Model
from botorch.utils.sampling import optimize_posterior_samples
from torch import Tensor
from torch.nn import Module

from kernelucb._numerics.checks import probability, whole_number
from kernelucb._numerics.domains import checked_limits, checked_points
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.noise import UnknownNoise
from kernelucb.confidence.norm import NormBoundLike, norm_bound_under_prior
from kernelucb.confidence.ridge import RidgeBand, abbasi_yadkori_theorem
from kernelucb.data import KernelRegression
from kernelucb.data.outcome_map import IDENTITY, OutcomeMap
from kernelucb.papers.streaming import StreamingNoiseTracker, streaming_band


class PosteriorPaths(Module):
    r"""Draws of ``N(mean_tau, scale^2 cov_tau)`` that can be evaluated anywhere.

    With ``g`` drawn from the prior and ``eps`` from the noise, at ``lambda = tau noise^2``,
    ``m(x) + scale g(x) + k(x, X) (K + lambda)^-1 (y - m - scale (g(X) + sqrt(tau) eps))``.
    The update is exact, in the eigenbasis of the state; ``g`` is a random sum of BoTorch's
    Fourier features. Random numbers come from torch's global generator.

    Source: Wilson et al. (2020), Matheron's rule.
    """

    weights: Tensor

    def __init__(
        self,
        band: RidgeBand[KernelRegression],
        scale: float,
        outcome_map: OutcomeMap,
        *sizes: int,
    ) -> None:
        super().__init__()
        self.regression = regression = band.regression
        regularizer = band.regularizer
        self.scale, self.outcome_map = scale, outcome_map
        prior, basis, root = regression.prior, regression.feature_basis, regularizer**0.5
        self.prior_paths = prior.paths(regression.train_inputs, *sizes)
        with torch.no_grad():
            values = prior.scale * self.prior_paths(regression.distinct_inputs)
            noise = torch.randn_like(values)  # in the eigenbasis, where it is white as well
            lam = regression.eigenvalues
            drawn = (values @ basis) * (lam / (lam + regularizer))
            noisy = noise * (lam.sqrt() / (lam / root + root))
            mean = regression.mean_terms / (lam + regularizer)
            # Of the training sections, num_paths x n.
            self.register_buffer("weights", (mean - scale * (drawn + noisy)) @ basis.mT)

    def forward(self, x: Tensor) -> Tensor:
        r"""Values at ``n x d`` points for all paths, or ``num_paths x n x d`` each its own.

        ``num_paths x n x 1``, as of BoTorch's deterministic models; differentiable.
        """
        prior = self.regression.prior
        inputs = prior.transform(x.to(self.weights))
        sections = prior.covariance(inputs, self.regression.distinct_inputs)
        update = (sections @ self.weights.unsqueeze(-1)).squeeze(-1)
        drawn = prior.scale * self.prior_paths(inputs)
        values = prior.mean(inputs) + self.scale * drawn + update
        return self.outcome_map.inverse(values).unsqueeze(-1)


class KernelThompsonSampling(MaxPosteriorSampling):
    r"""Kernel Thompson sampling: play where a posterior sample is largest.

    Samples are joint, from ``N(f_alpha, v^2 sigma^2 / alpha k_alpha)`` with
    ``alpha = sigma^2 / B^2``, and ``sigma`` either known or the upper bound of
    ``StreamingNoiseTracker``. Inflated by ``v``, the standard deviation at a point is the
    half-width of the confidence band there: that of ``StreamingKernelUCB`` where the noise
    is unknown, and of ``AbbasiYadkoriUCB`` at this ``alpha`` where it is known.

    Source: Durand, Maillard & Pineau (2018), Algorithm 1 with
    ``v = B_t(delta / 4)`` over the upper bound on ``sigma`` from Corollary 1, or
    ``v = B_t(delta) / noise_std`` from Theorem 1. On a finite set, the regret bound of
    Theorem 5 holds with probability ``1 - 3 delta``. Assumptions as for the band.

    Random numbers come from torch's global generator, as in BoTorch.

    Example:
        >>> sampler = KernelThompsonSampling(model, norm_bound=5.0, noise_std=0.1)
        >>> x = sampler(candidates, num_samples=1)
        >>> x = sampler.optimize(bounds)  # on a continuous domain

    Args:
        model: See ``StreamingKernelUCB``, as for ``norm_bound`` and ``delta``.
        noise_std: See ``MartingaleMixtureUCB``; ``UnknownNoise`` needs its lower limit.
        tracker: See ``StreamingKernelUCB``; for ``UnknownNoise`` only.
        inflation: If False, samples are not inflated: they come from the posterior of a GP
            of prior covariance ``B^2 k`` and noise scale ``sigma``, without a regret bound.
        maximize: If False, the point with the smallest sample is chosen.
        replacement: If False, several samples choose different candidates.

    Raises:
        ValueError: If a scalar is out of its range, or the tracker does not fit or is given
            for a known noise.
        UnsupportedError: If the model cannot be represented.

    Attributes:
        confidence_set: The band whose half-width is the inflated standard deviation.
        inflation_factor: ``v``; 1 without inflation.
    """

    def __init__(
        self,
        model: Model | KernelRegression,
        *,
        norm_bound: NormBoundLike = None,
        noise_std: float | Tensor | UnknownNoise | None = None,
        tracker: StreamingNoiseTracker | None = None,
        delta: float = 0.05,
        inflation: bool = True,
        maximize: bool = True,
        replacement: bool = True,
    ) -> None:
        super().__init__(model, replacement=replacement)  # pyright: ignore[reportArgumentType]
        probability("delta", delta)
        if isinstance(noise_std, UnknownNoise):
            state = KernelRegression.of(model)
            band, tracker = streaming_band(state, tracker, norm_bound, noise_std, delta)
            norm = float(tracker.norm_bound) / state.outcome_scale
        elif tracker is None:
            state = KernelRegression.of(model, noise_std)
            bound = norm_bound_under_prior(norm_bound, state, delta)
            norm = bound.value
            # Theorem 1 at alpha = noise_std^2 / B^2.
            band = abbasi_yadkori_theorem(delta, norm**-2).band(state, bound)
        else:
            raise ValueError(
                "A tracker is for an unknown noise scale; give "
                "noise_std=UnknownNoise(...) with its limits, or leave it out."
            )
        self.maximize, self.confidence_set, self._inflation = maximize, band, inflation
        # sqrt(sigma^2 / alpha) = B, so the band is B v standard deviations wide.
        self.inflation_factor = band.width / norm if inflation else 1.0
        self._scale = norm * self.inflation_factor

    @property
    def regression(self) -> KernelRegression:
        r"""The regression state that is sampled from."""
        return self.confidence_set.regression

    @property
    def assumptions(self) -> Assumptions:
        r"""The assumptions of the band; without inflation there is no guarantee."""
        assumptions = self.confidence_set.assumptions
        if self._inflation:
            return assumptions
        return assumptions.without_guarantee("the samples are not inflated")

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, X: Tensor, num_samples: int = 1
    ) -> Tensor:
        r"""Choose ``num_samples x d`` of ``n x d`` candidates, one per sample; ``O(n^3)``.

        Raises:
            BotorchTensorDimensionError: If the shape is not ``n x d``.
            InputDataError: If there are no points, or a value is not finite.
            ValueError: If ``num_samples`` is not a whole number above 0, or larger than
                ``n`` without replacement.
        """
        # On the model's scale, which has the same order.
        values = self._samples(X, num_samples).unsqueeze(-1)
        if not self.replacement and num_samples > len(X):
            raise ValueError(
                f"num_samples is {num_samples}, but there are {len(X)} candidates; choose "
                "fewer, or set replacement=True."
            )
        return self.maximize_samples(X, values if self.maximize else -values, num_samples)

    def sample_values(self, X: Tensor, num_samples: int = 1) -> Tensor:
        r"""Joint samples at ``n x d`` points, ``num_samples x n`` values in outcome units.

        Samples of transformed outcomes are mapped back to outcome units, as ``bounds`` are.
        Arguments and errors as for ``forward``.
        """
        return self.regression.outcome_map.inverse(self._samples(X, num_samples))

    @torch.no_grad()
    def _samples(self, X: Tensor, num_samples: int) -> Tensor:
        r"""Joint samples on the scale of the model, ``num_samples x n`` values."""
        whole_number("num_samples", num_samples)
        rows = checked_points("X", X, self.regression.dimension)
        points = self.regression.project(rows)
        tau = points.baseline.new_tensor(self.confidence_set.regularizer)
        mean = points.baseline + self.regression.deviation_at(points, tau)
        # Eigenvalues that round-off made negative count as zero: repeated points and points
        # on the data need no jitter.
        covariance = self.regression.covariance_at(points, points, tau)
        values, vectors = torch.linalg.eigh(covariance)
        root = vectors * values.clamp_min(0.0).sqrt()
        normal = torch.randn(num_samples, len(rows), dtype=root.dtype, device=root.device)
        return mean + self._scale * normal @ root.mT

    def paths(
        self, num_samples: int = 1, num_features: int = 1024
    ) -> GenericDeterministicModel:
        r"""Samples as functions, for a continuous domain.

        A model that maps ``n x d`` points, or ``num_samples x n x d`` with points of its
        own for each function, to ``num_samples x n x 1`` outcomes. An even number of random
        Fourier features approximates the prior; the conditioning on the data is exact.

        Raises:
            ValueError: If a number is not a whole number above 0.
            UnsupportedError: If the kernel has no Fourier features in BoTorch.
        """
        sizes = num_samples, num_features
        return GenericDeterministicModel(self._paths(*sizes, self.regression.outcome_map))

    def _paths(
        self, num_samples: int, num_features: int, outcome_map: OutcomeMap = IDENTITY
    ) -> PosteriorPaths:
        r"""Samples as functions, by default on the scale of the model."""
        whole_number("num_samples", num_samples)
        sizes = num_samples, whole_number("num_features", num_features)
        return PosteriorPaths(self.confidence_set, self._scale, outcome_map, *sizes)

    def optimize(
        self,
        bounds: Tensor,
        num_samples: int = 1,
        *,
        num_features: int = 1024,
        raw_samples: int = 1024,
        num_restarts: int = 20,
    ) -> Tensor:
        r"""``num_samples x d`` points of a ``2 x d`` box, by BoTorch's optimiser.

        Each sample of ``paths`` is tried at ``raw_samples`` points first; gradient searches
        start from the best ``num_restarts`` of them. Errors as for ``paths``, and
        ``BotorchTensorDimensionError`` if the bounds are not ``2 x d``.
        """
        checked_limits(bounds, self.regression.dimension)
        # On the model's scale: the map rises, and may overflow far from the data.
        functions, device = self._paths(num_samples, num_features), bounds.device
        points, _ = optimize_posterior_samples(
            # It draws its first points on the CPU whatever the device of the bounds.
            GenericDeterministicModel(lambda X: functions(X.to(device)).to(X.device)),
            bounds.cpu(),
            raw_samples=raw_samples,
            num_restarts=num_restarts,
            sample_transform=None if self.maximize else torch.neg,
        )
        return points.to(device)
