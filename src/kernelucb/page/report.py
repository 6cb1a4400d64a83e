r"""The page and the text of a study, with the same numbers."""

import math
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property
from pathlib import Path
from textwrap import fill
from typing import Any
from warnings import catch_warnings

import kernelucb
from kernelucb._numerics.digits import as_given, assumed, at_least, at_most, one_minus
from kernelucb.certificates import confirmation
from kernelucb.certificates.spaces import Region
from kernelucb.certificates.task import in_print
from kernelucb.certificates.words import Claim
from kernelucb.confidence.assumptions import Assumption, Status
from kernelucb.diagnostics import check_consistency, describe_norm_bound
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.page.study import ASSUMED, LENGTHS, Study
from kernelucb.regression.named import kind_of, unscaled

_WIDTH = 92
_LISTED = 8  # repeats of the best run, or rows that are left out
_MOST_RUNS = 20  # of a confirmation
_MARGIN = (
    "The margin of a claim is the norm up to which it stands, over the least norm that "
    "explains the data."
)
_ESTIMATED = {
    "kernel": "the kernel is right, although its unit was taken from the table",
    "mean": "the mean is right, although it was taken from the table",
}


class Page(Study):
    r"""What a table of runs supports, in sentences.

    ``page.text`` is the text, ``page.to_html()`` the page with its pictures;
    ``page.claims`` are the claims, ``page.report`` is the ``OptimumReport`` behind them.
    """

    @cached_property
    def text(self) -> str:
        r"""The page as lines of text."""
        return self._rendered("page.txt", paragraph=paragraph)

    def __str__(self) -> str:
        return self.text

    def to_html(self) -> str:
        r"""One HTML page with its pictures in it; for these Matplotlib is needed."""
        from kernelucb.page.pictures import pictures_of

        return self._rendered("page.html", pictures=pictures_of)

    def _rendered(self, template: str, **options: Any) -> str:
        try:
            from jinja2 import Environment, FileSystemLoader, StrictUndefined
        except ImportError as error:
            message = "A report needs Jinja2: pip install kernelucb[report]"
            raise ImportError(message) from error
        environment = Environment(
            loader=FileSystemLoader(Path(__file__).parent),
            autoescape=template.endswith(".html"),
            undefined=StrictUndefined,
            trim_blocks=True,
        )
        options |= {"at_least": at_least, "at_most": at_most}
        options |= {"lengths": LENGTHS, "margin": _MARGIN}
        with _quiet():
            return environment.get_template(template).render(study=self, **options)

    # Sentences.

    @property
    def title(self) -> str:
        r"""What was sought, and in how many runs."""
        label = self.wording.label(self.table.outcome)
        return f"What {len(self.table.outcomes)} runs say about {label}"

    @property
    def read(self) -> Iterator[tuple[str, str]]:
        r"""What was read, used and left out, by its name."""
        table, wording = self.table, self.wording
        yield "table", table.origin
        rows = f"{len(table.rows)} of {len(table.rows) + len(table.unused_rows)} used"
        reasons: dict[str, list[str]] = {}
        for row, why in table.unused_rows.items():
            reasons.setdefault(why, []).append(str(row))
        for why, numbers in reasons.items():
            which = "row" if len(numbers) == 1 else "rows"
            rows += f"; not {which} {_listed(numbers)}: {why}"
        yield "rows", rows
        lower, upper = (end.tolist() for end in self.limits)
        least, most = (end.tolist() for end in table.inputs.aminmax(dim=0))
        listed: list[str] = []
        for name, own in table.columns.items():
            if table.is_choice(name):
                listed.append(f"{name}: {', '.join(table.choices[name])}")
                continue
            i = own[0]
            wide = upper[i] - lower[i]
            ends = [plain(each[i], wide) for each in (least, most, lower, upper)]
            text = f"{name} {ends[0]} to {wording.value(ends[1], name)}"
            if ends[:2] != ends[2:]:
                text += f" (asked about {ends[2]} to {ends[3]})"
            listed.append(text)
        yield "inputs", "; ".join(listed)
        sought = "small" if self.given.minimize else "large"
        yield "outcome", f"{table.outcome}, to be {sought}"
        left_out = [f"{name} ({why})" for name, why in table.left_out.items()]
        yield "left out", "; ".join(left_out) or "no column"
        yield "made", f"{date.today().isoformat()} by kernelucb {kernelucb.__version__}"

    @property
    def opening(self) -> Iterator[str]:
        r"""The best run and its interval, after what the data contradict."""
        table, outcomes, value = self.table, self.table.outcomes, self.wording.value
        if self.band.assumptions.violated:
            yield f"The data contradict what was given: {self.consistency}"
        here = (table.inputs == self.point).all(-1).nonzero().flatten().tolist()
        rows = _listed(str(table.rows[i]) for i in here)
        spread = float(outcomes.max() - outcomes.min())
        seen = _listed(plain(float(outcomes[i]), spread) for i in here)
        sides = self.wording.interval(*self.report.claims[0].numbers)
        yield (
            f"Best run: {'row' if len(here) == 1 else 'rows'} {rows}, "
            f"{self.wording.point(self.point)}. Observed: {value(seen)}. Without noise, "
            f"{table.outcome} there is {sides}, {self._chance}."
        )
        top = int(outcomes.argmin() if self.given.minimize else outcomes.argmax())
        if top not in here:
            best = value(plain(float(outcomes[top]), spread))
            row = table.rows[top]
            yield f"Row {row} has the best outcome, {best}, but less is certain there."

    @property
    def _chance(self) -> str:
        r"""The probability of the band's sentences, and on which condition."""
        assumptions = self.band.assumptions
        if assumptions.violated:
            return "without any guarantee"
        chance = f"with probability {self._probability}"
        if not assumptions.estimated:
            return f"{chance} if what this page rests on is true"
        conditions = ["the norm bound is right"] if "norm" in assumptions.estimated else []
        others = [name for name in assumptions.estimated if name != "norm"]
        if others:
            conditions.append(f"{' and '.join(others)} had been given before the data")
        return f"{chance} if {' and '.join(conditions)}"

    @property
    def _probability(self) -> str:
        return one_minus(self.given.delta)

    @property
    def _norm_source(self) -> str:
        r"""Where the norm bound in use comes from."""
        given, source = self.given.norm_bound, "the standard deviation of the outcomes"
        if given is None:
            if self.least_norm > 0.0:
                source = f"{ASSUMED:g} times the least that explains the data"
            return f"{source}: no bound was given, and nothing certifies this one"
        if self.norm_bound > given:
            return f"the least that explains the data, which contradict {plain(given)}"
        if "norm" in self.band.assumptions.estimated:
            return "an estimate"
        wrong = self.band.assumptions["norm"].status is Status.VIOLATED
        return "which was given, and the data contradict it" if wrong else "as given"

    @property
    def basis(self) -> Iterator[str]:
        r"""Which norm bound the claims are at, and what does without one."""
        text = f"Claims are at a norm bound of {assumed(self.norm_bound)}, "
        text += f"{self._norm_source}."
        data, norm = self.regress(1.0), self.norm_bound
        described = describe_norm_bound(data, norm, bounds=self.limits)
        if numbers := [described.inputs[i] for i in self.table.numbers.values()]:
            most = self.wording.value(at_most(max(each.over_step for each in numbers)))
            text += f" It allows changes of up to {most} over a tenth of an input's range."
        yield text
        others = [name for name in self.band.assumptions.estimated if name != "norm"]
        but = f", were {' and '.join(others)} given before the data" if others else ""
        if self.band.assumptions.violated:
            yield "None of the following is guaranteed."
        else:
            yield (
                "What would have to be wrong needs no norm bound: with probability "
                f"{self._probability} all of these sentences hold together{but}."
            )

    def support(self, claim: Claim) -> str:
        r"""What would have to be wrong, in the words of the claim itself."""
        better = "lower" if self.given.minimize else "higher"
        # A gap is stated as "no point is higher by more than"; so is the one tested.
        return claim.support.replace("by no more than", f"none {better} by more than", 1)

    @property
    def consistency(self) -> str:
        r"""Whether the data contradict the assumptions."""
        norm = self.given.norm_bound or self.norm_bound
        found = check_consistency(self.regress(1.0), norm, delta=self.set_delta)
        items = self.band.assumptions.items
        wrong = {i.name: f"{i.statement}." for i in items if i.status is Status.VIOLATED}
        if not found.consistent:
            wrong = {"fit": found.remedy} | wrong
            wrong = {n: text for n, text in wrong.items() if n not in ("norm", "noise")}
        if wrong:
            return " ".join(wrong.values())
        if self.given.norm_bound is None:
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
        noise = float(self.band.regression.noise_scales.max())
        planned: dict[str, Any] = {"noise_std": noise, "delta": self.given.delta}
        widths = {
            count: confirmation([0.0] * count, expected_runs=count, **planned).upper
            for count in range(2, _MOST_RUNS + 1)
        }
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
            certificate, region = self.report.certificate, Region.of(self.limits)
            there = self.wording.point(in_print(certificate.challenger, region))
            gap = value(at_most(self.report.gap))
            yield f"Run {there}: it may still be better by {gap}."
        elif not self.band.assumptions.violated:
            level = value(plain(self.tolerance))
            yield f"No other setting may be better by more than {level}."

    @property
    def guarantee(self) -> str:
        r"""What follows from the assumptions."""
        assumptions = self.band.assumptions
        what = f"Here f is {self.table.outcome} without noise, as a function of the inputs."
        if assumptions.violated:
            return f"The data contradict what was given: {assumptions.guarantee}. {what}"
        return f"If all of this is true, the band {assumptions.guarantee}. {what}"

    @property
    def assumptions(self) -> Iterator[tuple[str, str]]:
        r"""All that the claims rest on: whose word it is, and the sentence."""
        for item in self.band.assumptions.items:
            if item.name == "replicates":  # no assumption, as the settings are counted
                sentence = "the outcomes of a setting count by themselves as well, for half"
                yield "method", f"{sentence} of the failure probability"
                continue
            remarks = [self._value_of(item), self.origins.get(item.name, "")]
            remarks = [remark for remark in remarks if remark]
            text = f": {', '.join(remarks)}" if remarks else ""
            statement = item.statement
            if item.status is Status.ESTIMATED:
                statement = _ESTIMATED.get(item.name, statement)
            yield self._label(item), f"{statement}{text}"

    def _label(self, item: Assumption) -> str:
        r"""``"given"`` only for what was given with this table."""
        if item.status is not Status.GIVEN:
            return item.status.value
        if item.name == "outcomes":
            return "assumed"
        kernel = self.given.kernel is None or self.given.lengthscale is None
        if item.name in self.origins or (item.name == "kernel" and kernel):
            return "default"
        return "given"

    def _value_of(self, item: Assumption) -> str:
        r"""The kernel, or the mean, with its numbers."""
        prior = self.band.regression.prior
        if item.name == "mean":
            mean, outcomes = float(prior.mean(self.point.unsqueeze(0))), self.table.outcomes
            width = float(outcomes.max() - outcomes.min())
            width = width if item.status is Status.ESTIMATED else 0.0
            return self.wording.value(plain(mean, width))
        if item.name != "kernel":
            return ""
        base: Any = unscaled(prior.covar_module)
        lengths, shown = base.lengthscale.reshape(-1).tolist(), list[str]()
        for name, own in self.table.columns.items():
            length = lengths[own[0]] if len(lengths) > 1 else lengths[0]
            shown.append(f"{name} {self.wording.value(f'{length:.6g}', name)}")
        return f"{kind_of(base)}, length scales {', '.join(shown)}"

    @property
    def map_caption(self) -> str:
        r"""What the cells of the map are, and what holds together."""
        share = 100.0 * self.given.window
        tolerance = self.wording.value(plain(self.tolerance))
        return (
            f"By how much a setting near the best run ({share:.3g} % of each range to "
            "either side) may be better, over the norm bound (rows) and the length scale "
            f"(columns, times the one in use); dark: at most {tolerance}. A norm bound "
            "means another thing at each length scale. Each column is a band at a fifth of "
            "the failure probability, so that all of them together fail no more often "
            "than the band of this page."
        )


