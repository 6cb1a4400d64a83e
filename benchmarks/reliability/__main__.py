r"""The package's record of claims: ``python -m benchmarks.reliability package``."""

import pandas as pd

from benchmarks.runner import ROOT, write_table
from benchmarks.runner.study import Study, Summary
from kernelucb.certificates.claims import Record

STUDY = Study("benchmarks.reliability", "How often claims at a margin were false.")
PACKAGE = ROOT / "src" / "kernelucb" / "certificates" / "reliability.csv"
CELL = ["count", "kind"]
COUNTS = [15, 50, 100]
# The package's words for the kinds of the table.
KINDS = {"value": "value", "window gain": "window", "gap": "anywhere"}


@STUDY.table("package")
def package() -> Summary:
    r"""The table of the package, from ``results/curves.csv``."""
    table = pd.read_csv(STUDY.folder / "results" / "curves.csv")
    kept = (table["method"] == "margin") & table["count"].isin(COUNTS)
    table = table[kept & table["kind"].isin(KINDS)].sort_values([*CELL, "level"])
    # Up to the first level with no false claim.
    zeros = (table["share_false"] == 0.0).groupby([table[name] for name in CELL])
    table = table[(table["share_false"] <= 0.2) & (zeros.cumsum() <= 1)]
    rows = table.rename(columns={"count": "runs"}).assign(
        kind=table["kind"].map(KINDS), share_false=table["false"] / table["claims"]
    )
    rows = rows.sort_values(["kind", "runs", "level"])[[*Record._fields]]
    write_table(PACKAGE, rows.round(4))
    return Summary(None, None)


if __name__ == "__main__":
    STUDY.main()
