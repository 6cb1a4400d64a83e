r"""Where things lie, and the error for what the caller of a command should change."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


class BenchmarkError(ValueError):
    r"""Says what to change in a command, file or folder; shown without a traceback."""


@dataclass(frozen=True)
class Folders:
    r"""Where runs, summaries and pictures of a benchmark go."""

    benchmark: str
    runs: Path
    results: Path
    pictures: Path

    @classmethod
    def of(cls, benchmark: Path, output: Path | None) -> "Folders":
        r"""The folders of a benchmark, or all of them under ``output``."""
        base = benchmark if output is None else output
        pictures = ROOT / "docs" / "results" if output is None else output
        return cls(benchmark.name, base / "runs", base / "results", pictures / "images")

    def picture(self, stem: str) -> Path:
        r"""Where a picture goes; its name begins with that of the benchmark."""
        return self.pictures / f"{self.benchmark}_{stem}.png"
