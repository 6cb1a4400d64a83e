r"""How cost grows with the observations and the candidates, beside BoTorch's UCB.

Every measurement is a process of its own with one thread: processor seconds, and the peak
memory above that of the process before the work. The two acquisition functions are
measured one after the other, so the ratios compare like with like.

    python -m benchmarks.speed.growth [--sizes 200 1000 2000 5000] [--output growth.csv]

Tasks: ``build`` constructs the acquisition function and scores 256 points, for
``SketchedMartingaleMixtureUCB`` with 400 inducing points as well; ``pending`` is
``set_X_pending`` with 4 points and 256 values after it (the exact bound against its own
build: UCB takes no pending points); ``bounds`` is the band of many points against UCB's
values of the same points in parts of 2048; ``discrete`` is ``optimize_acqf_discrete`` over
many candidates. ``--candidates`` says how many; for the largest sizes fewer are measured.
"""

import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf_discrete
from botorch.test_functions import Hartmann

from benchmarks.runner import (
    Benchmark,
    Call,
    names,
    number,
    option,
    read_table,
    write_table,
)
from kernelucb import (
    MartingaleMixtureUCB,
    NystromRegression,
    SketchedMartingaleMixtureUCB,
)

TASKS = ("build", "pending", "bounds", "discrete")
NAMES = {
    "build": ("exact bound", "sketched bound", "UCB"),
    "pending": ("exact bound",),
    "bounds": ("exact bound", "UCB"),
    "discrete": ("exact bound", "UCB"),
}
_DIMENSION, _NOISE_STD, _NORM_BOUND, _PART = 6, 0.05, 10.0, 2048
_INDUCING = 400


def make_model(n: int) -> SingleTaskGP:
    torch.manual_seed(0)
    X = torch.rand(n, _DIMENSION, dtype=torch.float64)
    Y = Hartmann(_DIMENSION, negate=True)(X).unsqueeze(-1)
    model = SingleTaskGP(X, Y + _NOISE_STD * torch.randn_like(Y))
    model.covar_module.lengthscale = 0.5
    model.likelihood.noise = 1e-2
    return model.eval()


def construct(name: str, model: SingleTaskGP) -> Any:
    if name == "UCB":
        return UpperConfidenceBound(model, beta=4.0)
    options: Any = {"norm_bound": _NORM_BOUND, "delta": 0.05, "fit": "martingale"}
    if name == "sketched bound":
        state = NystromRegression.from_model(model, model.train_inputs[0][:_INDUCING])
        return SketchedMartingaleMixtureUCB(state, **options)
    return MartingaleMixtureUCB(model, **options)


def work(task: str, name: str, n: int, candidates: int) -> tuple[Callable, Callable]:
    """What is prepared before the clock starts, and what is measured."""
    model = make_model(n)
    few = torch.rand(256, 1, _DIMENSION, dtype=torch.float64)
    if task == "build":
        return lambda: None, lambda _: construct(name, model)(few)

    def prepared() -> Any:
        acqf = construct(name, model)
        acqf(few)
        return acqf

    if task == "pending":

        def with_pending(acqf: Any) -> None:
            acqf.set_X_pending(few[:4, 0])
            acqf(few)

        return prepared, with_pending
    many = torch.rand(candidates, _DIMENSION, dtype=torch.float64)
    if task == "discrete":
        return prepared, lambda acqf: optimize_acqf_discrete(
            acqf, q=1, choices=many, max_batch_size=_PART
        )
    if name == "UCB":
        parts = many.unsqueeze(-2).split(_PART)
        return prepared, lambda acqf: torch.cat([acqf(part) for part in parts])
    return prepared, lambda acqf: acqf.bounds(many)


@torch.no_grad()
def measure(task: str, name: str, n: int, candidates: int) -> dict[str, float]:
    prepare, action = work(task, name, n, candidates)
    subject = prepare()
    before, start = peak_megabytes(), time.process_time()
    action(subject)
    seconds = time.process_time() - start
    return {"seconds": seconds, "megabytes": peak_megabytes() - before}


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_fresh_process(task: str, name: str, n: int, candidates: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.speed.growth", "--one", task, name]
    sizes = ["--sizes", str(n), "--candidates", str(candidates)]
    result = subprocess.run([*command, *sizes], capture_output=True, text=True, check=True)
    return json.loads(result.stdout.splitlines()[-1])


def rows(task: str, n: int, candidates: int) -> list[dict[str, Any]]:
    """One row for each function that can do the task."""
    many = candidates if task in ("bounds", "discrete") else 256
    found = []
    for name in NAMES[task]:
        result = in_fresh_process(task, name, n, many)
        seconds, megabytes = f"{result['seconds']:.3f}", f"{result['megabytes']:.0f}"
        found.append({"task": task, "n": str(n), "points": many, "function": name})
        found[-1] |= {"seconds": seconds, "megabytes": megabytes}
        print(f"{task:9s} n={n:<5d} {many:>8d} points  {name:14s} {seconds:>9s} s", end="")
        print(f" {megabytes:>6s} MB")
    return found


BENCHMARK = Benchmark("benchmarks.speed.growth", __doc__.splitlines()[0])


@BENCHMARK.command(
    "",
    options=[
        option("--one", nargs=2, metavar=("TASK", "NAME"), help="in this process"),
        names("--tasks", "which", default=TASKS, choices=TASKS),
        names("--sizes", "which", type=int, default=[200, 1000, 2000, 5000]),
        number("--candidates", "how many", 1_000_000),
        option("--output", type=Path, help="a CSV file; finished rows are kept"),
    ],
)
def run(call: Call) -> None:
    options, path = call.options, call.options.output
    torch.set_num_threads(1)
    if options.one:
        warnings.simplefilter("ignore")
        print(json.dumps(measure(*options.one, options.sizes[0], options.candidates)))
        return
    kept = read_table(path).to_dict("records") if path and path.exists() else []
    done = {(row["task"], int(row["n"])) for row in kept}
    for task in options.tasks:
        for n in options.sizes:
            if (task, n) in done:
                continue
            # A million points at n = 5000 are a quarter of an hour for either function.
            many = min(options.candidates, options.candidates * 200_000 // n**2)
            kept += rows(task, n, max(many, 1))
            if path:
                write_table(path, kept)


if __name__ == "__main__":
    BENCHMARK.main()
