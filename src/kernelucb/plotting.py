r"""Pictures of bands, gaps and safe sets (extra ``plot``); only public names import them.

A legend says "certified" only if the assumptions of the drawn band or certificate do. Every
function takes the axes ``ax`` to draw on (new axes when absent), returns the axes, and
raises ``ImportError`` without matplotlib. Inputs and outcomes are tensors in their own
units; names and labels are printed as given, so include units.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb._numerics.checks import nonnegative_scalar, training_targets, whole_number
from kernelucb._numerics.domains import checked_box, checked_points
from kernelucb._numerics.palette import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    SOUGHT,
)
from kernelucb.certificates import RegretCertificate
from kernelucb.certificates.words import gaps_in_words
from kernelucb.confidence.band import BandLike, band_of
from kernelucb.data.exact import runs_by_input
from kernelucb.diagnostics import noise_regions
from kernelucb.safety import SafeSet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:
    Axes = Any  # type hints can be read, and arguments checked, without matplotlib

# Styles of the outlines, in the order of the bands; each has dashes of its own.
OUTLINES: tuple[dict[str, Any], ...] = (
    {"color": GREEN, "linestyle": (0, (6, 2)), "linewidth": 1.5},
    {"color": SOUGHT, "linestyle": (0, (6, 2, 1.2, 2)), "linewidth": 1.5},
    {"color": PURPLE, "linestyle": (0, (1.2, 1.6)), "linewidth": 1.8},
    {"color": SKY, "linestyle": (0, (3, 1.5)), "linewidth": 1.5},
    {"color": GREY, "linestyle": (0, (8, 3, 1, 3, 1, 3)), "linewidth": 1.5},
)
CHOSEN: dict[str, Any] = {"marker": "D", "s": 30, "color": ORANGE}
CHOSEN |= {"edgecolors": BLACK, "linewidths": 0.6}
RC: dict[str, Any] = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11,
    "axes.labelsize": 10.5,
    "font.size": 10,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "figure.dpi": 110,
    "savefig.dpi": 200,
}

_ON_THE_LINE = 0.05  # of the runs' range in every other input: nearer runs are not pale
_HEADROOM = 2.0  # reach of the picture beyond the first band, in heights of that band
_CHANCE = 0.025  # of each side of the intervals of a noise scale


class HasBounds(Protocol):
    r"""A band, or an acquisition function of one."""

    def bounds(self, X: Tensor, /) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bounds at ``n x d`` points, outcome units."""
        ...


class HasCertificate(Protocol):
    r"""A decision or a report that rests on a certificate."""

    @property
    def certificate(self) -> RegretCertificate | None:
        r"""The certificate; None where there was none."""
        ...


# What there is of a round; None where there was nothing
Found = RegretCertificate | HasCertificate | None


