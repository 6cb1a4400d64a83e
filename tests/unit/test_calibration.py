r"""Replays of a search, and what the ranks of their scores promise."""

import functools
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace

import pytest
import torch
from botorch.exceptions import (
    BotorchTensorDimensionError,
    InputDataError,
    ModelFittingError,
    UnsupportedError,
)
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.transforms import Log
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.means import ZeroMean

from kernelucb import CertifiedGapStopping, MartingaleMixtureUCB, SafeSet
from kernelucb.calibration import (
    BandClaim,
    CalibratedGapStopping,
    LevelSetClaim,
    LevelShareClaim,
    Loop,
    OptimumClaim,
    PriorDraws,
    RegretClaim,
    Run,
    Simulator,
    Tables,
    ValueClaim,
    calibrate,
    default,
    default_margins,
)
from kernelucb.calibration.claims import Look, Truth, ranked
from kernelucb.calibration.policy import described
from kernelucb.confidence.assumptions import Assumption, Status
from kernelucb.data import fitting
from kernelucb.exceptions import ReplayError, UncertifiedError

GRID = torch.linspace(0.0, 1.0, 25).double().unsqueeze(-1)
CUBE = torch.tensor([[0.0], [1.0]]).double()
NOISE = 0.1
CLAIMS = (
    RegretClaim(),
    ValueClaim(),
    OptimumClaim(),
    BandClaim(),
    LevelSetClaim(0.5),
    LevelSetClaim(0.5, 0.1),
    LevelShareClaim(0.5),
)


def fixed_gp(X, Y):
    kernel = ScaleKernel(RBFKernel())
    kernel.base_kernel.lengthscale = 0.2
    noise = torch.full_like(Y, NOISE**2)
    options = {"covar_module": kernel, "mean_module": ZeroMean()}
    return SingleTaskGP(X, Y, noise, outcome_transform=None, **options).eval()


@dataclass(frozen=True)
class Greedy:
    r"""A round without a fit: the upper bound at the points of the grid."""

    width: float = 2.0

    def __call__(self, X, Y):
        model = fixed_gp(X, Y)
        with torch.no_grad():
            found = model.posterior(GRID)
        upper = found.mean + self.width * found.variance.sqrt()
        return model, GRID[upper.argmax()].unsqueeze(0)


def rougher(generator):
    r"""A draw of a shorter length scale than the policy's, so that it is wrong."""
    matrix = torch.exp(-0.5 * ((GRID - GRID.T) / 0.1) ** 2)
    root = torch.linalg.cholesky(matrix + 1e-8 * torch.eye(len(GRID)).double())
    values = root @ torch.randn(len(GRID), generator=generator).double()
    return lambda X: values[torch.cdist(X, GRID).argmin(-1)], NOISE


LOOP = Loop(Greedy(), candidates=GRID, starts=2, rounds=7)
FUNCTIONS = Simulator(rougher)


def replayed(path, count, loop=LOOP, functions=FUNCTIONS, **options):
    options = {"progress": False, "claims": CLAIMS, **options}
    return calibrate(loop, functions, count, path, **options)


def test_a_rank_is_exact():
    scores = torch.arange(1.0, 20.0)
    # By hand: ceil(.9 * 20) = 18, ceil(.95 * 20) = 19.
    assert (ranked(scores, 0.1), ranked(scores, 0.05)) == (18.0, 19.0)
    assert ranked(scores[:1], 0.5) == 1.0
    with pytest.raises(ValueError, match="at least 99 replays, and there are 19"):
        ranked(scores, 0.01)
    with pytest.raises(ValueError, match="no margin is large enough"):
        ranked(torch.tensor([1.0, math.inf]), 0.4)


def test_a_new_score_is_above_as_often_as_ranks_say():
    # Every position of the new number among six others, all of them equally probable.
    above = 0
    for new in range(6):
        others = torch.tensor([float(i) for i in range(6) if i != new])
        above += new > ranked(others, 1.0 / 3.0)
    assert above == 2


