r"""The front of several outcomes: a slow oracle, what holds of the truth, the next run."""

import pytest
import torch
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.models.transforms.outcome import Log
from botorch.optim import optimize_acqf_discrete

from kernelucb import (
    AbbasiYadkoriUCB,
    KernelFamilyUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    NearNormBall,
    OutcomeConstraints,
    ParetoWidth,
    pareto_set,
)
from kernelucb.certificates.pareto import Comparison
from kernelucb.confidence.band import weighted_sum
from problems import (
    RKHSFunction,
    frozen_kernel,
    frozen_model,
    generator,
    make_problem,
    uniform,
)

NOISE, NORM = 0.02, 2.0
X = uniform(40, 2, 5)


def truths(seed, count=2):
    kernel = frozen_kernel("rbf", lengthscale=0.5)
    return [RKHSFunction.random(kernel, NORM, 2, 10 * seed + j) for j in range(count)]


def bands(functions, rows, seed=0, signs=None, norm=NORM):
    noise = generator(seed)
    signs = signs or [1] * len(functions)
    made = []
    for function, sign in zip(functions, signs, strict=True):
        Y = sign * function(rows) + NOISE * torch.randn(
            len(rows), generator=noise, dtype=torch.float64
        )
        state = KernelRegression(rows, Y, function.kernel, NOISE)
        acqf = MartingaleMixtureUCB(state, norm_bound=norm, maximize=sign == 1)
        made.append(acqf.band)
    return made


def by_definition(listed, candidates, epsilon, feasible=None, possible=None):
    r"""Dominated and optimal candidates from all pairs of gains, without short cuts."""
    n = len(candidates)
    every = torch.ones(n, dtype=torch.bool)
    feasible = every if feasible is None else feasible
    possible = every if possible is None else possible
    gains = torch.stack(
        [
            torch.stack(
                [b.max_gain_over(candidates, x[None], b.direction) for x in candidates], 1
            )
            for b in listed
        ]
    )
    dominated, optimal = ~possible, feasible.clone()
    for i in range(n):
        for r in range(n):
            if i == r:
                continue
            over = gains[:, i, r]
            if feasible[r] and bool((over <= 0.0).all()) and bool((over < 0.0).any()):
                dominated[i] = True
            if possible[i] and bool((over > epsilon).all()):
                optimal[r] = False
    return dominated, optimal & ~dominated


def front(values):
    beaten = (values[None] >= values[:, None]).all(-1)
    return ~(beaten & (values[None] > values[:, None]).any(-1)).any(1)


# Gains between all pairs of forty candidates, twice: half a second.
@pytest.mark.representatives("signs1")
@pytest.mark.parametrize("signs", [[1, 1], [1, -1], [-1, 1, 1]])
def test_sorted_as_by_all_pairs(signs):
    functions = truths(3, len(signs))
    listed = bands(functions, X[:25], signs=signs)
    found = pareto_set(listed, X, 0.3)
    dominated, optimal = by_definition(listed, X, 0.3)
    assert torch.equal(found.dominated, dominated)
    assert torch.equal(found.optimal, optimal)
    assert bool(dominated.any())
    assert bool(optimal.any())
    assert not bool((found.open & (found.dominated | found.optimal)).any())
    assert bool(found.undecided[found.open].all())
    assert found.maximize == tuple(sign == 1 for sign in signs)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kernelucb.exceptions.InconsistentConfidenceSetWarning")
def test_what_is_said_is_true_of_the_truth():
    r"""On 12 problems whose bands hold nothing may be false (delta is .1 in all).

    Each band fails with probability at most .05, so more than 5 of 12 problems with a
    false word have probability below 1e-3. With a quarter of the true norm all are: the
    power of this test.
    """
    false = {NORM: 0, NORM / 4: 0}
    for seed in range(12):
        functions = truths(seed)
        values = torch.stack([f(X) for f in functions], -1)
        gains = (values[:, None] - values).masked_fill(torch.eye(40).bool()[..., None], 0.0)
        for norm in false:
            listed = bands(functions, X[::4], seed, norm=norm)
            said = pareto_set(listed, X, 0.2)
            wrong = bool(said.dominated[front(values)].any())
            best = (gains - 0.2).amin(-1).amax(0)  # by how much a candidate is beaten
            wrong |= bool((best[said.optimal] > 0.0).any())
            covered = (gains <= 0.2).all(-1)[:, said.optimal].any(1)
            wrong |= said.stop and not bool(covered.all())
            lower, upper = said.hypervolume([-3.0, -3.0])
            true = type(said).hypervolume(
                said.__class__(**(vars(said) | {"lower": values, "upper": values})),
                [-3.0, -3.0],
            )[0]
            wrong |= not lower <= true <= upper
            false[norm] += wrong
    assert false[NORM] <= 5
    assert false[NORM / 4] > 5


