r"""What a page says: runs, a band on them, and claims about the best run."""

from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel
from gpytorch.means import ConstantMean
from torch import Tensor

from kernelucb._numerics.checks import as_double
from kernelucb._numerics.digits import assumed, at_most, one_minus
from kernelucb._numerics.estimates import EstimatedNumber, remember_trained
from kernelucb.acquisition import MartingaleMixtureUCB
from kernelucb.certificates import confirmation, optimum_report, regret_certificate
from kernelucb.certificates.claims import Claim, Wording
from kernelucb.certificates.report import OptimumReport
from kernelucb.certificates.spaces import Region
from kernelucb.certificates.task import in_print
from kernelucb.diagnostics import check_consistency
from kernelucb.regression import KernelRegression
from kernelucb.regression.named import fixed_kernel, kernel_in_words, unscaled
from kernelucb.regression.pooling import pool
from kernelucb.report.table import Table, numbers, read_table, span

LENGTHS = (0.5, 0.7, 1.0, 1.4, 2.0)  # times the length scale of the kernel
_ASSUMED = 1.5  # times the least consistent norm: the norm bound where none is given
_MARGINS = (1.02, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)
_MAP_MARGINS = (1.05, 1.2, 1.5, 2.0, 3.0, 5.0)
_EVALUATIONS = 3_000  # of branch and bound, for each gap of the curve and the map
_MOST_RUNS = 20  # of a confirmation
_SPREAD = 0.05  # of the outcomes: the tolerance where none is given


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
        assumed: Sentences on what was not given.
        given: The options.
    """

    table: Table
    limits: Tensor
    regress: Callable[[float], KernelRegression]
    band: MartingaleMixtureUCB
    wording: Wording
    assumed: tuple[str, ...]
    given: Namespace

    @cached_property
    def best(self) -> int:
        r"""Place in the table of the run that is worth most at least."""
        lower, upper = self.band.relaxed().bounds(self.table.inputs)
        return int(upper.argmin() if self.given.minimize else lower.argmax())

    @property
    def point(self) -> Tensor:
        r"""``d`` coordinates of the best run."""
        return self.table.inputs[self.best]

    @property
    def norm_bound(self) -> float:
        r"""The norm bound in use, outcome units."""
        return float(self.band.norm_bounds[0])

    @cached_property
    def least_norm(self) -> float:
        r"""The least norm that explains the data, outcome units."""
        return float(self.band.relaxed().least_consistent_norm)

    @cached_property
    def tolerance(self) -> float:
        r"""A difference that does not matter, outcome units."""
        spread = float(self.table.outcomes.max() - self.table.outcomes.min())
        return self.given.tolerance or float(f"{_SPREAD * spread or 1.0:.1g}")

    @cached_property
    def baseline(self) -> Tensor | None:
        r"""``d`` coordinates of the setting to compare with."""
        found = self.table.by_name("--baseline", self.given.baseline)
        missing = [name for name in self.table.names if name not in found]
        if found and missing:
            raise ValueError(f"--baseline lacks {', '.join(missing)}; give every input.")
        text = ",".join(found[name] for name in self.table.names if found)
        return as_double(numbers("--baseline", text, "70,2")) if found else None

    @cached_property
    def report(self) -> OptimumReport:
        r"""Of the band, with the best run recommended."""
        return optimum_report(
            self.band,
            bounds=self.limits,
            recommended=self.point,
            baseline=self.baseline,
            window=self.given.window,
            threshold=self.given.threshold,
            tolerance=self.tolerance,
            reliability=self.given.reliability,
            names=self.table.names,
            outcome=self.table.outcome,
            units=self.wording.units,
            max_evaluations=6 * _EVALUATIONS,
        )

    @property
    def claims(self) -> list[Claim]:
        r"""The band's own claims about the best run."""
        return [claim for claim in self.report.claims[1:] if not claim.status]

    @property
    def measured(self) -> list[Claim]:
        r"""Claims that rest on how often such claims were true on other problems."""
        return [claim for claim in self.report.claims if claim.status]

    @cached_property
    def curve(self) -> tuple[tuple[float, float, float], ...]:
        r"""Norm bound, gap in the window and gap anywhere, outcome units."""
        used = self.norm_bound
        norms = [margin * (self.least_norm or used) for margin in _MARGINS]
        rows = [
            (norm, self._gap(self.band, norm, self.near), self._gap(self.band, norm))
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
        delta = self.given.delta / len(LENGTHS)
        states = map(self.regress, LENGTHS)
        bands = [_band(state, self.norm_bound, delta, self.given) for state in states]
        least = [float(band.relaxed().least_consistent_norm) for band in bands]
        norms = [margin * (self.least_norm or self.norm_bound) for margin in _MAP_MARGINS]
        cells = (
            tuple(
                self._gap(band, norm, self.near) if norm > low else None
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

    def _gap(
        self, band: MartingaleMixtureUCB, norm: float, box: Tensor | None = None
    ) -> float:
        relaxed = band.relaxed(norm / float(band.norm_bounds[0]))
        return regret_certificate(
            relaxed,
            bounds=self.limits if box is None else box,
            recommended=self.point,
            max_evaluations=_EVALUATIONS,
        ).gap

    # Sentences.

    @property
    def opening(self) -> Iterator[str]:
        r"""The best run and its interval, after what the data contradict."""
        outcomes, value = self.table.outcomes, self.wording.value
        if self.band.assumptions.violated:
            yield f"The data contradict what was given: {self.consistency}"
        sides = self.wording.interval(*self.report.claims[0].numbers)
        yield (
            f"Best run: row {self.best + 1}, {self.wording.point(self.point)}. Observed: "
            f"{value(float(outcomes[self.best]))}. Without noise, {self.table.outcome} "
            f"there is {sides}."
        )
        top = int(outcomes.argmin() if self.given.minimize else outcomes.argmax())
        if outcomes[top] != outcomes[self.best]:
            seen = value(float(outcomes[top]))
            yield f"Row {top + 1} has the best outcome, {seen}, but less is certain there."

    @property
    def basis(self) -> Iterator[str]:
        r"""Which norm bound the claims are at, and what does without one."""
        source = "as given"
        if self.given.norm_bound is None:
            source = f"{_ASSUMED:g} times the least that explains the data: no bound was "
            source += "given, and nothing certifies this one"
        change = self.wording.value(at_most(self._change()))
        yield (
            f"Claims are at a norm bound of {assumed(self.norm_bound)}, {source}. It "
            f"allows changes of up to {change} over a tenth of an input's range."
        )
        others = [name for name in self.band.assumptions.estimated if name != "norm"]
        but = f", were {' and '.join(others)} given before the data" if others else ""
        yield (
            "What would have to be wrong needs no norm bound: with probability "
            f"{one_minus(self.given.delta)} all of these sentences hold together{but}."
        )

    def _change(self) -> float:
        r"""By how much a function can change over a tenth of an input's range."""
        middle, steps = self.limits.mean(0), 0.1 * (self.limits[1] - self.limits[0]).diag()
        prior = self.band.regression.prior
        similar = float(prior.covariance(middle.unsqueeze(0), middle + steps).min())
        return self.norm_bound * (2.0 - 2.0 * similar) ** 0.5

    @property
    def consistency(self) -> str:
        r"""Whether the data contradict the assumptions."""
        norm = self.given.norm_bound or self.norm_bound
        found = check_consistency(self.regress(1.0), norm, delta=self.given.delta)
        if self.given.norm_bound is None and found.consistent:
            least = at_most(found.least_consistent_norm)
            return (
                f"No contradiction: functions of norm {least} explain the data. Without a "
                "norm bound only the noise scale could have been contradicted."
            )
        return found.remedy

    @property
    def suggestions(self) -> Iterator[str]:
        r"""What to run next."""
        value, (lower, upper) = self.wording.value, self.report.claims[0].numbers
        widths = {count: self._half_width(count) for count in range(2, _MOST_RUNS + 1)}
        enough = [count for count in widths if widths[count] <= self.tolerance]
        count, half = min(enough, default=5), 0.5 * (upper - lower)
        if widths[count] < half:
            also = " The same of the baseline." if self.baseline is not None else ""
            yield (
                f"Repeat the best run {count} times: that gives its value within "
                f"{value(at_most(widths[count]))}, whatever the kernel and the norm (now: "
                f"{value(at_most(half))}).{also}"
            )
        if self.report.gap > self.tolerance:
            region = Region.of(self.limits)
            there = in_print(self.report.certificate.challenger, region)
            gap = value(at_most(self.report.gap))
            yield f"Run {self.wording.point(there)}: it may still be better by {gap}."
        else:
            yield f"No other setting may be better by more than {value(self.tolerance)}."

    def _half_width(self, count: int) -> float:
        noise = float(self.band.regression.noise_scales.max())
        delta = self.given.delta
        return confirmation(
            [0.0] * count, noise_std=noise, delta=delta, expected_runs=count
        ).upper

    @property
    def assumptions(self) -> Iterator[tuple[str, str]]:
        r"""All that the claims rest on: status and sentence."""
        kernel = kernel_in_words(self.band.regression.prior.covar_module)
        for item in self.band.assumptions.items:
            which = f": {kernel}" if item.name == "kernel" else ""
            yield item.status.value, f"{item.statement}{which}"
        for sentence in self.assumed:
            yield "not given", sentence


def study_of(given: Namespace) -> Study:
    r"""The study that the options ask for.

    Raises:
        InputDataError: If the table is none; the message says what to change.
        ValueError: If an option does not fit the table.
    """
    inputs = None if given.inputs is None else [*map(str.strip, given.inputs.split(","))]
    table = read_table(Path(given.table), given.outcome, inputs)
    limits, assumed = _limits(table, given.bounds)
    shares = as_double(numbers("--lengthscale", given.lengthscale, "0.5,1"))
    if len(shares) not in (1, len(table.names)):
        count = len(table.names)
        raise ValueError(f"--lengthscale has {len(shares)} entries for {count} inputs.")
    lengths, fixed = shares * (limits[1] - limits[0]), not assumed
    noise = given.noise_std
    if noise is None:
        noise, sentence = _pooled(table)
        assumed.append(sentence)
    mean, sentence = _mean(table, given)
    assumed += [sentence] if sentence else []
    if table.unused:
        assumed.append(f"columns that are not used: {', '.join(table.unused)}")

    def regress(factor: float) -> KernelRegression:
        kernel: Kernel = fixed_kernel(given.kernel, factor * lengths, 1.0)
        if not fixed:  # their unit is the box, which is taken from the table
            remember_trained(unscaled(kernel), frozenset({"raw_lengthscale"}))
        return KernelRegression(table.inputs, table.outcomes, kernel, noise, mean)

    norm = given.norm_bound
    if norm is None:
        least = _band(regress(1.0), 1.0, given.delta, given).least_consistent_norm
        if not least < float("inf"):
            raise ValueError(
                "No function explains the data at this noise; give a larger --noise-std."
            )
        norm = EstimatedNumber(_ASSUMED * float(least) or float(table.outcomes.std()))
    band = _band(regress(1.0), norm, given.delta, given)
    units = table.by_name("--units", given.units)
    wording = Wording(table.names, table.outcome, units)
    return Study(table, limits, regress, band, wording, tuple(assumed), given)


def _band(
    data: KernelRegression, norm: float, delta: float, given: Namespace
) -> MartingaleMixtureUCB:
    band = MartingaleMixtureUCB(
        data, norm_bound=norm, delta=delta, maximize=not given.minimize
    )
    return band if given.range is None else band.within(*span("--range", given.range))


def _limits(table: Table, given: str | None) -> tuple[Tensor, list[str]]:
    r"""``2 x d`` limits of the settings, and sentences on those that were not given."""
    limits = torch.stack([table.inputs.amin(0), table.inputs.amax(0)])
    found, assumed = table.by_name("--bounds", given), list[str]()
    for column, name in enumerate(table.names):
        low, high = limits[:, column].tolist()
        if name not in found:
            assumed.append(f"--bounds: {name} {low:g} to {high:g}, as in the table")
            continue
        limits[:, column] = as_double(span("--bounds", found[name]))
        if low < limits[0, column] or high > limits[1, column]:
            raise ValueError(
                f"{name} is {low:g} to {high:g} in the table, outside --bounds "
                f"{found[name]}; widen them, or delete the rows."
            )
    return limits, assumed


def _pooled(table: Table) -> tuple[EstimatedNumber, str]:
    r"""The noise scale that repeated settings show, and a sentence that says so."""
    pooled = pool(table.inputs, table.outcomes, torch.ones_like(table.outcomes))
    freedom = len(table.outcomes) - len(pooled.inputs)
    scale = 0.0 if pooled.scatter is None else float(pooled.scatter / freedom) ** 0.5
    if scale == 0.0:
        raise InputDataError(
            "No setting was repeated with another outcome, so that the table does not show "
            "the noise; give --noise-std, by how much a repeated run differs."
        )
    text = f"--noise-std: {scale:.3g}, estimated from repeated settings ({freedom} degrees "
    return EstimatedNumber(scale), f"{text}of freedom)"


def _mean(table: Table, given: Namespace) -> tuple[ConstantMean, str]:
    r"""The mean, trainable where it comes from the outcomes, and what was not given."""
    value, text = given.mean, ""
    if value is None:
        value, where = float(table.outcomes.mean()), "the mean of the outcomes"
        if given.range is not None:
            value, where = sum(span("--range", given.range)) / 2, "the middle of the range"
        text = f"--mean: {value:.4g}, {where}"
    mean = ConstantMean().double()
    mean.initialize(constant=value)
    return mean.requires_grad_(given.mean is None and given.range is None), text
