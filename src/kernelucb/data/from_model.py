r"""Read models of BoTorch or GPyTorch into numbers and a prior, or refuse them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, Self, cast

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models.approximate_gp import ApproximateGPyTorchModel
from botorch.models.gpytorch import BatchedMultiOutputGPyTorchModel
from botorch.models.model import Model, ModelList
from botorch.models.multitask import MultiTaskGP
from botorch.models.transforms.input import InputTransform
from botorch.models.transforms.outcome import OutcomeTransform
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from gpytorch.means import Mean
from gpytorch.models import GP, ApproximateGP, ExactGP, IndependentModelList
from torch import Tensor
from torch.nn import ModuleList

from kernelucb._numerics.checks import finite, positive_values, training_targets
from kernelucb._numerics.estimates import (
    Number,
    estimated_parts,
    learns,
    trainable,
    with_noise,
)
from kernelucb.data.outcome_map import OutcomeUnits, outcome_units
from kernelucb.data.prior import Prior

_COMPARED = 512  # rows at which a model's prior is compared with its kernel and mean
_NEARBY = 0.9  # factor from a single row to a point nearby; an index stays a valid one

_KEEP = (
    "Keep your model for the search and guard it: GuardedAcquisition(acqf_of_your_model, "
    "band)."
)


# One number, one for each observation, or a function of ``n x d`` raw inputs
NoiseStd = Number | Tensor | Callable[[Tensor], Tensor] | None


class ModelData(NamedTuple):
    r"""A model in numbers, for confidence bounds: outcome units, float64.

    Where outcomes are transformed by more than ``Standardize``, outcome units are those
    after that: of ``log(Y)``, for ``Log``.
    """

    # Prior mean and covariance; also holds the input transform, and the map from outcomes
    # to the units of all numbers here
    prior: Prior
    train_inputs: Tensor  # `n x d'` inputs as the kernel sees them
    train_targets: Tensor  # `n` outcomes
    noise_std: Tensor  # `n` noise standard deviations of the likelihood
    dimension: int  # number of raw input columns `d`
    # Those of `"kernel"`, `"mean"`, `"noise"` fitted to the same data
    estimated: frozenset[str]
    learned_inputs: bool = False  # whether the input transform was
    raw_inputs: Tensor | None = None  # `n x d` before the input transform, where known

    @classmethod
    def of(
        cls,
        train_X: Tensor,
        train_Y: Tensor,
        noise_std: Number | Tensor,
        *modules: *tuple[Kernel, Mean | None],
    ) -> Self:
        r"""From tensors, a kernel and a mean or None; see ``KernelRegression``."""
        targets = training_targets(train_X, train_Y)
        inputs = train_X.detach().to(torch.float64, copy=True)
        prior = Prior(*modules).to(train_X.device)
        prior.check_fits(inputs)
        noise = positive_values("noise_std", noise_std, len(targets))
        estimated = with_noise(estimated_parts(*modules), noise_std)
        return cls(prior, inputs, targets, noise, train_X.shape[-1], estimated)

    def with_noise_std(self, noise_std: Number | Tensor | None) -> "ModelData":
        r"""Data with another noise scale, one number or ``n``; unchanged for None."""
        if noise_std is None:
            return self
        noise = positive_values("noise_std", noise_std, len(self.train_targets))
        return self._replace(
            noise_std=noise, estimated=with_noise(self.estimated, noise_std)
        )

    @property
    def data(self) -> Self:
        r"""The numbers themselves, as of a state."""
        return self

    @property
    def observed_inputs(self) -> Tensor | None:
        r"""``n x d`` raw inputs, as given or up to round-off; None if not known."""
        if self.raw_inputs is not None:
            return self.raw_inputs
        return self.prior.untransformed(self.train_inputs)

    @property
    def estimated_anyway(self) -> frozenset[str]:
        r"""Parts estimated under any prior: noise; the kernel, by its inputs."""
        learned = {"kernel"} if self.learned_inputs else set[str]()
        return self.estimated & {"noise"} | learned


def read_model(given: Model | GP) -> ModelData:
    r"""Read a single-output exact GP with ``mean_module`` and ``covar_module``.

    It is one of BoTorch's, or a user's GPyTorch ``ExactGP`` whose ``forward`` is made of
    these two. As by BoTorch's ``posterior``, it is put into eval mode.
    """
    source, listed = source_of(given), _listed(given)
    if source is None:
        raise UnsupportedError(
            f"Expected a BoTorch model or a GPyTorch ExactGP, got {type(given).__name__}."
        )
    if listed is not None and len(listed) == 1:
        return read_model(listed[0])
    _check_supported(given, source, listed)
    model: Any = given.eval()  # in eval mode the stored inputs are the transformed ones
    units = outcome_units(source.outcome_transform)
    inputs = model.train_inputs[0].detach().clone()  # of which a user may be the owner
    targets = model.train_targets.detach()
    finite("The model's training inputs", inputs)
    finite(f"The model's training outcomes{units.outcome_map.after}", targets)
    transform = source.input_transform
    raw = source.raw_inputs(model.train_inputs[0].detach())
    modules = model.covar_module, model.mean_module
    prior = Prior(*modules, transform, units.offset, units.scale, units.outcome_map)
    prior.check_fits(inputs.double())
    source.check_prior(inputs, raw)
    if inputs.dtype != torch.float64:
        exact = _as_data(prior.input_transform, raw.double())
        as_data = torch.equal(_as_data(transform, raw), inputs)
        inputs = exact if as_data else inputs.double()
    parts, learned_inputs = set(estimated_parts(*modules)), learns(transform, raw)
    if learned_inputs:
        parts.add("kernel")
    if units.learned:
        parts.add("mean")
    likelihood, mapped = model.likelihood, not units.outcome_map.is_identity
    # BoTorch's transforms take noise variances along by a slope at the noisy outcome.
    by_slopes = mapped and isinstance(likelihood, FixedNoiseGaussianLikelihood)
    if by_slopes or trainable(likelihood):
        parts.add("noise")
    noise = likelihood.noise.detach().double().clamp_min(0.0).sqrt().reshape(-1)
    if len(noise) not in (1, len(targets)):
        raise InputDataError(
            f"The likelihood has {len(noise)} noise variances for {len(targets)} "
            "observations; give it one for each, in their order."
        )
    return ModelData(
        prior=prior,
        train_inputs=inputs,
        train_targets=_outcomes(units, targets),
        noise_std=units.scale * noise.expand(len(targets)),
        dimension=raw.shape[-1],
        estimated=frozenset(parts),
        learned_inputs=learned_inputs,
        raw_inputs=raw.to(torch.float64, copy=True),
    )


def _listed(models: object) -> list[Any] | None:
    r"""The models of a list of them, BoTorch's, GPyTorch's or torch's; None without."""
    if isinstance(models, ModelList | IndependentModelList):
        models = models.models
    return [*models] if isinstance(models, ModuleList) else None


