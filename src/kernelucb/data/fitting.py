r"""The fit of BoTorch's models."""

from copy import deepcopy

from botorch.exceptions import ModelFittingError
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from gpytorch.mlls import ExactMarginalLogLikelihood


def fitted(model: SingleTaskGP) -> SingleTaskGP:
    r"""The model at hyper-parameters of largest posterior density.

    Where no fit succeeds, at those that it has been made with.
    """
    before = deepcopy(model.state_dict())
    try:
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    except ModelFittingError:
        model.load_state_dict(before)
    return model.eval()
