r"""Ax: outcomes that lack, count, constrain; safe trials; spaces, contexts, search."""

import math

import pytest
import torch
from ax.exceptions.core import DataRequiredError
from ax.generators.torch.botorch_modular import acquisition
from ax_bench import *
from botorch.exceptions import InputDataError, UnsupportedError
from torch.testing import assert_close

import kernelucb.ax
from kernelucb import (
    KernelFamilyUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    ScalarizedUCB,
    regret_certificate,
)
from kernelucb.acquisition import ConstrainedUCB, GuardedAcquisition
from kernelucb.ax.bounds import FittedBound, asked
from kernelucb.ax.experiment import inputs_of, parameters_of_columns
from kernelucb.data.kernel_family import fixed_kernel
from kernelucb.exceptions import NoSafePointError, UncertifiedError
from problems import frozen_kernel, likelihood_ucb, with_point
from tolerances import LINEAR_SOLVE

# An experiment of Ax, looked at several times, takes half a second to two.
pytestmark = [*AX_WARNINGS, pytest.mark.usefixtures("unfitted")]
SLOW = pytest.mark.slow


FAILED = ("mark_trial_failed", None)
ABANDONED = ("mark_trial_abandoned", curve)
STOPPED = ("mark_trial_early_stopped", curve)
WITH_NAN = ("complete_trial", lambda _: {"y": math.nan})


def end(client, *ends):
    r"""Further trials, each reported or not, and ended by a method of the client."""
    for i, (how, outcome) in enumerate(ends):
        x = 0.05 + 0.1 * i
        index = client.attach_trial({"x": x})
        if outcome is not None:
            client.attach_data(trial_index=index, raw_data=outcome({"x": x}))
        getattr(client, how)(trial_index=index)
    return client


def missing_in(band):
    found = [x for x in band.assumptions.items if x.name == "missing outcomes"]
    assert all(x.status == "given" for x in found)
    return "".join(x.statement for x in found)


class TestMissing:
    # Every claim of a whole experiment that is reopened: half a second.
    @pytest.mark.representatives("ends0-", "ends1-trials abandoned: 1")
    @pytest.mark.parametrize(
        ("ends", "missing"),
        [
            ([], ""),
            ([ABANDONED], "trials abandoned: 1"),
            ([STOPPED] * 2, "trials stopped early: 2"),
            (
                [FAILED, ("mark_trial_abandoned", None), WITH_NAN, WITH_NAN],
                "trials failed: 1, trials abandoned: 1, "
                "trials completed without an outcome: 2",
            ),
        ],
    )
    def test_is_said_by_every_claim(self, ends, missing):
        client = attached(fixed_client(num_initial=1), SOME[:2], curve)
        client = reopened(end(client, *ends))
        client.get_next_trials(max_trials=2)
        band, decision = kernelucb.ax.last_bound(client), stopping(client, 100.0).decide()
        note = f"{missing}; none of that depended on the noise of their outcomes"
        for each in (band, kernelucb.ax.current_bound(client), decision.certificate):
            assert missing_in(each) == (note if missing else "")
        assert band.data.num_observations == 2 + ends.count(STOPPED)
        assert decision.stop
        assert decision.certificate.certified
        note = f", given that none of this depended on the noise of the outcomes: {missing}"
        assert decision.reason.endswith(note) == bool(missing)

    @pytest.mark.slow
    def test_progressions_are_an_input(self):
        client = attached(fixed_client(options={"norm_bound": 10.0}), SOME, curve)
        for x, steps in ((0.2, 2), (0.6, 3)):
            index = client.attach_trial({"x": x})
            for step in range(1, 1 + steps):
                client.attach_data(index, curve({"x": x}), progression=step)
            getattr(client, STOPPED[0] if steps == 2 else WITH_NAN[0])(trial_index=index)
        band = kernelucb.ax.current_bound(client)
        assert band.data.dimension == 2
        # Ax scales the progression by the range that it has seen.
        assert band.assumptions.estimated == ("progression",)
        with pytest.raises(UncertifiedError, match=r"estimates \(progression\)"):
            stopping(client).decide()
        certificate = stopping(client, allow_estimated=True).decide().certificate
        assert certificate.summary == "heuristic: progression estimated"
        # The arm is recommended for a run to the end.
        assert float(certificate.recommended[1]) == 1.0
        assert missing_in(band).startswith("trials stopped early: 1;")


