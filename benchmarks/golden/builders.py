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
from kernelucb.models import BKBModel, CosineFeatures, DiscreteMetaModel, FeatureMetaModel


class Kind(NamedTuple):
    r"""A bound, and the problems that it is built around.

    Attributes:
        part: Part of the comparison.
        count: How many problems.
        build: The bound from a problem.
        keywords: Of ``make_problem``.
        asks: What is asked besides bounds, values and assumptions: ``"norm"``,
            ``"points"``, ``"box"``, ``"space"``, ``"fixed"``, ``"report"``; or instead of
            them: ``"arms"``, ``"mask"``, ``"safe"``, ``"described"``.
    """

    part: str
    count: int
    build: Callable[[Problem], Any]
    keywords: Mapping[str, Any] = MappingProxyType({})
    asks: tuple[str, ...] = ()


def named(bound: Any, **own: Any) -> Callable[[Problem], Any]:
    r"""A bound of a model by its keywords; ``norm_bound`` is the problem's if not given."""

    def build(problem: Problem) -> Any:
        given = {"norm_bound": problem.norm_bound} | problem.options | own
        return bound(problem.model(), **given)

    return build


def without(bound: Any, *names: str, **own: Any) -> Callable[[Problem], Any]:
    r"""A bound whose constructor lacks some of the usual keywords."""

    def build(problem: Problem) -> Any:
        given = {"norm_bound": problem.norm_bound} | problem.options | own
        return bound(problem.model(), **{n: v for n, v in given.items() if n not in names})

    return build


def _noiseless(p: Problem) -> dict[str, Any]:
    return {name: value for name, value in p.options.items() if name != "noise_std"}


def _unknown(bound: Any, **own: Any) -> Callable[[Problem], Any]:
    def build(p: Problem) -> Any:
        noise = k.UnknownNoise(0.3 * p.noise, 10.0 * p.noise)
        return named(bound, noise_std=noise, **own)(p)

    return build


def _gp(X: Tensor, Y: Tensor, p: Problem, kernel: Kernel) -> SingleTaskGP:
    noise = torch.full_like(Y, p.noise**2)
    given = {"covar_module": kernel, "mean_module": p.mean, "outcome_transform": None}
    return SingleTaskGP(X, Y, noise, **given).eval()


def _radius(p: Problem) -> k.PrequentialRadius:
    r"""Predictions one step ahead by a posterior with another length scale."""
    radius = k.PrequentialRadius(p.options["delta"])
    kernel = fixed_kernel("rbf", 0.5)
    scales = torch.as_tensor(p.noise_std).expand(len(p.Y)).tolist()
    for n in range(1, len(p.Y)):
        y = p.Y[:n].unsqueeze(-1)
        if n > 1:
            model = _gp(p.X[: n - 1], y[:-1], p, kernel)
            radius.observe(model, p.X[n - 1 : n], y[-1:], scales[n - 1])
    return radius


def _prequential(p: Problem) -> Any:
    radius = _radius(p)
    n = radius.num_observations
    data = k.KernelRegression(p.X[1 : n + 1], p.Y[1 : n + 1], p.kernel, p.noise, p.mean)
    return k.MartingaleMixtureUCB(data, norm_bound=p.norm_bound, fit=radius, **p.options)


def _family(**own: Any) -> Callable[[Problem], Any]:
    def build(p: Problem) -> Any:
        base = fixed_kernel("matern52", 1.0)
        low = 0.2 * p.X.shape[-1] ** 0.5
        kernels = k.lengthscale_family(base, low, 4.0 * low)
        tracker = {"tracker": k.FamilyTracker()} if own.get("tracker") else {}
        given = {"norm_bound": p.norm_bound} | p.options | own | tracker
        return k.KernelFamilyUCB(p.model(), kernels, mean_module=p.mean, **given)

    return build


def _mixed_family(p: Problem) -> Any:
    kernels = [fixed_kernel(name, 0.4) for name in ("rbf", "matern52", "matern32")]
    norms = [p.norm_bound, 1.5 * p.norm_bound, 2.0 * p.norm_bound]
    given = p.options | {"norm_bound": norms}
    return k.KernelFamilyUCB(p.model(), kernels, mean_module=p.mean, **given)


_TRIALS, _EXPOSURE = 5, 2.0


