r"""The methods of this package."""

from typing import Any

from botorch.acquisition import AcquisitionFunction

import kernelucb
from benchmarks.practical.learners.base import Learner
from benchmarks.practical.learners.rivals import LogNoisyExpectedImprovement
from benchmarks.practical.model import LeanGP
from kernelucb import GuardedAcquisition, MartingaleMixtureUCB, NormTracker


class MixtureOfFilters(Learner):
    r"""``MartingaleMixtureUCB`` with no other argument than the model."""

    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        return MartingaleMixtureUCB(model)


class GuardedImprovement(LogNoisyExpectedImprovement):
    r"""``qLogNoisyExpectedImprovement`` within the default band's possible maximisers.

    The band is that of the same model, its norm estimated. ``every`` is ``ucb_every``.
    """

    def __init__(self, samples: int, every: int | None = None, **search: bool) -> None:
        super().__init__(samples, **search)
        self.every = every

    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        improvement = super().acquisition(model)
        return GuardedAcquisition(
            improvement, MartingaleMixtureUCB(model), ucb_every=self.every
        )


class MartingaleMixture(Learner):
    r"""Flynn & Reeb's exact bound with no other argument than the model."""

    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        return MartingaleMixtureUCB(model, fit="martingale")


class EstimatedNorm(Learner):
    r"""Flynn & Reeb's exact bound with other numbers than the defaults of ``NormTracker``.

    With ``keep`` the estimate never falls over the rounds; without, as with
    ``norm_bound=None``, every round has its own.
    """

    def __init__(
        self,
        inflation: float,
        floor: float,
        keep: bool = False,
        covariance_scale: Any = None,
    ) -> None:
        self.numbers = {"inflation": inflation, "floor": floor}
        self.kept = NormTracker(**self.numbers) if keep else None
        self.fit = kernelucb.MartingaleMixture(covariance_scale)

    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        tracker = self.kept or NormTracker(**self.numbers)
        return MartingaleMixtureUCB(model, norm_bound=tracker, fit=self.fit)
