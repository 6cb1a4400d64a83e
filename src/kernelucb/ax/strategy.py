r"""Trials of a confidence bound in raw outcome units, as Ax generates and stores them."""

# Ax has no public way to what is read here.
# pyright: reportPrivateUsage=false

import json
import os
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from math import isclose, isfinite
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

import pandas as pd
from ax.adapter.registry import Generators
from ax.api.client import Client
from ax.core import Arm, Data, Experiment, GeneratorRun, ObservationFeatures
from ax.core.experiment_status import ExperimentStatus
from ax.core.generator_run import ArmWeight
from ax.core.trial_status import TrialStatus
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generation_strategy.transition_criterion import MinTrials
from ax.storage import botorch_modular_registry as registry
from ax.storage.json_store import encoders
from ax.storage.json_store.decoder import object_from_json
from ax.storage.json_store.registry import (
    CORE_CLASS_DECODER_REGISTRY,
    CORE_DECODER_REGISTRY,
    CORE_ENCODER_REGISTRY,
)
from ax.utils.common.constants import Keys
from ax.utils.common.random import with_rng_seed
from ax.utils.common.serialization import TClassDecoderRegistry, TDecoderRegistry
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.analytic import AnalyticAcquisitionFunction
from botorch.exceptions import UnsupportedError, UserInputWarning

from kernelucb._numerics.checks import probability, whole_number
from kernelucb.acquisition import (
    ConstrainedUCB,
    GuardedAcquisition,
    MartingaleMixtureUCB,
)
from kernelucb.acquisition.ucb import BandUCB
from kernelucb.ax import options as stored
from kernelucb.ax.acquisition import BoundAcquisition
from kernelucb.ax.experiment import (
    Parameters,
    check_experiment,
    checked_context,
    inputs_of,
    with_lost_arms,
)
from kernelucb.ax.inputs import KernelInputs
from kernelucb.ax.specs import bound_spec, check_given, options_of_now, safe_arms_of
from kernelucb.exceptions import NoSafePointError
from kernelucb.papers import (
    META_ACQUISITIONS,
    DiscreteMetaModel,
    FeatureMetaModel,
    MetaPI,
)
from kernelucb.safety import no_safe_point

_FITTED_KERNEL = (
    "A norm bound is given, but no kernel, so the bound takes the kernel that Ax fits in "
    "every trial: no theorem covers that, and the number means something else for every "
    "kernel. Give kernel=..., lengthscale=... (a mapping, in the parameters' units) and "
    "mean=..., or use KernelFamilyUCB with a range of length scales."
)
# Ax's error about a name that it does not know prints the name: these say what to do.
# Experiments that were saved without it can still be read.
_HINT = " (import kernelucb.ax first)"


