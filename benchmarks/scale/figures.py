r"""Picture: width over that of the exact band, against the number of inducing points."""

from pathlib import Path

from benchmarks.scale.tables import ratios
from kernelucb.plotting.style import BLACK, BLUE, GREEN, GREY, ORANGE, RC, load_pyplot

STYLES = {
    "weights": ("the exact band's radius", BLUE, "-"),
    "band": ("own radius", BLACK, (0, (6, 2))),
    "prequential": ("prequential radius", ORANGE, (0, (6, 2, 1.2, 2))),
    "further": ("own radius, further points", GREEN, (0, (4, 1.5))),
    "trace": ("own radius, trace", GREY, (0, (1.2, 1.6))),
}


def draw(results: Path, path: Path) -> None:
    r"""One panel for each kernel, at the largest number of observations."""
    plt, values = load_pyplot(), ratios(results)
    kernels = list(dict.fromkeys(kernel for kernel, _, _ in values))
    count = max(count for _, count, _ in values)
    with plt.rc_context(RC):
        figure, panels = plt.subplots(
            1,
            len(kernels),
            figsize=(9.6, 3.9),
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        for axes, kernel in zip(panels[0], kernels, strict=True):
            chosen = {m: v for (k, n, m), v in values.items() if (k, n) == (kernel, count)}
            for name, (label, colour, dashes) in STYLES.items():
                heights = [each[name] for each in chosen.values()]
                axes.plot(
                    list(chosen), heights, color=colour, linestyle=dashes, label=label
                )
            axes.set(title=kernel, xlabel="inducing points", xscale="log", yscale="log")
            axes.set_xticks(list(chosen), list(map(str, chosen)))
            axes.set_yticks([1, 1.5, 2, 3, 5], ["1", "1.5", "2", "3", "5"])
            axes.minorticks_off()
        panels[0, 0].set_ylabel(f"width over the exact band's, t = {count}")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
        plt.close(figure)