def is_true(claim, look, truth, margin):
    r"""Whether a claim is true, from its words."""
    lower, upper = claim.limits(look, margin)
    level = (truth.values[look.runs :] >= 0.5).double()
    said = {
        RegretClaim: (truth.best - truth.values[look.recommended]).abs(),
        ValueClaim: truth.values[look.recommended],
        OptimumClaim: torch.as_tensor(truth.best, dtype=torch.float64),
        BandClaim: truth.values,
        LevelSetClaim: level,
        LevelShareClaim: level.mean(),
    }[type(claim)]
    wrong = (said < lower - 1e-9) | (said > upper + 1e-9)
    return wrong.double().mean() <= getattr(claim, "wrong", 0.0)


@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("claim", CLAIMS, ids=repr)
def test_a_score_is_the_least_margin_at_which_a_claim_is_true(claim, maximize):
    loop, random = replace(LOOP, maximize=maximize), torch.Generator().manual_seed(1)
    needed = 0
    for _ in range(20):
        function, _ = rougher(random)
        X = GRID[torch.randperm(25, generator=random)[:4]]
        look = Look.of(fixed_gp(X, function(X).unsqueeze(-1)), X, loop)
        values = torch.cat([function(X), function(GRID)])
        truth = Truth(values, float(values.max() if maximize else values.min()))
        score = claim.score(look, truth)
        assert is_true(claim, look, truth, score * (1.0 + 1e-9)), score
        needed += score > 0.0
        assert score == 0.0 or not is_true(claim, look, truth, 0.999 * score), score
    assert needed > 5


class Played:
    r"""A run of the loop on a function, as a user plays it."""

    def __init__(self, seed, loop=LOOP):
        self.random, self.loop = torch.Generator().manual_seed(seed), loop
        self.function, _ = rougher(self.random)
        self.X = loop.first_inputs(seed)
        self.Y = self.measured(self.X)

    def measured(self, X):
        noise = torch.randn(len(X), generator=self.random).double()
        return (self.function(X) + NOISE * noise).unsqueeze(-1)

    def round(self):
        return (*self.loop.round(self.X, self.Y), self.X, self.Y)

    def go_on(self, x):
        self.X = torch.cat([self.X, x])
        self.Y = torch.cat([self.Y, self.measured(x)])

    def to_the_end(self, run):
        while True:
            model, candidate, X, Y = self.round()
            run.update(model, candidate, X, Y)
            if len(X) == self.loop.rounds:
                return run
            self.go_on(candidate)


def run_of(margins, seed):
    return Played(seed).to_the_end(Run(margins))


@pytest.fixture(scope="module")
def margins(tmp_path_factory):
    return replayed(tmp_path_factory.mktemp("margins") / "replays", 79)


@pytest.mark.parametrize("claim", CLAIMS, ids=repr)
def test_a_claim_says_calibrated_and_what_it_rests_on(claim, margins):
    found = run_of(margins, 5).claim(claim, delta=0.2)
    words = str(found)
    share = "true in 80 % of functions like these 79, at every round up to 7"
    assert words.startswith(f"calibrated: {share}: {found.sentence}")
    assert "certified" not in words
    assert not found.certified
    assert found.assumptions.verdict == f"calibrated: {share}"
    assert found.assumptions.calibrated
    assert not found.assumptions.certified
    assert not found.assumptions.violated
    kinds = [item.kind for item in found.assumptions.items]
    assert kinds == ["functions", "policy", "rounds", "points", "use", "replays"]
    # A fifth of delta is spent on three tests: .0133 each needs 74 replays.
    assert found.margin == margins.margin(claim, 0.16)
    assert "too few" in str(run_of(margins, 5).claim(claim, delta=0.1).assumptions)


