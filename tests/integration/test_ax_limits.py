r"""Search spaces that are not a cube, and what Ax must not ignore silently."""

import math
import sys

import pytest
import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax_bench import (
    AX_WARNINGS,
    OPTIONS,
    REQUIRED,
    begun,
    make_client,
    next_trial,
    run,
    wave,
    waves,
)
from botorch.exceptions import UnsupportedError
from botorch.models import SingleTaskGP

import kernelucb.ax
from kernelucb import (
    IGPUCB,
    MartingaleMixtureUCB,
    NormTracker,
    StreamingKernelUCB,
    WangDeFreitasUCB,
)

pytestmark = [pytest.mark.slow, *AX_WARNINGS]


class TestMixedSpaces:
    @pytest.mark.parametrize("largest", [2, 30])
    def test_integers_choices_and_logarithms(self, largest):
        # 3 combinations of integers are enumerated by optimize_acqf_mixed; 31 go to
        # optimize_acqf_mixed_alternating.
        parameters = [
            RangeParameterConfig(
                name="rate", parameter_type="float", bounds=(1e-3, 10.0), scaling="log"
            ),
            RangeParameterConfig(name="layers", parameter_type="int", bounds=(0, largest)),
            ChoiceParameterConfig(
                name="kind",
                parameter_type="str",
                values=["a", "b", "c"],
                is_ordered=False,
            ),
        ]
        client = make_client(parameters)
        run(client, 3, lambda p: {"y": math.log(p["rate"]) + p["layers"] % 5})
        trials = client.get_next_trials(max_trials=3)
        for p in trials.values():
            assert type(p["layers"]) is int
            assert 0 <= p["layers"] <= largest
            assert p["kind"] in {"a", "b", "c"}
            assert 1e-3 <= p["rate"] <= 10.0
        acqf = kernelucb.ax.last_bound(client)
        cube = [[-3.0, 0.0, 0.0, 0.0, 0.0], [1.0, largest, 1.0, 1.0, 1.0]]
        torch.testing.assert_close(
            acqf.model.input_transform.bounds, torch.tensor(cube, dtype=torch.float64)
        )

    def test_a_finite_space_is_used_up_without_repetition(self):
        parameters = [
            RangeParameterConfig(name="n", parameter_type="int", bounds=(0, 3)),
            ChoiceParameterConfig(
                name="size", parameter_type="int", values=[1, 5, 20], is_ordered=True
            ),
        ]
        client = make_client(parameters, num_initial=2)
        run(client, 8, lambda p: {"y": float(p["n"] * p["size"])})
        arms = client._experiment.arms_by_name.values()
        assert len({tuple(arm.parameters.values()) for arm in arms}) == 8


