r"""Certified gaps in four and six dimensions, on functions of known norm."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from time import process_time

import numpy as np
import torch
from botorch.optim import optimize_acqf
from botorch.utils.sampling import manual_seed

from benchmarks.experiments.configuration import DimensionsTask
from benchmarks.experiments.problems import KnownFunction, cube, drawn
from benchmarks.runner import Moments, RunStore, largest_value, markdown_table
from kernelucb import KernelRegression, MartingaleMixtureUCB, regret_certificate


@dataclass(frozen=True)
class Run:
    r"""What was certified at every look.

    Attributes:
        gaps: Rigorous upper bounds on the regret of the recommended point.
        found: What a point that was found may gain over it; the exact value is between.
        regrets: True regret of the recommended point.
        certified: Whether a certificate is.
        seconds: Processor time of each certificate.
        total_seconds: Of the whole run.
    """

    gaps: list[float]
    found: list[float]
    regrets: list[float]
    certified: list[bool]
    seconds: list[float]
    total_seconds: float


def play(task: DimensionsTask) -> Run:
    r"""Play one task. It depends on nothing else that was drawn in this process."""
    own = drawn(task.protocol, task.setting, "own", task.seed)
    with manual_seed(int(own.integers(2**31))), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a search that begins anew
        return _play(task)


def _play(task: DimensionsTask) -> Run:
    begin, setting, protocol = process_time(), task.setting, task.protocol
    function = KnownFunction.draw(protocol, setting, task.seed)
    random = drawn(protocol, setting, "data", task.seed)
    inputs = torch.from_numpy(random.random((1, setting.dimension)))
    noise = torch.from_numpy(random.standard_normal(task.looks[-1] + 1))
    noise, box = setting.noise_std * noise, cube(setting.dimension)
    certificates, seconds = [], []

    def band() -> MartingaleMixtureUCB:
        outcomes = function(inputs) + noise[: len(inputs)]
        state = KernelRegression(inputs, outcomes, function.kernel, setting.noise_std)
        return MartingaleMixtureUCB(state, norm_bound=setting.norm, delta=task.delta)

    for number in range(1, task.looks[-1] + 1):
        point, _ = optimize_acqf(
            band(),
            box,
            q=1,
            num_restarts=protocol.restarts,
            raw_samples=protocol.raw_samples,
            options={"maxiter": protocol.iterations},
        )
        inputs = torch.cat([inputs, point.detach()])
        if number in task.looks:
            start, acqf = process_time(), band()
            certificates.append(
                regret_certificate(acqf, bounds=box, max_evaluations=task.evaluations)
            )
            seconds.append(process_time() - start)
    recommended = torch.stack([each.recommended for each in certificates])
    known = torch.cat([inputs, recommended, function.centres])
    optimum = largest_value(function, known)
    return Run(
        [each.gap for each in certificates],
        [each.gap - each.resolution for each in certificates],
        (optimum - function(recommended)).tolist(),
        [each.certified for each in certificates],
        seconds,
        process_time() - begin,
    )


def rows(store: RunStore[Run], tasks: Sequence[DimensionsTask]) -> list[dict]:
    r"""One row for each look of each run."""
    found = []
    for task in tasks:
        run = store.load(task)
        for i, look in enumerate(task.looks):
            found.append(
                {
                    "setting": task.setting.title,
                    "seed": task.seed,
                    "rounds": look,
                    "gap": f"{run.gaps[i]:.5g}",
                    "found": f"{run.found[i]:.5g}",
                    "regret": f"{max(run.regrets[i], 0.0):.4g}",
                    "certified": run.certified[i],
                    "seconds": f"{run.seconds[i]:.3g}",
                }
            )
    return found


def table(found: list[dict], planned: int) -> list[str]:
    r"""Means over the seeds that are finished."""
    groups: dict[tuple, list[dict]] = {}
    for row in found:
        groups.setdefault((row["setting"], row["rounds"]), []).append(row)
    cells = []
    for (setting, rounds), group in groups.items():
        values = {
            name: Moments.of(float(row[name]) for row in group)
            for name in ("gap", "found", "regret", "seconds")
        }
        cells.append(
            [
                setting,
                f"{rounds}",
                *(
                    f"{values[name].mean:.3f} ± {values[name].standard_error:.3f}"
                    for name in ("gap", "found", "regret")
                ),
                f"{values['seconds'].mean:.1f}",
                f"{len(group)}",
            ]
        )
    looks = len({row["rounds"] for row in found})
    wrong = sum(float(row["regret"]) > float(row["gap"]) + 1e-6 for row in found)
    certified = sum(bool(row["certified"]) for row in found)
    header = ["function", "rounds", "certified gap", "found by the search", "true regret"]
    return [
        f"Mean ± standard error over seeds; {len(found) // looks} of {planned} runs are "
        f"finished. {certified} of {len(found)} certificates are certified, and {wrong} "
        f"were wrong. Largest gap: {np.max([float(row['gap']) for row in found]):.3g}.",
        "",
        *markdown_table([*header, "seconds", "seeds"], cells),
    ]
