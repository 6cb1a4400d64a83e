r"""Kernel ridge regression at every regulariser from one eigendecomposition.

What the data say of query points; also of outcomes that count by a filter of the spectrum.
"""

import math
from abc import ABC, abstractmethod
from typing import NamedTuple, Self

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from botorch.models.model import Model
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor
from torch.nn import Module
from torch.nn.functional import pad

from kernelucb._numerics.arrays import Array, as_array, library_of, safe_sqrt
from kernelucb._numerics.checks import finite, positive_values, tensor
from kernelucb._numerics.estimates import Estimate, Number, draft_of
from kernelucb._numerics.spectral import kernel_spectrum, split_variance
from kernelucb.data.from_model import ModelData, NoiseStd, noise_values, read_model
from kernelucb.data.outcome_map import OutcomeMap
from kernelucb.data.prior import Prior

_HIDDEN = 1e-12  # part of an observed point's variance that no outcome shows, at most
ROUNDED = 1e-6  # largest error of numbers that were transformed in single precision
# Largest ratio of noise scales: their squares divide the kernel matrix.
_LARGEST_RATIO = 1e8 * (1.0 + 1e-6)  # 1e8 in single precision as well


class Projection(NamedTuple):
    r"""Query points as the state sees them; everything else is arithmetic on these.

    ``k(x, .)`` is split along the eigendirections of the kernel matrix: ``features`` are
    its coordinates in an orthonormal basis of the span of the training sections, the rest
    is orthogonal to all of them.

    Attributes:
        inputs: ``b x d'`` kernel inputs.
        baseline: ``b`` values of the prior mean, outcome units; support functions are
            measured from it.
        prior_variance: ``b`` values of ``k(x, x)``, outcome units squared.
        features: ``b x r`` values ``v(x) = lam^-1/2 U^T D^-1/2 k(X, x)``.
        residual_variance: ``b`` values ``k(x, x) - |v|^2``, which no outcome at the
            training inputs reduces.
    """

    inputs: Tensor
    baseline: Tensor
    prior_variance: Tensor
    features: Tensor
    residual_variance: Tensor

    def rows(self, mask: Tensor | slice) -> "Projection":
        r"""The points in a slice, or where ``mask`` is true."""
        return Projection._make([part[mask] for part in self])


