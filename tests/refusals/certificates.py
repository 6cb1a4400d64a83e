r"""What certificates, reports, stops, claims, plans and spaces refuse, in which words."""

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
from problems import frozen_kernel, make_problem, uniform

LINE, SQUARE, CUBE = (
    torch.tensor([[0.0] * d, [1.0] * d], dtype=torch.float64) for d in (1, 2, 3)
)
MODEL, POINTS = make_problem(n=10, d=2, norm=3.0).model, uniform(50, 2, 3)
PLANE = MartingaleMixtureUCB(MODEL, norm_bound=3.0)
SOLID = MartingaleMixtureUCB(make_problem(n=4, d=3).model, norm_bound=3.0)
BOX, LISTED = (
    {"bounds": SQUARE},
    {"space": MixedSpace(SQUARE, discrete_dims={0: [0.0, 1.0]})},
)
SUM = [(torch.tensor([0, 1]), torch.tensor([-1.0, -1.0]).double(), -0.8)]
OUTSIDE = torch.tensor([0.4, 0.9], dtype=torch.float64)
NEVER = {"inequality_constraints": [(torch.tensor([0]), torch.tensor([1.0]).double(), 2.0)]}
LIMITS, HOPELESS, OTHERS = (
    {"constraints": OutcomeConstraints(*each)}
    for each in (
        (PLANE, float(PLANE.bounds(POINTS)[0].median())),
        (PLANE, 1e3),
        (SOLID, 0.0),
    )
)
DOUBTFUL = LIMITS | {"recommended": POINTS[~LIMITS["constraints"].is_feasible(POINTS)][0]}
CONSTRAINED = ConstrainedUCB(PLANE, **LIMITS)
ONE_ROUND = IGPUCB(MODEL, norm_bound=3.0)

certificate, report = partial(regret_certificate, PLANE), partial(optimum_report, PLANE)
space = partial(MixedSpace, SQUARE)
plan = partial(runs_needed, frozen_kernel("rbf"), LINE, 1.0, 0.1)
Dimension, Unsupported = BotorchTensorDimensionError, UnsupportedError

CALLS = [
    (certificate, {}, ValueError, "either candidates or bounds"),
    (certificate, BOX | LISTED, ValueError, "candidates or bounds"),
    # Taken for two candidates, the rows left out the optimum and said "certified".
    *(
        (partial(call, SQUARE), {}, ValueError, r"candidates= .* bounds=")
        for call in (certificate, report, partial(CertifiedGapStopping, 1.0))
    ),
    # Its value says nothing of the optimum there.
    *(
        (certificate, {**domain, "recommended": OUTSIDE}, ValueError, "outside the domain")
        for domain in (
            {"candidates": POINTS},
            {"bounds": 0.8 * SQUARE},
            {"bounds": 0.8 * SQUARE, "fixed_features": {0: 0.5}},
            {"space": MixedSpace(SQUARE, discrete_dims={1: [0.0, 0.5]})},
            {"space": MixedSpace(SQUARE, inequality_constraints=SUM)},
        )
    ),
    (partial(CertifiedGapStopping, 1.0), {}, ValueError, "give either candidates"),
    (certificate, {"candidates": LINE}, Dimension, "candidates must be `n x 2`"),
    (certificate, {"candidates": SQUARE[:0]}, InputDataError, "There are no candidates"),
    (certificate, {"space": MixedSpace(CUBE)}, Dimension, "space has 3 columns"),
    (certificate, BOX | {"fixed_features": {1: 1.5}}, ValueError, "outside its limits"),
    (certificate, BOX | {"fixed_features": {7: 0.5}}, ValueError, "no column 7"),
    (certificate, BOX | {"fixed_features": {-1: 0.5, 1: 0.5}}, ValueError, "listed twice"),
    (certificate, LISTED | {"fixed_features": {0: 0.5}}, ValueError, "does not list"),
    (certificate, BOX | {"recommended": LINE[:1]}, Dimension, "recommended must be"),
    (certificate, BOX | DOUBTFUL, NoSafePointError, "is not certainly feasible"),
    (certificate, BOX | HOPELESS, NoSafePointError, "No point that was tried"),
    (certificate, BOX | OTHERS, Dimension, "must agree"),
    (partial(regret_certificate, CONSTRAINED), BOX | LIMITS, Unsupported, "of its own"),
    (partial(regret_certificate, MODEL), BOX, Unsupported, "acqf must be .* Band"),
    (
        certificate,
        {"space": space(**NEVER)},
        InputDataError,
        "keeps inequality_constraints",
    ),
    (space, {"one_hot": [[-1, 1]]}, ValueError, "Column 1 is listed twice"),
    (space, {"discrete_dims": {0: []}}, ValueError, "at least one value"),
    (space, {"discrete_dims": {0: range(9)}, "max_combinations": 8}, ValueError, "9 comb"),
    (report, BOX | {"names": ["a"]}, ValueError, "1 names for 2 inputs"),
    (report, BOX | {"threshold": math.nan}, ValueError, "threshold must be a finite"),
    (report, BOX | {"tolerance": 0.0}, ValueError, "tolerance"),
    (report, BOX | {"window": 1.5}, ValueError, "window"),
    (partial(breakdown, ONE_ROUND, bool), {}, Unsupported, "one event"),
    (PLANE.band.relaxed, {"noise_factor": 0.5}, ValueError, "noise_factor"),
    (PLANE.band.within, {"lower": 1.0, "upper": 1.0}, ValueError, "below"),
    (confirmation, {"outcomes": [], "noise_std": 1.0}, ValueError, "outcomes is empty"),
    (confirmation, {"outcomes": [1.0], "noise_std": 0.0}, ValueError, "noise_std"),
    (plan, {"gap": 0.0}, ValueError, "gap"),
]
ROWS = [
    (words, partial(call, **given), *rest, words) for call, given, *rest, words in CALLS
]
