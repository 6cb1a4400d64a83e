r"""Bounds among the points that satisfy outcome constraints: may do so, or surely do."""

from collections.abc import Mapping
from typing import Any

import torch
from ax.core.search_space import SearchSpaceDigest
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb.acquisition import ConstrainedUCB, GuardedAcquisition
from kernelucb.acquisition.guarded import is_ucb_turn
from kernelucb.ax.acquisitions import ConstrainedAcquisition
from kernelucb.ax.safe_search import SafeSpace, best_safe_point, combinations
from kernelucb.ax.search import OF_THE_GUARD
from kernelucb.exceptions import UncertifiedError
from kernelucb.safety import ConstraintWidth, SafeSet


class ExploredAcquisition(ConstrainedAcquisition):
    r"""The bound, or a search, among the points that may be feasible."""

    def _constrained(self, guard: dict[str, Any] | None, model: Any) -> AcquisitionFunction:
        if guard is None:
            return ConstrainedUCB(
                self.band, self.outcome_constraints, observed=self.X_observed
            )
        return GuardedAcquisition(
            self._searched(guard, model),
            self.band,
            constraints=self.outcome_constraints,
            observed=self.X_observed,
            X_pending=self.X_pending,
            **self.domain,
            **options_of_guard(guard),
        )


class SafeAcquisition(ConstrainedAcquisition):
    r"""The bound, or a search, in the safe set of the constraints' bands.

    Attributes:
        safe_set: The safe set, with the safe arms of this trial's context.
    """

    safe_set: SafeSet

    def _constrained(self, guard: dict[str, Any] | None, model: Any) -> AcquisitionFunction:
        limits = self.outcome_constraints.constraints
        for limit, words in zip(limits, self.statements, strict=True):
            if limit.band.assumptions.violated:
                raise UncertifiedError(
                    f"No trial is known to satisfy {words}: its band rests on an "
                    f"assumption that does not hold.\n{limit.band.assumptions}\nGive the "
                    "client a strategy with other assumptions (a larger norm_bound, say); "
                    "it goes on from the same trials."
                )
        rows = self.options.get("safe_points") or []
        columns = len(self.search_space_digest.feature_names)
        points = torch.tensor(rows, dtype=torch.float64).reshape(-1, columns)
        self.safe_set = SafeSet(
            [limit.band for limit in limits],
            [limit.threshold for limit in limits],
            sides=[limit.side for limit in limits],
            names=self.outcome_constraints.names,
            safe_points=points if rows else None,
            allow_estimated=self.options["allow_estimated"],
        )
        if guard is None:
            return self.band
        observed = points[:0] if self.X_observed is None else self.X_observed
        return GuardedAcquisition(
            self._searched(guard, model),
            self.band,
            observed=torch.cat([points, observed[self.safe_set.is_safe(observed)]]),
            X_pending=self.X_pending,
            **self.domain,
            **options_of_guard(guard),
        )

    def optimize(
        self,
        n: int,
        search_space_digest: SearchSpaceDigest,
        inequality_constraints: list[tuple[Tensor, Tensor, float]] | None = None,
        equality_constraints: list[tuple[Tensor, Tensor, float]] | None = None,
        fixed_features: dict[int, float] | None = None,
        rounding_func: Any = None,
        optimizer_options: dict[str, Any] | None = None,
        candidate_set: Tensor | None = None,
        sampling_strategy: Any = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""Up to ``n`` different safe points, one by one; their values; weights of one."""
        if equality_constraints or candidate_set is not None or sampling_strategy:
            raise UnsupportedError(
                "A safe search takes no equality constraints on parameters, candidate sets "
                "or sampling strategies."
            )
        fixed = fixed_features or {}
        space = SafeSpace(
            torch.tensor(search_space_digest.bounds, dtype=torch.float64).mT,
            combinations(search_space_digest, fixed),
            fixed,
            inequality_constraints,
            rounding_func,
        )
        points: list[Tensor] = []
        values: list[Tensor] = []
        pending = [] if self.X_pending is None else [self.X_pending]
        for _count in range(n):
            if points:
                self.acqf.set_X_pending(torch.cat([*pending, *points]))
            acqf = self._of_turn(len(points))
            options = optimizer_options or {}
            found = best_safe_point(acqf, self.safe_set, space, options, points)
            if found is None:
                break
            points.append(found[0])
            values.append(found[1])
        self.acqf.set_X_pending(self.X_pending)
        weights = torch.ones(len(points), dtype=torch.float64)
        return torch.cat(points), torch.stack(values), weights

    def _of_turn(self, count: int) -> AcquisitionFunction:
        r"""The objective's function, or the constraints' width if it is their turn."""
        every = self.options.get("expand_every")
        before = max(len(X) for X in self.surrogate.Xs)
        before += count + (0 if self.X_pending is None else len(self.X_pending))
        if every is not None and is_ucb_turn(before, every):
            return ConstraintWidth(self.safe_set)
        return self.acqf


def options_of_guard(guard: Mapping[str, Any]) -> dict[str, Any]:
    r"""The options of ``GuardedAcquisition`` itself."""
    return {name: guard[name] for name in OF_THE_GUARD if name in guard}