def refused(client, message):
    trials = len(client._experiment.trials)
    for use in (next_trial, kernelucb.ax.current_bound):
        with pytest.raises(InputDataError, match=message):
            use(client)
    assert len(client._experiment.trials) == trials


class TestUnusable:
    r"""Refused by the name of their trial."""

    @pytest.mark.representatives(
        r"-inf-0.1-outcome of y in trial 2 \\(arm 2_0\\) is -inf",
        "outcome3-0.1-standard error .* is nan; others have a standard error",
    )
    @pytest.mark.parametrize(
        ("outcome", "noise_std", "message"),
        [
            (-math.inf, 0.1, r"outcome of y in trial 2 \(arm 2_0\) is -inf"),
            ((0.5, -1.0), None, "standard error .* is -1; a standard error lies"),
            ((0.5, math.inf), 0.1, "standard error .* is inf; a standard error lies"),
            ((0.5, None), 0.1, "standard error .* is nan; others have a standard error"),
            ((0.5, 0.0), None, "is 0; a bound needs a noise scale above 0: give noise_std"),
        ],
    )
    def test_until_they_are_attached_anew(self, outcome, noise_std, message):
        client = fixed_client(options={"norm_bound": 10.0, "noise_std": noise_std})
        errors = (0.25, None if isinstance(outcome, float) else 0.1)
        attached(client, along(0.1, 0.7), lambda _: {"y": errors})
        attached(client, along(0.4), lambda _: {"y": outcome})
        refused(client, message)
        client.attach_data(trial_index=2, raw_data={"y": errors})
        next_trial(client)

    def test_only_of_trials_that_count(self):
        client = attached(fixed_client(), SOME, curve)
        index = client.attach_trial({"x": 0.9})
        client.attach_data(trial_index=index, raw_data={"y": math.inf})
        refused(client, "in trial 3")
        client.mark_trial_failed(index)
        next_trial(client)


class TestCounts:
    @pytest.mark.parametrize("likelihood", LIKELIHOODS)
    def test_the_band_is_that_of_the_counts(self, likelihood):
        options = LIKELIHOODS[likelihood] | {"lengthscale": [0.3, 0.6], "outputscale": 0.8}
        total = {"bernoulli": 1.0, "binomial": 20.0, "poisson": 2.5}[likelihood]
        counts = [0.0, 1.0, 1.0, 0.0, 1.0] if total == 1.0 else [3.0, 7.0, 5.0, 16.0, 9.0]
        # A standard error says nothing that the likelihood does not say better.
        left = iter(counts)
        client = count_client(PLANE, options)
        attached(client, SPREAD, lambda _: {"y": (next(left) / total, 0.1)})
        band = kernelucb.ax.current_bound(client)
        scales = torch.tensor([[0.3, 0.6]], dtype=torch.float64)
        kernel = fixed_kernel("rbf", scales, 0.8).requires_grad_(False)
        names = ("likelihood", "norm_bound", "num_trials", "exposure")
        given = {name: options[name] for name in names if name in options}
        given["mean_module"] = options.get("mean")
        Y = torch.tensor(counts, dtype=torch.float64).unsqueeze(-1)
        X, queries = ((each - CUBE[0]) / 15.0 for each in (points(*SPREAD), QUERIES))
        expected = likelihood_ucb(X, Y, kernel, **given).bounds(queries)
        assert_close(band.bounds(QUERIES), expected, rtol=LINEAR_SOLVE, atol=LINEAR_SOLVE)
        assert band.assumptions.certified

    # Of the model that Ax fits, from which the bound takes the data alone.
    @pytest.mark.representatives("0.0")
    @pytest.mark.filterwarnings("ignore:Very small noise values")
    @pytest.mark.parametrize("error", [None, 0.0])
    def test_all_outcomes_alike(self, error):
        client = count_client(options=BINOMIAL | {"norm_bound": 5.0})
        attached(client, along(0.1, 0.3, 0.5, 0.7, 0.9), lambda _: {"y": (0.0, error)})
        band = kernelucb.ax.current_bound(client)
        lower, upper = band.bounds(GRID)
        assert float(upper.min()) < 0.3
        assert float(lower.min()) > 0.0
        assert band.assumptions.certified


