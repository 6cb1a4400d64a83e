r"""Saved states with one wrong entry: refused with the old state intact, or the same."""

import math
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.attack.fuzz.world import one, shared, world
from benchmarks.attack.subjects import prepared, same, sound, subjects
from benchmarks.attack.tasks import Family
from benchmarks.attack.verdicts import Verdict, WrongError, judge

_ROUNDS, _SAVED = 3, 6
_MISSING = object()
_ACQUISITIONS = (
    "dual", "grid", "analytic", "model", "abbasi_yadkori", "sketched", "bkb", "scalarized",
)  # fmt: skip
# Entries that repeat an argument: another value is always wrong.
_ARGUMENTS = ("delta", "inflation", "floor", "noise_lower", "noise_upper", "version")
# Entries of any sign.
_SIGNED = ("inputs", "outcomes", "sums", "witness", "interval", "raw_", "bound")


class Change(NamedTuple):
    r"""What is done to one entry.

    Attributes:
        name: For the report.
        apply: From the entry and that of another object.
        plausible: Whether the result may be a right state as well, only another one.
    """

    name: str
    apply: Callable[[Any, Any], Any]
    plausible: bool = False


def _entries(change: Callable[[Tensor], Tensor]) -> Callable[[Any, Any], Any]:
    r"""A change of all numbers of an entry, or of each element of a list."""

    def apply(value: Any, _: Any) -> Any:
        if isinstance(value, list):
            return [apply(each, None) for each in value]
        if isinstance(value, Tensor):
            return change(value.clone())
        if isinstance(value, (bool, str, dict)) or value is None:
            return _MISSING
        changed = change(torch.tensor(value, dtype=torch.float64))
        return type(value)(changed) if bool(torch.isfinite(changed)) else float(changed)

    return apply


def _spoil(number: float) -> Callable[[Tensor], Tensor]:
    def change(value: Tensor) -> Tensor:
        if value.is_floating_point() and value.numel():
            value.reshape(-1)[0] = number
            return value
        return value.double() + number

    return change


def _tensors(change: Callable[[Tensor], Any]) -> Callable[[Any, Any], Any]:
    def apply(value: Any, _: Any) -> Any:
        return change(value.clone()) if isinstance(value, Tensor) else _MISSING

    return apply


CHANGES = [
    Change("deleted", lambda value, other: _MISSING),
    *(
        Change(repr(wrong)[:12], lambda value, other, wrong=wrong: wrong)
        for wrong in (None, "text", [], {}, 1j, (1.0, "a"), b"x", [None])
    ),
    Change("object", lambda value, other: object()),
    Change("nan", _entries(_spoil(math.nan))),
    Change("inf", _entries(_spoil(math.inf))),
    Change("-inf", _entries(_spoil(-math.inf))),
    Change("negative", _entries(lambda value: -value - 1)),
    Change("zero", _entries(lambda value: 0 * value), True),
    Change("huge", _entries(lambda value: value + 1e300 if value.is_floating_point()
                            else value + 2**62), True),
    Change("another's", lambda value, other: other, True),
    Change("one more", _tensors(lambda value: torch.cat([value.reshape(-1)] * 2 + [
        value.new_zeros(1)]))),
    Change("one less", _tensors(lambda value: value[:-1] if value.dim() else _MISSING)),
    Change("a dimension more", _tensors(lambda value: value.unsqueeze(0))),
    Change("single", _tensors(lambda value: value.float())),
    Change("integers", _tensors(lambda value: value.to(torch.int32))),
    Change("complex", _tensors(lambda value: value.to(torch.complex128))),
    Change("booleans", _tensors(lambda value: value.bool())),
    Change("list", _tensors(lambda value: value.tolist())),
    Change("as text", lambda value, other: str(value)),
    Change("kept by reference", lambda value, other: value, True),
]  # fmt: skip


