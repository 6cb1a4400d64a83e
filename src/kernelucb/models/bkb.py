r"""Budgeted GPs with inducing points drawn by posterior variance (Calandriello et al.).

A model of BoTorch, and the same points for models of one's own: a variational strategy of
GPyTorch with a known optimum, and an allocator for BoTorch's variational models.
"""

# GPyTorch exports the base class of its own strategies under a private name only.
# pyright: reportPrivateUsage=false

from copy import deepcopy
from itertools import chain
from typing import Any, NamedTuple, cast

import torch
from botorch.exceptions import UnsupportedError
from botorch.models.model import Model
from botorch.models.transforms.input import InputTransform
from botorch.models.transforms.outcome import OutcomeTransform
from botorch.models.utils.inducing_point_allocators import (
    InducingPointAllocator,
    QualityFunction,
    UnitQualityFunction,
)
from botorch.posteriors import GPyTorchPosterior
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import Mean
from gpytorch.models import ApproximateGP
from gpytorch.variational import _VariationalStrategy
from linear_operator import to_linear_operator
from linear_operator.operators import (
    DiagLinearOperator,
    KernelLinearOperator,
    MatmulLinearOperator,
    RootLinearOperator,
)
from torch import Tensor
from torch.linalg import solve_triangular

from kernelucb._numerics.checks import (
    instance_of,
    joint_inputs,
    positive_scalar,
    training_targets,
    unbatched,
    whole_number,
)
from kernelucb._numerics.estimates import estimated_parts, learns, trainable, with_noise
from kernelucb.data.exact import distinct_rows
from kernelucb.data.from_model import prior_is_as_read
from kernelucb.data.nystrom import (
    Basis,
    DTCRegression,
    SketchedData,
    Tally,
    first_state,
    ridge_factor,
    uniform_numbers,
)
from kernelucb.data.outcome_map import check_identity, outcome_units
from kernelucb.data.prior import Prior

_PARTS = ("kernel", "mean", "noise")
_STEP = 4.0  # by how much the allocator lowers a noise variance; ranks need no more
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
        units = outcome_units(getattr(self, "outcome_transform", None))
        ways = "transform the outcomes yourself, or use SketchedMartingaleMixtureUCB"
        check_identity(units.outcome_map, "BKBModel", ways)
        modules = self.prior.covar_module, self.prior.mean_module
        transform = getattr(self, "input_transform", None)
        prior = Prior(*modules, transform, units.offset, units.scale)
        noise = units.scale * self.alpha**0.5
        return DTCRegression(prior, self.state, noise, self.dimension, self.estimated)

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: Any = False,
        posterior_transform: Any = None,
        **_: Any,
    ) -> Any:
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
        if hasattr(self, "outcome_transform"):
            posterior = self.outcome_transform.untransform_posterior(posterior, X=X)
        if X.dtype != torch.float64 and type(posterior) is GPyTorchPosterior:
            normal = posterior.distribution
            mean, covariance = normal.mean.to(X.dtype), normal.covariance_matrix.to(X.dtype)
            posterior = GPyTorchPosterior(MultivariateNormal(mean, covariance))
        return posterior if posterior_transform is None else posterior_transform(posterior)

    def condition_on_observations(self, X: Tensor, Y: Tensor, **_: Any) -> "BKBModel":
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

    def observe(self, X: Tensor, Y: Tensor) -> "BKBModel":
        r"""Add observations in place and draw the inducing points again; this model.

        Arguments and errors as for ``condition_on_observations``.
        """
        self.state = self.state.observe_at(*self._checked(X, Y))
        return self

    def _set_transformed_inputs(self) -> None:
        r"""Nothing: BoTorch would transform raw training inputs at ``eval()``."""

    def get_extra_state(self) -> dict[str, Any]:
        r"""Observations and draws, for ``state_dict``."""
        state = self.state
        return {
            "scales": [state.alpha, state.qbar],
            "inputs": state.inputs,
            "tally": [*state.tally],
            "inducing": state.inducing,
            "generator_state": state.generator_state,
        }

    def set_extra_state(self, state: Any) -> None:
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
        if hasattr(self, "outcome_transform"):
            Y, _ = self.outcome_transform(Y)
        return inputs, Y.squeeze(-1) - self.state.prior.mean(inputs)

    def _apply(self, fn: Any, recurse: bool = True) -> "BKBModel":
        if fn(self.state.inputs[:0]).dtype != torch.float64:
            raise UnsupportedError("BKBModel computes in float64; leave its dtype alone.")
        super()._apply(fn, recurse)
        self.state = self.state.moved(fn)
        return self


