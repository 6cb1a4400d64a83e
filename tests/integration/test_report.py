r"""A page from a table of runs, in-process."""

import re
from functools import partial
from html import unescape
from io import StringIO
from itertools import pairwise

import matplotlib.pyplot as plt
import pandas as pd
import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError

import kernelucb
from kernelucb import (
    KernelRegression,
    MartingaleMixtureUCB,
    norm_from_tasks,
    regret_certificate,
)
from kernelucb.__main__ import main
from kernelucb._numerics.digits import at_most
from kernelucb.certificates import claims
from kernelucb.data.kernel_family import fixed_kernel, fixed_mean
from kernelucb.page import study
from problems import float64, normal

ROWS = [
    "heat,hours,who,yield",
    *("62,1,AB,40.2", "75,3,AB,71.5", "90,2,CD,66.0", "70,8,AB,63.1", "80,5,CD,74.9"),
    *("55,6,AB,44.8", "100,1,CD,52.7", "85,4,CD,75.2", "78,4,AB,77.0", "78,4,CD,75.6"),
]
TABLE = "\n".join(ROWS)
GIVEN = {"bounds": {"heat": (50.0, 110.0), "hours": (1.0, 8.0)}, "ignore": ["who"]}
GIVEN |= {"noise_std": 1.0, "tolerance": 5.0, "window": 0.1}
BASELINE = {"heat": 60, "hours": 2}
FRAME = pd.DataFrame(
    {
        "heat": [127.0, 182.0, 216.0, 167.0, 146.0, 200.0, 184.0, 137.0],
        7: [21.0, 46.0, 35.0, 60.0, 28.0, 53.0, 15.0, 40.0],
        "yield": [-1.7, 1.2, -3.3, -0.3, 0.5, -2.7, 0.4, 1.2],
        "done": pd.to_timedelta(range(8), unit="s"),
        "tags": [["a"]] * 8,
    }
)
OTHERS = {"ignore": ["done", "tags"], "noise_std": 1.0}


# A page with its text, of quick settings, takes half a second to two.
def _not_one_event(*_):
    raise UnsupportedError


@pytest.fixture
def firm():
    r"""Asked for where the breakdown values of claims are read."""


@pytest.fixture(autouse=True)
def few_gaps(monkeypatch, request):
    for module in (study, claims):
        monkeypatch.setattr(module, "_EVALUATIONS", 20, raising=False)
    # Breakdown values take most of a report's time: of the first norms, and in one test.
    for name, most in (("_MOST_NORM", 1.5), ("_MOST_NOISE", 1.5), ("_CLOSE", 30.0)):
        monkeypatch.setattr(claims, name, most)
    # The slow tier has them in all tests.
    quick = request.config.option.markexpr == "not slow"
    if quick and "firm" not in request.fixturenames:
        monkeypatch.setattr(claims, "breakdown_of", _not_one_event)
    monkeypatch.setattr(study, "_MARGINS", (2.0,))
    monkeypatch.setattr(study, "_MAP_MARGINS", (1.2, 3.0))


of_frame = partial(kernelucb.report, effort="quick")


def report(folder, table, outcome="yield", **options):
    content = table if isinstance(table, bytes) else table.encode()
    (folder / "runs.csv").write_bytes(content)
    return kernelucb.report(folder / "runs.csv", outcome, **{"effort": "quick"} | options)


def words(text):
    return " ".join(text.split())


def by_hand(limits):
    r"""The band of the table, and the coordinates of its ninth run."""
    cells = [row.split(",") for row in ROWS[1:]]
    X = float64([[float(a), float(b)] for a, b, *_ in cells])
    Y = float64([float(row[-1]) for row in cells])
    kernel = fixed_kernel("matern52", 0.5 * (limits[1] - limits[0]), 1.0)
    data = KernelRegression(X, Y, kernel, 1.0, fixed_mean(50.0))
    band = MartingaleMixtureUCB(data, norm_bound=200.0).band.within(0.0, 100.0)
    return band.with_replicates(9 * 10).relaxed(), X[8]  # 9 settings, in whatever order