@torch.no_grad()
def plot_bands(
    acquisitions: Mapping[str, BandLike],
    X: Tensor,
    *,
    coordinate: int = 0,
    data: tuple[Tensor, Tensor] | None = None,
    chosen: tuple[Tensor, Tensor] | None = None,
    true_function: Callable[[Tensor], Tensor] | None = None,
    show_mean: bool = True,
    ax: Axes | None = None,
    legend: bool = True,
    x_label: str = "input x",
    y_label: str = "outcome y",
    data_name: str = "data",
) -> Axes:
    r"""Draw confidence bands along a line of points, with data and the true function.

    The band of the first acquisition function is filled and its posterior mean drawn; the
    others are outlines. Outlines far beyond the first band are cut off, and the picture
    says so.

    Example:
        >>> X = torch.linspace(-1, 1, 400, dtype=torch.float64).unsqueeze(-1)
        >>> bands = {"filters": MartingaleMixtureUCB(model, norm_bound=10.0),
        ...          "Abbasi-Yadkori": AbbasiYadkoriUCB(model, norm_bound=10.0)}
        >>> plot_bands(bands, X, data=(train_X, train_Y))

    Args:
        acquisitions: Acquisition functions by their names in the legend.
        X: ``n x d`` points along the line, in drawing order (see ``slice_points``).
        coordinate: Column of ``X`` on the horizontal axis.
        data: ``n x d`` inputs and ``n`` or ``n x 1`` outcomes, outcome units.
        chosen: Inputs and outcomes of the points that the bound chose, as ``data``.
        true_function: Maps ``n x d`` points to ``n`` values without noise.
        show_mean: Whether to draw the posterior mean, within a known range.
        ax: Where to draw.
        legend: Whether to draw a legend.
        x_label: Horizontal label.
        y_label: Vertical label.
        data_name: Name of ``data`` in the legend.

    Raises:
        ValueError: If ``acquisitions`` is empty.
        BotorchTensorDimensionError: If ``X`` is not ``n x d``.
    """
    if not acquisitions:
        raise ValueError("acquisitions must hold at least one acquisition function.")
    bands = [band_of(name, acqf) for name, acqf in acquisitions.items()]
    x, ax = checked_points("X", X)[:, coordinate], axes_or_new(ax)
    low = high = 0.0
    for index, (name, band) in enumerate(zip(acquisitions, bands, strict=True)):
        lower, upper = band.bounds(X)
        style: dict[str, Any] = OUTLINES[(index - 1) % len(OUTLINES)] | {"zorder": 1.5}
        if index == 0:
            low, high = float(lower.min()), float(upper.max())
            ax.fill_between(x, lower, upper, color=BLUE, alpha=0.25, lw=0, label=name)
            style = {"color": BLUE, "linewidth": 0.9, "zorder": 1.4}
        ax.plot(x, lower, **style)
        ax.plot(x, upper, label=name if index else None, **style)
    functions = bands[0].confidence_set
    if show_mean and functions is not None:
        latent = bands[0].data.mean(X).clamp(-functions.limit(-1), functions.limit(1))
        mean = bands[0].outcome_map.inverse(latent)
        ax.plot(x, mean, color=BLUE, lw=1.3, ls=(0, (4, 2)), label="mean")
    if true_function is not None:
        truth = true_function(X).reshape(-1)
        ax.plot(x, truth, color=BLACK, lw=1.6, label="true function")
    dots = {"marker": "o", "s": 14, "color": GREY, "linewidths": 0, "label": data_name}
    for points, style in (data, dots), (chosen, CHOSEN | {"label": "chosen points"}):
        if points is not None:
            at, Y = (each.detach().double().cpu() for each in points)
            # Runs off the line say less of it: they are pale. A constant input has range 0.
            apart = (at - X[:1].cpu()) / (at.amax(0) - at.amin(0)).clamp_min(1e-300)
            apart[:, coordinate] = 0.0
            pale: Any = torch.where(apart.abs().amax(-1) > _ON_THE_LINE, 0.25, 1.0).numpy()
            ax.scatter(at[:, coordinate], Y.reshape(-1), zorder=3, alpha=pale, **style)
    ax.set(xlabel=x_label, ylabel=y_label)
    ax.margins(x=0)
    bottom, top = ax.get_ylim()
    reach = _HEADROOM * (high - low)
    if bottom < low - reach or top > high + reach:
        ax.set_ylim(max(bottom, low - reach), min(top, high + reach))
        style = {"ha": "right", "va": "top", "fontsize": "small", "color": GREY}
        note = "what lies beyond is cut off"
        ax.annotate(note, (0.99, 0.98), xycoords="axes fraction", **style)
    if legend:
        add_legend(ax)
    return ax


