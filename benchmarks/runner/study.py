r"""A study: a grid of runs, a function that plays each of them, a table of them all.

A benchmark is a ``Study`` in its ``__main__`` and, for each command, ::

    @STUDY.table("arms", grid(PROBLEMS, {"rule": RULES, "seed": range(3)}), play)
    def arms(runs: pd.DataFrame) -> Summary:

``play`` maps the settings of one run (a flat dictionary of numbers and texts) to its
results (a dictionary that survives JSON); ``runs`` has a row for each run, with settings
and results as columns. A finished run lies in a file of its own, named by its settings: an
interrupted command goes on where it stopped, and changed settings are other runs. What a
run depends on must therefore be among its settings.
"""

import argparse
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from joblib import Parallel, delayed
from rich.progress import track

from benchmarks.runner.files import ROOT, BenchmarkError, write_atomically
from benchmarks.runner.tables import markdown_table, write_lines, write_table

Settings = dict[str, Any]
Player = Callable[[Settings], Mapping[str, Any]]


def grid(*axes: Mapping[str, Any] | Iterable[Settings]) -> list[Settings]:
    r"""The product of axes; the last changes fastest.

    Args:
        axes: A mapping is the product of its own values, each a list, a range, or one value
            for all; a list of settings is an axis whose items set several names at once.
    """
    expanded = [_product(each) if isinstance(each, Mapping) else each for each in axes]
    return [
        {name: value for part in parts for name, value in part.items()}
        for parts in product(*expanded)
    ]


def _product(values: Mapping[str, Any]) -> list[Settings]:
    lists = [v if isinstance(v, list | range) else [v] for v in values.values()]
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*lists)]


@dataclass(frozen=True)
class Summary:
    r"""What a table shows.

    Attributes:
        rows: All numbers, for ``results/<name>.csv``; None without the file.
        lines: ``results/<name>.md``, for the page; the rows as a table where it is empty,
            None without the file.
        draw: Draws a picture of its own, ``<study>_<name>.png``, at the path given.
    """

    rows: pd.DataFrame | None = None
    lines: Sequence[str] | None = ()
    draw: Callable[[Path], None] | None = None


@dataclass(frozen=True)
class _Table:
    runs: Sequence[Settings]
    play: Player | None
    summarize: Callable[..., Summary | pd.DataFrame | dict[str, Summary]]


