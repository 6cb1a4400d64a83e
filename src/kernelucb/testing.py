r"""The contract of a confidence bound, run over any bound: ``check_band(build, truth)``.

As scikit-learn's ``check_estimator``: run ``check_band`` on a bound of your own; the bounds
of this package run it too. Every check is a law that all bounds obey; a check that does not
apply is left out by name with ``skip``, best with the reason. ``check_bandit`` checks a
bandit over changing arms.
"""

import itertools
import math
import pickle
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, cast

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models import SingleTaskGP
from botorch.optim.initializers import is_nonnegative
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import Kernel, RBFKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ZeroMean
from scipy.stats import binom
from torch import Tensor

from kernelucb.acquisition.ucb import BandUCB
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.band import Band
from kernelucb.exceptions import InconsistentConfidenceSetWarning

Function = Callable[[Tensor], Tensor]
Sides = tuple[Tensor, ...]

# A band is compared with itself: the same numbers in another order of operations.
_REARRANGED = 1e-9
# Reordered data: round-off of a variance near zero enters by its root, 1.5e-8 of the width.
_PERMUTED = 1e-7
_FALSE_ALARM = 1e-4


class WithSides(Protocol):
    r"""What has lower and upper bounds at points, and says what they rest on."""

    @property
    def assumptions(self) -> Assumptions: ...
    def bounds(self, X: Tensor, /) -> tuple[Tensor, Tensor]: ...


class Bound(WithSides, Protocol):
    r"""A confidence bound as BoTorch's acquisition function, such as a ``BandUCB``."""

    X_pending: Tensor | None

    @property
    def band(self) -> Band: ...
    def __call__(self, X: Tensor, /) -> Tensor: ...
    def set_X_pending(self, X_pending: Tensor | None = None) -> None: ...
    def cuda(self) -> "Bound": ...


class Bandit(WithSides, Protocol):
    r"""A bandit over changing arms."""

    @property
    def num_observations(self) -> int: ...
    def select(self, arms: Tensor, /) -> int: ...
    def observe(self, x: Tensor, y: float | Tensor, /) -> None: ...


Build = Callable[..., Bound]
BuildBandit = Callable[..., Bandit]


@dataclass(frozen=True)
class Truth:
    r"""A true function on the unit cube, and how it is observed.

    Attributes:
        function: Maps ``n x d`` points to ``n`` values, in the units of ``bounds(X)``.
        kernel: Kernel of the model, its parameters fixed.
        noise_std: Noise scale, outcome units.
        dimension: Number ``d`` of inputs.
        observe: Maps points and a ``torch.Generator`` to outcomes; by default the function
            plus Gaussian noise.
        model: Maps points and outcomes to the first argument of ``build``; by default to a
            ``SingleTaskGP`` of mean zero with this kernel and noise, its parameters frozen.
    """

    function: Function
    kernel: Kernel
    noise_std: float = 0.1
    dimension: int = 1
    observe: Callable[[Tensor, torch.Generator], Tensor] | None = None
    model: Callable[[Tensor, Tensor], Any] | None = None

    @classmethod
    def of_norm(
        cls,
        norm: float,
        *,
        kernel: Kernel | None = None,
        noise_std: float = 0.1,
        dimension: int = 1,
        seed: int = 0,
    ) -> "Truth":
        r"""A function of known RKHS norm: a weighted sum of sections of the kernel."""
        if kernel is None:
            kernel = RBFKernel().double()
            # GPyTorch's setters round a Python float to single precision.
            kernel.lengthscale = torch.tensor(0.3, dtype=torch.float64)
        kernel = kernel.requires_grad_(False)
        random = torch.Generator().manual_seed(seed)
        centres = torch.rand(12, dimension, dtype=torch.float64, generator=random)
        weights = torch.randn(12, dtype=torch.float64, generator=random)
        gram = kernel(centres).to_dense()
        weights = weights * norm / (weights @ gram @ weights).sqrt()

        def function(X: Tensor) -> Tensor:
            return kernel(X, centres).to_dense() @ weights

        return cls(function, kernel, noise_std, dimension)

    def outcomes(self, X: Tensor, random: torch.Generator) -> Tensor:
        r"""Noisy outcomes at ``n x d`` points."""
        if self.observe is not None:
            return self.observe(X, random)
        noise = torch.randn(len(X), dtype=torch.float64, generator=random)
        return self.function(X) + self.noise_std * noise

    def model_of(self, X: Tensor, Y: Tensor) -> Any:
        r"""The first argument of ``build``, for ``n x d`` points and ``n`` outcomes."""
        if self.model is not None:
            return self.model(X, Y)
        # GPyTorch's own constraint keeps the noise variance above 1e-4.
        likelihood = GaussianLikelihood(noise_constraint=GreaterThan(1e-12)).double()
        likelihood.noise = torch.tensor(self.noise_std**2, dtype=torch.float64)
        model = SingleTaskGP(
            X,
            Y.unsqueeze(-1),
            likelihood=likelihood,
            covar_module=deepcopy(self.kernel),  # a model may move its kernel
            mean_module=ZeroMean(),
            outcome_transform=None,
        )
        return model.double().eval().requires_grad_(False)


