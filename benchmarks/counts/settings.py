r"""Kinds of outcomes and functions, and the sequences of the coverage."""

import math
from dataclasses import dataclass
from itertools import product
from pathlib import PurePath

from benchmarks import runner


@dataclass(frozen=True)
class Protocol:
    r"""What all commands have in common.

    Attributes:
        centres: Number of kernel sections in a random function.
        seed: Of all random streams.
        delta: Failure probability of a band.
    """

    centres: int
    seed: int
    delta: float


@dataclass(frozen=True)
class Setting:
    r"""A kind of outcome, and of function on the unit cube.

    Attributes:
        likelihood: ``"bernoulli"``, ``"binomial"`` or ``"poisson"``.
        lengthscale: Of the kernel.
        norm: Of the functions, without the mean.
        norm_bound: What the bands are told.
        mean: Log odds or log rate where the function is zero; given to the bands.
        num_trials: Of a binomial outcome.
        sign: Of the weights of all kernel sections; 0 where they have both signs.
    """

    likelihood: str
    kernel: str
    dimension: int
    lengthscale: float
    norm: float
    norm_bound: float
    mean: float = 0.0
    num_trials: int = 1
    sign: int = 0
    label: str = ""

    @property
    def name(self) -> str:
        r"""A legal file name."""
        return self.label or f"{self.likelihood}_{self.kernel}_d{self.dimension}"

    @property
    def title(self) -> str:
        r"""In a table."""
        if self.label:
            return self.label.replace("_", " ")
        kernel = {"rbf": "RBF", "matern52": "Matérn 5/2"}[self.kernel]
        return f"{self.likelihood}, {kernel}, d = {self.dimension}"


@dataclass(frozen=True)
class Hard:
    r"""A setting in one dimension that is hard; see ``Setting``."""

    name: str
    likelihood: str
    norm_bound: float
    lengthscale: float
    num_trials: int
    mean: float = 0.0
    sign: int = 0


@dataclass(frozen=True)
class Belief:
    r"""What a band believes.

    Attributes:
        norm: Norm bound over that of the setting.
        copies: How often it counts every outcome.
    """

    name: str
    norm: float
    copies: int
    sequences: int
    further_sequences: int


@dataclass(frozen=True)
class CoverageTask(runner.Task):
    r"""A block of sequences.

    Attributes:
        chooser: ``"bound"``, ``"uniform"`` or ``"nearest miss"``.
        belief: What the bands believe.
        block: Number of the block.
        size: Sequences in a block.
    """

    protocol: Protocol
    setting: Setting
    candidates: int
    batches: tuple[int, ...]
    chooser: str
    belief: Belief
    block: int
    size: int

    cosmetic = frozenset({"sequences", "further_sequences"})

    @property
    def location(self) -> PurePath:
        r"""One folder for each setting, chooser and belief."""
        chooser = self.chooser.replace(" ", "-")
        folder = f"{self.setting.name}-{chooser}-{self.belief.name}"
        return PurePath(folder, f"block-{self.block:03d}.json")


@dataclass(frozen=True)
class Coverage:
    r"""How often a band misses the function in any of its rounds.

    Attributes:
        lengthscale: In one dimension; it grows with the square root of the dimension.
        share: Norm of the functions over the norm bound.
        batches: Number of outcomes in each round.
        choosers: On every setting.
        further_choosers: On the first kernel and dimension.
        beliefs: The truth first.
        false_alarm: Probability that the limit on failures is passed at rate delta.
    """

    protocol: Protocol
    likelihoods: tuple[str, ...]
    kernels: tuple[str, ...]
    dimensions: tuple[int, ...]
    lengthscale: float
    norm_bound: float
    share: float
    num_trials: int
    candidates: int
    batches: tuple[int, ...]
    choosers: tuple[str, ...]
    further_choosers: tuple[str, ...]
    size: int
    false_alarm: float
    hard: dict[str, Hard]
    beliefs: dict[str, Belief]

    def setting(self, likelihood: str, kernel: str, dimension: int) -> Setting:
        r"""One of the grid."""
        return Setting(
            likelihood,
            kernel,
            dimension,
            self.lengthscale * math.sqrt(dimension),
            self.share * self.norm_bound,
            self.norm_bound,
            num_trials=self.num_trials if likelihood == "binomial" else 1,
        )

    @property
    def settings(self) -> list[Setting]:
        r"""The grid, then what is hard."""
        grid = product(self.likelihoods, self.kernels, self.dimensions)
        hard = [
            Setting(
                each.likelihood,
                "rbf",
                1,
                each.lengthscale,
                self.share * each.norm_bound,
                each.norm_bound,
                each.mean,
                each.num_trials if each.likelihood == "binomial" else 1,
                each.sign,
                each.name,
            )
            for each in self.hard.values()
        ]
        return [self.setting(*each) for each in grid] + hard

    def tasks(self, sequences: int | None = None) -> list[CoverageTask]:
        r"""All blocks, or those of at most so many sequences for each case.

        A block is finished in every case before the next begins.
        """
        most = math.inf if sequences is None else sequences
        first = self.kernels[0], self.dimensions[0]
        further = [self.setting(likelihood, *first) for likelihood in self.likelihoods]
        cases = [
            (setting, chooser, belief, count)
            for belief in self.beliefs.values()
            for choosers, settings, count in (
                (self.choosers, self.settings, belief.sequences),
                (self.further_choosers, further, belief.further_sequences),
            )
            for chooser in choosers
            for setting in settings
        ]
        largest = max(count for *_, count in cases)
        return [
            CoverageTask(
                self.protocol,
                setting,
                self.candidates,
                self.batches,
                chooser,
                belief,
                block,
                self.size,
            )
            for block in range(math.ceil(largest / self.size))
            for setting, chooser, belief, count in cases
            if block < math.ceil(min(most, count) / self.size)
        ]
