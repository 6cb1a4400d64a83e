r"""From the arguments of ``KernelBandit`` to the bound that they name."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar, probability
from kernelucb.bandit.bounds import IGP, AbbasiYadkori, BanditBound
from kernelucb.bandit.mixtures import Analytic, Dual, Grid
from kernelucb.confidence.fit.choice import ClosedForm
from kernelucb.confidence.fit.mixture import CovarianceScale, covariance_scales
from kernelucb.confidence.martingale_mixture.regularizers import grid_regularizers
from kernelucb.confidence.norm.tracker import NormBoundLike, NormTracker, tracker_of
from kernelucb.confidence.ridge_band import igp_ucb_regularizer

BoundName = Literal["martingale_mixture", "abbasi_yadkori", "igp_ucb"]
Form = Literal["dual", "analytic"]
Alphas = Sequence[float] | Tensor | float | Literal["paper"] | None
_Shared = tuple[float | NormTracker, float, float]  # norm, noise_std, delta


class Options(NamedTuple):
    r"""Arguments of ``KernelBandit`` that not every bound takes; None by default."""

    form: Form | None
    alphas: Alphas
    fit: ClosedForm | None
    covariance_scale: CovarianceScale | None
    horizon: int | None


def bound_of(
    name: BoundName,
    norm_bound: NormBoundLike,
    noise_std: float,
    delta: float,
    options: Options,
) -> BanditBound:
    r"""The bound that the arguments of ``KernelBandit`` name, once they are checked."""
    build, taken = _BOUNDS[name]
    for argument, value in options._asdict().items():
        if value is not None and argument not in taken:
            raise ValueError(f'bound="{name}" takes no {argument}; leave it out.')
    tracker = tracker_of("cautious" if norm_bound is None else norm_bound)
    norm = tracker or float(positive_scalar("norm_bound", norm_bound))
    noise_std = float(positive_scalar("noise_std", noise_std))
    return build(options, (norm, noise_std, probability("delta", delta)))


def _martingale_mixture(options: Options, shared: _Shared) -> BanditBound:
    alphas, scale = options.alphas, options.covariance_scale
    scales = covariance_scales(1.0 if scale is None else scale)
    fit: ClosedForm = "filters" if options.fit is None else options.fit
    if options.form == "analytic":
        return Analytic(
            *shared, scales, fit, _one_tau('form="analytic"', alphas, shared[1])
        )
    if alphas is None:
        return Dual(*shared, scales, fit)
    paper = isinstance(alphas, str)
    grid = None if paper else grid_regularizers(alphas, 1.0, shared[1] ** 2)
    return Grid(*shared, scales, fit, grid)


def _abbasi_yadkori(options: Options, shared: _Shared) -> BanditBound:
    tau = _one_tau('bound="abbasi_yadkori"', options.alphas, shared[1])
    return AbbasiYadkori(*shared, 1.0 if tau is None else float(tau))


def _igp_ucb(options: Options, shared: _Shared) -> BanditBound:
    horizon = 1000 if options.horizon is None else options.horizon
    positive_scalar("horizon", horizon)
    return IGP(*shared, igp_ucb_regularizer(shared[1], horizon), int(horizon))


_BOUNDS = {
    "martingale_mixture": (
        _martingale_mixture,
        {"form", "alphas", "fit", "covariance_scale"},
    ),
    "abbasi_yadkori": (_abbasi_yadkori, {"alphas"}),
    "igp_ucb": (_igp_ucb, {"horizon"}),
}


def _one_tau(owner: str, alphas: Alphas, noise_std: float) -> Tensor | None:
    if alphas is None:
        return None
    if isinstance(alphas, str) or torch.as_tensor(alphas).numel() != 1:
        raise ValueError(f"{owner} takes one ridge parameter as alphas.")
    return grid_regularizers(alphas, 1.0, noise_std**2)
