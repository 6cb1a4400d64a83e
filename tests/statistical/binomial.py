r"""How many of a number of sequences may fail, and what such a count would find out.

A bound that holds with probability ``1 - delta`` fails in at most a binomial number of
independent sequences. A test allows ``limit`` of them. Its false-alarm rate is the
probability that a bound which fails in exactly a share ``delta`` is rejected, over seeds
(those of the tests are fixed); its power the probability that one which fails in a share
``2 delta`` is.
"""

from scipy.stats import binom

from tolerances import COVERAGE_FALSE_ALARM

LEAST_POWER = 0.9


class Claim:
    r"""A bound is said to fail in at most a share ``delta`` of ``sequences``.

    Attributes:
        limit: Most failures with which the claim stands.
        false_alarm: Probability of more where the share is ``delta``.
        power: Probability of more where the share is ``2 delta``.
    """

    def __init__(self, sequences: int, delta: float) -> None:
        r"""Raises ValueError where the sequences are too few to find out ``2 delta``."""
        self.sequences, self.delta = sequences, delta
        self.limit = int(binom.isf(COVERAGE_FALSE_ALARM, sequences, delta))
        self.false_alarm = float(binom.sf(self.limit, sequences, delta))
        self.power = float(binom.sf(self.limit, sequences, min(2.0 * delta, 1.0)))
        if self.power < LEAST_POWER:
            raise ValueError(
                f"{self}: the power must be at least {LEAST_POWER}; use more sequences or "
                "a larger delta."
            )

    def __str__(self) -> str:
        return (
            f"{self.sequences} sequences at delta {self.delta:g}: false alarm "
            f"{self.false_alarm:.1e}, power {self.power:.3f}"
        )
