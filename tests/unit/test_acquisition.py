r"""What BoTorch and Ax ask of a bound beyond ``check_band``: weights and options."""

from inspect import signature
from math import log

import pytest
import torch
from botorch.acquisition import qLogNoisyExpectedImprovement
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.objective import (
    IdentityMCObjective,
    LinearMCObjective,
    ScalarizedPosteriorTransform,
)
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import FilterFeatures
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.kernels import RBFKernel
from torch.testing import assert_close

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    ConstrainedUCB,
    KernelFamilyUCB,
    KernelRegression,
    LikelihoodUCB,
    MartingaleMixtureUCB,
    NormTracker,
    ScalarizedUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    UnknownNoise,
    WangDeFreitasUCB,
)
from kernelucb.acquisition.turns import turn_at
from kernelucb.acquisition.ucb import upper_bound_of
from kernelucb.exceptions import SinglePrecisionWarning
from problems import frozen_kernel, make_problem, uniform
from tolerances import REARRANGED

PROBLEM = make_problem(n=8, d=2, noise_std=0.3, seed=21)
X, PENDING = uniform(6, 2, seed=22), uniform(2, 2, seed=23)
NORM = {"norm_bound": 3.0}
OPTIONS = {
    MartingaleMixtureUCB: NORM | {"form": "analytic"},
    AbbasiYadkoriUCB: NORM,
    IGPUCB: NORM,
    SrinivasUCB: {},
    WangDeFreitasUCB: NORM,
    StreamingKernelUCB: NORM | {"noise_std": UnknownNoise(0.1, 1.0)},
}
every_class = pytest.mark.parametrize("acqf_class", OPTIONS)


def at(acqf, points=X):
    return acqf(points.unsqueeze(-2))


def exact(**options):
    return MartingaleMixtureUCB(PROBLEM.model, **NORM, **options)


def weighted(weight, offset=0.0):
    weights = torch.tensor([weight], dtype=torch.float64)
    return {"posterior_transform": ScalarizedPosteriorTransform(weights, offset)}


@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize(("weight", "offset"), [(-1.0, 0.0), (2.5, 0.75), (-0.5, -3.0)])
def test_a_weight_is_applied_to_the_bound(weight, offset, maximize):
    acqf = exact(**weighted(weight, offset), maximize=maximize)
    transformed = [offset + weight * bound for bound in exact().bounds(X)]
    lower, upper = sorted(transformed, key=lambda side: float(side[0]))
    expected = upper if maximize else -lower
    assert_close(at(acqf), expected, rtol=REARRANGED, atol=1e-12)


@every_class
def test_pending_value_is_the_band_of_the_larger_design(acqf_class):
    r"""Mean and width of the data, variance of data and pending points (GP-BUCB)."""
    acqf = acqf_class(PROBLEM.model, **OPTIONS[acqf_class], X_pending=PENDING)
    band, state = acqf.band.confidence_set, acqf.band.confidence_set.regression
    points, larger = state.project(X), state.with_pending(PENDING)
    tau = torch.tensor(band.regularizer, dtype=torch.float64)
    variance = larger.variance_at(larger.project(X), tau)
    mean = points.baseline + state.deviation_at(points, tau)
    expected = mean + band.width * variance.sqrt()
    assert_close(at(acqf), expected, rtol=REARRANGED, atol=1e-12)


def test_single_precision_points_warn():
    acqf = exact()
    for use in (at, lambda acqf, points: acqf.bounds(points)[0]):
        with pytest.warns(SinglePrecisionWarning, match=r"float32.*Use float64"):
            assert use(acqf, X.float()).dtype == torch.float32


def test_many_points_are_what_their_parts_are():
    r"""Values, bounds and gradients do not show that they were computed in parts."""
    acqf, many = exact(), uniform(1100, 2, 3)

    def look(points):
        points.requires_grad_()
        values, (lower, upper) = at(acqf, points), acqf.bounds(points)
        total = (values + upper - 2.0 * lower).sum()
        return values, lower, upper, *torch.autograd.grad(total, points)

    whole = look(many)
    for part in (slice(0, 5), slice(510, 515), slice(1095, 1100)):
        for found, expected in zip(whole, look(many[part].detach()), strict=True):
            assert_close(found[part], expected, rtol=REARRANGED, atol=1e-12)


# What Ax gives to every acquisition function, whether it is used or not
ALWAYS = {"X_baseline": PROBLEM.X, "training_data": object(), "constraints": None}
ALWAYS |= {"objective_thresholds": None, "objective": IdentityMCObjective()}


@every_class
def test_options_arrive(acqf_class):
    streaming = acqf_class is StreamingKernelUCB
    options = OPTIONS[acqf_class] | {
        "noise_std": UnknownNoise(0.05, 0.5) if streaming else 0.2,
        "delta": 0.01,
        "maximize": False,
        "X_pending": X[:1],
        **weighted(-2.0),
    }
    construct = get_acqf_input_constructor(acqf_class)
    value = at(acqf_class(**construct(model=PROBLEM.model, **options, **ALWAYS)))
    assert_close(value, at(acqf_class(PROBLEM.model, **options)))
    plain = at(acqf_class(PROBLEM.model, **OPTIONS[acqf_class]))
    assert (value - plain).abs().max() > 1e-2


