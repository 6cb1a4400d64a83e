r"""The acquisition that Ax builds for a trial: bands, function to maximise, optimiser."""

# Ax has no public way to what is read here.
# pyright: reportPrivateUsage=false

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, NotRequired, TypedDict, Unpack

import torch
from ax.core.data import MAP_KEY
from ax.core.search_space import SearchSpaceDigest
from ax.generators.torch.botorch_modular.acquisition import (
    Acquisition,
    determine_optimizer,
)
from ax.generators.torch.botorch_modular.surrogate import Surrogate
from ax.generators.torch.utils import _to_inequality_constraints as to_inequalities
from ax.generators.torch_base import TorchOptConfig
from ax.generators.utils import mk_discrete_choices
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models.model import Model
from botorch.models.transforms import Normalize
from botorch.optim.utils import fix_features
from torch import Tensor

from kernelucb._numerics.digits import as_given
from kernelucb._numerics.estimates import trainable
from kernelucb.acquisition import (
    BandUCB,
    ConstrainedUCB,
    GuardedAcquisition,
    LikelihoodUCB,
    ScalarizedUCB,
)
from kernelucb.acquisition.turns import is_upper_turn
from kernelucb.acquisition.ucb import upper_bound_of
from kernelucb.ax import options as stored
from kernelucb.ax.experiment import mixed_space
from kernelucb.ax.inputs import KernelInputs
from kernelucb.confidence.assumptions import Assumption
from kernelucb.confidence.band import Band
from kernelucb.confidence.outcome_constraints import OutcomeConstraints
from kernelucb.data.from_model import input_transform_of, single_output_models
from kernelucb.safety import ConstraintWidth, SafeSet, optimize_acqf_safely

# Combinations of integers and choices that may be compared in a safe search.
_MOST_COMBINATIONS = 10_000
# Share of its range by which a parameter of an arm that was tried may seem to change.
_ROUND_OFF = 1e-9


class MadeFrom(TypedDict):
    r"""What Ax makes an acquisition from, beside the search space and the objective."""

    surrogate: Surrogate
    botorch_acqf_class: type[AcquisitionFunction] | None
    botorch_acqf_options: NotRequired[dict[str, Any] | None]
    botorch_acqf_classes_with_options: NotRequired[
        list[tuple[type[AcquisitionFunction], dict[str, Any]]] | None
    ]
    n: NotRequired[int | None]
    options: NotRequired[dict[str, Any] | None]


class SearchOptions(TypedDict, total=False):
    r"""What Ax asks of the search for a point."""

    inequality_constraints: list[tuple[Tensor, Tensor, float]] | None
    equality_constraints: list[tuple[Tensor, Tensor, float]] | None
    fixed_features: dict[int, float] | None
    rounding_func: Callable[[Tensor], Tensor] | None
    optimizer_options: dict[str, Any] | None


