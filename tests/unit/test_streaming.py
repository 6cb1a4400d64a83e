r"""Unknown noise: tracker and band against the paper's formulas, and their edges."""

import math

import pytest
import torch
from botorch.exceptions import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.transforms import Standardize
from torch.testing import assert_close

from kernelucb import (
    KernelRegression,
    StreamingKernelUCB,
    StreamingNoiseTracker,
    UnknownNoise,
)
from kernelucb.confidence.assumptions import Status
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from oracles import streaming as oracle
from problems import (
    RKHSFunction,
    frozen_kernel,
    frozen_model,
    normal,
    uniform,
)
from tolerances import LINEAR_SOLVE, SCALE

SIGMA, NORM, LOWER, DELTA = 0.3, 1.0, 0.1, 0.3
KERNEL = frozen_kernel("rbf", 1.0)
X = uniform(300, 1, seed=40)
Y = RKHSFunction.random(KERNEL, NORM, 1, seed=41)(X) + SIGMA * normal(300, seed=43)
QUERIES = uniform(5, 1, seed=44)
CLOSE = {"rtol": LINEAR_SOLVE, "atol": LINEAR_SOLVE}


def state(n, noise_std=0.5):
    return KernelRegression(X[:n], Y[:n], KERNEL, noise_std)


def gram(n):
    return KERNEL(X[:n]).to_dense()


def tracker(noise_upper=5.0, **options):
    return StreamingNoiseTracker(
        NORM, UnknownNoise(LOWER, noise_upper), **{"delta": DELTA, **options}
    )


def bound(model, noise_upper=5.0, **options):
    noise = UnknownNoise(LOWER, noise_upper)
    defaults = {"norm_bound": NORM, "noise_std": noise, "delta": DELTA}
    return StreamingKernelUCB(model, **{**defaults, **options})


class TestAgainstThePaper:
    def test_several_observations_take_their_steps_on_all_data(self):
        n, minus, plus = len(X), LOWER, 5.0
        for _ in range(n):
            minus, plus = oracle.sandwich(gram(n), Y, NORM, 5.0, DELTA / 3.0, minus, plus)
        assert tracker().observe(state(n)) == pytest.approx((minus, plus), rel=LINEAR_SOLVE)
        assert LOWER < minus < SIGMA < plus < 5.0

    @pytest.mark.parametrize("n", [1, 7, 300])
    def test_band_is_the_corollary_at_a_quarter_of_delta(self, n):
        acqf = bound(state(n))
        assert acqf.noise_interval == tracker(delta=0.75 * DELTA).observe(state(n))
        assert acqf.alpha == pytest.approx((acqf.noise_interval[1] / NORM) ** 2)
        k, v = KERNEL(QUERIES, X[:n]).to_dense(), KERNEL(QUERIES, diag=True)
        centre, half = oracle.corollary_band(
            gram(n), k, v, Y[:n], NORM, *acqf.noise_interval, DELTA / 4.0
        )
        lower, upper = acqf.bounds(QUERIES)
        assert_close(lower, centre - half, **CLOSE)
        assert_close(upper, centre + half, **CLOSE)

    def test_band_from_a_tracker_has_the_tracker_s_interval(self):
        tracked = tracker()
        for n in (60, 120, 300):
            acqf = bound(state(n), tracker=tracked)
        assert acqf.noise_interval == (tracked.lower, tracked.upper)
        again = bound(state(300), tracker=tracked)  # nothing new, nothing changes
        assert_close(again.bounds(QUERIES), acqf.bounds(QUERIES), rtol=0.0, atol=0.0)
        with pytest.raises(ValueError, match="seen 300 observations, the model has 9"):
            tracked.observe(state(9))
        assert tracked.num_observations == 300

    def test_the_printed_lower_bound_is_not_used(self):
        r"""Its extra factor would exclude the true scale, at a large regulariser."""
        n, known, norm, level = 100, 50.0, 5.0, DELTA / 3.0
        inputs, noise = torch.zeros(n, 1, dtype=torch.float64), 0.05 * normal(n, 1)
        regression = KernelRegression(inputs, norm + noise, KERNEL, 1.0)  # f = 5 k(0, .)
        lam = (known / norm) ** 2
        s = oracle.residual_std(KERNEL(inputs).to_dense(), norm + noise, lam)
        printed = oracle.printed_lower(s, n, lam, norm, 1.0 + 1.0 / lam, level)
        assert printed > 10.0 * 0.05
        tracked = StreamingNoiseTracker(norm, UnknownNoise(0.01, known), delta=DELTA)
        lower, upper = tracked.observe(regression)
        assert lower <= 0.05 <= upper

    @pytest.mark.parametrize("noise_upper", [5.0, 50.0, None])
    def test_interval_converges_whatever_the_initial_guess(self, noise_upper):
        r"""About three times the scale after 1000 observations, from any start."""
        n, kernel = 1000, frozen_kernel("rbf", 0.3)
        inputs = uniform(n, 1, seed=7)
        function = RKHSFunction.random(kernel, 2.06, 1, seed=5)
        outcomes = function(inputs) + 0.1 * normal(n, seed=8)
        regression = KernelRegression(inputs, outcomes, kernel, 1.0)
        first, other = (
            StreamingNoiseTracker(5.0, UnknownNoise(0.01, known), delta=0.1)
            for known in (1.0, noise_upper)
        )
        interval = first.observe(regression)
        for part in (500, 600, 700, 800, 900):
            other.observe(KernelRegression(inputs[:part], outcomes[:part], kernel, 1.0))
        assert other.observe(regression) == pytest.approx(interval, rel=0.1)
        assert 0.07 < interval[0] < 0.1
        assert 0.25 < interval[1] < 0.32


