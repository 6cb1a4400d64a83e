r"""Kernel regression on the span of a few inducing points, with a bound on the rest."""

import torch
from botorch.exceptions import BotorchTensorDimensionError
from botorch.models.model import Model
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor
from torch.nn import Module

from kernelucb._numerics.checks import positive_values, training_targets, whole_number
from kernelucb._numerics.estimates import draft_of, is_estimate
from kernelucb._numerics.spectral import kernel_spectrum
from kernelucb.regression.from_model import ModelData, read_model
from kernelucb.regression.lowrank.basis import Basis
from kernelucb.regression.lowrank.sketch import check_noise
from kernelucb.regression.lowrank.weights import Sums, WeightProblem
from kernelucb.regression.state import Projection, RidgeState


class NystromRegression(RidgeState):
    r"""Regression whose weights lie in the span of inducing features and the outcomes.

    For any weights ``a`` on the ``t`` whitened observations, a function of norm at most
    ``B`` within ``r`` of them satisfies
    ``f(x) <= m(x) + a^T y_w + r |a| + B ||k(x, .) - sum_s a_s k_w(x_s, .)||``. With
    ``Z`` the ``t x m`` coordinates of the observations on the ``m`` inducing sections,
    ``z`` those of ``x``, and ``E = K_w - Z Z^T``,

        ``||k(x, .) - sum_s a_s k_w(x_s, .)||^2 <= |z - Z^T a|^2
        + (rho + sqrt(a^T E a))^2``,  ``rho^2 = k(x, x) - |z|^2``,

    and the last square is at most ``(1 + s) rho^2 + (1 + 1/s) a^T E a`` for any split
    ``s``. For weights ``a = [Z, y_w] p`` all of it is a quadratic form of size ``m + 1``.
    One generalised eigendecomposition makes it diagonal: eigenvalues, targets and features
    take the place of those of ``KernelRegression``, and ``MartingaleMixtureUCB``'s exact
    dual of this smaller problem is a valid, slightly wider bound. Where the inducing
    points span all observations, ``E = 0`` and the two agree.

    The split is the one that balances the two parts on average over the observations at
    ``tau = 1``. No ``t x t`` matrix is formed; a query costs ``O(m^2)``. ``E`` is computed
    by one pass over all pairs of distinct inputs, ``O(t^2 m)``, or bounded in ``O(t M^2)``
    with ``M`` further points: with ``Z'`` the coordinates on all of them,
    ``E = (Z' Z'^T - Z Z^T) + E'``, and ``E'`` is at most its trace.

    Source: ours, by weak duality; at the best of all weights it is the dual of Flynn & Reeb
    (2024), Theorem 4.5.

    Example:
        >>> state = NystromRegression(X, Y, kernel, 0.1, inducing_points=X[::100])

    Attributes:
        eigenvalues: ``r <= m + 1`` eigenvalues, ascending; see ``RidgeState``.
    """

    feature_basis: Tensor
    basis: Basis
    outer: Basis
    sums: Sums

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        covar_module: Kernel,
        noise_std: float | Tensor,
        inducing_points: Tensor,
        mean_module: Mean | None = None,
        *,
        remainder_points: Tensor | None = None,
        chunk_size: int = 1024,
    ) -> None:
        r"""State from tensors and a GPyTorch kernel.

        Args:
            train_X: ``n x d`` inputs.
            train_Y: ``n x 1`` or ``n`` outcomes.
            covar_module: Kernel of the prior, as for ``KernelRegression``.
            noise_std: Sub-Gaussian noise scale in outcome units, one number or ``n``.
            inducing_points: ``m x d`` inputs, observed or not, chosen in any way.
            mean_module: Known prior mean; zero when absent.
            remainder_points: ``M x d`` further inputs, observed or not, to bound ``E``
                with: a few times as many as inducing points, spread over where the inputs
                are (``draw_sobol_samples``, say); none at all makes it the trace. By
                default a pass over all pairs of inputs, minutes for 10^5 of them.
            chunk_size: Rows and columns of the blocks in which it is computed.

        Raises:
            BotorchTensorDimensionError: If the shapes do not fit together.
            InputDataError: If there are no data, or they are not finite.
            ValueError: If noise or chunk size is not above zero, or noise is rounding.
        """
        super().__init__()
        data = ModelData.of(train_X, train_Y, covar_module, noise_std, mean_module)
        self._build(data, inducing_points, remainder_points, chunk_size)

    @classmethod
    def from_model(
        cls,
        model: Model,
        inducing_points: Tensor,
        noise_std: float | Tensor | None = None,
        *,
        remainder_points: Tensor | None = None,
        chunk_size: int = 1024,
    ) -> "NystromRegression":
        r"""State of the data and the prior of a BoTorch model, in outcome units.

        Args:
            model: As for ``KernelRegression.from_model``; its own posterior is not used.
            inducing_points: ``m x d`` raw inputs.
            noise_std: Noise scale in outcome units, one number or one per observation.
                Taken from the likelihood when absent.
            remainder_points: As for the class, raw inputs.
            chunk_size: As for the class.
        """
        data = read_model(model).with_noise_std(noise_std)
        state = cls.__new__(cls)
        Module.__init__(state)
        state._build(data, inducing_points, remainder_points, chunk_size)
        return state

    @torch.no_grad()
    def _build(
        self,
        data: ModelData,
        inducing_points: Tensor,
        remainder_points: Tensor | None,
        chunk_size: int,
    ) -> None:
        self.chunk_size = whole_number("chunk_size", chunk_size)
        inputs, noise = data.train_inputs, data.noise_std.to(data.train_inputs)
        self._describe(data, noise)

        def kernel_points(name: str, points: Tensor) -> Tensor:
            points = self._checked(points, name)
            return self.prior.transform(points.detach().to(inputs))

        inducing = kernel_points("inducing_points", inducing_points)
        if len(inducing) == 0:
            raise BotorchTensorDimensionError("There must be an inducing point.")
        self.basis = self.outer = Basis.of(self.prior, inducing)
        if remainder_points is not None and remainder_points.numel() > 0:
            further = kernel_points("remainder_points", remainder_points)
            self.outer = self.basis.extended(further)
        self.sums = Sums.empty(self.outer, pairs=remainder_points is None)
        self._add(inputs, data.train_targets, noise)

    def _add(self, inputs: Tensor, targets: Tensor, noise_std: Tensor) -> None:
        check_noise("noise_std", float(noise_std.min()), self.prior.variance(inputs))
        self.sums = self.sums.extended(
            self.outer, inputs, targets, noise_std, self.chunk_size
        )
        self._solve(WeightProblem.of(self.basis, self.sums))

    def _solve(self, problem: WeightProblem) -> None:
        r"""One ``eigh`` for the best weights at every regulariser."""
        self._problem = problem
        lam, vectors, cutoff = kernel_spectrum(problem.matrix)
        lengths = torch.where(lam > 0, lam, torch.inf).sqrt()
        basis = problem.scale.unsqueeze(-1) * (problem.cross.mT @ vectors / lengths)
        self._set_spectrum(lam, problem.outcomes @ vectors, cutoff)
        self.register_buffer("feature_basis", basis)

    @property
    def split(self) -> float:
        r"""``s``, how the part outside the inducing span is shared out."""
        return self._problem.split

    @property
    def prior_std(self) -> float:
        r"""Prior standard deviation of the outcome (root mean square over the inputs)."""
        return float(self.prior.variance(self.sums.rows.inputs).mean().sqrt())

    @property
    def remainder(self) -> float:
        r"""Largest eigenvalue of ``E``, or its bound: below 1 where points are enough."""
        return float(torch.linalg.eigvalsh(self._problem.remainder)[-1])

    @torch.no_grad()
    def evidence_terms(self, regularizers: Tensor) -> tuple[Tensor, Tensor]:
        r"""Upper bounds on ``y_w^T (I + K_w / tau)^-1 y_w`` and ``ln det(I + K_w / tau)``.

        See ``Sums.evidence``; ``regularizers`` are ``g`` values ``tau``.
        """
        return self.sums.evidence(regularizers.to(self.eigenvalues))

    @torch.no_grad()
    def observe(
        self, X: Tensor, Y: Tensor, noise_std: float | Tensor | None = None
    ) -> "NystromRegression":
        r"""The state with ``p`` more observations and the same inducing points.

        ``O(p n m)``, or ``O(p M^2 + m^3)`` with remainder points.

        Args:
            X: ``p x d`` raw inputs.
            Y: ``p x 1`` or ``p`` outcomes, as they were observed.
            noise_std: One number or ``p``; when absent, the one of all so far.

        Raises:
            ValueError: If the noise scale is missing and there is not one so far.
        """
        targets = self.outcome_map.observed(training_targets(X, Y))
        self._checked(X)
        if noise_std is None and not self.has_one_noise_scale:
            raise ValueError("noise_std is needed: the observations have several.")
        state = draft_of(self)
        if is_estimate(noise_std):
            state.estimated = self.estimated | {"noise"}
        noise_std = float(self.noise_scales[0]) if noise_std is None else noise_std
        noise = positive_values("noise_std", noise_std, len(targets)).to(self.noise_scales)
        inputs = self.prior.transform(X.detach().to(noise))
        state.register_buffer("noise_scales", torch.cat([self.noise_scales, noise]))
        state._add(inputs, targets.to(noise), noise)
        return state

    @torch.no_grad()
    def with_pending(self, X_pending: Tensor) -> "NystromRegression":
        r"""See ``RidgeState``.

        Pending points become inducing points, whose new directions hold no data.
        """
        X = self._checked(X_pending).detach()
        if len(X) == 0:
            return self
        pending = self.prior.transform(X.to(self.noise_scales))
        noise = self.pending_noise_std
        state = draft_of(self)
        scales = torch.cat([self.noise_scales, noise.expand(len(pending))])
        state.register_buffer("noise_scales", scales)
        state.basis = self.basis.extended(pending)
        state._solve(self._problem.with_rows(state.basis(pending), noise))
        return state

    def coordinates(self, inputs: Tensor, prior_variance: Tensor) -> tuple[Tensor, Tensor]:
        r"""See ``RidgeState``; the second also holds the split part of ``rho^2``."""
        coordinates, rest = self.basis.project(inputs)
        features = coordinates @ self.feature_basis
        scaled = (coordinates * self._problem.scale).square().sum(-1)
        left = (scaled - features.square().sum(-1)).clamp_min(0.0)
        left = left + self.basis.round_off * prior_variance
        return features, (1.0 + self.split) * rest + left

    def difference(self, points: Projection, other: Projection) -> Projection:
        r"""The functional ``f(x) - f(x')``; see ``RidgeState``.

        Residuals of the two count as opposite: the triangle inequality.
        """
        covariance = self.prior.covariance(points.inputs, other.inputs)[:, 0]
        variance = points.prior_variance + other.prior_variance - 2.0 * covariance
        farthest = points.residual_variance.sqrt() + other.residual_variance.sqrt()
        return points._replace(
            baseline=points.baseline - other.baseline,
            prior_variance=variance.clamp_min(0.0),
            features=points.features - other.features,
            residual_variance=farthest.square(),
        )
