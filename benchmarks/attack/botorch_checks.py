r"""What BoTorch's own tests ask of an acquisition function, with the bounds in place."""

import pickle
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any

import torch
from botorch.acquisition.fixed_feature import FixedFeatureAcquisitionFunction
from botorch.acquisition.penalized import L1Penalty, PenalizedAcquisitionFunction
from botorch.acquisition.proximal import ProximalAcquisitionFunction
from botorch.exceptions import BotorchTensorDimensionError
from botorch.generation.sampling import BoltzmannSampling
from botorch.models import SingleTaskGP
from botorch.optim import (
    optimize_acqf,
    optimize_acqf_cyclic,
    optimize_acqf_discrete,
    optimize_acqf_discrete_local_search,
    optimize_acqf_mixed,
)
from botorch.optim.initializers import gen_batch_initial_conditions
from botorch.optim.optimize import optimize_acqf_list
from torch import Tensor

import kernelucb as k
from benchmarks.attack.tasks import Family
from benchmarks.attack.verdicts import Verdict, WrongError, judge
from benchmarks.runner import fixed_kernel
from kernelucb import Grid
from kernelucb.models import BKBModel

_BOX = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
_SIZES: dict[str, Any] = {"num_restarts": 2, "raw_samples": 8}
_FEW = {"maxiter": 3}


@cache
def _prototypes() -> dict[str, Any]:
    r"""One of each kind of acquisition function; those that a check changes are copied."""
    generator = torch.Generator().manual_seed(3)
    X = torch.rand(8, 2, generator=generator, dtype=torch.float64)
    Y = torch.sin(4.0 * X[:, 0]) + X[:, 1]
    kernel = fixed_kernel("rbf", 0.4)
    model = SingleTaskGP(X, Y.unsqueeze(-1), covar_module=kernel, outcome_transform=None)
    model = model.eval().requires_grad_(False)
    state = k.KernelRegression(X, Y, kernel, 0.1)
    nystrom = k.NystromRegression(X, Y, kernel, 0.1, X[:4])
    given: dict[str, Any] = {"norm_bound": 5.0, "delta": 0.1}
    dual = k.MartingaleMixtureUCB(state, **given)
    return {
        "dual": dual,
        "grid": k.MartingaleMixtureUCB(state, form=Grid(), **given),
        "analytic": k.MartingaleMixtureUCB(state, form="analytic", **given),
        "model": k.MartingaleMixtureUCB(model, **given),
        "unknown": k.MartingaleMixtureUCB(state, noise_std=k.UnknownNoise(), **given),
        "abbasi_yadkori": k.AbbasiYadkoriUCB(state, **given),
        "streaming": k.StreamingKernelUCB(state, noise_std=k.UnknownNoise(0.01), **given),
        "sketched": k.SketchedMartingaleMixtureUCB(nystrom, **given),
        "bkb": k.BKBUCB(BKBModel(X, Y.unsqueeze(-1), kernel, 0.01), norm_bound=5.0),
        "scalarized": k.ScalarizedUCB([dual, dual], [1.0, -2.0]),
        "ConstraintWidth": k.safety.ConstraintWidth(k.SafeSet(dual, thresholds=-20.0)),
    }


def check_numbers(result: Any) -> None:
    r"""No NaN in a tensor, or a tuple or list of these; tensors are floating."""
    for part in result if isinstance(result, (tuple, list)) else [result]:
        if not part.is_floating_point() or bool(torch.isnan(part).any()):
            raise WrongError(f"the result is {part.dtype}, or NaN")


def _require(holds: Any, text: str) -> None:
    if not bool(holds):
        raise WrongError(text)


