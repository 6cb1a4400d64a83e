r"""A norm bound from earlier tasks, or from draws of a simulator."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from botorch.exceptions import InputDataError
from botorch.models.transforms.input import InputTransform
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from kernelucb._numerics.arrays import increasing_root
from kernelucb._numerics.checks import (
    finite,
    nonnegative_scalar,
    training_targets,
    whole_number,
)
from kernelucb._numerics.digits import assumed, at_most
from kernelucb._numerics.estimates import Estimate, Number
from kernelucb.confidence.assumptions import (
    Assumption,
    Assumptions,
    Status,
    rounds_in_words,
)
from kernelucb.confidence.domain import EVERYWHERE, ListedPoints
from kernelucb.confidence.norm import GivenNorm, Norm, NormBound
from kernelucb.confidence.radius import Radius
from kernelucb.data import KernelRegression, RidgeState
from kernelucb.data.kernel_family import fixed_mean
from kernelucb.data.prior import Prior

SOURCE = "ranks of exchangeable norms (ours)"
_RESOLVED = 1e3  # times round-off: the smallest eigenvalue of an interpolation
_CLOSE = 1e-6  # relative difference of two kernels that are one
_ROOT = 1e-9  # tolerance of a regulariser's logarithm
_INFINITE = 600.0  # that of a regulariser with which the mean is left


@dataclass(frozen=True)
class NormFromTasks(Norm):
    r"""A bound on the norm of the next task, with its failure probability.

    Given as ``norm_bound`` of a ``MartingaleMixtureUCB``, whose kernel and mean must be
    those of the tasks. The band's ``delta`` counts the failure probability. The band is
    about the points of its task, as the tasks' norms are about theirs: at other points the
    function may be another one. So a run that lies elsewhere contradicts the norm, and in
    claims about other points, such as boxes, the norm is an estimate.

    Source: ours; of ``m + 1`` exchangeable numbers the last is above the ``j``-th smallest
    of the others with probability at most ``1 - j / (m + 1)``. Assumes that the tasks, with
    their points, and the next one are exchangeable, kernel and mean fixed beforehand (or
    chosen on other tasks), rank and model error before the norms were seen, and one use,
    for the next task. See ``docs/mathematics.md``.

    Attributes:
        norms: Norms of the tasks, outcome units, ascending; estimated where given without
            the probability of their rank.
        rank: Which of them is the bound, from 1 for the smallest.
        model_error: Distance from its values that a task's function may have, outcome
            units. Bands are wider by it, as with a ``NearNormBall``.
        prior: Kernel and mean.
        points: ``n x d`` points of each task, at which the band's kernel is compared with
            it; equal ones once.
        tasks: What the tasks are, in words.
        fixed: Rank and model error for which the norms were computed. Others, chosen after
            a look at the norms, have no failure probability below 1.
        repeated: How many tables were equal to one of these, and do not count.
        factor: What the norm is multiplied by.
        domain: The points of the next task; None if not known, so that the norm is an
            estimate everywhere.
    """

    norms: tuple[Estimate, ...]
    rank: int
    model_error: Number
    prior: Prior
    points: tuple[Tensor, ...]
    tasks: str
    fixed: tuple[int, float]
    repeated: int = 0
    factor: float = 1.0
    domain: ListedPoints | None = None

    @property
    def norm_bound(self) -> Estimate:
        r"""The bound, outcome units; estimated where given without its probability."""
        return self.factor * self.norms[self.rank - 1]

    @property
    def failure_probability(self) -> float:
        r"""Largest probability that the norm of the next task is above the bound."""
        if (self.rank, self.model_error) != self.fixed:
            return 1.0
        return 1.0 - self.rank / (len(self.norms) + 1)

    def __str__(self) -> str:
        return (
            f"norm of the next task at most {at_most(self.norm_bound)}, wrong with "
            f"probability at most {at_most(self.failure_probability)}: number {self.rank} "
            f"of the ascending norms of {len(self.norms)} {self.tasks}"
        )

    def relaxed(self, factor: float) -> "NormFromTasks":
        r"""The same with a multiple of the norm; at least the same probability above 1."""
        whole = factor * self.factor
        return replace(self, factor=1.0 if math.isclose(whole, 1.0) else whole)

    def left_of(self, delta: float) -> float:
        r"""What is left of a band's failure probability for its fit.

        Raises:
            ValueError: If nothing is.
        """
        left = delta - self.failure_probability
        if left > 0.0:
            return left
        raise ValueError(
            f"The norm from {len(self.norms)} {self.tasks} fails with probability up to "
            f"{self.failure_probability:.4g}, and delta is {delta:.4g}: give a larger "
            f"delta, more of them (at least {int(1.0 / delta)}), or to norm_from_tasks, "
            "before the norms are seen, a higher rank."
        )

    @property
    def number(self) -> Number:
        return self.norm_bound

    def given(self, outcome_scale: float) -> NormBound:
        return GivenNorm(self.norm_bound).given(outcome_scale)

    def resolve(self, regression: RidgeState, radius: Radius) -> NormBound:
        return self.given(regression.outcome_scale)

    def at(self, norm_bound: Number) -> "NormFromTasks":
        # Relative to the norm of the rank, as the band's is larger if contradicted.
        return self.relaxed(float(norm_bound) / float(self.norm_bound))

    def check_prior(self, prior: Prior, dimension: int) -> None:
        r"""Refuse a band with another kernel or mean, or another number of columns.

        Raises:
            ValueError: If they differ at the points of any task.
        """
        least = float(self.norm_bound) * 1e-9
        for points in self.points:
            if points.shape[1] != dimension or _differ(self.prior, prior, points, least):
                raise ValueError(
                    "The norm is of functions of another kernel or mean than the model's, "
                    "or of other input columns: give norm_from_tasks the kernel and mean "
                    "that the band has, at the same inputs, and leave out Standardize."
                )

    def stated(self, given: Assumptions, regression: KernelRegression) -> Assumptions:
        self.check_prior(regression.prior, regression.dimension)
        inputs = regression.train_inputs
        several = "" if self.factor == 1.0 else f"{self.factor:.4g} times "
        equal = f" ({self.repeated} more are equal to one of these)" * bool(self.repeated)
        statement = (
            f"at the points of this task f - mean is as one of RKHS norm at most "
            f"{assumed(float(self.norm_bound))}, {several}the norm of rank {self.rank} of "
            f"{len(self.norms)} {self.tasks}{equal}: this one is exchangeable with them, "
            "and kernel, rank and model error were fixed before these norms were seen; at "
            "other points nothing but your word says so"
        )
        # A smaller norm than that of the rank has no probability.
        known = self.factor >= 1.0 and self.domain is not None
        status = Status.GIVEN if known else Status.ESTIMATED
        outside = 0
        if self.domain is None:
            statement += "; which points these are is not known (points=...)"
        else:
            outside = int((~self.domain.mask_of_inputs(inputs)).sum())
        if given["norm"].status is Status.VIOLATED:
            statement, status = f"{statement}; {given['norm'].statement}", Status.VIOLATED
        item = Assumption("norm", statement, status, self.domain or EVERYWHERE)
        whole = given.spending(SOURCE, self.failure_probability)
        rounds = rounds_in_words(whole.anytime, whole.horizon)
        claim = f"holds at every point of this task and {rounds}"
        whole = replace(whole, claim=claim).with_item(item)
        if outside == 0:
            return whole
        reason = f"{outside} of {len(inputs)} runs lie at points that are none of this task"
        return whole.without_guarantee(reason, kind="domain")


def norm_from_tasks(
    tasks: Sequence[tuple[Tensor, Tensor]],
    kernel: Kernel,
    mean: Mean | Number = 0.0,
    *,
    points: Tensor | None = None,
    input_transform: InputTransform | None = None,
    rank: int | None = None,
    model_error: float = 0.0,
) -> NormFromTasks:
    r"""Bound the norm of the next task by those of earlier ones.

    The norm of a task is that of the function of least norm with the task's values at its
    points.

    Example:
        >>> kernel = SingleTaskGP(...).covar_module  # of fixed hyper-parameters
        >>> norm = norm_from_tasks([(X1, f1), (X2, f2), ...], kernel)
        >>> band = MartingaleMixtureUCB(model, norm_bound=norm, delta=0.1).band

    Args:
        tasks: Points, ``n x d``, and values of each, ``n`` or ``n x 1``, without noise: or
            means of replicates that define the task. Equal tables, whatever the order of
            their rows, are one task given twice, and count once.
        kernel: Kernel of the band, fixed beforehand or chosen on other tasks.
        mean: Its mean, a number or a module.
        points: ``N x d`` points of the next task, where the band is to hold; by default
            those of the tasks, if all have the same. Where neither is known the norm is an
            estimate.
        input_transform: The model's, if it has one.
        rank: Which of the norms is the bound, from 1 for the smallest; the largest when
            absent, which fails with probability ``1 / (len(tasks) + 1)``. Fixed before the
            norms are seen, as the model error.
        model_error: With a number above 0, outcome units, the function of a task may be
            this far from its values: of smooth kernels exact values have huge norms, or
            round-off decides them.

    Raises:
        ValueError: If there is no task, a number is out of its range, tasks have other
            columns, or a lower rank than the largest is asked of tables that are equal.
        InputDataError: If values are not finite, or round-off decides a norm.
    """
    if len(tasks) == 0:
        raise ValueError("norm_from_tasks needs at least one task of points and values.")
    model_error = nonnegative_scalar("model_error", model_error)
    tables = _distinct(tasks)
    count, equal = len(tables), len(tasks) - len(tables)
    rank = count if rank is None else whole_number("rank", rank)
    # Below the largest it matters whether equal tables are one task or several.
    if rank > count or (equal and rank < count):
        which = "tasks, of which equal ones count once and then the largest norm alone"
        raise ValueError(f"rank must be at most {count}, the number of {which}.")
    prior = Prior(kernel, fixed_mean(mean), input_transform)
    prior.check_fits(prior.transform(tables[0][1]))
    every = {tuple(map(tuple, X.tolist())): X for _, X, _ in tables}
    listed = [*every.values()] if points is None else [points.detach().double()]
    every |= {tuple(map(tuple, X.tolist())): X for X in listed}
    norms = sorted(_least_norm(prior, X, Y, model_error, name) for name, X, Y in tables)
    found = tuple(map(Estimate, norms)), rank, model_error, prior, tuple(every.values())
    domain = ListedPoints.common(listed, prior)
    rest = "earlier tasks", (rank, model_error), equal
    return NormFromTasks(*found, *rest, domain=domain)


def _differ(ours: Prior, theirs: Prior, points: Tensor, least: float) -> bool:
    r"""Whether kernels or means differ at ``n x d`` points; smaller means are zero."""
    mine, other = ours.transform(points), theirs.transform(points)
    second = theirs.covariance(other, other) / theirs.scale**2
    pairs = (ours.covariance(mine, mine), second), (ours.mean(mine), theirs.mean(other))
    scales = [max(float(first.abs().max()), least) for first, _ in pairs]
    apart = [float((first - second).abs().max()) for first, second in pairs]
    return any(far > _CLOSE * scale for far, scale in zip(apart, scales, strict=True))


def _distinct(tasks: Sequence[tuple[Tensor, Tensor]]) -> list[tuple[str, Tensor, Tensor]]:
    r"""Names, ``n x d`` points and ``n`` values of the tasks, equal ones once."""
    found: dict[Any, tuple[str, Tensor, Tensor]] = {}
    for number, (X, Y) in enumerate(tasks, 1):
        name, columns = f"task {number}", tasks[0][0].shape[-1]
        values = finite(f"The values of {name}", training_targets(X, Y))
        if X.shape[1] != columns:
            raise ValueError(
                f"{name} has {X.shape[1]} input columns, and task 1 has {columns}: a norm "
                "is of functions of the same columns."
            )
        table = name, X.detach().to(values), values
        rows = torch.column_stack(table[1:]).tolist()
        found.setdefault(tuple(sorted(map(tuple, rows))), table)
    return [*found.values()]


def norm_from_simulator(
    draw: Callable[[int], Tensor],
    points: Tensor,
    kernel: Kernel,
    num_draws: int,
    mean: Mean | Number = 0.0,
    **options: Any,
) -> NormFromTasks:
    r"""Bound the norm of a function by those of a simulator's draws.

    As ``norm_from_tasks``, with draws in place of tasks: the true function must be another
    draw, so the unknown parameters must be drawn from what is believed of them.

    Args:
        draw: Values of one draw, ``n``, at the points; its argument counts draws from 0.
        points: ``n x d`` points, the candidates of the band.
        kernel: Kernel of the band, fixed beforehand.
        num_draws: Number of draws.
        mean: Its mean, a number or a module.
        options: Further arguments of ``norm_from_tasks``.

    Raises:
        ValueError: If a number is out of its range.
        InputDataError: If values are not finite, or round-off decides a norm.
    """
    count = whole_number("num_draws", num_draws)
    tasks = [(points, draw(index)) for index in range(count)]
    norm = norm_from_tasks(tasks, kernel, mean, **options)
    return replace(norm, tasks="draws of a simulator")


@torch.no_grad()
def _least_norm(prior: Prior, X: Tensor, Y: Tensor, model_error: float, name: str) -> float:
    r"""Norm of a function within ``model_error`` of the values of a task."""
    inputs = prior.transform(X)
    lam, vectors = torch.linalg.eigh(prior.gram(inputs))
    shares = vectors.mT @ (Y - prior.mean(inputs))
    round_off = len(lam) * torch.finfo(lam.dtype).eps * float(lam[-1])

    def farthest(tau: float) -> float:
        return float((vectors @ (tau / (lam + tau) * shares)).abs().max())

    def excess(log_tau: float) -> float:
        return farthest(math.exp(log_tau)) - model_error

    lowest, tau = math.log(round_off), 0.0
    if excess(_INFINITE) < 0.0:  # the mean is near enough
        return 0.0
    if model_error > 0.0:
        # Any regulariser within the distance would do; all tasks find theirs by one rule.
        root = increasing_root(excess, lowest, lowest, _ROOT)
        tau = 0.0 if root is None else math.exp(root - 2.0 * _ROOT)
    if tau == 0.0 and float(lam[0]) < _RESOLVED * round_off:
        raise InputDataError(
            f"Round-off decides the norm of {name}: its points are too close for this "
            "kernel, or a point has two values. Take a rougher kernel (Matern), a shorter "
            "length scale, or give a larger model_error."
        )
    return float((lam * (shares / (lam + tau)).square()).sum().sqrt())
