r"""The optimum report of an Ax experiment."""

import pytest
import torch
from ax_bench import GUARDED_WARNINGS
from constrained_bench import constrained_client, problem
from test_ax_contexts import PLANE, ask, in_plane

import kernelucb.ax
from kernelucb.exceptions import NoSafePointError
from tolerances import ORDER

pytestmark = [pytest.mark.slow, *GUARDED_WARNINGS]


def played(trials):
    client = constrained_client(
        "safe",
        parameters=PLANE,
        constraints=[f"z >= {problem().threshold}"],
        num_initial=3,
        safe_arms=[{"x": problem().start}],
    )
    for step in range(trials):
        ask(client, {"t": 0.5 + 0.01 * step}, in_plane)
    return client


def test_it_is_about_the_recommended_arm_in_a_context():
    client, context = played(5), {"t": 0.52}
    report = kernelucb.ax.optimum_report(client, fixed_parameters=context)
    best = kernelucb.ax.recommended_arm(client, fixed_parameters=context)
    assert report.names == ("x", "t")
    assert report.recommended.tolist() == [best.parameters["x"], 0.52]
    # Other points of the context may be worth more for certain.
    assert report.lower >= best.objective[0] - ORDER
    assert report.region[:, 1].tolist() == [0.52, 0.52]
    decision = kernelucb.ax.CertifiedGapStoppingStrategy(0.1, client).decide(
        fixed_parameters=context
    )
    assert report.gap == pytest.approx(decision.certificate.gap)
    assert report.certified
    x = torch.linspace(0.0, 1.0, 101).tolist()
    outcomes = [in_plane({"x": value, "t": 0.52}) for value in x]
    best_safe = max(each["y"] for each in outcomes if each["z"] >= problem().threshold)
    assert report.lower <= best_safe <= report.upper


def test_without_a_certainly_feasible_arm():
    client = constrained_client(
        "explored", parameters=PLANE, constraints=["z >= 1000"], num_initial=2
    )
    for _ in range(2):
        ask(client, {"t": 0.5}, in_plane)
    with pytest.raises(NoSafePointError):
        kernelucb.ax.optimum_report(client)