@pytest.mark.parametrize("effort", ["quick", pytest.param("full", marks=pytest.mark.slow)])
def test_the_page_and_the_text_say_what_the_band_says(effort, tmp_path, firm):
    options = {"norm_bound": 200.0, "range": (0.0, 100.0), "units": {"yield": "%"}}
    options |= {"baseline": BASELINE, "threshold": 60.0, "effort": effort}
    made = report(tmp_path, TABLE, **GIVEN, **options)
    page = made.to_html()
    text, shown = words(made.text), words(unescape(re.sub(r"<[^>]+>", " ", page)))
    band, best = by_hand(made.limits)
    gap = regret_certificate(band, bounds=made.limits, recommended=best).gap
    (anywhere,) = [claim for claim in made.claims if claim.kind == "anywhere"]
    assert anywhere.numbers == pytest.approx((gap,))
    below = float64([[60.0, 2.0]])
    worse = float(band.max_gain_over(below, best[None]))
    sides = made.wording.interval(*(float(side) for side in band.bounds(best[None])))
    for sentence in (
        "certified, if what was given is true",
        "Best setting: heat 78, hours 4 (rows 10, 11). Observed: 77, 75.6 %.",
        f"yield there, without noise, is {sides}. Its 2 runs alone say between 67.4 and "
        "85.2 % (t interval at 0.95",
        "The baseline is heat 60, hours 2: that the best setting is better is not shown; "
        f"it may be worse by {at_most(worse)} %, and better by",
        "With probability 0.95, if what this page rests on is true, this holds together "
        "but for the t interval.",
        *(words(claim.statement) for claim in made.claims),
        f"Among all settings in question {made.level_set.sentence}.",
        "This rests on the norm bound of 200.",
        *(words(claim.support) for claim in made.claims),
        f"it may be better by up to {at_most(gap)} %",
        "9 different, 1 of them run more than once, up to 2 times",
        "yield 40.2 to 77 %, to be large",
        "[given] the RKHS norm of f - mean is at most 200",
        "[default] the kernel was fixed before the data: Matern 5/2",
        "[default] the prior mean was fixed before the data: 50 %, the middle of --range",
        "[method] the outcomes of a setting count by themselves",
        "heat 55 to 100 (asked about 50 to 110); hours 1 to 8",
        "who (as asked by --ignore)",
    ):
        assert sentence in text
        assert sentence in shown
    heads = "Best setting", "With probability", "What to do next", "What this rests on"
    heads += "The data", "What may be said", "How firm that is"
    for each in (text, shown):
        places = [each.index(head) for head in heads]
        assert places == sorted(places)
    # What is read first is short.
    first = made.text.partition("What to do next")[0]
    assert len(first.split()) <= 150
    # Every number of the text is on the page, the curve's in words for the picture.
    numbers, shown = (set(re.findall(r"\d+\.\d+", x)) for x in (made.text, unescape(page)))
    assert numbers <= shown
    assert not re.search("http|<script", page)
    assert page.count("data:image/svg+xml;base64,") == (2 if effort == "full" else 1)


# Three reports, by each door one.
def test_file_frame_and_command_are_one_road(tmp_path, capsys):
    page = report(tmp_path, TABLE, **GIVEN, baseline=BASELINE)
    frame = pd.read_csv(tmp_path / "runs.csv").set_index("heat")
    quick = GIVEN | {"baseline": BASELINE, "effort": "quick"}
    other = of_frame(frame, "yield", **quick).text
    command = ["--bounds", "heat=50:110, hours=1:8", "--ignore", "who", "--noise-std", "1"]
    command += ["--tolerance", "5", "--window", ".1", "--baseline", "heat=60,hours=2"]
    command += [
        "--effort",
        "quick",
        "--output",
        str(tmp_path / "page.html"),
        "--outcome",
        "yield",
    ]
    assert main(["report", str(tmp_path / "runs.csv"), *command]) == 0
    printed = capsys.readouterr().out.partition("\n\nThe page:")[0]
    assert printed.strip() == page.text.strip()
    assert (tmp_path / "page.html").is_file()
    assert page.text.partition("rows:")[2] == other.partition("rows:")[2]
    assert "a DataFrame, sha256 " in words(other)


def test_standard_input_is_read_once(capsys, monkeypatch):
    r"""Also where the noise is not given, and what giving it would buy is said."""
    monkeypatch.setattr("sys.stdin", StringIO(TABLE))
    command = ["report", "-", "--outcome", "yield", "--ignore", "who", "--text"]
    assert main(command) == 0
    assert "the noise that the table shows" in words(capsys.readouterr().out)


