r"""From a model and the arguments of a family to its data and how its sets are made."""

from dataclasses import replace
from typing import Any

from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb._numerics.checks import probability
from kernelucb._numerics.estimates import with_noise
from kernelucb.confidence.family.likelihood import LikelihoodSettings
from kernelucb.confidence.family.settings import MixtureSettings, Settings
from kernelucb.confidence.fit.choice import Fit, MartingaleMixture, check_fit
from kernelucb.confidence.fit.prequential import PrequentialRadius
from kernelucb.confidence.likelihood.evidence import LIKELIHOOD_SCALES, Ratio
from kernelucb.regression.family_data import CountData, FamilyData, NoisyData
from kernelucb.regression.likelihood.regression import LikelihoodRegression


def data_and_settings(
    model: Any,
    noise_std: float | Tensor | None,
    fit: Fit,
    delta: float,
    model_error: float,
) -> tuple[FamilyData, Settings]:
    r"""What all kernels share; arguments as for ``KernelFamilyUCB``.

    Raises:
        ValueError: If a scalar is out of its range, or an argument has no meaning beside
            ``fit``.
        UnsupportedError: If the model cannot be represented, or an argument has no meaning
            for successes and counts.
    """
    probability("delta", delta)
    if isinstance(model, LikelihoodRegression):
        _refuse_noise(
            noise_std=noise_std is None,
            fit=isinstance(fit, MartingaleMixture) or fit == "filters",
            model_error=not model_error,
        )
        scale = fit.covariance_scale if isinstance(fit, MartingaleMixture) else None
        ratio = Ratio(delta, LIKELIHOOD_SCALES if scale is None else scale)
        counts = CountData.of(model)
        return counts, LikelihoodSettings(counts.outcomes.kind, ratio)
    check_fit(fit, delta, noise_std=noise_std)
    data = _with_noise_of(fit, NoisyData.of(model, noise_std))
    return data, MixtureSettings(fit, delta, model_error)


def _refuse_noise(**left_out: bool) -> None:
    r"""Refuse arguments that are about additive noise."""
    names = [name for name, absent in left_out.items() if not absent]
    if names:
        raise UnsupportedError(
            f"{' and '.join(names)} would have no meaning for a LikelihoodRegression: its "
            "outcomes are successes or counts, whose likelihood says how they vary. Leave "
            "that out."
        )


def _with_noise_of(fit: Fit, data: NoisyData) -> NoisyData:
    r"""The data with the noise scales of a ``PrequentialRadius``, if it is the fit."""
    if not isinstance(fit, PrequentialRadius) or fit.num_observations != len(data.targets):
        return data
    estimated = with_noise(data.estimated, fit.noise_std)
    return replace(data, noise_std=fit.noise_std, estimated=estimated)