class TestRunningBounds:
    def test_nothing_known_above(self):
        tracked = tracker(None)
        assert tracked.observe(state(3)) == (LOWER, math.inf)
        lower, upper = tracked.observe(state(300))
        assert LOWER < lower < SIGMA < upper < math.inf

    def test_without_an_upper_bound_the_band_is_that_of_the_prior(self):
        r"""The limit of Eq. (3): estimate the mean, deviation that of the prior."""
        acqf = bound(state(3), None)
        assert acqf.noise_interval[1] == acqf.alpha == math.inf
        lower, upper = acqf.bounds(QUERIES)
        D = 2.0 * math.log(4.0 / DELTA) + oracle.log_det(gram(3), (LOWER / NORM) ** 2)
        assert_close(upper, torch.full_like(upper, NORM * (1.0 + math.sqrt(D))))
        assert_close(lower, -upper)
        large = bound(state(3), 1e6)
        assert_close(large.bounds(QUERIES), (lower, upper), rtol=1e-6, atol=1e-6)

    @pytest.mark.parametrize("factor", [1e-3, 1e4])
    def test_outcome_units(self, factor):
        r"""Outcomes and noise in other units, with an offset that the model takes out."""
        offset = 50.0 * factor
        outcomes = offset + factor * Y
        transform = Standardize(m=1, min_stdv=1e-14)
        model = frozen_model(X, outcomes, KERNEL, 0.2, outcome_transform=transform)
        unit = KernelRegression.from_model(model).outcome_scale
        scaled = KernelRegression(X, (Y - Y.mean()) * factor / unit, KERNEL, 0.2)
        one, other = (
            StreamingKernelUCB(
                data,
                norm_bound=scale * NORM,
                noise_std=UnknownNoise(scale * LOWER, scale * 5.0),
            )
            for data, scale in ((model, unit), (scaled, 1.0))
        )
        expected = tuple(unit * end for end in other.noise_interval)
        assert one.noise_interval == pytest.approx(expected, rel=LINEAR_SOLVE)
        mean = offset + factor * Y.mean()
        for side, its in zip(one.bounds(QUERIES), other.bounds(QUERIES), strict=True):
            assert_close(side, mean + unit * its, rtol=LINEAR_SOLVE, atol=unit * SCALE)


