r"""Upper confidence bound for outcomes that are successes or counts."""

from inspect import signature
from typing import Any, Literal, Self

from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from gpytorch.models import ApproximateGP
from torch import Tensor

from kernelucb._numerics.checks import probability
from kernelucb._numerics.estimates import EstimatedNumber
from kernelucb.acquisition.base import KernelUCB, relaxed_numbers
from kernelucb.acquisition.input_constructors import with_options_of
from kernelucb.confidence.counts import LikelihoodForm, least_norm_mode, likelihood_set
from kernelucb.confidence.evidence import Ratio
from kernelucb.confidence.fit.choice import MartingaleMixture
from kernelucb.confidence.norm.tracker import NormBoundLike
from kernelucb.regression import KernelRegression
from kernelucb.regression.counts import LikelihoodRegression


class LikelihoodUCB(KernelUCB[KernelRegression]):
    r"""Bounds on a success probability or a rate, from successes or counts, anytime.

    The outcomes and their likelihood, the kernel and the mean are those of a
    ``LikelihoodRegression``. The set holds the functions ``f`` (log odds or log rates) of
    norm at most ``norm_bound`` under which the likelihood of the outcomes is at least
    ``delta`` times a lower bound on their likelihood under a mixture over functions. If the
    assumptions are true, then with probability ``1 - delta`` the set holds the true
    function, and ``bounds(X)`` the probability or rate, at every point and every round at
    once, for inputs chosen from the past by any rule.

    ``forward`` and ``latent_bounds`` are on the scale of ``f``, which ranks points as the
    scale of ``bounds`` does. ``regression`` holds pseudo-outcomes, parabolas
    for losses; a pending point counts with the mean precision of the pseudo-outcomes.

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
        fit: The mixture of functions ``N(mean, c k)``, over five scales ``c`` from 1/16 to
            16; ``MartingaleMixture(covariance_scale=...)`` for others, fixed before the
            data.
        form: How the set is bounded. ``"cuts"``: by tangents of the losses at 256
            functions; bands are a few percent wider, more for rates in many dimensions.
            ``"tangent"``: by tangents at functions searched for each point as well;
            narrower, and several times as long to evaluate.
        posterior_transform: A ``ScalarizedPosteriorTransform`` of weight 1 or -1.

    Attributes:
        data: The outcomes and the prior.
        norm_bound: The norm bound in use, units of log odds or log rates; larger than the
            given norm bound where the data contradict the given one.
        least_consistent_norm: Lower bound on the norm in the same units, under all
            assumptions but the assumption on the norm.
    """

    def __init__(
        self,
        model: LikelihoodRegression | Model | ApproximateGP,
        *,
        norm_bound: NormBoundLike = None,
        delta: float = 0.05,
        fit: Literal["martingale"] | MartingaleMixture = "martingale",
        form: LikelihoodForm = "cuts",
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        if not isinstance(fit, MartingaleMixture) and fit != "martingale":
            raise ValueError(
                f'fit must be "martingale" or MartingaleMixture(...), got {fit!r}: filters '
                "and predictions are for additive noise."
            )
        data = self._arguments["model"] = LikelihoodRegression.from_model(model)
        ratio = Ratio.of(probability("delta", delta), fit)
        self._level = ratio.level(data)
        band = likelihood_set(data, norm_bound, ratio, self._level, form)
        state = band.regression
        super().__init__(state, band, maximize, posterior_transform, X_pending)
        self._data, self.fit = data, fit
        self.form: LikelihoodForm = form
        self.norm_bound = band.assumptions["norm"].number(band.constraints.norm)

    @classmethod
    @with_options_of(LikelihoodRegression.from_model)
    def from_model(
        cls, model: LikelihoodRegression | Model | ApproximateGP, **options: Any
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
        known = {*signature(LikelihoodRegression.from_model).parameters} & {*options}
        own = {name: options.pop(name) for name in known}
        return cls(model=LikelihoodRegression.from_model(model, **own), **options)

    @property
    def data(self) -> LikelihoodRegression:
        r"""See the class."""
        return self._data

    def _relaxation(
        self, norm_factor: float, noise_factor: float, lengthscale: float | None
    ) -> dict[str, Any]:
        return relaxed_numbers(self, norm_factor, noise_factor)

    @property
    def least_consistent_norm(self) -> float:
        r"""See the class."""
        return EstimatedNumber(least_norm_mode(self._data, self._level).norm)
