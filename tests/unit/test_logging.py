r"""What long work decides is logged under ``kernelucb``, and nothing is printed."""

import logging

import pytest
import torch

from kernelucb import (
    CertifiedGapStopping,
    MartingaleMixtureUCB,
    NormTracker,
    regret_certificate,
)
from problems import make_problem, uniform

PROBLEM = make_problem(n=12, d=2)
BOX = torch.tensor([[0.0] * 2, [1.0] * 2], dtype=torch.float64)


class Records(logging.Handler):
    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        record.getMessage()  # a wrong format raises here
        self.records.append(record)

    def of(self, name):
        found = [each for each in self.records if each.name == f"kernelucb.{name}"]
        assert {each.levelno for each in found} <= {logging.INFO}
        return [each.getMessage() for each in found]


@pytest.fixture
def log():
    logger, records = logging.getLogger("kernelucb"), Records()
    logger.addHandler(records)
    logger.setLevel(logging.DEBUG)
    yield records
    logger.removeHandler(records)
    logger.setLevel(logging.NOTSET)


def band(**options):
    options = {"norm_bound": 9.0, "noise_std": 0.1, **options}
    return MartingaleMixtureUCB(PROBLEM.state, **options)


def test_the_library_attaches_nothing_but_a_null_handler():
    logger = logging.getLogger("kernelucb")
    assert [type(handler) for handler in logger.handlers] == [logging.NullHandler]


def test_a_norm_bound_that_rises(log, capsys):
    tracker = NormTracker()
    band(norm_bound=tracker)
    (message,) = log.of("confidence.norm")
    assert f"Norm bound estimated: {tracker.norm_bound:.4g}, was 0 (least" in message
    band(norm_bound=tracker)
    assert len(log.of("confidence.norm")) == 1
    assert capsys.readouterr() == ("", "")


def test_branch_and_bound_that_uses_up_its_budget(log):
    regret_certificate(band(), bounds=BOX, max_evaluations=50)
    messages = log.of("certificates.boxes")
    assert any(" of 50 points: the maximum is between" in m for m in messages)


@pytest.mark.parametrize(("gap", "start"), [(1e-9, "Go on: "), (1e9, "Stop: ")])
def test_stopping(gap, start, log):
    CertifiedGapStopping(gap, uniform(20, 2, seed=1))(band())
    (message,) = log.of("certificates.regret")
    assert message.startswith(start)
