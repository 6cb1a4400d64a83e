r"""What is called, with which right arguments, and what is done with the result."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import ModelListGP
from torch import Tensor

import kernelucb as k
from benchmarks.attack.fuzz.world import one, shared, world
from benchmarks.attack.verdicts import WrongError
from kernelucb.acquisition.chunked import argmax
from kernelucb.models import (
    BKBModel,
    CosineFeatures,
    DiscreteMetaModel,
    FeatureMetaModel,
)
from kernelucb.safety import gen_safe_initial_conditions


class Target(NamedTuple):
    r"""A call.

    Attributes:
        name: For the report.
        call: Takes the arguments by name.
        arguments: Right ones.
        use: Uses the result, and raises ``WrongError`` where it is wrong.
    """

    name: str
    call: Callable[..., Any]
    arguments: Callable[[], dict[str, Any]]
    use: Callable[[Any], None]


def check_numbers(result: Any) -> None:
    r"""No NaN in a number, a tensor, or a tuple or list of these; tensors are floating."""
    if isinstance(result, (tuple, list)):
        for part in result:
            check_numbers(part)
    elif isinstance(result, Tensor):
        if result.is_complex() or bool(torch.isnan(result.double()).any()):
            raise WrongError(f"the result is {result.dtype} with NaN or complex values")
    elif isinstance(result, float) and result != result:
        raise WrongError("the result is NaN")


def check_sides(result: Any) -> None:
    r"""Lower and upper bounds: floating, finite and in order."""
    lower, upper = result
    if not (lower.is_floating_point() and upper.is_floating_point()):
        raise WrongError(f"bounds are {lower.dtype}")
    if not bool(torch.isfinite(lower).all() & torch.isfinite(upper).all()):
        raise WrongError("bounds are not finite")
    if not bool((lower <= upper + 1e-9 * (1.0 + upper.abs())).all()):
        raise WrongError("lower above upper")


def check_values(result: Tensor) -> None:
    r"""Floating values without NaN."""
    if not result.is_floating_point():
        raise WrongError(f"values are {result.dtype}")
    check_numbers(result)


def check_band(band: Any) -> None:
    r"""A band that answers at right points."""
    check_sides(band.bounds(world().queries))
    if hasattr(band, "forward"):
        check_values(band.forward(world().queries.unsqueeze(1)).detach())


def check_arms(bandit: Any) -> None:
    r"""A budgeted bandit that answers."""
    check_sides(bandit.bounds())


def check_state(state: Any) -> None:
    r"""A regression that answers."""
    check_values(state.mean(world().queries))
    check_values(state.variance(world().queries))


def check_posterior(model: Any) -> None:
    r"""A model that predicts."""
    posterior = model.posterior(world().queries)
    check_numbers([posterior.mean, posterior.variance])


def _nothing(_: Any) -> None:
    pass


def _bounds() -> list[Target]:
    w = world()
    common = {
        "model": w.model, "norm_bound": 5.0, "delta": 0.1, "maximize": True,
        "posterior_transform": None, "X_pending": None,
    }  # fmt: skip
    noise = {"noise_std": 0.1}
    parts = [shared("dual"), shared("analytic")]
    both = ScalarizedPosteriorTransform(torch.tensor([1.0, -2.0]))
    theorem = {"domain_size": 10, "scale": 1.0, "theorem": 1}
    cube = {"theorem": 2, "domain_length": 1.0, "lipschitz_a": 1.0, "lipschitz_b": 1.0}
    sums = {"theorem": 3, "information_gain": 3.0}
    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "MartingaleMixtureUCB": (
            k.MartingaleMixtureUCB,
            common | noise | {
                "covariance_scale": 1.0, "noise_bounds": None, "radius": None,
                "form": "dual", "alphas": None, "strict": False,
            },
        ),
        "MartingaleMixtureUCB(unknown noise)": (
            k.MartingaleMixtureUCB,
            common | {"noise_std": "unknown", "noise_bounds": (0.01, 1.0),
                      "covariance_scale": "mixture"},
        ),
        "MartingaleMixtureUCB(analytic)": (
            k.MartingaleMixtureUCB, common | noise | {"form": "analytic", "alphas": 0.01},
        ),
        "AbbasiYadkoriUCB": (k.AbbasiYadkoriUCB, common | noise | {"alpha": 0.01}),
        "IGPUCB": (k.IGPUCB, common | noise | {"horizon": 100}),
        "WangDeFreitasUCB": (k.WangDeFreitasUCB, common | noise | {"fixed_design": True}),
        "SrinivasUCB(1)": (k.SrinivasUCB, common | noise | theorem),
        "SrinivasUCB(2)": (k.SrinivasUCB, common | noise | cube),
        "SrinivasUCB(3)": (k.SrinivasUCB, common | noise | sums),
        "StreamingKernelUCB": (
            k.StreamingKernelUCB,
            common | {"noise_lower": 0.01, "noise_upper": 1.0, "tracker": None},
        ),
        "SketchedMartingaleMixtureUCB": (
            k.SketchedMartingaleMixtureUCB,
            common | {"model": w.nystrom, "covariance_scale": 1.0, "radius": None,
                      "strict": False},
        ),
        "BKBUCB": (
            k.BKBUCB,
            common | noise | {"model": w.bkb, "radius": "certified", "epsilon": 0.5},
        ),
        "ScalarizedUCB": (
            k.ScalarizedUCB,
            {"acqfs": parts, "weights": [1.0, -2.0], "offset": 0.5, "maximize": True,
             "X_pending": None},
        ),
        "ScalarizedUCB.from_model": (
            k.ScalarizedUCB.from_model,
            common | noise | {
                "model": ModelListGP(w.model, w.model), "posterior_transform": both,
                "bound": k.MartingaleMixtureUCB, "options": None,
            },
        ),
        "MetaUCB": (
            k.MetaUCB,
            {"model": shared("discrete"), "delta": 0.1, "maximize": True,
             "posterior_transform": None, "X_pending": None},
        ),
        "MetaPI": (
            k.MetaPI, {"model": shared("discrete"), "target": 1.0, "maximize": True},
        ),
    }  # fmt: skip
    targets = []
    for name, (build, arguments) in kinds.items():
        use = _at_arms if name.startswith("Meta") else check_band
        targets.append(Target(name, build, lambda given=arguments: dict(given), use))
    return targets


def _at_arms(acqf: Any) -> None:
    check_sides(acqf.bounds(world().X))


def _states() -> list[Target]:
    w = world()
    data = {"train_X": w.X, "train_Y": w.Y, "covar_module": w.kernel, "noise_std": 0.1}
    nystrom = {"inducing_points": w.X[:4], "remainder_points": None, "chunk_size": 64}
    bandit = {
        "covar_module": w.kernel, "norm_bound": 5.0, "noise_std": 0.1, "delta": 0.1,
        "covariance_scale": 1.0, "bound": "exact", "alphas": None, "horizon": 100,
        "mean_module": None,
    }  # fmt: skip
    budgeted = {
        "candidates": w.X, "covar_module": w.kernel, "norm_bound": 5.0, "noise_std": 0.1,
        "delta": 0.1, "qbar": 2.0, "radius": "certified", "epsilon": 0.5,
        "regularizer": 0.01, "batch_growth": 1.1, "seed": 0, "mean_module": None,
    }  # fmt: skip
    model = {
        "train_X": w.X, "train_Y": w.Y.unsqueeze(-1), "covar_module": w.kernel,
        "noise_variance": 0.01, "qbar": 2.0, "seed": 0, "mean_module": None,
        "input_transform": None, "outcome_transform": None,
    }  # fmt: skip
    sampling = {
        "model": w.model, "norm_bound": 5.0, "noise_std": 0.1, "noise_lower": None,
        "noise_upper": None, "tracker": None, "delta": 0.1, "inflation": True,
        "maximize": True, "replacement": True,
    }  # fmt: skip
    discrete = {"task_values": shared("tasks"), "candidates": w.X, "train_X": None,
                "train_Y": None, "seed": 0}  # fmt: skip
    features = {
        "task_inputs": w.X.expand(40, -1, -1), "task_values": shared("tasks"),
        "features": torch.nn.Identity(), "num_features": 2, "seed": 0,
        "progress": False, "train_X": None, "train_Y": None,
    }  # fmt: skip
    given = [
        ("KernelRegression", k.KernelRegression, data | {"mean_module": None}, check_state),
        ("KernelRegression.from_model", k.KernelRegression.from_model,
         {"model": w.model, "noise_std": 0.1}, check_state),
        ("KernelRegression.of", k.KernelRegression.of,
         {"model": w.model, "noise_std": 0.1}, check_state),
        ("NystromRegression", k.NystromRegression,
         data | nystrom | {"mean_module": None}, check_state),
        ("NystromRegression.from_model", k.NystromRegression.from_model,
         {"model": w.model, "noise_std": 0.1} | nystrom, check_state),
        ("KernelBandit", k.KernelBandit, bandit, check_band),
        ("BKBBandit", k.BKBBandit, budgeted, check_arms),
        ("BKBModel", BKBModel, model, check_posterior),
        ("KernelThompsonSampling", k.KernelThompsonSampling, sampling,
         lambda sampler: check_numbers(sampler(w.queries))),
        ("DiscreteMetaModel", DiscreteMetaModel, discrete,
         lambda meta: check_numbers(meta.posterior(w.X).mean)),
        ("FeatureMetaModel", FeatureMetaModel, features, check_posterior),
        ("CosineFeatures", CosineFeatures,
         {"frequencies": torch.ones(2, 3).double(), "phases": torch.zeros(3).double()},
         lambda layer: check_numbers(layer(w.queries))),
        ("NormTracker", k.NormTracker, {"inflation": 1.0, "floor": 2.0},
         lambda tracker: check_numbers(tracker.update(w.state))),
        ("PrequentialRadius", k.PrequentialRadius, {"delta": 0.1}, _nothing),
        ("StreamingNoiseTracker", k.StreamingNoiseTracker,
         {"norm_bound": 5.0, "noise_lower": 0.01, "noise_upper": 1.0, "delta": 0.1},
         lambda tracker: check_numbers(tracker.update(w.state))),
    ]  # fmt: skip
    return [Target(n, c, lambda a=a: dict(a), use) for n, c, a, use in given]


def _functions() -> list[Target]:
    w, dual = world(), shared("dual")
    safe = {"thresholds": -20.0, "sides": ">=", "safe_points": w.X[:1],
            "allow_estimated": False}  # fmt: skip
    search = {"candidates": w.X, "bounds": None, "max_evaluations": 200}
    margin = lambda safe_set: check_values(safe_set.margin(w.queries))  # noqa: E731
    noise = {"noise_std": 0.1, "delta": 0.1}
    given = [
        ("SafeSet", k.SafeSet, {"bands": dual} | safe, margin),
        ("SafeSet.from_models", k.SafeSet.from_models,
         {"models": w.model, "norm_bounds": 5.0, "noise_stds": 0.1, "delta": 0.1,
          "num_bounds": None} | safe, margin),
        ("ConstraintWidth", k.ConstraintWidth, {"safe_set": shared("safe")},
         lambda acqf: check_values(acqf(w.queries.unsqueeze(1)))),
        ("CertifiedGapStopping", k.CertifiedGapStopping,
         {"gap": 1.0, "allow_estimated": True} | search,
         lambda rule: check_numbers(rule(dual).certificate.gap)),
        ("regret_certificate", k.regret_certificate,
         {"acqf": dual, "recommended": None, "tolerance": 0.05} | search,
         lambda certificate: check_numbers(certificate.gap)),
        ("regret_certificate(box)", k.regret_certificate,
         {"acqf": dual, "bounds": w.box, "tolerance": 0.5, "max_evaluations": 200},
         lambda certificate: check_numbers(certificate.gap)),
        ("check_consistency", k.check_consistency,
         {"model": w.model, "norm_bound": 5.0, "covariance_scale": 1.0} | noise,
         lambda check: check_numbers(check.least_consistent_norm)),
        ("describe_norm_bound", k.describe_norm_bound,
         {"model": w.model, "norm_bound": 5.0, "bounds": w.box, "candidates": None,
          "steps": None, "input_names": None, "outcome_unit": "kg"} | noise,
         lambda text: check_numbers([text.range, text.across])),
        ("information_gain", k.information_gain,
         {"model": w.model, "X": w.X, "noise_std": 0.1, "num_points": 3,
          "method": "greedy"}, check_numbers),
        ("least_consistent_norm", k.least_consistent_norm,
         {"model": w.model, "covariance_scale": 1.0} | noise, check_numbers),
        ("optimize_acqf_safely", k.optimize_acqf_safely,
         {"acq_function": dual, "safe_set": shared("safe"), "bounds": w.box, "q": 1,
          "num_restarts": 1, "raw_samples": 4, "fixed_features": None,
          "inequality_constraints": None, "options": {"maxiter": 1}}, check_numbers),
        ("gen_safe_initial_conditions", gen_safe_initial_conditions,
         {"acq_function": dual, "bounds": w.box, "num_restarts": 1, "raw_samples": 4,
          "safe_set": shared("safe")}, check_numbers),
        ("argmax", argmax, {"acqf": dual, "candidates": w.X, "chunk_size": 4},
         lambda best: check_numbers(best.value)),
    ]  # fmt: skip
    return [Target(n, c, lambda a=a: dict(a), use) for n, c, a, use in given]


def _methods() -> list[Target]:
    w = world()
    targets = []

    def add(owner: str, method: str, use: Any, **arguments: Any) -> None:
        changes = method in _CHANGING
        make = one if changes else shared
        after = (lambda _: None) if use is None else use
        targets.append(
            Target(
                f"{owner}.{method}",
                lambda **given: getattr(make(owner), method)(**given),
                lambda: dict(arguments),
                after,
            )
        )

    for owner in _ACQUISITIONS:
        points = w.X if owner.startswith("meta") else w.queries
        add(owner, "bounds", check_sides, X=points)
        add(owner, "forward", check_values, X=points.unsqueeze(1))
        add(owner, "set_X_pending", None, X_pending=points[:2])
        add(owner, "load_state_dict", None, state_dict={})
    add("dual", "majorant", check_values, X=w.queries.unsqueeze(1))
    add("dual", "witness", lambda each: check_numbers(each.norm), X=w.X[:1], upper=True)
    add("bandit", "bounds", check_sides, arms=w.queries)
    add("bandit", "select", None, arms=w.queries)
    add("bandit", "update", None, x=w.X[5], y=0.5)
    add("budgeted", "observe", None, arms=[3, 4], outcomes=[0.1, 0.2])
    add("budgeted", "batch_select", None, max_size=2)
    for owner in ("state", "nystrom"):
        add(owner, "mean", check_values, X=w.queries)
        add(owner, "variance", check_values, X=w.queries)
        add(owner, "with_pending", check_state, X_pending=w.queries)
    add("state", "with_noise_std", check_state, noise_std=0.2)
    add("nystrom", "with_observations", check_state, X=w.X[:2], Y=w.Y[:2], noise_std=0.1)
    add("norms", "update", check_numbers, model=w.state, noise_std=0.1, delta=0.1,
        covariance_scale=1.0)  # fmt: skip
    add("radius", "observe", None, mean=0.0, variance=1.0, outcome=0.5, noise_std=0.1)
    add("radius", "update", None, model=w.model, X=w.X[:2], Y=w.Y[:2], noise_std=0.1)
    add("radius", "radius", None, regression=w.state)
    add("tracker", "update", check_numbers, model=w.state)
    add("thompson", "forward", check_numbers, X=w.queries, num_samples=2)
    add("thompson", "sample_values", check_values, X=w.queries, num_samples=2)
    add("thompson", "paths", None, num_samples=1, num_features=16)
    add("safe", "margin", check_values, X=w.queries)
    add("safe", "is_safe", None, X=w.queries)
    add("safe", "filter", None, choices=w.queries)
    add("safe", "repair", check_numbers, X=w.queries, anchors=w.X[:1])
    add("bkb_model", "posterior", lambda post: check_numbers(post.mean), X=w.queries)
    for method in ("update", "condition_on_observations"):
        add("bkb_model", method, check_posterior, X=w.X[:2], Y=w.Y[:2].unsqueeze(-1))
    for owner in ("bandit", "budgeted", "norms", "radius", "tracker", "bkb_model"):
        add(owner, "load_state_dict", None, state_dict={})
    return targets


_ACQUISITIONS = (
    "dual", "grid", "analytic", "model", "unknown", "abbasi_yadkori", "streaming",
    "sketched", "bkb", "scalarized", "meta", "meta_pi",
)  # fmt: skip
_CHANGING = ("set_X_pending", "load_state_dict", "update", "observe")


@cache
def targets() -> list[Target]:
    r"""All calls."""
    return [*_bounds(), *_states(), *_functions(), *_methods()]
