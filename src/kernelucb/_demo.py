r"""The demo: a search on a black box of known norm, its table and its picture.

Kernel, mean and noise are fixed before the run and true of the black box, and so is the
norm bound unless it is to be estimated. If it is at least the norm of the black box, the
theorem of ``MartingaleMixtureUCB`` covers the run: its sets of all rounds hold the function
at once.
"""

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import torch
from botorch.acquisition import qLogNoisyExpectedImprovement
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from botorch.optim import optimize_acqf_discrete
from botorch.test_functions import Branin, Hartmann
from botorch.utils.sampling import draw_sobol_samples, manual_seed
from gpytorch.mlls import ExactMarginalLogLikelihood
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import track
from rich.table import Column, Table
from torch import Tensor

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    GuardedAcquisition,
    KernelRegression,
    MartingaleMixtureUCB,
    NormTracker,
    regret_certificate,
)
from kernelucb._numerics.digits import assumed, at_most, one_minus
from kernelucb.certificates import RegretCertificate
from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.exceptions import InconsistentConfidenceSetWarning, SolverError
from kernelucb.regression.kernel_family import fixed_kernel, fixed_mean

FUNCTIONS = ("branin", "forrester", "hartmann3", "rkhs")
_NUM_SETTINGS = 1024
_NUM_CENTRES = 400  # of kernel functions near a well-known function
_NUM_RANDOM_CENTRES = 20
_RANDOM_NORM = 10.0
_NOISE_FRACTION = 0.02  # of the standard deviation over the settings
_NOISE_STREAM = 10**9  # first seed of the noise, which must not depend on the search
_ROUND_OFF = 1e-6  # of a norm, relative; a bound from rounding every sum is 1e-7 here
_UCB_EVERY = 4  # rounds
_STOPPED, _INTERRUPTED = 1, 130  # exit status; 130 is what shells report for Ctrl-C


@dataclass(frozen=True, eq=False)
class BlackBox:
    r"""The function ``mean + sum_i weights_i k(x, centre_i)`` on a box."""

    bounds: Tensor  # ``2 x d`` corners of the box
    mean: float
    kernel: Any  # Matern, one length scale for each input
    centres: Tensor  # ``n x d``
    weights: Tensor  # ``n``

    def __call__(self, X: Tensor) -> Tensor:
        r"""``m`` values without noise at ``m x d`` points."""
        return self.mean + self.kernel(X, self.centres).to_dense() @ self.weights

    @property
    def norm(self) -> float:
        r"""``sqrt(w^T K w)``, the RKHS norm of ``f - mean``, with round-off on top."""
        gram = self.kernel(self.centres, self.centres).to_dense()
        return float((self.weights @ gram @ self.weights).sqrt()) * (1.0 + _ROUND_OFF)


def sobol(bounds: Tensor, count: int, seed: int) -> Tensor:
    r"""``count x d`` quasi-random points of a box, double precision."""
    return draw_sobol_samples(bounds, n=count, q=1, seed=seed).squeeze(-2).double()


