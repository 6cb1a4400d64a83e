r"""The replays of a search on functions like its own, kept in a file."""

import json
import os
import pickle
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
from botorch.exceptions import UnsupportedError
from botorch.utils.sampling import manual_seed
from numpy.typing import NDArray
from rich.progress import track
from scipy.optimize import minimize
from torch import Tensor

from kernelucb._numerics.checks import whole_number
from kernelucb.calibration.claims import (
    Claim,
    Look,
    Margins,
    RegretClaim,
    Truth,
    residual,
    statistics_of,
)
from kernelucb.calibration.policy import Functions, Loop, Problem, digest_of
from kernelucb.exceptions import ReplayError

_DENSE = 8192  # points of a box at which a function is looked at for its optimum
_CLIMBS = 6  # local searches, from the best of these
_TRIED = 3  # rounds that are played twice before all else


class Line(TypedDict):
    r"""A finished replay, as it stands in the file."""

    replay: int
    scores: dict[str, list[float]]
    statistics: dict[str, list[float]]


@dataclass(frozen=True)
class Replays:
    r"""What a replay depends on but for its number."""

    loop: Loop
    functions: Functions
    claims: Sequence[Claim]
    seed: int

    @property
    def settings(self) -> dict[str, object]:
        r"""All of it, as numbers and texts."""
        names = [claim.name for claim in self.claims]
        functions = type(self.functions).__name__, digest_of(self.functions.settings)
        own = {"functions": functions, "claims": names, "seed": self.seed}
        return self.loop.settings | own

    def play(self, number: int, rounds: int) -> Line:
        r"""Scores and statistics of one replay, up to so many outcomes."""
        loop = self.loop
        seeds = np.random.SeedSequence([self.seed, number]).generate_state(3).tolist()
        random = torch.Generator().manual_seed(seeds[0])
        problem = self.functions.draw(number, random)
        X = loop.first_inputs(seeds[1])
        noise = problem.noise_std * torch.randn(rounds, 1, generator=random).double()
        f, looks = problem.values(X), list[Look]()
        statistics: dict[str, list[float]] = {"residual": [0.0], "noise": [], "norm": []}
        with manual_seed(seeds[2]):  # and with the global state as it was, after it
            while True:
                Y = f.unsqueeze(-1) + noise[: len(X)]
                model, candidate = loop.round(X, Y)
                looks.append(Look.of(model, X, loop))
                for name, value in statistics_of(model, X, Y).items():
                    statistics[name].append(_upwards(value))
                if len(X) == rounds:
                    break
                value = problem.values(candidate)
                outcome = float(value + noise[len(X)])
                size = _upwards(residual(model, candidate, outcome))
                statistics["residual"].append(size)
                X, f = torch.cat([X, candidate]), torch.cat([f, value])
        best, at_points = optimum(loop, problem, X), problem.values(loop.points)
        truths = [Truth(torch.cat([f[: look.runs], at_points]), best) for look in looks]
        scores = {
            claim.name: [
                _upwards(claim.score(look, truth))
                for look, truth in zip(looks, truths, strict=True)
            ]
            for claim in self.claims
        }
        return Line(replay=number, scores=scores, statistics=statistics)


def _upwards(score: float) -> float:
    r"""Six digits, not below."""
    return float(f"{score * (1.0 + 5e-6):.6g}")


def optimum(loop: Loop, problem: Problem, X: Tensor) -> float:
    r"""The best value on the domain, of a box as found by a search that knows ``X``."""
    sign, region = 1.0 if loop.maximize else -1.0, loop.region
    points = torch.cat([X, region.sample(_DENSE)])
    values = sign * problem.values(points)
    found = float(values.max())
    if not region.is_finite:
        limits = list(zip(region.lower[0].tolist(), region.upper[0].tolist(), strict=True))

        def loss(x: NDArray[np.float64]) -> float:
            return -sign * float(problem.values(torch.from_numpy(x).double().unsqueeze(0)))

        for start in points[values.topk(_CLIMBS).indices].numpy():
            climb = minimize(loss, start, method="L-BFGS-B", bounds=limits)
            found = max(found, -float(climb.fun))
    return sign * found


@contextmanager
def _one_thread() -> Generator[None, None, None]:
    # The last digits of sums depend on the number of threads, and a search on digits.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _played(replays: Replays, number: int) -> Line:
    try:
        with _one_thread():
            return replays.play(number, replays.loop.rounds)
    except Exception as error:
        error.add_note(f"In replay {number}; finished replays are kept.")
        raise


