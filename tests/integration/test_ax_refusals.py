r"""What Ax experiments cannot have is refused before a trial is paid for."""

import math

import pytest
import torch
from ax.adapter.registry import Generators
from ax.api.configs import ChoiceParameterConfig
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
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
    SQUARE,
    UNIT,
    along,
    arms_model,
    attached,
    constrained_client,
    curve,
    fails_early,
    fixed_client,
    make_client,
    next_trial,
    reopened,
    run,
    stopping,
    wave,
    waves,
    whole,
)
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import InputDataError, UnsupportedError, UserInputWarning
from botorch.models import SingleTaskGP
from botorch.models.transforms.outcome import Bilog, Log, Standardize

import kernelucb.ax
from kernelucb import (
    IGPUCB,
    KernelFamilyUCB,
    LikelihoodUCB,
    MartingaleMixtureUCB,
    MetaPI,
    MetaUCB,
    NearNormBall,
    NormTracker,
    ScalarizedUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    UnknownNoise,
    WangDeFreitasUCB,
)
from kernelucb._numerics.estimates import EstimatedNumber
from kernelucb.exceptions import UncertifiedError

pytestmark = AX_WARNINGS

REFUSED = (ValueError, UnsupportedError, InputDataError, UncertifiedError)
ONE = {"norm_bound": 1.0}
PRIOR = ONE | {"kernel": "rbf", "lengthscale": 0.3, "noise_std": 0.1}
FAMILY = ONE | {"shortest": 0.2, "longest": 0.8, "kernel": "matern52", "noise_std": 0.1}
CLASSES = {"y": MartingaleMixtureUCB, "failures": LikelihoodUCB}
BOTH = BINOMIAL | {"noise_std": 0.05}
SAFE = {"constraints": "safe", "safe_arms": along(0.5)}


def strategy(options, acqf_class=MartingaleMixtureUCB, **arguments):
    return kernelucb.ax.generation_strategy(acqf_class, options, **arguments)


# For each class, options that are taken, and changes of them that are not.
OF_A_BOUND = {
    MartingaleMixtureUCB: (
        ONE | {"kernel": "rbf", "lengthscale": 0.3},
        [
            # names, and what Ax can store
            ({"norm": 1.0}, "no option `norm`; it takes .*norm_bound"),
            ({"maximize": False}, "Ax takes the direction"),
            ({"norm_bound": NormTracker()}, 'which Ax cannot store; with "cautious"'),
            # values
            ({"norm_bound": -1.0}, "norm_bound must be a finite number above 0"),
            ({"noise_std": torch.ones(3)}, "must be one number"),
            ({"kernel": "linear"}, "kernel must be one of rbf, matern12"),
            ({"lengthscale": {}}, "lengthscale"),
            # estimates, which Ax would store as plain numbers, as if they were given
            ({"norm_bound": 1.2 * EstimatedNumber(3.0)}, "norm_bound is an estimate"),
            ({"noise_std": UnknownNoise(0.01, EstimatedNumber(1.0))}, "upper is an est"),
            ({"lengthscale": [0.3, EstimatedNumber(0.3)]}, "lengthscale is an estimate"),
        ],
    ),
    KernelFamilyUCB: (
        FAMILY,
        [
            ({"lengthscale": 1.0}, "no option `lengthscale`; it takes short"),
            ({"shortest": [0.1] * 2, "longest": [1.0] * 3}, "3 entries for 2 inputs"),
        ],
    ),
    LikelihoodUCB: (BINOMIAL, [({"num_trials": [20, 30]}, "num_trials must be")]),
    ScalarizedUCB: (
        {"norm_bound": [1.0, 1.0]},
        [
            ({"noise_std": [1.0]}, "noise_std has 1 entries for 2"),
            ({"options": {"shape": 1}}, "has no option `shape`"),
        ],
    ),
}