def approximate_gp(model: object) -> ApproximateGP | None:
    r"""The variational GP in a model of BoTorch's, or bare; None of another model."""
    inner = model.model if isinstance(model, ApproximateGPyTorchModel) else model
    return inner if isinstance(inner, ApproximateGP) else None


def input_transform_of(model: object) -> InputTransform | None:
    r"""A model's input transform; None without one, as in models of GPyTorch."""
    return getattr(model, "input_transform", None)


def outcome_transform_of(model: object) -> OutcomeTransform | None:
    r"""A model's outcome transform; None without one, as in models of GPyTorch."""
    return getattr(model, "outcome_transform", None)


def _outcomes(units: OutcomeUnits, targets: Tensor) -> Tensor:
    r"""The model's outcomes with ``Standardize`` undone, ``n`` values."""
    values, outcome_map = units.offset + units.scale * targets.double(), units.outcome_map
    if outcome_map.is_identity:
        return values
    rounding = torch.finfo(targets.dtype).eps ** 0.5 * float(values.abs().max())
    if float(values.min()) < outcome_map.least - rounding:
        raise InputDataError(
            f"The model has outcomes below {outcome_map.least_outcome:g}, where what is "
            f"modelled{outcome_map.after} is not a rising function of them. Remove the "
            "outcome transform, or model outcomes that are shifted upwards."
        )
    return values


