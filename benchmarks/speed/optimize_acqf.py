r"""Cost of the exact bound inside ``optimize_acqf``, as ratios to BoTorch's UCB.

Processor seconds of one process with one thread, alternating between the two, so that
other work on the machine disturbs little and hits both; the ratios are taken pair by pair
and their median is reported.

    python -m benchmarks.speed.optimize_acqf [--repeats 15] [--output results.csv]

Columns: ``call`` is one whole ``optimize_acqf`` call (the two acquisition functions have
different landscapes, so the optimiser may take different numbers of steps); ``gradient``
is one value and gradient at 8 points, the optimiser's inner step; ``batch`` is 256 values
without gradient, its initial scan; ``build`` is constructing the acquisition function
against BoTorch's first posterior (which factorises the kernel matrix).
"""

import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.test_functions import Branin, Hartmann
from botorch.utils.transforms import unnormalize
from rich.progress import track

from benchmarks.runner import Benchmark, Call, number, option, write_table
from kernelucb import MartingaleMixtureUCB

PROBLEMS = {
    "branin": (Branin(negate=True), 5.0, 0.3, 2000.0),
    "hartmann6": (Hartmann(6, negate=True), 0.05, 0.5, 10.0),
}
SIZES = (50, 200, 1000)
MEASURES = ("call", "gradient", "batch", "build")


def make_model(problem: str, n: int) -> SingleTaskGP:
    function, noise_std, lengthscale, _ = PROBLEMS[problem]
    X = torch.rand(n, function.dim, dtype=torch.float64)
    Y = function(unnormalize(X, function.bounds.to(X))).unsqueeze(-1)
    model = SingleTaskGP(X, Y + noise_std * torch.randn_like(Y))
    model.covar_module.lengthscale = lengthscale
    model.likelihood.noise = 1e-2
    return model


def measure(problem: str, n: int, repeats: int) -> dict[str, list[float]]:
    """Pairwise ratios, exact bound over BoTorch's UCB, one list for each measure."""
    ratios: dict[str, list[float]] = {name: [] for name in MEASURES}
    model = make_model(problem, n)
    norm_bound = PROBLEMS[problem][-1]
    builders = (
        lambda: UpperConfidenceBound(model, beta=4.0),
        lambda: MartingaleMixtureUCB(
            model, norm_bound=norm_bound, delta=0.05, fit="martingale"
        ),
    )
    for repeat in range(repeats + 1):
        times = [time_once(model, build, repeat) for build in builders]
        if repeat > 0:  # the first pair warms up
            for name in MEASURES:
                ratios[name].append(times[1][name] / times[0][name])
    return ratios


def time_once(model: SingleTaskGP, build: Callable, seed: int) -> dict[str, float]:
    d = model.train_inputs[0].shape[-1]
    bounds = torch.stack([torch.zeros(d), torch.ones(d)]).double()
    model.train()
    model.eval()  # forget the caches of the last pair
    torch.manual_seed(seed)
    acqf, result = build(), {}
    few = torch.rand(8, 1, d, dtype=torch.float64, requires_grad=True)
    many = torch.rand(256, 1, d, dtype=torch.float64)

    def construct_and_score_once() -> None:
        with torch.no_grad():
            build()(many[:1])

    def scan() -> None:
        with torch.no_grad():
            acqf(many)

    def optimise() -> None:
        optimize_acqf(acqf, bounds, q=1, num_restarts=8, raw_samples=256)

    result["build"] = seconds(construct_and_score_once)
    result["batch"] = seconds(scan)
    result["gradient"] = seconds(lambda: torch.autograd.grad(acqf(few).sum(), few))
    result["call"] = seconds(optimise)
    return result


def seconds(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


BENCHMARK = Benchmark("benchmarks.speed.optimize_acqf", __doc__.splitlines()[0])
RESULTS = Path(__file__).parent / "results" / "optimize_acqf.csv"


@BENCHMARK.command(
    "",
    options=[
        number("--repeats", "pairs of measurements", 15),
        option("--output", type=Path, default=RESULTS, help="a CSV file"),
    ],
)
def run(call: Call) -> list[Path]:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # the optimiser's remarks on its line search
    torch.manual_seed(0)
    rows = []
    cases = [(problem, n) for problem in PROBLEMS for n in SIZES]
    for problem, n in track(cases, description="exact bound against UCB"):
        for name, ratios in measure(problem, n, call.options.repeats).items():
            lower, median, upper = (f"{q:.2f}" for q in statistics.quantiles(ratios, n=4))
            row = {"problem": problem, "n": n, "measure": name, "lower_quartile": lower}
            rows.append(row | {"median": median, "upper_quartile": upper})
            rows[-1]["pairs"] = len(ratios)
            print(
                "{:10s} n={:<5d} {:9s} quartiles {} {} {} ({} pairs)".format(
                    *rows[-1].values()
                )
            )
    write_table(call.options.output, rows)
    return [call.options.output]


if __name__ == "__main__":
    BENCHMARK.main()
