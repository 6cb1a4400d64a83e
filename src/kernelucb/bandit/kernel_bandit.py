r"""A kernel bandit: the same bounds, one observation at a time, in ``O(n^2)`` a round.

Ridge estimates at a few regularisers from an eigenbasis of the older observations, and
Schur complements for the newest.
"""

import warnings
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from gpytorch.settings import lazily_evaluate_kernels
from torch import Tensor
from torch.nn.functional import pad

from kernelucb._numerics import checks
from kernelucb._numerics.arrays import in_parts
from kernelucb._numerics.estimates import Number, estimated_parts, with_numbers
from kernelucb._numerics.kernels import allowed_columns
from kernelucb.confidence import mixture, ridge
from kernelucb.confidence import norm as norms
from kernelucb.confidence import radius as radii
from kernelucb.confidence.assumptions import Assumptions, Knowledge, rkhs_assumptions
from kernelucb.confidence.band import Band
from kernelucb.confidence.dual import Ellipsoids, GridSet
from kernelucb.confidence.filters import PRIOR_WEIGHTS
from kernelucb.confidence.fit import data_fit, fit_of
from kernelucb.confidence.mixture import MixtureProblem, known_noise_problem
from kernelucb.confidence.sets import ConfidenceSet, QueryPoints
from kernelucb.data import KernelRegression
from kernelucb.data.exact import Projection
from kernelucb.data.from_model import ModelData
from kernelucb.data.prior import Prior
from kernelucb.exceptions import InconsistentConfidenceSetWarning

_FIRST_CAPACITY = 8  # newest observations with room at first; doubled when it is full
BoundName = Literal["martingale_mixture", "abbasi_yadkori", "igp_ucb"]
# Regularisers of the mixture, over the squared radius and under the squared norm. Bands are
# 0.2 % wider than over 100 of them (mean over arms; benchmark settings, n up to 300).
_GRID = torch.logspace(-2.0, 2.5, 24, dtype=torch.float64)
# An eigenbasis costs as much as carrying a sixteenth part of new observations.
_RENEWED = 16
_FEWEST = 8  # new observations that make an eigenbasis worth its overhead
# Share of the width by round-off in growing systems; beyond, bounds are made from scratch.
_ACCEPTED_LOSS = 1e-5


class Points(NamedTuple):
    r"""Points in the eigenbasis of the older observations."""

    older: Projection  # on the older observations, if any
    features: Tensor  # a x r coordinates, without directions that round-off hides
    covariance: Tensor  # p x a covariances with the newest inputs outside the basis


