r"""A page: runs, a band on them, the numbers that follow, their words and pictures.

``words.jinja`` has the sentences.
"""

import math
import re
import sys
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cached_property, partial
from io import BytesIO
from pathlib import Path
from textwrap import fill
from types import ModuleType
from typing import Any, TypedDict, TypeVar, cast
from warnings import catch_warnings

import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from rich.console import Console
from rich.progress import track
from scipy.special import stdtrit
from torch import Tensor

import kernelucb
from kernelucb import plotting
from kernelucb._numerics import digits, palette
from kernelucb._numerics.checks import as_double, one_of, positive_scalar
from kernelucb._numerics.estimates import Estimate, Number, is_estimate
from kernelucb.acquisition import MartingaleMixtureUCB
from kernelucb.certificates import (
    MixedSpace,
    confirmation,
    level_set,
    optimum_report,
    regret_certificate,
)
from kernelucb.certificates.claims import usual_tolerance
from kernelucb.certificates.wording import Wording
from kernelucb.certificates.words import (
    Claim,
    LevelSet,
    OptimumReport,
    RegretCertificate,
    gaps_in_words,
)
from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.confidence.band import Band
from kernelucb.confidence.noise import ReplicateNoise
from kernelucb.confidence.outcome_constraints import OutcomeConstraints
from kernelucb.confidence.tasks import NormFromTasks, norm_from_tasks
from kernelucb.data import KernelRegression
from kernelucb.data.exact import runs_by_input
from kernelucb.data.kernel_family import fixed_kernel, fixed_mean, kind_of, unscaled
from kernelucb.diagnostics import check_consistency, describe_norm_bound
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.page.table import Given, Table, earlier_tasks
from kernelucb.pairs import NARROWEST, normal_half_width

# The page says what these warnings say.
quiet: Any = partial(
    catch_warnings, action="ignore", category=InconsistentConfidenceSetWarning
)
LENGTHS = (0.5, 0.7, 1.0, 1.4, 2.0)  # times the length scale of the kernel
ASSUMED = 1.5  # times the least consistent norm: the norm bound where none is given
_KERNEL, _LENGTHSCALE = "matern52", 0.5
_MARGINS = (1.02, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)
_MAP_MARGINS = (1.05, 1.2, 1.5, 2.0, 3.0, 5.0)
_EVALUATIONS = 3_000  # of branch and bound, for each gap of the curve and the map
_LOOKS = 20  # rows of a history
_SHARE = 0.5  # of the failure probability, for settings by themselves
_LISTED = 8  # repeats of the best run, or rows that are left out
_MOST_RUNS = 20  # of a confirmation
_MOST_PAIRS = 200  # of a comparison
_ESTIMATED = {
    "kernel": "the kernel is right, although its unit was taken from the table",
    "mean": "the mean is right, although it was taken from the table",
}
_LOST = "which outcomes are missing depends on the outcomes"
_COLUMNS = 3  # of slices
_LETTERS = 24  # of words below a slice; more are upright
_UPRIGHT = 14  # letters of such a word
Of = TypeVar("Of")
_STAR: dict[str, Any] = {"marker": "*", "s": 45, "color": palette.BLACK}
_STAR |= {"zorder": 5, "clip_on": False}


def _shown(steps: Sequence[Of], what: str) -> Iterable[Of]:
    r"""The steps of longer work, with a progress bar where a terminal shows it."""
    console, hidden = Console(stderr=True), not sys.stderr.isatty()
    return track(steps, what, console=console, transient=True, disable=hidden)


class Where(TypedDict, total=False):
    r"""The settings that a certificate is about, as its arguments: one of these."""

    bounds: Tensor
    space: MixedSpace


