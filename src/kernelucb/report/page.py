r"""The page and the text of a study, with the same numbers."""

import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill
from warnings import catch_warnings, simplefilter

from botorch.exceptions import InputDataError

from kernelucb._numerics.digits import at_least, at_most, coordinate, one_minus
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.report.study import LENGTHS, Study, study_of

_WIDTH = 92
_REFUSED = 2


def run_report(given: Namespace) -> int:
    r"""Print the text and write the page; the exit status: 0, or 2 where it is refused."""
    try:
        with catch_warnings():  # what the page says as well
            simplefilter("ignore", InconsistentConfidenceSetWarning)
            study = study_of(given)
            text = text_of(study)
            if not given.text:
                given.output.write_text(page_of(study), encoding="utf-8")
                text += f"\n\nThe page: {given.output}"
    except (InputDataError, ValueError, ImportError, OSError) as error:
        print(f"kernelucb: {error}", file=sys.stderr)
        return _REFUSED
    print(text)
    return 0


def title_of(study: Study) -> str:
    r"""What was sought, and in how many runs."""
    label = study.wording.label(study.table.outcome)
    return f"What {len(study.table.outcomes)} runs say about {label}"


def text_of(study: Study) -> str:
    r"""The page as lines of text."""
    return "\n".join(_lines(study))


def _lines(study: Study) -> Iterator[str]:
    def paragraph(text: str, indent: str = "") -> str:
        return fill(
            text, _WIDTH, initial_indent=indent, subsequent_indent=" " * len(indent)
        )

    yield title_of(study)
    yield f"\n{study.report.summary}"
    yield from map(paragraph, (*study.opening, *study.basis))
    yield "\nWhat may be said, firmest first"
    for claim in study.claims:
        yield from (paragraph(claim.sentence, "  - "), paragraph(claim.support, "      "))
    if study.measured:
        yield "\nMeasured, not certified"
    for claim in study.measured:
        yield from (paragraph(claim.sentence, "  - "), paragraph(claim.support, "      "))
    yield "\nGap over the norm bound: norm bound, near the best run, anywhere"
    for norm, near, anywhere in study.curve:
        gaps = f"{at_most(near):>10} {at_most(anywhere):>10}"
        yield f"  {at_least(norm):>10} {gaps}"
    yield f"\n{paragraph(map_caption(study))}"
    yield f"{'':12}" + "".join(f"{factor:>9g} x" for factor in LENGTHS)
    for norm, cells in zip(study.map.norms, study.map.cells, strict=True):
        yield f"  {at_least(norm):>10}" + "".join(
            f"{cell_text(cell):>11}" for cell in cells
        )
    yield f"\nDo the data contradict this?\n{paragraph(study.consistency)}"
    yield "\nWhat to run next"
    yield from (paragraph(each, "  - ") for each in study.suggestions)
    yield f"\nWhat all of this rests on\n{paragraph(guarantee_of(study))}"
    for status, statement in study.assumptions:
        yield paragraph(statement, f"  [{status}] ")


def guarantee_of(study: Study) -> str:
    r"""What follows from the assumptions."""
    assumptions = study.band.assumptions
    if assumptions.violated:
        return f"The data contradict what was given: {assumptions.guarantee}."
    return f"If all of this is true, the band {assumptions.guarantee}."


def map_caption(study: Study) -> str:
    r"""What the cells of the map are, and what holds together."""
    share = coordinate(100.0 * study.given.window)
    tolerance = study.wording.value(study.tolerance)
    return (
        f"By how much a setting near the best run ({share} % of each range to either "
        "side) may be better, over the norm bound (rows) and the length scale (columns, "
        f"times the one in use); dark: at most {tolerance}. A norm bound means another "
        "thing at each length scale. Each column is a band at a failure probability of "
        f"{study.map.delta:.3g}, so that all of them hold together with probability "
        f"{one_minus(study.given.delta)}."
    )


def cell_text(cell: float | None) -> str:
    r"""A gap; a dash where no function of that norm explains the data."""
    return "-" if cell is None else at_most(cell, count=3)


def page_of(study: Study) -> str:
    r"""One HTML page with its pictures in it.

    Raises:
        ImportError: If Jinja2 or Matplotlib is absent.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        message = "A page needs Jinja2: pip install kernelucb[report], or use --text"
        raise ImportError(message) from error
    from kernelucb.report.pictures import pictures_of

    folder = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=folder, autoescape=True, undefined=StrictUndefined)
    template = environment.get_template("page.html")
    return template.render(
        study=study,
        title=title_of(study),
        caption=map_caption(study),
        cell_text=cell_text,
        at_least=at_least,
        at_most=at_most,
        guarantee=guarantee_of(study),
        lengths=LENGTHS,
        pictures=pictures_of(study),
    )
