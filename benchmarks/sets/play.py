r"""Runs of a rule until sets are decided, or of a number of rounds."""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import torch
from botorch.acquisition.multi_objective import qLogNoisyExpectedHypervolumeImprovement
from botorch.models import ModelListGP, SingleTaskGP
from botorch.optim import optimize_acqf_discrete
from botorch.utils.multi_objective import Hypervolume, is_non_dominated
from gpytorch.kernels import Kernel, RBFKernel, ScaleKernel
from gpytorch.means import ZeroMean
from torch import Tensor

from benchmarks.runner import KnownFunction, fixed_kernel, line, quiet, sobol_points, stream
from benchmarks.runner.simulators import SIMULATORS
from benchmarks.runner.study import Settings
from benchmarks.sets.problems import Table, table, vopy
from kernelucb import (
    KernelRegression,
    LevelSetAmbiguity,
    MartingaleMixtureUCB,
    NearNormBall,
    OutcomeConstraints,
    ParetoWidth,
    failure_probability,
    level_set,
    norm_from_tasks,
    pareto_set,
)
from kernelucb.exceptions import InconsistentConfidenceSetWarning

_BATCH = 5  # runs between two looks
_SHOWN = (20, 50, 100)  # runs after which the hypervolume is taken, above
_REFERENCE = [-3.0, -3.0]  # in standardised outcomes


def _band(state: KernelRegression, norm: Any, delta: float) -> MartingaleMixtureUCB:
    with quiet(InconsistentConfidenceSetWarning):
        return MartingaleMixtureUCB(state, norm_bound=norm, delta=delta)


def sequences(s: Settings) -> dict[str, Any]:
    r"""Sequences of points that the rule chose by the band, looked at in every round."""
    counts = {"false": 0, "silent": 0, "decided": 0.0}
    level = s["kind"] == "level"
    X = line(40) if level else line(12)
    kernel = fixed_kernel("rbf", 0.2)
    for index in range(s["sequences"]):
        random = stream(s["seed"], s["kind"], index)
        truths = [
            KnownFunction.draw(random, kernel, 2.0, 1, 8) for _ in range(1 if level else 2)
        ]
        values = torch.stack([truth(X) for truth in truths], -1)
        chosen = [int(random.integers(len(X)))]
        noise = s["noise_std"] * torch.from_numpy(random.standard_normal((s["rounds"], 2)))
        false = silent = False
        for count in range(1, s["rounds"] + 1):
            rows = torch.tensor(chosen)
            bands = [
                _band(
                    KernelRegression(X[rows], y[rows] + e, kernel, s["noise_std"]),
                    s["norm_factor"] * 2.0,
                    0.05 / len(truths),
                )
                for y, e in zip(values.mT, noise[:count].mT, strict=False)
            ]
            if level:
                found = level_set(bands[0], 0.3, candidates=X)
                above = values[:, 0] >= 0.3
                wrong = ((found.status == 1) & ~above) | ((found.status == -1) & above)
                open_ = torch.nonzero(found.status == 0).flatten()
                rule: Any = LevelSetAmbiguity(bands[0], 0.3)
            else:
                front = pareto_set(bands, X, 0.2)
                wrong = front.optimal & (_beaten_by(values) > 0.2)
                wrong |= front.dominated & is_non_dominated(values)
                found, open_ = front, torch.nonzero(front.undecided).flatten()
                rule = ParetoWidth(bands, 0.2)
            now = bool(wrong.any())
            false |= now
            silent |= now and not found.assumptions.violated
            if len(open_) == 0:
                break
            with torch.no_grad():
                chosen.append(int(open_[rule(X[open_][:, None]).argmax()]))
        counts["false"] += false
        counts["silent"] += silent
        counts["decided"] += 1.0 - len(open_) / len(X)
    return counts


def _beaten_by(values: Tensor) -> Tensor:
    r"""By how much the worst rival beats each of ``n x m`` values in every objective."""
    gains = values[None] - values[:, None]
    return gains.amin(-1).fill_diagonal_(0.0).amax(1)


def _accurate(table: Table, chosen: Tensor, epsilon: float) -> bool:
    r"""Whether rows are an epsilon-accurate set of the table."""
    if not bool((_beaten_by(table.Y)[chosen] <= epsilon).all()):
        return False
    covered = (table.Y[:, None] - table.Y[chosen] <= epsilon).all(-1)
    return bool(covered.any(1).all())


def _kernels(model: Any, dimension: int) -> list[Kernel]:
    r"""One kernel for each objective, as VOPy fitted them to the whole table."""
    found: list[Kernel] = []
    module = model.covar_module
    pairs = zip(module.base_kernel.lengthscale, module.outputscale, strict=True)
    for lengthscale, scale in pairs:
        kernel = ScaleKernel(RBFKernel(ard_num_dims=dimension)).double()
        kernel.base_kernel.lengthscale = lengthscale.detach().double()
        kernel.outputscale = scale.detach().double()
        found.append(kernel.requires_grad_(False))
    return found


