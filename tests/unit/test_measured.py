r"""How often claims were false elsewhere: the record beside a margin, and no more."""

import pytest
import torch

from kernelucb import KernelRegression, MartingaleMixtureUCB, optimum_report
from kernelucb.certificates import claims as measured
from kernelucb.certificates.claims import Record
from problems import frozen_kernel, make_problem

GRID = torch.linspace(0.0, 1.0, 201, dtype=torch.float64).unsqueeze(-1)
KINDS = {"value", "window", "anywhere"}


def claims(n=20, **options):
    problem = make_problem(n=n, d=1, norm=4.0, seed=3)
    state = KernelRegression(problem.X, problem.Y, frozen_kernel("matern52"), 0.1)
    return optimum_report(MartingaleMixtureUCB(state, norm_bound=8.0), GRID, **options)


@pytest.mark.slow
def test_the_record_stands_beside_the_margin(monkeypatch):
    rows = [Record(kind, 15, 1.5, 400, 20, 0.1) for kind in KINDS]
    rows += [Record(kind, 15, 3.0, 400, 20, 0.005) for kind in KINDS]
    monkeypatch.setattr(measured, "records", lambda: tuple(rows))
    report = claims()
    value = next(claim for claim in report.claims if claim.kind == "value")
    assert value.margin > 3.0
    assert value.record in str(report)
    assert value.record == (
        "of 400 claims of this kind at this margin on 20 other problems 0.5 % were false"
    )
    assert {c.kind for c in report.claims if c.record} <= KINDS
    assert not any(c.record for c in claims(window=0.1).claims if c.kind == "window")
    assert not any(claim.record for claim in claims(n=14).claims)


def test_the_table_of_the_package():
    rows = measured.records()
    assert {row.kind for row in rows} == KINDS
    assert {row.runs for row in rows} == {15, 50, 100}
    for kind, runs in {(row.kind, row.runs) for row in rows}:
        shares = [r.share_false for r in rows if (r.kind, r.runs) == (kind, runs)]
        assert shares == sorted(shares, reverse=True)
