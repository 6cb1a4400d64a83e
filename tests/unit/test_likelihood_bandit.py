r"""A bandit on successes or counts: the numbers of the stateless bound, in every round."""

import copy
import pickle
import threading
import warnings

import pytest
import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from gpytorch.kernels import RBFKernel
from gpytorch.means import ConstantMean
from torch.testing import assert_close

from interruptions import check_atomic
from kernelucb import LikelihoodBandit, LikelihoodUCB
from kernelucb._numerics.estimates import EstimatedNumber
from kernelucb._numerics.states import sealed
from kernelucb.bandit import likelihood_bandit
from kernelucb.exceptions import InconsistentConfidenceSetWarning, StateError
from problems import RKHSFunction, float64, frozen_kernel, generator, uniform
from tolerances import REARRANGED

KERNEL, NORM = frozen_kernel("matern52", 0.4), 3.0
ARMS = uniform(12, 2, 3)
LATENT = RKHSFunction.random(KERNEL, NORM, 2, 7)(ARMS)
AMOUNTS = {
    "bernoulli": {},
    "binomial": {"num_trials": 4.0},
    "poisson": {"exposure": 2.5},
}


def mean(value=0.5):
    module = ConstantMean().double()
    module.constant = float64(value)
    return module.requires_grad_(False)


def make(kind="bernoulli", **options):
    return LikelihoodBandit(KERNEL, **{"norm_bound": NORM, "likelihood": kind} | options)


def drawn(kind, index, seed):
    r"""An outcome of each arm in ``index``."""
    random = generator(seed)
    if kind == "poisson":
        return torch.poisson(2.5 * LATENT[index].exp(), random)
    trials = 1 if kind == "bernoulli" else 4
    draws = torch.rand(len(index), trials, dtype=torch.float64, generator=random)
    return (draws < torch.sigmoid(LATENT[index]).unsqueeze(-1)).sum(-1).double()


def played(kind="bernoulli", n=15, **options):
    r"""A bandit after ``n`` outcomes of arms that come back, and these."""
    bandit = make(kind, **options)
    index = torch.randint(6, (n,), generator=generator(n))
    outcomes = drawn(kind, index, 5)
    bandit.observe(ARMS[index], outcomes, **AMOUNTS[kind])
    return bandit, ARMS[index], outcomes


def same(ours, theirs, tolerance=0.0):
    for left, right in zip(ours, theirs, strict=True):
        assert_close(left, right, rtol=0.0, atol=tolerance)


