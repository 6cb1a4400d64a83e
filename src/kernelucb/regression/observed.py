r"""Where a model was observed, in raw inputs."""

from typing import Any

import torch
from botorch.exceptions import UnsupportedError
from botorch.models.model import Model, ModelList
from gpytorch.models import GP, IndependentModelList
from torch import Tensor
from torch.nn import ModuleList

from kernelucb.regression.exact import KernelRegression
from kernelucb.regression.likelihood.regression import LikelihoodRegression
from kernelucb.regression.state import State
from kernelucb.regression.supported import raw_inputs


def observed_inputs(model: Model | State | ModuleList | LikelihoodRegression) -> Tensor:
    r"""Raw inputs of all observations of a model or state, or of several, ``n x d``.

    Raises:
        UnsupportedError: If it does not keep them.
    """
    if isinstance(model, ModelList | IndependentModelList | ModuleList):
        parts: Any = model if isinstance(model, ModuleList) else model.models
        return torch.cat([observed_inputs(part) for part in parts])
    if (
        isinstance(model, KernelRegression | LikelihoodRegression)
        and model.prior.input_transform is None
    ):
        return model.train_inputs
    if isinstance(model, Model | GP) and hasattr(model, "train_inputs"):
        return raw_inputs(model)
    raise UnsupportedError(
        f"{type(model).__name__} does not keep the inputs that were observed; give them as "
        "`observed`."
    )