def black_box(name: str) -> tuple[BlackBox, str]:
    r"""A black box of known norm, and where it comes from.

    ``"branin"``, ``"forrester"`` (2008: two valleys) and ``"hartmann3"`` are smooth sums of
    kernel functions near the function of that name, by kernel ridge regression; ``"rkhs"``
    is a random sum of norm 10 under Matern 3/2, as Flynn & Reeb (2024) use.
    """
    if name == "rkhs":
        return _random_black_box()
    unit, branin, hartmann = torch.tensor([[0.0], [1.0]]), Branin(), Hartmann(dim=3)
    known: dict[str, Any] = {
        "branin": ("Branin", branin.evaluate_true, branin.bounds, 1.0, 1e-3),
        "forrester": ("the Forrester function", _forrester, unit, 0.3, 1e-7),
        "hartmann3": ("Hartmann 3", hartmann.evaluate_true, hartmann.bounds, 0.3, 1e-7),
    }
    if name not in known:
        raise ValueError(f"--function must be one of {', '.join(FUNCTIONS)}, got {name!r}.")
    title, function, box, length, ridge = known[name]
    bounds = torch.as_tensor(box).double()
    centres = sobol(bounds, _NUM_CENTRES, seed=99)
    values = function(centres)
    mean, variance = float(values.mean()), float(values.var())
    kernel = fixed_kernel("matern52", length * (bounds[1] - bounds[0]), variance)
    gram = kernel(centres, centres).to_dense()
    gram.diagonal().add_(ridge * variance)
    weights = torch.linalg.solve(gram, values - mean)
    box = BlackBox(bounds, mean, kernel, centres, weights)
    others = sobol(bounds, _NUM_SETTINGS, seed=777)
    difference = float((box(others) - function(others)).square().mean().sqrt())
    return box, (
        f"The black box is a sum of {_NUM_CENTRES} kernel functions (Matern 5/2, length "
        f"scale {length:g} of each side of the box) and a constant, near {title}: root "
        f"mean square difference {difference:.2g}. The RKHS norm follows from the weights: "
        f"{box.norm:.4g}. Of a real black box nobody knows it: see --estimate."
    )


def _forrester(X: Tensor) -> Tensor:
    return ((6 * X - 2).square() * torch.sin(12 * X - 4)).squeeze(-1)


def _random_black_box() -> tuple[BlackBox, str]:
    kernel = fixed_kernel("matern32", torch.tensor([0.2]), 1.0)
    generator, count = torch.Generator().manual_seed(4), _NUM_RANDOM_CENTRES
    centres = torch.rand(count, 1, generator=generator, dtype=torch.float64) * 2 - 1
    weights = torch.randn(count, generator=generator, dtype=torch.float64)
    bounds = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
    # The norm holds its round-off, so that the norm asked for bounds that of the function.
    weights *= _RANDOM_NORM / BlackBox(bounds, 0.0, kernel, centres, weights).norm
    return BlackBox(bounds, 0.0, kernel, centres, weights * (1.0 - 1e-12)), (
        f"The black box is a random sum of {count} kernel functions (Matern 3/2, length "
        f"scale 0.1 of the side of the box) of norm {_RANDOM_NORM:g}. Of a real black box "
        "nobody knows the norm: see --estimate."
    )


class Round(NamedTuple):
    r"""One row of the table, whose gap is the one before ``y`` was seen."""

    x: Tensor  # ``d`` inputs
    y: float  # noisy outcome
    best: float  # smallest outcome so far
    covered: bool  # whether the band held the true function at all settings