# From three runs to the end of the rule: a second.
def test_runs_by_the_rule_decide_every_candidate():
    functions, rows = truths(1), X[:3]
    for _ in range(60):
        listed = bands(functions, rows)
        found = pareto_set(listed, X, 0.4)
        if found.stop:
            break
        width = ParetoWidth(listed, found.epsilon)
        new, _ = optimize_acqf_discrete(width, 1, X[found.undecided])
        rows = torch.cat([rows, new])
    assert found.stop
    assert 3 < len(rows) < 60
    assert "0 open" in str(found)
    assert str(found).startswith("certified: of 40 candidates")
    # Undecided candidates with bands of half of epsilon: nothing is left open.
    assert not bool(found.open.any())


def test_two_equal_candidates_do_not_beat_each_other():
    functions = truths(1)
    listed = bands(functions, X[:20])
    twice = torch.cat([X, X])
    once, found = pareto_set(listed, X, 0.3), pareto_set(listed, twice, 0.3)
    assert torch.equal(found.dominated, torch.cat([once.dominated] * 2))
    assert torch.equal(found.optimal, torch.cat([once.optimal] * 2))


def test_the_front_is_of_feasible_candidates():
    functions = truths(2, 3)
    *listed, limited = bands(functions, X[:25])
    limits = OutcomeConstraints(limited, float(limited.bounds(X)[0].median()))
    found = pareto_set(listed, X, 0.3, constraints=limits)
    feasible, possible = limits.is_feasible(X), limits.may_be_feasible(X)
    assert 0 < int(feasible.sum()) < int(possible.sum()) < 40
    dominated, optimal = by_definition(listed, X, 0.3, feasible, possible)
    assert torch.equal(found.infeasible, ~possible)
    assert torch.equal(found.dominated, dominated & possible)
    assert torch.equal(found.optimal, optimal)
    assert "feasible optimal: no feasible candidate" in found.sentence
    assert found.assumptions.delta == pytest.approx(0.15)
    # The limit alone: one candidate may be feasible, none is.
    alone = pareto_set(listed, X, 0.3, constraints=OutcomeConstraints(limited, 9.0))
    assert bool(alone.infeasible.all())
    assert alone.hypervolume([-9.0, -9.0]) == (0.0, 0.0)
    assert not alone.stop


def test_the_hypervolume_is_that_of_lower_and_upper_sides():
    r"""Of one candidate: a rectangle from the reference to each end of its sides."""
    listed = bands(truths(1), X[:10], signs=[1, -1])
    found = pareto_set(listed, X[:1], 0.1)
    (low, most), (least, high) = (band.bounds(X[:1]) for band in listed)
    lower, upper = found.hypervolume([-9.0, 9.0])
    with pytest.raises(ValueError, match="2 numbers"):
        found.hypervolume([-9.0])
    assert lower == pytest.approx(float((low + 9.0) * (9.0 - high)))
    assert upper == pytest.approx(float((most + 9.0) * (9.0 - least)))


def test_widths_are_in_units_of_epsilon_and_fall_at_pending_points():
    listed = bands(truths(1), X[:10])
    acqf = ParetoWidth(listed, [0.1, 0.4])
    sides = [band.bounds(X) for band in listed]
    widths = [upper - lower for lower, upper in sides]
    expected = torch.maximum(widths[0] / 0.1, widths[1] / 0.4)
    assert torch.allclose(acqf(X.unsqueeze(1)), expected)
    pending = ParetoWidth(listed, [0.1, 0.4], X_pending=X[20:22])
    assert float(pending(X[20:21].unsqueeze(0))) < float(expected[20])
    assert pending.X_pending.equal(X[20:22])
    pending.X_pending = None
    assert torch.allclose(pending(X.unsqueeze(1)), expected)
    assert acqf.assumptions.delta == pytest.approx(0.1)


def test_refusals():
    listed = bands(truths(1), X[:10])
    with pytest.raises(ValueError, match="two or more objectives"):
        pareto_set(listed[:1], X, 0.1)
    with pytest.raises(ValueError, match="epsilon"):
        pareto_set(listed, X, -0.1)
    with pytest.raises(ValueError, match="epsilon"):
        ParetoWidth(listed, 0.0)
    with pytest.raises(BotorchTensorDimensionError):
        pareto_set(listed, X[:, :1], 0.1)
    line = make_problem(n=5)
    other = MartingaleMixtureUCB(line.model, norm_bound=2.0).band
    with pytest.raises(BotorchTensorDimensionError, match="columns"):
        pareto_set([listed[0], other], X, 0.1)
    model = frozen_model(
        line.X, line.Y.exp(), frozen_kernel("rbf"), 0.1, outcome_transform=Log()
    )
    logs = MartingaleMixtureUCB(model, norm_bound=2.0).band
    with pytest.raises(UnsupportedError, match="plain outcome"):
        pareto_set([other, logs], line.X, 0.1)


