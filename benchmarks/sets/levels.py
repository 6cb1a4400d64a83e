r"""Level sets by a search that is replayed: policies, functions, runs."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from botorch.exceptions import InputDataWarning
from botorch.models import SingleTaskGP, transforms
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from botorch.utils.sampling import manual_seed
from gpytorch.distributions import MultivariateNormal
from torch import Tensor
from torch.quasirandom import SobolEngine

from benchmarks.runner import fixed_kernel, quiet, sobol_points, stream
from benchmarks.runner.simulators import SIMULATORS, batch_reaction
from benchmarks.runner.study import Settings
from benchmarks.sets.problems import tube
from kernelucb import (
    KernelRegression,
    LevelSetAmbiguity,
    MartingaleMixtureUCB,
    NearNormBall,
    level_set,
    norm_from_tasks,
)
from kernelucb.calibration import (
    LevelSetClaim,
    Loop,
    Margins,
    PriorDraws,
    Run,
    Simulator,
    calibrate,
)
from kernelucb.calibration.policy import Functions, Problem, digest_of, fitted
from kernelucb.confidence.assumptions import Status
from kernelucb.exceptions import InconsistentConfidenceSetWarning

STARTS = 12
_JITTER = 1e-8  # of a prior variance: round-off


@lru_cache(maxsize=128)  # of the same rows in every round that follows
def _fit(X: bytes, Y: bytes, columns: int) -> SingleTaskGP:
    rows = torch.from_numpy(np.frombuffer(X).copy()).reshape(-1, columns)
    outcomes = torch.from_numpy(np.frombuffer(Y).copy()).reshape(-1, 1)
    with manual_seed(0), quiet():
        return fitted(SingleTaskGP(rows, outcomes))


def held(X: Tensor, Y: Tensor, rows: int) -> SingleTaskGP:
    r"""BoTorch's default model of all data, with the parameters that the first rows fit."""
    parts = (each[:rows].contiguous().numpy().tobytes() for each in (X, Y))
    first = _fit(*parts, X.shape[1])
    # In evaluation mode it does not learn the scale of the outcomes anew.
    with quiet(InputDataWarning):
        model = SingleTaskGP(X, Y, outcome_transform=deepcopy(first.outcome_transform))
    model.load_state_dict(first.state_dict())
    return model.eval()


@dataclass(frozen=True)
class Straddle:
    r"""One round: the candidate of largest ``1.96 s - |m - threshold|``.

    Source: Bryan et al. (2005).

    Attributes:
        candidates: ``N x d`` points.
        threshold: Outcome units.
        every: The model is fitted after the starts and after so many further rounds; after
            the starts alone at 0.
        draws: Parameters of a Laplace approximation that are averaged; none at 0.
        starts: Number of rows before the first round.
    """

    candidates: Tensor
    threshold: float
    every: int = 0
    draws: int = 0
    starts: int = STARTS

    def __call__(self, X: Tensor, Y: Tensor) -> tuple[Model, Tensor]:
        r"""The model of ``n x d`` inputs and ``n x 1`` outcomes; the next input."""
        later = len(X) - self.starts
        rows = self.starts + (later - later % self.every if self.every else 0)
        model: Any = held(X, Y, rows)
        if self.draws:
            model = Averaged(X, Y, held(X[:rows], Y[:rows], rows), self.draws)
            mean, variance = model.moments(self.candidates)
        else:
            mean, variance = moments(model, self.candidates)
        near = 1.96 * variance.sqrt() - (mean - self.threshold).abs()
        return model, self.candidates[near.argmax()].unsqueeze(0)


@torch.no_grad()
def moments(model: Model, X: Tensor) -> tuple[Tensor, Tensor]:
    r"""``N`` posterior means and variances, outcome units."""
    found = model.posterior(X)
    return found.mean.squeeze(-1), found.variance.squeeze(-1)