class Run:
    r"""The state of one run; consistent after every round, so that it can be stopped."""

    def __init__(
        self,
        function: str,
        *,
        rounds: int = 30,
        seed: int = 0,
        delta: float = 0.05,
        norm_bound: float | None = None,
        estimate: bool = False,
    ) -> None:
        self.name, self.rounds, self.seed, self.delta = function, rounds, seed, delta
        self.function, self.origin = black_box(function)
        self.settings = sobol(self.function.bounds, _NUM_SETTINGS, seed=12345)
        self.truth = self.function(self.settings)
        self.given_norm, self.estimate = norm_bound, estimate
        self.norm_too_small = bool(norm_bound) and norm_bound < self.function.norm
        self.noise = _NOISE_FRACTION * float(self.truth.std())
        self._generator = torch.Generator().manual_seed(_NOISE_STREAM + seed)
        rounded_up = Context(prec=4, rounding=ROUND_CEILING)
        self._norm: Any = float(rounded_up.create_decimal(self.function.norm))
        self._norm = self._norm if norm_bound is None else norm_bound
        self._norm = NormTracker.cautious() if estimate else self._norm
        self.initial = max(5, 4 * self.function.bounds.shape[1])
        self.X = sobol(self.function.bounds, self.initial, seed=seed)
        self.Y, self.messages = self._observe(self.X), list[str]()
        self.played = list[Round]()
        # One for each round, before its outcome, and one after the last outcome.
        self.certificates = list[RegretCertificate]()
        self._update()

    @property
    def assumptions(self) -> Assumptions:
        r"""What the band rests on, with what only a simulation can know about the norm."""
        if not self.norm_too_small:
            return self.acqf.assumptions
        given = f"the RKHS norm of f - mean is at most {assumed(self.given_norm or 0.0)}"
        statement = f"{given}: it is {self.function.norm:.6g}"
        violated = Assumption("norm", statement, Status.VIOLATED)
        return self.acqf.assumptions.with_item(violated)

    @property
    def certified(self) -> bool:
        r"""Whether the theorem covers every round so far."""
        # Data that contradict one round's set contradict the event of all rounds at once.
        return self.assumptions.certified and not self.messages

    @property
    def best(self) -> RegretCertificate:
        r"""The certificate with the smallest gap so far; the last where none is certified.

        The sets of all rounds hold the function at once, so the certificates are true of
        their points at once, and every one of them is about the same settings.
        """
        if not self.certified:
            return self.certificates[-1]
        return min(self.certificates, key=lambda certificate: certificate.gap)

    def steps(self) -> Iterator[Round]:
        r"""Play the rounds; yields each one after it is recorded."""
        for number in range(1, self.rounds + 1):
            x = self._choose(number)
            y = self._observe(x)
            self.X, self.Y = torch.cat([self.X, x]), torch.cat([self.Y, y])
            lower, upper = self.acqf.bounds(self.settings)
            covered = bool(((lower <= self.truth) & (self.truth <= upper)).all())
            self.played.append(Round(x[0], float(y), float(self.Y.min()), covered))
            self._update()
            yield self.played[-1]

    def regret(self, certificate: RegretCertificate) -> float:
        r"""True regret of the certificate's point among the settings."""
        place = (self.settings == certificate.recommended).all(-1)
        return float(self.truth[place][0] - self.truth.min())

    def _observe(self, X: Tensor) -> Tensor:
        r"""``n x 1`` noisy outcomes at ``n x d`` points."""
        noise = torch.randn(len(X), generator=self._generator, dtype=torch.float64)
        return (self.function(X) + self.noise * noise).unsqueeze(-1)

    def _update(self) -> None:
        r"""Rebuild the band and its certificate from the data so far."""
        mean, kernel = fixed_mean(self.function.mean), self.function.kernel
        self.data = KernelRegression(self.X, self.Y, kernel, self.noise, mean_module=mean)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", InconsistentConfidenceSetWarning)
            self.acqf = MartingaleMixtureUCB(
                self.data, norm_bound=self._norm, delta=self.delta, maximize=False
            )
        self.messages = self.messages or [str(each.message) for each in caught[:1]]
        self.certificates.append(regret_certificate(self.acqf, self.settings))

    def _choose(self, number: int) -> Tensor:
        r"""The search that the README recommends; ``1 x d``."""
        bounds = self.function.bounds
        with warnings.catch_warnings(), manual_seed(self.seed + number):
            # A fit that stops early costs quality, not validity.
            warnings.simplefilter("ignore")
            scale = Normalize(bounds.shape[-1], bounds=bounds)
            model = SingleTaskGP(self.X, self.Y, input_transform=scale)
            fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
            small = ScalarizedPosteriorTransform(-torch.ones(1, dtype=torch.float64))
            improvement = qLogNoisyExpectedImprovement(
                model, self.X, posterior_transform=small, prune_baseline=True
            )
            # On a finite set the guard needs no smooth edge.
            guarded = GuardedAcquisition(
                improvement, self.acqf, temperature=0.0, ucb_every=_UCB_EVERY
            )
            x, _ = optimize_acqf_discrete(guarded, q=1, choices=self.settings)
        return x.detach()