# The same of all arguments of a strategy.
META = {"options": {}, "model_config": kernelucb.ax.meta_model_config(arms_model())}
WITHIN = {"options": OPTIONS, "search": SEARCH}
OF_THE_STRATEGY = [
    (
        {"options": BY_NAME},
        [
            ({"num_initial": 0}, "num_initial must be a whole number of at least 1"),
            ({"num_initial": 2, "min_observed": 3}, "min_observed is 3, above"),
            ({"acqf_class": SingleTaskGP}, "acqf_class must be one of"),
            ({"acqf_class": CLASSES}, "acqf_class is a mapping, for an objective and"),
            ({"optimizer_options": {"callback": print}}, "callback cannot be a builtin"),
            ({"constraints": "strict"}, "constraints must be"),
            ({"constraints": "safe"}, "needs safe_arms: parameters of at least one arm"),
            ({"safe_arms": along(0.5)}, "safe_arms is for constraints="),
        ],
    ),
    (
        SAFE | {"options": BY_NAME},
        [
            ({"safe_arms": along(object())}, "x cannot be a object"),
            ({"expand_every": 0}, "expand_every must be a whole"),
            ({"optimizer_options": {"sequential": True}}, "no optimizer option sequential"),
            ({"options": BY_NAME | {"delta": {}}}, "delta is one number"),
            ({"acqf_class": WangDeFreitasUCB}, "A safe set cannot rest on"),
        ],
    ),
    (
        SAFE | {"acqf_class": CLASSES, "options": BOTH},
        [
            ({"acqf_class": {}}, "acqf_class is an empty mapping"),
            ({"acqf_class": {"y": SrinivasUCB}}, r"class\['y'\] must be one of .* got Sri"),
            ({"options": BOTH | {"horizon": 9}}, "horizon is .* of none that take it"),
            ({"options": BOTH | {"noise_std": {"failures": 1.0}}}, "are bounds of y "),
        ],
    ),
    (
        {"options": OPTIONS},
        [
            ({"search": "LogNoisyExpectedImprovement"}, "cannot be told the objective"),
            ({"search": "qBestGuess"}, "no acquisition function 'qBestGuess' with an"),
            ({"search": AcquisitionFunction}, "has no input constructor"),
            ({"search_options": {}}, "search_options is given without search"),
            ({"outcome_range": (0.0, 1.0)}, "must be a mapping from the names"),
            ({"outcome_range": {"y": 1.0}}, r"range\['y'\] must be \(lower, upper\)"),
            ({"outcome_range": {"y": (None, None)}}, r"must be \(lower, upper\)"),
            ({"outcome_range": {"y": (2.0, 1.0)}}, "lower must be below upper"),
            ({"outcome_range": {"y": (0.0, math.inf)}}, "must be a finite"),
            ({"outcome_range": {"y": (0.0, EstimatedNumber(1.0))}}, "is an estimate"),
        ],
    ),
    (
        WITHIN,
        [
            ({"search_options": {"beta": 2.0}}, "no option `beta`; it takes temp"),
            ({"search_options": {"temperature": -1.0}}, "temperature must not be negative"),
            ({"search_options": {"ucb_every": 0}}, "ucb_every must be a whole number"),
            ({"constraints": "explored", "search": "LogExpectedImprovement"}, "no outcome"),
        ],
    ),
    (
        META,
        [
            ({"options": ONE}, "need a model without an estimated"),
            ({"acqf_class": MetaUCB, "model_config": None}, "need model_config=meta_model"),
            ({"acqf_class": MetaUCB} | SAFE, "MetaUCB has the prior of one outcome"),
            ({"acqf_class": MetaPI, "search": SEARCH}, "MetaPI has no band"),
            ({"acqf_class": MetaPI, "outcome_range": {"y": (0, 1)}}, "use MetaUCB"),
        ],
    ),
    (
        META | {"acqf_class": MetaUCB, "search": SEARCH},
        [({"search_options": {"temperature": 1}}, "temperature must be 0 where the prior")],
    ),
]


