r"""Refusals of pictures."""

from functools import partial
from unittest.mock import patch

from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError

from kernelucb import MartingaleMixtureUCB, SafeSet, SrinivasUCB, regret_certificate
from kernelucb.plotting import (
    plot_bands,
    plot_gap,
    plot_replicates,
    plot_safe_set,
    plot_slice,
)
from problems import float64, make_problem

PROBLEM = make_problem(n=6, d=2)
X, Y, BOX = PROBLEM.X, PROBLEM.Y, float64([[0.0, 0.0], [1.0, 1.0]])
BAND, SRINIVAS = (
    MartingaleMixtureUCB(PROBLEM.model, norm_bound=3.0),
    SrinivasUCB(PROBLEM.model),
)
GAPS, bands = [regret_certificate(BAND, X)], partial(plot_bands, X=X)
sliced = partial(plot_slice, BAND, bounds=BOX)
twice = partial(plot_safe_set, SafeSet(BAND, -9.0), bounds=BOX, coordinates=[0, 0])
witness = partial(plot_slice, SRINIVAS, X[0], bounds=BOX, witness=True)


def without_matplotlib():
    with patch.dict("sys.modules", {"matplotlib.pyplot": None}):
        bands({"a": BAND})


ROWS = [
    ("no band", partial(bands, {}), ValueError, "at least one acquisition"),
    ("a model", partial(bands, {"a": PROBLEM.model}), UnsupportedError, "a must be"),
    ("names", partial(sliced, X[0], names=["a"]), ValueError, "has 1 entries for 2"),
    ("point", partial(sliced, X[0, :1]), BotorchTensorDimensionError, "point must"),
    ("witness", witness, UnsupportedError, "no witness; leave out"),
    ("twice", twice, ValueError, "two"),
    ("no gap", partial(plot_gap, [None]), ValueError, "certificates must hold"),
    (
        "rounds",
        partial(plot_gap, GAPS, rounds=[]),
        ValueError,
        "rounds has 0 entries for 1",
    ),
    ("true", partial(plot_gap, GAPS, true_gaps=[]), ValueError, "true_gaps must be one"),
    ("number", partial(plot_gap, [0.5]), UnsupportedError, "float is no certificate; give"),
    ("repeats", partial(plot_replicates, X, Y), ValueError, "no repeated input"),
    ("no library", without_matplotlib, ImportError, r"pip install kernelucb\[plot\]"),
]