class RidgeState(Module, ABC):
    r"""Whitened regression in a basis in which it is diagonal.

    Mean, variance and quadratic form at any regulariser ``tau`` are sums over the
    eigenvalues: ``O(r)`` a point, once its ``r`` features are known.

    Attributes:
        eigenvalues: ``r`` eigenvalues ``lam``, ascending.
        targets: ``r`` coordinates ``z`` of the whitened outcomes.
        noise_scales: ``n`` noise standard deviations, outcome units, to compute with.
        eigenvalue_cutoff: What round-off makes of a zero eigenvalue.
        dimension: Number of raw input columns ``d``.
        estimated: Parts of the model that were fitted to the data.
        prior_std: Prior standard deviation of the outcome (root mean square over the
            inputs).
    """

    eigenvalues: Tensor
    targets: Tensor
    noise_scales: Tensor
    prior: Prior
    eigenvalue_cutoff: float
    dimension: int
    estimated: frozenset[str]
    prior_std: float

    @property
    def unfiltered(self) -> "RidgeState":
        r"""The state without the filter that weighs its directions."""
        return self

    def _describe(self, like: "RidgeState | ModelData") -> None:
        r"""Copy prior, dimension and estimated parts of a state or of a ``ModelData``."""
        self.prior, self.dimension = like.prior, like.dimension
        self.estimated = like.estimated

    def _keep(self, **tensors: Tensor) -> None:
        r"""Register buffers, which move between devices with the state."""
        for name, value in tensors.items():
            self.register_buffer(name, value)

    @abstractmethod
    def coordinates(self, inputs: Tensor, prior_variance: Tensor) -> tuple[Tensor, Tensor]:
        r"""``features`` and ``residual_variance`` of ``b x d'`` inputs; differentiable."""

    @abstractmethod
    def with_inputs(self, inputs: Tensor) -> Self:
        r"""The state with ``p x d'`` inputs added that have no outcomes yet."""

    def with_pending(self, X_pending: Tensor) -> Self:
        r"""The state with ``p x d`` raw inputs added that have no outcomes yet.

        For variances only; the noise there is ``pending_noise_std``.
        """
        X = self._checked(X_pending).detach().to(self.eigenvalues)
        return self.with_inputs(self.prior.transform(X)) if len(X) else self

    def project(self, X: Tensor) -> Projection:
        r"""Coordinates of ``b x d`` raw query points; differentiable in ``X``."""
        return self.project_inputs(self.prior.transform(X.to(self.eigenvalues)))

    def project_inputs(self, inputs: Tensor) -> Projection:
        r"""Coordinates of ``b x d'`` inputs as the kernel sees them.

        Raises:
            InputDataError: If the prior could not be evaluated there.
        """
        mean, prior_variance = self.prior.mean(inputs), self.prior.variance(inputs)
        features, rest = self.coordinates(inputs, prior_variance)
        total = as_array(mean) + as_array(rest)
        if not library_of(total).isfinite(total).all():
            raise InputDataError(
                "The kernel or the prior mean is not finite at some points: they are too "
                "large for 64-bit numbers. Rescale the inputs, those of the data as well "
                "(input_transform=Normalize(d))."
            )
        return Projection(inputs, mean, prior_variance, features, rest)

    def difference(
        self, points: Projection, other: Projection, cheap: bool = False
    ) -> Projection:
        r"""The functional ``f(x) - f(x')`` for ``b`` points and one other, as points.

        Or ``b`` others, one for each point, without ``cheap``.
        Its prior variance is the squared kernel metric ``||k(x, .) - k(x', .)||^2``; with
        ``cheap`` up to 3e-6 times the prior variance more.
        """
        mean, features = points.baseline - other.baseline, points.features - other.features
        least = _HIDDEN * other.prior_variance.detach()
        if cheap and (hidden := float(other.residual_variance.detach())) <= float(least):
            # An observed x': the rests add up to at most the square of both lengths.
            roots = safe_sqrt(as_array(points.residual_variance))
            more = torch.as_tensor(hidden + 2.0 * math.sqrt(hidden) * roots)
            rest = points.residual_variance + more
            prior_variance = features.square().sum(-1) + rest
            return Projection(points.inputs, mean, prior_variance, features, rest)
        covariance = self.prior.covariance_of(points.inputs, other.inputs)
        prior_variance = points.prior_variance + other.prior_variance - 2.0 * covariance
        same = (as_array(points.inputs) == as_array(other.inputs)).all(-1)
        nothing = torch.as_tensor(same | (as_array(prior_variance) < 0.0))
        if bool(nothing.any()):  # the difference is round-off there
            prior_variance = torch.where(nothing, 0.0, prior_variance)
        split = self._split_difference(
            features, prior_variance, points.residual_variance, other.residual_variance
        )
        return Projection(points.inputs, mean, prior_variance, *split)

    def _split_difference(
        self, features: Tensor, prior_variance: Tensor, *residual_variances: Tensor
    ) -> tuple[Tensor, Tensor]:
        r"""Features and residual variance of a difference of two points."""
        return split_variance(features, prior_variance, farthest, *residual_variances)

    @property
    def num_observations(self) -> int:
        r"""Number of observations ``n``."""
        return len(self.noise_scales)

    @property
    def noise_std(self) -> Tensor | Estimate:
        r"""The noise scales to be handed on, an estimate where fitted to the data."""
        noise = self.noise_scales
        return Estimate(noise) if "noise" in self.estimated else noise

    @property
    def pending_noise_std(self) -> Tensor:
        r"""Noise scale of pending points: the root mean square over the observations."""
        return self.noise_scales.square().mean().sqrt()

    @property
    def has_one_noise_scale(self) -> bool:
        r"""Whether all observations have the same noise scale."""
        return bool((self.noise_scales == self.noise_scales[0]).all())

    def holds(self, X: Tensor, outcomes: Tensor) -> bool:
        r"""Whether its data are ``n`` outcomes at ``n x d`` raw inputs, up to rounding.

        In their order; False of a state that does not keep enough to say so.
        """
        return False

    @property
    def mean_terms(self) -> Tensor:
        r"""``r`` values ``sqrt(lam) z``, which ``v / (lam + tau)`` weights in the mean."""
        return self.eigenvalues.sqrt() * self.targets

    @property
    def outcome_scale(self) -> float:
        r"""Outcome units per unit of the model (the ``Standardize`` constant, or one).

        A norm bound refers to ``model.covar_module`` as it stands and to outcome units; the
        prior's kernel is ``outcome_scale^2`` times that, so that norms under it are norm
        bounds over ``outcome_scale``.
        """
        return self.prior.scale

    @property
    def outcome_map(self) -> OutcomeMap:
        r"""From outcomes to the scale that the state is on; outcome units are its units."""
        return self.prior.outcome_map

    def mean(self, X: Tensor, regularizer: float | Tensor = 1.0) -> Tensor:
        r"""Ridge estimate at ``b x d`` points, ``b`` values in outcome units.

        Args:
            X: ``b x d`` query points.
            regularizer: ``tau``, one number or ``b``; 1 gives the GP posterior mean.

        Raises:
            BotorchTensorDimensionError: If ``X`` is not ``b x d``.
            InputDataError: If the points are not real, finite numbers.
        """
        points = self.project(self._checked(X))
        return points.baseline + self.deviation_at(points, self._column(regularizer))

    def variance(self, X: Tensor, regularizer: float | Tensor = 1.0) -> Tensor:
        r"""Latent variance (without noise) at ``b x d`` points, ``b`` values.

        Arguments and errors as for ``mean``; ``tau = 1`` gives the GP posterior variance.
        """
        return self.variance_at(self.project(self._checked(X)), self._column(regularizer))

    def quadratic_form(self, regularizer: float | Tensor = 1.0) -> Tensor:
        r"""``y_w^T (I + K_w / tau)^-1 y_w``, one value for each ``tau``."""
        tau = self._column(regularizer)
        return (self.targets.square() * tau / (self.eigenvalues + tau)).sum(-1)

    def quadratic_form_drop(self, tau_ref: float, regularizer: Tensor) -> Tensor:
        r"""``quadratic_form(tau_ref) - quadratic_form(tau)``, one value for each ``tau``.

        Nothing cancels where both forms are large and nearly equal, as at small noise:
        ``(tau_ref - tau) sum_i w_i / (lam_i + tau)``, ``w = z^2 lam / (lam + tau_ref)``.
        """
        lam = self.eigenvalues
        weights = self.targets.square() * lam / (lam + tau_ref)
        # In place: a grid of regularisers times the spectrum is the largest array here.
        inverse = (lam + regularizer.unsqueeze(-1)).reciprocal_()
        return (tau_ref - regularizer) * (inverse @ weights)

    def deviation_at(self, points: Projection, regularizer: Tensor) -> Tensor:
        r"""Ridge estimate minus prior mean at ``b`` projected points, ``b`` values.

        ``regularizer`` is ``tau`` as a zero-dimensional or ``b x 1`` tensor.
        Source: Flynn & Reeb (2024), Eq. (2), in the eigenbasis.
        """
        weights = (self.eigenvalues + regularizer).reciprocal_().mul_(self.mean_terms)
        return (points.features * weights).sum(-1)

    def variance_at(self, points: Projection, regularizer: Tensor) -> Tensor:
        r"""Latent variance at ``b`` projected points, ``b`` values, never negative.

        ``regularizer`` as for ``deviation_at``; it may be infinite.
        Source: Flynn & Reeb (2024), Eq. (3), in the eigenbasis.
        """
        shrinkage = (self.eigenvalues / regularizer).add_(1.0).reciprocal_()
        return points.residual_variance + (points.features.square() * shrinkage).sum(-1)

    def covariance_at(
        self, left: Projection, right: Projection, regularizer: Tensor
    ) -> Tensor:
        r"""Latent covariance between ``b`` and ``p`` projected points, ``b x p``.

        ``regularizer`` is ``tau`` as a zero-dimensional or ``b x 1`` tensor.
        """
        shares = self.eigenvalues / (self.eigenvalues + regularizer)
        prior = self.prior.covariance(left.inputs, right.inputs)
        return prior - (left.features * shares) @ right.features.mT

    def _checked(self, X: Tensor, name: str = "X") -> Tensor:
        shape = tuple(tensor(name, X).shape)
        if len(shape) != 2 or shape[1] != self.dimension:
            raise BotorchTensorDimensionError(
                f"{name} must be `b x {self.dimension}`, got shape {shape}."
            )
        return finite(name, X)

    def _column(self, regularizer: float | Tensor) -> Tensor:
        r"""One ``tau``, or several, with a last dimension for the eigenvalues."""
        lam = self.eigenvalues
        return torch.as_tensor(regularizer, dtype=lam.dtype, device=lam.device).unsqueeze(
            -1
        )


