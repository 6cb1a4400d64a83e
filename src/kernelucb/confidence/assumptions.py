r"""The assumptions of a bound: given, estimated or violated."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from torch import Tensor

from kernelucb._numerics.digits import assumed, coordinate, one_minus
from kernelucb._numerics.estimates import Estimate, Number, is_estimate
from kernelucb.confidence.domain import EVERYWHERE, Everywhere
from kernelucb.data.outcome_map import IDENTITY, OutcomeMap
from kernelucb.data.prior import Prior
from kernelucb.exceptions import UncertifiedError


class Status(StrEnum):
    r"""Whether an assumption was given, is an estimate (or a default), or is violated.

    Or calibrated: what is said of it holds in a share of functions like those of a replay.
    """

    GIVEN = "given"
    CALIBRATED = "calibrated"
    ESTIMATED = "estimated"
    VIOLATED = "violated"

    @classmethod
    def of(cls, *numbers: object) -> "Status":
        r"""Given, or estimated where one of the numbers is an ``Estimate``."""
        return cls.ESTIMATED if any(map(is_estimate, numbers)) else cls.GIVEN


# How to give what was estimated, by the kind of assumption.
_REMEDIES = {
    "kernel": "take the hyper-parameters from earlier data or physics and freeze them "
    "(model.covar_module.requires_grad_(False); bounds=... in an input transform); "
    "freezing values that were fitted to these data does not make them given",
    "mean": "fix the mean and leave out Standardize (outcome_transform=None)",
    "noise": "pass noise_std=... or train_Yvar",
    "norm": "pass norm_bound=... (describe_norm_bound says what a number means)",
    "information gain": "pass information_gain=...",
}
# What to do about what the data contradict, likewise.
_MENDING = {
    "kernel": "give other kernels, a larger norm_bound or a larger noise_std",
    "norm": "give a larger noise_std, or a norm_bound from before these data; raised to "
    "what they need (least_norms of the band) it is an estimate, as norm_bound=None says",
    "noise": "give a larger noise_std",
    "range": "give a wider range, or look at the runs outside it",
    "replicates": "give a larger noise_std, or look at the repeated runs",
    "theorem": "use MartingaleMixtureUCB",
    "design": "use MartingaleMixtureUCB, or say fixed_design=True if no input looked at an "
    "outcome",
    "domain": "leave these runs out, or give points=... that hold them",
    "outcomes": "give the outcomes that were lost because of their value",
    "delta": "give each band a smaller delta",
    "policy": "replay the policy of this run",
    "rounds": "replay as many rounds as the run has",
    "replays": "replay functions more like the run's",
}


@dataclass(frozen=True)
class Assumption:
    r"""One assumption of a theorem.

    Attributes:
        kind: ``"kernel"``, ``"mean"``, ``"noise"``, ``"norm"``, ``"outcomes"``,
            ``"prior"``, ...
        text: The assumption in words, with its number.
        status: Given by the user; calibrated by replays; estimated from the data or a
            default; or violated: the data contradict the assumption, or the theorem does
            not cover the case.
        domain: Where it has this status; what was given at listed points is an estimate at
            others.
        of: Of several bounds at once, the names of those that make the assumption; empty
            of a single bound.
        detail: What exactly was given, where ``text`` does not say it; read when printed.
    """

    kind: str
    text: str
    status: Status
    domain: Everywhere = field(default=EVERYWHERE, compare=False, repr=False)
    of: tuple[str, ...] = ()
    detail: Callable[[], str] = field(default=str, compare=False, repr=False)

    @property
    def name(self) -> str:
        r"""``"norm"``; of several bounds after that of its own: ``"output 1: norm"``."""
        return f"{', '.join(self.of)}: {self.kind}" if self.of else self.kind

    @property
    def statement(self) -> str:
        r"""The assumption in words, of several bounds after the name of its own."""
        text = ": ".join(filter(None, [self.text, self.detail()]))
        return f"{', '.join(self.of)}: {text}" if self.of else text

    @property
    def in_words(self) -> str:
        r"""``"norm"``, or ``"norm of objective and constraint 1"``."""
        return f"{self.kind} of {' and '.join(self.of)}" if self.of else self.kind

    def owned_by(self, names: tuple[str, ...]) -> "Assumption":
        r"""The same assumption as one of the bound that has these names among several."""
        # The terms of a sum have names of their own.
        of = (": ".join([", ".join(names), ", ".join(self.of)]),) if self.of else names
        return replace(self, of=of)

    @property
    def everywhere(self) -> Status:
        r"""The status at all points at once."""
        limited = self.domain.is_listed and self.status is Status.GIVEN
        return Status.ESTIMATED if limited else self.status

    def at(self, X: Tensor | None) -> "Assumption":
        r"""The assumption of a statement about ``n x d`` points; None for a box."""
        status = self.status if self.domain.covers(X) else self.everywhere
        return replace(self, status=status, domain=EVERYWHERE)

    def number(self, value: Number) -> Number:
        r"""``value`` as given, or as an ``Estimate`` if the assumption was not."""
        return value if self.everywhere is Status.GIVEN else Estimate(float(value))

    def __str__(self) -> str:
        limited = self.everywhere is not self.status
        where = " at listed points, estimated at others" * limited
        return f"[{self.status}{where}] {self.statement}"


@dataclass(frozen=True)
class Assumptions:
    r"""The guarantee of a bound and everything it rests on.

    Attributes:
        source: Paper and theorem.
        claim: What holds, and in which rounds, in words; where the theorem does not state
            one failure probability, also with which probability or if what is true.
        anytime: Whether the guarantee is for all rounds at once.
        items: The single assumptions.
        delta: Failure probability; None where the theorem does not state one number.
        all_points: Whether the guarantee is for all points at once.
        horizon: Largest number of rounds that the guarantee covers; None for all rounds.
    """

    source: str
    claim: str
    anytime: bool
    items: tuple[Assumption, ...]
    delta: float | None = None
    all_points: bool = True
    horizon: float | None = None

    @classmethod
    def joined(
        cls, parts: Mapping[tuple[str, ...], "Assumptions"], claim: str
    ) -> "Assumptions":
        r"""The assumptions of several bounds at once, by the union bound.

        ``parts`` are the assumptions of each bound by its names; ``claim`` is the
        statement, in words, that follows if all bounds hold.
        """
        every = parts.values()
        deltas = [part.delta for part in every]
        # One band without a number of its own leaves the whole without one.
        total = None if None in deltas else sum(filter(None, deltas))
        anytime = all(part.anytime for part in every)
        all_points = all(part.all_points for part in every)
        horizons = [part.horizon for part in every if part.horizon is not None]
        horizon = min(horizons, default=None)
        # A horizon is of a statement about all rounds.
        rounds = rounds_in_words(anytime, horizon if anytime else None)
        points = "" if all_points else ", at single points only,"
        condition = " if all bands hold" if total is None else ""
        claim = f"{claim}{points} in {rounds}{condition}"
        items = tuple(
            item.owned_by(names) for names, part in parts.items() for item in part.items
        )
        source = "; ".join(dict.fromkeys(part.source for part in every))
        joined = cls(source, claim, anytime, items, total, all_points, horizon)
        if total is None or total < 1.0:
            return joined
        return joined.without_guarantee(
            f"the failure probabilities add up to {total:.6g}; give each band a smaller "
            "delta",
            kind="delta",
        )

    def at(self, X: Tensor | None) -> "Assumptions":
        r"""The assumptions of a statement about ``n x d`` points; None for a box.

        A band has a domain: the points at which all its assumptions have their status. What
        is asked elsewhere is estimated.
        """
        return replace(self, items=tuple(item.at(X) for item in self.items))

    @property
    def is_listed(self) -> bool:
        r"""Whether an assumption was given at listed points only."""
        return any(item.domain.is_listed for item in self.items)

    @property
    def within_domain(self) -> "Assumptions":
        r"""The assumptions of a statement about points at which all of them were given."""
        items = (replace(item, domain=EVERYWHERE) for item in self.items)
        return replace(self, items=tuple(items))

    def mask(self, X: Tensor) -> Tensor:
        r"""Which of ``... x d`` points are in the domain, ``...`` booleans."""
        found = EVERYWHERE.mask(X)
        for domain in {item.domain for item in self.items if item.domain.is_listed}:
            found &= domain.mask(X)
        return found

    @property
    def guarantee(self) -> str:
        r"""The guarantee in words: statement, rounds and probability."""
        if self.violated:
            return "heuristic, no guarantee: an assumption is violated"
        if self.delta is None or self.calibrated:
            return self.claim
        return f"{self.claim} with probability {one_minus(self.delta)}"

    @property
    def certified(self) -> bool:
        r"""Whether the theorem covers the case and every assumption was given everywhere.

        Whether the given assumptions are true, only the user can know. For a statement
        about listed points ask the assumptions ``at`` these.
        """
        return all(item.everywhere is Status.GIVEN for item in self.items)

    @property
    def estimated(self) -> tuple[str, ...]:
        r"""Names of the assumptions that are estimates from the same data, or defaults."""
        return tuple(item.name for item in self._with_status(Status.ESTIMATED))

    @property
    def calibrated(self) -> bool:
        r"""Whether an assumption was calibrated by replays: then nothing is certified."""
        return bool(self._with_status(Status.CALIBRATED))

    @property
    def violated(self) -> bool:
        r"""Whether the data contradict an assumption, or the theorem does not cover it."""
        return any(item.status is Status.VIOLATED for item in self.items)

    @property
    def summary(self) -> str:
        r"""``"certified"``, or why the bound is not, as the first line of a report.

        ``"heuristic: kernel, norm estimated"``, ``"no guarantee: norm violated"`` or
        ``"calibrated: true in 90 % of ..."``; for
        several bounds ``"heuristic: norm of objective, norm of constraint 1 estimated"``.
        """
        if self.violated:
            return f"no guarantee: {self._in_words(Status.VIOLATED)} violated"
        if self.estimated:
            at_points = all(item.status is Status.GIVEN for item in self.items)
            where = " off the points of its domain" * at_points
            return f"heuristic: {self._in_words(Status.ESTIMATED)} estimated{where}"
        return f"calibrated: {self.claim}" if self.calibrated else "certified"

    @property
    def verdict(self) -> str:
        r"""``"certified (95 %)"``, or why the band does not hold in all rounds everywhere.

        For legends and titles: unlike ``summary``, "certified" here also means that the
        guarantee is for all points and all rounds at once, or up to the round and for the
        points it names.
        """
        if not self.certified:
            return self.summary
        if not self.all_points:
            return "at single points only"
        if not self.anytime:
            return "in one round only"
        share = ""
        if self.delta is not None:
            share = f" ({coordinate(100.0 * float(one_minus(self.delta)))} %)"
        rounds = "" if self.horizon is None else f" up to round {self.horizon:.6g}"
        return f"certified{share}{rounds}"

    @property
    def remedy(self) -> str:
        r"""What to do about what the data contradict."""
        kinds = self._kinds(Status.VIOLATED)
        ways = [_MENDING[kind] for kind in kinds if kind in _MENDING]
        return f"what to do: {'; '.join(ways) or 'see the violated assumption'}"

    def _with_status(self, status: Status) -> list[Assumption]:
        return [item for item in self.items if item.everywhere is status]

    def _in_words(self, status: Status) -> str:
        return ", ".join(item.in_words for item in self._with_status(status))

    def _kinds(self, status: Status) -> list[str]:
        # Keys keep their order; what several bands have is explained once.
        return list(dict.fromkeys(item.kind for item in self._with_status(status)))

    def check_certified(self, user: str, allow_estimated: bool) -> None:
        r"""Refuse to act on estimates unless ``allow_estimated``; ``user`` is what acts.

        Raises:
            UncertifiedError: If an assumption was estimated and ``allow_estimated`` is not
                set; the message names the assumption and says how to give it. Likewise if
                one was calibrated by replays, whatever is allowed.
        """
        if self.calibrated:
            raise UncertifiedError(
                f"{user} needs a certified band, and this one is {self.summary}. Use the "
                "stop of kernelucb.calibration, or give a band with a norm_bound."
            )
        if allow_estimated or not self.estimated:
            return
        kinds = self._kinds(Status.ESTIMATED)
        ways = [f"{kind}: {_REMEDIES[kind]}" for kind in kinds if kind in _REMEDIES]
        give = f" ({'; '.join(ways)})" if ways else ""
        raise UncertifiedError(
            f"{user} needs a certified band, and this one is {self.summary}. Its "
            f"probability is not known. Either give what is estimated{give}, or pass "
            "allow_estimated=True to act on estimates."
        )

    def __getitem__(self, name: str) -> Assumption:
        for item in self.items:
            if item.name == name:
                return item
        raise KeyError(name)

    def by(self, theorem: str) -> "Assumptions":
        r"""A copy whose source is ``theorem``, with the present source as the fit's."""
        return replace(self, source=f"{theorem}; fit: {self.source}")

    def with_item(self, item: Assumption) -> "Assumptions":
        r"""A copy in which ``item`` replaces the assumption of the same name.

        What is violated stays so.
        """

        def kept(old: Assumption) -> bool:
            lifts = old.status is Status.VIOLATED and item.status is not Status.VIOLATED
            return lifts or (old.kind, old.of) != (item.kind, item.of)

        items = tuple(old if kept(old) else item for old in self.items)
        return replace(self, items=items)

    def no_better_than(self, items: Sequence[Assumption]) -> "Assumptions":
        r"""A copy in which no assumption has a better status than in ``items``."""
        order, assumptions = [*Status], self  # from the best status to the worst
        for item in items:
            present = [each.status for each in assumptions.items if each.name == item.name]
            if not present:
                assumptions = assumptions.with_extra(item)
            elif order.index(item.status) <= max(map(order.index, present)):
                continue
            assumptions = assumptions.with_item(item)
        return assumptions

    def with_extra(self, item: Assumption) -> "Assumptions":
        r"""A copy with one more assumption."""
        return replace(self, items=(*self.items, item))

    def spending(self, source: str, delta: float) -> "Assumptions":
        r"""A copy with a further source, whose ``delta`` is added where there is one."""
        spent = None if self.delta is None else self.delta + delta
        return replace(self, source=f"{self.source}; {source}", delta=spent)

    def without_guarantee(self, reason: str, kind: str = "theorem") -> "Assumptions":
        r"""A copy that says in words why the guarantee does not hold."""
        violated = Assumption(kind, reason, Status.VIOLATED)
        return self.with_extra(violated)

    @property
    def headline(self) -> str:
        r"""First line in print: what is certified, or ``summary``."""
        if self.certified:
            return f"certified, if what was given is true: {self.guarantee}"
        return self.summary

    def __str__(self) -> str:
        lines = [self.headline]
        if self.violated:
            lines.append(f"  {self.remedy[0].upper()}{self.remedy[1:]}.")
        elif self.estimated:
            lines.append(f"  If the estimates were true: {self.guarantee}")
        lines.append(f"  Source: {self.source}")
        lines += [f"  {item}" for item in self.items]
        return "\n".join(lines)