def test_estimates_and_defaults_are_said(tmp_path):
    page = report(tmp_path, TABLE, minimize=True, window=0.1, ignore=["who"])
    text = words(page.text)
    for sentence in (
        "heuristic: kernel, mean, noise, norm estimated",
        "1.5 times the least that explains the data: no bound was given",
        "hours 3.5, shares of the table's limits of heat, hours (--bounds, --kernel",
        "from repeated settings, 1 degree of freedom",
        "Covered by no theorem: with probability 0.95, if the norm bound is right and "
        "kernel, mean, noise had been given before the data, this holds together",
        "give it: with --noise-std 0.99, the noise that the table shows,",
        "the mean of the outcomes (--mean)",
    ):
        assert sentence in text
    assert "[given]" not in text


COUNTERS = [
    ("trial", range(8)),
    ("trial_index", [0, 1, 2, 4, 5, 6, 7, 8]),
    ("no", [10, 9, 8, 7, 6, 5, 4, 3]),
    ("runNo", [107, 7, 212, 59, 18, 350, 44, 91]),
    ("lot", [1, 1, 2, 2, 2, 2, 7, 7]),
    ("", [37, 2, 14, 14, 81, 6, 90, 23]),
    ("elapsed", [0.5, 1.7, 3.1, 4.2, 7.5, 8.25, 9.5, 11.125]),
]


@pytest.mark.parametrize(("name", "index"), COUNTERS)
def test_a_counter_is_asked_about(name, index):
    frame = FRAME.drop(columns=["done", "tags"])
    frame.insert(0, name, list(index))
    said = f"'{name or 'column_1'}' counts the rows .*--ignore .*--inputs A,B"
    with pytest.raises(InputDataError, match=said):
        of_frame(frame, "yield", noise_std=1.0)
    page = of_frame(frame, "yield", noise_std=1.0, inputs=["heat", 7])
    assert page.table.left_out == {name or "column_1": "not among --inputs"}


SPREADS = ["yield_std", "Stdabw. Ausbeute", "Standard Error (%)", "SEM", "s.d."]


@pytest.mark.parametrize("name", SPREADS)
def test_a_spread_of_the_outcome_is_asked_about(name):
    frame = FRAME.assign(**{name: [1.0, 0.8, 1.2, 1.0, 0.9, 1.1, 1.0, 0.7]})
    said = f"'{re.escape(name)}' .*spread of the outcome.*--ignore .*--inputs A,B"
    with pytest.raises(InputDataError, match=said):
        of_frame(frame, "yield", **OTHERS)


@pytest.mark.parametrize("level", [range(8), [20, 1, 40, 2.5, 60, 2, 80, 3]])
def test_designs_are_no_counters(level):
    name = "level" if level == range(8) else "time"
    page = of_frame(FRAME.assign(**{name: list(level)}), "yield", **OTHERS)
    assert name in page.table.columns


LATIN = "Temperatur °C;Lösung;Ausbeute\n20,5;Äther;61,2\n40;Wasser;1.070,5\n60;Äther;78\n"
LATIN += "80;Äther;n/a\n70;Wasser;Ausfall\n50;Wasser;60,25\n"


@pytest.mark.representatives("cp1252")
@pytest.mark.parametrize("encoding", ["cp1252", "utf-8-sig", "utf-16"])
def test_semicolons_commas_and_words_are_read(encoding, tmp_path):
    options = {"noise_std": 3.0, "categories": ["Lösung"], "missing": ["Ausfall"]}
    options |= {"baseline": {"Lösung": "Wasser", "Temperatur °C": 30}, "window": 0.1}
    page = report(tmp_path, LATIN.encode(encoding), "Ausbeute", **options)
    text = words(page.text)
    assert "rows: 4 of 6 used; not row 5: Ausbeute is n/a; not row 6: Ausbeute is" in text
    assert "inputs: Temperatur °C 20.5 to 60; Lösung: Wasser, Äther" in text
    best = "Best setting: Temperatur °C 40, Lösung Wasser (row 3). Observed: 1070.5."
    assert best in text
    assert "Ausbeute there, without noise, is between" in text
    assert "the baseline, Temperatur °C 30, Lösung Wasser" in text
    assert ("read as Windows-1252" in text) == (encoding == "cp1252")
    assert page.table.labels == ["Temperatur °C", "Lösung=Wasser", "Lösung=Äther"]
    assert (page.table.inputs[:, 1:].sum(1) == 1.0).all()
    assert page.report.combination_count == 2
    assert "Äther" in page.to_html()  # with the band at each word


