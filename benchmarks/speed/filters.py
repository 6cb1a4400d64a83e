r"""Cost of the mixture of filters, as ratios to the exact set of the paper.

Processor seconds of one process with one thread, the two fits in turn on the same model,
each first in every second pair. Problems, models and numbers are those of
``optimize_acqf.py``, with new data for each seed.

    python -m benchmarks.speed.filters [--seeds 15] [--output results.csv]

Measures: ``construction`` of the acquisition function, with its one ``eigh``; ``call`` is
one whole ``optimize_acqf`` call; ``evaluations`` is how often that evaluates the function,
which depends on the landscape and not on the clock, and ``evaluation`` the seconds of the
call over that number; ``gradient`` is one value and gradient at 8 points. ``median`` and
quartiles are of the ratios of pairs, ``of_sums`` is the ratio of all seconds.
"""

import statistics
import warnings
from pathlib import Path

import torch
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from rich.progress import track
from torch import Tensor

from benchmarks.runner import Benchmark, Call, number, option, write_table
from benchmarks.speed.optimize_acqf import PROBLEMS, SIZES, make_model, seconds
from kernelucb import MartingaleMixtureUCB

FITS = ("filters", "martingale")
MEASURES = ("construction", "call", "evaluations", "evaluation", "gradient")
# Constructions and gradients are short: the mean of so many.
REPEATS = 5


def measure(model: SingleTaskGP, norm_bound: float, fit, seed: int) -> dict[str, float]:
    r"""Seconds of each measure."""
    d = model.train_inputs[0].shape[-1]
    bounds = torch.stack([torch.zeros(d), torch.ones(d)]).double()

    def build() -> MartingaleMixtureUCB:
        return MartingaleMixtureUCB(model, norm_bound=norm_bound, delta=0.05, fit=fit)

    acqf, calls = build(), []
    evaluate = acqf.forward

    def counted(X: Tensor) -> Tensor:
        calls.append(len(X))
        return evaluate(X)

    def differentiate() -> None:
        torch.autograd.grad(acqf(few).sum(), few)

    def optimise() -> None:
        optimize_acqf(acqf, bounds, q=1, num_restarts=8, raw_samples=256)

    torch.manual_seed(seed)
    few = torch.rand(8, 1, d, dtype=torch.float64, requires_grad=True)
    found = {"construction": seconds(lambda: [build() for _ in range(REPEATS)])}
    found["gradient"] = seconds(lambda: [differentiate() for _ in range(REPEATS)])
    acqf.forward = counted
    found["call"] = seconds(optimise)
    found["evaluations"] = len(calls)
    return found | {"evaluation": found["call"] / len(calls)}


def pairs(n: int, seeds: int) -> dict[str, list[list[float]]]:
    r"""Seconds of ``FITS``, in their order, for each problem and seed, by measure."""
    found: dict[str, list[list[float]]] = {name: [] for name in MEASURES}
    cases = [(problem, seed) for problem in PROBLEMS for seed in range(-1, seeds)]
    for problem, seed in track(cases, description=f"n = {n}"):
        torch.manual_seed(seed + 1)
        model, norm_bound = make_model(problem, n), PROBLEMS[problem][-1]
        order = FITS if seed % 2 else FITS[::-1]
        times = {fit: measure(model, norm_bound, fit, seed + 1) for fit in order}
        if seed >= 0:  # the first pair of a problem warms up
            for name in MEASURES:
                found[name].append([times[fit][name] for fit in FITS])
    return found


BENCHMARK = Benchmark("benchmarks.speed.filters", __doc__.splitlines()[0])
RESULTS = Path(__file__).parent / "results" / "filters.csv"


@BENCHMARK.command(
    "",
    options=[
        number("--seeds", "of each problem", 15),
        option("--output", type=Path, default=RESULTS, help="a CSV file"),
    ],
)
def run(call: Call) -> list[Path]:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # the optimiser's remarks on its line search
    rows = []
    for n in SIZES:
        for name, times in pairs(n, call.options.seeds).items():
            ratios = [own / other for own, other in times]
            lower, median, upper = statistics.quantiles(ratios, n=4)
            own, other = map(sum, zip(*times, strict=True))
            row = {"n": n, "measure": name, "lower_quartile": f"{lower:.2f}"}
            row |= {"median": f"{median:.2f}", "upper_quartile": f"{upper:.2f}"}
            rows.append(row | {"of_sums": f"{own / other:.2f}", "pairs": len(ratios)})
            print(rows[-1])
    write_table(call.options.output, rows)
    return [call.options.output]


if __name__ == "__main__":
    BENCHMARK.main()
