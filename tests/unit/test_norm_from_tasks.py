r"""A norm bound from earlier tasks: its number, its probability, and what it refuses."""

import math
import re
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.means import Mean
from torch.testing import assert_close

from kernelucb import (
    IGPUCB,
    KernelFamilyUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    NearNormBall,
    failure_probability,
    level_set,
    norm_from_simulator,
    norm_from_tasks,
    regret_certificate,
)
from kernelucb.confidence.band import weighted_sum
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from problems import float64, uniform


def kernel(base=None, lengthscale=0.4):
    scaled = ScaleKernel(MaternKernel(2.5) if base is None else base).double()
    scaled.base_kernel.lengthscale, scaled.outputscale = lengthscale, 1.5
    return scaled.requires_grad_(False)


KERNEL, POINTS = kernel(), uniform(25, 2, seed=3)
FACTOR = torch.linalg.cholesky(KERNEL(POINTS).to_dense())
DRAWS = FACTOR @ torch.randn(25, 40, generator=torch.Generator().manual_seed(4)).double()
TASKS = [(POINTS, values) for values in DRAWS.T[:39]]
NEW = DRAWS[:, 39]


def regression(truth=NEW, covar=KERNEL):
    noise = torch.randn(10, generator=torch.Generator().manual_seed(5)).double()
    return KernelRegression(POINTS[:10], truth[:10] + 0.1 * noise, covar, noise_std=0.1)


def band(norm, delta=0.1, **options):
    return MartingaleMixtureUCB(regression(**options), norm_bound=norm, delta=delta).band


def test_the_norm_is_that_of_the_interpolant():
    norm = norm_from_tasks(TASKS[:3], KERNEL, 0.7)
    expected = [
        (values - 0.7) @ torch.linalg.solve(KERNEL(POINTS).to_dense(), values - 0.7)
        for _, values in TASKS[:3]
    ]
    assert_close(
        float64([*map(float, norm.norms)]).square(), torch.stack(expected).sort()[0]
    )
    assert float(norm.norm_bound) == norm.norms[-1]
    assert norm.failure_probability == pytest.approx(1 / 4)
    second = norm_from_tasks(TASKS[:3], KERNEL, 0.7, rank=2)
    assert float(second.norm_bound) == norm.norms[1]
    assert second.failure_probability == pytest.approx(2 / 4)


def test_a_simulator_is_its_draws():
    drawn = norm_from_simulator(lambda index: DRAWS[:, index], POINTS, KERNEL, 39)
    assert drawn.norms == norm_from_tasks(TASKS, KERNEL).norms
    assert "draws of a simulator" in band(drawn).assumptions["norm"].statement


def test_the_band_counts_the_probability_of_the_norm():
    norm = norm_from_tasks(TASKS, KERNEL)
    found, number = band(norm), band(float(norm.norm_bound), delta=0.1 - 1 / 40)
    assert found.delta == pytest.approx(0.1)
    assert "with probability 0.9" in found.assumptions.guarantee
    assert all(map(torch.equal, found.bounds(POINTS), number.bounds(POINTS)))
    assert found.assumptions.at(POINTS).certified
    assert not found.assumptions.certified  # at all points at once
    assert found.at(delta=0.2).delta == pytest.approx(0.2)
    with pytest.raises(ValueError, match="more of them"):
        found.at(delta=0.02)


@pytest.mark.parametrize("factor", [0.9, 1.0, 3.0])
def test_a_multiple_keeps_the_probability_and_a_smaller_one_has_none(factor):
    norm = norm_from_tasks(TASKS, KERNEL)
    relaxed = band(norm).relaxed(norm_factor=factor)
    assert relaxed.delta == pytest.approx(0.1)
    assert relaxed.assumptions.at(POINTS).certified == (factor >= 1.0)
    assert float(relaxed.norm_bounds[0]) == pytest.approx(factor * norm.norms[-1])


@pytest.mark.parametrize("delta", [0.05, 0.1, 0.3, 1.0 / 49.0])
def test_as_many_tasks_as_are_asked_for_are_enough(delta):
    norm = norm_from_tasks(TASKS[:1], KERNEL)
    with pytest.raises(ValueError, match="at least ") as refusal:
        norm.left_of(delta)
    (asked,) = re.findall(r"at least (\d+)", str(refusal.value))
    counts = int(asked) - 1, int(asked)
    norms = [replace(norm, norms=(1.0,) * n, rank=n, fixed=(n, 0.0)) for n in counts]
    assert [each.failure_probability < delta - 1e-12 for each in norms] == [False, True]


def test_the_number_alone_is_an_estimate():
    norm = norm_from_tasks(TASKS, KERNEL)
    for number in (norm.norm_bound, band(norm).norm_bounds[0]):
        assert band(number).assumptions.estimated == ("norm",)