def observed_inputs(model: object) -> Tensor:
    r"""Raw inputs of all observations of a model, its data or a state, or of several.

    ``n x d``; of a state, which keeps what its input transform made of them, up to
    round-off.
    """
    raw: Tensor | None = getattr(model, "observed_inputs", None)  # of data and states
    if raw is None and (listed := _listed(model)) is not None:
        return torch.cat([observed_inputs(part) for part in listed])
    source = source_of(model) if raw is None else None
    if source is not None and (kept := source.kept_inputs) is not None:
        raw = source.raw_inputs(kept)
    if raw is None:
        raise UnsupportedError(
            f"{type(model).__name__} does not keep the inputs that were observed; give "
            "them as `observed`."
        )
    return raw


def noise_values(noise_std: NoiseStd, model: object) -> Number | Tensor | None:
    r"""Noise scales as numbers, from a function of the raw inputs where they are one."""
    return noise_std(observed_inputs(model)) if callable(noise_std) else noise_std


class Source(NamedTuple):
    r"""A model, and what its library does to inputs and outcomes."""

    model: Any  # pyright takes a module's attributes for tensors
    input_transform: InputTransform | None
    outcome_transform: OutcomeTransform | None
    is_ensemble: bool
    transforms: bool  # whether the library applies transforms
    as_queries: Callable[[Tensor], Tensor]  # `n x d` raw inputs as the kernel sees them
    methods: dict[str, Callable[..., object]]  # by name, those that tell of the prior

    @property
    def num_outputs(self) -> int:
        r"""Number of outputs; models of GPyTorch have one and do not say so."""
        return getattr(self.model, "num_outputs", 1)

    @property
    def kept_inputs(self) -> Tensor | None:
        r"""``n x d'`` inputs of the observations in the model's mode; None without."""
        kept = getattr(self.model, "train_inputs", None)
        return None if kept is None else kept[0].detach()

    @torch.no_grad()
    def raw_inputs(self, kept: Tensor) -> Tensor:
        r"""``n x d`` inputs before the input transform, of those that the model keeps."""
        if not getattr(self.model, "_has_transformed_inputs", False):
            return kept
        raw = self.model._original_train_inputs.detach().to(kept.device)
        accuracy = max(torch.finfo(part.dtype).eps for part in (raw, kept)) ** 0.75
        rounding = accuracy * kept.norm(dim=-2, keepdim=True)
        found = kept.new_zeros(kept.shape[:-1], dtype=torch.bool)
        # Observations that a model was conditioned on are transformed as queries are.
        for made in (_as_data(self.input_transform, raw), self.as_queries(raw)):
            if made.shape[-2:] == kept.shape[-2:]:
                found = found | ((made - kept).abs() <= rounding).all(-1)
        if not bool(found.all()):
            raise InputDataError(
                f"The training inputs of {type(self.model).__name__} are not what its "
                "input transform makes of the raw ones: in eval mode, set_train_data takes "
                "inputs as they are, and a changed transform leaves them as they were. "
                "Call model.train() before model.set_train_data with raw inputs, and "
                "before the transform is changed."
            )
        return raw

    @torch.no_grad()
    def check_prior(self, inputs: Tensor, raw: Tensor) -> None:
        r"""Refuse a model (in eval mode) whose prior is not that of its parts.

        Methods of BoTorch and GPyTorch read kernel and mean alone; another ``forward`` is
        compared with these at the training inputs.
        """
        overridden: list[str] = []
        for name, method in self.methods.items():
            if str(method.__module__).split(".")[0] not in ("botorch", "gpytorch"):
                overridden.append(name)
        if overridden == ["forward"] and prior_is_as_read(self.model, inputs):
            overridden = []
        transform = self.input_transform
        seen = raw if transform is None else transform(raw)
        if not torch.equal(self.as_queries(raw), seen):
            overridden.append("transform_inputs")
        if overridden:
            raise UnsupportedError(
                f"{type(self.model).__name__} has its own `{overridden[0]}`: its prior may "
                "not be that of `mean_module` and `covar_module`, which the bound is "
                "computed from. Pass a SingleTaskGP with covar_module=... and "
                "mean_module=..., and put what warps the inputs into the kernel or into "
                "input_transform=... ."
            )