def test_long_words_do_not_overlap_and_the_next_run_has_few_digits():
    frame = pd.DataFrame({"ligand": [f"a ligand of {i}" for i in range(9)]})
    frame = frame.assign(heat=[1.0, 7, 3, 5, 2, 8, 4, 9, 6], y=range(9))
    page = of_frame(frame, "y", categories=["ligand"], noise_std=1.0)
    figure = study._slices(plt, page)
    labels = [x.get_window_extent() for x in figure.axes[0].get_xticklabels()]
    assert not any(a.overlaps(b) for a, b in pairwise(labels))
    (heat,) = re.findall(r"Run ligand [^,]*, heat ([\d.]+):", words(page.text))
    assert len(heat.replace(".", "")) <= 4
    plt.close(figure)


@pytest.mark.parametrize(
    ("table", "decimal", "heat"),
    [
        ("heat;yield\n1.234;2\n3.456;4\n2;3", ".", [1.234, 3.456, 2.0]),
        ("heat;yield\n1.234;2\n3.456;4\n2;3", ",", [1234.0, 3456.0, 2.0]),
        ("heat;yield\n1.234;2\n2,5;4\n-2;3", None, [1234.0, 2.5, -2.0]),
        ("heat;yield\n1.234,5;2\n3.456;4\n-2;3", None, [1234.5, 3456.0, -2.0]),
        ('heat,yield\n"1,234.5",2\n3,4\n7,3', None, [1234.5, 3.0, 7.0]),
        ("heat\tyield\n1 234\t2\n3'456\t4\n\u22127\t3", None, [1234.0, 3456.0, -7.0]),
        ("sep=;\nheat;yield\n1,5e1;2\n ,5;4\n7;3", None, [15.0, 0.5, 7.0]),
        ("heat|yield\n1.5|2\n\n3|4\n|\n7|3", None, [1.5, 3.0, 7.0]),
        ("heat,yield,,\n1.5,2,,\n3,4,,\n7,,,\n9,3,,", None, [1.5, 3.0, 9.0]),
        ("heat;yield\n58,5 °C;2 %\n60 °C;4 %\n7 °C;5 %", None, [58.5, 60.0, 7.0]),
    ],
)
def test_numbers_as_they_are_written(table, decimal, heat, tmp_path):
    made = report(tmp_path, table, noise_std=1.0, decimal=decimal)
    assert made.table.inputs[:, 0].tolist() == heat


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"norm_bound": 5.0, "tolerance": 900.0}, "which contradict 5."),
        ({"norm_bound": 30.0}, "at a norm bound of"),
        ({"norm_bound": 5.0, "range": (0.0, 60.0)}, "f is between 0 and 60 everywhere"),
    ],
)
def test_contradictions_are_named(options, sentence, tmp_path):
    text = words(report(tmp_path, TABLE, **GIVEN | options).text)
    first = text.partition("Gap over")[0]
    for each in (sentence, "Without any guarantee", "no guarantee:"):
        assert each in text
    assert not re.search("norm_bound|noise_std|heuristic", text)
    assert "The data contradict what was given: " in first
    assert not re.search("with probability|, as given", first)
    assert "No contradiction" not in text


def test_a_constant_on_all_outcomes_changes_no_norm_and_no_digit():
    x, offset = torch.randperm(12).double() / 11, 1e6 + 0.3
    Y = 1e-3 * torch.sin(5 * x) + 5e-5 * torch.cos(40 * x)
    given = {"outcome": "energy", "noise_std": 1e-4, "minimize": True}
    pages = [
        of_frame(pd.DataFrame({"x": x, "energy": Y + mean}), mean=mean, **given)
        for mean in (0.0, offset)
    ]
    assert pages[1].norm_bound == pytest.approx(float(pages[0].norm_bound), rel=1e-3)
    text, seen = words(pages[1].text), pages[1].table.outcomes[pages[1].best]
    assert f"Observed: {seen:.7f}"[:-1] in text
    assert "[given] the prior mean was fixed before the data: 1000000.3" in text


