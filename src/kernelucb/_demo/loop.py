r"""The optimisation loop of the demo."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import torch
from botorch.exceptions import InputDataWarning, OptimizationWarning
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from botorch.optim import optimize_acqf
from botorch.utils.sampling import manual_seed
from gpytorch.means import ConstantMean
from gpytorch.utils.warnings import NumericalWarning
from torch import Tensor

from kernelucb._demo.expansion import sobol
from kernelucb._demo.problems import Problem
from kernelucb.acquisition import MartingaleMixtureUCB
from kernelucb.acquisition.martingale_mixture import Form
from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.confidence.norm.tracker import NormTracker
from kernelucb.exceptions import InconsistentConfidenceSetWarning

NUM_CANDIDATES = 1024
_NOISE_FRACTION = 0.02
_NOISE_STREAM = 10**9


@dataclass(frozen=True)
class Settings:
    r"""What the demo does; see ``--help``."""

    rounds: int = 40
    initial: int | None = None
    noise_std: float | None = None
    delta: float = 0.05
    norm_bound: float | None = None
    estimate: bool = False
    covariance_scale: float = 1.0
    form: Form = "dual"
    seed: int = 0


@dataclass(frozen=True)
class Round:
    r"""One row of the table; the band is the one before ``y`` was seen."""

    number: int  # counted from one
    x: Tensor  # ``d`` inputs
    y: float  # noisy outcome
    best: float  # smallest outcome so far
    width: float  # of the band at ``x``
    gap: float  # largest regret, on the candidates, of the recommended point
    regret: float  # its true regret on the candidates
    covered: float  # share of the candidates at which the band held the true function


@dataclass
class Run:
    r"""The state of one run; consistent after every round, so that it can be stopped.

    Kernel, mean and noise are fixed before the run and those of the black box, and so is
    the norm bound unless it is to be estimated. If it is at least the black box's norm,
    the theorem of ``MartingaleMixtureUCB`` covers the run.
    """

    problem: Problem
    settings: Settings
    rounds: list[Round] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        problem, settings = self.problem, self.settings
        self.candidates = sobol(problem.bounds, NUM_CANDIDATES, seed=12345)
        self.truth = problem.function(self.candidates)
        self.noise_std = settings.noise_std or _NOISE_FRACTION * float(self.truth.std())
        # A stream of its own: the noise must not depend on how points are chosen.
        self._generator = torch.Generator().manual_seed(_NOISE_STREAM + settings.seed)
        initial = settings.initial or max(5, 4 * problem.dimension)
        self.X = sobol(problem.bounds, initial, seed=settings.seed)
        self.Y = self._observe(self.X)
        self.mean = ConstantMean().double().initialize(constant=problem.function.mean)
        self.mean.requires_grad_(False)
        self.norm_bound: float | NormTracker = NormTracker.cautious()
        if not settings.estimate:
            self.norm_bound = settings.norm_bound or problem.norm_bound
        self._update()

    @property
    def num_initial(self) -> int:
        r"""Number of observations before the first round."""
        return len(self.X) - len(self.rounds)

    @property
    def norm_too_small(self) -> bool:
        r"""Whether a norm bound was given that is below the black box's norm."""
        given = self.settings.norm_bound
        return given is not None and given < self.problem.function.norm

    @property
    def norm_status(self) -> str:
        r"""Where the norm bound comes from, and what is wrong with it, in words."""
        if self.settings.estimate:
            return "estimated"
        status = "known" if self.settings.norm_bound is None else "given"
        if self.norm_too_small:
            status += ", too small"
        return f"{status}, contradicted by the data" if self.messages else status

    @property
    def certified(self) -> bool:
        r"""Whether the theorem covers every round so far."""
        # Data that contradict one round's set contradict the event of all rounds at once.
        return self.assumptions.certified and not self.messages

    @property
    def assumptions(self) -> Assumptions:
        r"""What the band rests on, with what only a simulation can know about the norm."""
        assumptions = self.acquisition.assumptions
        if not self.norm_too_small:
            return assumptions
        statement = (
            f"the RKHS norm of f - mean is at most {self.settings.norm_bound:.6g}: it is "
            f"{self.problem.function.norm:.6g}"
        )
        return assumptions.with_item(Assumption("norm", statement, Status.VIOLATED))

    def steps(self) -> Iterator[Round]:
        r"""Play the rounds; yields each one after it is recorded."""
        for number in range(len(self.rounds) + 1, self.settings.rounds + 1):
            x = self._choose(number)
            row = self._record(number, x, self._observe(x))
            self._update()
            yield row

    def certificate(self) -> tuple[Tensor, float]:
        r"""Recommended point and its largest regret on candidates and points evaluated."""
        points = torch.cat([self.candidates, self.X])
        recommended, gap = _recommend(*self.band.bounds(points))
        return points[recommended], gap

    def _record(self, number: int, x: Tensor, y: Tensor) -> Round:
        points = torch.cat([self.candidates, self.X, x])
        lower, upper = self.band.bounds(points)
        truth = torch.cat([self.truth, self.problem.function(points[NUM_CANDIDATES:])])
        inside = (lower <= truth) & (truth <= upper)
        recommended, gap = _recommend(lower[:-1], upper[:-1])
        row = Round(
            number=number,
            x=x[0],
            y=float(y),
            best=min(float(self.Y.min()), float(y)),
            width=float(upper[-1] - lower[-1]),
            gap=gap,
            regret=float(truth[recommended] - truth[:-1].min()),
            covered=float(inside[:NUM_CANDIDATES].double().mean()),
        )
        self.X, self.Y = points[NUM_CANDIDATES:], torch.cat([self.Y, y])
        self.rounds.append(row)
        return row

    def _observe(self, X: Tensor) -> Tensor:
        noise = torch.randn(len(X), generator=self._generator, dtype=torch.float64)
        return (self.problem.function(X) + self.noise_std * noise).unsqueeze(-1)

    def _model(self) -> SingleTaskGP:
        problem = self.problem
        with warnings.catch_warnings():
            # The prior is in outcome units, so the outcomes are not standardised; the
            # bound gets the noise itself, which GPyTorch may round up.
            warnings.simplefilter("ignore", InputDataWarning)
            warnings.simplefilter("ignore", NumericalWarning)
            return SingleTaskGP(
                self.X,
                self.Y,
                torch.full_like(self.Y, self.noise_std**2),
                covar_module=problem.function.kernel,
                mean_module=self.mean,
                input_transform=Normalize(problem.dimension, bounds=problem.bounds),
                outcome_transform=None,
            )

    def _update(self) -> None:
        r"""Rebuild the acquisition function and the band from the data so far."""
        settings = self.settings
        build = partial(
            MartingaleMixtureUCB,
            self._model(),
            norm_bound=self.norm_bound,
            noise_std=self.noise_std,
            delta=settings.delta,
            covariance_scale=settings.covariance_scale,
            maximize=False,
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", InconsistentConfidenceSetWarning)
            self.acquisition = build(form=settings.form)
            # The exact band again, at a thousandth of the cost at many points.
            convex = settings.form == "convex"
            self.band = build(form="dual") if convex else self.acquisition
        if caught and not self.messages:
            self.messages.append(str(caught[0].message))

    def _choose(self, number: int) -> Tensor:
        # A cone program takes milliseconds a point, the other forms microseconds.
        convex = self.settings.form == "convex"
        with warnings.catch_warnings(), manual_seed(self.settings.seed + number):
            # A search that stops early costs quality, not validity.
            warnings.simplefilter("ignore", OptimizationWarning)
            warnings.simplefilter("ignore", RuntimeWarning)
            x, _ = optimize_acqf(
                self.acquisition,
                self.problem.bounds,
                q=1,
                num_restarts=2,
                raw_samples=32 if convex else 256,
                options={"seed": self.settings.seed + number, "maxiter": 5},
            )
        return x.detach()


def _recommend(lower: Tensor, upper: Tensor) -> tuple[int, float]:
    r"""The point with the lowest upper bound, and its largest regret within the band."""
    recommended = int(upper.argmin())
    return recommended, float(upper[recommended] - lower.min())
