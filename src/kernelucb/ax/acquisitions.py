r"""What Ax builds for a trial: bands of all outcomes, what is maximised, and where."""

# Ax has no public way to what is read here.
# pyright: reportPrivateUsage=false

from collections.abc import Sequence
from copy import deepcopy
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
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models.transforms import Normalize
from botorch.optim.utils import fix_features
from torch import Tensor

from kernelucb._numerics.arrays import in_parts
from kernelucb._numerics.digits import as_given
from kernelucb._numerics.estimates import trainable
from kernelucb.acquisition import ConstrainedUCB, GuardedAcquisition, ScalarizedUCB
from kernelucb.acquisition.base import KernelUCB
from kernelucb.acquisition.guarded import is_ucb_turn
from kernelucb.ax.options import (
    OF_THE_GUARD,
    Options,
    bounds_of,
    built,
    has_own_prior,
    search_class,
)
from kernelucb.ax.spaces import mixed_space, parameters_of_columns
from kernelucb.confidence.outcome_constraints import OutcomeConstraints
from kernelucb.exceptions import UncertifiedError
from kernelucb.regression.from_model import single_output_models
from kernelucb.safety import ConstraintWidth, SafeSet
from kernelucb.safety.safe_set import no_safe_point
from kernelucb.safety.search import SafeSearch, feasible

# Combinations of integers and choices: how many may be compared in a safe search, and in
# how many of them the numbers are searched.
MOST_COMBINATIONS = 10_000
_SEARCHED = 4


