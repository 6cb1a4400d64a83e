r"""Does a stop by a family of kernels, certified beside any search, come too early?"""

from types import SimpleNamespace
from typing import Any

import torch
from botorch import acquisition
from torch import Tensor

from benchmarks.practical.fitting import fitted_model
from benchmarks.runner import fixed_kernel, stream
from benchmarks.trust.functions import drawn_values, line
from kernelucb import (
    CertifiedGapStopping,
    KernelFamily,
    KernelFamilyUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    lengthscale_family,
)

SHORTEST, LONGEST = 0.1, 0.8
NORM, NOISE_STD, DELTA, GAP, START = 3.0, 0.1, 0.05, 0.5, 3
GIVEN: dict[str, Any] = {"norm_bound": NORM, "noise_std": NOISE_STD, "delta": DELTA}
SEARCHES = {
    "logei": "LogEI, refitted",
    "logei+widest": "LogEI, refitted, and widest in turn",
    "widest": "widest",
    "known": "known kernel",
}


class Referee:
    r"""A function under a kernel that only one side knows; notes certificates' stops.

    The length scale is drawn, uniform in its logarithm from ``SHORTEST`` to ``LONGEST``;
    function, start and noise are the same for all searches.
    """

    def __init__(self, task: SimpleNamespace) -> None:
        share = float(stream(task.seed, "length").random())
        length = SHORTEST * (LONGEST / SHORTEST) ** share
        self.kernel = fixed_kernel(task.kernel, length)
        values = drawn_values("random", self.kernel, NORM, task.seed)
        self.arms, self.values = line()[::2], values[::2]
        self.kernels = lengthscale_family(self.kernel, SHORTEST, LONGEST)
        self.rule = CertifiedGapStopping(GAP, self.arms)
        # Number of observations, and true regret of the recommended arm over the gap.
        self.stops: dict[str, tuple[int, float]] = {}

    def known(self, X: Tensor, Y: Tensor) -> MartingaleMixtureUCB:
        r"""The bound that knows the kernel."""
        state = KernelRegression(X, Y, self.kernel, NOISE_STD)
        return MartingaleMixtureUCB(state, norm_bound=NORM, delta=DELTA)

    def family(self, model: Any) -> KernelFamilyUCB:
        r"""The bound that knows the ends of the length scales."""
        return KernelFamilyUCB(model, KernelFamily(self.kernels, select="widest"), **GIVEN)

    def ask(self, bounds: dict[str, Any], count: int) -> bool:
        r"""Note the first stop of each certificate; whether each has stopped."""
        for name, bound in bounds.items():
            if name not in self.stops and (decision := self.rule(bound)).stop:
                same = (self.arms == decision.certificate.recommended).all(-1)
                regret = self.values.max() - self.values[int(same.int().argmax())]
                self.stops[name] = count, float(regret) / GAP
        return self.stops.keys() >= bounds.keys()


def play_stop(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Play a search and ask both certificates in every round.

    The search is ``"logei"``: ``LogExpectedImprovement`` on a ``SingleTaskGP`` refitted in
    every round; ``"logei+widest"``: the family's upper bound in every second round;
    ``"widest"``: in all; ``"known"``: the upper bound with the true kernel, whose
    certificate alone is asked.

    Returns:
        Observations at the stop by the family (0 without one) and true regret of the
        recommended point then, over the accepted gap; the same with the true kernel.
    """
    task = SimpleNamespace(**settings)
    referee = Referee(task)
    noise = stream(task.seed, "noise").standard_normal(task.rounds)
    noise = NOISE_STD * torch.from_numpy(noise)
    _play(task, referee, noise)
    stops = {"family": (0, 0.0), "known": (0, 0.0)} | referee.stops
    counts = {name: count for name, (count, _) in stops.items()}
    return counts | {f"{name}_regret": regret for name, (_, regret) in stops.items()}


def _play(task: SimpleNamespace, referee: Referee, noise: Tensor) -> None:
    arms, random = referee.arms, stream(task.seed, "start")
    chosen = random.choice(len(arms), START, replace=False).tolist()
    refitted = task.search.startswith("logei")
    while True:
        X, Y = arms[chosen], referee.values[chosen] + noise[: len(chosen)]
        bounds: dict[str, Any] = {"known": referee.known(X, Y)}
        model: Any = None
        if task.search != "known":
            data = KernelRegression(X, Y, fixed_kernel("rbf", 1.0), NOISE_STD)
            model = fitted_model(X, Y, None)[0] if refitted else data
            bounds["family"] = referee.family(model)
        if referee.ask(bounds, len(chosen)) or len(chosen) == task.rounds:
            return
        acqf = bounds.get("family", bounds["known"])
        if task.search == "logei" or (refitted and len(chosen) % 2 == 0):
            best = model.posterior(model.train_inputs[0]).mean.max()
            acqf = acquisition.LogExpectedImprovement(model, best)
        with torch.no_grad():
            chosen.append(int(acqf(arms.unsqueeze(-2)).argmax()))