class Coverage(NamedTuple):
    r"""How often a band missed the truth somewhere, in runs of adaptively chosen inputs.

    Attributes:
        misses: Runs in which the truth left the band at some point in some round.
        runs: Number of all runs.
        limit: Largest number of misses that passes. A band whose runs miss with probability
            ``delta`` fails the check with probability at most 1e-4.
        power: Probability that a band fails the check if its runs miss with probability
            ``3 delta``.
    """

    misses: int
    runs: int
    limit: int
    power: float

    def __str__(self) -> str:
        return (
            f"{self.misses} of {self.runs} runs missed the truth; up to {self.limit} pass, "
            f"and three times the allowed rate is found with probability {self.power:.3g}"
        )


class _Bench:
    r"""Data and query points, shared by all checks."""

    def __init__(self, truth: Truth, seed: int = 0, num_observations: int = 9) -> None:
        self.truth, self.seed = truth, seed
        random = self.random(1)
        self.X = self.uniform(num_observations, random)
        self.Y = truth.outcomes(self.X, random)
        self.points = self.uniform(6, random)

    def random(self, number: int) -> torch.Generator:
        r"""A generator of its own for each use."""
        return torch.Generator().manual_seed(1000 * self.seed + number)

    def uniform(self, count: int, random: torch.Generator) -> Tensor:
        r"""Points of the unit cube."""
        size = count, self.truth.dimension
        return torch.rand(size, dtype=torch.float64, generator=random)


class _BoundBench(_Bench):
    r"""A bench for a bound."""

    def __init__(
        self,
        build: Build,
        truth: Truth,
        rescaled: Callable[[float], tuple[Build, Truth]] | None = None,
        seed: int = 0,
        num_observations: int = 9,
    ) -> None:
        super().__init__(truth, seed, num_observations)
        self.build, self.rescaled = build, rescaled

    def built(
        self, X: Tensor | None = None, Y: Tensor | None = None, **options: object
    ) -> Bound:
        r"""The bound on these data, on the bench's own by default."""
        X, Y = (self.X, self.Y) if X is None or Y is None else (X, Y)
        torch.manual_seed(self.seed)  # sketches may draw their inducing points
        return self.build(self.truth.model_of(X, Y), **options)

    def values(self, acqf: Function) -> Tensor:
        r"""Acquisition values at the bench's points."""
        return acqf(self.points.unsqueeze(-2))


