r"""The unit cube in place of finitely many arms: ``optimize_acqf`` on library classes."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from time import process_time

import numpy as np
import pandas as pd
import torch
from botorch import acquisition
from botorch.acquisition import AcquisitionFunction
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from botorch.utils.sampling import manual_seed
from linear_operator.utils.warnings import NumericalWarning
from torch import Tensor

from benchmarks.practical.fitting import fitted_model, hyperparameters
from benchmarks.practical.model import LeanGP
from benchmarks.runner import (
    Moments,
    fixed_kernel,
    largest_value,
    markdown_table,
    stream,
)
from benchmarks.unknown_kernel.configuration import Boxes, BoxTask
from benchmarks.unknown_kernel.problems import Problem
from benchmarks.unknown_kernel.tables import ratio_of_means, title
from kernelucb import (
    FamilyTracker,
    KernelFamily,
    KernelFamilyUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    lengthscale_family,
)


@dataclass(frozen=True)
class Run:
    r"""Result of a task. Regret is the largest value in the cube minus the true value.

    Attributes:
        regret: Of every point that the learner chose.
        recommended: Of the played point with the largest posterior mean in the end.
        seconds: Processor time of the whole run.
        consistent: For each member of a family whether it was left in the end.
    """

    regret: list[float]
    recommended: float
    seconds: float
    consistent: list[bool]


class _Learner(ABC):
    r"""Makes the acquisition function of a round; ``state`` gives means, once it has."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.state: KernelRegression | LeanGP | None = None

    @abstractmethod
    def acquisition(self, inputs: Tensor, outcomes: Tensor) -> AcquisitionFunction:
        r"""On all data so far, ``n x d`` and ``n``."""

    def means(self, inputs: Tensor) -> Tensor:
        r"""Posterior means of the last round's model, ``n`` values."""
        if isinstance(self.state, KernelRegression):
            return self.state.mean(inputs)
        assert self.state is not None
        return self.state.posterior(inputs).mean.detach().squeeze(-1)

    def consistent(self) -> list[bool]:
        r"""For each member of a family, whether it is left."""
        return []


class Oracle(_Learner):
    r"""The exact band of the true kernel and its norm bound."""

    def acquisition(self, inputs: Tensor, outcomes: Tensor) -> AcquisitionFunction:
        told = self.problem
        self.state = KernelRegression(inputs, outcomes, told.kernel, told.noise_std)
        return MartingaleMixtureUCB(
            self.state, norm_bound=told.norm_bound, delta=told.delta
        )


class Family(_Learner):
    r"""``KernelFamilyUCB`` with the family of the problem, and its defaults."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.tracker = FamilyTracker()
        self.bound: KernelFamilyUCB | None = None
        family = problem.family
        kernel = fixed_kernel(problem.kernel_name, family.longest)
        told = family.shortest, family.longest, family.ratio
        self.kernels = lengthscale_family(kernel, *told)

    def acquisition(self, inputs: Tensor, outcomes: Tensor) -> AcquisitionFunction:
        told = self.problem
        data = KernelRegression(inputs, outcomes, told.kernel, told.noise_std)
        self.bound = KernelFamilyUCB(
            data,
            KernelFamily(self.kernels, tracker=self.tracker),
            norm_bound=told.norm_bound,
            delta=told.delta,
        )
        simplest = self.kernels[self.bound.consistent.index(True)]
        self.state = KernelRegression(inputs, outcomes, simplest, told.noise_std)
        return self.bound

    def consistent(self) -> list[bool]:
        return [] if self.bound is None else list(self.bound.consistent)


class _Refitted(_Learner):
    r"""BoTorch's default model, fitted anew in every round."""

    previous = None

    def acquisition(self, inputs: Tensor, outcomes: Tensor) -> AcquisitionFunction:
        self.state, _ = fitted_model(inputs, outcomes, self.previous)
        self.previous = hyperparameters(self.state)
        return self.on(self.state)

    @abstractmethod
    def on(self, model: LeanGP) -> AcquisitionFunction:
        r"""On the model of a round."""


class FittedMixture(_Refitted):
    r"""``MartingaleMixtureUCB`` with no other argument than the model."""

    def on(self, model: LeanGP) -> AcquisitionFunction:
        return MartingaleMixtureUCB(model)


class UpperConfidenceBound(_Refitted):
    r"""With beta 2."""

    def on(self, model: LeanGP) -> AcquisitionFunction:
        return acquisition.UpperConfidenceBound(model, 2.0)


