r"""The search of the demo, round by round."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from botorch.acquisition import qLogNoisyExpectedImprovement
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from botorch.optim import optimize_acqf_discrete
from botorch.utils.sampling import manual_seed
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from kernelucb._demo.problems import Problem, sobol
from kernelucb._numerics.digits import assumed
from kernelucb.acquisition import GuardedAcquisition, MartingaleMixtureUCB
from kernelucb.certificates import RegretCertificate, regret_certificate
from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.confidence.norm import NormTracker
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.regression import KernelRegression
from kernelucb.regression.named import fixed_mean

_UCB_EVERY = 4
_NOISE_STREAM = 10**9


@dataclass(frozen=True)
class Round:
    r"""One row of the table; the certificate is the one before ``y`` was seen."""

    number: int  # counted from one
    x: Tensor  # ``d`` inputs
    y: float  # noisy outcome
    best: float  # smallest outcome so far
    certificate: RegretCertificate
    covered: bool  # whether the band held the true function at all settings


@dataclass
class Run:
    r"""The state of one run; consistent after every round, so that it can be stopped.

    Kernel, mean and noise are fixed before the run and true of the black box, and so is
    the norm bound unless it is to be estimated. If it is at least the black box's norm,
    the theorem of ``MartingaleMixtureUCB`` covers the run: its sets of all rounds hold the
    function at once.
    """

    problem: Problem
    rounds: int = 30  # how many are to be played
    seed: int = 0
    delta: float = 0.05
    given_norm: float | None = None
    estimate: bool = False
    played: list[Round] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        problem, function = self.problem, self.problem.function
        self.settings, self.noise = problem.settings(), problem.noise_std
        self.truth = function(self.settings)
        # A stream of its own: the noise must not depend on how points are chosen.
        self._generator = torch.Generator().manual_seed(_NOISE_STREAM + self.seed)
        dimension = problem.bounds.shape[-1]
        self.X = sobol(problem.bounds, max(5, 4 * dimension), seed=self.seed)
        self.Y = self._observe(self.X)
        self._mean = fixed_mean(function.mean)
        given = problem.norm_bound if self.given_norm is None else self.given_norm
        self._norm = NormTracker.cautious() if self.estimate else given
        self._update()

    @property
    def norm_too_small(self) -> bool:
        r"""Whether a norm bound was given that is below the black box's norm."""
        return bool(self.given_norm and self.given_norm < self.problem.function.norm)

    @property
    def assumptions(self) -> Assumptions:
        r"""What the band rests on, with what only a simulation can know about the norm."""
        if not self.norm_too_small:
            return self.band.assumptions
        statement = (
            f"the RKHS norm of f - mean is at most {assumed(self.given_norm or 0.0)}: it "
            f"is {self.problem.function.norm:.6g}"
        )
        violated = Assumption("norm", statement, Status.VIOLATED)
        return self.band.assumptions.with_item(violated)

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
            return self.certificate
        return min(self.certificates, key=lambda certificate: certificate.gap)

    @property
    def certificates(self) -> list[RegretCertificate]:
        r"""One for each round, before its outcome, and one after the last outcome."""
        return [*(row.certificate for row in self.played), self.certificate]

    def steps(self) -> Iterator[Round]:
        r"""Play the rounds; yields each one after it is recorded."""
        for number in range(len(self.played) + 1, self.rounds + 1):
            x = self._choose(number)
            y = self._observe(x)
            self.X, self.Y = torch.cat([self.X, x]), torch.cat([self.Y, y])
            best, covered = float(self.Y.min()), self.covered()
            row = Round(number, x[0], float(y), best, self.certificate, covered)
            self.played.append(row)
            self._update()
            yield row

    def regret(self, certificate: RegretCertificate) -> float:
        r"""True regret of the certificate's point among the settings."""
        place = (self.settings == certificate.recommended).all(-1)
        return float(self.truth[place][0] - self.truth.min())

    def covered(self) -> bool:
        r"""Whether the band holds the true function at every setting."""
        lower, upper = self.band.bounds(self.settings)
        return bool(((lower <= self.truth) & (self.truth <= upper)).all())

    def _observe(self, X: Tensor) -> Tensor:
        r"""``n x 1`` noisy outcomes at ``n x d`` points."""
        noise = torch.randn(len(X), generator=self._generator, dtype=torch.float64)
        return (self.problem.function(X) + self.noise * noise).unsqueeze(-1)

    def _update(self) -> None:
        r"""Rebuild the band and its certificate from the data so far."""
        kernel = self.problem.function.kernel
        data = KernelRegression(self.X, self.Y, kernel, self.noise, mean_module=self._mean)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", InconsistentConfidenceSetWarning)
            self.band = MartingaleMixtureUCB(
                data, norm_bound=self._norm, delta=self.delta, maximize=False
            )
        if caught and not self.messages:
            self.messages.append(str(caught[0].message))
        self.certificate = regret_certificate(self.band, self.settings)

    def _choose(self, number: int) -> Tensor:
        r"""The search that the README recommends; ``1 x d``."""
        bounds = self.problem.bounds
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
                improvement, self.band, temperature=0.0, ucb_every=_UCB_EVERY
            )
            x, _ = optimize_acqf_discrete(guarded, q=1, choices=self.settings)
        return x.detach()
