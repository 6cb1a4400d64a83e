r"""The reader of tables: separators, encodings, marks, units, and what it asks."""

import math
import subprocess
import sys

import pandas as pd
import pytest

from kernelucb import tables
from kernelucb.__main__ import main

ROWS = [[20, 1, 61], [40, 2, 70], [60, 3, 78]]


def read(folder, text, encoding="utf-8", **options):
    (folder / "t.csv").write_bytes(
        text if isinstance(text, bytes) else text.encode(encoding)
    )
    return tables.read_file(folder / "t.csv", **options)


def numbers(sheet, **options):
    found = tables.numbers_in(sheet, sheet.names, **options)
    return [
        [*row] for row in zip(*(column.numbers for column in found.values()), strict=True)
    ]


@pytest.mark.parametrize("mark", ["\t", ";", "|", ",", " "])
@pytest.mark.parametrize(
    "header",
    [
        ["Temp, C", "Time", "yield, %"],
        ["a", "b c", "d"],
        ["a;b", "c", "d"],
        ["Ü", "λ", "d"],
    ],
)
def test_separators_are_judged_by_all_rows(tmp_path, mark, header):
    quoted = [f'"{name}"' if mark in name else name for name in header]
    lines = [mark.join(map(str, row)) for row in (quoted, *ROWS)]
    for ends in ("\n", "\r\n", "\r"):
        sheet = read(tmp_path, ends.join(lines) + ends)
        assert (sheet.names, numbers(sheet), [*sheet.rows]) == (header, ROWS, [2, 3, 4])


@pytest.mark.parametrize("mark", ["\t", ";", "|"])
def test_decimal_commas_are_no_separators(tmp_path, mark):
    table = "\n".join(
        mark.join(row) for row in (["a, b", "c, d"], ["0,5", "0,75"], ["1,5", "2"])
    )
    assert numbers(read(tmp_path, table)) == [[0.5, 0.75], [1.5, 2.0]]
    quoted = 'a,b\n"0,5","0,75"\n"1,5","2"\n'
    assert numbers(read(tmp_path, quoted)) == [[0.5, 0.75], [1.5, 2.0]]


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("yield\n53,6\n54,1\n", ["yield"], [[53.6], [54.1]]),
        ("final yield\n53.6\n54\n", ["final yield"], [[53.6], [54.0]]),
        ("Yield, %\n53.6\n54\n", ["Yield, %"], [[53.6], [54.0]]),
        ("sep=;\na,b;c\n1;2\n", ["a,b", "c"], [[1, 2]]),
        ('"SEP=,"\na;b,c\n1,2\n', ["a;b", "c"], [[1, 2]]),
        ("# by me, today\na,b\n# second day\n1,2\n", ["a", "b"], [[1, 2]]),
        ("# a,b\n1,2\n", ["a", "b"], [[1, 2]]),
        ("# a,b\n1,2\n#3,4\n", ["a", "b"], [[1, 2], [None, 4]]),
        ("#,b\n1,2\n", ["#", "b"], [[1, 2]]),
        ("a,b,,\n1,2,,\n,,,\n3,,\n", ["a", "b"], [[1, 2], [3, None]]),
        ('"a\n(C)"; b \n1;2\n', ["a (C)", "b"], [[1, 2]]),
        ("a  b\n1   2\n", ["a", "b"], [[1, 2]]),
        (",b\n7,2\n", ["column_1", "b"], [[7, 2]]),
        ("a,b\n", ["a", "b"], []),
    ],
)
def test_tables_as_they_are_saved(tmp_path, text, names, rows):
    sheet = read(tmp_path, text)
    found = [[None if math.isnan(x) else x for x in row] for row in numbers(sheet)]
    assert (sheet.names, found) == (names, rows)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"]
)
def test_encodings(tmp_path, encoding):
    sheet = read(tmp_path, "Temp °C;Größe\n1;2\n", encoding)
    assert sheet.names == ["Temp °C", "Größe"]
    assert ("Windows-1252" in sheet.origin) == (encoding == "cp1252")