class LogNoisyExpectedImprovement(_Refitted):
    r"""With ``q = 1``."""

    def on(self, model: LeanGP) -> AcquisitionFunction:
        sampler = SobolQMCNormalSampler(torch.Size([64]))
        return acquisition.qLogNoisyExpectedImprovement(
            model, model.train_inputs[0], sampler, prune_baseline=True
        )


LEARNERS: dict[str, type[_Learner]] = {
    learner.__name__: learner
    for learner in (
        Oracle,
        Family,
        FittedMixture,
        UpperConfidenceBound,
        LogNoisyExpectedImprovement,
    )
}
LABELS = {
    "Oracle": "oracle",
    "Family": "family, alternate",
    "FittedMixture": "refits, martingale mixture",
    "UpperConfidenceBound": "refits, UCB beta 2",
    "LogNoisyExpectedImprovement": "refits, qLogNEI",
}


def play(task: BoxTask) -> Run:
    r"""Play one task. It depends on nothing else that was drawn in this process."""
    own = stream(task.seed, "box", task.setting.name, task.method)
    with manual_seed(int(own.integers(2**31))), warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)  # a jitter of BoTorch's
        warnings.simplefilter("ignore", RuntimeWarning)  # a search that begins anew
        return _play(task)


def _play(task: BoxTask) -> Run:
    begin, part = process_time(), task.part
    problem = Problem.draw(part.protocol, task.setting, task.seed)
    learner = LEARNERS[task.method](problem)
    cube = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    cube = cube.expand(2, problem.dimension)
    best = largest_value(problem.function, problem.arms)
    drawn = stream(part.protocol.seed, "box", task.setting.name, task.seed)
    inputs = torch.from_numpy(drawn.random((part.protocol.starts, problem.dimension)))
    noise = problem.noise_std * torch.from_numpy(
        drawn.standard_normal(part.protocol.starts + part.rounds)
    )
    for _ in range(part.rounds):
        outcomes = problem.function(inputs) + noise[: len(inputs)]
        point, _ = optimize_acqf(
            learner.acquisition(inputs, outcomes),
            cube,
            q=1,
            num_restarts=part.restarts,
            raw_samples=part.raw_samples,
            options={"maxiter": part.iterations},
        )
        inputs = torch.cat([inputs, point.detach()])
    values = problem.function(inputs)
    learner.acquisition(inputs, values + noise)
    recommended = best - float(values[int(learner.means(inputs).argmax())])
    regret = (best - values[part.protocol.starts :]).tolist()
    if not np.all(np.isfinite([*regret, recommended])):
        raise ArithmeticError(f"Regret that is not a number in {task}.")
    return Run(regret, recommended, process_time() - begin, learner.consistent())


def rows(runs: Iterable[tuple[BoxTask, Run]]) -> list[dict]:
    r"""One row for each run in a box."""
    return [
        {
            "setting": title(task.setting),
            "method": task.method,
            "seed": task.seed,
            "cumulative": sum(run.regret),
            "recommended": run.recommended,
            "seconds": run.seconds,
        }
        for task, run in runs
    ]


def table(part: Boxes, found: list[dict]) -> list[str]:
    r"""Cumulative regret over the oracle's, and runs that did not converge."""
    frame, cells = pd.DataFrame(found), []
    for setting, group in frame.groupby("setting", sort=False):
        totals = group.pivot(index="seed", columns="method", values="cumulative")
        alone = totals["Oracle"].to_numpy()
        failed = group["recommended"] > part.protocol.tolerance
        for method in part.methods:
            own = totals[method].to_numpy()
            mean, ratio = Moments.of(own), ratio_of_means(own, alone)
            cells.append(
                [
                    str(setting),
                    LABELS[method],
                    f"{mean.mean:.1f} ± {mean.standard_error:.1f}",
                    f"{ratio.mean:.2f} ± {ratio.standard_error:.2f}",
                    f"{int(failed[group['method'] == method].sum())} of {len(own)}",
                ]
            )
    header = ["setting", "learner", "cumulative regret", "over the oracle's"]
    return [
        f"{part.rounds} points after {part.protocol.starts} random ones; mean ± standard "
        f"error. Not converged: the recommended point is more than "
        f"{part.protocol.tolerance:g} below the best one.",
        "",
        *markdown_table([*header, "not converged"], cells),
    ]
