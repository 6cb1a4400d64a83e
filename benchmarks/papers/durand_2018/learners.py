r"""The bandits: each maps a history to values of the arms, and plays the largest."""

from collections.abc import Callable
from typing import cast

from botorch.models.model import Model
from torch import Tensor

from benchmarks.papers.durand_2018.configuration import BanditTask
from kernelucb import (
    AbbasiYadkoriUCB,
    KernelRegression,
    KernelThompsonSampling,
    MartingaleMixture,
    MartingaleMixtureUCB,
    StreamingKernelUCB,
    StreamingNoiseTracker,
    UnknownNoise,
    WangDeFreitasUCB,
)
from kernelucb.confidence.ridge_band import RidgeBand


class Learner:
    r"""One method with what the protocol lets it know.

    Attributes:
        noise_interval: Bounds on the noise scale after the last choice; None where the
            method has none.
    """

    def __init__(self, task: BanditTask, arms: Tensor) -> None:
        self.protocol, self.method, self.arms = task.protocol, task.method, arms
        self.norm_bound = task.protocol.norm_bound
        self.level = task.protocol.delta / task.method.share
        self.noise_interval: tuple[float, float] | None = None
        self._values = self._rule()
        # Corollary 1: four events, three of which the noise bounds rest on.
        self._tracker = StreamingNoiseTracker(
            self.norm_bound, self._unknown_noise, delta=3.0 * self.level
        )

    def select(self, regression: KernelRegression) -> int:
        r"""Index of the arm to play."""
        # The types do not say that every bound takes a state as well.
        return int(self._values(cast(Model, regression)).argmax())

    def _rule(self) -> Callable[[Model], Tensor]:
        rules = {
            ("ucb", "theorem1"): self._theorem1,
            ("ucb", "corollary1"): self._corollary1,
            ("ucb", "exact"): self._exact,
            ("ucb", "joint"): self._joint,
            ("ts", "theorem1"): self._sampled_theorem1,
            ("ts", "corollary1"): self._sampled_corollary1,
            ("ts", "wang_de_freitas"): self._sampled_wang_de_freitas,
            ("ts", "wang_de_freitas_rescaled"): self._sampled_rescaled,
        }
        return rules[self.method.policy, self.method.bound]

    @property
    def _noise_std(self) -> float:
        protocol = self.protocol
        choices = {"true": protocol.noise_std, "guess": protocol.noise_upper}
        return choices[self.method.noise or ""]

    @property
    def _unknown_noise(self) -> UnknownNoise:
        return UnknownNoise(self.protocol.noise_lower, self.protocol.noise_upper)

    def _theorem1(self, model: Model) -> Tensor:
        noise_std = self._noise_std
        return AbbasiYadkoriUCB(
            model,
            norm_bound=self.norm_bound,
            noise_std=noise_std,
            delta=self.level,
            alpha=(noise_std / self.norm_bound) ** 2,
        )(self.arms.unsqueeze(1))

    def _corollary1(self, model: Model) -> Tensor:
        acquisition = StreamingKernelUCB(
            model,
            norm_bound=self.norm_bound,
            noise_std=self._unknown_noise,
            delta=4.0 * self.level,
            tracker=self._tracker,
        )
        self.noise_interval = acquisition.noise_interval
        return acquisition(self.arms.unsqueeze(1))

    def _exact(self, model: Model) -> Tensor:
        return MartingaleMixtureUCB(
            model,
            norm_bound=self.norm_bound,
            noise_std=self._noise_std,
            delta=self.level,
            fit=MartingaleMixture(self.method.covariance_scale),  # pyright: ignore
        )(self.arms.unsqueeze(1))

    def _joint(self, model: Model) -> Tensor:
        acquisition = MartingaleMixtureUCB(
            model,
            norm_bound=self.norm_bound,
            noise_std=self._unknown_noise,
            delta=self.level,
        )
        self.noise_interval = acquisition.noise_interval
        return acquisition(self.arms.unsqueeze(1))

    def _sampled_theorem1(self, model: Model) -> Tensor:
        return KernelThompsonSampling(
            model,
            norm_bound=self.norm_bound,
            noise_std=self._noise_std,
            delta=self.level,
        ).sample_values(self.arms)[0]

    def _sampled_corollary1(self, model: Model) -> Tensor:
        values = KernelThompsonSampling(
            model,
            norm_bound=self.norm_bound,
            noise_std=self._unknown_noise,
            delta=4.0 * self.level,
            tracker=self._tracker,
        ).sample_values(self.arms)[0]
        self.noise_interval = self._tracker.lower, self._tracker.upper
        return values

    def _sampled_wang_de_freitas(self, model: Model, scale: float = 1.0) -> Tensor:
        r"""From ``N(f_lambda, (scale l)^2 k_lambda)``, ``lambda = (noise_std / scale)^2``.

        Lemma 3 is about a scale of 1. Without inflation the samples are of
        ``N(f_lambda, B^2 k_lambda)`` at ``lambda = (noise_std / B)^2``.
        """
        noise_std = self._noise_std / scale
        bound = WangDeFreitasUCB(
            model, norm_bound=self.norm_bound, noise_std=noise_std, delta=self.level
        )
        width = scale * cast(RidgeBand, bound.confidence_set).width
        return KernelThompsonSampling(
            model, norm_bound=width, noise_std=width * noise_std, inflation=False
        ).sample_values(self.arms)[0]

    def _sampled_rescaled(self, model: Model) -> Tensor:
        r"""Algorithm 1 at ``lambda = (noise_std / C)^2`` with ``v = l``."""
        return self._sampled_wang_de_freitas(model, scale=self.norm_bound)
