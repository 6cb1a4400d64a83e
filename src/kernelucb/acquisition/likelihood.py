r"""Upper confidence bound for outcomes that are successes or counts."""

from collections.abc import Mapping
from typing import Any, Self

from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from gpytorch.models import ApproximateGP
from torch import Tensor

from kernelucb._numerics.checks import probability
from kernelucb._numerics.estimates import EstimatedNumber
from kernelucb.acquisition.base import KernelUCB
from kernelucb.confidence.fit.mixture import CovarianceScale
from kernelucb.confidence.likelihood.evidence import LIKELIHOOD_SCALES, Ratio
from kernelucb.confidence.likelihood.problem import (
    LikelihoodForm,
    least_norm_mode,
    likelihood_set,
)
from kernelucb.confidence.norm.tracker import NormBoundLike
from kernelucb.regression import KernelRegression
from kernelucb.regression.kernel_family import Lengths
from kernelucb.regression.likelihood.from_model import Reported, likelihood_data
from kernelucb.regression.likelihood.losses import Likelihood
from kernelucb.regression.likelihood.regression import LikelihoodRegression
from kernelucb.regression.named import check_lengths, fixed_kernel, fixed_mean


class LikelihoodUCB(KernelUCB[KernelRegression]):
    r"""Bounds on a success probability or a rate, from successes or counts, anytime.

    Given the past, the outcome at ``x`` is 1 with probability ``sigmoid(f(x))``
    (``"bernoulli"``), a number of successes in ``num_trials`` with that probability each
    (``"binomial"``), or a Poisson count of mean ``exposure * exp(f(x))`` (``"poisson"``).
    The set holds the functions of norm at most ``norm_bound`` under which the outcomes are
    likely enough: their likelihood is at least ``delta`` times that of a mixture over
    functions. If the assumptions are true, it holds the true function, and ``bounds(X)``
    the probability or rate at every point and every round at once, with probability
    ``1 - delta``, for inputs chosen from the past by any rule.

    ``forward`` and ``latent_bounds`` are on the scale of ``f``, the log odds or the log
    rate; the largest upper bound on one scale is that on the other. ``regression`` holds
    pseudo-outcomes: what an ellipsoid around the set is made of. Pending points count as if
    they had the mean precision of these.

    Source: likelihood-ratio confidence sequences (Emmenegger et al. 2023; Ville's
    inequality). The bound on the evidence, the ellipsoid with secant curvatures and the
    choice of tangents are ours (proven in ``docs/mathematics.md``). Assumes the likelihood,
    a kernel, mean and norm bound fixed before the data, ``||f - mean||_H <= norm_bound``,
    and outcomes that are reported whatever they are.

    Example:
        >>> kernel = ScaleKernel(RBFKernel()).requires_grad_(False)
        >>> acqf = LikelihoodUCB(X, survived, kernel, norm_bound=3.0)
        >>> candidate, value = optimize_acqf(acqf, bounds, q=1, num_restarts=8,
        ...                                  raw_samples=256)
        >>> lower, upper = acqf.bounds(X)  # probabilities

    Attributes:
        delta: As given.
        form: As given.
        norm_bound: The norm bound in use; larger than the one given where that contradicts
            the data.
    """

    def __init__(
        self,
        train_X: Tensor | LikelihoodRegression,
        train_Y: Tensor | None = None,
        kernel: Kernel | None = None,
        *,
        likelihood: Likelihood = "bernoulli",
        norm_bound: NormBoundLike = None,
        mean: float | Mean = 0.0,
        num_trials: float | Tensor | None = None,
        exposure: float | Tensor | None = None,
        delta: float = 0.05,
        covariance_scale: CovarianceScale = LIKELIHOOD_SCALES,
        form: LikelihoodForm = "ellipsoid",
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        r"""Upper confidence bound from successes or counts.

        Args:
            train_X: ``n x d`` inputs; or a ``LikelihoodRegression``, which holds what the
                next six arguments describe.
            train_Y: ``n x 1`` or ``n`` outcomes: 0 or 1, numbers of successes, or counts.
            kernel: Kernel of ``f``, output scale included; frozen
                (``requires_grad_(False)``) where it was fixed before the data.
            likelihood: ``"bernoulli"``, ``"binomial"`` or ``"poisson"``.
            norm_bound: Bound on the RKHS norm of ``f - mean``, where ``f`` is the log odds
                or the log rate. By default estimated from the data, and ``assumptions``
                says so; see ``MartingaleMixtureUCB``.
            mean: Prior mean of ``f``: a number, or a frozen GPyTorch mean.
            num_trials: For ``"binomial"``, one number or one for each outcome.
            exposure: For ``"poisson"``, one number or one for each outcome, above 0; 1
                when absent. ``bounds`` are rates for each unit of it.
            delta: Failure probability.
            covariance_scale: Scales ``c`` of the mixture of ``N(mean, c k)``, with equal
                weights, or ``"mixture"`` for 17 of them. Fixed before the data.
            form: How the set above is bounded. ``"ellipsoid"``: by an ellipsoid around it,
                cut by tangents of the losses at 256 functions; a few percent wider, and
                more for rates in many dimensions. ``"tangent"``: by tangents at a function
                of each point, narrower, and several times as long to evaluate.
            maximize: If False, the value is minus the lower bound.
            posterior_transform: A ``ScalarizedPosteriorTransform`` of weight 1 or -1.
            X_pending: ``p x d`` points under evaluation; variances are conditioned on them.

        Raises:
            BotorchTensorDimensionError: If the shapes do not fit together.
            InputDataError: If there are no data, they are not finite, or an outcome is
                impossible.
            ValueError: If a scalar is out of its range, ``num_trials`` or ``exposure`` is
                missing or out of place.
            UnsupportedError: If the transform cannot be represented.
        """
        data = _data(train_X, train_Y, kernel, likelihood, mean, num_trials, exposure)
        ratio = Ratio(probability("delta", delta), covariance_scale)
        level = ratio.level(data)
        band = likelihood_set(data, norm_bound, ratio, form, level)
        state = band.regression
        super().__init__(state, band, maximize, posterior_transform, X_pending)
        self._data, self.delta = data, delta
        self.form: LikelihoodForm = form
        self.norm_bound = band.assumptions["norm"].number(band.constraints.norm)
        self._level = level

    @classmethod
    def from_model(
        cls,
        model: Model | ApproximateGP | LikelihoodRegression,
        *,
        likelihood: Likelihood | None = None,
        kernel: Kernel | str | None = None,
        lengthscale: Lengths | None = None,
        outputscale: float = 1.0,
        mean: float | Mean | None = None,
        train_X: Tensor | None = None,
        train_Y: Tensor | None = None,
        num_trials: float | Tensor | None = None,
        exposure: float | Tensor | None = None,
        outcomes: Reported = "counts",
        **options: Any,
    ) -> Self:
        r"""The bound from a variational GP, or from an exact one that holds the data.

        Of a ``SingleTaskVariationalGP`` or ``ApproximateGP`` it takes data, kernel and
        mean, which count as estimated unless they are frozen; its variational posterior and
        inducing points are not used. GPyTorch's ``BernoulliLikelihood`` has another link
        (probit): here kernel, mean and norm bound are those of the log odds. Of an exact GP
        (``SingleTaskGP`` of 0 and 1, as in Ax) it takes the data alone.

        Example:
            >>> acqf = LikelihoodUCB.from_model(
            ...     model, likelihood="binomial", num_trials=20, kernel="matern52",
            ...     lengthscale=0.3, norm_bound=3.0
            ... )

        Args:
            model: The model, or a ``LikelihoodRegression``.
            likelihood: See the class; by default that of the model's likelihood.
            kernel: A kernel, or ``"rbf"``, ``"matern52"``, ``"matern32"``, ``"matern12"``;
                by default that of a variational model.
            lengthscale: Of a kernel given by name, in units of the kernel's inputs; one
                number, or one for each.
            outputscale: Its variance.
            mean: Prior mean of the log odds or log rate, a number or a frozen GPyTorch
                mean; by default that of a variational model, or zero.
            train_X: ``n x d`` inputs, for a variational model that does not keep its data.
            train_Y: Its ``n x 1`` or ``n`` outcomes.
            num_trials: See the class.
            exposure: See the class.
            outcomes: ``"counts"``, or ``"rates"`` where the outcomes are proportions of
                ``num_trials``, or counts over ``exposure``.
            options: Further arguments of the class.

        Raises:
            UnsupportedError: If the model cannot be read, or has no kernel of log odds or
                log rates and none is given.
            InputDataError: If it keeps no outcomes, or they are impossible.
            ValueError: See the class; or if a kernel's name comes without length scale.
        """
        if isinstance(model, LikelihoodRegression):
            given = {"likelihood": likelihood, "kernel": kernel, "lengthscale": lengthscale}
            given |= {"mean": mean, "train_X": train_X, "train_Y": train_Y}
            given |= {"num_trials": num_trials, "exposure": exposure}
            _check_alone("model is a LikelihoodRegression", given)
            return cls(train_X=model, **options)
        data = likelihood_data(
            model,
            likelihood,
            _kernel(kernel, lengthscale, outputscale),
            mean if isinstance(mean, Mean | None) else fixed_mean(mean),
            train_X,
            train_Y,
            num_trials,
            exposure,
            outcomes,
        )
        check_lengths(lengthscale, data.train_inputs)
        return cls(train_X=data, **options)

    @property
    def data(self) -> LikelihoodRegression:
        r"""The outcomes and the prior."""
        return self._data

    @property
    def least_consistent_norm(self) -> float:
        r"""Lower bound on the norm; it needs all assumptions but the one on the norm."""
        return EstimatedNumber(least_norm_mode(self._data, self._level).norm)


def _data(
    train_X: Tensor | LikelihoodRegression,
    train_Y: Tensor | None,
    kernel: Kernel | None,
    likelihood: Likelihood,
    mean: float | Mean,
    num_trials: float | Tensor | None,
    exposure: float | Tensor | None,
) -> LikelihoodRegression:
    r"""The data as given, or of tensors."""
    if isinstance(train_X, LikelihoodRegression):
        given: dict[str, Any] = {"train_Y": train_Y, "kernel": kernel}
        given |= {"num_trials": num_trials}
        given |= {"exposure": exposure, "mean": None if mean == 0.0 else mean}
        if likelihood not in ("bernoulli", train_X.outcomes.kind):
            given["likelihood"] = likelihood
        _check_alone("train_X is a LikelihoodRegression", given)
        return train_X
    if train_Y is None or kernel is None:
        raise ValueError("train_Y and kernel are missing; give both beside train_X.")
    module = mean if isinstance(mean, Mean) else fixed_mean(mean)
    return LikelihoodRegression(
        train_X,
        train_Y,
        kernel,
        likelihood=likelihood,
        num_trials=num_trials,
        exposure=exposure,
        mean_module=module,
    )


def _check_alone(what: str, given: Mapping[str, Any]) -> None:
    r"""Refuse arguments that ``what`` holds already.

    Raises:
        ValueError: If one of them is not None.
    """
    names = [name for name, value in given.items() if value is not None]
    if names:
        raise ValueError(f"{what}, which holds {' and '.join(names)}; leave that out.")


def _kernel(
    kernel: Kernel | str | None, lengthscale: Lengths | None, outputscale: float
) -> Kernel | None:
    r"""A kernel as given, or frozen from its name."""
    if not isinstance(kernel, str):
        if lengthscale is not None or outputscale != 1.0:
            raise ValueError(
                "lengthscale and outputscale go with the name of a kernel; give one, such "
                'as kernel="rbf", or leave them out.'
            )
        return kernel
    return fixed_kernel(kernel, lengthscale, outputscale)
