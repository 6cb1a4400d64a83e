r"""BoFire: the certified gap as a convergence criterion, registered on import."""

from typing import Any, Literal

import torch
from botorch.exceptions import UnsupportedError

from kernelucb.integrations.core import History, Settings, unit_cube

try:
    from bofire.data_models.features.api import ContinuousInput
    from bofire.data_models.objectives.api import MaximizeObjective, MinimizeObjective
    from bofire.data_models.strategies.convergence_criteria.api import (
        ConvergenceCriterion,
    )
    from bofire.strategies.convergence_criteria.api import register
    from pydantic import PositiveFloat
except ImportError as error:  # pragma: no cover
    raise ImportError(
        "This adapter needs BoFire: pip install 'kernelucb[integrations]'."
    ) from error


class CertifiedGapCriterion(ConvergenceCriterion):
    r"""Converged when no point is better than the best experiment by more than a gap.

    The best experiment is the one with the best measured outcome. If the assumptions below
    are true, the criterion is ever wrong in a campaign with probability at most ``delta``
    (``regret_certificate``). The strategy's own model is not used. For one output that is
    maximised or minimised, and continuous inputs.

    Attributes:
        gap: The gap that is accepted, outcome units.
        norm_bound: See ``Settings``, also for the other numbers; inputs in the unit cube.
    """

    type: Literal["CertifiedGapCriterion"] = "CertifiedGapCriterion"
    gap: PositiveFloat
    norm_bound: PositiveFloat
    noise_std: PositiveFloat | None = None
    kernel: str = "matern52"
    lengthscale: PositiveFloat = 0.5
    outputscale: PositiveFloat = 1.0
    mean: float = 0.0
    delta: PositiveFloat = 0.05

    @property
    def settings(self) -> Settings:
        r"""The numbers as ``Settings``."""
        own = self.model_dump(exclude={"type", "gap"})
        return Settings(**own)

    @classmethod
    def is_applicable_to_multiobjective(cls) -> bool:
        r"""No."""
        return False

    @classmethod
    def is_applicable_to_singleobjective(cls) -> bool:
        r"""Yes."""
        return True

    @classmethod
    def is_applicable_to_objective_free(cls) -> bool:
        r"""No."""
        return False


@register(CertifiedGapCriterion)
def has_closed(criterion: CertifiedGapCriterion, strategy: Any) -> bool:
    r"""Whether the gap after the strategy's experiments is at most the accepted gap."""
    if strategy.experiments is None or len(strategy.experiments) == 0:
        return False
    found = history_of(strategy.domain, strategy.experiments)
    return found.gap(criterion.settings) <= criterion.gap


def history_of(domain: Any, experiments: Any) -> History:
    r"""The valid experiments of a domain as a history.

    Raises:
        UnsupportedError: If an input is not continuous, or there is not one output that is
            maximised or minimised.
    """
    inputs, outputs = [*domain.inputs], [*domain.outputs]
    known = all(isinstance(each, ContinuousInput) for each in inputs)
    kinds = MaximizeObjective | MinimizeObjective
    if not known or len(outputs) != 1 or not isinstance(outputs[0].objective, kinds):
        raise UnsupportedError(
            "CertifiedGapCriterion takes continuous inputs and one output that is "
            "maximised or minimised."
        )
    if len(domain.constraints) > 0:
        raise UnsupportedError("CertifiedGapCriterion takes no constraints on inputs.")
    output = outputs[0]
    valid = experiments[experiments[output.key].notna()]
    names = [each.key for each in inputs]
    ends = zip(*(each.bounds for each in inputs), strict=True)
    X = unit_cube(valid[names].to_numpy(), *ends)
    Y = torch.tensor(valid[output.key].to_numpy(), dtype=torch.float64)
    maximize = isinstance(output.objective, MaximizeObjective)
    return History(X, Y, maximize, tuple(names))
