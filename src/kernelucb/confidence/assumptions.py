r"""What a bound rests on, and how much of it was given, estimated or violated."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from kernelucb._numerics.estimates import EstimatedNumber
from kernelucb.exceptions import UncertifiedError


class Status(StrEnum):
    r"""Where an assumption's number or statement comes from."""

    GIVEN = "given"
    ESTIMATED = "estimated"
    VIOLATED = "violated"


_NO_GUARANTEE = "heuristic, no guarantee: an assumption is violated"

# How to give what was estimated, by the last word of the assumption's name.
_REMEDIES = {
    "kernel": "take the hyper-parameters from earlier data or physics and freeze them "
    "(model.covar_module.requires_grad_(False); bounds=... in an input transform); "
    "freezing values that were fitted to these data does not make them given",
    "mean": "fix the mean and leave out Standardize (outcome_transform=None)",
    "noise": "pass noise_std=... or train_Yvar",
    "norm": "pass norm_bound=... (describe_norm_bound says what a number means)",
    "information gain": "pass information_gain=...",
}


@dataclass(frozen=True)
class Assumption:
    r"""One thing that must hold.

    Attributes:
        name: ``"kernel"``, ``"mean"``, ``"noise"``, ``"norm"``, ``"outcomes"``,
            ``"prior"``, ...; for several bounds at once after the name of the bound, as
            in ``"output 1: norm"``.
        statement: The assumption in words, with its number.
        status: Whether the user gave it, it was estimated, or the data contradict it.
    """

    name: str
    statement: str
    status: Status

    def number(self, value: float) -> float:
        r"""The number that this is about, an ``EstimatedNumber`` unless it was given."""
        return value if self.status is Status.GIVEN else EstimatedNumber(value)