class TestTheBounds:
    @pytest.mark.parametrize("kind", AMOUNTS)
    @pytest.mark.parametrize("n", [1, 15])
    def test_those_of_the_stateless_bound(self, kind, n):
        options = {"delta": 0.1, "covariance_scale": [0.5, 2.0]}
        bandit, X, Y = played(kind, n, **options, mean_module=mean())
        options |= {"likelihood": kind, "norm_bound": NORM, "mean": mean()}
        acqf = LikelihoodUCB(X, Y, KERNEL, **options, **AMOUNTS[kind])
        same(bandit.bounds(ARMS), acqf.bounds(ARMS), REARRANGED)
        same(bandit.latent_bounds(ARMS), acqf.latent_bounds(ARMS), REARRANGED)
        assert bandit.select(ARMS) == int(acqf(ARMS.unsqueeze(1)).argmax())
        assert str(bandit.assumptions) == str(acqf.assumptions)
        assert bandit.assumptions.certified
        assert bandit.num_observations == n
        assert bandit.num_distinct == len(torch.unique(X, dim=0)) < max(n, 2)

    @pytest.mark.parametrize("kind", AMOUNTS)
    def test_one_at_a_time_or_together_in_any_order(self, kind):
        together, X, Y = played(kind)
        apart = make(kind)
        for at in torch.randperm(len(X), generator=generator(0)).tolist():
            apart.observe(X[at], float(Y[at]), **AMOUNTS[kind])
        # The order of the arms rounds differently where the search for the evidence stops.
        same(apart.bounds(ARMS), together.bounds(ARMS), 1e-5)

    def test_of_the_ball_before_any_outcome(self):
        bandit = make("poisson", mean_module=mean())
        lower, upper = bandit.latent_bounds(ARMS)
        reach = torch.full((12,), NORM, dtype=torch.float64)
        same((lower, upper), (0.5 - reach, 0.5 + reach), REARRANGED)
        same(bandit.bounds(ARMS), (lower.exp(), upper.exp()), REARRANGED)
        assert bandit.select(ARMS) == 0
        assert bandit.assumptions.certified
        told = played("poisson", mean_module=mean())[0].assumptions
        assert str(bandit.assumptions) == str(told)

    def test_nothing_is_solved_until_it_is_asked_for_and_then_once(self, monkeypatch):
        solved, problem = [], likelihood_bandit.likelihood_set

        def counted(*arguments, **options):
            solved.append(arguments)
            return problem(*arguments, **options)

        monkeypatch.setattr(likelihood_bandit, "likelihood_set", counted)
        bandit = played()[0]
        bandit.observe(ARMS[0], 1.0)
        assert not solved
        for look in (bandit.bounds, bandit.latent_bounds, bandit.select):
            look(ARMS)
        assert len(solved) == 1
        assert solved[0][0].train_inputs.shape == (bandit.num_distinct, 2)

    def test_in_other_dtypes(self):
        bandit, single = played()[0], ARMS.float()
        lower, _ = bandit.bounds(single)
        assert lower.dtype == torch.float64
        same(bandit.bounds(single), bandit.bounds(single.double()))
        assert make().bounds(ARMS[:0])[0].shape == (0,)

    def test_what_was_estimated_is_said(self):
        bandit = LikelihoodBandit(RBFKernel(), norm_bound=NORM)
        assert bandit.assumptions.estimated == ("kernel",)
        bandit.observe(ARMS[0], 1.0)
        assert bandit.assumptions.estimated == ("kernel",)
        assert make(norm_bound=EstimatedNumber(3.0)).assumptions.estimated == ("norm",)

    def test_a_contradiction_is_said_once(self):
        bandit = make("poisson", norm_bound=0.05)
        bandit.observe(ARMS, 500.0 * LATENT.exp().round(), exposure=100.0)
        with pytest.warns(InconsistentConfidenceSetWarning, match="least consistent norm"):
            bandit.select(ARMS)
        bandit.observe(ARMS[0], 3.0, exposure=100.0)
        assert bandit.assumptions.violated  # without another warning
        resumed = make("poisson", norm_bound=0.05)
        resumed.load_state_dict(bandit.state_dict())
        same(resumed.bounds(ARMS), bandit.bounds(ARMS))


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("options", "error"),
        [
            ({"norm_bound": 0.0}, ValueError),
            ({"norm_bound": None}, ValueError),
            ({"delta": 1.0}, ValueError),
            ({"likelihood": "normal"}, ValueError),
            ({"covariance_scale": -1.0}, ValueError),
        ],
    )
    def test_arguments(self, options, error):
        with pytest.raises(error, match=next(iter(options))):
            make(**options)

    @pytest.mark.parametrize(
        ("arguments", "amounts", "error", "message"),
        [
            ((ARMS[0], 0.5), {}, InputDataError, "0 or 1"),
            ((ARMS[0], float("nan")), {}, InputDataError, "y"),
            ((ARMS[0] * torch.nan, 1.0), {}, InputDataError, "arms"),
            ((ARMS[:2], 1.0), {}, BotorchTensorDimensionError, "1 and 2"),
            ((ARMS[:0], torch.zeros(0)), {}, BotorchTensorDimensionError, "0 and 0"),
            ((ARMS.unsqueeze(0), 1.0), {}, BotorchTensorDimensionError, "`a x d`"),
            ((ARMS[0, :1], 1.0), {}, BotorchTensorDimensionError, "1 columns"),
            ((ARMS[0], 1.0), {"num_trials": 3.0}, ValueError, "num_trials"),
            ((ARMS[0], 1.0), {"exposure": 3.0}, ValueError, "exposure"),
        ],
    )
    def test_outcomes_which_change_nothing(self, arguments, amounts, error, message):
        bandit = played()[0]
        before = bandit.state_dict()
        with pytest.raises(error, match=message):
            bandit.observe(*arguments, **amounts)
        assert bandit.state_dict()["checksum"] == before["checksum"]

    def test_arms(self):
        bandit = played()[0]
        with pytest.raises(InputDataError, match="no arms"):
            bandit.select(ARMS[:0])
        with pytest.raises(BotorchTensorDimensionError, match="1 columns"):
            bandit.bounds(ARMS[:, :1])
        kernel = RBFKernel(ard_num_dims=3).requires_grad_(False)
        with pytest.raises(UnsupportedError):
            LikelihoodBandit(kernel, norm_bound=NORM).bounds(ARMS)


