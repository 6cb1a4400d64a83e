r"""Every law of a band over every band; and the laws find bands that break them."""

from functools import partial

import pytest
from bands import BANDS, NORM, TRUTH

from kernelucb import MartingaleMixtureUCB
from kernelucb.testing import Truth, band_checks, check_band, check_coverage
from problems import frozen_kernel

CASES = {
    f"{name}: {law}": check
    for name, band in BANDS.items()
    for law, check in band_checks(band.build, band.truth, skip=band.skip)
}


# Every law by default over bands of all kinds of sets; over the others, which are these in
# other clothes or take long, a law in so many.
WHOLE = ("filters", "unknown noise", "IGP", "sketched", "budgeted", "sum")
SHARE = 8


def _is_slow(place, case):
    return case.partition(":")[0] not in WHOLE and place % SHARE > 0


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.slow] if _is_slow(place, case) else [])
        for place, case in enumerate(CASES)
    ],
)
def test_law(case):
    CASES[case]()


# The others take up to three seconds each, and many are counted with more power by the slow
# tests of ``tests/statistical``.
SHORT = ("Srinivas", "meta")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name not in SHORT else [])
        for name in BANDS
        if name != "family of successes"
    ],
)
def test_coverage(name):
    r"""Wrongly failed with probability 1e-4; the power: ``test_a_broken_band_is_found``.

    A family of successes would take long: ``tests/statistical/test_coverage.py``.
    """
    band = BANDS[name]
    check_coverage(band.build, band.truth, runs=12 if name == "convex" else 30)


class Broken(MartingaleMixtureUCB):
    r"""A band with one defect."""

    defect = ""

    def forward(self, X):
        values = super().forward(X)
        return {
            "precision": lambda: values.float(),
            "shapes": lambda: values.unsqueeze(-1),
            "gradients": lambda: values.detach() + 0.0 * X.sum(),
            "points apart": lambda: values - values.mean(),
            "directions": lambda: self.band.latent_bounds(X.squeeze(-2))[1],
            "upper value": lambda: values + 1e-6,
        }.get(self.defect, lambda: values)()

    def set_X_pending(self, X_pending=None):
        super().set_X_pending(None if self.defect == "pending points" else X_pending)

    def bounds(self, X):
        lower, upper = super().bounds(X)
        if self.defect == "order of data":
            return lower - 1e-3 * float(self.band.data.train_inputs[0, 0]), upper
        if self.defect == "coverage":
            return lower + 0.49 * (upper - lower), upper - 0.49 * (upper - lower)
        return lower, upper

    def __setstate__(self, state):
        super().__setstate__(state)
        self._offset += self.defect == "copies"


def broken(defect, model, **options):
    acqf = Broken(model, norm_bound=NORM, **options)
    acqf.defect, within = defect, acqf.band.within
    if defect == "known range":
        acqf.band.within = lambda lower, upper: within(lower, upper + 1.0)
    return acqf


DEFECTS = [
    *("precision", "shapes", "gradients", "points apart", "directions", "upper value"),
    *("pending points", "order of data", "copies", "known range"),
]


@pytest.mark.parametrize(
    "defect", [*DEFECTS, pytest.param("coverage", marks=pytest.mark.slow)]
)
def test_a_broken_band_is_found(defect):
    r"""Each law refuses a band that breaks it; of 30 runs the narrow one misses most."""
    build = partial(broken, defect)
    if defect == "coverage":
        with pytest.raises(AssertionError, match="coverage: the band missed"):
            check_coverage(build, TRUTH, runs=30)
        return
    laws = dict(band_checks(build, TRUTH))
    with pytest.raises((AssertionError, RuntimeError, TypeError)):
        laws[defect]()


# A second for all laws and ten runs in one call: ``check_band`` is itself under test.
@pytest.mark.parametrize("runs", [10, pytest.param(30, marks=pytest.mark.slow)])
def test_check_band_runs_them_all(runs):
    result = check_band(partial(MartingaleMixtureUCB, norm_bound=NORM), TRUTH, runs=runs)
    assert result.misses <= result.limit < runs
    with pytest.raises(AssertionError, match=r"^[a-z ]+: "):
        check_band(partial(broken, "shapes"), TRUTH, runs=0)
    with pytest.raises(ValueError, match="no check"):
        check_band(partial(MartingaleMixtureUCB, norm_bound=NORM), TRUTH, skip=["taste"])


@pytest.mark.parametrize("name", ["filters", "analytic", "Abbasi-Yadkori", "Srinivas"])
def test_units(name):
    r"""Outcomes, noise and the kernel's scale in other units, with the same norm."""

    def rescaled(scale):
        kernel = frozen_kernel("rbf", 0.3, scale**2)
        truth = Truth.of_norm(NORM, kernel=kernel, noise_std=0.2 * scale, dimension=2)
        return BANDS[name].build, truth

    dict(band_checks(*rescaled(1.0), rescaled=rescaled))["units"]()
