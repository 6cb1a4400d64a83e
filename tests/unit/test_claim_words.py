r"""Sentences are read back as a stranger would, and compared with the truth on a grid."""

import re

import pytest
import torch
from botorch.exceptions import UnsupportedError

from kernelucb import (
    CertifiedGapStopping,
    KernelRegression,
    MartingaleMixtureUCB,
    MixedSpace,
    OutcomeConstraints,
    breakdown,
    confirmation,
    optimum_report,
    regret_certificate,
)
from kernelucb.certificates import Breakdown, claims
from kernelucb.data.kernel_family import fixed_kernel, fixed_mean
from problems import float64, frozen_kernel, normal

AXIS = torch.linspace(0.0, 1.0, 101, dtype=torch.float64)
GRID = torch.cartesian_prod(AXIS, AXIS)
SQUARE = float64([[0.0, 0.0], [1.0, 1.0]])
TOTAL, LEAST, SHARE, ROUND_OFF = 1.1, 0.2, 0.1, 1e-9
NUMBER = r"(-?[\d.]+(?:e[+-]?\d+)?)"
SLOPE = [(torch.tensor([0, 1]), float64([-1.0, -1.0]), -TOTAL)]  # x0 + x1 <= 1.1
CHOICES = {"discrete_dims": {0: [0.1, 0.4, 0.9]}}
ON_CHOICES = torch.isclose(GRID[:, :1], float64([0.1, 0.4, 0.9])).any(-1)
BELOW = GRID.sum(-1) <= TOTAL + ROUND_OFF
COARSE = torch.isclose((10.0 * GRID).round(), 10.0 * GRID).all(-1)
POINTS = GRID[COARSE]

# How the domain is given, and which points of the grid the word in a sentence means.
DOMAINS = {
    "box": ({"bounds": SQUARE}, {}),
    "sum": (
        {"space": MixedSpace(SQUARE, inequality_constraints=SLOPE)},
        {"allowed": BELOW},
    ),
    "listed": ({"space": MixedSpace(SQUARE, **CHOICES)}, {"allowed": ON_CHOICES}),
    "both": (
        {"space": MixedSpace(SQUARE, inequality_constraints=SLOPE, **CHOICES)},
        {"allowed": ON_CHOICES & BELOW},
    ),
    "points": ({"candidates": POINTS}, {"candidate": COARSE}),
}


def band(seed, centres, weights, **options):
    r"""A band of a sum of hills, and the true values on the grid, which it holds."""
    kernel = frozen_kernel("rbf", 0.3)
    X, centres, weights = GRID[COARSE][::2], float64(centres), float64(weights)
    norm = float((weights @ kernel(centres).to_dense() @ weights).sqrt())
    values, seen = (kernel(x, centres).to_dense() @ weights for x in (GRID, X))
    data = KernelRegression(X, seen + 0.05 * normal(len(X), seed), kernel, 0.05)
    own = MartingaleMixtureUCB(data, norm_bound=1.05 * norm, **options)
    lower, upper = own.bounds(GRID)
    assert bool(((lower <= values) & (values <= upper)).all())
    return own, values


def meant(text, words, feasible):
    r"""The points of the grid that a sentence speaks of, by its words alone."""
    mask = torch.ones(len(GRID), dtype=torch.bool)
    for word, points in {**words, "feasible": feasible}.items():
        mask &= points if word in text else True
    if context := re.search(rf"in this context \(x1 {NUMBER}\)", text):
        mask &= (GRID[:, 1] - float(context[1])).abs() <= ROUND_OFF
    return mask


def numbers(pattern, text):
    return [*map(float, re.search(pattern.replace("#", NUMBER), text).groups())]


def value_at(values, point):
    return float(values[(GRID - point).abs().sum(-1).argmin()])


def check_report(report, sign, values, words, feasible):
    r"""``sign`` is -1 where small outcomes are sought."""
    optimum, gap, *_ = str(report).splitlines()
    for line in (optimum, gap, str(report.certificate)):
        best = float((sign * values[meant(line, words, feasible)]).max())
        if "between" in line:
            low, high = numbers("is between # and #", line)
            assert low - ROUND_OFF <= sign * best <= high + ROUND_OFF
        else:
            (most,) = numbers("at most # from", line)
            here = sign * value_at(values, report.recommended)
            assert best - here <= most + ROUND_OFF
    for claim in report.claims:
        check_claim(claim, report.recommended, sign, values, words, feasible)


