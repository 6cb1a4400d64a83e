r"""What pictures refuse."""

from unittest.mock import patch

import torch
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError

from kernelucb import MartingaleMixtureUCB, SafeSet, SrinivasUCB, regret_certificate
from kernelucb.plotting import (
    plot_bands,
    plot_gap,
    plot_replicates,
    plot_safe_set,
    plot_slice,
)
from problems import make_problem

PROBLEM = make_problem(n=6, d=2)
X, Y = PROBLEM.X, PROBLEM.Y
BOX = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
BAND = MartingaleMixtureUCB(PROBLEM.model, norm_bound=3.0)
SRINIVAS = SrinivasUCB(PROBLEM.model)
GAPS = [regret_certificate(BAND, X)]
AT = {"bounds": BOX}
SAFE_SET = SafeSet(BAND, -9.0)


def without_matplotlib():
    with patch.dict("sys.modules", {"matplotlib.pyplot": None}):
        plot_bands({"a": BAND}, X)


def sliced(acqf=BAND, point=X[0], **options):
    return lambda: plot_slice(acqf, point, **AT, **options)


ROWS = [
    ("no band", lambda: plot_bands({}, X), ValueError, "at least one acquisition"),
    ("a model", lambda: plot_bands({"a": PROBLEM.model}, X), UnsupportedError, "a must be"),
    ("names", sliced(input_names=["a"]), ValueError, "input_names has 1 entries for 2"),
    ("point", sliced(point=X[0, :1]), BotorchTensorDimensionError, "point must be"),
    ("witness", sliced(SRINIVAS, witness=True), UnsupportedError, "no witness; leave out"),
    ("twice", lambda: plot_safe_set(SAFE_SET, **AT, coordinates=[0, 0]), ValueError, "two"),
    ("no gap", lambda: plot_gap([None]), ValueError, "certificates must hold"),
    ("rounds", lambda: plot_gap(GAPS, rounds=[]), ValueError, "rounds has 0 entries for 1"),
    ("true", lambda: plot_gap(GAPS, true_gaps=[]), ValueError, "true_gaps must be one"),
    ("number", lambda: plot_gap([0.5]), UnsupportedError, "float is no certificate; give"),
    ("repeats", lambda: plot_replicates(X, Y), ValueError, "no repeated input"),
    ("no library", without_matplotlib, ImportError, r"pip install kernelucb\[plot\]"),
]
