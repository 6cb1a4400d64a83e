r"""BKB: the model's formulas, draws and states; the widths, their proofs and claims."""

import math
from dataclasses import replace

import pytest
import torch
from botorch.models.transforms import Normalize, Standardize
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import BKBUCB, KernelRegression, NormTracker
from kernelucb.confidence.assumptions import Status
from kernelucb.confidence.ridge import abbasi_yadkori_width
from kernelucb.data.nystrom import draw, inclusion_probabilities
from kernelucb.models import BKBModel
from kernelucb.papers import bkb
from kernelucb.papers.bkb import Budget, certified_width
from oracles import bkb_width
from oracles.sketch import dtc
from problems import (
    KERNELS,
    RKHSFunction,
    constant_mean,
    float64,
    frozen_kernel,
    generator,
    normal,
    polynomial_kernels,
    uniform,
)
from tolerances import POSTERIOR, REARRANGED, SKETCH

LAM, KERNEL = 0.04, frozen_kernel("matern32")


def make_data(n=40, seed=0):
    X = uniform(n, 2, seed)
    X = torch.cat([X, X[: n // 4], X[:2]])  # some inputs two or three times
    return X, torch.sin(4.0 * X.sum(-1, keepdim=True)) + 0.2 * normal(len(X), 9)[:, None]


def make_model(n=40, seed=0, qbar=0.6, kernel=KERNEL, alpha=LAM, **options):
    return BKBModel(*make_data(n, seed), kernel, alpha, qbar, seed=seed, **options)


def dense(kernel):
    return lambda left, right: kernel(left, right).to_dense()


def marginals(model, X):
    posterior = model.posterior(X.unsqueeze(-2))
    return posterior.mean.flatten(), posterior.variance.flatten()


def one(step):
    r"""An observation."""
    return uniform(1, 2, 100 + step), normal(1, step).unsqueeze(-1)


def assert_formulas(model, X, Y, kernel=KERNEL):
    r"""The posterior of the deterministic training conditional at its inducing points."""
    data = model.inducing_points, X, Y.squeeze(-1)
    expected = dtc(dense(kernel), *data, LAM, QUERIES)
    assert_close(marginals(model, QUERIES), expected, rtol=0, atol=SKETCH)


QUERIES = torch.cat([uniform(20, 2, 77), make_data()[0][:3]])


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("seed", range(3))
def test_formulas(name, seed):
    kernel, (X, Y) = frozen_kernel(name), make_data(seed=seed)
    model = make_model(seed=seed, kernel=kernel)
    assert 1 < len(model.inducing_points) < 40
    assert_formulas(model, X, Y, kernel)


def test_joint_posterior_and_batches():
    model, X = make_model(), uniform(24, 2, 5).reshape(2, 3, 4, 2)
    posterior = model.posterior(X)
    joint = model.posterior(X.reshape(-1, 2)).distribution.covariance_matrix
    blocks = joint.unflatten(1, (6, 4)).unflatten(0, (6, 4)).diagonal(dim1=0, dim2=2)
    blocks = blocks.movedim(-1, 0).unflatten(0, (2, 3))
    assert_close(posterior.distribution.covariance_matrix, blocks)
    assert posterior.rsample(torch.Size([5])).shape == (5, 2, 3, 4, 1)
    single = model.posterior(X.float().unsqueeze(-2), observation_noise=True)
    assert single.variance.dtype == torch.float32
    assert_close(single.variance.squeeze(-1).double(), posterior.variance + LAM)


@pytest.mark.parametrize(
    ("kernel", "rank"), [(KERNEL, 40), (polynomial_kernels()["linear"], 2)]
)
def test_all_points_inducing_is_the_exact_posterior(kernel, rank):
    r"""A linear kernel in two dimensions has rank two, however many points."""
    model = make_model(qbar=1e6, kernel=kernel)
    exact = KernelRegression(*make_data(), kernel, LAM**0.5)
    assert model.state.features.shape[1] == rank
    expected = exact.mean(QUERIES), exact.variance(QUERIES)
    assert_close(marginals(model, QUERIES), expected, rtol=0, atol=POSTERIOR)


def test_transforms_and_a_prior_mean():
    r"""The mean is in the units that the transform makes."""
    X, Y = make_data()
    outcomes, inputs = (
        100.0 + 7.0 * Y,
        Normalize(2, bounds=float64([[10.0] * 2, [15.0] * 2])),
    )
    options = {"mean_module": constant_mean(3.0), "input_transform": inputs}
    options["outcome_transform"] = Standardize(1)
    model = BKBModel(10.0 + 5.0 * X, outcomes, KERNEL, LAM, 0.6, **options)
    scale, shift = outcomes.std(), outcomes.mean()
    plain = BKBModel(X, (outcomes - shift) / scale - 3.0, KERNEL, LAM, 0.6)
    assert model.regression().outcome_scale == pytest.approx(float(scale))
    mean, variance = marginals(plain, QUERIES)
    expected = shift + scale * (3.0 + mean), scale**2 * variance
    assert_close(marginals(model, 10.0 + 5.0 * QUERIES), expected, rtol=1e-9, atol=0)


def test_conditioning_makes_the_inputs_inducing_points():
    model, (X, Y) = make_model(), make_data()
    more, outcomes = torch.cat([uniform(5, 2, 8), X[:3]]), normal(8, 3).unsqueeze(-1)
    before = marginals(model, QUERIES)
    once = model.condition_on_observations(more, outcomes)
    steps = model
    for x, y in zip(more, outcomes, strict=True):
        steps = steps.condition_on_observations(x[None], y[None])
    assert_close(marginals(steps, QUERIES), marginals(once, QUERIES))
    assert_close(marginals(model, QUERIES), before, rtol=0, atol=0)
    expected = torch.cat([model.inducing_points, more]).unique(dim=0)
    assert torch.equal(once.inducing_points.unique(dim=0), expected)
    assert_formulas(once, torch.cat([X, more]), torch.cat([Y, outcomes]))


def test_update_draws_again_and_agrees_with_the_formulas():
    model, data = make_model(), [make_data()]
    assert (len(model.state.counts), model.num_observations) == (40, 52)  # repeats
    for step in range(30):
        data.append(one(step))
        assert model.observe(*data[-1]) is model
    assert_formulas(model, *map(torch.cat, zip(*data, strict=True)))


def test_inducing_points_are_drawn_with_their_probabilities():
    r"""Frequencies over 400 draws against ``min(1, qbar count var / lam)``."""
    data = make_model(n=12).state
    expected = inclusion_probabilities(data.variance, data.counts, LAM, 0.6)
    drawn, state = torch.zeros(12), data.generator_state
    for _ in range(400):
        index, state = draw(expected, state)
        drawn[index] += 1.0
    # five standard deviations of a binomial share: 12 shares, false alarm 7e-6
    spread = 5.0 * (expected * (1 - expected) / 400).sqrt()
    assert bool((expected < 1.0).any())
    assert bool(((drawn / 400 - expected).abs() <= spread + 1e-12).all())


def test_no_step_draws_all_of_the_data_with_prior_variances():
    X = uniform(3000, 1, 0)
    model = BKBModel(X, torch.sin(9.0 * X), frozen_kernel("rbf"), LAM, 2.0)
    assert len(model.inducing_points) < 60
    mean, _ = marginals(model, X[:50])
    assert_close(mean, torch.sin(9.0 * X[:50]).flatten(), rtol=0, atol=0.02)


def test_never_without_inducing_points_and_zeros_of_either_sign():
    X, Y = float64([[0.0], [-0.0]]), float64([[1.0], [3.0]])
    model = BKBModel(X, Y, frozen_kernel("rbf"), LAM, qbar=1e-9)
    expected = float64([4.0 / (2.0 + LAM)]), float64([LAM / (2.0 + LAM)])
    assert_close(marginals(model, X[:1]), expected)
    for _ in range(5):
        assert len(model.observe(X[:1], Y[:1]).inducing_points) == 1
    scaled = BKBModel(X, Y[[0, 0]], KERNEL, LAM, outcome_transform=Standardize(1))
    assert_close(marginals(scaled, X)[0], Y[[0, 0], 0])  # equal outcomes


def test_a_loaded_model_goes_on_alike(tmp_path):
    r"""Within another module, and apart from the state that was loaded."""

    def saved_model(n, seed):
        scaled = {"input_transform": Normalize(2), "outcome_transform": Standardize(1)}
        return make_model(n, seed, **scaled)

    model, again = saved_model(12, 0), saved_model(5, 3)
    torch.save(torch.nn.ModuleList([model]).state_dict(), tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    torch.nn.ModuleList([again]).load_state_dict(state)
    next(value for name, value in state.items() if "extra" in name)["inputs"].zero_()
    assert_close(marginals(again, QUERIES), marginals(model, QUERIES))
    for step in range(5):
        drawn = [each.observe(*one(step)).inducing_points for each in (model, again)]
        assert torch.equal(*drawn)
    again.observe(make_data(12)[0][:1], one(0)[1])  # still known as a repeat
    assert len(again.state.counts) == len(model.state.counts)


def bound(model=None, **options):
    model = make_model(n=30, qbar=1.0) if model is None else model
    return BKBUCB(model, **{"norm_bound": 50.0, "noise_std": 0.3, **options})


def test_theorem_2_as_printed():
    r"""With kappa^2 t = 300, where its logarithm is the larger one."""
    budget = Budget(300, 12.0, 300.0, 1.0, math.nan, math.nan)
    gain = 3.0 * math.log(300.0) * 12.0 + math.log(10.0)
    beta = 2.0 * 0.3 * math.sqrt(gain) + (1.0 + math.sqrt(2.0)) * 2.0
    assert bkb.theorem2_width(budget, 2.0, 0.3, 0.1, 0.5) == pytest.approx(beta, rel=1e-12)


DELTAS = st.floats(1e-3, 0.9)


@given(st.integers(0, 10**6), st.integers(1, 40), st.floats(1e-6, 10.0), DELTAS, DELTAS)
def test_theorem_2_covers_the_exact_radius(seed, n, lam, delta, epsilon):
    r"""All points inducing, so variances are exact: the proof's inequality itself.

    ``ln det(I + K/lam) + 2 ln(2/delta)`` under the root, half of delta for the noise.
    """
    X = uniform(n, 1, seed)
    state = KernelRegression(X, normal(n, seed), frozen_kernel("rbf"), lam**0.5)
    total, log_det = float(state.variance(X).sum()) / lam, float(state.log_det(1.0))
    budget = Budget(n, total, float(n), lam, log_det, 0.0)
    width = bkb.theorem2_width(budget, 1.0, 0.3, delta, epsilon)
    exact = abbasi_yadkori_width(log_det, 0.0, delta / 2.0, 1.0)
    assert width >= 2.0 + 0.3 / lam**0.5 * exact
    assert certified_width(budget, 1.0, 0.3, delta) < width


@given(st.integers(1, 10**6), DELTAS, st.floats(0.05, 0.9))
def test_covered_rounds_invert_the_theorems_qbar(horizon, delta, epsilon):
    qbar = bkb.required_qbar(horizon, delta, epsilon)
    assert bkb.covered_rounds(qbar, delta, epsilon) == horizon
    assert bkb.covered_rounds(0.999 * qbar, delta, epsilon) < horizon
    log = 6.0 * (1.0 + epsilon) / (1.0 - epsilon) * math.log(4.0 * horizon / delta)
    assert qbar == pytest.approx(log / epsilon**2)


def test_what_is_asked_of_the_inducing_points():
    few = bound(radius="theorem2").assumptions
    assert few["inducing points"].status is Status.VIOLATED
    assert f"asks for {bkb.required_qbar(39, 0.05):.6g}" in str(few)
    for radius in ("certified", "theorem2", "practical"):
        contradicted = bound(radius=radius, norm_bound=1e-3).assumptions
        assert contradicted["norm"].status is Status.VIOLATED
    for qbar in (1e-3, 1e9):
        certified = bound(make_model(qbar=qbar)).assumptions
        assert certified.certified
        assert certified.anytime
        assert "qbar" not in str(certified)


def test_standardize_estimates_the_mean_and_none_the_norm():
    model = make_model(qbar=1e6, outcome_transform=Standardize(1))
    assert bound(model).assumptions.estimated == ("mean",)
    assert bound(norm_bound=None).assumptions.estimated == ("norm",)
    noise_std = LAM**0.5 * model.regression().outcome_scale
    given, by_model = (bound(model, noise_std=s).band for s in (noise_std, None))
    assert by_model.constants == pytest.approx(given.constants)


@pytest.mark.parametrize("qbar", [0.02, 0.3, 2.0])
def test_least_norm_of_a_sketch_is_never_above_the_exact_one_nor_the_norm(qbar):
    X, trackers = uniform(60, 2, 0), (NormTracker(), NormTracker())
    Y = RKHSFunction.random(KERNEL, 3.0, 2, 1)(X) + 0.1 * normal(60, 2)
    for tracker, each in zip(trackers, (qbar, 1e9), strict=True):
        BKBUCB(BKBModel(X, Y.unsqueeze(-1), KERNEL, 0.01, each), norm_bound=tracker)
    least, exact = (tracker.least_consistent_norm for tracker in trackers)
    assert 0.0 <= least <= exact * (1.0 + 1e-6)
    assert least <= 3.0


def terms(state, name):
    return frozen_kernel(name)(state.inputs).to_dense(), state.counts, state.inducing


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("lam", [0.01, 1.0])
@pytest.mark.parametrize("qbar", [1e-3, 0.5, 1e9])
def test_certified_width_against_dense_matrices_in_feature_space(name, lam, qbar):
    state = make_model(30, 0, qbar, frozen_kernel(name), lam).state
    budget = Budget.of(state)
    log_det, residual = bkb_width.terms(*terms(state, name), lam)
    assert budget.log_det == pytest.approx(log_det, rel=SKETCH)
    assert budget.residual == pytest.approx(residual, rel=SKETCH, abs=SKETCH)
    gain = log_det + 2.0 * math.log(1.0 / 0.07)
    expected = bkb_width.width(gain, residual, lam, 3.0, 0.2)
    assert certified_width(budget, 3.0, 0.2, 0.07) == pytest.approx(expected, rel=SKETCH)


@pytest.mark.parametrize("block", [2, 7, 16, 30, 64])
@pytest.mark.parametrize("name", KERNELS)
def test_residuals_in_blocks(name, block):
    r"""Between the largest eigenvalue of the residual and its trace; equal in one."""
    state = make_model(30, 0, 0.1, frozen_kernel(name)).state
    exact = bkb_width.largest_residual(*terms(state, name), LAM)
    singly, blocks = Budget.of(state), Budget.of(state, block)
    assert exact * (1.0 - SKETCH) <= blocks.residual < singly.residual
    if block >= 30:
        assert blocks.residual == pytest.approx(exact, rel=SKETCH)
    assert blocks._replace(residual=singly.residual) == singly


SIZES = st.floats(1e-3, 1e3)


@given(SIZES, SIZES, st.floats(0.0, 1e4))
def test_the_worst_share(noise, norm, residual):
    r"""The closed form against a search over the share outside the span."""
    budget = Budget(1, 1.0, 1.0, 1.0, noise**2, residual)
    width = certified_width(budget, norm, 1.0, 1.0)
    expected = bkb_width.width(noise**2, residual, 1.0, norm, 1.0)
    assert width == pytest.approx(expected, rel=SKETCH)
    assert width <= (noise + norm * math.sqrt(1.0 + residual)) * (1.0 + REARRANGED)
    assert width >= (noise + norm) * (1.0 - REARRANGED)


@pytest.mark.representatives("matern32")
@pytest.mark.parametrize("name", KERNELS)
@given(
    st.integers(0, 10**6),
    st.integers(1, 20),
    st.floats(1e-2, 10.0),
    st.floats(0.0, 3.0),
    st.booleans(),
    st.sampled_from([1, 6, 64]),
)
def test_no_function_and_no_noise_is_further(name, seed, size, lam, level, worst, block):
    r"""Any inducing points: the inequalities between the data and the certificate.

    Estimate minus function, over the deviation, below the width for this noise.
    ``noise^T K (K + lam)^-1 noise`` stands for what bounds it with probability
    ``1 - delta``. The functions are random, or as far from the estimate as any can
    be at the worst input.
    """
    X, kernel = uniform(20, 2, 0), frozen_kernel(name)
    every = torch.cat([X, uniform(15, 2, 7)])
    values, vectors = torch.linalg.eigh(kernel(every).to_dense())
    features = vectors * values.clamp_min(0.0).sqrt()
    observed, random = features[:20], generator(seed)
    index = torch.randperm(20, generator=random)[:size].sort().values
    noise = level * torch.randn(20, generator=random, dtype=torch.float64)
    model = BKBModel(X, X[:, :1], kernel, lam, 1e9)
    state = replace(model.state, inducing=index)
    # The estimate is linear in the outcomes: its weights from the state's own sketch.
    sketch, (z, left) = state.sketch, state.basis.project(every)
    weights = torch.cholesky_solve(z.mT, sketch.factor).mT @ state.features.mT
    deviation = (left + lam * sketch.quadratic(z)).sqrt()
    bias = weights @ observed - features
    theta = torch.randn(len(every), generator=random, dtype=torch.float64)
    if worst:
        far = int((bias.norm(dim=-1) / deviation).argmax())
        theta = bias[far] * torch.sign(weights[far] @ noise + 1e-300)
    error = (bias @ (2.0 * theta / theta.norm()) + weights @ noise).abs()
    gram = observed @ observed.mT
    energy = noise @ gram @ torch.linalg.solve(gram + lam * torch.eye(20), noise)
    budget = Budget.of(state, block)._replace(log_det=float(energy))
    width = certified_width(budget, 2.0, 1.0, 1.0)
    assert bool((error <= width * deviation * (1.0 + SKETCH)).all())