def farthest(*squares: Array) -> Array:
    r"""Squared sum of two lengths, of which the squares are given."""
    one, other = map(safe_sqrt, squares)
    return (one + other) ** 2


class Pooled(NamedTuple):
    r"""Observations with repeated inputs made one."""

    inputs: Tensor  # `m x d'` distinct inputs
    residuals: Tensor  # `m` precision-weighted means of outcome minus prior mean
    noise_std: Tensor  # `m` noise scales of these means
    # Whitened squared distance of the outcomes to their means; None where no input is
    # repeated
    scatter: Tensor | None


class Runs(NamedTuple):
    r"""Runs by input: ``n`` outcomes at ``m`` distinct inputs, in a fixed order of these.

    A run weighs ``1 / noise_std^2``, or one where no noise scales are given.
    """

    first: Tensor  # `m` positions where the inputs come first
    which: Tensor  # for each run, which of the inputs it is of
    precision: Tensor  # `m` sums of the weights: without noise scales, numbers of runs
    means: Tensor  # `m` weighted means of the outcomes
    squares: Tensor  # `n` weighted squared distances of the outcomes to these means

    @classmethod
    def of(
        cls,
        rows: tuple[Tensor, Tensor],
        outcomes: Tensor,
        noise_std: Tensor | None = None,
    ) -> "Runs":
        r"""Runs of rows that ``distinct_rows`` has found."""
        first, index = rows
        weights = torch.ones_like(outcomes)
        if noise_std is not None:
            weights = noise_std.square().reciprocal()
        precision = weights.new_zeros(len(first)).index_add(0, index, weights)
        sums = weights.new_zeros(len(first)).index_add(0, index, weights * outcomes)
        means = sums / precision
        squares = weights * (outcomes - means[index]).square()
        return cls(first, index, precision, means, squares)

    def total(self, values: Tensor) -> Tensor:
        r"""``m`` sums over the runs of each input, of ``n`` values."""
        return values.new_zeros(len(self.first)).index_add(0, self.which, values)


