r"""The bound over a family of kernels where the outcomes are successes or counts."""

import copy
import functools
import json
import pickle
import warnings

import pytest
import torch
from botorch.exceptions import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from gpytorch.kernels import RBFKernel
from torch.testing import assert_close

from kernelucb import (
    FamilyTracker,
    GuardedAcquisition,
    KernelFamilyUCB,
    LikelihoodRegression,
    LikelihoodUCB,
    MartingaleMixture,
    NearNormBall,
    PrequentialRadius,
    lengthscale_family,
    regret_certificate,
)
from kernelucb.confidence.likelihood.evidence import Ratio
from kernelucb.exceptions import (
    InconsistentConfidenceSetWarning,
)
from kernelucb.regression.named import fixed_mean
from kernelucb.regression.prior import Prior
from problems import (
    RKHSFunction,
    family_ucb,
    frozen_kernel,
    generator,
    uniform,
)
from tolerances import LEAST_NORM, ORDER, REARRANGED

KERNELS = [frozen_kernel("rbf", scale) for scale in (0.6, 0.3, 0.15)]
NORM = 3.0
SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
POINTS = uniform(20, 2, 7)
KINDS = ("bernoulli", "binomial", "poisson")


def outcomes(kind, n=9, seed=0, kernel=KERNELS[1], norm=NORM, amount=6.0):
    r"""Inputs, outcomes and how much was tried, for a function of this norm."""
    X, random = uniform(n, 2, seed), generator(seed + 1)
    latent = RKHSFunction.random(kernel, norm, 2, seed)(X)
    if kind == "poisson":
        return X, torch.poisson(amount * latent.exp(), random), {"exposure": amount}
    draws = torch.rand(n, int(amount), dtype=torch.float64, generator=random)
    successes = draws < torch.sigmoid(latent).unsqueeze(-1)
    if kind == "bernoulli":
        return X, successes[:, 0].double(), {}
    return X, successes.sum(-1).double(), {"num_trials": amount}


def data(kind="binomial", **options):
    X, Y, amounts = outcomes(kind, **options)
    return LikelihoodRegression(X, Y, RBFKernel(), likelihood=kind, **amounts)


