r"""What Ax experiments cannot have is refused before a trial is paid for."""

import pytest
import torch
from ax.adapter.registry import Generators
from ax.api.client import Client
from ax.api.protocols.metric import IMetric
from ax.api.protocols.runner import IRunner
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from ax.orchestration.orchestrator import Orchestrator
from ax.orchestration.orchestrator_options import OrchestratorOptions
from ax_bench import (
    AX_WARNINGS,
    BINOMIAL,
    BY_NAME,
    FIXED,
    KIND,
    OPTIONS,
    PLANE,
    REQUIRED,
    SEARCH,
    SPREAD,
    UNIT,
    along,
    arms_model,
    attached,
    begun,
    constrained_client,
    curve,
    fails_early,
    fixed_client,
    make_client,
    next_trial,
    observed,
    problem,
    reopened,
    run,
    stopping,
    wave,
    waves,
    whole,
)
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.transforms.outcome import Bilog, Log, Standardize
from gpytorch.kernels import RBFKernel

import kernelucb.ax
from kernelucb import (
    IGPUCB,
    KernelFamilyUCB,
    LikelihoodUCB,
    MartingaleMixtureUCB,
    MetaPI,
    MetaUCB,
    NormTracker,
    ScalarizedUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    UnknownNoise,
    WangDeFreitasUCB,
)
from kernelucb._numerics.estimates import EstimatedNumber, estimated
from kernelucb.exceptions import UncertifiedError

pytestmark = AX_WARNINGS

REFUSED = (ValueError, UnsupportedError, InputDataError)
ONE = {"norm_bound": 1.0}
PRIOR = ONE | {"kernel": "rbf", "lengthscale": 0.3, "noise_std": 0.1}
FAMILY = ONE | {"shortest": 0.2, "longest": 0.8, "kernel": "matern52", "noise_std": 0.1}
CLASSES = {"y": MartingaleMixtureUCB, "failures": LikelihoodUCB}
BOTH = BINOMIAL | {"noise_std": 0.05}
SAFE = {"constraints": "safe", "safe_arms": along(0.5)}


def without(options, name):
    return {each: value for each, value in options.items() if each != name}


def strategy(options, acqf_class=MartingaleMixtureUCB, **arguments):
    return kernelucb.ax.generation_strategy(acqf_class, options, **arguments)


