r"""MetaUCB and MetaPI: formulas and range of validity."""

import math

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import MetaPI, MetaUCB
from kernelucb.acquisition.meta import exploration_factor
from kernelucb.confidence.assumptions import Status
from kernelucb.models import CosineFeatures, DiscreteMetaModel, FeatureMetaModel
from oracles import meta_many
from problems import generator

M = 15
CANDIDATES = torch.linspace(0.0, 1.0, M, dtype=torch.float64).unsqueeze(-1)
FEATURES = CosineFeatures(
    torch.tensor([[0.0, 2.0, 4.0, 6.0, 8.0]]), torch.tensor([0.0, 0.3, 1.0, 2.0, 3.0])
)


def values(count=80, seed=0):
    normal = torch.randn(count, 5, generator=generator(seed), dtype=torch.float64)
    noise = torch.randn(count, M, generator=generator(seed + 1), dtype=torch.float64)
    return 10.0 + normal @ FEATURES.double()(CANDIDATES).detach().mT + 0.1 * noise


def discrete(evaluations=2):
    return evaluated(DiscreteMetaModel(values(), CANDIDATES), evaluations)


def feature(evaluations=2):
    return evaluated(FeatureMetaModel(CANDIDATES, values(), FEATURES), evaluations)


def evaluated(model, evaluations):
    X = CANDIDATES[[3, 10, 6, 1]][:evaluations]
    return model.condition_on_observations(X, 10.0 + torch.sin(9.0 * X))


def moments(model):
    posterior = model.posterior(CANDIDATES)
    return posterior.mean.squeeze(-1), posterior.variance.sqrt().squeeze(-1)


MODELS = pytest.mark.parametrize("make", [discrete, feature])
CLASSES = pytest.mark.parametrize("acqf_class", [MetaUCB, MetaPI])


def test_zeta_is_the_papers():
    for count, t, delta in ((1799, 1, 0.01), (40, 12, 0.1)):
        expected = meta_many.zeta(count, t, delta)
        assert exploration_factor(count, t, delta) == pytest.approx(expected, rel=1e-14)


@given(st.integers(1, 30), st.integers(0, 500), st.floats(1e-6, 0.9), st.floats(0.1, 0.99))
def test_laws_of_zeta(t, more, delta, factor):
    count = math.floor(t + 4.0 * math.log(6.0 / (factor * delta))) + 2 + more
    zeta = exploration_factor(count, t, delta)
    assert math.sqrt(2.0 * math.log(3.0 / delta)) < zeta < math.inf
    assert exploration_factor(count + 1, t, delta) < zeta
    assert exploration_factor(count, t, factor * delta) > zeta


@given(st.integers(1, 50), st.floats(1e-6, 0.9))
def test_the_smallest_number_that_the_error_names_is_enough(t, delta):
    limit = t + 4.0 * math.log(6.0 / delta)
    with pytest.raises(ValueError, match="training functions") as caught:
        exploration_factor(math.floor(limit), t, delta)
    needed = int(str(caught.value).split("at least ")[1].split()[0])
    assert math.isfinite(exploration_factor(needed, t, delta))
    assert needed - 1 <= limit


@MODELS
@pytest.mark.parametrize("evaluations", [0, 1, 4])
def test_ucb(make, evaluations):
    model = make(evaluations)
    acqf, (mean, sd) = MetaUCB(model, delta=0.1), moments(model)
    zeta = exploration_factor(80, evaluations + 1, 0.1)
    assert acqf.band.constants["zeta"] == zeta
    lower, upper = acqf.bounds(CANDIDATES)
    assert_close((lower, upper), (mean - zeta * sd, mean + zeta * sd))
    assert_close(acqf(CANDIDATES.unsqueeze(1)), upper)


@MODELS
@pytest.mark.parametrize("target", [None, 14.0])
def test_pi(make, target):
    model = make()
    acqf, (mean, sd) = MetaPI(model, target=target), moments(model)
    assert acqf.target == (float(values().max()) if target is None else target)
    value, fresh = acqf(CANDIDATES.unsqueeze(1)), sd > 1e-6
    assert_close(value[fresh], ((mean - acqf.target) / sd)[fresh])
    assert bool(value.isfinite().all())
    # At the evaluated points nothing is left to learn: worst of all, best mean first.
    assert float(value[~fresh].max()) < float(value[fresh].min())
    assert torch.equal(value[~fresh].argsort(), mean[~fresh].argsort())


