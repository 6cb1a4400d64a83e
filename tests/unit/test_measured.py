r"""Measured claims: what they say, that they are of other methods' numbers, and no more."""

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from gpytorch.mlls import ExactMarginalLogLikelihood

from kernelucb import KernelRegression, MartingaleMixtureUCB, optimum_report
from kernelucb.certificates import measured
from kernelucb.certificates.measured import Record
from kernelucb.certificates.task import Task
from problems import frozen_kernel, make_problem

GRID = torch.linspace(0.0, 1.0, 201, dtype=torch.float64).unsqueeze(-1)
LINE = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
KINDS = measured.KINDS


def band(n=20, sign=1):
    problem = make_problem(n=n, d=1, norm=4.0, seed=3)
    state = KernelRegression(problem.X, sign * problem.Y, frozen_kernel("matern52"), 0.1)
    return MartingaleMixtureUCB(state, norm_bound=8.0, maximize=sign > 0)


def told(monkeypatch, margin=0.3, deviations=0.2):
    r"""A table in which the narrower method is known."""
    rows = []
    for kind in KINDS:
        for method, width in (("margin", margin), ("deviations", deviations)):
            rows += [
                Record(kind, 15, method, 1.5, 400, 20, 0.1, 0.2, 0.1),
                Record(kind, 15, method, 3.0, 400, 20, 0.005, 0.048, width),
            ]
    monkeypatch.setattr(measured, "records", lambda: tuple(rows))


def claims(of, reliability=0.95, **options):
    report = optimum_report(of, GRID, reliability=reliability, **options)
    return {claim.kind: claim for claim in report.claims if claim.status}


def test_without_a_reliability_the_record_stands_beside_the_margin(monkeypatch):
    told(monkeypatch)
    report = optimum_report(band(), GRID)
    assert not any(claim.status for claim in report.claims)
    value = next(claim for claim in report.claims if claim.kind == "value")
    assert value.margin > 3.0
    words = (
        "of 400 claims of this kind at this margin on 20 other problems 0.5 % were false"
    )
    assert value.record == words
    assert words in str(report)
    others = {c.kind for c in report.claims if c.record}
    assert others <= {"value", "window", "anywhere"}
    wide = optimum_report(band(), GRID, window=0.1).claims
    assert not any(claim.record for claim in wide if claim.kind == "window")


def test_by_margins_they_are_the_relaxed_band(monkeypatch):
    told(monkeypatch, margin=0.1)
    own = band()
    point = GRID[own.bounds(GRID)[0].argmax()].unsqueeze(0)
    found = claims(own, recommended=point)
    whole = own.relaxed()
    relaxed = whole.relaxed(3.0 * whole.least_norm_factor)
    assert float(relaxed.norm_bound) == pytest.approx(
        3.0 * own.relaxed().least_norm_factor * 8
    )
    sides = torch.cat(relaxed.bounds(point)).tolist()
    near = GRID[((GRID - point).abs() <= 0.05 + 1e-12).squeeze(-1)]
    gains = [float(relaxed.max_gain_over(X, point).max()) for X in (near, GRID)]
    assert found["value"].numbers == pytest.approx(sides)
    assert found["window"].numbers == pytest.approx(gains[:1])
    assert found["anywhere"].numbers == pytest.approx(gains[1:])
    floor = float(relaxed.bounds(near)[0].min())
    assert " at every candidate near it" in found["window floor"].statement
    assert found["window floor"].numbers == pytest.approx((floor,))
    assert found["value"].status.startswith("measured: at margin 3; of 400 claims")


def test_by_deviations_they_are_the_default_model(monkeypatch):
    told(monkeypatch)
    own = band()
    X, Y = own.model.train_inputs, own.model.train_targets.unsqueeze(-1)
    scaling = Normalize(1, bounds=LINE)
    model = SingleTaskGP(X, Y, outcome_transform=Standardize(1), input_transform=scaling)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    scale = float(Y.std())
    model.likelihood.noise = (0.1 / scale) ** 2  # the noise scale that the band was given
    point = GRID[120].unsqueeze(0)
    with torch.no_grad():
        joint = model.posterior(torch.cat([point, GRID]))
    mean, covariance = joint.mean.squeeze(-1), joint.distribution.covariance_matrix
    deviation = covariance.diagonal().sqrt()
    change = covariance.diagonal() + covariance[0, 0] - 2.0 * covariance[0]
    gains = mean - mean[0] + 3.0 * change.clamp_min(0.0).sqrt()
    found = claims(own, recommended=point)
    value = [float(mean[0] + z * deviation[0]) for z in (-3.0, 3.0)]
    assert found["value"].numbers == pytest.approx(value, rel=1e-3)
    assert found["anywhere"].numbers == pytest.approx((float(gains.max()),), rel=1e-3)
    assert "3 posterior deviations of a fitted SingleTaskGP" in found["value"].status


