r"""The ladder of claims about a batch reaction."""

import time
from itertools import islice
from typing import Any

import torch

from benchmarks.reliability.claims import LENGTHSCALE, chosen_by, problem_of
from benchmarks.runner import quiet, unit_cube
from benchmarks.runner.simulators import SIMULATORS
from kernelucb import KernelRegression, MartingaleMixtureUCB, optimum_report
from kernelucb.regression.named import fixed_kernel, fixed_mean

_NOISE, _MEAN, _STD = 1.0, 40.0, 30.0  # % yield; a prior that was fixed before the data
_MARGIN = 2.0  # times the least consistent norm: the norm bound in use


@quiet()
def play_ladder(settings: dict[str, Any]) -> dict[str, Any]:
    r"""The claims after a number of runs, and processor seconds of the whole report."""
    problem, seed = problem_of("batch reaction", settings["seed"]), settings["seed"]
    random = torch.Generator().manual_seed(2000 + seed)
    noise = _NOISE * torch.randn(settings["count"], generator=random).double()

    def outcomes(taken: list[int]) -> torch.Tensor:
        return problem.values[taken] + noise[: len(taken)]

    torch.manual_seed(seed)
    chosen = chosen_by(problem, "qlognei", seed, outcomes)
    taken = list(islice(chosen, settings["count"]))
    X, Y = problem.pool[taken], outcomes(taken)
    kernel = fixed_kernel("matern52", LENGTHSCALE, _STD**2)
    state = KernelRegression(X, Y, kernel, _NOISE, fixed_mean(_MEAN))
    band = MartingaleMixtureUCB(state, norm_bound=1.0)
    norm = _MARGIN * float(band.relaxed().least_consistent_norm)
    band = MartingaleMixtureUCB(state, norm_bound=norm)
    if settings["range"] != "unknown":
        band = band.within(0.0, 100.0)
    began = time.process_time()
    best = X[state.mean(X).argmax()]
    report = optimum_report(
        band,
        bounds=unit_cube(3),
        recommended=best,
        baseline=X[0],
        threshold=float(state.mean(best[None])) - 20.0,
        tolerance=10.0,
        names=SIMULATORS["batch reaction"].names,
        outcome="yield",
        units={"yield": "%"},
    )
    claims = [claim.to_dict() for claim in report.claims]
    seconds = time.process_time() - began
    rows = [c | {"number": c["numbers"][0], "seconds": seconds} for c in claims]
    return {"claims": rows}