def test_pi_once_the_target_is_exceeded():
    model = DiscreteMetaModel(values(), CANDIDATES)
    y = torch.tensor([[99.0], [-50.0]]).double()
    model = model.condition_on_observations(CANDIDATES[[2, 9]], y)
    assert (MetaPI(model).target, MetaPI(model, maximize=False).target) == (99.0, -50.0)
    # As good as 99 is no improvement.
    assert int(MetaPI(model)(CANDIDATES.unsqueeze(1)).argmin()) in (2, 9)
    sure = MetaPI(model, target=50.0)(CANDIDATES.unsqueeze(1))
    assert int(sure.argmax()) == 2
    assert bool(sure.isfinite().all())


@CLASSES
def test_minimising_is_maximising_minus_f(acqf_class):
    model, flipped = (DiscreteMetaModel(s * values(), CANDIDATES) for s in (1.0, -1.0))
    X = CANDIDATES.unsqueeze(1)
    transform = ScalarizedPosteriorTransform(torch.tensor([-2.0]).double(), 3.0)
    expected = acqf_class(flipped)(X)
    assert_close(acqf_class(model, maximize=False)(X), expected)
    scaled = acqf_class(model, posterior_transform=transform)(X)
    if acqf_class is MetaUCB:
        scaled = (scaled - 3.0) / 2.0
    assert_close(scaled, expected)


@MODELS
def test_pending_points_are_conditioned_on(make):
    model, pending = make(evaluations=1), CANDIDATES[[7, 8]]
    plain, waiting = MetaUCB(model), MetaUCB(model, X_pending=pending)
    assert all(map(torch.equal, plain.bounds(CANDIDATES), waiting.bounds(CANDIDATES)))
    means = model.posterior(CANDIDATES).mean.squeeze(-1)
    fantasy = model.condition_on_observations(pending, means[[7, 8]].unsqueeze(-1))
    sd = fantasy.posterior(CANDIDATES).variance.sqrt().squeeze(-1)
    actual = waiting(CANDIDATES.unsqueeze(1))
    assert_close(actual, means + plain.band.constants["zeta"] * sd, atol=1e-7, rtol=1e-7)
    assert float((plain(CANDIDATES.unsqueeze(1)) - actual)[[7, 8]].min()) > 0.1


@CLASSES
def test_gradients_are_finite_at_an_evaluation(acqf_class):
    X = CANDIDATES[[3]].unsqueeze(0).requires_grad_()
    acqf_class(feature())(X).sum().backward()
    assert bool(X.grad.isfinite().all())


@CLASSES
def test_a_search_finds_good_candidates(acqf_class):
    model, truth, found = discrete(0), values(1, seed=50)[0], []
    for _ in range(5):
        index = int(acqf_class(model)(CANDIDATES.unsqueeze(1)).argmax())
        found.append(truth[index])
        y = truth[index].reshape(1, 1)
        model = model.condition_on_observations(CANDIDATES[[index]], y)
    assert model.num_evaluations == 5
    assert float(max(found)) > float(truth.quantile(0.8))


def test_what_is_given_and_what_is_not():
    fresh, later = (MetaUCB(discrete(n)).assumptions for n in (0, 1))
    assert fresh.certified
    assert not fresh.anytime
    assert later["inputs"].status is Status.ESTIMATED
    assert "80 training functions" in str(later)
    gaps = values()
    gaps[::7, ::5] = torch.nan
    completed = MetaUCB(DiscreteMetaModel(gaps, CANDIDATES)).assumptions
    assert completed["values"].status is Status.ESTIMATED
    trained = FeatureMetaModel(CANDIDATES, values(), num_features=4, progress=False)
    assert MetaUCB(trained).assumptions["features"].status is Status.ESTIMATED


def test_improvement_needs_fewer_training_functions():
    model = DiscreteMetaModel(values(count=18), CANDIDATES)
    assert bool(MetaPI(model)(CANDIDATES.unsqueeze(1)).isfinite().all())