@torch.no_grad()
def plot_slice(
    acqf: BandLike,
    point: Tensor,
    *,
    bounds: Tensor,
    coordinate: int = 0,
    data: tuple[Tensor, Tensor] | None = None,
    witness: bool = False,
    true_function: Callable[[Tensor], Tensor] | None = None,
    names: Sequence[str] | None = None,
    outcome: str = "outcome",
    num_points: int = 300,
    ax: Axes | None = None,
) -> Axes:
    r"""Draw a band along one input through a point, the other inputs as at the point.

    Marks are all data, also those at other values of the other inputs.

    Example:
        >>> plot_slice(acqf, x[0], bounds=bounds, data=(train_X, train_Y), witness=True)

    Args:
        acqf: Any bound of this package.
        point: ``d`` or ``1 x d`` coordinates of a point of the domain.
        bounds: ``2 x d`` lower and upper limits of the domain.
        coordinate: The input that varies.
        data: ``n x d`` inputs and ``n`` or ``n x 1`` outcomes, outcome units.
        witness: Whether to draw the function of the confidence set that attains the bound
            at the point: the upper one, or the lower where small outcomes are sought.
        true_function: Maps ``n x d`` points to ``n`` values without noise.
        names: Names of the ``d`` inputs.
        outcome: Name of the outcome.
        num_points: How many points of the line are looked at.
        ax: Where to draw.

    Raises:
        BotorchTensorDimensionError: If a tensor has the wrong shape.
        InputDataError: If a value is not finite.
        ValueError: If names do not fit the inputs.
        UnsupportedError: If a witness is asked of a bound that has none.
    """
    band, limits = band_of("acqf", acqf), checked_box(bounds)
    place = checked_points("point", point.reshape(1, -1), limits.shape[1])
    function_at: Callable[..., Callable[[Tensor], Tensor]] | None
    function_at = getattr(acqf, "witness", None) if witness else None
    if witness and function_at is None:
        raise UnsupportedError(
            f"{type(acqf).__name__} has no witness; leave out witness, or use "
            "MartingaleMixtureUCB."
        )
    low, high = limits[:, coordinate].tolist()
    line = slice_points(place, coordinate, low, high, num_points)
    ax = plot_bands(
        {f"band, {band.assumptions.verdict}": acqf},
        line,
        coordinate=coordinate,
        data=data,
        true_function=true_function,
        ax=ax,
        legend=False,
        x_label=label_of(names, place[0], coordinate),
        y_label=outcome,
        data_name="data, pale off this line" if limits.shape[1] > 1 else "data",
    )
    here = place[:, coordinate].cpu()
    if function_at is not None:
        function = function_at(place, upper=band.direction == 1)
        values, top = (band.outcome_map.inverse(function(X)).cpu() for X in (line, place))
        across = line[:, coordinate].cpu()
        ax.plot(across, values, color=PURPLE, ls="--", lw=1.6, label="witness")
        star: dict[str, Any] = {"marker": "*", "s": 150, "color": PURPLE, "zorder": 4}
        ax.scatter(here, top, label="bound at the point", **star)
    else:
        ax.axvline(float(here), color=GREY, lw=0.8, ls=":")
    add_legend(ax)
    return ax


def slice_points(
    point: Tensor, coordinate: int, lower: float, upper: float, num_points: int = 300
) -> Tensor:
    r"""``num_points x d`` points through a point of ``d`` numbers.

    The coordinate runs from ``lower`` to ``upper``, the others stay.
    """
    line = point.detach().reshape(1, -1).repeat(num_points, 1)
    line[:, coordinate] = torch.linspace(lower, upper, num_points, dtype=line.dtype)
    return line


@torch.no_grad()
def band_widths(acquisitions: Mapping[str, HasBounds], X: Tensor) -> dict[str, float]:
    r"""Mean width of each band over ``n x d`` points, outcome units."""
    sides = {name: acqf.bounds(X) for name, acqf in acquisitions.items()}
    return {name: float((upper - lower).mean()) for name, (lower, upper) in sides.items()}


def label_of(names: Sequence[str] | None, point: Tensor, *shown: int) -> str:
    r"""``"heat (K), at time (h) 3.5"``: the input on an axis, and where the others stand.

    The first of the inputs that are ``shown`` is on the axis.
    """
    names = _named(names, len(point))
    fixed = [i for i in range(len(point)) if i not in shown]
    listed = ", ".join(f"{names[i]} {float(point[i]):.4g}" for i in fixed)
    if len(fixed) > 3:
        listed = f"the point's other {len(fixed)} inputs"
    return f"{names[shown[0]]}, at {listed}" if fixed else names[shown[0]]


def _named(names: Sequence[str] | None, count: int) -> Sequence[str]:
    r"""A name for each input; ``"input 1"`` and so on where none are given."""
    names = [f"input {i}" for i in range(1, count + 1)] if names is None else names
    if len(names) != count:
        raise ValueError(f"names has {len(names)} entries for {count} inputs.")
    return names


