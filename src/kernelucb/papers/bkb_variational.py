r"""BKB's inducing points in models of one's own.

A variational strategy of GPyTorch with a known optimum, and an allocator for BoTorch's
variational models.
"""

# GPyTorch exports the base class of its own strategies under a private name only.
# pyright: reportPrivateUsage=false

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, NamedTuple, Self, cast

import torch
from botorch.exceptions import UnsupportedError
from botorch.models.utils.inducing_point_allocators import (
    InducingPointAllocator,
    QualityFunction,
    UnitQualityFunction,
)
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import Mean
from gpytorch.models import ApproximateGP
from gpytorch.variational import _VariationalStrategy
from linear_operator.operators import (
    DiagLinearOperator,
    RootLinearOperator,
)
from torch import Tensor
from torch.linalg import solve_triangular
from torch.nn import Module

from kernelucb._numerics.checks import (
    instance_of,
    joint_inputs,
    positive_scalar,
    training_targets,
    unbatched,
    whole_number,
)
from kernelucb._numerics.estimates import estimated_parts, trainable
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
from kernelucb.data.prior import Prior
from kernelucb.papers.bkb_model import joint_normal

_PARTS = ("kernel", "mean", "noise")
_STEP = 4.0  # by how much the allocator lowers a noise variance; ranks need no more


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

    def _observed(self, prior: Prior, alpha: float) -> SketchedData:
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
        self, x: Tensor, prior: bool = False, diag: bool = True, **kwargs: object
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
        self,
        state_dict: Mapping[str, Tensor],
        prefix: str,
        local_metadata: dict[str, object],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        for name, own in self.named_buffers():  # of as many observations as were saved
            saved = state_dict.get(prefix + name, own)
            setattr(self, name, torch.empty_like(saved, device=self.inputs.device))
        found = missing_keys, unexpected_keys, error_msgs
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, *found)
        self._forget()

    def __getstate__(self) -> dict[str, Any]:
        # Without what is computed anew, and may have a graph, which has no copy.
        return vars(self) | {"_read": (None, []), "_state": None, "_live": None}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
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
        covar_module: Module,
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
        kernel: Any = covar_module  # BoTorch says less of it
        index = (0,) * len(kernel.batch_shape)
        prior = Prior(kernel[index] if index else kernel).to(X.device)
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