class Loaded(NamedTuple):
    r"""An object that loads states.

    Attributes:
        make: The object, in a state of its own.
        look: Numbers that depend on it.
        state: The saved state, unspoiled.
        other: The state of another construction.
        resumes: Whether the state brings data; else it must be the object's own.
        kindred: Whether the other construction is the same one, later on.
    """

    make: Callable[[], Any]
    look: Callable[[Any], list[Tensor]]
    state: Callable[[], dict[str, Any]]
    other: Callable[[], dict[str, Any]]
    resumes: bool = True
    kindred: bool = False


def _subject(name: str) -> Loaded:
    other = {"bandit exact": "bandit grid"}.get(name, "bandit exact")
    other = name if name.endswith(("tracker", "radius", "model")) else other
    return Loaded(
        lambda: prepared(name, _ROUNDS),
        subjects()[name].look,
        lambda: deepcopy(dict(prepared(name, _SAVED).state_dict())),
        lambda: deepcopy(dict(prepared(other, 1).state_dict())),
        kindred=other == name,
    )


def _acquisition(name: str) -> Loaded:
    other = "grid" if name == "analytic" else "analytic"
    return Loaded(
        lambda: one(name),
        lambda acqf: [side.detach() for side in acqf.bounds(world().queries)],
        lambda: deepcopy(dict(shared(name).state_dict())),
        lambda: deepcopy(dict(shared(other).state_dict())),
        resumes=False,
    )


@cache
def loaded() -> dict[str, Loaded]:
    r"""All objects by name."""
    return {
        **{name: _subject(name) for name in subjects()},
        **{name: _acquisition(name) for name in _ACQUISITIONS},
    }


@cache
def cases() -> list[tuple[str, str, Change]]:
    r"""Object, entry and change of each seed."""
    found = []
    for name, thing in loaded().items():
        for index, key in enumerate(thing.state()):
            # An acquisition function has a hundred tensors and more: two changes of each.
            few = [CHANGES[(2 * index + i) % len(CHANGES)] for i in range(2)]
            found += [(name, key, each) for each in (CHANGES if thing.resumes else few)]
        found.append((name, "", CHANGES[0]))
    return found


def play(seed: int) -> Verdict:
    r"""One state with one wrong entry; all of it another's where the entry is empty."""
    name, key, change = cases()[seed]
    return judge(
        lambda: _attempt(loaded()[name], key, change), f"{name}[{key}] {change.name}"
    )


def _attempt(thing: Loaded, key: str, change: Change) -> None:
    state, good = thing.state(), thing.state()
    if not key:
        state = thing.other()
    else:
        value = change.apply(state[key], thing.other().get(key, state[key]))
        del state[key]
        if value is not _MISSING:
            state[key] = value
        elif change.name != "deleted":
            return
    target = thing.make()
    before = thing.look(target)
    try:
        target.load_state_dict(state)
    except BaseException:
        if not same(thing.look(target), before):
            raise WrongError("refused, but the old state is lost") from None
        raise
    if change.name == "kept by reference" and isinstance(state[key], Tensor):
        state[key].zero_()
    _check_accepted(thing, target, good, key, change)


def _check_accepted(
    thing: Loaded, target: Any, good: dict[str, Any], key: str, change: Change
) -> None:
    now = thing.look(target)
    expected = thing.make()
    expected.load_state_dict(good)
    if same(now, thing.look(expected)):
        return
    argument = key.split(".")[-1] in _ARGUMENTS
    signed = change.name == "negative" and any(part in key for part in _SIGNED)
    plausible = change.plausible and change.name != "kept by reference"
    # Any arms may be inducing ones.
    plausible |= thing.kindred and not key
    plausible |= key == "inducing" and change.name == "one less"
    if not (thing.resumes and not argument and (plausible or signed)):
        raise WrongError("loaded, and behaves differently")
    sound(now)


FAMILY = Family(play, lambda: len(cases()), "saved states with one wrong entry")