class _Laws(_BoundBench):
    r"""Laws of every band; each is given the bound and its band."""

    def shapes(self, acqf: Bound, band: Band) -> None:
        points = self.points
        flat = self.values(acqf)
        assert flat.shape == (6,), f"forward maps 6 x 1 x d to 6 values, got {flat.shape}."
        two = acqf(points.reshape(2, 3, 1, -1))
        _close(two, flat.reshape(2, 3), "values in two batches")
        lower, upper = acqf.bounds(points)
        assert lower.shape == upper.shape == (6,), "bounds maps n x d to two n-vectors."
        _all(lower <= upper, "the lower bound lies above the upper one.")
        # BoTorch starts nonnegative functions at points of positive value alone.
        assert is_nonnegative(cast(AcquisitionFunction, acqf)) is False, (
            "a bound may be negative."
        )
        for wrong in points, points.reshape(3, 2, -1), torch.zeros(3, 1, 17).double():
            _raises(BotorchTensorDimensionError, acqf, wrong)
        _raises(InputDataError, acqf, points.unsqueeze(-2) / 0.0)

    def no_points(self, acqf: Bound, band: Band) -> None:
        assert acqf(self.points[:0].unsqueeze(-2)).shape == (0,), "no points have values."

    def names(self, acqf: Bound, band: Band) -> None:
        r"""Attributes that BoTorch's tools read mean what they mean there."""
        for name in ("constraints", "objective", "X_baseline", "best_f", "sampler"):
            assert not hasattr(acqf, name), f"BoTorch reads the attribute {name}."

    def precision(self, acqf: Bound, band: Band) -> None:
        assert self.values(acqf).dtype == torch.float64
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            single = acqf(self.points.float().unsqueeze(-2))
        assert single.dtype == torch.float32, "values have the dtype of the points."
        _close(single.double(), self.values(acqf), "values of float32 points", 1e-4)

    def gradients(self, acqf: Bound, band: Band) -> None:
        gradients: list[Tensor] = []
        for _ in range(2):  # the first pass frees its graph: no part of it may be kept
            X = self.points.unsqueeze(-2).clone().requires_grad_(True)
            acqf(X).sum().backward()
            assert X.grad is not None, "values have no gradient."
            gradients.append(X.grad)
        _close(gradients[1], gradients[0], "gradients of a second pass", 1e-6)
        step = 1e-5 * torch.ones_like(self.points).unsqueeze(-2)
        with torch.no_grad():
            points = self.points.unsqueeze(-2)
            slope = (acqf(points + step) - acqf(points - step)) / 2e-5
        _close(gradients[0].sum((-2, -1)), slope, "gradients against differences", 1e-3)

    def points_apart(self, acqf: Bound, band: Band) -> None:
        near = self.points.unsqueeze(-2)
        # A scale taken over all points of a call would let far ones spoil near ones.
        for distance in (1.0, 1e8, 1e30):
            other = distance * self.uniform(700, self.random(2)).unsqueeze(-2)
            together = acqf(torch.cat([near, other]))[:6]
            _close(together, acqf(near), f"values beside points {distance:g} away")

    def copies(self, acqf: Bound, band: Band) -> None:
        values, pending = self.values(acqf), self.uniform(2, self.random(3))
        sides = acqf.bounds(self.points)
        for twin in (deepcopy(acqf), pickle.loads(pickle.dumps(acqf))):
            _close(self.values(twin), values, "values of a copy")
            _close_sides(twin.bounds(self.points), sides, "bounds of a copy")
            assert str(twin.assumptions) == str(acqf.assumptions)
            twin.set_X_pending(pending)
            assert acqf.X_pending is None, "pending points of a copy reached the original."
        _close(self.values(acqf), values, "values after a copy was changed")

    def pending_points(self, acqf: Bound, band: Band) -> None:
        pending = self.uniform(2, self.random(3))
        everywhere = torch.cat([pending, self.points]).unsqueeze(-2)
        before, sides = acqf(everywhere), acqf.bounds(self.points)
        acqf.set_X_pending(pending)
        assert _same(acqf.X_pending, pending)
        after = acqf(everywhere)
        slack = _REARRANGED * float(before.abs().max())
        _all(after <= before + slack, "a pending point raised a value.")
        narrower = after[:2].sum() < before[:2].sum()
        _all(narrower, "pending points do nothing.")
        _close_sides(acqf.bounds(self.points), sides, "bounds beside pending points", 0.0)
        for wrong in pending.repeat(1, 2), pending / 0.0:
            kinds = BotorchTensorDimensionError, InputDataError
            _raises(kinds, acqf.set_X_pending, wrong)
            assert _same(acqf.X_pending, pending), "a refused call changed points."
        acqf.set_X_pending(None)
        _close(acqf(everywhere), before, "values without pending points")
        built = self.built(X_pending=pending)
        _close(built(everywhere), after, "values of pending points at construction")

    def directions(self, acqf: Bound, band: Band) -> None:
        sides = acqf.bounds(self.points)
        least = self.built(maximize=False)
        negative = -least.band.latent_bounds(self.points)[0]
        _close(self.values(least), negative, "values with maximize=False")
        _close_sides(least.bounds(self.points), sides, "bounds with maximize=False")
        weights = torch.tensor([-1.0], dtype=torch.float64)  # BoTorch's way to minimise
        mirrored = self.built(posterior_transform=ScalarizedPosteriorTransform(weights))
        _close(self.values(mirrored), self.values(least), "posterior transform of -1")
        _close_sides(
            mirrored.bounds(self.points), sides, "bounds with a posterior transform"
        )

    def at(self, acqf: Bound, band: Band) -> None:
        if band.delta is None:
            return
        other = band.at(delta=0.1 * band.delta)
        # Of a constrained search, whose delta its constraints share.
        anew = self.built(delta=0.1 * _stated(acqf.assumptions.delta))
        for points in (self.points, self.X):
            sides, before = anew.bounds(points), band.bounds(points)
            _close_sides(other.bounds(points), sides, "bounds at another delta")
            _close_sides(other.at(delta=band.delta).bounds(points), before, "and back")
            wider = (sides[1] - sides[0]).sum() > (before[1] - before[0]).sum()
            _all(wider, "more confidence does not widen the band.")
        assert str(other.assumptions) == str(anew.band.assumptions)

    def known_range(self, acqf: Bound, band: Band) -> None:
        r"""A band of a function that is known to lie in a range that the data allow."""
        lower, upper = band.bounds(torch.cat([self.points, self.X]))
        # A range that clips sides, but holds a value of every band at the data.
        observed = slice(len(self.points), None)
        low = 0.5 * float(lower.min() + upper[observed].min())
        high = 0.5 * float(upper.max() + lower[observed].max())
        ranged = band.within(low, high)
        item = ranged.assumptions["range"]
        assert item.status == "given", f"the range is {item.status}: {item.statement}"

        def clipped(plain: Band) -> Sides:
            return tuple(side.clamp(low, high) for side in plain.bounds(self.points))

        _close_sides(ranged.bounds(self.points), clipped(band), "bounds within a range")
        plain, cut = (self.values(BandUCB(each)) for each in (band, ranged))
        _close(cut, plain, "values, which take no range,")
        if band.delta is not None:
            other, anew = band.at(delta=0.1 * band.delta), ranged.at(delta=0.1 * band.delta)
            _close_sides(anew.bounds(self.points), clipped(other), "at() within a range")
        reference, slack = self.points[:1], 1e-9 * float((upper - lower).max())
        ends = band.outcome_map.forward(torch.tensor([low, high], dtype=torch.float64))
        below, above = ranged.latent_bounds(reference)
        for sign, room in ((1, ends[1] - below), (-1, above - ends[0])):
            widest = band.max_gain_over(self.points, reference, sign)
            gain = ranged.max_gain_over(self.points, reference, sign)
            _all(gain <= widest + slack, "a gain grows with a range.")
            _all(gain <= room + slack, "a gain exceeds what the range leaves.")

    def replicates(self, acqf: Bound, band: Band) -> None:
        r"""A band of fixed noise, cut to what each observed input says by itself."""
        try:
            cut = band.with_replicates(share=0.4)
        except UnsupportedError:
            return
        assert "replicates" in [item.name for item in cut.assumptions.items]
        assert math.isclose(_stated(cut.delta), _stated(band.delta)), (
            "the whole is at another delta."
        )
        everywhere = torch.cat([self.points, self.X])
        inner = band.at(delta=0.6 * _stated(band.delta))
        (lower, upper), sides = inner.bounds(everywhere), cut.bounds(everywhere)
        slack = _REARRANGED * float((upper - lower).max())
        _all(sides[0] >= lower - slack, "replicates widen the lower side.")
        _all(sides[1] <= upper + slack, "replicates widen the upper side.")
        new = slice(len(self.points))
        _close(sides[0][new], lower[new], "lower bounds where nothing was observed")
        _close(sides[1][new], upper[new], "upper bounds where nothing was observed")
        anew = cut.at(delta=0.1 * _stated(cut.delta)).bounds(everywhere)
        _all(anew[1] - anew[0] >= sides[1] - sides[0] - slack, "less delta is narrower.")

    def upper_value(self, acqf: Bound, band: Band) -> None:
        upper = band.latent_bounds(self.points)[1]
        _close(self.values(acqf), upper, "values and upper bounds")

    def order_of_data(self, acqf: Bound, band: Band) -> None:
        order = torch.randperm(len(self.X), generator=self.random(4))
        sides = acqf.bounds(self.points)
        shuffled = self.built(self.X[order], self.Y[order]).bounds(self.points)
        _close_sides(shuffled, sides, "bounds of reordered data", _PERMUTED)

    def units(self, acqf: Bound, band: Band) -> None:
        if self.rescaled is None:
            return
        sides = acqf.bounds(self.points)
        for scale in (1e-3, 37.0, 1e5):
            other = _Laws(*self.rescaled(scale), seed=self.seed)
            scaled = tuple(side / scale for side in other.built().bounds(self.points))
            _close_sides(scaled, sides, f"bounds in units of {scale:g}", 1e-8)

    def repeated_inputs(self, acqf: Bound, band: Band) -> None:
        X = self.X[torch.arange(12) % 4]
        Y = self.truth.outcomes(X, self.random(5))
        lower, upper = self.built(X, Y).bounds(torch.cat([self.points, X[:1]]))
        _all(torch.isfinite(upper - lower), "repeated inputs give no band.")
        _all(lower < upper, "no width is left where inputs repeat.")

    def gain(self, acqf: Bound, band: Band) -> None:
        pairs = itertools.product((self.points[:1], self.X[:1]), (1, -1))
        for reference, sign in pairs:  # one that was not observed, and one that was
            gain = band.max_gain_over(self.points, reference, sign)
            cheap = band.max_gain_over(self.points, reference, sign, cheap=True)
            sides = band.latent_bounds(torch.cat([self.points, reference]))
            lower, upper = sides if sign == 1 else (-sides[1], -sides[0])
            slack = 1e-6 * float((upper - lower).max())
            # A band without width, of equal tasks, has the round-off of its values.
            slack += 8.0 * torch.finfo(sides[0].dtype).eps * float(upper.abs().max())
            widest = upper[:-1] - lower[-1]
            _all(gain <= widest + slack, "a gain exceeds the band's two sides.")
            _all(cheap >= gain - slack, "a cheap gain lies below the gain.")
            between = upper[:-1] - upper[-1]
            _all(gain >= between - slack, "a gain lies below an attained one.")

    def assumptions(self, acqf: Bound, band: Band) -> None:
        assumptions = acqf.assumptions
        assert all([assumptions.source, assumptions.guarantee, assumptions.items])
        assert assumptions.delta is None or 0.0 < assumptions.delta < 1.0
        assert str(assumptions).startswith("certified") == assumptions.certified
        assert repr(acqf).startswith(type(acqf).__name__)

    def estimates(self, acqf: Bound, band: Band) -> None:
        r"""A kernel that may have been fitted to the data is an estimate."""
        model = deepcopy(self.truth.model_of(self.X, self.Y))  # kernels may be shared
        if not hasattr(model, "covar_module"):
            return
        model.covar_module.requires_grad_(True)
        assumptions = self.build(model).assumptions
        assert not assumptions.certified, "a trainable kernel passes as given."
        assert any("kernel" in name for name in assumptions.estimated)

    def contradiction(self, acqf: Bound, band: Band) -> None:
        r"""Outcomes that no function of the stated norm explains."""
        # Up and down from run to run, which no smooth function follows.
        far = self.Y + 1e3 * (1.0 + torch.arange(len(self.Y)) % 2)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            acqf = self.built(self.X, far)
        kinds = [each.category for each in caught]
        assert InconsistentConfidenceSetWarning in kinds, "a contradiction is silent."
        assert acqf.assumptions.violated, "a contradicted band keeps its guarantee."
        lower, upper = acqf.bounds(self.points)
        assert bool((lower <= upper).all())

    def witness(self, acqf: Bound, band: Band) -> None:
        r"""A function of the set that attains one side of it lies inside the band."""
        witness = getattr(acqf, "witness", None)
        if witness is None:
            return
        lower, upper = band.latent_bounds(self.points)
        slack = 1e-5 * float((upper - lower).max())  # a search finds the multiplier
        for above in (True, False):
            values = witness(self.points[:1], upper=above)(self.points)
            inside = (lower - slack <= values) & (values <= upper + slack)
            _all(inside, "the witness leaves the band.")

    def device(self, acqf: Bound, band: Band) -> None:
        if not torch.cuda.is_available():
            return
        expected = acqf.bounds(self.points)
        moved = tuple(side.cpu() for side in acqf.cuda().bounds(self.points.cuda()))
        _close_sides(moved, expected, "bounds on another device", 1e-6)


