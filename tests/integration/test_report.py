r"""A page from a table of runs, in-process."""

import math
import re
from html import unescape

import pandas as pd
import pytest
import torch
from botorch.exceptions import InputDataError

import kernelucb
from kernelucb import KernelRegression, MartingaleMixtureUCB, regret_certificate
from kernelucb.__main__ import main, read_arguments
from kernelucb._numerics.digits import at_most
from kernelucb.certificates import claims
from kernelucb.page import study
from kernelucb.regression.named import fixed_kernel, fixed_mean

ROWS = [
    "heat,hours,who,yield",
    *("62,1,AB,40.2", "75,3,AB,71.5", "90,2,CD,66.0", "70,8,AB,63.1", "80,5,CD,74.9"),
    *("55,6,AB,44.8", "100,1,CD,52.7", "85,4,CD,75.2", "78,4,AB,77.0", "78,4,CD,75.6"),
]
TABLE = "\n".join(ROWS)
BOX = ["--bounds", "heat=50:110, hours=1:8"]
WHO = ["--ignore", "who"]
SMALL = ["--noise-std", "1", "--tolerance", "5", "--window", "0.1"]


@pytest.fixture(autouse=True)
def few_gaps(monkeypatch):
    monkeypatch.setattr(study, "_EVALUATIONS", 500)
    monkeypatch.setattr(claims, "_EVALUATIONS", 500)
    monkeypatch.setattr(study, "_MARGINS", (1.1, 2.0))
    monkeypatch.setattr(study, "_MAP_MARGINS", (1.2, 3.0))


def run(folder, *options, table=TABLE, outcome="yield"):
    content = table if isinstance(table, bytes) else table.encode()
    (folder / "runs.csv").write_bytes(content)
    arguments = [str(folder / "runs.csv"), "--outcome", outcome, *options]
    return main(["report", *arguments, "--output", str(folder / "page.html")])


def words(text):
    return " ".join(text.split())