class Study:
    r"""Commands that play runs and write tables, one command line for all.

    Args:
        package: Of the ``__main__``; ``runs`` (not committed) and ``results`` lie there.
        description: For the help.
    """

    def __init__(self, package: str, description: str) -> None:
        self.package, self.description = package, description
        self.folder = ROOT.joinpath(*package.split("."))
        self.tables: dict[str, _Table] = {}

    def table(
        self, name: str, runs: Sequence[Settings] = (), play: Player | None = None
    ) -> Callable:
        r"""Register a function of the frame of all runs; without ``play`` of nothing.

        It returns rows, a summary, or several, which add their keys to the name.
        """

        def register(summarize: Callable) -> Callable:
            self.tables[name] = _Table(runs, play, summarize)
            return summarize

        return register

    def _frame(self, name: str, call: argparse.Namespace) -> pd.DataFrame:
        r"""Play what is missing of a table; settings and results of all its runs."""
        table, folder = self.tables[name], (call.output or self.folder) / "runs"
        assert table.play is not None
        runs = _chosen(table.runs, call.only, call.change)
        files = [folder / table.play.__name__ / _file_name(each) for each in runs]
        missing = {f: s for f, s in zip(files, runs, strict=True) if not f.exists()}
        calls = [(table.play, settings, file) for file, settings in missing.items()]
        done: Any = (_played(*each) for each in calls)
        if call.jobs > 1:
            # One run at a time: what a worker has finished must not wait for a batch.
            options: Any = {"batch_size": 1, "return_as": "generator_unordered"}
            done = Parallel(call.jobs, **options)(delayed(_played)(*each) for each in calls)
        for _ in track(done, name, total=len(missing), disable=not missing):
            pass
        texts = (file.read_text(encoding="utf-8") for file in files)
        results = [json.loads(text)["results"] for text in texts]
        return pd.DataFrame([s | r for s, r in zip(runs, results, strict=True)])

    def main(self, arguments: Sequence[str] | None = None) -> None:
        r"""Run a command, and print its tables."""
        call = self._parser().parse_args(arguments)
        try:
            for path in self._run(call):
                print(path)
                if path.suffix == ".md":
                    print(path.read_text(encoding="utf-8"))
        except (BenchmarkError, FileNotFoundError) as error:
            raise SystemExit(str(error)) from error

    def _run(self, call: argparse.Namespace) -> Iterator[Path]:
        if (call.only or call.change) and call.output is None:
            raise BenchmarkError("A part or a change needs --output, beside the results.")
        pictures = (call.output or ROOT / "docs" / "results") / "images"
        for name in self.tables if call.command == "all" else [call.command]:
            table = self.tables[name]
            given = [] if table.play is None else [self._frame(name, call)]
            found = table.summarize(*given)
            parts = found if isinstance(found, dict) else {"": found}
            for key, part in parts.items():
                summary = Summary(part) if isinstance(part, pd.DataFrame) else part
                stem = f"{name}_{key}" if key else name
                yield from _written(summary, (call.output or self.folder) / "results", stem)
                if summary.draw is not None:
                    path = pictures / f"{self.folder.name}_{stem}.png"
                    summary.draw(path)
                    yield path

    def _parser(self) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(
            prog=f"python -m {self.package}",
            description=self.description,
            epilog="Finished runs are kept: an interrupted command goes on.",
        )
        commands = {
            name: (each.summarize.__doc__ or "").strip().partition("\n")[0]
            for name, each in self.tables.items()
        }
        commands |= {"all": "every table"}
        words = "; ".join(f"{name}: {text}" for name, text in commands.items())
        parser.add_argument("command", choices=commands, help=words.replace("%", "%%"))
        setting = {"nargs": "+", "default": [], "metavar": "NAME=VALUE[,VALUE]"}
        parser.add_argument("--only", help="runs with these settings", **setting)
        parser.add_argument("--change", help="a setting of all runs", **setting)
        parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
        parser.add_argument("--output", type=Path, help="folder of all that is written")
        return parser


def _written(summary: Summary, folder: Path, stem: str) -> Iterator[Path]:
    rows, lines = summary.rows, summary.lines
    if rows is not None:
        write_table(folder / f"{stem}.csv", rows)
        yield folder / f"{stem}.csv"
        cells = ([str(cell) for cell in row] for row in rows.to_numpy())
        lines = markdown_table([*rows.columns], cells) if lines == () else lines
    if lines:
        write_lines(folder / f"{stem}.md", lines)
        yield folder / f"{stem}.md"


def _played(play: Player, settings: Settings, file: Path) -> None:
    r"""Play one run in a worker, single-threaded, and keep it."""
    torch.set_num_threads(1)
    results = dict(play(dict(settings)))
    if clash := sorted(results.keys() & settings.keys()):
        raise BenchmarkError(f"Results must have names of their own; {clash} are settings.")
    write_atomically(file, json.dumps({"settings": settings, "results": results}))


def _file_name(settings: Settings) -> str:
    text = json.dumps(settings, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16] + ".json"


def _chosen(
    runs: Sequence[Settings], only: Sequence[str], change: Sequence[str]
) -> list[Settings]:
    r"""The runs that ``--only`` and ``--change`` ask for.

    Raises:
        BenchmarkError: If a name or value is unknown, or nothing is left.
    """
    runs = [dict(each) for each in runs]
    for text in (*only, *change):
        name, _, values = text.partition("=")
        if not any(name in each for each in runs) or not values:
            known = sorted({key for each in runs for key in each})
            raise BenchmarkError(f"{text!r} must be NAME=VALUE, with a name of {known}.")
        if text in change:
            for each in runs:
                each[name] = _like(each.get(name), values)
            continue
        wanted, found = values.split(","), {str(each.get(name)) for each in runs}
        if unknown := sorted(set(wanted) - found):
            raise BenchmarkError(f"No run has {name}={unknown}; there are {sorted(found)}.")
        runs = [each for each in runs if str(each.get(name)) in wanted]
    if not runs:
        raise BenchmarkError("No run has all these settings.")
    return [*{_file_name(each): each for each in runs}.values()]  # each once


def _like(value: Any, text: str) -> Any:
    r"""A value from the command line, of the type that it replaces."""
    return text if isinstance(value, str) else json.loads(text)