def under(counts, kernel, mean=0.0, **options):
    r"""The bound for one kernel."""
    own = LikelihoodRegression.from_parts(
        Prior(kernel, fixed_mean(mean), outcome_map=counts.prior.outcome_map),
        counts.train_inputs,
        counts.outcomes,
        counts.dimension,
        frozenset(),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        return LikelihoodUCB(own, **{"norm_bound": NORM} | options)


def family(counts, kernels=KERNELS, **options):
    return family_ucb(counts, kernels, **{"norm_bound": NORM} | options)


ROUGH = data("poisson", n=20, kernel=frozen_kernel("rbf", 0.1), seed=4, amount=200.0)


def sides(acqfs):
    return torch.stack([torch.stack(acqf.bounds(POINTS)) for acqf in acqfs])


class TestTheSets:
    @pytest.mark.parametrize("kind", KINDS)
    def test_the_union_is_that_of_the_bounds_for_the_covering_kernels(self, kind):
        counts, kernels = data(kind), lengthscale_family(RBFKernel(), 0.15, 0.6)
        acqf, covers = family(counts, kernels), kernels.covering(2)
        norms = [NORM * cover.norm_factor for cover in covers]
        own = [
            under(counts, cover.kernel, norm_bound=norm)
            for cover, norm in zip(covers, norms, strict=True)
        ]
        assert acqf.consistent == tuple(not each.assumptions.violated for each in own)
        kept = sides(each for each in own if not each.assumptions.violated)
        lower, upper = acqf.bounds(POINTS)
        assert_close(upper, kept[:, 1].amax(0), rtol=0.0, atol=ORDER)
        assert_close(lower, kept[:, 0].amin(0), rtol=0.0, atol=ORDER)
        assert acqf.norm_bounds == tuple(norms)
        for ours, each in zip(acqf.least_consistent_norms, own, strict=True):
            assert ours == pytest.approx(each.least_consistent_norm, rel=LEAST_NORM)
        latent = torch.stack(acqf.latent_bounds(POINTS))
        link = torch.exp if kind == "poisson" else torch.sigmoid
        assert_close(torch.stack([lower, upper]), link(latent))

    def test_the_intersection_shares_delta(self):
        counts = data()
        acqf = family(counts, KERNELS[1:], combine="all", delta=0.1)
        own = sides(under(counts, kernel, delta=0.05) for kernel in KERNELS[1:])
        assert_close(acqf.bounds(POINTS)[1], own[:, 1].amin(0), rtol=0.0, atol=ORDER)
        assert_close(acqf.bounds(POINTS)[0], own[:, 0].amax(0), rtol=0.0, atol=ORDER)
        assert not acqf.assumptions.violated

    def test_one_kernel_is_the_bound_for_it(self):
        counts = data("bernoulli")
        alone = under(counts, KERNELS[1], fit=MartingaleMixture([0.5, 2]))
        for combine in ("any", "all"):
            acqf = family(
                counts, [KERNELS[1]], combine=combine, fit=MartingaleMixture([0.5, 2])
            )
            assert_close(acqf.bounds(POINTS), alone.bounds(POINTS), rtol=0.0, atol=0.0)
        told = {item.name: item.statement for item in acqf.assumptions.items}
        assert list(told) == [item.name for item in alone.assumptions.items]
        assert told["likelihood"] == alone.assumptions["likelihood"].statement
        assert acqf.assumptions.certified
        assert acqf.assumptions.source.endswith(f"each by {alone.assumptions.source}")

    @pytest.mark.parametrize(("seed", "copies"), [(0, 1), (1, 2), (2, 5)])
    def test_outcomes_in_any_order_and_added_up(self, seed, copies):
        X, Y, _ = outcomes("bernoulli", n=6, seed=seed)
        X, Y = X.repeat(copies, 1), (Y + torch.arange(copies).unsqueeze(-1)).flatten() % 2
        order = torch.randperm(len(X), generator=generator(seed))
        apart = LikelihoodRegression(X[order], Y[order], RBFKernel())
        pooled = LikelihoodRegression(
            X[:6],
            Y.reshape(copies, 6).sum(0),
            RBFKernel(),
            likelihood="binomial",
            num_trials=copies,
        )
        left, right = (family(each, KERNELS[1:]).bounds(POINTS) for each in (apart, pooled))
        # The search for the evidence ends within 1e-5 of its slope on another path.
        assert_close(left, right, rtol=0.0, atol=1e-5)


class TestContradictions:
    def test_kernels_that_are_too_smooth_are_left_out(self):
        acqf = family(ROUGH)
        assert acqf.consistent == (False, False, True)
        assert_close(
            acqf.bounds(POINTS),
            under(ROUGH, KERNELS[2]).bounds(POINTS),
            rtol=0.0,
            atol=ORDER,
        )
        assert acqf.assumptions.certified
        assert "20 observations contradict 2" in acqf.report()

    def test_a_tracker_keeps_them_out(self):
        tracker = FamilyTracker()
        family(ROUGH, tracker=tracker)
        assert tracker.contradicted == (True, True, False)
        again = FamilyTracker()
        again.load_state_dict(json.loads(json.dumps(tracker.state_dict())))
        assert again.contradicted == tracker.contradicted
        flat = copy.copy(ROUGH.outcomes)
        flat.counts = torch.full((20,), 200.0, dtype=torch.float64)
        later = LikelihoodRegression.from_parts(
            ROUGH.prior, ROUGH.train_inputs, flat, 2, frozenset()
        )
        assert all(family(later).consistent)
        assert family(later, tracker=again).consistent == (False, False, True)

    @pytest.mark.parametrize(
        ("other", "options", "message"),
        [
            (data("poisson", n=20, amount=100.0), {}, "num_trials or exposure"),
            (data("poisson", n=15, amount=200.0), {}, "20 observations, the model has 15"),
            (ROUGH, {"delta": 0.1}, "another family: its delta differ"),
        ],
    )
    def test_a_tracker_is_for_one_family(self, other, options, message):
        tracker = FamilyTracker()
        family(ROUGH, tracker=tracker)
        with pytest.raises(ValueError, match=message):
            family(other, tracker=tracker, **options)

    def test_all_of_them(self):
        with pytest.warns(InconsistentConfidenceSetWarning) as caught:
            acqf = family(ROUGH, norm_bound=0.5)
        assert len(caught) == 1
        assert "the outcomes do not follow the likelihood" in str(caught[0].message)
        assert acqf.assumptions.violated
        least = acqf.least_consistent_norms
        nearest = KERNELS[least.index(min(least))]
        own = under(ROUGH, nearest, norm_bound=0.5).bounds(POINTS)
        assert_close(acqf.bounds(POINTS), own, rtol=0.0, atol=ORDER)
        with pytest.raises(InconsistentConfidenceSetWarning, match="all 3 kernels"):
            family(ROUGH, norm_bound=0.5)
        with pytest.warns(InconsistentConfidenceSetWarning):
            assert family(ROUGH, combine="all").assumptions.violated

    def test_outcomes_that_no_function_makes_likely_enough(self, monkeypatch):
        monkeypatch.setattr(Ratio, "level", lambda *_: 0.0)
        with pytest.warns(InconsistentConfidenceSetWarning, match="norm of at least inf"):
            acqf = family(data(), KERNELS[:2])
        assert acqf.least_consistent_norms == (torch.inf, torch.inf)


class TestWhatIsTakenFromTheModel:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"noise_std": 0.1}, "^noise_std would have no meaning"),
            ({"fit": "martingale"}, "^fit would"),
            ({"fit": PrequentialRadius(delta=0.1)}, "^fit would"),
            (
                {"norm_bound": NearNormBall(3.0, 0.1), "noise_std": 0.1},
                "^noise_std and model_error would",
            ),
        ],
    )
    def test_what_is_about_additive_noise_is_refused(self, options, message):
        with pytest.raises(UnsupportedError, match=message):
            family(data(), **options)

    def test_inputs_are_scaled_as_given(self):
        X, Y, _ = outcomes("bernoulli")
        scale = {"input_transform": Normalize(2, bounds=2.0 * SQUARE)}
        given, learned = (
            LikelihoodUCB.from_model(
                SingleTaskGP(2.0 * X, Y.unsqueeze(-1), **options),
                likelihood="bernoulli",
                kernel="rbf",
                lengthscale=0.3,
                norm_bound=NORM,
            ).data
            for options in (scale, {"input_transform": Normalize(2)})
        )
        assert family(given).assumptions.certified
        assert family(learned).assumptions.estimated == ("kernel",)
        own = family(LikelihoodRegression(X, Y, RBFKernel())).bounds(POINTS)
        assert_close(family(given).bounds(2.0 * POINTS), own, rtol=0.0, atol=REARRANGED)

    def test_a_family_by_names_and_a_mean(self):
        counts = data("poisson")
        named = {"shortest": 0.15, "longest": 0.6, "mean": 0.5, "norm_bound": NORM}
        acqf = KernelFamilyUCB.from_model(counts, **named)
        cover = lengthscale_family(RBFKernel(), 0.15, 0.6).covering(2)[0]
        alone = under(counts, cover.kernel, mean=0.5)
        assert_close(
            acqf.confidence_set.parts[0].bounds(POINTS), alone.confidence_set.bounds(POINTS)
        )