class Page:
    r"""Report on a table of runs, in sentences and numbers.

    ``page.text`` is the text, ``page.to_html()`` the page with its pictures;
    ``page.claims`` are the claims, ``page.report`` is the ``OptimumReport`` behind them.

    Attributes:
        given: The arguments of ``report``, by name.
        table: The runs.
        limits: ``2 x d`` limits of the settings in question.
        earlier: File of the earlier tasks and its hash; empty without.
        origins: Where numbers that were not given come from, by the assumption's name.
        band: At the norm bound in use.
        wording: Names and units.
        best: Place among the runs of the one that is worth most at least.
        point: ``d`` coordinates of the best run.
        norm_given: The norm bound given, or that of the earlier tasks; None without.
        norm_bound: In use, larger where the data contradict it; outcome units. An estimate,
            as all that follow, where it comes from the table.
        least_norm: The least norm that explains the data, outcome units.
        noise: The noise scale in use, outcome units.
        tolerance: A difference that does not matter, outcome units.
        set_delta: Failure probability of the set of functions, without that of single
            settings.
    """

    def __init__(self, given: Given, table: Table) -> None:
        one_of("--effort", given.effort, "full", "quick")
        self.given, self.table, self.origins = given, table, dict[str, str]()
        self.earlier = ""
        self.limits, self._open = _limits(table, given.bounds)
        if self._open:
            where = f"shares of the table's limits of {', '.join(self._open)}"
            self.origins["kernel"] = where
        self._lengths = self._scales()
        shown = given.noise_std, given.norm_bound
        if len(table.outcomes.unique()) == 1 and None in shown:
            raise InputDataError(
                f"The outcome {table.outcome!r} is {float(table.outcomes[0]):g} in every "
                "row: that shows neither noise nor norm; give --noise-std, --norm-bound."
            )
        self._noise, self._mean = self._noise_in_use(), self._mean_in_use()
        # Where the noise is given, the outcomes of a setting count by themselves as well.
        self._repeats = not is_estimate(self._noise)
        self.set_delta = given.delta * (1.0 - _SHARE if self._repeats else 1.0)
        self.norm_given, self._norm = self._norm_in_question()
        table.check_names("--units", given.units.keys() - {table.outcome})
        self.given = given = replace(given, units={**table.units, **given.units})
        names = tuple(table.labels), table.outcome
        self.wording = Wording(*names, given.units, table, table.whole)
        self.band = self._band(self._norm, given.delta)
        self._relaxed = relaxed = self.band.relaxed()
        self.best = self._best(relaxed)
        self.point = table.inputs[self.best]
        (self.norm_bound,) = relaxed.norm_bounds
        self.least_norm = _least_norm(relaxed)
        self.noise = cast(Number, self.band.noise_scale)
        spread = float(table.outcomes.max() - table.outcomes.min())
        small = Estimate(float(f"{usual_tolerance(spread, self.noise):.1g}"))
        self.tolerance = small if given.tolerance is None else given.tolerance
        positive_scalar("--tolerance", self.tolerance)

    def _scales(self) -> Tensor | Estimate:
        r"""The length scale of each column; an estimate if the table gave its limits."""
        share, table = self.given.lengthscale, self.table
        shares = as_double(_LENGTHSCALE if share is None else share).reshape(-1)
        n, lengths = len(table.columns), self.limits[1] - self.limits[0]
        if len(shares) not in (1, n):
            raise ValueError(f"--lengthscale has {len(shares)} entries for {n} inputs.")
        for each, at in zip(shares.expand(n), table.columns.values(), strict=True):
            lengths[at] *= each
        return Estimate(lengths) if self._open else lengths

    def _noise_in_use(self) -> Number:
        r"""The noise scale that was given, or that the table shows."""
        if self.given.noise_std is not None:
            return self.given.noise_std
        noise, self.origins["noise"] = _pooled(self.table)
        return noise

    def _mean_in_use(self) -> Number:
        r"""The mean that was given, the middle of the range, or that of the outcomes."""
        mean, ends = self.given.mean, self.given.range
        if mean is not None:
            return mean
        if ends and math.isfinite(sum(ends)):
            self.origins["mean"] = "the middle of --range"
            return sum(ends) / 2
        self.origins["mean"] = "the mean of the outcomes"
        return Estimate(float(self.table.outcomes.mean()))

    def _norm_in_question(self) -> tuple[Number | None, Number | NormFromTasks]:
        r"""The norm bound that was given, and what the band is made with."""
        given, table, norm = self.given, self.table, self.given.norm_bound
        if given.earlier is not None:
            if norm is not None:
                raise ValueError("Give --norm-bound or --earlier, not both.")
            tasks, self.earlier = earlier_tasks(given, given.earlier, table)
            kernel, here = self._kernel(), table.inputs  # the points of this task
            largest = norm_from_tasks(tasks, kernel, self._mean, points=here)
            if (failure := largest.failure_probability) >= self.set_delta:
                least = failure * given.delta / self.set_delta
                raise ValueError(
                    f"The largest norm of {len(tasks)} tasks fails with probability up to "
                    f"{failure:.4g}, more than --delta leaves for it: give --delta above "
                    f"{least:.4g}, or {int(1.0 / self.set_delta)} tasks or more."
                )
            return largest.norm_bound, largest
        if norm is not None:
            return norm, norm
        least = _least_norm(self._band(1.0, given.delta))
        if not math.isfinite(least):
            message = "No function explains the data at this noise; give a larger"
            raise ValueError(f"{message} --noise-std.")
        return None, ASSUMED * least or Estimate(float(table.outcomes.std()))

    def _best(self, band: Band) -> int:
        r"""Place of the run within the limits that is worth most at least."""
        X = band.data.train_inputs
        outside = ~_within(X, self.limits)
        return int(band.at_worst(X).masked_fill(outside, -math.inf).argmax())

    def _kernel(self, factor: float = 1.0) -> Kernel:
        r"""The kernel with its length scales times a factor."""
        return fixed_kernel(self.given.kernel or _KERNEL, factor * self._lengths, 1.0)

    def regress(self, factor: float = 1.0, rows: int | None = None) -> KernelRegression:
        r"""The runs, all or the first rows, under that kernel."""
        runs = self.table.inputs[:rows], self.table.outcomes[:rows]
        kernel = self._kernel(factor)
        return KernelRegression(*runs, kernel, self._noise, fixed_mean(self._mean))

    def _band(
        self,
        norm: Number | NormFromTasks,
        delta: float,
        factor: float = 1.0,
        rows: int | None = None,
    ) -> Band:
        given, data = self.given, self.regress(factor, rows)
        large = not given.minimize
        band = MartingaleMixtureUCB(data, norm_bound=norm, delta=delta, maximize=large).band
        if given.range is not None:
            band = band.within(*given.range)
        if self.table.lost:
            statement = f"{_LOST}, which were {listed(dict.fromkeys(self.table.lost))}"
            flaw = Assumption("outcomes", statement, Status.VIOLATED)
            band = (band.plain or band).limited(
                band.sources, (*band.flaws, flaw), band.direction
            )
        if not self._repeats:
            return band
        # The k-th new setting may take a share of 1 / (k (k + 1)). A table need not be in
        # the order of its runs, so each of n settings takes the n-th's: never more than its
        # share.
        count = len(data.distinct_inputs)
        return band.with_replicates(count * (count + 1), _SHARE)

    @property
    def assumptions(self) -> Assumptions:
        r"""What the claims rest on, which are about all settings in question."""
        return self.report.certificate.assumptions

    @cached_property
    def report(self) -> OptimumReport:
        r"""Report of the band, with the best run recommended."""
        given, baseline = self.given, None
        if given.baseline:
            baseline = self.table.setting("--baseline", given.baseline)
        return optimum_report(
            self.band,
            **self._domain(),
            recommended=self.point,
            baseline=baseline,
            window=given.window,
            threshold=given.threshold,
            tolerance=self.tolerance,
            wording=self.wording,
            max_evaluations=6 * _EVALUATIONS,
        )

    @cached_property
    def rival(self) -> Tensor | None:
        r"""``d`` coordinates of the baseline, or of the next best of the other settings."""
        if self.given.baseline:
            return self.table.setting("--baseline", self.given.baseline)
        inputs = self.table.inputs
        differs = (inputs != self.point).any(-1)
        others = inputs[differs & _within(inputs, self.limits)]
        return others[self._relaxed.at_worst(others).argmax()] if len(others) else None

    @property
    def lead(self) -> tuple[float, float]:
        r"""By how much the best run is better than the ``rival`` at least, and at most."""
        assert self.rival is not None
        best, rival = self.point.unsqueeze(0), self.rival.unsqueeze(0)
        gain, sign = self._relaxed.max_gain_over, self._relaxed.direction
        least = -float(gain(rival, best, sign))
        return least, max(least, float(gain(best, rival, sign)))

    @property
    def half_width(self) -> float:
        r"""Half-width of the interval for the best run, outcome units."""
        lower, upper = self._relaxed.bounds(self.point.unsqueeze(0))
        return 0.5 * float(upper - lower)

    @property
    def claims(self) -> list[Claim]:
        r"""Claims about the best run, the firmest first."""
        return list(self.report.claims[1:])

    @cached_property
    def level_set(self) -> LevelSet | None:
        r"""Where the outcome keeps the threshold; None without one."""
        if self.given.threshold is None:
            return None
        limits = OutcomeConstraints(
            self.band.relaxed(),
            self.given.threshold,
            sides="<=" if self.given.minimize else ">=",
            names=[self.table.outcome],
        )
        return level_set(
            limits,
            **self._domain(),
            wording=self.wording,
            max_evaluations=2 * _EVALUATIONS,
        )

    @cached_property
    def curve(self) -> list[tuple[Number, ...]]:
        r"""Norm bound, gap in the window and gap anywhere, outcome units."""
        used, domains = self.norm_bound, (self._domain(near=True), self._domain())
        norms = [margin * (self.least_norm or used) for margin in _MARGINS]
        norms = [norm for norm in norms if not 0.99 * used <= norm <= 1.01 * used]
        tried = _shown(norms, "gap over norm bounds")
        rows = [(norm, *(self._gap(self.band, norm, d) for d in domains)) for norm in tried]
        if used > self.least_norm:  # as the claims say it
            claimed = {claim.kind: claim.numbers[0] for claim in self.claims}
            rows.append((used, claimed["window"], claimed["anywhere"]))
        return sorted(rows)

    @cached_property
    def history(self) -> dict[int, RegretCertificate]:
        r"""By the number of a row, the certificate of the rows up to it.

        The best of these runs is recommended; kernel, mean, noise and norm bound are those
        of the whole table. At most 20 rows, evenly spaced, the last among them.
        """
        found, numbers = dict[int, RegretCertificate](), self.table.rows
        most = min(len(numbers), _LOOKS)
        first = int(_within(self.table.inputs, self.limits).int().argmax()) + 1
        counts = (len(numbers) * (look + 1) // most for look in range(most))
        for count in _shown([n for n in counts if n >= first], "gap after each row"):
            band = self._band(self._norm, self.given.delta, rows=count).relaxed()
            found[numbers[count - 1]] = regret_certificate(
                band,
                **self._domain(),
                recommended=self.table.inputs[self._best(band)],
                max_evaluations=6 * _EVALUATIONS,
            )
        return found

    @cached_property
    def map(self) -> list[tuple[Number, list[float | None]]]:
        r"""Norm bounds, each with the gap in the window at each length scale.

        None where no function explains the data.
        """
        delta = self.given.delta / len(LENGTHS)
        bands = [self._band(self.norm_bound, delta, factor) for factor in LENGTHS]
        least = [_least_norm(band.relaxed()) for band in bands]
        near = self._domain(near=True)
        rows = list[tuple[Number, list[float | None]]]()
        for margin in _shown(_MAP_MARGINS, "gap over length scales"):
            norm = margin * (self.least_norm or self.norm_bound)
            pairs = zip(bands, least, strict=True)
            gaps = [self._gap(b, norm, near) if norm > low else None for b, low in pairs]
            rows.append((norm, gaps))
        return rows

    def _domain(self, near: bool = False) -> Where:
        r"""All settings in question, or those near the best run with its words.

        As an argument of reports.
        """
        groups = [self.table.columns[name] for name in self.table.choices]
        ends = self.limits
        if near:
            room = self.given.window * (ends[1] - ends[0])
            ends = torch.stack([self.point - room, self.point + room]).clamp(*ends)
        if not groups:
            return {"bounds": ends}
        values = {i: [float(self.point[i])] for group in groups for i in group}
        if near:
            return {"space": MixedSpace(ends, discrete_dims=values)}
        return {"space": MixedSpace(ends, one_hot=groups)}

    def _gap(self, band: Band, norm: Number, domain: Where) -> float:
        relaxed = band.relaxed(float(norm) / float(band.norm_bounds[0]))
        return regret_certificate(
            relaxed, recommended=self.point, max_evaluations=_EVALUATIONS, **domain
        ).gap

    @cached_property
    def text(self) -> str:
        r"""The page as lines of text."""
        return self._rendered("page.txt")

    def __str__(self) -> str:
        return self.text

    def to_html(self) -> str:
        r"""The page as HTML with its pictures in it; for these Matplotlib is needed."""
        return self._rendered("page.html")

    def _rendered(self, template: str) -> str:
        environment = Environment(
            loader=FileSystemLoader(Path(__file__).parent),
            autoescape=template.endswith(".html"),
            undefined=StrictUndefined,
            trim_blocks=True,
        )
        environment.globals |= _CALLED
        with quiet():
            return environment.get_template(template).render(page=self, **self._facts)

    @cached_property
    def _facts(self) -> dict[str, Any]:
        return facts(self)


def _least_norm(band: Band) -> Estimate:
    r"""The least norm that explains the data of a band, outcome units."""
    return band.least_norm_factor * band.norm_bounds[0]


def _within(X: Tensor, limits: Tensor) -> Tensor:
    r"""Which of ``n x d`` settings lie in a box."""
    return ((limits[0] <= X) & (limits[1] >= X)).all(-1)


def _limits(
    table: Table, given: Mapping[str, tuple[float, float]]
) -> tuple[Tensor, list[str]]:
    r"""``2 x d`` limits of the settings, and names of those whose limits were not given."""
    limits = torch.stack([table.inputs.amin(0), table.inputs.amax(0)])
    for name in table.choices:
        limits[:, table.columns[name]] = as_double([[0.0], [1.0]])
    table.check_names("--bounds", given)
    for name, ends in given.items():
        if name in table.choices:
            raise ValueError(f"--bounds names {name!r}, an input of words; leave it out.")
        limits[:, table.numbers[name]] = as_double([*map(float, ends)])
    if not bool(_within(table.inputs, limits).any()):
        raise ValueError("No run lies within --bounds, so that none can be the best there.")
    return limits, [name for name in table.numbers if name not in given]


def _pooled(table: Table) -> tuple[Estimate, str]:
    r"""The noise scale that repeated settings show, and where it comes from."""
    try:
        (group,) = ReplicateNoise(table.inputs, table.outcomes).groups
    except InputDataError as error:
        raise InputDataError(
            "No setting was repeated with another outcome, so that the table does not show "
            "the noise; give --noise-std, by how much a repeated run differs."
        ) from error
    degrees = f"{group.degrees} degree{'' if group.degrees == 1 else 's'} of freedom"
    return group.estimate, f"from repeated settings, {degrees}"


def _alone(outcomes: Tensor, delta: float) -> tuple[float, float] | None:
    r"""The t interval of a setting's own outcomes; None of one, or where they are equal."""
    if len(outcomes) < 2 or not float(outcomes.std()):
        return None
    scale = float(outcomes.std()) / math.sqrt(len(outcomes))
    low, high = stdtrit(len(outcomes) - 1, [0.5 * delta, 1.0 - 0.5 * delta])
    mean = float(outcomes.mean())
    return mean + scale * float(low), mean + scale * float(high)


def _pairs_to_show(page: Page, lead: tuple[float, float]) -> int | None:
    r"""About how many pairs show that the best run is better; None if many, or shown."""
    expected, delta = 0.5 * sum(lead), page.given.delta
    if lead[0] > 0.0 or expected <= 0.0:
        return None
    scale = math.sqrt(2.0) * float(page.noise)
    for count in range(2, _MOST_PAIRS + 1):
        half = scale * normal_half_width((count,), delta, NARROWEST / count)
        if half < expected:
            return count
    return None


def _compare(page: Page, pairs: int | None) -> str:
    r"""The command for so many pairs, with what the page was given."""
    given = {"noise-std": f"{float(page.noise):.2g}", "expected-runs": pairs}
    if page.given.delta != 0.05:  # the default of confirm
        given["delta"] = f"{page.given.delta:g}"
    told = " ".join(f"--{name} {value}" for name, value in given.items())
    less = " --minimize" * page.given.minimize
    return f"python -m kernelucb confirm pairs.csv {told}{less}"


def coded(sentence: Markup) -> Markup:
    r"""A sentence with what stands between backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(sentence)))


def _is_share(page: Page) -> bool:
    r"""Whether the outcome is in per cent of a whole, or so it seems."""
    name, outcomes = page.wording.label(page.table.outcome), page.table.outcomes
    said = "%" in name or "percent" in name.lower().replace(" ", "")
    return said and bool(((outcomes >= 0.0) & (outcomes <= 100.0)).all())


def facts(page: Page) -> dict[str, Any]:
    r"""Numbers of the sentences, by their names in the templates."""
    table, outcomes, rests = page.table, page.table.outcomes, page.assumptions
    spread = float(outcomes.max() - outcomes.min())
    here = (table.inputs == page.point).all(-1).nonzero().flatten().tolist()
    top = int(outcomes.argmin() if page.given.minimize else outcomes.argmax())
    described = describe_norm_bound(page.regress(), page.norm_bound, bounds=page.limits)
    steps = [described.inputs[i].over_step for i in table.numbers.values()]
    norm = page.norm_given or page.norm_bound
    found = check_consistency(page.regress(), norm, delta=page.set_delta)
    wrong = {i.name: f"{i.statement}." for i in rests.items if i.status is Status.VIOLATED}
    if not found.consistent:  # the remedy speaks of norm and noise
        wrong = {"fit": found.remedy} | wrong
        wrong = {n: text for n, text in wrong.items() if n not in ("norm", "noise")}
    planned: dict[str, Any] = {"noise_std": page.noise, "delta": page.given.delta}
    widths = {
        count: confirmation([0.0] * count, expected_runs=count, **planned).upper
        for count in range(2, _MOST_RUNS + 1)
    }
    enough = [count for count in widths if widths[count] <= page.tolerance]
    count, best = min(enough, default=5), page.report.claims[:1]
    lower, upper = best[0].numbers if best else (math.nan, math.nan)  # contradicted
    # To few digits: the gap is at least what any setting may be better by.
    ends = zip(page.report.certificate.challenger, page.limits.diff(dim=0)[0], strict=True)
    challenger = as_double([float(plain(float(x), 10.0 * float(w))) for x, w in ends])
    whole = [table.numbers[name] for name in table.whole]
    challenger[whole] = challenger[whole].round()
    lead = None if page.rival is None or rests.violated else page.lead
    sharper, told = None, float(f"{float(page.noise):.2g}")
    if is_estimate(page.noise) and not rests.violated:
        with quiet():
            sharper = Page(replace(page.given, noise_std=told), table).half_width
    room = math.inf
    if page.given.range is None and _is_share(page):
        room = lower if page.given.minimize else 100.0 - lower
    pairs = None if lead is None else _pairs_to_show(page, lead)
    return {
        "alone": _alone(outcomes[here], page.given.delta),
        "lead": lead,
        "pairs": pairs,
        "compare": _compare(page, pairs),
        "sharper": sharper,
        "told": told,
        "room": room,
        "here": [table.rows[i] for i in here],
        "seen": [plain(float(outcomes[i]), spread) for i in here],
        "sides": (lower, upper),
        "top": table.rows[top],
        "top_outcome": plain(float(outcomes[top]), spread),
        "over_step": max(steps, default=None),
        "found": found,
        "wrong": [*wrong.values()],
        "count": count,
        "width": widths[count],
        "half": 0.5 * (upper - lower),
        "challenger": challenger.clamp(*page.limits),
        "read": _read(page),
        "rests_on": [*_rests_on(page)],
        "looks": gaps_in_words([*page.history.values()]) if page.given.history else "",
    }


def _read(page: Page) -> dict[str, str]:
    r"""Parts of the table that were read, used and left out, by name."""
    table, wording, inputs = page.table, page.wording, list[str]()
    rows = f"{len(table.rows)} of {len(table.rows) + len(table.unused_rows)} used"
    for why in dict.fromkeys(table.unused_rows.values()):
        which = [row for row, reason in table.unused_rows.items() if reason == why]
        rows += f"; not {'row' if len(which) == 1 else 'rows'} {listed(which)}: {why}"
    ends = torch.stack([*table.inputs.aminmax(dim=0), *page.limits]).mT.tolist()
    for name, at in table.columns.items():
        if name in table.choices:
            inputs.append(f"{name}: {', '.join(table.choices[name])}")
            continue
        wide = ends[at[0]][3] - ends[at[0]][2]
        least, most, lower, upper = (plain(number, wide) for number in ends[at[0]])
        asked = f" (asked about {lower} to {upper})"
        asked = "" if (least, most) == (lower, upper) else asked
        shown = wording.short(name)
        inputs.append(f"{shown} {least} to {wording.value(most, name)}{asked}")
    left_out = [f"{name} ({why})" for name, why in table.left_out.items()]
    runs = runs_by_input(table.inputs, table.outcomes).precision
    several, most = int((runs > 1.0).sum()), int(runs.max())
    often = f"{several} of them run more than once, up to {most} times"
    low, high = map(float, table.outcomes.aminmax())
    low, high = plain(low, high - low), wording.value(plain(high, high - low))
    outcome = f"{wording.short(table.outcome)} {low} to {high}, to be "
    read = {
        "table": table.origin,
        "rows": f"{rows} (row 1 is the header)",
        "inputs": "; ".join(inputs),
        "settings": f"{len(runs)} different, {often if several else 'each run once'}",
        "outcome": outcome + ("small" if page.given.minimize else "large"),
        "left out": "; ".join(left_out) or "no column",
        "earlier": page.earlier,
        "made": f"{date.today().isoformat()} by kernelucb {kernelucb.__version__}",
    }
    return {name: text for name, text in read.items() if text}


def _rests_on(page: Page) -> Iterator[tuple[str, str, str]]:
    r"""All that the claims rest on: whose word it is, its name, and the sentence."""
    prior, value, outcomes = page.band.data.prior, page.wording.value, page.table.outcomes
    base: Any = unscaled(prior.covar_module)
    lengths = base.lengthscale.expand(1, page.table.inputs.shape[1])[0].tolist()
    shown = [
        f"{page.wording.short(name)} {value(f'{lengths[at[0]]:.6g}', name)}"
        for name, at in page.table.columns.items()
    ]
    rests = page.assumptions
    # An estimated mean has as many digits as the outcomes.
    is_estimated = rests["mean"].status is Status.ESTIMATED
    spread = float(outcomes.max() - outcomes.min()) if is_estimated else 0.0
    values = {
        "kernel": f"{kind_of(base)}, length scales {', '.join(shown)}",
        "mean": value(plain(float(prior.mean(page.point.unsqueeze(0))), spread)),
    }
    chosen = page.given.kernel is not None and page.given.lengthscale is not None
    defaults = page.origins.keys() | (set() if chosen else {"kernel"})
    for item in rests.items:
        label, text = str(item.status.value), item.text
        if item.name == "replicates":  # no assumption, as the settings are counted
            label = "method"
            text = "the outcomes of a setting count by themselves as well, for half of"
            text += " the failure probability"
        elif item.status is Status.ESTIMATED:
            text = _ESTIMATED.get(item.name, text)
        elif item.status is Status.GIVEN and item.name == "outcomes":
            label = "assumed"
        elif item.status is Status.GIVEN and item.name in defaults:
            label = "default"  # "given" is only what was given with this table
        # With the names and units of the table.
        own = values.get(item.name) or item.detail()
        remark = ", ".join(filter(None, [own, page.origins.get(item.name)]))
        said = replace(item, text=text, detail=partial(str, remark))
        yield label, item.name, said.statement


def paragraph(text: str, indent: str = "") -> str:
    r"""A text in lines, those after the first indented as well."""
    options: dict[str, Any] = {"subsequent_indent": " " * len(indent)}
    options |= {"break_on_hyphens": False}  # an option stays in one line
    return fill(text.strip(), 92, initial_indent=indent, **options)


def paragraphs(text: str) -> list[str]:
    r"""The paragraphs of a text between blank lines, each in one line."""
    found = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text)]
    return [type(text)(part) for part in found if part]  # what is escaped stays so


def plain(number: float, width: float = 0.0) -> str:
    r"""A number as a person writes it: as given, or to 1/10,000 of a ``width``."""
    if width > 0.0:
        number = round(number, 4 - math.floor(math.log10(width)))
    return digits.as_given(number)


def listed(values: Iterable[object]) -> str:
    r"""The first few values, and how many more there are."""
    texts = [*map(str, values)]
    more = f" and {len(texts) - _LISTED} more" if len(texts) > _LISTED else ""
    return f"{', '.join(texts[:_LISTED])}{more}"


def pictures_of(page: Page) -> dict[str, str]:
    r"""The curve of the gap over the norm bound, and slices through the best run."""
    plt, found = plotting.load_pyplot(), dict[str, str]()
    drawn = {"slices": _slices}
    if page.given.effort == "full":
        drawn["curve"] = _curve
    if page.given.history:
        drawn["history"] = _history
    sizes = {"font.size": 8, "axes.labelsize": 8, "legend.fontsize": 7.5}
    with plt.rc_context(plotting.RC | sizes):
        for name, draw in drawn.items():
            figure, buffer = draw(plt, page), BytesIO()
            # Without a date the same runs give the same page.
            figure.savefig(buffer, format="svg", metadata={"Date": None})
            plt.close(figure)
            address = b64encode(buffer.getvalue()).decode()
            found[name] = f"data:image/svg+xml;base64,{address}"
    return found


# What the templates call, by its name.
_CALLED: dict[str, Any] = {
    "ASSUMED": ASSUMED,
    "LENGTHS": LENGTHS,
    "assumed": digits.assumed,
    "coded": coded,
    "at_least": digits.at_least,
    "at_most": digits.at_most,
    "listed": listed,
    "one_minus": digits.one_minus,
    "paragraph": paragraph,
    "paragraphs": paragraphs,
    "pictures": pictures_of,
    "plain": plain,
}


def _curve(plt: ModuleType, page: Page) -> Any:
    figure, ax = plt.subplots(figsize=(3.55, 2.8), layout="constrained")
    norms, near, anywhere = ([*map(float, each)] for each in zip(*page.curve, strict=True))
    ax.plot(norms, anywhere, color=palette.BLUE, marker="o", ms=3, label="anywhere")
    ax.plot(norms, near, color=palette.ORANGE, marker="s", ms=3, label="near the best run")
    ax.axhline(float(page.tolerance), color=palette.GREEN, ls=":", label="tolerance")
    if page.least_norm > 0.0:
        ax.axvline(float(page.least_norm), color=palette.GREY, lw=1, label="least norm")
    style: dict[str, Any] = {"color": palette.SOUGHT, "ls": "--", "lw": 1}
    ax.axvline(float(page.norm_bound), label="norm bound in use", **style)
    outcome = page.wording.label(page.table.outcome)
    top = min(1.05 * max(anywhere), 5.0 * page.report.gap + float(page.tolerance))
    ax.set(xscale="log", ylim=(0, top), xlabel="norm bound", ylabel=f"gap, {outcome}")
    first = float(page.least_norm) or norms[0]
    ticks = [first * factor for factor in (1, 2, 5, 10, 20) if first * factor <= norms[-1]]
    ax.set_xticks(ticks, map(digits.at_least, ticks))
    ax.minorticks_off()
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def _history(plt: ModuleType, page: Page) -> Any:
    figure, ax = plt.subplots(figsize=(3.55, 2.3), layout="constrained")
    looks, label = page.history, f"gap, {page.wording.label(page.table.outcome)}"
    plotting.plot_gap(
        [*looks.values()], rounds=[*looks], x_label="row", y_label=label, ax=ax
    )
    ax.get_legend().remove()
    figure.legend(loc="outside upper center")
    return figure


def _slices(plt: ModuleType, page: Page) -> Any:
    table, seen = page.table, float(page.table.outcomes[page.best])
    rows = math.ceil(len(table.columns) / _COLUMNS)
    columns = math.ceil(len(table.columns) / rows)
    is_long = {n: len("".join(words)) > _LETTERS for n, words in table.choices.items()}
    height = rows * (2.8 if any(is_long.values()) else 1.95) + 0.25
    shape: dict[str, Any] = {"figsize": (7.2, height), "layout": "constrained"}
    figure, axes = plt.subplots(rows, columns, sharey=True, squeeze=False, **shape)
    entries: dict[str, Any] = {}
    for ax, (name, at) in zip(axes.flat, table.columns.items(), strict=False):
        here = float(page.point[at[0]])
        if name in table.choices:  # the band at each word
            words, points = table.choices[name], page.point.repeat(len(at), 1)
            points[:, at] = torch.eye(len(at), dtype=points.dtype)
            lower, upper = (side.tolist() for side in page.band.bounds(points))
            ax.vlines(range(len(at)), lower, upper, color=palette.BLUE, lw=6, alpha=0.4)
            if is_long[name]:
                words = [
                    w if len(w) <= _UPRIGHT else f"{w[: _UPRIGHT - 1]}…" for w in words
                ]
            ax.set_xticks(range(len(at)), words, rotation=90 if is_long[name] else 0)
            ax.set_xlim(-0.5, len(at) - 0.5)
            here = float(page.point[at].argmax())
        else:
            plotting.plot_bands(
                {"band": page.band},
                plotting.slice_points(page.point, at[0], *page.limits[:, at[0]].tolist()),
                coordinate=at[0],
                data=(table.inputs, table.outcomes),
                show_mean=False,
                legend=False,
                ax=ax,
            )
        ax.scatter([here], [seen], label="best run", **_STAR)
        ax.set(xlabel=page.wording.label(name), ylabel="")
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    for ax in axes[:, 0]:
        ax.set_ylabel(page.wording.label(table.outcome))
    for ax in axes.flat[len(table.columns) :]:
        ax.axis("off")
    place: dict[str, Any] = {"loc": "outside upper center", "ncols": len(entries)}
    figure.legend([*entries.values()], [*entries], **place)
    return figure
