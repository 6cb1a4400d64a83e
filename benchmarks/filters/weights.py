r"""How far the chosen weights are from the best ones that can be found.

Every weighting gives a valid set, so the best is a matter of search: the fixed point
iterated until nothing changes, gradient descent on the mean width, and gradient descent
for the width of single points.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.filters.problems import Problem
from benchmarks.filters.sets import Mixture
from kernelucb.confidence.fit.filters import normalized

WAYS = ("fixed point", "descent, domain", "descent, data", "each point")
_FIXED_POINT_STEPS = 200
_REGULARIZERS = torch.logspace(-4, 2, 25, dtype=torch.float64)
_LEAST, _RATE = -8.0, 0.1  # logarithm of a weight at the start; of Adam
_TINY = 1e-12


class _Objective:
    r"""Half-widths at points as a differentiable function of the logarithms of weights.

    The least over a few regularisers of ``sqrt(excess var / tau)``, as in the library.
    """

    def __init__(self, mixture: Mixture, points: Tensor) -> None:
        fit, state = mixture.fit, mixture.regression
        self.filters = torch.from_numpy(fit.filters)
        self.prices = torch.from_numpy(fit.prices)
        self.confidence = fit.confidence
        self.eigenvalues, self.targets = state.eigenvalues, state.targets.square()
        projected = state.project(points)
        self.features = projected.features.square()
        self.variance = projected.prior_variance
        self.rest = (self.variance - self.features.sum(-1)).clamp_min(0.0)
        self.squared_norm = mixture.norm**2

    def half_widths(self, log_weights: Tensor, own: bool) -> Tensor:
        r"""``P x b`` of ``P x J`` weights; with ``own``, point ``p`` of weights ``p``."""
        log_shares = log_weights.log_softmax(-1)
        shares = log_shares.exp()
        squared = (shares * (self.prices + 2.0 * log_shares)).sum(-1) + self.confidence
        tau = (squared.detach() / self.squared_norm).unsqueeze(-1) * _REGULARIZERS
        values = (shares @ self.filters).unsqueeze(-2)  # P x 1 x r
        inverse = 1.0 / (values * self.eigenvalues + tau.unsqueeze(-1))  # P x T x r
        form = tau * (inverse * values * self.targets).sum(-1)
        excess = squared.unsqueeze(-1) + tau * self.squared_norm - form
        excess = excess.clamp_min(_TINY).unsqueeze(-1)  # P x T x 1
        if own:
            inside = torch.einsum("ptr,pr->pt", inverse, self.features).unsqueeze(-1)
            rest, ball = self.rest[:, None, None], self.variance[:, None]
        else:
            inside, rest, ball = inverse @ self.features.mT, self.rest, self.variance
        squares = (excess * (inside + rest / tau.unsqueeze(-1))).amin(-2)  # P x b
        return torch.minimum(squares, self.squared_norm * ball).sqrt()


def play_weights(settings: dict[str, Any]) -> dict[str, list[float]]:
    r"""Mean widths of ``WAYS``, in their order, over those of the chosen weights.

    The last is looked for over the domain only.
    """
    task = SimpleNamespace(**settings)
    problem = Problem.of(task)
    mixture = Mixture(problem)
    domain, data = (points[: task.points] for points in problem.places.values())
    chosen = problem.band("filters").confidence_set
    before = [_width(chosen, points) for points in (domain, data)]
    fixed = _fixed_point(mixture)
    found = [mixture.of_weights(fixed)]
    for points in (domain, data):
        weights = _descend(_Objective(mixture, points), fixed, task.steps)
        found.append(mixture.of_weights(weights[0]))
    after = [[_width(each, points) for each in found] for points in (domain, data)]
    own = _descend(_Objective(mixture, domain), fixed, task.steps, len(domain))
    pairs = zip(own, domain, strict=True)
    after[0].append(
        float(np.mean([_width(mixture.of_weights(w), x[None]) for w, x in pairs]))
    )
    ratios = [[w / b for w in each] for each, b in zip(after, before, strict=True)]
    return dict(zip(("domain", "data"), ratios, strict=True))


def _width(band, points: Tensor) -> float:
    lower, upper = band.bounds(points)
    return float((upper - lower).mean())


def _fixed_point(mixture: Mixture) -> np.ndarray:
    r"""The library's iteration, half a step at a time, until nothing changes."""
    appraise = mixture.fit.widths(mixture.norm)
    log_weights = np.zeros(len(mixture.fit.prices))
    for _ in range(_FIXED_POINT_STEPS):
        target = appraise(normalized(log_weights)).log_weights
        log_weights = 0.5 * (log_weights + target - target.max())
    return normalized(log_weights)


def _descend(
    objective: _Objective, weights: np.ndarray, steps: int, copies: int | None = None
) -> np.ndarray:
    r"""The best weights on the way from the given ones; ``copies`` for single points."""
    first = torch.from_numpy(weights).log().clamp_min(_LEAST)
    log_weights = first.repeat(copies or 1, 1).requires_grad_()
    optimizer = torch.optim.Adam([log_weights], lr=_RATE)
    least = torch.full((copies or 1,), torch.inf, dtype=torch.float64)
    best = log_weights.detach().clone()
    for _ in range(steps):
        widths = objective.half_widths(log_weights, copies is not None).mean(-1)
        better = widths.detach() < least
        least[better], best[better] = widths.detach()[better], log_weights.detach()[better]
        optimizer.zero_grad()
        widths.sum().backward()
        optimizer.step()
    return best.softmax(-1).numpy()
