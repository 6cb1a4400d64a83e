r"""Running tasks side by side: processes of this machine (joblib) or a Ray cluster."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from joblib import Parallel, delayed, parallel_config
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from benchmarks.runner.folders import ROOT
from benchmarks.runner.store import RunStore
from benchmarks.runner.tasks import Task

TaskT = TypeVar("TaskT", bound=Task)
Run = TypeVar("Run")
Player = Callable[[TaskT], Run]


def play_single_threaded(task: TaskT, player: Player[TaskT, Run]) -> tuple[TaskT, Run]:
    r"""One task in a worker; the tasks run side by side, not the parts of one."""
    torch.set_num_threads(1)
    return task, player(task)


def run_tasks(
    tasks: Sequence[TaskT],
    store: RunStore[Run],
    player: Player[TaskT, Run],
    engine: str = "joblib",
    jobs: int = 1,
) -> int:
    r"""Play the tasks that are not finished yet, and save each as soon as it is.

    Args:
        tasks: What should be finished in the end.
        store: Where the finished runs lie.
        player: What plays a task; must survive pickling for more than one job.
        engine: One of ``ENGINES``: processes of this machine, or Ray.
        jobs: Number of processes, or of local Ray workers; a running Ray cluster, named
            by the environment variable ``RAY_ADDRESS``, is used as it is.

    Returns:
        The number of tasks that were played.
    """
    pending = [task for task in tasks if not store.finished(task)]
    done = len(tasks) - len(pending)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, refresh_per_second=1) as progress:
        bar = progress.add_task("runs", total=len(tasks), completed=done)
        if pending:
            for task, run in ENGINES[engine](pending, jobs, player):
                store.save(task, run)
                progress.advance(bar)
    return len(pending)


def _with_joblib(
    tasks: Sequence[TaskT], jobs: int, player: Player[TaskT, Run]
) -> Iterator[tuple[TaskT, Run]]:
    work = (delayed(play_single_threaded)(task, player) for task in tasks)
    if jobs == 1:
        serial: Any = Parallel(n_jobs=1, return_as="generator")
        yield from serial(work)
        return
    # One task at a time: what a worker has finished must not wait for its batch.
    options: dict[str, Any] = {"batch_size": 1, "return_as": "generator_unordered"}
    with parallel_config(backend="loky", inner_max_num_threads=1):
        parallel: Any = Parallel(n_jobs=jobs, **options)
        yield from parallel(work)


def _with_ray(
    tasks: Sequence[TaskT], jobs: int, player: Player[TaskT, Run]
) -> Iterator[tuple[TaskT, Run]]:
    try:
        import ray
    except ImportError as error:
        raise ImportError("--engine ray needs Ray: pip install kernelucb[ray]") from error
    address = os.environ.get("RAY_ADDRESS")
    local = {} if address else {"num_cpus": jobs, "include_dashboard": False}
    # The benchmark's code travels to the workers; kernelucb itself is installed there.
    code = {"py_modules": [str(ROOT / "benchmarks")], "excludes": ["runs", "results"]}
    ray.init(address=address or "local", runtime_env=code, log_to_driver=False, **local)
    try:
        remote = ray.remote(num_cpus=1, max_retries=2)(play_single_threaded)
        waiting = [remote.remote(task, player) for task in tasks]
        while waiting:
            ready, waiting = ray.wait(waiting, num_returns=1)
            yield ray.get(ready[0])
    finally:
        ray.shutdown()


ENGINES = {"joblib": _with_joblib, "ray": _with_ray}