class TestOptions:
    @pytest.mark.parametrize(
        ("acqf_class", "given", "changes", "message"),
        [
            # names
            (MartingaleMixtureUCB, ONE, {"norm": 1.0}, "no option `norm`; it takes .*norm"),
            (MartingaleMixtureUCB, ONE, {"maximize": False}, "Ax takes the direction"),
            (MartingaleMixtureUCB, ONE, {"X_pending": None}, "Leave out the option"),
            (WangDeFreitasUCB, OPTIONS, {"fixed_design": True}, "bound itself chooses the"),
            (StreamingKernelUCB, {}, {}, "StreamingKernelUCB needs the option `noise_std`"),
            (
                StreamingKernelUCB,
                REQUIRED[StreamingKernelUCB],
                {"tracker": None},
                "`tracker`: Ax cannot store it",
            ),
            # what Ax can store
            (
                MartingaleMixtureUCB,
                {},
                {"norm_bound": NormTracker()},
                'NormTracker, which Ax cannot store; with "cautious"',
            ),
            (MartingaleMixtureUCB, ONE, {"form": print}, "form cannot be a builtin"),
            # values
            (MartingaleMixtureUCB, ONE, {"norm_bound": -1.0}, "norm_bound must be"),
            (MartingaleMixtureUCB, ONE, {"norm_bound": "bold"}, "must be a number"),
            (MartingaleMixtureUCB, ONE, {"delta": 1.5}, "delta must lie strictly between"),
            (MartingaleMixtureUCB, ONE, {"form": "exact"}, "form must be"),
            (MartingaleMixtureUCB, ONE, {"noise_std": torch.ones(3)}, "must be one number"),
            # a prior of its own
            (MartingaleMixtureUCB, PRIOR, {"kernel": "linear"}, "kernel must be one of"),
            (MartingaleMixtureUCB, PRIOR, {"lengthscale": None}, "lengthscale"),
            (MartingaleMixtureUCB, PRIOR, {"lengthscale": []}, "lengthscale"),
            (MartingaleMixtureUCB, PRIOR, {"lengthscale": {}}, "lengthscale"),
            (MartingaleMixtureUCB, PRIOR, {"lengthscale": {"x": 0.0}}, "lengthscale must"),
            (MartingaleMixtureUCB, PRIOR, {"outputscale": -1.0}, "outputscale must be"),
            (MartingaleMixtureUCB, PRIOR, {"mean": float("nan")}, "mean must be a finite"),
            # families
            (KernelFamilyUCB, without(FAMILY, "shortest"), {}, "the option `shortest`"),
            (KernelFamilyUCB, FAMILY, {"lengthscale": 1.0}, "no option `lengthscale`; it"),
            (KernelFamilyUCB, FAMILY, {"kernel": RBFKernel()}, "kernel cannot be a RBF"),
            (KernelFamilyUCB, FAMILY, {"kernels": []}, "describe them with `shortest`"),
            (KernelFamilyUCB, FAMILY, {"mean_module": 1.0}, "give a number as `mean`"),
            (KernelFamilyUCB, FAMILY, {"ratio": 1.001}, "kernels, and 64 is the limit"),
            (
                KernelFamilyUCB,
                FAMILY,
                {"shortest": [0.1] * 2, "longest": [1.0] * 3},
                "longest has 3 entries for 2 inputs",
            ),
            # counts
            (LikelihoodUCB, without(BINOMIAL, "likelihood"), {}, "the option `likelihood`"),
            (LikelihoodUCB, without(BINOMIAL, "lengthscale"), {}, "option `lengthscale`"),
            (LikelihoodUCB, without(BINOMIAL, "num_trials"), {}, "num_trials"),
            (LikelihoodUCB, BINOMIAL, {"num_trials": [20, 30]}, "num_trials must be"),
            (LikelihoodUCB, BINOMIAL, {"exposure": 2.0}, "exposure is for"),
            (LikelihoodUCB, BINOMIAL, {"noise_std": 0.1}, "has no option `noise_std`"),
            (LikelihoodUCB, BINOMIAL, {"outcomes": "counts"}, "metric is a proportion"),
            (LikelihoodUCB, BINOMIAL, {"train_Y": 1.0}, "Leave out the option `train_Y`"),
            # sums
            (ScalarizedUCB, {}, {"norm_bound": [1.0, -1.0]}, "norm_bound must be a finite"),
            (ScalarizedUCB, {"norm_bound": [1.0] * 2}, {"noise_std": [1.0]}, "1 entries"),
            (ScalarizedUCB, ONE, {"bound": IGPUCB}, "Leave out the option `bound`"),
            (ScalarizedUCB, ONE, {"options": {"shape": 1}}, "has no option `shape`"),
            (ScalarizedUCB, ONE, {"options": {"maximize": True}}, "Ax takes the direction"),
            # estimates, which Ax would store as plain numbers, as if they were given
            (
                MartingaleMixtureUCB,
                ONE,
                {"norm_bound": 1.2 * EstimatedNumber(3.0)},
                "norm_bound is an estimate",
            ),
            (
                MartingaleMixtureUCB,
                ONE,
                {"norm_bound": {"y": EstimatedNumber(3.0)}},
                "y is an estimate",
            ),
            (
                MartingaleMixtureUCB,
                ONE,
                {"noise_std": 2 * estimated(torch.ones(1).double()).max()},
                "noise_std is an estimate",
            ),
            (
                MartingaleMixtureUCB,
                ONE,
                {"noise_std": UnknownNoise(0.01, EstimatedNumber(1.0))},
                "upper is an estimate",
            ),
            (
                MartingaleMixtureUCB,
                PRIOR,
                {"lengthscale": [0.3, EstimatedNumber(0.3)]},
                "lengthscale is an estimate",
            ),
        ],
    )
    def test_of_a_bound(self, acqf_class, given, changes, message):
        with pytest.raises(REFUSED, match=message):
            strategy(given | changes, acqf_class)

    @pytest.mark.parametrize(
        ("classes", "options", "message"),
        [
            ({}, {}, "acqf_class is an empty mapping"),
            (CLASSES | {"y": SrinivasUCB}, {}, r"acqf_class\['y'\] must be one of .* got"),
            (CLASSES, {"horizon": 9}, "horizon is given .* bounds of none that take it"),
            (CLASSES, {"noise_std": {"failures": 0.1}}, "failures, and there are"),
            (CLASSES, {"mean": {"failure": -2.5}}, "there are bounds of failures, y"),
            (CLASSES, {"likelihood": None}, "give likelihood="),
            (CLASSES, {"norm_bound": {"y": -1.0}}, "norm_bound must be"),
            (MartingaleMixtureUCB, {"norm_bound": {"y": 1.0}, "delta": {}}, "one number"),
            (MartingaleMixtureUCB, BY_NAME | {"noise_std": {"y": 1.0}}, "bounds of y, z"),
        ],
    )
    def test_by_outcome(self, classes, options, message):
        given = BOTH if classes is CLASSES else {}
        with pytest.raises(REFUSED, match=message):
            strategy(given | options, classes, **SAFE)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"num_initial": 0}, "num_initial must be a whole number of at least 1"),
            ({"num_initial": 2.5}, "num_initial must be a whole number"),
            ({"min_observed": 0}, "min_observed must be a whole number of at least 1"),
            ({"num_initial": 2, "min_observed": 3}, "min_observed is 3, above"),
            ({"acqf_class": SingleTaskGP}, "acqf_class must be one of"),
            ({"acqf_class": "MartingaleMixtureUCB"}, "acqf_class must be one of"),
            ({"acqf_class": {"y": IGPUCB}}, "acqf_class is a mapping, for an objective"),
            ({"optimizer_options": {"callback": print}}, "callback cannot be a builtin"),
            # searches
            ({"search": "LogNoisyExpectedImprovement"}, "cannot be told the objective"),
            ({"search": "qBestGuess"}, "no acquisition function 'qBestGuess' with an"),
            ({"search": AcquisitionFunction}, "has no input constructor"),
            ({"search_options": {}}, "search_options is given without search"),
            # constraints
            ({"constraints": "strict"}, "constraints must be"),
            ({"constraints": "safe"}, "needs safe_arms: parameters of at least one arm"),
            (SAFE | {"safe_arms": along(object())}, "x cannot be a object"),
            (SAFE | {"constraints": None}, "safe_arms is for constraints="),
            ({"constraints": "explored", "expand_every": 2}, "expand_every is for"),
            ({"allow_estimated": True}, "allow_estimated is for"),
            (SAFE | {"expand_every": 0}, "expand_every must be a whole"),
            (SAFE | {"optimizer_options": {"sequential": True}}, "no optimizer option seq"),
            (
                {"constraints": "explored", "search": "LogExpectedImprovement"},
                "LogExpectedImprovement takes no outcome constraints",
            ),
        ],
    )
    def test_of_the_strategy(self, arguments, message):
        with pytest.raises(REFUSED, match=message):
            strategy(**({"options": BY_NAME} | arguments))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"beta": 2.0}, "qLogNoisy.* has no option `beta`; it takes temperature"),
            ({"ref_point": 0.0}, "Leave out the option `ref_point`"),
            ({"sampler": None}, "Ax cannot store it"),
            ({"temperature": -1.0}, "temperature must not be negative"),
            ({"ucb_every": 0}, "ucb_every must be a whole number"),
            ({"tau_max": print}, "tau_max cannot be a builtin"),
        ],
    )
    def test_of_a_search(self, options, message):
        with pytest.raises(REFUSED, match=message):
            strategy(OPTIONS, search=SEARCH, search_options=options)

    def test_of_estimated_priors(self):
        own = {"model_config": kernelucb.ax.meta_model_config(arms_model())}
        with pytest.raises(UnsupportedError, match="need model_config=meta_model_config"):
            strategy({}, MetaUCB)
        with pytest.raises(UnsupportedError, match="need a model without an estimated"):
            strategy(OPTIONS, **own)
        with pytest.raises(UnsupportedError, match="MetaUCB has the prior of one outcome"):
            strategy({}, MetaUCB, **SAFE, **own)
        with pytest.raises(UnsupportedError, match="MetaPI has no band"):
            strategy({}, MetaPI, search=SEARCH, **own)
        edge = {"temperature": 1.0}
        with pytest.raises(ValueError, match="temperature must be 0 where the prior is"):
            strategy({}, MetaUCB, search=SEARCH, search_options=edge, **own)

    @pytest.mark.parametrize("transforms", [[Log], [Log, Standardize], [Bilog]])
    def test_transformed_outcomes(self, transforms):
        r"""Ax's best arms and the stopping gap are in units of the metric."""
        own = {"outcome_transform_classes": transforms, "name": "own"}
        config = ModelConfig(botorch_model_class=SingleTaskGP, **own)
        with pytest.raises(UnsupportedError, match="Report the transformed outcome as"):
            strategy(ONE, model_config=config)

    @pytest.mark.parametrize(
        ("options", "lacking", "way"),
        [
            (OPTIONS, "kernel, mean", "kernel=... and lengthscale=..."),
            (FIXED, "norm", "norm_bound=... in the options"),
            (FIXED | {"norm_bound": {"y": 1.0, "z": "cautious"}}, "norm", "norm_bound=..."),
        ],
    )
    def test_safety_does_not_rest_on_estimates(self, options, lacking, way):
        with pytest.raises(UncertifiedError, match=f"safe. needs .*{lacking}.*{way}"):
            strategy(options, **SAFE)
        strategy(options, **SAFE, allow_estimated=True)

    def test_safety_is_for_all_rounds(self):
        with pytest.raises(UncertifiedError, match="A safe set cannot rest on"):
            strategy(BY_NAME, WangDeFreitasUCB, **SAFE)
        strategy({"noise_std": 0.1}, SrinivasUCB, constraints="explored")


