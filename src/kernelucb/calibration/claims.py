r"""Claims at a margin, their scores in a replay, and what the ranks of scores promise."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import torch
from botorch.exceptions import UnsupportedError
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from torch import Tensor

from kernelucb._numerics.checks import (
    finite,
    finite_scalar,
    instance_of,
    nonnegative_scalar,
    probability,
    whole_number,
)
from kernelucb._numerics.digits import as_given, at_most, between
from kernelucb.calibration.policy import Loop
from kernelucb.certificates.wording import Wording
from kernelucb.data import KernelRegression

_PART = 1024  # points of one joint posterior
ROUND_OFF = 1e-9  # of a rank
_LEAST = 0.1  # of the largest factor between rounds: the smallest


class Truth(NamedTuple):
    r"""What a replay knows and a run does not, outcome units."""

    values: Tensor  # `n + N` values at the runs' inputs and at the points of the loop
    best: float  # the optimum over the domain


@dataclass(frozen=True)
class Look:
    r"""What the model of a round says, outcome units; large values are good.

    Attributes:
        mean: ``n + N`` posterior means at the ``n`` inputs and at the points of the loop.
        std: Standard deviations there.
        difference_std: Standard deviations of ``f(x) - f(recommended)``, joint posterior.
        runs: Number ``n`` of outcomes.
        recommended: Which input has the best posterior mean, from 0.
        sign: 1 where large outcomes are sought, -1 where small ones are.
    """

    mean: Tensor
    std: Tensor
    difference_std: Tensor
    runs: int
    recommended: int
    sign: int

    @classmethod
    @torch.no_grad()
    def of(cls, model: Model, X: Tensor, loop: Loop) -> Self:
        r"""What a model of ``n x d`` inputs says.

        Raises:
            UnsupportedError: If the posterior is not Gaussian in outcome units (``Log``).
            InputDataError: If it is not finite.
        """
        sign, places = 1 if loop.maximize else -1, torch.cat([X, loop.points])
        best = int((sign * _posterior(model, X).mean.reshape(-1)).argmax())
        parts: list[Tensor] = []
        for part in places.split(_PART):
            joint = _posterior(model, torch.cat([part, X[best : best + 1]])).distribution
            covariance = joint.covariance_matrix
            variance, cross = covariance.diagonal(), covariance[:, -1]
            apart = (variance + variance[-1] - 2.0 * cross).clamp_min(0.0).sqrt()
            std = variance.clamp_min(0.0).sqrt()
            parts.append(torch.stack([sign * joint.mean, std, apart])[:, :-1])
        mean, std, apart = finite("posterior of the model", torch.cat(parts, dim=-1))
        apart[best] = 0.0  # round-off
        return cls(mean, std, apart, len(X), best, sign)


def _posterior(model: Model, X: Tensor, noise: bool = False) -> Any:
    posterior: Any = model.posterior(X, observation_noise=noise)
    instance_of("posterior of the model", posterior, GPyTorchPosterior)
    return posterior


class Claim(ABC):
    r"""A claim that widens with its margin.

    Limits hold if the quantity lies between them. The score is the least margin at which
    they do.
    """

    @property
    def name(self) -> str:
        r"""Under which scores are kept: the claim with its numbers."""
        return repr(self)

    @abstractmethod
    def limits(self, look: Look, margin: float) -> tuple[Tensor, Tensor]:
        r"""Lower and upper limit of what is claimed, outcome units."""

    @abstractmethod
    def score(self, look: Look, truth: Truth) -> float:
        r"""The least margin at which the claim is true in this round."""

    @abstractmethod
    def words(self, lower: Tensor, upper: Tensor, wording: Wording, input: str) -> str:
        r"""The statement with its numbers, the outcome's name and unit, and the input."""


@dataclass(frozen=True)
class RegretClaim(Claim):
    r"""How far the optimum of the domain is from the input of best posterior mean.

    ``max over x of m(x) - m(r) + c sd(f(x) - f(r))``, joint posterior of the difference.
    """

    def limits(self, look: Look, margin: float) -> tuple[Tensor, Tensor]:
        gain = look.mean - look.mean[look.recommended] + margin * look.difference_std
        return torch.zeros_like(gain[0]), gain.max()

    def score(self, look: Look, truth: Truth) -> float:
        regret = look.sign * (truth.best - float(truth.values[look.recommended]))
        gain = look.mean - look.mean[look.recommended]
        missing = (regret - gain).clamp_min(0.0)
        return float(_ratio(missing, look.difference_std).min())

    def words(self, lower: Tensor, upper: Tensor, wording: Wording, input: str) -> str:
        most = wording.value(at_most(upper))
        return f"{wording.outcome} at {input} is at most {most} from the optimum"


