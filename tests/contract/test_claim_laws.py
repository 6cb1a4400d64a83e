r"""Laws of reports and claims over every band: true, ordered in delta, same in units."""

import pytest
import torch
from bands import BANDS
from botorch.models.transforms import Standardize

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    MartingaleMixtureUCB,
    WangDeFreitasUCB,
    optimum_report,
)
from problems import frozen_model, generator, make_problem, uniform
from tolerances import ORDER

AXIS = torch.linspace(0.0, 1.0, 5, dtype=torch.float64)
GRID = torch.cartesian_prod(AXIS, AXIS)
WINDOW = 0.25
# Meta: the tables behind it are no function's, and its theorem states no one delta.
# Budgeted: it has no noise scale to ask for, which the default tolerance needs.
# Half a second to four: what their sets have of their own is tried by other quick laws.
LONG = ("convex", "transformed", "logarithmic", "family", "counts", "constrained")
LONG += ("successes", "family of successes")
NAMES = [
    pytest.param(name, marks=[pytest.mark.slow] if name in LONG else [])
    for name in BANDS
    if name not in ("meta", "budgeted")
]


def reported(name, **options):
    r"""A band at runs of its truth, and the report on the grid."""
    entry, X = BANDS[name], uniform(16, 2, 2)
    torch.manual_seed(0)
    band = entry.build(entry.truth.model_of(X, entry.truth.outcomes(X, generator(2))))
    return band, optimum_report(band, GRID, baseline=GRID[7], **options)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", NAMES)
def test_every_number_is_on_the_true_side(name):
    f = BANDS[name].truth.function
    threshold = float(f(GRID).median())
    band, report = reported(name, window=WINDOW, threshold=threshold)
    counted = f(GRID) >= (0.0 if name == "constrained" else -torch.inf)
    here = float(f(report.recommended.unsqueeze(0)))
    near = ((GRID - report.recommended).abs() <= WINDOW).all(-1)
    gains = (f(GRID) - here).where(counted, -torch.inf)
    assert report.lower <= here + float(gains.max()) <= report.upper
    assert float(gains.max()) <= report.gap
    if band.band.assumptions.violated:
        assert report.claims == ()
        return
    kinds = {claim.kind: claim.numbers for claim in report.claims}
    assert {"value", "baseline", "window", "operating window", "anywhere"} <= kinds.keys()
    low, high = kinds["value"]
    assert low <= here <= high
    assert kinds["baseline"][0] <= here - float(f(GRID[7:8]))
    assert float(gains[near].max()) <= kinds["window"][0] <= kinds["anywhere"][0] + ORDER
    (share,) = kinds["operating window"]
    inside = ((GRID - report.recommended).abs() <= share).all(-1)
    assert share == 0.0 or float(f(GRID[inside & counted]).min()) >= threshold
    for claim in report.claims:
        assert (claim.margin > 0.0) <= ("stands" in claim.support)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", NAMES)
def test_a_smaller_delta_says_less(name):
    band, report = reported(name)
    surer = band.band.at(delta=0.5 * band.band.delta)
    other = optimum_report(surer, GRID, recommended=report.recommended)
    slack = ORDER * max(1.0, abs(report.gap))
    assert other.gap >= report.gap - slack
    assert other.lower <= report.lower + slack
    assert other.upper >= report.upper - slack


# Kernels of a family are in outcome units, whatever the model's.
CLASSES = {
    MartingaleMixtureUCB: {},
    AbbasiYadkoriUCB: {},
    IGPUCB: {},
    WangDeFreitasUCB: {"fixed_design": True},
}


@pytest.mark.representatives("AbbasiYadkoriUCB", "WangDeFreitasUCB")
@pytest.mark.parametrize("bound", CLASSES)
def test_in_other_units_the_same_is_said(bound):
    r"""Numbers are in outcome units; margins have none."""
    problem = make_problem(n=12, d=2, norm=3.0, seed=2)

    def said(unit):
        data = problem.X, unit * problem.Y, problem.kernel, problem.noise_std
        model = frozen_model(*data, outcome_transform=Standardize(m=1))
        band = bound(model, norm_bound=unit * 6.0, **CLASSES[bound])
        return optimum_report(band, GRID, baseline=GRID[7])

    one, other = said(1.0), said(1024.0)
    assert torch.equal(one.recommended, other.recommended)
    assert 1024.0 * one.gap == pytest.approx(other.gap, rel=1e-6)
    assert [each.kind for each in one.claims] == [each.kind for each in other.claims]
    for mine, theirs in zip(one.claims, other.claims, strict=True):
        assert [1024.0 * x for x in mine.numbers] == pytest.approx(theirs.numbers, rel=1e-6)
        assert mine.margin == pytest.approx(theirs.margin, rel=1e-6)