def test_claims_rest_on_the_tasks():
    certificate = regret_certificate(band(norm_from_tasks(TASKS, KERNEL)), POINTS)
    assert certificate.certified
    assert "rank 39 of 39 earlier tasks" in str(certificate)


@pytest.mark.slow
def test_statements_about_other_points_than_the_tasks_are_estimates():
    norm, box = (
        norm_from_tasks(TASKS, KERNEL),
        torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double(),
    )
    found, sums = band(norm), weighted_sum([band(norm, 0.06), band(50.0, 0.05)], [1.0, 1.0])
    sample = uniform(20, 2, seed=6)
    for each in (found, sums):
        assert each.assumptions.at(POINTS).certified
        assert "off the points of its domain" in each.assumptions.verdict
        assert level_set(each, 0.0, candidates=POINTS).certified
        for other in (
            level_set(each, 0.0, bounds=box),
            failure_probability(each, 0.0, sample),
        ):
            assert not other.certified
            assert other.summary.startswith("heuristic: norm")
    certificate = regret_certificate(found, bounds=box, max_evaluations=2000)
    assert not certificate.certified
    assert certificate.summary.startswith("heuristic: norm estimated")
    number = band(float(norm.norm_bound), delta=0.1 - 1 / 40)
    assert level_set(number, 0.0, bounds=box).certified


def test_a_task_that_is_unlike_the_others_is_found_out():
    with pytest.warns(InconsistentConfidenceSetWarning):
        found = band(norm_from_tasks(TASKS, KERNEL), truth=30.0 * NEW)
    assert found.assumptions.violated
    statement = found.assumptions["norm"].statement
    assert "39 earlier tasks" in statement
    assert "No function of norm at most" in statement
    assert found.norm_bounds[0] > 7.5  # the one in use
    for factor in (1.01, 100.0):
        assert not found.relaxed(norm_factor=factor).assumptions.certified


def test_a_function_near_the_values_has_a_smaller_norm():
    exact = norm_from_tasks(TASKS, KERNEL)
    near = norm_from_tasks(TASKS, KERNEL, model_error=0.2)
    assert all(b < a for a, b in zip(exact.norms, near.norms, strict=True))
    wider = band(near).bounds(POINTS)[1] - band(float(near.norm_bound)).bounds(POINTS)[1]
    assert float(wider.min()) >= 0.2 - 1e-9
    gram, ridge = (
        KERNEL(POINTS).to_dense(),
        norm_from_tasks(TASKS[:1], KERNEL, model_error=0.2),
    )
    values = TASKS[0][1]
    # The ridge estimate whose largest residual is the distance, by bisection.
    low, high = -30.0, 10.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        weights = torch.linalg.solve(gram + math.exp(middle) * torch.eye(25), values)
        if float((math.exp(middle) * weights).abs().max()) < 0.2:
            low = middle
        else:
            high = middle
    assert float(ridge.norm_bound) == pytest.approx(
        float((weights @ gram @ weights).sqrt())
    )
    assert norm_from_tasks(TASKS[:1], KERNEL, model_error=100.0).norms == (0.0,)


def test_round_off_is_not_taken_for_a_norm():
    smooth = kernel(RBFKernel(), 3.0)
    with pytest.raises(InputDataError, match="task 1"):
        norm_from_tasks(TASKS[:2], smooth)
    assert norm_from_tasks(TASKS[:2], smooth, model_error=2.0).norms[0] > 0.0
    twice = torch.cat([POINTS, POINTS[:1]]), torch.cat([NEW, NEW[:1] + 1.0])
    with pytest.raises(InputDataError, match="two values"):
        norm_from_tasks([twice], KERNEL)


def test_another_kernel_or_class_is_refused():
    norm = norm_from_tasks(TASKS, KERNEL)
    with pytest.raises(ValueError, match="another kernel"):
        band(norm, covar=kernel(lengthscale=0.5))
    with pytest.raises(ValueError, match="another kernel or mean"):
        band(norm_from_tasks(TASKS, KERNEL, 1.0))
    for build in (
        lambda: IGPUCB(regression(), norm_bound=norm),
        lambda: band(NearNormBall(norm, 0.1)),
        lambda: KernelFamilyUCB(regression(), [KERNEL], norm_bound=norm),
    ):
        with pytest.raises((ValueError, TypeError), match="number"):
            build()
    with pytest.raises(ValueError, match="rank"):
        norm_from_tasks(TASKS[:2], KERNEL, rank=3)
    with pytest.raises(ValueError, match="at least one task"):
        norm_from_tasks([], KERNEL)