def test_what_contradicts_a_claim(margins):
    def statuses(run):
        rests = run.claim(RegretClaim(), delta=0.2).assumptions
        assert not rests.violated or rests.summary.startswith("no guarantee")
        return [item.name for item in rests.items if item.status is Status.VIOLATED]

    assert statuses(run_of(margins, 5)) == []
    # Another policy, by its digest, by an input that was not chosen, or too many rounds.
    other = replace(LOOP, choose=Greedy(1.0))
    run = Played(5, other).to_the_end(Run(margins, other))
    assert statuses(run) == ["policy"]
    played, run = Played(5), Run(margins)
    model, candidate, X, Y = played.round()
    run.update(model, candidate, X, Y)
    assert statuses(run) == []
    played.go_on(GRID[:1] if bool(candidate > 0.5) else GRID[-1:])
    run.update(*played.round())
    assert statuses(run) == ["policy"]
    longer = Played(5)
    run = longer.to_the_end(Run(margins))
    longer.go_on(run._next[1])
    run.update(*longer.round())
    assert statuses(run) == ["rounds"]
    # A surprise larger than all replays had, and noise of another size.
    played, run = Played(5), Run(margins)
    model, candidate, X, Y = played.round()
    run.update(model, candidate, X, Y)
    played.go_on(candidate)
    played.Y[-1] += 50.0
    run.update(*played.round())
    assert statuses(run) == ["replays"]
    assert "the largest residual is" in str(run.claim(RegretClaim(), delta=0.2))


def test_the_rank_test_is_rarely_wrong_of_runs_like_the_replays(margins):
    delta = 0.2
    runs = [run_of(margins, seed).claim(RegretClaim(), delta) for seed in range(20)]
    contradicted = sum(claim.assumptions.violated for claim in runs)
    assert contradicted <= 20 * 0.04 + 2.0 * math.sqrt(20 * 0.04 * 0.96)


def test_a_stop_is_calibrated(margins):
    stops = [CalibratedGapStopping(gap, margins=margins, delta=0.2) for gap in (0.01, 10.0)]
    played = Played(2)
    never, at_once = (stop(*played.round()) for stop in stops)
    assert (never.stop, at_once.stop) == (False, True)
    upper = float(at_once.claim.upper)
    assert 0.01 < upper <= 10.0
    assert str(at_once).startswith("Stop: calibrated: true in 80 %")
    assert "accepted 10" in str(at_once)
    units = {"names": ["heat"], "outcome": "yield", "units": {"yield": "%", "heat": "C"}}
    in_units = CalibratedGapStopping(10.0, margins, delta=0.2, **units)
    said = str(in_units(*played.round()))
    assert "yield at the recommended input (heat " in said
    assert " C) is at most " in said
    assert "% from the optimum, accepted 10 %" in said
    other = CalibratedGapStopping(
        10.0, margins=margins, delta=0.2, loop=replace(LOOP, choose=Greedy(1.0))
    )
    refused = other(*played.round())
    assert not refused.stop
    assert str(refused).startswith("Go on: no guarantee: policy violated")
    with pytest.raises(ValueError, match="at least 999 replays, and there are 79"):
        CalibratedGapStopping(1.0, margins=margins, delta=0.001)


def test_a_calibrated_status_is_no_certificate(margins):
    claim = run_of(margins, 5).claim(RegretClaim(), delta=0.2)
    with pytest.raises(UncertifiedError, match="calibrated: true in 80 %"):
        claim.assumptions.check_certified("a stop", allow_estimated=True)
    X = GRID[[0, 12, 24]]
    model = fixed_gp(X, X.sin())
    model.requires_grad_(False)
    band = MartingaleMixtureUCB(model, norm_bound=2.0).band
    item = Assumption("norm", "from replays", Status.CALIBRATED)
    band.required_set.assumptions = band.assumptions.with_item(item)
    assert not band.assumptions.certified
    for allow in (False, True):
        stopping = CertifiedGapStopping(1.0, bounds=CUBE, allow_estimated=allow)
        with pytest.raises(UncertifiedError, match="calibrated"):
            stopping(band)
        with pytest.raises(UncertifiedError, match="calibrated"):
            SafeSet(band, 0.0, allow_estimated=allow)
        with pytest.raises(UnsupportedError, match="CalibratedClaim"):
            stopping(claim)
        with pytest.raises(UnsupportedError, match="CalibratedClaim"):
            SafeSet(claim, 0.0, allow_estimated=allow)