def check_claim(claim, point, sign, values, words, feasible):
    text, mask = claim.sentence, meant(claim.sentence, words, feasible)
    here = value_at(values, point)
    if claim.kind in ("best run", "value"):
        at = float64(numbers("x0 #, x1 #(?:;| is)", text))
        low, high = numbers("between # and #", text)
        assert low <= value_at(values, at) <= high
    elif claim.kind in ("window", "anywhere"):
        near = ((GRID - point).abs() <= SHARE + ROUND_OFF).all(-1)
        mask &= near if "near it (10 %" in text else True
        (most,) = numbers("(?:higher|lower) by more than #", text)
        gains = sign * (values - here)[mask]
        assert float(gains.max()) <= most + ROUND_OFF
    elif claim.kind == "operating window" and claim.numbers[0] > 0.0:
        ends = re.findall(rf"x\d {NUMBER}(?: to {NUMBER})?", text)
        low, high = (float64([float(e[i] or e[0]) for e in ends]) for i in (0, 1))
        mask &= ((low - ROUND_OFF <= GRID) & (high + ROUND_OFF >= GRID)).all(-1)
        (level,) = numbers("is at (?:least|most) #", text)
        assert float((sign * (values[mask] - level)).min()) >= -ROUND_OFF


@pytest.fixture
def without_breakdown(monkeypatch):
    r"""Breakdown values, which take long, are for other tests."""

    def refused(*_):
        raise UnsupportedError

    monkeypatch.setattr(claims, "breakdown_of", refused)


@pytest.mark.usefixtures("without_breakdown")
@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("fixed", [None, {1: 0.1}])
@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("kind", DOMAINS)
def test_every_sentence_is_true_as_written(kind, constrained, fixed, maximize):
    r"""Windows named a hull, and gaps "anywhere" were of a context or of some points."""
    domain, words = DOMAINS[kind]
    sign = 1 if maximize else -1
    own, values = band(0, [[0.3, 0.3], [0.85, 0.85]], [2.0 * sign, -2.0], maximize=maximize)
    limit, other = band(1, [[0.3, 0.2], [0.7, 0.7]], [2.0, -2.0])
    limits = OutcomeConstraints([limit], [LEAST]) if constrained else None
    options = {**domain, "constraints": limits, "fixed_features": fixed, "window": SHARE}
    options |= {"threshold": -0.6 * sign, "max_evaluations": 500}
    report = optimum_report(own, **options)
    assert report.certified
    check_report(report, sign, values, words, other >= LEAST)


@pytest.mark.usefixtures("without_breakdown")
def test_the_best_run_is_one_of_the_domain_or_said_to_lie_outside():
    own, _ = band(0, [[0.3, 0.3], [0.8, 0.9]], [1.0, 2.0])
    X = own.band.observed
    few = {"max_evaluations": 200}
    inside = optimum_report(own, bounds=SQUARE, fixed_features={1: 0.2}, **few).claims[0]
    assert inside.sentence.startswith("best run in this context (x1 0.2): x0 0.4, x1 0.2;")
    other = optimum_report(own, bounds=SQUARE, fixed_features={1: 0.15}, **few).claims[0]
    assert other.sentence.startswith("best run (outside the domain): x0 0.7")
    limit, _ = band(1, [[0.3, 0.3], [0.8, 0.8]], [1.0, -1.0])
    limits = OutcomeConstraints([limit], [0.2])
    best = optimum_report(own, bounds=SQUARE, constraints=limits, **few).claims[0]
    assert best.sentence.startswith("best run that may be feasible: ")
    named = float64(numbers("x0 #, x1 #;", best.sentence)).unsqueeze(0)
    assert bool(limits.may_be_feasible(named))
    assert bool((named == X).all(-1).any())


def test_stops_and_certificates_name_their_domain():
    own, _ = band(0, [[0.3, 0.3], [0.8, 0.9]], [1.0, 2.0])
    limits = OutcomeConstraints([own], [0.1])
    given = {"constraints": limits, "fixed_features": {1: 0.2}}
    words = "from the optimum of the feasible candidates in this context"
    assert words in str(regret_certificate(own, POINTS, **given))
    assert words in CertifiedGapStopping(1.0, POINTS)(own, **given).reason
    assert "optimum\n" in str(regret_certificate(own, bounds=SQUARE, max_evaluations=9))


