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
from botorch.utils.sampling import draw_sobol_samples, manual_seed
from gpytorch.kernels import Kernel, MaternKernel, ScaleKernel
from gpytorch.means import ConstantMean, Mean, ZeroMean
from gpytorch.utils.warnings import NumericalWarning
from torch import Tensor

from kernelucb._demo.problems import Problem
from kernelucb._demo.records import Round, Settings
from kernelucb.acquisition import MartingaleMixtureUCB
from kernelucb.confidence.assumptions import Assumptions, Status
from kernelucb.confidence.norm_bound import NormTracker
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.regression import KernelRegression

NUM_CANDIDATES = 1024
_NOISE_FRACTION = 0.02
_LENGTH = 0.3  # of the side of the box, times sqrt(dimension)


@dataclass
class Run:
    r"""The state of one run; consistent after every round, so that it can be stopped.

    The prior is fixed before the data, so that the norm bound is the only part of the
    guarantee that may be an estimate.
    """

    problem: Problem
    settings: Settings
    rounds: list[Round] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        problem, settings = self.problem, self.settings
        self.candidates = _sobol(problem, NUM_CANDIDATES, seed=12345)
        self.truth = problem.function(self.candidates)
        spread = float(self.truth.std())
        self.noise_std = settings.noise_std or _NOISE_FRACTION * spread
        self._generator = torch.Generator().manual_seed(settings.seed)
        initial = settings.initial or default_initial(problem)
        self.X = _sobol(problem, initial, seed=settings.seed)
        self.Y = self._observe(self.X)
        self.norm_tracker = NormTracker.cautious()
        self.mean, self.kernel = self._prior()
        self._update()

    @property
    def horizon(self) -> int:
        r"""Number of observations when the run is complete."""
        initial = self.settings.initial or default_initial(self.problem)
        return initial + self.settings.rounds

    @property
    def norm_estimated(self) -> bool:
        r"""Whether the norm bound comes from the data."""
        return self.settings.norm_bound is None

    @property
    def norm_status(self) -> str:
        r"""``"estimated"``, ``"given"``, or ``"given and contradicted"`` by the data."""
        if self.norm_estimated:
            return "estimated"
        violated = self.assumptions["norm"].status is Status.VIOLATED
        return "given and contradicted" if violated else "given"

    @property
    def assumptions(self) -> Assumptions:
        r"""What the band rests on; says so where the norm was estimated."""
        return self.acquisition.assumptions

    def steps(self) -> Iterator[Round]:
        r"""Play the rounds; yields each one after it is recorded."""
        for number in range(len(self.rounds) + 1, self.settings.rounds + 1):
            x = self._choose(number)
            row = self._record(number, x, self._observe(x))
            self._update()
            yield row

    def certificate(self) -> tuple[Tensor, float]:
        r"""Recommended point and its largest regret on the candidates.

        The candidates are a fixed finite set and the points evaluated; on it the
        maximum is exact, elsewhere nothing is claimed.
        """
        points = torch.cat([self.candidates, self.X])
        lower, upper = self.band.bounds(points)
        recommended = int(upper.argmin())
        return points[recommended], float(upper[recommended] - lower.min())

    def norm_of_truth(self) -> float:
        r"""Norm of the smoothest function through the true values at the candidates.

        A lower bound on the norm of the true function that only a simulation can know.
        """
        state = KernelRegression.from_model(self.acquisition.model)
        inputs = state.prior.transform(self.candidates)
        deviation = self.truth - state.prior.mean(inputs)
        gram = state.prior.covariance(inputs, inputs)
        # A ridge lowers the norm, so the statement stays true.
        gram.diagonal().add_(1e-9 * gram.diagonal().mean())
        solution = torch.linalg.solve(gram, deviation)
        return float((deviation @ solution).clamp_min(0.0).sqrt())

    def _record(self, number: int, x: Tensor, y: Tensor) -> Round:
        lower, upper = self.band.bounds(torch.cat([self.candidates, x]))
        inside = (lower[:-1] <= self.truth) & (self.truth <= upper[:-1])
        recommended, gap = self.certificate()
        evaluated = self.problem.function(torch.cat([recommended.unsqueeze(0), self.X]))
        regret = float(evaluated[0] - min(evaluated.min(), self.truth.min()))
        X, Y = torch.cat([self.X, x]), torch.cat([self.Y, y])
        row = Round(
            number=number,
            x=x[0],
            y=float(y),
            best=float(Y.min()),
            width=float(upper[-1] - lower[-1]),
            gap=gap,
            regret=regret,
            covered=float(inside.double().mean()),
        )
        self.X, self.Y = X, Y
        self.rounds.append(row)
        return row

    def _observe(self, X: Tensor) -> Tensor:
        noise = torch.randn(len(X), generator=self._generator, dtype=torch.float64)
        return (self.problem.function(X) + self.noise_std * noise).unsqueeze(-1)

    def _prior(self) -> tuple[Mean, Kernel]:
        r"""Mean and kernel in outcome units, fixed before any observation.

        The level and spread of the function are taken as known; they come from its
        values without noise, never from the run. Every smooth function on a box has a
        finite norm in the space of a Matern kernel (in a squared exponential's, not even
        polynomials do).
        """
        if self.problem.kernel is not None:
            return ZeroMean(), self.problem.kernel
        base = MaternKernel(nu=2.5)
        base.initialize(lengthscale=_LENGTH * self.problem.dimension**0.5)
        kernel = ScaleKernel(base).double()
        kernel.outputscale = float(self.truth.var())
        mean = ConstantMean().double()
        mean.constant = float(self.truth.mean())
        return mean.requires_grad_(False), kernel.requires_grad_(False)

    def _model(self) -> SingleTaskGP:
        transform = None
        if self.problem.kernel is None:
            transform = Normalize(self.problem.dimension, bounds=self.problem.bounds)
        with warnings.catch_warnings():
            # The prior is in outcome units, so the outcomes are not standardised; the
            # bound gets the noise itself, which GPyTorch may round up.
            warnings.simplefilter("ignore", InputDataWarning)
            warnings.simplefilter("ignore", NumericalWarning)
            return SingleTaskGP(
                self.X,
                self.Y,
                torch.full_like(self.Y, self.noise_std**2),
                covar_module=self.kernel,
                mean_module=self.mean,
                input_transform=transform,
                outcome_transform=None,
            )

    def _update(self) -> None:
        r"""Rebuild the acquisition function and the band from the data so far."""
        settings, model = self.settings, self._model()
        common = {
            "noise_std": self.noise_std,
            "delta": settings.delta,
            "covariance_scale": settings.covariance_scale,
        }
        build = partial(
            MartingaleMixtureUCB,
            model,
            norm_bound=settings.norm_bound or self.norm_tracker,
            maximize=False,
            **common,
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
                num_restarts=2 if convex else 6,
                raw_samples=32 if convex else 256,
                options={"seed": self.settings.seed + number},
            )
        return x.detach()


def default_initial(problem: Problem) -> int:
    r"""Number of initial points when none is given."""
    return max(5, 4 * problem.dimension)


def _sobol(problem: Problem, count: int, seed: int) -> Tensor:
    samples = draw_sobol_samples(problem.bounds, n=count, q=1, seed=seed)
    return samples.squeeze(-2).double()