_LAWS = {name.replace("_", " "): law for name, law in vars(_Laws).items() if name[0] != "_"}


def band_checks(
    build: Build,
    truth: Truth,
    *,
    rescaled: Callable[[float], tuple[Build, Truth]] | None = None,
    skip: Mapping[str, str] | Sequence[str] = (),
    seed: int = 0,
) -> Iterator[tuple[str, Callable[[], None]]]:
    r"""The checks of ``check_band`` but for coverage by name, for ``parametrize``."""
    if unknown := set(skip) - _LAWS.keys():
        raise ValueError(f"There is no check {sorted(unknown)}; there are {[*_LAWS]}.")

    def run(law: Callable[[_Laws, Bound, Band], None]) -> None:
        bench = _Laws(build, truth, rescaled, seed)
        acqf = bench.built()
        law(bench, acqf, acqf.band)

    for name, law in _LAWS.items():
        if name not in skip:
            yield name, partial(run, law)


def check_band(
    build: Build,
    truth: Truth,
    *,
    rescaled: Callable[[float], tuple[Build, Truth]] | None = None,
    skip: Mapping[str, str] | Sequence[str] = (),
    runs: int = 60,
    seed: int = 0,
) -> Coverage | None:
    r"""Run every law of a confidence bound over one bound.

    Example:
        >>> truth = Truth.of_norm(3.0)
        >>> check_band(partial(MartingaleMixtureUCB, norm_bound=3.0), truth)

    Args:
        build: Maps a model to the bound; takes ``delta``, ``maximize``,
            ``posterior_transform`` and ``X_pending`` as further arguments.
        truth: The true function and how it is observed; the bound must be valid for it.
        rescaled: Maps a factor to ``(build, truth)`` with all outcomes multiplied by this
            factor; without it the change of units is not checked.
        skip: Names of checks that do not apply, best as a mapping to the reasons.
        runs: Number of runs of the coverage check; 0 leaves it out.
        seed: Of data and points.

    Returns:
        The result of the coverage check, None where ``delta`` is not stated.

    Raises:
        AssertionError: If a law is broken; says which.
        ValueError: If ``skip`` has an unknown name.
    """
    options: dict[str, Any] = {"rescaled": rescaled, "skip": skip, "seed": seed}
    _run_all(band_checks(build, truth, **options))
    return check_coverage(build, truth, runs=runs, seed=seed) if runs else None


