r"""Coverage where the noise scale is unknown: of its interval, and of the band.

A sequence counts as a failure as soon as the interval misses the true scale, or the band
the truth, in any round looked at. If they hold with probability ``1 - delta``, the
failures among ``n`` sequences are at most binomial ``(n, delta)``; the tests fail when
there are more than all but a share ``COVERAGE_FALSE_ALARM`` (1e-6) of such counts.
"""

import copy
import math

import pytest
import torch
from scipy.stats import binom

from kernelucb import KernelRegression, StreamingKernelUCB, StreamingNoiseTracker
from problems import RKHSFunction, frozen_kernel, generator, uniform
from tolerances import COVERAGE_FALSE_ALARM

DELTA, SIGMA, NORM = 0.2, 0.3, 1.0
KNOWN = {"noise_lower": 0.1, "noise_upper": 2.0}
UNKNOWN = {"noise_lower": 0.1, "noise_upper": None}


def allowed_failures(sequences):
    return int(binom.isf(COVERAGE_FALSE_ALARM, sequences, DELTA))


class Sequences:
    r"""Many outcome sequences at the same inputs, which are chosen in advance.

    They share one eigendecomposition for each round: a state is a copy with other targets.
    """

    COUNT, ROUNDS = 1000, (1, 2, 3, 5, 10, 20, 40, 80, 160, 330)

    def __init__(self, kernel):
        length = self.ROUNDS[-1]
        X, random = uniform(length, 1, seed=60), generator(61)
        truth = RKHSFunction.random(kernel, NORM, 1, seed=62)(X)
        noise = torch.randn(self.COUNT, length, dtype=torch.float64, generator=random)
        outcomes = truth + SIGMA * noise
        self.states, self.targets = [], []
        for n in self.ROUNDS:
            values, vectors = torch.linalg.eigh(kernel(X[:n]).to_dense())
            state = KernelRegression(X[:n], truth[:n], kernel, 1.0)
            state.eigenvalues = values.clamp_min(0.0)
            self.states.append(state)
            self.targets.append(outcomes[:, :n] @ vectors)

    def intervals(self, index, tracker):
        for state, targets in zip(self.states, self.targets, strict=True):
            one = copy.copy(state)
            one._buffers = {**state._buffers, "targets": targets[index]}
            yield tracker.update(one)

    def runs(self, norm_bound=NORM, **known):
        r"""All intervals, ``COUNT x rounds x 2``."""
        return torch.tensor(
            [
                list(
                    self.intervals(
                        index,
                        StreamingNoiseTracker(norm_bound, delta=DELTA, **known),
                    )
                )
                for index in range(self.COUNT)
            ],
            dtype=torch.float64,
        )


@pytest.fixture(scope="module")
def sequences():
    return Sequences(frozen_kernel("rbf", 1.0))


def failures(intervals, scale=SIGMA):
    missed = (intervals[..., 0] > scale) | (intervals[..., 1] < scale)
    return int(missed.any(-1).sum())


@pytest.mark.parametrize("known", [KNOWN, UNKNOWN], ids=["known above", "unknown above"])
def test_noise_interval_holds_at_every_round(sequences, known):
    intervals = sequences.runs(**known)
    limit = allowed_failures(Sequences.COUNT)
    assert failures(intervals) <= limit
    last = intervals[:, -1]
    assert bool((last[:, 0] > known["noise_lower"]).all())  # the data did say something
    assert bool((last[:, 1] < (known["noise_upper"] or math.inf)).all())
    # The same test finds out a scale that is not the true one.
    assert failures(intervals, 0.5 * SIGMA) > limit
    assert failures(intervals, 5.0 * SIGMA) > limit


ARMS = torch.linspace(0.0, 1.0, 40, dtype=torch.float64).unsqueeze(-1)
RUNS, HORIZON = 60, 20


def first_failure(kernel, seed, tracked, claim=1.0, **known):
    r"""Round in which the band first misses the function on the arms; None if never."""
    function = RKHSFunction.random(kernel, NORM, d=1, seed=1000 * seed)
    truth, random = function(ARMS), generator(seed)
    chosen, outcomes = [int(torch.randint(len(ARMS), (), generator=random))], []
    norm_bound = claim * NORM
    known = {name: value and claim * value for name, value in known.items()}
    tracker = StreamingNoiseTracker(norm_bound, delta=DELTA, **known) if tracked else None
    for round_number in range(1, HORIZON + 1):
        noise = torch.randn((), dtype=torch.float64, generator=random)
        outcomes.append(truth[chosen[-1]] + SIGMA * noise)
        acqf = StreamingKernelUCB(
            KernelRegression(ARMS[chosen], torch.stack(outcomes), kernel, 1.0),
            norm_bound=norm_bound,
            delta=DELTA,
            tracker=tracker,
            **known,
        )
        lower, upper = acqf.bounds(ARMS)
        if bool(((truth < lower) | (truth > upper)).any()):
            return round_number
        chosen.append(int(upper.argmax()))
    return None


def count_failures(**options):
    kernel = frozen_kernel("rbf", 0.3)
    runs = [first_failure(kernel, seed, **options) for seed in range(RUNS)]
    return sum(run is not None for run in runs)


@pytest.mark.parametrize(
    ("tracked", "known"),
    [(True, KNOWN), (False, UNKNOWN)],
    ids=["tracked, known above", "from all data, unknown above"],
)
def test_band_holds_at_every_round(tracked, known):
    assert count_failures(tracked=tracked, **known) <= allowed_failures(RUNS)


@pytest.mark.filterwarnings("ignore::kernelucb.exceptions.InconsistentConfidenceSetWarning")
def test_a_wrong_claim_is_found_out():
    r"""The same test fails for a norm and noise scales understated by ten."""
    assert count_failures(tracked=True, claim=0.1, **KNOWN) > allowed_failures(RUNS)
