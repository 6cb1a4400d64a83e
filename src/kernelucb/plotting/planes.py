r"""Lines and planes of points through a domain, and what is drawn on them."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import torch
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from torch import Tensor

from kernelucb._numerics.checks import whole_number
from kernelucb._numerics.domains import checked_points
from kernelucb.confidence.combined import CombinedState, WeightedSum
from kernelucb.plotting.style import Axes
from kernelucb.plotting.words import checked_names, where_fixed
from kernelucb.regression import RidgeState

Data = tuple[Tensor, Tensor]

_FAINTEST = 0.08  # opacity of marks that say nothing about what is drawn


class Plane(NamedTuple):
    r"""A grid of points on a line or a plane through a domain.

    Attributes:
        points: ``n x d`` points, row by row of the picture.
        coordinates: The one or two columns that vary; the first is drawn from left to
            right.
        sides: Values of these columns, ``m`` each.
        names: Of all ``d`` inputs.
        limits: ``2 x d`` limits of the domain.
    """

    points: Tensor
    coordinates: tuple[int, ...]
    sides: tuple[Tensor, ...]
    names: list[str]
    limits: Tensor

    @classmethod
    def through(
        cls,
        point: Tensor | None,
        limits: Tensor,
        coordinates: Sequence[int],
        num_points: int,
        names: Sequence[str] | None,
    ) -> Self:
        r"""The grid through ``d`` coordinates of a point, or through the middle of a box.

        Args:
            point: ``d`` or ``1 x d`` numbers.
            limits: ``2 x d`` limits of the domain.
            coordinates: One column or two.
            num_points: Number of values of each of them.
            names: Of the ``d`` inputs.
        """
        dimension = limits.shape[1]
        shown = _checked_columns(coordinates, dimension)
        centre = limits.mean(0, keepdim=True)
        if point is not None:
            centre = checked_points("point", point.reshape(1, -1), dimension).to(limits)
        count = whole_number("num_points", num_points)
        sides = tuple(
            torch.linspace(low, high, count, dtype=limits.dtype)
            for low, high in limits[:, list(shown)].T.tolist()
        )
        grid = torch.cartesian_prod(*reversed(sides)).reshape(-1, len(shown)).flip(-1)
        points = centre.repeat(len(grid), 1)
        points[:, list(shown)] = grid.to(points)
        return cls(points, shown, sides, checked_names(names, dimension), limits)

    @property
    def shape(self) -> tuple[int, ...]:
        r"""Of the picture: rows first."""
        return tuple(len(side) for side in reversed(self.sides))

    @property
    def words(self) -> str:
        r"""How many points were looked at."""
        return f"looked at {' x '.join(str(len(side)) for side in self.sides)} points"

    @property
    def where(self) -> str:
        r"""Where the other inputs stand."""
        return where_fixed(self.names, self.points[0], self.coordinates)

    def picture(self, values: Tensor) -> Tensor:
        r"""``n`` values at the points, as rows and columns of the picture."""
        return values.detach().double().cpu().reshape(self.shape)

    def label(self, ax: Axes) -> None:
        r"""Name the inputs on the axes, and say where the others stand."""
        first = self.names[self.coordinates[0]]
        ax.set_xlabel(f"{first}, {self.where}" if self.where else first)
        if len(self.coordinates) == 2:
            ax.set_ylabel(self.names[self.coordinates[1]])
            for column, set_limits in zip(
                self.coordinates, (ax.set_xlim, ax.set_ylim), strict=True
            ):
                set_limits(*self.limits[:, column].tolist())

    def scatter(
        self,
        ax: Axes,
        X: Tensor,
        weights: Tensor,
        style: dict[str, Any],
        Y: Tensor | None = None,
    ) -> None:
        r"""Draw ``n x d`` points, fainter the less they say about the line or plane.

        On a line their height is that of the ``n`` outcomes, or the foot of the picture.
        """
        shown = X[:, list(self.coordinates)].detach().cpu()
        style = {"label": "data", **style}
        if len(self.coordinates) == 2:
            draw_weighted(ax, shown[:, 0], shown[:, 1], weights, style)
        elif Y is not None:
            draw_weighted(ax, shown[:, 0], Y.cpu(), weights, style)
        else:
            style |= {"transform": ax.get_xaxis_transform(), "clip_on": False}
            draw_weighted(ax, shown[:, 0], torch.zeros_like(shown[:, 0]), weights, style)


def draw_weighted(
    ax: Axes, across: Tensor, upwards: Tensor, weights: Tensor, style: dict[str, Any]
) -> None:
    r"""Marks at ``n`` places, with ``n`` weights from 0 to 1 as their opacity."""
    # The legend gets a mark of its own: the first point may be a faint one.
    ax.scatter([], [], **style)
    opacity = weights.clamp_min(_FAINTEST).tolist()
    own: dict[str, Any] = {"zorder": 3, **style, "label": None, "alpha": opacity}
    ax.scatter(across, upwards, **own)


@torch.no_grad()
def nearness(band: Any, X: Tensor, plane: Tensor, coordinates: Sequence[int]) -> Tensor:
    r"""How much points say about a line or plane: squared correlation with their images.

    That is the share of the variance at the projection that the point's value explains. Of
    several kernels, the largest share.

    Args:
        band: Gives the kernel.
        X: ``n x d`` points.
        plane: ``m x d`` points; the first row gives the fixed coordinates.
        coordinates: Those that vary.

    Returns:
        ``n`` numbers from 0 (the plane says nothing about the point) to 1 (on it).

    Raises:
        UnsupportedError: If the band is not computed from kernels that are known.
    """
    columns = list(coordinates)
    projected = plane[:1].to(X).repeat(len(X), 1)
    projected[:, columns] = X[:, columns]
    state = getattr(band, "regression", None)
    combined = isinstance(state, CombinedState) and not isinstance(state.rule, WeightedSum)
    states = state.states if combined else (state,)
    if not all(isinstance(each, RidgeState) for each in states):
        raise UnsupportedError(
            f"{type(band).__name__} is not computed from one kernel; leave out fade."
        )
    shares = [
        _share_explained(each, X.double(), projected.double())
        for each in states
        if isinstance(each, RidgeState)
    ]
    return torch.stack(shares).amax(0)


def nearness_or_ones(
    band: Any, X: Tensor, plane: Tensor, coordinates: Sequence[int]
) -> Tensor:
    r"""As above; all 1 where every input varies, or no kernel says how near a point is."""
    if len(coordinates) == X.shape[1]:
        return torch.ones(len(X), dtype=torch.float64)
    try:
        return nearness(band, X, plane, coordinates)
    except UnsupportedError:
        return torch.ones(len(X), dtype=torch.float64)


def _share_explained(state: RidgeState, X: Tensor, projected: Tensor) -> Tensor:
    prior = state.prior
    left, right = prior.transform(X), prior.transform(projected)
    scale = (prior.variance(left) * prior.variance(right)).sqrt()
    covariance = prior.covariance(left, right).diagonal()
    return (covariance / scale).square().clamp(0.0, 1.0).cpu()


def checked_data(data: Data, dimension: int) -> Data:
    r"""``n x d`` inputs and ``n`` outcomes.

    Raises:
        BotorchTensorDimensionError: If they do not fit each other.
    """
    X = checked_points("data", data[0], dimension)
    Y = data[1].detach().reshape(-1).double()
    if len(Y) != len(X):
        raise BotorchTensorDimensionError(
            f"data has {len(X)} inputs and {len(Y)} outcomes; give one outcome for each."
        )
    return X, Y


def _checked_columns(coordinates: Sequence[int], dimension: int) -> tuple[int, ...]:
    columns = tuple(coordinates)
    known = all(0 <= c < dimension for c in columns)
    if not known or len(set(columns)) < len(columns) or not 1 <= len(columns) <= 2:
        raise ValueError(
            f"coordinates must be one or two different columns from 0 to {dimension - 1}, "
            f"got {columns}."
        )
    return columns
