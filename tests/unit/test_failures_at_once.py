r"""At how many points one function of a set can be beyond a level at once."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from kernelucb import (
    KernelFamilyUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    NearNormBall,
    OutcomeConstraints,
    failure_probability,
    level_set,
)
from kernelucb._numerics.spectral import eigenvalue_limit
from kernelucb.confidence.mixture import attaining_function
from problems import RKHSFunction, float64, frozen_kernel, generator, uniform

NORM, NOISE = 2.0, 0.05
X = uniform(250, 3, 9)


def band(seed=3, n=40, lengthscale=0.4, sign=1.0, name="matern52", **options):
    kernel = frozen_kernel(name, lengthscale=lengthscale)
    truth = RKHSFunction.random(kernel, NORM, 3, seed)
    rows = uniform(n, 3, 1 + seed)
    noise = NOISE * torch.randn(n, generator=generator(seed), dtype=torch.float64)
    state = KernelRegression(rows, sign * (truth(rows) + noise), kernel, NOISE)
    options = {"norm_bound": 1.2 * NORM, **options}
    return truth, MartingaleMixtureUCB(state, **options).band


def failing(made, level):
    r"""Bounds on the number of failures, by single points and together."""
    lower, upper = made.bounds(X)
    alone = int((upper < level).sum()), int((lower < level).sum())
    return alone, OutcomeConstraints(made, level).num_failing(X)


@pytest.mark.parametrize("count", [1, 2, 5, 300])
@pytest.mark.parametrize("decay", [0.0, 0.5, 20.0])
def test_the_limit_of_an_eigenvalue_is_above_it_by_little(count, decay):
    random = torch.randn(count, count, generator=generator(count), dtype=torch.float64)
    vectors = torch.linalg.qr(random)[0]
    values = torch.exp(-decay * torch.linspace(0, 1, count, dtype=torch.float64))
    matrix = vectors * values @ vectors.mT
    matrix = 0.5 * (matrix + matrix.mT)
    largest = float(torch.linalg.eigvalsh(matrix)[-1])
    found = eigenvalue_limit(matrix)
    assert largest <= found
    # Of fewer than three rows it is the Frobenius norm.
    assert found <= largest * (1.0 + 2e-6 if count > 2 else 2.0**0.5 + 1e-9)
    assert eigenvalue_limit(torch.zeros(count, count, dtype=torch.float64)) == 0.0
    negative = eigenvalue_limit(-matrix)
    assert negative >= -float(values[-1])


def values_of(ellipsoid, points: Tensor, directions: Tensor) -> Tensor:
    r"""Values at points of functions on the border of a set of a single regulariser."""
    whole = ellipsoid.confidence_set
    seen, tau = whole.regression.project(points), float64(whole.grid.regularizers[0])
    covariance = whole.regression.covariance_at(seen, seen, tau)
    root = torch.linalg.cholesky(covariance + 1e-12 * torch.eye(len(points)))
    width = float(whole.grid.squared_widths[0]) ** 0.5
    unit = directions / directions.norm(dim=-1, keepdim=True)
    centre = seen.baseline + whole.regression.deviation_at(seen, tau)
    return centre + width * unit @ root.mT


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("quantile", [0.02, 0.2])
def test_no_function_of_an_ellipsoid_is_beyond_a_level_at_more_points(sign, quantile):
    r"""Random ones, those along eigenvectors, and those lowest at a part of the points."""
    truth, made = band(sign=float(sign), form=[NOISE**2])
    level = sign * float(truth(X).quantile(quantile))
    found = made.confidence_set.most_beyond(X, level, -sign)
    identity = torch.eye(len(X), dtype=torch.float64)
    base = values_of(made, X, identity)
    mean = values_of(made, X, torch.cat([identity, -identity])).mean(0)
    root = (base - mean).mT  # its columns are half axes
    distance = (sign * (mean - level)).clamp_min(1e-9)
    scaled = root / distance[:, None]
    tried = [torch.randn(300, len(X), generator=generator(1), dtype=torch.float64)]
    tried += [torch.linalg.svd(scaled)[2][:20]]
    nearest = distance.argsort()
    tried += [scaled[nearest[:k]].sum(0)[None] for k in range(1, len(X), 5)]
    values = values_of(made, X, torch.cat([*tried, *(-each for each in tried)]))
    counts = (sign * (values - level) <= 0.0).sum(-1)
    assert 0 < int(counts.max()) <= found < len(X)


def test_a_bound_of_a_fifth_less_would_be_exceeded():
    r"""Far from all runs: ten clumps, three of which fit into the norm at this level."""
    kernel = frozen_kernel("matern52", lengthscale=0.02)
    state = KernelRegression(float64([[0.0, 0.0]]), float64([0.0]), kernel, NOISE)
    clumps = float64([[0.5 + 0.5 * i, 1.0] for i in range(10)])
    nearby = 1e-4 * torch.randn(20, 2, generator=generator(5), dtype=torch.float64)
    points = (clumps[:, None] + nearby).flatten(end_dim=1)
    level = -NORM / 3.05**0.5
    made = MartingaleMixtureUCB(state, norm_bound=NORM)
    found = made.band.confidence_set.most_beyond(points, level, -1)
    # A function of three sections: of this norm, and zero at the only run.
    weights = torch.full((3,), 1.0001 * level, dtype=torch.float64)
    gram = kernel(clumps[:3]).to_dense()
    assert float((weights @ gram @ weights).sqrt()) < NORM
    assert float((kernel(state.train_inputs, clumps[:3]).to_dense() @ weights).abs()) < 1e-9
    member = kernel(points, clumps[:3]).to_dense() @ weights
    count = int((member < level).sum())
    assert count == 60
    assert 0.8 * found < count <= found < len(points)
    lower, upper = made.band.bounds(points)
    assert bool(((lower < level) & (upper > level)).all())  # each one alone may be there


@pytest.mark.parametrize("name", ["matern52", "rbf"])
def test_members_of_the_set_keep_to_it(name):
    r"""Means of functions that attain the bounds at single points, in random weights."""
    _, made = band(name=name, lengthscale=0.5, n=25)
    whole = made.confidence_set
    attained = torch.stack(
        [attaining_function(whole, whole.project(x[None]), -1)(X) for x in X[:60]]
    )
    weights = torch.rand(400, 60, generator=generator(2), dtype=torch.float64) ** 8
    members = torch.cat([attained, weights / weights.sum(-1, keepdim=True) @ attained])
    for quantile in (0.02, 0.1, 0.3):
        level = float(members.mean(0).quantile(quantile))
        (surely, possibly), (least, most) = failing(made, level)
        counts = (members < level).sum(-1)
        assert surely <= least <= int(counts.min())
        assert int(counts.max()) <= most <= possibly


def test_the_truth_keeps_to_it_and_it_is_narrower():
    r"""Five functions at three levels, at norm 1.2 times the true one."""
    gained = 0.0
    for seed in range(5):
        truth, made = band(seed)
        values = truth(X)
        for quantile in (0.02, 0.1, 0.9):
            level = float(values.quantile(quantile))
            (surely, possibly), (least, most) = failing(made, level)
            assert surely <= least <= int((values < level).sum()) <= most <= possibly
            gained += possibly - most + least - surely
    assert gained > 15 * 0.1 * len(X)


@pytest.mark.filterwarnings("ignore::kernelucb.exceptions.InconsistentConfidenceSetWarning")
def test_a_smaller_norm_bound_is_found_out():
    r"""At a third of the norm counts of the truth are exceeded: the test above can fail."""
    missed = 0
    for seed in range(5):
        truth, made = band(seed, n=5, norm_bound=NORM / 3.0)
        values = truth(X)
        for quantile in (0.1, 0.9):
            least, most = failing(made, float(values.quantile(quantile)))[1]
            missed += not least <= quantile * len(X) <= most
    assert missed > 5


def test_signs_and_sides_are_mirrored():
    truth, made = band()
    _, mirrored = band(sign=-1.0)
    level = float(truth(X).quantile(0.1))
    found = OutcomeConstraints(made, level).num_failing(X)
    other = OutcomeConstraints(mirrored, -level, sides="<=").num_failing(X)
    assert found == pytest.approx(other, abs=1)  # round-off at a whole number


def test_more_functions_and_wider_levels_hold_more():
    truth, made = band()
    level = float(truth(X).quantile(0.05))
    shifts = [level - 0.2, level - 0.1, level]
    counts = [made.confidence_set.most_beyond(X, each, -1) for each in shifts]
    assert all(less <= more for less, more in pairwise(counts))
    assert counts[0] < counts[-1]
    _, near = band(norm_bound=NearNormBall(1.2 * NORM, 0.05))
    assert near.confidence_set.most_beyond(X, level, -1) >= counts[-1]
    limited = made.within(lower=-9.0)
    assert limited.confidence_set.most_beyond(X, level, -1) == counts[-1]


def test_of_a_family_the_kernel_with_the_most_counts():
    truth, made = band()
    state, kernels = (
        made.data,
        [frozen_kernel("matern52", lengthscale=s) for s in (0.4, 0.3)],
    )
    family = KernelFamilyUCB(state, kernels, norm_bound=[1.2 * NORM, 1.5 * NORM]).band
    level = float(truth(X).quantile(0.05))
    whole = family.confidence_set
    parts = [part.most_beyond(X, level, -1) for part in whole.alternatives]
    assert len(parts) == 2
    assert whole.most_beyond(X, level, -1) == max(parts) < len(X)


def test_several_limits_fail_at_most_as_often_as_all_of_them():
    r"""And at least as often as the one that fails most."""
    (first, one), (second, other) = band(3), band(4)
    levels = float(first(X).quantile(0.05)), float(second(X).quantile(0.9))
    limits = OutcomeConstraints([one, other], levels, sides=[">=", "<="])
    least, most = limits.num_failing(X)
    alone = [
        OutcomeConstraints(b, t, sides=s).num_failing(X)
        for b, t, s in zip((one, other), levels, (">=", "<="), strict=True)
    ]
    certain, possible = limits.margins(X)
    truth = (first(X) < levels[0]) | (second(X) > levels[1])
    assert least <= int(truth.sum()) <= most
    assert most <= min(sum(each[1] for each in alone), int((certain < 0).any(0).sum()))
    assert least >= int((possible < 0).any(0).sum())


def test_shares_of_samples_and_level_sets_say_so():
    truth, made = band()
    level = float(truth(X).quantile(0.05))
    (surely, possibly), (least, most) = failing(made, level)
    assert most < possibly
    share = failure_probability(made, level, X)
    assert (share.surely, share.possibly) == (least / 250, most / 250)
    found = level_set(made, level, X)
    assert found.inside == pytest.approx(1.0 - possibly / 250)
    assert found.kept_share == pytest.approx((1.0 - most / 250, 1.0 - least / 250))
    assert "; counted together, at least " in found.sentence
    assert found.outside == pytest.approx(surely / 250)
    decided = level_set(made, -99.0, X)
    assert decided.kept_share == pytest.approx((1.0, 1.0))
    assert "counted together" not in decided.sentence
    box = level_set(made, level, bounds=float64([[0.0] * 3, [1.0] * 3]), max_evaluations=99)
    assert box.kept_share == (box.inside, 1.0 - box.outside)


def test_no_point_and_one_point():
    _, made = band()
    whole = made.confidence_set
    assert whole.most_beyond(X[:0], 0.0, 1) == 0
    assert whole.most_beyond(X[:1], -99.0, -1) == 0
    assert whole.most_beyond(X[:1], -99.0, 1) == 1


@pytest.mark.parametrize("noise", [1e-7, 1e-3, 10.0])
def test_where_round_off_decides_nothing_false_is_said(noise):
    r"""Smooth kernel, dense runs: most eigenvalues are round-off at the small noise."""
    kernel = frozen_kernel("rbf", lengthscale=0.7)
    truth, rows = RKHSFunction.random(kernel, NORM, 3, 2), uniform(80, 3, 2)
    state = KernelRegression(rows, truth(rows), kernel, noise)
    made = MartingaleMixtureUCB(state, norm_bound=1.01 * NORM).band
    points = torch.cat([X, rows])
    values = truth(points)
    for level in (*values.quantile(float64([0.05, 0.5, 0.95])), values[-1], values.min()):
        least, most = OutcomeConstraints(made, float(level)).num_failing(points)
        assert least <= int((values < float(level)).sum()) <= most