def generation_strategy(
    acqf_class: type[BandUCB] = MartingaleMixtureUCB,
    options: stored.Options | None = None,
    *,
    num_initial: int = 5,
    min_observed: int | None = None,
    seed: int | None = None,
    model_config: stored.Configs = None,
    outcome_range: Mapping[str, tuple[float | None, float | None]] | None = None,
    optimizer_options: stored.Options | None = None,
    search: type[AcquisitionFunction] | str | None = None,
    search_options: stored.Options | None = None,
    constraints: Literal["safe", "explored"] | None = None,
    safe_arms: Sequence[Parameters] | None = None,
    expand_every: int | None = None,
    allow_estimated: bool = False,
) -> GenerationStrategy:
    r"""Initial trials, then trials that maximise a confidence bound, or search within it.

    Without arguments the search is that of ``MartingaleMixtureUCB(model)``, whose trials
    explore and exploit in turns.

    Outcomes stay in the units in which they are reported. Ax fits a model in every trial.
    The bound takes kernel and mean from it, marked as estimated, unless the options name a
    ``kernel`` of its own (or kernels, of ``KernelFamilyUCB``): then it takes the data only,
    and ``search`` still runs on the fitted model. ``docs/ax.md`` says all of this at
    length. An experiment that the strategy does not support raises ``UnsupportedError``
    before a trial is handed out. A norm bound without a kernel raises a
    ``UserInputWarning``.

    Example:
        >>> prior = {"kernel": "matern52", "lengthscale": 0.4, "mean": 60.0}
        >>> client.set_generation_strategy(
        ...     kernelucb.ax.generation_strategy(
        ...         MartingaleMixtureUCB,
        ...         options=prior | {"norm_bound": 50.0, "noise_std": 0.5},
        ...         search="qLogNoisyExpectedImprovement",
        ...         search_options={"ucb_every": 4},
        ...     )
        ... )

    Args:
        acqf_class: ``MartingaleMixtureUCB``, one of ``kernelucb.papers.BOUNDS``,
            ``KernelFamilyUCB``, ``LikelihoodUCB``, ``MetaUCB``, ``MetaPI``,
            ``ScalarizedUCB`` (for a sum, with a ``MartingaleMixtureUCB`` of each outcome).
        options: Arguments of ``acqf_class`` or of its ``from_model``, but for what Ax
            passes. With several outcomes each but ``delta``, which they share equally, may
            be a mapping from the names of the metrics. For a bound with a prior of its own:
            ``kernel`` (``"rbf"``, ``"matern12"``, ``"matern32"`` or ``"matern52"``),
            ``lengthscale`` (a mapping from the inputs, ``{"x": 0.2, "log10(rate)": 0.5}``,
            is in their own units; a number, or a list with one for each input, is in the
            cube of the search space at the first trial), ``outputscale`` and
            ``mean`` in outcome units.
        num_initial: Number of initial trials, at least one.
        min_observed: Number of observed trials that the bound waits for, from 1 to
            ``num_initial``; half of ``num_initial`` when absent.
        seed: Seed of the Sobol points; random when absent. The bound's trials follow from
            those before them, whatever the global seeds.
        model_config: Ax configuration of the model, or a mapping from the names of the
            metrics. By default ``SingleTaskGP`` with ``Standardize``.
        outcome_range: By the names of metrics, between which numbers an outcome is known to
            lie everywhere, None for an end that is not known, such as
            ``{"output": (0.0, 100.0)}``: in outcome units, the function without noise,
            whatever is maximised or constrained. See ``Band.within``.
        optimizer_options: Arguments for BoTorch's optimiser, such as ``num_restarts``.
        search: Acquisition function that searches within the bound, or its name, such as
            ``qLogNoisyExpectedImprovement``; by default the bound itself is maximised. A
            class of your own is stored by its name: import its module before an experiment
            is reopened.
        search_options: ``temperature`` and ``ucb_every`` of ``GuardedAcquisition``; all
            others go to the input constructor of ``search``.
        constraints: ``"safe"``: trials stay where the bands show that the outcome
            constraints are satisfied, so that with probability ``1 - delta`` no trial
            violates one. ``"explored"``: trials stay where they may be satisfied.
        safe_arms: Parameters of arms that are known to satisfy the constraints, handed out
            in turn as the initial trials of a safe experiment.
        expand_every: In a safe experiment, one trial in each block of so many is where the
            bands of the constraints are widest, to widen the safe set.
        allow_estimated: Whether a safe experiment may rest on estimates; the probability
            of a violation is then unknown.

    Returns:
        A strategy for ``Client.set_generation_strategy``, which Ax can store.

    Raises:
        UnsupportedError: If ``acqf_class`` is not one of the bounds, or does not support
            the model or constraints, or ``search`` cannot be told the objective.
        UncertifiedError: If a safe experiment would rest on estimates and
            ``allow_estimated`` is not set.
        ValueError: If an option is unknown, missing, out of range or cannot be stored, or
            a number of trials is out of range.
    """
    if acqf_class not in stored.KNOWN:
        wanted = ", ".join(each.__name__ for each in stored.KNOWN)
        got = getattr(acqf_class, "__name__", acqf_class)
        raise UnsupportedError(f"acqf_class must be one of {wanted}; got {got}.")
    bound_options = stored.storable(stored.one_outcome_class(acqf_class), options or {})
    probability("delta", bound_options.get("delta", stored.DELTA))
    further = _constrained(constraints, safe_arms, expand_every, allow_estimated)
    safe = constraints == "safe"
    arguments: dict[str, Any] = {
        "surrogate_spec": stored.surrogate_spec(model_config, acqf_class, bound_options),
        "acquisition_class": BoundAcquisition,
        "acquisition_options": further,
        "botorch_acqf_class": acqf_class,
        "botorch_acqf_options": bound_options,
        "transforms": [*stored.TRANSFORMS],
    }
    name, estimates = acqf_class.__name__, stored.estimates_of(arguments)
    if "kernel" in estimates and "norm" not in estimates:
        warnings.warn(_FITTED_KERNEL, UserInputWarning, stacklevel=2)
    if outcome_range is not None:
        further["outcome_range"] = stored.plain_value("outcome_range", {**outcome_range})
    if constraints is not None and acqf_class in META_ACQUISITIONS:
        raise UnsupportedError(
            f"{name} has the prior of one outcome: it cannot keep outcome constraints."
        )
    if acqf_class is MetaPI and not (search is None and outcome_range is None):
        raise UnsupportedError(
            "MetaPI has no band to search within or to limit by a range; use MetaUCB."
        )
    optimizing = stored.plain_value("optimizer_options", optimizer_options or {})
    if safe:
        check_given('constraints="safe"', estimates, allow_estimated)
    if search is not None:
        further |= stored.checked_search(search, search_options or {}, arguments)
        name = f"{further['search']} within {name}"
    elif search_options is not None:
        raise ValueError("search_options is given without search; give both or none.")
    name = name if constraints is None else f"{name}, {constraints}"
    sobol = GeneratorSpec(Generators.SOBOL, generator_kwargs={"seed": seed})
    bound = GeneratorSpec(
        generator_enum=Generators.BOTORCH_MODULAR,
        generator_kwargs=arguments,
        generator_gen_kwargs={"model_gen_options": {"optimizer_kwargs": optimizing}},
    )
    until = _transitions(name, num_initial, min_observed)
    return _two_nodes(name, sobol, until, bound, safe)


