r"""Finished runs on disk: one small file each, written whole or not at all."""

import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, TypeVar

from benchmarks.runner.configuration import typed
from benchmarks.runner.folders import BenchmarkError
from benchmarks.runner.tasks import Task

Run = TypeVar("Run")


def write_atomically(path: Path, text: str) -> None:
    r"""Write a file that is there in full or not at all, whenever this is interrupted."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".partial-", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


class RunStore(Generic[Run]):
    r"""The finished runs under a folder; a finished run is never written again.

    Args:
        folder: Holds one file for each run, at the task's ``location``.
        run_type: Dataclass of a run; its fields must survive JSON.
    """

    def __init__(self, folder: Path, run_type: type[Run]) -> None:
        self.folder = Path(folder)
        self.run_type = run_type

    def path(self, task: Task) -> Path:
        r"""Where the run of a task lies."""
        return self.folder / task.location

    def finished(self, task: Task) -> bool:
        r"""Whether the run is there.

        Raises:
            BenchmarkError: If a run lies there that was made with other settings.
        """
        return self.path(task).exists() and self.load(task) is not None

    def save(self, task: Task, run: Run) -> None:
        r"""Keep a finished run, unless it is there already."""
        if self.path(task).exists():
            return
        content: dict[str, Any] = {"task": asdict(task), **vars(run)}
        write_atomically(self.path(task), json.dumps(content))

    def load(self, task: Task) -> Run:
        r"""A finished run.

        Raises:
            BenchmarkError: If it was made with other settings, or the file is damaged.
        """
        path = self.path(task)
        settings, run = self._read(path)
        if not task.agrees_with(settings):
            raise BenchmarkError(
                f"{path} was made with other settings than config.toml now has: choose "
                "another --output, or move the file away."
            )
        return run

    def _read(self, path: Path) -> tuple[dict[str, Any], Run]:
        r"""The settings and the run in a file, its fields of the types that they have."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            settings = dict(content.pop("task"))
            return settings, typed(self.run_type, content)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise BenchmarkError(
                f"{path} is damaged ({type(error).__name__}: {error}): it was cut short or "
                "changed by hand. Move it away; the run is then made again."
            ) from error