class BoundAcquisition(Acquisition):
    r"""An Ax ``Acquisition`` that maximises a bound, or searches within one.

    Each outcome of objective and constraints has one band; they share ``delta`` equally.
    With fixed parameters (a context) the observed points count at that context, where the
    trial will be, and trials under way in other contexts are pending, too.

    ``options`` hold the keywords of ``generation_strategy`` beside the bound's (``search``,
    ``constraints``, ``outcome_range`` and theirs), and the result of ``options_of_now``.

    Attributes:
        bands: The band of each outcome, by its name.
        notes: Assumptions on what Ax did to data and inputs.
        bound: The function that ranks points, of one of these bands or of a weighted sum.
        context: Columns of the inputs that are fixed, and their values.
        domain: Bounds, fixed features and linear constraints, as a guard takes them.
        outcome_constraints: The constraints on the bands; None without.
        statements: The constraints in words, in the same order.
        safe_set: The safe set, with the safe arms of this trial's context; None without.
    """

    bands: dict[str, Band]
    notes: list[Assumption]
    bound: BandUCB
    context: dict[int, float]
    outcome_constraints: OutcomeConstraints | None = None
    statements: Sequence[str] = ()
    safe_set: SafeSet | None = None

    def __init__(
        self,
        *,
        search_space_digest: SearchSpaceDigest,
        torch_opt_config: TorchOptConfig,
        **made_from: Unpack[MadeFrom],
    ) -> None:
        digest, config = search_space_digest, torch_opt_config
        fixed = config.fixed_features or {}
        # Ax would drop all trials of other contexts, observed or under way.
        step = {i: x for i, x in fixed.items() if digest.feature_names[i] == MAP_KEY}
        self.context = {i: x for i, x in fixed.items() if i not in step}
        self.domain: dict[str, Any] = {
            "bounds": torch.tensor(digest.bounds, dtype=torch.float64).mT,
            "fixed_features": fixed,
            "inequality_constraints": to_inequalities(config.linear_constraints),
        }
        config = replace(config, fixed_features=step or None)
        super().__init__(search_space_digest=digest, torch_opt_config=config, **made_from)

    def _construct_botorch_acquisition(
        self,
        botorch_acqf_class: type[AcquisitionFunction],
        botorch_acqf_options: stored.Options,
        model: Model,
    ) -> AcquisitionFunction:
        r"""The function to maximise: the bound, or a search within it."""
        # Observed points count in the context of the trial: what is best there is sought.
        if self.context and self.X_observed is not None:
            self.X_observed = fix_features(self.X_observed, self.context).unique(dim=0)
        self._build_bands(botorch_acqf_class, botorch_acqf_options, model)
        kind, observed = self.options.get("constraints"), self.X_observed
        if kind is not None:
            self._build_constraints(kind == "safe")
        if self.safe_set is not None and observed is not None:
            observed = observed[self.safe_set.is_safe(observed)]
        if self.safe_set is not None and self.safe_set.safe_points is not None:
            arms = self.safe_set.safe_points
            observed = arms if observed is None else torch.cat([arms, observed])
        of_guard = self.options.keys() & {*stored.OF_THE_GUARD}
        guard = {name: self.options[name] for name in of_guard}
        band: Any = self.bound
        if kind == "explored":
            edge = {n: guard[n] for n in guard if n == "temperature"}
            limits: Any = self.outcome_constraints
            band = ConstrainedUCB(band, limits, observed=observed, **edge)
        if "search" not in self.options:
            return band
        # The guard passes pending points on; Ax would to functions that take none.
        pending, self.X_pending = self.X_pending, None
        search = stored.search_class(self.options["search"])
        given = self.options["search_options"]
        searched = super()._construct_botorch_acquisition(search, given, model)
        self.X_pending = pending
        return GuardedAcquisition(
            searched, band, observed=observed, X_pending=pending, **self.domain, **guard
        )

    def _build_bands(
        self, acqf_class: type[AcquisitionFunction], options: stored.Options, model: Model
    ) -> None:
        names = list(self.surrogate.outcomes)
        # Ax leaves out tracked outcomes, but keeps them in the surrogate.
        if self._subset_idcs is not None:
            names = [names[i] for i in self._subset_idcs.tolist()]
        # One row for each objective, of which there is one.
        weights = self._objective_weights.reshape(-1, len(names)).sum(0).tolist()
        used = {name: w for name, w in zip(names, weights, strict=True) if w}
        is_sum, single = acqf_class is ScalarizedUCB, stored.one_outcome_class(acqf_class)
        arguments_from = get_acqf_input_constructor(single)
        # Ax reports proportions and rates, in which bounds and thresholds are, too.
        fixed = {"outcomes": "rates"} if single is LikelihoodUCB else {}
        each_options = stored.options_by_outcome(options, names).items()
        self.bands, pending = {}, self.X_pending
        self.notes = [*self.options.get("notes", [])]
        for (name, chosen), each in zip(
            each_options, single_output_models(model), strict=True
        ):
            # A direction and pending points are of the function that is maximised alone.
            if name in used and not is_sum:
                chosen |= {"maximize": used[name] > 0.0, "X_pending": pending}
            by_model = not stored.has_own_prior(single, chosen)
            model, given, notes = self._with_inputs(each, by_model, chosen)
            bound = single(**arguments_from(model, **given, **fixed))
            if name in (ranges := self.options.get("outcome_range", {})):
                lower, upper = ranges[name]
                lower = -math.inf if lower is None else lower
                upper = math.inf if upper is None else upper
                within = bound.band.within(lower, upper)
                bound = BandUCB(within, X_pending=bound.X_pending, turns=bound.turns)
            functions = bound.band.required_set
            self.notes += notes
            for item in [*self.options.get("notes", []), *notes]:
                functions.assumptions = functions.assumptions.with_extra(item)
            self.bands[name] = bound.band
            if name in used:
                self.bound = bound
        if is_sum:
            parts, sums = [self.bands[name] for name in used], [*used.values()]
            self.bound = ScalarizedUCB(parts, sums, X_pending=pending)

    def _with_inputs(
        self, model: Model, by_model: bool, chosen: stored.Options
    ) -> tuple[Any, ...]:
        r"""A model with the inputs of the kernel; options of the bound; what is assumed.

        The kernel is a function of parameters, in their units or in the cube of the search
        space at the first trial. Ax's own cube is widened to the arms outside, rounded to
        single precision and left out where it is the unit cube. A kernel that Ax has fitted
        stays in the cube that it was fitted in. ``by_model`` says that the model has it.
        """
        inputs: KernelInputs = self.options["inputs"]
        digest = self.search_space_digest
        options, own = inputs.listed(chosen, MAP_KEY in digest.feature_names)
        if by_model and trainable(getattr(model, "covar_module", None)):
            return model, options, []
        notes = inputs.notes(own)
        # Where the model takes the inputs as they are, so does its kernel.
        if not by_model or isinstance(input_transform_of(model), Normalize):
            cube = inputs.cube(digest.bounds, own)
            model = deepcopy(model).train()  # with its raw inputs, which `eval` scales anew
            model.input_transform = Normalize(cube.shape[-1], bounds=cube)
        return model.eval(), options, notes

    def _build_constraints(self, safely: bool) -> None:
        rows: list[tuple[str, float, Any]] = []
        for row, threshold in zip(*(self._outcome_constraints or ([], [])), strict=True):
            # A constraint is on one outcome: row @ f <= threshold.
            pairs = zip(self.bands, row.tolist(), strict=True)
            ((name, weight),) = [(n, w) for n, w in pairs if w]
            side = "<=" if weight > 0.0 else ">="
            rows.append((name, float(threshold) / weight, side))
        self.statements = [  # a sum with 0.0 is never -0
            f"{name} {side} {as_given(level + 0.0)}" for name, level, side in rows
        ]
        # Ax drops constraints on outcomes without data, and we would not know.
        if len(rows) != len(every := self.options.get("every_constraint", rows)):
            raise InputDataError(
                f"Of the constraints {', '.join(every)} only "
                f"{', '.join(self.statements) or 'none'} are on outcomes that a trial "
                "inside the search space has reported; attach the others with "
                "client.attach_data(...)."
            )
        limits: dict[str, Any] = {
            "bands": [self.bands[name] for name, _, _ in rows],
            "thresholds": [level for _, level, _ in rows],
            "sides": [side for _, _, side in rows],
            # "objective" names the objective's band among those of an assumption.
            "names": ["metric objective" if n == "objective" else n for n, _, _ in rows],
        }
        self.outcome_constraints = OutcomeConstraints(**limits)
        if safely:
            points = torch.tensor(self.options.get("safe_points", []), dtype=torch.float64)
            limits["safe_points"] = points if len(points) else None
            allowed = self.options["allow_estimated"]
            self.safe_set = SafeSet(**limits, allow_estimated=allowed)

    def optimize(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        n: int,
        search_space_digest: SearchSpaceDigest,
        **options: Unpack[SearchOptions],
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""Up to ``n`` points, one after the other; their values; weights of one."""
        if self.safe_set is None:
            fixed = options.get("fixed_features")
            choices = mk_discrete_choices(search_space_digest, fixed)
            # Ax reads them from left to right, and appends fixed columns (its #5254).
            values = search_space_digest.discrete_choices
            ordered = {i: values.get(i, choices[i]) for i in sorted(choices)}
            search_space_digest = replace(search_space_digest, discrete_choices=ordered)
            optimizer = determine_optimizer(search_space_digest, discrete_choices=choices)
            one_by_one = self.acqf is self.bound and self.bound.plays_others
            at_once = n == 1 or optimizer == "optimize_acqf"
            if optimizer == "optimize_acqf_discrete" or (at_once and not one_by_one):
                return super().optimize(n, search_space_digest, **options)
        # Ax's other optimisers would ask for one value of all points together.
        points, values = list[Tensor](), list[Tensor]()
        before, acqf = self.X_pending, self.acqf
        pending = [] if before is None else [before]
        while len(points) < n:
            if points:  # the arms before this one are pending
                self.X_pending = torch.cat([*pending, *points])
                acqf.set_X_pending(self.X_pending)
            if self.safe_set is None:
                found = self._new_point(search_space_digest, **options)
            else:
                found = self._safe_point(self.safe_set, points, **options)
            if found is None:
                break
            points.append(found[0])
            values.append(found[1].reshape(()))
        self.X_pending = before
        acqf.set_X_pending(before)
        return torch.cat(points), torch.stack(values), torch.ones(len(points)).double()

    def _new_point(
        self, digest: SearchSpaceDigest, **options: Unpack[SearchOptions]
    ) -> tuple[Tensor, ...]:
        r"""The best point and its value; if another turn's was tried, the upper bound's."""
        found, bound = super().optimize(1, digest, **options)[:2], self.bound
        tried = [*self.surrogate.Xs, *([] if self.X_pending is None else [self.X_pending])]
        lower, upper = torch.tensor(digest.bounds, dtype=torch.float64).mT
        same = (torch.cat(tried) - found[0]).abs() <= _ROUND_OFF * (upper - lower)
        of_other = self.acqf is bound and bound.turn != "upper"
        if of_other and bool(same.all(-1).any()):
            self.acqf = upper_bound_of(bound)
            found = super().optimize(1, digest, **options)[:2]
            self.acqf = bound
        return found

    def _safe_point(
        self,
        safe_set: SafeSet,
        batch: Sequence[Tensor],
        *,
        inequality_constraints: list[tuple[Tensor, Tensor, float]] | None = None,
        fixed_features: dict[int, float] | None = None,
        rounding_func: Callable[[Tensor], Tensor] | None = None,
        optimizer_options: stored.Options | None = None,
        **others: object,
    ) -> tuple[Tensor, Tensor] | None:
        r"""The best safe point and its value.

        None if it is in the ``batch`` already: of two equal arms of a trial Ax makes one.
        In a finite space the best one that is not.
        """
        if given := [name for name, each in others.items() if each]:
            raise UnsupportedError(f"A safe search takes no {' or '.join(given)}.")
        fixed, every = fixed_features or {}, self.options.get("expand_every")
        # A turn counts trials under way, so that parallel trials do not share one.
        count = max(map(len, self.surrogate.Xs))
        count += 0 if self.X_pending is None else len(self.X_pending)
        widens = is_upper_turn(every, count)
        acqf = ConstraintWidth(safe_set) if widens else self.acqf
        space = mixed_space(
            self.search_space_digest, fixed, inequality_constraints, _MOST_COMBINATIONS
        )
        # Ax rounds what it is given, integers and choices, before it makes an arm of it.
        handed_out = rounding_func or (lambda point: point)
        taken = [handed_out(point) for point in batch]
        region = space.region(fixed)
        if batch and region.is_finite:
            rest = [
                point
                for point in safe_set.filter(region.points).split(1)
                if not any(torch.equal(handed_out(point), other) for other in taken)
            ]
            values = acqf(torch.stack(rest)).detach() if rest else torch.zeros(0)
            return (rest[int(values.argmax())], values.max()) if rest else None
        point, value = optimize_acqf_safely(
            acqf, safe_set, space=space, fixed_features=fixed, **(optimizer_options or {})
        )
        # Whether the arm that Ax makes of it is still safe, the node asks.
        again = any(torch.equal(handed_out(point), other) for other in taken)
        return None if again else (point, value)
