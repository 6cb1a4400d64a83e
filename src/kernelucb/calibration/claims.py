r"""Claims at a margin, their scores in a replay, and what the ranks of scores promise."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self

import torch
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from torch import Tensor

from kernelucb._numerics.checks import (
    finite_scalar,
    instance_of,
    nonnegative_scalar,
    probability,
)
from kernelucb.calibration.policy import Loop

_PART = 1024  # points of one joint posterior
_ROUND_OFF = 1e-9  # of a rank


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
            ValueError: If the posterior is not Gaussian in outcome units (``Log``).
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
        mean, std, apart = torch.cat(parts, dim=-1)
        apart[best] = 0.0  # round-off
        return cls(mean, std, apart, len(X), best, sign)


def _posterior(model: Model, X: Tensor, noise: bool = False) -> Any:
    posterior: Any = model.posterior(X, observation_noise=noise)
    instance_of("posterior of the model", posterior, GPyTorchPosterior)
    return posterior


class Claim(Protocol):
    r"""A claim that widens with its margin.

    Limits hold if the quantity lies between them. The score is the least margin at which
    they do.
    """

    @property
    def name(self) -> str:
        r"""Under which scores are kept."""
        ...

    def limits(self, look: Look, margin: float) -> tuple[Tensor, Tensor]:
        r"""Lower and upper limit of what is claimed, outcome units."""
        ...

    def score(self, look: Look, truth: Truth) -> float:
        r"""The least margin at which the claim is true in this round."""
        ...


@dataclass(frozen=True)
class Regret:
    r"""How far the optimum of the domain is from the input of best posterior mean.

    ``max over x of m(x) - m(r) + c sd(f(x) - f(r))``, joint posterior of the difference.
    """

    @property
    def name(self) -> str:
        return "regret"

    def limits(self, look: Look, margin: float) -> tuple[Tensor, Tensor]:
        gain = look.mean - look.mean[look.recommended] + margin * look.difference_std
        return torch.zeros_like(gain[0]), gain.max()

    def score(self, look: Look, truth: Truth) -> float:
        regret = look.sign * (truth.best - float(truth.values[look.recommended]))
        gain = look.mean - look.mean[look.recommended]
        missing = (regret - gain).clamp_min(0.0)
        return float(_ratio(missing, look.difference_std).min())


@dataclass(frozen=True)
class Value:
    r"""The value of the function at the input of best posterior mean."""

    @property
    def name(self) -> str:
        return "value"

    def limits(self, look: Look, margin: float) -> tuple[Tensor, Tensor]:
        lower, upper = Band().limits(look, margin)
        return lower[look.recommended], upper[look.recommended]

    def score(self, look: Look, truth: Truth) -> float:
        return float(_deviations(look, truth)[look.recommended])


@dataclass(frozen=True)
class Band:
    r"""The function at every input of a run and every point of the loop."""

    @property
    def name(self) -> str:
        return "band"

    def limits(self, look: Look, margin: float) -> tuple[Tensor, Tensor]:
        mean, half_width = look.sign * look.mean, margin * look.std
        return mean - half_width, mean + half_width

    def score(self, look: Look, truth: Truth) -> float:
        return float(_deviations(look, truth).max())


@dataclass(frozen=True)
class LevelSet:
    r"""Which points of the loop have values of at least a threshold, outcome units.

    Limits of the indicator: both 1 where the value is claimed to be above, both 0 where it
    is claimed to be below, 0 and 1 at open points. At most a share ``wrong`` of all points
    is claimed wrongly.
    """

    threshold: float
    wrong: float = 0.0

    @property
    def name(self) -> str:
        return f"level set at {self.threshold!r}, {self.wrong!r} wrong"

    def limits(self, look: Look, margin: float) -> tuple[Tensor, Tensor]:
        lower, upper = Band().limits(look, margin)
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


@dataclass(frozen=True)
class LevelShare:
    r"""Which share of the points of the loop has values of at least a threshold."""

    threshold: float

    @property
    def name(self) -> str:
        return f"share at {self.threshold!r}"

    def limits(self, look: Look, margin: float) -> tuple[Tensor, Tensor]:
        inside, possible = LevelSet(self.threshold).limits(look, margin)
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


@dataclass(frozen=True)
class Margins:
    r"""Scores of every replay, for every claim, in every round.

    Attributes:
        loop: The policy that was replayed.
        statement: What the run's function is assumed to be.
        scores: For each claim by its name ``m x L`` scores of ``m`` replays after
            ``starts``, ..., ``rounds`` outcomes.
        statistics: Of the replays themselves, ``m x L``: ``"residual"``, ``"noise"``.
        first: Number of outcomes from which claims are made.
        shape: ``L`` factors by which margins differ between rounds; ones when absent.
    """

    loop: Loop
    statement: str
    scores: Mapping[str, Tensor] = field(repr=False)
    statistics: Mapping[str, Tensor] = field(repr=False)
    first: int
    shape: Tensor | None = field(default=None, repr=False)

    @property
    def replays(self) -> int:
        r"""Number ``m`` of replays whose ranks count."""
        return len(next(iter(self.scores.values())))

    def worst(self, claim: Claim) -> Tensor:
        r"""``m`` scores: the least margins at which the claim is true in every round.

        Raises:
            ValueError: If the replays have no scores of this claim.
        """
        if claim.name not in self.scores:
            known = ", ".join(self.scores)
            raise ValueError(f"The replays have scores of {known}, not of {claim.name}.")
        scores = self.scores[claim.name]
        shaped = scores if self.shape is None else scores / self.shape
        return shaped[:, self.first - self.loop.starts :].amax(-1)

    def margin(self, claim: Claim, delta: float) -> float:
        r"""The margin at which the claim is true at all rounds with ``1 - delta``.

        The score of rank ``ceil((1 - delta) (m + 1))``: the new score is above it with
        probability at most ``delta`` (ranks of exchangeable numbers).

        Raises:
            ValueError: If there are too few replays for ``delta``.
        """
        return ranked(self.worst(claim), delta)


def ranked(scores: Tensor, delta: float) -> float:
    r"""The number that another one is above with probability at most ``delta``."""
    share = 1.0 - probability("delta", delta)
    rank = math.ceil(share * (len(scores) + 1) - _ROUND_OFF)
    if rank > len(scores):
        needed = math.ceil(share / delta - _ROUND_OFF)
        raise ValueError(
            f"delta={delta:g} needs at least {needed} replays, and there are "
            f"{len(scores)}: replay more, or give a larger delta."
        )
    return float(scores.sort().values[rank - 1])
