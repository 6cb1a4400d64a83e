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
from kernelucb._demo.own import OwnProblem
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
    # What only a simulation can know; None for a black box of the user's own.
    regret: float | None  # true regret of the recommended point on the candidates
    covered: float | None  # share of the candidates where the band held the true function


@dataclass(frozen=True)
class Ending:
    r"""What the band says after the last outcome."""

    x: Tensor  # ``d`` inputs of the recommended point
    best: float  # smallest outcome
    width: float  # of the band at ``x``
    gap: float  # largest regret of ``x`` on candidates and points evaluated
    covered: float | None  # as in ``Round``


@dataclass
class Run:
    r"""The state of one run; consistent after every round, so that it can be stopped.

    Kernel, mean and noise are fixed before the run and those of the black box, and so is
    the norm bound unless it is to be estimated. If it is at least the black box's norm,
    the theorem of ``MartingaleMixtureUCB`` covers the run. Whether all that is true of a
    black box of one's own, only its owner can know.
    """

    problem: Problem | OwnProblem
    settings: Settings
    rounds: list[Round] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        problem, settings = self.problem, self.settings
        self.candidates = sobol(problem.bounds, NUM_CANDIDATES, seed=12345)
        self.truth = None if self.known is None else self.known.function(self.candidates)
        self.noise_std = self._noise_std()
        # A stream of its own: the noise must not depend on how points are chosen.
        self._generator = torch.Generator().manual_seed(_NOISE_STREAM + settings.seed)
        initial = settings.initial or max(5, 4 * problem.dimension)
        self.X = sobol(problem.bounds, initial, seed=settings.seed)
        self.Y = self._observe(self.X)
        self.mean = ConstantMean().double().initialize(constant=problem.mean)
        self.mean.requires_grad_(False)
        self.norm_bound: float | NormTracker = NormTracker.cautious()
        if not settings.estimate:
            self.norm_bound = self._given_norm_bound()
        self._update()

    def _noise_std(self) -> float:
        if self.settings.noise_std is not None:
            return self.settings.noise_std
        if self.truth is None:
            raise ValueError("A black box of your own needs noise_std.")
        return _NOISE_FRACTION * float(self.truth.std())

    def _given_norm_bound(self) -> float:
        if self.settings.norm_bound is not None:
            return self.settings.norm_bound
        if self.known is None:
            raise ValueError("A black box of your own needs norm_bound, or estimate.")
        return self.known.norm_bound

    @property
    def known(self) -> Problem | None:
        r"""The black box as a function without noise, in a simulation."""
        return self.problem if isinstance(self.problem, Problem) else None

    @property
    def num_initial(self) -> int:
        r"""Number of observations before the first round."""
        return len(self.X) - len(self.rounds)

    @property
    def norm_too_small(self) -> bool:
        r"""Whether a norm bound was given that is below the black box's norm."""
        given = self.settings.norm_bound
        if given is None or self.known is None:
            return False
        return given < self.known.function.norm

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
        if self.known is None or not self.norm_too_small:
            return assumptions
        statement = (
            f"the RKHS norm of f - mean is at most {self.settings.norm_bound:.6g}: it is "
            f"{self.known.function.norm:.6g}"
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
        ending = self.ending()
        return ending.x, ending.gap

    def ending(self) -> Ending:
        r"""What may be said now, from all outcomes."""
        points = torch.cat([self.candidates, self.X])
        lower, upper = self.band.bounds(points)
        recommended, gap = _recommend(lower, upper)
        return Ending(
            x=points[recommended],
            best=float(self.Y.min()),
            width=float(upper[recommended] - lower[recommended]),
            gap=gap,
            covered=self._covered(lower, upper),
        )

    def _record(self, number: int, x: Tensor, y: Tensor) -> Round:
        points = torch.cat([self.candidates, self.X, x])
        lower, upper = self.band.bounds(points)
        recommended, gap = _recommend(lower[:-1], upper[:-1])
        row = Round(
            number=number,
            x=x[0],
            y=float(y),
            best=min(float(self.Y.min()), float(y)),
            width=float(upper[-1] - lower[-1]),
            gap=gap,
            regret=self._regret(points, recommended),
            covered=self._covered(lower, upper),
        )
        self.X, self.Y = points[NUM_CANDIDATES:], torch.cat([self.Y, y])
        self.rounds.append(row)
        return row

    def _regret(self, points: Tensor, recommended: int) -> float | None:
        r"""True regret among all but the last of the points."""
        if self.known is None or self.truth is None:
            return None
        others = self.known.function(points[NUM_CANDIDATES:-1])
        truth = torch.cat([self.truth, others])
        return float(truth[recommended] - truth.min())

    def _covered(self, lower: Tensor, upper: Tensor) -> float | None:
        if self.truth is None:
            return None
        lower, upper = lower[:NUM_CANDIDATES], upper[:NUM_CANDIDATES]
        inside = (lower <= self.truth) & (self.truth <= upper)
        return float(inside.double().mean())

    def _observe(self, X: Tensor) -> Tensor:
        if isinstance(self.problem, OwnProblem):
            return self.problem.evaluate(X).unsqueeze(-1)
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
                covar_module=problem.kernel,
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
