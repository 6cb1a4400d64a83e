r"""Trackers over rounds: what they learnt stays, of one scale, in full or not at all."""

import copy

import pytest
import torch
from botorch.models.transforms.outcome import Log, Power, Standardize
from gpytorch.kernels import RBFKernel
from gpytorch.means import ConstantMean

from kernelucb import (
    FamilyTracker,
    Filters,
    KernelBandit,
    KernelRegression,
    NormTracker,
    StreamingNoiseTracker,
    UnknownNoise,
    lengthscale_family,
)
from kernelucb._numerics.estimates import EstimatedNumber
from kernelucb.confidence.family.data import NoisyData
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from problems import family_ucb, frozen_kernel, frozen_model, make_problem

KERNELS = lengthscale_family(RBFKernel(), 0.1, 1.6)
PROBLEM = make_problem(n=24, d=2, norm=5.0)
X, Y = PROBLEM.X, PROBLEM.Y


def data(n, outcomes=Y, noise_std=0.1):
    return KernelRegression(X[:n], outcomes[:n], PROBLEM.kernel, noise_std)


def family(n, tracker=None, model=None, kernels=KERNELS, norm_bound=5.0, **options):
    model = data(n) if model is None else model
    options = {"norm_bound": norm_bound, "tracker": tracker, **options}
    return family_ucb(model, kernels, **options)


def used(*rounds, **options):
    tracker = FamilyTracker()
    for n in rounds or (12, 24):
        family(n, tracker, **options)
    return tracker


def same_band(left, right):
    assert all(map(torch.equal, left.bounds(X), right.bounds(X)))


def test_one_round_with_a_tracker_is_one_without():
    tracker = FamilyTracker()
    assert (tracker.contradicted, tracker.num_observations) == ((), 0)
    kept, plain = family(24, tracker), family(24)
    same_band(kept, plain)
    assert kept.consistent == plain.consistent
    assert kept.least_consistent_norms == plain.least_consistent_norms
    assert str(kept.assumptions) == str(plain.assumptions)
    assert tracker.contradicted == tuple(not each for each in plain.consistent)
    assert tracker.least_consistent_norms == plain.least_consistent_norms
    assert tracker.num_observations == 24


def test_what_was_contradicted_once_is_neither_used_nor_decomposed(monkeypatch):
    # Outcomes that no kernel in the second round contradicts: it repeats zeros.
    tracker = used(24)
    left_out = sum(tracker.contradicted)
    assert 0 < left_out < len(KERNELS)
    made = []
    state = NoisyData.state

    def counted(self, *arguments):
        made.append(arguments)
        return state(self, *arguments)

    monkeypatch.setattr(NoisyData, "state", counted)
    flat = data(24, outcomes=torch.zeros_like(Y))
    assert all(family(24, model=flat).consistent)
    made.clear()
    after = family(24, tracker, model=flat)
    assert after.consistent == tuple(not each for each in tracker.contradicted)
    assert len(made) == len(KERNELS) - left_out
    chosen = [i for i, kept in enumerate(after.consistent) if kept]
    survivors = [KERNELS.covering(2)[i].kernel for i in chosen]
    bounds = [after.norm_bounds[i] for i in chosen]
    same_band(after, family(24, model=flat, kernels=survivors, norm_bound=bounds))


def test_norms_never_fall():
    tracker = used(24)
    before = tracker.least_consistent_norms
    flat = family(24, tracker, model=data(24, outcomes=torch.zeros_like(Y)))
    assert tracker.least_consistent_norms == flat.least_consistent_norms == before
    assert all(a <= b for a, b in zip(used(12).least_consistent_norms, before, strict=True))


def test_where_none_is_left_all_are_looked_at_and_the_band_is_marked():
    tracker = FamilyTracker()
    with pytest.raises(InconsistentConfidenceSetWarning, match="all 5 kernels"):
        family(24, tracker, norm_bound=0.1)
    assert all(tracker.contradicted)  # it has been updated before
    with pytest.warns(InconsistentConfidenceSetWarning):
        kept = family(24, tracker, norm_bound=0.1)
    with pytest.warns(InconsistentConfidenceSetWarning):
        plain = family(24, norm_bound=0.1)
    same_band(kept, plain)
    flat = data(24, outcomes=torch.zeros_like(Y))
    with pytest.warns(InconsistentConfidenceSetWarning, match="all 5 kernels"):
        later = family(24, tracker, model=flat, norm_bound=0.1)
    assert later.assumptions.violated
    assert not any(later.consistent)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernels": KERNELS[1:]}, "its kernels, their mean or their input transform"),
        ({"mean": ConstantMean().requires_grad_(False)}, "their mean"),
        ({"norm_bound": 6.0}, r"its norm_bounds differ \(\[5.0, 5.0"),
        ({"delta": 0.1}, r"its delta differ \(0.05 before, 0.1 now"),
        ({"fit": "martingale"}, "its fit differ"),
        ({"fit": Filters(2.0)}, "its covariance_scales differ"),
        ({"noise_std": 0.2}, "with other noise scales"),
        ({"n": 23}, "has seen 24 observations, the model has 23"),
        ({"combine": "all"}, 'tracker is for combine="any"'),
    ],
)
def test_another_family_is_refused_before_any_decomposition(options, message, monkeypatch):
    tracker = used(24)
    before = str(vars(tracker))
    model = data(options.get("n", 24))
    monkeypatch.setattr(NoisyData, "state", lambda *_: pytest.fail("decomposed"))
    with pytest.raises(ValueError, match=message):
        family(tracker=tracker, model=model, **{"n": 24, **options})
    assert str(vars(tracker)) == before