class BoundAcquisition(Acquisition):
    r"""An Ax ``Acquisition`` that maximises a bound, or searches within one.

    Each outcome of objective and constraints has one band; they share ``delta`` equally.
    With fixed parameters (a context) the observed points count at that context, where the
    trial will be, and trials under way in other contexts are pending, too.

    ``options`` are those of ``generation_strategy`` that are not of the bound: ``search``
    and its options, ``constraints`` and those of a safe search, ``outcome_range``.

    Attributes:
        bands: The band of each outcome, by its name.
        band: The bound of the objective: one of these, or a weighted sum.
        context: Columns of the inputs that are fixed, and their values.
        outcome_constraints: What the bands say of the constraints; None without.
        statements: The constraints in words, in the same order.
        safe_set: The safe set, with the safe arms of this trial's context; None without.
    """

    bands: dict[str, KernelUCB]
    band: KernelUCB
    context: dict[int, float]
    outcome_constraints: OutcomeConstraints | None = None
    statements: Sequence[str] = ()
    safe_set: SafeSet | None = None

    def __init__(self, **arguments: Any) -> None:
        config = arguments["torch_opt_config"]
        digest = arguments["search_space_digest"]
        fixed = config.fixed_features or {}
        # Ax would drop all trials of other contexts, observed or under way.
        step = {i: x for i, x in fixed.items() if digest.feature_names[i] == MAP_KEY}
        self.context = {i: x for i, x in fixed.items() if i not in step}
        self._domain = {
            "bounds": torch.tensor(digest.bounds, dtype=torch.float64).mT,
            "fixed_features": fixed,
            "inequality_constraints": to_inequalities(config.linear_constraints),
        }
        arguments["torch_opt_config"] = replace(config, fixed_features=step or None)
        super().__init__(**arguments)

    def _instantiate_acquisition(self) -> None:
        if self.context and self.X_observed is not None:
            here = fix_features(self.X_observed, self.context)
            self.X_observed = torch.unique(here, dim=0)
        super()._instantiate_acquisition()

    def _construct_botorch_acquisition(
        self,
        botorch_acqf_class: type[AcquisitionFunction],
        botorch_acqf_options: dict[str, Any],
        model: Any,
    ) -> AcquisitionFunction:
        r"""What is maximised: the bound, or a search within it."""
        self._build_bands(botorch_acqf_class, botorch_acqf_options, model)
        kind, observed = self.options.get("constraints"), self.X_observed
        if kind is not None:
            self._build_constraints(kind == "safe")
        if self.safe_set is not None:
            arms = self.safe_set.safe_points
            known = [] if arms is None else [arms]
            if observed is not None:
                known.append(observed[self.safe_set.is_safe(observed)])
            observed = torch.cat(known) if known else None
        own = {name: self.options[name] for name in OF_THE_GUARD if name in self.options}
        band: Any = self.band
        if kind == "explored" and self.outcome_constraints is not None:
            edge = {name: own[name] for name in own if name == "temperature"}
            limits = self.outcome_constraints
            band = ConstrainedUCB(self.band, limits, observed=observed, **edge)
        if "search" not in self.options:
            return band
        # The guard passes pending points on; Ax would to functions that take none.
        pending, self.X_pending = self.X_pending, None
        searched = super()._construct_botorch_acquisition(
            search_class(self.options["search"]), self.options["search_options"], model
        )
        self.X_pending = pending
        return GuardedAcquisition(
            searched, band, observed=observed, X_pending=pending, **self._domain, **own
        )

    def _build_bands(self, acqf_class: Any, options: Options, model: Any) -> None:
        names = list(self.surrogate.outcomes)
        if self._subset_idcs is not None:
            names = [names[i] for i in self._subset_idcs.tolist()]
        models = single_output_models(model)
        columns = parameters_of_columns(self.search_space_digest.feature_names)
        weights = self._objective_weights.reshape(-1, len(names)).sum(0).tolist()
        used = {name: w for name, w in zip(names, weights, strict=True) if w}
        bounds = bounds_of(acqf_class, options, names)
        ranges = self.options.get("outcome_range", {})
        self.bands = {}
        for (name, (bound, own)), each in zip(bounds.items(), models, strict=True):
            if [*used] == [name] and acqf_class is not ScalarizedUCB:
                own |= {"maximize": used[name] > 0.0, "X_pending": self.X_pending}
            band = built(bound, self._scaled(each, bound, own), own, columns)
            if name in ranges:
                lower, upper = ranges[name]
                known = {"lower": lower, "upper": upper}
                band = band.within(**{k: v for k, v in known.items() if v is not None})
            self.bands[name] = band
        parts = [self.bands[name] for name in used]
        if len(parts) == 1 and acqf_class is not ScalarizedUCB:
            (self.band,) = parts
        else:
            sums = list(used.values())
            self.band = ScalarizedUCB(parts, sums, X_pending=self.X_pending)

    def _scaled(self, model: Any, acqf_class: Any, options: Options) -> Any:
        r"""A model with inputs in the unit cube of the search space.

        Ax widens the cube to the arms outside and rounds it to single precision. A kernel
        that Ax has fitted stays in the cube that it was fitted in.
        """
        if getattr(model, "input_transform", None) is None:
            return model
        if not has_own_prior(acqf_class, options) and trainable(model.covar_module):
            return model
        widened: Any = self.surrogate._last_search_space_digest
        theirs, ours = (
            torch.tensor(each.bounds, dtype=torch.float64).mT
            for each in (widened, self.search_space_digest)
        )
        rounding = 4.0 * torch.finfo(torch.float32).eps * theirs.abs().amax(0)
        model = deepcopy(model).train()  # with its raw inputs, which `eval` scales anew
        for part in model.input_transform.modules():
            if isinstance(part, Normalize) and not part.learn_bounds:
                at = getattr(part, "indices", slice(None))
                if bool(((part.bounds - theirs[:, at]).abs() <= rounding[at]).all()):
                    part._offset, part._coefficient = ours[:1, at], ours.diff(dim=0)[:, at]
        return model.eval()

    def _build_constraints(self, safely: bool) -> None:
        if self._outcome_constraints is None:
            raise InputDataError(
                "No trial inside the search space has reported a constrained outcome."
            )
        rows: list[tuple[str, float, Any]] = []
        for row, threshold in zip(*self._outcome_constraints, strict=True):
            # A constraint is on one outcome: row @ f <= threshold.
            pairs = zip(self.bands, row.tolist(), strict=True)
            ((name, weight),) = [(n, w) for n, w in pairs if w]
            side = "<=" if weight > 0.0 else ">="
            rows.append((name, float(threshold) / weight, side))
        self.statements = [
            f"{name} {side} {as_given(level + 0.0)}" for name, level, side in rows
        ]
        limits: dict[str, Any] = {
            "bands": [self.bands[name] for name, _, _ in rows],
            "thresholds": [level for _, level, _ in rows],
            "sides": [side for _, _, side in rows],
            # "objective" names the objective's band among those of an assumption.
            "names": ["metric objective" if n == "objective" else n for n, _, _ in rows],
        }
        self.outcome_constraints = OutcomeConstraints(**limits)
        if not safely:
            return
        for band, words in zip(limits["bands"], self.statements, strict=True):
            if band.assumptions.violated:
                raise UncertifiedError(
                    f"No trial is known to satisfy {words}: its band rests on an "
                    f"assumption that does not hold.\n{band.assumptions}\nGive the client "
                    "a strategy with other assumptions (a larger norm_bound, say); it goes "
                    "on from the same trials."
                )
        points = self.options.get("safe_points")
        limits["safe_points"] = (
            torch.tensor(points, dtype=torch.float64) if points else None
        )
        self.safe_set = SafeSet(**limits, allow_estimated=self.options["allow_estimated"])

    def optimize(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, n: int, search_space_digest: SearchSpaceDigest, **options: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""Up to ``n`` points, one after the other; their values; weights of one."""
        if self.safe_set is None:
            fixed = options.get("fixed_features")
            choices = mk_discrete_choices(search_space_digest, fixed)
            # Ax reads them from left to right, and appends fixed columns (its #5254).
            values = search_space_digest.discrete_choices
            ordered = {i: values.get(i, choices[i]) for i in sorted(choices)}
            search_space_digest = replace(search_space_digest, discrete_choices=ordered)
            known = determine_optimizer(search_space_digest, discrete_choices=choices)
            if n == 1 or known in ("optimize_acqf", "optimize_acqf_discrete"):
                return super().optimize(n, search_space_digest, **options)
        # Ax's other optimisers would ask for one value of all points together.
        points, values = list[Tensor](), list[Tensor]()
        before, acqf = self.X_pending, self.acqf
        pending = [] if before is None else [before]
        while len(points) < n:
            if points:
                self.X_pending = torch.cat([*pending, *points])
                acqf.set_X_pending(self.X_pending)
            if self.safe_set is None:
                found = super().optimize(1, search_space_digest, **options)[:2]
            else:
                found = self._safe_point(self.safe_set, points, **options)
            if found is None:
                break
            points.append(found[0])
            values.append(found[1])
        self.X_pending = before
        acqf.set_X_pending(before)
        return torch.cat(points), torch.stack(values), torch.ones(len(points)).double()

    def _safe_point(
        self,
        safe_set: SafeSet,
        batch: Sequence[Tensor],
        *,
        inequality_constraints: list[tuple[Tensor, Tensor, float]] | None = None,
        fixed_features: dict[int, float] | None = None,
        rounding_func: Any = None,
        optimizer_options: dict[str, Any] | None = None,
        **others: Any,
    ) -> tuple[Tensor, Tensor] | None:
        r"""The safe point of largest value that is still safe once Ax has handed it out.

        Another one that Ax would hand out as one of the same ``batch`` is passed over: of
        two equal arms of a trial Ax makes one. None if every safe point is in the batch.
        """
        if given := [name for name, each in others.items() if each]:
            raise UnsupportedError(f"A safe search takes no {' or '.join(given)}.")
        limits, fixed = inequality_constraints, fixed_features or {}
        digest = self.search_space_digest
        space = mixed_space(digest, fixed, limits, MOST_COMBINATIONS)
        box = space.bounds, space.fixed_features_list(fixed), limits
        acqf = self._of_turn(safe_set)
        search = SafeSearch(acqf, safe_set, *box, **(optimizer_options or {}))
        finalists = search.finalists(_SEARCHED)
        if safe_set.safe_points is not None:
            finalists = torch.cat([finalists, safe_set.safe_points.to(finalists)])
        finalists = feasible(finalists, space.bounds, fixed, limits)
        finalists = finalists[safe_set.is_safe(finalists)]
        with torch.no_grad():
            values = in_parts(finalists.unsqueeze(-2), acqf)
        handed_out = rounding_func or (lambda point: point)
        taken = [handed_out(point) for point in batch]
        repeats = False
        for index in values.argsort(descending=True):
            point = finalists[index].unsqueeze(0)
            image = handed_out(point)
            if any(torch.equal(image, other) for other in taken):
                repeats = True
            elif bool(safe_set.is_safe(image).all()):
                return point, values[index]
        if repeats:
            return None
        raise no_safe_point("no point that fits the trial")

    def _of_turn(self, safe_set: SafeSet) -> AcquisitionFunction:
        r"""The objective's function, or the constraints' width if it is their turn."""
        every = self.options.get("expand_every")
        before = max(len(X) for X in self.surrogate.Xs)
        before += 0 if self.X_pending is None else len(self.X_pending)
        if every is not None and is_ucb_turn(before, every):
            return ConstraintWidth(safe_set)
        return self.acqf
