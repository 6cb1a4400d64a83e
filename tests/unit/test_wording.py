r"""Names and units in sentences."""

import pandas as pd
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