@pytest.mark.parametrize(
    ("text", "mark", "value", "unit"),
    [
        ("1,012", ".", 1012.0, ""),
        ("1,012", ",", 1.012, ""),
        ("1.012.345,5", ",", 1012345.5, ""),
        ("1\u00a0012,5", ",", 1012.5, ""),
        ("1\u202f012", ".", 1012.0, ""),
        ("1'012", ".", 1012.0, ""),
        ("1\u2019012", ".", 1012.0, ""),
        ("\u22125.5", ".", -5.5, ""),
        ("+1e-3", ".", 1e-3, ""),
        ("53,6 %", ",", 53.6, "%"),
        ("58 °C", ".", 58.0, "°C"),
        ("12mg/100 mL", ".", 12.0, "mg/100 mL"),
        ("5 m2", ".", 5.0, "m2"),
        *(
            (text, ".", None, "")
            for text in ("", "x", "<0.5", "1-2", "1/2", "12:30", "5±1", "5 6")
        ),
        *(
            (text, ".", None, "")
            for text in ("1,01", "5 to 7", "1e999", "2-MeTHF", "1.5.2", "1_000")
        ),
    ],
)
def test_numbers_and_units(text, mark, value, unit):
    found = tables.number_of(text, mark)
    assert (None if math.isnan(found[0]) else found[0], found[1]) == (value, unit)


def test_one_unit_is_taken_off_and_several_are_refused(tmp_path):
    sheet = read(tmp_path, "a;b\n53,6 %;1 h\n;2 h\n50 %;3 h\n")
    found = tables.numbers_in(sheet, ["a", "b"])
    assert {name: column.unit for name, column in found.items()} == {"a": "%", "b": "h"}
    assert found["a"].blank == [False, True, False]
    for cells in ("5 %;6\n7;6\n", "5 mg;6\n\n7 g;6\n"):
        sheet = read(tmp_path, "a;b\n" + cells)
        with pytest.raises(
            ValueError, match=r"'a' has '5 .*' in row 2 and '7.*' in row [34]:"
        ):
            tables.numbers_in(sheet, ["a", "b"])
        assert tables.numbers_in(sheet, ["a"], choices=["a"])["a"].texts[0].startswith("5 ")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a\tb\n1,012\t985\n", "'1,012' in row 2: say which is the decimal mark"),
        ("a;b\n1.012;x\n985;y\n", "'1.012' in row 2: say which"),
        ("a,b\n1.012,x\n985,y\n", "'1.012' in row 2: say which"),
        ("a;b\n1,5;2\n1.5;2\n", "'1.5' in row 3; 'a' has '1,5' in row 2"),
    ],
)
def test_marks_that_are_open_are_asked_about(tmp_path, text, reason):
    with pytest.raises(ValueError, match=reason):
        numbers(read(tmp_path, text))
    assert numbers(read(tmp_path, text), decimal=".")


def test_words_and_numbers_can_be_missing(tmp_path):
    sheet = read(tmp_path, "a,b\n1,x\nfailed,y\n-999,z\nn/a,\n")
    found = tables.numbers_in(
        sheet, ["a", "b"], missing=["Failed", "-999.0"], choices=["b"]
    )
    assert found["a"].blank == [False, True, True, True]
    assert found["b"].blank == [False, False, False, True]
    assert found["b"].words == {0: "x", 1: "y", 2: "z"}


def test_numbers_of_python_are_not_read_again():
    sheet = tables.in_python({"a": [1.012, 985, True, "1,5", None]}.items(), 1)
    found = tables.numbers_in(sheet, ["a"])["a"]
    assert found.numbers[:4] == [1.012, 985.0, 1.0, 1.5]
    assert found.blank == [False] * 4 + [True]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the table is empty"),
        ("\n \n", "the table is empty"),
        ("a,b\n\n1,2\n1,5,2\n", "row 4 has 3 cells between commas, the header 2; .* sep=;"),
        ('a,b\n1,2\n"3,4\n5,6\n', "close all quotes"),
        (b"PK\x03\x04\0\0", "no text; save the table as csv"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, text, reason):
    with pytest.raises(ValueError, match=reason):
        read(tmp_path, text)


