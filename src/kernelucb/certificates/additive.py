r"""The largest gain where the function is a sum over groups of inputs."""

import torch
from torch import Tensor

from kernelucb.certificates.boxes import CellFunction, Search, largest_in_region
from kernelucb.certificates.regions import Region
from kernelucb.confidence.base import ConfidenceSet, QueryPoints
from kernelucb.confidence.martingale_mixture.function_set import FunctionSet
from kernelucb.regression import KernelRegression
from kernelucb.regression.components import Component, additive_components
from kernelucb.regression.filtered import FilteredRegression


def additive_gain(
    confidence_set: ConfidenceSet,
    region: Region,
    reference: Tensor,
    sign: int,
    tolerance: float,
    max_evaluations: int,
) -> float | None:
    r"""Upper bound on the gain over a ``1 x d`` point in a region; None if not a sum.

    Ours: with ``f = sum_j f_j``, each on inputs of its own, the gain is a sum of gains of
    the ``f_j``, so its maximum is at most the sum of theirs; and each of these is a maximum
    over few inputs, found by branch and bound. Constraints between groups do not count,
    which makes it larger. It is loose where the gains of several groups compete for one
    norm, and far tighter than cells of all inputs where these are many.
    """
    state = confidence_set.regression
    data = state.state if isinstance(state, FilteredRegression) else state
    prior = getattr(data, "prior", None)
    if not isinstance(confidence_set, FunctionSet) or not isinstance(
        data, KernelRegression
    ):
        return None
    if prior is None or prior.plain.mean is None or not prior.falls_with_distance():
        return None
    components = additive_components(prior)
    if not components:
        return None
    budget = max(max_evaluations // len(components), 1)
    total = 0.0
    for component in components:
        function = _gain_of(component, confidence_set, data, reference, sign)
        part = _others_fixed(region, component, reference)
        result = largest_in_region(Search(function, part), tolerance, budget)
        total += max(result.upper, result.value, 0.0)
    return total


def _gain_of(
    component: Component,
    confidence_set: FunctionSet,
    data: KernelRegression,
    reference: Tensor,
    sign: int,
) -> CellFunction:
    prior, norm = data.prior, confidence_set.norm
    other = prior.transform(reference.to(data.eigenvalues))

    def value(X: Tensor) -> Tensor:
        inputs = prior.transform(X.to(data.eigenvalues))
        change = component.difference(data, inputs, other)
        return confidence_set.support(QueryPoints(change, change), sign).value

    def change(centres: Tensor, halves: Tensor) -> Tensor:
        middle, corner = prior.cell(
            centres.to(data.eigenvalues), halves.to(data.eigenvalues)
        )
        return norm * component.squared_metric(middle, corner).sqrt()

    return CellFunction([value], [change], lambda parts: parts[0])


def _others_fixed(region: Region, component: Component, reference: Tensor) -> Region:
    r"""The boxes of one group of inputs, the others at the reference, each once."""
    own = [i for i in range(reference.shape[1]) if i in component.columns]
    pairs = []
    for limits in (region.lower, region.upper):
        part = reference.to(limits).expand_as(limits).clone()
        part[:, own] = limits[:, own]
        pairs.append(part)
    distinct = torch.cat(pairs, dim=-1).unique(dim=0)
    lower, upper = distinct.split(reference.shape[1], dim=-1)
    return Region(lower, upper, [])
