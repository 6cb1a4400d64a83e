r"""Cost of a band for successes or counts, as ratios to the one for additive noise.

Processor seconds of one process with one thread: ``LikelihoodUCB`` on successes or counts
of a function, and ``MartingaleMixtureUCB`` of an exact GP with the same kernel and norm
bound on noisy values of the same function at the same points, each first in every second
pair.

    python -m benchmarks.speed.counts [--seeds 5] [--output results.csv]

Measures: ``construction`` of the acquisition function, that of the model not included;
``call`` is one whole ``optimize_acqf`` call; ``evaluations`` is how often that evaluates
the function, which depends on the landscape and not on the clock, and ``evaluation`` the
seconds of the call over that number. ``median`` and quartiles are of the ratios of pairs,
``of_sums`` is the ratio of all seconds; ``seconds`` is the mean of the counts' own.
"""

import statistics
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import torch
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from gpytorch.kernels import Kernel
from rich.progress import track
from torch import Tensor

from benchmarks.runner import (
    Benchmark,
    Call,
    fixed_kernel,
    number,
    option,
    rkhs_norm,
    write_table,
)
from benchmarks.speed.optimize_acqf import SIZES, seconds
from kernelucb import LikelihoodRegression, LikelihoodUCB, MartingaleMixtureUCB
from kernelucb.confidence.likelihood.tangents import LikelihoodForm

LIKELIHOODS = ("bernoulli", "poisson")
FORMS: tuple[LikelihoodForm, ...] = ("ellipsoid", "tangent")
KERNELS = ("rbf", "matern52")
MEASURES = ("construction", "call", "evaluations", "evaluation")
DIMENSION, LENGTHSCALE, CENTRES = 2, 0.3, 12
NORM, NORM_BOUND, NOISE_STD = 3.0, 3.5, 0.5


class Pair(NamedTuple):
    r"""What builds either acquisition function on data of the same function."""

    counts: Callable[[], LikelihoodUCB]
    values: Callable[[], MartingaleMixtureUCB]


def make_pair(likelihood: str, form: LikelihoodForm, kernel: Kernel, n: int) -> Pair:
    r"""Data of a function of known norm, from the current random state."""
    X = torch.rand(n, DIMENSION, dtype=torch.float64)
    centres = torch.rand(CENTRES, DIMENSION, dtype=torch.float64)
    weights = torch.randn(CENTRES, dtype=torch.float64)
    weights *= NORM / rkhs_norm(kernel, centres, weights)
    latent = kernel(X, centres).to_dense() @ weights
    rate = latent.exp() if likelihood == "poisson" else latent.sigmoid()
    counts = torch.poisson(rate) if likelihood == "poisson" else torch.bernoulli(rate)
    values = latent + NOISE_STD * torch.randn_like(latent)
    noise = torch.full_like(values, NOISE_STD**2).unsqueeze(-1)
    model = SingleTaskGP(
        X, values.unsqueeze(-1), noise, covar_module=kernel, outcome_transform=None
    )
    return Pair(
        lambda: LikelihoodUCB(
            LikelihoodRegression(X, counts, kernel, likelihood=likelihood),
            norm_bound=NORM_BOUND,
            form=form,
        ),
        lambda: MartingaleMixtureUCB(model, norm_bound=NORM_BOUND, noise_std=NOISE_STD),
    )


def measure(build: Callable, seed: int) -> dict[str, float]:
    r"""Seconds of each measure."""
    bounds = torch.zeros(2, DIMENSION, dtype=torch.float64)
    bounds[1] = 1.0
    found, calls = {"construction": seconds(build)}, []
    acqf = build()
    evaluate = acqf.forward

    def counted(X: Tensor) -> Tensor:
        calls.append(len(X))
        return evaluate(X)

    acqf.forward = counted
    torch.manual_seed(seed)
    found["call"] = seconds(
        lambda: optimize_acqf(acqf, bounds, q=1, num_restarts=8, raw_samples=256)
    )
    found["evaluations"] = len(calls)
    return found | {"evaluation": found["call"] / len(calls)}


def pairs(
    n: int, likelihood: str, form: LikelihoodForm, seeds: int
) -> dict[str, list[list[float]]]:
    r"""Seconds of both, counts first, for each kernel and seed, by measure."""
    found: dict[str, list[list[float]]] = {name: [] for name in MEASURES}
    cases = [(kernel, seed) for kernel in KERNELS for seed in range(-1, seeds)]
    for name, seed in track(cases, description=f"{likelihood}, {form}, n = {n}"):
        torch.manual_seed(seed + 1)
        pair = make_pair(likelihood, form, fixed_kernel(name, LENGTHSCALE), n)
        order = (0, 1) if seed % 2 else (1, 0)
        times = {side: measure(pair[side], seed + 1) for side in order}
        if seed >= 0:  # the first pair of a kernel warms up
            for each in MEASURES:
                found[each].append([times[side][each] for side in (0, 1)])
    return found


def rows(seeds: int) -> Iterator[dict[str, object]]:
    r"""One row for each size, likelihood, form and measure."""
    for n in SIZES:
        for likelihood, form in product(LIKELIHOODS, FORMS):
            for name, times in pairs(n, likelihood, form, seeds).items():
                ratios = [own / other for own, other in times]
                lower, median, upper = statistics.quantiles(ratios, n=4)
                own, other = map(sum, zip(*times, strict=True))
                row = {"n": n, "likelihood": likelihood, "form": form, "measure": name}
                row |= {"lower_quartile": f"{lower:.2f}", "median": f"{median:.2f}"}
                row |= {"upper_quartile": f"{upper:.2f}", "of_sums": f"{own / other:.2f}"}
                yield row | {"seconds": f"{own / len(times):.3g}", "pairs": len(ratios)}


BENCHMARK = Benchmark("benchmarks.speed.counts", __doc__.splitlines()[0])
RESULTS = Path(__file__).parent / "results" / "counts.csv"


@BENCHMARK.command(
    "",
    options=[
        number("--seeds", "of each kernel", 5),
        option("--output", type=Path, default=RESULTS, help="a CSV file"),
    ],
)
def run(call: Call) -> list[Path]:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # the optimiser's remarks on its line search
    found = []
    for row in rows(call.options.seeds):
        found.append(row)
        print(row)
    write_table(call.options.output, found)
    return [call.options.output]


if __name__ == "__main__":
    BENCHMARK.main()