def check_coverage(
    build: Build, truth: Truth, *, runs: int = 60, rounds: int = 10, seed: int = 0
) -> Coverage | None:
    r"""Count the runs in which a band misses the truth, against its stated ``delta``.

    Every other input of a run is uniform; the others maximise the band among 64 points. The
    band is compared with the truth at the 64 points after every fourth observation.

    Args:
        build: As for ``check_band``.
        truth: As for ``check_band``.
        runs: Number of runs.
        rounds: Observations of each run.
        seed: Of the first run.

    Returns:
        The result, None where the bound states no ``delta`` for all points and rounds.

    Raises:
        AssertionError: If the band missed the truth in more runs than chance explains.
    """

    def play(run: int) -> Iterator[tuple[WithSides, Tensor]]:
        bench = _BoundBench(build, truth, seed=seed + run, num_observations=2)
        random, grid = bench.random(6), bench.uniform(64, bench.random(7))
        X, Y = bench.X, bench.Y
        while len(X) < rounds:
            # Inputs that follow the band are harder: they go where the noise misled it.
            looks, chooses = len(X) % 4 == 2, len(X) % 2 == 1
            acqf = bench.built(X, Y) if looks or chooses else None
            if acqf is not None and looks:
                yield acqf, grid
            chosen = bench.uniform(1, random)
            if acqf is not None and chooses:
                chosen = grid[acqf(grid.unsqueeze(-2)).argmax()].unsqueeze(0)
            X = torch.cat([X, chosen])
            Y = torch.cat([Y, truth.outcomes(chosen, random)])

    return _coverage(play, truth, runs)