def _two_nodes(
    name: str,
    sobol: GeneratorSpec,
    until: list[MinTrials],
    bound: GeneratorSpec,
    safe: bool,
) -> GenerationStrategy:
    r"""Initial trials until there are enough of them, then those of the bound."""
    initial = KernelUCBNode(
        name="Safe arms" if safe else "Sobol",
        generator_specs=[sobol],
        transition_criteria=until,
        should_deduplicate=not safe,
        suggested_experiment_status=ExperimentStatus.INITIALIZATION,
    )
    node = KernelUCBNode(
        name=name,
        generator_specs=[bound],
        # A safe set may consist of its safe arms alone, to be observed again.
        should_deduplicate=not safe,
        suggested_experiment_status=ExperimentStatus.OPTIMIZATION,
    )
    return KernelUCBStrategy(name=f"{initial.name}+{name}", nodes=[initial, node])


def _constrained(
    constraints: str | None,
    safe_arms: Sequence[Parameters] | None,
    expand_every: int | None,
    allow_estimated: bool,
) -> dict[str, Any]:
    r"""What ``BoundAcquisition`` is told of the outcome constraints."""
    further: dict[str, Any] = {} if constraints is None else {"constraints": constraints}
    safe = constraints == "safe"
    if constraints not in (None, "safe", "explored"):
        raise ValueError(f'constraints must be "safe" or "explored", got {constraints!r}.')
    if safe != bool(safe_arms) or not (safe or expand_every is None):
        raise ValueError(
            'constraints="safe" needs safe_arms, at least one arm that is known to satisfy '
            "them; safe_arms and expand_every are for it alone."
        )
    if safe:
        further["safe_arms"] = stored.plain_value("safe_arms", safe_arms)
        further["allow_estimated"] = allow_estimated
    if expand_every is not None:
        further["expand_every"] = whole_number("expand_every", expand_every)
    return further