def test_the_page_and_the_text_say_what_the_band_says(tmp_path, capsys):
    given = [*BOX, *SMALL, *WHO, "--norm-bound", "200", "--range", "0:100"]
    given += ["--units", "yield=%", "--baseline", "heat=60,hours=2", "--threshold", "60"]
    assert run(tmp_path, *given) == 0
    text = words(capsys.readouterr().out)
    page = (tmp_path / "page.html").read_text()
    shown = words(unescape(re.sub(r"<[^>]+>", " ", page.partition("<body>")[2])))
    limits = torch.tensor([[50.0, 1.0], [110.0, 8.0]], dtype=torch.float64)
    kernel = fixed_kernel("matern52", 0.5 * (limits[1] - limits[0]), 1.0)
    cells = [row.split(",") for row in ROWS[1:]]
    X = torch.tensor([[float(a), float(b)] for a, b, *_ in cells]).double()
    Y = torch.tensor([float(row[-1]) for row in cells], dtype=torch.float64)
    data = KernelRegression(X, Y, kernel, 1.0, fixed_mean(50.0))
    band = MartingaleMixtureUCB(data, norm_bound=200.0).within(0.0, 100.0)
    band = band.with_replicates(9 * 10).relaxed()  # 9 settings, in whatever order
    gap = regret_certificate(band, bounds=limits, recommended=X[8]).gap
    made = kernelucb.report(tmp_path / "runs.csv", "yield", **options_of(given))
    (anywhere,) = [claim for claim in made.claims if claim.kind == "anywhere"]
    assert anywhere.numbers == pytest.approx((gap,))
    sides = made.wording.interval(*(float(side) for side in band.bounds(X[8:9])))
    sentences = (
        "Best run: rows 9, 10, heat 78, hours 4. Observed: 77, 75.6 %.",
        f"yield there is {sides}, with probability 0.95 if what this page rests on",
        *(words(claim.statement) for claim in made.claims),
        f"it may still be better by {at_most(gap)} %",
        "stands unless the norm is above",
        "The margin of a claim is the norm up to which it stands",
        "[given] the RKHS norm of f - mean is at most 200",
        "[default] the kernel was fixed before the data: Matern 5/2",
        "[default] the prior mean was fixed before the data: 50 %, the middle of --range",
        "certified",
        "10 of 10 used",
        "heat 55 to 100 (asked about 50 to 110); hours 1 to 8",
        "who (as asked by --ignore)",
        f"kernelucb {kernelucb.__version__}",
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


def options_of(given):
    options = vars(read_arguments(["report", "runs.csv", "--outcome", "yield", *given]))
    others = {"command", "help", "table", "outcome", "output", "text"}
    return {name: value for name, value in options.items() if name not in others}


def test_a_frame_and_a_file_are_one_road(tmp_path, capsys):
    given = [*BOX, *SMALL, *WHO, "--baseline", "heat=60,hours=2"]
    assert run(tmp_path, *given, "--text") == 0
    frame = pd.read_csv(tmp_path / "runs.csv")
    page = kernelucb.report(
        frame,
        "yield",
        ignore=["who"],
        bounds={"heat": (50.0, 110.0), "hours": (1.0, 8.0)},
        noise_std=1.0,
        tolerance=5.0,
        window=0.1,
        baseline={"heat": 60.0, "hours": 2.0},
    )
    printed = [
        words(each).partition("rows:") for each in (capsys.readouterr().out, page.text)
    ]
    assert printed[0][2] == printed[1][2]
    assert "sha256 " in printed[0][0]
    assert "a DataFrame, sha256 " in printed[1][0]
    assert [claim.kind for claim in page.claims].count("baseline") == 1


def test_what_was_not_given_is_said(tmp_path, capsys):
    assert run(tmp_path, "--text", "--minimize", "--window", "0.1", *WHO) == 0
    assert not (tmp_path / "page.html").exists()
    text = words(capsys.readouterr().out)
    assert "heuristic: kernel, mean, noise, norm estimated" in text
    assert "1.5 times the least that explains the data" in text
    assert "hours 3.5, shares of the table's limits of heat, hours" in text
    assert "the scale is an estimate: from repeated settings, 1 degree of freedom" in text
    assert "64.1, the mean of the outcomes" in text
    assert "[given]" not in text
    assert "Best run: row 1, heat 62" in text
    assert "is lower by more than" in text
    assert "by no more than" not in text
    chance = "0.95 if the norm bound is right and kernel and mean and noise had been given"
    assert chance in text


NUMBERS = [
    (127, 21, -1.7),
    (182, 46, 1.2),
    (216, 35, -3.3),
    (167, 60, -0.3),
    (146, 28, 0.5),
]
NUMBERS += [(200, 53, -2.7), (184, 15, 0.4), (137, 40, 1.2)]


def counted(name, index):
    rows = [f"{i},{a},{b},{c}" for i, (a, b, c) in zip(index, NUMBERS, strict=True)]
    return "\n".join([f"{name},heat,minutes,yield", *rows])


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("trial", range(8)),
        ("trial_index", [0, 1, 2, 4, 5, 6, 7, 8]),
        ("n", [10, 9, 8, 7, 6, 5, 4, 3]),
        ("n", [4, 1, 8, 3, 9, 6, 2, 5]),
        ("column", [0, 1, 2, 3, 50, 51, 52, 53]),
        ("runNo", [107, 7, 212, 59, 18, 350, 44, 91]),
        ("lot", [1, 1, 2, 2, 2, 2, 7, 7]),
        ("setting", [4, 4, 3, 3, 2, 2, 1, 1]),
        ("", [101, 102, 104, 105, 108, 109, 110, 112]),
        ("", [37, 2, 14, 14, 81, 6, 90, 23]),
        ("replicate", [1, 2, 1, 2, 1, 2, 1, 2]),
        ("elapsed", [0.5, 1.7, 3.1, 4.2, 7.5, 8.25, 9.5, 11.125]),
    ],
)
def test_a_counter_is_asked_about(name, index, tmp_path, capsys):
    shown = name or "column_1"
    assert run(tmp_path, *SMALL, table=counted(name, index)) == 2
    error = words(capsys.readouterr().err)
    assert f"'{shown}' counts the rows" in error
    assert f"--ignore {shown}, or name all that was set, with it: --inputs A,B" in error


