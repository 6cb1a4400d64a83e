r"""Objects that change: how each is built, goes on, and shows its state."""

from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

import kernelucb as k
from benchmarks.attack.fuzz.world import world
from benchmarks.attack.verdicts import WrongError
from kernelucb.models import BKBModel

# The bounds of a bandit, by the options that name them.
BOUNDS: dict[str, dict[str, Any]] = {
    "exact": {},
    "grid": {"alphas": "paper"},
    "analytic": {"form": "analytic"},
    "abbasi_yadkori": {"bound": "abbasi_yadkori"},
    "igp": {"bound": "igp_ucb"},
}
# Two ways to the same numbers, in different order: round-off, magnified by the search.
_SAME = {"rtol": 1e-7, "atol": 1e-9}
_ROUNDS = 12


class Subject(NamedTuple):
    r"""An object with a state.

    Attributes:
        make: Builds it, always the same.
        step: Goes on by one round; the rounds are numbered from 0.
        look: Numbers that depend on its state, without changing it.
        start: Rounds after which it is attacked.
    """

    make: Callable[[], Any]
    step: Callable[[Any, int], Any]
    look: Callable[[Any], list[Tensor]]
    start: int = 4

    def at(self, rounds: int) -> Any:
        r"""A new object after so many rounds."""
        thing = self.make()
        for index in range(rounds):
            self.step(thing, index)
        return thing


def same(left: list[Tensor], right: list[Tensor]) -> bool:
    r"""Whether two looks agree up to round-off."""
    return len(left) == len(right) and all(
        a.shape == b.shape
        and torch.allclose(a.double(), b.double(), **_SAME, equal_nan=True)
        for a, b in zip(left, right, strict=True)
    )


def sound(look: list[Tensor]) -> None:
    r"""Raise where a look has NaN, or sides in the wrong order."""
    if any(bool(torch.isnan(part.double()).any()) for part in look):
        raise WrongError("NaN afterwards")
    if len(look) == 2 and not bool((look[0] <= look[1] + 1e-9 * look[1].abs()).all()):
        raise WrongError("lower above upper afterwards")


@cache
def _data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(11)
    X = torch.rand(_ROUNDS + 8, 2, generator=generator, dtype=torch.float64)
    return X, torch.sin(5.0 * X[:, 0]) - X[:, 1] ** 2


def _bandit(bound: str, **options: Any) -> Subject:
    X, Y = _data()

    def make() -> Any:
        given: dict[str, Any] = {"noise_std": 0.1, "norm_bound": 5.0, **BOUNDS[bound]}
        return k.KernelBandit(world().kernel, **(given | options))

    def step(bandit: Any, index: int) -> None:
        if index % 2:
            bandit.select(X[index : index + 4])
        bandit.observe(X[index], float(Y[index]))

    return Subject(make, step, lambda each: list(each.bounds(world().queries)))


def _budgeted() -> Subject:
    X, Y = _data()

    def make() -> Any:
        return k.BKBBandit(X, world().kernel, norm_bound=5.0, noise_std=0.1)

    def step(bandit: Any, index: int) -> None:
        arms = [index, (3 * index + 1) % len(X)]
        bandit.observe(arms, Y[arms])

    return Subject(make, step, lambda each: list(each.bounds()))


def _bkb_model() -> Subject:
    X, Y = _data()

    def make() -> Any:
        return BKBModel(X[-2:], Y[-2:].unsqueeze(-1), world().kernel, 0.01)

    def step(model: Any, index: int) -> None:
        model.observe(X[index : index + 2], Y[index : index + 2].unsqueeze(-1))

    def look(model: Any) -> list[Tensor]:
        posterior = model.posterior(world().queries)
        return [posterior.mean.detach(), posterior.variance.detach(), _numbers(
            {"count": model.num_observations})]  # fmt: skip

    return Subject(make, step, look)


def _tracker(make: Callable[[], Any]) -> Subject:
    X, Y = _data()

    def step(tracker: Any, index: int) -> None:
        state = k.KernelRegression(X[: index + 1], Y[: index + 1], world().kernel, 0.1)
        tracker.observe(state)

    return Subject(make, step, lambda each: [_numbers(each.state_dict())])


def _radius() -> Subject:
    X, Y = _data()

    def step(radius: Any, index: int) -> None:
        radius.observe(world().model, X[index : index + 1], Y[index : index + 1], 0.1)

    return Subject(
        k.PrequentialRadius, step, lambda each: [_numbers(each.state_dict())]
    )  # fmt: skip


def _numbers(state: Any) -> Tensor:
    r"""All numbers of a plain state in one vector."""
    if isinstance(state, dict):
        parts = [_numbers(state[name]) for name in sorted(state)]
    elif isinstance(state, (list, tuple)):
        parts = [_numbers(each) for each in state]
    elif isinstance(state, str):
        parts = [torch.tensor([float(len(state))]).double()]
    else:
        number = -1.0 if state is None else float(state)
        return torch.tensor([number], dtype=torch.float64)
    return torch.cat([torch.zeros(1).double(), *parts])


@cache
def subjects() -> dict[str, Subject]:
    r"""All of them by name."""
    bandits = {f"bandit {bound}": _bandit(bound) for bound in BOUNDS}
    return {
        **bandits,
        "bandit mixture": _bandit("exact", covariance_scale="mixture"),
        "bandit estimated": _bandit("exact", norm_bound=None),
        "bkb bandit": _budgeted(),
        "bkb model": _bkb_model(),
        "norm tracker": _tracker(k.NormTracker),
        "noise tracker": _tracker(
            lambda: k.StreamingNoiseTracker(5.0, k.UnknownNoise(0.01, 1.0))
        ),
        "prequential radius": _radius(),
    }


@cache
def _prepared(name: str, rounds: int) -> Any:
    return subjects()[name].at(rounds)


def prepared(name: str, rounds: int) -> Any:
    r"""A copy of a subject after so many rounds."""
    return deepcopy(_prepared(name, rounds))
