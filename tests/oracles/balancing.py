r"""Algorithm 1 of Ziomek, Adachi & Osborne (2024), line by line, for a fixed family.

Kept apart from the package: lists of every play, sums made anew in each round.
"""

import math


def averages_error(noise_std: float, count: int, total: int, delta: float) -> float:
    r"""Square root of ``xi_t``, Theorem 4.1, where there are ``count`` learners."""
    return math.sqrt(
        2.0 * noise_std**2 * math.log(count * (math.pi * total) ** 2 / 3 / delta)
    )


class LengthScaleBalancing:
    r"""Which base learner plays, lines 3 and 7 to 13.

    With the error of the average added for the learner that may be rejected, as in the
    authors' code, and widths ``2 beta sigma`` given.
    """

    def __init__(self, count: int, noise_std: float, delta: float) -> None:
        self.noise_std, self.delta = noise_std, delta
        self.outcomes: list[list[float]] = [[] for _ in range(count)]
        self.widths: list[list[float]] = [[] for _ in range(count)]
        self.dropped = [False] * count

    def _allowed(self, consistent: list[int]) -> list[int]:
        return [i for i in consistent if not self.dropped[i]] or consistent

    def choose(self, norms: list[float], gains: list[float], consistent: list[int]) -> int:
        r"""Line 3, with ``R(T) = sqrt(T) (B sqrt(gamma) + gamma)`` of Theorem 2.3."""
        regrets = {}
        for i in self._allowed(consistent):
            plays = len(self.outcomes[i]) + 1
            regrets[i] = math.sqrt(plays) * (norms[i] * math.sqrt(gains[i]) + gains[i])
        return min(regrets, key=lambda i: (regrets[i], i))

    def learn(
        self, learner: int, outcome: float, width: float, consistent: list[int]
    ) -> None:
        r"""Lines 7 to 13."""
        self.outcomes[learner].append(outcome)
        self.widths[learner].append(width)
        allowed = self._allowed(consistent)
        if any(not self.outcomes[i] for i in allowed):
            return
        count, total = len(self.outcomes), sum(map(len, self.outcomes))
        root = averages_error(self.noise_std, count, total, self.delta)
        means = {i: sum(self.outcomes[i]) / len(self.outcomes[i]) for i in allowed}
        errors = {i: root / math.sqrt(len(self.outcomes[i])) for i in allowed}
        best = max(means[i] - errors[i] for i in allowed)
        for i in allowed:
            width = sum(self.widths[i]) / len(self.widths[i])
            if means[i] + width + errors[i] < best:
                self.dropped[i] = True