@dataclass(frozen=True)
class ValueClaim(Claim):
    r"""The value of the function at the input of best posterior mean."""

    def limits(self, look: Look, margin: float) -> tuple[Tensor, Tensor]:
        lower, upper = BandClaim().limits(look, margin)
        return lower[look.recommended], upper[look.recommended]

    def score(self, look: Look, truth: Truth) -> float:
        return float(_deviations(look, truth)[look.recommended])

    def words(self, lower: Tensor, upper: Tensor, wording: Wording, input: str) -> str:
        ends = wording.interval(float(lower), float(upper))
        return f"{wording.outcome} at {input} is {ends}"


@dataclass(frozen=True)
class OptimumClaim(Claim):
    r"""The optimum of the domain: at least as good as the recommended input."""

    def limits(self, look: Look, margin: float) -> tuple[Tensor, Tensor]:
        worst = look.mean - margin * look.std
        best = (look.mean + margin * look.std).max()
        ends = look.sign * worst[look.recommended], look.sign * best
        return torch.minimum(*ends), torch.maximum(*ends)

    def score(self, look: Look, truth: Truth) -> float:
        beyond = look.sign * truth.best - look.mean
        missed = _ratio(
            (-beyond[look.recommended]).clamp_min(0.0), look.std[look.recommended]
        )
        return max(float(_ratio(beyond.clamp_min(0.0), look.std).min()), float(missed))

    def words(self, lower: Tensor, upper: Tensor, wording: Wording, input: str) -> str:
        return f"the optimum is {wording.interval(float(lower), float(upper))}"


@dataclass(frozen=True)
class BandClaim(Claim):
    r"""The function at every input of a run and every point of the loop."""

    def limits(self, look: Look, margin: float) -> tuple[Tensor, Tensor]:
        mean, half_width = look.sign * look.mean, margin * look.std
        return mean - half_width, mean + half_width

    def score(self, look: Look, truth: Truth) -> float:
        return float(_deviations(look, truth).max())

    def words(self, lower: Tensor, upper: Tensor, wording: Wording, input: str) -> str:
        return f"the function is within its limits at all of {len(lower)} points"


@dataclass(frozen=True)
class LevelSetClaim(Claim):
    r"""Which points of the loop have values of at least a threshold, outcome units.

    Limits of the indicator: both 1 where the value is claimed to be above, both 0 where it
    is claimed to be below, 0 and 1 at open points. At most a share ``wrong`` of all points
    is claimed wrongly.
    """

    threshold: float
    wrong: float = 0.0

    def limits(self, look: Look, margin: float) -> tuple[Tensor, Tensor]:
        lower, upper = BandClaim().limits(look, margin)
        level = finite_scalar("threshold", self.threshold)
        inside, possible = (lower > level)[look.runs :], (upper >= level)[look.runs :]
        return inside.double(), possible.double()

    def score(self, look: Look, truth: Truth) -> float:
        mean = look.sign * look.mean[look.runs :]
        above = truth.values[look.runs :] >= self.threshold
        # Closed where the value is claimed to be above: a point on its limit is open.
        mistaken = torch.where(above, mean < self.threshold, mean > self.threshold)
        needed = _ratio((mean - self.threshold).abs(), look.std[look.runs :]) * mistaken
        allowed = math.floor(nonnegative_scalar("wrong", self.wrong) * len(mean))
        worst = needed.sort(descending=True).values
        return float(worst[allowed]) if allowed < len(worst) else 0.0

    def words(self, lower: Tensor, upper: Tensor, wording: Wording, input: str) -> str:
        above, below = int(lower.sum()), int((1.0 - upper).sum())
        level = wording.value(as_given(self.threshold))
        wrong = f", at most {100.0 * self.wrong:g} % of them wrongly" * (self.wrong > 0.0)
        return (
            f"of {len(lower)} points {above} are at or above {level} and "
            f"{below} below{wrong}; {len(lower) - above - below} are open"
        )


