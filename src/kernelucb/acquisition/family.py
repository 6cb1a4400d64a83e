r"""Upper confidence bound over a family of kernels, for an unknown kernel."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import UnsupportedError
from botorch.models.model import Model
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar, probability, whole_number
from kernelucb._numerics.digits import assumed, at_least
from kernelucb._numerics.estimates import Estimate, Number, estimated_parts, is_estimate
from kernelucb.acquisition.bounds import martingale_mixture, relaxed_numbers
from kernelucb.acquisition.likelihood import likelihood
from kernelucb.acquisition.ucb import BandUCB
from kernelucb.confidence.assumptions import Assumption, Status
from kernelucb.confidence.band import Band, Noise, inputs_of, rebuildable
from kernelucb.confidence.combined import Union
from kernelucb.confidence.family import (
    covering,
    family_report,
    of_family,
    per_kernel,
    tied_scale,
)
from kernelucb.confidence.fit import (
    Fit,
    MixtureFit,
    PrequentialRadius,
    fit_of,
)
from kernelucb.confidence.norm import (
    NearNormBall,
    near_ball,
)
from kernelucb.confidence.radius import CovarianceScale
from kernelucb.data import KernelRegression
from kernelucb.data.counts import LikelihoodRegression
from kernelucb.data.exact import data_of
from kernelucb.data.from_model import ModelData, NoiseStd
from kernelucb.data.kernel_family import (
    Covered,
    Lengths,
    LengthscaleFamily,
    fixed_kernel,
    fixed_mean,
    kernel_in_words,
    lengthscale_family,
)
from kernelucb.data.prior import Prior
from kernelucb.exceptions import InconsistentConfidenceSetWarning

# Covariance scales for all norm bounds at once: those of norm bounds from 0.16 to 41,000.
EVERY_SCALE = tuple(16.0**power for power in range(-3, 7))
_WIDEST_EVERY = 8  # rounds


@dataclass(frozen=True, eq=False)
class _Runs(ABC):
    r"""The data that all kernels of a family share, and the band under each of them.

    Attributes:
        data: The data, under the model's own prior.
        delta: Failure probability.
        doubt: What may be wrong where the data contradict every kernel.
    """

    data: ModelData | LikelihoodRegression
    delta: float
    doubt: ClassVar[str]

    @property
    def noise(self) -> Noise | None:
        r"""The noise scales of the union; None without numbers."""
        return None

    @property
    def is_tied(self) -> bool:
        r"""Whether the set of a kernel depends on its norm bound."""
        return False

    @abstractmethod
    def band(self, prior: Prior, norm: Number, estimated: frozenset[str]) -> Band:
        r"""The band under another prior, and a bound on the norm under this prior."""

    @property
    @abstractmethod
    def relaxation(self) -> Callable[..., dict[str, Any]]:
        r"""See ``Band``."""


@dataclass(frozen=True, eq=False)
class _CountedRuns(_Runs):
    r"""Successes or counts, whose likelihood says how they vary."""

    data: LikelihoodRegression
    covariance_scale: CovarianceScale | None

    doubt = "the outcomes do not follow the likelihood"

    def band(self, prior: Prior, norm: Number, estimated: frozenset[str]) -> Band:
        runs = self.data.train_inputs, self.data.outcomes, self.data.dimension
        state = LikelihoodRegression.from_parts(prior, *runs, estimated)
        return likelihood(state, norm, self.delta, covariance_scale=self.covariance_scale)

    @property
    def relaxation(self) -> Callable[..., dict[str, Any]]:
        return _relaxed_kernels


@dataclass(frozen=True, eq=False)
class _NoisyRuns(_Runs):
    r"""Outcomes with noise of known scales."""

    data: ModelData
    ball: NearNormBall
    fit: MixtureFit | PrequentialRadius

    doubt = "the noise scale is too small"

    def band(self, prior: Prior, norm: Number, estimated: frozenset[str]) -> Band:
        runs = self.data._replace(prior=prior, estimated=estimated)
        fit = fit_of(self.fit, default_scale=tied_scale(float(norm)))
        ball, state = self.ball.at(norm), KernelRegression.from_data(runs)
        return martingale_mixture(state, ball, delta=self.delta, fit=fit)

    @property
    def noise(self) -> Noise | None:
        return None if self.fit.has_own_noise else Noise(self.data)

    @property
    def is_tied(self) -> bool:
        return self.fit.is_tied

    @property
    def relaxation(self) -> Callable[..., dict[str, Any]]:
        return _relaxed_family


def _runs(
    model: Model | ModelData | KernelRegression | LikelihoodRegression,
    ball: NearNormBall,
    noise_std: NoiseStd,
    delta: float,
    fit: Fit,
    covariance_scale: CovarianceScale | None,
) -> _Runs:
    r"""The data that all kernels share: of noise, or of successes and counts."""
    chosen = fit_of(fit, covariance_scale)
    probability("delta", delta)
    if isinstance(model, LikelihoodRegression):
        without_meaning = {
            "noise_std": noise_std is not None,
            "fit": chosen.has_own_noise,
            "model_error": ball.model_error > 0.0,
        }
        if names := [name for name, given in without_meaning.items() if given]:
            raise UnsupportedError(
                f"{' and '.join(names)} would have no meaning for a LikelihoodRegression: "
                "its outcomes are successes or counts, whose likelihood says how they "
                "vary. Leave that out."
            )
        return _CountedRuns(model, delta, covariance_scale)
    fit_of(chosen, delta=delta, noise_std=noise_std)  # refuses a radius of other numbers
    return _NoisyRuns(data_of(model, noise_std), delta, ball, chosen)


@rebuildable()
def kernel_family(
    model: Model | ModelData | KernelRegression | LikelihoodRegression,
    kernels: Sequence[Kernel],
    norm_bound: float | Sequence[float] | NearNormBall,
    noise_std: float | Tensor | None = None,
    delta: float = 0.05,
    fit: Fit = "filters",
    covariance_scale: CovarianceScale | None = None,
    mean: float | Mean | None = None,
    widest_every: int | None = _WIDEST_EVERY,
) -> Band:
    r"""The band of ``KernelFamilyUCB``: the union of the bands of its kernels."""
    if len(kernels) == 0:
        raise ValueError("kernels is empty; a family needs at least one kernel.")
    if widest_every is not None:
        whole_number("widest_every", widest_every)
    ball = near_ball(norm_bound)
    given = per_kernel(cast(Any, ball.norm_bound), kernels)
    norms, module = [float(norm) for norm in given], fixed_mean(mean)
    unit: Number = Estimate(1.0) if any(map(is_estimate, given)) else 1.0
    runs = _runs(model, ball, noise_std, delta, fit, covariance_scale)
    data = runs.data
    covers = covering(kernels, data.train_inputs.shape[-1])
    parts = [estimated_parts(kernel, module) for kernel in kernels]
    estimated = data.estimated_anyway.union(*parts)
    factors = [cover.norm_factor for cover in covers]
    bands: list[Band] = []
    with warnings.catch_warnings():  # of contradictions: said below, if of all kernels
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        for cover, norm in zip(covers, norms, strict=True):
            prior = data.prior.replaced(cover.kernel, module, data.train_inputs)
            bands.append(runs.band(prior, unit * (norm * cover.norm_factor), estimated))
    # Under each kernel and all that it covers
    least = [float(b.least_norms[0]) / f for b, f in zip(bands, factors, strict=True)]
    consistent = tuple(not each.assumptions.violated for each in bands)
    left = [each for each, is_left in zip(bands, consistent, strict=True) if is_left]
    flaw: Assumption | None = None
    if not left:
        ratios = [low / norm for low, norm in zip(least, norms, strict=True)]
        nearest = ratios.index(min(ratios))
        found = kernel_in_words(kernels[nearest]), least[nearest], norms[nearest]
        flaw, left = _none_left(*found, len(kernels), runs.doubt), [bands[nearest]]
    # Of the union alone: each member has a number
    named = estimated | ({"norm"} if is_estimate(unit) else set())
    # The union states its norms itself; a member's that is violated would stay so.
    member = left[0].assumptions
    norm = replace(member["norm"], status=Status.GIVEN)
    items = tuple(norm if each.name == "norm" else each for each in member.items)
    member = replace(member, items=items)
    stated = norms, named, ball.model_error, runs.is_tied
    assumptions = of_family(member, kernels, *stated)
    if flaw is not None:
        assumptions = assumptions.with_item(flaw)
    number = assumptions["norm"].number
    whole = Union([each.required_set for each in left], assumptions)
    return Band(
        whole,
        data=whole.regression,
        observed=inputs_of(data),
        noise=runs.noise,
        norm_bounds=tuple(map(number, norms)),
        least_norms=tuple(map(Estimate, least)),
        lengthscales=getattr(kernels, "lengthscales", ()),
        consistent=consistent,
        widest_every=widest_every,
        relaxation=runs.relaxation,
    )


def _none_left(
    nearest: str, least: float, bound: float, count: int, doubt: str
) -> Assumption:
    statement = (
        f"The data contradict all {count} kernels at this delta. The nearest, "
        f"{nearest}, needs a norm of at least {at_least(least)}, and its bound is "
        f"{assumed(bound)}. The norm bound is too small, the right kernel is not among "
        f"them, or {doubt}."
    )
    warnings.warn(statement, InconsistentConfidenceSetWarning, stacklevel=5)
    return Assumption("kernel", statement, Status.VIOLATED)


def _relaxed_kernels(
    band: Band, norm_factor: float, noise_factor: float, lengthscale: float | None
) -> dict[str, Any]:
    given = band.arguments
    kernels: Sequence[Kernel] = given["kernels"]
    changes = relaxed_numbers(band, norm_factor, noise_factor)
    norms: list[Any] = [norm_factor * norm for norm in band.norm_bounds]
    if lengthscale is not None:
        kernels, kept = _from_length(band, lengthscale)
        norms = [norms[index] for index in kept]
    changes["norm_bound"] = replace(near_ball(given["norm_bound"]), norm_bound=norms)
    return changes | {"kernels": kernels}


def _relaxed_family(
    band: Band, norm_factor: float, noise_factor: float, lengthscale: float | None
) -> dict[str, Any]:
    changes = _relaxed_kernels(band, norm_factor, noise_factor, lengthscale)
    # Scales for all norm bounds at once: a tied one would make each norm bound an event.
    scale = band.arguments.get("covariance_scale")
    fit = fit_of(band.arguments.get("fit", "filters"), scale, EVERY_SCALE)
    return changes | {"fit": fit.relaxed(noise_factor), "covariance_scale": None}


def _from_length(band: Band, lengthscale: float) -> tuple[LengthscaleFamily, list[int]]:
    r"""The kernels that cover the length scales from one upwards, and their indices."""
    if not band.lengthscales:
        raise UnsupportedError(
            "The band is no union over a lengthscale_family with one length scale for "
            "each kernel, of which the shorter ones could be left out; leave out "
            "lengthscale."
        )
    kernels: LengthscaleFamily = band.arguments["kernels"]
    kept = kernels.reaching(positive_scalar("lengthscale", lengthscale))
    if not kept:
        raise ValueError(
            f"lengthscale is {lengthscale:.4g}, above all length scales of the family; "
            f"give at most {max(kernels.lengthscales):.4g}."
        )
    covered = (Covered(f"{kernels.covers}, of at least {lengthscale:.4g}"),)
    members = tuple(kernels.members[index] for index in kept)
    return LengthscaleFamily(members, covered), kept


def with_named_kernels(
    model: Model | KernelRegression | LikelihoodRegression,
    kernels: Sequence[Kernel] | None,
    shortest: Lengths | None,
    longest: Lengths | None,
    kernel: str | Sequence[str],
    ratio: float,
    each_coordinate: bool,
    outputscale: float,
    **options: object,
) -> dict[str, Any]:
    r"""Arguments of ``KernelFamilyUCB`` from those of its ``from_model``."""
    if kernels is None:
        if shortest is None or longest is None:
            raise ValueError(
                "KernelFamilyUCB needs the option `kernels`, or `shortest` and `longest`."
            )
        one = torch.ones(1, 1, dtype=torch.float64)  # replaced by the family's
        names = [kernel] if isinstance(kernel, str) else kernel
        bases = [fixed_kernel(name, one, outputscale) for name in names]
        kernels = lengthscale_family(
            bases, shortest, longest, ratio, each_coordinate=each_coordinate
        )
    elif shortest is not None or longest is not None:
        raise ValueError("Both kernels and length scales are given; leave out one.")
    return {"model": model, "kernels": kernels, **options}


class KernelFamilyUCB(BandUCB):
    r"""Bounds over a family of kernels, for an unknown kernel, anytime.

    Assumes that ``f - mean`` has a bounded norm under at least one kernel of a family that
    was fixed before the data. The band ``bounds(X)`` is the union of the bands of the
    kernels that the data do not contradict, each at the full ``delta``: only the band of
    the true kernel must hold, whichever kernel that is. The union holds the true function
    at every point and every round at once with probability ``1 - delta``, for inputs chosen
    from the past by any rule.

    Only the data are taken from the model: its kernel and mean are not used, so they may be
    fitted anew in every round. The kernels act on the model's inputs after its input
    transform (``KernelRegression.train_inputs``), and on outcomes in outcome units.

    For a ``LikelihoodRegression`` (successes or counts) the sets are those of
    ``LikelihoodUCB``, with its assumptions; kernels, mean and norm bounds are then those of
    the log odds or the log rate.

    While the band holds, a round that maximises the union's upper bound has a regret of at
    most the band's width at the chosen point. So the best of all points chosen in this way
    is within their mean width of the optimum, whatever is played in between
    (``widest_every``). A rate at which these widths fall is proven for a single kernel
    only (Flynn & Reeb 2024, Theorem 6.4, ``fit="martingale"``), not for a union.

    Source: the union is ours (``docs/mathematics.md``), over the sets of
    ``MartingaleMixtureUCB``, with their assumptions: conditionally sub-Gaussian noise of
    scale ``noise_std``, and outcomes that are reported whatever their noise.

    Example:
        >>> kernels = lengthscale_family(RBFKernel(), shortest=0.1, longest=0.8)
        >>> acqf = KernelFamilyUCB(model, kernels, norm_bound=5.0, noise_std=0.1)
        >>> print(acqf.report())
        >>> regret_certificate(acqf, bounds=bounds).gap
    """

    def __init__(
        self,
        model: Model | KernelRegression | LikelihoodRegression,
        kernels: Sequence[Kernel],
        *,
        norm_bound: float | Sequence[float] | NearNormBall,
        noise_std: float | Tensor | None = None,
        delta: float = 0.05,
        fit: Fit = "filters",
        covariance_scale: CovarianceScale | None = None,
        mean: float | Mean | None = None,
        widest_every: int | None = _WIDEST_EVERY,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        r"""Upper confidence bound over a family of kernels.

        Args:
            model: A single-output exact GP (``SingleTaskGP``), a ``KernelRegression`` or a
                ``LikelihoodRegression``: the data. The input transform must not be learned
                from them (``Normalize(d, bounds=bounds)``); where it is, ``assumptions``
                says so.
            kernels: The family, from the simplest to the roughest kernel, output scales
                included; fixed before the data, so frozen (``requires_grad_(False)``), as
                those of ``lengthscale_family`` are.
            norm_bound: Bound on the RKHS norm of ``f - mean`` under the true kernel,
                outcome units: one number for all kernels or one for each, fixed before the
                data, since the mixtures are tied to it: try several by ``relaxed``. A
                kernel may be listed several times with several norm bounds. Give a
                ``NearNormBall`` if ``f`` is only near a function of bounded norm.
            noise_std: Sub-Gaussian noise scale, outcome units, one number or one per
                observation; from the likelihood (or ``train_Yvar``) when absent. Not for
                counts.
            delta: Failure probability.
            fit: See ``MartingaleMixtureUCB``; no choice for counts.
            covariance_scale: See ``MartingaleMixtureUCB``. Where it is left out, it is tied
                to the norm bound, so that the band does not depend on the kernels' output
                scales; for counts see ``LikelihoodUCB``.
            mean: Prior mean, outcome units: a number, or a frozen GPyTorch mean.
            widest_every: One in so many rounds maximises the union's bound, which explores
                for the roughest kernel, spread evenly over the numbers of observations and
                pending points; the others that of the first consistent kernel, which alone
                (None) can miss a narrow spike for ever, if no outcome contradicts this
                kernel. Band and certificates do not depend on it.
            maximize: If False, the value is minus the lower bound.
            posterior_transform: A ``ScalarizedPosteriorTransform`` with one weight.
            X_pending: ``p x d`` points under evaluation; variances are conditioned on them.

        Raises:
            ValueError: If a scalar is out of its range, there is no kernel, or the number
                of norm bounds differs.
            UnsupportedError: If the model, a kernel or the transform cannot be represented,
                or an argument has no meaning for counts.
            InputDataError: If the model's data are empty or not finite.
        """
        band = kernel_family(
            model,
            kernels,
            norm_bound,
            noise_std,
            delta,
            fit,
            covariance_scale,
            mean,
            widest_every,
        )
        super().__init__(band, maximize, posterior_transform, X_pending, model)

    arguments_from_model = staticmethod(with_named_kernels)

    @classmethod
    def from_model(
        cls,
        model: Model | KernelRegression | LikelihoodRegression,
        *,
        kernels: Sequence[Kernel] | None = None,
        shortest: Lengths | None = None,
        longest: Lengths | None = None,
        kernel: str | Sequence[str] = "rbf",
        ratio: float = 2.0,
        each_coordinate: bool = False,
        outputscale: float = 1.0,
        **options: object,
    ) -> Self:
        r"""Build the bound from names and numbers, which Ax can store.

        Example:
            >>> acqf = KernelFamilyUCB.from_model(
            ...     model, shortest=0.1, longest=1.0, norm_bound=5.0, noise_std=0.1
            ... )

        Args:
            model: See the class.
            kernels: The family, instead of a description by the next six arguments.
            shortest: Shortest length scale, in units of the kernels' inputs; one number,
                or one for each coordinate.
            longest: Longest length scale, of the same kind.
            kernel: ``"rbf"``, ``"matern52"``, ``"matern32"`` or ``"matern12"``, or several
                of them, the smoothest first.
            ratio: See ``lengthscale_family``.
            each_coordinate: See ``lengthscale_family``.
            outputscale: Prior variance, outcome units squared.
            options: Further arguments of the class.

        Raises:
            ValueError: If there are both kernels and a description, or neither; a name or
                number is out of its range, or there would be too many kernels.
            UnsupportedError: If the length scales do not fit the model's inputs.
        """
        named = kernels, shortest, longest, kernel, ratio, each_coordinate, outputscale
        return cls(**cls.arguments_from_model(model, *named, **options))

    @property
    def consistent(self) -> tuple[bool, ...]:
        r"""For each kernel, True unless the data contradict the kernel.

        The probability that any round contradicts the true kernel is at most ``delta``, on
        the band's own event. So leave out for good what a round contradicted:
        ``kernels = [k for k, c in zip(kernels, acqf.consistent) if c]``, with the norm
        bounds of these; slice a ``lengthscale_family`` (such as
        ``kernels[acqf.consistent.index(True) :]``), since a list covers no length scales
        between its kernels. Norm bounds, noise, ``delta`` and ``fit`` must be given and
        stay the same. ``relaxed`` bands, breakdown values and ``optimum_report`` rest on
        another event: give them the whole family.
        """
        return self.band.consistent

    def report(self) -> str:
        r"""A report in words: contradicted kernels, one line each, and the assumptions."""
        band, contradicted = self.band, [not each for each in self.consistent]
        rows = zip(contradicted, band.least_norms, band.norm_bounds, strict=True)
        verdicts = [
            f"{'contradicted' if wrong else 'consistent'} (norm at least "
            f"{at_least(least)}, bound {at_least(bound)})"
            for wrong, least, bound in rows
        ]
        kernels = band.arguments["kernels"]
        found = contradicted, band.data.num_observations, self.assumptions
        return family_report(kernels, verdicts, *found)