def test_a_shape_is_chosen_on_replays_that_do_not_count(margins):
    later = margins.since(3)
    assert (later.first, later.scores["BandClaim()"].shape) == (3, (79, 5))
    shaped = later.shaped(20, 0.2)
    assert (shaped.replays, shaped.first) == (59, 3)
    # What comes later does not choose.
    late = dict(later.scores)
    late["BandClaim()"] = torch.cat(
        [late["BandClaim()"][:20], 9.0 * late["BandClaim()"][20:]]
    )
    changed = replace(later, scores=late).shaped(20, 0.2)
    for name, shape in shaped.shapes.items():
        assert torch.equal(changed.shapes[name], shape)
        assert bool((shape.diff() <= 0.0).all())
        assert float(shape[-1]) == 1.0
    assert changed.margin(BandClaim(), 0.2) == pytest.approx(
        9.0 * shaped.margin(BandClaim(), 0.2)
    )
    # By hand: scores of the rest over the shape, from the first round on.
    shape = shaped.shapes["BandClaim()"]
    worst = (margins.scores["BandClaim()"][20:, 1:] / shape).amax(-1)
    assert torch.equal(shaped.worst(BandClaim()), worst)
    at = shaped.margin(BandClaim(), 0.2) * shape
    assert shaped.margin(BandClaim(), 0.2, 3) == float(at[0])
    assert run_of(shaped, 5).claim(BandClaim(), 0.2).margin == float(at[-1])
    early = Run(margins.since(4))
    early.update(*Played(5).round())
    with pytest.raises(ValueError, match="from 4 outcomes on"):
        early.claim(BandClaim(), 0.2)
    stop = CalibratedGapStopping(1.0, margins=margins.since(4), delta=0.2)
    assert str(stop(*Played(5).round())) == "Go on: claims are made from 4 outcomes on"
    with pytest.raises(ValueError, match="leave none"):
        margins.shaped(79, 0.2)
    with pytest.raises(ValueError, match=r"scores of RegretClaim\(\), .*, not of Level"):
        margins.margin(LevelSetClaim(0.25), 0.2)
    for wrong in (later, 2), (margins, 8), (shaped, 4):
        with pytest.raises(ValueError, match="first must be from"):
            wrong[0].since(wrong[1])


def test_a_run_that_lost_rounds_is_refused(margins):
    run = Run(margins)
    model, candidate, X, Y = Played(5).round()
    with pytest.raises(ValueError, match="at least 2"):
        run.update(model, candidate, X[:1], Y[:1])


def test_replays_extend_a_file_and_numbers_do_not_depend_on_the_way(tmp_path):
    whole = replayed(tmp_path / "whole", 5)
    replayed(tmp_path / "parts", 2)
    parts = replayed(tmp_path / "parts", 5)
    assert whole.replays == 5
    for claim in CLAIMS:
        assert whole.scores[claim.name].shape == (5, 6)
        assert torch.equal(whole.worst(claim), parts.worst(claim))
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "parts").read_bytes()
    other = replayed(tmp_path / "seed", 5, seed=1)
    assert not torch.equal(other.worst(BandClaim()), whole.worst(BandClaim()))


# Ten seconds: two processes that import torch.
@pytest.mark.slow
def test_processes_play_the_same_replays(tmp_path):
    alone, together = (replayed(tmp_path / str(n), 5, jobs=n) for n in (1, 2))
    for claim in CLAIMS:
        assert torch.equal(alone.worst(claim), together.worst(claim))


def test_half_a_line_and_a_gap_lose_only_themselves(tmp_path):
    path = tmp_path / "replays"
    whole = replayed(path, 4)
    head, *lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([head, lines[0], lines[3], lines[1][:50]]))
    # Replay 3 stands in the file, but those before it not: only the first counts.
    assert replayed(path, 1).replays == 1
    again = replayed(path, 4)
    assert torch.equal(again.worst(BandClaim()), whole.worst(BandClaim()))
    assert path.read_text().startswith("".join([head, lines[0], lines[3]]))
    # A head that was cut in half is written anew.
    path.write_text(head[:20])
    assert replayed(path, 1).replays == 1