def tallies(p: Problem, likelihood: str) -> k.LikelihoodRegression:
    r"""Successes or counts whose log odds or log rate go with the outcomes."""
    latent = (p.Y - p.Y.mean()) / (1.0 + p.Y.abs().max())
    draws = torch.from_numpy(stream(len(p.Y), "tallies").random((_TRIALS, len(p.Y))))
    hits = (draws < torch.sigmoid(latent)).double()
    kernel = ScaleKernel(fixed_kernel("matern52", 0.5)).double()
    kernel.outputscale = torch.tensor(0.7).double()
    given: dict[str, Any] = {"likelihood": likelihood}
    if likelihood == "binomial":
        given["num_trials"] = _TRIALS
    elif likelihood == "poisson":
        given["exposure"] = _EXPOSURE
    Y = hits[0] if likelihood == "bernoulli" else hits.sum(0)
    return k.LikelihoodRegression(p.X, Y, kernel.requires_grad_(False), **given)


def _counts(likelihood: str, **own: Any) -> Callable[[Problem], Any]:
    def build(p: Problem) -> Any:
        given = {"norm_bound": 3.0} | _noiseless(p) | own
        return k.LikelihoodUCB(tallies(p, likelihood), **given)

    return build


def _counts_family(likelihood: str, **own: Any) -> Callable[[Problem], Any]:
    def build(p: Problem) -> Any:
        kernels = k.lengthscale_family(fixed_kernel("rbf", 1.0), 0.3, 1.2)
        given = _noiseless(p) | own
        return k.KernelFamilyUCB(tallies(p, likelihood), kernels, norm_bound=3.0, **given)

    return build


def _srinivas(theorem: Any) -> Callable[[Problem], Any]:
    return lambda p: without(k.SrinivasUCB, "norm_bound", theorem=theorem(p))(p)


def _streaming(p: Problem) -> Any:
    noise = k.UnknownNoise(0.3 * p.noise, 10.0 * p.noise)
    return k.StreamingKernelUCB(
        p.model(), norm_bound=p.norm_bound, **(p.options | {"noise_std": noise})
    )


def _bkb(**own: Any) -> Callable[[Problem], Any]:
    def build(p: Problem) -> Any:
        Y = p.Y.unsqueeze(-1)
        model = BKBModel(p.X, Y, p.kernel, p.noise**2, qbar=4.0, mean_module=p.mean)
        given = p.options | {"noise_std": p.noise} | own
        return k.BKBUCB(model, norm_bound=p.norm_bound, **given)

    return build