class TestSeveral:
    def test_options_by_name(self):
        options = {"norm_bound": {"z": 3.0, "y": 5.0}, "delta": 0.02}
        options |= {"kernel": {"z": "matern52", "y": "rbf"}, "mean": {"z": 0.0, "y": 1.0}}
        options |= {"noise_std": {"z": 0.05, "y": 0.2}}
        options |= {"lengthscale": {"z": {"x": 0.4}, "y": 0.3}}
        # An outcome with two limits has one band.
        arguments = {"objective": "-y", "options": options, "limits": ["z >= -9", "z <= 9"]}
        client = attached(constrained_client("explored", **arguments), SOME, problem())
        next_trial(client)
        last = built(client)
        assert list(last.bands) == ["y", "z"]
        assert last.bound.band.direction == -1
        assert last.statements == ["z >= -9", "z <= 9"]
        for name, norm, noise, scale in (("y", 5, 0.2, 0.3), ("z", 3, 0.05, 0.4)):
            band = last.bands[name]
            assert f"at most {norm}" in band.assumptions["norm"].statement
            assert f"scale {noise}" in band.assumptions["noise"].statement
            assert band.assumptions.delta == 0.01
            kernel = band.data.prior.covar_module.base_kernel
            assert float(kernel.lengthscale) == pytest.approx(scale)
        joined = kernelucb.ax.recommended_arm(client).assumptions
        assert joined.delta == pytest.approx(0.02)

    @pytest.mark.representatives("y - 2*cost")
    @pytest.mark.parametrize("objective", ["y - 2*cost", "-2*cost + y"])
    def test_sums(self, objective):
        options = {"norm_bound": {"cost": 20.0, "y": 300.0}, "delta": 0.1}
        options |= {"noise_std": {"cost": 0.5, "y": 1.0}}
        client = make_client(objective=objective, acqf_class=ScalarizedUCB, options=options)
        attached(client, SPREAD, lambda p: {"y": wave(p), "cost": p["u"]})
        _, parameters = next_trial(client)
        next_trial(client)
        acqf = built(client).bound
        assert rows(acqf.X_pending) == rows(points(parameters))
        # Ax sorts the outcomes by their names.
        assert acqf.band.output_weights == (-2.0, 1.0)
        assert [*acqf.band.norm_bounds] == pytest.approx([20.0, 300.0])
        parts = acqf.band.parts
        means = [float(part.data.train_targets.abs().max()) for part in parts]
        assert means[0] < 20.0 < 4000.0 < means[1]
        noise = [float(part.data.noise_std.max()) for part in parts]
        assert noise == pytest.approx([0.5, 1.0])
        assert [part.delta for part in parts] == [0.05, 0.05]


class TestRanges:
    # Every claim of a whole experiment, and its next trial: 0.8 seconds.
    @pytest.mark.representatives("-1.0")
    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_every_claim_on_the_objective_keeps_to_it(self, sign):
        arms, objective = along(0.1, 0.4, 0.8), "y" if sign > 0 else "-y"
        high = max(curve(arm)["y"] for arm in arms) + 0.2
        ends = {"y": (None, high) if sign > 0 else (-high, None)}
        client = fixed_client(objective=objective, outcome_range=ends)
        client = reopened(attached(client, arms, lambda p: curve(p, sign)))
        sides = torch.stack(kernelucb.ax.current_bound(client).bounds(GRID))
        assert float((sign * sides).max()) == pytest.approx(high)
        best = [sign * x for x in kernelucb.ax.recommended_arm(client).objective]
        assert max(best) <= high
        report = kernelucb.ax.optimum_report(client, max_evaluations=500)
        assert max(sign * report.lower, sign * report.upper) <= high + 1e-9
        certificate = stopping(client, 9.0).decide().certificate
        assert certificate.gap <= high - min(best)
        assert certificate.certified
        next_trial(client)
        ranks = built(client).bound(GRID.unsqueeze(-2))
        assert float(ranks.max()) > high  # points above the range are still told apart

    @pytest.mark.representatives("safe")
    @pytest.mark.parametrize("kind", ["safe", "explored"])
    def test_of_constraints(self, kind):
        least = problem().threshold - 0.01
        ends = {"z": (least, None)}
        client = constrained_client(kind, limits=[f"z >= {least}"], outcome_range=ends)
        next_trial(attached(client, along(0.2, 0.5), problem()))
        assert built(client).bands["y"].sources == ()
        limits = built(client).outcome_constraints
        assert bool(limits.is_feasible(GRID).all())  # the range says so before the data