def test_designs_are_no_counters(tmp_path, capsys):
    table = "\n".join(["heat,lines,yield", "20,1,61", "40,2.5,70", "60,2,78", "80,3,74"])
    assert run(tmp_path, *SMALL, "--text", table=table) == 0
    table = counted("level", [-1, -1, 0, 0, 0, 1, 1, 1])
    assert run(tmp_path, *SMALL, "--text", table=table) == 0
    table = counted("trial_index", range(8))
    assert run(tmp_path, *SMALL, "--text", "--inputs", "heat,minutes", table=table) == 0
    assert "trial_index (not among --inputs)" in capsys.readouterr().out


LATIN = "Temperatur °C;Lösung;Ausbeute\n20,5;Äther;61,2\n40;Wasser;1.070,5\n60;Äther;78\n"
LATIN += "80;Äther;n/a\n70;Wasser;Ausfall\n50;Wasser;60,25\n"


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8", "utf-8-sig", "utf-16"])
def test_semicolons_commas_and_words_are_read(encoding, tmp_path, capsys):
    options = ["--noise-std", "3", "--categories", "Lösung", "--missing", "Ausfall"]
    options += ["--baseline", "Lösung=Wasser,Temperatur °C=30", "--window", "0.1"]
    table = LATIN.encode(encoding)
    assert run(tmp_path, *options, table=table, outcome="Ausbeute") == 0
    text = words(capsys.readouterr().out)
    assert "rows: 4 of 6 used; not row 4: Ausbeute is n/a; not row 5: Ausbeute is" in text
    assert "inputs: Temperatur °C 20.5 to 60; Lösung: Wasser, Äther" in text
    assert "Best run: row 2, Temperatur °C 40, Lösung Wasser. Observed: 1070.5." in text
    assert "the baseline, Temperatur °C 30, Lösung Wasser" in text
    assert ("read as Windows-1252" in text) == (encoding == "cp1252")
    assert "Äther" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_words_are_columns_of_the_kernel_and_claims_are_about_words_only():
    frame = pd.DataFrame(
        {
            "heat": [20.0, 40.0, 60.0, 30.0, 50.0],
            "solvent": ["DMF", "THF", "THF", "DMF", "water"],
            "yield": [61.0, 70.0, 78.0, 60.0, 65.0],
        }
    )
    page = kernelucb.report(frame, "yield", noise_std=1.0, categories=["solvent"])
    assert page.table.labels == ["heat", "solvent=DMF", "solvent=THF", "solvent=water"]
    assert (page.table.inputs[:, 1:].sum(1) == 1.0).all()
    assert page.report.combination_count == 3
    assert page.wording.point(page.point) == "heat 60, solvent THF"


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (TABLE, [], "'who' holds words ('AB', 'CD'): --categories who if it was set, else"),
        (TABLE.replace("yield", "rate"), SMALL, "'yield'; the columns are heat"),
        (TABLE.replace("75,3", "n/a,3"), [], "'heat' is blank in row 2, which has an"),
        (TABLE.replace("75,3", "hot,3"), [], "'heat' has 'hot' in row 2: give a number"),
        (TABLE.replace("66.0", "failed"), [], "'yield' has 'failed' in row 3; give a"),
        ("heat,yield\n1,2", SMALL, "1 rows below its header; give two or more"),
        ("heat,hours,yield\n1,2,3\n1,4,5", SMALL, "'heat' is 1 in every row"),
        ("heat,state,yield\n1,ok,3\n3,ok,5", SMALL, "'state' is ok in every row"),
        ("heat,yield,yield\n1,2,3\n2,4,5", SMALL, "There is not one column 'yield'"),
        ("heat,x,yield\n1,2,3\n2,4", SMALL, "'yield' has 1 numbers; give two or more"),
        ("heat,yield\n1,2,3\n2,4", SMALL, "Expected 2 fields in line 2, saw 3"),
        ("heat,y,yield\n1,5,2,3\n2,5,4,3", SMALL, "and quote decimal commas"),
        ("yield\n2\n4", SMALL, "no column of settings beside"),
        (TABLE, [*SMALL, "--inputs", "heat,yield"], "'yield' is input, outcome or"),
        (TABLE, [*SMALL, "--inputs", "heat,who"], "'who' holds words"),
        (TABLE, [*SMALL, *WHO, "--bounds", "heat=60:110"], "heat is 55 to 100 in the"),
        (TABLE, [*SMALL, *WHO, "--range", "5:-5"], "lower must be below upper, got 5"),
        (TABLE, [*SMALL, *WHO, "--bounds", "cold=1:2"], "the inputs are heat, hours"),
        (TABLE, [*SMALL, *WHO, "--baseline", "heat=60"], "--baseline lacks hours"),
        (TABLE, [*SMALL, *WHO, "--baseline", "heat=a,hours=1"], "heat must be a number"),
        (TABLE, [*SMALL, *WHO, "--lengthscale", "1,2,3"], "3 entries for 2 inputs"),
        (TABLE.rpartition("\n")[0], WHO, "give --noise-std"),
        (TABLE, ["--noise-std", "0.1", *WHO], "larger --noise-std"),
        ("heat,yield\n1,0\n3,0\n8,0", SMALL, "'yield' is 0 in every row: that shows"),
        (
            "heat;yield\n1.234;2\n3.456;4",
            SMALL,
            "'1.234' in row 1: say which",
        ),
        (
            'heat,yield\n"1,234",2\n"3,456",4',
            SMALL,
            "'1,234' in row 1: say which",
        ),
        ("heat;yield\n1,5;2\n3.5;4", SMALL, "'heat' has '3.5' in row 2; 'heat' has '1,5'"),
        (b"\xff\xfe\x00", SMALL, "runs.csv cannot be read"),
        (b"PK\x03\x04\x00\x00", SMALL, "it is no text; save the table as csv"),
    ],
)
def test_refusals_say_what_to_change(table, options, message, tmp_path, capsys):
    assert run(tmp_path, *options, table=table) == 2
    error = words(capsys.readouterr().err)
    assert error.startswith("kernelucb: ")
    assert message in error


