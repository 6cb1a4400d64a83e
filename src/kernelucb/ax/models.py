r"""Ax configurations of the models that the bounds rest on."""

from typing import Any

from ax.adapter.registry import MBM_X_trans
from ax.adapter.transforms.derelativize import Derelativize
from ax.generators.torch.botorch_modular.kernels import DefaultRBFKernel
from ax.generators.torch.botorch_modular.utils import ModelConfig, fit_botorch_model
from botorch.models import SingleTaskGP
from botorch.models.transforms.outcome import Standardize

from kernelucb._numerics.arguments import checked
from kernelucb.models.meta import MetaModel

# All that Ax may do to the data of a bound: outcomes stay as they were reported.
TRANSFORMS = [*MBM_X_trans, Derelativize]


@fit_botorch_model.register(MetaModel)
def _keep_the_prior(model: MetaModel, **_: Any) -> None:
    r"""The prior was estimated from earlier tasks; nothing is left to fit."""


def default_model_config(data_only: bool = False) -> ModelConfig:
    r"""``SingleTaskGP``, fitted in every trial, with its outcome units kept.

    Of bounds that take the ``data_only`` the outcomes may be all alike (those of a safe
    arm, or successes). BoTorch would warn of these, that they are not standardised, with
    its default kernel; there the same one is named.
    """
    return ModelConfig(
        botorch_model_class=SingleTaskGP,
        covar_module_class=DefaultRBFKernel if data_only else None,
        outcome_transform_classes=[Standardize],
        name="SingleTaskGP in outcome units",
    )


@checked
def meta_model_config(model: MetaModel) -> ModelConfig:
    r"""Ax configuration of a model with an estimated prior, which Ax can store.

    Args:
        model: A ``DiscreteMetaModel``, or a ``FeatureMetaModel`` with cosine features.
    """
    return ModelConfig(
        botorch_model_class=type(model),
        model_options=model.constructor_options(),
        input_transform_classes=None,
        name=f"{type(model).__name__}, prior from {model.num_tasks} tasks",
    )
