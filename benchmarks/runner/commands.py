r"""One command line for every benchmark: its commands, their options, what they write."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from benchmarks.runner.engines import ENGINES, run_tasks
from benchmarks.runner.folders import ROOT, BenchmarkError, Folders
from benchmarks.runner.store import RunStore
from benchmarks.runner.tasks import Task

Item = TypeVar("Item")


class Option(NamedTuple):
    r"""An option or argument of a command, as ``argparse`` takes it."""

    flag: str
    keywords: dict[str, Any]


def option(flag: str, **keywords: Any) -> Option:
    r"""Any option; keywords as for ``ArgumentParser.add_argument``."""
    return Option(flag, keywords)


def _positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


def number(flag: str, help: str, default: int | None = None) -> Option:
    r"""An option that is a whole number of at least 1."""
    return option(flag, type=_positive, help=help, default=default)


def names(flag: str, help: str, **keywords: Any) -> Option:
    r"""An option that is a list of names; see ``chosen``."""
    return option(flag, nargs="+", help=help, **keywords)


_KEPT = "Finished runs are kept: an interrupted command continues where it stopped."
# How runs are played; see ``run_tasks``.
RUN_OPTIONS = (
    option("--engine", choices=tuple(ENGINES), default="joblib"),
    number("--jobs", "processes, or local Ray workers", default=1),
)


@dataclass(frozen=True)
class Call:
    r"""A command as it was called.

    Attributes:
        command: Its name.
        options: What was given.
        folders: Where runs, summaries and pictures go, by ``--output``.
    """

    command: str
    options: argparse.Namespace
    folders: Folders

    def play(
        self, tasks: Sequence[Task], run_type: type, player: Callable, below: str = ""
    ) -> RunStore:
        r"""Play what is missing; the store then holds the runs of all tasks."""
        store = RunStore(self.folders.runs / below, run_type)
        run_tasks(tasks, store, player, self.options.engine, self.options.jobs)
        return store


class _Command(NamedTuple):
    run: Callable[[Call], Iterable[Path] | None]
    options: tuple[Option, ...]


class Benchmark:
    r"""The commands of a benchmark, and its command line.

    Args:
        package: Name of the package, or of the module with the command.
        description: For its help.
        options: Of all its commands, besides ``--output``.
    """

    def __init__(self, package: str, description: str, *options: Option) -> None:
        self.package, self.description, self.options = package, description, options
        self.folder = ROOT.joinpath(*package.split("."))
        self.commands: dict[str, _Command] = {}

    def command(self, *names: str, options: Sequence[Option] = ()) -> Callable:
        r"""Register a function of a ``Call`` that returns the files that it wrote.

        The name ``""`` is that of the only command of a module, which needs no word.
        """

        def register(run: Callable) -> Callable:
            own = _Command(run, (*self.options, *options))
            self.commands |= dict.fromkeys(names, own)
            return run

        return register

    def call(self, arguments: Sequence[str] | None = None) -> Call:
        r"""Read a command line."""
        options = self._parser().parse_args(arguments)
        return Call(options.command, options, Folders.of(self.folder, options.output))

    def main(self, arguments: Sequence[str] | None = None) -> None:
        r"""Run one command; print the files that it wrote, and the tables among them."""
        call = self.call(arguments)
        try:
            files = self.commands[call.command].run(call) or ()
        except (BenchmarkError, FileNotFoundError) as error:
            raise SystemExit(str(error)) from error
        for path in files:
            print(path)
            if path.suffix == ".md":
                print(path.read_text(encoding="utf-8"))

    def _parser(self) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(
            prog=f"python -m {self.package}",
            description=self.description,
        )
        if "" in self.commands:
            return self._with_options(parser, "")
        choices = parser.add_subparsers(required=True)
        for name in self.commands:
            run, options = self.commands[name]
            words = (run.__doc__ or "").replace("%", "%%")
            kept = _KEPT if RUN_OPTIONS[0] in options else None
            one = choices.add_parser(name, help=words, description=words, epilog=kept)
            self._with_options(one, name)
        return parser

    def _with_options(
        self, parser: argparse.ArgumentParser, name: str
    ) -> argparse.ArgumentParser:
        options = {"--output": {"type": Path, "help": "folder of all that is written"}}
        for flag, keywords in (options | dict(self.commands[name].options)).items():
            parser.add_argument(flag, **keywords)
        parser.set_defaults(command=name)
        return parser


def chosen(items: Iterable[Item], names: Sequence[str] | None, option: str) -> list[Item]:
    r"""The items with these names, in their own order; all of them without names."""
    known: dict[str, Item] = {item.name: item for item in items}  # pyright: ignore[reportAttributeAccessIssue]
    if unknown := set(names or ()) - set(known):
        raise SystemExit(f"{option}: unknown {sorted(unknown)}; known are {list(known)}.")
    return [item for name, item in known.items() if not names or name in names]