def test_names_are_one_column_each(tmp_path):
    sheet = read(tmp_path, "a, a ,b\n1,2,3\n")
    assert sheet.cells("b") == ["3"]
    for name in ("a", "c"):
        with pytest.raises(
            ValueError, match=f"not one column '{name}'; the columns are a, a"
        ):
            sheet.cells(name)


@pytest.mark.parametrize(
    "word", ["<0.5", "> 100", "≤3", "inf", "-Inf", "LOD", "< LOQ", "below range"]
)
def test_a_value_that_was_lost_is_told_from_a_word(word):
    assert tables.was_lost(word)
    assert "because of its outcome" in tables.no_number(word)


@pytest.mark.parametrize("word", ["failed", "n.d.", "5±1", "information", "<NA>", ""])
def test_a_word_is_no_lost_value(word):
    assert not tables.was_lost(word)


def test_a_console_without_a_letter_gets_another(tmp_path):
    (tmp_path / "t.csv").write_text("old λ,new Ω\n10.5,11\n10.2,11.4\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "kernelucb", "confirm", "t.csv"],
        cwd=tmp_path,
        capture_output=True,
        env={"PYTHONIOENCODING": "cp1252", "PYTHONPATH": ":".join(sys.path)},
    )
    assert done.returncode == 1  # not decided
    assert done.stdout.startswith(b"new ? against old ?: not decided")


@pytest.mark.parametrize("command", ["report", "confirm", "demo"])
def test_help_has_examples_that_its_reader_takes(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    said = " ".join(capsys.readouterr().out.split())
    for wrong in ("1.5 Probability", "A pandas", "%%", "--delta 1.5", "--units A=1"):
        assert wrong not in said
    if command == "report":
        assert "--bounds temperature=37:117,hours=0.2:20" in said
        assert "Example: report runs.csv --outcome yield" in said


def test_a_workbook_of_one_sheet_is_read_as_its_csv(tmp_path):
    frame = pd.DataFrame({"heat (C)": [20.5, 40, 60], "kind": ["A", "B", "A"]})
    frame = frame.assign(y=[1.0, None, "<0.5"])
    frame.to_excel(tmp_path / "runs.xlsx", sheet_name="June", index=False)
    frame.to_csv(tmp_path / "runs.csv", index=False)
    book, text = (tables.read_file(tmp_path / f"runs.{each}") for each in ("xlsx", "csv"))
    assert (book.names, [*book.rows]) == (text.names, [*text.rows])
    assert book.origin.startswith("runs.xlsx, sheet June, sha256 ")
    for name in ("heat (C)", "y"):
        found, expected = (
            tables.numbers_in(each, [name], missing=["<0.5"])[name].numbers
            for each in (book, text)
        )
        assert found == pytest.approx(expected, nan_ok=True)
    assert book.cells("kind") == text.cells("kind")


def test_a_workbook_of_several_sheets_is_asked_about(tmp_path):
    with pd.ExcelWriter(tmp_path / "runs.xlsx") as book:
        for name in ("June", "July"):
            pd.DataFrame({"a": [1.0], "y": [2.0]}).to_excel(book, sheet_name=name)
    with pytest.raises(
        ValueError, match="sheets with rows: June, July; save the one as csv"
    ):
        tables.read_file(tmp_path / "runs.xlsx")
    (tmp_path / "broken.xlsx").write_bytes(b"no workbook")
    with pytest.raises(ValueError, match=r"broken\.xlsx"):
        tables.read_file(tmp_path / "broken.xlsx")
