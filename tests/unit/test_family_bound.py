r"""The bound over a family of kernels: union, intersection, search, certificates."""

import copy
import itertools
import pickle
import warnings

import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf
from gpytorch.kernels import MaternKernel, RBFKernel
from gpytorch.means import ConstantMean
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import (
    CertifiedGapStopping,
    Filters,
    KernelFamily,
    KernelFamilyUCB,
    MartingaleMixture,
    MartingaleMixtureUCB,
    SafeSet,
    lengthscale_family,
    regret_certificate,
)
from kernelucb._numerics.estimates import EstimatedNumber
from kernelucb.exceptions import (
    InconsistentConfidenceSetWarning,
    UncertifiedError,
)
from kernelucb.regression import KernelRegression
from problems import (
    family_ucb,
    frozen_kernel,
    make_problem,
    uniform,
)
from tolerances import GRADCHECK, ORDER, REARRANGED

PROBLEM = make_problem(n=25, d=2, norm=3.0, seed=5)
KERNELS = [frozen_kernel("rbf", scale) for scale in (0.6, 0.3, 0.15)]
X = torch.cat([uniform(40, 2, 7), PROBLEM.X[:3]])
SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
GIVEN = {"norm_bound": 6.0, "noise_std": 0.1}
# Tied to the norm bound, as the family does.
SCALED = {"fit": Filters(0.36)}


def family(kernels=KERNELS, problem=PROBLEM, **options):
    return family_ucb(problem.state, kernels, **GIVEN | options)


def single(kernel, problem=PROBLEM, **options):
    state = KernelRegression(problem.X, problem.Y, kernel, 0.1)
    return MartingaleMixtureUCB(state, **GIVEN | SCALED | options)


def bands(acqfs, points=X):
    return torch.stack([torch.stack(acqf.bounds(points)) for acqf in acqfs])


@given(seed=st.integers(0, 500), d=st.integers(1, 3), n=st.integers(1, 30))
def test_the_union_of_the_consistent_members(seed, d, n):
    r"""The definition: the largest and the smallest of the members' own bounds."""
    problem, points = make_problem(n=n, d=d, norm=3.0, seed=seed), uniform(30, d, seed + 9)
    acqf = family(problem=problem)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        own = [single(kernel, problem) for kernel in KERNELS]
    assert acqf.consistent == tuple(not each.assumptions.violated for each in own)
    kept = bands([each for each in own if not each.assumptions.violated], points)
    lower, upper = acqf.bounds(points)
    # The search of one point does not depend on the others, so up to its tolerance.
    assert_close(upper, kept[:, 1].amax(0), rtol=0.0, atol=ORDER)
    assert_close(lower, kept[:, 0].amin(0), rtol=0.0, atol=ORDER)


@given(seed=st.integers(0, 500))
def test_the_intersection_of_all_members(seed):
    problem, points = make_problem(n=15, d=2, norm=3.0, seed=seed), uniform(30, 2, seed)
    kernels = [frozen_kernel("rbf", 0.3), frozen_kernel("matern52", 0.3)]
    options = {"norm_bound": 30.0, "fit": MartingaleMixture(1.0)}
    acqf = family(kernels, problem, combine="all", **options)
    own = bands([single(k, problem, delta=0.025, **options) for k in kernels], points)
    lower, upper = acqf.bounds(points)
    assert_close(upper, own[:, 1].amin(0), rtol=0.0, atol=ORDER)
    assert_close(lower, own[:, 0].amax(0), rtol=0.0, atol=ORDER)


def test_one_kernel_is_the_bound_for_it():
    alone = single(KERNELS[1])
    for combine in ("any", "all"):
        acqf = family(KERNELS[1:2], combine=combine)
        assert_close(acqf.bounds(X), alone.bounds(X), rtol=0.0, atol=REARRANGED)
        assert acqf.least_consistent_norms[0] == alone.least_consistent_norm


