r"""The README's picture: a function of known norm inside the band of a mixture of filters.

The setting of Figure 1 of Flynn & Reeb (2024), with a function of our own: Matern 3/2
kernel of length 0.5 on [-1, 1], norm 10, noise 0.1, delta 0.01, 25 points in
[-0.8, -0.2] and 25 in [0.2, 0.8], covariance scale 50^(-1/5).

    python -m benchmarks.pictures.readme_band

writes docs/images/readme_band.png and prints the mean width of every band.
"""

import argparse
from pathlib import Path

import torch

from benchmarks.runner import ROOT, KnownFunction, fixed_kernel, picture
from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    WangDeFreitasUCB,
)
from kernelucb.plotting import band_widths, plot_bands

NORM, NOISE, DELTA, NUM_CENTRES = 10.0, 0.1, 0.01, 20
SCALE = 50 ** (-1 / 5)
GIVEN = {"norm_bound": NORM, "delta": DELTA}
PAPER = {**GIVEN, "fit": "martingale", "covariance_scale": SCALE}
OURS = "mixture of filters (ours)"
OUTPUT = ROOT / "docs" / "images" / "readme_band.png"


def problem(seed: int):
    generator = torch.Generator().manual_seed(seed)
    kernel = fixed_kernel("matern32", 0.5)
    centres = 2 * torch.rand(NUM_CENTRES, 1, generator=generator).double() - 1
    weights = torch.randn(NUM_CENTRES, generator=generator).double()
    truth = KnownFunction(kernel, centres, weights).scaled(NORM)
    offsets = torch.rand(2, 25, 1, generator=generator).double() * 0.6
    train_X = torch.cat([offsets[0] - 0.8, offsets[1] + 0.2])
    noise = NOISE * torch.randn(50, generator=generator).double()
    train_Y = truth(train_X) + noise
    return KernelRegression(train_X, train_Y, kernel, NOISE), truth, (train_X, train_Y)


def bands(state: KernelRegression) -> dict:
    return {
        OURS: MartingaleMixtureUCB(state, covariance_scale=SCALE, **GIVEN),
        "exact (CMM)": MartingaleMixtureUCB(state, **PAPER),
        "AMM": MartingaleMixtureUCB(state, form="analytic", **PAPER),
        "Abbasi-Yadkori": AbbasiYadkoriUCB(state, alpha=NOISE**2 / SCALE, **GIVEN),
        "IGP": IGPUCB(state, horizon=50, **GIVEN),
    }


def draw(acquisitions: dict, X: torch.Tensor, truth, data, output: Path) -> None:
    with picture(output, figsize=(8.2, 4.4)) as (figure, axes):
        plot_bands(
            acquisitions,
            X,
            data=data,
            true_function=truth,
            show_mean=False,
            ax=axes,
            legend=False,
            x_label="input $x$ (no unit)",
            y_label="outcome $f(x)$ (no unit)",
        )
        axes.set_title(
            f"Five bands for all $x$ and all 50 rounds at once with probability "
            f"{1 - DELTA:.0%}, same data and assumptions",
            loc="left",
        )
        figure.legend(loc="outside lower center", ncols=4, columnspacing=1.6)


def print_widths(acquisitions: dict, state: KernelRegression, X: torch.Tensor) -> None:
    others = {
        "DMM (grid of 5)": MartingaleMixtureUCB(state, form="grid", **PAPER),
        "Wang-de Freitas": WangDeFreitasUCB(state, **GIVEN),
    }
    widths = band_widths({**acquisitions, **others}, X)
    ours = widths[OURS]
    for name, width in sorted(widths.items(), key=lambda item: item[1]):
        print(f"  {name:26s} {width:6.3f}  {width / ours:5.2f} times ours")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=6, help="of the pictured function")
    parser.add_argument("--repetitions", type=int, default=20, help="for the medians")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    X = torch.linspace(-1, 1, 1001, dtype=torch.float64).unsqueeze(-1)
    state, truth, data = problem(arguments.seed)
    acquisitions = bands(state)
    draw(acquisitions, X, truth, data, arguments.output)
    lower, upper = acquisitions[OURS].bounds(X)
    inside = bool(((lower <= truth(X)) & (truth(X) <= upper)).all())
    print(f"true function inside our band at all {len(X)} points: {inside}")
    print(f"mean widths on [-1, 1], seed {arguments.seed} (the picture):")
    print_widths(acquisitions, state, X)

    ratios = []
    for seed in range(arguments.repetitions):
        widths = band_widths(bands(problem(seed)[0]), X)
        values = torch.tensor(list(widths.values()))
        ratios.append(values / values[0])
    medians = torch.stack(ratios).quantile(0.5, dim=0).tolist()
    print(f"median over {arguments.repetitions} functions, times ours:")
    for name, ratio in zip(widths, medians, strict=True):
        print(f"  {name:26s} {ratio:5.2f}")


if __name__ == "__main__":
    main()