def source_of(model: object) -> Source | None:
    r"""What is read of a model of BoTorch's or GPyTorch's; None of anything else."""
    given: Any = model
    transforms = input_transform_of(model), outcome_transform_of(model)
    if isinstance(model, Model):
        ensemble = given._is_ensemble or given._is_fully_bayesian
        methods = {"__call__": given.__call__, "posterior": given.posterior}
        methods["forward"] = given.forward
        queries = given.transform_inputs
        return Source(model, *transforms, ensemble, True, queries, methods)
    if isinstance(model, GP):
        methods = {"__call__": given.__call__, "forward": given.forward}
        return Source(model, *transforms, False, False, _as_they_are, methods)
    return None


def _as_they_are(raw: Tensor) -> Tensor:
    return raw


def _as_data(transform: InputTransform | None, raw: Tensor) -> Tensor:
    r"""``n x d`` raw inputs as BoTorch transforms inputs of the data, not queries."""
    return raw if transform is None else transform.preprocess_transform(raw)


def _check_supported(
    given: Model | GP, source: Source, listed: Sequence[object] | None
) -> None:
    r"""Refuse all but exact GPs of one outcome; ``listed`` are the models of a list."""
    name = type(given).__name__
    if source.is_ensemble:
        raise UnsupportedError(
            f"{name} is an ensemble of models; the bound needs one fixed kernel: use a "
            f"SingleTaskGP. {_KEEP}"
        )
    count = source.num_outputs if listed is None else len(listed)
    if count != 1 and (listed is not None or _is_batched(given)):
        raise UnsupportedError(
            f"{name} has {count} outputs, and the bound is for one. For a weighted sum of "
            "them use ScalarizedUCB.from_model(model, posterior_transform="
            "posterior_transform, norm_bound=[...], noise_std=[...]), with one number for "
            "each output; for one with limits on others ConstrainedUCB.from_model(model, "
            "constraints=...), and for a band of each outcome_bands(model)."
        )
    of_tasks = isinstance(given, MultiTaskGP)
    if count != 1 or of_tasks or not isinstance(given, ExactGP):
        raise UnsupportedError(
            f"{name} is not an exact single-task GP of one outcome (variational, "
            "multi-task and non-GP models have no closed-form kernel regression). Build "
            "one SingleTaskGP for each outcome, from its own data, or for very many "
            f"observations a NystromRegression or BKBModel. {_KEEP}"
        )
    try:
        _ = given.covar_module, given.mean_module
    except AttributeError as error:
        raise UnsupportedError(
            f"{name} must have attributes `mean_module` and `covar_module`, from which the "
            "bound is computed. Use a SingleTaskGP, or give your own model these two."
        ) from error
    likelihood = source.model.likelihood
    if not isinstance(likelihood, GaussianLikelihood | FixedNoiseGaussianLikelihood):
        raise UnsupportedError(
            f"The likelihood {type(likelihood).__name__} is not Gaussian; use "
            "GaussianLikelihood or pass train_Yvar."
        )
    _check_data(name, source)


def _is_batched(model: Model | GP) -> bool:
    r"""Whether the outputs are independent models in a batch, as of a SingleTaskGP."""
    return isinstance(model, BatchedMultiOutputGPyTorchModel)