def _coverage(
    play: Callable[[int], Iterator[tuple[WithSides, Tensor]]], truth: Truth, runs: int
) -> Coverage | None:
    r"""Count the runs in which a band misses the truth at some point of some look."""
    misses, delta = 0, None
    for run in range(runs):
        missed = False
        for bound, points in play(run):
            delta = bound.assumptions.delta
            if delta is None or not bound.assumptions.all_points:
                return None  # the theorem says nothing that could be counted here
            lower, upper = bound.bounds(points)
            values = truth.function(points)
            missed = missed or bool(((values < lower) | (values > upper)).any())
        misses += missed
    if delta is None:
        return None
    # The least count that a band of this delta exceeds with probability at most 1e-4.
    limit = int(binom.isf(_FALSE_ALARM, runs, delta))
    power = float(binom.sf(limit, runs, min(1.0, 3.0 * delta)))
    assert misses <= limit, (
        f"coverage: the band missed the truth in {misses} of {runs} runs; chance explains "
        f"{limit} at delta {delta:g}."
    )
    return Coverage(misses, runs, limit, power)


def _run_all(checks: Iterator[tuple[str, Callable[[], None]]]) -> None:
    for name, check in checks:
        try:
            check()
        except Exception as error:  # of the law or of the bound: which law, is said
            raise AssertionError(f"{name}: {error}") from error


