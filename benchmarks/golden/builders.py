r"""Every public bound around a problem; what changes with the constructors is here."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from botorch.acquisition import qLogNoisyExpectedImprovement
from botorch.models import SingleTaskGP
from gpytorch.kernels import Kernel, ScaleKernel
from torch import Tensor

import kernelucb as k
from benchmarks.golden.problems import Problem
from benchmarks.runner import fixed_kernel, stream
from kernelucb import Analytic, Filters, Grid, MartingaleMixture
from kernelucb.acquisition import BoundedNorm, CompactDomain, FiniteDomain
from kernelucb.models import BKBModel, CosineFeatures, DiscreteMetaModel, FeatureMetaModel

Options = Mapping[str, Any]
_NONE: Options = MappingProxyType({})


class Kind(NamedTuple):
    r"""A bound, and the problems that it is built around.

    Attributes:
        part: Part of the comparison.
        count: How many problems.
        build: The bound from a problem and its own options.
        own: Options of the bound.
        keywords: Of ``make_problem``.
        asks: What is asked besides bounds, values and assumptions: ``"norm"``,
            ``"points"``, ``"box"``, ``"space"``, ``"fixed"``, ``"report"``; or instead of
            them: ``"arms"``, ``"mask"``, ``"safe"``, ``"described"``.
    """

    part: str
    count: int
    build: Callable[..., Any]
    own: Options = _NONE
    keywords: Options = _NONE
    asks: tuple[str, ...] = ()


def options(p: Problem, *without: str, **own: Any) -> dict[str, Any]:
    r"""The usual options of a bound, its own among them, without some."""
    given = {"norm_bound": p.norm_bound} | p.options | own
    if "near" in given:
        given["norm_bound"] = k.NearNormBall(given["norm_bound"], given.pop("near"))
    return {name: value for name, value in given.items() if name not in without}


def _mixture(p: Problem, **own: Any) -> Any:
    return k.MartingaleMixtureUCB(p.model(), **options(p, **own))


def _noise(p: Problem) -> k.UnknownNoise:
    return k.UnknownNoise(0.3 * p.noise, 10.0 * p.noise)


def _gp(X: Tensor, Y: Tensor, p: Problem, kernel: Kernel) -> SingleTaskGP:
    noise = torch.full_like(Y, p.noise**2)
    given = {"covar_module": kernel, "mean_module": p.mean, "outcome_transform": None}
    return SingleTaskGP(X, Y, noise, **given).eval()


def _prequential(p: Problem) -> Any:
    r"""Predictions one step ahead by a posterior with another length scale."""
    radius = k.PrequentialRadius(p.options["delta"])
    kernel, y = fixed_kernel("rbf", 0.5), p.Y.unsqueeze(-1)
    for n in range(1, len(y) - 1):
        model = _gp(p.X[:n], y[:n], p, kernel)
        radius.observe(model, p.X[n : n + 1], y[n : n + 1], p.noise)
    data = k.KernelRegression(p.X[1:-1], p.Y[1:-1], p.kernel, p.noise, p.mean)
    return k.MartingaleMixtureUCB(data, **options(p, fit=radius))


def _family(p: Problem, tracked: bool = False, **own: Any) -> Any:
    low = 0.2 * p.X.shape[-1] ** 0.5
    kernels = k.lengthscale_family(fixed_kernel("matern52", 1.0), low, 4.0 * low)
    tracker = k.FamilyTracker() if tracked else None
    known = {name: own.pop(name) for name in ("combine", "select") if name in own}
    family = k.KernelFamily(kernels, mean=p.mean, tracker=tracker, **known)
    return k.KernelFamilyUCB(p.model(), family, **options(p, **own))


def _mixed_family(p: Problem) -> Any:
    kernels = [fixed_kernel(name, 0.4) for name in ("rbf", "matern52", "matern32")]
    norms = [p.norm_bound, 1.5 * p.norm_bound, 2.0 * p.norm_bound]
    family = k.KernelFamily(kernels, mean=p.mean)
    return k.KernelFamilyUCB(p.model(), family, **options(p, norm_bound=norms))


_SIZES: dict[str, dict[str, float]] = {
    "bernoulli": {}, "binomial": {"num_trials": 5}, "poisson": {"exposure": 2.0}
}  # fmt: skip


def _tallies(p: Problem, likelihood: str) -> k.LikelihoodRegression:
    r"""Successes or counts whose log odds or log rate go with the outcomes."""
    latent = (p.Y - p.Y.mean()) / (1.0 + p.Y.abs().max())
    draws = torch.from_numpy(stream(len(p.Y), "tallies").random((5, len(p.Y))))
    hits = (draws < torch.sigmoid(latent)).double()
    kernel = ScaleKernel(fixed_kernel("matern52", 0.5)).double().requires_grad_(False)
    kernel.outputscale = torch.tensor(0.7).double()
    given: dict[str, Any] = {"likelihood": likelihood, **_SIZES[likelihood]}
    Y = hits[0] if likelihood == "bernoulli" else hits.sum(0)
    return k.LikelihoodRegression(p.X, Y, kernel, **given)


def _counts(p: Problem, likelihood: str, **own: Any) -> Any:
    given = options(p, "noise_std", **({"norm_bound": 3.0} | own))
    return k.LikelihoodUCB(_tallies(p, likelihood), **given)


def _counts_family(p: Problem, likelihood: str, **own: Any) -> Any:
    kernels = k.lengthscale_family(fixed_kernel("rbf", 1.0), 0.3, 1.2)
    family, given = k.KernelFamily(kernels, **own), options(p, "noise_std", norm_bound=3.0)
    return k.KernelFamilyUCB(_tallies(p, likelihood), family, **given)


def _srinivas(p: Problem, theorem: Callable[[Problem], Any]) -> Any:
    return k.SrinivasUCB(p.model(), **options(p, "norm_bound", theorem=theorem(p)))


def _bkb(p: Problem, **own: Any) -> Any:
    Y = p.Y.unsqueeze(-1)
    model = BKBModel(p.X, Y, p.kernel, p.noise**2, qbar=4.0, mean_module=p.mean)
    return k.BKBUCB(model, **options(p, noise_std=p.noise, **own))


def _sketched(p: Problem, **own: Any) -> Any:
    inducing = p.X[: max(1, len(p.X) // 2)]
    if p.form == "state":
        data = p.X, p.Y, p.kernel, p.noise_std, inducing, p.mean
        model = k.NystromRegression(*data, remainder_points=p.queries)
    else:
        noise = p.options["noise_std"]
        model = k.NystromRegression.from_model(p.model(), inducing, noise)
    return k.SketchedMartingaleMixtureUCB(model, **options(p, "noise_std", **own))


ARMS = torch.linspace(0.0, 1.0, 20, dtype=torch.float64).unsqueeze(-1)


def _meta(p: Problem, bound: Any, features: bool, **own: Any) -> Any:
    frequencies = torch.tensor([[0.0, 2.0, 4.0, 6.0, 8.0]]).double()
    cosines = CosineFeatures(frequencies, torch.tensor([0.0, 0.3, 1.0, 2.0, 3.0]).double())
    random = stream(len(p.Y), "tasks")
    weights = torch.from_numpy(random.standard_normal((80, 5)))
    noise = 0.1 * torch.from_numpy(random.standard_normal((80, len(ARMS))))
    tasks = 10.0 + weights @ cosines(ARMS).detach().mT + noise
    model: Any = DiscreteMetaModel(tasks, ARMS)
    if features:
        model = FeatureMetaModel(ARMS, tasks, cosines)
    X = ARMS[[3, 10, 6, 1][: len(p.Y) % 5]]
    if len(X):
        model = model.condition_on_observations(X, 10.0 + torch.sin(9.0 * X))
    return bound(model, maximize=p.options["maximize"], **own)


def _pair(p: Problem, maximize: bool | None = None) -> list[Any]:
    r"""Bands of two outcomes at the same inputs, each with half of ``delta``."""
    given = {
        "norm_bound": p.norm_bound,
        "delta": p.options["delta"] / 2.0,
        "maximize": p.options["maximize"] if maximize is None else maximize,
    }
    return [k.MartingaleMixtureUCB(p.state(Y), **given) for Y in (p.Y, p.further)]


def _scalarized(p: Problem) -> Any:
    pending = p.options["X_pending"]
    return k.ScalarizedUCB(_pair(p), [1.0, -0.7], offset=0.5, X_pending=pending)


def _constraints(band: Any, p: Problem) -> k.OutcomeConstraints:
    return k.OutcomeConstraints(band, float(p.further.min()), sides=">=")


def _constrained(p: Problem, temperature: float) -> Any:
    objective, other = _pair(p)
    return k.ConstrainedUCB(objective, _constraints(other, p), temperature=temperature)


def _guarded(p: Problem, temperature: float, limited: bool = False) -> Any:
    band, other = _pair(p, maximize=True)
    torch.manual_seed(0)
    model = _gp(p.X, p.Y.unsqueeze(-1), p, p.kernel)
    acqf = qLogNoisyExpectedImprovement(model, p.X, prune_baseline=False)
    if limited:
        limits = _constraints(other, p)
        band = k.ConstrainedUCB(band, limits, temperature=temperature)
    return k.GuardedAcquisition(acqf, band, temperature=temperature, bounds=p.box)


def _safe(p: Problem) -> Any:
    thresholds = [float(p.Y.min()) - 0.5, float(p.further.max()) + 0.5]
    return k.SafeSet(_pair(p), thresholds, sides=[">=", "<="], safe_points=p.X[:1])


def _ay(p: Problem, **own: Any) -> Any:
    return k.AbbasiYadkoriUCB(p.model(), **options(p, **own))


def _streaming(p: Problem) -> Any:
    return k.StreamingKernelUCB(p.model(), **options(p, noise_std=_noise(p)))


MARTINGALE: Options = {"fit": "martingale"}
SCALE: Options = {"fit": Filters(0.2)}
THREE: Options = {"fit": Filters((0.1, 1.0, 10.0))}
MIXED: Options = {"fit": Filters("mixture")}
MIXED_MARTINGALE: Options = {"fit": MartingaleMixture("mixture")}
ANALYTIC, CONVEX, PAPER = {"form": "analytic"}, {"form": "convex"}, {"form": Grid()}
ERROR: Options = {"near": 0.05}
_STATE, _FEW, _SMALL = {"form": "state"}, {"form": "state", "most": 20}, {"most": 8}
KINDS: dict[str, Kind] = {
    "dual filters": Kind("mixture", 24, _mixture, asks=("norm", "points")),
    "dual martingale": Kind("mixture", 12, _mixture, MARTINGALE, asks=("norm",)),
    "dual scale 0.2": Kind("mixture", 3, _mixture, SCALE),
    "dual three scales": Kind("mixture", 3, _mixture, THREE),
    "dual mixture": Kind("mixture", 5, _mixture, MIXED_MARTINGALE),
    "paper grid": Kind("mixture", 8, _mixture, PAPER),
    "paper grid martingale": Kind("mixture", 5, _mixture, {**PAPER, **MARTINGALE}),
    "analytic": Kind("mixture", 9, _mixture, ANALYTIC),
    "analytic martingale": Kind("mixture", 5, _mixture, {**ANALYTIC, **MARTINGALE}),
    "analytic alpha": Kind("mixture", 3, _mixture, {**ANALYTIC, "form": Analytic(0.3)}),
    "convex": Kind("mixture", 3, _mixture, CONVEX, _SMALL),
    "convex martingale": Kind("mixture", 2, _mixture, {**CONVEX, **MARTINGALE}, _SMALL),
    "model error": Kind("mixture", 7, _mixture, ERROR, asks=("points",)),
    "model error martingale": Kind("mixture", 3, _mixture, {**ERROR, **MARTINGALE}),
    "unknown noise": Kind("mixture", 7, lambda p: _mixture(p, noise_std=_noise(p))),
    "prequential": Kind("mixture", 6, _prequential, keywords=_FEW),
    "estimated norm": Kind("mixture", 6, _mixture, {"norm_bound": None}),
    "cautious norm": Kind("mixture", 3, _mixture, {"norm_bound": "cautious"}),
    "contradicted norm": Kind("mixture", 3, _mixture, {"norm_bound": 0.05}),
    "described": Kind("mixture", 6, lambda p: p, asks=("described",)),
    "family any": Kind("family", 8, _family, asks=("points",)),
    "family simplest": Kind("family", 4, _family, {"select": "simplest"}),
    "family widest": Kind("family", 4, _family, {"select": "widest"}),
    "family all": Kind("family", 5, _family, {"combine": "all"}, asks=("points",)),
    "family martingale": Kind("family", 3, _family, MARTINGALE),
    "family model error": Kind("family", 3, _family, ERROR),
    "family tracked": Kind("family", 3, _family, {"tracked": True}),
    "family of kinds": Kind("family", 3, _mixed_family),
    **{
        f"{form} {name}": Kind(
            "counts", count, _counts, {"likelihood": name, "form": form}
        )
        for form, count in (("ellipsoid", 5), ("tangent", 2))
        for name in _SIZES
    },
    "counts estimated norm": Kind(
        "counts", 2, _counts, {"likelihood": "binomial", "norm_bound": None}
    ),
    "counts mixture": Kind(
        "counts", 2, _counts,
        {"likelihood": "binomial", "fit": k.MartingaleMixture("mixture")},
    ),
    "family bernoulli": Kind("counts", 3, _counts_family, {"likelihood": "bernoulli"}),
    "family poisson": Kind(
        "counts", 3, _counts_family, {"likelihood": "poisson", "combine": "all"}
    ),
    "abbasi yadkori": Kind("baselines", 8, _ay, asks=("points",)),
    "abbasi yadkori alpha": Kind("baselines", 2, _ay, {"alpha": 0.3}),
    "igp": Kind("baselines", 6, lambda p: k.IGPUCB(p.model(), **options(p, horizon=100))),
    "srinivas finite": Kind(
        "baselines", 4, _srinivas, {"theorem": lambda p: FiniteDomain(100)}
    ),
    "srinivas compact": Kind(
        "baselines", 3, _srinivas, {"theorem": lambda p: CompactDomain(1.0, 1.0, 1.0)},
        _STATE,
    ),
    "srinivas norm": Kind(
        "baselines", 4, _srinivas, {"theorem": lambda p: BoundedNorm(p.norm_bound)}
    ),
    "wang de freitas": Kind(
        "baselines", 5, lambda p: k.WangDeFreitasUCB(p.model(), **options(p))
    ),
    "streaming": Kind("baselines", 7, _streaming),
    "bkb": Kind("sketched", 6, _bkb, _NONE, _STATE, ("points",)),
    "bkb theorem": Kind("sketched", 2, _bkb, {"radius": "theorem2"}, _STATE),
    "bkb practical": Kind("sketched", 3, _bkb, {"radius": "practical"}, _STATE),
    "sketched": Kind("sketched", 8, _sketched, asks=("points",)),
    "sketched martingale": Kind("sketched", 4, _sketched, MARTINGALE),
    **{
        f"meta {name}{' features' if features else ''}": Kind(
            "meta", count, _meta, {"bound": bound, "features": features, **own},
            asks=("arms",),
        )
        for name, bound, count, own in (
            ("ucb", k.MetaUCB, 4, {"delta": 0.1}),
            ("pi", k.MetaPI, 3, {}),
        )
        for features in (False, True)
    },
    "scalarized": Kind("combined", 5, _scalarized, _NONE, _STATE, ("points", "box")),
    "constrained": Kind("combined", 5, _constrained, {"temperature": 0.02}, _STATE),
    "constrained exact": Kind(
        "combined", 3, _constrained, {"temperature": 0.0}, _STATE, ("points",)
    ),
    "guarded": Kind("combined", 5, _guarded, {"temperature": 0.02}, _FEW, ("mask",)),
    "guarded exact": Kind("combined", 5, _guarded, {"temperature": 0.0}, _FEW, ("mask",)),
    "guarded constrained": Kind(
        "combined", 3, _guarded, {"temperature": 0.0, "limited": True}, _FEW, ("mask",)
    ),
    "claims": Kind("certificates", 7, _mixture, asks=("box", "space", "fixed")),
    "report": Kind("certificates", 4, _mixture, _NONE, _FEW, ("report",)),
    "claims of a family": Kind("certificates", 3, _family, asks=("points", "box")),
    "claims of counts": Kind(
        "certificates", 3, _counts, {"likelihood": "binomial"}, asks=("points",)
    ),
    "claims of others": Kind("certificates", 3, _ay, asks=("points", "box")),
    "safe": Kind("safety", 6, _safe, _NONE, _STATE, ("safe",)),
}  # fmt: skip


def _simplest_bandit(kernels: Any, **given: Any) -> k.FamilyBandit:
    return k.FamilyBandit(k.KernelFamily(kernels, select="simplest"), **given)


BANDITS: dict[str, tuple[Any, Options]] = {
    "default": (k.KernelBandit, {}),
    "martingale": (k.KernelBandit, MARTINGALE),
    "three scales": (k.KernelBandit, {"fit": k.Filters((0.1, 1.0, 10.0))}),
    "mixture": (k.KernelBandit, {"fit": k.Filters("mixture")}),
    "paper grid": (k.KernelBandit, {"form": k.Grid()}),
    "analytic": (k.KernelBandit, ANALYTIC),
    "analytic martingale": (k.KernelBandit, {**ANALYTIC, **MARTINGALE}),
    "abbasi yadkori": (k.KernelBandit, {"bound": "abbasi_yadkori"}),
    "igp": (k.KernelBandit, {"bound": "igp_ucb"}),
    "estimated norm": (k.KernelBandit, {"norm_bound": None}),
    "family": (k.FamilyBandit, {}),
    "family simplest": (_simplest_bandit, {}),
    "family martingale": (k.FamilyBandit, MARTINGALE),
    "bkb": (k.BKBBandit, {}),
    "bkb practical": (k.BKBBandit, {"radius": "practical"}),
}
