r"""Names and units in sentences."""

import re

import pandas as pd
import pytest
import torch

import kernelucb
from kernelucb.certificates.wording import Wording

UNITS = {"heat (C)": "C", "hold": "h", "yield (%)": "%"}


def test_a_unit_in_a_name_is_said_once():
    words = Wording(("heat (C)", "hold"), "yield (%)", UNITS)
    point = torch.tensor([80.0, 2.5], dtype=torch.float64)
    assert words.point(point) == "heat 80 C, hold 2.5 h"
    assert words.box(point, point + 1.0) == "heat 80 to 81 C, hold 2.5 to 3.5 h"
    assert [*map(words.label, words.names)] == ["heat (C)", "hold (h)"]
    assert words.label(words.outcome) == "yield (%)"
    # Without a unit of its own, and where it is all there is, a name stays as it is.
    assert Wording(("heat (C)",)).label("heat (C)") == "heat (C)"
    assert Wording(("(C)",), units={"(C)": "C"}).short("(C)") == "(C)"


def test_a_page_of_columns_with_units_says_each_unit_once():
    frame = pd.DataFrame(
        {"Time (h)": [1.0, 2.0, 3.0, 4.0], "Yield (%)": [50.0, 60, 65, 61]}
    )
    units = {"Yield (%)": "%", "Time (h)": "h"}
    page = kernelucb.report(frame, "Yield (%)", noise_std=1.0, units=units, effort="quick")
    text = " ".join(page.text.split())
    assert "say about Yield (%) " in text
    assert "Best setting: Time 3 h (row 4). Observed: 65 %." in text
    assert "(%) (%)" not in text
    assert "(h) 3 h" not in text


def test_whole_numbers_stay_whole():
    words = Wording(("layers", "rate"), whole=["layers"])
    low, high = (torch.tensor(x, dtype=torch.float64) for x in ([1.4, 0.1], [4.6, 0.2]))
    assert words.box(low, high) == "layers 2 to 4, rate 0.1 to 0.2"
    assert words.box(low, high, inwards=False) == "layers 1 to 5, rate 0.1 to 0.2"
    none = torch.tensor([1.8, 0.2], dtype=torch.float64)
    assert words.box(low, none).startswith("layers 1.4 to 1.8")


NETWORKS = pd.DataFrame(
    {
        "layers": [1, 2, 3, 4, 5, 6, 2, 4, 5],
        "rate": [0.1, 0.3, 0.2, 0.25, 0.15, 0.3, 0.12, 0.18, 0.22],
        "score": [50.0, 61.5, 66.0, 70.5, 69.0, 63.0, 58.5, 70.0, 80.0],
    }
)


def test_a_page_suggests_whole_layers():
    page = kernelucb.report(NETWORKS, "score", noise_std=1.0)
    assert page.table.whole == ["layers"]
    text = " ".join(page.text.split())
    (challenger,) = re.findall(r"Run layers ([^,]*), rate", text)
    assert challenger.isdigit()
    claimed = " ".join(each.sentence for each in page.claims)
    assert "layers 5" in claimed
    assert not re.search(r"layers \d+\.\d", claimed)


def test_claims_about_part_of_what_was_run():
    r"""The best run outside of the limits counts as data alone."""
    options = {"noise_std": 1.0, "bounds": {"layers": (1, 4), "rate": (0.1, 0.3)}}
    page = kernelucb.report(NETWORKS, "score", history=True, **options)
    assert page.table.rows[page.best] == 5  # four layers, not the ninth run with five
    assert page.rival is not None
    assert float(page.rival[0]) <= 4.0
    assert len(page.table.rows) == 9
    assert float(page.report.certificate.challenger[0]) <= 4.0
    assert all(each.gap >= 0.0 for each in page.history.values())
    with pytest.raises(ValueError, match="No run lies within --bounds"):
        kernelucb.report(NETWORKS, "score", noise_std=1.0, bounds={"layers": (7, 9)})
