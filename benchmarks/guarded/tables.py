r"""Tables of the runs: regret and certified gaps over those of the first rule."""

from collections.abc import Callable

import numpy as np

from benchmarks.guarded.configuration import Experiment, Rule, Setting, Task
from benchmarks.guarded.play import Run
from benchmarks.runner import Moments, RunStore, markdown_table

_LEAST_GAP = 0.01  # a tenth of the noise; 0 where one arm is left
_ROUND_OFF = 1e-6
Measure = Callable[[Run], float]


class Results:
    r"""The runs of an experiment."""

    def __init__(self, store: RunStore[Run], experiment: Experiment) -> None:
        self.experiment = experiment
        self.first, *self.others = experiment.rules
        self.runs = {
            (setting.name, rule.name): [
                store.load(Task(experiment.protocol, setting, rule, seed))
                for seed in experiment.seeds
            ]
            for setting in experiment.settings
            for rule in experiment.rules
        }

    def values(self, measure: Measure, setting: Setting, rule: Rule) -> np.ndarray:
        r"""One for each seed."""
        return np.array([measure(run) for run in self.runs[setting.name, rule.name]])

    def ratio(self, measure: Measure, setting: Setting, rule: Rule) -> float:
        r"""Of the means over seeds, over that of the first rule."""
        own = self.values(measure, setting, rule)
        return float(own.sum() / self.values(measure, setting, self.first).sum())

    def geometric(self, measure: Measure, rule: Rule) -> str:
        r"""Geometric mean of all paired ratios, ± its standard error over seeds."""
        logs = [
            np.log(self.values(measure, setting, rule))
            - np.log(self.values(measure, setting, self.first))
            for setting in self.experiment.settings
        ]
        moments = Moments.of(np.mean(logs, axis=0))
        mean = np.exp(moments.mean)
        return f"{mean:.2f} ± {mean * moments.standard_error:.2f}"

    def rows(self) -> list[dict]:
        r"""One row for each run."""
        return [
            {
                "setting": setting,
                "rule": rule,
                "seed": seed,
                "cumulative": f"{total_regret(run):.5g}",
                "best": f"{max(min(run.regret), 0.0):.4g}",
                "recommended": f"{max(run.recommended[-1], 0.0):.4g}",
                "most_played": f"{most_played(run):.3g}",
                "rounds": " ".join(map(str, run.rounds)),
                "gaps": " ".join(f"{gap:.4g}" for gap in run.gaps),
                "seconds": f"{run.seconds:.3g}",
            }
            for (setting, rule), runs in self.runs.items()
            for seed, run in zip(self.experiment.seeds, runs, strict=True)
        ]

    def false_gaps(self) -> tuple[int, int]:
        r"""Certificates whose recommended point is further from the optimum; and all."""
        pairs = [
            (gap, regret)
            for runs in self.runs.values()
            for run in runs
            for gap, regret in zip(run.gaps, run.recommended, strict=True)
        ]
        return sum(regret > gap + _ROUND_OFF for gap, regret in pairs), len(pairs)


def total_regret(run: Run) -> float:
    r"""Cumulative regret."""
    return sum(run.regret)


def most_played(run: Run) -> float:
    r"""Share of one point in the last half of the rounds, the one played most often.

    On arms, where points with the same value are one.
    """
    late = np.round(run.regret[len(run.regret) // 2 :], 9)
    return float(np.unique(late, return_counts=True)[1].max() / len(late))


def gap_after(look: int) -> Measure:
    r"""The gap of one of the certificates, by its index."""
    return lambda run: max(run.gaps[look], _LEAST_GAP)


def table(results: Results) -> list[str]:
    r"""Regret and gap in each setting, then each rule over all settings."""
    experiment = results.experiment
    rounds, seeds = experiment.protocol.rounds, len(experiment.seeds)
    false, count = results.false_gaps()
    return [
        f"Cumulative regret of {rounds} rounds: that of {results.first.label} ± standard "
        f"error over {seeds} seeds, and that of the others over it (ratio of the means).",
        "",
        *_by_setting(results, total_regret, 1),
        "",
        f"Certified gap after {rounds} rounds, in the same way.",
        "",
        *_by_setting(results, gap_after(-1), 3),
        "",
        f"Over {results.first.label}'s, geometric means over functions and seeds ± "
        "standard error over seeds; simple regret of the point that the last certificate "
        f"is for; gaps below {_LEAST_GAP:g} count as that. On arms, the share of the last "
        "half of the rounds that the most played one has. "
        f"{false} of {count} certificates were wrong.",
        "",
        *_by_rule(results),
    ]


def _by_setting(results: Results, measure: Measure, digits: int) -> list[str]:
    cells = []
    for setting in results.experiment.settings:
        first = Moments.of(results.values(measure, setting, results.first))
        ratios = [results.ratio(measure, setting, rule) for rule in results.others]
        mean = f"{first.mean:.{digits}f} ± {first.standard_error:.{digits}f}"
        cells.append([setting.title, mean, *(f"{ratio:.2f}" for ratio in ratios)])
    rules = (rule.label for rule in results.experiment.rules)
    return markdown_table(["function", *rules], cells)


def _by_rule(results: Results) -> list[str]:
    experiment, cells = results.experiment, []
    has_arms = experiment.settings[0].arms > 0
    looks = results.runs[experiment.settings[0].name, results.first.name][0].rounds
    for rule in experiment.rules:
        share, recommended = (
            np.mean([results.values(m, setting, rule) for setting in experiment.settings])
            for m in (most_played, lambda run: max(run.recommended[-1], 0.0))
        )
        cells.append(
            [
                rule.label,
                results.geometric(total_regret, rule),
                *(results.geometric(gap_after(i), rule) for i in range(len(looks))),
                f"{recommended:.4f}",
                *([f"{share:.0%}"] if has_arms else []),
            ]
        )
    gaps = (f"gap after {look}" for look in looks)
    share = ["most played arm"] if has_arms else []
    return markdown_table(["rule", "regret", *gaps, "simple regret", *share], cells)