class BKBVariationalStrategy(_VariationalStrategy):
    r"""Variational strategy with inducing points drawn by posterior variance.

    For an ``ApproximateGP`` of your own. Nothing about ``q(u)`` is trained: the Gaussian
    over the inducing values that is best for the present kernel, mean and noise is known in
    closed form, so ``q(f)`` is the posterior of ``BKBModel`` with the same points, and
    GPyTorch's ``VariationalELBO`` of all data is Titsias' collapsed bound. In training mode
    its gradient reaches kernel, mean and noise through that optimum; the points stay where
    they are until ``observe`` or ``redraw``. For ``n`` observations and ``m`` points a call
    costs ``O(n m^2)``, in minibatches too, and matrices are ``n x m``.

    In evaluation mode gradients are to the inputs alone; kernel, mean and noise are as they
    are at the call, and what follows from them is computed once. They count as estimated by
    ``BKBUCB`` where they are trainable, and once they were trained with this strategy, even
    if they are frozen afterwards. All numbers are float64.

    Source: Calandriello et al. (2019), Algorithm 1, with ``likelihood.noise`` as the ridge
    parameter; Titsias (2009), Eq. 9 and Eq. 10.

    Example:
        >>> class BudgetedGP(ApproximateGP):
        >>>     def __init__(self, X, Y, likelihood):
        >>>         super().__init__(BKBVariationalStrategy(self, X, Y, likelihood))
        >>>         self.mean_module, self.covar_module = ConstantMean(), RBFKernel()
        >>>
        >>>     def forward(self, x):
        >>>         return MultivariateNormal(self.mean_module(x), self.covar_module(x))
        >>>
        >>> gp = BudgetedGP(train_X, train_Y, likelihood)
        >>> for _ in range(4):  # in turns: few points favour a smooth kernel
        >>>     fit_gpytorch_mll(VariationalELBO(likelihood, gp, num_data=len(train_X)))
        >>>     gp.variational_strategy.redraw()
        >>> model = ApproximateGPyTorchModel(gp, likelihood)  # for any BoTorch function
        >>> acqf = BKBUCB(model, norm_bound=1.0)

    The points are drawn when they are first needed, since the model gets its kernel after
    its strategy. ``state_dict`` of the model has data, points and the generator's state;
    loaded into a model made with the same arguments, it goes on where it stopped.

    Attributes:
        likelihood: The likelihood whose noise variance is the ridge parameter; no part of
            the strategy, as GPyTorch's models have none.
        qbar: Oversampling factor.
        dimension: Number of input columns ``d``.
        inputs: ``n x d`` observed inputs; the model has them as ``train_inputs``.
        targets: ``n`` outcomes; the model has them as ``train_targets``.
        is_inducing: Which of the ``n`` observed inputs are the inducing points.
        was_trained: Whether kernel, mean and noise were trained with this strategy.
        generator_state: State of the generator of the draws.
    """

    model: Any
    likelihood: Any
    inputs: Tensor
    targets: Tensor
    is_inducing: Tensor
    was_trained: Tensor
    generator_state: Tensor

    def __init__(
        self,
        model: ApproximateGP,
        train_X: Tensor,
        train_Y: Tensor,
        likelihood: GaussianLikelihood,
        qbar: float = 2.0,
        seed: int = 0,
    ) -> None:
        r"""Strategy of a GP.

        Args:
            model: The GP, with a ``mean_module`` and a ``covar_module`` of which its
                ``forward`` is made.
            train_X: ``n x d`` inputs, at least one.
            train_Y: ``n x 1`` or ``n`` outcomes.
            likelihood: The likelihood that an ELBO and BoTorch's model are given.
            qbar: Oversampling factor: inducing points grow in proportion.
            seed: Seed of the draws.

        Raises:
            BotorchTensorDimensionError: If the shapes do not fit together.
            InputDataError: If there are no data, or they are not finite.
            UnsupportedError: If the likelihood is not a ``GaussianLikelihood``.
            ValueError: If a number is out of its range.
        """
        # Not that of GPyTorch's strategies: they keep their inducing points and a trained
        # distribution, and here both follow from the data.
        super(_VariationalStrategy, self).__init__()
        instance_of("likelihood", likelihood, GaussianLikelihood)
        targets = training_targets(train_X, train_Y)
        # Neither is a part of the strategy: they have parameters of their own.
        for name, value in (("model", model), ("likelihood", likelihood)):
            object.__setattr__(self, name, value)
        self.qbar, self.dimension = positive_scalar("qbar", qbar), train_X.shape[-1]
        # All as long as the data, since BoTorch's fits go back to tensors of equal shape.
        self.register_buffer("inputs", train_X.detach().to(torch.float64, copy=True))
        self.register_buffer("targets", targets)
        self.register_buffer("is_inducing", torch.zeros_like(targets, dtype=torch.bool))
        self.register_buffer("was_trained", torch.zeros(len(_PARTS), dtype=torch.bool))
        self.register_buffer("generator_state", first_state(seed))
        self._forget()

    def _forget(self) -> None:
        r"""Forget what follows from the buffers, which have changed."""
        # Where BoTorch's fits read them.
        vars(self.model).update(train_inputs=(self.inputs,), train_targets=self.targets)
        self._read: Any = None, []  # the parts of kernel and mean, and their numbers
        self._state: Any = None  # what they say, without gradient
        self._live: Any = None  # and with it, in training mode

    @property
    def _modules_of_prior(self) -> tuple[Kernel, Mean]:
        modules: Any = [getattr(self.model, f"{m}_module", None) for m in ("covar", "mean")]
        instance_of("covar_module of the model", modules[0], Kernel)
        instance_of("mean_module of the model", modules[1], Mean)
        return modules[0], modules[1]

    @property
    def estimated(self) -> frozenset[str]:
        r"""Which of ``"kernel"``, ``"mean"`` and ``"noise"`` are or were trainable here."""
        flags = zip(_PARTS, self.was_trained.tolist(), strict=True)
        parts = {name for name, flag in flags if flag}
        parts |= {"noise"} if trainable(self.likelihood) else set[str]()
        return estimated_parts(*self._modules_of_prior) | parts

    @torch.no_grad()
    def _present(self) -> SketchedData:
        r"""Data and points under kernel, mean and noise, anew where these have changed."""
        modules, noise = self._modules_of_prior, self.likelihood.noise
        parts = [part for module in modules for part in module.modules()]
        own = [(*part.parameters(recurse=False), *part.buffers(False)) for part in parts]
        numbers = [each.detach().double().clone() for each in (noise, *chain(*own))]
        before, known = self._read
        if before == parts and all(map(torch.equal, known, numbers)):
            return self._state
        if not prior_is_as_read(self.model, self.inputs):
            raise UnsupportedError(
                "forward of the model is not made of its mean_module and covar_module "
                "alone. Put what warps the inputs into the kernel."
            )
        prior = Prior(*modules).to(self.inputs.device)
        prior.check_fits(self.inputs)
        state = self._observed(prior, positive_scalar("likelihood.noise", noise))
        if len(state.inducing) == 0:
            residuals = self.targets - prior.mean(self.inputs)
            settings = state.alpha, self.qbar, self.generator_state
            state = SketchedData.drawn(prior, self.inputs, residuals, *settings)
        self._read = parts, numbers
        return self._keep(state)

    def _observed(self, prior: Any, alpha: Any) -> SketchedData:
        r"""The observations under a prior and a noise variance, at the points drawn."""
        first, index = distinct_rows(self.inputs)
        none = self.targets.new_zeros(len(first))
        residuals = self.targets - prior.mean(self.inputs)
        tally = Tally(none, none, none).extended(index, residuals)
        inducing = self.is_inducing[first].nonzero().squeeze(-1)
        settings = alpha, self.qbar, self.generator_state, tally, inducing
        return SketchedData(prior, self.inputs[first], *settings)

    def _keep(self, state: SketchedData) -> SketchedData:
        r"""Keep a state and where its inducing points are."""
        first, _ = distinct_rows(self.inputs)
        self.is_inducing = torch.zeros_like(self.targets, dtype=torch.bool)
        self.is_inducing[first[state.inducing]] = True
        self.generator_state, self._state, self._live = state.generator_state, state, None
        return state

    def _optimum(self) -> SketchedData:
        r"""The state; in training mode with gradients to kernel, mean and noise."""
        if not self.training:
            return self._present()
        if self._live is None:
            points, prior = self.inducing_points, cast(Any, _Live(*self._modules_of_prior))
            live = self._observed(prior, self.likelihood.noise.double().squeeze())
            with torch.no_grad():
                matrix = Basis.of(prior, points, whole=True).matrix
            # Coordinates in the span of fixed columns, resolved at the present numbers,
            # whose Gram matrix is the identity: its factor has well-behaved derivatives.
            gram = matrix.mT @ prior.covariance(points, points) @ matrix
            factor = ridge_factor(gram, 0.0)
            matrix = solve_triangular(factor.mT, matrix, upper=True, left=False)
            basis = Basis(prior, points, matrix, whole=True)
            vars(live).update(basis=basis, _projected=basis.project(live.inputs))
            self._live = live
        return self._live

    @property
    def inducing_points(self) -> Tensor:
        r"""``m x d`` inducing points."""
        if not bool(self.is_inducing.any()):
            self._present()
        return self.inputs[self.is_inducing]

    def regression(self) -> DTCRegression:
        r"""The state of a confidence set around ``q(f)``, for ``BKBUCB``.

        Its noise scale is the root of ``likelihood.noise``.
        """
        state = self._present()
        given = state.alpha**0.5, self.dimension, self.estimated
        return DTCRegression(state.prior, state, *given)

    def observe(self, X: Tensor, Y: Tensor) -> "BKBVariationalStrategy":
        r"""Add observations in place and draw the inducing points again; this strategy.

        Args:
            X: ``n x d`` inputs.
            Y: ``n x 1`` or ``n`` outcomes.

        Raises:
            BotorchTensorDimensionError: If the shapes do not fit together.
            InputDataError: If there are no data, or they are not finite.
            UnsupportedError: If there are batch dimensions.
        """
        unbatched(X, Y, self.dimension)
        inputs = X.detach().to(self.inputs)
        targets = training_targets(X, Y).to(self.targets)
        state, read = self._present(), self._read
        state = state.observe_at(inputs, targets - state.prior.mean(inputs))
        self.inputs = torch.cat([self.inputs, inputs])
        self.targets = torch.cat([self.targets, targets])
        self._forget()
        self._read = read
        self._keep(state)
        return self

    def redraw(self) -> "BKBVariationalStrategy":
        r"""Draw the inducing points again, when they are next needed; this strategy.

        After training, since the points were drawn under another kernel and noise.
        """
        self.is_inducing = torch.zeros_like(self.is_inducing)
        self._forget()
        return self

    @property
    def variational_distribution(self) -> MultivariateNormal:
        r"""The optimum ``N(V^-1 Z^T (y - m), alpha V^-1)``, of whitened inducing values."""
        sketch = self._optimum().sketch
        return MultivariateNormal(sketch.weights, RootLinearOperator(sketch.half.mT))

    @property
    def prior_distribution(self) -> MultivariateNormal:
        r"""Standard normal, as the inducing values are whitened."""
        zeros = torch.zeros_like(self._optimum().sketch.weights)
        return MultivariateNormal(zeros, DiagLinearOperator(torch.ones_like(zeros)))

    def kl_divergence(self) -> Tensor:
        r"""``KL(q(u) || p(u))``, in closed form.

        Raises:
            UnsupportedError: In evaluation mode, if a gradient is due and there is none.
        """
        learning = torch.is_grad_enabled() and estimated_parts(*self._modules_of_prior)
        if learning and not self.training:
            raise UnsupportedError(
                "In evaluation mode an ELBO has no gradient to kernel and mean. Call "
                "train() of the model before training, or torch.no_grad() for its value."
            )
        weights, half = (sketch := self._optimum().sketch).weights, sketch.half
        excess = weights.square().sum() + half.square().sum() - len(weights)
        return 0.5 * excess - half.diagonal().log().sum()

    def __call__(
        self, x: Tensor, prior: bool = False, diag: bool = True, **kwargs: Any
    ) -> MultivariateNormal:
        r"""``q(f(x))``, or the prior, at ``... x q x d`` inputs.

        In training mode with ``diag`` only its variances, as an ELBO asks for.

        Raises:
            BotorchTensorDimensionError: If the last dimension of ``x`` is not ``d``.
            InputDataError: If ``x`` is not a dense floating-point tensor of finite values.
        """
        if prior:
            return self.model.forward(x, **kwargs)
        joint_inputs(x, self.dimension)
        if self.training and torch.is_grad_enabled():
            trained = [part in self.estimated for part in _PARTS]
            self.was_trained = torch.tensor(trained).to(self.was_trained.device)
        self._live = None  # what an optimiser changed, and a graph that was used up
        return joint_normal(self._optimum(), x.double(), not (self.training and diag))

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, *others: Any, **options: Any
    ) -> None:
        for name, own in self.named_buffers():  # of as many observations as were saved
            saved = state_dict.get(prefix + name, own)
            setattr(self, name, torch.empty_like(saved, device=self.inputs.device))
        super()._load_from_state_dict(state_dict, prefix, *others, **options)
        self._forget()

    def __getstate__(self) -> dict[str, Any]:
        # Without what is computed anew, and may have a graph, which has no copy.
        return vars(self) | {"_read": (None, []), "_state": None, "_live": None}

    def _apply(self, fn: Any, recurse: bool = True) -> "BKBVariationalStrategy":
        if fn(self.inputs[:0]).dtype != torch.float64:
            raise UnsupportedError("BKB computes in float64; leave the dtype alone.")
        super()._apply(fn, recurse)
        self._forget()
        return self


