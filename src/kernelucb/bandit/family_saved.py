r"""The saved state of a family bandit, checked before any of it is used."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from kernelucb._numerics import states
from kernelucb._numerics.checks import LARGEST
from kernelucb.bandit import saved
from kernelucb.bandit.balancing import Balance, Play
from kernelucb.bandit.family import Family
from kernelucb.bandit.family_bands import NEVER, FamilyBands
from kernelucb.bandit.saved import Saved, prior_values
from kernelucb.exceptions import StateError

# Of each band; the observations and priors are held once.
_OWN = ("renewed", "interval", "seen", "warned", "filters")


def as_state(
    now: FamilyBands, family: Family, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    r"""The state as a mapping that ``read`` takes; see ``FamilyBandit.state_dict``."""
    data, balance = now.observations, now.balance
    own = [None if bands is None else bands.saved()._asdict() for bands in now.bands]
    play, inputs = balance.pending, data.inputs.reshape(data.count, now.dimension)
    return states.sealed(
        {
            "arguments": dict(arguments),
            "dimension": now.dimension,
            "inputs": inputs.cpu().clone(),
            "outcomes": data.outcomes.cpu().clone(),
            "priors": torch.stack([prior_values(p, inputs).cpu() for p in family.priors]),
            "bands": [each and [each[name] for name in _OWN] for each in own],
            "contradicted_at": list(now.contradicted_at),
            "plays": list(balance.plays),
            "play_outcomes": list(balance.outcomes),
            "play_widths": list(balance.widths),
            "dropped": list(balance.dropped),
            "pending": play and [play.kernel, play.arm.tolist(), play.width],
        }
    )


def read(state: object, family: Family, arguments: Mapping[str, Any]) -> FamilyBands:
    r"""What ``as_state`` was given, for a bandit with the same arguments.

    Raises:
        StateError: If it is of another bandit, or was changed.
    """
    values = _entries(state, len(family.priors), arguments)
    if values["dimension"] not in family.columns:
        raise StateError(
            f"dimension is {values['dimension']}; the kernels take {family.columns[0]} "
            "columns."
        )
    _check(values, len(family.priors))
    pending = _play(values["pending"], len(family.priors), values["inputs"])
    return _restored(values, family, pending)


def _entries(state: object, count: int, arguments: Mapping[str, Any]) -> dict[str, Any]:
    counts = states.sequence(states.whole(NEVER))
    largest = LARGEST * LARGEST  # sums of outcomes
    sums = states.sequence(states.real(-largest, largest))
    return states.read_state(
        "FamilyBandit",
        state,
        {
            "arguments": states.same(dict(arguments)),
            "dimension": states.whole(1),
            "inputs": states.reals((None, None), -LARGEST, LARGEST),
            "outcomes": states.reals((None,), -LARGEST, LARGEST),
            "priors": states.reals((count, None, None)),
            "bands": states.sequence(states.optional(states.sequence(_anything))),
            "contradicted_at": counts,
            "plays": counts,
            "play_outcomes": sums,
            "play_widths": sums,
            "dropped": states.sequence(states.flag),
            "pending": states.optional(states.sequence(_anything)),
        },
    )


def _play(value: Any, count: int, inputs: Tensor) -> Play | None:
    if value is None:
        return None
    if len(value) != 3:
        raise StateError("pending must be a kernel, an arm and a width.")
    kernel = states.whole(0, count - 1)("pending[0]", value[0])
    arm = states.sequence(states.real(-LARGEST, LARGEST))("pending[1]", value[1])
    width = states.real(0.0, LARGEST)("pending[2]", value[2])
    if len(arm) != inputs.shape[1]:
        raise StateError(f"pending has an arm of {len(arm)} columns.")
    return Play(kernel, inputs.new_tensor(arm), width)


def _anything(name: str, value: Any) -> Any:
    return value  # checked where its meaning is known


def _check(values: Mapping[str, Any], count: int) -> None:
    inputs, at, bands = values["inputs"], values["contradicted_at"], values["bands"]
    for name in (
        "bands",
        "contradicted_at",
        "plays",
        "play_outcomes",
        "play_widths",
        "dropped",
    ):
        if len(values[name]) != count:
            raise StateError(f"{name} must have an entry for each of {count} kernels.")
    if inputs.shape[1] != values["dimension"]:
        raise StateError(f"inputs must have {values['dimension']} columns.")
    if max(at) > len(inputs) or sum(values["plays"]) > len(inputs):
        raise StateError(f"There are {len(inputs)} observations, fewer than are counted.")
    there = [own is not None for own in bands]
    consistent = [each == NEVER for each in at]
    if there != consistent and (any(consistent) or sum(there) != 1):
        raise StateError("bands must be there for the consistent kernels, or for one.")


def _restored(
    values: Mapping[str, Any], family: Family, pending: Play | None
) -> FamilyBands:
    r"""The bands that were saved; the prior of each kernel is compared."""
    now, bounds = family.fresh(values["dimension"]), family.bounds(values["dimension"])
    bands: list[Any] = []
    rows = zip(
        values["bands"], values["priors"], family.priors, bounds, now.bands, strict=True
    )
    for own, prior, module, bound, fresh in rows:
        entries = [0, None, None, False, None] if own is None else own
        if len(entries) != len(_OWN):
            raise StateError(f"bands must hold {len(_OWN)} entries for each kernel.")
        state = _of_one(values, prior, entries).as_state(bound)
        checked = saved.read(state, bound, module, family.columns)
        if own is None or fresh is None:
            bands.append(None)
            continue
        fresh.replay(checked)
        bands.append(fresh)
    balance = Balance(
        tuple(values["plays"]),
        tuple(values["play_outcomes"]),
        tuple(values["play_widths"]),
        tuple(values["dropped"]),
        pending,
    )
    return FamilyBands(
        now.dimension, tuple(bands), tuple(values["contradicted_at"]), balance
    )


def _of_one(values: Mapping[str, Any], prior: Tensor, entries: Sequence[Any]) -> Saved:
    own = dict(zip(_OWN, entries, strict=True))
    return Saved(values["inputs"], values["outcomes"], prior, None, 1, **own)