def runs_by_input(
    inputs: Tensor, outcomes: Tensor, noise_std: Tensor | None = None
) -> Runs:
    r"""Runs at ``n x d`` inputs, these in the order in which they come first."""
    return Runs.of(distinct_rows(inputs), outcomes, noise_std)


def pool(inputs: Tensor, residuals: Tensor, noise_std: Tensor) -> Pooled:
    r"""Pool observations at equal inputs, sorted: the order of the data does not count."""
    rows = _sorted_rows(inputs)
    if len(rows[0]) == len(inputs):
        return Pooled(inputs, residuals, noise_std, None)
    runs = Runs.of(rows, residuals, noise_std)
    noise = runs.precision.rsqrt()
    return Pooled(inputs[runs.first], runs.means, noise, runs.squares.sum())


def distinct_rows(inputs: Tensor) -> tuple[Tensor, Tensor]:
    r"""Distinct rows of ``n x d`` inputs, in the order in which they come first.

    ``u`` positions where they come first, and for each row which of the ``u`` it is.
    """
    first, index = _sorted_rows(inputs)
    first, order = first.sort()
    return first, order.argsort()[index]


def _sorted_rows(inputs: Tensor) -> tuple[Tensor, Tensor]:
    r"""Distinct rows as for ``distinct_rows``, in ascending order."""
    rows = torch.arange(len(inputs), device=inputs.device)
    distinct, index = torch.unique(inputs, dim=0, return_inverse=True)
    first = rows.new_full((len(distinct),), len(inputs))
    return first.scatter_reduce(0, index, rows, "amin"), index