@dataclass(frozen=True)
class LevelShareClaim(Claim):
    r"""Which share of the points of the loop has values of at least a threshold."""

    threshold: float

    def limits(self, look: Look, margin: float) -> tuple[Tensor, Tensor]:
        inside, possible = LevelSetClaim(self.threshold).limits(look, margin)
        return inside.mean(), possible.mean()

    def score(self, look: Look, truth: Truth) -> float:
        mean, std = look.sign * look.mean[look.runs :], look.std[look.runs :]
        above = int((truth.values[look.runs :] >= self.threshold).sum())
        # So many must be possible, and no more may be claimed to be above.
        possible = _ratio((self.threshold - mean).clamp_min(0.0), std).sort().values
        inside = _ratio((mean - self.threshold).clamp_min(0.0), std).sort(descending=True)
        needed = [possible[above - 1]] if above > 0 else []
        needed += [inside.values[above]] if above < len(mean) else []
        return max(map(float, needed))

    def words(self, lower: Tensor, upper: Tensor, wording: Wording, input: str) -> str:
        ends = " to ".join(between(100.0 * float(lower), 100.0 * float(upper)))
        level = wording.value(as_given(self.threshold))
        return f"{ends} % of the points are at or above {level}"


def _ratio(distance: Tensor, std: Tensor) -> Tensor:
    r"""Deviations that a distance is; 0 of none, infinite without deviation."""
    return torch.where(distance == 0.0, 0.0, distance / std)


def _deviations(look: Look, truth: Truth) -> Tensor:
    return _ratio((truth.values - look.sign * look.mean).abs(), look.std)


@torch.no_grad()
def residual(model: Model, x: Tensor, y: float) -> float:
    r"""Size of the standardised residual of an outcome at ``1 x d`` by an earlier model."""
    predicted = _posterior(model, x, noise=True)
    return abs(y - float(predicted.mean)) / math.sqrt(float(predicted.variance))


@torch.no_grad()
def noise_share(model: Model, X: Tensor, Y: Tensor) -> float:
    r"""Fitted noise over the standard deviation of the outcomes: without a unit."""
    pair = (_posterior(model, X[-1:], noise).variance for noise in (True, False))
    noisy, latent = map(float, pair)
    return math.sqrt(max(noisy - latent, 0.0)) / max(float(Y.std()), 1e-300)


@torch.no_grad()
def mean_norm(model: Model) -> float:
    r"""Norm of the posterior mean in the kernel's space; 0 of a model with another fit."""
    try:
        state = KernelRegression.from_model(model)
    except UnsupportedError:
        return 0.0
    X, prior = state.train_inputs, state.prior
    gram, rest = prior.covariance(X, X), state.train_targets - prior.mean(X)
    weights = torch.linalg.solve(gram + torch.diag(state.noise_scales**2), rest)
    return math.sqrt(float(weights @ gram @ weights))


def statistics_of(model: Model, X: Tensor, Y: Tensor) -> dict[str, float]:
    r"""By their names, what a fit to all outcomes shows of a run; see ``residual`` too."""
    return {"noise": noise_share(model, X, Y), "norm": mean_norm(model)}