def test_equal_outcomes_are_reported_at_a_given_norm():
    frame = pd.DataFrame({"temp": [20, 40, 60, 80], "fails": [0, 0, 0, 0]})
    page = of_frame(frame, "fails", noise_std=0.1, norm_bound=1.0, minimize=True)
    assert (page.least_norm, page.tolerance) == (0.0, pytest.approx(0.005))
    assert "no point anywhere is lower by more than" in page.text


def test_repeated_rows_narrow_the_interval():
    r"""To plain means with a union, where the norm bound says little."""
    X = float64([20.0, 30.0, 55.0, 70.0, 90.0]).repeat_interleave(8)
    Y = 90.0 - 0.02 * (X - 55.0) ** 2 + 4.0 * normal(40, 0)
    frame = pd.DataFrame({"heat": X, "yield": Y})
    given = {"outcome": "yield", "noise_std": 4.0, "norm_bound": 3000.0}
    page = of_frame(frame, **given)
    lower, upper = page.report.claims[0].numbers
    plain = MartingaleMixtureUCB(page.regress(), norm_bound=page.norm_bound)
    sides = plain.bounds(page.point[None])
    assert upper - lower < 0.75 * float(sides[1] - sides[0])
    shuffled = of_frame(frame.sample(frac=1.0, random_state=1), **given)
    assert shuffled.report.claims[0].numbers == pytest.approx((lower, upper))
    deltas = page.set_delta, of_frame(frame, "yield").set_delta
    assert deltas == (0.025, 0.05)  # half for the settings where the noise is given


def test_what_a_frame_lacks_was_not_lost():
    frame = FRAME.assign(**{"yield": pd.array([*range(7), None], dtype="Int64")})
    page = of_frame(frame, "yield", **OTHERS)
    assert page.table.unused_rows == {9: "yield is <NA>"}
    assert page.band.assumptions["outcomes"].status == "given"


@pytest.mark.parametrize("word", ["-999", [-999], [-999.0]])
def test_missing_numbers_are_numbers(word):
    frame = FRAME.replace({"yield": {0.4: -999.0}})
    page = of_frame(frame, "yield", missing=word, **OTHERS)
    assert page.table.unused_rows == {8: "yield is -999.0"}


def test_names_of_any_type_and_sides_that_are_open():
    given = OTHERS | {"inputs": [7], "bounds": {7: (0.0, 90.0)}, "range": (-9.0, None)}
    page = of_frame(FRAME, "yield", **given)
    assert [*page.table.columns] == ["7"]
    assert page.limits.flatten().tolist() == [0.0, 90.0]
    assert page.band.bounds(page.table.inputs)[0].min() >= -9.0
    assert page.table.left_out["tags"] == "as asked by --ignore; ['a'] in every row"


def test_units_in_cells_are_units_of_the_page(tmp_path):
    table = "heat;yield\n58 °C;53,6 %\n60 °C;54 %\n71 °C;61 %"
    given = {"noise_std": 1.0, "units": {"heat": "C"}, "baseline": {"heat": "60 °C"}}
    page = report(tmp_path, table, **given)
    assert page.table.units == {"heat": "°C", "yield": "%"}
    assert page.wording.value("61") == "61 %"
    assert page.wording.units["heat"] == "C"  # what was given counts
    with pytest.raises(ValueError, match="heat must be a number, got '60 K'"):
        report(tmp_path, table, **given | {"baseline": {"heat": "60 K"}}).report  # noqa: B018


@pytest.mark.representatives("<0.5")
@pytest.mark.parametrize("word", ["<0.5", "inf", "LOD"])
def test_without_outcomes_that_were_lost_nothing_is_guaranteed(word):
    frame = FRAME.assign(**{"yield": [*FRAME["yield"][:7].astype(object), word]})
    with pytest.raises(InputDataError, match="because of its outcome") as refused:
        of_frame(frame, "yield", **OTHERS)
    assert "--missing" not in str(refused.value)
    page = of_frame(frame, "yield", missing=[word], **OTHERS, norm_bound=50.0)
    assert page.band.assumptions["outcomes"].status == "violated"
    text = words(page.text)
    assert f"which outcomes are missing depends on the outcomes, which were {word}" in text
    assert "Without any guarantee" in text
    assert "with probability" not in text.partition("Gap over")[0]