class Averaged(Model):
    r"""Mean and covariance over parameters drawn about those of a fitted model.

    Laplace's approximation in logarithms of lengthscales and noise, and the mean.
    """

    num_outputs = 1

    def __init__(self, X: Tensor, Y: Tensor, first: Any, draws: int) -> None:
        super().__init__()
        scale = first.outcome_transform
        self.centre, self.unit = scale.means.squeeze(), scale.stdvs.squeeze()
        rows, known = first.train_inputs[0], first.train_targets
        lengths = first.covar_module.lengthscale.detach().reshape(-1)
        noise = first.likelihood.noise.detach().reshape(-1)
        mean = first.mean_module.constant.detach().reshape(-1)
        middle = torch.cat([lengths.log(), noise.log(), mean]).double()
        loss = _loss(rows, known)
        curvature: Any = torch.autograd.functional.hessian(loss, middle)
        sizes, directions = torch.linalg.eigh(curvature)
        uniform = SobolEngine(len(middle), scramble=True, seed=0).draw(draws).double()
        normal = 2.0**0.5 * torch.erfinv(2.0 * uniform.clamp(1e-6, 1.0 - 1e-6) - 1.0)
        root = directions / sizes.clamp_min(0.25).sqrt()  # at most two, in logarithms
        self.parameters_drawn = middle + normal @ root.mT
        self.rows, self.known = X, (Y.reshape(-1) - self.centre) / self.unit
        self.lengths = self.parameters_drawn[:, :-2].clamp(-4.0, 6.0).exp()
        self.noise = self.parameters_drawn[:, -2].clamp(-9.2, 1.0).exp()
        self.mean = self.parameters_drawn[:, -1]
        gram = _kernel(X, X, self.lengths) + self.noise[:, None, None] * torch.eye(len(X))
        self.factor = torch.linalg.cholesky(gram)

    def _solved(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""``D x N`` means of the draws, and the roots of what the data took away."""
        cross = _kernel(self.rows, X, self.lengths)
        rest = (self.known - self.mean[:, None]).unsqueeze(-1)
        weights = torch.linalg.solve_triangular(self.factor, rest, upper=False)
        half = torch.linalg.solve_triangular(self.factor, cross, upper=False)
        return self.mean[:, None] + (half.mT @ weights).squeeze(-1), half

    def moments(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""``N`` means and variances, outcome units: the posterior's diagonal alone."""
        means, half = self._solved(X)
        variance = 1.0 - half.square().sum(1).mean(0) + means.var(0, correction=0)
        return self.centre + self.unit * means.mean(0), self.unit**2 * (variance + _JITTER)

    def posterior(
        self, X: Tensor, observation_noise: bool = False, **_: object
    ) -> GPyTorchPosterior:
        means, half = self._solved(X)
        known, apart = half.flatten(0, 1), means - means.mean(0)
        spread = (apart.mT @ apart - known.mT @ known) / len(means)
        covariance = _kernel(X, X, self.lengths).mean(0) + spread
        extra = _JITTER + observation_noise * self.noise.mean()
        safe = covariance + extra * torch.eye(len(X))
        mean = self.centre + self.unit * means.mean(0)
        return GPyTorchPosterior(MultivariateNormal(mean, self.unit**2 * safe))


def _kernel(X: Tensor, Z: Tensor, lengths: Tensor) -> Tensor:
    scaled = (each / lengths.unsqueeze(1) for each in (X, Z))
    left, right = scaled
    squares = left.square().sum(-1)[:, :, None] + right.square().sum(-1)[:, None]
    return (-0.5 * (squares - 2.0 * left @ right.mT).clamp_min(0.0)).exp()


def _loss(X: Tensor, y: Tensor) -> Callable[[Tensor], Tensor]:
    r"""Minus the log density of BoTorch's default prior and of standardized outcomes."""

    def loss(parameters: Tensor) -> Tensor:
        logs, noise, mean = parameters[:-2], parameters[-2], parameters[-1]
        gram = _kernel(X, X, logs.exp().unsqueeze(0))[0] + noise.exp() * torch.eye(len(X))
        factor = torch.linalg.cholesky(gram)
        half = torch.linalg.solve_triangular(factor, (y - mean)[:, None], upper=False)
        middle = 2.0**0.5 + 0.5 * np.log(X.shape[1])
        prior = (logs - middle).square().sum() / 6.0 + (noise + 4.0).square() / 2.0
        return 0.5 * half.square().sum() + factor.diagonal().log().sum() + prior

    return loss


@dataclass(frozen=True)
class StandardizedDraws(Functions):
    r"""Draws of BoTorch's default prior in the unit of their deviation on the candidates.

    Less their quantile at a level drawn between ``least`` and ``most_below``: the threshold
    is 0. The noise is drawn from its prior in these units, as for standardized outcomes.
    """

    candidates: Tensor
    least: float = 0.6
    most_below: float = 0.9

    statement = "the function is a standardized draw of BoTorch's default prior"

    def draw(self, number: int, generator: torch.Generator) -> Problem:
        drawn = PriorDraws(self.candidates.shape[1]).draw(number, generator)
        level = torch.rand((), generator=generator).double()
        level = self.least + (self.most_below - self.least) * level
        return standardized(drawn.function, self.candidates, level, drawn.noise_std)


def standardized(
    function: Callable[[Tensor], Tensor], candidates: Tensor, level: Any, noise_std: float
) -> Problem:
    r"""A function in the unit of its deviation on candidates, less a quantile there."""
    values = function(candidates).detach()
    threshold, unit = values.quantile(level), values.std()
    return Problem(lambda X: (function(X).detach() - threshold) / unit, noise_std)


def drawn_reaction(
    generator: torch.Generator,
) -> tuple[Callable[[Tensor], Tensor], float]:
    r"""Yield (%) of the batch reaction, its rates and energies drawn; noise 2 %.

    Rates within factors of 1.6 and 2 of ``batch_reaction``'s, energies within 8 and
    10 kJ/mol (standard deviations).
    """
    z = torch.randn(4, generator=generator).double().numpy()
    first = 0.35 * np.exp(0.5 * z[0]), 7e4 + 8e3 * z[1]
    second = 0.04 * np.exp(0.7 * z[2]), 1.05e5 + 1e4 * z[3]
    return lambda X: torch.from_numpy(batch_reaction(X.numpy(), first, second)), 2.0


class Family(NamedTuple):
    r"""Functions that a search is replayed on, and the threshold of its level sets."""

    dimension: int
    threshold: float

    def functions(self, candidates: Tensor) -> Functions:
        if self.threshold:
            return Simulator(drawn_reaction)
        return StandardizedDraws(candidates)


FAMILIES = {
    "prior in 2 inputs": Family(2, 0.0),
    "prior in 3 inputs": Family(3, 0.0),
    "reaction": Family(3, 60.0),
}
POLICIES: dict[str, dict[str, int]] = {
    "refitted in every round": {"every": 1},
    "refitted in every fifth": {"every": 5},
    "held after the starts": {},
    "averaged over 16 draws": {"draws": 16},
}
WRONG = 0.0, 0.02, 0.05  # shares of the points that may be claimed wrongly
# In two and three inputs, chosen before any run.
REAL: dict[str, Callable[[Any], Any]] = {
    "tube": lambda X: tube(X)[:, 1],
    **{
        name: SIMULATORS[name]
        for name in ("throw", "batch reaction", "stirred tank", "epidemic")
    },
}
REPLAYS = Path(__file__).parent / "runs" / "replays"


@dataclass(frozen=True)
class Prepared:
    r"""One round as of ``Straddle``, with parameters that no outcome of the run moves.

    Attributes:
        candidates: ``N x d`` points.
        threshold: Outcome units.
        parameters: Logarithms of ``d`` lengthscales and of the noise, the mean, and centre
            and unit of the outcomes.
    """

    candidates: Tensor
    threshold: float
    parameters: Tensor

    @classmethod
    def of(cls, functions: Functions, candidates: Tensor, threshold: float) -> "Prepared":
        r"""Means over fits to ten draws, at sixty candidates each."""
        tables, X = [], candidates[:60]
        for number in range(10):
            random = torch.Generator().manual_seed(10_000 + number)
            drawn = functions.draw(number, random)
            noise = torch.randn(len(X), 1, generator=random).double()
            tables.append(drawn.values(X)[:, None] + drawn.noise_std * noise)
        scale = transforms.Standardize(1)
        scale(torch.cat(tables))
        found = []
        for Y in tables:
            with manual_seed(0), quiet():
                model: Any = fitted(SingleTaskGP(X, Y, outcome_transform=scale.eval()))
            parts = model.covar_module.lengthscale.log(), model.likelihood.noise.log()
            parts = *parts, model.mean_module.constant
            found.append(torch.cat([part.detach().double().reshape(-1) for part in parts]))
        units = scale.means.reshape(1), scale.stdvs.reshape(1)
        means = torch.cat([torch.stack(found).mean(0), *units])
        return cls(candidates, threshold, means.round(decimals=3))

    def __call__(self, X: Tensor, Y: Tensor) -> tuple[Model, Tensor]:
        r"""The model of ``n x d`` inputs and ``n x 1`` outcomes; the next input."""
        *logs, noise, mean, centre, unit = self.parameters
        scale = transforms.Standardize(1)
        ends = [centre - unit / 2.0**0.5, centre + unit / 2.0**0.5]
        scale(torch.stack(ends).unsqueeze(-1))  # with this mean and this deviation
        scale.eval()
        with quiet(InputDataWarning):
            model: Any = SingleTaskGP(X, Y, outcome_transform=scale).eval()
        model.covar_module.lengthscale = torch.stack(logs).exp().unsqueeze(0)
        model.likelihood.noise, model.mean_module.constant = noise.exp(), mean
        found, variance = moments(model, self.candidates)
        near = 1.96 * variance.sqrt() - (found - self.threshold).abs()
        return model, self.candidates[near.argmax()].unsqueeze(0)


def prepared(s: Settings) -> tuple[Loop, Functions, float]:
    r"""The loop of a family and a policy, its functions, its threshold."""
    return _prepared(s["family"], s["policy"], s["candidates"], s["rounds"])


@lru_cache
def _prepared(
    name: str, policy: str, count: int, rounds: int
) -> tuple[Loop, Functions, float]:
    dimension, threshold = family = FAMILIES[name]
    candidates = sobol_points(count, dimension, seed=0)
    functions = family.functions(candidates)
    choose: Any = Straddle(candidates, threshold, **POLICIES.get(policy, {}))
    if policy == "of ten other draws":
        choose = Prepared.of(functions, candidates, threshold)
    loop = Loop(choose, candidates=candidates, starts=STARTS, rounds=rounds)
    return loop, functions, threshold


def replayed(s: Settings) -> Margins:
    r"""Margins of a policy, from replays that are kept beside the runs."""
    loop, functions, threshold = prepared(s)
    claims = tuple(LevelSetClaim(threshold, wrong) for wrong in WRONG)
    names = s["family"], s["policy"], s["rounds"], s["candidates"]
    path = REPLAYS / f"{digest_of(names)}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    given: dict[str, Any] = {"claims": claims, "progress": False}
    with quiet():
        return calibrate(loop, functions, s["replays"], path, **given)


def costs(s: Settings) -> dict[str, Any]:
    r"""Margins of all claims, by the number of outcomes from which they are made."""
    found, threshold = replayed(s), FAMILIES[s["family"]].threshold
    return {
        f"margins {wrong:g}": [
            found.since(first).margin(LevelSetClaim(threshold, wrong), s["delta"])
            for first in s["firsts"]
        ]
        for wrong in WRONG
    }


def problem_of(s: Settings) -> Problem:
    r"""A fresh draw of the family, or a real function in the family's units."""
    loop, functions, threshold = prepared(s)
    number = int(stream(s["seed"], s["family"], "fresh").integers(2**31))
    if s["function"] == "fresh draw":
        return functions.draw(number, torch.Generator().manual_seed(number))
    real = REAL[s["function"]]

    def function(X: Tensor) -> Tensor:
        return torch.from_numpy(np.asarray(real(X.numpy()))).double()

    if threshold:
        return Problem(function, 2.0)
    return standardized(function, loop.points, s["level"], s["noise_std"])


def levels(s: Settings) -> dict[str, Any]:
    r"""A run of a policy, or of the certified band by its own rule."""
    return certified(s) if s["policy"] == "certified band" else searched(s)


def searched(s: Settings) -> dict[str, Any]:
    r"""A run of a policy: shares of points open and wrong, by the way to claim."""
    (loop, _, threshold), problem = prepared(s), problem_of(s)
    run = Run(replayed(s).since(s["since"]), loop) if s["replays"] else None
    random, points = stream(s["seed"], "noise"), loop.points
    noise = torch.from_numpy(random.standard_normal((loop.rounds, 1))) * problem.noise_std
    X, above = loop.first_inputs(s["seed"]), problem.values(points) >= threshold
    shares, unlike = dict[str, list[list[float]]](), list[str]()
    while True:
        Y = problem.values(X).unsqueeze(-1) + noise[: len(X)]
        with quiet():
            model, candidate = loop.round(X, Y)
            mean, variance = moments(model, points)
        ends = [mean - k * variance.sqrt() >= threshold for k in (1.96, -1.96)]
        limits = {"plain": (ends[0], ends[1])}
        if run is not None:
            run.update(model, candidate, X, Y)
        if run is not None and len(X) >= s["since"]:
            for wrong in WRONG:
                claim = run.claim(LevelSetClaim(threshold, wrong), s["delta"])
                limits[f"{wrong:g}"] = claim.lower > 0.0, claim.upper > 0.0
                items = claim.assumptions.items
                unlike = [each.text for each in items if each.status is Status.VIOLATED]
        for name, (inside, possible) in limits.items():
            false = (inside & ~above) | (~possible & above)
            parts = [float(p.double().mean()) for p in (possible & ~inside, false)]
            shares.setdefault(name, []).append(parts)
        if len(X) == loop.rounds:
            return {"shares": shares, "unlike": unlike}
        X = torch.cat([X, candidate])


def certified(s: Settings) -> dict[str, Any]:
    r"""The certified band at the least norm of the truth on the candidates, as searched."""
    problem, (loop, _, threshold) = problem_of(s), prepared(s)
    points, random = loop.points, stream(s["seed"], "noise")
    values = problem.values(points)
    centre, unit = values.mean(), values.std()
    kernel = fixed_kernel("matern52", s["lengthscale"] * points.shape[1] ** 0.5)
    table = [(points, (values - centre) / unit)]
    norm = float(norm_from_tasks(table, kernel, model_error=s["model_error"]).norm_bound)
    ball, level = NearNormBall(norm, s["model_error"]), float((threshold - centre) / unit)
    noise_std = problem.noise_std / float(unit)
    noise = noise_std * torch.from_numpy(random.standard_normal(loop.rounds))
    X, shares, above = loop.first_inputs(s["seed"]), [], values >= threshold
    while True:
        Y = (problem.values(X) - centre) / unit + noise[: len(X)]
        state = KernelRegression(X, Y, kernel, noise_std)
        with quiet(InconsistentConfidenceSetWarning):
            band = MartingaleMixtureUCB(state, norm_bound=ball, delta=s["delta"])
        found = level_set(band, level, candidates=points)
        false = ((found.status == 1) & ~above) | ((found.status == -1) & above)
        parts = (found.status == 0), false
        shares.append([float(p.double().mean()) for p in parts])
        if len(X) == loop.rounds:
            break
        with torch.no_grad():
            best = LevelSetAmbiguity(band, level)(points.unsqueeze(1)).argmax()
        X = torch.cat([X, points[best].unsqueeze(0)])
    return {"shares": {"certified": shares}, "norm": norm}