@pytest.mark.parametrize(
    ("table", "options", "heat"),
    [
        ("heat;yield\n1.234;2\n3.456;4\n2;3", ["--decimal", "."], [1.234, 3.456, 2.0]),
        ("heat;yield\n1.234;2\n3.456;4\n2;3", ["--decimal", ","], [1234.0, 3456.0, 2.0]),
        ("heat;yield\n1.234;2\n2,5;4\n-2;3", [], [1234.0, 2.5, -2.0]),
        ("heat;yield\n1.234,5;2\n3.456;4\n-2;3", [], [1234.5, 3456.0, -2.0]),
        ('heat,yield\n"1,234.5",2\n3,4\n7,3', [], [1234.5, 3.0, 7.0]),
        ("heat\tyield\n1 234\t2\n3'456\t4\n\u22127\t3", [], [1234.0, 3456.0, -7.0]),
        ("sep=;\nheat;yield\n1,5e1;2\n ,5;4\n7;3", [], [15.0, 0.5, 7.0]),
        ("heat|yield\n1.5|2\n\n3|4\n|\n7|3", [], [1.5, 3.0, 7.0]),
        ("heat,yield,,\n1.5,2,,\n3,4,,\n7,,,\n9,3,,", [], [1.5, 3.0, 9.0]),
    ],
)
def test_numbers_as_they_are_written(table, options, heat, tmp_path):
    (tmp_path / "runs.csv").write_text(table, encoding="utf-8")
    arguments = [str(tmp_path / "runs.csv"), "--outcome", "yield", "--noise-std", "1"]
    given = options_of([*options, "--noise-std", "1"])
    made = kernelucb.report(arguments[0], "yield", **given)
    assert made.table.inputs[:, 0].tolist() == heat