FROM_MODEL = (
    MartingaleMixtureUCB,
    KernelFamilyUCB,
    LikelihoodUCB,
    ScalarizedUCB,
    ConstrainedUCB,
)


@pytest.mark.parametrize("acqf_class", FROM_MODEL)
def test_from_model_hands_its_arguments_on_in_their_order(acqf_class):
    r"""By position, so that defaults are said once: another order would swap them."""
    taken = signature(acqf_class.arguments_from_model).parameters
    assert [*taken] == [*signature(acqf_class.from_model).parameters]
    assert not any(each.default is not each.empty for each in taken.values())


TURNS = ("upper", "improvement", "mean")


@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("pending", [None, PENDING[:1], PENDING])
def test_turns_follow_the_number_of_points_and_change_no_bounds(maximize, pending):
    options = {"X_pending": pending, "maximize": maximize}
    plain, turns = exact(**options), exact(**options, turns=TURNS)
    count = 8 + (0 if pending is None else len(pending))
    is_upper = turn_at(TURNS, count) == "upper"
    assert torch.equal(at(turns), at(plain)) == is_upper
    assert all(map(torch.equal, plain.bounds(X), turns.bounds(X)))
    assert torch.equal(at(upper_bound_of(turns)), at(plain))


@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize(("weight", "offset"), [(1.0, 0.0), (-2.0, 0.5)])
def test_a_turn_of_the_mean_is_the_posterior_mean(maximize, weight, offset):
    acqf = exact(maximize=maximize, turns=("mean",), **weighted(weight, offset))
    mean = offset + weight * PROBLEM.model.posterior(X).mean[:, 0]
    assert_close(at(acqf), mean if maximize else -mean, rtol=0.0, atol=1e-8)
    assert torch.equal(acqf.majorant(X[:, None]), at(acqf))


def test_a_turn_of_the_mean_plays_no_point_again_while_there_is_another():
    acqf, upper = (
        exact(turns=("mean",), X_pending=PENDING[:1]),
        exact(X_pending=PENDING[:1]),
    )
    chosen = torch.cat([PROBLEM.X, PENDING[:1]])
    again = at(acqf, chosen)
    assert float(again.max()) < float(at(acqf).min())  # X has none of them
    # Where there is no other, the upper bound plays.
    assert torch.equal(again.argsort(), at(upper, chosen).argsort())


def distances(points):
    r"""To the nearest observed point, in the kernel's metric over the outcomes' spread."""
    data = exact().band.data
    inputs = data.prior.transform(points)
    squared = 2.0 * data.prior_std**2 - 2.0 * data.prior.covariance(
        inputs, data.distinct_inputs
    )
    return squared.amin(-1).sqrt() / data.train_targets.std(correction=0)


@pytest.mark.parametrize("maximize", [True, False])
def test_a_turn_of_the_mean_goes_beside_an_observed_point_as_far_as_can_be_told(maximize):
    r"""Values rise from an observed point on, up to a hundredth of the outcomes' spread."""
    acqf = exact(turns=("mean",), maximize=maximize)
    mean = PROBLEM.model.posterior
    sign = 1.0 if maximize else -1.0
    scale = torch.logspace(-6.0, -1.0, 200, dtype=torch.float64)[:, None]
    for point, aim in zip(PROBLEM.X[:3], X[:3], strict=True):
        line = point + scale * (aim - point)
        far, loss = distances(line), sign * mean(line).mean[:, 0] - at(acqf, line)
        assert bool((loss >= -1e-8).all())
        assert bool((loss[far < 0.01 / 8.0] > 1.0).all())
        assert bool((loss[(far > 0.002) & (far < 0.009)] > 1e-7).all())
        assert float(loss[far > 0.011].abs().max()) < 1e-8


def test_a_turn_of_the_mean_plays_nothing_near_a_pending_point():
    plain, acqf = exact(turns=("mean",)), exact(turns=("mean",), X_pending=PENDING[:1])
    steps = torch.linspace(0.02, 1.0, 51, dtype=torch.float64)[:, None]
    line = PENDING[:1] + steps * (X[:1] - PENDING[:1])
    loss = at(plain, line) - at(acqf, line)
    prior_std = acqf.band.data.prior_std
    assert 0.9 * prior_std < float(loss[0]) <= prior_std
    assert bool((loss.diff() <= 1e-9).all())
    assert float(loss[-1]) == 0.0


CORNER = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