class GrowingSystems:
    r"""The systems ``K_w + tau`` at ``m`` regularisers ``tau``.

    Conditioned on the older observations, the newest ``p`` have the covariance
    ``S = C_tau / noise^2 + tau``, a Schur complement; the inverse of its Cholesky factor
    grows by a row with each of them.

    Args:
        prior: Prior in outcome units.
        noise_std: Noise scale, outcome units.
        taus: The ``m`` regularisers.
        older: The ``KernelRegression`` of the older observations, or None.
    """

    def __init__(
        self,
        prior: Prior,
        noise_std: float,
        taus: Tensor,
        older: KernelRegression | None,
    ) -> None:
        self.prior, self.noise_std, self.regularizers = prior, noise_std, taus
        self.older, self.count = older, 0  # number p of the newest
        lam = targets = taus.new_empty(0)
        self._zeros, self._unresolved = 0, 0.0  # directions that round-off hides
        if older is not None:
            # Eigenvalues ascend, so those at zero come first. Outcomes along them are noise
            # to every fit: their squares are added to every form, whatever `tau`.
            self._zeros = int((older.eigenvalues == 0).sum())
            self._unresolved = float(older.targets[: self._zeros].square().sum())
            lam, targets = older.eigenvalues[self._zeros :], older.targets[self._zeros :]
        tau = taus.unsqueeze(-1)
        inverse = 1.0 / (lam + tau)
        self._shrinkage = tau * inverse
        self._mean_weights = lam.sqrt() * targets * inverse
        self._log_det = torch.log1p(lam / tau).sum(-1)
        self._form = inverse @ targets.square()
        self._features = tau.new_empty(0, len(lam))
        self._shrunk = tau.new_empty(_FIRST_CAPACITY, len(tau), len(lam))
        self._factors = tau.new_zeros(len(tau), _FIRST_CAPACITY, _FIRST_CAPACITY)
        self._innovations = tau.new_zeros(len(tau), _FIRST_CAPACITY)
        self._inputs: Any = None  # p x d

    def append(self, x: Tensor, target: float) -> None:
        r"""Add one ``1 x d`` input and its outcome minus prior mean, noise units."""
        # Cholesky of a bordered matrix: the new row of the factor is the covariance solved
        # by the old factor, the pivot the deviation that is left. With the inverse factor
        # a round consists of products, without a solve or a factorisation.
        points, p, noise = self.project(x), self.count, self.noise_std
        if p == len(self._shrunk):
            # Doubled, so that `n` rounds copy `O(n)` rows in all.
            self._shrunk = torch.cat([self._shrunk, torch.empty_like(self._shrunk)])
            self._factors = pad(self._factors, (0, p, 0, p))
            self._innovations = pad(self._innovations, (0, p))
        factors, innovations = self._factors[:, :p, :p], self._innovations[:, :p]
        covariance = self._conditioned(points, len(self._factors)) / noise**2
        row = (factors @ covariance).squeeze(-1)
        variance = self._older_variance(points)[0] / noise**2 + self.regularizers
        pivot = (variance - row.square().sum(-1)).sqrt()
        predicted = self._mean_weights @ points.features[0] / noise
        predicted = predicted + (row * innovations).sum(-1)
        inside = (row.unsqueeze(1) @ factors).squeeze(1)
        self._factors[:, p, :p] = -inside / pivot.unsqueeze(-1)
        self._factors[:, p, p] = 1.0 / pivot
        self._innovations[:, p] = (target - predicted) / pivot
        self._shrunk[p] = points.features * self._shrinkage
        self._features = torch.cat([self._features, points.features])
        self._inputs = x if p == 0 else torch.cat([self._inputs, x])
        # det(S / tau) is the product of the squared pivots over `tau`.
        self._log_det = self._log_det + 2.0 * pivot.log() - self.regularizers.log()
        self.count += 1

    def fit(self) -> tuple[Tensor, Tensor]:
        r"""``ln det(I + K_w / tau)`` and ``y_w^T (I + K_w / tau)^-1 y_w``, ``m`` each."""
        form = self._form + self._innovations[:, : self.count].square().sum(-1)
        return self._log_det, self.regularizers * form + self._unresolved

    def moments(self, points: Points, m: int) -> tuple[Tensor, Tensor]:
        r"""Ridge estimates minus prior means, and latent variances.

        ``a x m`` each, at ``a`` points and the first ``m`` regularisers.
        """
        p = self.count
        deviation = points.features @ self._mean_weights[:m].mT
        variance = self._older_variance(points)[:, :m]
        if p:
            factors = self._factors[:m, :p, :p]
            explained = factors @ self._conditioned(points, m)  # times the noise scale
            newest = self._innovations[:m, :p].unsqueeze(1) @ explained  # m x 1 x a
            deviation = deviation + newest.squeeze(1).mT / self.noise_std
            squares = torch.linalg.vecdot(explained, explained, dim=1)
            variance = variance - squares.mT / self.noise_std**2
        return deviation, variance.clamp_min(0.0)

    def project(self, X: Tensor) -> Points:
        r"""Points as the systems see them, from ``a x d`` inputs."""
        with lazily_evaluate_kernels(False):  # half the time for small matrices
            if self.older is None:
                mean, variance = self.prior.mean(X), self.prior.variance(X)
                none = variance.new_empty(len(X), 0)
                older = Projection(X, mean, variance, none, variance)
            else:
                older = self.older.project_inputs(X)
            features = older.features[:, self._zeros :]
            covariance = features.new_empty(0, len(X))
            if self.count:
                covariance = self.prior.covariance(X, self._inputs).mT
                covariance = covariance - self._features @ features.mT
        return Points(older, features, covariance)

    def _older_variance(self, points: Points) -> Tensor:
        r"""Variance given the older observations, ``a x m``."""
        rest = points.older.residual_variance.unsqueeze(-1)
        return rest + points.features.square() @ self._shrinkage.mT

    def _conditioned(self, points: Points, m: int) -> Tensor:
        r"""Covariance with the newest given the older observations, ``m x p x a``."""
        shrunk = self._shrunk[: self.count, :m]
        inside = (shrunk.flatten(0, 1) @ points.features.mT).unflatten(0, shrunk.shape[:2])
        # In place: this array is the largest of a round.
        return inside.add_(points.covariance.unsqueeze(1)).transpose(0, 1)