def _certificate_of(found: Found) -> RegretCertificate | None:
    r"""The certificate, or that of a decision or report; None where there was none."""
    certificate = getattr(found, "certificate", found)
    if certificate is None or isinstance(certificate, RegretCertificate):
        return certificate
    raise UnsupportedError(
        f"{type(certificate).__name__} is no certificate; give what regret_certificate, "
        "CertifiedGapStopping or optimum_report returned."
    )


def plot_gap(
    certificates: Sequence[Found] | Mapping[str, Sequence[Found]],
    *,
    rounds: Sequence[float] | None = None,
    accepted: float | None = None,
    true_gaps: Sequence[float] | None = None,
    x_label: str = "round",
    y_label: str = "gap to the optimum",
    ax: Axes | None = None,
) -> Axes:
    r"""Draw how far the recommended point may be from the optimum, round by round.

    The legend calls a run "certified" only if every certificate of the run is certified;
    otherwise it says how many are, or why none is. Gaps that are not certified have open
    marks.

    Example:
        >>> decisions.append(stopping(acqf))  # in every round
        >>> plot_gap(decisions, rounds=range(4, 4 + len(decisions)), accepted=stopping.gap)

    Args:
        certificates: One for each round, of one run or of several by their names: regret
            certificates, decisions of ``CertifiedGapStopping`` (also of Ax's strategy),
            optimum reports, or None where there was none.
        rounds: Where each certificate stands on the horizontal axis, such as the number of
            observations or the time; 1, 2, ... when absent. Longer than a run: its first
            ones count.
        accepted: The gap that is accepted, outcome units.
        true_gaps: The gap that the recommended point really had, for one run.
        x_label: Horizontal label.
        y_label: Vertical label.
        ax: Where to draw.

    Raises:
        ValueError: If there is no certificate, ``rounds`` or ``true_gaps`` do not fit them,
            or ``accepted`` is negative.
        UnsupportedError: If an entry of ``certificates`` is no certificate.
    """
    runs = certificates if isinstance(certificates, Mapping) else {"": certificates}
    found = {name: [*map(_certificate_of, run)] for name, run in runs.items()}
    entries = [each for run in found.values() for each in run if each is not None]
    if not entries:
        raise ValueError("certificates must hold at least one certificate.")
    longest = max(map(len, found.values()))
    places = list(range(1, longest + 1) if rounds is None else rounds)
    if len(places) < longest:
        raise ValueError(f"rounds has {len(places)} entries for {longest} certificates.")
    if true_gaps is not None and (len(runs) > 1 or len(true_gaps) != longest):
        raise ValueError("true_gaps must be one number for each certificate of one run.")
    ax = axes_or_new(ax)
    first: dict[str, Any] = {"color": BLUE, "linestyle": "-", "linewidth": 1.6}
    for (name, run), style in zip(found.items(), cycle([first, *OUTLINES]), strict=False):
        gaps = [math.nan if each is None else each.gap for each in run]
        label = gaps_in_words([each for each in run if each is not None])
        label = f"{name}: {label}" if name else label
        ax.plot(places[: len(run)], gaps, label=label, **style)
        doubtful = [i for i, each in enumerate(run) if each and not each.certified]
        if doubtful:
            marks = [places[i] for i in doubtful], [gaps[i] for i in doubtful]
            ax.plot(*marks, "o", ms=4, mfc="white", color=style["color"])
    if true_gaps is not None:
        label = "true gap (never seen)"
        ax.plot(places[:longest], [*true_gaps], color=BLACK, ls="--", label=label)
    if accepted is not None:
        level = nonnegative_scalar("accepted", accepted)
        ax.axhline(level, color=SOUGHT, lw=1, zorder=1, label="accepted")
    ax.set(xlabel=x_label, ylabel=y_label)
    ax.set_ylim(bottom=0.0)
    if all(float(place).is_integer() for place in places):
        ax.locator_params(axis="x", integer=True)
    add_legend(ax)
    return ax