def test_a_length_scale_between_two_kernels_is_covered():
    r"""By the sum of both, whose ball holds that of every kernel between."""
    kernels = lengthscale_family(RBFKernel(), 0.15, 0.6)
    acqf, covers = family(kernels), [cover.kernel for cover in kernels.covering(2)]
    assert acqf.norm_bounds == (6.0, 6.0, 6.0)
    own = bands([single(kernel) for kernel in covers])
    assert_close(acqf.bounds(X)[1], own[:, 1].amax(0), rtol=0.0, atol=ORDER)
    assert "RBF with length scales from 0.15 to 0.6" in acqf.assumptions["kernel"].statement
    assert regret_certificate(acqf, bounds=SQUARE, max_evaluations=64).rigorous
    plain = family(list(kernels))
    assert_close(plain.bounds(X), family(KERNELS).bounds(X), rtol=0.0, atol=REARRANGED)
    assert "from 0.15" not in plain.assumptions["kernel"].statement


def test_a_family_of_norm_bounds():
    r"""Balls of one kernel are nested: the largest is the band, the smallest the search."""
    acqf = family(KERNELS[1:2] * 3, norm_bound=[0.1, 4.0, 8.0], select="simplest")
    assert acqf.consistent == (False, True, True)
    options = {"norm_bound": 8.0, "fit": Filters(0.64)}
    assert_close(acqf.bounds(X), single(KERNELS[1], **options).bounds(X))
    smaller = single(KERNELS[1], norm_bound=4.0, fit=Filters(0.16)).bounds(X)[1]
    assert_close(acqf(X.unsqueeze(1)), smaller, rtol=0.0, atol=ORDER)


def test_a_family_of_smoothness():
    kernels = [frozen_kernel(name, 0.3) for name in ("rbf", "matern52", "matern32")]
    acqf = family(kernels)
    own = bands([single(kernel) for kernel in kernels])
    assert_close(acqf.bounds(X)[1], own[:, 1].amax(0), rtol=0.0, atol=ORDER)
    assert "Matern 3/2, length scale 0.3" in acqf.report()


class TestWhatIsTakenFromTheModel:
    def test_neither_its_kernel_nor_its_mean(self):
        r"""A model that was fitted, and standardises, gives the same certified band."""
        Y = 7.0 + 100.0 * PROBLEM.Y.unsqueeze(-1)
        mean = ConstantMean().double()
        mean.constant = torch.tensor(7.0, dtype=torch.float64)
        options = {"norm_bound": 600.0, "noise_std": 10.0, "mean": mean}
        fitted = SingleTaskGP(PROBLEM.X, Y, outcome_transform=Standardize(1))
        fitted.covar_module.lengthscale = 0.05
        acqf = family_ucb(fitted, KERNELS, **options | {"mean": mean.requires_grad_(False)})
        lower, upper = family().bounds(X)
        assert acqf.assumptions.certified
        tolerance = {"rtol": REARRANGED, "atol": REARRANGED}
        assert_close(acqf.bounds(X)[1], 7.0 + 100.0 * upper, **tolerance)
        assert_close(acqf.bounds(X)[0], 7.0 + 100.0 * lower, **tolerance)

    def test_its_inputs_where_their_scaling_was_given(self):
        box = torch.tensor([[0.0, 0.0], [2.0, 2.0]], dtype=torch.float64)
        Y = PROBLEM.Y.unsqueeze(-1)
        given = SingleTaskGP(2.0 * PROBLEM.X, Y, input_transform=Normalize(2, bounds=box))
        acqf = KernelFamilyUCB(given, KERNELS, **GIVEN)
        assert acqf.assumptions.certified
        assert_close(acqf.bounds(2.0 * X), family().bounds(X), rtol=0.0, atol=REARRANGED)
        learned = SingleTaskGP(2.0 * PROBLEM.X, Y, input_transform=Normalize(2))
        acqf = KernelFamilyUCB(learned, KERNELS, **GIVEN)
        assert acqf.assumptions.estimated == ("kernel",)

    def test_its_noise_unless_that_is_given(self):
        model = SingleTaskGP(PROBLEM.X, PROBLEM.Y.unsqueeze(-1))
        acqf = KernelFamilyUCB(model, KERNELS, norm_bound=6.0)
        assert acqf.assumptions.estimated == ("noise",)
        scales = torch.full_like(PROBLEM.Y, 0.01).unsqueeze(-1)
        model = SingleTaskGP(PROBLEM.X, PROBLEM.Y.unsqueeze(-1), scales)
        acqf = KernelFamilyUCB(model, KERNELS, norm_bound=6.0)
        assert acqf.assumptions.certified
        assert_close(acqf.bounds(X), family().bounds(X), rtol=1e-6, atol=1e-6)

    def test_a_state_says_whether_its_inputs_were_learned(self):
        model = SingleTaskGP(
            PROBLEM.X, PROBLEM.Y.unsqueeze(-1), input_transform=Normalize(2)
        )
        acqf = KernelFamilyUCB(KernelRegression.of(model), KERNELS, **GIVEN)
        assert acqf.assumptions.estimated == ("kernel",)


