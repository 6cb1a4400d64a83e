r"""What the demo says before the table: what is promised, and where each number is from."""

from kernelucb._demo.loop import Run

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
    if run.norm_too_small:
        return (
            f"{summary}: the norm bound given, {run.settings.norm_bound:.6g}, is too small "
            f"for this function, whose norm is {run.problem.function.norm:.6g}. The band "
            "may miss it."
        )
    if not run.certified:
        return f"{summary}: the initial points contradict it. The band may miss."
    return (
        f"{summary}: kernel, mean and noise are known and fixed before the run, and the "
        "norm bound is known to be large enough."
    )


def task(run: Run) -> str:
    r"""What is minimised, and under what noise."""
    box = " x ".join(f"[{low:g}, {high:g}]" for low, high in run.problem.bounds.T.tolist())
    return (
        f"Minimising {run.problem.name} on {box} with Gaussian noise of standard deviation "
        f"{run.noise_std:.4g}, known to the band: {len(run.X)} initial points, "
        f"{run.settings.rounds} rounds."
    )


def origin(run: Run) -> str:
    r"""Where the black box, its kernel and its norm bound come from."""
    sentences = [_black_box(run), _norm_bound(run)]
    original = run.problem.original
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


def _black_box(run: Run) -> str:
    function, original = run.problem.function, run.problem.original
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


def _norm_bound(run: Run) -> str:
    value = run.problem.function.norm
    norm = f"The RKHS norm of such a sum follows from its weights: {value:.4g}."
    if run.settings.estimate:
        return (
            f"{norm} The band does not get it: it uses an estimate (NormTracker.cautious)."
        )
    if run.settings.norm_bound is None:
        return f"{norm} The norm bound is that, rounded up."
    return f"{norm} The norm bound, {run.settings.norm_bound:.6g}, was given."