class TestOptions:
    @pytest.mark.parametrize(
        ("acqf_class", "options", "message"),
        [
            (acqf_class, given | changes, message)
            for acqf_class, (given, refused) in OF_A_BOUND.items()
            for changes, message in refused
        ],
    )
    def test_of_a_bound(self, acqf_class, options, message):
        with pytest.raises(REFUSED, match=message):
            strategy(options, acqf_class)

    @pytest.mark.parametrize(
        ("acqf_class", "needed"),
        [
            (KernelFamilyUCB, ("shortest", "longest", "norm_bound")),
            (LikelihoodUCB, ("likelihood", "kernel", "lengthscale", "num_trials")),
        ],
    )
    def test_missing(self, acqf_class, needed):
        given, _ = OF_A_BOUND[acqf_class]
        for name in needed:
            options = {each: value for each, value in given.items() if each != name}
            with pytest.raises(REFUSED, match=name):
                strategy(options, acqf_class)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (given | each, message)
            for given, rows in OF_THE_STRATEGY
            for each, message in rows
        ],
    )
    def test_of_the_strategy(self, arguments, message):
        with pytest.raises(REFUSED, match=message):
            strategy(**arguments)

    @pytest.mark.parametrize("transforms", [[Log, Standardize], [Bilog]])
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


class TestAFittedKernel:
    @pytest.mark.filterwarnings("default:A norm bound is given, but no kernel")
    @pytest.mark.parametrize(
        "norm_bound", [3.0, {"y": 3.0, "z": 2.0}, NearNormBall(3.0, 1)]
    )
    def test_a_given_norm_bound_warns(self, norm_bound):
        own = {"norm_bound": norm_bound, "noise_std": 0.1}
        explored = {"constraints": "explored"} if isinstance(norm_bound, dict) else {}
        with pytest.warns(UserInputWarning, match="no theorem covers .* KernelFamilyUCB"):
            strategy(own, **explored)

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize(
        "own", [FIXED | {"norm_bound": 3.0}, {"norm_bound": "cautious"}]
    )
    def test_nothing_else_does(self, own):
        strategy(own)


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
        [(MartingaleMixtureUCB, ONE), (LikelihoodUCB, BINOMIAL), (ScalarizedUCB, ONE)],
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
            ({"outcome_range": {"w": (0.0, 1.0)}}, "for w, and .* on y, z", ValueError),
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

    @pytest.mark.filterwarnings("ignore:`is_ordered` is not specified")
    @pytest.mark.parametrize("kind", [None, "safe"])
    def test_a_hierarchical_space(self, kind):
        parent = ChoiceParameterConfig(
            name="m",
            parameter_type="str",
            values=["a", "b"],
            dependent_parameters={"a": ["x"], "b": ["t"]},
        )
        space, arm = [parent, *SQUARE], {"m": "a", "x": 0.2}
        own = {"parameters": space, "safe_arms": [arm]}
        client = constrained_client(**own) if kind else fixed_client(space)
        message = "search space is hierarchical: which parameters an arm has depends on m"
        fails_early(client, message, UnsupportedError)
        attached(client, [arm], lambda _: {"y": 0.1, "z": 9.0})
        for use in (kernelucb.ax.optimum_report, kernelucb.ax.recommended_arm, stopping):
            with pytest.raises(UnsupportedError, match=message):
                use(client)

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


def test_what_is_configured_later_counts_from_then_on():
    client = run(fixed_client(num_initial=2), 3, curve)
    assert kernelucb.ax.last_bound(client).direction == 1
    for objective, limits, message in UNSUPPORTED:
        client.configure_optimization(objective=objective, outcome_constraints=limits)
        fails_early(client, message, UnsupportedError)
    fails_early(reopened(client), message, UnsupportedError)
    client.configure_optimization(objective="-y")
    run(client, 1, curve)
    assert kernelucb.ax.last_bound(client).direction == -1


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
