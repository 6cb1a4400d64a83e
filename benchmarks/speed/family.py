r"""Cost of a family of kernels, as ratios to the bound for one of them.

Processor seconds of one process with one thread: ``KernelFamilyUCB`` with eight kernels
and ``MartingaleMixtureUCB`` with the kernel that the function has, in turn on the same
data. The functions are expansions in an RBF kernel whose length scale is the third longest
of the eight.

    python -m benchmarks.speed.family [--seeds 10] [--output results.csv]

Measures: ``construction`` of the acquisition function; ``call`` is one whole
``optimize_acqf`` call, ``both`` the two together; ``gradient`` is one value and gradient at
8 points. The rules are those of ``select``; with all eight kernels consistent
(``contradicted`` is their mean number that is not) a call of ``"widest"`` costs most.
"""

import statistics
import warnings
from pathlib import Path

import torch
from botorch.optim import optimize_acqf
from gpytorch.kernels import RBFKernel
from rich.progress import track

from benchmarks.runner import (
    Benchmark,
    Call,
    fixed_kernel,
    number,
    option,
    rkhs_norm,
    write_table,
)
from benchmarks.speed.optimize_acqf import seconds
from kernelucb import (
    KernelFamily,
    KernelFamilyUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    lengthscale_family,
)

SIZES, DIMENSIONS = (50, 200), (2, 6)
RULES = ("simplest", "widest")
NORM, NOISE_STD = 5.0, 0.1
# Between neighbours: eight from the longest to one twelfth of it.
RATIO = 2.0**0.5
REPEATS = 3


def problem(n: int, d: int, seed: int) -> tuple[KernelRegression, list]:
    r"""Data of a function under the third longest kernel, and the family."""
    torch.manual_seed(seed)
    longest = 0.8 * (d / 2) ** 0.5
    family = lengthscale_family(RBFKernel(), longest / RATIO**7, longest, RATIO * 1.0001)
    kernel = fixed_kernel("rbf", longest / RATIO**2)
    centres = torch.rand(20, d, dtype=torch.float64)
    weights = torch.randn(20, dtype=torch.float64)
    weights = weights * NORM / rkhs_norm(kernel, centres, weights)
    X = torch.rand(n, d, dtype=torch.float64)
    Y = kernel(X, centres).to_dense() @ weights
    Y = Y + NOISE_STD * torch.randn_like(Y)
    return KernelRegression(X, Y, kernel, NOISE_STD), family


def measure(build, d: int, seed: int) -> dict[str, float]:
    r"""Seconds of each measure."""
    acqf = build()
    bounds = torch.stack([torch.zeros(d), torch.ones(d)]).double()
    torch.manual_seed(seed)
    few = torch.rand(8, 1, d, dtype=torch.float64, requires_grad=True)

    def differentiate() -> None:
        torch.autograd.grad(acqf(few).sum(), few)

    def optimise() -> None:
        optimize_acqf(acqf, bounds, q=1, num_restarts=8, raw_samples=256)

    found = {"construction": seconds(lambda: [build() for _ in range(REPEATS)]) / REPEATS}
    found["gradient"] = seconds(lambda: [differentiate() for _ in range(REPEATS)])
    found["call"] = seconds(optimise)
    return found | {"both": found["construction"] + found["call"]}


def pair(n: int, d: int, select: str, seed: int) -> tuple[dict[str, float], int]:
    r"""Ratios of each measure, and how many kernels are contradicted."""
    state, family = problem(n, d, seed)

    def one() -> MartingaleMixtureUCB:
        data = KernelRegression(
            state.train_inputs, state.train_targets, family[2], NOISE_STD
        )
        return MartingaleMixtureUCB(data, norm_bound=1.25 * NORM)

    def several() -> KernelFamilyUCB:
        searched = KernelFamily(family, select=select)
        return KernelFamilyUCB(state, searched, norm_bound=1.25 * NORM)

    own, other = measure(several, d, seed), measure(one, d, seed)
    ratios = {name: own[name] / other[name] for name in own}
    return ratios, several().consistent.count(False)


BENCHMARK = Benchmark("benchmarks.speed.family", __doc__.splitlines()[0])
RESULTS = Path(__file__).parent / "results" / "family.csv"


@BENCHMARK.command(
    "",
    options=[
        number("--seeds", "of each problem", 10),
        option("--output", type=Path, default=RESULTS, help="a CSV file"),
    ],
)
def run(call: Call) -> list[Path]:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # the optimiser's remarks on its line search
    rows = []
    for n in SIZES:
        for d in DIMENSIONS:
            for select in RULES:
                seeds = track(range(-1, call.options.seeds), f"n = {n}, d = {d}, {select}")
                every = [pair(n, d, select, seed + 1) for seed in seeds][1:]  # warm
                row = {"n": n, "d": d, "select": select, "kernels": 8}
                for name in every[0][0]:
                    middle = statistics.median(ratios[name] for ratios, _ in every)
                    row[name] = f"{middle:.2f}"
                row["contradicted"] = f"{statistics.mean(c for _, c in every):.1f}"
                rows.append(row)
                print(row)
    write_table(call.options.output, rows)
    return [call.options.output]


if __name__ == "__main__":
    BENCHMARK.main()
