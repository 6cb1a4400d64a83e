r"""Upper confidence bound over a family of kernels, for when the kernel is not known."""

from collections.abc import Sequence
from inspect import signature
from typing import Any, Self

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from kernelucb._numerics.checks import one_of, whole_number
from kernelucb._numerics.estimates import EstimatedNumber
from kernelucb.acquisition.base import KernelUCB
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.combined import CombinedPoints, CombinedState
from kernelucb.confidence.family.members import (
    Combine,
    family_of,
    family_report,
    per_kernel,
)
from kernelucb.confidence.family.select import Select, explores_for_all
from kernelucb.confidence.family.settings import data_and_settings
from kernelucb.confidence.family.tracker import FamilyTracker
from kernelucb.confidence.fit.choice import Fit
from kernelucb.confidence.norm.tracker import NearNormBall, ball_and_error
from kernelucb.regression import KernelRegression
from kernelucb.regression.kernel_family import (
    Lengths,
    LengthscaleFamily,
    lengthscale_family,
)
from kernelucb.regression.likelihood.regression import LikelihoodRegression
from kernelucb.regression.named import fixed_mean, named_kernel


class KernelFamilyUCB(KernelUCB[CombinedState, CombinedPoints]):
    r"""Bounds over a family of kernels, for when the kernel is not known, anytime.

    ``f - mean`` has a bounded norm under at least one kernel of a family that was fixed
    before the data. The band ``bounds(X)`` is the union of the bands of those kernels that
    the data do not contradict, each at the full ``delta``: only the band of the true kernel
    must hold, and which it is need not be known. It holds the true function at every point
    and every round at once with probability ``1 - delta``, whoever chose the inputs.

    The model gives the data and nothing else: its kernel and its mean are not used, so
    they may be fitted anew in every round. The kernels see its inputs after its input
    transform, in ``KernelRegression.train_inputs``, and outcomes in outcome units.

    Of a ``LikelihoodRegression`` (successes or counts) the sets are those of
    ``LikelihoodUCB``, with its assumptions; kernels, mean and norm bounds are then those of
    the log odds or the log rate.

    **Search.** ``select="widest"`` maximises the union's upper bound, which explores for
    the roughest kernel. ``"simplest"`` maximises that of the first consistent kernel;
    alone it can miss a narrow spike for ever, where no outcome contradicts that kernel.
    ``"alternate"`` does the first in one of ``widest_every`` rounds, spread evenly over the
    numbers of observations and pending points, and the second in the others. On the event
    that the band holds, a round of the first kind has a regret of at most the band's width
    at its point, so the best of those points is within their mean width of the optimum,
    whatever is played in between. How fast these widths fall is proven for one kernel only
    (Flynn & Reeb 2024, Theorem 6.4, ``fit="martingale"``), not for a union.

    Source: the union is ours (``docs/mathematics.md``), over the sets of
    ``MartingaleMixtureUCB``, with their assumptions: conditionally sub-Gaussian noise of
    scale ``noise_std``, and outcomes that are reported whatever their noise.

    Example:
        >>> kernels = lengthscale_family(RBFKernel(), shortest=0.1, longest=0.8)
        >>> tracker = FamilyTracker()  # kernels once contradicted stay so
        >>> acqf = KernelFamilyUCB(
        ...     model, kernels, norm_bound=5.0, noise_std=0.1, tracker=tracker
        ... )
        >>> print(acqf.report())
        >>> regret_certificate(acqf, bounds=bounds).gap

    Attributes:
        kernels: As given.
        fit: As given.
        num_observations: Number of observations.
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
        combine: Combine = "any",
        select: Select = "alternate",
        widest_every: int = 8,
        mean_module: Mean | None = None,
        tracker: FamilyTracker | None = None,
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
            kernels: The family, from the simplest to the roughest, output scales included;
                fixed before the data, so frozen (``requires_grad_(False)``), as those of
                ``lengthscale_family`` are.
            norm_bound: Bound on the RKHS norm of ``f - mean`` under the kernel that is
                true, outcome units: one number for all kernels or one for each. The same
                kernel may stand several times with several bounds. A ``NearNormBall`` for
                a function that is only near one of bounded norm.
            noise_std: Sub-Gaussian noise scale, outcome units, one number or one per
                observation; from the likelihood (or ``train_Yvar``) when absent. Of
                counts, leave it out.
            delta: Failure probability.
            fit: See ``MartingaleMixtureUCB``. A covariance scale that is left out is tied
                to the norm bound, so that the band does not depend on the kernels' output
                scales. Of counts ``MartingaleMixture(covariance_scale=...)``, whose scale
                is as for ``LikelihoodUCB``, or none.
            combine: ``"any"``: at least one kernel is true. ``"all"``: every one is, at its
                norm bound, the band is the intersection of theirs, whose fits hold
                together with probability ``1 - delta``, and it is what is searched by,
                whatever ``select`` is.
            select: ``"alternate"``, ``"simplest"`` or ``"widest"``: what the acquisition
                value is. The band and certificates do not depend on it.
            widest_every: In one of how many rounds ``"alternate"`` explores for all
                kernels.
            mean_module: Known prior mean, outcome units; zero when absent.
            tracker: What earlier rounds have said of the same family. Kernels that were
                contradicted stay left out; it is updated with the model's data. With
                ``combine="any"`` only.
            maximize: If False, the value is minus the lower bound.
            posterior_transform: A ``ScalarizedPosteriorTransform`` with one weight.
            X_pending: ``p x d`` points under evaluation; variances are conditioned on them.

        Raises:
            ValueError: If a scalar is out of its range, there is no kernel, the number of
                norm bounds differs, or the tracker has seen another family or more
                observations.
            UnsupportedError: If the model, a kernel or the transform cannot be represented,
                or an argument has no meaning for counts.
            InputDataError: If the model's data are empty or not finite.
        """
        one_of("select", select, "alternate", "simplest", "widest")
        one_of("combine", combine, "any", "all")
        self.select: Select = select
        self.widest_every = whole_number("widest_every", widest_every)
        ball, error = ball_and_error(norm_bound)
        bounds = per_kernel(ball, kernels)
        data, settings = data_and_settings(model, noise_std, fit, delta, error)
        self._family = family_of(
            data, kernels, mean_module, bounds, settings, combine, tracker
        )
        self.kernels, self.fit, self.delta, self.combine = kernels, fit, delta, combine
        self.num_observations = len(data.inputs)
        band = self._family.confidence_set
        super().__init__(model, band, maximize, posterior_transform, X_pending)

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
        mean: float = 0.0,
        **options: Any,
    ) -> Self:
        r"""The bound over a family that names and numbers describe, which Ax can store.

        Example:
            >>> acqf = KernelFamilyUCB.from_model(
            ...     model, shortest=0.1, longest=1.0, norm_bound=5.0, noise_std=0.1
            ... )

        Args:
            model: The data, as of the class.
            kernels: The family, instead of its description in the next six arguments.
            shortest: Shortest length scale, in units of the kernels' inputs; one number,
                or one for each coordinate.
            longest: Longest length scale, of the same kind.
            kernel: ``"rbf"``, ``"matern52"``, ``"matern32"`` or ``"matern12"``, or several
                of them, the smoothest first.
            ratio: See ``lengthscale_family``.
            each_coordinate: See ``lengthscale_family``.
            outputscale: Prior variance, outcome units squared.
            mean: Prior mean, outcome units, instead of ``mean_module``.
            options: Further arguments of the class.

        Raises:
            ValueError: If there are both kernels and a description, or neither; a mean and
                a ``mean_module``; a name or number is out of its range, or there would be
                too many kernels.
            UnsupportedError: If the length scales do not fit the model's inputs.
        """
        described: dict[str, Any] = {
            "shortest": shortest,
            "longest": longest,
            "kernel": kernel,
        }
        described |= {"ratio": ratio, "each_coordinate": each_coordinate}
        described |= {"outputscale": outputscale}
        if kernels is None:
            kernels = _described(**described)
        else:
            _refuse_both(described)
        if mean != 0.0:
            if options.get("mean_module") is not None:
                raise ValueError(
                    "Both mean and mean_module are given; leave one of them out."
                )
            options = {**options, "mean_module": fixed_mean(mean)}
        return cls(model=model, kernels=kernels, **options)

    @property
    def norm_bounds(self) -> tuple[float, ...]:
        r"""The norm bound of each kernel, outcome units.

        With ``combine="any"`` and a ``lengthscale_family``, of its ``covering`` kernels.
        """
        norm = self.assumptions["norm"]
        return tuple(norm.number(member.norm_bound) for member in self._family.members)

    @property
    def least_consistent_norms(self) -> tuple[float, ...]:
        r"""Lower bound on the norm under each kernel, if it is true, outcome units."""
        members = self._family.members
        return tuple(EstimatedNumber(member.least_consistent_norm) for member in members)

    @property
    def consistent(self) -> tuple[bool, ...]:
        r"""For each kernel, whether the data do not contradict it.

        A true one is contradicted in this or any other round with probability ``delta`` at
        most.
        """
        return self._family.consistent

    def report(self) -> str:
        r"""Which kernels the data contradict and what the band rests on, in words."""
        count = self.num_observations
        return family_report(self._family, self.kernels, count, self.delta)

    def _searched(self, num_pending: int) -> ConfidenceSet[Any, Any]:
        r"""The set whose upper bound is maximised."""
        whole = self._family.confidence_set
        count = self.num_observations + num_pending
        widest = explores_for_all(self.select, self.widest_every, count)
        return whole if widest or self.combine == "all" else whole.parts[0]


def _described(
    shortest: Lengths | None,
    longest: Lengths | None,
    kernel: str | Sequence[str],
    ratio: float,
    each_coordinate: bool,
    outputscale: float,
) -> LengthscaleFamily:
    if shortest is None or longest is None:
        raise ValueError(
            "KernelFamilyUCB needs the option `kernels`, or `shortest` and `longest`."
        )
    names = [kernel] if isinstance(kernel, str) else kernel
    one = torch.ones(1, 1, dtype=torch.float64)
    bases = [named_kernel(name, one, outputscale) for name in names]
    return lengthscale_family(
        bases, shortest, longest, ratio, each_coordinate=each_coordinate
    )


def _refuse_both(described: dict[str, Any]) -> None:
    r"""What describes a family would be ignored where the kernels are there."""
    defaults = signature(KernelFamilyUCB.from_model).parameters
    for name, value in described.items():
        given = (
            value is not None
            if name in ("shortest", "longest")
            else value != defaults[name].default
        )
        if given:
            raise ValueError(
                f"Both kernels and {name} are given; leave out `kernels`, or all that "
                "describes them (shortest, longest, kernel, ratio, each_coordinate, "
                "outputscale)."
            )