LIMIT = ["z >= 1"]
SEVERAL = "is for one objective, and the experiment has several: `y, z`. .* ScalarizedUCB"
UNSUPPORTED = [
    ("y", LIMIT, 'cannot keep .* and the experiment has .*z >= 1.*"safe".*"explored"'),
    ("y, z", None, SEVERAL),
    ("y, z", LIMIT, SEVERAL),
    ("y + 2*z", None, "the objective `y . 2.z` is a sum of several; use ScalarizedUCB"),
]
CANNOT = "cannot keep outcome constraints"


class TestExperiments:
    @pytest.mark.parametrize(("objective", "limits", "message"), UNSUPPORTED)
    @pytest.mark.parametrize(
        ("acqf_class", "options"),
        [
            (MartingaleMixtureUCB, ONE),
            (KernelFamilyUCB, FAMILY),
            (LikelihoodUCB, BINOMIAL),
            (ScalarizedUCB, ONE),
        ],
    )
    def test_objectives(self, acqf_class, options, objective, limits, message):
        client = make_client(UNIT, objective, acqf_class, options, limits)
        if acqf_class is ScalarizedUCB and objective == "y + 2*z":
            next_trial(client)
        else:
            fails_early(client, f"{acqf_class.__name__} .*{message}", UnsupportedError)

    @pytest.mark.parametrize("kind", ["safe", "explored"])
    @pytest.mark.parametrize(
        ("arguments", "message", "error"),
        [
            ({"limits": ["z >= 0.9 * baseline"]}, "relative to a base", UnsupportedError),
            ({"limits": ["z + w >= 0.9"]}, "is on a sum of outcomes", UnsupportedError),
            ({"objective": "y, w"}, "has several: `y, w`", UnsupportedError),
            (
                {"options": FIXED | {"norm_bound": {"y": 1.0, "purity": 2.0}}},
                "given for the outcomes purity, y, and there are bounds of y, z",
                ValueError,
            ),
            ({"acqf_class": CLASSES, "options": BOTH}, "failures, y, .* y, z", ValueError),
        ],
    )
    def test_constraints(self, kind, arguments, message, error):
        fails_early(constrained_client(kind, **arguments), message, error)

    @pytest.mark.parametrize(
        ("arm", "message"),
        [
            ({"x": 1.5}, "not a valid"),
            ({}, "lacks the parameter `x`: give it"),
            ({"x": 0.5, "w": 1.0}, "w"),
        ],
    )
    def test_safe_arms(self, arm, message):
        client = constrained_client(safe_arms=[{"x": 0.5}, arm])
        fails_early(client, message, Exception)

    def test_too_many_combinations(self):
        space = [whole("m", 0, 200), whole("n", 0, 200)]
        client = constrained_client(parameters=space, safe_arms=[{"m": 0, "n": 0}])
        message = "there are 40401 combinations, more than 10000"
        fails_early(client, message, UnsupportedError)

    @pytest.mark.parametrize("option", ["norm_bound", "noise_std"])
    @pytest.mark.parametrize("objective", ["y - 2*z", "y"])
    def test_an_entry_for_each_outcome_of_a_sum(self, option, objective):
        options = {"norm_bound": 1.0, option: [1.0, 2.0, 3.0]}
        client = make_client(objective=objective, acqf_class=ScalarizedUCB, options=options)
        fails_early(client, f"{option} has 3 entries for [12] outcomes", ValueError)

    @pytest.mark.parametrize(
        ("parameters", "columns"), [(UNIT, 1), ([*PLANE, *UNIT], 3), ([*UNIT, KIND], 4)]
    )
    def test_a_length_scale_for_each_input(self, parameters, columns):
        own = {"norm_bound": {"y": 1.0}, "lengthscale": {"y": [0.1, 0.2]}}
        for arguments in (
            {"options": PRIOR | {"lengthscale": [0.1, 0.2]}},
            {"options": PRIOR | own},
            {"acqf_class": KernelFamilyUCB, "options": FAMILY | {"longest": [0.9, 0.9]}},
            {"acqf_class": LikelihoodUCB, "options": BINOMIAL | {"lengthscale": [0.1] * 2}},
        ):
            message = f"has 2 entries for {columns} inputs"
            fails_early(make_client(parameters, **arguments), message, ValueError)
        next_trial(fixed_client(parameters, lengthscale=[0.1] * columns))

    def test_trials_attached_by_hand_do_not_hide_it(self):
        # Ax drops constraints on metrics without data.
        client = attached(fixed_client(limits=LIMIT), along(0.1, 0.5, 0.9), curve)
        fails_early(client, CANNOT, UnsupportedError)
        for use in (kernelucb.ax.current_bound, stopping):
            with pytest.raises(UnsupportedError, match=CANNOT):
                use(client)

    def test_in_the_orchestrator(self):
        client = fixed_client(limits=LIMIT)
        client.configure_metrics([Nothing("y"), Nothing("z")])
        client.configure_runner(Never())
        options = OrchestratorOptions(init_seconds_between_polls=0)
        orchestrator = Orchestrator(
            client._experiment, client._generation_strategy, options
        )
        with pytest.raises(UnsupportedError, match=CANNOT):
            orchestrator.run_n_trials(3)
        assert len(client._experiment.trials) == 0