def test_negative_numbers_are_no_options(capsys):
    given = ["--range", "-5:5", "--mean", "-1e-3", "--threshold", "-.2"]
    options = options_of([*given, "--bounds", "A=-5:5,B=-1e2:-.5"])
    assert options["range"] == (-5.0, 5.0)
    assert (options["mean"], options["threshold"]) == (-1e-3, -0.2)
    assert options["bounds"] == {"A": (-5.0, 5.0), "B": (-100.0, -0.5)}
    wrong = [["--mean", "-x"], ["--noise-std", "-1e3"], ["--mean"]]
    wrong += [["--range", "1"], ["--bounds", "A=60"], ["--bounds", "A"]]
    wrong += [["--lengthscale", "x"], ["--mean", "-inf"], ["--decimal", ";"]]
    for each in wrong:
        with pytest.raises(SystemExit):
            options_of(each)
        assert f"argument {each[0]}: " in capsys.readouterr().err


def test_without_a_command_the_help_is_printed(capsys):
    assert main([]) == 0
    assert re.search(r"report +what a table of past runs supports", capsys.readouterr().out)
    with pytest.raises(SystemExit):
        main(["report", "runs.csv", "--outcome", "yield", "--output", "page.txt"])
    assert "must end in .html" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "sentences", "absent"),
    [
        (
            ["--norm-bound", "5", "--tolerance", "900"],
            ["The data contradict what was given: norm_bound", "which contradict 5."],
            ", as given",
        ),
        (
            ["--range", "0:70"],
            ["The data contradict what was given: f is between 0 and 70 everywhere"],
            "No contradiction",
        ),
        (["--norm-bound", "30"], ["at a norm bound of"], ", as given"),
        (
            ["--norm-bound", "5", "--range", "0:60"],
            ["norm_bound", "0 and 60"],
            ", as given",
        ),
    ],
)
def test_what_the_data_contradict_is_named(options, sentences, absent, tmp_path, capsys):
    given = [*BOX, *WHO, "--noise-std", "1", "--window", "0.1", "--text", *options]
    assert run(tmp_path, *given) == 0
    text = words(capsys.readouterr().out)
    for sentence in (*sentences, "without any guarantee", "no guarantee:"):
        assert sentence in text
    assert absent not in text
    assert "with probability" not in text.partition("Gap over")[0]


def energies(offset):
    shares = (3, 0, 8, 5, 1, 10, 2, 11, 7, 4, 9, 6)
    noise = {x: 5e-5 if x % 2 else -5e-5 for x in shares}
    Y = [offset + 1e-3 * math.sin(5 * x / 11) + noise[x] for x in shares]
    return pd.DataFrame({"x": [x / 11 for x in shares], "energy": Y})


@pytest.mark.parametrize("offset", [-76421.1234, 1e6 + 0.3])
def test_a_constant_on_all_outcomes_changes_no_norm(offset):
    given = {"outcome": "energy", "noise_std": 1e-4, "minimize": True}
    expected = kernelucb.report(energies(0.0), **given).norm_bound
    assert kernelucb.report(energies(offset), **given).norm_bound == pytest.approx(
        expected, rel=1e-3
    )
    page = kernelucb.report(energies(offset), mean=offset, **given)
    assert float(page.band.regression.prior.mean(page.point[None])) == offset
    assert "[given] the prior mean" in page.text


def test_equal_outcomes_are_reported_at_a_given_norm():
    frame = pd.DataFrame({"temp": [20, 40, 60, 80], "fails": [0, 0, 0, 0]})
    page = kernelucb.report(frame, "fails", noise_std=0.1, norm_bound=1.0, minimize=True)
    assert page.least_norm == 0.0
    assert page.tolerance == pytest.approx(0.005)
    assert "no point anywhere is lower by more than" in page.text