FAMILY = {
    "options": {"shortest": 0.4, "longest": 0.5, "norm_bound": 2.5, "noise_std": 0.05},
    "acqf_class": KernelFamilyUCB,
}


class TestSafe:
    # Four safe trials from start to end: 0.6 seconds.
    @pytest.mark.representatives("0-4")
    @pytest.mark.parametrize(
        ("seed", "trials"),
        [(0, 4), *(pytest.param(seed, 7, marks=SLOW) for seed in range(3))],
    )
    def test_no_trial_violates_the_constraint(self, seed, trials):
        client = constrained_client(seed=seed)
        chosen = observed(client, trials, seed)
        assert chosen[:2] == along(problem(seed).start) * 2
        assert len({p["x"] for p in chosen}) > 2
        assert is_kept(chosen, seed=seed)
        assert node(client) == "MartingaleMixtureUCB, safe"
        assert built(client).safe_set.assumptions.certified
        best = kernelucb.ax.recommended_arm(client)
        lower, upper = best.objective
        assert lower <= problem(seed)(best.parameters)["y"] <= upper
        assert best.outcomes["z"][0] >= problem(seed).threshold
        assert best.assumptions.certified
        assert "the safe point satisfies" in str(best)

    @SLOW
    @pytest.mark.parametrize(
        "arguments", [{"search": SEARCH, "search_options": {"ucb_every": 2}}, FAMILY]
    )
    def test_other_ways_to_search(self, arguments):
        client = constrained_client(**arguments)
        assert is_kept(observed(client, 5))
        is_guarded = type(built(client).acqf) is GuardedAcquisition
        assert is_guarded == ("search" in arguments)

    @pytest.mark.slow
    def test_safe_arms_alone_come_back_to_the_last_digit(self):
        space, start = [real("x", 1e-3, 10.0, scaling="log")], along(0.3)
        arguments = {"safe_arms": start, "limits": ["z >= 1.999"], "num_initial": 1}
        client = constrained_client(parameters=space, expand_every=2, **arguments)
        assert observed(client, 3) == start * 3
        decision = stopping(client, 9.0).decide()
        assert decision[:1] + decision[2:] == (False, None, None)
        assert "No completed arm is certainly feasible yet (z >= 1.99" in decision.reason
        assert kernelucb.ax.recommended_arm(client).parameters == start[0]

    @pytest.mark.slow
    def test_linear_constraints_on_parameters(self):
        start = problem().start
        client = constrained_client(
            parameters=[*UNIT, real("rate")],
            parameter_constraints=[f"x + rate <= {start + 0.4}", "rate >= 0.38"],
            safe_arms=[{"x": start, "rate": 0.4}],
            num_initial=1,
        )
        chosen = observed(client, 4)
        assert max(p["x"] + p["rate"] for p in chosen) <= start + 0.4 + 1e-9
        assert min(p["rate"] for p in chosen) >= 0.38 - 1e-9
        assert len({p["x"] for p in chosen}) > 1
        assert is_kept(chosen)

    @pytest.mark.representatives("wrong1-range")
    @pytest.mark.filterwarnings(f"ignore::{CONTRADICTION}")
    @pytest.mark.parametrize(
        ("wrong", "why"),
        [
            ({"options": FIXED | {"norm_bound": {"y": NORM, "z": 0.01}}}, "norm"),
            ({"outcome_range": {"z": (50.0, None)}}, "range"),
        ],
    )
    def test_no_trial_rests_on_a_contradicted_assumption(self, wrong, why):
        client = attached(constrained_client(**wrong), SOME, problem())
        with pytest.raises(UncertifiedError, match=f"this band .*{why} violated"):
            next_trial(client)
        client.set_generation_strategy(constrained_client()._generation_strategy)
        assert is_kept([next_trial(client)[1]])

    @SLOW
    def test_no_arm_twice_in_a_batch(self):
        x = [round(value, 3) for value in torch.linspace(0.0, 1.0, 41).tolist()]
        steps = [choice("x", x, is_ordered=True)]
        client = constrained_client(parameters=steps, safe_arms=along(0.2), num_initial=1)
        sizes = []
        for number in (1, 4, 4, 4):
            trial = batch(client, number)
            assert set(trial.arm_weights.values()) == {1.0}
            sizes.append(len(trial.arms))
            report(client, trial, problem())
            trial.mark_completed()
        # As many different ones as are shown to be safe.
        X = torch.tensor(x, dtype=torch.float64).unsqueeze(-1)
        assert sizes[-1] == min(4, int(built(client).safe_set.is_safe(X).sum())) > 1
        assert built(client).bound.X_pending is None