# Five seconds: a process that imports torch.
@pytest.mark.slow
def test_a_kill_keeps_what_is_done(tmp_path):
    path = tmp_path / "replays"
    code = (
        "from tests.unit.test_calibration import replayed\n"
        f"replayed({str(path)!r}, 400, jobs=1)"
    )
    with subprocess.Popen([sys.executable, "-c", code], env=os.environ) as process:
        deadline = time.monotonic() + 120.0
        while not path.exists() or path.read_text().count("\n") < 4:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    done = path.read_text()
    done = done[: done.rfind("\n") + 1]
    count = done.count("\n") + 1
    resumed = replayed(path, count)
    assert path.read_text().startswith(done)
    fresh = replayed(tmp_path / "fresh", count)
    assert torch.equal(resumed.scores["BandClaim()"], fresh.scores["BandClaim()"])


def test_an_interrupt_keeps_what_is_done(tmp_path):
    calls = itertools.count()

    def interrupted(generator):
        if next(calls) == 4:  # the check takes two
            raise KeyboardInterrupt
        return rougher(generator)

    path = tmp_path / "replays"
    with pytest.raises(KeyboardInterrupt):
        replayed(path, 5, functions=Simulator(interrupted))
    lines = path.read_text().splitlines()
    assert [json.loads(line)["replay"] for line in lines[1:]] == [0, 1]
    assert replayed(path, 3, functions=Simulator(interrupted)).replays == 3


def box(inputs, lower=0.0, upper=1.0):
    return torch.tensor([[lower], [upper]]).double().expand(2, inputs).contiguous()


def test_the_default_loop_says_what_it_is():
    loop = Loop.default(box(2))
    said = loop.settings
    assert "turns=('upper', 'improvement', 'mean')" in str(said["choose"])
    assert '"""' not in str(said["choose"])
    # In other units, and with the other sign, it is the same policy.
    assert loop.digest == Loop.default(box(2, -3.0, 40.0), maximize=False).digest
    assert loop.digest != Loop.default(box(3)).digest


def test_the_default_round_is_the_same_in_other_units():
    X = torch.rand(8, 2, generator=torch.Generator().manual_seed(0)).double()
    Y = (X.sum(-1, keepdim=True) * 3.0).sin()
    wide = box(2, -3.0, 40.0)
    loops = Loop.default(box(2)), Loop.default(wide, maximize=False)
    (model, chosen), (other, far) = (
        loop.round(X if loop.maximize else wide[0] + X * 43.0, Y * sign)
        for loop, sign in zip(loops, (1.0, -5.0), strict=True)
    )
    assert torch.allclose((far - wide[0]) / 43.0, chosen, atol=2e-3)
    with torch.no_grad():
        here, there = model.posterior(X).mean, other.posterior(wide[0] + X * 43.0).mean
    assert torch.allclose(there, -5.0 * here, atol=1e-3)


def test_a_partial_function_is_described_by_its_parts():
    here, there = (functools.partial(parabola, width=2.0) for _ in range(2))
    assert described(here) == described(there)
    assert "0x" not in described(here)
    other = functools.partial(parabola, width=3.0)
    assert described(here) != described(other) != described(functools.partial(fixed_gp))


def parabola(X, width):
    return width * X.square()


def test_a_fit_that_fails_keeps_the_prior(monkeypatch):
    def failing(mll):
        mll.model.covar_module.lengthscale = 99.0
        raise ModelFittingError("no")

    model = SingleTaskGP(GRID, GRID.sin())
    before = model.covar_module.lengthscale.clone()
    monkeypatch.setattr(fitting, "fit_gpytorch_mll", failing)
    assert torch.equal(fitting.fitted(model).covar_module.lengthscale, before)
    assert not model.training


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("choose", {"loop": replace(LOOP, choose=Greedy(1.0))}),
        ("rounds", {"loop": replace(LOOP, rounds=6)}),
        ("domain", {"loop": replace(LOOP, candidates=GRID[1:])}),
        ("functions", {"functions": Tables([(GRID, GRID)], 0.1)}),
        ("claims", {"claims": (RegretClaim(),)}),
        ("seed", {"seed": 7}),
    ],
)
def test_a_file_of_other_settings_is_refused(name, other, tmp_path):
    path = tmp_path / "replays"
    replayed(path, 1)
    before = path.read_bytes()
    with pytest.raises(ReplayError, match=rf"other settings \({name}\)"):
        replayed(path, 1, **other)
    assert path.read_bytes() == before


