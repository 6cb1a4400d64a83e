r"""Work in an interpreter of its own: growth with the data, and imports.

For growth the processor seconds of one thread, and the peak memory above that of the
process before the work.
"""

import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf_discrete
from botorch.test_functions import Hartmann

from kernelucb import MartingaleMixtureUCB, NystromRegression, SketchedMartingaleMixtureUCB

_DIMENSION, _NOISE_STD, _NORM_BOUND, _PART, _INDUCING = 6, 0.05, 10.0, 2048, 400
_FIRST_USE = (
    "from botorch.acquisition import UpperConfidenceBound; "
    "from botorch.models import SingleTaskGP; from botorch.optim import optimize_acqf"
)
STATEMENTS = {
    ("import", "botorch"): "import botorch",
    ("import", "kernelucb"): "import kernelucb",
    ("first use", "botorch"): _FIRST_USE,
    ("first use", "kernelucb"): f"{_FIRST_USE}; from kernelucb import MartingaleMixtureUCB",
}


def play_growth(settings: dict[str, Any]) -> dict[str, float]:
    r"""Seconds and megabytes of one task, in a process of its own."""
    command = [sys.executable, "-m", __name__, json.dumps(settings)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(result.stdout.splitlines()[-1])


def play_import(settings: dict[str, Any]) -> dict[str, float]:
    r"""Wall-clock and processor seconds of an interpreter that runs one statement."""
    command = [sys.executable, "-c", STATEMENTS[settings["case"], settings["library"]]]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": wall, "processor": processor}


def _work(task: str, name: str, n: int, points: int) -> tuple[Callable, Callable]:
    r"""What is prepared before the clock starts, and what is measured."""
    model = _model(n)
    few = torch.rand(256, 1, _DIMENSION, dtype=torch.float64)
    if task == "build":
        return lambda: None, lambda _: _construct(name, model)(few)

    def prepared() -> Any:
        acqf = _construct(name, model)
        acqf(few)
        return acqf

    if task == "pending":
        return prepared, lambda acqf: (acqf.set_X_pending(few[:4, 0]), acqf(few))
    many = torch.rand(points, _DIMENSION, dtype=torch.float64)
    if task == "discrete":
        return prepared, lambda acqf: optimize_acqf_discrete(
            acqf, q=1, choices=many, max_batch_size=_PART
        )
    if name == "UCB":
        parts = many.unsqueeze(-2).split(_PART)
        return prepared, lambda acqf: torch.cat([acqf(part) for part in parts])
    return prepared, lambda acqf: acqf.bounds(many)


def _model(n: int) -> SingleTaskGP:
    torch.manual_seed(0)
    X = torch.rand(n, _DIMENSION, dtype=torch.float64)
    Y = Hartmann(_DIMENSION, negate=True)(X).unsqueeze(-1)
    model = SingleTaskGP(X, Y + _NOISE_STD * torch.randn_like(Y))
    model.covar_module.lengthscale = 0.5
    model.likelihood.noise = 1e-2
    return model.eval()


def _construct(name: str, model: SingleTaskGP) -> Any:
    if name == "UCB":
        return UpperConfidenceBound(model, beta=4.0)
    options: Any = {"norm_bound": _NORM_BOUND, "fit": "martingale"}
    if name == "sketched bound":
        state = NystromRegression.from_model(model, model.train_inputs[0][:_INDUCING])
        return SketchedMartingaleMixtureUCB(state, **options)
    return MartingaleMixtureUCB(model, **options)


@torch.no_grad()
def _measure(task: str, function: str, n: int, points: int) -> dict[str, float]:
    prepare, action = _work(task, function, n, points)
    subject, myself = prepare(), resource.RUSAGE_SELF
    before, start = resource.getrusage(myself).ru_maxrss, time.process_time()
    action(subject)
    seconds = time.process_time() - start
    peak = resource.getrusage(myself).ru_maxrss
    return {"seconds": seconds, "megabytes": (peak - before) / 1024}


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print(json.dumps(_measure(**json.loads(sys.argv[1]))))