def _transitions(next_node: str, most: int, least: int | None) -> list[MinTrials]:
    r"""Until enough initial trials exist, and enough of them are observed."""
    least = max(1, most // 2) if least is None else whole_number("min_observed", least)
    if least > whole_number("num_initial", most):
        raise ValueError(f"min_observed is {least}, above num_initial = {most}.")
    every: Any = {"transition_to": next_node, "use_all_trials_in_exp": True}
    lost, observed = [TrialStatus.FAILED, TrialStatus.ABANDONED], [TrialStatus.COMPLETED]
    with_data: Any = {"only_in_statuses": observed, "count_only_trials_with_data": True}
    return [
        MinTrials(threshold=most, not_in_statuses=lost, **every),
        MinTrials(threshold=least, **with_data, **every),
    ]


class KernelUCBStrategy(GenerationStrategy):
    r"""A ``GenerationStrategy`` that is stored as one.

    Given an experiment, it has the inputs of its search space recorded: arms may be
    attached without a word to the strategy, and the space be changed after them.
    """

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        given = self._experiment if name == "_experiment" else None
        if given and not given.search_space.is_hierarchical:
            KernelInputs.of(given)


class KernelUCBNode(GenerationNode):
    r"""A ``GenerationNode`` that refuses experiments that the bound does not support.

    Ax lets the experiment be configured before or after the strategy is set, and again
    later, so this is checked before every trial, the initial ones too. Fixed parameters
    are handed out exactly as they were given. In place of initial Sobol points the safe
    arms of the strategy are handed out in turn, in the context of the trial.
    """

    def gen(
        self,
        *,
        experiment: Experiment,
        pending_observations: dict[str, list[ObservationFeatures]] | None,
        skip_fit: bool = False,
        data: Data | None = None,
        n: int | None = None,
        **of_generator: object,
    ) -> GeneratorRun | None:
        r"""The next trial's arms.

        Raises:
            UnsupportedError: If the bound does not support the experiment as it is now.
            ValueError: If options are for other outcomes or inputs.
            InputDataError: If an outcome or a standard error cannot be used.
        """
        spec, seed = bound_spec(self.generation_strategy), None
        check_experiment(spec, experiment)
        if self.generator_specs == [spec]:
            search = spec.generator_kwargs["acquisition_options"].get("search")
            # An analytic function cannot account for pending points.
            analytic = AnalyticAcquisitionFunction
            if not (search and issubclass(stored.search_class(search), analytic)):
                pending_observations = with_lost_arms(pending_observations, experiment)
            # From the arms before the trial: Ax stores neither the state of torch's
            # generator nor a client's `random_seed`, and a reopened experiment would
            # search from other starting points.
            runs = str(len(self.generation_strategy._generator_runs))
            seed = crc32("".join([*sorted(experiment.arms_by_signature), runs]).encode())
        with with_rng_seed(seed):  # None for initial trials, which have a seed of their own
            return super().gen(
                experiment=experiment,
                pending_observations=pending_observations,
                skip_fit=skip_fit,
                data=data,
                n=n,
                **of_generator,
            )

    def _fit(
        self, experiment: Experiment, data: Data | None = None, **of_generator: object
    ) -> None:
        for spec in self.generator_specs:
            # Ax would go on with the objective that an adapter was made for, and without
            # the arms outside the search space that came later.
            spec._fitted_adapter = None
        super()._fit(experiment=experiment, data=data, **of_generator)

    def _gen(
        self,
        experiment: Experiment,
        pending_observations: dict[str, list[ObservationFeatures]] | None,
        data: Data | None,
        n: int | None,
        fixed_features: ObservationFeatures | None = None,
        **of_generator: object,
    ) -> GeneratorRun:
        spec, space = bound_spec(self.generation_strategy), experiment.search_space
        context = checked_context(space, fixed_features and fixed_features.parameters)
        safe = safe_arms_of(spec, space, context)
        adapter: Any = self._fitted_adapter
        is_bound = self.generator_spec_to_gen_from is spec
        if not is_bound and "safe_arms" in spec.generator_kwargs["acquisition_options"]:
            return self._safe_run(safe, context, n or 1)
        if is_bound:
            # Ax hands options of a trial on to the acquisition by this key alone.
            options = spec.generator_gen_kwargs["model_gen_options"]
            now = options_of_now(spec, adapter, experiment, context)
            of_generator["model_gen_options"] = options | {Keys.AX_ACQUISITION_KWARGS: now}
        given = experiment, pending_observations, data, n
        run = super()._gen(*given, fixed_features=fixed_features, **of_generator)
        safe_set = adapter.generator._acquisition.safe_set if is_bound else None
        # An arm but for its last digits is this arm, which Ax then does not try again.
        tried = [*safe, *(arm.parameters for arm in experiment.arms_by_name.values())]
        table: OrderedDict[str, ArmWeight] = OrderedDict()
        for old in run._arm_weight_table.values():
            # Ax's transforms change numbers in their last digits, there and back.
            parameters = {**old.arm.parameters, **context}
            parameters = next((arm for arm in tried if _alike(arm, parameters)), parameters)
            if safe_set is not None and not bool(
                safe_set.is_safe(inputs_of(adapter, [parameters])).all()
            ):
                raise no_safe_point(f"no arm close to {parameters}")
            arm = old.arm if parameters == old.arm.parameters else Arm(parameters)
            table[arm.signature] = ArmWeight(arm=arm, weight=old.weight)
        run._arm_weight_table = table
        return run

    def _safe_run(
        self, safe: Sequence[Parameters], context: Parameters, n: int
    ) -> GeneratorRun:
        r"""Some of the safe arms, in turn."""
        if not safe:
            given = ", ".join(f"{name}={value}" for name, value in context.items())
            raise NoSafePointError(
                f"No safe arm has {given}. Give one, or leave these parameters out of an "
                "arm that is safe whatever they are."
            )
        runs = self.generation_strategy._generator_runs
        start = sum(len(r.arms) for r in runs if r._generation_node_name == self.name)
        # One arm twice in a batch would be one arm of twice the weight.
        turns = [safe[(start + i) % len(safe)] for i in range(min(n, len(safe)))]
        return GeneratorRun([Arm({**each}) for each in turns], generator_key="SafeArms")

    @classmethod
    def deserialize_init_args(
        cls,
        args: dict[str, object],
        decoder_registry: TDecoderRegistry[object] | None = None,
        class_decoder_registry: TClassDecoderRegistry | None = None,
    ) -> dict[str, Any]:
        r"""Decoded arguments of the constructor: Ax decodes only those of its nodes."""
        decoders = decoder_registry or CORE_DECODER_REGISTRY
        of_classes = class_decoder_registry or CORE_CLASS_DECODER_REGISTRY
        arguments = super().deserialize_init_args(args).items()
        return {
            name: object_from_json(value, decoders, of_classes) for name, value in arguments
        }


def _alike(arm: Parameters, parameters: Parameters) -> bool:
    r"""Whether parameters are those of an arm, up to round-off."""
    pairs = [(value, parameters.get(name)) for name, value in arm.items()]
    return all(
        a == b or (isinstance(a, float) and isclose(a, b or 0.0, rel_tol=1e-9))
        for a, b in pairs
    )


def register_for_storage() -> None:
    r"""Register bounds, models, value objects and nodes with Ax's storage, by name."""
    for acqf_class in (*stored.KNOWN, ConstrainedUCB, GuardedAcquisition):
        registry.register_acquisition_function(acqf_class)
    registry.register_acquisition(BoundAcquisition)
    hinted = BoundAcquisition.__name__ + _HINT
    registry.ACQUISITION_REGISTRY[BoundAcquisition] = hinted
    registry.REVERSE_ACQUISITION_REGISTRY[hinted] = BoundAcquisition
    for model in (DiscreteMetaModel, FeatureMetaModel):
        registry.register_model(model)
    for value in stored.VALUES:  # Ax encodes them as dataclasses
        CORE_DECODER_REGISTRY[value.__name__] = value
    CORE_ENCODER_REGISTRY[KernelUCBNode] = _node_to_dict
    for name in ("KernelUCBNode", "SafeArmsNode"):
        CORE_DECODER_REGISTRY[name] = CORE_DECODER_REGISTRY[name + _HINT] = KernelUCBNode
    CORE_ENCODER_REGISTRY[pd.DataFrame] = _table_to_dict
    CORE_ENCODER_REGISTRY[KernelUCBStrategy] = encoders.generation_strategy_to_dict
    CORE_DECODER_REGISTRY[KernelUCBStrategy.__name__] = GenerationStrategy


def _node_to_dict(node: GenerationNode) -> dict[str, Any]:
    return encoders.generation_node_to_dict(node) | {"__type": type(node).__name__ + _HINT}


def _table_to_dict(table: pd.DataFrame) -> dict[str, str]:
    r"""Ax's text of a table, but in 17 digits: Ax keeps ten decimals in any unit."""
    columns = json.loads(str(table.to_json()))
    texts = {name: json.dumps(rows) for name, rows in columns.items()}
    for name, column in table.select_dtypes("float64").items():
        # The reader is exact to 1e-15 only where one digit stands before the point.
        cells = [f"{value:.16e}" if isfinite(value) else "null" for value in column]
        rows = (f'"{label}":{cell}' for label, cell in zip(table.index, cells, strict=True))
        texts[str(name)] = f"{{{','.join(rows)}}}"
    text = ",".join(f"{json.dumps(name)}:{rows}" for name, rows in texts.items())
    return {"__type": "DataFrame", "value": f"{{{text}}}"}


def save(client: Client, path: str | Path) -> None:
    r"""Save a client so that a kill at any moment leaves a whole file: the old or the new.

    ``Client.save_to_json_file`` empties the file before it writes, so a crash in between
    loses the experiment. This writes the same text to ``<path>.partial`` in the same
    folder, waits until it is on the disk, and then renames it. The next save overwrites a
    ``.partial`` file that was left behind. One process at a time may save to a path.
    ``Client.load_from_json_file`` reads the file, in a new process after
    ``import kernelucb.ax``. (An Ax ``StorageConfig`` with a database
    saves every trial by itself.)

    Example:
        >>> kernelucb.ax.save(client, "experiment.json")  # after every trial
        >>> import kernelucb.ax  # in a new process
        >>> client = Client.load_from_json_file("experiment.json")

    Args:
        client: The Ax client, configured.
        path: The file, new or to be replaced. Where it is a link, what it points to is.

    Raises:
        OSError: If the file cannot be written; what was there stays.
    """
    text = json.dumps(client._to_json_snapshot())  # may fail: before a file is opened
    target = Path(path).resolve()  # a rename onto a link would replace the link
    partial = target.with_name(f"{target.name}.partial")
    try:
        with partial.open("w") as file:
            file.write(text)
            # Some file systems rename before they have written.
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
