r"""One selection among very many candidates after very many observations."""

import resource
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.runner import fixed_kernel
from benchmarks.scale.width import DELTA, NORM_BOUND, Stream
from kernelucb import BKBUCB, SketchedMartingaleMixtureUCB
from kernelucb.optim import chunked

HEADER = ("step", "wall_s", "cpu_s", "peak_GiB", "note")
SETTING = ("matern52", 0.3, 2)
NEW = 10


class _Log:
    r"""Wall and processor seconds of each step, and the peak memory after it."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []

    def step(self, name: str, action: Callable[[], Any]) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        result = action()
        seconds = time.perf_counter() - wall, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        self.rows.append([name, *(f"{value:.1f}" for value in seconds), f"{peak:.2f}", ""])
        return result

    def total(self, name: str, first: str) -> None:
        r"""Add up all steps since the one called ``first``."""
        names = [row[0] for row in self.rows]
        rows = self.rows[names.index(first) :]
        seconds = (f"{sum(float(row[at]) for row in rows):.1f}" for at in (1, 2))
        self.rows.append([name, *seconds, self.rows[-1][3], ""])

    def note(self, text: str) -> None:
        self.rows[-1][-1] = text


def play_large(settings: dict[str, Any]) -> dict[str, list]:
    r"""Rows of ``HEADER``, in the order in which the steps are taken.

    ``further`` points bound the remainder; None makes the pass over pairs.
    """
    task = SimpleNamespace(**settings)
    torch.set_num_threads(task.threads)
    name, lengthscale, dimension = SETTING
    log, kernel = _Log(), fixed_kernel(name, lengthscale)
    log.step("imports", lambda: None)
    stream = log.step(
        "data", lambda: Stream.make(kernel, task.observations, dimension, task.seed)
    )
    random = torch.Generator().manual_seed(1000 + task.seed)
    options = {"dtype": torch.float64, "generator": random}
    arms = torch.rand(task.candidates, dimension, **options)
    points = log.step("inducing points", lambda: stream.inducing_points(task.inducing))
    rest = None if task.further is None else stream.further_points(task.further)
    state = log.step("state", lambda: stream.state(points, rest))
    log.note(f"{len(points)} inducing points, remainder {state.remainder:.3g}")
    known: Any = {"norm_bound": NORM_BOUND, "delta": DELTA}
    band = partial(SketchedMartingaleMixtureUCB, fit="martingale", **known)
    acqf = log.step("band", lambda: band(state))
    log.note(_width(acqf, arms))
    log.step("selection", lambda: chunked.argmax(acqf, arms))
    log.total("from nothing to the first selection", "inducing points")
    new = arms[:NEW], torch.zeros(NEW, dtype=torch.float64)
    log.step(f"{NEW} more observations", lambda: band(state.observe(*new)))
    if task.further is None:
        return {"rows": log.rows}
    model = log.step("BKBModel", stream.model)
    log.note(f"{len(model.inducing_points)} inducing points")
    acqf = BKBUCB(model, radius="practical", **known)
    log.step("BKBUCB, selection", lambda: chunked.argmax(acqf, arms))
    columns = new[0], new[1].unsqueeze(-1)
    log.step(f"{NEW} more observations, BKBModel", lambda: model.observe(*columns))
    radius = log.step("prequential radius", stream.prequential_radius)
    acqf = log.step("band, prequential", lambda: band(state, fit=radius))
    log.note(_width(acqf, arms))
    return {"rows": log.rows}


def _width(acqf: SketchedMartingaleMixtureUCB, arms: torch.Tensor) -> str:
    with torch.no_grad():
        lower, upper = acqf.bounds(arms[:1000])
    squared = acqf.function_constraints.radius.squared(acqf.regression)
    return f"mean width {float((upper - lower).mean()):.4f}, squared radius {squared:.1f}"
