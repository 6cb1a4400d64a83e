r"""Where Ax searches and with what: mixed spaces, names, contexts; any function."""

import math

import pytest
import torch
from ax.core.parameter_constraint import ParameterConstraint
from ax.generators.torch.botorch_modular import acquisition
from ax_bench import (
    AX_WARNINGS,
    FIXED,
    GRID,
    KIND,
    NOISE_STD,
    NORM,
    REQUIRED,
    SEARCH,
    SPREAD,
    SQUARE,
    UNIT,
    along,
    ask,
    attached,
    built,
    choice,
    constrained_client,
    curve,
    fixed_client,
    make_client,
    next_trial,
    node,
    observed,
    points,
    problem,
    ranking,
    real,
    reopened,
    rows,
    run,
    searching,
    stopping,
    waves,
    whole,
)
from botorch.exceptions import UnsupportedError
from torch.testing import assert_close

import kernelucb.ax
from kernelucb import (
    KernelRegression,
    MartingaleMixtureUCB,
    regret_certificate,
)
from kernelucb.acquisition import GuardedAcquisition
from kernelucb.ax.bounds import FittedBound
from kernelucb.ax.experiment import inputs_of, parameters_of_columns
from problems import frozen_kernel, with_point

pytestmark = AX_WARNINGS


SPACE = [*UNIT, real("rate", 1e-2, 10.0, scaling="log"), whole("n", 0, 5), KIND]
CONTEXTS = [{"rate": 0.3}, {"n": 4}, {"kind": "b"}, {"rate": 1.7, "n": 1, "kind": "c"}]
TURNS = {"search": SEARCH, "search_options": {"ucb_every": 3}}


def rated(parameters):
    return {"y": parameters["x"] + math.log10(parameters["rate"]) + 0.1 * parameters["n"]}


class TestMixed:
    @pytest.mark.slow
    @pytest.mark.parametrize(("search", "largest"), [({}, 2), (TURNS, 30)])
    def test_integers_choices_and_logarithms(self, largest, search):
        # 3 combinations of integers are enumerated by optimize_acqf_mixed; 31 go to
        # optimize_acqf_mixed_alternating.
        rate = real("rate", 1e-3, 10.0, scaling="log")
        client = make_client([rate, whole("layers", 0, largest), KIND], **search)
        run(client, 3, lambda p: {"y": math.log(p["rate"]) + p["layers"] % 5})
        for p in client.get_next_trials(max_trials=3).values():
            assert type(p["layers"]) is int
            assert 0 <= p["layers"] <= largest
            assert p["kind"] in {"a", "b", "c"}
            assert 1e-3 <= p["rate"] <= 10.0
        assert (type(built(client).acqf) is GuardedAcquisition) == bool(search)
        cube = [[-3.0, 0.0, 0.0, 0.0, 0.0], [1.0, largest, 1.0, 1.0, 1.0]]
        torch.testing.assert_close(
            ranking(client).model.input_transform.bounds,
            torch.tensor(cube, dtype=torch.float64),
        )

    @pytest.mark.slow
    @pytest.mark.parametrize("temperature", [None, 0.02])
    def test_a_finite_space_is_used_up_without_repetition(self, temperature):
        own = {"search": SEARCH, "search_options": {"temperature": temperature}}
        space = [whole("n", 0, 2), choice("size", [1, 5], is_ordered=True)]
        search = {} if temperature is None else own
        client = make_client(space, num_initial=2, **search)
        run(client, 5, lambda p: {"y": float(p["n"] * p["size"])})
        arms = client._experiment.arms_by_name.values()
        assert len({tuple(arm.parameters.values()) for arm in arms}) == 5


