r"""Scores of all replays over rounds, the margins, and one run on Branin's function.

``python -m benchmarks.pictures.calibrated_margins`` writes
``docs/images/calibrated_margins.png`` from the replays of ``benchmarks.calibration``.
"""

from pathlib import Path

import torch
from botorch.test_functions import Branin

from benchmarks.calibration.margins import FIRST, REPLAYS, RESULTS, ROUNDS, replayed
from benchmarks.runner import ROOT, picture
from kernelucb.calibration import Loop, RegretClaim, Run, default_margins
from kernelucb.calibration.claims import Truth

PATH = ROOT / "docs/images/calibrated_margins.png"
FUNCTION = Branin()
NOISE, DELTA, SEED = 1.0, 0.1, 0
CLAIM = RegretClaim()


def branin() -> tuple[list[float], list[float], list[float]]:
    r"""Score, calibrated gap and regret of a run after 10, ..., 40 outcomes."""
    bounds, noise = FUNCTION.bounds.double(), torch.Generator().manual_seed(SEED)
    loop, margins = Loop.default(bounds, maximize=False), default_margins(bounds)
    run, X = Run(margins, loop), loop.first_inputs(SEED)

    def measured(inputs: torch.Tensor) -> torch.Tensor:
        values = FUNCTION(inputs).double()
        scatter = torch.randn(len(values), generator=noise).double()
        return (values + NOISE * scatter).unsqueeze(-1)

    Y, scores, gaps, regrets = measured(X), list[float](), list[float](), list[float]()
    at_points, best = FUNCTION(loop.points).double(), FUNCTION.optimal_value
    while True:
        model, candidate = loop.round(X, Y)
        run.update(model, candidate, X, Y)
        if len(X) >= margins.first:
            values = FUNCTION(X).double()
            truth = Truth(torch.cat([values, at_points]), best)
            scores.append(run.score(CLAIM, truth))
            gaps.append(float(run.claim(CLAIM, DELTA).upper))
            regrets.append(float(values[run.recommended]) - best)
        if len(X) == ROUNDS:
            return scores, gaps, regrets
        X, Y = torch.cat([X, candidate]), torch.cat([Y, measured(candidate)])


def main(folder: Path = RESULTS) -> None:
    margins = replayed(2, folder=folder).since(FIRST)
    used = default_margins(FUNCTION.bounds.double())
    rounds = range(FIRST, ROUNDS + 1)
    scores, gaps, regrets = branin()
    spread = 308.13 - FUNCTION.optimal_value  # of Branin's function over its box
    with picture(PATH, 1, 2, figsize=(11.0, 4.2)) as (_, (left, right)):
        for row in margins.scores[CLAIM.name]:
            left.plot(rounds, row, color="#6E6E6E", alpha=0.25, linewidth=0.8)
        left.plot(
            [], [], color="#6E6E6E", label=f"{REPLAYS} replays on draws of BoTorch's prior"
        )
        for delta, style in ((0.1, "-"), (0.3, "--")):
            level = [used.margin(CLAIM, delta, n) for n in rounds]
            name = f"margin at delta {delta:g}"
            left.plot(rounds, level, style, color="#D55E00", linewidth=2.0, label=name)
        left.plot(rounds, scores, color="#0072B2", linewidth=2.0, label="a run on Branin")
        left.set_xlabel("runs")
        left.set_ylabel("least margin at which the gap is true")
        left.set_ylim(0.0, 6.0)
        left.legend(fontsize=8)
        names = f"gap, calibrated at {DELTA:g}", "true, not seen by the run"
        for part, color, name in zip((gaps, regrets), ("C0", "k"), names, strict=True):
            shares = [100.0 * each / spread for each in part]
            right.plot(rounds, shares, color=color, label=name)
        right.axhline(5.0, color="#E69F00", linestyle=":", label="5 % of the range")
        right.set_xlabel("runs")
        right.set_ylabel("% of the function's range")
        right.set_yscale("symlog", linthresh=0.1)
        right.set_ylim(bottom=0.0)
        right.set_title("Branin, noise 1")
        right.legend(fontsize=8)


if __name__ == "__main__":
    main()