class TestAsAnAcquisitionFunction:
    @functools.cached_property
    def acqf(self):
        return family(data(), select="widest")

    def test_what_is_searched_by(self):
        counts, points = data(), POINTS.unsqueeze(1)
        upper = self.acqf.latent_bounds(POINTS)[1]
        assert_close(self.acqf(points), upper, rtol=0.0, atol=ORDER)
        simplest = family(counts, select="simplest")
        first = under(counts, KERNELS[simplest.consistent.index(True)])
        assert_close(simplest(points), first(points), rtol=0.0, atol=ORDER)
        lower = family(counts, select="widest", maximize=False)
        assert_close(lower(points), -lower.latent_bounds(POINTS)[0], rtol=0.0, atol=ORDER)

    def test_pending_points_narrow_it(self):
        pending = family(data(), select="widest", X_pending=POINTS[:3])
        gain = self.acqf(POINTS.unsqueeze(1)) - pending(POINTS.unsqueeze(1))
        assert bool((gain >= -ORDER).all())
        assert bool((gain[:3] > 1e-3).all())
        assert_close(pending.bounds(POINTS), self.acqf.bounds(POINTS))

    def test_copies(self):
        for twin in (copy.deepcopy(self.acqf), pickle.loads(pickle.dumps(self.acqf))):
            assert_close(twin.bounds(POINTS), self.acqf.bounds(POINTS), rtol=0.0, atol=0.0)
            twin.load_state_dict(self.acqf.state_dict())

    def test_certificates_and_guards(self):
        certificate = regret_certificate(self.acqf, bounds=SQUARE, max_evaluations=64)
        assert certificate.rigorous
        chance = torch.rand(512, 2, dtype=torch.float64, generator=generator(1))
        largest = float(self.acqf.bounds(chance)[1].max())
        at = certificate.recommended
        assert (
            certificate.gap
            >= largest - float(self.acqf.bounds(at.reshape(1, -1))[1]) - ORDER
        )
        guard = GuardedAcquisition(under(data(), KERNELS[1]), self.acqf)
        assert guard(POINTS.unsqueeze(1)).shape == (20,)
