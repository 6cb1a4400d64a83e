r"""What a bound rests on, and how much of it was given, estimated or violated."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum


class Status(StrEnum):
    r"""Where an assumption's number or statement comes from."""

    GIVEN = "given"
    ESTIMATED = "estimated"
    VIOLATED = "violated"


_NO_GUARANTEE = "heuristic, no guarantee: an assumption is violated"


@dataclass(frozen=True)
class Assumption:
    r"""One thing that must hold.

    Attributes:
        name: ``"kernel"``, ``"mean"``, ``"noise"``, ``"norm"`` or ``"prior"``; of several
            bounds at once with the name of the bound before it, as ``"output 1: norm"``.
        statement: The assumption in words, with its number.
        status: Whether the user gave it, it was estimated, or the data contradict it.
    """

    name: str
    statement: str
    status: Status


@dataclass(frozen=True)
class Assumptions:
    r"""The guarantee of a bound and everything it rests on.

    Attributes:
        source: Paper and theorem.
        guarantee: What holds, with which probability, over which rounds.
        anytime: Whether it holds for all rounds at once.
        items: The single assumptions.
        delta: Failure probability; None where the theorem does not state one number.
    """

    source: str
    guarantee: str
    anytime: bool
    items: tuple[Assumption, ...]
    delta: float | None = None

    @classmethod
    def joined(cls, parts: Mapping[str, "Assumptions"], claim: str) -> "Assumptions":
        r"""What several bounds at once rest on, by the union bound.

        Args:
            parts: The assumptions of each, by a name for it.
            claim: What follows where all of them hold, in words.
        """
        deltas = [part.delta for part in parts.values()]
        total = None if None in deltas else sum(filter(None, deltas))
        anytime = all(part.anytime for part in parts.values())
        rounds = "every round at once" if anytime else "one round, fixed in advance"
        chance = (
            "if all bands hold" if total is None else f"with probability {1 - total:.6g}"
        )
        guarantee = f"{claim} in {rounds} {chance}"
        items = [
            Assumption(f"{name}: {item.name}", f"{name}: {item.statement}", item.status)
            for name, part in parts.items()
            for item in part.items
        ]
        source = "; ".join(dict.fromkeys(part.source for part in parts.values()))
        if any(part.violated for part in parts.values()):
            guarantee = _NO_GUARANTEE
        return cls(source, guarantee, anytime, tuple(items), total)

    @property
    def certified(self) -> bool:
        r"""Whether every assumption was given by the user and none is contradicted."""
        return all(item.status is Status.GIVEN for item in self.items)

    @property
    def violated(self) -> bool:
        r"""Whether the data contradict an assumption."""
        return any(item.status is Status.VIOLATED for item in self.items)

    def __getitem__(self, name: str) -> Assumption:
        for item in self.items:
            if item.name == name:
                return item
        raise KeyError(name)

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

    def without_guarantee(self, reason: str) -> "Assumptions":
        r"""A copy that says why the guarantee does not hold."""
        violated = Assumption("theorem", reason, Status.VIOLATED)
        return replace(self, guarantee=_NO_GUARANTEE).with_extra(violated)

    def __str__(self) -> str:
        lines = [f"{self.source}: {self.guarantee}"]
        lines += [f"  [{item.status}] {item.statement}" for item in self.items]
        statuses = {item.status for item in self.items}
        if Status.ESTIMATED in statuses and Status.VIOLATED not in statuses:
            lines.append(
                "  The probability is exact only if the parts not marked 'given' hold."
            )
        return "\n".join(lines)
