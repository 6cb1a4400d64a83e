r"""BayBE: a campaign's measurements as a history, and their optimum report."""

from typing import Any

import torch
from botorch.exceptions import UnsupportedError

from kernelucb.certificates import OptimumReport
from kernelucb.integrations.core import History, Settings, unit_cube

try:
    from baybe import Campaign
    from baybe.parameters import NumericalContinuousParameter, NumericalDiscreteParameter
except ImportError as error:  # pragma: no cover
    raise ImportError(
        "This adapter needs BayBE: pip install 'kernelucb[integrations]'."
    ) from error


def campaign_history(campaign: Campaign) -> History:
    r"""The measurements of a campaign with numerical parameters and one target.

    Raises:
        UnsupportedError: If a parameter is no number, or there are several targets.
    """
    kinds = NumericalContinuousParameter | NumericalDiscreteParameter
    if not all(isinstance(each, kinds) for each in campaign.parameters):
        raise UnsupportedError("A history takes numerical parameters; leave out others.")
    if len(campaign.targets) != 1:
        raise UnsupportedError("A history takes one target.")
    (target,) = campaign.targets
    frame = campaign.measurements
    names = [each.name for each in campaign.parameters]
    Y = torch.tensor(frame[target.name].to_numpy(), dtype=torch.float64)
    X = _unit(campaign, frame[names])
    minimize: Any = getattr(target, "minimize", False)
    return History(X, Y, not minimize, tuple(names))


def campaign_report(
    campaign: Campaign, settings: Settings, **options: Any
) -> OptimumReport:
    r"""The ``optimum_report`` of a campaign's measurements.

    The domain is the campaign's list of candidates where all parameters are discrete, else
    the box of the parameters' limits. The recommended point has the best lower bound of the
    domain and need not have been measured. ``options`` are those of ``optimum_report``;
    points among them are in the unit cube.

    Raises:
        UnsupportedError: See ``campaign_history``.
    """
    history = campaign_history(campaign)
    discrete = all(
        isinstance(each, NumericalDiscreteParameter) for each in campaign.parameters
    )
    if discrete and "bounds" not in options:
        frame: Any = campaign.searchspace.discrete.exp_rep[[*(history.names or ())]]
        options = {"candidates": _unit(campaign, frame)} | options
    return history.report(settings, **options)


def _unit(campaign: Campaign, frame: Any) -> torch.Tensor:
    r"""``n x d`` columns of the parameters in the unit cube."""
    ends: list[tuple[float, float]] = []
    for each in campaign.parameters:
        if isinstance(each, NumericalContinuousParameter):
            ends.append((each.bounds.lower, each.bounds.upper))
        elif isinstance(each, NumericalDiscreteParameter):
            ends.append((min(each.values), max(each.values)))
    return unit_cube(frame.to_numpy(), *zip(*ends, strict=True))
