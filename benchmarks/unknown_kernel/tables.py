r"""Tables of the runs: regret over the oracle's, convergence, bands, eliminations."""

import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.runner import (
    Moments,
    RunStore,
    markdown_table,
    write_lines,
    write_table,
)
from benchmarks.unknown_kernel.play import Run
from benchmarks.unknown_kernel.settings import Experiment, Method, Setting

_ORACLE, _WIDEST = "oracle", "widest"
_FACTORS = (1.0, 1.5, 2.2, 3.2, 4.5, 6.5, math.inf)


class Results:
    r"""The runs of an experiment, by setting and method."""

    def __init__(self, store: RunStore[Run], experiment: Experiment) -> None:
        self.experiment = experiment
        self._runs = {
            (setting, method.name): [
                store.load(experiment.task(setting, method, seed))
                for seed in experiment.seeds
            ]
            for setting in experiment.settings
            for method in experiment.methods_of(setting)
        }

    @property
    def methods(self) -> tuple[Method, ...]:
        r"""All methods, whether they play every setting or not."""
        return self.experiment.methods + self.experiment.further_methods

    def settings(self) -> Iterator[tuple[str, Setting]]:
        r"""Name and setting."""
        return iter(self.experiment.settings.items())

    def runs(self, setting: str, method: str) -> list[Run]:
        r"""One for each seed; none where the method does not play the setting."""
        return self._runs.get((setting, method), [])

    def totals(self, setting: str, method: str) -> np.ndarray:
        r"""Cumulative regret of every seed."""
        return np.array([sum(run.regret) for run in self.runs(setting, method)])

    def failures(self, setting: str, method: str) -> int:
        r"""Number of runs whose recommended arm is too bad."""
        worst = self.experiment.protocol.tolerance
        return sum(run.recommended > worst for run in self.runs(setting, method))


def write_tables(store: RunStore[Run], experiment: Experiment, folder: Path) -> list[Path]:
    r"""All runs as ``<experiment>_runs.csv``, and one Markdown file for each table."""
    results, stem = Results(store, experiment), experiment.name
    write_table(folder / f"{stem}_runs.csv", _run_rows(results))
    tables = {stem: regret_table(results), f"{stem}_convergence": _failure_table(results)}
    if any(method.name == _WIDEST for method in results.methods):
        tables[f"{stem}_bands"] = _band_table(results)
        tables[f"{stem}_eliminations"] = _elimination_table(results)
    for name, lines in tables.items():
        write_lines(folder / f"{name}.md", lines)
    return [folder / f"{stem}_runs.csv", *(folder / f"{name}.md" for name in tables)]


def title(setting: Setting) -> str:
    r"""Of a setting, in a table."""
    kernel = {"rbf": "RBF", "matern52": "Matérn 5/2"}[setting.kernel]
    spike = "spike, " if setting.function == "spike" else ""
    length = f"{setting.lengthscale:g} ({setting.place})"
    return f"{spike}{kernel}, d = {setting.dimension}, length {length}"


def ratio_of_means(values: np.ndarray, others: np.ndarray) -> Moments:
    r"""Ratio of the means of paired values; its error by the delta method."""
    ratio = values.mean() / others.mean()
    spread = (values - ratio * others) / others.mean()
    return Moments(float(ratio), float(spread.std()), len(values))


def _run_rows(results: Results) -> list[dict]:
    return [
        {
            "setting": name,
            "method": method.name,
            "seed": seed,
            "cumulative": f"{sum(run.regret):.5g}",
            "recommended": f"{run.recommended:.5g}",
            "misses": run.misses,
            "eliminated": " ".join(map(str, run.eliminated)),
            "width": f"{run.width:.5g}",
            "oracle_width": f"{run.oracle_width:.5g}",
            "seconds": f"{run.seconds:.3g}",
        }
        for name, _ in results.settings()
        for method in results.experiment.methods_of(name)
        for seed, run in zip(
            results.experiment.seeds, results.runs(name, method.name), strict=True
        )
    ]


def regret_table(results: Results) -> list[str]:
    r"""Cumulative regret of the oracle, and of the others over it."""
    others = [method for method in results.methods if method.name != _ORACLE]
    found: dict[str, list[float]] = {method.name: [] for method in others}
    sums: dict[str, list[tuple[float, float]]] = {method.name: [] for method in others}
    rows = []
    for name, setting in results.settings():
        oracle = results.totals(name, _ORACLE)
        moments = Moments.of(oracle)
        cells = [f"{moments.mean:.1f} ± {moments.standard_error:.1f}"]
        for method in others:
            totals = results.totals(name, method.name)
            if not len(totals):
                cells.append("")
                continue
            ratio = ratio_of_means(totals, oracle)
            found[method.name].append(ratio.mean)
            sums[method.name].append((float(totals.sum()), float(oracle.sum())))
            cells.append(f"{ratio.mean:.2f} ± {ratio.standard_error:.2f}")
        rows.append([title(setting), *cells])
    means = [f"{np.mean(found[method.name]):.2f}" for method in others]
    geometric = [f"{_geometric_mean(found[method.name]):.2f}" for method in others]
    whole = [f"{np.divide(*np.sum(sums[method.name], axis=0)):.2f}" for method in others]
    rows += [
        ["mean of the ratios", "", *means],
        ["geometric mean of the ratios", "", *geometric],
        ["ratio of the mean regrets", "", *whole],
    ]
    protocol = results.experiment.protocol
    return [
        f"Cumulative regret of {protocol.rounds} rounds: the oracle's, and that of the "
        f"others over it, each over the same {len(results.experiment.seeds)} seeds, ± "
        "standard error.",
        "",
        *markdown_table(["setting", "oracle", *(m.label for m in others)], rows),
    ]