def earlier(tasks=4):
    r"""Tasks at five settings, the first of them run twice."""
    rows = ["task,yield,hours,heat"]
    for task in range(tasks):
        for i, heat in enumerate((55, 70, 85, 100, 55)):
            value = 50 + 3 * task - 0.2 * (heat - 80) ** 2 + (2.0 if i == 4 else 0.0)
            rows.append(f"batch {task},{value},{1 + i % 4},{heat}")
    return "\n".join(rows)


def test_the_norm_comes_from_earlier_tasks(tmp_path):
    (tmp_path / "earlier.csv").write_text(earlier())
    given = GIVEN | {"range": (0.0, 100.0), "delta": 0.5, "threshold": 60.0}
    page = report(tmp_path, TABLE, earlier=tmp_path / "earlier.csv", **given)
    limits = float64([[50.0, 1.0], [110.0, 8.0]])
    kernel = fixed_kernel("matern52", 0.5 * (limits[1] - limits[0]), 1.0)
    X = float64([[55.0, 1.0], [70.0, 2.0], [85.0, 3.0], [100.0, 4.0]])
    mean = fixed_mean(50.0)
    tasks = [(X, 50 + 3 * t - 0.2 * (X[:, 0] - 80) ** 2) for t in range(4)]
    tasks = [(X, Y + float64([1.0, 0.0, 0.0, 0.0])) for X, Y in tasks]
    norm = norm_from_tasks(tasks, kernel, mean)
    assert page.band.assumptions.at(page.table.inputs).certified == (page._open == [])
    assert page.norm_given == pytest.approx(float(norm.norm_bound))
    item = page.band.assumptions["norm"]
    assert "rank 4 of 4 earlier tasks" in item.statement
    text = words(page.text)
    assert "earlier tasks, which speaks of the settings in this table: of all" in text
    # The claims are about a box, and the tasks' norms about their settings.
    assert item.status == "given"
    assert page.report.summary == "heuristic: norm estimated"
    assert "nothing but your word says so (--norm-bound)" in text
    assert "rests on the norm bound of" in text
    assert "which nothing certifies" in text
    assert re.search("earlier: earlier.csv, sha256 [0-9a-f]{64}, 4 tasks", text)


@pytest.mark.parametrize(
    ("rows", "options", "reason"),
    [
        (earlier().replace("task,", "batch,"), {"delta": 0.5}, "column 'task'"),
        (earlier().replace("hours", "minutes"), {"delta": 0.5}, "'hours'"),
        (earlier(), {"delta": 0.5, "norm_bound": 1.0}, "not both"),
        (earlier(), {"delta": 0.05}, r"--delta above 0\.4, or 40 tasks or more"),
        (earlier().replace("batch 1", "", 1), {"delta": 0.5}, "no 'task' in row 7: fill"),
        (earlier().replace("\n", ",\n").replace(",1,55", ",1 h,55"), {}, "'1 h' in row 2"),
        (earlier().replace(",55", ",<55"), {"delta": 0.5}, "'<55' in row 2: give a num"),
    ],
)
def test_earlier_tasks_that_do_not_fit_are_refused(rows, options, reason, tmp_path):
    (tmp_path / "earlier.csv").write_text(rows)
    given = GIVEN | {"range": (0.0, 100.0)} | options
    with pytest.raises((ValueError, InputDataError), match=reason):
        report(tmp_path, TABLE, earlier=tmp_path / "earlier.csv", **given)


def test_a_task_counts_once_and_not_where_it_is_this_table(tmp_path):
    rows = earlier().split("\n")
    again = [row.replace("batch", "copy of") for row in rows[1:8]]  # one whole, one in part
    now = [f"today,{','.join(row.split(',')[i] for i in (3, 1, 0))}" for row in ROWS[1:6]]
    given = GIVEN | {"range": (0.0, 100.0), "delta": 0.5}
    found = []
    for each in (
        rows,
        [row.replace("batch 1,", " batch  1 ,") for row in rows] + again + now,
    ):
        (tmp_path / "earlier.csv").write_text("\n".join(each))
        page = report(tmp_path, TABLE, earlier=tmp_path / "earlier.csv", **given)
        found.append((page.norm_given, page.earlier.rsplit(", ", 1)[1]))
    assert found[0] == found[1]
    assert "without 3 whose runs are in another or in this table" in page.earlier


