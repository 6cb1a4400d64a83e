r"""Finished runs on disk: one small file each, written whole or not at all."""

import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks.papers.flynn_reeb_2024.configuration import Task
from benchmarks.papers.flynn_reeb_2024.play import Run


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


class RunStore:
    r"""The finished runs under a folder; a finished run is never written again."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    def path(self, task: Task) -> Path:
        r"""Where the run of a task lies."""
        folder = self.folder / task.setting.name / task.method.name
        return folder / f"{task.rounds}-rounds-repetition-{task.repetition:03d}.json"

    def finished(self, task: Task) -> bool:
        r"""Whether the run is there.

        Raises:
            ValueError: If a run lies there that was made with other settings.
        """
        return self.path(task).exists() and self.load(task) is not None

    def save(self, task: Task, run: Run) -> None:
        r"""Keep a finished run, unless it is there already."""
        if self.path(task).exists():
            return
        content = {"task": asdict(task), **asdict(run)}
        write_atomically(self.path(task), json.dumps(content))

    def load(self, task: Task) -> Run:
        r"""A finished run.

        Raises:
            ValueError: If it was made with other settings.
        """
        path = self.path(task)
        content = json.loads(path.read_text(encoding="utf-8"))
        if _without_labels(content.pop("task")) != _without_labels(asdict(task)):
            raise ValueError(
                f"{path} was made with other settings than config.toml now has: choose "
                "another --output, or move the file away."
            )
        return Run(**content)


def _without_labels(task: dict) -> dict:
    r"""Names for the tables and the intended number of runs do not change a run."""
    method = {k: v for k, v in task["method"].items() if k != "label"}
    protocol = {k: v for k, v in task["protocol"].items() if k != "repetitions"}
    return {**task, "method": method, "protocol": protocol}
