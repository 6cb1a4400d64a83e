r"""The data of a model without its prior, for a family of kernels."""

from dataclasses import dataclass
from typing import Any

from botorch.models.transforms.input import InputTransform
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from kernelucb._numerics.checks import positive_values
from kernelucb.regression.exact import KernelRegression
from kernelucb.regression.from_model import ModelData, read_model
from kernelucb.regression.likelihood.losses import Loss
from kernelucb.regression.likelihood.regression import LikelihoodRegression
from kernelucb.regression.outcome_map import OutcomeMap
from kernelucb.regression.pooling import Pooled, pool
from kernelucb.regression.prior import Prior


@dataclass(frozen=True, eq=False)
class _Described:
    r"""The data of a model without its prior."""

    inputs: Tensor  # `n x d'` inputs as the kernels see them
    dimension: int  # number of raw input columns `d`
    # From raw inputs to those of the kernels, or None
    input_transform: InputTransform | None
    # `"kernel"` where that transform was learned, `"noise"` where the scale is the model's
    # estimate
    estimated: frozenset[str]
    outcome_map: OutcomeMap  # from outcomes to the scale on which the prior is

    def prior(self, kernel: Kernel, mean_module: Mean | None) -> Prior:
        r"""The prior of a kernel and a mean in outcome units, checked to fit the inputs."""
        transform, outcome_map = self.input_transform, self.outcome_map
        prior = Prior(kernel, mean_module, transform, outcome_map=outcome_map)
        prior = prior.to(self.inputs.device)
        prior.check_fits(self.inputs)
        return prior


@dataclass(frozen=True, eq=False)
class NoisyData(_Described):
    r"""Outcomes with additive noise."""

    targets: Tensor  # `n` outcomes
    noise_std: float | Tensor  # noise scale, outcome units, or `n` of them

    @classmethod
    def of(cls, model: Any, noise_std: float | Tensor | None) -> "NoisyData":
        r"""The data of a BoTorch model, or of a ``KernelRegression``."""
        if isinstance(model, KernelRegression):
            learned = (
                model.prior.input_transform is not None and "kernel" in model.estimated
            )
            values = model.train_inputs, model.train_targets, model.noise_scales
            known = model.dimension, model.estimated, learned
            data = ModelData(model.prior, *values, *known)
        else:
            data = read_model(model)
        data = data.with_noise_std(noise_std)
        estimated = data.estimated & {"noise"}
        if data.learned_inputs:
            estimated = estimated | {"kernel"}
        transform: Any = data.prior.input_transform
        described = data.dimension, transform, estimated, data.prior.outcome_map
        return cls(data.train_inputs, *described, data.train_targets, data.noise_std)

    @property
    def precision(self) -> Tensor:
        r"""Noise scales, outcome units."""
        noise = positive_values("noise_std", self.noise_std, len(self.targets))
        return noise.to(self.inputs)

    def pooled(self, prior: Prior) -> Pooled:
        r"""Means at the distinct inputs."""
        return pool(self.inputs, self.targets - prior.mean(self.inputs), self.precision)

    def under(
        self, prior: Prior, estimated: frozenset[str], pooled: Pooled
    ) -> KernelRegression:
        r"""See ``FamilyData``."""
        values = self.inputs, self.targets, self.precision
        known = self.dimension, self.estimated | estimated
        return KernelRegression.from_data(ModelData(prior, *values, *known), pooled)


@dataclass(frozen=True, eq=False)
class CountData(_Described):
    r"""Outcomes that are successes or counts."""

    outcomes: Loss  # `n` of them

    @classmethod
    def of(cls, data: LikelihoodRegression) -> "CountData":
        r"""The data of a ``LikelihoodRegression``."""
        prior, estimated = data.prior, frozenset[str]()
        transform: Any = prior.input_transform
        if transform is not None and "kernel" in data.estimated:
            estimated = frozenset({"kernel"})
        described = data.dimension, transform, estimated, prior.outcome_map
        return cls(data.train_inputs, *described, data.outcomes)

    @property
    def precision(self) -> Tensor:
        r"""Numbers of trials, or exposures."""
        return self.outcomes.amounts

    def pooled(self, prior: Prior) -> None:
        r"""Nothing: under every prior they are added up again."""

    def under(
        self, prior: Prior, estimated: frozenset[str], pooled: None
    ) -> LikelihoodRegression:
        r"""See ``FamilyData``."""
        known = self.outcomes, self.dimension, self.estimated | estimated
        return LikelihoodRegression.from_parts(prior, self.inputs, *known)


# Each has ``precision`` (of every outcome; no later round changes it), ``pooled`` (the same
# for all priors with the same mean) and ``under``, their regression under a prior.
FamilyData = NoisyData | CountData
