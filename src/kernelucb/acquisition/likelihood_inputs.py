r"""Arguments of ``LikelihoodUCB`` from a model, also from names and numbers."""

from collections.abc import Mapping
from typing import Any

from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from gpytorch.models import ApproximateGP
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb.confidence.fit.mixture import CovarianceScale
from kernelucb.confidence.likelihood.evidence import LIKELIHOOD_SCALES
from kernelucb.confidence.likelihood.problem import LikelihoodForm
from kernelucb.confidence.norm.tracker import NormBoundLike
from kernelucb.regression.kernel_family import Lengths
from kernelucb.regression.likelihood.from_model import Reported, likelihood_data
from kernelucb.regression.likelihood.losses import Likelihood
from kernelucb.regression.likelihood.regression import LikelihoodRegression
from kernelucb.regression.named import check_lengths, fixed_kernel, fixed_mean


@checked
def likelihood_inputs(
    model: Model | ApproximateGP | LikelihoodRegression,
    *,
    likelihood: Likelihood | None = None,
    kernel: Kernel | str | None = None,
    lengthscale: Lengths | None = None,
    outputscale: float = 1.0,
    mean: float | Mean | None = None,
    train_X: Tensor | None = None,
    train_Y: Tensor | None = None,
    num_trials: float | Tensor | None = None,
    exposure: float | Tensor | None = None,
    outcomes: Reported = "counts",
    norm_bound: NormBoundLike = None,
    delta: float = 0.05,
    covariance_scale: CovarianceScale = LIKELIHOOD_SCALES,
    form: LikelihoodForm = "ellipsoid",
    strict: bool = False,
    maximize: bool = True,
    posterior_transform: PosteriorTransform | None = None,
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of ``LikelihoodUCB``; see ``LikelihoodUCB.from_model``.

    Raises:
        ValueError: If a kernel's name comes without length scale, or what describes the
            data comes beside a ``LikelihoodRegression``.
        BotorchTensorDimensionError: If there is another number of length scales.
        UnsupportedError: If the model cannot be read.
    """
    if isinstance(model, LikelihoodRegression):
        given = {"likelihood": likelihood, "kernel": kernel, "lengthscale": lengthscale}
        given |= {"mean": mean, "train_X": train_X, "train_Y": train_Y}
        check_alone(
            "model is a LikelihoodRegression",
            given | {"num_trials": num_trials, "exposure": exposure},
        )
        data = model
    else:
        chosen = _kernel(kernel, lengthscale, outputscale)
        module = mean if isinstance(mean, Mean | None) else fixed_mean(mean)
        data = likelihood_data(
            model,
            likelihood,
            chosen,
            module,
            train_X,
            train_Y,
            num_trials,
            exposure,
            outcomes,
        )
        check_lengths(lengthscale, data.train_inputs)
    return {
        "train_X": data,
        "norm_bound": norm_bound,
        "delta": delta,
        "covariance_scale": covariance_scale,
        "form": form,
        "strict": strict,
        "maximize": maximize,
        "posterior_transform": posterior_transform,
        "X_pending": X_pending,
    }


def check_alone(what: str, given: Mapping[str, Any]) -> None:
    r"""Refuse arguments that ``what`` holds already.

    Raises:
        ValueError: If one of them is not None.
    """
    names = [name for name, value in given.items() if value is not None]
    if names:
        raise ValueError(f"{what}, which holds {' and '.join(names)}; leave that out.")


def _kernel(
    kernel: Kernel | str | None, lengthscale: Lengths | None, outputscale: float
) -> Kernel | None:
    r"""A kernel as given, or frozen from its name."""
    if not isinstance(kernel, str):
        if lengthscale is not None or outputscale != 1.0:
            raise ValueError(
                "lengthscale and outputscale go with the name of a kernel; give one, such "
                'as kernel="rbf", or leave them out.'
            )
        return kernel
    return fixed_kernel(kernel, lengthscale, outputscale)