class TestExplored:
    @SLOW
    def test_the_recommended_arm_satisfies_the_constraint(self):
        client = constrained_client("explored")
        observed(client, 8)
        best = kernelucb.ax.recommended_arm(client)
        assert is_kept([best.parameters])
        grid = [problem()({"x": i / 200.0}) for i in range(201)]
        optimum = max(each["y"] for each in grid if each["z"] >= problem().threshold)
        decision = stopping(client).decide()
        assert decision.arm == best.arm
        assert decision.certificate.certified
        regret = optimum - problem()(best.parameters)["y"]
        assert regret <= decision.certificate.gap
        joined = kernelucb.ax.optimum_report(client).certificate.assumptions
        names = {item.name.partition(": ")[0] for item in joined.items}
        assert names == {"objective", "z"}

    @pytest.mark.representatives("None-ConstrainedUCB")
    @pytest.mark.parametrize(
        ("search", "kind"), [(None, ConstrainedUCB), (SEARCH, GuardedAcquisition)]
    )
    def test_trials_may_be_feasible(self, search, kind):
        client = constrained_client("explored", search=search)
        _, parameters = next_trial(attached(client, SOME, problem()))
        acqf, limits = built(client).acqf, built(client).outcome_constraints
        assert type(acqf) is kind
        assert acqf.outcome_constraints is limits
        point = points(parameters, names="x")
        assert float(limits.possible_margin(point)) > -0.2
        within = "" if search is None else f"{search} within "
        assert node(client) == f"{within}MartingaleMixtureUCB, explored"

    @pytest.mark.slow
    def test_nothing_is_feasible_or_ax_would_drop_the_constraint(self):
        client = constrained_client("explored", limits=["z >= 1.99"])
        attached(client, SOME, problem())
        for use in (kernelucb.ax.recommended_arm, kernelucb.ax.optimum_report):
            with pytest.raises(NoSafePointError, match="No completed arm is certainly fea"):
                use(client)
        client = constrained_client("explored", parameters=[KIND, *UNIT])
        for kind, outcome in (("b", {"y": 0.1}), ("z", {"y": 0.1, "z": 9.0})):
            # The second arm has no inputs.
            attached(client, [{"kind": kind, "x": 0.5}], lambda _, o=outcome: o)
            with pytest.raises((InputDataError, DataRequiredError), match="z"):
                kernelucb.ax.recommended_arm(client)