class TestErrors:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (
                {"norm_bound": NormTracker()},
                'NormTracker, which Ax cannot store; with "cautious"',
            ),
            ({"norm_bound": "bold"}, "must be a number"),
            (
                {"norm_bound": 1.0, "form": print},
                "form cannot be a builtin_function",
            ),
            ({"norm_bound": -1.0}, "norm_bound must be a finite number above 0"),
            (
                {"norm_bound": 1.0, "norm": 1.0},
                "no option `norm`; it takes .*norm_bound",
            ),
            ({"norm_bound": 1.0, "delta": 1.5}, "delta must lie strictly between"),
            ({"norm_bound": 1.0, "form": "exact"}, "form must be"),
            ({"norm_bound": 1.0, "maximize": False}, "Ax takes the direction"),
            ({"norm_bound": 1.0, "X_pending": None}, "Leave out the option `X_pending`"),
            ({"norm_bound": 1.0, "noise_std": torch.ones(3)}, "must be one number"),
            ({"norm_bound": 1.0, "noise_std": [1.0, 2.0]}, "must be one number"),
        ],
    )
    def test_wrong_options(self, options, message):
        with pytest.raises(ValueError, match=message):
            kernelucb.ax.generation_strategy(MartingaleMixtureUCB, options)

    def test_inputs_in_ax_are_not_fixed_in_advance(self):
        with pytest.raises(ValueError, match="`fixed_design`: the bound itself chooses"):
            kernelucb.ax.generation_strategy(
                WangDeFreitasUCB, OPTIONS | {"fixed_design": True}
            )

    def test_wrong_optimizer_options(self):
        with pytest.raises(ValueError, match="post_processing_func cannot be a builtin"):
            kernelucb.ax.generation_strategy(
                MartingaleMixtureUCB,
                OPTIONS,
                optimizer_options={"post_processing_func": print},
            )

    @pytest.mark.parametrize("options", [{}, None])
    def test_missing_options(self, options):
        with pytest.raises(ValueError, match="needs the option `noise_std`"):
            kernelucb.ax.generation_strategy(StreamingKernelUCB, options)

    def test_a_tracker_is_not_stored(self):
        options = REQUIRED[StreamingKernelUCB] | {"tracker": None}
        with pytest.raises(ValueError, match="`tracker`: Ax cannot store it"):
            kernelucb.ax.generation_strategy(StreamingKernelUCB, options)

    def test_standard_errors_contradict_an_unknown_noise_scale(self):
        options = REQUIRED[StreamingKernelUCB]
        client = make_client(acqf_class=StreamingKernelUCB, options=options)
        run(client, 3, lambda p: {"y": (wave(p), 1.0 + 0.1 * abs(p["u"]))})
        with pytest.raises(UnsupportedError, match="one noise scale for each observation"):
            next_trial(client)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"num_initial": 0}, "num_initial must be a whole number of at least 1"),
            ({"num_initial": 2.5}, "num_initial must be a whole number"),
            ({"min_observed": 0}, "min_observed must be a whole number of at least 1"),
            ({"num_initial": 2, "min_observed": 3}, "min_observed is 3, above"),
        ],
    )
    def test_wrong_numbers_of_trials(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            kernelucb.ax.generation_strategy(MartingaleMixtureUCB, OPTIONS, **arguments)

    @pytest.mark.parametrize("acqf_class", [SingleTaskGP, "MartingaleMixtureUCB"])
    def test_only_bounds_are_taken(self, acqf_class):
        with pytest.raises(UnsupportedError, match="acqf_class must be one of"):
            kernelucb.ax.generation_strategy(acqf_class, OPTIONS)

    def test_a_limit_of_the_theorem_is_reported_by_its_trial(self):
        client = make_client(acqf_class=IGPUCB, options=OPTIONS | {"horizon": 3})
        run(client, 4)
        with pytest.raises(ValueError, match="horizon is 3, but there are 4"):
            next_trial(client)

    @pytest.mark.parametrize("lengthscale", [None, [], [0.1, 0.0], {}])
    def test_length_scales(self, lengthscale):
        options = OPTIONS | {"kernel": "rbf", "lengthscale": lengthscale}
        with pytest.raises(ValueError, match="lengthscale"):
            kernelucb.ax.generation_strategy(MartingaleMixtureUCB, options)

    def test_a_client_without_a_strategy(self):
        for use in (
            kernelucb.ax.last_bound,
            kernelucb.ax.recommended_arm,
            lambda client: kernelucb.ax.CertifiedGapStoppingStrategy(1.0, client),
        ):
            with pytest.raises(ValueError, match="The client has no generation strategy"):
                use(Client())

    def test_no_bound_yet(self):
        client = begun(1, make_client, waves)
        with pytest.raises(ValueError, match="the strategy is at its node `Sobol`"):
            kernelucb.ax.last_bound(client)

    def test_without_ax_the_import_says_what_to_install(self, monkeypatch):
        for name in list(sys.modules):
            if name.split(".")[0] == "ax" or name.startswith("kernelucb.ax"):
                monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "ax", None)
        with pytest.raises(ImportError, match=r"pip install 'kernelucb\[ax\]'"):
            __import__("kernelucb.ax")