class TestAssumptions:
    def test_trainable_kernels_count_as_estimated(self):
        acqf = family([*KERNELS, RBFKernel().double()])
        assert acqf.assumptions.estimated == ("kernel",)
        with pytest.raises(UncertifiedError, match="freeze"):
            SafeSet(acqf, 0.0)

    def test_an_estimated_norm_counts_as_estimated(self):
        acqf = family(norm_bound=EstimatedNumber(6.0))
        assert acqf.assumptions.estimated == ("norm",)

    def test_all_kernels_contradicted(self):
        with pytest.warns(InconsistentConfidenceSetWarning, match="all 3 kernels"):
            acqf = family(norm_bound=0.5)
        assert acqf.consistent == (False, False, False)
        assert acqf.assumptions.violated
        assert not regret_certificate(acqf, X).certified
        with pytest.raises(InconsistentConfidenceSetWarning, match="all 3 kernels"):
            family(norm_bound=0.5)

    def test_one_of_all_kernels_contradicted(self):
        kernels = [frozen_kernel("rbf", 3.0), KERNELS[1]]
        with pytest.warns(InconsistentConfidenceSetWarning):
            acqf = family(kernels, combine="all")
        assert acqf.consistent == (False, True)
        assert acqf.assumptions.violated

    def test_the_report_names_what_is_contradicted(self):
        kernels = lengthscale_family(RBFKernel(), 0.15, 2.4)
        report = family(kernels, norm_bound=4.5).report()
        assert "length scales from 1.2 to 2.4" in report
        assert "RBF, length scale 0.3: consistent" in report
        assert "certified" in report


