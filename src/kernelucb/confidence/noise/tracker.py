r"""Unknown noise: running bounds on its scale (Durand, Maillard & Pineau 2018)."""

import math
import sys
import warnings
from typing import Any

from botorch.exceptions import UnsupportedError
from botorch.models.model import Model

from kernelucb._numerics import states
from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import LARGEST, positive_scalar, probability
from kernelucb._numerics.estimates import EstimatedNumber, is_estimate
from kernelucb._numerics.exclusive import Exclusive
from kernelucb.confidence.noise.durand import (
    NoiseInterval,
    refined_interval,
)
from kernelucb.confidence.noise.unknown import UnknownNoise
from kernelucb.exceptions import InconsistentConfidenceSetWarning, StateError
from kernelucb.regression import KernelRegression


class StreamingNoiseTracker:
    r"""Running bounds on an unknown noise scale, anytime.

    With probability ``1 - delta`` the noise scale lies in ``[lower, upper]`` after every
    update, however the inputs were chosen from the past.

    Source: Durand, Maillard & Pineau (2018), Theorem 3 and the sandwich of Corollary 1, at
    ``delta / 3``. Assumes a kernel and mean fixed before the data, noise that is
    conditionally sub-Gaussian and second-order sub-Gaussian of one scale (Gaussian noise
    is), and ``||f - mean||_H <= norm_bound``. Two departures from the printed formulas are
    named in ``kernelucb.confidence.noise.durand``. Case 1 is not computed, since the best
    of both cases and the known upper limit is always case 2 or that limit.

    Example:
        >>> tracker = StreamingNoiseTracker(5.0, UnknownNoise(lower=0.01))
        >>> lower, upper = tracker.observe(model)  # after every observation
        >>> torch.save(tracker.state_dict(), path)

    Attributes:
        lower: Lower bound on the noise scale, outcome units. Given to a bound as its noise
            scale it counts as estimated.
        upper: Upper bound, infinite while nothing is known and the data are too few; the
            same holds for it.
        outcomes: On which scale they were, ``"untransformed"`` or ``"after Log"``; None
            before the first. Later ones must be on the same, in whatever unit.
        num_observations: Number of observations seen.
        consistent: False once the data contradict the assumptions.
        estimated: Which of ``"kernel"``, ``"mean"`` and ``"norm"`` were estimated at any
            update.
    """

    @checked
    def __init__(
        self,
        norm_bound: float,
        noise_std: UnknownNoise,
        delta: float = 0.05,
    ) -> None:
        r"""Bounds on the noise scale before any data.

        Args:
            norm_bound: Bound on the RKHS norm of ``f - mean``, outcome units.
            noise_std: What is known of the noise scale: its lower limit, which must be
                given, and its upper limit or None.
            delta: Failure probability of all intervals together.

        Raises:
            ValueError: If a number is out of its range, or there is no lower limit.
        """
        self.norm_bound = positive_scalar("norm_bound", norm_bound)
        self.estimated: set[str] = set()
        if is_estimate(self.norm_bound):
            self.estimated.add("norm")
        if noise_std.lower is None:
            raise ValueError(
                "noise_std has no lower limit, which this bound rests on; give "
                "UnknownNoise(lower=...), small as it may be."
            )
        self.noise_std = noise_std
        self.delta = probability("delta", delta)
        self._smallest = float(noise_std.lower)
        self._largest = None if noise_std.upper is None else float(noise_std.upper)
        largest = math.inf if self._largest is None else self._largest
        self.interval = NoiseInterval(self._smallest, largest)  # plain numbers
        self.num_observations = 0
        self.outcomes: str | None = None
        self.consistent = True
        self._exclusive = Exclusive()

    @property
    def lower(self) -> float:
        r"""See the class."""
        return EstimatedNumber(self.interval.lower)

    @property
    def upper(self) -> float:
        r"""See the class."""
        return EstimatedNumber(self.interval.upper)

    @checked
    def observe(self, model: Model | KernelRegression) -> tuple[float, float]:
        r"""Update the bounds with new observations; without any, nothing changes.

        One step of Corollary 1 for each new observation. Several new ones take all their
        steps on the newest data: valid, since the bounds hold for every regulariser at
        once, but looser than one update for each.

        Args:
            model: A single-output exact GP, or a ``KernelRegression``, with the same
                kernel and mean as before and all observations so far.

        Returns:
            Lower and upper bound on the noise scale, outcome units.

        Raises:
            ValueError: If there are fewer observations than before, or they are on another
                scale.
            UnsupportedError: If the model cannot be represented, or has one noise scale for
                each observation.
        """
        regression = KernelRegression.of(model)
        _one_noise_scale(regression)
        with self._exclusive:
            self._update(regression)
        return self.lower, self.upper

    def _update(self, regression: KernelRegression) -> None:
        outcomes = regression.outcome_map.same_as(self.outcomes)
        new = regression.num_observations - self.num_observations
        if new < 0:
            raise ValueError(
                f"The tracker has seen {self.num_observations} observations, the model has "
                f"{regression.num_observations}. Observations cannot be taken back; start "
                "a new tracker or load an earlier state."
            )
        interval, contradiction = self.interval, None
        norm_bound = float(self.norm_bound)
        for _ in range(new):
            before = interval
            found = refined_interval(regression, norm_bound, self.delta / 3.0, before)
            interval = NoiseInterval(found.lower, max(found.lower, found.upper))
            if found.lower > found.upper and self.consistent and contradiction is None:
                contradiction = found
            if before == interval:  # so would be all further steps
                break
        # In one step: an interrupt leaves the old or the new bounds.
        vars(self).update(
            interval=interval,
            num_observations=regression.num_observations,
            outcomes=outcomes,
            consistent=self.consistent and contradiction is None,
            estimated=self.estimated | (regression.estimated & {"kernel", "mean"}),
        )
        if contradiction is not None:
            message = _contradiction(contradiction)
            warnings.warn(message, InconsistentConfidenceSetWarning, stacklevel=4)

    def state_dict(self) -> dict[str, Any]:
        r"""Arguments and running bounds as plain numbers, for JSON or ``torch.save``."""
        return states.sealed(
            {
                "norm_bound": float(self.norm_bound),
                "noise_lower": self._smallest,
                "noise_upper": self._largest,
                "delta": self.delta,
                "lower": self.interval.lower,
                "upper": None if math.isinf(self.interval.upper) else self.interval.upper,
                "num_observations": self.num_observations,
                "outcomes": self.outcomes,
                "consistent": self.consistent,
                "estimated": sorted(self.estimated),
            }
        )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        r"""Go on from a saved state.

        Args:
            state_dict: From a tracker with the same arguments.

        Raises:
            StateError: If the state is not of such a tracker; nothing has changed then.
        """
        largest = self._largest
        known = states.real(self._smallest, LARGEST)
        readers = {
            "norm_bound": states.same(float(self.norm_bound)),
            "noise_lower": states.same(self._smallest),
            "noise_upper": states.same(largest),
            "delta": states.same(self.delta),
            "lower": known,
            "upper": known if largest is not None else states.optional(known),
            "num_observations": states.whole(0, sys.maxsize),
            "outcomes": states.optional(states.text),
            "consistent": states.flag,
            "estimated": states.sequence(_estimated_part),
        }
        saved = states.read_state("StreamingNoiseTracker", state_dict, readers)
        upper = math.inf if saved["upper"] is None else saved["upper"]
        if saved["lower"] > upper:
            raise StateError("lower is above upper in the state.")
        with self._exclusive:
            vars(self).update(
                interval=NoiseInterval(saved["lower"], upper),
                num_observations=saved["num_observations"],
                outcomes=saved["outcomes"],
                consistent=saved["consistent"],
                estimated=self.estimated | set(saved["estimated"]),
            )


def _estimated_part(name: str, value: Any) -> str:
    r"""Reader of an entry of ``estimated``."""
    if value not in ("kernel", "mean", "norm"):
        raise StateError(f'{name} must be "kernel", "mean" or "norm", got {value!r}.')
    return value


def _one_noise_scale(regression: KernelRegression) -> None:
    r"""Refuse several noise scales; the value of a single one does not matter."""
    if not regression.has_one_noise_scale:
        raise UnsupportedError(
            "The model has one noise scale for each observation (train_Yvar); the unknown "
            "noise scale is one number. Leave out train_Yvar, or use a bound that takes "
            "it, such as MartingaleMixtureUCB."
        )


def _contradiction(interval: NoiseInterval) -> str:
    return (
        f"The data say that the noise scale is at least {interval.lower:.6g} and at most "
        f"{interval.upper:.6g}. An assumption does not hold: the noise's lower limit is "
        "too large, its upper limit or norm_bound too small, or the kernel is wrong. The "
        "upper bound is "
        "moved up to the lower one, without any guarantee."
    )
