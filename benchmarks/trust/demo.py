r"""Do the demo's band and its "largest possible gap" hold?"""

from typing import Any

from kernelucb.__main__ import FUNCTIONS
from kernelucb._demo.problems import make_problem
from kernelucb._demo.run import Run as Demo

__all__ = ["FUNCTIONS", "play_demo"]


def play_demo(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Play the demo once and count its misses.

    Returns:
        Rounds in which the band missed the black box at one of the demo's settings or more;
        rounds whose gap was below the true regret of the point that it is about (1 if only
        the smallest gap, the last line's, was); gap and regret of the last line, in outcome
        units; the norm bound in the end and the black box's norm.
    """
    problem = make_problem(settings["function"])
    own = {name: settings[name] for name in ("rounds", "seed", "estimate")}
    demo = Demo(problem, **own)
    rows = list(demo.steps())
    regret = demo.regret(demo.best)
    wrong = sum(row.certificate.gap < demo.regret(row.certificate) for row in rows)
    return {
        "missed": sum(not row.covered for row in rows),
        "gap_below_regret": wrong or int(demo.best.gap < regret),
        "final_gap": demo.best.gap,
        "final_regret": regret,
        "norm_bound": demo.band.norm_bound,
        "norm": problem.function.norm,
    }