@pytest.mark.representatives("0", "2")
@pytest.mark.parametrize("seed", range(4))
def test_the_words_of_a_front_are_true_in_their_direction(seed):
    r"""A covered candidate may be far below every optimal one in an objective."""
    functions = truths(seed, 3)
    *listed, limited = bands(functions, X[:12], seed)
    constraint = OutcomeConstraints(limited, float(functions[2](X).median()))
    for limits, word in ((None, ""), (constraint, "feasible ")):
        found = pareto_set(listed, X, 0.4, constraints=limits)
        F = torch.stack([function(X) for function in functions[:2]], -1)
        counts = torch.ones(40, dtype=torch.bool)
        if limits is not None:
            counts = functions[2](X) >= constraint.constraints[0].threshold
        gains = F[:, None] - F  # of the first over the second
        beaten = (gains[counts] > 0.4).all(-1).any(0)
        assert not bool((found.optimal & beaten).any())
        better = (gains >= 0.0).all(-1) & (gains > 0.0).any(-1)
        assert bool(better[counts].any(0)[found.dominated & counts].all())
        covers = (gains <= 0.4).all(-1)[:, found.optimal]
        assert bool(covers.any(1)[found.covered & counts].all())
        assert f"{int(found.covered.sum())} covered: an optimal one is at most" in str(
            found
        )
        assert f"no {word}candidate is better" in str(found)


FUNCTION = RKHSFunction.random(frozen_kernel("matern52", lengthscale=0.5), NORM, 2, 4)

VALUES = FUNCTION(X)


def made(builder=MartingaleMixtureUCB, **options):
    noise = NOISE * torch.randn(20, generator=generator(4), dtype=torch.float64)
    state = KernelRegression(X[:20], FUNCTION(X[:20]) + noise, FUNCTION.kernel, NOISE)
    return builder(state, **{"norm_bound": NORM, **options}).band


def family(state, norm_bound):
    kernels = [frozen_kernel("matern52", lengthscale=each) for each in (0.5, 0.4)]
    return KernelFamilyUCB(state, kernels, norm_bound=[norm_bound, 1.5 * norm_bound])


BANDS = {
    "exact": made,
    "grid": lambda: made(form="grid"),
    "closed form": lambda: made(form="analytic"),
    "ridge": lambda: made(AbbasiYadkoriUCB),
    "family": lambda: made(family),
    "near a ball": lambda: made(norm_bound=NearNormBall(NORM, 0.05)),
    "range": lambda: made().within(lower=float(VALUES.min()), upper=float(VALUES.max())),
    "replicates": lambda: made().with_replicates(40),
    "sum": lambda: weighted_sum([made(), made(form="grid")], [1.0, -0.5]),
}


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("kind", BANDS)
def test_gains_among_points_are_the_gains_over_each(kind, sign):
    whole = BANDS[kind]().confidence_set
    gains = whole.gains_among(X, sign)
    first = torch.arange(40).repeat_interleave(40)
    second = torch.arange(40).repeat(40)
    found = gains.most(first, second).reshape(40, 40)
    each = [whole.max_gain_over(X, x[None], sign) for x in X]
    apart = ~torch.eye(40, dtype=torch.bool)  # nothing but round-off is gained over itself
    assert torch.allclose(found[apart], torch.stack(each, 1)[apart], rtol=0.0, atol=1e-9)
    least = gains.least(first, second).reshape(40, 40)
    assert bool((least[apart] <= found[apart] + 1e-9).all())
    # Of a grid nothing is known below: there may be no function that attains its sides.
    known = bool(torch.isfinite(least).all())
    assert known == (kind not in {"grid", "sum"})


def test_few_gains_are_searched():
    r"""Less than half of all pairs, beaten points among them: sides decide the others."""
    points = uniform(150, 2, 6)
    listed = bands(truths(3), points[:40])
    sets = [(band.required_set, band.direction) for band in listed]
    low, high = torch.stack([torch.stack(band.bounds(points)) for band in listed], -1)
    compared = Comparison(sets, points, low, high, [0.3, 0.3])
    every = torch.ones(150, dtype=torch.bool)
    compared.dominated(every)
    compared.challenges(every[:, None] & every, 0)
    searched = (compared.least == compared.most).double().mean()
    assert 1.0 / 150 < float(searched) < 0.5


def test_what_does_not_matter_has_names_and_units():
    listed = bands(truths(1), X[:10])
    named = {"names": ["strength", "cost"], "units": {"strength": "MPa"}}
    found = pareto_set(listed, X, [0.5, 2.0], **named)
    assert "by more than 0.5 MPa in strength and 2 in cost;" in found.sentence