def largest(upper: Tensor) -> int:
    r"""Position of the largest value, the first where several tie."""
    if len(upper) == 0:
        raise InputDataError("There are no arms to select from.")
    return int(upper.argmax())


class OfBoundedNorm:
    r"""A bandit's norm bound: a number that was given, or a tracker's estimate so far."""

    def __init__(self, norm_bound: norms.NormBoundLike) -> None:
        # The kernel is fixed: a larger estimate than the default's delays no search.
        larger = norms.NormTracker(inflation=1.5, floor=4.0)
        self._ball = norms.as_ball(larger if norm_bound is None else norm_bound)
        self._estimates = self._ball.number is None

    @property
    def norm_bound(self) -> Number:
        r"""The norm bound given, or its estimate so far, outcome units."""
        return self._norm.assumption.number(self._norm.value)

    @property
    def _norm(self) -> norms.NormBound:
        return self._ball.so_far()


class KernelBandit(OfBoundedNorm, Band):
    r"""Confidence bounds for finite, changing sets of arms, anytime.

    Gives the bounds of ``MartingaleMixtureUCB`` (its filters up to the last sixteenth part
    of the data, for the rest those that need no spectrum), ``AbbasiYadkoriUCB`` or
    ``IGPUCB`` after every observation, at a cost of ``O(n^2)`` a round instead of
    ``O(n^3)``. The minimum over every ridge parameter is taken over 24 of them, which
    widens bands by about 0.2 % (measured), more for a norm bound just above the least
    consistent norm.
    A round is ``O(n^3)`` while the data contradict the norm bound, and where round-off
    would make the bounds less accurate than a regression from scratch (noise below about
    1e-5 prior deviations times the root of the number of observations).

    Source: Flynn & Reeb (2024), Algorithm 1, and the sources of the classes named above,
    with their assumptions: a kernel and mean fixed before the data, conditionally
    sub-Gaussian noise of scale ``noise_std``, ``||f - mean||_H <= norm_bound``, and
    outcomes that are reported whatever their noise.

    Example:
        >>> bandit = KernelBandit(covar_module, norm_bound=10.0, noise_std=0.1)
        >>> for _ in range(1000):
        ...     arms = torch.rand(100, 3, dtype=torch.float64)
        ...     index = bandit.select(arms)
        ...     bandit.observe(arms[index], play(arms[index]))

    Attributes:
        prior: The frozen prior.
        estimated: Parts of the premises that were fitted to data.
        inputs: ``n x d`` observed arms, float64.
        outcomes: Their ``n`` outcomes.
        warned: Whether the user has been told of a contradiction, which is said once.
    """

    def __init__(
        self,
        covar_module: Kernel,
        *,
        norm_bound: norms.NormBoundLike = None,
        noise_std: float,
        delta: float = 0.05,
        bound: BoundName = "martingale_mixture",
        form: Literal["dual", "analytic"] | float | Sequence[float] = "dual",
        fit: Literal["filters", "martingale"] = "filters",
        covariance_scale: radii.CovarianceScale = 1.0,
        horizon: int = 1000,
        mean_module: Mean | None = None,
    ) -> None:
        r"""Kernel bandit without observations.

        Args:
            covar_module: Kernel of the prior, output scale included; a float64 copy is
                kept. Trainable parameters count as estimated.
            norm_bound: Bound on the RKHS norm of ``f - mean``, outcome units. By default
                estimated from the data by ``NormTracker(inflation=1.5, floor=4.0)``, again
                after every sixteenth part of new observations; the estimate never falls. A
                given ``NormTracker`` is used and updated in its place.
            noise_std: Sub-Gaussian noise scale, outcome units.
            delta: Failure probability of all rounds together.
            bound: ``"martingale_mixture"``, ``"abbasi_yadkori"`` or ``"igp_ucb"``.
            form: ``"dual"`` is the minimum over every ridge parameter; several numbers
                are the ridge parameters (outcome units squared) to take the minimum over,
                and one number gives the closed form there; ``"analytic"`` stands for
                ``noise_std^2 / covariance_scale``. ``"abbasi_yadkori"`` takes one number,
                by default ``noise_std^2``; ``"igp_ucb"`` does not use ``form``.
            fit: For the martingale mixture, ``"filters"`` or ``"martingale"``; see
                ``MartingaleMixtureUCB``. With ``"filters"`` the bandit uses the two members
                of the mixture that need no spectrum, the martingale mixture and the energy
                of the noise, and for ``form="dual"`` the whole mixture of older data.
            covariance_scale: Of the martingale mixture; see ``MartingaleMixtureUCB``.
            horizon: Number of rounds that ``"igp_ucb"`` holds for.
            mean_module: Known prior mean; zero when absent.

        Raises:
            ValueError: If an argument is out of its range, or if for ``"abbasi_yadkori"``
                and ``"igp_ucb"`` round-off exceeds the ridge parameter
                (``docs/notation.md``; ``observe`` checks this for each arm).
        """
        checks.one_of("bound", bound, "martingale_mixture", "abbasi_yadkori", "igp_ucb")
        self._fit: Any = checks.one_of("fit", fit, "filters", "martingale")
        super().__init__(norm_bound)
        noise = self.noise_std = checks.positive_scalar("noise_std", noise_std)
        delta = self._delta = checks.probability("delta", delta)
        self._scales = radii.covariance_scales(covariance_scale)
        self.prior = Prior(covar_module, mean_module)
        parts = estimated_parts(covar_module, mean_module)
        self.estimated = with_numbers(parts, norm_bound, noise_std)
        device = next(self.prior.parameters(), torch.empty(0)).device
        self.outcomes = torch.empty(0, dtype=torch.float64, device=device)
        self.inputs = self.outcomes.new_empty(0, allowed_columns(covar_module).start)
        taus = self.outcomes  # those that were asked for; none where the grid decides
        if not isinstance(form, str):
            alphas = checks.as_double(form).to(taus)
            taus = checks.positive_values("form", alphas, alphas.numel()) / noise**2
        elif checks.one_of("form", form, "dual", "analytic") == "analytic":
            taus = 1.0 / taus.new_tensor(self._scales)
        elif bound == "abbasi_yadkori":
            taus = taus.new_ones(1)
        self._theorem: ridge.RidgeTheorem | None = None
        if bound == "igp_ucb":
            rounds = int(checks.positive_scalar("horizon", horizon))
            self._theorem = ridge.igp_ucb_theorem(delta, noise, rounds)
            taus = taus.new_tensor([self._theorem.regularizer])
        elif bound == "abbasi_yadkori":
            if len(taus) > 1:
                raise ValueError('bound="abbasi_yadkori" takes one ridge parameter.')
            self._theorem = ridge.abbasi_yadkori_theorem(delta, float(taus))
        self._taus = taus
        self._variance, self.warned = 0.0, False
        self._stateless: ConfidenceSet | None = None  # of all data, once it was needed
        self._renew(None)

    @property
    def num_observations(self) -> int:
        r"""Number of observations."""
        return len(self.outcomes)

    @property
    def prior_std(self) -> float:
        r"""Prior standard deviation of the outcome (root mean square over the inputs).

        Raises:
            InputDataError: If there are no observations yet.
        """
        if self.num_observations == 0:
            raise InputDataError("There are no observations yet; add one first.")
        return float(self.prior.variance(self.inputs).mean().sqrt())

    @property
    def assumptions(self) -> Assumptions:
        r"""The assumptions of the guarantee, violated where the data contradict them."""
        return self.premises if self.is_growing else self.stateless().assumptions

    @property
    def premises(self) -> Assumptions:
        r"""The assumptions of the guarantee, without a check against the data."""
        noise_std = torch.tensor([self.noise_std], dtype=torch.float64)
        knowledge = Knowledge(self.prior, self.estimated, noise_std)
        given = self._norm.assumption
        if self._theorem is not None:
            return self._theorem.assumptions(knowledge, given)
        source = radii.mixture_source(self._scales)
        source = radii.energy_source(source) if self._fit == "filters" else source
        return rkhs_assumptions(source, knowledge, self._delta, given).by(GridSet.source)

    @property
    def is_growing(self) -> bool:
        r"""False where bounds are made anew from all data, in ``O(n^3)``.

        The data contradict the norm bound then, or round-off would show.
        """
        return self._widths() is not None

    @torch.no_grad()
    def bounds(self, arms: Tensor) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound at each arm.

        Source: of the class; the cut by the filtered set of older data is ours
        (``docs/mathematics.md``, "One observation at a time").

        Args:
            arms: ``a x d`` arms.

        Returns:
            Two ``a``-vectors in outcome units, float64.

        Raises:
            BotorchTensorDimensionError: If the arms are no matrix, or have another number
                of columns than those observed.
            InputDataError: If a value is not finite.
        """
        arms, widths, norm = self._checked(arms), self._widths(), self._norm.value
        if widths is None:
            return self.stateless().bounds(arms)
        is_dual, older = len(self._taus) == 0, self._older

        def evaluate(part: Tensor) -> Tensor:
            points = self._growing.project(part)
            deviation, variance = self._growing.moments(points, len(widths))
            half = widths * variance.sqrt()
            lower, upper = (half - deviation).amin(-1), (half + deviation).amin(-1)
            if is_dual:  # the limit of an infinite regulariser
                ball = norm * points.older.prior_variance.sqrt()
                lower, upper = lower.minimum(ball), upper.minimum(ball)
            if older is not None:
                # The older set holds on the same event, at the same delta, so both may be
                # intersected. Where they miss each other the newer one stands: a
                # contradiction shows in `_widths`, for all arms at once.
                seen = QueryPoints(points.older, points.older)
                below, above = (
                    torch.as_tensor(Ellipsoids(older, seen, sign).on_grid()).amin(-1)
                    for sign in (-1, 1)
                )
                below, above = lower.minimum(below), upper.minimum(above)
                meet = above >= -below
                lower, upper = below.where(meet, lower), above.where(meet, upper)
            # `lower` is minus the lower side of `f - mean`.
            mean = points.older.baseline
            return torch.stack([mean - lower, mean + upper])

        lower, upper = in_parts(arms, evaluate)
        return lower, upper

    def select(self, arms: Tensor) -> int:
        r"""Index of the arm with the largest upper bound, the first where several tie.

        Args:
            arms: ``a x d`` arms, at least one.
        """
        return largest(self.bounds(arms)[1])

    @torch.no_grad()
    def observe(self, x: Tensor, y: float | Tensor) -> None:
        r"""Add one observation.

        Args:
            x: The arm played, ``d`` or ``1 x d``.
            y: Its outcome, one number.

        Raises:
            BotorchTensorDimensionError: If ``x`` is not one arm with as many columns as the
                observed arms, or ``y`` not one outcome.
            InputDataError: If a value is not finite.
            ValueError: If the horizon of ``"igp_ucb"`` is over, or ``noise_std`` is too
                small for the prior deviation there.
        """
        x = self._checked(x.unsqueeze(0) if x.dim() == 1 else x)
        outcome = checks.finite("y", checks.as_double(y, "y")).detach().to(x).reshape(-1)
        if len(x) != 1 or len(outcome) != 1:
            raise BotorchTensorDimensionError(
                f"observe takes one arm and one outcome, got {len(x)} and {len(outcome)}."
            )
        count = self.num_observations
        variance = self.prior.variance(x)
        if (theorem := self._theorem) is not None:
            rounds = theorem.horizon
            if rounds is not None and count >= rounds:
                raise ValueError(f"horizon is {rounds}; the bound holds for no more.")
            ridge.check_resolved(theorem.regularizer, self.noise_std, variance)
        self._growing.append(x, float(outcome - self.prior.mean(x)) / self.noise_std)
        self.inputs = torch.cat([self.inputs.reshape(-1, x.shape[1]), x])
        self.outcomes = torch.cat([self.outcomes, outcome])
        self._variance += float(variance)
        self._stateless = None
        # An estimated norm follows the first observations one by one.
        few = 1 if self._estimates else _FEWEST
        due = self._renewed_at + max(few, self._renewed_at // _RENEWED)
        # The system at one regulariser grows for ever, cheaper than an eigenbasis.
        if count + 1 < due or (self._theorem is not None and not self._estimates):
            return
        regression = self._regression()
        if self._estimates:
            fitted = data_fit("filters", regression, self._delta)
            self._ball.resolve(*fitted.for_least_norm()[0])
        self._renew(regression)

    def stateless(self) -> ConfidenceSet:
        r"""The same bound from all data at once, ``O(n^3)``; widened where it is empty."""
        if self._stateless is not None:
            return self._stateless
        regression = self._regression()
        if self._theorem is not None:
            self._stateless = self._theorem.band(regression, self._norm)
        else:
            form: Any = self._taus * self.noise_std**2 if len(self._taus) else "dual"
            self._stateless = mixture.confidence_set(self._problem(regression), form)
        return self._stateless

    def _problem(self, regression: KernelRegression) -> MixtureProblem:
        r"""Constraints and assumptions of the stateless set."""
        fit = fit_of(self._fit, self._scales)
        with warnings.catch_warnings():
            if self.warned:  # a contradiction stays, and is said once
                warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
            problem = known_noise_problem(regression, self._ball, fit, self._delta)
        self.warned |= problem.assumptions.violated
        return problem

    def _renew(self, regression: KernelRegression | None) -> None:
        r"""Take all observations into the eigenbasis."""
        norm, taus = self._norm.value, self._taus
        needed = taus
        if self._theorem is None:
            squared_radius = radii.noise_energy_bound(self.num_observations, self._delta)
            grid = _GRID.to(taus) * (squared_radius / norm**2)
            # As accurate until the next eigenbasis, when there are at most twice as many.
            grid = grid.clamp_min(2.0 * self._resolution)
            references = 1.0 / taus.new_tensor(self._scales)
            # Beside regularisers that were asked for a few show whether the set is empty.
            shown = grid[:: 3 if len(taus) else 1]
            needed = references if len(taus) else torch.cat([shown, references])
            taus = torch.cat([taus, shown, references])
        self._smallest = float(torch.cat([self._taus, needed]).min())
        self._growing = GrowingSystems(self.prior, self.noise_std, taus, regression)
        self._hidden = 0.0 if regression is None else regression.hidden_part(norm)
        self._renewed_at = self.num_observations
        self._older: GridSet | None = None
        is_filtered = self._theorem is None and self._fit == "filters"
        if regression is None or not is_filtered or len(self._taus):
            return
        state, sides, _, items, _ = self._problem(regression)
        grid = _GRID.to(taus) * (sides.radius.squared(state) / sides.ball**2)
        self._older = GridSet(state, sides, grid, items.by(GridSet.source))

    def _widths(self) -> Tensor | None:
        r"""Multiples of the deviations at regularisers; None where nothing grows."""
        taus, (log_det, form) = self._growing.regularizers, self._growing.fit()
        norm, delta, count = self._norm.value, self._delta, self.num_observations
        older = self._older
        if self._resolution > self._smallest or (older and older.assumptions.violated):
            return None
        if self._theorem is not None:
            return torch.full_like(taus, self._theorem.width(float(log_det), norm))
        last = len(self._scales)
        references, forms = taus[-last:], form[-last:]

        def at(tau_ref: float) -> Tensor:
            return forms[references == tau_ref][0]

        radius = radii.combined_radius(
            references, log_det[-last:], lambda tau: forms - at(tau), delta
        )
        if self._fit == "martingale":
            radius = radius.beside_hidden(self._hidden)
        squared = float(at(radius.tau_ref)) + radius.slack
        if self._fit == "filters":  # two members of the mixture, by their prior weights
            mixed, _ = radii.energy_ball(count, delta, squared, PRIOR_WEIGHTS)
            squared = mixed + self._hidden
        excess = squared + taus * norm**2 - form
        if float(excess.min()) <= 0.0:
            return None  # no function of this norm fits the data
        widths = (excess / taus).sqrt()
        # Not at the references, which only give radii, nor beside regularisers given.
        return widths[: len(self._taus) or len(taus) - last]

    @property
    def _resolution(self) -> float:
        r"""The smallest regulariser at which growing systems are accurate.

        Round-off of a backward stable solve, ``eps |K_w| |w|`` with ``|w|`` at most
        ``norm / (2 sqrt(tau))``, moves a ridge estimate by at most
        ``eps |K_w| / (2 tau)`` of its standard deviation times ``norm``: both are sums with
        ``(K_w + tau)^-1 k_w(x)``. ``|K_w|`` is at most the trace.
        """
        trace = self._variance / self.noise_std**2
        return torch.finfo(torch.float64).eps * trace / _ACCEPTED_LOSS

    def _regression(self) -> KernelRegression:
        noise = torch.full_like(self.outcomes, self.noise_std)
        data = self.prior, self.inputs, self.outcomes, noise, self.inputs.shape[1]
        return KernelRegression.from_data(ModelData(*data, self.estimated - {"norm"}))

    def _checked(self, arms: Tensor) -> Tensor:
        if arms.dim() != 2:
            shape = tuple(arms.shape)
            raise BotorchTensorDimensionError(f"Arms must be `a x d`, got shape {shape}.")
        columns = self.inputs.shape[1]
        if self.num_observations and arms.shape[1] != columns:
            raise BotorchTensorDimensionError(
                f"Arms have {arms.shape[1]} columns; those observed have {columns}."
            )
        arms = checks.finite("The arms", arms).detach().to(self.inputs)
        if self.num_observations == 0:
            self.prior.check_fits(arms)
        return arms
