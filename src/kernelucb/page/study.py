r"""What a page says: runs, a band on them, and the numbers that follow."""

import math
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel
from torch import Tensor

from kernelucb._numerics.checks import as_double, positive_scalar
from kernelucb._numerics.estimates import EstimatedNumber, is_estimate, remember_trained
from kernelucb.acquisition import MartingaleMixtureUCB
from kernelucb.certificates import MixedSpace, optimum_report, regret_certificate
from kernelucb.certificates.words import Claim, OptimumReport, Wording
from kernelucb.confidence.noise import ReplicateNoise
from kernelucb.page.table import Table, names_of, table_of
from kernelucb.regression import KernelRegression
from kernelucb.regression.named import fixed_kernel, fixed_mean, unscaled
from kernelucb.regression.pooling import distinct_rows

LENGTHS = (0.5, 0.7, 1.0, 1.4, 2.0)  # times the length scale of the kernel
ASSUMED = 1.5  # times the least consistent norm: the norm bound where none is given
_KERNEL, _LENGTHSCALE = "matern52", 0.5
_MARGINS = (1.02, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)
_MAP_MARGINS = (1.05, 1.2, 1.5, 2.0, 3.0, 5.0)
_EVALUATIONS = 3_000  # of branch and bound, for each gap of the curve and the map
_SPREAD = 0.05  # of the outcomes: the tolerance where none is given
_SHARE = 0.5  # of the failure probability, for settings by themselves


class Map(NamedTuple):
    r"""For each norm bound, the gap in the window at each length scale."""

    norms: tuple[float, ...]
    cells: tuple[tuple[float | None, ...], ...]  # None where no function explains the data
    delta: float  # of each length scale