def _check_data(name: str, source: Source) -> None:
    r"""Refuse data of other shapes, and transforms that are not of one point by one."""
    model = source.model
    inputs, targets = model.train_inputs, model.train_targets
    if inputs is None or targets is None or inputs[0].shape[-2] == 0:
        raise InputDataError(f"{name} has no training data; a bound needs at least one.")
    if len(inputs) != 1:
        raise UnsupportedError(
            f"{name} takes {len(inputs)} input tensors; the bound is for a function of "
            "one. Pass one tensor with all columns as train_inputs."
        )
    *rows, _ = shape = inputs[0].shape
    if list(targets.shape) != rows:
        raise BotorchTensorDimensionError(
            f"{name} has inputs of shape {tuple(shape)} and outcomes of shape "
            f"{tuple(targets.shape)}; GPyTorch takes `n x d` (or `n`) inputs and `n` "
            "outcomes: pass train_Y.squeeze(-1), or build one model for each outcome."
        )
    if len(rows) > 1:
        raise UnsupportedError(
            f"{name} has batch shape {tuple(rows[:-1])}; build the bound from one model "
            "without batch dimensions (for fantasies, the model before them and "
            f"X_pending). {_KEEP}"
        )
    given = {
        "input_transform": source.input_transform,
        "outcome_transform": source.outcome_transform,
    }
    for transform, module in given.items():
        if module is not None and not source.transforms:
            raise UnsupportedError(
                f"{name} has an {transform}, which GPyTorch does not apply. Derive the "
                "class from botorch.models.gpytorch.GPyTorchModel as well, or leave it out."
            )
    transform = source.input_transform
    if transform is not None and transform.is_one_to_many:
        raise UnsupportedError(
            f"The input transform {type(transform).__name__} turns one point into "
            "several; the bound is for a function of one point. Remove it."
        )


class HasPrior(Protocol):
    r"""A GP whose prior should be that of its kernel and mean."""

    covar_module: Kernel
    mean_module: Mean

    def forward(self, x: Tensor, /) -> MultivariateNormal:
        r"""The prior at ``n x d`` inputs."""
        ...


def prior_is_as_read(model: HasPrior, inputs: Tensor) -> bool:
    r"""Whether ``forward`` agrees with kernel and mean at the data, up to jitter.

    A single observation is compared with a point nearby as well.
    """
    points = inputs[:: -(-len(inputs) // _COMPARED)]
    if len(points) == 1:
        points = torch.cat([points, _NEARBY * points])
    prior: Any = model.forward(points)
    mean: Any = model.mean_module(points)
    covariance, expected = prior.lazy_covariance_matrix, model.covar_module(points)
    variance, half = expected.diagonal(dim1=-1, dim2=-2), len(points) // 2
    largest, accuracy = variance.max(), torch.finfo(mean.dtype).eps ** 0.4
    differences = [
        # Diagonals apart: GPyTorch adds jitter to some whole matrices.
        (covariance.diagonal(dim1=-1, dim2=-2) - variance) / largest,
        (covariance[:half, half:].to_dense() - expected[:half, half:].to_dense()) / largest,
        (prior.mean - mean) / (largest.sqrt() + mean.abs().max()),
    ]
    return all(bool(each.abs().max() <= accuracy) for each in differences)


def single_output_models(models: Model | GP | Sequence[Model | GP]) -> list[Any]:
    r"""One model for each outcome.

    Args:
        models: A sequence of models with one output each, a ``ModelListGP`` (or GPyTorch's
            ``IndependentModelList``), or a model with independent outputs such as
            ``SingleTaskGP`` with several columns.
    """
    several = models if isinstance(models, Sequence) else _listed(models)
    if several is not None:
        return [single for model in several for single in single_output_models(model)]
    model, source = cast(Model, models), source_of(models)
    if source is None or source.num_outputs == 1:
        return [model]
    if not _is_batched(model):
        raise UnsupportedError(
            f"The outputs of {type(model).__name__} are not independent models; use a "
            "ModelListGP, or a SingleTaskGP with one column for each outcome."
        )
    try:
        return [model.subset_output([j]) for j in range(model.num_outputs)]
    except NotImplementedError as error:  # BoTorch's, of a kernel or mean of one's own
        raise UnsupportedError(
            f"BoTorch does not split {type(model).__name__} by its outputs, as its kernel "
            "or mean was given; use a ModelListGP of one SingleTaskGP for each outcome."
        ) from error


def per_output(name: str, value: object, count: int) -> list[Any]:
    r"""One value for each output, from one for all or a sequence of that length."""
    if isinstance(value, Tensor) and value.dim() == 1:
        value = value.tolist()
    if not isinstance(value, Sequence) or isinstance(value, str):
        return [value] * count
    listed = list(cast(Sequence[Any], value))
    if len(listed) != count:
        what = "outcome" if count == 1 else "outcomes"
        raise ValueError(f"{name} has {len(listed)} entries for {count} {what}.")
    return listed