def calibrate(
    loop: Loop,
    functions: Functions,
    replays: int,
    path: str | Path,
    *,
    claims: Sequence[Claim] = (RegretClaim(),),
    seed: int = 0,
    jobs: int = 1,
    progress: bool = True,
) -> Margins:
    r"""Replay a search on functions like its own, and keep the scores of its claims.

    The random numbers of a replay follow from ``seed`` and its number, so that more replays
    extend a file. Every finished replay is a line of it, written at once and never again:
    interrupted, the next call goes on. The first replays by number count, not those that
    finish first, which are no fair sample.

    Example:
        >>> margins = calibrate(loop, Simulator(draw), 199, "margins.jsonl", jobs=2)
        >>> margins.margin(RegretClaim(), delta=0.1)

    Source: ours, by the ranks of exchangeable numbers; see ``docs/mathematics.md``.

    Args:
        loop: The search.
        functions: ``Tables``, a ``Simulator`` or ``PriorDraws``.
        replays: How many.
        path: The file, new or of the same settings.
        claims: Claims whose scores are kept.
        seed: Of all replays.
        jobs: Number of processes; with more than one, ``choose`` and the functions stand in
            a module that other processes can import.
        progress: Whether to show a progress bar.

    Raises:
        ReplayError: If the file is of other settings, or two replays of one seed differ.
        ValueError: If there are fewer functions than replays, or a number is out of range.
        UnsupportedError: If other processes cannot import ``choose`` or the functions.
    """
    count, jobs = whole_number("replays", replays), whole_number("jobs", jobs)
    if functions.most is not None and count > functions.most:
        raise ValueError(f"There are {functions.most} functions for {count} replays.")
    every = Replays(loop, functions, tuple(claims), seed)
    file = _File(Path(path), every.settings)
    missing = [number for number in range(count) if number not in file.lines]
    if missing:
        _check_repeatable(every, missing[0])
    done = _results(partial(_played, every), missing, jobs)
    hidden = not (progress and missing)
    for line in track(done, "Replays", total=len(missing), disable=hidden):
        file.append(line)
    return file.margins(loop, functions, count)


def _check_repeatable(every: Replays, number: int) -> None:
    rounds = min(every.loop.starts + _TRIED, every.loop.rounds)
    with _one_thread():
        first, second = (every.play(number, rounds) for _ in range(2))
    # As texts: scores that are no number are equal to themselves.
    if json.dumps(first) != json.dumps(second):
        raise ReplayError(
            "Two replays of one seed differ: choose or the function depends on more than "
            "its arguments. Draw random numbers from torch alone (which is seeded), and "
            "keep nothing from one call to the next."
        )


def _results(
    play: Callable[[int], Line], missing: Sequence[int], jobs: int
) -> Iterator[Line]:
    if jobs == 1:
        yield from map(play, missing)
        return
    try:
        pickle.dumps(play)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UnsupportedError(
            "Other processes cannot import choose or the functions: write them in a "
            f"module, or give jobs=1 ({error})."
        ) from error
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            for future in as_completed([pool.submit(play, number) for number in missing]):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


class _File:
    r"""The first line has the settings, each further one a replay."""

    def __init__(self, path: Path, settings: dict[str, object]) -> None:
        self.path, self.lines = path, dict[int, Line]()
        head: dict[str, object] = {"digest": digest_of(settings), "settings": settings}
        first = json.dumps(head | {"with": versions()}) + "\n"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if first.startswith(text) and text != first:  # none, or a kill within this line
            path.write_text(first, encoding="utf-8")
            return
        if (named := _difference(text, head)) is not None:
            raise ReplayError(
                f"{path} is of other settings{named}: give another file, or the settings "
                "of that one."
            )
        whole = text[: text.rfind("\n") + 1]  # a kill may leave half a line
        if whole != text:
            os.truncate(path, len(whole.encode()))
        for line in map(json.loads, whole.splitlines()[1:]):
            self.lines.setdefault(line["replay"], line)

    def append(self, line: Line) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.lines[line["replay"]] = line

    def margins(self, loop: Loop, functions: Functions, count: int) -> Margins:
        r"""Of the first ``count`` replays, whatever else the file has."""
        series = [self.lines[number] for number in range(count)]
        scores = _stacked([each["scores"] for each in series])
        statistics = _stacked([each["statistics"] for each in series])
        return Margins(loop, functions.statement, scores, statistics, first=loop.starts)


def versions() -> dict[str, str]:
    r"""Of the packages that decide how a model is fitted and searched."""
    return {name: version(name) for name in ("botorch", "gpytorch", "torch")}


def _difference(text: str, head: dict[str, object]) -> str | None:
    r"""Which settings are others, in brackets, if known; None if all are the same."""
    try:
        known: Any = json.loads(text.partition("\n")[0])
        if known["digest"] == head["digest"]:
            return None
        now, then = json.loads(json.dumps(head["settings"])), known["settings"]
    except (ValueError, LookupError, TypeError):
        return ""
    return f" ({', '.join(name for name in now if then.get(name) != now[name])})"


def _stacked(rows: Sequence[dict[str, list[float]]]) -> dict[str, Tensor]:
    # Doubles from the beginning: torch reads lists as single precision.
    return {
        name: torch.tensor([row[name] for row in rows], dtype=torch.float64)
        for name in rows[0]
    }
