r"""The package's record of claims: ``python -m benchmarks.reliability package``."""

import pandas as pd

from benchmarks.runner import ROOT, write_table
from benchmarks.runner.study import Study, Summary
from kernelucb.certificates.measured import Record

STUDY = Study("benchmarks.reliability", "How often claims at a margin were false.")
PACKAGE = ROOT / "src" / "kernelucb" / "certificates" / "reliability.csv"
CELL = ["count", "method", "kind"]
METHODS = ["margin", "deviations"]
COUNTS = [15, 50, 100]
# The package's words for the kinds of the table.
KINDS = {"value": "value", "window gain": "window", "window floor": "window floor"}
KINDS |= {"gap": "anywhere"}


@STUDY.table("package")
def package() -> Summary:
    r"""The table of the package, from ``results/curves.csv``."""
    table = pd.read_csv(STUDY.folder / "results" / "curves.csv")
    kept = table["method"].isin(METHODS) & table["count"].isin(COUNTS)
    table = table[kept].sort_values([*CELL, "level"])
    # What the ladder shows beside its margins: up to the first level with no false claim.
    beside = (table["method"] == "margin") & (table["kind"] != "window floor")
    zeros = (table["share_false"] == 0.0).groupby([table[name] for name in CELL])
    beside &= (table["share_false"] <= 0.2) & (zeros.cumsum() <= 1)
    # What a reliability may choose: the least levels of 0.9 and 0.95.
    least = [
        table[table["at_most"] <= limit].groupby(CELL).head(1).index
        for limit in (0.1, 0.05)
    ]
    table = table[beside | table.index.isin(least[0].union(least[1]))]
    rows = table.rename(columns={"count": "runs"}).assign(
        kind=table["kind"].map(KINDS), share_false=table["false"] / table["claims"]
    )
    rows = rows.sort_values(["kind", "runs", "method", "level"])[[*Record._fields]]
    write_table(PACKAGE, rows.round(4))
    return Summary(None, None)


if __name__ == "__main__":
    STUDY.main()
