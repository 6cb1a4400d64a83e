r"""Certified gaps in four and six dimensions, on functions of known norm."""

from time import process_time
from types import SimpleNamespace
from typing import Any

import torch
from botorch.optim import optimize_acqf

from benchmarks.experiments.problems import drawn, known_function
from benchmarks.runner import largest_value, quiet, seeded, unit_cube
from kernelucb import KernelRegression, MartingaleMixtureUCB, regret_certificate


def play_dimensions(settings: dict[str, Any]) -> dict[str, Any]:
    r"""One function, played by the upper bound; what is certified at every look.

    It depends on nothing else that was drawn in this process.

    Returns:
        ``gaps``: rigorous upper bounds on the regret of the recommended point. ``found``:
        what a point that was found may gain over it; the exact value is between.
        ``regrets``: the true ones. ``certified``: whether a certificate is. ``seconds``:
        processor time of each certificate.
    """
    task = SimpleNamespace(**settings)
    with seeded(task.stream, "own", task.problem, task.seed), quiet(RuntimeWarning):
        return _play(task)  # a search that begins anew warns


def _play(task: SimpleNamespace) -> dict[str, Any]:
    function, random = known_function(task, task.seed), drawn(task, "data", task.seed)
    inputs = torch.from_numpy(random.random((1, task.dimension)))
    noise = torch.from_numpy(random.standard_normal(task.looks[-1] + 1))
    noise, box = task.noise_std * noise, unit_cube(task.dimension)
    search = {"num_restarts": task.restarts, "raw_samples": task.raw_samples}
    search |= {"options": {"maxiter": task.iterations}}
    certificates, seconds = [], []

    def band() -> MartingaleMixtureUCB:
        outcomes = function(inputs) + noise[: len(inputs)]
        state = KernelRegression(inputs, outcomes, function.kernel, task.noise_std)
        return MartingaleMixtureUCB(state, norm_bound=task.norm, delta=task.delta)

    for number in range(1, task.looks[-1] + 1):
        point, _ = optimize_acqf(band(), box, q=1, **search)
        inputs = torch.cat([inputs, point.detach()])
        if number in task.looks:
            start, acqf = process_time(), band()
            certificates.append(
                regret_certificate(acqf, bounds=box, max_evaluations=task.evaluations)
            )
            seconds.append(process_time() - start)
    recommended = torch.stack([each.recommended for each in certificates])
    known = torch.cat([inputs, recommended, function.centres])
    regrets = largest_value(function, known) - function(recommended)
    return {
        "gaps": [each.gap for each in certificates],
        "found": [each.gap - each.resolution for each in certificates],
        "regrets": regrets.tolist(),
        "certified": [each.certified for each in certificates],
        "seconds": seconds,
    }
