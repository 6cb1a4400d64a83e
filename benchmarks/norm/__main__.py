r"""Command line: ``python -m benchmarks.norm estimate``."""

import numpy as np
import pandas as pd

from benchmarks.norm.play import play
from benchmarks.runner import markdown_table
from benchmarks.runner.study import Study, Summary, grid

STUDY = Study(
    "benchmarks.norm", "Bands with an estimated norm bound on functions of known norm."
)
# Inflation and floor of the tracker, and whether one is kept over the rounds; 0 is the true
# norm.
BOUNDS = {
    "true norm": (0.0, 0.0, False),
    "norm_bound=None": (1.0, 2.0, False),
    "NormTracker()": (1.0, 2.0, True),
    "NormTracker(inflation=1.5, floor=4)": (1.5, 4.0, True),
    "NormTracker(inflation=3, floor=4)": (3.0, 4.0, True),
}
TRACKERS = [
    {"bound": name, "inflation": inflation, "floor": floor, "kept": kept}
    for name, (inflation, floor, kept) in BOUNDS.items()
]
LOOKS = {"looks": [[5, 20, 50]]}  # the last is the number of evaluations
NORMS, KERNELS = {"norm": [2.0, 5.0, 15.0]}, {"kernel": ["rbf", "matern52"]}


@STUDY.table("estimate", grid(LOOKS | NORMS, {"seed": range(5)}, TRACKERS, KERNELS), play)
def estimate(runs: pd.DataFrame) -> Summary:
    r"""How often the band held, and what the bound was."""
    rows, looks = [], runs["looks"][0]
    for (norm, bound), part in runs.groupby(["norm", "bound"], sort=False):
        missed, ratio = (np.array([*part[name]]) for name in ("missed", "ratio"))
        row = {"norm": norm, "bound": bound, "runs": len(part)}
        row |= {"held": float((missed.max(1) == 0.0).mean())}
        row |= {f"missed_{n}": float(missed[:, n - 1].mean()) for n in looks}
        row |= {f"ratio_{n}": float(np.median(ratio[:, n - 1])) for n in looks}
        regret = part["regret"].to_numpy()
        error = float(regret.std(ddof=1) / len(regret) ** 0.5) if len(part) > 1 else 0.0
        rows.append(row | {"regret": float(regret.mean()), "regret_error": error})
    header = ["true norm", "bound", "held in every round"]
    header += [f"missed at {n}" for n in looks] + [f"bound / norm at {n}" for n in looks]
    lines = [
        [f"{row['norm']:g}", f"`{row['bound']}`", f"{row['held']:.0%}"]
        + [f"{row[f'missed_{n}']:.1%}" for n in looks]
        + [f"{row[f'ratio_{n}']:.2f}" for n in looks]
        + [f"{row['regret']:.3f} ± {row['regret_error']:.3f}"]
        for row in rows
    ]
    table = markdown_table([*header, f"regret at {looks[-1]}"], lines)
    return Summary(pd.DataFrame(rows), table)


if __name__ == "__main__":
    STUDY.main()
