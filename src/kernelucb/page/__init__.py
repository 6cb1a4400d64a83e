r"""Report on a table of past runs, as a text and as a page to sign.

Nothing is imported before a report is made: its command reads its options from here.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelucb.page.study import Page
    from kernelucb.page.table import Runs


def report(
    table: "Runs",
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
    earlier: "Runs | None" = None,
    range: tuple[float | None, float | None] | None = None,
    baseline: Mapping[str, float | str] | None = None,
    threshold: float | None = None,
    tolerance: float | None = None,
    window: float = 0.05,
    delta: float = 0.05,
    units: Mapping[str, str] | None = None,
    history: bool = False,
    effort: str = "quick",
) -> "Page":
    r"""Report on a table of past runs, as the command ``python -m kernelucb report``.

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
        missing: Words for "no outcome", beside blanks and ``NA``. Without outcomes that
            were too small or too large, such as ``<0.5``, nothing is guaranteed.
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
        earlier: Table of earlier tasks of the same kind, with a column ``task`` and the
            columns of this table: the largest of their norms is the norm bound
            (``norm_from_tasks``). ``delta`` counts its failure probability, one over the
            number of tasks and one. A setting's mean outcome counts as its value.
        range: Limits that the outcome without noise certainly keeps, outcome units; in
            Python None for a side without one.
        baseline: A setting to compare with, by column.
        threshold: What the outcome should reach, outcome units.
        tolerance: A difference that does not matter, outcome units; by default a twentieth
            of the spread.
        window: Half the sides of the box that is near a setting, as a share.
        delta: Probability that a claim is false although what is given is true.
        units: Units of columns, for print.
        history: Whether to show the gap after each of the rows, of long tables after 20 of
            them (``page.history``).
        effort: ``"quick"``, or ``"full"`` with the gap over norm bounds and length scales,
            which takes most of the time.

    Raises:
        InputDataError: If a column could be taken for several things; the message asks, and
            names the option that answers.
        ValueError: If an option does not fit the table.
        ImportError: If pandas is absent (extra ``report``).
    """
    from kernelucb.page.study import Page, quiet
    from kernelucb.page.table import Given, closed, named, table_of

    given = Given(
        table=table,
        outcome=outcome,
        minimize=minimize,
        inputs=inputs,
        ignore=ignore,
        categories=categories,
        missing=missing,
        decimal=decimal,
        bounds=named(bounds),
        noise_std=noise_std,
        kernel=kernel,
        lengthscale=lengthscale,
        mean=mean,
        norm_bound=norm_bound,
        earlier=earlier,
        range=closed(range),
        baseline=named(baseline),
        threshold=threshold,
        tolerance=tolerance,
        window=window,
        delta=delta,
        units=named(units),
        history=history,
        effort=effort,
    )
    with quiet():
        return Page(given, table_of(given))
