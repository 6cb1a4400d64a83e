r"""MetaUCB and MetaPI: formulas, range of validity, BoTorch's plumbing."""

import math

import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.optim import optimize_acqf_discrete
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import MetaPI, MetaUCB
from kernelucb.confidence.assumptions import Status
from kernelucb.confidence.meta import exploration_factor
from kernelucb.models import CosineFeatures, DiscreteMetaModel, FeatureMetaModel
from oracles import meta_many
from problems import generator, make_problem

M = 15
CANDIDATES = torch.linspace(0.0, 1.0, M, dtype=torch.float64).unsqueeze(-1)
FEATURES = CosineFeatures(
    torch.tensor([[0.0, 2.0, 4.0, 6.0, 8.0]]), torch.tensor([0.0, 0.3, 1.0, 2.0, 3.0])
)


def values(count=80, seed=0):
    normal = torch.randn(count, 5, generator=generator(seed), dtype=torch.float64)
    noise = torch.randn(count, M, generator=generator(seed + 1), dtype=torch.float64)
    return 10.0 + normal @ FEATURES.double()(CANDIDATES).detach().mT + 0.1 * noise


def discrete(count=80, evaluations=2):
    model = DiscreteMetaModel(values(count), CANDIDATES)
    return evaluated(model, evaluations)


def feature(count=80, evaluations=2):
    return evaluated(FeatureMetaModel(CANDIDATES, values(count), FEATURES), evaluations)


def evaluated(model, evaluations):
    X = CANDIDATES[[3, 10, 6, 1]][:evaluations]
    return model.condition_on_observations(X, 10.0 + torch.sin(9.0 * X))


MODELS = pytest.mark.parametrize("make", [discrete, feature])
CLASSES = pytest.mark.parametrize("acqf_class", [MetaUCB, MetaPI])


class TestZeta:
    def test_is_the_papers(self):
        for count, t, delta in ((1799, 1, 0.01), (40, 12, 0.1)):
            expected = meta_many.zeta(count, t, delta)
            assert exploration_factor(count, t, delta) == pytest.approx(expected, rel=1e-14)

    @given(
        st.integers(1, 30), st.integers(0, 500), st.floats(1e-6, 0.9), st.floats(0.1, 0.99)
    )
    def test_laws(self, t, more, delta, factor):
        count = math.floor(t + 4.0 * math.log(6.0 / (factor * delta))) + 2 + more
        zeta = exploration_factor(count, t, delta)
        assert math.isfinite(zeta)
        assert zeta > math.sqrt(2.0 * math.log(3.0 / delta))
        assert exploration_factor(count + 1, t, delta) < zeta
        assert exploration_factor(count, t, factor * delta) > zeta

    @given(st.integers(1, 50), st.floats(1e-6, 0.9))
    def test_the_smallest_number_that_the_error_names_is_enough(self, t, delta):
        limit = t + 4.0 * math.log(6.0 / delta)
        with pytest.raises(ValueError, match="training functions") as caught:
            exploration_factor(math.floor(limit), t, delta)
        needed = int(str(caught.value).split("at least ")[1].split()[0])
        assert math.isfinite(exploration_factor(needed, t, delta))
        assert needed - 1 <= limit