class _Live(NamedTuple):
    r"""Kernel and mean of a GP with their graph, in the place of a ``Prior``."""

    covar_module: Kernel
    mean_module: Mean

    def mean(self, inputs: Tensor) -> Any:
        return self.mean_module(inputs)

    def variance(self, inputs: Tensor) -> Any:
        return self.covar_module(inputs, diag=True)

    def covariance(self, left: Tensor, right: Tensor) -> Tensor:
        return self.covar_module(left, right).to_dense()


class BKBInducingPointAllocator(InducingPointAllocator):
    r"""The inducing points of ``BKBModel``, for BoTorch's own variational models.

    BoTorch asks for a number of points. Where BKB draws fewer, those that further draws
    would most probably add come with them; where it draws more, it draws with the noise
    variance that the number can bear, to within a factor of 4.

    Source: Calandriello et al. (2019), Algorithm 1; for a fixed number Ohlsson (1998).

    Example:
        >>> model = SingleTaskVariationalGP(
        ...     train_X, train_Y, inducing_points=100,
        ...     inducing_point_allocator=BKBInducingPointAllocator(alpha=0.01))

    Args:
        alpha: Ridge parameter: the expected variance of the noise, in the units of the
            kernel.
        qbar: Oversampling factor.
        seed: Seed of the draws; each call starts from it.

    Raises:
        ValueError: If a number is out of its range.
    """

    def __init__(self, alpha: float, qbar: float = 2.0, seed: int = 0) -> None:
        self.alpha, self.seed = positive_scalar("alpha", alpha), seed
        self.qbar = positive_scalar("qbar", qbar)

    def _get_quality_function(self) -> QualityFunction:
        return UnitQualityFunction()

    @torch.no_grad()
    def allocate_inducing_points(
        self,
        inputs: Tensor,
        covar_module: Any,
        num_inducing: int,
        input_batch_shape: torch.Size,
    ) -> Tensor:
        r"""Inducing points, as BoTorch asks for them.

        Args:
            inputs: ``n x d`` inputs.
            covar_module: Kernel; of several, one for each outcome, the first counts.
            num_inducing: Number ``m`` of points.
            input_batch_shape: Batch shape of the inputs, which must be empty.

        Returns:
            ``m x d`` inducing points; fewer only where there are fewer distinct inputs.

        Raises:
            InputDataError: If an input is not finite.
            UnsupportedError: If the inputs have batch dimensions.
        """
        every = inputs.expand(*input_batch_shape, *inputs.shape[-2:])
        unbatched(every, every, inputs.shape[-1])
        X, count = inputs.double(), whole_number("num_inducing", num_inducing)
        index: Any = (0,) * len(covar_module.batch_shape)
        prior = Prior(covar_module[index] if index else covar_module).to(X.device)
        prior.check_fits(X)

        def drawn(alpha: float) -> SketchedData:
            settings = max(alpha, self.alpha), self.qbar, first_state(self.seed)
            return SketchedData.drawn(prior, X, X.new_zeros(len(X)), *settings)

        # With so much noise, prior variances let a quarter of the points be drawn.
        state = drawn(_STEP * self.qbar * float(prior.variance(X).sum()) / count)
        while state.alpha > self.alpha:
            more = drawn(state.alpha / _STEP)
            # After a draw that missed a part one is too large; the next is not.
            if count < len(more.inducing) <= _STEP**2 * count:
                more = more.redrawn()
            if len(more.inducing) > count:
                break
            state = more
        # A uniform number over a chance: the smallest are the first to be drawn.
        uniform = uniform_numbers(len(state.inputs), state.generator_state)[0]
        rank = uniform.to(X.device) / (state.counts * state.variance).clamp_min(1e-300)
        rank[state.inducing] = 0.0
        return state.inputs[rank.argsort()[:count]].to(inputs)