def test_repeated_rows_narrow_the_interval():
    r"""To plain means with a union, where the norm bound says little."""
    torch.manual_seed(0)
    X = torch.tensor([20.0, 30.0, 55.0, 70.0, 90.0]).repeat_interleave(8)
    Y = 90.0 - 0.02 * (X - 55.0) ** 2 + 4.0 * torch.randn(40)
    frame = pd.DataFrame({"heat": X.tolist(), "yield": Y.tolist()})
    shuffled = frame.sample(frac=1.0, random_state=1)
    given = {"outcome": "yield", "noise_std": 4.0, "norm_bound": 3000.0}
    pages = [kernelucb.report(each, **given) for each in (frame, shuffled)]
    lower, upper = pages[0].report.claims[0].numbers
    plain = MartingaleMixtureUCB(pages[0].regress(1.0), norm_bound=pages[0].norm_bound)
    sides = plain.bounds(pages[0].point[None])
    assert upper - lower < 0.75 * float(sides[1] - sides[0])
    assert pages[1].report.claims[0].numbers == pytest.approx((lower, upper))
    assert "[method] the outcomes of a setting count by themselves" in pages[0].text
    estimated = kernelucb.report(frame, "yield")
    assert estimated.set_delta == 0.05
    assert pages[0].set_delta == 0.025


FRAME = pd.DataFrame(NUMBERS, columns=["heat", 7, "yield"]).astype(float)
FRAME = FRAME.assign(done=pd.to_timedelta(range(8), unit="s"), tags=[["a"]] * 8)
OTHERS = {"ignore": ["done", "tags"], "noise_std": 1.0}


@pytest.mark.parametrize("word", ["-999", ["-999"], [-999], [-999.0]])
def test_missing_numbers_are_numbers(word):
    frame = FRAME.replace({"yield": {0.4: -999.0}})
    page = kernelucb.report(frame, "yield", missing=word, **OTHERS)
    assert page.table.unused_rows == {7: "yield is -999.0"}


def test_names_of_any_type_and_sides_that_are_open():
    given = OTHERS | {"inputs": [7], "bounds": {7: (0.0, 90.0)}, "range": (-9.0, None)}
    page = kernelucb.report(FRAME, "yield", **given)
    assert [*page.table.columns] == ["7"]
    assert page.limits.flatten().tolist() == [0.0, 90.0]
    assert page.band.confidence_set.bounds(page.table.inputs)[0].min() >= -9.0
    assert page.table.left_out["tags"] == "as asked by --ignore; ['a'] in every row"


def test_named_levels_of_an_index_are_columns():
    frame = FRAME.set_index(["heat"])
    page = kernelucb.report(frame, "yield", **OTHERS)
    assert [*page.table.columns] == ["heat", "7"]
    whole = kernelucb.report(FRAME, "yield", **OTHERS)
    assert page.table.origin == whole.table.origin


def test_digits_beside_a_large_offset():
    frame = FRAME.assign(**{"yield": 1e9 + 1e-3 * FRAME["yield"]})
    given = OTHERS | {"noise_std": 1e-3, "mean": 1000000000.0512345}
    page = kernelucb.report(frame, "yield", **given)
    assert f"Observed: {page.table.outcomes[page.best]:.4f}"[:-1] in next(page.opening)
    assert any("1000000000.0512345" in statement for _, statement in page.assumptions)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lengthscale": 0.0}, "lengthscale must be a finite number above 0"),
        ({"tolerance": 0.0}, "tolerance must be a finite number above 0"),
        ({"ignore": ["done", "tags", "yield"]}, "'yield' is input, outcome or ignored"),
        ({"ignore": "tags"}, "'done' holds words"),
    ],
)
def test_options_of_a_frame_are_refused(options, message):
    with pytest.raises((ValueError, InputDataError), match=message):
        _ = kernelucb.report(FRAME, "yield", **OTHERS | options).report
    complex_frame = FRAME.assign(**{"yield": FRAME["yield"] + 0j})
    with pytest.raises(InputDataError, match="give a number"):
        kernelucb.report(complex_frame, "yield", **OTHERS)
