r"""The bands of the kernels of a family after the observations so far."""

import logging
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kernelucb._numerics.arrays import in_parts
from kernelucb.bandit.balancing import Balance, Play, suspected_regret
from kernelucb.bandit.bands import Bands
from kernelucb.bandit.bounds import BanditBound
from kernelucb.bandit.observations import Observations, Signs
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.regression.prior import Prior

_LOG = logging.getLogger(__name__)
NEVER = 0  # number of observations at which a consistent kernel was contradicted


class FamilyBands(NamedTuple):
    r"""What a ``FamilyBandit`` is after some observations; every change makes a new one.

    Attributes:
        dimension: Number of columns of the arms.
        bands: The band of each kernel; None where it was contradicted, but for the one that
            goes on where none is left.
        contradicted_at: Number of observations at which each kernel was contradicted;
            ``NEVER`` where it is consistent.
        balance: The plays, for regret balancing.
    """

    dimension: int
    bands: tuple[Bands[Any] | None, ...]
    contradicted_at: tuple[int, ...]
    balance: Balance

    @classmethod
    def fresh(
        cls, dimension: int, priors: Sequence[Prior], bounds: Sequence[BanditBound]
    ) -> "FamilyBands":
        r"""Without observations, from the prior and the bound of each kernel."""
        pairs = zip(priors, bounds, strict=True)
        bands = tuple(
            Bands.of(bound, Observations(prior, bound.noise_std)) for prior, bound in pairs
        )
        never, balance = (NEVER,) * len(bands), Balance.fresh(len(bands))
        return cls(dimension, bands, never, balance)

    @property
    def in_use(self) -> list[Bands[Any]]:
        r"""The bands whose union is the whole, the simplest first."""
        return [bands for bands in self.bands if bands is not None]

    @property
    def observations(self) -> Observations:
        r"""The data, under the prior of the first kernel in use."""
        return self.in_use[0].observations

    @property
    def consistent(self) -> tuple[bool, ...]:
        r"""Which kernels no round has contradicted."""
        return tuple(count == NEVER for count in self.contradicted_at)

    def fork(self) -> "FamilyBands":
        r"""One whose bands go on on their own; see ``History.fork``."""
        bands = tuple(own and own.fork() for own in self.bands)
        return self._replace(bands=bands)

    def observe(self, x: Tensor, outcome: float, delta: float) -> "FamilyBands":
        r"""With one observation more; changes the bands, so call it on a ``fork``.

        Args:
            x: ``1 x d`` arm.
            outcome: Outcome units.
            delta: Failure probability of the averages of regret balancing.
        """
        with _without_warnings():
            for own in self.in_use:
                own.observe(own.history.arm(x), outcome)
            noise_std = self.in_use[0].bound.noise_std
            new = self._examined()
        balance = self.balance.credited(x[0], outcome)
        return new._replace(balance=balance.judged(new.consistent, noise_std, delta))

    def _examined(self) -> "FamilyBands":
        r"""Without the bands that the data contradict, for good."""
        if not any(self.consistent):
            return self
        count, at, bands = self.observations.count, [*self.contradicted_at], [*self.bands]
        widened: dict[int, float] = {}
        for index, own in enumerate(bands):
            if own is not None and own.contradiction() is not None:
                at[index], bands[index] = count, None
                text = "Kernel %d of %d is contradicted for good, at %d observations."
                _LOG.info(text, index, len(bands), count)
                needed = own.current().constraints.norm
                widened[index] = needed / own.bound.norm_bound
        if NEVER not in at:  # go on with the one of the last that is widened the least
            nearest = min(widened, key=widened.__getitem__)
            bands[nearest] = self.bands[nearest]
        return self._replace(bands=tuple(bands), contradicted_at=tuple(at))

    def limits(self, X: Tensor, sign: int, first_only: bool = False) -> Tensor:
        r"""``sign`` times the upper (1) or lower (-1) bound of the union at ``a`` arms."""
        chosen = self.in_use[:1] if first_only else self.in_use
        values = [_limits(own, X, (sign,))[0] for own in chosen]
        return torch.stack(values).amax(0)

    def bounds(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound of the union at ``a`` arms."""
        sides = torch.stack([_limits(own, X, (-1, 1)) for own in self.in_use])
        lower, upper = sides.amax(0)
        return -lower, upper

    def balanced(self, X: Tensor) -> tuple[int, "FamilyBands"]:
        r"""The arm by regret balancing, and the bands that await its outcome.

        It has the largest upper bound of the kernel with the least suspected regret.
        """
        playing = self.balance.playing(self.consistent)
        if not playing:  # only the nearest is left
            playing = [index for index, own in enumerate(self.bands) if own is not None]
        chosen = min(playing, key=self._suspected)
        own = self.bands[chosen]
        assert own is not None
        lower, upper = _limits(own, X, (-1, 1))
        index = int(upper.argmax())
        play = Play(chosen, X[index].clone(), float(upper[index] + lower[index]))
        return index, self._replace(balance=self.balance._replace(pending=play))

    def _suspected(self, index: int) -> float:
        own = self.bands[index]
        assert own is not None
        plays = self.balance.plays[index] + 1
        return suspected_regret(plays, own.bound.norm_bound, own.information_gain())


def _limits(own: Bands[Any], X: Tensor, signs: Signs) -> Tensor:
    r"""``sign`` times the bound on that side, a row of ``a`` values for each sign."""

    def evaluate(part: Tensor) -> Tensor:
        arms = own.observations.arms(part)
        rows = own.supports(arms, signs)
        pairs = zip(signs, rows, strict=True)
        return torch.stack([sign * arms.prior_mean + row for sign, row in pairs])

    with _without_warnings():
        return in_parts(X, evaluate)


@contextmanager
def _without_warnings() -> Generator[None]:
    r"""A single contradicted kernel is no reason to warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        yield
