r"""The domain and the constraints of an Ax experiment, as certificates take them."""

# Ax has no public way to what is read here.
# pyright: reportPrivateUsage=false

from collections.abc import Mapping
from typing import Any

from ax.core.experiment import Experiment
from ax.generators.torch.utils import _to_inequality_constraints as to_inequalities

from kernelucb.ax.bounds import FittedBound
from kernelucb.ax.spaces import candidates_of, mixed_space


def domain_options(
    experiment: Experiment, fitted: FittedBound, context: Mapping[str, Any]
) -> dict[str, Any]:
    r"""All points of a small finite search space in a context, or the mixed space."""
    space = experiment.search_space
    constraints = getattr(fitted.acquisition, "outcome_constraints", None)
    options: dict[str, Any] = {"constraints": constraints, "fixed_features": None}
    candidates = candidates_of(space, fitted.adapter, context)
    if candidates is not None:
        return options | {"candidates": candidates}
    fixed = getattr(fitted.acquisition, "context", {})
    limits = to_inequalities(fitted.config.linear_constraints)
    mixed = mixed_space(fitted.digest, fixed, limits)
    return options | {"space": mixed, "fixed_features": fixed or None}