def run_demo(*, output: Path, no_picture: bool, **options: Any) -> int:
    r"""Run the demo; the exit status: 0, 1 when it had to stop, 130 after Ctrl-C."""
    if options["estimate"] and options["norm_bound"] is not None:
        raise ValueError("--norm-bound is not allowed with --estimate.")
    threads = torch.get_num_threads()
    # The matrices are tiny: on a busy machine threads only wait for each other.
    torch.set_num_threads(1)
    try:
        return _shown(Run(**options), None if no_picture else output)
    finally:
        torch.set_num_threads(threads)


def _shown(run: Run, picture: Path | None) -> int:
    status = 0
    console, terminal = Console(highlight=False, markup=False), Console(stderr=True)
    console.print(opening(run))
    bar: dict[str, Any] = {"transient": True, "disable": not terminal.is_terminal}
    try:
        for _ in track(run.steps(), run.name, run.rounds, console=terminal, **bar):
            pass
    except (KeyboardInterrupt, SolverError) as error:
        stopped = isinstance(error, SolverError)
        status, why = (_STOPPED, f": {error}") if stopped else (_INTERRUPTED, "")
        what = f"{'stopped' if stopped else 'interrupted'} after {len(run.played)}"
        print(f"kernelucb: {what} of {run.rounds} rounds{why}", file=sys.stderr)
    if not run.played:
        return status
    print_rounds(run, console)
    console.print(f"\nWhat the band rests on:\n{run.assumptions}")
    if picture is not None:
        try:
            draw(run, picture)
            console.print(f"\nPicture: {picture}", soft_wrap=True)
        except (ImportError, OSError) as error:
            print(f"kernelucb: no picture: {error}", file=sys.stderr)
            status = status or (_STOPPED if isinstance(error, OSError) else 0)
    console.print(f"\n{conclusion(run)}")
    return status


def opening(run: Run) -> str:
    r"""What kind of band this is, what is minimised, and where the numbers come from."""
    box = " x ".join(f"[{low:g}, {high:g}]" for low, high in run.function.bounds.T.tolist())
    promise = "the initial points contradict it. The band may miss."
    bound = f"The norm bound is that norm, rounded up: {run.acqf.band.norm_bounds[0]:.6g}."
    if run.given_norm is not None:
        bound = f"The norm bound, {run.acqf.band.norm_bounds[0]:.6g}, was given."
    if run.estimate:
        promise = (
            "in every round, from the data. Nothing proves that the estimate is large "
        )
        promise += "enough, so the band may miss the function."
        bound = "The norm bound is estimated in every round (NormTracker.cautious)."
    elif run.norm_too_small:
        promise = f"the norm bound given, {run.given_norm:.6g}, is too small for this "
        promise += f"function, whose norm is {run.function.norm:.6g}. The band may miss it."
    elif run.certified:
        promise = "kernel, mean, noise and norm bound are fixed before the run, and true "
        promise += "of this function."
    return (
        f"{run.assumptions.summary}: {promise}\n\n"
        f"Minimising {run.name} over {_NUM_SETTINGS:,} settings spread evenly over {box}; "
        f"the noise is Gaussian with standard deviation {run.noise:.4g}. {run.initial} "
        f"initial points, then {run.rounds} rounds: guarded qLogNEI on a model that is "
        "refitted in every round, and every fourth round the band's own bound.\n\n"
        f"{run.origin} {bound}"
    )