def plot_replicates(
    train_X: Tensor,
    train_Y: Tensor,
    *,
    noise_std: float | None = None,
    x_label: str = "mean outcome",
    y_label: str = "standard deviation of replicates",
    ax: Axes | None = None,
) -> Axes:
    r"""Draw how much repeated runs scatter, against their mean outcome.

    A point for each repeated input, and the pooled scale where outcomes are low, middle and
    high, with 95 % intervals for Gaussian noise. A level line says that one noise scale
    will do; a slope asks for a transformed outcome, or a scale for each group of inputs.

    Args:
        train_X: ``n x d`` inputs, in which rows are repeated.
        train_Y: ``n`` or ``n x 1`` outcomes.
        noise_std: The noise scale in use, outcome units.
        x_label: Horizontal label.
        y_label: Vertical label.
        ax: Where to draw.

    Raises:
        ValueError: If no input is repeated.
    """
    targets = training_targets(train_X, train_Y)
    runs = runs_by_input(train_X.detach().double(), targets)
    repeated = runs.precision > 1.0
    if not bool(repeated.any()):
        raise ValueError("train_X has no repeated input, so there is no scatter to draw.")
    scatter = (runs.total(runs.squares)[repeated] / (runs.precision[repeated] - 1.0)).sqrt()
    ax = axes_or_new(ax)
    points = runs.means[repeated].tolist(), scatter.tolist()
    ax.plot(*points, ".", color=GREY, ms=3, label="one input")
    label = "pooled, with 95 % interval"
    for region in noise_regions(train_X, targets):
        low, high = map(float, region.limits(_CHANCE))
        scale = float(region.estimate)
        apart = [[scale - low], [high - scale]]
        style: dict[str, Any] = {"fmt": "o", "color": BLUE, "capsize": 4, "label": label}
        ax.errorbar([region.label], [scale], yerr=apart, **style)
        label = None
    if noise_std is not None:
        ax.axhline(noise_std, color=BLACK, lw=1.0, ls="--", label="noise_std in use")
    ax.set(xlabel=x_label, ylabel=y_label)
    ax.set_ylim(bottom=0.0)
    add_legend(ax)
    return ax


@torch.no_grad()
def plot_safe_set(
    safe_set: SafeSet,
    *,
    bounds: Tensor,
    coordinates: Sequence[int] | None = None,
    point: Tensor | None = None,
    earlier: SafeSet | None = None,
    chosen: Tensor | None = None,
    names: Sequence[str] | None = None,
    num_points: int = 60,
    ax: Axes | None = None,
) -> Axes:
    r"""Draw a safe set and its frontier, over two inputs or along one.

    Over two inputs the set is filled and its frontier drawn as a line; along one the curve
    is the least margin by which the bands keep the constraints, and the set is where it is
    not negative. The margin is computed on a grid and drawn between its points by
    interpolation: ask ``safe_set.is_safe`` of a point that is to be evaluated.

    Example:
        >>> plot_safe_set(safe_set, bounds=bounds, chosen=X)

    Args:
        safe_set: The set.
        bounds: ``2 x d`` lower and upper limits of the domain.
        coordinates: One or two inputs that vary, the horizontal one first; the first two
            (the only one) when absent.
        point: ``d`` or ``1 x d`` coordinates of a point that gives the other inputs; the
            middle of the domain when absent.
        earlier: The set of an earlier round, whose frontier is drawn dotted.
        chosen: ``n x d`` points, such as those evaluated, whatever their other inputs.
        names: Names of the ``d`` inputs.
        num_points: Number of values of each input that varies.
        ax: Where to draw.

    Raises:
        BotorchTensorDimensionError: If a tensor has the wrong shape.
        InputDataError: If a value is not finite.
        ValueError: If ``coordinates`` are not one or two different columns, or names do
            not fit the inputs.
        UncertifiedError: If the data now contradict a band of the set.
    """
    limits, count = checked_box(bounds), whole_number("num_points", num_points)
    dimension = limits.shape[1]
    columns = [*(range(min(dimension, 2)) if coordinates is None else coordinates)]
    if len({*columns} & {*range(dimension)}) < len(columns) or len(columns) not in (1, 2):
        raise ValueError(
            f"coordinates must be one or two different columns, got {columns}."
        )
    middle = limits.mean(0, keepdim=True)
    if point is not None:
        middle = checked_points("point", point.reshape(1, -1), dimension).to(limits)
    ends = limits[:, columns].T.tolist()
    sides = [torch.linspace(a, b, count, dtype=torch.float64) for a, b in ends]
    grid = torch.meshgrid(*sides, indexing="xy")
    points = middle.repeat(grid[0].numel(), 1)
    points[:, columns] = torch.stack(grid, dim=-1).reshape(-1, len(columns)).to(points)
    sets = [safe_set] if earlier is None else [safe_set, earlier]
    margins = [each.margin(points).detach().cpu().reshape_as(grid[0]) for each in sets]
    ax, label = axes_or_new(ax, height=4.2), f"safe set, {safe_set.assumptions.verdict}"
    draw = _draw_line if len(columns) == 1 else _draw_plane
    draw(ax, sides, margins, label)
    if chosen is not None:
        X = checked_points("chosen", chosen, dimension)
        across, upwards = X[:, columns[0]], X[:, columns[-1]]
        style: dict[str, Any] = CHOSEN | {"label": "evaluated"}
        if len(columns) == 1:
            upwards = torch.zeros_like(across)
            style |= {"transform": ax.get_xaxis_transform(), "clip_on": False}
        ax.scatter(across, upwards, zorder=3, **style)
    ax.set(xlabel=label_of(names, middle[0], *columns), xlim=ends[0])
    if len(columns) == 2:
        ax.set(ylabel=_named(names, dimension)[columns[1]], ylim=ends[1])
    add_legend(ax, title=f"looked at {' x '.join([str(count)] * len(columns))} points")
    return ax


