r"""A page from a table of runs, in-process."""

import re
from html import unescape

import pytest
import torch

from kernelucb import KernelRegression, MartingaleMixtureUCB, regret_certificate
from kernelucb.__main__ import main
from kernelucb._numerics.digits import at_most, between
from kernelucb.certificates import claims
from kernelucb.regression.named import fixed_kernel, fixed_mean
from kernelucb.report import study

ROWS = [
    "heat,hours,who,yield",
    *("62,1,AB,40.2", "75,3,AB,71.5", "90,2,CD,66.0", "70,8,AB,63.1", "80,5,CD,74.9"),
    *("55,6,AB,44.8", "100,1,CD,52.7", "85,4,CD,75.2", "78,4,AB,77.0", "78,4,CD,75.6"),
]
TABLE = "\n".join(ROWS)
BOX = ["--bounds", "heat=50:110, hours=1:8"]
SMALL = ["--noise-std", "1", "--tolerance", "5", "--window", "0.1"]


@pytest.fixture(autouse=True)
def few_gaps(monkeypatch):
    monkeypatch.setattr(study, "_EVALUATIONS", 500)
    monkeypatch.setattr(claims, "_EVALUATIONS", 500)
    monkeypatch.setattr(study, "_MARGINS", (1.1, 2.0))
    monkeypatch.setattr(study, "_MAP_MARGINS", (1.2, 3.0))


def run(folder, *options, table=TABLE):
    (folder / "runs.csv").write_text(table)
    arguments = [str(folder / "runs.csv"), "--outcome", "yield", *options]
    return main(["report", *arguments, "--output", str(folder / "page.html")])


def words(text):
    return " ".join(text.split())


def test_the_page_and_the_text_say_what_the_band_says(tmp_path, capsys):
    given = [*BOX, *SMALL, "--norm-bound", "200", "--range", "0:100", "--units", "yield=%"]
    assert run(tmp_path, *given, "--baseline", "heat=60,hours=2", "--threshold", "60") == 0
    text = words(capsys.readouterr().out)
    page = (tmp_path / "page.html").read_text()
    shown = words(unescape(re.sub(r"<[^>]+>", " ", page.partition("<body>")[2])))
    limits = torch.tensor([[50.0, 1.0], [110.0, 8.0]], dtype=torch.float64)
    kernel = fixed_kernel("matern52", 0.5 * (limits[1] - limits[0]), 1.0)
    cells = [row.split(",") for row in ROWS[1:]]
    X = torch.tensor([[float(a), float(b)] for a, b, *_ in cells]).double()
    Y = torch.tensor([float(row[-1]) for row in cells]).double()
    data = KernelRegression(X, Y, kernel, 1.0, fixed_mean(50.0))
    band = MartingaleMixtureUCB(data, norm_bound=200.0).within(0.0, 100.0).relaxed()
    lower, upper = band.bounds(X[8:9])
    gap = regret_certificate(band, bounds=limits, recommended=X[8]).gap
    sentences = (
        "Best run: row 9, heat 78, hours 4. Observed: 77 %.",
        f"yield there is between {' and '.join(between(float(lower), float(upper)))} %",
        f"no point anywhere is higher by more than {at_most(gap)} %",
        "stands unless the norm is above",
        "[given] the RKHS norm of f - mean is at most 200",
        "columns that are not used: who",
        "certified",
    )
    for sentence in sentences:
        assert sentence in text
        assert sentence in shown
    # Every number of the text is on the page, the curve's in words for the picture.
    numbers = set(re.findall(r"\d+\.\d+", text.partition("The page:")[0]))
    assert numbers <= set(re.findall(r"\d+\.\d+", unescape(page)))
    assert "http" not in page
    assert "<script" not in page
    assert page.count("data:image/svg+xml;base64,") == 2


def test_what_was_not_given_is_said(tmp_path, capsys):
    assert run(tmp_path, "--text", "--minimize", "--window", "0.1") == 0
    assert not (tmp_path / "page.html").exists()
    text = words(capsys.readouterr().out)
    assert "heuristic: kernel, mean, noise, norm estimated" in text
    assert "1.5 times the least that explains the data" in text
    assert "[not given] --bounds: hours 1 to 8, as in the table" in text
    assert "--noise-std: 0.99, estimated from repeated settings (1 degrees" in text
    assert "Best run: row 1, heat 62" in text
    assert "is lower by more than" in text
    assert "hold together, were kernel and mean and noise given before" in text


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (TABLE.replace("yield", "rate"), SMALL, "'yield'; its columns are heat"),
        (TABLE.replace("75,3", "n/a,3"), SMALL, "'heat' has 'n/a' in row 2; give a number"),
        ("heat,yield\n1,2", SMALL, "1 rows below its header; give two or more"),
        ("heat,hours,yield\n1,2,3\n1,4,5", SMALL, "'heat' is 1 in every row"),
        ("run,hours,yield\n1,2,3\n2,4,5", SMALL, "'run' counts the rows"),
        ("heat,yield,yield\n1,2,3\n2,4,5", SMALL, "not one column"),
        ("heat,yield\n1,2,3\n2,4", SMALL, "Row 1 has 3 cells, the header 2"),
        ("who,yield\nAB,2\nCD,4", SMALL, "columns of numbers beside 'yield', got none"),
        (TABLE, [*SMALL, "--inputs", "heat,yield"], "beside 'yield', got heat, yield"),
        (TABLE, [*SMALL, "--inputs", "heat,who"], "'who' has 'AB' in row 1"),
        (
            TABLE,
            [*SMALL, "--bounds", "heat=60:110"],
            "heat is 55 to 100 in the table",
        ),
        (TABLE, [*SMALL, "--bounds", "heat=60"], '--bounds must be like "0.1:10"'),
        (TABLE, [*SMALL, "--bounds", "cold=1:2"], "names 'cold'; the inputs are heat"),
        (TABLE, [*SMALL, "--baseline", "heat=60"], "--baseline lacks hours"),
        (TABLE, [*SMALL, "--lengthscale", "1,2,3"], "3 entries for 2 inputs"),
        (TABLE, [*SMALL, "--lengthscale", "x"], '--lengthscale must be like "0.5,1"'),
        (TABLE.rpartition("\n")[0], [], "give --noise-std"),
        (TABLE, ["--noise-std", "0.1"], "larger --noise-std"),
    ],
)
def test_refusals_say_what_to_change(table, options, message, tmp_path, capsys):
    assert run(tmp_path, *options, table=table) == 2
    error = capsys.readouterr().err
    assert error.startswith("kernelucb: ")
    assert message in error


def test_without_a_command_the_help_is_printed(capsys):
    assert main([]) == 0
    assert re.search(r"report +what a table of past runs supports", capsys.readouterr().out)
    with pytest.raises(SystemExit):
        main(["report", "runs.csv", "--outcome", "yield", "--output", "page.txt"])
    assert "must end in .html" in capsys.readouterr().err


def test_a_contradiction_and_a_tolerance_that_is_reached_are_said(tmp_path, capsys):
    given = [*BOX, "--noise-std", "1", "--window", "0.1", "--text"]
    assert run(tmp_path, *given, "--norm-bound", "5", "--tolerance", "900") == 0
    text = words(capsys.readouterr().out)
    assert "The data contradict what was given" in text
    assert "No other setting may be better by more than 900" in text
    (tmp_path / "runs.csv").write_bytes(b"\xff\xfe\x00")
    arguments = [str(tmp_path / "runs.csv"), "--outcome", "yield", "--text"]
    assert main(["report", *arguments]) == 2
    assert "runs.csv cannot be read" in capsys.readouterr().err
