r"""Does a stop by a family of kernels, certified beside any search, come too early?"""

import logging
import warnings
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
    "ax": "widest, in Ax",
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
                self.note(name, count, int(same.int().argmax()))
        return self.stops.keys() >= bounds.keys()

    def note(self, name: str, count: int, recommended: int) -> None:
        r"""A certificate stopped after ``count`` observations with this arm."""
        regret = self.values.max() - self.values[recommended]
        self.stops[name] = count, float(regret) / GAP


def play_stop(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Play a search and ask both certificates in every round.

    The search is ``"logei"``: ``LogExpectedImprovement`` on a ``SingleTaskGP`` refitted in
    every round; ``"logei+widest"``: the family's upper bound in every second round;
    ``"widest"``: in all; ``"ax"``: the same in an Ax experiment; ``"known"``: the upper
    bound with the true kernel, whose certificate alone is asked.

    Returns:
        Observations at the stop by the family (0 without one) and true regret of the
        recommended point then, over the accepted gap; the same with the true kernel.
    """
    task = SimpleNamespace(**settings)
    referee = Referee(task)
    noise = stream(task.seed, "noise").standard_normal(task.rounds)
    noise = NOISE_STD * torch.from_numpy(noise)
    if task.search == "ax":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ax's own
            _play_in_ax(task, referee, noise)
    else:
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


def _play_in_ax(task: SimpleNamespace, referee: Referee, noise: Tensor) -> None:
    r"""Play in a client with Ax's model refitted; the family's stop is that of its rule."""
    from ax.api.client import Client
    from ax.api.configs import RangeParameterConfig
    from ax.utils.common.logger import set_ax_logger_levels

    import kernelucb.ax

    set_ax_logger_levels(logging.ERROR)
    client, last = Client(random_seed=task.seed), len(referee.arms) - 1
    whole = RangeParameterConfig(name="x", parameter_type="int", bounds=(0, last))
    client.configure_experiment(parameters=[whole])
    client.configure_optimization(objective="y")
    lengths = {"shortest": SHORTEST, "longest": LONGEST, "kernel": task.kernel}
    strategy = kernelucb.ax.generation_strategy(
        KernelFamilyUCB,
        lengths | GIVEN | {"select": "widest"},
        num_initial=START,
        seed=task.seed,
        optimizer_options={"num_restarts": 2, "raw_samples": 16},
    )
    client.set_generation_strategy(strategy)
    rule = kernelucb.ax.CertifiedGapStoppingStrategy(GAP, client)
    chosen: list[int] = []
    for number in range(task.rounds):
        ((index, parameters),) = client.get_next_trials(max_trials=1).items()
        chosen.append(int(parameters["x"]))
        outcomes = referee.values[chosen] + noise[: number + 1]
        client.complete_trial(trial_index=index, raw_data={"y": float(outcomes[-1])})
        if number + 1 < START:
            continue
        if "family" not in referee.stops and (decision := rule.decide()).stop:
            referee.note("family", number + 1, int(decision.arm.parameters["x"]))
        known = referee.known(referee.arms[chosen], outcomes)
        referee.ask({"known": known}, number + 1)
        if len(referee.stops) == 2:
            return
