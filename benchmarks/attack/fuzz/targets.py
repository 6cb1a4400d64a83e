r"""What is called, with which right arguments, and what is done with the result."""

from functools import cache
from typing import Any

import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import ModelListGP

import kernelucb as k
from benchmarks.attack.fuzz.checks import (
    Target,
    check_arms,
    check_band,
    check_numbers,
    check_posterior,
    check_sides,
    check_state,
    check_values,
)
from benchmarks.attack.fuzz.methods import methods
from benchmarks.attack.fuzz.world import shared, world
from kernelucb.models import (
    BKBModel,
    CosineFeatures,
    DiscreteMetaModel,
    FeatureMetaModel,
)
from kernelucb.optim.chunked import argmax
from kernelucb.safety import gen_safe_initial_conditions


def _nothing(_: Any) -> None:
    pass


def _bounds() -> list[Target]:
    w = world()
    common = {
        "model": w.model, "norm_bound": 5.0, "delta": 0.1, "maximize": True,
        "posterior_transform": None, "X_pending": None,
    }  # fmt: skip
    noise, unknown = {"noise_std": 0.1}, k.UnknownNoise(0.01, 1.0)
    parts = [shared("dual"), shared("analytic")]
    both = ScalarizedPosteriorTransform(torch.tensor([1.0, -2.0]))
    gp_ucb = {name: value for name, value in common.items() if name != "norm_bound"} | noise
    theorems = (k.FiniteDomain(10), k.CompactDomain(1.0, 1.0, 1.0), k.BoundedNorm(5.0, 3.0))
    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "MartingaleMixtureUCB": (
            k.MartingaleMixtureUCB,
            common | noise | {
                "covariance_scale": 1.0, "fit": "martingale",
                "form": "dual", "alphas": None, "strict": False,
            },
        ),
        "MartingaleMixtureUCB(unknown noise)": (
            k.MartingaleMixtureUCB,
            common | {"noise_std": unknown, "covariance_scale": "mixture"},
        ),
        "MartingaleMixtureUCB(analytic)": (
            k.MartingaleMixtureUCB, common | noise | {"form": "analytic", "alphas": 0.01},
        ),
        "AbbasiYadkoriUCB": (k.AbbasiYadkoriUCB, common | noise | {"alpha": 0.01}),
        "IGPUCB": (k.IGPUCB, common | noise | {"horizon": 100}),
        "WangDeFreitasUCB": (k.WangDeFreitasUCB, common | noise | {"fixed_design": True}),
        **{
            f"SrinivasUCB({number})": (
                k.SrinivasUCB, gp_ucb | {"theorem": theorem, "scale": 1.0}
            )
            for number, theorem in enumerate(theorems, 1)
        },
        "StreamingKernelUCB": (
            k.StreamingKernelUCB,
            common | {"noise_std": unknown, "tracker": None},
        ),
        "SketchedMartingaleMixtureUCB": (
            k.SketchedMartingaleMixtureUCB,
            common | {"model": w.nystrom, "covariance_scale": 1.0, "fit": "martingale",
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
        "bound": "martingale_mixture", "form": "dual", "alphas": None,
        "covariance_scale": 1.0, "horizon": None, "mean_module": None,
    }  # fmt: skip
    budgeted = {
        "candidates": w.X, "covar_module": w.kernel, "norm_bound": 5.0, "noise_std": 0.1,
        "delta": 0.1, "qbar": 2.0, "radius": "certified", "epsilon": 0.5,
        "alpha": 0.01, "batch_growth": 1.1, "seed": 0, "mean_module": None,
    }  # fmt: skip
    model = {
        "train_X": w.X, "train_Y": w.Y.unsqueeze(-1), "covar_module": w.kernel,
        "alpha": 0.01, "qbar": 2.0, "seed": 0, "mean_module": None,
        "input_transform": None, "outcome_transform": None,
    }  # fmt: skip
    sampling = {
        "model": w.model, "norm_bound": 5.0, "noise_std": 0.1, "tracker": None,
        "delta": 0.1, "inflation": True, "maximize": True, "replacement": True,
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
         lambda tracker: check_numbers(tracker.observe(w.state))),
        ("FiniteDomain", k.FiniteDomain, {"size": 10}, _nothing),
        ("CompactDomain", k.CompactDomain,
         {"length": 1.0, "lipschitz_a": 1.0, "lipschitz_b": 1.0}, _nothing),
        ("BoundedNorm", k.BoundedNorm, {"norm_bound": 5.0, "information_gain": 3.0},
         _nothing),
        ("UnknownNoise", k.UnknownNoise, {"lower": 0.01, "upper": 1.0}, _nothing),
        ("PrequentialRadius", k.PrequentialRadius, {"delta": 0.1}, _nothing),
        ("StreamingNoiseTracker", k.StreamingNoiseTracker,
         {"norm_bound": 5.0, "noise_std": k.UnknownNoise(0.01, 1.0), "delta": 0.1},
         lambda tracker: check_numbers(tracker.observe(w.state))),
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
         {"models": w.model, "norm_bound": 5.0, "noise_std": 0.1, "delta": 0.1,
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


@cache
def targets() -> list[Target]:
    r"""All calls."""
    return [*_bounds(), *_states(), *_functions(), *methods()]