def _sketched(**own: Any) -> Callable[[Problem], Any]:
    def build(p: Problem) -> Any:
        inducing = p.X[: max(1, len(p.X) // 2)]
        if p.form == "state":
            model = k.NystromRegression(
                p.X,
                p.Y,
                p.kernel,
                p.noise_std,
                inducing,
                p.mean,
                remainder_points=p.queries,
            )
        else:
            noise = p.options["noise_std"]
            model = k.NystromRegression.from_model(p.model(), inducing, noise)
        given = _noiseless(p) | own
        return k.SketchedMartingaleMixtureUCB(model, norm_bound=p.norm_bound, **given)

    return build


ARMS = torch.linspace(0.0, 1.0, 20, dtype=torch.float64).unsqueeze(-1)


def _meta(bound: Any, make: str) -> Callable[[Problem], Any]:
    def build(p: Problem) -> Any:
        features = CosineFeatures(
            torch.tensor([[0.0, 2.0, 4.0, 6.0, 8.0]]).double(),
            torch.tensor([0.0, 0.3, 1.0, 2.0, 3.0]).double(),
        )
        random = stream(len(p.Y), "tasks")
        weights = torch.from_numpy(random.standard_normal((80, 5)))
        noise = 0.1 * torch.from_numpy(random.standard_normal((80, len(ARMS))))
        tasks = 10.0 + weights @ features(ARMS).detach().mT + noise
        model: Any = DiscreteMetaModel(tasks, ARMS)
        if make == "feature":
            model = FeatureMetaModel(ARMS, tasks, features)
        X = ARMS[[3, 10, 6, 1][: len(p.Y) % 5]]
        if len(X):
            model = model.condition_on_observations(X, 10.0 + torch.sin(9.0 * X))
        given = {} if bound is k.MetaPI else {"delta": 0.1}
        return bound(model, maximize=p.options["maximize"], **given)

    return build


def _pair(p: Problem, maximize: bool | None = None) -> list[Any]:
    r"""Bands of two outcomes at the same inputs, each with half of ``delta``."""
    given = {
        "norm_bound": p.norm_bound,
        "delta": p.options["delta"] / 2.0,
        "maximize": p.options["maximize"] if maximize is None else maximize,
    }
    return [k.MartingaleMixtureUCB(p.state(Y), **given) for Y in (p.Y, p.further)]


def _scalarized(p: Problem) -> Any:
    first, second = _pair(p)
    pending = p.options["X_pending"]
    return k.ScalarizedUCB([first, second], [1.0, -0.7], offset=0.5, X_pending=pending)


def _constraints(band: Any, p: Problem) -> k.OutcomeConstraints:
    return k.OutcomeConstraints(band, float(p.further.min()), sides=">=")


def _constrained(temperature: float) -> Callable[[Problem], Any]:
    def build(p: Problem) -> Any:
        objective, other = _pair(p)
        limits = _constraints(other, p)
        return k.ConstrainedUCB(objective, limits, temperature=temperature)

    return build


def _guarded(temperature: float, limited: bool = False) -> Callable[[Problem], Any]:
    def build(p: Problem) -> Any:
        band, other = _pair(p, maximize=True)
        torch.manual_seed(0)
        model = _gp(p.X, p.Y.unsqueeze(-1), p, p.kernel)
        acqf = qLogNoisyExpectedImprovement(model, p.X, prune_baseline=False)
        limits = _constraints(other, p) if limited else None
        return k.GuardedAcquisition(
            acqf, band, constraints=limits, bounds=p.box, temperature=temperature
        )

    return build


def _safe(p: Problem) -> Any:
    bands = _pair(p)
    thresholds = [float(p.Y.min()) - 0.5, float(p.further.max()) + 0.5]
    return k.SafeSet(bands, thresholds, sides=[">=", "<="], safe_points=p.X[:1])


MIXTURE, MODELLED = k.MartingaleMixtureUCB, {"form": "state"}
MARTINGALE: dict[str, Any] = {"fit": "martingale"}
THREE: dict[str, Any] = {"covariance_scale": (0.1, 1.0, 10.0)}
MIXED: dict[str, Any] = {"covariance_scale": "mixture"}
_ONE = {"form": "state", "most": 20}
_CLAIMS = ("points", "box")
KINDS: dict[str, Kind] = {
    "dual filters": Kind("mixture", 24, named(MIXTURE), asks=("norm", "points")),
    "dual martingale": Kind("mixture", 12, named(MIXTURE, **MARTINGALE), asks=("norm",)),
    "dual scale 0.2": Kind("mixture", 3, named(MIXTURE, covariance_scale=0.2)),
    "dual three scales": Kind("mixture", 3, named(MIXTURE, **THREE)),
    "dual mixture": Kind("mixture", 5, named(MIXTURE, **MIXED, **MARTINGALE)),
    "paper grid": Kind("mixture", 8, named(MIXTURE, alphas="paper")),
    "paper grid martingale": Kind(
        "mixture", 5, named(MIXTURE, alphas="paper", **MARTINGALE)
    ),
    "analytic": Kind("mixture", 9, named(MIXTURE, form="analytic")),
    "analytic martingale": Kind(
        "mixture", 5, named(MIXTURE, form="analytic", **MARTINGALE)
    ),
    "analytic alpha": Kind("mixture", 3, named(MIXTURE, form="analytic", alphas=0.3)),
    "convex": Kind("mixture", 3, named(MIXTURE, form="convex"), {"most": 8}),
    "convex martingale": Kind(
        "mixture", 2, named(MIXTURE, form="convex", **MARTINGALE), {"most": 8}
    ),
    "model error": Kind("mixture", 7, named(MIXTURE, model_error=0.05), asks=("points",)),
    "model error martingale": Kind(
        "mixture", 3, named(MIXTURE, model_error=0.05, **MARTINGALE)
    ),
    "unknown noise": Kind("mixture", 7, _unknown(MIXTURE)),
    "prequential": Kind("mixture", 6, _prequential, _ONE),
    "estimated norm": Kind("mixture", 6, named(MIXTURE, norm_bound=None)),
    "cautious norm": Kind("mixture", 3, named(MIXTURE, norm_bound="cautious")),
    "contradicted norm": Kind("mixture", 3, named(MIXTURE, norm_bound=0.05)),
    "described": Kind("mixture", 6, lambda p: p, asks=("described",)),
    "family any": Kind("family", 8, _family(), asks=("points",)),
    "family simplest": Kind("family", 4, _family(select="simplest")),
    "family widest": Kind("family", 4, _family(select="widest")),
    "family all": Kind("family", 5, _family(combine="all"), asks=("points",)),
    "family martingale": Kind("family", 3, _family(**MARTINGALE)),
    "family model error": Kind("family", 3, _family(model_error=0.05)),
    "family tracked": Kind("family", 3, _family(tracker=True)),
    "family of kinds": Kind("family", 3, _mixed_family),
    **{
        f"{form} {name}": Kind(
            "counts", 5 if form == "ellipsoid" else 2, _counts(name, form=form)
        )
        for form in ("ellipsoid", "tangent")
        for name in ("bernoulli", "binomial", "poisson")
    },
    "counts estimated norm": Kind("counts", 2, _counts("binomial", norm_bound=None)),
    "counts mixture": Kind("counts", 2, _counts("binomial", **MIXED)),
    "family bernoulli": Kind("counts", 3, _counts_family("bernoulli")),
    "family poisson": Kind("counts", 3, _counts_family("poisson", combine="all")),
    "abbasi yadkori": Kind("baselines", 8, named(k.AbbasiYadkoriUCB), asks=("points",)),
    "abbasi yadkori alpha": Kind("baselines", 2, named(k.AbbasiYadkoriUCB, alpha=0.3)),
    "igp": Kind("baselines", 6, named(k.IGPUCB, horizon=100)),
    "srinivas finite": Kind("baselines", 4, _srinivas(lambda p: k.FiniteDomain(100))),
    "srinivas compact": Kind(
        "baselines", 3, _srinivas(lambda p: k.CompactDomain(1.0, 1.0, 1.0)), MODELLED
    ),
    "srinivas norm": Kind("baselines", 4, _srinivas(lambda p: k.BoundedNorm(p.norm_bound))),
    "wang de freitas": Kind("baselines", 5, named(k.WangDeFreitasUCB)),
    "streaming": Kind("baselines", 7, _streaming),
    "bkb": Kind("sketched", 6, _bkb(), MODELLED, ("points",)),
    "bkb theorem": Kind("sketched", 2, _bkb(radius="theorem2"), MODELLED),
    "bkb practical": Kind("sketched", 3, _bkb(radius="practical"), MODELLED),
    "sketched": Kind("sketched", 8, _sketched(), asks=("points",)),
    "sketched martingale": Kind("sketched", 4, _sketched(**MARTINGALE)),
    "meta ucb": Kind("meta", 4, _meta(k.MetaUCB, "discrete"), asks=("arms",)),
    "meta ucb features": Kind("meta", 4, _meta(k.MetaUCB, "feature"), asks=("arms",)),
    "meta pi": Kind("meta", 3, _meta(k.MetaPI, "discrete"), asks=("arms",)),
    "meta pi features": Kind("meta", 3, _meta(k.MetaPI, "feature"), asks=("arms",)),
    "scalarized": Kind("combined", 5, _scalarized, MODELLED, _CLAIMS),
    "constrained": Kind("combined", 5, _constrained(0.02), MODELLED),
    "constrained exact": Kind("combined", 3, _constrained(0.0), MODELLED, ("points",)),
    "guarded": Kind("combined", 5, _guarded(0.02), _ONE, ("mask",)),
    "guarded exact": Kind("combined", 5, _guarded(0.0), _ONE, ("mask",)),
    "guarded constrained": Kind(
        "combined", 3, _guarded(0.0, limited=True), _ONE, ("mask",)
    ),
    "claims": Kind("certificates", 7, named(MIXTURE), asks=("box", "space", "fixed")),
    "report": Kind("certificates", 4, named(MIXTURE), _ONE, ("report",)),
    "claims of a family": Kind("certificates", 3, _family(), asks=_CLAIMS),
    "claims of counts": Kind("certificates", 3, _counts("binomial"), asks=("points",)),
    "claims of others": Kind("certificates", 3, named(k.AbbasiYadkoriUCB), asks=_CLAIMS),
    "safe": Kind("safety", 6, _safe, MODELLED, ("safe",)),
}
BANDITS: dict[str, Callable[..., Any]] = {
    "default": k.KernelBandit,
    "martingale": lambda *a, **g: k.KernelBandit(*a, **MARTINGALE, **g),
    "three scales": lambda *a, **g: k.KernelBandit(*a, **THREE, **g),
    "mixture": lambda *a, **g: k.KernelBandit(*a, **MIXED, **g),
    "paper grid": lambda *a, **g: k.KernelBandit(*a, alphas="paper", **g),
    "analytic": lambda *a, **g: k.KernelBandit(*a, form="analytic", **g),
    "analytic martingale": lambda *a, **g: k.KernelBandit(
        *a, form="analytic", **MARTINGALE, **g
    ),
    "abbasi yadkori": lambda *a, **g: k.KernelBandit(*a, bound="abbasi_yadkori", **g),
    "igp": lambda *a, **g: k.KernelBandit(*a, bound="igp_ucb", **g),
    "estimated norm": lambda *a, **g: k.KernelBandit(*a, **(g | {"norm_bound": None})),
    "family": k.FamilyBandit,
    "family simplest": lambda *a, **g: k.FamilyBandit(*a, select="simplest", **g),
    "family martingale": lambda *a, **g: k.FamilyBandit(*a, **MARTINGALE, **g),
    "bkb": k.BKBBandit,
    "bkb practical": lambda *a, **g: k.BKBBandit(*a, radius="practical", **g),
}