def rounds_in_words(anytime: bool, horizon: float | None) -> str:
    r"""The rounds for which a bound holds."""
    if horizon is not None:
        return f"every round up to {horizon:.6g} at once"
    return "every round at once" if anytime else "one round, fixed in advance,"


# The statement of a given assumption, and of one that may have been fitted to these data.
_STATEMENTS = {
    "kernel": (
        "the kernel was fixed before the data",
        "the kernel is the true one; its hyper-parameters are or were trainable and may "
        "have been fitted to these data",
    ),
    "mean": (
        "the prior mean was fixed before the data",
        "the prior mean and outcome scale are known; they were estimated from these data "
        "(trainable mean or Standardize)",
    ),
}
# What of the prior was given.
_DETAILS: dict[str, Callable[[Prior], str]] = {
    "kernel": attrgetter("kernel_in_words"),
    "mean": attrgetter("mean_in_words"),
}
# The outcomes must form a martingale in the order in which they arrive.
REPORTED = Assumption(
    "outcomes",
    "outcomes are not changed, averaged or merged after they were observed, and whether "
    "and when one is reported does not depend on its noise",
    Status.GIVEN,
)


class Knowledge(NamedTuple):
    r"""Kernel, mean and noise with their status, as a regression state has them."""

    prior: Prior
    estimated: frozenset[str]
    noise_scales: Tensor
    outcome_map: OutcomeMap = IDENTITY