@dataclass(frozen=True)
class Assumptions:
    r"""The guarantee of a bound and everything it rests on.

    Attributes:
        source: Paper and theorem.
        guarantee: What holds, with which probability, over which rounds.
        anytime: Whether it holds for all rounds at once.
        items: The single assumptions.
        delta: Failure probability; None where the theorem does not state one number.
        all_points: Whether it holds for all points at once.
        horizon: Number of rounds for which it holds; None for all.
    """

    source: str
    guarantee: str
    anytime: bool
    items: tuple[Assumption, ...]
    delta: float | None = None
    all_points: bool = True
    horizon: float | None = None

    @classmethod
    def joined(cls, parts: Mapping[str, "Assumptions"], claim: str) -> "Assumptions":
        r"""What several bounds at once rest on, by the union bound.

        ``claim`` says in words what follows from all of ``parts``, given by name.
        """
        deltas = [part.delta for part in parts.values()]
        total = None if None in deltas else sum(filter(None, deltas))
        anytime = all(part.anytime for part in parts.values())
        all_points = all(part.all_points for part in parts.values())
        horizons = [part.horizon for part in parts.values() if part.horizon is not None]
        horizon = min(horizons, default=None)
        rounds = rounds_in_words(anytime, horizon if anytime else None)
        points = "" if all_points else ", at single points only,"
        chance = (
            "if all bands hold" if total is None else f"with probability {1 - total:.6g}"
        )
        guarantee = f"{claim}{points} in {rounds} {chance}"
        items = [
            Assumption(f"{name}: {item.name}", f"{name}: {item.statement}", item.status)
            for name, part in parts.items()
            for item in part.items
        ]
        source = "; ".join(dict.fromkeys(part.source for part in parts.values()))
        if any(part.violated for part in parts.values()):
            guarantee = _NO_GUARANTEE
        joined = cls(source, guarantee, anytime, tuple(items), total, all_points, horizon)
        if total is not None and total >= 1.0:
            return joined.without_guarantee(
                f"the failure probabilities add up to {total:.6g}; give each band a "
                "smaller delta",
                name="delta",
            )
        return joined

    @property
    def certified(self) -> bool:
        r"""Whether the theorem covers the case and every assumption was given.

        Only the user can know whether what was given is true.
        """
        return all(item.status is Status.GIVEN for item in self.items)

    @property
    def estimated(self) -> tuple[str, ...]:
        r"""Names of the assumptions that were estimated from the same data."""
        return self._names(Status.ESTIMATED)

    @property
    def violated(self) -> bool:
        r"""Whether the data contradict an assumption, or the theorem does not cover it."""
        return bool(self._names(Status.VIOLATED))

    @property
    def summary(self) -> str:
        r"""``"certified"``, or what keeps the bound from it, as the first line of a report.

        ``"heuristic: kernel, norm estimated"`` or ``"no guarantee: norm violated"``; for
        several bounds ``"heuristic: norm of objective, norm of constraint 1 estimated"``.
        """
        if self.violated:
            return f"no guarantee: {_in_words(self._names(Status.VIOLATED))} violated"
        if self.estimated:
            return f"heuristic: {_in_words(self.estimated)} estimated"
        return "certified"

    @property
    def verdict(self) -> str:
        r"""``"certified (95 %)"``, or what keeps a band from holding always and everywhere.

        What a legend or a title may say: beside ``summary`` it asks for all points and all
        rounds.
        """
        if not self.certified:
            return self.summary
        if not self.all_points:
            return "at single points only"
        if not self.anytime:
            return "in one round only"
        if self.delta is None:
            return "certified"
        return f"certified ({100.0 * (1.0 - self.delta):.6g} %)"

    def _names(self, status: Status) -> tuple[str, ...]:
        return tuple(item.name for item in self.items if item.status is status)

    def check_certified(self, user: str, allow_estimated: bool) -> None:
        r"""Refuse to act on estimates unless ``allow_estimated``; ``user`` is what acts.

        Raises:
            UncertifiedError: If an assumption was estimated and that is not allowed; names
                it and says how to give it.
        """
        if allow_estimated or not self.estimated:
            return
        named = {name.rpartition(": ")[2]: None for name in self.estimated}
        ways = [f"{name}: {_REMEDIES[name]}" for name in named if name in _REMEDIES]
        give = f" ({'; '.join(ways)})" if ways else ""
        raise UncertifiedError(
            f"{user} needs a certified band, and this one is {self.summary}. Its "
            f"probability is not known. Either give what is estimated{give}, or pass "
            "allow_estimated=True to act on estimates."
        )

    def __getitem__(self, name: str) -> Assumption:
        for item in self.items:
            if item.name == name:
                return item
        raise KeyError(name)

    def by(self, theorem: str) -> "Assumptions":
        r"""A copy for a bound by ``theorem``, over the set that the present source fits."""
        return replace(self, source=f"{theorem}; fit: {self.source}")

    def with_item(self, item: Assumption) -> "Assumptions":
        r"""A copy in which ``item`` replaces the assumption of the same name.

        A violated one takes the guarantee away.
        """
        items = tuple(item if old.name == item.name else old for old in self.items)
        changed = replace(self, items=items)
        if item.status is Status.VIOLATED:
            return replace(changed, guarantee=_NO_GUARANTEE)
        return changed

    def with_extra(self, item: Assumption) -> "Assumptions":
        r"""A copy with one more assumption."""
        return replace(self, items=(*self.items, item))

    def without_guarantee(self, reason: str, name: str = "theorem") -> "Assumptions":
        r"""A copy that says in words why the guarantee does not hold."""
        violated = Assumption(name, reason, Status.VIOLATED)
        return replace(self, guarantee=_NO_GUARANTEE).with_extra(violated)

    def __str__(self) -> str:
        lines = [self.summary]
        if self.certified:
            lines = [f"certified, if what was given is true: {self.guarantee}"]
        elif not self.violated:
            lines.append(f"  If the estimates were true: {self.guarantee}")
        lines.append(f"  Source: {self.source}")
        lines += [f"  [{item.status}] {item.statement}" for item in self.items]
        return "\n".join(lines)


def _in_words(names: tuple[str, ...]) -> str:
    r"""``"norm of objective, kernel"`` for ``"objective: norm"`` and ``"kernel"``."""
    parts = [name.rpartition(": ") for name in names]
    owned = [(part, owner.replace(", ", " and ")) for owner, _, part in parts]
    return ", ".join(f"{part} of {owner}" if owner else part for part, owner in owned)


def rounds_in_words(anytime: bool, horizon: float | None) -> str:
    r"""The rounds for which a bound holds."""
    if horizon is not None:
        return f"every round up to {horizon:.6g} at once"
    return "every round at once" if anytime else "one round, fixed in advance,"
