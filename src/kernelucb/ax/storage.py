r"""What Ax must know to store an experiment with these bounds and to reopen it."""

from ax.storage.botorch_modular_registry import (
    register_acquisition_function,
    register_model,
)

from kernelucb.acquisition import BOUNDS, META_ACQUISITIONS, ScalarizedUCB
from kernelucb.models import DiscreteMetaModel, FeatureMetaModel
from kernelucb.models.fixed import FixedPriorGP


def register_for_storage() -> None:
    r"""Register every bound and model with Ax's storage, by their class names."""
    for bound in (*BOUNDS, *META_ACQUISITIONS, ScalarizedUCB):
        register_acquisition_function(bound)
    for model in (DiscreteMetaModel, FeatureMetaModel, FixedPriorGP):
        register_model(model)