def print_rounds(run: Run, console: Console) -> None:
    r"""One row for each round, what its columns mean, and what only a simulation knows."""
    gap = "certified\ngap*" if run.certified else "gap*"
    columns = [Column(each, justify="right") for each in ("round", "y", "best y", gap)]
    columns.insert(1, Column("x"))
    table = Table(*columns, box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for number, (row, before) in enumerate(
        zip(run.played, run.certificates, strict=False), 1
    ):
        numbers = f"{row.y:.4g}", f"{row.best:.4g}", at_most(before.gap)
        table.add_row(str(number), _text(row.x), *numbers)
    console.print(table)
    console.print(
        "* how much better than the point recommended before this round's outcome any of "
        f"the {_NUM_SETTINGS:,} settings can be, at most"
    )
    for message in run.messages:
        console.print(f"Warning: {message}")
    missed = sum(not row.covered for row in run.played)
    console.print(
        "Only a simulation can know: the band missed the true function somewhere in "
        f"{missed} of {len(run.played)} rounds, and the point recommended at the end is "
        f"{run.regret(run.best):.4g} from the best setting."
    )


def conclusion(run: Run) -> str:
    r"""The smallest gap in words, and whether it says anything."""
    best, spread = run.best, float(run.truth.max() - run.truth.min())
    none, promised = "If the band holds, none", f"not certified; {run.assumptions.summary}"
    if run.messages:
        promised += ", contradicted by the data"
    if run.certified:
        none, promised = "None", f"certified, with probability {one_minus(run.delta)}"
        promised += "; the smallest gap of all rounds, whose bands hold at once"
    share = f"{best.gap / spread:.2g} times the function's range, {spread:.4g}."
    if best.gap >= spread:
        share = f"larger than the function's range, {spread:.4g}: it says nothing yet."
    return (
        f"Recommended after {len(run.played)} rounds: x = ({_text(best.recommended)}). "
        f"{none} of the {_NUM_SETTINGS:,} settings is better by more than "
        f"{at_most(best.gap)} ({promised}). That is {share}"
    )


def _text(point: Tensor) -> str:
    return ", ".join(f"{value:.4g}" for value in point.tolist())


def draw(run: Run, path: Path) -> None:
    r"""Bands through the recommended point, and the gap; the suffix decides the format."""
    from kernelucb.plotting import RC, load_pyplot, plot_bands, plot_gap, slice_points

    plt, box, initial = load_pyplot(), run.function.bounds, run.initial
    common: dict[str, Any] = {
        "norm_bound": run.acqf.band.norm_bounds[0],
        "delta": run.delta,
    }
    closed: dict[str, Any] = {"fit": "martingale", "form": "analytic", **common}
    bands = {
        "our band": run.acqf,
        "AMM": MartingaleMixtureUCB(run.data, **closed),
        "Abbasi-Yadkori": AbbasiYadkoriUCB(run.data, alpha=run.noise**2, **common),
        "IGP": IGPUCB(run.data, horizon=initial + run.rounds, **common),
    }
    one, shown = len(box.T) == 1, run.certificates
    if run.certified:
        shown = [*accumulate(shown, lambda *two: min(two, key=lambda each: each.gap))]
    with plt.rc_context(RC):
        figure = plt.figure(figsize=(9.0, 6.8), layout="constrained")
        above, below = figure.subplots(2, 1)
        plot_bands(
            bands,
            slice_points(run.best.recommended, 0, *box[:, 0].tolist()),
            data=(run.X[:initial], run.Y[:initial]),
            chosen=(run.X[initial:], run.Y[initial:]),
            true_function=run.function,
            fade=not one,
            ax=above,
            x_label="input $x$" if one else "input $x_1$",
            y_label="outcome, to be minimised",
            data_name="initial points",
        )
        if not one:
            above.set_title("through the recommended point; marks off the line are fainter")
        true_gaps = [run.regret(certificate) for certificate in shown]
        plot_gap(shown, rounds=range(len(shown)), true_gaps=true_gaps, ax=below)
        below.set_yscale("symlog", linthresh=max(each.gap for each in shown) / 1e3 or 1.0)
        below.set_title("smallest gap so far" if run.certified else "gap of the round")
        level = f"of level {one_minus(run.delta)}" if run.certified else "not certified"
        figure.suptitle(f"{run.name}: {len(run.X)} outcomes, bands {level}")
        figure.savefig(path)
        plt.close(figure)
