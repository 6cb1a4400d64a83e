r"""What Ax builds for a trial: bands of all outcomes, in the context of the trial."""

# Ax has no public way to what is read here.
# pyright: reportPrivateUsage=false

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from ax.core.data import MAP_KEY
from ax.core.search_space import SearchSpaceDigest
from ax.generators.torch.botorch_modular.acquisition import (
    Acquisition,
    determine_optimizer,
)
from ax.generators.torch.utils import _to_inequality_constraints as to_inequalities
from ax.generators.utils import mk_discrete_choices
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import InputDataError
from botorch.optim.utils import fix_features
from torch import Tensor

from kernelucb.acquisition import GuardedAcquisition, ScalarizedUCB
from kernelucb.acquisition.base import KernelUCB
from kernelucb.acquisition.guarded_inputs import search_class
from kernelucb.ax.outcomes import (
    bound_of_outcome,
    resolved,
    shared_delta,
    with_columns,
)
from kernelucb.ax.rehearsal import BUILDERS
from kernelucb.ax.spaces import parameters_of_columns
from kernelucb.confidence.outcome_constraints import OutcomeConstraints
from kernelucb.regression.from_model import single_output_models

Options = Mapping[str, Any]


class BoundAcquisition(Acquisition):
    r"""An Ax ``Acquisition`` that maximises a bound, or searches within one.

    With fixed parameters (a context) the observed points count at that context, where the
    trial will be, and trials under way in other contexts are pending, too.

    Attributes:
        band: The bound of the objective.
        context: Columns of the inputs that are fixed, and their values.
        domain: Where the trial will be, as ``GuardedAcquisition`` takes it.
    """

    band: KernelUCB
    context: dict[int, float]
    domain: dict[str, Any]

    def __init__(self, **arguments: Any) -> None:
        config = arguments["torch_opt_config"]
        names = arguments["search_space_digest"].feature_names
        fixed = config.fixed_features or {}
        # Ax would drop all trials of other contexts, observed or under way.
        step = {i: value for i, value in fixed.items() if names[i] == MAP_KEY}
        self.context = {i: value for i, value in fixed.items() if i not in step}
        limits = to_inequalities(config.linear_constraints)
        self.domain = {"fixed_features": fixed, "inequality_constraints": limits}
        arguments["torch_opt_config"] = replace(config, fixed_features=step or None)
        super().__init__(**arguments)

    @property
    def names(self) -> list[str]:
        r"""The outcomes of the objective and the constraints, as the model has them."""
        names = self.surrogate.outcomes
        if self._subset_idcs is None:
            return list(names)
        return [names[i] for i in self._subset_idcs.tolist()]

    def _instantiate_acquisition(self) -> None:
        if self.context and self.X_observed is not None:
            here = fix_features(self.X_observed, self.context)
            self.X_observed = torch.unique(here, dim=0)
        super()._instantiate_acquisition()

    def optimize(
        self,
        n: int,
        search_space_digest: SearchSpaceDigest,
        *arguments: Any,
        fixed_features: dict[int, float] | None = None,
        **options: Any,
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""``n`` points, one after the other; their values; weights of one."""
        choices = mk_discrete_choices(search_space_digest, fixed_features)
        optimizer = determine_optimizer(search_space_digest, discrete_choices=choices)
        options |= {"fixed_features": fixed_features}
        if n == 1 or optimizer in ("optimize_acqf", "optimize_acqf_discrete"):
            return super().optimize(n, search_space_digest, *arguments, **options)
        # The others would ask for one value of all points together.
        points: list[Tensor] = []
        values: list[Tensor] = []
        before = [] if self.X_pending is None else [self.X_pending]
        while len(points) < n:
            if points:
                self.X_pending = torch.cat([*before, *points])
                self.acqf.set_X_pending(self.X_pending)
            found = super().optimize(1, search_space_digest, *arguments, **options)
            points.append(found[0])
            values.append(found[1])
        self.X_pending = before[0] if before else None
        self.acqf.set_X_pending(self.X_pending)
        return torch.cat(points), torch.stack(values), values[0].new_ones(n)

    def _construct_botorch_acquisition(
        self,
        botorch_acqf_class: type[AcquisitionFunction],
        botorch_acqf_options: dict[str, Any],
        model: Any,
    ) -> AcquisitionFunction:
        bound, options, guard = self._parts(botorch_acqf_class, botorch_acqf_options)
        own: dict[str, Any] = resolved(bound, options, self.names)
        if guard is not None:
            own = {**botorch_acqf_options, "band_options": own, **self.domain}
        acqf: Any = super()._construct_botorch_acquisition(botorch_acqf_class, own, model)
        self.band = acqf.band if isinstance(acqf, GuardedAcquisition) else acqf
        return acqf

    def _parts(
        self, acqf_class: Any, options: Options
    ) -> tuple[type[KernelUCB], Options, dict[str, Any] | None]:
        r"""Class and options of the bound, and of the search within it, if there is one."""
        guard = None
        if acqf_class is GuardedAcquisition:
            guard = {k: each for k, each in options.items() if not k.startswith("band")}
            acqf_class, options = options["band"], options.get("band_options") or {}
        columns = parameters_of_columns(self.search_space_digest.feature_names)
        return acqf_class, with_columns(options, columns), guard


class ConstrainedAcquisition(BoundAcquisition):
    r"""A bound of the objective among points that satisfy outcome constraints.

    Each outcome has one band, however often it is used; they share ``delta`` equally.

    Attributes:
        bands: The band of each outcome, by its name.
        outcome_constraints: What the bands say of the constraints.
        statements: The constraints in words, in the same order.
    """

    bands: dict[str, KernelUCB]
    outcome_constraints: OutcomeConstraints
    statements: list[str]

    def _construct_botorch_acquisition(
        self,
        botorch_acqf_class: type[AcquisitionFunction],
        botorch_acqf_options: dict[str, Any],
        model: Any,
    ) -> AcquisitionFunction:
        bound, options, guard = self._parts(botorch_acqf_class, botorch_acqf_options)
        models = dict(zip(self.names, single_output_models(model), strict=True))
        self._build_bands(bound, options, models)
        self._build_constraints()
        return self._constrained(guard, model)

    def _constrained(self, guard: dict[str, Any] | None, model: Any) -> AcquisitionFunction:
        r"""What is maximised."""
        raise NotImplementedError

    def _searched(self, guard: dict[str, Any], model: Any) -> AcquisitionFunction:
        r"""What searches within the band, told of the constraints by Ax."""
        searched, options = search_class(guard["search"]), guard.get("search_options") or {}
        return Acquisition._construct_botorch_acquisition(self, searched, options, model)

    def _build_bands(
        self, acqf_class: type[KernelUCB], options: Options, models: Mapping[str, Any]
    ) -> None:
        weights = self._objective_weights.reshape(-1, len(models)).sum(0).tolist()
        used = {name: w for name, w in zip(models, weights, strict=True) if w}
        self.bands = {}
        for name, each in models.items():
            bound, arguments = bound_of_outcome(acqf_class, options, name)
            arguments["delta"] = shared_delta(bound, options, len(models))
            if len(used) == 1 and name in used:
                arguments["maximize"] = used[name] > 0.0
                arguments["X_pending"] = self.X_pending
            self.bands[name] = BUILDERS.get(bound, bound)(each, **arguments)
        parts = [self.bands[name] for name in used]
        if len(parts) == 1:
            (self.band,) = parts
        else:
            sums = list(used.values())
            self.band = ScalarizedUCB(parts, sums, X_pending=self.X_pending)

    def _build_constraints(self) -> None:
        if self._outcome_constraints is None:
            raise InputDataError(
                "No trial inside the search space has reported a constrained outcome."
            )
        matrix, thresholds = self._outcome_constraints
        rows = [self._limit(*row) for row in zip(matrix, thresholds.view(-1), strict=True)]
        bands, levels, sides, self.statements = map(list, zip(*rows, strict=True))
        # "objective" names the objective's band among those of an assumption.
        named = {
            id(band): f"metric {name}" if name == "objective" else name
            for name, band in self.bands.items()
        }
        self.outcome_constraints = OutcomeConstraints(
            bands, levels, sides=sides, names=[named[id(band)] for band in bands]
        )

    def _limit(self, row: Tensor, threshold: Tensor) -> tuple[KernelUCB, float, str, str]:
        r"""Band, threshold, side and words of ``row @ f <= threshold``, on one outcome."""
        ((name, weight),) = [
            (n, w) for n, w in zip(self.names, row.tolist(), strict=True) if w
        ]
        level, side = float(threshold) / weight, "<=" if weight > 0.0 else ">="
        return self.bands[name], level, side, f"{name} {side} {level:g}"