class Never(IRunner):
    def run_trial(self, trial_index, parameterization):
        raise AssertionError("a trial was handed out")


class Nothing(IMetric):
    pass


class TestConfiguredLater:
    @pytest.mark.slow
    @pytest.mark.parametrize(("objective", "limits", "message"), UNSUPPORTED)
    @pytest.mark.parametrize("trials", [0, 4])
    def test_refused_until_it_is_taken_back(self, trials, objective, limits, message):
        client = begun(trials)
        client.configure_optimization(objective=objective, outcome_constraints=limits)
        fails_early(client, message, UnsupportedError)
        again = reopened(client)
        fails_early(again, message, UnsupportedError)
        again.configure_optimization(objective="y")
        run(again, 1, curve)

    @pytest.mark.slow
    def test_the_direction_is_that_of_the_present_objective(self):
        client = begun(4)
        assert kernelucb.ax.last_bound(client).direction == 1
        client.configure_optimization(objective="-y")
        run(client, 1, curve)
        assert kernelucb.ax.last_bound(client).direction == -1

    @pytest.mark.slow
    def test_constraints_that_come_and_go(self):
        client = constrained_client()
        observed(client, 3)
        client.configure_optimization(objective="y")
        fails_early(client, "the experiment has none", UnsupportedError)
        low = problem().threshold
        client.configure_optimization(objective="y", outcome_constraints=[f"z >= {low}"])
        observed(client, 1)

    def test_after_the_strategy(self):
        client = Client(random_seed=0)
        client.configure_experiment(parameters=UNIT)
        client.set_generation_strategy(strategy(ONE))
        client.configure_optimization(objective="y", outcome_constraints=LIMIT)
        fails_early(client, CANNOT, UnsupportedError)