def _draw_plane(ax: Axes, sides: list[Tensor], margins: list[Tensor], label: str) -> None:
    r"""Fill where margins over two inputs are not negative, and draw the frontiers."""
    style: dict[str, Any] = {"colors": BLUE, "alpha": 0.25}
    if float(margins[0].max()) >= 0.0:
        ax.contourf(
            *sides, margins[0], levels=[0.0, float(margins[0].max()) + 1.0], **style
        )
        # A contour has no entry in a legend; an empty area has.
        ax.fill_between([], [], [], color=BLUE, alpha=0.25, lw=0, label=label)
    else:
        ax.plot([], [], " ", label=f"no point here is in the {label}")
    names = ("frontier", "-"), ("frontier, earlier", ":")
    for values, (name, dashes) in zip(margins, names, strict=False):
        if float(values.min()) < 0.0 <= float(values.max()):
            style = {"colors": BLUE, "linestyles": dashes, "linewidths": 1.6}
            ax.contour(*sides, values, levels=[0.0], **style)
            ax.plot([], [], color=BLUE, lw=1.6, ls=dashes, label=name)


def _draw_line(ax: Axes, sides: list[Tensor], margins: list[Tensor], label: str) -> None:
    r"""Margins along one input, shaded where the first ones are not negative."""
    names = ("least margin", "-"), ("least margin, earlier", ":")
    for values, (name, dashes) in zip(margins, names, strict=False):
        ax.plot(sides[0], values, color=BLUE, lw=1.6, ls=dashes, label=name)
    across, inside = ax.get_xaxis_transform(), (margins[0] >= 0.0).tolist()
    shading: dict[str, Any] = {"transform": across, "color": BLUE, "alpha": 0.2, "lw": 0}
    ax.fill_between(sides[0], 0.0, 1.0, where=inside, label=label, **shading)
    ax.axhline(0.0, color=BLACK, lw=1, label="frontier")
    ax.set_ylabel("margin (prior standard deviations)")


def load_pyplot() -> ModuleType:
    r"""``matplotlib.pyplot``, or an ``ImportError`` that says how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        message = "Pictures need matplotlib: pip install kernelucb[plot]"
        raise ImportError(message) from error
    return plt


def axes_or_new(ax: Axes | None, height: float = 3.6) -> Axes:
    r"""The axes, or new ones of this height in inches, beside which a legend fits."""
    if ax is not None:
        return ax
    return load_pyplot().subplots(figsize=(7.0, height), layout="constrained")[1]


def add_legend(ax: Axes, title: str | None = None) -> None:
    r"""A legend beside the axes where the layout makes room for it, else on them."""
    if ax.figure.get_layout_engine() is None:
        ax.legend(loc="best", title=title)
    else:
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), title=title)


__all__ = [
    "band_widths",
    "plot_bands",
    "plot_gap",
    "plot_replicates",
    "plot_safe_set",
    "plot_slice",
    "slice_points",
]
