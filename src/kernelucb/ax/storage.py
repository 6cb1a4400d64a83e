r"""What Ax must know to store an experiment with these bounds and to reopen it."""

from ax.storage.botorch_modular_registry import (
    register_acquisition_function,
    register_model,
)
from ax.storage.json_store.encoders import generation_node_to_dict
from ax.storage.json_store.registry import CORE_DECODER_REGISTRY, CORE_ENCODER_REGISTRY

from kernelucb.acquisition import BOUNDS, META_ACQUISITIONS, ScalarizedUCB
from kernelucb.ax.nodes import KernelUCBNode
from kernelucb.models import DiscreteMetaModel, FeatureMetaModel
from kernelucb.models.fixed import FixedPriorGP


def register_for_storage() -> None:
    r"""Register every bound, model and node with Ax's storage, by their class names."""
    for bound in (*BOUNDS, *META_ACQUISITIONS, ScalarizedUCB):
        register_acquisition_function(bound)
    for model in (DiscreteMetaModel, FeatureMetaModel, FixedPriorGP):
        register_model(model)
    CORE_ENCODER_REGISTRY[KernelUCBNode] = generation_node_to_dict
    CORE_DECODER_REGISTRY[KernelUCBNode.__name__] = KernelUCBNode