def test_outcomes_that_ax_transforms_are_not_those_reported():
    # Nodes made by hand: one with the transforms that Ax takes by default, one of Sobol.
    client = attached(fixed_client(), along(0.1, 0.5), curve)
    arguments = dict(client._generation_strategy._nodes[1].generator_spec.generator_kwargs)
    del arguments["transforms"]
    for spec in (
        GeneratorSpec(Generators.BOTORCH_MODULAR, generator_kwargs=arguments),
        GeneratorSpec(Generators.SOBOL),
    ):
        own = GenerationStrategy(nodes=[GenerationNode(name="own", generator_specs=[spec])])
        client.set_generation_strategy(own)
        for use in (kernelucb.ax.current_bound, stopping):
            with pytest.raises(UnsupportedError, match="no bound of this package on outco"):
                use(client)


def test_what_only_the_data_show_is_refused_by_their_trial():
    options = OPTIONS | {"horizon": 3}
    client = attached(make_client(acqf_class=IGPUCB, options=options), SPREAD[:4], waves)
    with pytest.raises(ValueError, match="horizon is 3, but there are 4"):
        next_trial(client)
    own = {"acqf_class": StreamingKernelUCB, "options": REQUIRED[StreamingKernelUCB]}
    client = make_client(**own)
    attached(client, SPREAD, lambda p: {"y": (wave(p), 1.0 + 0.1 * abs(p["u"]))})
    with pytest.raises(UnsupportedError, match="one noise scale for each observation"):
        next_trial(client)
