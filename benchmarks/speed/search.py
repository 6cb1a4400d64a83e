r"""Search time of a round, as ratios to BoTorch's own acquisition functions.

Construction of an acquisition function and one ``optimize_acqf`` call on one model:
processor seconds of one process with one thread, the functions in turn, in another order
for each seed. Problems and models are those of ``optimize_acqf.py``, with new data for
each seed; the caches of the model are filled before.

    python -m benchmarks.speed.search [--seeds 8] [--output results.csv]

Pairs: ``given`` and ``estimated`` are ``MartingaleMixtureUCB(model)`` with the norm bound
given and estimated, over ``UpperConfidenceBound`` with the ``beta`` named; ``guarded`` is
``GuardedAcquisition`` of ``qLogNoisyExpectedImprovement`` within the band with the
estimated norm, over the same function alone. Measures: ``round`` is construction and call;
``evaluations`` is how often the call evaluates the function, which depends on the
landscape and not on the clock, and ``evaluation`` the seconds of the call over that number.
``median`` and quartiles are of the ratios of pairs, ``of_sums`` is the ratio of all sums.
"""

import statistics
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from rich.progress import track
from torch import Tensor

from benchmarks.runner import Benchmark, Call, number, option, write_table
from benchmarks.speed.optimize_acqf import PROBLEMS, make_model, seconds
from kernelucb import GuardedAcquisition, MartingaleMixtureUCB

SIZES = (20, 50, 200)
PAIRS = (
    ("given", "ucb beta 4"),
    ("given", "ucb beta 2"),
    ("estimated", "ucb beta 4"),
    ("estimated", "ucb beta 2"),
    ("guarded", "qLogNEI"),
)
MEASURES = ("round", "construction", "call", "evaluations", "evaluation")


def builders(model: SingleTaskGP, norm_bound: float) -> dict[str, Callable]:
    r"""What is compared, by name."""
    X = model.train_inputs[0]

    def improvement() -> qLogNoisyExpectedImprovement:
        return qLogNoisyExpectedImprovement(model, X, prune_baseline=True)

    return {
        "given": lambda: MartingaleMixtureUCB(model, norm_bound=norm_bound),
        "estimated": lambda: MartingaleMixtureUCB(model),
        "ucb beta 4": lambda: UpperConfidenceBound(model, beta=4.0),
        "ucb beta 2": lambda: UpperConfidenceBound(model, beta=2.0),
        "guarded": lambda: GuardedAcquisition(improvement(), MartingaleMixtureUCB(model)),
        "qLogNEI": improvement,
    }


def measure(build: Callable, d: int, seed: int) -> dict[str, float]:
    r"""Numbers of each measure for one function on ``[0, 1]^d``."""
    bounds = torch.stack([torch.zeros(d), torch.ones(d)]).double()
    built, calls = [], []
    torch.manual_seed(seed)
    found = {"construction": seconds(lambda: built.append(build()))}
    acqf = built[0]
    evaluate = acqf.forward

    def counted(X: Tensor) -> Tensor:
        calls.append(len(X))
        return evaluate(X)

    acqf.forward = counted
    found["call"] = seconds(
        lambda: optimize_acqf(acqf, bounds, q=1, num_restarts=8, raw_samples=256)
    )
    found["round"] = found["construction"] + found["call"]
    return found | {"evaluations": len(calls), "evaluation": found["call"] / len(calls)}


def measurements(n: int, seeds: int) -> list[dict[str, dict[str, float]]]:
    r"""For each problem and seed the measures of each function, by name."""
    found = []
    cases = [(problem, seed) for problem in PROBLEMS for seed in range(-1, seeds)]
    for problem, seed in track(cases, description=f"n = {n}"):
        torch.manual_seed(seed + 1)
        model = make_model(problem, n)
        d = model.train_inputs[0].shape[-1]
        model.eval()
        model.posterior(torch.rand(1, d, dtype=torch.float64))
        named = list(builders(model, PROBLEMS[problem][-1]).items())
        turn = (seed + 1) % len(named)
        times = {
            name: measure(build, d, seed + 1) for name, build in named[turn:] + named[:turn]
        }
        if seed >= 0:  # the first round of a problem warms up
            found.append(times)
    return found


BENCHMARK = Benchmark("benchmarks.speed.search", __doc__.splitlines()[0])
RESULTS = Path(__file__).parent / "results" / "search.csv"


@BENCHMARK.command(
    "",
    options=[
        number("--seeds", "of each problem", 8),
        option("--output", type=Path, default=RESULTS, help="a CSV file"),
    ],
)
def run(call: Call) -> list[Path]:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # the optimiser's remarks, norms that are too small
    rows = []
    for n in SIZES:
        found = measurements(n, call.options.seeds)
        for own, other in PAIRS:
            for name in MEASURES:
                pairs = [(times[own][name], times[other][name]) for times in found]
                rows.append({"n": n, "own": own, "other": other, "measure": name})
                rows[-1] |= summary(pairs)
            print(rows[-len(MEASURES)])
    write_table(call.options.output, rows)
    return [call.options.output]


def summary(pairs: list[tuple[float, float]]) -> dict[str, str | int]:
    r"""Quartiles of the ratios of pairs, ratio of the sums, and means of both."""
    lower, median, upper = statistics.quantiles((own / other for own, other in pairs), n=4)
    own, other = (statistics.mean(values) for values in zip(*pairs, strict=True))
    return {
        "lower_quartile": f"{lower:.2f}",
        "median": f"{median:.2f}",
        "upper_quartile": f"{upper:.2f}",
        "of_sums": f"{own / other:.2f}",
        "mean_own": f"{own:.4g}",
        "mean_other": f"{other:.4g}",
        "pairs": len(pairs),
    }


if __name__ == "__main__":
    BENCHMARK.main()
