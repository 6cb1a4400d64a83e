r"""Budgeted GPs with inducing points drawn by posterior variance (Calandriello et al.)."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Self, TypedDict

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import UnsupportedError
from botorch.models.model import Model
from botorch.models.transforms.input import InputTransform
from botorch.models.transforms.outcome import OutcomeTransform
from botorch.posteriors import GPyTorchPosterior, Posterior
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from linear_operator import to_linear_operator
from linear_operator.operators import (
    DiagLinearOperator,
    KernelLinearOperator,
    MatmulLinearOperator,
)
from torch import Tensor
from torch.linalg import solve_triangular

from kernelucb._numerics.checks import (
    joint_inputs,
    positive_scalar,
    training_targets,
    unbatched,
)
from kernelucb._numerics.estimates import estimated_parts, learns, with_noise
from kernelucb.data.from_model import input_transform_of, outcome_transform_of
from kernelucb.data.nystrom import (
    DTCRegression,
    SketchedData,
    Tally,
    first_state,
)
from kernelucb.data.outcome_map import check_identity, outcome_units
from kernelucb.data.prior import Prior

_DENSE = 1024  # points up to which a joint covariance is a matrix, as BoTorch slices it


def joint_normal(
    state: SketchedData, inputs: Tensor, joint: bool = True
) -> MultivariateNormal:
    r"""``q(f)`` of a sketch at ``... x q x d'`` kernel inputs; differentiable.

    The optimal Gaussian over the inducing values, marginalised: mean ``m + z^T w`` with
    ``w = V^-1 Z^T (y - m)``, covariance ``k - z^T z' + alpha z^T V^-1 z'``. Of very many
    points it holds ``O(q r)`` numbers, and ``q x q`` only where samples or a matrix are
    asked for; with ``joint=False`` it is the diagonal alone.

    Source: Titsias (2009), Eq. 10; Calandriello et al. (2019), Eq. 4.
    """
    sketch, flat, shape = state.sketch, inputs.flatten(0, -2), inputs.shape[:-1]
    features, rest = state.basis.project(flat)
    # |half|^2 is alpha z^T V^-1 z.
    half = solve_triangular(sketch.factor, features.mT, upper=False).mT
    half = state.alpha**0.5 * half
    mean = (state.prior.mean(flat) + features @ sketch.weights).reshape(shape)
    variance = rest + half.square().sum(-1)
    if not joint or shape[-1] == 1:
        return MultivariateNormal(mean, DiagLinearOperator(variance.reshape(shape)))
    left, right = torch.cat([half, features], -1), torch.cat([half, -features], -1)
    left, right = (part.reshape(*shape, part.shape[-1]) for part in (left, right))
    # A difference would cancel on the diagonal, where the sum above is rounded up.
    variance, covariance = variance.reshape(shape), state.prior.covariance
    if shape[-1] <= _DENSE:
        matrix = covariance(inputs, inputs) + left @ right.mT
        diagonal = torch.eye(shape[-1], dtype=torch.bool, device=matrix.device)
        matrix = torch.where(diagonal, variance.unsqueeze(-1), matrix)
        return MultivariateNormal(mean, to_linear_operator(matrix))
    rounding = rest - (state.prior.variance(flat) - features.square().sum(-1))
    rounding = rounding.reshape(shape)
    between = KernelLinearOperator(inputs, inputs, covar_func=covariance)
    told = MatmulLinearOperator(left, right.mT)
    return MultivariateNormal(mean, between + told + DiagLinearOperator(rounding))


class SavedState(TypedDict):
    r"""Observations and draws, as ``state_dict`` has them."""

    scales: list[float]
    inputs: Tensor
    tally: list[Tensor]
    inducing: Tensor
    generator_state: Tensor


class BKBModel(Model):
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
        estimated: Parts of the prior that were fitted to the data: ``"mean"`` where an
            outcome transform was trained on them.
    """

    num_outputs = 1  # pyright: ignore
    batch_shape = torch.Size()  # pyright: ignore

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
        alpha = positive_scalar("alpha", alpha)
        qbar = positive_scalar("qbar", qbar)
        prior = Prior(covar_module, mean_module).to(X.device)
        with torch.no_grad():
            kernel_inputs = self.transform_inputs(X, input_transform)
        prior.check_fits(kernel_inputs)
        super().__init__()
        self.prior = prior  # moves to other devices with the model
        first = first_state(seed)
        # Observations and the inducing points drawn from them, in the model's units.
        self.state = SketchedData.empty(prior, kernel_inputs[:0], alpha, qbar, first)
        self.dimension = train_X.shape[-1]
        if learns(input_transform, X):
            parts |= {"kernel"}
        if input_transform is not None:
            self.input_transform = input_transform.double()
        if outcome_transform is not None:
            parts |= {"mean"}
            self.outcome_transform = outcome_transform.to(X)
            # Called in training mode, a transform of BoTorch learns from these outcomes.
            self.outcome_transform.train()
            self.outcome_transform(train_Y.detach().to(X).reshape(-1, 1))
        self.estimated = parts
        self.eval()
        data = self._kernel_data(train_X, train_Y.reshape(-1, 1))
        # Drawn again by the variances after all of them.
        self.state = self.state.observe_at(*data).redrawn()

    @property
    def alpha(self) -> float:
        r"""Ridge parameter, in the model's squared units."""
        return self.state.alpha

    @property
    def qbar(self) -> float:
        r"""Oversampling factor."""
        return self.state.qbar

    @property
    def inducing_points(self) -> Tensor:
        r"""``m x d'`` inducing points, as the kernel sees them."""
        return self.state.inputs[self.state.inducing]

    @property
    def num_observations(self) -> int:
        r"""Number of observations, repeats included."""
        return self.state.num_observations

    def regression(self) -> DTCRegression:
        r"""The state of a confidence set around the posterior, in outcome units.

        Its noise scale is the root of ``alpha``.

        Raises:
            UnsupportedError: If outcomes are transformed by more than ``Standardize``.
        """
        units = outcome_units(outcome_transform_of(self))
        ways = "transform the outcomes yourself, or use SketchedMartingaleMixtureUCB"
        check_identity(units.outcome_map, "BKBModel", ways)
        modules = self.prior.covar_module, self.prior.mean_module
        prior = Prior(*modules, input_transform_of(self), units.offset, units.scale)
        noise = units.scale * self.alpha**0.5
        return DTCRegression(prior, self.state, noise, self.dimension, self.estimated)

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
        **_: object,
    ) -> Posterior:
        r"""Joint posterior at ``... x q x d`` inputs; differentiable.

        Computed in float64 and cast back to the inputs' dtype (unless an outcome transform
        makes the posterior non-Gaussian).

        Raises:
            BotorchTensorDimensionError: If the last dimension of ``X`` is not ``d``.
            InputDataError: If ``X`` is not a dense floating-point tensor of finite values.
        """
        joint_inputs(X, self.dimension)
        # BoTorch's input transforms may do otherwise in training mode.
        normal = joint_normal(self.eval().state, self.transform_inputs(X.double()))
        if observation_noise:
            normal = normal.add_jitter(self.alpha)
        posterior: Any = GPyTorchPosterior(normal)
        if (transform := outcome_transform_of(self)) is not None:
            posterior = transform.untransform_posterior(posterior, X=X)
        if X.dtype != torch.float64 and type(posterior) is GPyTorchPosterior:
            normal = posterior.distribution
            mean, covariance = normal.mean.to(X.dtype), normal.covariance_matrix.to(X.dtype)
            posterior = GPyTorchPosterior(MultivariateNormal(mean, covariance))
        return posterior if posterior_transform is None else posterior_transform(posterior)

    def condition_on_observations(self, X: Tensor, Y: Tensor, **_: object) -> Self:
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
        model.state = model.state.conditioned(*data)
        return model

    def observe(self, X: Tensor, Y: Tensor) -> Self:
        r"""Add observations in place and draw the inducing points again; this model.

        Arguments and errors as for ``condition_on_observations``.
        """
        self.state = self.state.observe_at(*self._checked(X, Y))
        return self

    def _set_transformed_inputs(self) -> None:
        r"""Nothing: BoTorch would transform raw training inputs at ``eval()``."""

    def get_extra_state(self) -> SavedState:
        r"""Observations and draws, for ``state_dict``."""
        state = self.state
        return {
            "scales": [state.alpha, state.qbar],
            "inputs": state.inputs,
            "tally": [*state.tally],
            "inducing": state.inducing,
            "generator_state": state.generator_state,
        }

    def set_extra_state(self, state: SavedState) -> None:
        r"""The state that ``get_extra_state`` returned, for ``load_state_dict``."""
        state, like = deepcopy(state), self.state.inputs
        alpha, qbar = state["scales"]
        inputs, *tally = (part.to(like) for part in (state["inputs"], *state["tally"]))
        # A new state, since what follows from the old one was kept.
        self.state = SketchedData(
            *(self.prior, inputs, alpha, qbar, state["generator_state"].cpu()),
            *(Tally(*tally), state["inducing"].to(like.device)),
        )

    def _checked(self, X: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
        unbatched(X, Y, self.dimension)
        training_targets(X, Y)
        return self._kernel_data(X, Y.reshape(-1, 1))

    @torch.no_grad()
    def _kernel_data(self, X: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
        r"""Kernel inputs, and outcomes minus prior means in the model's units."""
        like = self.state.inputs
        inputs = self.transform_inputs(X.detach().to(like))
        Y = Y.detach().to(like)
        if (transform := outcome_transform_of(self)) is not None:
            Y, _ = transform(Y)
        return inputs, Y.squeeze(-1) - self.state.prior.mean(inputs)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        if fn(self.state.inputs[:0]).dtype != torch.float64:
            raise UnsupportedError("BKBModel computes in float64; leave its dtype alone.")
        super()._apply(fn, recurse)
        self.state = self.state.moved(fn)
        return self
