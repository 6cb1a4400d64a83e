r"""Two outcomes of one model, of which the second is constrained."""

import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import ModelListGP

from kernelucb import Band, BandUCB, ConstrainedUCB
from problems import make_problem, uniform

OBJECTIVE = make_problem(n=20, d=2, norm=4.0, noise_std=0.05, seed=4)
# At LEVEL a third of the square may not be feasible, and a third certainly is.
PURITY, LEVEL = make_problem(n=20, d=2, norm=4.0, noise_std=0.05, seed=6), 0.0
MODEL = ModelListGP(OBJECTIVE.model, PURITY.model)
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
GRID = uniform(300, 2, seed=9)
SEARCH = {"num_restarts": 2, "raw_samples": 32, "options": {"maxiter": 20}}
GIVEN = {"norm_bound": 5.0, "noise_std": 0.05}


def made(limits=None, **options):
    limits = {1: (LEVEL, None)} if limits is None else limits
    return ConstrainedUCB.from_model(MODEL, constraints=limits, **(GIVEN | options))


def weights(*values, offset=0.0):
    return ScalarizedPosteriorTransform(torch.tensor(values).double(), offset)


def at(acqf, X=GRID):
    return (BandUCB(acqf) if isinstance(acqf, Band) else acqf)(X.unsqueeze(-2))