@pytest.mark.parametrize("text", ["my notes", "1,2\n3,4", '{"digest": 1}\n', "[]\n"])
def test_a_file_of_something_else_is_left_as_it_is(text, tmp_path):
    path = tmp_path / "notes"
    path.write_text(text)
    with pytest.raises(ReplayError, match="of other settings: give another file"):
        replayed(path, 1)
    assert path.read_text() == text


def test_a_digest_reads_code_but_no_words():
    def one(x):
        r"""Words."""
        return x + 1

    first = described(one)

    def one(x):
        # Other words.
        return x + 1

    assert described(one) == first

    def one(x):
        return x + 2

    assert described(one) != first
    assert described(Greedy(1.0)) != described(Greedy())


def worse(found):
    r"""A round that returns something else."""
    return lambda X, Y: found(*Greedy()(X, Y))


@pytest.mark.parametrize(
    ("found", "error", "words"),
    [
        (lambda model, x: x, TypeError, "return a model and the next input"),
        (lambda model, x: (x, model), TypeError, "return model, candidate"),
        (
            lambda model, x: (model, x.repeat(2, 1)),
            BotorchTensorDimensionError,
            r"one input, `1 x 1`, got shape \(2, 1\)",
        ),
        (
            lambda model, x: (model, torch.cat([x, x], -1)),
            BotorchTensorDimensionError,
            "1 x 1",
        ),
        (lambda model, x: (model, x + 0.01), InputDataError, "outside the domain"),
        (
            lambda model, x: (ModelListGP(model, model), x),
            UnsupportedError,
            "has 2 outcomes",
        ),
        (lambda model, x: (model, x * math.nan), InputDataError, "finite"),
    ],
)
def test_a_round_of_another_shape_is_refused(found, error, words, tmp_path):
    with pytest.raises(error, match=words):
        replayed(tmp_path / "replays", 1, replace(LOOP, choose=worse(found)))


@pytest.mark.filterwarnings("ignore:Data .outcome observations. is not standardized")
def test_a_posterior_of_another_scale_is_refused(tmp_path):
    def choose(X, Y):
        model = SingleTaskGP(X, Y.abs() + 1.0, outcome_transform=Log())
        return model.eval(), GRID[:1]

    with pytest.raises(UnsupportedError, match="posterior of the model must be"):
        replayed(tmp_path / "replays", 1, replace(LOOP, choose=choose))


def test_a_round_that_depends_on_global_state_is_refused(tmp_path):
    calls = itertools.count()

    def choose(X, Y):
        return fixed_gp(X, Y), GRID[[next(calls) % 25]]

    with pytest.raises(ReplayError, match="Two replays of one seed differ"):
        replayed(tmp_path / "replays", 1, replace(LOOP, choose=choose))

    def seeded(X, Y):
        return fixed_gp(X, Y), GRID[torch.randint(25, (1,))]

    before = torch.random.get_rng_state()
    assert replayed(tmp_path / "seeded", 1, replace(LOOP, choose=seeded)).replays == 1
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_round_in_place_changes_nothing(tmp_path):
    def in_place(X, Y):
        model, candidate = Greedy()(X, Y)
        Y.zero_()
        return model, candidate

    def plain(X, Y):
        return Greedy()(X, Y)

    loops = (replace(LOOP, choose=each) for each in (in_place, plain))
    one, other = (
        replayed(tmp_path / str(i), 1, loop).scores["BandClaim()"]
        for i, loop in enumerate(loops)
    )
    # The model shares the outcomes that were set to zero; the next round has them anew.
    assert one.shape == other.shape
    assert float(one[0, 0]) != 0.0