def test_the_same_family_built_again_is_the_same():
    r"""What kernels cache, the search and the model's own kernel do not count."""
    tracker = used(12)
    again = lengthscale_family(RBFKernel(), 0.1, 1.6)
    again[0](X).to_dense()
    model = KernelRegression(X, Y, frozen_kernel("rbf", 2.0), 0.1)
    options = {"kernels": copy.deepcopy(again), "select": "widest", "maximize": False}
    assert family(24, tracker, model=model, **options).assumptions.certified
    assert tracker.num_observations == 24


@pytest.mark.parametrize(
    ("part", "first", "later"),
    [
        ("norm", {"norm_bound": EstimatedNumber(5.0)}, {}),
        ("noise", {"model": PROBLEM.model.requires_grad_(True)}, {"noise_std": 0.1}),
        ("mean", {"mean": ConstantMean()}, None),
        ("kernel", {"kernels": [frozen_kernel("rbf").requires_grad_(True)]}, None),
    ],
)
def test_what_was_estimated_in_one_round_stays_so(part, first, later):
    tracker = FamilyTracker()
    assert family(24, tracker, **first).assumptions.estimated == (part,)
    if later is None:  # the same module, now called fixed
        name, value = next(iter(first.items()))
        frozen = copy.deepcopy(value)
        for module in frozen if name == "kernels" else [frozen]:
            module.requires_grad_(False)
        later = {name: frozen}
    assert family(24, **later).assumptions.certified
    after = family(24, tracker, **later).assumptions
    assert after.estimated == (part,)
    assert after[part].statement.endswith("in an earlier round it was estimated")


def test_noise_scales_of_each_observation():
    scales = torch.linspace(0.1, 0.2, 24, dtype=torch.float64)
    tracker = used(12, noise_std=scales[:12])
    family(24, tracker, noise_std=scales)
    with pytest.raises(ValueError, match="other noise scales"):
        family(24, tracker, noise_std=scales.flip(0))


# Every tracker: what it was told, on one scale of the outcomes.

NOISE = UnknownNoise(0.01)
TRACKERS = {"norm": NormTracker, "noise": lambda: StreamingNoiseTracker(3.0, NOISE)}


def model_of(transform=None):
    outcomes = (Y[:9] - Y[:9].min() + 0.1).exp()
    kernel = frozen_kernel("matern52")
    return frozen_model(X[:9], outcomes, kernel, 0.2, outcome_transform=transform)


@pytest.fixture(params=TRACKERS)
def make(request):
    return TRACKERS[request.param]


def test_a_warning_that_is_an_error_leaves_the_new_state():
    tracker = StreamingNoiseTracker(1e-3, UnknownNoise(1e-6, 1e-5))
    with pytest.raises(InconsistentConfidenceSetWarning):
        tracker.observe(data(8))
    assert not tracker.consistent
    assert tracker.num_observations == 8


@pytest.mark.parametrize(
    ("first", "later", "words"),
    [
        (Log(), None, "before after Log, those of the model are untransformed"),
        (None, Log(), "before untransformed, those of the model are after Log"),
        (Power(0.5), Power(0.500000001), r"are after Power\(0\.500000001\)"),
    ],
)
def test_another_transform_is_refused_and_changes_nothing(make, first, later, words):
    tracker = make()
    tracker.observe(model_of(first))
    before = str(vars(tracker))
    with pytest.raises(ValueError, match=words):
        tracker.observe(model_of(later))
    assert str(vars(tracker)) == before
    tracker.observe(model_of(first))


def test_a_unit_that_is_estimated_again_is_no_other_scale(make):
    transforms = [Standardize(1), Standardize(1)]
    for transform, shift in zip(transforms, (0.0, 0.5), strict=True):
        transform.train()
        transform(torch.randn(7, 1, dtype=torch.float64) + shift)
    tracker = make()
    for transform in (*transforms, None):
        tracker.observe(model_of(None if transform is None else transform.eval()))


def test_a_bandit_is_of_untransformed_outcomes():
    tracker, fresh = NormTracker(), NormTracker()
    tracker.observe(model_of(Log()))
    late, first = (
        KernelBandit(PROBLEM.kernel, norm_bound=own, noise_std=0.2)
        for own in (tracker, fresh)
    )
    with pytest.raises(ValueError, match="untransformed"):
        late.observe(X[0], 1.0)
    first.observe(X[0], 1.0)
    with pytest.raises(ValueError, match="after Log"):
        fresh.observe(model_of(Log()))
