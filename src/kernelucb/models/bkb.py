r"""Budgeted GPs with inducing points drawn by posterior variance (Calandriello et al.).

GPyTorch's view of a sketch, a variational strategy with a known optimum, and BoTorch's.
"""

# GPyTorch exports the base classes of its own strategies under private names only.
# pyright: reportPrivateUsage=false

from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.models.approximate_gp import ApproximateGPyTorchModel
from botorch.models.transforms.input import InputTransform
from botorch.models.transforms.outcome import OutcomeTransform
from botorch.posteriors import GPyTorchPosterior
from gpytorch.constraints import GreaterThan
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import Mean, ZeroMean
from gpytorch.models import ApproximateGP
from gpytorch.utils.memoize import cached
from gpytorch.variational import _VariationalDistribution, _VariationalStrategy
from linear_operator import to_dense, to_linear_operator
from linear_operator.operators import IdentityLinearOperator, RootLinearOperator
from torch import Tensor
from torch.linalg import solve_triangular
from torch.nn import Module

from kernelucb._numerics.checks import finite, positive_scalar, tensor, training_targets
from kernelucb._numerics.estimates import estimated_parts, learns, with_noise
from kernelucb.regression.outcome_map import check_identity, outcome_units
from kernelucb.regression.prior import Prior
from kernelucb.regression.sketch import DTCRegression, SketchedData, Tally, first_state

_COMPARED = 8  # inputs at which a saved state shows its prior


class OptimalVariationalDistribution(_VariationalDistribution):
    r"""``q(w) = N(V^-1 Z^T (y - m), alpha V^-1)``, the maximum of the evidence lower bound.

    Source: Titsias (2009), Eq. 10, for weights ``w`` of Nystrom features, whose prior is
    standard normal (GPyTorch's whitened inducing values).
    """

    def __init__(self, state: SketchedData) -> None:
        super().__init__(num_inducing_points=len(state.sketch.weights))
        self.sketch = state.sketch

    def forward(self) -> MultivariateNormal:
        r"""The distribution of the weights."""
        sketch = self.sketch
        # sqrt(alpha) L^-T is a root of alpha V^-1.
        eye = torch.eye(len(sketch.weights)).to(sketch.weights)
        half = solve_triangular(sketch.factor, eye, upper=False).mT
        root = RootLinearOperator(sketch.alpha**0.5 * half)
        return MultivariateNormal(sketch.weights, root)

    def initialize_variational_distribution(self, prior_dist: MultivariateNormal) -> None:
        r"""Nothing to initialise: the optimum is known in closed form."""


class BKBVariationalStrategy(_VariationalStrategy):
    r"""Whitened inducing values at inducing points that were drawn from the data.

    The optimal variational distribution is known in closed form, so there is nothing to
    train; its predictive is the deterministic training conditional of ``Sketch``.

    Args:
        model: The GP that it belongs to.
        state: Observations and inducing points.
    """

    model: Any
    inducing_points: Tensor
    _memoize_cache: dict[Any, Any]

    def __init__(self, model: ApproximateGP, state: SketchedData) -> None:
        optimum = OptimalVariationalDistribution(state)
        points = state.basis.inducing
        super().__init__(model, points, optimum, learn_inducing_locations=False)
        self.state = state
        self.get_buffer("variational_params_initialized").fill_(1)

    @property
    @cached(name="prior_distribution_memo")  # pyright: ignore[reportUntypedFunctionDecorator]
    def prior_distribution(self) -> MultivariateNormal:
        r"""Standard normal weights of the features."""
        zeros = torch.zeros_like(self.state.sketch.weights)
        identity = IdentityLinearOperator(
            len(zeros), dtype=zeros.dtype, device=zeros.device
        )
        return MultivariateNormal(zeros, identity)

    def forward(
        self,
        x: Tensor,
        inducing_points: Tensor,
        inducing_values: Tensor,
        variational_inducing_covar: Any = None,
        diag: bool = True,
        **kwargs: Any,
    ) -> MultivariateNormal:
        r"""``q(f(x))``, from any Gaussian over the whitened inducing values.

        With features ``z`` it has mean ``m(x) + z(x)^T w`` and covariance ``k(x, x') -
        z(x)^T z(x') + z(x)^T S z(x')``.

        Args:
            x: ``... x q x d'`` kernel inputs.
            inducing_points: Those of the state.
            inducing_values: ``r`` means ``w`` of the weights of the features.
            variational_inducing_covar: Their covariance ``S``; None where they are known.
            diag: Ignored: there is nothing to train, so the whole covariance is returned.
            **kwargs: Ignored.
        """
        shape, prior = x.shape[:-1], self.state.prior
        flat = x.reshape(-1, x.shape[-1])
        features, residual_variance = self.state.basis.project(flat)
        mean = (prior.mean(flat) + features @ inducing_values).reshape(shape)
        left = features[:, :0]
        if variational_inducing_covar is not None:
            root = variational_inducing_covar.root_decomposition().root
            left = features @ to_dense(root)
        variance = (residual_variance + left.square().sum(-1)).reshape(shape)
        if shape[-1] == 1:
            return MultivariateNormal(mean, to_linear_operator(variance.unsqueeze(-1)))
        features, left = features.unflatten(0, shape), left.unflatten(0, shape)
        between = prior.covariance(x, x) - features @ features.mT + left @ left.mT
        rounding = variance - between.diagonal(dim1=-2, dim2=-1)
        covariance = between + torch.diag_embed(rounding)
        return MultivariateNormal(mean, to_linear_operator(covariance))

    def _expand_inputs(self, x: Tensor, inducing_points: Tensor) -> tuple[Tensor, Tensor]:
        return x, inducing_points


