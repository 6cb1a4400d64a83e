r"""A local search from good points: a better point, never a proof."""

from collections.abc import Callable
from warnings import catch_warnings

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.generation import gen_candidates_scipy
from torch import Tensor
from torch.nn import Module

from kernelucb.certificates.regions import Region

_STARTS, _STEPS = 4, 20


class _Values(AcquisitionFunction):
    r"""A function of ``n x d`` points as BoTorch's optimiser takes it."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        Module.__init__(self)
        self.function = function

    def forward(self, X: Tensor) -> Tensor:
        return self.function(X.squeeze(-2))


@torch.enable_grad()
def climbed(
    function: Callable[[Tensor], Tensor], points: Tensor, values: Tensor, region: Region
) -> Tensor:
    r"""Points of a region at which a function is large, from the best of some others.

    Args:
        function: Maps ``n x d`` points to ``n`` values, differentiable.
        points: ``n x d`` points of the region.
        values: Values there.
        region: Each search stays in the box of the region in which it started.

    Returns:
        ``k x d`` points that keep the constraints, ``k`` may be 0.
    """
    starts = points[values.topk(min(_STARTS, len(values))).indices]
    inside = (starts[:, None] >= region.lower) & (starts[:, None] <= region.upper)
    boxes = inside.all(-1).int().argmax(-1)
    with catch_warnings(record=True):  # that it stopped early: any point will do
        found, _ = gen_candidates_scipy(
            initial_conditions=starts.unsqueeze(-2),
            acquisition_function=_Values(function),
            lower_bounds=region.lower[boxes].unsqueeze(-2),
            upper_bounds=region.upper[boxes].unsqueeze(-2),
            inequality_constraints=region.constraints or None,
            options={"maxiter": _STEPS},
            use_parallel_mode=False,
        )
    found = found.detach().squeeze(-2)
    return found[region.allows(found)]