@dataclass(frozen=True)
class Margins:
    r"""Scores of every replay, for every claim, in every round.

    Attributes:
        loop: The policy that was replayed.
        statement: What the run's function is assumed to be.
        scores: For each claim by its name ``m x L`` scores of ``m`` replays after
            ``first``, ..., ``rounds`` outcomes, or ``m x 1`` largest ones; over ``shapes``.
        statistics: Of the replays themselves, as ``scores``: ``"residual"``, ``"noise"``,
            ``"norm"``.
        first: Number of outcomes from which claims are made.
        shapes: For claims by their names the factors by which margins differ between these
            rounds; equal where absent.
    """

    loop: Loop
    statement: str
    scores: Mapping[str, Tensor] = field(repr=False)
    statistics: Mapping[str, Tensor] = field(repr=False)
    first: int
    shapes: Mapping[str, Tensor] = field(default_factory=dict, repr=False)

    @property
    def replays(self) -> int:
        r"""Number ``m`` of replays whose ranks count."""
        return len(self.statistics["noise"])

    def worst(self, claim: Claim) -> Tensor:
        r"""``m`` scores: the least margins at which the claim is true in every round.

        Raises:
            ValueError: If the replays have no scores of this claim.
        """
        if claim.name not in self.scores:
            known = ", ".join(self.scores)
            raise ValueError(f"The replays have scores of {known}, not of {claim.name}.")
        return self.scores[claim.name].amax(-1)

    def margin(self, claim: Claim, delta: float, runs: int | None = None) -> float:
        r"""The margin at which the claim is true in all rounds with ``1 - delta``.

        The score of rank ``ceil((1 - delta) (m + 1))``: the score of the run is above it
        with probability at most ``delta``. After ``runs`` outcomes it is multiplied by the
        factor of that round.

        Source: ranks of exchangeable numbers.

        Raises:
            ValueError: If there are too few replays for ``delta``, or no scores of the
                claim.
        """
        margin, shape = ranked(self.worst(claim), delta), self.shapes.get(claim.name)
        if shape is None or runs is None:
            return margin
        # Rounds beyond those of the replays are violated, whatever the margin.
        return margin * float(shape[min(runs - self.first, len(shape) - 1)])

    def limit(self, statistic: str, delta: float) -> float:
        r"""What a statistic of a run like the replays exceeds with ``delta`` at most.

        Raises:
            ValueError: If there are too few replays for ``delta``.
        """
        return ranked(self.statistics[statistic].amax(-1), delta)

    def since(self, first: int) -> Self:
        r"""Margins of claims that are made from so many outcomes on.

        Decide before the scores are looked at.

        Raises:
            ValueError: If claims are made later as yet, or ``first`` is above the rounds.
        """
        late = whole_number("first", first) - self.first
        if late < 0 or first > self.loop.rounds or self.shapes:
            raise ValueError(
                f"first must be from {self.first} to {self.loop.rounds}, and be given "
                f"before a shape; got {first}."
            )
        series = self.scores, self.statistics
        scores, statistics = ({k: v[:, late:] for k, v in each.items()} for each in series)
        return replace(self, scores=scores, statistics=statistics, first=first)

    def shaped(self, replays: int, delta: float) -> Self:
        r"""Margins that differ between rounds, of the replays that are left.

        The first ``replays`` choose the shapes: the score that ``1 - delta`` of them keep
        from a round on. The others are not looked at, so their ranks stay exchangeable with
        the run's.

        Raises:
            ValueError: If too few replays choose for ``delta``, or none is left.
        """
        count = whole_number("replays", replays)
        if count >= self.replays:
            raise ValueError(f"{count} of {self.replays} replays leave none for the ranks.")
        scores, shapes = dict[str, Tensor](), dict[str, Tensor]()
        for name, every in self.scores.items():
            levels = [ranked(each, delta) for each in every[:count].unbind(-1)]
            shapes[name] = shape = _shape(torch.tensor(levels, dtype=torch.float64))
            scores[name] = every[count:] / shape
        statistics = {name: rows[count:] for name, rows in self.statistics.items()}
        return replace(self, scores=scores, statistics=statistics, shapes=shapes)


def _shape(levels: Tensor) -> Tensor:
    r"""Factors from scores of rounds, 1 in the last."""
    # From a round on, and never so small that one replay outweighs all others.
    shape = levels.flip(0).cummax(0).values.flip(0).clamp_min(_LEAST * levels.max())
    return shape / shape[-1] if float(shape[-1]) > 0.0 else torch.ones_like(shape)


def ranked(scores: Tensor, delta: float) -> float:
    r"""The number that another one is above with probability at most ``delta``.

    Raises:
        ValueError: If there are too few numbers for ``delta``, or it is infinite.
    """
    share = 1.0 - probability("delta", delta)
    rank = math.ceil(share * (len(scores) + 1) - ROUND_OFF)
    if rank > len(scores):
        needed = math.ceil(share / delta - ROUND_OFF)
        raise ValueError(
            f"delta={delta:g} needs at least {needed} replays, and there are "
            f"{len(scores)}: replay more, or give a larger delta."
        )
    found = float(scores.sort().values[rank - 1])
    if math.isinf(found):
        raise ValueError(
            f"At delta={delta:g} no margin is large enough: in too many replays the model "
            "left no deviation where it was wrong. Give a larger delta or another model."
        )
    return found
