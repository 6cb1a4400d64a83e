r"""Builds the package, installs its wheel into a fresh environment and tries it there.

``python .ci/clean_install.py lowest`` (or ``pinned``, ``newest``), in an environment with
the extra ``release``: sdist and the wheel made from it, what a package index would say of
them, an environment that has nothing else, the smoke test, the demo and its command.

The lowest versions are the resolver's (``uv``, lowest of what is asked for directly).
torch is overridden, by default with the pin of ``constraints.txt``: the other builds of
torch for Linux on the package index bring gigabytes of CUDA packages.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
# uv reads no setting of pip.
LIKE_PIP = {"UV_FIND_LINKS": "PIP_FIND_LINKS", "SSL_CERT_FILE": "PIP_CERT"}


def environment() -> dict[str, str]:
    r"""The variables of this process, without what would show the checkout to Python."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for name, model in LIKE_PIP.items():
        if model in variables:
            variables.setdefault(name, variables[model])
    return {**variables, "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}


def run(command: Sequence[object], folder: Path) -> str:
    r"""Run a command there and return what it prints; its failure ends this process."""
    started = time.perf_counter()
    words = [str(word) for word in command]
    print("+", " ".join(words), flush=True)
    done = subprocess.run(
        words, cwd=folder, env=environment(), text=True, capture_output=True, check=False
    )
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
        sys.exit(f"failed with status {done.returncode}: {' '.join(words)}")
    print(f"  {time.perf_counter() - started:.0f} s", flush=True)
    return done.stdout


def build(folder: Path) -> Path:
    r"""The wheel, made from the sdist; both are fit for a package index."""
    run([sys.executable, "-m", "build", "--outdir", folder, ROOT], folder)
    (sdist,) = folder.glob("*.tar.gz")
    (wheel,) = folder.glob("*.whl")
    run([sys.executable, "-m", "twine", "check", "--strict", sdist, wheel], folder)
    for path in (sdist, wheel):
        print(f"  {path.name}: {path.stat().st_size / 1e6:.1f} MB")
    return wheel


def install(wheel: Path, options: argparse.Namespace, folder: Path) -> Path:
    r"""A fresh environment with the wheel; returns its Python."""
    python = folder / "venv/bin/python"
    wanted = f"kernelucb[{options.extras}] @ {wheel.as_uri()}"
    if options.versions == "pinned":
        run([options.python, "-m", "venv", folder / "venv"], folder)
        run([python, "-m", "pip", "install", "-q", "-c", CONSTRAINTS, wanted], folder)
        return python
    uv = [sys.executable, "-m", "uv"]
    run([*uv, "venv", "--python", options.python, folder / "venv"], folder)
    (folder / "override.txt").write_text(options.torch + "\n")
    resolution = "lowest-direct" if options.versions == "lowest" else "highest"
    # From the checkout's own ranges: those of a wheel are not direct ones to the resolver.
    resolve = [*uv, "pip", "compile", "--python", python, "--resolution", resolution]
    resolve += [f"--extra={extra}" for extra in options.extras.split(",")]
    resolve += ["--override", "override.txt", "--output-file", "resolved.txt"]
    run([*resolve, ROOT / "pyproject.toml"], folder)
    add = [*uv, "pip", "install", "--python", python]
    run([*add, "-r", "resolved.txt"], folder)
    run([*add, "--no-deps", wheel], folder)
    run([*uv, "pip", "check", "--python", python], folder)
    return python


def try_out(python: Path, folder: Path) -> None:
    r"""The smoke test, the demo as a module and as a command."""
    print(run([python, "-W", "ignore", ROOT / ".ci/smoke.py"], folder))
    run([python, "-m", "kernelucb", "demo", "--rounds", 5, "--output", "demo.png"], folder)
    assert (folder / "demo.png").stat().st_size > 10_000
    run([python.with_name("kernelucb"), "demo", "--rounds", 1, "--no-picture"], folder)


def pinned_torch() -> str:
    r"""The line of ``constraints.txt`` that pins torch."""
    lines = CONSTRAINTS.read_text().splitlines()
    (pin,) = (line for line in lines if line.startswith("torch=="))
    return pin


def main() -> None:
    r"""Read the options, build, install, try."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", choices=("lowest", "pinned", "newest"))
    parser.add_argument("--extras", default="plot", help="separated by commas")
    parser.add_argument("--python", default=sys.executable, help="of the environment")
    parser.add_argument("--torch", default=pinned_torch(), help="requirement (not pinned)")
    parser.add_argument("--keep", type=Path, help="folder for the sdist and the wheel")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = build(folder)
        python = install(wheel, options, folder)
        try_out(python, folder)
        if options.keep is not None:
            options.keep.mkdir(parents=True, exist_ok=True)
            for path in (wheel, *folder.glob("*.tar.gz")):
                shutil.copy(path, options.keep)
    print(f"passed: {options.versions} versions, extras {options.extras}")


if __name__ == "__main__":
    main()