def bandit_checks(
    build: BuildBandit, truth: Truth, *, seed: int = 0
) -> Iterator[tuple[str, Callable[[], None]]]:
    r"""The checks of ``check_bandit`` but for coverage by name, for ``parametrize``."""
    for name, law in vars(_BanditLaws).items():
        if name[0] != "_":
            yield name.replace("_", " "), partial(law, _BanditLaws(build, truth, seed=seed))


def check_bandit(
    build: BuildBandit, truth: Truth, *, runs: int = 30, seed: int = 0
) -> Coverage | None:
    r"""Run every law of a bandit over changing arms.

    The bandit must have the methods ``bounds(arms)``, ``select(arms)`` and
    ``observe(x, y)``, and must be one that ``copy.deepcopy`` and ``pickle`` take.

    Example:
        >>> truth = Truth.of_norm(3.0)
        >>> build = partial(KernelBandit, truth.kernel, norm_bound=3.0, noise_std=0.1)
        >>> check_bandit(build, truth)

    Args:
        build: Makes a bandit without observations; takes ``delta``.
        truth: The true function and how it is observed; the bandit must be valid for it.
        runs: Number of runs of the coverage check; 0 leaves it out.
        seed: Of arms and outcomes.

    Returns:
        The result of the coverage check, None where ``delta`` is not stated.

    Raises:
        AssertionError: If a law is broken; says which.
    """
    _run_all(bandit_checks(build, truth, seed=seed))

    def play(run: int) -> Iterator[tuple[WithSides, Tensor]]:
        bench = _BanditLaws(build, truth, seed=seed + run)
        bandit = build()
        for count in range(10):
            yield bandit, bench.uniform(40, bench.random(20 + count))
            bench._play(bandit, 1, count)  # pyright: ignore[reportPrivateUsage]

    return _coverage(play, truth, runs)