@pytest.mark.usefixtures("without_breakdown")
@pytest.mark.parametrize("offset", [0.0, 99.98, -76421.1234, 1e7])
def test_printed_intervals_contain_the_computed_ones(offset):
    r"""-7.642e+04 to -7.642e+04 was printed for an interval of width 0.01."""
    X = torch.linspace(0.0, 1.0, 9, dtype=torch.float64).unsqueeze(-1)
    Y = offset + 0.01 * torch.sin(5.0 * X[:, 0])
    kernel, mean = fixed_kernel("matern52", 0.4, 1.0), fixed_mean(offset)
    own = MartingaleMixtureUCB(KernelRegression(X, Y, kernel, 1e-3, mean), norm_bound=0.05)
    report = optimum_report(own, bounds=SQUARE[:, :1], max_evaluations=300)
    answer = confirmation(Y[:3], noise_std=1e-3)
    value = next(claim for claim in report.claims if claim.kind == "value")
    ends = (report, str(report)), (answer, str(answer))
    for (lower, upper), text in [((x.lower, x.upper), text) for x, text in ends] + [
        (value.numbers, value.sentence)
    ]:
        low, high = numbers("between # and #", text)
        assert low <= lower
        assert upper <= high
        assert high - low <= 1.03 * (upper - lower) + 1e-15 * abs(offset)
    ends, said = report.region.flatten().tolist(), numbers("within x0 # to #", str(report))
    assert said[0] <= ends[0] <= ends[1] <= said[1]


@pytest.mark.usefixtures("without_breakdown")
def test_given_numbers_are_printed_as_given():
    own, _ = band(0, [[0.3, 0.3]], [1.0])
    asked = {"threshold": -0.1234567, "tolerance": 0.7654321, "max_evaluations": 200}
    point = float64([0.1234567, 0.7])
    report = optimum_report(own, bounds=SQUARE, recommended=point, window=0.07, **asked)
    text = str(report)
    for given in ("-0.1234567", "x0 0.1234567, x1 0.7", "7 %"):
        assert given in text
    tested = [claim.tested for claim in report.claims]
    assert tested.count("by no more than 0.7654321") == 2
    found = optimum_report(own, bounds=SQUARE, max_evaluations=200)
    read = re.search(rf"recommended: x0 {NUMBER}, x1 {NUMBER}", str(found)).groups()
    assert [*map(float, read)] == found.recommended.tolist()


def test_a_breakdown_names_every_norm_and_rounds_down():
    norms = ("term 1", 6.5799), ("term 2", 2.00001)
    own = Breakdown(6.5799, 3.8, norms=norms)
    words = "the norm of term 1 is above 6.579 or the norm of term 2 is above 2"
    assert str(own) == f"stands unless {words}"
    everywhere = Breakdown(6.5799, 3.8, norms=norms, stands_throughout=True)
    assert str(everywhere) == f"stands at every norm tried unless {words}"
    noisy = Breakdown(
        6.5799, 3.8, 0.3, 4.0, norms=norms, at_norms=norms, noise_factor=1.2999
    )
    at = "at norms of 6.579 (term 1) and 2 (term 2)"
    assert f"or a noise scale is above 1.29 times the one in use {at}" in str(noisy)
    one = Breakdown(91.999, 5.5001, 2.9799, 10.999, lengthscale=0.20001)
    assert str(one) == (
        "stands unless the norm is above 91.99 (16.7 times the least that explains the "
        "data), or the noise is above 2.979 at a norm of 10.99, or the length scale is "
        "below 0.2001 at a norm of 10.99"
    )


def test_several_noise_scales_are_multiplied_and_said_to_be():
    X = torch.linspace(0.0, 1.0, 12, dtype=torch.float64).unsqueeze(-1)
    scales = torch.linspace(0.05, 0.2, 12, dtype=torch.float64)
    data = KernelRegression(X, X[:, 0].sin(), fixed_kernel("rbf", 0.3, 1.0), scales)
    own = MartingaleMixtureUCB(data, norm_bound=3.0)
    wide = float((lambda sides: sides[1] - sides[0])(own.bounds(X)).max())
    found = breakdown(own, lambda of: float(of.bounds(X)[1].max()) <= 2.0 * wide + 1.0)
    assert found.noise_std == pytest.approx(0.2 * found.noise_factor)
    assert "a noise scale is above" in str(found)
