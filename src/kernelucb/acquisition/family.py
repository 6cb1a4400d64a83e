r"""Upper confidence bound over a family of kernels, for an unknown kernel."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, Self

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import UnsupportedError
from botorch.models.model import Model
from gpytorch.kernels import Kernel
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar
from kernelucb._numerics.digits import at_least
from kernelucb._numerics.estimates import EstimatedNumber
from kernelucb.acquisition.base import KernelUCB, relaxed_numbers
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.combined import CombinedPoints, CombinedState
from kernelucb.confidence.family.data import EVERY_SCALE, family_data
from kernelucb.confidence.family.kernels import KernelFamily, Select
from kernelucb.confidence.family.members import family_of, family_report, per_kernel
from kernelucb.confidence.fit.choice import Filters, Fit, fit_of
from kernelucb.confidence.norm.tracker import NearNormBall, ball_and_error
from kernelucb.regression import KernelRegression
from kernelucb.regression.counts import LikelihoodRegression
from kernelucb.regression.kernel_family import (
    Lengths,
    LengthscaleFamily,
    lengthscale_family,
)
from kernelucb.regression.named import named_kernel


class KernelFamilyUCB(KernelUCB[CombinedState, CombinedPoints]):
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
    is within their mean width of the optimum, whatever is played in between (``select`` of
    the ``KernelFamily``). A rate at which these widths fall is proven for a single kernel
    only (Flynn & Reeb 2024, Theorem 6.4, ``fit="martingale"``), not for a union.

    Source: the union is ours (``docs/mathematics.md``), over the sets of
    ``MartingaleMixtureUCB``, with their assumptions: conditionally sub-Gaussian noise of
    scale ``noise_std``, and outcomes that are reported whatever their noise.

    Example:
        >>> kernels = lengthscale_family(RBFKernel(), shortest=0.1, longest=0.8)
        >>> acqf = KernelFamilyUCB(model, kernels, norm_bound=5.0, noise_std=0.1)
        >>> print(acqf.report())
        >>> regret_certificate(acqf, bounds=bounds).gap

    Attributes:
        family: The family, as a ``KernelFamily``.
        fit: The fit, as given.
        num_observations: Number of observations.
    """

    def __init__(
        self,
        model: Model | KernelRegression | LikelihoodRegression,
        kernels: Sequence[Kernel] | KernelFamily,
        *,
        norm_bound: float | Sequence[float] | NearNormBall,
        noise_std: float | Tensor | None = None,
        delta: float = 0.05,
        fit: Fit = "filters",
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
            kernels: The family, from the simplest to the roughest kernel. Give a
                ``KernelFamily`` for a prior mean or another search than the default.
            norm_bound: Bound on the RKHS norm of ``f - mean`` under the true kernel,
                outcome units: one number for all kernels or one for each, fixed before the
                data, since the mixtures are tied to it: try several by ``relaxed``. A
                kernel may be listed several times with several norm bounds. Give a
                ``NearNormBall`` if ``f`` is only near a function of bounded norm.
            noise_std: Sub-Gaussian noise scale, outcome units, one number or one per
                observation; from the likelihood (or ``train_Yvar``) when absent. Not for
                counts.
            delta: Failure probability.
            fit: See ``MartingaleMixtureUCB``. A covariance scale that is left out is tied
                to the norm bound, so that the band does not depend on the kernels' output
                scales. For counts ``MartingaleMixture(covariance_scale=...)`` as for
                ``LikelihoodUCB``, or the default.
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
        # A copy: kernels and mean may change, or be fitted, afterwards.
        self.family = self._arguments["kernels"] = deepcopy(KernelFamily.of(kernels))
        self.fit: Fit = fit
        ball, error = ball_and_error(norm_bound)
        norm_bounds = per_kernel(ball, self.family.kernels)
        data = family_data(self._taken(model), noise_std, fit, delta, error)
        self._members, band = family_of(self.family, data, norm_bounds)
        self.num_observations = len(data.precision)
        super().__init__(model, band, maximize, posterior_transform, X_pending)

    @classmethod
    def from_model(
        cls,
        model: Model | KernelRegression | LikelihoodRegression,
        *,
        kernels: Sequence[Kernel] | KernelFamily | None = None,
        shortest: Lengths | None = None,
        longest: Lengths | None = None,
        kernel: str | Sequence[str] | None = None,
        ratio: float | None = None,
        each_coordinate: bool | None = None,
        outputscale: float | None = None,
        mean: float | None = None,
        select: Select | None = None,
        **options: Any,
    ) -> Self:
        r"""Build the bound from names and numbers, which Ax can store.

        Example:
            >>> acqf = KernelFamilyUCB.from_model(
            ...     model, shortest=0.1, longest=1.0, norm_bound=5.0, noise_std=0.1
            ... )

        Args:
            model: See the class.
            kernels: The family, instead of a description by the next eight arguments.
            shortest: Shortest length scale, in units of the kernels' inputs; one number,
                or one for each coordinate.
            longest: Longest length scale, of the same kind.
            kernel: ``"rbf"`` (the default), ``"matern52"``, ``"matern32"`` or
                ``"matern12"``, or several of them, the smoothest first.
            ratio: See ``lengthscale_family``.
            each_coordinate: See ``lengthscale_family``.
            outputscale: Prior variance, outcome units squared, 1 by default.
            mean: Prior mean, outcome units.
            select: See ``KernelFamily``.
            options: Further arguments of the class.

        Raises:
            ValueError: If there are both kernels and a description, or neither; a name or
                number is out of its range, or there would be too many kernels.
            UnsupportedError: If the length scales do not fit the model's inputs.
        """
        family = {"mean": mean, "select": select}
        lengths = {"shortest": shortest, "longest": longest}
        lengths |= {"ratio": ratio, "each_coordinate": each_coordinate}
        described = {"kernel": kernel, "outputscale": outputscale, **lengths, **family}
        given = [name for name, value in described.items() if value is not None]
        if kernels is not None and given:
            raise ValueError(
                f"Both kernels and {given[0]} are given; leave out "
                "`kernels` (of a KernelFamily, all that describes one), or the other."
            )
        if kernels is None:
            if shortest is None or longest is None:
                raise ValueError(
                    "KernelFamilyUCB needs the option `kernels`, or `shortest` and "
                    "`longest`."
                )
            names = [kernel or "rbf"] if isinstance(kernel, str | None) else kernel
            one = torch.ones(1, 1, dtype=torch.float64)
            scale = 1.0 if outputscale is None else outputscale
            bases = [named_kernel(name, one, scale) for name in names]
            members = lengthscale_family(bases, **_without_none(lengths))
            kernels = KernelFamily(members, **_without_none(family))
        return cls(model=model, kernels=kernels, **options)

    @property
    def lengthscales(self) -> tuple[float, ...]:
        r"""See ``Band``; empty where the band is no union of a ``lengthscale_family``."""
        kernels = self.family.kernels
        if not isinstance(kernels, LengthscaleFamily):
            return ()
        return kernels.lengthscales

    @property
    def least_norm_factor(self) -> float:
        r"""See ``Band``: the smallest ratio of all kernels."""
        pairs = zip(self.least_consistent_norms, self.norm_bounds, strict=True)
        return min(EstimatedNumber(least / bound) for least, bound in pairs)

    def _relaxation(
        self, norm_factor: float, noise_factor: float, lengthscale: float | None
    ) -> dict[str, Any]:
        family = self.family
        ball, error = ball_and_error(self._arguments["norm_bound"])
        norms = [float(norm) for norm in per_kernel(ball, family.kernels)]
        largest = max(norms)
        changes = relaxed_numbers(self, norm_factor, noise_factor, largest)
        if lengthscale is not None:
            family, kept = self._from_length(family, lengthscale)
            norms = [norms[index] for index in kept]
        norms = [changes["norm_bound"] * (norm / largest) for norm in norms]
        changes["norm_bound"] = NearNormBall(norms, error) if error > 0.0 else norms
        changes["kernels"] = family
        if isinstance(self.model, LikelihoodRegression):
            return changes
        fit = fit_of(self.fit, EVERY_SCALE)  # an event that no norm bound enters
        if isinstance(fit, Filters):
            factor = fit.noise_factor * noise_factor
            fit = replace(fit, every_norm=True, noise_factor=factor)
        return changes | {"fit": fit}

    def _from_length(
        self, family: KernelFamily, lengthscale: float
    ) -> tuple[KernelFamily, list[int]]:
        r"""The part that covers the length scales from one upwards, and its indices."""
        kernels = family.kernels
        if not (self.lengthscales and isinstance(kernels, LengthscaleFamily)):
            raise UnsupportedError(
                "The band is no union over a lengthscale_family with one length scale for "
                "each kernel, of which the shorter ones could be left out; leave out "
                "lengthscale."
            )
        kept = kernels.reaching(positive_scalar("lengthscale", lengthscale))
        if not kept:
            raise ValueError(
                f"lengthscale is {lengthscale:.4g}, above all length scales of the family; "
                f"give at most {max(self.lengthscales):.4g}."
            )
        covers = f"{kernels.covers}, of at least {lengthscale:.4g}"
        members = tuple(kernels.members[index] for index in kept)
        return replace(family, kernels=LengthscaleFamily(members, covers)), kept

    @property
    def norm_bounds(self) -> tuple[float, ...]:
        r"""The norm bound of each kernel and of what it covers, outcome units."""
        norm = self.assumptions["norm"]
        bounds = [member.norm_bound / member.norm_factor for member in self._members]
        return tuple(map(norm.number, bounds))

    @property
    def least_consistent_norms(self) -> tuple[float, ...]:
        r"""Lower bound on the norm under each kernel, if it is true, outcome units.

        Of a ``lengthscale_family`` under any length scale that the kernel covers.
        """
        return tuple(
            EstimatedNumber(member.least_consistent_norm / member.norm_factor)
            for member in self._members
        )

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
        return tuple(member.confidence_set is not None for member in self._members)

    def report(self) -> str:
        r"""A report in words: the contradicted kernels and the assumptions of the band."""
        contradicted = [not consistent for consistent in self.consistent]
        norms = self.least_consistent_norms, self.norm_bounds
        verdicts = [
            f"{'contradicted' if wrong else 'consistent'} (norm at least "
            f"{at_least(least)}, bound {at_least(bound)})"
            for wrong, least, bound in zip(contradicted, *norms, strict=True)
        ]
        told = verdicts, contradicted, self.num_observations, self.assumptions
        return family_report(self.family.kernels, *told)

    def _searched(self, num_pending: int) -> ConfidenceSet[Any, Any]:
        r"""The set whose upper bound is maximised."""
        whole: Any = super()._searched(num_pending)
        widest = self.family.explores_for_all(self.num_observations + num_pending)
        return whole if widest else whole.parts[0]


def _without_none(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
