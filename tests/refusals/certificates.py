r"""Refusals of certificates, reports, stops, claims, plans and spaces."""

import math
from functools import partial

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError

from kernelucb import (
    IGPUCB,
    CertifiedGapStopping,
    ConstrainedUCB,
    MartingaleMixtureUCB,
    MixedSpace,
    OutcomeConstraints,
    breakdown,
    confirmation,
    optimum_report,
    regret_certificate,
    runs_needed,
)
from kernelucb.exceptions import NoSafePointError
from problems import float64, frozen_kernel, make_problem, uniform

LINE, SQUARE = (float64([[0.0] * d, [1.0] * d]) for d in (1, 2))
MODEL, POINTS = make_problem(n=10, d=2, norm=3.0).model, uniform(50, 2, 3)
PLANE = MartingaleMixtureUCB(MODEL, norm_bound=3.0)
SOLID = MartingaleMixtureUCB(make_problem(n=4, d=3).model, norm_bound=3.0)
BOX = {"bounds": SQUARE}
LISTED = {"space": MixedSpace(SQUARE, discrete_dims={0: [0.0, 0.5]})}
WEIGHTS = [-1.0, -1.0]
SUM = {"inequality_constraints": [(torch.tensor([0, 1]), float64(WEIGHTS), -0.8)]}
NEVER = {"inequality_constraints": [(torch.tensor([0]), float64([1.0]), 2.0)]}
OUTSIDE = {"recommended": float64([0.4, 0.9])}
LIMITS = {"constraints": OutcomeConstraints(PLANE, float(PLANE.bounds(POINTS)[0].median()))}
HOPELESS = {"constraints": OutcomeConstraints(PLANE, 1e3)}
OTHERS = {"constraints": OutcomeConstraints(SOLID, 0.0)}
DOUBTFUL = LIMITS | {"recommended": POINTS[~LIMITS["constraints"].is_feasible(POINTS)][0]}

certificate, report = partial(regret_certificate, PLANE), partial(optimum_report, PLANE)
stopping, space = partial(CertifiedGapStopping, 1.0), partial(MixedSpace, SQUARE)
constrained = partial(regret_certificate, ConstrainedUCB(PLANE, **LIMITS))
one_round = partial(breakdown, IGPUCB(MODEL, norm_bound=3.0), bool)
plan = partial(runs_needed, frozen_kernel("rbf"), LINE, 1.0, 0.1)
Dimension, Unsupported = BotorchTensorDimensionError, UnsupportedError

CALLS = [
    (certificate, BOX | LISTED, ValueError, "candidates or bounds"),
    # Taken for two candidates, the rows left out the optimum and said "certified".
    (partial(certificate, SQUARE), {}, ValueError, r"candidates= .* bounds="),
    (partial(stopping, SQUARE), {}, ValueError, r"candidates= .* bounds="),
    # Its value says nothing of the optimum there.
    (certificate, {"candidates": POINTS, **OUTSIDE}, ValueError, "outside the domain"),
    (certificate, {"bounds": 0.8 * SQUARE, **OUTSIDE}, ValueError, "outside the domain"),
    (certificate, {"space": space(**SUM), **OUTSIDE}, ValueError, "outside the domain"),
    (stopping, {}, ValueError, "give either candidates"),
    (certificate, {"candidates": LINE}, Dimension, "candidates must be `n x 2`"),
    (certificate, {"candidates": SQUARE[:0]}, InputDataError, "There are no candidates"),
    (certificate, {"space": MixedSpace(LINE)}, Dimension, "space has 1 columns"),
    (certificate, BOX | {"fixed_features": {1: 1.5}}, ValueError, "outside its limits"),
    (certificate, BOX | {"fixed_features": {7: 0.5}}, ValueError, "no column 7"),
    (certificate, LISTED | {"fixed_features": {0: 0.3}}, ValueError, "does not list"),
    (certificate, BOX | DOUBTFUL, NoSafePointError, "is not certainly feasible"),
    (certificate, BOX | HOPELESS, NoSafePointError, "No point that was tried"),
    (certificate, BOX | OTHERS, Dimension, "must agree"),
    (constrained, BOX | LIMITS, Unsupported, "of its own"),
    (partial(regret_certificate, MODEL), BOX, Unsupported, "acqf must be .* Band"),
    (certificate, {"space": space(**NEVER)}, InputDataError, "keeps inequality"),
    (space, {"one_hot": [[-1, 1]]}, ValueError, "Column 1 is listed twice"),
    (space, {"discrete_dims": {0: []}}, ValueError, "at least one value"),
    (space, {"discrete_dims": {0: range(9)}, "max_combinations": 8}, ValueError, "9 comb"),
    (report, BOX | {"names": ["a"]}, ValueError, "1 names for 2 inputs"),
    (report, BOX | {"threshold": math.nan}, ValueError, "threshold must be a finite"),
    (report, BOX | {"window": 1.5}, ValueError, "window"),
    (one_round, {}, Unsupported, "one event"),
    (PLANE.band.within, {"lower": 1.0, "upper": 1.0}, ValueError, "below"),
    (confirmation, {"outcomes": [], "noise_std": 1.0}, ValueError, "outcomes is empty"),
    (plan, {"gap": 0.0}, ValueError, "gap"),
]
ROWS = [
    (words, partial(call, **given), *rest, words) for call, given, *rest, words in CALLS
]
