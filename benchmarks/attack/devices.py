r"""Every bound on a device that pretends: it runs there, and says the same."""

from collections.abc import Callable
from copy import deepcopy
from functools import cache
from types import SimpleNamespace
from typing import Any

import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from torch import Tensor

import kernelucb as k
from benchmarks.attack.fuzz.world import world
from benchmarks.attack.pretended_device import pretended_device
from benchmarks.attack.subjects import BOUNDS
from benchmarks.attack.tasks import Family
from benchmarks.attack.verdicts import Verdict, WrongError, judge
from kernelucb.models import BKBModel
from kernelucb.optim.chunked import argmax

_GIVEN: dict[str, Any] = {"norm_bound": 5.0, "delta": 0.1}


def _there(device: Any) -> Any:
    r"""The data of the world on a device."""
    w = world()
    X, Y, kernel = w.X.to(device), w.Y.to(device), deepcopy(w.kernel).to(device)
    return SimpleNamespace(
        X=X, Y=Y, kernel=kernel, queries=w.queries.to(device), box=w.box.to(device),
        state=k.KernelRegression(X, Y, kernel, 0.1),
    )  # fmt: skip


def _fitted(t: Any) -> Any:
    model = SingleTaskGP(
        t.X, t.Y.unsqueeze(-1), covar_module=t.kernel, outcome_transform=Standardize(1),
        input_transform=Normalize(2),
    )  # fmt: skip
    return k.MartingaleMixtureUCB(model.to(t.X).eval(), **_GIVEN)


def _sketched(t: Any) -> Any:
    state = k.NystromRegression(t.X, t.Y, t.kernel, 0.1, t.X[:4])
    return k.SketchedMartingaleMixtureUCB(state, **_GIVEN)


def _mixture(**options: Any) -> Callable[[Any], Any]:
    return lambda t: k.MartingaleMixtureUCB(t.state, **(_GIVEN | options))


def _bandit(bound: str) -> Callable[[Any], Any]:
    def build(t: Any) -> Any:
        bandit = k.KernelBandit(t.kernel, noise_std=0.1, **BOUNDS[bound], **_GIVEN)
        for x, y in zip(t.X, t.Y, strict=True):
            bandit.observe(x, y)
        return bandit

    return build


def _streaming(t: Any) -> Any:
    return k.StreamingKernelUCB(t.state, noise_std=k.UnknownNoise(0.01, 1.0), **_GIVEN)


def _srinivas(t: Any) -> Any:
    theorem = k.BoundedNorm(_GIVEN["norm_bound"])
    return k.SrinivasUCB(t.state, delta=_GIVEN["delta"], theorem=theorem)


def _bkb(t: Any) -> Any:
    return k.BKBUCB(BKBModel(t.X, t.Y.unsqueeze(-1), t.kernel, 0.01), **_GIVEN)


BUILDERS: dict[str, Callable[[Any], Any]] = {
    "dual": _mixture(),
    "grid": _mixture(alphas="paper"),
    "analytic": _mixture(form="analytic"),
    "mixture": _mixture(covariance_scale="mixture"),
    "unknown noise": _mixture(noise_std=k.UnknownNoise()),
    "estimated norm": _mixture(norm_bound=None),
    "fitted model": _fitted,
    "abbasi_yadkori": lambda t: k.AbbasiYadkoriUCB(t.state, **_GIVEN),
    "igp": lambda t: k.IGPUCB(t.state, **_GIVEN),
    "wang_de_freitas": lambda t: k.WangDeFreitasUCB(t.state, **_GIVEN),
    "srinivas": lambda t: _srinivas(t),
    "streaming": _streaming,
    "sketched": _sketched,
    "bkb": _bkb,
    "scalarized": lambda t: k.ScalarizedUCB([_mixture()(t), _bkb(t)], [1.0, -2.0]),
    **{f"bandit {bound}": _bandit(bound) for bound in BOUNDS},
}  # fmt: skip


def _pending(band: Any, t: Any) -> list[Tensor]:
    band.set_X_pending(t.X[:2] + 0.1)
    return [band(t.queries.unsqueeze(1))]


def _gradient(band: Any, t: Any) -> list[Tensor]:
    X = t.queries.unsqueeze(1).requires_grad_()
    return list(torch.autograd.grad(band(X).sum(), X))


def _safe(band: Any, t: Any) -> list[Tensor]:
    safe = k.SafeSet(band, -1e3, safe_points=t.X[:1], allow_estimated=True)
    return [safe.margin(t.queries), k.ConstraintWidth(safe)(t.queries.unsqueeze(1))]


def _certificate(band: Any, t: Any) -> list[Tensor]:
    return [torch.tensor(k.regret_certificate(band, t.queries).gap)]


USES: dict[str, Callable[[Any, Any], list[Tensor]]] = {
    "bounds": lambda band, t: list(band.bounds(t.queries)),
    "forward": lambda band, t: [band(t.queries.unsqueeze(1))],
    "pending points": _pending,
    "gradient": _gradient,
    "argmax": lambda band, t: [torch.as_tensor(argmax(band, t.queries).value)],
    "safe set": _safe,
    "certificate": _certificate,
}


@cache
def cases() -> list[tuple[str, str]]:
    r"""Bound and use of each seed; a bandit only has bounds."""
    return [
        (name, use)
        for name in BUILDERS
        for use in USES
        if use == "bounds" or not name.startswith("bandit")
    ]


def play(seed: int) -> Verdict:
    r"""One use of one bound."""
    name, use = cases()[seed]

    def attempt() -> None:
        here = _there("cpu")
        expected = USES[use](BUILDERS[name](here), here)
        with pretended_device() as device:
            there = _there(device)
            found = USES[use](BUILDERS[name](there), there)
            found = [part.detach().cpu() for part in found]
        for one, other in zip(expected, found, strict=True):
            if not torch.allclose(one.detach(), other, rtol=1e-6, atol=1e-8):
                raise WrongError("other numbers on the device")

    return judge(attempt, f"{name}, {use}")


FAMILY = Family(play, lambda: len(cases()), "a device that pretends", 20)