def paragraph(text: str, indent: str = "") -> str:
    r"""A text in lines, those after the first indented as well."""
    after = " " * len(indent)
    return fill(text, _WIDTH, initial_indent=indent, subsequent_indent=after)


def plain(number: float, width: float = 0.0) -> str:
    r"""A number as a person writes it: as given, or to 1/10,000 of a ``width``."""
    if width > 0.0:
        number = round(number, 4 - math.floor(math.log10(width)))
    return as_given(number)


def _listed(texts: Iterable[str]) -> str:
    r"""The first few texts, and how many more there are."""
    listed = [*texts]
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return f"{', '.join(listed[:_LISTED])}{more}"


def _quiet() -> Any:
    r"""Without warnings of what the page says as well."""
    return catch_warnings(action="ignore", category=InconsistentConfidenceSetWarning)


def report(
    table: Any,
    outcome: str,
    *,
    minimize: bool = False,
    inputs: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    categories: Sequence[str] = (),
    missing: Sequence[str] = (),
    decimal: str | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    noise_std: float | None = None,
    kernel: str | None = None,
    lengthscale: float | Sequence[float] | None = None,
    mean: float | None = None,
    norm_bound: float | None = None,
    range: tuple[float | None, float | None] | None = None,
    baseline: Mapping[str, Any] | None = None,
    threshold: float | None = None,
    tolerance: float | None = None,
    window: float = 0.05,
    delta: float = 0.05,
    units: Mapping[str, str] | None = None,
) -> Page:
    r"""What a table of past runs supports, as the command ``python -m kernelucb report``.

    The best run, what may be said about it, and what would have to be wrong; as text, and
    as a page to sign. Errors name the options of the command: ``--noise-std`` is
    ``noise_std``.

    Where ``noise_std`` is given, half of ``delta`` is for the outcomes of each setting by
    themselves, so that repeated runs count whatever kernel and norm
    (``band.with_replicates``).

    Example:
        >>> page = kernelucb.report(frame, "yield", noise_std=1.0, range=(0.0, 100.0))
        >>> print(page)
        >>> Path("report.html").write_text(page.to_html())

    Args:
        table: A pandas ``DataFrame`` with one run a row, or the path of a csv file with a
            header. Rows without an outcome are left out, and listed.
        outcome: Column to be large.
        minimize: Whether the outcome is to be small.
        inputs: Columns that were set; by default all other columns.
        ignore: Columns that are no inputs.
        categories: Columns of words that were set, one-hot in the kernel.
        missing: Words for "no outcome", beside blanks and ``NA``.
        decimal: Decimal mark in texts, ``"."`` or ``","``, where the cells leave it open.
        bounds: Limits of the settings in question, by column; by default the table's.
        noise_std: Standard deviation of a repeated run, outcome units; by default
            estimated from repeated settings.
        kernel: ``"matern52"`` (the default), ``"rbf"``, ``"matern32"`` or ``"matern12"``.
        lengthscale: Over how much of its limits an input changes the outcome: one share, by
            default 0.5, or one for each input.
        mean: Outcome expected before the first run, outcome units; by default the middle of
            ``range``, or the mean of the outcomes.
        norm_bound: Bound on the RKHS norm of outcome minus mean, outcome units; without,
            the numbers are at 1.5 times the least norm that explains the data.
        range: Limits that the outcome without noise certainly keeps, outcome units; None
            for a side without one.
        baseline: A setting to compare with, by column.
        threshold: What the outcome should reach, outcome units.
        tolerance: A difference that does not matter, outcome units; by default a twentieth
            of the spread.
        window: Half the sides of the box that is near a setting, as a share.
        delta: Probability that a claim is false although what is given is true.
        units: Units of columns, for print.

    Raises:
        InputDataError: If a column could be taken for several things; the message asks, and
            names the option that answers.
        ValueError: If an option does not fit the table.
        ImportError: If pandas is absent (extra ``report``).
    """
    given = Namespace(**locals())
    with _quiet():
        return Page.of(given)