def front(s: Settings) -> dict[str, Any]:
    r"""Until a front is decided to epsilon, or the runs are used up."""
    library, data = vopy(), table(s["problem"])
    torch.manual_seed(s["seed"])
    np.random.seed(s["seed"])  # noqa: NPY002  (VOPy draws from it)
    theirs = library.EpsilonPAL(
        s["epsilon"],
        s["delta"],
        s["problem"],
        s["noise_std"] ** 2,
        conf_contraction=9.0 if s["method"] == "VOPy, practical" else 1.0,
        batch_size=_BATCH,
    )
    if s["method"].startswith("VOPy"):
        done = False
        while not done and theirs.sample_count < s["runs"]:
            done = theirs.run_one_step()
        rows = torch.tensor(sorted(theirs.P), dtype=torch.long)
        accurate = _accurate(data, rows, s["epsilon"]) if done else None
        return {"used": theirs.sample_count if done else None, "accurate": accurate}
    kernels = _kernels(theirs.model.model, data.X.shape[1])
    norms = [
        norm_from_tasks([(data.X, y)], kernel, model_error=s["model_error"])
        for kernel, y in zip(kernels, data.Y.mT, strict=True)
    ]
    balls = [NearNormBall(float(each.norm_bound), s["model_error"]) for each in norms]
    random = stream(s["seed"], s["problem"], "noise")
    chosen = [int(random.integers(len(data.X)))]
    outcomes = torch.empty(0, data.Y.shape[1], dtype=torch.float64)
    used = accurate = None
    most = max(_SHOWN) if s["method"] == "qLogNEHVI" else s["runs"]
    while len(chosen) <= most:
        new = data.Y[torch.tensor(chosen[len(outcomes) :])]
        noise = torch.from_numpy(random.standard_normal(tuple(new.shape)))
        outcomes = torch.cat([outcomes, new + s["noise_std"] * noise])
        X = data.X[torch.tensor(chosen)]
        if s["method"] == "qLogNEHVI":
            models = [
                SingleTaskGP(
                    *(X, y[:, None], torch.full_like(y[:, None], s["noise_std"] ** 2)),
                    covar_module=kernel,
                    mean_module=ZeroMean(),
                    outcome_transform=None,
                )
                for kernel, y in zip(kernels, outcomes.mT, strict=True)
            ]
            acqf: Any = qLogNoisyExpectedHypervolumeImprovement(
                ModelListGP(*models), _REFERENCE, X, prune_baseline=True
            )
            allowed = data.X
        else:
            states = [
                KernelRegression(X, y, kernel, s["noise_std"])
                for kernel, y in zip(kernels, outcomes.mT, strict=True)
            ]
            shares = s["delta"] / len(states)
            pairs = zip(states, balls, strict=True)
            bands = [
                _band(*pair, shares).band.with_replicates(len(data.X)) for pair in pairs
            ]
            found = pareto_set(bands, data.X, s["epsilon"])
            if found.stop:
                used = len(chosen)
                accurate = _accurate(data, found.optimal.nonzero().flatten(), s["epsilon"])
                break
            acqf, allowed = ParetoWidth(bands, s["epsilon"]), data.X[found.undecided]
        points, _ = optimize_acqf_discrete(acqf, _BATCH, allowed, unique=False)
        near = torch.cdist(points, data.X).argmin(1)
        chosen += near.tolist()
    whole = _volume(data, range(len(data.X)))
    # Who has stopped keeps what was found.
    volumes = {f"volume {n}": _volume(data, chosen[:n]) / whole for n in _SHOWN}
    return {"used": used, "accurate": accurate, **volumes}


def _volume(data: Table, rows: Any) -> float:
    values = data.Y[torch.tensor([*rows])]
    volume = Hypervolume(torch.tensor(_REFERENCE, dtype=torch.float64))
    return volume.compute(values[is_non_dominated(values)])