class TestSearch:
    def points(self):
        return uniform(6, 2, 3).unsqueeze(1)

    def test_simplest_is_the_first_consistent_kernel(self):
        kernels = [frozen_kernel("rbf", 3.0), *KERNELS]
        acqf = family(kernels, select="simplest")
        assert acqf.consistent == (False, True, True, True)
        value = single(KERNELS[0])(self.points())
        assert_close(acqf(self.points()), value, rtol=0.0, atol=ORDER)

    def test_widest_is_the_upper_side_of_the_band(self):
        acqf = family(select="widest")
        upper = acqf.bounds(self.points().squeeze(1))[1]
        assert_close(acqf(self.points()), upper, rtol=0.0, atol=ORDER)

    def test_the_band_does_not_depend_on_it(self):
        first, *others = (family(select=s) for s in ("alternate", "simplest", "widest"))
        for other in others:
            assert_close(other.bounds(X), first.bounds(X), rtol=0.0, atol=0.0)

    def test_minimisation_and_transforms(self):
        weight = ScalarizedPosteriorTransform(torch.tensor([-2.0]), offset=1.0)
        acqf = family(select="widest", posterior_transform=weight)
        lower = acqf.bounds(self.points().squeeze(1))[0]
        assert_close(acqf(self.points()), 1.0 - 2.0 * lower, rtol=0.0, atol=REARRANGED)
        acqf = family(select="widest", maximize=False)
        assert_close(acqf(self.points()), -lower, rtol=0.0, atol=ORDER)

    @pytest.mark.parametrize("select", ["simplest", "widest"])
    def test_pending_points_condition_every_kernel(self, select):
        pending = uniform(2, 2, 99)
        acqf = family(select=select, X_pending=pending)
        used = KERNELS if select == "widest" else KERNELS[:1]
        own = [single(kernel, X_pending=pending)(self.points()) for kernel in used]
        assert_close(acqf(self.points()), torch.stack(own).amax(0), rtol=0.0, atol=ORDER)
        assert_close(acqf.bounds(X), family().bounds(X), rtol=0.0, atol=0.0)

    @pytest.mark.parametrize("combine", ["any", "all"])
    @pytest.mark.parametrize("select", ["simplest", "widest"])
    def test_gradients(self, select, combine):
        acqf = family(select=select, combine=combine, norm_bound=8.0)
        points = self.points().requires_grad_()
        assert torch.autograd.gradcheck(acqf, (points,), **GRADCHECK)

    def test_batches_and_optimisers(self):
        acqf = family(select="widest")
        points = uniform(12, 2, 4).reshape(3, 4, 1, 2)
        assert_close(acqf(points).flatten(), acqf(points.reshape(12, 1, 2)))
        best, value = optimize_acqf(
            acqf, SQUARE, q=2, num_restarts=2, raw_samples=32, sequential=True
        )
        assert best.shape == (2, 2)
        assert float(value[0]) >= float(acqf(X.unsqueeze(1)).max()) - 0.5
        assert acqf.X_pending is None

    def test_majorant_is_above(self):
        for combine in ("any", "all"):
            acqf = family(select="widest", combine=combine, norm_bound=8.0)
            assert bool((acqf.majorant(self.points()) >= acqf(self.points()) - ORDER).all())


def explores(select, count):
    return KernelFamily(KERNELS, select=select).explores_for_all(count)


