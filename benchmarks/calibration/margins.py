r"""Margins of the default policy: ``python -m benchmarks.calibration.margins --inputs 2``.

Replays it on draws of its own prior, noise as well, and appends to
``results/margins_<inputs>.jsonl``; more replays extend the file.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from kernelucb.calibration import (
    BandClaim,
    Loop,
    OptimumClaim,
    PriorDraws,
    RegretClaim,
    ValueClaim,
    calibrate,
)

RESULTS = Path(__file__).parent / "results"
DELTAS = 0.05, 0.1, 0.2, 0.3
ROUNDS = 40
CLAIMS = RegretClaim(), ValueClaim(), OptimumClaim(), BandClaim()


def main(arguments: Sequence[str] | None = None) -> None:
    r"""Play what is missing, and print the margins."""
    parser = argparse.ArgumentParser(description="Margins of the default policy.")
    parser.add_argument("--inputs", type=int, required=True)
    parser.add_argument("--replays", type=int, default=199)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", type=Path, default=RESULTS)
    call = parser.parse_args(arguments)
    call.output.mkdir(parents=True, exist_ok=True)
    cube = torch.tensor([[0.0], [1.0]]).double().expand(2, call.inputs).contiguous()
    loop = Loop.default(cube, rounds=call.rounds)
    path, started = call.output / f"margins_{call.inputs}.jsonl", time.perf_counter()
    functions = PriorDraws(call.inputs)
    margins = calibrate(loop, functions, call.replays, path, claims=CLAIMS, jobs=call.jobs)
    print(f"{path}: {margins.replays} replays, {time.perf_counter() - started:.1f} s")
    for claim in CLAIMS:
        # As many as the replays have ranks for
        known = [delta for delta in DELTAS if delta * (margins.replays + 1) >= 1.0]
        found = [f"{delta:g}: {margins.margin(claim, delta):.2f}" for delta in known]
        print(f"{claim.name}, margins by delta: {', '.join(found)}")


if __name__ == "__main__":
    main()
