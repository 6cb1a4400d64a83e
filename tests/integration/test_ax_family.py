r"""Certified without a known kernel: families of kernels in real Ax experiments."""

import pytest
import torch
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax_bench import (
    AX_WARNINGS,
    CURVE,
    FAST,
    NOISE_STD,
    NORM,
    PLANE,
    UNIT,
    curve,
    make_client,
    next_trial,
    node,
    points,
    run,
    wave,
    waves,
)
from botorch.exceptions import UnsupportedError
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean
from torch.testing import assert_close

import kernelucb.ax
from kernelucb import KernelFamilyUCB, KernelRegression, lengthscale_family
from kernelucb.exceptions import UncertifiedError
from problems import frozen_kernel
from tolerances import LINEAR_SOLVE

pytestmark = [pytest.mark.slow, *AX_WARNINGS]

# The length scale of the curve, 0.4, is the second of three.
OPTIONS = {"shortest": 0.2, "longest": 0.8, "kernel": "matern52", "norm_bound": NORM}
OPTIONS |= {"noise_std": NOISE_STD, "select": "widest"}
STEPS = [RangeParameterConfig(name="x", parameter_type="int", bounds=(0, 20))]
GRID = torch.linspace(0.0, 1.0, 21, dtype=torch.float64).unsqueeze(-1)


def family_client(parameters=STEPS, options=OPTIONS, **arguments):
    return make_client(parameters, acqf_class=KernelFamilyUCB, options=options, **arguments)


def step(parameters):
    return curve({"x": parameters["x"] / 20.0})


def stopping(client, gap=0.5, **arguments):
    return kernelucb.ax.CertifiedGapStoppingStrategy(gap, client, **arguments)


class TestBand:
    def test_is_that_of_the_family_whatever_ax_fits(self):
        options = {"shortest": [0.2, 0.3], "longest": 0.9, "kernel": ["rbf", "matern32"]}
        options |= {"outputscale": 400.0, "mean": 4900.0}
        given = {"norm_bound": 30.0, "noise_std": 2.0, "delta": 0.1}
        client, trials = family_client(PLANE, options | given), []
        for _ in range(5):
            index, parameters = next_trial(client)
            client.complete_trial(trial_index=index, raw_data=waves(parameters))
            trials.append(parameters)
        acqf = kernelucb.ax.current_bound(client)
        low = torch.tensor([-5.0, 0.0], dtype=torch.float64)
        Y = torch.tensor([wave(p) for p in trials], dtype=torch.float64) - 4900.0
        X = (points(*trials) - low) / 15.0
        bases = [ScaleKernel(base).double() for base in (RBFKernel(), MaternKernel(1.5))]
        for base in bases:
            base.outputscale = torch.tensor(400.0, dtype=torch.float64)
            base.requires_grad_(False)
        kernels = lengthscale_family(bases, [0.2, 0.3], 0.9)
        state = KernelRegression(X, Y, frozen_kernel("rbf"), 2.0)
        expected = KernelFamilyUCB(state, kernels, **given)
        queries = torch.tensor([[0.0, 5.0], [9.0, 2.0], [-4.0, 14.0]]).double()
        for actual, wanted in zip(
            acqf.bounds(queries), expected.bounds((queries - low) / 15.0), strict=True
        ):
            assert_close(actual, wanted + 4900.0, rtol=LINEAR_SOLVE, atol=1e-6)
        assert acqf.consistent == expected.consistent
        assert acqf.assumptions.certified
        # Ax has fitted its model, which standardises the outcomes.
        assert any(p.requires_grad for p in acqf.model.covar_module.parameters())
        assert float(acqf.model.outcome_transform.stdvs) > 1.0

    def test_reported_standard_errors_are_the_noise_where_none_is_given(self):
        client = family_client(options=OPTIONS | {"noise_std": None})
        run(client, 4, lambda p: {"y": (step(p)["y"], 0.25)})
        acqf = kernelucb.ax.current_bound(client)
        assert acqf.assumptions.certified
        assert "scale 0.25" in acqf.assumptions["noise"].statement

    def test_without_any_noise_scale_it_is_an_estimate(self):
        client = family_client(options=OPTIONS | {"noise_std": None})
        rule = stopping(client)  # standard errors may be reported later
        run(client, 4, step)
        assert kernelucb.ax.current_bound(client).assumptions.estimated == ("noise",)
        with pytest.raises(UncertifiedError, match=r"noise_std=\.\.\. in the options"):
            rule.decide()

    def test_a_progression_that_ax_scales_by_the_data(self):
        client = family_client(UNIT)
        for trial in range(4):
            index, parameters = next_trial(client)
            for progression in range(trial + 1):
                client.attach_data(index, curve(parameters), progression=progression)
            client.mark_trial_early_stopped(index)
        assumptions = kernelucb.ax.current_bound(client).assumptions
        assert assumptions.estimated == ("kernel",)
        assert "progression" in assumptions["kernel"].statement
        assert "4 were stopped early" not in assumptions["outcomes"].statement
        assert "4 trials were stopped early" in assumptions["outcomes"].statement


