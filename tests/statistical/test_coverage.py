r"""Coverage: does the band hold for all rounds at once as often as it says?

Functions of known RKHS norm, points chosen by the bound itself, and a sequence counts as a
failure as soon as the band misses the truth on either side at any point in any round. If
the band holds with probability ``1 - delta``, the failures among ``n`` independent
sequences are at most binomial ``(n, delta)``. The test fails when there are more than all
but a share ``COVERAGE_FALSE_ALARM`` (1e-6) of such counts: a correct bound would fail for
one seed in a million, and seeds are fixed.
"""

import warnings

import pytest
import torch
from scipy.stats import binom

from kernelucb import KernelRegression, MartingaleMixtureUCB
from kernelucb.confidence.martingale_mixture import mixture_radius
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from problems import KERNELS, RKHSFunction, frozen_kernel, generator
from tolerances import COVERAGE_FALSE_ALARM, ORDER

DELTA, SEQUENCES, ROUNDS = 0.2, 60, 25
NORM, NOISE_STD = 2.0, 0.3
ARMS = torch.linspace(0.0, 1.0, 40, dtype=torch.float64).unsqueeze(-1)


def allowed_failures():
    r"""Fewest failures that a correct bound exceeds with at most that probability."""
    return int(binom.isf(COVERAGE_FALSE_ALARM, SEQUENCES, DELTA))


def gaussian(random):
    return torch.randn((), dtype=torch.float64, generator=random)


def rademacher(random):
    r"""Exactly 1-sub-Gaussian, the extreme case of bounded noise."""
    return 2.0 * torch.randint(2, (), generator=random).double() - 1.0


def first_failure(
    kernel, seed, *, norm_bound, noise_std, noise=gaussian, maximize=True, **options
):
    r"""Round in which the band first misses the function on the arms; None if never."""
    function = RKHSFunction.random(kernel, NORM, d=1, seed=1000 * seed)
    truth, random = function(ARMS), generator(seed)
    chosen = [int(torch.randint(len(ARMS), (), generator=random))]
    outcomes = []
    for round_number in range(1, ROUNDS + 1):
        outcomes.append(truth[chosen[-1]] + NOISE_STD * noise(random))
        Y = torch.stack(outcomes)
        # The state's own noise scale is read by nobody where the noise is unknown.
        state = KernelRegression(ARMS[chosen], Y, kernel, 1.0)
        acqf = MartingaleMixtureUCB(
            state, norm_bound=norm_bound, noise_std=noise_std, delta=DELTA, **options
        )
        lower, upper = acqf.bounds(ARMS)
        slack = ORDER * NORM
        if bool(((truth < lower - slack) | (truth > upper + slack)).any()):
            return round_number
        chosen.append(int((upper if maximize else -lower).argmax()))
    return None


def count_failures(kernel, **options):
    with warnings.catch_warnings():  # an empty set may happen, with probability delta
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        runs = [first_failure(kernel, seed, **options) for seed in range(SEQUENCES)]
    return sum(run is not None for run in runs)


@pytest.mark.parametrize(
    ("name", "noise", "maximize"),
    [
        ("rbf", gaussian, True),
        ("matern32", rademacher, False),
        ("matern52", gaussian, True),
    ],
)
def test_exact_band_holds_at_every_round(name, noise, maximize):
    failures = count_failures(
        frozen_kernel(name, 0.2),
        norm_bound=NORM,
        noise_std=NOISE_STD,
        noise=noise,
        maximize=maximize,
    )
    assert failures <= allowed_failures()


@pytest.mark.parametrize(
    ("name", "noise_bounds", "maximize"),
    [("rbf", (0.01, 1.0), True), ("matern32", None, False)],
)
def test_band_of_unknown_noise_holds_at_every_round(name, noise_bounds, maximize):
    failures = count_failures(
        frozen_kernel(name, 0.2),
        norm_bound=NORM,
        noise_std="unknown",
        noise_bounds=noise_bounds,
        maximize=maximize,
    )
    assert failures <= allowed_failures()


@pytest.mark.parametrize("name", KERNELS)
def test_a_wrong_claim_is_found_out(name):
    r"""The same test fails for noise understated by four and a norm by a tenth."""
    failures = count_failures(
        frozen_kernel(name, 0.2), norm_bound=0.9 * NORM, noise_std=NOISE_STD / 4.0
    )
    assert failures > allowed_failures()


def test_threshold_is_the_stated_one():
    limit = allowed_failures()
    assert binom.sf(limit, SEQUENCES, DELTA) <= COVERAGE_FALSE_ALARM
    assert binom.sf(limit - 1, SEQUENCES, DELTA) > COVERAGE_FALSE_ALARM


def radius_is_exceeded(kernel, seed, shrink=1.0):
    r"""Whether the true values leave the fit constraint in any round, inputs as above."""
    function = RKHSFunction.random(kernel, NORM, d=1, seed=1000 * seed)
    random = generator(seed)
    order = torch.randint(len(ARMS), (ROUNDS,), generator=random)
    X, truth = ARMS[order], function(ARMS[order])
    noise = torch.stack([gaussian(random) for _ in range(ROUNDS)])
    for t in range(1, ROUNDS + 1):
        claimed = shrink * NOISE_STD
        Y = truth[:t] + NOISE_STD * noise[:t]
        state = KernelRegression(X[:t], Y, kernel, claimed)
        squared = mixture_radius(state, DELTA, 1.0).squared(state)
        if ((truth[:t] - Y) / claimed).square().sum() > squared:
            return True
    return False


@pytest.mark.parametrize("name", KERNELS)
def test_radius_holds_at_every_round(name):
    r"""The tail bound of Eq. (8) itself, without the slack that the norm adds."""
    kernel = frozen_kernel(name, 0.2)
    failures = [radius_is_exceeded(kernel, seed) for seed in range(SEQUENCES)]
    assert sum(failures) <= allowed_failures()
    understated = [radius_is_exceeded(kernel, seed, 0.25) for seed in range(SEQUENCES)]
    assert sum(understated) > allowed_failures()
