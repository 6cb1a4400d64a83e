r"""What ``config.toml`` says: functions of known norm, and the runs of every command."""

import math
from dataclasses import dataclass
from pathlib import PurePath

from benchmarks import runner


@dataclass(frozen=True)
class Protocol:
    r"""What all commands have in common.

    Attributes:
        centres: Number of kernel sections in a random function.
        seed: Of all random streams.
        restarts: Of ``optimize_acqf``, and of Ax's optimisers for our strategies.
        raw_samples: Quasi-random points that the restarts are chosen from.
        iterations: Most steps of each restart.
    """

    centres: int
    seed: int
    restarts: int
    raw_samples: int
    iterations: int


@dataclass(frozen=True)
class Setting:
    r"""A kind of function on the unit cube, all of which is given to the bands.

    Attributes:
        kernel: ``"rbf"`` or ``"matern52"``.
        lengthscale: Of the kernel.
        dimension: Number of inputs.
        norm: Of the functions.
        noise_std: Of the Gaussian noise.
    """

    name: str
    kernel: str
    lengthscale: float
    dimension: int
    norm: float
    noise_std: float

    @property
    def title(self) -> str:
        r"""In a table."""
        kernel = {"rbf": "RBF", "matern52": "Matérn 5/2"}[self.kernel]
        return f"{kernel}, length {self.lengthscale:g}, d = {self.dimension}"


@dataclass(frozen=True)
class Belief:
    r"""What the certified bands of an outcome are given, chosen on other seeds.

    Attributes:
        lengthscale: Of each parameter, in units of the unit cube.
        norm_bound: On the norm of the outcome less ``mean``.
    """

    kernel: str
    lengthscale: dict[str, float]
    mean: float
    norm_bound: float


@dataclass(frozen=True)
class Reaction:
    r"""Reactions drawn around typical rates; output and impurity are percent.

    Attributes:
        temperature: Limits, degrees Celsius.
        hours: Limits of the time; it is a parameter on a logarithmic scale.
        rates: Medians at 60 degrees, 1/h: of A to P, P to S, A to D.
        rate_spread: Standard deviation of their logarithms.
        energies: Mean activation energies of the same, kJ/mol.
        energy_spread: Their standard deviations.
        limit: Most impurity.
        noise_std: Of output and impurity.
        beliefs: Of output and impurity.
    """

    name: str
    solvents: tuple[str, ...]
    temperature: tuple[float, float]
    hours: tuple[float, float]
    rates: tuple[float, float, float]
    rate_spread: tuple[float, float, float]
    energies: tuple[float, float, float]
    energy_spread: tuple[float, float, float]
    limit: float
    noise_std: tuple[float, float]
    beliefs: dict[str, Belief]


@dataclass(frozen=True)
class DimensionsTask(runner.Task):
    r"""One function, played by the upper bound, with certificates on the way."""

    protocol: Protocol
    setting: Setting
    delta: float
    looks: tuple[int, ...]
    evaluations: int
    seed: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each setting."""
        return PurePath(self.setting.name, f"seed-{self.seed:03d}.json")


@dataclass(frozen=True)
class Dimensions:
    r"""Certified gaps with many inputs.

    Attributes:
        delta: Failure probability of a band.
        looks: Numbers of rounds after which the gap is certified.
        evaluations: Of the certificate.
    """

    protocol: Protocol
    settings: tuple[Setting, ...]
    seeds: tuple[int, ...]
    delta: float
    looks: tuple[int, ...]
    evaluations: int

    def tasks(self, seeds: int | None = None) -> list[DimensionsTask]:
        r"""All runs; a seed is finished in every setting before the next begins."""
        same = self.delta, self.looks, self.evaluations
        return [
            DimensionsTask(self.protocol, setting, *same, seed)
            for seed in self.seeds[:seeds]
            for setting in self.settings
        ]


@dataclass(frozen=True)
class Space:
    r"""A continuous input and a category, and when one looks at the report.

    Attributes:
        delta: Failure probability of all bands together.
        codes: Of the category.
        arms: Values of the continuous input that are played.
        grid: Values of it on which the optimum is looked for.
        looks: Numbers of observations.
        evaluations: Of every part of a report.
        level: What the constraint must at least be.
    """

    delta: float
    codes: tuple[float, ...]
    arms: int
    grid: int
    looks: tuple[int, ...]
    evaluations: int
    level: float


@dataclass(frozen=True)
class CoverageTask(runner.Task):
    r"""A block of sequences of one case.

    Attributes:
        factor: Norm and noise that the bands believe, over the true ones.
        block: Number of the block.
        size: Sequences in a block.
    """

    protocol: Protocol
    setting: Setting
    space: Space
    case: str
    factor: float
    block: int
    size: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each case and belief."""
        case = self.case.replace(" ", "-")
        return PurePath(f"{case}-{self.factor:g}", f"block-{self.block:03d}.json")


