r"""Tables of the runs: regret and certified gaps over those of the first rule."""

import numpy as np

from benchmarks.guarded.configuration import Experiment, Rule, Setting, Task
from benchmarks.guarded.play import Run
from benchmarks.runner import Moments, RunStore, markdown_table

_LEAST_GAP = 1e-3  # gaps below it, such as 0 where one arm is left, count as it in ratios
_LIMIT = 1.1


class Results:
    r"""The runs of an experiment, seeds along the first axis of every array."""

    def __init__(self, store: RunStore[Run], experiment: Experiment) -> None:
        self.experiment = experiment
        self.runs = {
            (setting.name, rule.name): [
                store.load(Task(experiment.protocol, setting, rule, seed))
                for seed in experiment.seeds
            ]
            for setting in experiment.settings
            for rule in experiment.rules
        }

    def totals(self, setting: Setting, rule: Rule) -> np.ndarray:
        r"""Cumulative regrets."""
        return np.array([sum(run.regret) for run in self._of(setting, rule)])

    def gaps(self, setting: Setting, rule: Rule) -> np.ndarray:
        r"""Certified gaps in the end."""
        return np.array([run.gaps[-1] for run in self._of(setting, rule)])

    def rows(self) -> list[dict]:
        r"""One row for each run."""
        return [
            {
                "setting": setting,
                "rule": rule,
                "seed": seed,
                "cumulative": f"{sum(run.regret):.5g}",
                "best": f"{max(min(run.regret), 0.0):.4g}",
                "recommended": f"{max(run.recommended[-1], 0.0):.4g}",
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
        return sum(regret > gap + 1e-6 for gap, regret in pairs), len(pairs)

    def _of(self, setting: Setting, rule: Rule) -> list[Run]:
        return self.runs[setting.name, rule.name]


def table(results: Results) -> list[str]:
    r"""Each setting and rule, then each rule over all settings."""
    experiment, cells = results.experiment, []
    first, *_ = experiment.rules
    ratios: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for setting in experiment.settings:
        totals, gaps = results.totals(setting, first), results.gaps(setting, first)
        for rule in experiment.rules:
            own, gap = results.totals(setting, rule), results.gaps(setting, rule)
            regret, width = _over(own, totals), _over(gap, gaps, _LEAST_GAP)
            ratios.setdefault(rule.name, []).append((regret, width))
            mean, certified = Moments.of(own), Moments.of(gap)
            cells.append(
                [
                    setting.title,
                    rule.label,
                    f"{mean.mean:.1f} ± {mean.standard_error:.1f}",
                    f"{own.sum() / totals.sum():.2f} / {_geometric(regret)}",
                    f"{certified.mean:.3f} ± {certified.standard_error:.3f}",
                    f"{gap.sum() / gaps.sum():.2f} / {_geometric(width)}",
                ]
            )
    for rule in experiment.rules:
        regret, width = (np.stack(each) for each in zip(*ratios[rule.name], strict=True))
        cells.append(["all", rule.label, "", _geometric(regret), "", _geometric(width)])
    false, count = results.false_gaps()
    header = ["function", "rule", "cumulative regret", "over UCB's", "certified gap"]
    return [
        f"{experiment.protocol.rounds} rounds, {len(experiment.seeds)} seeds; mean ± "
        "standard error. Ratios: of the means / geometric mean over seeds ± its standard "
        f"error. {false} of {count} certificates were wrong.",
        "",
        *markdown_table([*header, "over UCB's"], cells),
    ]


def _over(own: np.ndarray, others: np.ndarray, least: float = 0.0) -> np.ndarray:
    r"""Logarithms of paired ratios."""
    return np.log(np.maximum(own, least) / np.maximum(others, least))


def _geometric(logs: np.ndarray) -> str:
    r"""Geometric mean, seeds along the last axis; other axes are averaged first."""
    moments = Moments.of(np.atleast_2d(logs).mean(0))
    mean = np.exp(moments.mean)
    return f"{mean:.2f} ± {mean * moments.standard_error:.2f}"