def test_what_cannot_be_sent_to_processes_is_refused_in_words(tmp_path):
    loop = replace(LOOP, choose=worse(lambda model, x: (model, x)))
    with pytest.raises(UnsupportedError, match="module, or give jobs=1"):
        replayed(tmp_path / "replays", 2, loop, jobs=2)


def test_tables_are_the_tasks_themselves(tmp_path):
    random = torch.Generator().manual_seed(3)
    tasks = [(GRID, rougher(random)[0](GRID)) for _ in range(3)]
    functions = Tables(tasks, 0.0)
    margins = replayed(tmp_path / "replays", 3, functions=functions)
    assert margins.replays == 3
    with pytest.raises(ValueError, match="3 functions for 4 replays"):
        replayed(tmp_path / "replays", 4, functions=functions)
    with pytest.raises(InputDataError, match="no value at"):
        functions.draw(0, random).values(GRID + 0.001)


@pytest.mark.parametrize(
    ("simulate", "error", "words"),
    [
        (lambda g: (lambda X: X[:1], 0.1), BotorchTensorDimensionError, "25 values|2 val"),
        (lambda g: (lambda X: X[:, 0] / 0.0, 0.1), InputDataError, "finite"),
        (lambda g: (lambda X: X[:, 0], -1.0), ValueError, "noise_std"),
    ],
)
def test_a_bad_function_is_refused(simulate, error, words, tmp_path):
    with pytest.raises(error, match=words) as caught:
        replayed(tmp_path / "replays", 1, functions=Simulator(simulate))
    del caught


@pytest.mark.parametrize(
    "options", [{}, {"candidates": GRID, "starts": 30}, {"candidates": GRID, "rounds": 2}]
)
def test_a_bad_loop_is_refused(options):
    with pytest.raises(ValueError, match=r"starts|give either"):
        Loop(Greedy(), **options)


def test_draws_of_the_prior_have_its_moments():
    draws = [
        PriorDraws(2, features=256).draw(0, torch.Generator().manual_seed(seed))
        for seed in range(40)
    ]
    X = torch.rand(50, 2, generator=torch.Generator().manual_seed(0)).double()
    values = torch.stack([draw.values(X) for draw in draws])
    # The default model has prior variance 1 and log noise variances around -4.
    assert float(values.square().mean()) == pytest.approx(1.0, abs=0.3)
    logs = torch.tensor([2.0 * math.log(draw.noise_std) for draw in draws])
    assert float(logs.mean()) == pytest.approx(-4.0, abs=0.4)
    assert float(logs.std()) == pytest.approx(1.0, abs=0.3)
    again = PriorDraws(2, features=256).draw(0, torch.Generator().manual_seed(5))
    assert torch.equal(again.values(X), values[5])


def test_the_default_policy_is_replayed_in_a_box(tmp_path):
    loop = Loop.default(box(2), rounds=7)
    margins = replayed(
        tmp_path / "replays", 1, loop, PriorDraws(2), claims=(RegretClaim(),)
    )
    assert margins.scores["RegretClaim()"].shape == (1, 3)
    assert bool((margins.scores["RegretClaim()"] >= 0.0).all())


# Some ten seconds: 250 replays.
@pytest.mark.slow
def test_margins_hold_as_often_as_stated_and_halves_do_not(tmp_path):
    margins = replayed(tmp_path / "replays", 149)
    fresh = replayed(tmp_path / "fresh", 100, seed=1)
    for claim in (RegretClaim(), ValueClaim(), BandClaim()):
        c, new = margins.margin(claim, 0.3), fresh.worst(claim)
        assert float((new > c).double().mean()) <= 0.3 + 2.0 * math.sqrt(0.21 / 100)
        assert float((new > 0.5 * c).double().mean()) >= 0.5