class TestEdges:
    @pytest.mark.parametrize("noise_upper", [5.0, None])
    @pytest.mark.parametrize("n", [1, 2, 3])
    def test_few_constant_and_repeated_observations(self, n, noise_upper):
        for points in (X[:n], X[:1].expand(n, 1)):
            for outcomes in (Y[:n], 0.0 * Y[:n], 0.0 * Y[:n] + 0.7):
                data = KernelRegression(points, outcomes, KERNEL, 1.0)
                acqf = bound(data, noise_upper)
                assert LOWER <= acqf.noise_interval[0] <= acqf.noise_interval[1]
                lower, upper = acqf.bounds(torch.cat([QUERIES, points]))
                assert bool(torch.isfinite(lower).all() & torch.isfinite(upper).all())
                assert bool((lower <= upper).all())

    @pytest.mark.parametrize(
        ("outcomes", "known"),
        [
            (torch.zeros_like(Y), 5.0),  # less noise than the lower limit
            (Y, 0.11),  # more than the upper limit
            (30.0 * (20.0 * X[:, 0]).sin(), 5.0),  # a norm far above norm_bound
        ],
    )
    def test_contradictions_warn_once_and_take_the_guarantee(self, outcomes, known):
        tracked, regression = tracker(known), KernelRegression(X, outcomes, KERNEL, 1.0)
        with pytest.warns(InconsistentConfidenceSetWarning, match="at least .* at most"):
            lower, upper = tracked.observe(regression)
        assert lower == upper
        assert not tracked.consistent
        acqf = bound(regression, known, tracker=tracked)  # a second warning would raise
        assert acqf.assumptions["noise"].status is Status.VIOLATED
        assert acqf.assumptions.guarantee.startswith("heuristic, no guarantee")
        assert bool(torch.isfinite(torch.stack(acqf.bounds(QUERIES))).all())

    def test_one_noise_scale_for_each_observation_is_refused(self):
        scales = torch.tensor([0.1, 0.2, 0.1, 0.1]).double()
        model = frozen_model(X[:4], Y[:4], KERNEL, scales)
        for take in (bound, tracker().observe):
            with pytest.raises(UnsupportedError, match="Leave out train_Yvar"):
                take(model)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((NORM, (0.0, 5.0)), "lower of UnknownNoise must be a finite"),
            ((NORM, (LOWER, math.inf)), "upper of UnknownNoise must be a finite"),
            ((NORM, (LOWER, 0.05)), "got 0.1 above 0.05"),
            ((NORM, (None, 5.0)), "noise_std has no lower limit"),
        ],
    )
    def test_wrong_arguments(self, arguments, message):
        norm, limits = arguments
        with pytest.raises(ValueError, match=message):
            StreamingNoiseTracker(norm, UnknownNoise(*limits))
        with pytest.raises(ValueError, match=message):
            StreamingKernelUCB(state(4), norm_bound=norm, noise_std=UnknownNoise(*limits))
        with pytest.raises(UnsupportedError, match="noise_std must be an UnknownNoise"):
            StreamingNoiseTracker(NORM, 0.1)

    @pytest.mark.parametrize(
        "options",
        [{"norm_bound": 2.0}, {"noise_std": UnknownNoise(LOWER, 4.0)}, {"delta": 0.2}],
    )
    def test_a_tracker_of_other_bounds_is_refused(self, options):
        with pytest.raises(ValueError, match="The tracker has"):
            bound(state(4), **{"tracker": tracker(), **options})

    def test_assumptions(self):
        acqf = bound(SingleTaskGP(X[:9], Y[:9].unsqueeze(-1)), norm_bound=50.0)
        assert acqf.assumptions["noise"].status is Status.GIVEN
        assert "second-order sub-Gaussian" in str(acqf.assumptions)
        assert "between 0.1 and 5" in str(acqf.assumptions)
        assert "above 0.1" in str(bound(state(4), None).assumptions)