class SketchedGP(ApproximateGP):
    r"""A GP with a fixed mean and kernel on a ``BKBVariationalStrategy``."""

    variational_strategy: BKBVariationalStrategy

    def __init__(self, state: SketchedData) -> None:
        super().__init__(BKBVariationalStrategy(self, state))
        self.prior = state.prior  # moves to other devices with the model

    @property
    def covar_module(self) -> Any:
        r"""The kernel."""
        return self.prior.covar_module

    @property
    def mean_module(self) -> Any:
        r"""The prior mean."""
        return self.prior.mean_module

    def forward(self, x: Tensor) -> MultivariateNormal:
        r"""The prior."""
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))


class BKBModel(ApproximateGPyTorchModel):  # pyright: ignore[reportIncompatibleMethodOverride]
    r"""Budgeted GP: inducing points drawn from the observations by posterior variance.

    The posterior is that of the deterministic training conditional (``SGPR`` in GPyTorch)
    for these inducing points. Where ``qbar >= 6 a ln(4 T / delta) / eps^2`` with
    ``a = (1 + eps) / (1 - eps)``, its variance is within a factor ``a`` of the exact one at
    every point and every round up to ``T``, with probability ``1 - delta``, and there are
    at most ``3 (1 + k(x, x) / alpha) a qbar`` times the effective dimension of inducing
    points (Theorem 1). Nothing is trained: kernel, mean and noise are as given.

    Source: Calandriello et al. (2019), Algorithm 1 and Theorem 1.

    Example:
        >>> model = BKBModel(train_X, train_Y, kernel, alpha=0.01, qbar=2.0)
        >>> model.observe(new_X, new_Y)
        >>> posterior = model.posterior(X)

    Saving ``model.state_dict()`` (the generator's state is a part) and loading it into a
    model made with the same arguments resumes where it stopped.

    Attributes:
        dimension: Number of raw input columns ``d``.
        alpha: Ridge parameter, in the model's squared units.
        qbar: Oversampling factor.
        estimated: Parts of the prior that were fitted to the data: ``"mean"`` where an
            outcome transform was trained on them.
    """

    model: Any
    outcome_transform: Any

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        covar_module: Kernel,
        alpha: float,
        qbar: float = 2.0,
        seed: int = 0,
        mean_module: Mean | None = None,
        input_transform: InputTransform | None = None,
        outcome_transform: OutcomeTransform | None = None,
    ) -> None:
        r"""Budgeted GP.

        Args:
            train_X: ``n x d`` inputs, at least one.
            train_Y: ``n x 1`` outcomes.
            covar_module: Kernel of the prior, output scale included; a frozen float64 copy
                is kept, and trainable parameters count as estimated. As in
                ``SingleTaskGP``, kernel, mean and noise are in the units that the
                transforms make.
            alpha: Ridge parameter: the variance of the noise.
            qbar: Oversampling factor: inducing points grow in proportion. Around 2 works in
                practice; Theorem 1 asks for hundreds.
            seed: Seed of the draws.
            mean_module: Known prior mean; zero when absent.
            input_transform: Applied to all inputs.
            outcome_transform: Applied to all outcomes; trained on the first ones.

        Raises:
            BotorchTensorDimensionError: If the shapes do not fit together.
            InputDataError: If there are no data, or they are not finite.
            ValueError: If a number is out of its range.
        """
        training_targets(train_X, train_Y)
        X = train_X.detach().to(torch.float64, copy=True)
        parts = with_noise(estimated_parts(covar_module, mean_module), alpha)
        alpha = float(positive_scalar("alpha", alpha))
        qbar = positive_scalar("qbar", qbar)
        prior = Prior(covar_module, mean_module or ZeroMean()).to(X.device)
        with torch.no_grad():
            kernel_inputs = self.transform_inputs(X, input_transform)
        prior.check_fits(kernel_inputs)
        likelihood = GaussianLikelihood(noise_constraint=GreaterThan(0.0)).to(X)
        likelihood.noise = X.new_tensor(alpha)
        gp = SketchedGP(
            SketchedData.empty(prior, kernel_inputs[:0], alpha, qbar, first_state(seed))
        )
        super().__init__(model=gp, likelihood=likelihood.requires_grad_(False))
        self.dimension = train_X.shape[-1]
        self.alpha, self.qbar = alpha, qbar
        if learns(input_transform, X):
            parts |= {"kernel"}
        if input_transform is not None:
            self.input_transform = input_transform.double()
        if outcome_transform is not None:
            parts |= {"mean"}
            self.outcome_transform = outcome_transform.to(X)
            self.outcome_transform.train()
            self.outcome_transform(train_Y.detach().to(X).reshape(-1, 1))
        self.estimated = parts
        self.eval()
        data = self._kernel_data(train_X, train_Y.reshape(-1, 1))
        self._replace_state(self.state.observe_at(*data).resampled())

    @property
    def state(self) -> SketchedData:
        r"""Observations and the inducing points drawn from them, in the model's units."""
        return self.model.variational_strategy.state

    @property
    def batch_shape(self) -> torch.Size:
        r"""No batch dimensions."""
        return torch.Size()

    @property
    def inducing_points(self) -> Tensor:
        r"""``m x d'`` inducing points, as the kernel sees them."""
        return self.model.variational_strategy.inducing_points

    @property
    def num_observations(self) -> int:
        r"""Number of observations, repeats included."""
        return self.state.num_observations

    @property
    def summed_variance(self) -> float:
        r"""``sum_s var(x_s)`` over the observations, in units of ``alpha``.

        The effective dimension, up to the factor of Theorem 1.
        """
        return float(self.state.counts @ self.state.variance) / self.alpha

    def regression(self, noise_std: float | None = None) -> DTCRegression:
        r"""The state of a confidence set around the posterior, in outcome units.

        Args:
            noise_std: Sub-Gaussian noise scale, outcome units; the root of ``alpha`` when
                absent.

        Raises:
            UnsupportedError: If outcomes are transformed by more than ``Standardize``.
        """
        units = outcome_units(getattr(self, "outcome_transform", None))
        ways = "transform the outcomes yourself, or use SketchedMartingaleMixtureUCB"
        check_identity(units.outcome_map, "BKBModel", ways)
        offset, scale = units.offset, units.scale
        prior, transform = self.state.prior, getattr(self, "input_transform", None)
        estimated = self.estimated
        if noise_std is not None:
            estimated = with_noise(estimated, noise_std)
        return DTCRegression(
            Prior(prior.covar_module, prior.mean_module, transform, offset, scale),
            self.state,
            scale * self.alpha**0.5 if noise_std is None else float(noise_std),
            self.dimension,
            estimated,
        )

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool = False,
        posterior_transform: Any = None,
    ) -> Any:
        r"""Joint posterior at ``... x q x d`` inputs; differentiable.

        Computed in float64 and cast back to the inputs' dtype (unless an outcome transform
        makes the posterior non-Gaussian).

        Raises:
            BotorchTensorDimensionError: If the last dimension of ``X`` is not ``d``.
            InputDataError: If ``X`` is not a dense floating-point tensor of finite values.
        """
        if tensor("X", X).dim() < 2 or X.shape[-1] != self.dimension:
            raise BotorchTensorDimensionError(
                f"X must be `... x q x {self.dimension}`, got shape {tuple(X.shape)}."
            )
        finite("X", X)
        posterior = super().posterior(X.double(), output_indices, observation_noise)
        if X.dtype != torch.float64 and type(posterior) is GPyTorchPosterior:
            normal = posterior.distribution
            covariance = normal.lazy_covariance_matrix.to(dtype=X.dtype)
            posterior = GPyTorchPosterior(
                MultivariateNormal(normal.mean.to(X.dtype), covariance)
            )
        return posterior if posterior_transform is None else posterior_transform(posterior)

    def condition_on_observations(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, X: Tensor, Y: Tensor, **_: Any
    ) -> "BKBModel":
        r"""The model after more observations, whose inputs become inducing points.

        This one stays as it is, and so do the other inducing points: nothing is drawn.

        Args:
            X: ``n x d`` inputs.
            Y: ``n x 1`` outcomes.

        Raises:
            BotorchTensorDimensionError: If the shapes do not fit together.
            InputDataError: If there are no data, or they are not finite.
            UnsupportedError: If there are batch dimensions.
        """
        data = self._checked(X, Y)
        model = deepcopy(self)
        model._replace_state(model.state.conditioned(*data))
        return model

    def observe(self, X: Tensor, Y: Tensor) -> "BKBModel":
        r"""Add observations in place and draw the inducing points again; this model.

        Arguments and errors as for ``condition_on_observations``.
        """
        self._replace_state(self.state.observe_at(*self._checked(X, Y)))
        return self

    def load_state_dict(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, state_dict: Any, strict: bool = True, **_: Any
    ) -> Any:
        r"""Resume from the state of a model made with the same arguments."""
        # BoTorch's own asks for training outcomes, which are not kept.
        return Module.load_state_dict(self, state_dict, strict)

    def get_extra_state(self) -> dict[str, Any]:
        r"""Observations, inducing points and draws, for ``state_dict``."""
        state = self.state
        return {
            "made_with": self._made_with(state.inputs),
            **state.tally._asdict(),
            "inputs": state.inputs,
            "inducing_index": state.inducing,
            "generator_state": state.generator_state,
        }

    def set_extra_state(self, state: Any) -> None:
        r"""The state that ``get_extra_state`` returned, for ``load_state_dict``.

        Raises:
            ValueError: If it is of a model with other arguments.
        """
        state, like = deepcopy(state), self.state.inputs
        inputs, saved = state["inputs"].to(like), state["made_with"]
        own = self._made_with(inputs)
        if other := [name for name in own if not _same(saved[name], own[name])]:
            raise ValueError(
                f"The state is of a BKBModel with another {', '.join(other)}; load it into "
                "a model that is made with the same arguments."
            )
        known = {
            "inputs": inputs,
            "tally": Tally(*(state[name].to(like) for name in Tally._fields)),
            "inducing": state["inducing_index"].to(like.device),
            "generator_state": state["generator_state"].cpu(),
        }
        self._replace_state(replace(self.state, **known))

    def _made_with(self, inputs: Tensor) -> dict[str, Any]:
        r"""What a loaded state must share, with the prior at some inputs."""
        first, prior = inputs[:_COMPARED], self.state.prior
        transforms = "outcome_transform", "input_transform"
        return {
            "alpha": self.alpha,
            "qbar": self.qbar,
            "kernel": prior.covariance(first, first),
            "mean": prior.mean(first),
            **{name: type(getattr(self, name, None)).__name__ for name in transforms},
        }

    def _replace_state(self, state: SketchedData) -> None:
        self.model.variational_strategy = BKBVariationalStrategy(self.model, state)

    def _checked(self, X: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
        if X.dim() > 2 or Y.dim() > 2:
            raise UnsupportedError("Give `n x d` inputs, without batch dimensions.")
        if X.dim() < 2 or X.shape[-1] != self.dimension:
            raise BotorchTensorDimensionError(
                f"X must be `n x {self.dimension}`, got shape {tuple(X.shape)}."
            )
        training_targets(X, Y)
        return self._kernel_data(X, Y.reshape(-1, 1))

    @torch.no_grad()
    def _kernel_data(self, X: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
        r"""Kernel inputs, and outcomes minus prior means in the model's units."""
        like = self.state.inputs
        inputs = self.transform_inputs(X.detach().to(like))
        Y = Y.detach().to(like)
        if hasattr(self, "outcome_transform"):
            Y, _ = self.outcome_transform(Y)
        return inputs, Y.squeeze(-1) - self.state.prior.mean(inputs)

    def _apply(self, fn: Any, recurse: bool = True) -> "BKBModel":
        if not hasattr(self, "model"):
            return super()._apply(fn, recurse)
        if fn(self.inducing_points[:0]).dtype != torch.float64:
            raise UnsupportedError("BKBModel computes in float64; leave its dtype alone.")
        super()._apply(fn, recurse)
        self._replace_state(self.state.moved(fn))
        return self


def _same(one: Any, other: Any) -> bool:
    r"""Whether two values agree, tensors up to what devices make of them."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        one = one.to(other)
        return one.shape == other.shape and torch.allclose(one, other, 1e-9, 1e-12)
    return one == other