MIXED_KINDS = [*UNIT, choice("k", "abc")]
SIZES = [*UNIT, choice("k", [1, 2, 10], is_ordered=True)]
WORDS = [*UNIT, choice("k", ["low", "middle", "high"], is_ordered=True)]
FAR = 1.7e9  # seconds; single precision has steps of 128 there
# A space, arms of which the last ones lie outside, what the kernel sees of an arm (None:
# it has no inputs).
OUTSIDE = {
    "above": (UNIT, along(0.0, 0.2, 0.3, 5.0), lambda x: [x]),
    "none": (
        [real("x", FAR, FAR + 100)],
        along(FAR, FAR + 60),
        lambda x: [(x - FAR) / 100],
    ),
    "integer": ([whole("x", 0, 10)], along(0, 4, 7, 14), lambda x: [x / 10]),
    "log": (
        [real("x", 0.01, 10.0, scaling="log")],
        along(0.01, 1.0, 100.0, 0.0, -3.0),
        lambda x: [(math.log10(x) + 2.0) / 3.0] if x > 0 else None,
    ),
    "choice": (
        MIXED_KINDS,
        [{"x": x, "k": k} for x, k in ((0.1, "a"), (0.6, "b"), (1.5, "c"), (0.2, "z"))],
        lambda x, k: [x, *(float(k == each) for each in "abc")] if k in "abc" else None,
    ),
    "size": (
        SIZES,
        [{"x": x, "k": k} for x, k in ((0.1, 1), (0.6, 2), (1.5, 10), (0.2, 20))],
        lambda x, k: [x, (k - 1.0) / 9.0],
    ),
    "words": (
        WORDS,
        [{"x": x, "k": k} for x, k in ((0.1, "low"), (0.6, "middle"), (0.2, "z"))],
        lambda x, k: None if k == "z" else [x, {"low": 0.0, "middle": 0.5}[k]],
    ),
}


class TestOutside:
    @pytest.mark.parametrize("case", OUTSIDE)
    def test_the_cube_is_that_of_the_search_space(self, case):
        space, arms, seen = OUTSIDE[case]
        client = fixed_client(space, num_initial=1)
        # A model that Ax has made before takes later arms, too.
        attached(client, arms[:1], lambda _: {"y": 0.5})
        client.mark_trial_failed(next_trial(client)[0])
        attached(client, arms[1:], lambda _: {"y": 0.2})
        inputs = [seen(**arm) for arm in arms]
        X = torch.tensor([row for row in inputs if row], dtype=torch.float64)
        y = torch.tensor([0.5] + [0.2] * (len(X) - 1), dtype=torch.float64)
        state = KernelRegression(X, y, frozen_kernel("matern52", 0.4), NOISE_STD)
        wanted = MartingaleMixtureUCB(state, norm_bound=NORM).bounds(X[1:2])
        next_trial(client)
        strategy = client._generation_strategy
        fitted = FittedBound(strategy, client._experiment)
        left_out = len(inputs) - len(X)
        for band in (fitted.band, kernelucb.ax.last_bound(client)):
            assert band.assumptions.certified
            assert_close(band.bounds(inputs_of(fitted.adapter, arms[1:2])), wanted)
            words = band.assumptions["outcomes"].statement
            assert ("left out" in words) == (left_out > 0)

    def test_no_safe_trial_rests_on_another_cube(self):
        arms, safe = along(5.0), along(problem().start)
        client = constrained_client(safe_arms=safe, num_initial=1)
        attached(client, arms, problem())
        for parameters in observed(client, 4):
            assert problem().margin(parameters) >= 0.0
        rows = built(client).bands["z"].data.train_inputs
        assert float(rows.max()) == pytest.approx(5.0)

    def test_a_search_space_that_is_changed_later(self):
        client = attached(fixed_client(num_initial=1), along(0.1, 0.4, 0.9), curve)
        next_trial(client)
        client._experiment.search_space.parameters["x"].update_range(upper=0.5)
        next_trial(client)
        for band in (kernelucb.ax.last_bound(client), kernelucb.ax.current_bound(client)):
            seen = sorted(band.data.train_inputs.flatten().tolist())
            assert seen == pytest.approx([0.2, 0.8, 1.8])


MIXED = [
    choice("solvent", "abc"),
    real("heat", 20.0, 80.0),
    choice("bath", [7]),
    choice("stirred", ["no", "yes"]),
]
SCALES = {"heat": 0.3, "solvent": 2.0, "stirred": 0.7}


def mixed_client(lengthscale):
    return fixed_client(MIXED, lengthscale=lengthscale)


class TestNames:
    def test_length_scales_by_parameter_are_those_by_column(self):
        arms = [
            {"solvent": s, "heat": 30.0, "bath": 7, "stirred": t}
            for s, t in (("a", "no"), ("b", "yes"), ("c", "no"))
        ]
        client = attached(mixed_client(SCALES), arms, lambda p: {"y": p["heat"] / 80.0})
        next_trial(client)
        columns = parameters_of_columns(client._generation_strategy.adapter.parameters)
        wanted = pytest.approx([SCALES[name] for name in columns])
        for each in (client, reopened(client)):
            bound = kernelucb.ax.current_bound(each)
            kernel = bound.data.prior.covar_module.base_kernel
            assert kernel.lengthscale.flatten().tolist() == wanted
            assert bound.assumptions.certified