class KernelRegression(RidgeState):
    r"""Whitened kernel regression in the eigenbasis of its kernel matrix.

    With noise standard deviations ``D^1/2`` on the diagonal and kernel matrix ``K``,
    one ``eigh`` of ``D^-1/2 K D^-1/2 = U diag(lam) U^T`` gives mean, variance,
    log-determinant and quadratic form for *every* regulariser ``tau`` in ``O(n)`` a
    point, once its ``n`` coordinates are known. ``tau`` multiplies the noise variance:
    the ridge parameter is ``alpha = tau * noise_std^2``, and ``tau = 1`` is the GP
    posterior. The state is a float64 snapshot: refitting the model later does not
    change it, and no gradient flows to hyper-parameters.

    Given the function's value at an input, the likelihood depends on the outcomes at the
    input through their precision-weighted mean and their scatter around this mean alone. So
    repeated inputs are pooled, and one direction at eigenvalue zero holds all the scatter.

    Example:
        >>> state = KernelRegression.from_model(model)
        >>> mean, variance = state.mean(X), state.variance(X)

    Attributes:
        eigenvalues: ``r`` eigenvalues ``lam`` of the whitened kernel matrix, ascending:
            ``r = m``, the number of distinct inputs, and one more for the scatter of
            repeated outcomes, at eigenvalue zero.
        targets: ``r`` values ``z = U^T D^-1/2 (y - m)``.
        train_inputs: ``n x d'`` inputs as the kernel sees them.
        train_targets: ``n`` outcomes.
        distinct_inputs: ``m x d'`` distinct inputs.
        distinct_variance: ``m`` prior variances there.
        distinct_noise_std: ``m`` noise scales of the pooled outcomes there.
        distinct_lost: ``m`` lengths of what the kept eigenvectors leave of each section.
        feature_basis: ``m x r`` matrix that maps covariances to features.

    The other attributes are those of ``RidgeState``.
    """

    train_inputs: Tensor
    train_targets: Tensor
    distinct_inputs: Tensor
    distinct_variance: Tensor
    distinct_noise_std: Tensor
    distinct_lost: Tensor
    feature_basis: Tensor

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        covar_module: Kernel,
        noise_std: Number | Tensor,
        mean_module: Mean | None = None,
    ) -> None:
        r"""State from tensors and a GPyTorch kernel.

        Args:
            train_X: ``n x d`` inputs.
            train_Y: ``n x 1`` or ``n`` outcomes.
            covar_module: Kernel of the prior, output scale included. Trainable parameters
                count as estimated: freeze (``requires_grad_(False)``) what was fixed
                before the data.
            noise_std: Sub-Gaussian noise scale in outcome units, one number or ``n``.
            mean_module: Known prior mean, frozen as well; zero when absent.

        Raises:
            BotorchTensorDimensionError: If the shapes do not fit together.
            InputDataError: If there are no data, or they are not finite.
            ValueError: If the noise is not above zero.
        """
        super().__init__()
        self._decompose(
            ModelData.of(train_X, train_Y, noise_std, covar_module, mean_module)
        )

    @classmethod
    def from_model(cls, model: Model, noise_std: NoiseStd = None) -> "KernelRegression":
        r"""State of a fitted BoTorch model, in the units of the outcomes.

        Args:
            model: A single-output exact GP: ``SingleTaskGP``, or an ``ExactGP`` of GPyTorch
                whose ``forward`` is made of ``mean_module`` and ``covar_module``. Of
                outcomes after ``Log``, ``Power`` or ``Bilog`` the state is on that scale.
            noise_std: Noise scale in outcome units, one number or one per observation.
                Taken from the likelihood when absent.

        Raises:
            UnsupportedError: If the model cannot be represented; the message says why.
            InputDataError: If its data are empty or not finite.
        """
        return cls.from_data(data_of(model, noise_std))

    @classmethod
    def of(
        cls, model: "Model | ModelData | KernelRegression", noise_std: NoiseStd = None
    ) -> "KernelRegression":
        r"""``model`` if it is a state already, otherwise the state of the model."""
        if not isinstance(model, KernelRegression):
            return cls.from_data(data_of(model, noise_std))
        noise = noise_values(noise_std, model)
        return model if noise is None else model.with_noise_std(noise)

    @property
    def data(self) -> ModelData:
        r"""The numbers from which the state was made."""
        learned = self.prior.input_transform is not None and "kernel" in self.estimated
        values = self.prior, self.train_inputs, self.train_targets, self.noise_scales
        return ModelData(*values, self.dimension, self.estimated, learned)

    @property
    def observed_inputs(self) -> Tensor | None:
        r"""``n x d`` raw inputs up to round-off; None if the transform has no inverse."""
        return self.data.observed_inputs

    @classmethod
    def from_data(cls, data: ModelData, pooled: Pooled | None = None) -> Self:
        r"""State of a model in numbers; ``pooled``, where given, is ``pool`` of these."""
        state = cls.__new__(cls)
        Module.__init__(state)
        state._decompose(data, pooled)
        return state

    @torch.no_grad()
    def _decompose(self, data: ModelData, pooled: Pooled | None = None) -> None:
        r"""One ``eigh`` of ``D^-1/2 K D^-1/2``, of the size of the distinct inputs."""
        prior, inputs, targets = data.prior, data.train_inputs, data.train_targets
        noise = positive_values("noise_std", data.noise_std, len(targets)).to(inputs)
        least, most = map(float, noise.aminmax())
        if most > _LARGEST_RATIO * least:
            raise ValueError(
                f"noise_std goes from {least:.3g} to {most:.3g}; scales more than 1e8 "
                "apart cannot be told from round-off together. Leave out the outcomes with "
                "the largest, or raise the smallest."
            )
        if pooled is None:
            pooled = pool(inputs, targets - prior.mean(inputs), noise)
        whitened = prior.gram(pooled.inputs, pooled.noise_std)
        lam, vectors, cutoff = kernel_spectrum(whitened)
        z = (pooled.residuals / pooled.noise_std) @ vectors
        lengths = torch.where(lam > 0, lam, torch.inf).sqrt()  # no features along others
        # Along the eigenvectors that were dropped the whitened matrix is at most `cutoff`,
        # so a section leaves little there, but not nothing.
        dropped = vectors[:, lam == 0].square().sum(-1)
        lost = pooled.noise_std * (cutoff * dropped).sqrt()
        basis = vectors / pooled.noise_std.unsqueeze(-1) / lengths
        if pooled.scatter is not None:  # a direction that no function reaches
            lam, basis = pad(lam, (1, 0)), pad(basis, (1, 0))
            z = torch.cat([pooled.scatter.sqrt().reshape(1), z])
        self._describe(data)
        variance = prior.variance(pooled.inputs)
        self.eigenvalue_cutoff, self.prior_std = cutoff, float(variance.mean().sqrt())
        self._keep(
            eigenvalues=lam,
            targets=z,
            noise_scales=noise,
            train_inputs=inputs,
            train_targets=targets,
            distinct_inputs=pooled.inputs,
            distinct_variance=variance,
            distinct_noise_std=pooled.noise_std,
            distinct_lost=lost,
            feature_basis=basis,
        )

    def with_noise_std(self, noise_std: Number | Tensor) -> "KernelRegression":
        r"""The state of the same data and prior under another noise scale."""
        data = self.data.with_noise_std(noise_std)
        noise = data.noise_std.to(self.noise_scales)
        factors = noise / self.noise_scales
        if bool((factors != factors[0]).any()):
            return self.from_data(data)
        # Only the unit of the noise changes: the same eigenvectors.
        state, factor = draft_of(self), factors[0]
        state.estimated, state.noise_scales = data.estimated, noise
        state.distinct_noise_std = self.distinct_noise_std * factor
        state.eigenvalues = self.eigenvalues / factor.square()
        state.targets = self.targets / factor
        state.eigenvalue_cutoff = self.eigenvalue_cutoff / float(factor) ** 2
        return state

    def with_largest_noise(self) -> "KernelRegression":
        r"""The state with the largest noise scale for every observation."""
        if self.has_one_noise_scale:
            return self
        state = self.with_noise_std(float(self.noise_scales.max()))
        state.estimated = self.estimated
        return state

    def with_shorter_lengthscales(self, factor: float) -> "KernelRegression":
        r"""The state under a kernel with all length scales divided by ``factor``.

        That is the same kernel at inputs multiplied by ``factor``, where
        ``prior.has_constant_variance``; of other kernels nothing is known.
        """
        inputs = factor * self.train_inputs
        shift = self.prior.mean(inputs) - self.prior.mean(self.train_inputs)
        targets = self.train_targets + shift
        return self.from_data(
            self.data._replace(train_inputs=inputs, train_targets=targets)
        )

    def with_inputs(self, inputs: Tensor) -> "KernelRegression":
        noise = self.pending_noise_std.expand(len(inputs))
        data = self.data._replace(
            train_inputs=torch.cat([self.train_inputs, inputs]),
            train_targets=torch.cat([self.train_targets, self.prior.mean(inputs)]),
            noise_std=torch.cat([self.noise_scales, noise]),
        )
        return KernelRegression.from_data(data)  # one `eigh` of all inputs

    def coordinates(self, inputs: Tensor, prior_variance: Tensor) -> tuple[Tensor, Tensor]:
        covariance = self.prior.covariance(inputs, self.distinct_inputs)
        raw_features = covariance @ self.feature_basis
        given = inputs, prior_variance, covariance
        return split_variance(raw_features, prior_variance, self._reach, *given)

    def _reach(self, inputs: Array, prior_variance: Array, covariance: Array) -> Array:
        r"""Bound on the variance outside the kept span at ``b x d'`` inputs, ``b`` values.

        ``prior_variance`` is ``k(x, x)``, ``covariance`` ``b x m`` with the sections.

        Ours: what the span leaves of ``k(x, .)`` is at most as long as the distance to a
        section and what the span leaves of that section, for the nearest one
        ``(|k(x, .) - k(x_i, .)| + lost_i)^2``. The distance is exactly zero at a repeated
        input, and rounded up elsewhere.
        """
        kept = self.distinct_inputs, self.distinct_variance, self.distinct_lost
        xp, eps = library_of(covariance), torch.finfo(self.distinct_lost.dtype).eps
        distinct, variance, lost = kept if xp is torch else map(as_array, kept)
        products = covariance - 0.5 * variance
        index = products.argmax(-1)
        most = products[xp.arange(len(index)), index]
        rounding = 8.0 * eps * (prior_variance + variance[index])
        repeated = (inputs == distinct[index]).all(-1)
        squared = xp.where(repeated, 0.0, prior_variance - 2.0 * most + rounding)
        return (safe_sqrt(squared) + lost[index]) ** 2

    def observed_features(self, rows: Tensor) -> Tensor:
        r"""Coordinates of ``b`` rows of ``distinct_inputs``, ``b x r``."""
        squared_noise = self.distinct_noise_std[rows].square().unsqueeze(-1)
        return self.feature_basis[rows] * squared_noise * self.eigenvalues

    def holds(self, X: Tensor, outcomes: Tensor) -> bool:
        if X.shape[-1] != self.dimension:
            return False
        inputs, targets = self.train_inputs, self.train_targets.cpu()
        apart = (self.prior.transform(X.to(inputs)) - inputs).abs()
        near = apart <= ROUNDED * inputs.abs().amax(0)
        sizes = outcomes.abs() + self.noise_scales.cpu()
        same = (targets - outcomes).abs() <= ROUNDED * sizes
        return bool(near.all().cpu() & same.all())

    def hidden_part(self, norm: float) -> float:
        r"""Growth of a squared radius for the part of outcomes that round-off hides.

        For functions of at most the given norm, prior units. Along eigenvectors whose
        eigenvalues count as zero a function says some ``s`` of the outcomes ``z``, with
        ``|s|`` at most its norm times the root of the cut-off; ``|z|^2`` is counted there
        in place of ``|z - s|^2``, which may be smaller by ``reach (2 |z| - reach)``, or by
        all of ``|z|^2`` where that is shorter than this reach.

        Source: ours; ``docs/mathematics.md``, "Round-off".
        """
        hidden = self.eigenvalues == 0
        # Without the one of repeated outcomes' scatter, which no function reaches.
        hidden[: len(hidden) - len(self.distinct_inputs)] = False
        length = float(self.targets[hidden].norm())
        reach = min(norm * math.sqrt(self.eigenvalue_cutoff), length)
        return reach * (2.0 * length - reach)

    def log_det(self, regularizer: float | Tensor = 1.0) -> Tensor:
        r"""``ln det(I + K_w / tau)``, one value for each ``tau``; nats.

        Twice the information gain of Durand, Maillard & Pineau (2018), Definition 1.
        """
        tau = self._column(regularizer)
        return torch.log1p(self.eigenvalues / tau).sum(-1)