@pytest.mark.slow
def test_contexts_of_safe_trials():
    arm = {"x": problem().start, "t": 0.5}
    client = constrained_client(parameters=SQUARE, safe_arms=[arm], num_initial=1)
    with pytest.raises(NoSafePointError, match=r"No safe arm has t=0\.6"):
        next_trial(client, {"t": 0.6})
    assert ask(client, {"t": 0.5}, in_square) == arm
    # The bands show what is safe in a context close by.
    chosen = [ask(client, {"t": t}, in_square) for t in (0.51, 0.52)]
    assert is_kept(chosen, in_square)
    with pytest.raises(NoSafePointError, match="is known to be safe"):
        next_trial(client, {"t": 0.0})
    best = kernelucb.ax.recommended_arm(client, fixed_parameters={"t": 0.53})
    assert best.parameters == best.arm.parameters | {"t": 0.53}
    assert is_kept([best.parameters], in_square)
    lower, upper = best.objective
    assert lower <= in_square(best.parameters)["y"] <= upper
    go_on_alike(client, reopened(client), {"t": 0.51})


FAR = 1.7e9  # seconds; single precision has steps of 128 there
WORDS = ["low", "middle", "high"]
# A space, arms of which the last ones lie outside, what the kernel sees of an arm (None:
# it has no inputs).
OUTSIDE = {
    "above": (UNIT, along(0.0, 0.2, 0.3, 5.0), lambda x: [x]),
    "none": (
        [real("x", FAR, FAR + 100)],
        along(FAR, FAR + 60),
        lambda x: [(x - FAR) / 100],
    ),
    "log": (
        [real("x", 0.01, 10.0, scaling="log")],
        along(0.01, 1.0, 100.0, 0.0, -3.0),
        lambda x: [(math.log10(x) + 2.0) / 3.0] if x > 0 else None,
    ),
    "choice": (
        [*UNIT, choice("k", "abc")],
        [{"x": x, "k": k} for x, k in ((0.1, "a"), (0.6, "b"), (1.5, "c"), (0.2, "z"))],
        lambda x, k: [x, *(float(k == each) for each in "abc")] if k in "abc" else None,
    ),
    "words": (
        [*UNIT, choice("k", WORDS, is_ordered=True)],
        [{"x": x, "k": k} for x, k in ((0.1, "low"), (0.6, "middle"), (0.2, "z"))],
        lambda x, k: None if k == "z" else [x, 0.5 * WORDS.index(k)],
    ),
}


class TestOutside:
    @pytest.mark.representatives("log", "words")
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
        fitted = FittedBound(*asked(client))
        for band in (fitted.band, kernelucb.ax.last_bound(client)):
            assert band.assumptions.certified
            assert_close(band.bounds(inputs_of(fitted.adapter, arms[1:2])), wanted)
            assert ("left out" in str(band.assumptions)) == (None in inputs)

    @pytest.mark.slow
    def test_no_safe_trial_rests_on_another_cube(self):
        client = constrained_client(num_initial=1)
        attached(client, along(5.0), problem())
        assert is_kept(observed(client, 4))
        X = built(client).bands["z"].data.train_inputs
        assert float(X.max()) == pytest.approx(5.0)


@pytest.mark.slow
def test_length_scales_by_parameter_are_those_by_column():
    space = [KIND, real("heat", 20.0, 80.0), choice("bath", [7])]
    space += [choice("stirred", ["no", "yes"])]
    scales = {"heat": 0.3, "kind": 2.0, "stirred": 0.7}
    client = fixed_client(space, lengthscale=scales)
    run(client, 4, lambda p: {"y": p["heat"] / 80.0})
    columns = parameters_of_columns(client._generation_strategy.adapter.parameters)
    wanted = pytest.approx([scales[name] for name in columns])
    band = kernelucb.ax.current_bound(reopened(client))
    kernel = band.data.prior.covar_module.base_kernel
    assert kernel.lengthscale.flatten().tolist() == wanted
    assert band.assumptions.certified


SPACE = [*UNIT, real("rate", 1e-2, 10.0, scaling="log"), whole("n", 0, 5), KIND]
CONTEXTS = [{"rate": 0.3}, {"n": 4}, {"kind": "b"}, {"rate": 1.7, "n": 1, "kind": "c"}]