class TestContexts:
    @pytest.mark.slow
    @pytest.mark.parametrize("search", [None, SEARCH])
    def test_they_are_handed_out_exactly(self, search):
        client = make_client(SPACE, search=search, num_initial=2)
        for context in [*CONTEXTS, *CONTEXTS[::-1]][: 8 if search is None else 5]:
            parameters = ask(client, context, rated)
            assert {name: parameters[name] for name in context} == context
            assert all(type(parameters[n]) is type(value) for n, value in context.items())

    @pytest.mark.parametrize("search", [None, SEARCH])
    def test_a_fixed_number_beside_very_many_combinations(self, search, monkeypatch):
        monkeypatch.setattr(acquisition, "MAX_CHOICES_ENUMERATE", 50)
        space = [real("t"), whole("a", 0, 9), whole("b", 0, 9)]
        client = make_client(space, search=search, num_initial=2)
        for t in (0.3, 0.7, 0.5):
            found = ask(client, {"t": t}, lambda p: {"y": p["a"] - p["b"] + p["t"]})
            assert found["t"] == t

    def test_trials_under_way_elsewhere_are_pending(self):
        client = searching(num_initial=2)
        attached(client, [{"u": 3.0 * v - 5.0, "v": v} for v in (1.0, 2.0, 3.0)], waves)
        _, running = next_trial(client, {"v": 9.0})
        next_trial(client, {"v": 4.0})
        acqf = built(client).acqf
        assert rows(acqf.upper_bound.X_pending) == rows(points(running))
        # Known points are compared in the context of the trial.
        assert set(acqf.reference[:, 1].tolist()) == {4.0}
        assert set(acqf.acqf.X_baseline[:-1, 1].tolist()) == {4.0}

    def test_the_reference_keeps_the_parameter_constraints(self):
        client = fixed_client(SQUARE, search=SEARCH)
        limit = ParameterConstraint(inequality="x + t <= 1.0")
        client._experiment.search_space.add_parameter_constraints([limit])
        arms = [{"x": x, "t": 0.1} for x in (0.2, 0.5, 0.85)]
        attached(client, arms, lambda p: {"y": 0.5 * p["x"]})
        next_trial(client, {"t": 0.5})
        # In the context known points lie where they could not have been observed.
        assert float(built(client).X_observed.sum(-1).max()) > 1.0
        reference = built(client).acqf.reference
        assert len(reference) == 1
        assert float(reference.sum()) <= 1.0


class TestCertificates:
    def test_the_gap_of_a_context(self):
        options = FIXED | {"lengthscale": 0.8, "norm_bound": 2.0}
        client = make_client(SQUARE, options=options)
        arms = [{"x": (0.37 * i) % 1.0, "t": 0.2 * i} for i in range(5)]
        attached(client, arms, lambda p: {"y": p["x"] * (1.0 - p["t"])})
        for t in (0.0, 0.4):
            here = stopping(client, 0.5).decide(fixed_parameters={"t": t}).certificate
            assert here.certified
            assert float(here.recommended[1]) == float(here.challenger[1]) == t
            there = torch.cat([GRID, torch.full_like(GRID, t)], -1)
            inner = regret_certificate(
                kernelucb.ax.current_bound(client),
                with_point(there, here.recommended),
                recommended=here.recommended,
            )
            assert inner.gap <= here.gap <= 1.1 * inner.gap + 0.01

    def test_a_finite_space_is_gone_through(self):
        sizes = (0.0, 0.2, 0.7, 1.0)
        client = fixed_client([choice("size", sizes, is_ordered=True), KIND])
        arms = [{"size": s, "kind": k} for s, k in ((0.0, "a"), (0.7, "b"), (1.0, "c"))]
        attached(client, arms, lambda p: {"y": p["size"] + 0.5 * (p["kind"] == "b")})
        certificate = stopping(client).decide().certificate
        assert certificate.certified
        assert certificate.resolution == 0.0
        # Ax sees the size and one column for each kind.
        all_inputs = [
            [size, *(float(kind == other) for other in range(3))]
            for size in sizes
            for kind in range(3)
        ]
        expected = regret_certificate(
            kernelucb.ax.current_bound(client),
            torch.tensor(all_inputs, dtype=torch.float64),
            recommended=certificate.recommended,
        )
        assert certificate.gap == pytest.approx(expected.gap, rel=1e-9)

    def test_parameter_constraints_take_candidates_away(self):
        found = []
        for limits in ([], ["m + n <= 4"]):
            space = [whole("m", 0, 4), whole("n", 0, 4)]
            client = fixed_client(space, lengthscale=0.5, parameter_constraints=limits)
            arms = [{"m": m, "n": n} for m, n in ((0, 0), (2, 2), (0, 4), (4, 0))]
            attached(client, arms, lambda p: {"y": 0.1 * p["m"]})
            found.append(stopping(client).decide().certificate)
            assert found[-1].certified
        assert found[1].gap < found[0].gap
        assert float(found[1].challenger.sum()) <= 4.0

    # Of 301 integers there would be too many boxes: an interval holds them.
    @pytest.mark.parametrize(("largest", "looseness"), [(0, 1.1), (3, 9.0), (300, 9.0)])
    def test_integers_are_enumerated_and_logarithms_scaled(self, largest, looseness):
        other = [whole("n", 0, largest)] if largest else []
        client = fixed_client([real("x", 1e-3, 10.0, scaling="log"), *other])
        arms = [{"x": x, **({"n": 1} if other else {})} for x in (0.01, 0.3, 4.0)]
        attached(client, arms, lambda p: curve({"x": (math.log10(p["x"]) + 3.0) / 4.0}))
        certificate = stopping(client).decide().certificate
        assert certificate.certified
        X = 4.0 * GRID - 3.0
        if other:
            X = torch.cartesian_prod(X[:, 0], torch.arange(4).double())
        inner = regret_certificate(
            kernelucb.ax.current_bound(client),
            with_point(X, certificate.recommended),
            recommended=certificate.recommended,
        )
        assert inner.gap <= certificate.gap <= looseness * inner.gap


