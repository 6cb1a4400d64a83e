r"""One run of the demo: does its band hold in every round, and its gap bound the regret?"""

from kernelucb._demo.loop import Run
from kernelucb._demo.problems import PROBLEMS, make_problem
from kernelucb._demo.records import Settings

FUNCTIONS = tuple(PROBLEMS)


def run_one(
    function: str, seed: int, estimate: bool, rounds: int = Settings().rounds
) -> dict[str, float]:
    r"""Play the demo and count its misses.

    Args:
        function: One of ``FUNCTIONS``.
        seed: Of initial points, noise and search.
        estimate: As ``--estimate``; otherwise the norm is known, as by default.
        rounds: Rounds after the initial points.

    Returns:
        ``missed_rounds``: rounds in which the band missed the black box at one of the
        demo's candidates or more; ``gap_below_regret_rounds``: rounds in which the gap was
        below the true regret of the recommended point; ``final_gap``, ``final_regret``:
        those of the last round, outcome units; ``norm_bound``: in the end; ``norm``: the
        black box's.
    """
    problem = make_problem(function)
    run = Run(problem, Settings(seed=seed, estimate=estimate, rounds=rounds))
    rows = list(run.steps())
    return {
        "missed_rounds": sum(row.covered < 1.0 for row in rows),
        "gap_below_regret_rounds": sum(row.gap < row.regret for row in rows),
        "final_gap": rows[-1].gap,
        "final_regret": rows[-1].regret,
        "norm_bound": run.acquisition.norm_bound,
        "norm": problem.function.norm,
    }