def numbers(size, early=None):
    r"""Margins of two replays in each dimension, the package's file in small."""
    scores = {"RegretClaim()": [1.0 * size, 2.0 * size]}
    statistics = {name: [1.0, 4.0 - size] for name in ("residual", "noise", "norm")}
    shapes = {"RegretClaim()": [early or 2.0 + size, 1.0]}
    return {"digest": "", "first": 6, "rounds": 7, "scores": scores} | {
        "statistics": statistics,
        "shapes": shapes,
    }


def test_between_dimensions_the_larger_margins_count(tmp_path, monkeypatch):
    path = tmp_path / "margins.json"
    rough = {1: numbers(1.0), 3: numbers(1.5)}
    found = {"botorch": {1: numbers(1.0), 3: numbers(0.5, 8.0), 5: numbers(0.5)}}
    path.write_text(default.written(found | {"matern": rough}))
    monkeypatch.setattr(default, "PATH", path)
    one, two, three = (
        default_margins(box(d, -1.0, 5.0), prior="either") for d in (1, 2, 3)
    )
    claim = RegretClaim()
    assert [each.margin(claim, 0.4) for each in (one, two, three)] == [2.0, 3.0, 3.0]
    # The largest margin of a round, not a larger factor times another one's score.
    assert [each.margin(claim, 0.4, 6) for each in (one, two)] == [6.0, 10.5]
    assert [each.limit("noise", 0.4) for each in (one, two, three)] == [3.0, 3.5, 3.5]
    assert two.first == 6
    assert two.loop.digest == Loop.default(box(2), rounds=7).digest
    assert "the larger margin of 1 and 3 inputs" in two.statement
    assert "larger" not in one.statement
    assert "of BoTorch's prior or of a rougher prior" in one.statement
    with pytest.raises(UnsupportedError, match="for 1 to 3 inputs, and bounds has 4"):
        default_margins(box(4), prior="either")
    alone = default_margins(box(4))
    assert [alone.margin(claim, 0.4, runs) for runs in (6, 7)] == [8.0, 1.0]
    assert "the larger margin of 3 and 5 inputs" in alone.statement
    assert "rougher" not in alone.statement
    with pytest.raises(ValueError, match='"matern" or "either"'):
        default_margins(box(1), prior="BoTorch")


def test_what_the_package_keeps_are_the_margins(margins, tmp_path, monkeypatch):
    shaped, path = margins.since(3).shaped(20, 0.2), tmp_path / "margins.json"
    path.write_text(default.written({"matern": {1: default.kept(shaped)}}))
    monkeypatch.setattr(default, "PATH", path)
    found = default_margins(box(1), prior="matern")
    for claim in CLAIMS:
        assert found.margin(claim, 0.2, 5) == shaped.margin(claim, 0.2, 5)
    for name in found.statistics:
        assert found.limit(name, 0.1) == shaped.limit(name, 0.1)
    assert (found.replays, found.first) == (59, 3)


def test_an_input_that_is_not_known_is_not_compared(margins):
    played, run = Played(5), Run(margins)
    for _ in range(2):
        model, candidate, X, Y = played.round()
        run.update(model, None, X, Y)
        played.go_on(candidate)
    words = str(run.claim(RegretClaim(), 0.2).assumptions)
    assert "inputs were compared in 0 of 1 rounds" in words
    assert run.statistics["residual"] > 0.0


def test_the_package_s_margins_are_those_of_the_default_policy():
    found = default.every(default.PATH)
    assert [*found] == [*default.PRIORS]
    for prior, inputs in ((p, d) for p, kept in found.items() for d in kept):
        each = found[prior][inputs]
        # Another digest: make them anew, `python -m benchmarks.calibration.margins`.
        assert each["digest"] == Loop.default(box(inputs)).digest
        assert (each["first"], each["rounds"]) == (10, 40)
        margins = default_margins(box(inputs, -2.0, 7.0), prior=prior)
        assert margins.replays == 149
        for claim in (RegretClaim(), ValueClaim(), OptimumClaim(), BandClaim()):
            at = [margins.margin(claim, delta, 20) for delta in (0.3, 0.1, 0.05)]
            assert 0.0 < at[0] <= at[1] <= at[2]
