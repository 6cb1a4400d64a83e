r"""Facts for the sentences of a page; ``words.jinja`` has the sentences.

They call functions of this module, and of ``digits``, by their names.
"""

import math
import re
from collections.abc import Iterable, Iterator
from datetime import date
from textwrap import fill
from typing import TYPE_CHECKING, Any

import torch

import kernelucb
from kernelucb._numerics import digits
from kernelucb.certificates import confirmation
from kernelucb.certificates.spaces import Region
from kernelucb.certificates.task import in_print
from kernelucb.confidence.assumptions import Status
from kernelucb.diagnostics import check_consistency, describe_norm_bound
from kernelucb.regression.named import kind_of, unscaled

if TYPE_CHECKING:
    from kernelucb.page.study import Page

_LISTED = 8  # repeats of the best run, or rows that are left out
_MOST_RUNS = 20  # of a confirmation
_ESTIMATED = {
    "kernel": "the kernel is right, although its unit was taken from the table",
    "mean": "the mean is right, although it was taken from the table",
}


def facts(page: "Page") -> dict[str, Any]:
    r"""Names and numbers of the sentences, and how they are printed."""
    table, outcomes, rests = page.table, page.table.outcomes, page.band.assumptions
    spread = float(outcomes.max() - outcomes.min())
    here = (table.inputs == page.point).all(-1).nonzero().flatten().tolist()
    top = int(outcomes.argmin() if page.given.minimize else outcomes.argmax())
    described = describe_norm_bound(page.regress(), page.norm_bound, bounds=page.limits)
    steps = [described.inputs[i].over_step for i in table.numbers.values()]
    norm = page.given.norm_bound or page.norm_bound
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
    count, (lower, upper) = min(enough, default=5), page.report.claims[0].numbers
    challenger = page.report.certificate.challenger
    return {
        "violated": rests.violated,
        "estimated": rests.estimated,
        "others": " and ".join(name for name in rests.estimated if name != "norm"),
        "norm_status": rests["norm"].status.value,
        "probability": digits.one_minus(page.given.delta),
        "better": "lower" if page.given.minimize else "higher",
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
        "challenger": in_print(challenger, Region.of(page.limits)),
        "read": _read(page),
        "rests_on": _rests_on(page),
    }


def _read(page: "Page") -> dict[str, str]:
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
        inputs.append(f"{name} {least} to {wording.value(most, name)}{asked}")
    left_out = [f"{name} ({why})" for name, why in table.left_out.items()]
    return {
        "table": table.origin,
        "rows": rows,
        "inputs": "; ".join(inputs),
        "outcome": f"{table.outcome}, to be {'small' if page.given.minimize else 'large'}",
        "left out": "; ".join(left_out) or "no column",
        "made": f"{date.today().isoformat()} by kernelucb {kernelucb.__version__}",
    }


def _rests_on(page: "Page") -> Iterator[tuple[str, str]]:
    r"""All that the claims rest on: whose word it is, and the sentence."""
    prior, value, outcomes = page.band.data.prior, page.wording.value, page.table.outcomes
    base: Any = unscaled(prior.covar_module)
    lengths = base.lengthscale.expand(1, page.table.inputs.shape[1])[0].tolist()
    shown = [
        f"{name} {value(f'{lengths[at[0]]:.6g}', name)}"
        for name, at in page.table.columns.items()
    ]
    rests = page.band.assumptions
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
        label, statement = str(item.status.value), str(item.statement)
        if item.name == "replicates":  # no assumption, as the settings are counted
            label = "method"
            statement = "the outcomes of a setting count by themselves as well, for half of"
            statement += " the failure probability"
        elif item.status is Status.ESTIMATED:
            statement = _ESTIMATED.get(item.name, statement)
        elif item.status is Status.GIVEN and item.name == "outcomes":
            label = "assumed"
        elif item.status is Status.GIVEN and item.name in defaults:
            label = "default"  # "given" is only what was given with this table
        remarks = [values.get(item.name, ""), page.origins.get(item.name, "")]
        remark = ", ".join(each for each in remarks if each)
        yield label, f"{statement}: {remark}" if remark else statement


def paragraph(text: str, indent: str = "") -> str:
    r"""A text in lines, those after the first indented as well."""
    return fill(
        text.strip(), 92, initial_indent=indent, subsequent_indent=" " * len(indent)
    )


def paragraphs(text: str) -> list[str]:
    r"""The paragraphs of a text between blank lines, each in one line."""
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]


def plain(number: float, width: float = 0.0) -> str:
    r"""A number as a person writes it: as given, or to 1/10,000 of a ``width``."""
    if width > 0.0:
        number = round(number, 4 - math.floor(math.log10(width)))
    return digits.as_given(number)


def listed(values: Iterable[Any]) -> str:
    r"""The first few values, and how many more there are."""
    texts = [*map(str, values)]
    more = f" and {len(texts) - _LISTED} more" if len(texts) > _LISTED else ""
    return f"{', '.join(texts[:_LISTED])}{more}"