def front_seconds(s: Settings) -> dict[str, Any]:
    r"""Seconds of a front, of a round of its rule, and of the bands at the candidates."""
    kernel, bands = fixed_kernel("matern52", 0.5), []
    random, norm = stream(s["seed"], "front", s["objectives"]), 2.0
    X = sobol_points(s["candidates"], s["dimension"], s["seed"])
    rows = X[torch.from_numpy(random.permutation(len(X))[: s["runs"]])]
    for _ in range(s["objectives"]):
        truth = KnownFunction.draw(random, kernel, norm, s["dimension"], 20)
        noise = s["noise_std"] * torch.from_numpy(random.standard_normal(len(rows)))
        state = KernelRegression(rows, truth(rows) + noise, kernel, s["noise_std"])
        bands.append(_band(state, norm, 0.05 / s["objectives"]).band)
    first, found = _timed(lambda: pareto_set(bands, X, s["epsilon"]))
    open_ = X[found.undecided] if bool(found.undecided.any()) else X
    rule = ParetoWidth(bands, s["epsilon"])
    second, _ = _timed(lambda: optimize_acqf_discrete(rule, 1, open_))
    bounds, _ = _timed(lambda: [band.bounds(X) for band in bands])
    undecided = int(found.undecided.sum())
    seconds = {"pareto_set": first, "ParetoWidth": second, "bounds": bounds}
    return seconds | {"undecided": undecided}


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    r"""Seconds of a call, and what it returns."""
    started = perf_counter()
    found = call()
    return perf_counter() - started, found


def failures(s: Settings) -> dict[str, Any]:
    r"""Limits on the share of a sample that fails, by ours or from a posterior alone."""
    simulator = SIMULATORS[s["problem"]]
    many = sobol_points(2**14, simulator.dimension, seed=99)
    values = torch.from_numpy(simulator(many.numpy()))
    centre, unit = values.mean(), values.std()
    threshold = float((values.quantile(s["share"]) - centre) / unit)
    random = stream(s["seed"], s["problem"])
    sample = torch.from_numpy(random.random((s["sample"], simulator.dimension)))

    def truth(X: Tensor) -> Tensor:
        return (torch.from_numpy(simulator(X.numpy())) - centre) / unit

    kernel = fixed_kernel("matern52", s["lengthscale"] * simulator.dimension**0.5)
    norm = norm_from_tasks([(sample, truth(sample))], kernel, model_error=s["model_error"])
    ball = NearNormBall(float(norm.norm_bound), s["model_error"])
    X, results = sample[:5], {"norm": float(norm.norm_bound)}
    Y = torch.empty(0, dtype=torch.float64)
    while True:
        noise = torch.from_numpy(random.standard_normal(len(X) - len(Y)))
        Y = torch.cat([Y, truth(X[len(Y) :]) + s["noise_std"] * noise])
        state = KernelRegression(X, Y, kernel, s["noise_std"])
        band = _band(state, ball, s["delta"] - s["sample_delta"])
        if len(X) in s["shown"]:
            if s["method"] == "posterior":
                mean, std = state.mean(sample), state.variance(sample).sqrt()
                ends = [
                    float((mean + k * std < threshold).double().mean()) for k in (2, -2)
                ]
            else:
                given = {"sample_delta": s["sample_delta"]}
                found = failure_probability(band, threshold, sample, **given)
                ends = [found.lower, found.upper]
            results[f"ends {len(X)}"] = ends
        if len(X) >= max(s["shown"]):
            return results
        if s["method"] == "posterior":
            points = _least_sure(state, threshold, sample)
        else:
            rule = LevelSetAmbiguity(band, threshold)
            points, _ = optimize_acqf_discrete(rule, _BATCH, sample, unique=True)
        X = torch.cat([X, points])


def together(s: Settings) -> dict[str, Any]:
    r"""Failures in a sample, by single points and counted together; no run is chosen."""
    random, dimension = stream(s["seed"], "together", s["dimension"]), s["dimension"]
    kernel = fixed_kernel("matern52", s["lengthscale"])
    truth = KnownFunction.draw(random, kernel, 2.0, dimension, 30)
    sample = torch.from_numpy(random.random((s["sample"], dimension)))
    X = torch.from_numpy(random.random((s["runs"], dimension)))
    Y = truth(X) + s["noise_std"] * torch.from_numpy(random.standard_normal(len(X)))
    values = truth(sample)
    level = float(values.quantile(s["share"]))
    band = _band(
        KernelRegression(X, Y, kernel, s["noise_std"]), 2.0 * s["norm_factor"], 0.05
    )
    lower, upper = band.bounds(sample)
    counts = OutcomeConstraints(band, level).num_failing(sample)
    return {
        "true": float((values < level).double().mean()),
        "alone at least": float((upper < level).double().mean()),
        "alone at most": float((lower < level).double().mean()),
        "together at least": counts[0] / len(sample),
        "together at most": counts[1] / len(sample),
    }


def _least_sure(state: KernelRegression, threshold: float, sample: Tensor) -> Tensor:
    r"""The rule of AK-MCS (Echard et al. 2011): smallest ``|mean - t| / std``."""
    distance, points = (state.mean(sample) - threshold).abs(), sample[:0]
    for _ in range(_BATCH):
        design = state.with_pending(points) if len(points) else state
        best = (distance / design.variance(sample).sqrt()).argmin()
        points = torch.cat([points, sample[best][None]])
    return points