@dataclass(frozen=True)
class Coverage(Space):
    r"""How often a report is wrong at any of some looks.

    Attributes:
        cases: ``"mixed space"``, ``"context"``, ``"constrained"``.
        sequences: For each case.
        wrong: Factor of norm and noise that wrong bands believe.
        wrong_sequences: Of these, for each case.
        size: Sequences in a file.
        false_alarm: Probability that the limit on failures is passed at rate delta.
    """

    protocol: Protocol
    setting: Setting
    cases: tuple[str, ...]
    sequences: int
    wrong: float
    wrong_sequences: int
    size: int
    false_alarm: float

    def tasks(self, sequences: int | None = None) -> list[CoverageTask]:
        r"""All blocks, or those of at most so many sequences for each case and belief."""
        space = Space(**{name: getattr(self, name) for name in Space.__annotations__})
        counts = {1.0: self.sequences, self.wrong: self.wrong_sequences}
        return [
            CoverageTask(self.protocol, self.setting, space, case, factor, block, self.size)
            for factor, count in counts.items()
            for case in self.cases
            for block in range(math.ceil(min(sequences or count, count) / self.size))
        ]


@dataclass(frozen=True)
class ExperimentTask(runner.Task):
    r"""One Ax experiment with outcome constraints.

    Attributes:
        problem: A setting, of which objective and constraint are drawn, a reaction, or the
            name of a function of BoTorch.
        method: How trials are chosen; see ``trials.METHODS``.
        delta: Failure probability of all bands together.
        trials: Number of trials, the first ones included.
        share: Of the points of a drawn problem that are feasible.
        grid: Values of each input on which the optimum of a drawn problem is looked for.
        noise_std: Of functions of BoTorch.
        is_safe: Whether all methods are told of a safe arm.
    """

    protocol: Protocol
    problem: Setting | Reaction | str
    method: str
    delta: float
    trials: int
    share: float
    grid: int
    noise_std: float
    is_safe: bool
    seed: int

    @property
    def problem_name(self) -> str:
        r"""Of the setting, or of the function."""
        return self.problem if isinstance(self.problem, str) else self.problem.name

    @property
    def location(self) -> PurePath:
        r"""One folder for each method on each problem."""
        method = self.method.replace(",", "").replace(" ", "-")
        return PurePath(self.problem_name, method, f"seed-{self.seed:03d}.json")


@dataclass(frozen=True)
class Experiments:
    r"""Ax experiments: every method on every problem, with the same seeds.

    Attributes:
        problems: Names of settings, of reactions and of functions of BoTorch.
        seeds: How many, for each problem.
        first: The first of them.
        is_safe: Whether all methods are told of a safe arm.
        false_alarm: Probability that the limit on violations is passed at rate delta.
    """

    protocol: Protocol
    problems: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: int
    delta: float
    trials: int
    share: float
    grid: int
    noise_std: float
    is_safe: bool
    false_alarm: float
    first: int = 0

    def tasks(
        self, settings: dict[str, Setting | Reaction], seeds: int | None = None
    ) -> list[ExperimentTask]:
        r"""All runs; a seed is finished on every problem before the next begins."""
        same = self.delta, self.trials, self.share, self.grid, self.noise_std
        same = *same, self.is_safe
        return [
            ExperimentTask(
                self.protocol, settings.get(problem, problem), method, *same, seed
            )
            for seed in range(self.first, self.first + min(seeds or self.seeds, self.seeds))
            for problem in self.problems
            for method in self.methods
        ]


@dataclass(frozen=True)
class Configuration:
    r"""The whole of ``config.toml``."""

    protocol: Protocol
    settings: dict[str, Setting]
    reactions: dict[str, Reaction]
    dimensions: Dimensions
    coverage: Coverage
    safe: Experiments
    explored: Experiments
    mixed: Experiments
    optimiser: Experiments
    tuning: Experiments
