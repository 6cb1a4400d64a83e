r"""What a family of kernels takes from a model."""

from typing import Any, NamedTuple

from botorch.models.transforms.input import InputTransform
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from kernelucb._numerics.checks import positive_values
from kernelucb.regression.decomposition import pooled_data
from kernelucb.regression.exact import KernelRegression
from kernelucb.regression.from_model import read_model
from kernelucb.regression.outcome_map import OutcomeMap
from kernelucb.regression.pooling import Pooled
from kernelucb.regression.prior import Prior


class FamilyData(NamedTuple):
    r"""The data of a model without its prior.

    Attributes:
        inputs: ``n x d'`` inputs as the kernels see them.
        targets: ``n`` outcomes.
        noise_std: ``n`` noise scales, outcome units.
        dimension: Number of raw input columns ``d``.
        input_transform: From raw inputs to those of the kernels, or None.
        estimated: ``"kernel"`` where that transform was learned, ``"noise"`` where the
            scale is the model's estimate.
        outcome_map: From outcomes to the units of ``targets``, in which the prior is.
    """

    inputs: Tensor
    targets: Tensor
    noise_std: float | Tensor
    dimension: int
    input_transform: InputTransform | None
    estimated: frozenset[str]
    outcome_map: OutcomeMap

    @classmethod
    def of(cls, model: Any, noise_std: float | Tensor | None) -> "FamilyData":
        r"""The data of a BoTorch model, or of a ``KernelRegression``."""
        if isinstance(model, KernelRegression):
            inputs, targets = model.train_inputs, model.train_targets
            prior: Prior = model.prior
            noise: float | Tensor = model.noise_std
            learned = prior.input_transform is not None and "kernel" in model.estimated
            estimated, dimension = model.estimated & {"noise"}, model.dimension
        else:
            data = read_model(model)
            inputs, targets, learned = (
                data.train_inputs,
                data.train_targets,
                data.learned_inputs,
            )
            prior, noise = data.prior, data.noise_std
            estimated, dimension = data.estimated & {"noise"}, data.dimension
        if noise_std is not None:
            noise, estimated = noise_std, frozenset()
        if learned:
            estimated = estimated | {"kernel"}
        transform: Any = prior.input_transform
        described = (dimension, transform, estimated, prior.outcome_map)
        return cls(inputs, targets, noise, *described)

    def prior(self, kernel: Kernel, mean_module: Mean | None) -> Prior:
        r"""The prior of a kernel and a mean in outcome units, checked to fit the inputs."""
        transform, outcome_map = self.input_transform, self.outcome_map
        prior = Prior(kernel, mean_module, transform, outcome_map=outcome_map)
        prior.check_fits(self.inputs)
        return prior.to(self.inputs.device)

    def pooled(self, prior: Prior) -> Pooled:
        r"""The data with repeated inputs made one, for all priors with the same mean."""
        noise = positive_values("noise_std", self.noise_std, len(self.targets))
        return pooled_data(prior, self.inputs, self.targets, noise.to(self.inputs))

    def under(
        self, prior: Prior, estimated: frozenset[str], pooled: Pooled
    ) -> KernelRegression:
        r"""The regression of the data under a prior; ``estimated`` are parts of it."""
        data, estimated = (self.inputs, self.targets), self.estimated | estimated
        return KernelRegression.from_parts(
            prior, *data, self.noise_std, self.dimension, estimated, pooled
        )