class _BanditLaws(_Bench):
    r"""Laws of every bandit over changing arms."""

    def __init__(self, build: BuildBandit, truth: Truth, seed: int = 0) -> None:
        super().__init__(truth, seed)
        self._build = build

    def _play(self, bandit: Bandit, rounds: int, start: int = 0) -> Bandit:
        r"""Play some rounds; in every other one the bandit chooses its arm."""
        for count in range(start, start + rounds):
            arms = self.uniform(12, self.random(40 + count))
            chosen = bandit.select(arms) if count % 2 else 0
            outcome = self.truth.outcomes(arms[[chosen]], self.random(400 + count))
            bandit.observe(arms[chosen], outcome[0])
        return bandit

    def _played(self, rounds: int = 9) -> Bandit:
        return self._play(self._build(), rounds)

    def sides(self) -> None:
        for rounds in (0, 9):
            bandit = self._played(rounds)
            assert bandit.num_observations == rounds
            lower, upper = bandit.bounds(self.points)
            assert lower.shape == upper.shape == (6,), "bounds maps a x d to two a-vectors."
            assert lower.dtype == upper.dtype == torch.float64
            _all(lower <= upper, "the lower bound lies above the upper one.")
            single = bandit.bounds(self.points.float())
            _close_sides(
                single, bandit.bounds(self.points.float().double()), "float32 arms"
            )

    def arms_apart(self) -> None:
        bandit = self._played()
        many = self.uniform(1500, self.random(2))
        first = tuple(side[:500] for side in bandit.bounds(many))
        _close_sides(bandit.bounds(many[:500]), first, "bounds of arms in parts")
        assert [len(side) for side in bandit.bounds(many[:0])] == [0, 0]

    def choice(self) -> None:
        r"""An arm of the largest upper bound among those that may be offered."""
        for rounds in (0, 9):
            bandit = self._played(rounds)
            index = bandit.select(self.points)
            assert isinstance(index, int), "select gives the number of an arm."
            assert index in range(6), "select gives the number of an arm."
            assert bandit.select(self.points) == index, "select changes the bandit."

    def confidence(self) -> None:
        r"""A smaller ``delta`` widens the bounds on the same observations."""
        sides = []
        for options in ({}, {"delta": 1e-4}):
            bandit = self._build(**options)
            for x, y in zip(self.X, self.Y, strict=True):
                bandit.observe(x, y)
            sides.append(bandit.bounds(self.points))
        assert bandit.assumptions.delta == 1e-4
        (lower, upper), (below, above) = sides
        _all((below <= lower) & (upper <= above), "more confidence narrows the bounds.")
        _all(above - below > upper - lower, "more confidence does not widen the bounds.")

    def refusals(self) -> None:
        bandit, points = self._played(), self.points
        before = bandit.bounds(points)
        for call in (bandit.bounds, bandit.select):
            for wrong in points[0], torch.cat([points, points], -1):
                _raises(BotorchTensorDimensionError, call, wrong)
            _raises(InputDataError, call, points / 0.0)
        _raises(InputDataError, bandit.select, points[:0])
        _raises(BotorchTensorDimensionError, bandit.observe, points, 1.0)
        _raises(InputDataError, bandit.observe, points[0], math.nan)
        assert bandit.num_observations == 9, "a refused call counts."
        _close_sides(bandit.bounds(points), before, "bounds after refused calls", 0.0)

    def copies(self) -> None:
        r"""A copy, which may be saved, goes on as the bandit does, and apart from it."""
        for rounds in (0, 9):
            bandit, points = self._played(rounds), self.points
            sides = bandit.bounds(points)
            twins = deepcopy(bandit), pickle.loads(pickle.dumps(bandit))
            for twin in twins:
                _close_sides(twin.bounds(points), sides, "bounds of a copy")
            ahead = [self._play(each, 3, 20).bounds(points) for each in twins]
            _close_sides(bandit.bounds(points), sides, "bounds after a copy went on")
            sides = self._play(bandit, 3, 20).bounds(points)
            for each in ahead:
                _close_sides(each, sides, "bounds of a copy that went on")


def _stated(delta: float | None) -> float:
    assert delta is not None, "the band states no delta."
    return delta


def _same(one: Tensor | None, other: Tensor) -> bool:
    return one is not None and torch.equal(one, other)


def _close(one: Tensor, other: Tensor, what: str, tolerance: float = _REARRANGED) -> None:
    r"""Whether values agree relative to the largest of them, or to one."""
    assert one.shape == other.shape, f"{what} have other shapes."
    if other.numel():
        size = max(1.0, float(other.detach().abs().max()))
        apart = float((one - other).detach().abs().max())
        assert not math.isnan(apart), f"{what} are not numbers."
        assert apart <= tolerance * size, f"{what} differ by {apart:.3g}, of {size:.3g}."


def _close_sides(
    one: Sides, other: Sides, what: str, tolerance: float = _REARRANGED
) -> None:
    r"""Whether two sides agree, each as values."""
    for left, right in zip(one, other, strict=True):
        _close(left, right, what, tolerance)


def _all(condition: Tensor, otherwise: str) -> None:
    assert bool(condition.all()), otherwise


def _raises(
    kinds: type[Exception] | tuple[type[Exception], ...],
    call: Callable[..., object],
    *wrong: object,
) -> None:
    try:
        call(*wrong)
    except kinds:
        return
    raise AssertionError(f"{call} should refuse {wrong} with {kinds}.")