def _failure_table(results: Results) -> list[str]:
    rows, total = [], dict.fromkeys((m.name for m in results.methods), 0)
    for name, setting in results.settings():
        cells = []
        for method in results.methods:
            played = bool(results.runs(name, method.name))
            failures = results.failures(name, method.name)
            total[method.name] += failures
            cells.append(f"{failures}" if played else "")
        rows.append([title(setting), *cells])
    rows.append(["all", *(f"{total[method.name]}" for method in results.methods)])
    tolerance = results.experiment.protocol.tolerance
    return [
        f"Runs of {len(results.experiment.seeds)} in which the recommended arm is more "
        f"than {tolerance:g} below the best one.",
        "",
        *markdown_table(["setting", *(m.label for m in results.methods)], rows),
    ]


def _families(results: Results) -> list[Method]:
    return [method for method in results.methods if method.rule == "Family"]


def _band_table(results: Results) -> list[str]:
    r"""Widths over the oracle's, and what must not happen."""
    families, rows = _families(results), []
    same: dict[str, list[float]] = {method.name: [] for method in families}
    own: dict[str, list[float]] = {method.name: [] for method in families}
    missed = lost = count = 0
    for name, setting in results.settings():
        covering = setting.family.covering(setting.lengthscale)
        alone = [run.width for run in results.runs(name, _ORACLE)]
        cells = []
        for method in families:
            if not (runs := results.runs(name, method.name)):
                cells.append("")
                continue
            count += len(runs)
            missed += sum(run.misses > 0 for run in runs)
            lost += sum(run.eliminated[covering] > 0 for run in runs)
            beside = _geometric_mean([run.width / run.oracle_width for run in runs])
            apart = _geometric_mean(
                [run.width / width for run, width in zip(runs, alone, strict=True)]
            )
            same[method.name].append(beside)
            own[method.name].append(apart)
            cells.append(f"{beside:.2f} / {apart:.2f}")
        rows.append([title(setting), *cells])
    rows.append(
        [
            "geometric mean",
            *(
                f"{_geometric_mean(same[m.name]):.2f} / {_geometric_mean(own[m.name]):.2f}"
                for m in families
            ),
        ]
    )
    protocol = results.experiment.protocol
    return [
        f"Mean width of the union's band after {protocol.rounds} rounds over the oracle's: "
        "from the same data / from the oracle's own data; geometric means over seeds.",
        "",
        *markdown_table(["setting", *(m.label for m in families)], rows),
        "",
        f"Of {count} runs {missed} had the function outside the union's band at some arm "
        f"(a look every {protocol.check_every} rounds), {lost} lost the covering member; "
        f"delta is {protocol.delta:g}.",
    ]


def _elimination_table(results: Results) -> list[str]:
    r"""When the members longer than the covering one were contradicted."""
    families, rows = _families(results), []
    for low, high in pairwise(_FACTORS):
        cells = []
        for method in families:
            counts = [
                run.eliminated[index] or math.inf
                for name, setting in results.settings()
                for index in _too_long(setting, low, high)
                for run in results.runs(name, method.name)
            ]
            median = float(np.median(counts)) if counts else math.inf
            when = f"{median:.0f}" if math.isfinite(median) else "-"
            share = f"{np.isfinite(counts).mean():.0%}" if counts else "-"
            cells.append(f"{share}, {when}")
        upper = f"to {high:g}" if math.isfinite(high) else "and more"
        rows.append([f"{low:g} {upper}", *cells])
    header = ["length over the function's", *(method.label for method in families)]
    return [
        "Members longer than the one that covers the function: share in which they were "
        "contradicted, over settings, members and seeds, and the median number of "
        "observations that it took (- where most were kept).",
        "",
        *markdown_table(header, rows),
    ]


def _too_long(setting: Setting, low: float, high: float) -> list[int]:
    r"""Indices of members whose length over the function's is between two factors."""
    covering = setting.family.covering(setting.lengthscale)
    factors = np.array(setting.family.lengthscales[:covering]) / setting.lengthscale
    return np.flatnonzero((factors >= low) & (factors < high)).tolist()


def _geometric_mean(values: list[float]) -> float:
    return float(np.exp(np.mean(np.log(values)))) if values else math.nan