class TestStopping:
    @pytest.mark.parametrize(
        ("parameters", "scale", "sign"), [(STEPS, 20.0, -1.0), (UNIT, 1.0, 1.0)]
    )
    def test_stops_with_a_true_gap_below_the_tolerance(self, parameters, scale, sign):
        def value(parameters):
            return curve({"x": parameters["x"] / scale})["y"]

        def outcome(parameters):
            noise = NOISE_STD * float(torch.randn(()))
            return {"y": sign * (value(parameters) + noise)}

        client = family_client(parameters, objective="y" if sign > 0 else "-y")
        rule = stopping(client)
        for _ in range(15):
            run(client, 1, outcome)
            decision = rule.decide()
            lost = float(CURVE(GRID).max()) - value(decision.arm.parameters)
            assert lost <= decision.certificate.gap
            if decision.stop:
                break
        assert decision.stop
        assert decision.certificate.certified
        assert "estimate" not in decision.reason

    def test_failed_and_abandoned_trials_are_named_and_tell_nothing(self):
        client = run(family_client(), 5, step)
        before = stopping(client).decide()
        failed, abandoned, _ = client.get_next_trials(max_trials=3)
        pending = kernelucb.ax.last_bound(client).X_pending
        assert len(pending) == 2
        client.mark_trial_failed(failed)
        client.mark_trial_abandoned(abandoned)
        after = stopping(client).decide()
        assert after.certificate.gap == before.certificate.gap
        assert "1 trial failed and 1 was abandoned" in after.reason
        run(client, 1, step)
        assert node(client) == "KernelFamilyUCB"


def test_reopened_with_trials_under_way(tmp_path):
    client = run(family_client(), 4, step)
    client.get_next_trials(max_trials=1)
    path = str(tmp_path / "bench.json")
    kernelucb.ax.save(client, path)
    twin = Client.load_from_json_file(path)
    gaps = [stopping(each).decide().certificate.gap for each in (client, twin)]
    assert gaps[1] == pytest.approx(gaps[0], rel=1e-6)
    assert next_trial(twin) == next_trial(client)
    bounds = [kernelucb.ax.last_bound(each) for each in (client, twin)]
    assert_close(bounds[0].X_pending, bounds[1].X_pending)
    assert bounds[1].assumptions.certified


def without(*names):
    return {name: value for name, value in OPTIONS.items() if name not in names}


class TestErrors:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (without("shortest"), "KernelFamilyUCB needs the option `shortest`"),
            (without("longest"), "KernelFamilyUCB needs the option `longest`"),
            (without("norm_bound"), "KernelFamilyUCB needs the option `norm_bound`"),
            (OPTIONS | {"lengthscale": 1.0}, "has no option `lengthscale`; it takes short"),
            (OPTIONS | {"kernel": "cubic"}, "kernel must be one of rbf, matern12"),
            (OPTIONS | {"kernel": []}, "kernel is empty"),
            (OPTIONS | {"kernel": RBFKernel()}, "kernel cannot be a RBFKernel"),
            (
                OPTIONS | {"kernels": [RBFKernel()]},
                "Leave out the option `kernels`: Ax cannot store kernels; describe them "
                "with `shortest`, `longest`",
            ),
            (OPTIONS | {"mean_module": ConstantMean()}, "give a number as `mean`"),
            (OPTIONS | {"mean": float("inf")}, "mean must be a finite number"),
            (OPTIONS | {"mean": "a"}, "mean must be a number"),
            (OPTIONS | {"tracker": None}, "the bound is computed from all data each time"),
            (OPTIONS | {"ratio": 1.001}, "would have .* kernels, and 64 is the limit"),
            (OPTIONS | {"ratio": 1.0}, "ratio must be above 1"),
            (OPTIONS | {"shortest": 0.9}, "is above longest"),
            (OPTIONS | {"shortest": 0.0}, "shortest must be a finite number above 0"),
            (OPTIONS | {"shortest": []}, "shortest has 0 entries"),
            (
                OPTIONS | {"shortest": [0.1] * 2, "longest": [1.0] * 3},
                "longest has 3 entries for 2 inputs",
            ),
            (OPTIONS | {"each_coordinate": True}, "needs one shortest and one longest"),
            (OPTIONS | {"norm_bound": [1.0, 2.0]}, "2 entries for 3 kernels"),
            (OPTIONS | {"noise_std": [0.1, 0.1]}, "noise_std must be one number"),
        ],
    )
    def test_before_the_strategy_exists(self, options, message):
        with pytest.raises(ValueError, match=message):
            kernelucb.ax.generation_strategy(KernelFamilyUCB, options)

    @pytest.mark.parametrize("end", ["shortest", "longest"])
    def test_a_length_scale_for_each_input(self, end):
        both = {"shortest": 0.1, "longest": 0.9}
        client = family_client(PLANE, OPTIONS | both | {end: [0.5] * 3})
        with pytest.raises(ValueError, match=f"{end} has 3 entries for 2 inputs"):
            client.get_next_trials(max_trials=1)
        assert len(client._experiment.trials) == 0
        each = OPTIONS | both | {end: [0.5, 0.5], "mean": 3.0}
        next_trial(family_client(PLANE, each, optimizer_options=FAST))

    def test_other_models_and_objectives(self):
        client = Client(random_seed=0)
        client.configure_experiment(parameters=UNIT)
        client.configure_optimization(objective="y - 2*z")
        client.set_generation_strategy(
            kernelucb.ax.generation_strategy(KernelFamilyUCB, OPTIONS)
        )
        with pytest.raises(UnsupportedError, match="KernelFamilyUCB is for one outcome"):
            client.get_next_trials(max_trials=1)
