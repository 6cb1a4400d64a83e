r"""Models beside the exact one, on a device."""

from copy import deepcopy

import torch

from device_acquisitions import NORM, meta_model
from kernelucb import MetaUCB, NystromRegression, SketchedMartingaleMixtureUCB
from kernelucb.models import BKBModel, DiscreteMetaModel
from problems import frozen_kernel, make_problem, uniform

MANY = make_problem(n=40, d=2, kernel="matern52")


def budgeted_model(there):
    r"""One that is made there, and one that moves there."""
    X, Y = MANY.X, MANY.Y.unsqueeze(-1)
    kernel = frozen_kernel("matern52")
    made = BKBModel(X.to(there.device), Y.to(there.device), kernel, 0.04, 0.6)
    moved = deepcopy(BKBModel(X, Y, kernel, 0.04, 0.6)).to(there.device)
    moved = moved.observe(X[:1].to(there.device), Y[:1].to(there.device))
    posterior = made.posterior(there.points.unsqueeze(-2))
    return [posterior.mean, posterior.variance, moved.inducing_points]


def sketched_update(there):
    X, Y = MANY.X.to(there.device), MANY.Y.to(there.device)
    state = NystromRegression(X, Y, there.kernel, 0.1, X[:10]).observe(X[:1], Y[:1])
    return list(SketchedMartingaleMixtureUCB(state, **NORM).bounds(there.points))


def earlier_tasks(there):
    model = meta_model(there).condition_on_observations(there.points[:1], there.Y[:1])
    gp = model.to_gp(there.points, there.Y[:2], 0.1)
    values = torch.outer(there.tasks[:, 0], torch.arange(1.0, 5.0).to(there.tasks))
    values[0, 0] = torch.nan
    arms = uniform(4, 2, 8).to(there.device)
    completed = DiscreteMetaModel(values, arms)
    norms = completed.task_norms(completed.completion.values)
    parts = [gp.train_inputs[0], completed.completion.values, norms]
    return [*MetaUCB(model, delta=0.9).bounds(there.points), *parts]