@pytest.mark.parametrize("change", [{"rank": 37}, {"model_error": 0.2}])
def test_a_choice_after_the_norms_were_seen_has_no_probability(change):
    norm = norm_from_tasks(TASKS, KERNEL)
    same = replace(norm, rank=39, model_error=0.0)
    assert same.failure_probability == norm.failure_probability < 0.1
    changed = replace(norm, **change)
    assert changed.failure_probability == 1.0
    with pytest.raises(ValueError, match="or to norm_from_tasks, before the norms"):
        band(changed, delta=0.99)
    before = norm_from_tasks(TASKS, KERNEL, **change)
    assert before.failure_probability < 0.1
    assert "were fixed before these norms" in band(before).assumptions["norm"].statement


TWO = kernel(MaternKernel(2.5, ard_num_dims=2), torch.tensor([[0.4, 0.3]]))
OTHER = kernel(MaternKernel(2.5, ard_num_dims=2), torch.tensor([[0.4, 3.0]]))
LINE = torch.stack([torch.linspace(0, 1, 5), torch.zeros(5)], -1).double()


@pytest.mark.parametrize("first", [LINE, POINTS[:1], torch.cat([POINTS, POINTS + 1.0])])
def test_the_kernel_is_compared_at_all_points_of_all_tasks(first):
    r"""The points of one task may tell two kernels apart, or none of them."""
    tasks = [(first, first.sum(-1)), *TASKS[:38]]
    for order in (tasks, tasks[::-1]):
        norm = norm_from_tasks(order, TWO, points=POINTS)
        assert band(norm, covar=TWO).assumptions.at(POINTS).certified

        with pytest.raises(ValueError, match="another kernel or mean"):
            band(norm, covar=OTHER)


class Step(Mean):
    r"""A mean that differs from 0 at a single point."""

    def forward(self, x):
        return 1e-3 * (x == POINTS[24]).all(-1).to(x)


def test_the_mean_is_compared_there_as_well():
    tasks = [(POINTS[:9], values[:9]) for _, values in TASKS[:38]]
    for listed, match in ((tasks, None), ([*tasks, TASKS[38]], "another kernel or mean")):
        norm = norm_from_tasks(listed, KERNEL)
        data = KernelRegression(POINTS[:9], NEW[:9], KERNEL, 0.1, Step())
        with nullcontext() if match is None else pytest.raises(ValueError, match=match):
            MartingaleMixtureUCB(data, norm_bound=norm, delta=0.1)


def test_tasks_have_the_same_columns():
    wrong = POINTS[:, :1], TASKS[1][1]
    with pytest.raises(ValueError, match="task 2 has 1 input columns, and task 1 has 2"):
        norm_from_tasks([TASKS[0], wrong], KERNEL)
    tasks = [(POINTS[:, :1], values) for _, values in TASKS]
    with pytest.raises(ValueError, match="other input columns"):
        band(norm_from_tasks(tasks, KERNEL))


def test_equal_tables_count_once():
    order = torch.arange(25).flip(0)
    copies = [(X[order], Y[order].unsqueeze(-1)) for X, Y in TASKS[:3]]
    twice = norm_from_tasks([*TASKS, *copies], KERNEL)
    assert twice.norms == norm_from_tasks(TASKS, KERNEL).norms
    assert twice.failure_probability == pytest.approx(1 / 40)
    assert "39 earlier tasks (3 more are equal" in band(twice).assumptions["norm"].statement
    # Of independent tasks that are equal, norms below the largest would be bounded wrongly.
    with pytest.raises(ValueError, match="rank must be at most 39"):
        norm_from_tasks([*TASKS, *copies], KERNEL, rank=38)


@pytest.mark.slow
def test_the_share_of_norms_above_the_bound_is_the_promised_one():
    r"""Of 200 groups of 9 tasks and a new one; false alarm 6e-5, found if .20 were .35."""
    small, count = POINTS[:6], 200
    factor = torch.linalg.cholesky(KERNEL(small).to_dense())
    draws = torch.randn(6, 10 * count, generator=torch.Generator().manual_seed(6)).double()
    norms = torch.tensor(norms_of(small, factor @ draws)).reshape(count, 10)
    bound = norms[:, :9].sort()[0][:, 7]  # of rank 8
    false = int((norms[:, 9] > bound).sum())
    sd = math.sqrt(count * 0.2 * 0.8)
    assert abs(false - 0.2 * count) <= 4.0 * sd
    # A new task of twice the scale is not exchangeable: 183 of 200 are above, not 40.
    assert int((2.0 * norms[:, 9] > bound).sum()) > 4 * 40


def norms_of(points, columns):
    return [float(norm_from_tasks([(points, f)], KERNEL).norm_bound) for f in columns.T]
