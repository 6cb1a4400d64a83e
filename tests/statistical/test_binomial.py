r"""What the verdicts of the coverage tests rest on."""

import pytest
from scipy.stats import binom
from simulation import LEAST_POWER, Claim

from tolerances import COVERAGE_FALSE_ALARM


@pytest.mark.parametrize(("sequences", "delta"), [(36, 0.4), (68, 0.3), (4000, 0.1)])
def test_limit_false_alarm_and_power(sequences, delta):
    claim = Claim(sequences, delta)
    assert claim.false_alarm == binom.sf(claim.limit, sequences, delta)
    assert claim.false_alarm <= COVERAGE_FALSE_ALARM
    assert binom.sf(claim.limit - 1, sequences, delta) > COVERAGE_FALSE_ALARM
    assert claim.power == binom.sf(claim.limit, sequences, 2.0 * delta) >= LEAST_POWER


@pytest.mark.parametrize(("sequences", "delta"), [(30, 0.2), (60, 0.2), (200, 0.1)])
def test_too_few_sequences_are_refused(sequences, delta):
    with pytest.raises(ValueError, match=r"the power must be at least 0\.9"):
        Claim(sequences, delta)


def test_the_verdict_of_a_part_is_the_verdict_of_all():
    r"""Failures first, last or mixed, at the limit and above it."""
    claim = Claim(36, 0.4)
    for count in (0, claim.limit, claim.limit + 1, 36):
        first = [True] * count + [False] * (36 - count)
        for failures in (first, first[::-1], first[::2] + first[1::2]):
            looked_at = iter(failures)
            assert claim.stands(looked_at) == claim.stands(count) == (count <= claim.limit)
    assert len([*looked_at]) == 35 - claim.limit


def test_a_verdict_needs_the_numbers_stated(stands):
    r"""36 sequences at delta 0.4: false alarm 9.1e-05, power 0.911."""
    claim = Claim(36, 0.4)
    assert stands(claim, claim.limit)
    assert not stands(claim, claim.limit + 1)
    with pytest.raises(AssertionError, match="state in the docstring: 68 sequences"):
        stands(Claim(68, 0.3), 0)
