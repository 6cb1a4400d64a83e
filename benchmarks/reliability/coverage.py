r"""Claims chosen to be false, on functions whose norm is known."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.runner import KnownFunction, fixed_kernel, line, outside
from kernelucb import KernelRegression, MartingaleMixtureUCB

_ARMS, _ROUNDS, _NORM, _NOISE = 60, (6, 15, 40), 3.0, 0.1
_SLACK = 1e-9  # a claim that is false by this


@torch.no_grad()
def play(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Whether a false claim stood, at the true norm and noise, after any of the rounds.

    Arms are played where the band of a too small norm bound has its upper bound: such a
    search stays where noise has misled it. After each round, of every kind the claim is
    taken that is false by the least, which is the one most likely to stand: its breakdown
    values are at least the true norm and noise exactly where the set of these numbers
    proves it. ``told`` is the noise scale that is given, over the true one; ``at`` the norm
    and noise scale at which claims are tried, over the true ones: below 1 they may stand.
    """
    random = np.random.default_rng(settings["seed"])
    kernel = fixed_kernel(settings["kernel"], 0.2)
    function = KnownFunction.draw(random, kernel, _NORM, 1, 12)
    arms = line(_ARMS)
    values = function(arms)
    told, delta = _NOISE * settings["told"], settings["delta"]
    order = list(random.integers(_ARMS, size=2))
    noise = torch.from_numpy(_NOISE * random.standard_normal(max(_ROUNDS)))
    false = dict.fromkeys(("value", "baseline", "window", "anywhere"), False)
    while True:
        outcomes = values[order] + noise[: len(order)]
        state = KernelRegression(arms[order], outcomes, kernel, told)
        if len(order) in _ROUNDS:
            band = MartingaleMixtureUCB(state, norm_bound=_NORM / 2.0, delta=delta)
            factor = _NORM / float(band.norm_bound)
            at = settings["at"]
            own = band.relaxed(at * factor, max(at * _NOISE / told, 1.0))
            for kind, stands in _false_claims(own, arms, values, random).items():
                false[kind] |= stands
        if len(order) == max(_ROUNDS):
            return {"misses": any(false.values())} | false
        mean, deviation = state.mean(arms), state.variance(arms).sqrt()
        order.append(int((mean + 0.5 * deviation).argmax()))


def _false_claims(
    band: MartingaleMixtureUCB, arms: Tensor, values: Tensor, random: np.random.Generator
) -> dict[str, bool]:
    r"""For each kind, whether the set proves a claim that is false by next to nothing."""
    lower, upper = band.bounds(arms)
    found = dict.fromkeys(("value", "baseline", "window", "anywhere"), False)
    found["value"] = bool(outside(values, lower, upper, _SLACK).any())
    for reference in {int(lower.argmax()), *random.integers(_ARMS, size=3).tolist()}:
        gains = band.max_gain_over(arms, arms[reference : reference + 1])
        true = values - values[reference]
        found["baseline"] |= bool((gains < true - _SLACK).any())
        near = (arms - arms[reference]).abs().squeeze(-1) <= 0.05
        for kind, mask in (("window", near), ("anywhere", torch.ones_like(near))):
            best = float(true[mask].max())
            found[kind] |= float(gains[mask].max().clamp_min(0.0)) < best - _SLACK
    return found
