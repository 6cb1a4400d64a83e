r"""Refusals of the acquisition function of a band."""

from functools import partial

from botorch.exceptions import UnsupportedError

from kernelucb import BandUCB, KernelBandit, MartingaleMixtureUCB
from problems import frozen_kernel, make_problem

MODEL = make_problem(n=5).model
BANDIT = KernelBandit(frozen_kernel("rbf"), norm_bound=1.0, noise_std=0.1)
ACQF = MartingaleMixtureUCB(MODEL, norm_bound=3.0)
ROWS = [
    ("a model", partial(BandUCB, MODEL), UnsupportedError, "an instance of Band"),
    ("a bandit", partial(BandUCB, BANDIT), UnsupportedError, "no set of functions"),
    ("beta", partial(MartingaleMixtureUCB, MODEL, beta=2.0), TypeError, "has no beta"),
    (
        "a saved state",
        lambda: ACQF.load_state_dict(ACQF.state_dict()),
        UnsupportedError,
        "loads no state",
    ),
]
