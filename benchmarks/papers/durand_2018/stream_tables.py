r"""Figures 4 to 6 in numbers: noise intervals and widths of bands."""

# ruff: noqa: RUF001  (the tables have Greek letters)

from pathlib import Path

import numpy as np

from benchmarks.papers.durand_2018.summaries import Streams, digits, verdict
from benchmarks.runner import markdown_table, write_summary

BANDS = {
    "exact": "exact, mixture of scales",
    "exact_one": "exact, scale 1",
    "theorem1": "Theorem 1, λ = σ²/C²",
    "theorem1_noise": "Theorem 1, λ = σ²",
    "wang": "Wang & de Freitas, λ = σ²",
    "joint": "joint set (ours)",
    "adaptive": "Corollary 1 (adaptive)",
    "fixed": "Theorem 1 (fixed)",
}
KNOWN = {
    "exact": "σ",
    "exact_one": "σ, c",
    "theorem1": "σ",
    "theorem1_noise": "σ",
    "wang": "σ; holds at each t alone",
    "joint": "0.01 ≤ σ ≤ 1",
    "adaptive": "0.01 ≤ σ ≤ 1",
    "fixed": "σ ≤ 1",
}
RATIOS = (
    ("joint", "exact"),
    ("joint", "exact_one"),
    ("adaptive", "joint"),
    ("fixed", "adaptive"),
    ("theorem1_noise", "wang"),
    ("theorem1", "wang"),
)
TARGET_HEADER = ("claim or target", "measured", "met")


def write_noise(streams: Streams, folder: Path) -> list[Path]:
    r"""``noise.csv`` and ``noise.md``: the intervals at all kept rounds, and some."""
    rounds = streams.table_rounds
    cells = [
        (
            _noise_label(streams, name),
            *(_interval(streams, name, number) for number in rounds),
            f"{streams.noise_missed(name)} of {len(streams.runs)}",
        )
        for name in streams.runs[0].intervals
    ]
    header = ("bound", *(f"t = {number}" for number in rounds), "missed σ")
    lines = [
        f"Interval for the noise scale as multiples of the true one, medians over "
        f"{len(streams.runs)} functions; every interval starts from 0.01 below and fails "
        f"with probability at most {streams.protocol.delta:g}.",
        "",
        *markdown_table(header, cells),
        "",
        *markdown_table(TARGET_HEADER, _noise_targets(streams)),
    ]
    return write_summary(folder, streams.stem("noise"), _noise_rows(streams), lines)


def _noise_rows(streams: Streams) -> list[dict]:
    rows = []
    for name in streams.runs[0].intervals:
        bounds = streams.bounds(name)
        low, middle, high = np.quantile(bounds, (0.25, 0.5, 0.75), axis=0, method="nearest")
        for index, number in enumerate(streams.rounds):
            row: dict = {"bound": name, "round": number}
            for side, label in enumerate(("lower", "upper")):
                row[f"{label}_quartile1"] = round(float(low[index, side]), 5)
                row[f"{label}_median"] = round(float(middle[index, side]), 5)
                row[f"{label}_quartile3"] = round(float(high[index, side]), 5)
            rows.append({**row, "n": len(streams.runs)})
    return rows


def _noise_label(streams: Streams, name: str) -> str:
    if name == "joint":
        return "joint set (ours), from σ ≤ 1"
    kind, guess = name.split()
    start = "from nothing above" if guess == "none" else f"from σ ≤ {guess}"
    return f"Theorem 3, {kind} λ, {start}"


def _interval(streams: Streams, name: str, number: int) -> str:
    lower, upper = np.median(
        streams.bounds_at(name, number) / streams.protocol.noise_std, axis=0
    )
    return f"[{digits(lower)}, {digits(upper)}]"