class TestValues:
    @MODELS
    @pytest.mark.parametrize("evaluations", [0, 1, 4])
    def test_ucb(self, make, evaluations):
        model = make(evaluations=evaluations)
        acqf = MetaUCB(model, delta=0.1)
        posterior = model.posterior(CANDIDATES)
        mean, sd = posterior.mean.squeeze(-1), posterior.variance.sqrt().squeeze(-1)
        zeta = exploration_factor(80, evaluations + 1, 0.1)
        assert acqf.zeta == zeta
        lower, upper = acqf.bounds(CANDIDATES)
        assert_close(upper, mean + zeta * sd)
        assert_close(lower, mean - zeta * sd)
        assert_close(acqf(CANDIDATES.unsqueeze(1)), upper)

    @MODELS
    @pytest.mark.parametrize("target", [None, 14.0])
    def test_pi(self, make, target):
        model = make()
        acqf = MetaPI(model, target=target)
        assert acqf.target == (float(values().max()) if target is None else target)
        posterior = model.posterior(CANDIDATES)
        mean, sd = posterior.mean.squeeze(-1), posterior.variance.sqrt().squeeze(-1)
        fresh = sd > 1e-6
        value = acqf(CANDIDATES.unsqueeze(1))
        assert_close(value[fresh], ((mean - acqf.target) / sd)[fresh])
        assert bool(value.isfinite().all())
        # At the evaluated points nothing is left to learn: worst of all, best mean first.
        assert float(value[~fresh].max()) < float(value[fresh].min())
        assert torch.equal(value[~fresh].argsort(), mean[~fresh].argsort())

    def test_pi_once_the_target_is_exceeded(self):
        model = DiscreteMetaModel(values(), CANDIDATES)
        X = CANDIDATES[[2, 9]]
        model = model.condition_on_observations(X, torch.tensor([[99.0], [-50.0]]).double())
        assert MetaPI(model).target == 99.0
        assert MetaPI(model, maximize=False).target == -50.0
        value = MetaPI(model)(CANDIDATES.unsqueeze(1))
        assert int(value.argmin()) in (2, 9)  # as good as 99 is no improvement
        sure = MetaPI(model, target=50.0)(CANDIDATES.unsqueeze(1))
        assert int(sure.argmax()) == 2
        assert bool(sure.isfinite().all())

    @CLASSES
    def test_minimising_is_maximising_minus_f(self, acqf_class):
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
    def test_pending_points_are_conditioned_on(self, make):
        model, pending = make(evaluations=1), CANDIDATES[[7, 8]]
        plain, waiting = MetaUCB(model), MetaUCB(model, X_pending=pending)
        assert all(map(torch.equal, plain.bounds(CANDIDATES), waiting.bounds(CANDIDATES)))
        means = model.posterior(CANDIDATES).mean.squeeze(-1)
        fantasy = model.condition_on_observations(pending, means[[7, 8]].unsqueeze(-1))
        sd = fantasy.posterior(CANDIDATES).variance.sqrt().squeeze(-1)
        actual = waiting(CANDIDATES.unsqueeze(1))
        assert_close(actual, means + plain.zeta * sd, atol=1e-7, rtol=1e-7)
        assert float((plain(CANDIDATES.unsqueeze(1)) - actual)[[7, 8]].min()) > 0.1


class TestSearch:
    @CLASSES
    def test_gradients_are_finite_at_an_evaluation(self, acqf_class):
        X = CANDIDATES[[3]].unsqueeze(0).requires_grad_()
        acqf_class(feature())(X).sum().backward()
        assert bool(X.grad.isfinite().all())

    @CLASSES
    def test_optimize_acqf_discrete_from_nothing(self, acqf_class):
        model, truth = DiscreteMetaModel(values(), CANDIDATES), values(1, seed=50)[0]
        for _ in range(5):
            x, _ = optimize_acqf_discrete(acqf_class(model), q=1, choices=CANDIDATES)
            y = truth[(x == CANDIDATES).all(-1)].unsqueeze(-1)
            model = model.condition_on_observations(x, y)
        assert model.num_evaluations == 5
        assert float(model._evidence.sums.max()) > float(truth.quantile(0.8))


class TestAssumptions:
    def test_what_is_given_and_what_is_not(self):
        fresh = MetaUCB(discrete(evaluations=0)).assumptions
        assert fresh.certified
        assert not fresh.anytime
        later = MetaUCB(discrete(evaluations=1)).assumptions
        assert later["inputs"].status is Status.ESTIMATED
        assert "80 training functions" in str(later)

    def test_completed_values_and_trained_features(self):
        gaps = values()
        gaps[::7, ::5] = torch.nan
        completed = MetaUCB(DiscreteMetaModel(gaps, CANDIDATES)).assumptions
        assert completed["values"].status is Status.ESTIMATED
        trained = FeatureMetaModel(CANDIDATES, values(), num_features=4, progress=False)
        assert MetaUCB(trained).assumptions["features"].status is Status.ESTIMATED


def test_too_few_training_functions():
    model = DiscreteMetaModel(values(count=18), CANDIDATES)
    with pytest.raises(ValueError, match=r"Evaluation 1 .* at least 21 .* there are 18"):
        MetaUCB(model, delta=0.05)
    assert bool(MetaPI(model)(CANDIDATES.unsqueeze(1)).isfinite().all())


@CLASSES
def test_refused(acqf_class):
    construct = get_acqf_input_constructor(acqf_class)
    acqf = acqf_class(**construct(model=discrete(), X_pending=None, maximize=False))
    assert not acqf.maximize
    with pytest.raises(UnsupportedError, match="does not take `constraints`"):
        construct(model=discrete(), constraints=[1])
    with pytest.raises(BotorchTensorDimensionError, match="b x 1 x d"):
        acqf(CANDIDATES[:2])
    with pytest.raises(UnsupportedError, match="has no estimated prior"):
        acqf_class(make_problem(n=4).model)
    for name, value in ((MetaUCB, {"delta": 1.0}), (MetaPI, {"target": math.nan})):
        with pytest.raises(ValueError, match=r"delta must lie|target must be"):
            name(discrete(), **value)
