r"""Command line: ``python -m benchmarks.norm estimate``."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch

from benchmarks import runner
from benchmarks.runner.study import Study, Summary, grid
from kernelucb import KernelRegression, MartingaleMixtureUCB, NormTracker

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
ARMS, CENTRES, NOISE_STD, LENGTHSCALE = 200, 20, 0.1, 0.3


def play(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Play on ``ARMS`` random points of the unit square.

    Returns:
        The share of the arms at which the band ``missed`` the function and the ``ratio`` of
        norm bound and true norm after each evaluation; at the end the ``regret`` of the arm
        with the largest lower bound.
    """
    task = SimpleNamespace(**settings)
    draw = runner.stream(task.seed, "function", task.kernel, f"{task.norm:g}")
    kernel = runner.fixed_kernel(task.kernel, LENGTHSCALE)
    arms = torch.from_numpy(draw.random((ARMS, 2)))
    truth = runner.KnownFunction.draw(draw, kernel, task.norm, 2, CENTRES)(arms)
    chosen, rounds = [int(draw.integers(ARMS))], max(task.looks)
    noise = NOISE_STD * torch.from_numpy(draw.standard_normal(rounds))
    tracker, found, regret = _tracker(task), {"missed": [], "ratio": []}, 0.0
    for number in range(1, rounds + 1):
        Y = truth[chosen] + noise[:number]
        state: Any = KernelRegression(arms[chosen], Y, kernel, NOISE_STD)
        norm_bound = task.norm if tracker is None else tracker
        acqf = MartingaleMixtureUCB(state, norm_bound=norm_bound)
        tracker = tracker if task.kept else _tracker(task)
        lower, upper = acqf.bounds(arms)
        missed = runner.outside(truth, lower, upper, 1e-9 * task.norm)
        found["missed"].append(float(missed.double().mean()))
        found["ratio"].append(acqf.norm_bound / task.norm)
        regret = float(truth.max() - truth[lower.argmax()])
        chosen.append(int(upper.argmax()))
    return found | {"regret": regret}


def _tracker(task: SimpleNamespace) -> NormTracker | None:
    if task.inflation == 0.0:
        return None
    return NormTracker(inflation=task.inflation, floor=task.floor)


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
    table = runner.markdown_table([*header, f"regret at {looks[-1]}"], lines)
    return Summary(pd.DataFrame(rows), table)


if __name__ == "__main__":
    STUDY.main()
