r"""What the demo says around its table: what is promised, and where numbers are from."""

from kernelucb._demo.loop import Run
from kernelucb._demo.problems import Problem
from kernelucb._demo.table import as_texts

# Beyond this the gap after tens of rounds is wider than the range of the outcomes.
_LARGE = 30.0


def promise(run: Run) -> str:
    r"""The first line: what kind of band this is."""
    summary = run.assumptions.summary
    if run.settings.estimate:
        return (
            f"{summary}: in every round, from the data. Nothing proves that the estimate "
            "is large enough, so the band may miss the function."
        )
    if run.known is not None and run.norm_too_small:
        return (
            f"{summary}: the norm bound given, {run.settings.norm_bound:.6g}, is too small "
            f"for this function, whose norm is {run.known.function.norm:.6g}. The band "
            "may miss it."
        )
    if not run.certified:
        return f"{summary}: the initial points contradict it. The band may miss."
    if run.known is None:
        return (
            f"{summary}, if what was given is true: kernel, mean, noise and norm bound are "
            "fixed before the run. Whether they are true of this function, only you can "
            "know."
        )
    return (
        f"{summary}: kernel, mean and noise are known and fixed before the run, and the "
        "norm bound is known to be large enough."
    )


def task(run: Run) -> str:
    r"""What is minimised, and under what noise."""
    box = " x ".join(f"[{low:g}, {high:g}]" for low, high in run.problem.bounds.T.tolist())
    noise = (
        f"whose noise was said to be sub-Gaussian with scale {run.noise_std:.4g}"
        if run.known is None
        else f"with Gaussian noise of standard deviation {run.noise_std:.4g}, known to the "
        "band"
    )
    return (
        f"Minimising {run.problem.name} on {box} {noise}: {len(run.X)} initial points, "
        f"{run.settings.rounds} rounds."
    )


def origin(run: Run) -> str:
    r"""Where the black box, its kernel and its norm bound come from."""
    if run.known is None:
        return _own(run)
    sentences = [_black_box(run.known), _norm_bound(run, run.known)]
    original = run.known.original
    if original is not None and original.kink:
        name = original.title
        sentences.append(
            f"{name} itself has a kink and therefore no finite norm under this kernel: "
            "the norm of such a sum, fitted to more and more points, grows without limit. "
            "The number above is for the sum, which is minimised here."
        )
    if run.settings.estimate:
        return " ".join(sentences)
    if run.acquisition.norm_bound > _LARGE:
        sentences.append("So large a norm bound leaves a wide band and a large gap.")
    sentences.append("The norm of a real black box is not known: see --estimate.")
    return " ".join(sentences)


def _own(run: Run) -> str:
    base = run.problem.kernel.base_kernel
    text = (
        "The band is given a Matern 5/2 kernel of variance 1 with length scale "
        f"{float(base.lengthscale):g} of each side of the box (--length-scale) and the "
        f"mean {run.problem.mean:g} (--mean)."
    )
    if run.settings.estimate:
        return f"{text} It estimates the norm bound (NormTracker.cautious)."
    return (
        f"{text} The norm bound, {run.settings.norm_bound:.6g}, allows values up to that "
        "far from the mean; describe_norm_bound says what else it means."
    )


def _black_box(problem: Problem) -> str:
    function, original = problem.function, problem.original
    base = function.base
    text = (
        f"The black box is a weighted sum of {len(function.weights):,} kernel functions "
        f"(Matern {int(2 * base.nu)}/2, length scale {float(base.lengthscale):g} of each "
        "side of the box) and a constant"
    )
    if original is None:
        return f"{text}, with random weights. The band is given its kernel and its mean."
    return (
        f"{text}, fitted to {original.title} at as many points; on {original.points:,} "
        f"others it differs by at most {original.largest:.2g}, root mean square "
        f"{original.typical:.2g}. The band is given its kernel and its mean."
    )


def _norm_bound(run: Run, problem: Problem) -> str:
    value = problem.function.norm
    norm = f"The RKHS norm of such a sum follows from its weights: {value:.4g}."
    if run.settings.estimate:
        return (
            f"{norm} The band does not get it: it uses an estimate (NormTracker.cautious)."
        )
    if run.settings.norm_bound is None:
        return f"{norm} The norm bound is that, rounded up."
    return f"{norm} The norm bound, {run.settings.norm_bound:.6g}, was given."


def details(run: Run) -> str:
    r"""After the table: what only a simulation can know, and the norm bound."""
    bound = f"Norm bound in the end: {run.acquisition.norm_bound:.4g}"
    if run.known is None:
        return f"\n{bound}."
    value = float(run.known.function(run.ending().x.unsqueeze(0)))
    missed = sum(row.covered != 1.0 for row in run.rounds)
    return (
        f"\nTrue value at the recommended point: {value:.4g}, {_minimum(run.known)}. The "
        "band missed the true function somewhere on the candidates in "
        f"{missed} of {len(run.rounds)} rounds. {bound}; norm of the true function: "
        f"{run.known.function.norm:.4g}."
    )


def _minimum(problem: Problem) -> str:
    text = f"true minimum {problem.function.minimum:.4g} (found by search)"
    if problem.original is None:
        return text
    return f"{text}; of {problem.original.title} itself {problem.original.minimum:.4g}"


def conclusion(run: Run) -> str:
    r"""The last line: the last row of the table in words."""
    end = run.ending()
    where = ", ".join(as_texts(end.x, run.problem.bounds))
    promised = f"not certified, norm {run.norm_status}"
    if run.certified:
        promised = f"certified, with probability {1 - run.settings.delta:.6g}"
        if run.known is None:
            promised += ", if what was given is true"
    return (
        f"Recommended after {len(run.rounds)} rounds: x = ({where}). Its regret on the "
        f"candidates and the points evaluated is at most {end.gap:.4g} ({promised})."
    )