# What a state is made of
Regressed = Model | ModelData | KernelRegression


def data_of(model: Regressed, noise_std: NoiseStd = None) -> ModelData:
    r"""Numbers of a model or a state; ``noise_std`` replaces the noise scale, if given."""
    is_read = isinstance(model, ModelData | KernelRegression)
    data = model.data if is_read else read_model(model)
    return data.with_noise_std(noise_values(noise_std, model))


class SpectralFilter(NamedTuple):
    r"""``a(lam) = level + sum_j w_j (lam + l_j g_j) / (lam + g_j)``, between 0 and 1."""

    level: float  # what every direction counts
    weights: Tensor  # `J` values `w_j`; with `level` they sum up to at most one
    floors: Tensor  # `J` values `l_j` in `[0, 1)`, the filters' values at `lam = 0`
    corners: Tensor  # `J` values `g_j` above zero, where they turn from `l_j` to one

    def __call__(self, eigenvalues: Tensor) -> Tensor:
        r"""Values at ``r`` eigenvalues, in their order."""
        values = filter_values(self.floors, self.corners, eigenvalues)
        return self.level + self.weights.to(eigenvalues) @ values


def filter_values(floors: Tensor, corners: Tensor, eigenvalues: Tensor) -> Tensor:
    r"""``(lam + l_j g_j) / (lam + g_j)`` at ``r`` eigenvalues, ``J x r``."""
    corners = corners.to(eigenvalues).unsqueeze(-1)
    floors = floors.to(eigenvalues).unsqueeze(-1)
    return (eigenvalues + floors * corners) / (eigenvalues + corners)


