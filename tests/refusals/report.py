r"""Refusals of a report and its command; one row for each question to the user."""

import tempfile
from functools import partial
from pathlib import Path

import pandas as pd
from botorch.exceptions import InputDataError as Data

import kernelucb
from kernelucb.__main__ import main

_FOLDER = tempfile.TemporaryDirectory()
TABLE = "heat,hours,who,yield\n62,1,AB,40\n75,3,AB,71\n90,2,CD,66\n70,8,AB,63\n78,3,CD,77"


def of(table, **options):
    r"""A report on a file with this content."""

    def call():
        path = Path(_FOLDER.name) / "runs.csv"
        path.write_bytes(table if isinstance(table, bytes) else table.encode())
        return kernelucb.report(path, "yield", **{"noise_std": 1.0} | options).text

    return call


def on(**options):
    return of(TABLE, **{"ignore": ["who"]} | options)


def command(*options, of="report"):
    given = ["runs.csv", "--outcome", "yield"] if of == "report" else []
    return partial(main, [of, *given, *options])


SAME = "heat,hours,yield\n1,2,3\n1,4,5"
COMPLEX = pd.DataFrame({"heat": [10.0, 20.0, 45.0], "yield": [1j, 3j, 2j]})
complex_numbers = partial(kernelucb.report, COMPLEX, "yield", noise_std=1.0)
NO_CELL = "row 2 has 3 cells between commas, the header 2"
NOISE = {"noise_std": 0.01, "ignore": ["who"]}
ROWS = [
    ("words", of(TABLE), Data, r"'who' holds words \('AB', 'CD'\): --categories"),
    ("no outcome", of("heat,rate\n1,2\n3,4"), Data, "the columns are heat, rate"),
    ("blank", of(TABLE.replace("75", "n/a")), Data, "blank in row 3, which has"),
    ("units", of(TABLE.replace("75", "75 C")), Data, "'62' in row 2 and '75 C' in row 3"),
    ("a limit", of(TABLE.replace("66", "<5")), Data, "because of its outcome.*was read"),
    ("a spread", of(TABLE.replace("66", "66±1")), Data, "'66±1' is not a number; give a"),
    ("a word", of(TABLE.replace("75", "hot")), Data, "'hot' in row 3: give a num"),
    ("failed", of(TABLE.replace("66", "bad")), Data, "'bad' in row 4: .*--missing"),
    ("one row", of("heat,yield\n1,2"), Data, "1 rows below .*two or more"),
    ("one value", of(SAME), Data, "'heat' is 1 in every row: --ignore heat"),
    ("two names", of("heat,yield,yield\n1,2,3\n2,4,5"), Data, "not one column 'yield'"),
    ("one number", of("heat,yield\n1,2\n2,"), Data, "has 1 numbers; give two"),
    ("more cells", of("heat,yield\n1,2,3\n2,4"), Data, NO_CELL),
    ("no input", of("yield\n2\n4"), Data, "no column of settings beside"),
    ("both", of(TABLE, inputs=["heat", "yield"]), Data, "input, outcome or"),
    ("no repeat", on(noise_std=None), Data, "give --noise-std"),
    ("equal", of("heat,yield\n1,0\n3,0\n8,0"), Data, "'yield' is 0 in every row: t"),
    ("thousand", of("heat;yield\n1.234;2\n3.456;4"), Data, "'1.234' in row 2: say"),
    ("marks", of("heat;yield\n1,5;2\n3.5;4"), Data, "'3.5' in row 3; 'heat' has '1,5'"),
    ("a workbook", of(b"PK\x03\x04\0\0"), Data, "it is no text; save .* as csv"),
    ("no file", partial(kernelucb.report, "none.csv", "y"), Data, "No such file"),
    ("complex", complex_numbers, Data, "give a number"),
    ("decimal", on(decimal=";"), ValueError, '--decimal must be "."'),
    ("outside", on(bounds={"heat": (1, 2)}), ValueError, "No run lies within --bounds"),
    ("word", of(TABLE, categories=["who"], bounds={"who": (0, 1)}), ValueError, "leave"),
    ("range", on(range=(5.0, -5.0)), ValueError, "lower must be below upper"),
    ("no such input", on(bounds={"cold": (1, 2)}), ValueError, "heat, hours"),
    ("lacking", on(baseline={"heat": 6}), ValueError, "--baseline lacks hours"),
    ("no number", on(baseline={"heat": "a", "hours": 1}), ValueError, "must be a number"),
    ("lengths", on(lengthscale=[1, 2, 3]), ValueError, "3 entries for 2 inputs"),
    ("length", on(lengthscale=0.0), ValueError, "lengthscale must be a fi"),
    ("tolerance", on(tolerance=0.0), ValueError, "tolerance must be a fin"),
    ("noise", of(TABLE + "\n78,3,CD,75", **NOISE), ValueError, "larger --noise-std"),
    ("option", command("--mean", "x"), SystemExit, "2"),
    ("folder", command("--output", "no/such/page.html"), SystemExit, "2"),
    ("rounds", command("--rounds", "many", of="demo"), SystemExit, "2"),
]