def _noise_targets(streams: Streams) -> list[tuple[str, str, str]]:
    last = streams.table_rounds[-1]
    noise_std, guesses = streams.protocol.noise_std, streams.stream.noise_guesses
    starts = [f"{guess:g}" for guess in guesses] + ["none"]
    uppers = np.stack(
        [streams.bounds_at(f"adaptive {start}", last)[:, 1] for start in starts]
    )
    spread = float((uppers.max(axis=0) / uppers.min(axis=0) - 1.0).max())
    upper = float(np.median(uppers[0])) / noise_std
    fixed = [
        float(np.median(streams.bounds_at(f"fixed {g:g}", last)[:, 1])) for g in guesses
    ]
    joint = streams.bounds_at("joint", last) / noise_std
    lower, above = np.median(joint, axis=0)
    inside = int(((joint[:, 0] >= 0.75) & (joint[:, 1] <= 1.25)).sum())
    return [
        (
            "the adaptive upper bound converges to the same value whatever the start",
            f"largest difference at t = {last}: {100 * spread:.2g} %",
            verdict(spread < 0.01),
        ),
        (
            f"it is 2.5 to 3 σ at t = {last}",
            f"{upper:.2f} σ",
            verdict(2.5 <= upper <= 3.0),
        ),
        (
            f"it is below the one at a fixed λ (t = {last})",
            f"fixed: {', '.join(digits(each / noise_std) for each in fixed)} σ",
            verdict(all(each > upper * noise_std for each in fixed)),
        ),
        (
            f"the joint interval is within 25 % of σ on both sides at t = {last}",
            f"median [{lower:.3f}, {above:.3f}] σ; {inside} of {len(joint)} functions",
            verdict(lower >= 0.75 and above <= 1.25),
        ),
    ]


def write_band(streams: Streams, folder: Path) -> list[Path]:
    r"""``band.csv`` and ``band.md``: mean widths, their ratios, misses."""
    rounds = streams.table_rounds
    header = ("band", "knows", *(f"t = {number}" for number in rounds), "functions missed")
    widths = [
        (
            BANDS[name],
            KNOWN[name],
            *(digits(float(streams.widths(name, number).mean())) for number in rounds),
            f"{streams.missed(name)} of {len(streams.runs)}",
        )
        for name in BANDS
    ]
    ratios = [
        (
            f"{BANDS[above]} / {BANDS[below]}",
            *(f"{_ratio(streams, above, below, number):.2f}" for number in rounds),
        )
        for above, below in RATIOS
    ]
    lines = [
        f"Mean width over [0, 1], outcome units, mean over {len(streams.runs)} functions; "
        f"every band fails with probability at most {streams.protocol.delta:g}.",
        "",
        *markdown_table(header, widths),
        "",
        *markdown_table(("ratio of mean widths", *header[2:-1]), ratios),
        "",
        *markdown_table(TARGET_HEADER, _band_targets(streams)),
    ]
    return write_summary(folder, streams.stem("band"), _band_rows(streams), lines)


def _band_rows(streams: Streams) -> list[dict]:
    return [
        {
            "band": name,
            "round": number,
            "mean_width": round(float(streams.widths(name, number).mean()), 5),
            "std": round(float(streams.widths(name, number).std()), 5),
            "functions_missed": sum(run.misses[name][index] for run in streams.runs),
            "n": len(streams.runs),
        }
        for name in BANDS
        for index, number in enumerate(streams.rounds)
    ]


def _ratio(streams: Streams, above: str, below: str, number: int) -> float:
    return float(
        streams.widths(above, number).mean() / streams.widths(below, number).mean()
    )


def _band_targets(streams: Streams) -> list[tuple[str, str, str]]:
    rounds = streams.table_rounds
    late = [number for number in rounds if number >= 200]
    early = [number for number in rounds if number in (50, 200)]
    close = [_ratio(streams, "joint", "exact", number) for number in late]
    gains = [_ratio(streams, "adaptive", "joint", number) for number in early]
    wider = [_ratio(streams, "fixed", "adaptive", number) for number in rounds]
    return [
        (
            "joint at most 1.15 times the band that knows the noise, from t = 200 on",
            _values(close, late),
            verdict(all(ratio <= 1.15 for ratio in close)),
        ),
        (
            "joint at least 5 times narrower than Corollary 1 at t = 50 and 200",
            _values(gains, early),
            verdict(all(ratio >= 5.0 for ratio in gains)),
        ),
        (
            "the adaptive band improves on the fixed one (at the last round)",
            "fixed / adaptive: " + _values(wider, rounds),
            verdict(wider[-1] > 1.0),
        ),
    ]


def _values(values: list[float], rounds: list[int]) -> str:
    pairs = zip(values, rounds, strict=True)
    return ", ".join(f"{value:.2f} (t = {number})" for value, number in pairs)
