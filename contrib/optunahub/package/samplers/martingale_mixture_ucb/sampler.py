r"""Optuna trials from ``kernelucb.MartingaleMixtureUCB`` on BoTorch's default model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import optunahub
import torch
from botorch.exceptions import ModelFittingError
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf, optimize_acqf_mixed
from botorch.utils.sampling import manual_seed
from gpytorch.mlls import ExactMarginalLogLikelihood
from kernelucb import MartingaleMixtureUCB, MixedSpace
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState
from torch import Tensor

_COMBINATIONS = 32  # of listed values that are all searched
_BEST = 8  # combinations that are searched where there are more
_POINTS = 1024  # random points from which these are taken
_RESTARTS, _RAW_SAMPLES = 8, 256


class _Column:
    r"""A parameter as columns of the unit cube: one, or one for each choice."""

    def __init__(self, distribution: BaseDistribution) -> None:
        self.distribution = distribution
        self.values: list[float] | None = None  # listed, in the unit cube
        self.width = 1
        match distribution:
            case CategoricalDistribution():
                self.width = len(distribution.choices)
            case IntDistribution():
                step = distribution.step
                numbers = range(distribution.low, distribution.high + 1, step)
                self.values = [self._scaled(number) for number in numbers]
            case FloatDistribution():
                if distribution.step is not None:
                    span = distribution.high - distribution.low
                    count = round(span / distribution.step) + 1
                    steps = (distribution.low + distribution.step * i for i in range(count))
                    self.values = [self._scaled(each) for each in steps]
            case _:
                raise NotImplementedError(f"{type(distribution).__name__} is not supported.")

    def encoded(self, value: Any) -> list[float]:
        match self.distribution:
            case CategoricalDistribution():
                chosen = self.distribution.to_internal_repr(value)
                return [float(i == chosen) for i in range(self.width)]
            case _:
                return [self._scaled(float(value))]

    def decoded(self, cells: Sequence[float]) -> Any:
        match self.distribution:
            case CategoricalDistribution():
                return self.distribution.choices[int(np.argmax(cells))]
            case IntDistribution() | FloatDistribution() as distribution:
                low, high = self._ends()
                value = low + cells[0] * (high - low)
                value = math.exp(value) if distribution.log else value
                if isinstance(distribution, IntDistribution):
                    steps = round((value - distribution.low) / distribution.step)
                    value = distribution.low + steps * distribution.step
                elif distribution.step is not None:
                    steps = round((value - distribution.low) / distribution.step)
                    value = distribution.low + steps * distribution.step
                return type(distribution.low)(
                    min(max(value, distribution.low), distribution.high)
                )
        raise AssertionError(self.distribution)

    def _ends(self) -> tuple[float, float]:
        low, high = self.distribution.low, self.distribution.high
        return (math.log(low), math.log(high)) if self.distribution.log else (low, high)

    def _scaled(self, value: float) -> float:
        low, high = self._ends()
        value = math.log(value) if self.distribution.log else value
        return (value - low) / (high - low)


class _Space:
    r"""A search space of Optuna as columns of the unit cube."""

    def __init__(self, search_space: dict[str, BaseDistribution]) -> None:
        self.columns = {name: _Column(each) for name, each in search_space.items()}
        widths = [column.width for column in self.columns.values()]
        self.places = [*accumulate(widths, initial=0)]
        self.box = torch.tensor([[0.0], [1.0]]).double().repeat(1, self.places[-1])
        parts = [*zip(self.places, self.columns.values())]
        self.groups = [[*range(at, at + c.width)] for at, c in parts if c.width > 1]
        self.listed = {at: c.values for at, c in parts if c.values is not None}
        sizes = [*map(len, self.groups), *map(len, self.listed.values())]
        self.combinations = math.prod(sizes)

    def row(self, parameters: dict[str, Any]) -> list[float]:
        cells = [column.encoded(parameters[name]) for name, column in self.columns.items()]
        return [cell for each in cells for cell in each]

    def parameters(self, row: Sequence[float]) -> dict[str, Any]:
        named = zip(self.columns.items(), self.places)
        return {name: c.decoded(row[at : at + c.width]) for (name, c), at in named}

    def random(self, count: int) -> Tensor:
        r"""Random points that the space allows, ``count x d``."""
        points = torch.rand(count, self.places[-1], dtype=torch.float64)
        for at, values in self.listed.items():
            listed = torch.tensor(values, dtype=torch.float64)
            points[:, at] = listed[torch.randint(len(values), (count,))]
        for group in self.groups:
            chosen = torch.randint(len(group), (count,))
            points[:, group] = torch.eye(len(group), dtype=torch.float64)[chosen]
        return points

    def fixed(self, acqf: MartingaleMixtureUCB, known: Tensor) -> list[dict[int, float]]:
        r"""Combinations of listed values to search: all, or those of promising points."""
        if self.combinations <= _COMBINATIONS:
            space = MixedSpace(self.box, discrete_dims=self.listed, one_hot=self.groups)
            return space.fixed_features_list()
        points = torch.cat([self.random(_POINTS), known])
        with torch.no_grad():
            order = acqf(points.unsqueeze(-2)).argsort(descending=True)
        columns = sorted([*self.listed, *(i for group in self.groups for i in group)])
        rows = dict.fromkeys(map(tuple, points[order][:, columns].tolist()))
        return [dict(zip(columns, row)) for row in [*rows][:_BEST]]


class MartingaleMixtureUCBSampler(optunahub.samplers.SimpleBaseSampler):
    r"""Each trial maximises one of three functions of a Gaussian process, in turns.

    The upper bound of a confidence band, the noisy expected improvement, the posterior mean
    away from points that were tried: the search of ``kernelucb.MartingaleMixtureUCB(model)``
    on BoTorch's ``SingleTaskGP`` with its defaults, whose hyper-parameters are fitted anew
    for each trial. Running trials count as pending points.

    Args:
        search_space: As for the base class; by default that of the completed trials.
        n_startup_trials: Random trials before the first model.
        seed: Seed of all chance.
    """

    def __init__(
        self,
        search_space: dict[str, BaseDistribution] | None = None,
        *,
        n_startup_trials: int = 10,
        seed: int | None = None,
    ) -> None:
        super().__init__(search_space, seed)
        self._startup = n_startup_trials
        self._numbers = np.random.default_rng(seed)

    def reseed_rng(self) -> None:
        super().reseed_rng()
        self._numbers = np.random.default_rng()

    def sample_relative(
        self,
        study: Study,
        trial: FrozenTrial,
        search_space: dict[str, BaseDistribution],
    ) -> dict[str, Any]:
        r"""Parameters of a trial; none while there are too few, which are then random."""
        if len(study.directions) != 1:
            raise ValueError("This sampler is for one objective.")
        if not search_space:
            return {}
        states = TrialState.COMPLETE, TrialState.RUNNING
        trials = [
            each
            for each in study.get_trials(deepcopy=False, states=states)
            if search_space.keys() <= each.params.keys() and each.number != trial.number
        ]
        done = [each for each in trials if each.state == TrialState.COMPLETE]
        done = [each for each in done if math.isfinite(each.value)]
        if len(done) < max(self._startup, 2):
            return {}
        space = _Space(search_space)
        X = torch.tensor([space.row(each.params) for each in done], dtype=torch.float64)
        Y = torch.tensor([[each.value] for each in done], dtype=torch.float64)
        running = [space.row(x.params) for x in trials if x.state == TrialState.RUNNING]
        model = SingleTaskGP(X, Y)
        with manual_seed(int(self._numbers.integers(2**31))):
            try:
                fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
            except ModelFittingError:
                return {}
            acqf = MartingaleMixtureUCB(
                model,
                maximize=study.direction == StudyDirection.MAXIMIZE,
                X_pending=torch.tensor(running, dtype=torch.float64) if running else None,
            )
            row = self._maximised(acqf, space, X)
        return space.parameters(row[0].tolist())

    @staticmethod
    def _maximised(acqf: MartingaleMixtureUCB, space: _Space, known: Tensor) -> Tensor:
        options: dict[str, Any] = {"q": 1, "num_restarts": _RESTARTS}
        if not (space.listed or space.groups):
            return optimize_acqf(acqf, space.box, raw_samples=_RAW_SAMPLES, **options)[0]
        fixed = space.fixed(acqf, known)
        if len(fixed[0]) == space.places[-1]:  # nothing is continuous
            every = [[row[i] for i in range(space.places[-1])] for row in fixed]
            rows = torch.tensor(every, dtype=torch.float64)
            with torch.no_grad():
                return rows[acqf(rows.unsqueeze(-2)).argmax()].unsqueeze(0)
        options |= {"num_restarts": 2, "raw_samples": 32, "fixed_features_list": fixed}
        return optimize_acqf_mixed(acqf, space.box, **options)[0]