def rkhs_assumptions(
    source: str,
    state: Any,
    delta: float,
    norm: Assumption,
    *,
    anytime: bool = True,
    horizon: float | None = None,
    claim: str = "holds for every point and",
    noise: str = "conditionally sub-Gaussian",
) -> Assumptions:
    r"""Assumptions of a bound for functions of bounded RKHS norm.

    ``horizon`` is the largest number of rounds that the theorem covers, None for all;
    ``claim`` says what holds, the rounds aside; ``noise`` is the noise condition in words.
    """
    claim = f"{claim} {rounds_in_words(anytime, horizon)}"
    items = _items(state, noise, norm)
    return Assumptions(source, claim, anytime, items, delta, horizon=horizon)


def bayesian_assumptions(source: str, state: Any, delta: float, domain: str) -> Assumptions:
    r"""Assumptions of a bound for samples from the Gaussian process itself.

    The bound covers ``domain`` (in words) only, and no maximum outside of it.
    """
    statement = "f is a sample of the GP with this kernel and mean (not a fixed function)"
    prior = Assumption("prior", statement, Status.GIVEN)
    claim = f"holds {domain} and {rounds_in_words(True, None)}"
    items = _items(state, "independent and Gaussian", prior)
    return Assumptions(source, claim, True, items, delta, all_points=False)


def _items(state: Any, condition: str, function: Assumption) -> tuple[Assumption, ...]:
    r"""Assumptions on the model, the noise (``condition`` in words) and the function."""
    smallest, largest = map(float, state.noise_scales.aminmax())
    scale = assumed(smallest)
    if smallest != largest:
        scale += (
            f" to {assumed(largest)}, one for each observation, fixed before its outcome "
            "(as is the number of readings behind it)"
        )
    noise = f"the noise is {condition}{state.outcome_map.after} with scale {scale}"
    statements = {**_STATEMENTS, "noise": (noise, f"{noise}; the scale is an estimate")}
    items: list[Assumption] = []
    for name, (given, estimated) in statements.items():
        if name in state.estimated:
            items.append(Assumption(name, estimated, Status.ESTIMATED))
        else:
            detail = partial(_DETAILS[name], state.prior) if name in _DETAILS else str
            items.append(Assumption(name, given, Status.GIVEN, detail=detail))
    items += [function, REPORTED]
    if not state.outcome_map.is_identity:
        scale = state.outcome_map.statement
        items.append(Assumption("outcome transform", scale, Status.GIVEN))
    return tuple(items)