class FilteredRegression(RidgeState):
    r"""A state in which direction ``i`` counts ``a_i`` times, ``a_i = filter(lam_i)``.

    The fit ``sum_i a_i (sqrt(lam_i) u_i - z_i)^2`` of a function with coordinates ``u`` is
    that of a state with eigenvalues ``a_i lam_i`` and targets ``sqrt(a_i) z_i``; the
    coordinates of query points stay as they are. ``mean`` and ``variance`` are those of
    the data without the filter.
    """

    def __init__(self, state: KernelRegression, spectral_filter: SpectralFilter) -> None:
        super().__init__()
        self._describe(state)
        self.state, self.spectral_filter = state, spectral_filter
        self.prior_std, self.eigenvalue_cutoff = state.prior_std, state.eigenvalue_cutoff
        values = spectral_filter(state.eigenvalues)
        self._least_filter = float(values[0])
        self._keep(
            eigenvalues=values * state.eigenvalues,
            targets=values.sqrt() * state.targets,
            noise_scales=state.noise_scales,
        )

    @property
    def unfiltered(self) -> KernelRegression:
        return self.state

    @property
    def scatter(self) -> float:
        r"""Misfit of repeated outcomes alone, whatever the function."""
        rest = len(self.eigenvalues) - len(self.state.distinct_inputs)
        return float(self.targets[:rest].square().sum())

    def hidden_part(self, norm: float) -> float:
        r"""The hidden part of ``state``, times the filter there."""
        return self._least_filter * self.state.hidden_part(norm)

    def coordinates(self, inputs: Tensor, prior_variance: Tensor) -> tuple[Tensor, Tensor]:
        r"""Coordinates in the state of the data."""
        return self.state.coordinates(inputs, prior_variance)

    def with_inputs(self, inputs: Tensor) -> "FilteredRegression":
        # The filter stays, and is taken at the spectrum of all inputs.
        return FilteredRegression(self.state.with_inputs(inputs), self.spectral_filter)

    def mean(self, X: Tensor, regularizer: float | Tensor = 1.0) -> Tensor:
        r"""Ridge estimate of the data at ``b x d`` points."""
        return self.state.mean(X, regularizer)

    def variance(self, X: Tensor, regularizer: float | Tensor = 1.0) -> Tensor:
        r"""Latent variance of the data at ``b x d`` points."""
        return self.state.variance(X, regularizer)