class TestRounds:
    r"""When ``"alternate"`` explores for all kernels, by default."""

    ROUNDS = tuple(n for n in range(40_000) if explores("alternate", n))

    def test_an_eighth_of_all_and_never_far_apart(self):
        gaps = {after - before for before, after in itertools.pairwise(self.ROUNDS)}
        assert gaps == {5, 8, 13}
        assert len(self.ROUNDS) == pytest.approx(40_000 / 8, abs=5)

    @pytest.mark.parametrize("step", range(2, 33))
    def test_batches_of_one_size_do_not_fall_between(self, step):
        r"""Whatever the remainder, few of the batches in a row explore for none but one."""
        for remainder in range(step):
            own = [n // step for n in self.ROUNDS if n % step == remainder]
            longest = max(b - a for a, b in itertools.pairwise([-1, *own]))
            assert longest <= 90

    def test_the_others_do_not_count(self):
        assert all(explores("widest", n) for n in range(20))
        assert not any(explores("simplest", n) for n in range(20))

    def test_pending_points_count(self):
        r"""Of a batch chosen one after the other some explore for all."""
        acqf, kinds = family(norm_bound=8.0), []
        whole = acqf.confidence_set
        for count in range(14):
            acqf.set_X_pending(uniform(count, 2, 1) if count else None)
            searched = acqf._searched(count)
            kinds.append(searched is whole)
        n = len(PROBLEM.Y)
        assert kinds == [explores("alternate", n + c) for c in range(14)]
        assert any(kinds)


class TestCertificates:
    @pytest.mark.parametrize("combine", ["any", "all"])
    def test_on_points_by_the_definition(self, combine):
        acqf = family(combine=combine, norm_bound=8.0)
        best = X[:1]
        certificate = regret_certificate(acqf, X, recommended=best)
        parts = acqf.confidence_set.parts
        gains = torch.stack([part.max_gain_over(X, best) for part in parts])
        gains = gains.amax(0) if combine == "any" else gains.amin(0)
        assert certificate.gap == pytest.approx(float(gains.max()), abs=ORDER)
        assert certificate.certified

    @pytest.mark.parametrize("combine", ["any", "all"])
    def test_on_boxes_it_is_above_every_point(self, combine):
        problem = make_problem(n=15, d=1, norm=3.0, seed=5)
        kernels = [frozen_kernel("rbf", 0.3), frozen_kernel("matern52", 0.4)]
        acqf = family(kernels, problem, combine=combine, norm_bound=8.0)
        line = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
        certificate = regret_certificate(acqf, bounds=line)
        assert certificate.certified
        points = torch.linspace(0, 1, 4001, dtype=torch.float64).unsqueeze(-1)
        best = certificate.recommended.unsqueeze(0)
        largest = float(acqf.confidence_set.max_gain_over(points, best).max())
        assert largest <= certificate.gap + ORDER
        assert certificate.gap - certificate.resolution <= largest + 1e-3

    def test_the_gap_of_an_intersection_is_at_most_that_of_its_sets(self):
        kernels = [frozen_kernel("rbf", 0.3), frozen_kernel("matern52", 0.3)]
        acqf = family(kernels, combine="all", norm_bound=[6.0, 8.0])
        for part in acqf.confidence_set.parts:
            lower, _ = part.bounds(X)
            best = X[lower.argmax()].unsqueeze(0)
            own = float(part.max_gain_over(X, best).max())
            assert regret_certificate(acqf, X).gap <= own + ORDER

    def test_safe_where_every_consistent_kernel_says_so(self):
        acqf = family()
        safe = SafeSet(acqf, thresholds=-1.0)
        own = [single(kernel).bounds(X)[0] >= -1.0 for kernel in KERNELS]
        assert torch.equal(safe.is_safe(X), torch.stack(own).all(0))
        assert 0 < int(safe.is_safe(X).sum()) < len(X)

    def test_a_stop_in_a_loop_whose_model_is_refitted(self):
        r"""Only the data of the fitted model enter."""
        model = SingleTaskGP(PROBLEM.X, PROBLEM.Y.unsqueeze(-1))
        acqf = KernelFamilyUCB(model, KERNELS, **GIVEN)
        decision = CertifiedGapStopping(100.0, X)(acqf)
        assert decision.stop
        with pytest.raises(UncertifiedError):
            CertifiedGapStopping(100.0, X)(MartingaleMixtureUCB(model, **GIVEN))


def test_copies_and_pickles():
    acqf = family()
    for copied in (copy.deepcopy(acqf), pickle.loads(pickle.dumps(acqf))):
        assert_close(copied.bounds(X), acqf.bounds(X), rtol=0.0, atol=0.0)
        assert copied.report() == acqf.report()
    acqf.load_state_dict(acqf.state_dict())


def test_the_input_constructor():
    build = get_acqf_input_constructor(KernelFamilyUCB)
    model = PROBLEM.model
    arguments = build(model, kernels=KERNELS, **GIVEN)
    acqf = KernelFamilyUCB(**arguments)
    assert_close(acqf.bounds(X), family().bounds(X), rtol=0.0, atol=REARRANGED)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"kernels": []}, ValueError, "at least one kernel"),
        ({"norm_bound": [1.0, 2.0]}, ValueError, "2 entries for 3 kernels"),
        ({"norm_bound": [1.0, 2.0, -1.0]}, ValueError, "norm_bound"),
        ({"delta": 1.0}, ValueError, "delta"),
        ({"select": "roughest"}, ValueError, "select"),
        ({"combine": "some"}, ValueError, "combine"),
        ({"select": 0}, ValueError, "select"),
        ({"kernels": [MaternKernel(ard_num_dims=3)]}, UnsupportedError, "2 columns"),
        ({"X_pending": torch.full((1, 2), float("nan"))}, InputDataError, "X_pending"),
    ],
)
def test_what_is_wrong_is_said(arguments, error, words):
    with pytest.raises(error, match=words):
        family_ucb(PROBLEM.state, **{"kernels": KERNELS} | GIVEN | arguments)
