r"""The demo: a search on a black box of known norm, its rounds and its picture.

Kernel, mean and noise are fixed before the run and true of the black box, and so is the
norm bound unless it is to be estimated: then the theorem of ``MartingaleMixtureUCB`` covers
the run, and its sets of all rounds hold the function at once.
"""

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from torch import Tensor

from kernelucb._numerics.digits import at_most
from kernelucb.acquisition import GuardedAcquisition, MartingaleMixtureUCB
from kernelucb.certificates import RegretCertificate, regret_certificate
from kernelucb.confidence.norm import NormTracker
from kernelucb.data import KernelRegression
from kernelucb.data.kernel_family import fixed_kernel, fixed_mean
from kernelucb.exceptions import SolverError

FUNCTIONS = ("branin", "forrester", "hartmann3")
_NUM_SETTINGS = 1024
_NUM_CENTRES = 400  # of kernel functions
_NOISE_FRACTION = 0.02  # of the standard deviation over the settings
_NOISE_STREAM = 10**9  # first seed of the noise, which must not depend on the search
_ROUND_OFF = 1e-6  # of a norm, relative; a bound from rounding every sum is 1e-7 here
_UCB_EVERY = 4  # rounds; in one of each block the upper bound itself is maximised
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


def black_box(name: str) -> BlackBox:
    r"""A sum of kernel functions near a well-known function, by kernel ridge regression.

    ``"branin"``, ``"forrester"`` (2008: two valleys) or ``"hartmann3"``.
    """
    if name not in FUNCTIONS:
        raise ValueError(f"--function must be one of {', '.join(FUNCTIONS)}, got {name!r}.")
    function, bounds, length, ridge = _forrester, torch.tensor([[0.0], [1.0]]), 0.3, 1e-7
    if name != "forrester":
        test: Any = Branin() if name == "branin" else Hartmann(dim=3)
        function, bounds = test.evaluate_true, test.bounds
        length, ridge = (1.0, 1e-3) if name == "branin" else (length, ridge)
    bounds, centres = bounds.double(), sobol(bounds, _NUM_CENTRES, seed=99)
    values = function(centres)
    mean, variance = float(values.mean()), float(values.var())
    kernel = fixed_kernel("matern52", length * (bounds[1] - bounds[0]), variance)
    gram = kernel(centres, centres).to_dense()
    gram.diagonal().add_(ridge * variance)
    return BlackBox(bounds, mean, kernel, centres, torch.linalg.solve(gram, values - mean))


def _forrester(X: Tensor) -> Tensor:
    return ((6 * X - 2).square() * torch.sin(12 * X - 4)).squeeze(-1)


class Run:
    r"""The state of one run; consistent after every round, so that it can be stopped."""

    def __init__(
        self, function: str, rounds: int, seed: int, delta: float, estimate: bool
    ) -> None:
        self.name, self.rounds, self.seed, self.delta = function, rounds, seed, delta
        self.function = black_box(function)
        self.settings = sobol(self.function.bounds, _NUM_SETTINGS, seed=12345)
        self.truth = self.function(self.settings)
        self.noise = _NOISE_FRACTION * float(self.truth.std())
        self._generator = torch.Generator().manual_seed(_NOISE_STREAM + seed)
        self._norm: Any = (
            NormTracker(inflation=1.5, floor=4.0) if estimate else self.function.norm
        )
        self.X = sobol(self.function.bounds, max(5, 4 * len(self.function.bounds.T)), seed)
        self.Y = self._observe(self.X)
        self.played = self.missed = 0
        self.contradicted = False  # in any round: then the event of all rounds fails
        # One for each round, before its outcome, and one after the last outcome.
        self.certificates = list[RegretCertificate]()
        self._update()

    @property
    def best(self) -> RegretCertificate:
        r"""The certificate with the smallest gap so far; the last where none is certified.

        The sets of all rounds hold the function at once, so the certificates are true of
        their points at once, and every one of them is about the same settings.
        """
        if self.contradicted or not self.certificates[-1].certified:
            return self.certificates[-1]
        return min(self.certificates, key=lambda certificate: certificate.gap)

    def steps(self) -> Iterator[str]:
        r"""Play the rounds; yields each in words after it is recorded."""
        yield f"{'round':>5} {'y':>10} {'best y':>10} {'gap*':>10}  x"
        for number in range(1, self.rounds + 1):
            x, gap = self._choose(number), at_most(self.certificates[-1].gap)
            y = self._observe(x)
            self.X, self.Y = torch.cat([self.X, x]), torch.cat([self.Y, y])
            lower, upper = self.acqf.bounds(self.settings)
            self.missed += not ((lower <= self.truth) & (self.truth <= upper)).all()
            self.played = number
            self._update()
            numbers = f"{float(y):>10.4g} {float(self.Y.min()):>10.4g} {gap:>10}"
            yield f"{number:>5} {numbers}  {_text(x[0])}"

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
        kernel, mean = self.function.kernel, fixed_mean(self.function.mean)
        data = KernelRegression(self.X, self.Y, kernel, self.noise, mean_module=mean)
        given: dict[str, Any] = {"norm_bound": self._norm, "delta": self.delta}
        self.acqf = MartingaleMixtureUCB(data, maximize=False, **given)
        self.contradicted |= self.acqf.assumptions.violated
        self.certificates.append(regret_certificate(self.acqf, self.settings))

    def _choose(self, number: int) -> Tensor:
        r"""The search that the README recommends; ``1 x d``."""
        bounds = self.function.bounds
        with warnings.catch_warnings(), manual_seed(self.seed + number):
            # A fit that stops early costs quality, not validity: BoTorch warns of it.
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