def test_a_known_range_bounds_them_too(monkeypatch):
    r"""A gap of 60 % was said to be measured beside a proven one of 17 %."""
    told(monkeypatch)
    plain = claims(band())
    value, gap = plain["value"].numbers, plain["anywhere"].numbers[0]
    highest = value[1] - 0.1 * (value[1] - value[0])
    ranged = claims(band().within(upper=highest))
    assert ranged["value"].numbers == pytest.approx((value[0], highest))
    expected = min(gap, highest - value[0])
    assert ranged["anywhere"].numbers == pytest.approx((expected,))


def test_the_mirrored_problem_says_the_mirrored_claims(monkeypatch):
    told(monkeypatch)
    point = GRID[120]
    own, other = (claims(band(sign=sign), recommended=point) for sign in (1, -1))
    assert own["value"].numbers == pytest.approx([-x for x in other["value"].numbers[::-1]])
    assert own["window floor"].numbers[0] == pytest.approx(
        -other["window floor"].numbers[0]
    )
    assert "at most" in other["window floor"].statement
    for kind in ("window", "anywhere"):
        assert own[kind].numbers == pytest.approx(other[kind].numbers)


def test_they_are_not_certified_and_change_nothing_else(monkeypatch):
    told(monkeypatch)
    plain = optimum_report(band(), GRID)
    report = optimum_report(band(), GRID, reliability=0.95)
    assert report.claims[: len(plain.claims)] == plain.claims
    assert report.certified == plain.certified
    assert report.gap == plain.gap
    added = report.claims[len(plain.claims) :]
    assert [claim.kind for claim in added] == [*KINDS]
    for claim in added:
        assert not claim.rigorous
        assert claim.breakdown is None
        assert "certified" not in str(claim)
        assert claim.to_dict()["status"] == claim.status != ""


@pytest.mark.parametrize("widths", [(0.1, 0.2), (0.2, 0.1)])
def test_on_a_box_local_searches_find_no_less(monkeypatch, widths):
    told(monkeypatch, *widths)
    found = []
    for domain in ({"candidates": GRID}, {"bounds": LINE}):
        task = Task.of(
            band(), None, *map(domain.get, ("candidates", "bounds")), *[None] * 3
        )
        point = GRID[120:121]
        own = measured.measured(task, point, task.around(point[0], 0.05), 0.95)
        found.append({record.kind: numbers for record, numbers in own})
    finite, box = found
    assert box["value"] == pytest.approx(finite["value"])
    assert box["window floor"][0] <= finite["window floor"][0] + 1e-9
    for kind in ("window", "anywhere"):
        assert finite[kind][0] <= box[kind][0] + 1e-9 < 1.1 * finite[kind][0]


def test_none_where_nothing_was_measured(monkeypatch):
    told(monkeypatch)
    assert not claims(band(n=14))
    assert not any(claim.record for claim in optimum_report(band(n=14), GRID).claims)
    assert not claims(band(), reliability=0.99)
    with pytest.raises(ValueError, match="reliability"):
        optimum_report(band(), GRID, reliability=1.0)


def test_the_table_of_the_package():
    rows = measured.records()
    assert {row.kind for row in rows} == set(KINDS)
    assert {row.method for row in rows} == set(measured.METHODS)
    assert min(row.runs for row in rows) == 15
    for kind in KINDS:
        for runs in {row.runs for row in rows}:
            for method in measured.METHODS:
                own = measured._known(kind, method, runs)
                shares = [row.share_false for row in own]
                assert shares == sorted(shares, reverse=True)
    assert all(
        max(row.share_false, 1 / (row.problems + 1)) - 1e-4 <= row.at_most for row in rows
    )
    found = claims(band())
    assert set(found) == set(KINDS)
