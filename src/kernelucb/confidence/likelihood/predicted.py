r"""The probabilities that a model gives to successes or counts."""

import numpy as np
import torch
from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.checks import as_double
from kernelucb._numerics.parts import in_parts
from kernelucb.confidence.fit.predictions import predicted
from kernelucb.regression.likelihood.from_model import has_probit_link
from kernelucb.regression.likelihood.outcomes import Outcomes

_NODES = 32


def log_probabilities(model: Model, X: Tensor, outcomes: Outcomes) -> Tensor:
    r"""Log-probabilities of ``n`` outcomes at ``n x d`` inputs, by their marginals.

    Those of a Gaussian latent value are an average over positive weights that add up to
    one, so they are probabilities however rough that average is.
    """
    means, variances = in_parts(X, lambda part: predicted(model, part)).double()
    deviations = variances.clamp_min(0.0).sqrt()
    if outcomes.kind == "bernoulli" and has_probit_link(model):
        towards = (2.0 * outcomes.counts - 1.0) * means
        return torch.special.log_ndtr(towards / (1.0 + deviations.square()).sqrt())
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    grid, shares = (as_double(part).to(means) for part in (nodes, weights / weights.sum()))
    rows = torch.arange(len(means), device=means.device)
    loss = outcomes.pooled_loss(rows, len(means))
    each = -loss.value(means + deviations * grid.unsqueeze(-1))
    mixed = torch.logsumexp(each + shares.log().unsqueeze(-1), 0)
    return mixed + outcomes.log_base_measure()