@dataclass(frozen=True)
class Study:
    r"""A table, what was given with it, and what follows.

    Attributes:
        table: The runs.
        limits: ``2 x d`` limits of the settings in question.
        regress: The runs under a kernel with its length scales times a factor.
        band: At the norm bound in use.
        wording: Names and units.
        origins: Where numbers that were not given come from, by the assumption's name.
        given: The arguments of ``report``, by name.
    """

    table: Table
    limits: Tensor
    regress: Callable[[float], KernelRegression]
    band: MartingaleMixtureUCB
    wording: Wording
    origins: dict[str, str]
    given: Namespace

    @classmethod
    def of(cls, given: Namespace) -> Self:
        r"""The study of a table, from the arguments of ``report``."""
        for option in ("bounds", "baseline", "units"):
            if (own := getattr(given, option)) is not None:
                by_name = dict(zip(names_of(own), own.values(), strict=True))
                setattr(given, option, by_name)
        if given.range is not None:
            ends = zip(given.range, (-math.inf, math.inf), strict=True)
            given.range = tuple(end if at is None else at for at, end in ends)
        columns = given.inputs, given.ignore, given.categories, given.missing
        table = table_of(given.table, given.outcome, *columns, given.decimal)
        limits, open_names = _limits(table, given.bounds or {})
        share = _LENGTHSCALE if given.lengthscale is None else given.lengthscale
        shares = as_double(share).reshape(-1)
        counts = torch.tensor([*map(len, table.columns.values())])
        if len(shares) not in (1, n := len(counts)):
            raise ValueError(f"--lengthscale has {len(shares)} entries for {n} inputs.")
        shares = shares.expand(n).repeat_interleave(counts)
        lengths, origins = shares * (limits[1] - limits[0]), dict[str, str]()
        if open_names:
            origins["kernel"] = f"shares of the table's limits of {', '.join(open_names)}"
        noise, mean, norm = given.noise_std, given.mean, given.norm_bound
        if len(table.outcomes.unique()) == 1 and None in (noise, norm):
            raise InputDataError(
                f"The outcome {table.outcome!r} is {float(table.outcomes[0]):g} in every "
                "row: that shows neither noise nor norm; give --noise-std, --norm-bound."
            )
        if noise is None:
            noise, origins["noise"] = _pooled(table)
        if mean is None:
            mean = EstimatedNumber(table.outcomes.mean())
            origins["mean"] = "the mean of the outcomes"
            if given.range is not None and math.isfinite(sum(given.range)):
                mean, origins["mean"] = sum(given.range) / 2, "the middle of --range"

        def regress(factor: float) -> KernelRegression:
            kernel: Kernel = fixed_kernel(given.kernel or _KERNEL, factor * lengths, 1.0)
            if open_names:
                remember_trained(unscaled(kernel), frozenset({"raw_lengthscale"}))
            runs = table.inputs, table.outcomes
            return KernelRegression(*runs, kernel, noise, fixed_mean(mean))

        if norm is None:
            trial = _band(regress(1.0), 1.0, given.delta, given)
            if (least := float(trial.least_consistent_norm)) == math.inf:
                message = "No function explains the data at this noise; give a larger"
                raise ValueError(f"{message} --noise-std.")
            norm = EstimatedNumber(ASSUMED * least or table.outcomes.std())
        band = _band(regress(1.0), norm, given.delta, given)
        units = given.units or {}
        table.check_names("--units", units.keys() - {table.outcome})
        wording = Wording(tuple(table.labels), table.outcome, units, table)
        return cls(table, limits, regress, band, wording, origins, given)

    @cached_property
    def best(self) -> int:
        r"""Place among the runs of the one that is worth most at least."""
        lower, upper = self.band.relaxed().bounds(self.table.inputs)
        return int(upper.argmin() if self.given.minimize else lower.argmax())

    @property
    def point(self) -> Tensor:
        r"""``d`` coordinates of the best run."""
        return self.table.inputs[self.best]

    @property
    def norm_bound(self) -> float:
        r"""The norm bound in use, larger where the data contradict it; outcome units."""
        return float(self.band.relaxed().norm_bounds[0])

    @cached_property
    def least_norm(self) -> float:
        r"""The least norm that explains the data, outcome units."""
        return float(self.band.relaxed().least_consistent_norm)

    @cached_property
    def tolerance(self) -> float:
        r"""A difference that does not matter, outcome units."""
        spread = float(self.table.outcomes.max() - self.table.outcomes.min())
        noise = float(self.band.regression.noise_scales.max())
        if self.given.tolerance is not None:
            return positive_scalar("--tolerance", self.given.tolerance)
        return float(f"{_SPREAD * max(spread, noise):.1g}")

    @cached_property
    def baseline(self) -> Tensor | None:
        r"""``d`` coordinates of the setting to compare with."""
        given = self.given.baseline
        return None if given is None else self.table.setting("--baseline", given)

    @cached_property
    def report(self) -> OptimumReport:
        r"""Of the band, with the best run recommended."""
        report = optimum_report(
            self.band,
            **self._domain(self.limits),
            recommended=self.point,
            baseline=self.baseline,
            window=self.given.window,
            threshold=self.given.threshold,
            tolerance=self.tolerance,
            names=self.wording.names,
            max_evaluations=6 * _EVALUATIONS,
        )
        said: Any = report.said  # whose last argument is the wording
        return replace(report, said=partial(said.func, *said.args[:-1], self.wording))

    @property
    def claims(self) -> list[Claim]:
        r"""The band's own claims about the best run, the firmest first."""
        return list(self.report.claims[1:])

    @cached_property
    def curve(self) -> tuple[tuple[float, float, float], ...]:
        r"""Norm bound, gap in the window and gap anywhere, outcome units."""
        used, near = self.norm_bound, self._domain(self.near, fixed=True)
        norms = [margin * (self.least_norm or used) for margin in _MARGINS]
        anywhere = self._domain(self.limits)
        rows = [
            (norm, self._gap(self.band, norm, near), self._gap(self.band, norm, anywhere))
            for norm in norms
            if abs(norm - used) > 0.01 * used
        ]
        claimed = {claim.kind: claim.numbers[0] for claim in self.claims}
        if used > self.least_norm:
            rows.append((used, claimed["window"], claimed["anywhere"]))
        return tuple(sorted(rows))

    @cached_property
    def map(self) -> Map:
        r"""The gap in the window over length scales and norm bounds."""
        delta, near = self.given.delta / len(LENGTHS), self._domain(self.near, fixed=True)
        states = map(self.regress, LENGTHS)
        bands = [_band(state, self.norm_bound, delta, self.given) for state in states]
        least = [float(band.relaxed().least_consistent_norm) for band in bands]
        norms = [margin * (self.least_norm or self.norm_bound) for margin in _MAP_MARGINS]
        cells = (
            tuple(
                self._gap(band, norm, near) if norm > low else None
                for band, low in zip(bands, least, strict=True)
            )
            for norm in norms
        )
        return Map(tuple(norms), tuple(cells), delta)

    @property
    def near(self) -> Tensor:
        r"""``2 x d`` limits of the window around the best run."""
        room = self.given.window * (self.limits[1] - self.limits[0])
        return torch.stack([self.point - room, self.point + room]).clamp(*self.limits)

    def _domain(self, limits: Tensor, fixed: bool = False) -> dict[str, Any]:
        r"""A box as an argument of reports; its words open, or fixed at the best run's."""
        groups = [self.table.columns[name] for name in self.table.choices]
        if not groups:
            return {"bounds": limits}
        if not fixed:
            return {"space": MixedSpace(limits, one_hot=groups)}
        values = {i: [float(self.point[i])] for group in groups for i in group}
        return {"space": MixedSpace(limits, discrete_dims=values)}

    def _gap(
        self, band: MartingaleMixtureUCB, norm: float, domain: dict[str, Any]
    ) -> float:
        relaxed = band.relaxed(norm / float(band.norm_bounds[0]))
        return regret_certificate(
            relaxed, recommended=self.point, max_evaluations=_EVALUATIONS, **domain
        ).gap

    @property
    def set_delta(self) -> float:
        r"""Failure probability of the set of functions, without that of single settings."""
        return self.given.delta * (1.0 - _SHARE if _repeats(self.given) else 1.0)