class TestSavedStates:
    @pytest.mark.parametrize("kind", AMOUNTS)
    @pytest.mark.parametrize("n", [0, 15])
    def test_go_on_as_if_nothing_had_happened(self, kind, n, tmp_path):
        bandit = played(kind, n)[0] if n else make(kind)
        torch.save(bandit.state_dict(), tmp_path / "state.pt")
        resumed = make(kind)
        resumed.load_state_dict(torch.load(tmp_path / "state.pt"))
        for each in (bandit, resumed, *map(copy.deepcopy, [bandit, resumed])):
            each.observe(ARMS[:2], torch.ones(2), **AMOUNTS[kind])
        same(resumed.bounds(ARMS), bandit.bounds(ARMS))
        assert resumed.state_dict()["checksum"] == bandit.state_dict()["checksum"]
        same(pickle.loads(pickle.dumps(bandit)).bounds(ARMS), bandit.bounds(ARMS))

    @pytest.mark.parametrize(
        "other",
        [
            {"norm_bound": 2.0},
            {"kind": "binomial"},
            {"delta": 0.1},
            {"covariance_scale": 1.0},
            {"mean_module": mean()},
        ],
    )
    def test_of_another_bandit_are_refused(self, other):
        with pytest.raises(StateError):
            make(**other).load_state_dict(played()[0].state_dict())

    @pytest.mark.parametrize(
        "change",
        [
            {"counts": torch.full((6,), 99.0, dtype=torch.float64)},
            {"counts": torch.full((6,), 0.5, dtype=torch.float64)},
            {"counts": torch.zeros(5, dtype=torch.float64)},
            {"amounts": torch.zeros(6, dtype=torch.float64)},
            {"amounts": torch.ones(6, dtype=torch.float64)},
            {"num_observations": 3},
            {"num_observations": 99},
            {"inputs": ARMS[6:]},
            {"inputs": ARMS[:6, :1]},
            {"inputs": ARMS[:0], "counts": ARMS[:0, 0], "amounts": ARMS[:0, 0]},
            {"prior": torch.zeros(2, 1, dtype=torch.float64)},
            {"warned": 1},
        ],
    )
    def test_that_were_changed_are_refused(self, change):
        bandit, subject = played()[0], played(n=7)[0]
        assert bandit.num_distinct == 6
        state = {**bandit.state_dict(), **change}
        del state["checksum"], state["version"]
        before = subject.state_dict()["checksum"]
        with pytest.raises(StateError):
            subject.load_state_dict(sealed(state))
        assert subject.state_dict()["checksum"] == before


class TestCallsAreWhole:
    @pytest.mark.parametrize("name", ["observe", "select", "load"])
    def test_an_interruption_leaves_the_state_before_or_after(self, name):
        bandit = played("poisson", 3, norm_bound=0.3)[0]
        state = played("poisson", 4, norm_bound=0.3)[0].state_dict()
        call = {
            "observe": lambda subject: subject.observe(ARMS[0], 30.0, exposure=2.0),
            "select": lambda subject: subject.select(ARMS),
            "load": lambda subject: subject.load_state_dict(state),
        }[name]

        def view(subject):
            return subject.bounds(ARMS[:4]), subject.num_observations

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
            stride = 2003 if name == "select" else 23
            check_atomic(lambda: copy.deepcopy(bandit), call, view, stride=stride)

    def test_two_threads_at_a_time_are_refused(self):
        bandit, errors = played()[0], []

        def overlap():
            try:
                bandit.select(ARMS)
            except RuntimeError as error:
                errors.append(str(error))

        with bandit._exclusive:  # as within a call
            thread = threading.Thread(target=overlap)
            thread.start()
            thread.join()
        assert len(errors) == 1
        assert "Another thread is using this object" in errors[0]