def _points(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.rand(*shape, generator=generator, dtype=torch.float64)


def _close(left: Tensor, right: Tensor, text: str) -> None:
    _require(torch.allclose(left, right, rtol=1e-6, atol=1e-8), text)


def _shapes(acqf: Any) -> None:
    for batch in ((4,), (2, 3), (1,), (2, 1, 3)):
        X = _points(*batch, 1, 2)
        value = acqf(X)
        _require(value.shape == batch, f"shape {tuple(value.shape)} of {batch}")
        _close(value.reshape(-1), acqf(X.reshape(-1, 1, 2)), "t-batches disagree")


def _several(acqf: Any) -> None:
    try:
        acqf(_points(3, 2, 2))
    except (BotorchTensorDimensionError, AssertionError):
        return
    raise WrongError("q = 2 was accepted")


def _types(acqf: Any) -> None:
    X = _points(4, 1, 2)
    value = acqf(X.float())
    _require(value.dtype == torch.float32, f"float32 gives {value.dtype}")
    _close(value.double(), acqf(X.float().double()).float().double(), "single precision")


def _gradients(acqf: Any) -> None:
    X = _points(4, 1, 2).requires_grad_()
    (gradient,) = torch.autograd.grad(acqf(X).sum(), X)
    step = 1e-6 * torch.ones_like(X)
    slope = (acqf(X.detach() + step) - acqf(X.detach() - step)) / 2.0
    apart = ((gradient * step).sum((-1, -2)) - slope).abs()
    _require(
        (apart <= 1e-3 * slope.abs() + 1e-9).all(), "gradient and differences disagree"
    )


def _pending(acqf: Any) -> None:
    X = _points(4, 1, 2)
    before = acqf(X)
    acqf.set_X_pending(X[0])
    _require((acqf(X) <= before + 1e-8).all(), "a pending point raised the bound")
    acqf.set_X_pending(None)
    _close(acqf(X), before, "pending points stay")


def _copies(acqf: Any) -> None:
    X = _points(4, 1, 2)
    for copy in (deepcopy(acqf), pickle.loads(pickle.dumps(acqf))):
        _close(copy(X), acqf(X), "a copy differs")


def _reloaded(acqf: Any) -> None:
    X, before = _points(4, 1, 2), acqf(_points(4, 1, 2))
    acqf.load_state_dict(acqf.state_dict())
    _close(acqf(X), before, "its own state changed it")


def _training(acqf: Any) -> None:
    X, before = _points(4, 1, 2), acqf(_points(4, 1, 2))
    acqf.train()
    acqf.eval()
    acqf.to(torch.float64)
    _close(acqf(X), before, "train and eval changed it")


def _optimized(**options: Any) -> Callable[[Any], None]:
    def check(acqf: Any) -> None:
        given = {"q": 1, "options": _FEW, **_SIZES, **options}
        check_numbers(list(optimize_acqf(acqf, _BOX, **given)))

    return check


def _several_starts(acqf: Any) -> None:
    starts = gen_batch_initial_conditions(acqf, _BOX, q=1, **_SIZES)
    check_numbers(starts)
    given: dict[str, Any] = {"batch_initial_conditions": starts, "options": _FEW}
    candidates, values = optimize_acqf(
        acqf, _BOX, q=1, num_restarts=2, return_best_only=False, **given
    )
    _require(candidates.shape == (2, 1, 2), "shape of all candidates")
    check_numbers(values)


def _discrete(acqf: Any) -> None:
    candidates, values = optimize_acqf_discrete(acqf, 1, choices=_points(9, 2))
    _close(values.reshape(-1), acqf(candidates.unsqueeze(1)), "value at the choice")
    optimize_acqf_discrete(acqf, 2, choices=_points(9, 2), unique=True)


def _local(acqf: Any) -> None:
    choices = [torch.linspace(0, 1, 4).double() for _ in range(2)]
    check_numbers(list(optimize_acqf_discrete_local_search(acqf, choices, 1, **_SIZES)))


def _mixed(acqf: Any) -> None:
    features: Any = [{0: 0.0}, {0: 1.0}]
    given: dict[str, Any] = {"options": _FEW, **_SIZES}
    candidates, _ = optimize_acqf_mixed(acqf, _BOX, 1, fixed_features_list=features,
                                        **given)  # fmt: skip
    _require(float(candidates[0, 0]) in (0.0, 1.0), "the fixed feature moved")


def _listed(acqf: Any) -> None:
    given: dict[str, Any] = {"options": _FEW, **_SIZES}
    check_numbers(list(optimize_acqf_list([acqf, acqf], _BOX, **given)))


def _cyclic(acqf: Any) -> None:
    given: dict[str, Any] = {"options": _FEW, "cyclic_options": {"maxiter": 2}, **_SIZES}
    check_numbers(list(optimize_acqf_cyclic(acqf, _BOX, q=2, **given)))


def _wrapped(acqf: Any) -> None:
    X = _points(4, 1, 2)
    fixed = FixedFeatureAcquisitionFunction(acqf, d=2, columns=[1], values=[0.5])
    there = torch.cat([X[..., :1], torch.full_like(X[..., :1], 0.5)], -1)
    _close(fixed(X[..., :1]), acqf(there), "fixed features")
    penalty = L1Penalty(torch.zeros(2, dtype=torch.float64))
    penalized = PenalizedAcquisitionFunction(acqf, penalty, 0.1)
    _close(penalized(X), acqf(X) - 0.1 * X.abs().sum((-1, -2)), "penalized")
    for wrapper in (fixed, penalized):
        wrapper.set_X_pending(None)


def _proximal(acqf: Any) -> None:
    if isinstance(acqf, k.ScalarizedUCB) or not hasattr(acqf.model, "train_inputs"):
        return
    if not isinstance(acqf.model.train_inputs, (tuple, list)):
        return
    weights = torch.ones(2, dtype=torch.float64)
    proximal = ProximalAcquisitionFunction(acqf, weights, beta=1.0)
    check_numbers(proximal(_points(4, 1, 2)))


def _boltzmann(acqf: Any) -> None:
    chosen = BoltzmannSampling(acqf)(_points(1, 9, 2), num_samples=3)
    _require(chosen.shape == (1, 3, 2), "Boltzmann sampling")


def _nonlinear(X: Tensor) -> Tensor:
    return 1.5 - X.sum(-1)


_HALF = [(torch.tensor([0, 1]), torch.tensor([-1.0, -1.0]).double(), -1.5)]
_ONE = [(torch.tensor([0, 1]), torch.tensor([1.0, 1.0]).double(), 1.0)]
_START = torch.tensor([[[0.5, 0.5]]], dtype=torch.float64)
CHECKS: dict[str, Callable[[Any], None]] = {
    "shapes": _shapes,
    "q = 2": _several,
    "dtypes": _types,
    "gradients": _gradients,
    "X_pending": _pending,
    "copies": _copies,
    "own state": _reloaded,
    "train and eval": _training,
    "optimize_acqf": _optimized(),
    "sequential": _optimized(q=2, sequential=True),
    "sample_around_best": _optimized(options={**_FEW, "sample_around_best": True}),
    "sample_around_best, nonnegative": _optimized(
        options={**_FEW, "sample_around_best": True, "nonnegative": True}
    ),
    "init batch limit": _optimized(options={**_FEW, "init_batch_limit": 3,
                                            "batch_limit": 1}),
    "seed and eta": _optimized(options={**_FEW, "seed": 3, "eta": 1.0}),
    "thinning": _optimized(
        options={**_FEW, "n_burnin": 10, "n_thinning": 2}, inequality_constraints=_HALF
    ),
    "fixed features": _optimized(fixed_features={0: 0.3}),
    "inequality": _optimized(inequality_constraints=_HALF),
    "equality": _optimized(equality_constraints=_ONE),
    "nonlinear": _optimized(
        nonlinear_inequality_constraints=[(_nonlinear, True)], num_restarts=1,
        batch_initial_conditions=_START, raw_samples=None,
    ),
    "post processing": _optimized(post_processing_func=lambda X: X.round(decimals=1)),
    "without gradients": _optimized(options={**_FEW, "with_grad": False}),
    "retries": _optimized(retry_on_optimization_warning=False, timeout_sec=5.0),
    "initial conditions": _several_starts,
    "discrete": _discrete,
    "local search": _local,
    "mixed": _mixed,
    "list": _listed,
    "cyclic": _cyclic,
    "wrappers": _wrapped,
    "proximal": _proximal,
    "Boltzmann": _boltzmann,
}  # fmt: skip


@cache
def cases() -> list[tuple[str, str]]:
    r"""Bound and check of each seed."""
    return [(name, check) for check in CHECKS for name in _prototypes()]


def play(seed: int) -> Verdict:
    r"""One check of one bound."""
    name, check = cases()[seed]

    def attempt() -> None:
        torch.manual_seed(seed)
        CHECKS[check](deepcopy(_prototypes()[name]))

    return judge(attempt, f"{name}, {check}")


FAMILY = Family(play, lambda: len(cases()), "BoTorch's own checks and optimisers", 50)
