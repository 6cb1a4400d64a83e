r"""Margins of the default policy: ``python -m benchmarks.calibration.margins --inputs 2``.

Replays it on draws of a prior, noise as well, and appends to
``results/margins_<prior>_<inputs>.jsonl``; more replays extend the file. With ``--quick``
the fits are those of ``benchmarks.calibration.fit``: the same, sooner. With ``--package``
what all files say goes to ``default_margins.json`` of the package.
"""

import argparse
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from botorch.models import SingleTaskGP

from benchmarks.calibration.fit import MODELS
from benchmarks.calibration.problems import matern
from kernelucb.calibration import (
    BandClaim,
    Loop,
    Margins,
    OptimumClaim,
    PriorDraws,
    RegretClaim,
    ValueClaim,
    calibrate,
    policy,
)
from kernelucb.calibration.default import PATH, kept, written

RESULTS = Path(__file__).parent / "results"
INPUTS = 1, 2, 3, 4, 6, 8
DELTAS = 0.05, 0.1, 0.2, 0.3
REPLAYS, ROUNDS = 199, 40
# Set before the scores were seen: claims from ten outcomes on, fifty replays for the shape.
FIRST, SHAPING = 10, (50, 0.1)
PRIORS = {"botorch": None, "matern": partial(matern, outcome_transform=None)}
NAME = "margins_{}_{}.jsonl"
CLAIMS = RegretClaim(), ValueClaim(), OptimumClaim(), BandClaim()


def replayed(
    inputs: int,
    replays: int = REPLAYS,
    rounds: int = ROUNDS,
    folder: Path = RESULTS,
    jobs: int = 1,
    prior: str = "botorch",
) -> Margins:
    r"""Margins in so many inputs, after what is missing has been played."""
    cube = torch.tensor([[0.0], [1.0]]).double().expand(2, inputs).contiguous()
    loop, path = Loop.default(cube, rounds=rounds), folder / NAME.format(prior, inputs)
    folder.mkdir(parents=True, exist_ok=True)
    functions = PriorDraws(inputs, PRIORS[prior])
    return calibrate(loop, functions, replays, path, claims=CLAIMS, jobs=jobs)


def _quickly(model: SingleTaskGP) -> SingleTaskGP:
    # In the unit cube normalized inputs are the inputs.
    return MODELS["BoTorch"].fitted(model, model.train_inputs[0])


def main(arguments: Sequence[str] | None = None) -> None:
    r"""Play what is missing, and print the margins or write the package's."""
    parser = argparse.ArgumentParser(description="Margins of the default policy.")
    parser.add_argument("--inputs", type=int, nargs="+", default=INPUTS)
    parser.add_argument("--replays", type=int, default=REPLAYS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--prior", choices=[*PRIORS], default="botorch")
    parser.add_argument("--quick", action="store_true", help="with one process only")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--package", action="store_true")
    call = parser.parse_args(arguments)
    if call.package:
        package(call.output)
        return
    sizes = (call.replays, call.rounds, call.output, call.jobs, call.prior)
    if call.quick:
        policy.fitted = _quickly
    for inputs in call.inputs:
        started = time.perf_counter()
        margins = replayed(inputs, *sizes)
        spent = time.perf_counter() - started
        print(f"{inputs} inputs: {margins.replays} replays, {spent:.1f} s")
        for claim in CLAIMS:
            # As many as the replays have ranks for
            known = [delta for delta in DELTAS if delta * (margins.replays + 1) >= 1.0]
            found = [f"{delta:g}: {margins.margin(claim, delta):.2f}" for delta in known]
            print(f"{claim.name}, margins by delta: {', '.join(found)}")


def is_whole(path: Path) -> bool:
    r"""Whether a file has its settings and all replays."""
    return path.exists() and len(path.read_text().splitlines()) > REPLAYS


def package(folder: Path = RESULTS, path: Path = PATH) -> None:
    r"""Keep the margins of every prior in all inputs in which it was replayed."""
    found = {
        prior: {
            inputs: kept(
                replayed(inputs, folder=folder, prior=prior).since(FIRST).shaped(*SHAPING)
            )
            for inputs in INPUTS
            if is_whole(folder / NAME.format(prior, inputs))
        }
        for prior in PRIORS
    }
    path.write_text(written(found), encoding="utf-8")


if __name__ == "__main__":
    main()
