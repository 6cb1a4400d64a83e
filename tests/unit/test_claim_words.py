r"""Sentences are read back as a stranger would, and compared with the truth on a grid."""

import re

import pytest
import torch

from kernelucb import (
    KernelRegression,
    MartingaleMixtureUCB,
    MixedSpace,
    OutcomeConstraints,
    breakdown,
    confirmation,
    optimum_report,
)
from kernelucb.certificates import Breakdown
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
    "space": (
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
    found = MartingaleMixtureUCB(data, norm_bound=1.05 * norm, **options)
    found.band.relaxation = None  # no one event: no time goes into breakdown values
    lower, upper = found.bounds(GRID)
    assert bool(((lower <= values) & (values <= upper)).all())
    return found, values


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
    certificate = report.certificate
    for line in (optimum, gap, str(certificate), certificate.reason(1.0)):
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


# Reports on domains of each kind: half a second to two.
@pytest.mark.covering
@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("fixed", [None, {1: 0.1}])
@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("kind", DOMAINS)
def test_every_sentence_is_true_as_written(kind, constrained, fixed, maximize):
    r"""Windows named a hull, and gaps "anywhere" were of a context or of some points."""
    domain, words = DOMAINS[kind]
    sign, few = (1 if maximize else -1), {"max_evaluations": 200}
    centres, heights = [[0.3, 0.3], [0.85, 0.85]], [2.0 * sign, -2.0]
    objective, values = band(0, centres, heights, maximize=maximize)
    limit, other = band(1, [[0.3, 0.2], [0.7, 0.7]], [2.0, -2.0])
    limits = OutcomeConstraints([limit], [LEAST]) if constrained else None
    options = {**domain, **few, "fixed_features": fixed, "constraints": limits}
    report = optimum_report(objective, **options, window=SHARE, threshold=-0.6 * sign)
    assert report.certified
    check_report(report, sign, values, words, other >= LEAST)


FEW = {"bounds": SQUARE, "max_evaluations": 100}


# A report with all its claims: half a second.
@pytest.mark.representatives("context1-None-best run (outside the domain): x0 0.7")
@pytest.mark.parametrize(
    ("context", "level", "first"),
    [
        ({1: 0.2}, None, "best run in this context (x1 0.2): x0 0.4, x1 0.2;"),
        ({1: 0.15}, None, "best run (outside the domain): x0 0.7"),
        (None, 0.2, "best run that may be feasible: "),
    ],
)
def test_the_best_run_is_one_of_the_domain_or_said_to_lie_outside(context, level, first):
    objective, _ = band(0, [[0.3, 0.3], [0.8, 0.9]], [1.0, 2.0])
    limit, _ = band(1, [[0.3, 0.3], [0.8, 0.8]], [1.0, -1.0])
    limits = None if level is None else OutcomeConstraints([limit], [level])
    given = {"fixed_features": context, "constraints": limits}
    best = optimum_report(objective, **FEW, **given).claims[0]
    assert best.sentence.startswith(first)
    named = float64(numbers("x0 #, x1 #;", best.sentence)).unsqueeze(0)
    assert limits is None or bool(limits.may_be_feasible(named))
    assert bool((named == objective.band.observed).all(-1).any())


# A report with all its claims and a confirmation: a second.
@pytest.mark.representatives("-76421.1234")
@pytest.mark.parametrize("offset", [0.0, -76421.1234, 1e7])
def test_printed_intervals_contain_the_computed_ones(offset):
    r"""-7.642e+04 to -7.642e+04 was printed for an interval of width 0.01."""
    X = torch.linspace(0.0, 1.0, 9, dtype=torch.float64).unsqueeze(-1)
    Y = offset + 0.01 * torch.sin(5.0 * X[:, 0])
    data = KernelRegression(
        X, Y, fixed_kernel("matern52", 0.4, 1.0), 1e-3, fixed_mean(offset)
    )
    objective = MartingaleMixtureUCB(data, norm_bound=0.05)
    report = optimum_report(objective, bounds=SQUARE[:, :1], max_evaluations=100)
    answer = confirmation(Y[:3], noise_std=1e-3)
    (value,) = [claim for claim in report.claims if claim.kind == "value"]
    ends = [((x.lower, x.upper), str(x)) for x in (report, answer)]
    for (lower, upper), text in [*ends, (value.numbers, value.sentence)]:
        low, high = numbers("between # and #", text)
        assert low <= lower <= upper <= high
        assert high - low <= 1.03 * (upper - lower) + 1e-15 * abs(offset)
    ends, said = report.region.flatten().tolist(), numbers("within x0 # to #", str(report))
    assert said[0] <= ends[0] <= ends[1] <= said[1]


@pytest.mark.slow
def test_given_numbers_are_printed_as_given():
    objective, _ = band(0, [[0.3, 0.3]], [1.0])
    asked = {"threshold": -0.1234567, "tolerance": 0.7654321, "window": 0.07}
    point = float64([0.1234567, 0.7])
    report = optimum_report(objective, recommended=point, **FEW, **asked)
    for given in ("-0.1234567", "x0 0.1234567, x1 0.7", "7 %"):
        assert given in str(report)
    tested = [claim.tested or "" for claim in report.claims]
    assert sum(each.endswith("by more than 0.7654321") for each in tested) == 2
    found = optimum_report(objective, **FEW)
    assert numbers("recommended: x0 #, x1 #", str(found)) == found.recommended.tolist()


def test_a_breakdown_names_every_norm_and_rounds_down():
    norms = ("term 1", 6.5799), ("term 2", 2.00001)
    noise = {"at_norms": norms, "noise_factor": 1.2999}
    several = str(Breakdown(6.5799, 3.8, 0.3, 4.0, norms=norms, **noise))
    found = numbers(r"norm of term 1 is above # or the norm of term 2 is above #", several)
    assert found == [6.579, 2.0]
    found = numbers(r"# times the one in use at norms of # \(term 1\) and # \(", several)
    assert found == [1.29, 6.579, 2.0]
    one = str(Breakdown(91.999, 5.5001, 2.9799, 10.999, lengthscale=0.20001))
    found = numbers(r"norm is above # \(# .* noise is above # at .* # at a norm of #", one)
    assert found == [91.99, 16.7, 2.979, 0.2001, 10.99]


def test_several_noise_scales_are_multiplied_and_said_to_be():
    X = torch.linspace(0.0, 1.0, 12, dtype=torch.float64).unsqueeze(-1)
    scales = torch.linspace(0.05, 0.2, 12, dtype=torch.float64)
    data = KernelRegression(X, X[:, 0].sin(), frozen_kernel("rbf", 0.3), scales)
    objective = MartingaleMixtureUCB(data, norm_bound=3.0)
    most = 2.0 * float(objective.bounds(X)[1].max()) + 1.0
    found = breakdown(objective, lambda band: float(band.bounds(X)[1].max()) <= most)
    assert found.noise_std == pytest.approx(0.2 * float(found.noise_factor))
    assert "a noise scale is above" in str(found)
