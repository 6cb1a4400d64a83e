r"""What confidence sets and acquisition functions ask of their state: each state has it.

The types are pyright's to prove; here the values.
"""

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import ModelListGP

from kernelucb import NystromRegression, ScalarizedUCB
from kernelucb.confidence.meta import PosteriorState
from kernelucb.models import BKBModel, DiscreteMetaModel
from problems import make_problem, normal, uniform

PROBLEM = make_problem(n=12, d=1)
KERNEL, QUERIES = PROBLEM.kernel, uniform(5, 1, 9)
CANDIDATES = torch.cat([QUERIES, PROBLEM.X])


def posterior():
    tasks = normal(40 * len(CANDIDATES), 7).reshape(40, -1)
    model = DiscreteMetaModel(tasks, CANDIDATES)
    return PosteriorState(
        model.condition_on_observations(PROBLEM.X[:3], PROBLEM.Y[:3].unsqueeze(-1))
    )


def weighted():
    model = ModelListGP(PROBLEM.model, PROBLEM.model)
    weights = ScalarizedPosteriorTransform(torch.tensor([2.0, -0.5]).double(), offset=3.0)
    acqf = ScalarizedUCB.from_model(model, posterior_transform=weights, norm_bound=3.0)
    return acqf.regression


STATES = {
    "exact": lambda: PROBLEM.state,
    "pending": lambda: PROBLEM.state.with_pending(uniform(2, 1, 8)),
    "sketched": lambda: NystromRegression(PROBLEM.X, PROBLEM.Y, KERNEL, 0.1, PROBLEM.X[:6]),
    "BKB": lambda: BKBModel(
        PROBLEM.X, PROBLEM.Y.unsqueeze(-1), KERNEL, 0.01, 20.0
    ).regression(),
    "posterior": posterior,
    "weighted": weighted,
}


@pytest.mark.parametrize("name", STATES)
def test_every_state_has_what_its_readers_ask_for(name):
    state = STATES[name]()
    assert state.dimension == 1
    assert state.num_observations == (3 if name == "posterior" else 12)
    assert state.prior_std > 0.0
    assert state.mean(QUERIES).shape == (5,)
    points = state.project(QUERIES)
    assert points.baseline.shape == (5,)
    inputs = QUERIES.clone().requires_grad_(name != "posterior")  # on candidates alone
    assert not state.project(inputs).detach().baseline.requires_grad
    pending = state.with_pending(QUERIES[:1])
    assert pending.dimension == 1
    assert pending.prior_std == pytest.approx(state.prior_std, rel=0.2)
    assert pending.project(QUERIES).baseline.shape == (5,)
