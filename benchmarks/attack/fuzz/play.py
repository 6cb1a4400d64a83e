r"""The cases: every argument of every call with every value."""

from functools import cache
from typing import Any

from benchmarks.attack.fuzz.targets import Target, targets
from benchmarks.attack.fuzz.values import VALUES, Value
from benchmarks.attack.tasks import Family
from benchmarks.attack.verdicts import Verdict, WrongError, judge

# These take several outcomes at once, or the predictions of any model.
_SEVERAL = ("ScalarizedUCB.from_model", "SafeSet.from_models", "radius.observe")


@cache
def cases() -> list[tuple[Target, str, Value]]:
    r"""Target, argument and value of each seed."""
    return [
        (target, name, value)
        for target in targets()
        for name in target.arguments()
        for value in VALUES
    ]


def play(seed: int) -> Verdict:
    r"""One call with one wrong argument."""
    target, name, value = cases()[seed]

    def attempt() -> None:
        given: dict[str, Any] = target.arguments()
        given[name] = value.make()
        result = target.call(**given)
        if value.refused and name == "model" and target.name not in _SEVERAL:
            raise WrongError("a model of another function was accepted")
        target.use(result)

    return judge(attempt, f"{target.name}({name}={value.name})")


FAMILY = Family(
    play, lambda: len(cases()), "one wrong argument in every public call", chunk=500
)
