r"""Upper confidence bound for outcomes that are successes or counts."""

from functools import partial
from typing import Any, Literal, Self

from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from gpytorch.models import ApproximateGP
from torch import Tensor

from kernelucb._numerics.checks import probability
from kernelucb.acquisition.bounds import relaxed_numbers
from kernelucb.acquisition.ucb import BandUCB
from kernelucb.confidence.band import Band, inputs_of, rebuildable
from kernelucb.confidence.counts import (
    LikelihoodForm,
    least_norm_mode,
    likelihood_level,
    likelihood_set,
)
from kernelucb.confidence.norm import NormBoundLike
from kernelucb.confidence.radius import CovarianceScale
from kernelucb.data.counts import Likelihood, LikelihoodRegression
from kernelucb.data.kernel_family import Lengths


@rebuildable(LikelihoodRegression.from_model)
def likelihood(
    model: LikelihoodRegression,
    norm_bound: NormBoundLike = None,
    delta: float = 0.05,
    covariance_scale: CovarianceScale | None = None,
    form: LikelihoodForm = "cuts",
) -> Band:
    r"""Band of ``LikelihoodUCB``; ``model`` is a ``LikelihoodRegression``."""
    level = likelihood_level(model, probability("delta", delta), covariance_scale)
    whole = likelihood_set(model, norm_bound, delta, level, form)
    return Band(
        whole,
        data=model,
        observed=inputs_of(model),
        norm_bounds=(whole.constraints.norm,),
        appraise=partial(_least_norm, model, level),  # a search, made when it is asked for
        relaxation=relaxed_numbers,
    )


def _least_norm(data: LikelihoodRegression, level: float) -> tuple[float]:
    return (least_norm_mode(data, level).norm,)


def of_outcomes(
    model: LikelihoodRegression | Model | ApproximateGP,
    likelihood: Likelihood | None,
    num_trials: float | Tensor | None,
    exposure: float | Tensor | None,
    outcomes: Literal["counts", "rates"],
    kernel: Kernel | str | None,
    lengthscale: Lengths | None,
    outputscale: float,
    mean: float | Mean | None,
    train_X: Tensor | None,
    train_Y: Tensor | None,
    **options: object,
) -> dict[str, Any]:
    r"""Arguments of ``LikelihoodUCB`` from those of its ``from_model``."""
    data = LikelihoodRegression.from_model(
        model,
        likelihood=likelihood,
        num_trials=num_trials,
        exposure=exposure,
        outcomes=outcomes,
        kernel=kernel,
        lengthscale=lengthscale,
        outputscale=outputscale,
        mean=mean,
        train_X=train_X,
        train_Y=train_Y,
    )
    return {"model": data, **options}


class LikelihoodUCB(BandUCB):
    r"""Bounds on a success probability or a rate, from successes or counts, anytime.

    The outcomes and their likelihood, the kernel and the mean are those of a
    ``LikelihoodRegression``. The set holds the functions ``f`` (log odds or log rates) of
    norm at most ``norm_bound`` under which the likelihood of the outcomes is at least
    ``delta`` times a lower bound on their likelihood under a mixture over functions. If the
    assumptions are true, then with probability ``1 - delta`` the set holds the true
    function, and ``bounds(X)`` the probability or rate, at every point and every round at
    once, for inputs chosen from the past by any rule.

    ``forward`` and ``latent_bounds`` are on the scale of ``f``, which ranks points as the
    scale of ``bounds`` does. A pending point counts with the mean precision of the
    pseudo-outcomes, parabolas for losses at a function of the set.

    Source: likelihood-ratio confidence sequences (Emmenegger et al. 2023; Ville's
    inequality). The bound on the evidence and the choice of tangents are ours (proven in
    ``docs/mathematics.md``). Assumes the likelihood, a kernel, mean and norm bound fixed
    before the data, ``||f - mean||_H <= norm_bound``, and outcomes that are reported
    whatever they are.

    Example:
        >>> kernel = ScaleKernel(RBFKernel()).requires_grad_(False)
        >>> data = LikelihoodRegression(X, survived, kernel, likelihood="bernoulli")
        >>> acqf = LikelihoodUCB(data, norm_bound=3.0)
        >>> candidate, value = optimize_acqf(acqf, bounds, q=1, num_restarts=8,
        ...                                  raw_samples=256)
        >>> lower, upper = acqf.bounds(X)  # probabilities

    Other arguments and errors: see ``MartingaleMixtureUCB``.

    Args:
        model: A ``LikelihoodRegression``, or a variational GP whose likelihood, kernel and
            mean are taken; see ``LikelihoodRegression.from_model``.
        covariance_scale: One or several scales ``c`` of the mixture of functions
            ``N(mean, c k)``, fixed before the data; five from 1/16 to 16 by default.
        form: How the set is bounded. ``"cuts"``: by tangents of the losses at 256
            functions; bands are a few percent wider, more for rates in many dimensions.
            ``"tangent"``: by tangents at functions searched for each point as well;
            narrower, and several times as long to evaluate.
        posterior_transform: A ``ScalarizedPosteriorTransform`` of weight 1 or -1.
    """

    def __init__(
        self,
        model: LikelihoodRegression | Model | ApproximateGP,
        *,
        norm_bound: NormBoundLike = None,
        delta: float = 0.05,
        covariance_scale: CovarianceScale | None = None,
        form: LikelihoodForm = "cuts",
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        data = LikelihoodRegression.from_model(model)
        band = likelihood(data, norm_bound, delta, covariance_scale, form)
        state = band.required_set.regression
        super().__init__(band, maximize, posterior_transform, X_pending, state)

    arguments_from_model = staticmethod(of_outcomes)

    @classmethod
    def from_model(
        cls,
        model: LikelihoodRegression | Model | ApproximateGP,
        *,
        likelihood: Likelihood | None = None,
        num_trials: float | Tensor | None = None,
        exposure: float | Tensor | None = None,
        outcomes: Literal["counts", "rates"] = "counts",
        kernel: Kernel | str | None = None,
        lengthscale: Lengths | None = None,
        outputscale: float = 1.0,
        mean: float | Mean | None = None,
        train_X: Tensor | None = None,
        train_Y: Tensor | None = None,
        **options: object,
    ) -> Self:
        r"""The bound from a variational GP, or from an exact GP that holds the data.

        Example:
            >>> acqf = LikelihoodUCB.from_model(
            ...     model, likelihood="binomial", num_trials=20, kernel="matern52",
            ...     lengthscale=0.3, norm_bound=3.0
            ... )

        Arguments and errors are those of ``LikelihoodRegression.from_model`` and of the
        class.
        """
        outcome = likelihood, num_trials, exposure, outcomes
        prior = kernel, lengthscale, outputscale, mean
        data = *outcome, *prior, train_X, train_Y
        return cls(**cls.arguments_from_model(model, *data, **options))
