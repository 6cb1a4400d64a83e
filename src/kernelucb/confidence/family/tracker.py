r"""A tracker of the kernels of a family that any round has contradicted."""

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module

from kernelucb._numerics.estimates import EstimatedNumber

_LOG = logging.getLogger(__name__)
_ROUNDED = 1e-6  # largest relative error of noise scales that were rescaled and back


class FamilyRound(NamedTuple):
    r"""A family and the data of one round.

    Attributes:
        key: What must stay the same, as plain values: the kernels, the norm bounds in
            use, ``delta``, the fit, its scales and the model error.
        precision: How precise each of ``n`` observations is: noise scales, outcome units,
            or numbers of trials, or exposures.
        estimated: Which of ``"kernel"``, ``"mean"``, ``"noise"`` and ``"norm"`` were.
    """

    key: dict[str, Any]
    precision: Tensor
    estimated: frozenset[str]


class FamilyTracker:
    r"""Remembers which kernels of a family the data have contradicted, anytime.

    ``KernelFamilyUCB`` leaves out the kernels that an earlier round contradicted, without
    another look at them while any kernel is left. The band stays valid: every fit holds for
    all rounds at once, so the probability that any round contradicts the true kernel is at
    most ``delta``, the failure probability of the band. The band is at least as narrow as
    without a tracker.

    A tracker is for one family and one sequence of observations: the same kernels, mean and
    input transform, norm bounds, ``delta``, ``fit`` and ``covariance_scale`` in every
    round, the same noise scales (for counts, the same trials and exposures), and new
    observations only at the end. The first round sets all of these. The settings of the
    acquisition function alone (``select``, ``maximize``, pending points) may change.

    Source: ours (``docs/mathematics.md``).

    Example:
        >>> tracker = FamilyTracker()
        >>> for _ in range(rounds):
        ...     family = KernelFamily(kernels, tracker=tracker)
        ...     acqf = KernelFamilyUCB(model, family, norm_bound=5.0)

    Attributes:
        num_observations: Number of observations seen.
        least_consistent_norms: For each kernel the largest least consistent norm so far,
            outcome units: a lower bound on the norm, if the kernel is the true one. Counts
            as estimated when given as a norm bound.
        estimated: The subset of ``"kernel"``, ``"mean"``, ``"noise"`` and ``"norm"`` that
            was estimated in any round; if not empty, no later round is certified.
    """

    def __init__(self) -> None:
        self._key: dict[str, Any] | None = None
        self._precision: list[float] = []  # of each observation
        self._least_norms: tuple[float, ...] = ()
        self.estimated: frozenset[str] = frozenset()

    @property
    def num_observations(self) -> int:
        r"""See the class."""
        return len(self._precision)

    @property
    def least_consistent_norms(self) -> tuple[float, ...]:
        r"""See the class."""
        return tuple(map(EstimatedNumber, self._least_norms))

    @property
    def contradicted(self) -> tuple[bool, ...]:
        r"""For each kernel, whether it was contradicted in any round."""
        bounds = () if self._key is None else self._key["norm_bounds"]
        pairs = zip(self._least_norms, bounds, strict=True)
        return tuple(least > bound for least, bound in pairs)

    def recall(self, current: FamilyRound) -> tuple[float, ...]:
        r"""The least consistent norms so far, 0 before the first round.

        Raises:
            ValueError: If the tracker has seen another family, or more observations.
        """
        self._check(current)
        return self._least_norms or (0.0,) * len(current.key["kernels"])

    def update(self, current: FamilyRound, least_norms: Sequence[float]) -> None:
        r"""Take the least consistent norms of a round, outcome units; none ever falls.

        Raises:
            ValueError: As ``recall``; nothing has changed then.
        """
        before, known = self.recall(current), self.contradicted
        vars(self).update(
            _key=current.key,
            _precision=current.precision.tolist(),
            _least_norms=tuple(map(max, before, least_norms)),
            estimated=self.estimated | current.estimated,
        )
        for number, contradicted in enumerate(self.contradicted):
            if contradicted and not (known and known[number]):
                text = "Kernel %d of %d is contradicted for good, at %d observations."
                _LOG.info(text, number, len(least_norms), self.num_observations)

    def _check(self, current: FamilyRound) -> None:
        if self._key is None:
            return
        for name, new in current.key.items():
            if (own := self._key[name]) != new:
                told = "" if name == "kernels" else f" ({own} before, {new} now)"
                raise ValueError(
                    f"tracker is for another family: its {_NAMES.get(name, name)} differ"
                    f"{told}. Give the same in every round, or start a new FamilyTracker."
                )
        seen, count = self.num_observations, len(current.precision)
        if count < seen:
            raise ValueError(
                f"tracker has seen {seen} observations, the model has {count}. "
                "Observations cannot be taken back; start a new FamilyTracker."
            )
        own = torch.tensor(self._precision, dtype=torch.float64)
        new = current.precision[:seen].detach().cpu().double()
        changed = bool(((own - new).abs() > _ROUNDED * own).any())
        if changed and "noise" not in self.estimated | current.estimated:
            raise ValueError(
                "tracker has seen the same observations with other noise scales (of counts "
                "num_trials or exposure). Give the same in every round, or start a new "
                "FamilyTracker."
            )


_NAMES = {"kernels": "kernels, their mean or their input transform"}


def in_plain_values(module: Module) -> str:
    r"""Classes, public attributes and tensors of a module, which tell two kernels apart."""
    attributes = [
        (name, type(part).__qualname__, each, value)
        for name, part in module.named_modules()
        for each, value in sorted(vars(part).items())
        if isinstance(value, str | float | int | tuple)
        and not each.startswith("_")
        and each != "training"
    ]
    tensors = module.state_dict().items()
    return repr((attributes, [(n, x.tolist()) for n, x in tensors if torch.is_tensor(x)]))