class TestContexts:
    @SLOW
    @pytest.mark.parametrize("search", [None, SEARCH])
    def test_they_are_handed_out_exactly_and_the_rest_fits_the_space(self, search):
        def outcome(p):
            return {"y": p["x"] + math.log10(p["rate"]) + 0.1 * p["n"]}

        client = make_client(SPACE, search=search, num_initial=2)
        for context in [*CONTEXTS, *CONTEXTS[::-1]][: 8 if search is None else 5]:
            parameters = ask(client, context, outcome)
            assert {name: parameters[name] for name in context} == context
            assert all(type(parameters[n]) is type(value) for n, value in context.items())
            assert client._experiment.search_space.check_membership(parameters)
        cube = [[0.0, -2.0, 0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 5.0, 1.0, 1.0, 1.0]]
        seen = built(client).bound.model.input_transform.bounds
        assert_close(seen, torch.tensor(cube, dtype=torch.float64))

    @pytest.mark.representatives("None")
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
        # Observed points are compared in the context of the trial.
        assert set(acqf.reference[:, 1].tolist()) == {4.0}
        assert set(acqf.acqf.X_baseline[:-1, 1].tolist()) == {4.0}


def test_the_arms_of_a_batch_in_a_mixed_space_differ():
    client = fixed_client([*UNIT, whole("n", 0, 2)])
    run(client, 3, lambda p: {"y": 0.5 * p["x"] * (2 - p["n"])})
    trial = batch(client, 3)
    assert len({tuple(arm.parameters.values()) for arm in trial.arms}) == 3
    assert set(trial.arm_weights.values()) == {1.0}
    assert built(client).bound.X_pending is None


class TestCertificates:
    r"""Gaps against those of a grid within the domain."""

    @staticmethod
    def _checked(client, X, looseness, context=None):
        certificate = stopping(client).decide(fixed_parameters=context).certificate
        assert certificate.certified
        inner = regret_certificate(
            kernelucb.ax.current_bound(client),
            with_point(X, certificate.recommended),
            recommended=certificate.recommended,
        )
        assert inner.gap <= certificate.gap <= looseness * inner.gap + 0.01
        return certificate

    @pytest.mark.representatives("limits1")
    @pytest.mark.parametrize("limits", [[], ["x + t <= 0.9"]])
    def test_of_a_context_and_within_parameter_constraints(self, limits):
        options = FIXED | {"lengthscale": 0.8, "norm_bound": 2.0}
        client = make_client(SQUARE, options=options, parameter_constraints=limits)
        arms = [{"x": (0.17 * i) % 0.6, "t": 0.1 * i} for i in range(4)]
        attached(client, arms, lambda p: {"y": p["x"] * (1.0 - p["t"])})
        for t in (0.0, 0.4):
            there = torch.cat([GRID, torch.full_like(GRID, t)], -1)
            if limits:
                there = there[there.sum(-1) <= 0.9]
            certificate = self._checked(client, there, 1.1, {"t": t})
            assert float(certificate.recommended[1]) == t
            assert float(certificate.challenger[1]) == t
            assert not limits or float(certificate.challenger.sum()) <= 0.9 + 1e-9

    # Of 301 integers there would be too many boxes: an interval holds them.
    @pytest.mark.representatives("3-9.0")
    @pytest.mark.parametrize(("largest", "looseness"), [(0, 1.1), (3, 9.0), (300, 9.0)])
    def test_integers_are_enumerated_and_logarithms_scaled(self, largest, looseness):
        other = [whole("n", 0, largest)] if largest else []
        client = fixed_client([real("x", 1e-3, 10.0, scaling="log"), *other])
        arms = [{"x": x, **({"n": 1} if other else {})} for x in (0.01, 0.3, 4.0)]
        attached(client, arms, lambda p: curve({"x": (math.log10(p["x"]) + 3.0) / 4.0}))
        X = 4.0 * GRID - 3.0
        if other:
            X = torch.cartesian_prod(X[:, 0], torch.arange(4).double())
        self._checked(client, X, looseness)


class TestSearch:
    @SLOW
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
        acqf, queries = built(client).acqf, QUERIES.unsqueeze(1)
        assert acqf.temperature == 0.1
        assert_close(acqf(queries), acqf.upper_bound(queries))

    @pytest.mark.slow
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