HISTORY = GIVEN | {"norm_bound": 200.0, "mean": 50.0, "history": True}
TOGETHER = "With probability 0.95 all of these numbers hold together"


@pytest.mark.slow
def test_the_history_is_that_of_reports_on_the_first_rows(tmp_path, monkeypatch):
    page = report(tmp_path, TABLE, **HISTORY)
    assert [*page.history] == [*range(2, 12)]  # the header is row 1
    assert page.history[11].gap == pytest.approx(page.report.gap)
    for count in (3, 7):
        first = report(tmp_path, "\n".join(ROWS[: count + 1]), **HISTORY)
        assert page.history[count + 1].gap == pytest.approx(first.report.gap)
        assert torch.equal(page.history[count + 1].recommended, first.point)
    text = words(page.text)
    assert f"{at_most(page.history[8].gap)} 9 {at_most(page.history[9].gap)} 10" in text
    assert TOGETHER in text
    assert page.to_html().count("data:image/svg+xml;base64,") == 2
    monkeypatch.setattr(study, "_LOOKS", 3)
    assert [*report(tmp_path, TABLE, **HISTORY).history] == [4, 7, 11]


def test_a_history_of_few_looks(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "_LOOKS", 2)
    page = report(tmp_path, TABLE, **HISTORY)
    assert [*page.history] == [6, 11]
    assert page.history[11].gap == pytest.approx(page.report.gap)
    first = report(tmp_path, "\n".join(ROWS[:6]), **HISTORY)
    assert page.history[6].gap == pytest.approx(first.report.gap)
    assert torch.equal(page.history[6].recommended, first.point)
    assert TOGETHER in words(page.text)


@pytest.mark.parametrize("looks", [2, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("changes", "why", "first"),
    [
        # Numbers at a norm bound that the data chose are covered, up to that norm.
        ({"norm_bound": None}, "(gap, heuristic: norm estimated): what is", "With"),
        ({"bounds": None}, "(gap, heuristic: kernel estimated): what is", "Covered by no"),
    ],
)
def test_looks_without_a_guarantee_have_no_probability(
    changes, why, first, looks, tmp_path, monkeypatch
):
    monkeypatch.setattr(study, "_LOOKS", looks)
    text = words(report(tmp_path, TABLE, **HISTORY | changes).text)
    assert f" {first}" in text.partition("What to do next")[0]
    assert f"No probability belongs to these numbers together {why}" in text
    assert TOGETHER not in text


@pytest.mark.parametrize(
    ("option", "text", "form"),
    [("--noise-std", "1,0", "1.5"), ("--range", "0-100", "0:100"), ("--seed", "1.5", "10")],
)
def test_a_wrong_option_is_told_how_to_be_written(option, text, form, capsys):
    command = ["demo"] if option == "--seed" else ["report", "a.csv", "--outcome", "y"]
    with pytest.raises(SystemExit):
        main([*command, option, text])
    said = f"argument {option}: {text!r} cannot be read, write it as {form} (see --help)"
    assert said in capsys.readouterr().err


def test_names_are_escaped_once_and_commands_are_code(tmp_path):
    table = "a & b,y\n1.5,10\n2.1,40\n3.2,45\n4,60\n5.3,61\n"
    page = report(tmp_path, table, outcome="y", noise_std=1.5, delta=0.1)
    html = page.to_html()
    assert "a &amp; b 5.3" in html
    assert "&amp;amp;" not in html
    options = r"--noise-std 1.5 --expected-runs \d+ --delta 0.1"
    assert re.search(rf"<code>python -m kernelucb confirm pairs.csv {options}</code>", html)
    # The command's options are those of confirm, which so many pairs then decide.
    (count,) = map(int, re.findall(r"about (\d+) pairs", page.text))
    lead = sum(page.lead) / 2
    told = {"noise_std": 1.5, "expected_runs": count, "delta": 0.1}
    pairs = {"old": [0.0] * count, "new": [lead] * count}
    assert kernelucb.confirm(pairs, **told).parts[0].verdict == "better"
    less = {name: values[1:-1] for name, values in pairs.items()}
    assert kernelucb.confirm(less, **told).parts[0].verdict == "not decided"
