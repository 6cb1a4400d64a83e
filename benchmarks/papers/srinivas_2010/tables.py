r"""Tables of the mean average regret, as CSV and Markdown."""

from pathlib import Path

import numpy as np

from benchmarks.papers.srinivas_2010.configuration import Configuration, Experiment
from benchmarks.papers.srinivas_2010.play import Run
from benchmarks.papers.srinivas_2010.priors import prior_of, rows_of
from benchmarks.papers.srinivas_2010.summaries import (
    BASELINE,
    average_regret,
    curve_table,
    norms_of_functions,
)
from benchmarks.runner import (
    Moments,
    RunStore,
    load_configuration,
    markdown_table,
    paired_difference,
    write_summary,
)


def result_stem(experiment: Experiment) -> str:
    r"""Name of the tables and the picture; a part of the protocol gets its own."""
    setting = experiment.setting
    whole = load_configuration(Configuration).experiments[setting.name].setting
    if (setting.trials, setting.rounds) == (whole.trials, whole.rounds):
        return setting.name
    return f"{setting.name}_{setting.trials}_trials_{setting.rounds}_rounds"


def write_tables(store: RunStore[Run], experiment: Experiment, folder: Path) -> list[Path]:
    r"""The regret at some rounds as CSV, and after the last as Markdown."""
    lines = _final_table(store, experiment)
    if experiment.setting.functions == "rows":
        lines += ["", _about_the_readings(experiment)]
    rows = curve_table(store, experiment)
    return write_summary(folder, result_stem(experiment), rows, lines)


def _final_table(store: RunStore[Run], experiment: Experiment) -> list[str]:
    setting = experiment.setting
    early, last = max(setting.rounds // 10, 1), setting.rounds
    curves = {m.name: average_regret(store, experiment, m) for m in experiment.methods}
    rows = []
    for method in experiment.methods:
        curve = curves[method.name]
        cells = [_text(Moments.of(curve[:, number - 1])) for number in (early, last)]
        difference = paired_difference(curve[:, -1], curves[BASELINE][:, -1])
        ratio = "-"
        if method.name != BASELINE and difference.standard_error > 0:
            ratio = f"{difference.mean / difference.standard_error:+.1f}"
        rows.append([method.label, *cells, _text(difference, sign="+"), ratio])
    blocks = len(curves[BASELINE])
    errors = "" if blocks == setting.trials else f"; standard errors from {blocks} blocks"
    return [
        f"{setting.title}: mean average regret `R_t / t` ± standard error, "
        f"{setting.trials} trials{errors}. Differences are paired.",
        "",
        *markdown_table(
            [
                "method",
                f"t = {early}",
                f"t = {last}",
                f"minus GP-UCB (beta / 5), t = {last}",
                "in standard errors",
            ],
            rows,
        ),
    ]


def _about_the_readings(experiment: Experiment) -> str:
    r"""How far the rows are from samples of the prior that all methods assume."""
    setting = experiment.setting
    norms, quantile = norms_of_functions(setting)
    best = np.bincount(rows_of(setting).argmax(1).numpy())
    return (
        f"Noise variance {prior_of(setting).noise_variance:.3g}. RKHS norm of the "
        f"{len(norms)} rows: median {np.median(norms):.1f}, largest {norms.max():.1f}; of "
        f"samples of the prior 95 % would be below {quantile:.1f}. "
        f"{np.count_nonzero(best)} sensors are the best of some row, one of them of "
        f"{best.max()} rows."
    )


def _text(moments: Moments, sign: str = "") -> str:
    return f"{moments.mean:{sign}.3g} ± {moments.standard_error:.2g}"