def test_a_search_of_the_mean_ends_beside_the_observed_corner_that_is_best():
    X = torch.cat([uniform(8, 2, seed=3), CORNER[1:]])
    data = KernelRegression(X, X.sum(-1), frozen_kernel("matern52", 1.0), 1e-3)
    acqf = MartingaleMixtureUCB(data, norm_bound=9.0, turns=("mean",))
    start = CORNER[1:] - 0.2
    options = {"q": 1, "num_restarts": 1, "batch_initial_conditions": start[None]}
    found, _ = optimize_acqf(acqf, CORNER, **options)
    assert float((found - CORNER[1:]).norm()) > 1e-3
    assert float((found - CORNER[1:]).norm()) < 2e-2


def test_a_state_whose_inputs_cannot_be_restored_is_built_again():
    transform = FilterFeatures(torch.tensor([0]))
    given = {"covar_module": RBFKernel(), "outcome_transform": None}
    given["covar_module"].requires_grad_(False)
    noise = torch.full_like(X[:, :1], 0.01)
    model = SingleTaskGP(X, X[:, :1], noise, input_transform=transform, **given)
    band = MartingaleMixtureUCB(model, norm_bound=3.0).band
    same = MartingaleMixtureUCB(KernelRegression.of(model), norm_bound=3.0).band
    for each in (band.at(norm_bound=3.0), same):
        assert_close(each.bounds(X), band.bounds(X))


@pytest.mark.filterwarnings("ignore:A not p.d.")  # of BoTorch's samples
@pytest.mark.parametrize("pending", [None, PENDING[1:]])
@pytest.mark.parametrize("weight", [2.0, -2.0])
def test_a_turn_of_the_improvement_is_qlognei_of_one_point(weight, pending):
    r"""BoTorch's own, with the same numbers, on the same points."""
    acqf = exact(turns=("improvement",), X_pending=pending, **weighted(weight))
    ours, model = acqf._improvement, PROBLEM.model
    if pending is not None:  # which is seen at its mean, as the variances are
        mean = model.posterior(pending).mean
        noise = PROBLEM.model.likelihood.noise.detach().expand(1, 1)
        model = model.condition_on_observations(pending, mean, noise=noise)
    seed = acqf.band.data.num_observations + len(ours.inputs)
    sampler = SobolQMCNormalSampler(ours.numbers.shape[:1], seed=seed)
    objective = LinearMCObjective(torch.tensor([weight / 2.0], dtype=torch.float64))
    theirs = qLogNoisyExpectedImprovement(
        model,
        ours.inputs,  # the model transforms no inputs
        sampler,
        objective,
        prune_baseline=False,
        cache_root=False,
        tau_relu=1e-6 * acqf.band.data.prior_std,
    )
    points = uniform(60, 2, seed=3)
    with torch.no_grad():
        expected = torch.cat([theirs(x) for x in points.reshape(-1, 1, 1, 2)]) + log(2.0)
    assert_close(at(acqf, points), expected, rtol=1e-4, atol=1e-4)  # jitter
    assert torch.equal(acqf.majorant(points[:, None]), at(acqf, points))


@pytest.mark.parametrize("maximize", [True, False])
def test_a_turn_of_the_improvement_is_that_by_the_joint_posterior(maximize):
    r"""Against draws of all values, up to what 128 samples differ by."""
    acqf = exact(turns=("improvement",), maximize=maximize, **weighted(-2.0))
    sign, points = (-2.0 if maximize else 2.0), uniform(60, 2, seed=3)
    with torch.no_grad():
        every = torch.cat([points.unsqueeze(1), PROBLEM.X.expand(60, 8, 2)], dim=1)
        draws = PROBLEM.model.posterior(every).sample(torch.Size([20_000])) * sign
        gains = draws[..., 0, 0] - draws[..., 1:, 0].amax(-1)
        expected, found = gains.clamp_min(0.0).mean(0), at(acqf, points).exp()
    likely = expected > 0.2 * expected.max()
    assert int(likely.sum()) >= 10
    assert_close(found[likely], expected[likely], rtol=0.3, atol=0.0)


def test_a_turn_of_the_improvement_leaves_chosen_points():
    plain = exact(turns=("improvement",))
    acqf = exact(turns=("improvement",), X_pending=PENDING[:1])
    assert float(at(plain, PROBLEM.X).max()) < float(at(plain).max()) - 1.0
    # Nothing is gained from knowing that a point is tried.
    assert float(at(acqf, PENDING[:1])) < float(at(plain, PENDING[:1])) - 1.0
    # The numbers follow from the data, so that a search may be repeated.
    assert torch.equal(at(exact(turns=("improvement",))), at(plain))


def test_only_an_estimated_norm_brings_turns():
    assert MartingaleMixtureUCB(PROBLEM.model, norm_bound=2.0).turns == ("upper",)
    guess = MartingaleMixtureUCB(PROBLEM.model)
    assert guess.turns == ("upper", "improvement", "mean")
    for bound in (NormTracker(), guess.band.norm_bounds[0]):
        assert MartingaleMixtureUCB(PROBLEM.model, norm_bound=bound).turns == guess.turns