def run_demo(
    *,
    function: str,
    estimate: bool,
    rounds: int,
    seed: int,
    delta: float,
    output: Path,
    no_picture: bool,
) -> int:
    r"""Run the demo; the exit status: 0, 1 when it had to stop, 130 after Ctrl-C."""
    # The matrices are tiny: on a busy machine threads only wait for each other.
    torch.set_num_threads(1)
    run, status = Run(function, rounds, seed, delta, estimate), 0
    print(
        f"Minimising a sum of {_NUM_CENTRES} kernel functions near {run.name}, over "
        f"{_NUM_SETTINGS:,} settings: its RKHS norm is\n{run.function.norm:.4g} (of a real "
        "black box nobody knows it: --estimate), the noise scale is "
        f"{run.noise:.4g}.\n{len(run.X)} initial points, then {run.rounds} rounds of "
        f"guarded qLogNEI.\n\n{run.acqf.assumptions}\n"
    )
    try:
        for line in run.steps():
            print(line, flush=True)
    except KeyboardInterrupt:
        status, played = _INTERRUPTED, f"{run.played} of {run.rounds} rounds"
        print(f"kernelucb: interrupted after {played}", file=sys.stderr)
    except SolverError as error:
        status, played = _STOPPED, f"{run.played} of {run.rounds} rounds"
        print(f"kernelucb: stopped after {played}: {error}", file=sys.stderr)
    if run.played and not no_picture:
        try:
            draw(run, output)
            print(f"\nPicture: {output}")
        except (ImportError, OSError) as error:
            print(f"kernelucb: no picture: {error}", file=sys.stderr)
            status = status or _STOPPED
    if run.played:
        print(conclusion(run))
    return status


def conclusion(run: Run) -> str:
    r"""The smallest gap, what the column means, and what only a simulation knows."""
    best, verdict = run.best, run.best.summary
    share = f"{best.gap / float(run.truth.max() - run.truth.min()):.2g} times"
    if run.contradicted:
        verdict = "no guarantee: in some round the data contradicted what was given"
    return (
        "\n* how much better than the point recommended before this outcome any of the "
        "settings can be, at most\nOnly a simulation can know: the band missed the true "
        f"function somewhere in {run.missed} of {run.played} rounds, and the\nrecommended "
        f"point is {run.regret(best):.4g} from the best setting.\n\nRecommended: x = "
        f"({_text(best.recommended)})\n{verdict}: {best.sentence}, "
        f"{share} the function's range"
    )


def _text(point: Tensor) -> str:
    return ", ".join(f"{value:.4g}" for value in point.tolist())


def draw(run: Run, path: Path) -> None:
    r"""The band through the recommended point, and the gap; the suffix is the format."""
    from kernelucb.plotting import RC, load_pyplot, plot_gap, plot_slice

    plt, shown = load_pyplot(), run.certificates
    with plt.rc_context(RC):
        sizes: dict[str, Any] = {"figsize": (9.0, 6.8), "layout": "constrained"}
        figure, (above, below) = plt.subplots(2, 1, **sizes)
        plot_slice(
            run.acqf,
            run.best.recommended,
            bounds=run.function.bounds,
            data=(run.X, run.Y),
            true_function=run.function,
            outcome="outcome, to be minimised",
            ax=above,
        )
        true_gaps = [run.regret(certificate) for certificate in shown]
        plot_gap(shown, rounds=range(len(shown)), true_gaps=true_gaps, ax=below)
        below.set_yscale("symlog", linthresh=max(each.gap for each in shown) / 1e3 or 1.0)
        figure.savefig(path)
        plt.close(figure)