def _repeats(given: Namespace) -> bool:
    r"""Whether the outcomes of a setting count by themselves: where the noise is given."""
    return given.noise_std is not None and not is_estimate(given.noise_std)


def _band(
    data: KernelRegression, norm: float, delta: float, given: Namespace
) -> MartingaleMixtureUCB:
    band = MartingaleMixtureUCB(
        data, norm_bound=norm, delta=delta, maximize=not given.minimize
    )
    if given.range is not None:
        band = band.within(*given.range)
    if not _repeats(given):
        return band
    # The k-th new setting may take a share of 1 / (k (k + 1)). A table need not be in the
    # order of its runs, so each of n settings takes the n-th's: never more than its share.
    count = len(distinct_rows(data.train_inputs)[0])
    return band.with_replicates(count * (count + 1), _SHARE)


def _limits(
    table: Table, given: dict[str, tuple[float, float]]
) -> tuple[Tensor, list[str]]:
    r"""``2 x d`` limits of the settings, and names of those whose limits were not given."""
    limits = torch.stack([table.inputs.amin(0), table.inputs.amax(0)])
    for name in table.choices:
        limits[:, table.columns[name]] = as_double([[0.0], [1.0]])
    table.check_names("--bounds", given)
    for name, ends in given.items():
        if name in table.choices:
            raise ValueError(f"--bounds names {name!r}, an input of words; leave it out.")
        low, high = limits[:, table.numbers[name]].tolist()
        lower, upper = map(float, ends)
        limits[:, table.numbers[name]] = as_double([lower, upper])
        if low < lower or high > upper:
            raise ValueError(
                f"{name} is {low:g} to {high:g} in the table, outside --bounds "
                f"{lower:g}:{upper:g}; widen them, or delete the rows."
            )
    return limits, [name for name in table.numbers if name not in given]


def _pooled(table: Table) -> tuple[EstimatedNumber, str]:
    r"""The noise scale that repeated settings show, and where it comes from."""
    try:
        (group,) = ReplicateNoise(table.inputs, table.outcomes).groups
    except InputDataError as error:
        raise InputDataError(
            "No setting was repeated with another outcome, so that the table does not show "
            "the noise; give --noise-std, by how much a repeated run differs."
        ) from error
    degrees = f"{group.degrees} degree{'' if group.degrees == 1 else 's'} of freedom"
    return EstimatedNumber(group.estimate), f"from repeated settings, {degrees}"