class TestSearch:
    @pytest.mark.slow
    @pytest.mark.parametrize("acqf_class", REQUIRED)
    def test_within_every_bound(self, acqf_class):
        client = searching(acqf_class=acqf_class, options=REQUIRED[acqf_class])
        _, parameters = next_trial(attached(client, SPREAD[:3], waves))
        acqf = built(client).acqf
        assert type(acqf.upper_bound) is acqf_class
        assert type(acqf.acqf).__name__ == SEARCH
        assert acqf.band is kernelucb.ax.last_bound(client)
        edge = 10.0 * acqf.temperature * acqf.band.prior_std
        assert float(acqf.excess(points(parameters))) > -edge

    def test_a_turn_of_the_bound(self):
        client = searching(search_options={"ucb_every": 1, "temperature": 0.1})
        next_trial(attached(client, SPREAD, waves))
        acqf = built(client).acqf
        assert acqf.temperature == 0.1
        queries = torch.tensor([[[0.0, 5.0]], [[9.0, 2.0]]], dtype=torch.float64)
        assert_close(acqf(queries), acqf.upper_bound(queries))

    def test_options_of_the_searched_function_arrive(self):
        client = searching("qUpperConfidenceBound", search_options={"beta": 9.0})
        next_trial(attached(client, SPREAD, waves))
        acqf = built(client).acqf.acqf
        assert acqf.beta_prime == pytest.approx(math.sqrt(9.0 * math.pi / 2.0))

    def test_an_analytic_function_and_what_to_do_about_a_trial_under_way(self):
        client = attached(searching("LogExpectedImprovement"), SPREAD, waves)
        client.mark_trial_failed(next_trial(client)[0])  # may be chosen again
        index, _ = next_trial(client)
        with pytest.raises(UnsupportedError, match="LogExpectedImprovement is analytic "):
            next_trial(client)
        client.mark_trial_failed(index)
        client.set_generation_strategy(searching()._generation_strategy)
        run(client, 1)
        assert node(client).startswith(SEARCH)


def test_a_search_changes_no_certificate():
    X = torch.tensor([[0.2], [0.9]], dtype=torch.float64)
    found = []
    for search in (SEARCH, None):
        client = attached(fixed_client(search=search), along(0.1, 0.4, 0.8), curve)
        next_trial(client)
        bound = kernelucb.ax.current_bound(client)
        decision = stopping(client, 100.0).decide()
        assert decision.stop
        gap = torch.tensor([decision.certificate.gap], dtype=torch.float64)
        found.append(torch.cat([*bound.bounds(X), gap, decision.certificate.recommended]))
        assert_close(found[-1], found[0])
