r"""Formulas of the site: what latex2mathml leaves to be put right."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("latex2mathml")
pytest.importorskip("mkdocs")
sys.path.append(str(Path(__file__).parents[2] / "website"))

from formulas import mathml
from mkdocs.exceptions import PluginError

PARTS = {
    r"\mathcal G_s": ["<msub><mi>&#x1D4A2;</mi>"],
    r"\mathrm{diag}(x)": [">diag</mo>", 'rspace="0"'],
    r"n\ln\det K": ['lspace="0.167em" rspace="0.167em">ln</mo>', ">det</mo>"],
    r"\Bigl\lbrace x\Bigr\rbrace": [">{</mo>", ">}</mo>"],
    r"|e|": ['lspace="0" rspace="0">&#x0007C;</mo>'],
    r"\underbrace{a+b}_{c}": ["<munder>", "&#x23DF;"],
}


@pytest.mark.parametrize("latex", PARTS)
def test_what_is_put_right(latex):
    formula = mathml(latex, block=False)
    assert "mathvariant" not in formula
    assert all(part in formula for part in PARTS[latex])


@pytest.mark.parametrize("latex", [r"\unheardof x", r"\begin{aligned}a&=b\end{aligned}"])
def test_an_unknown_command_stops_the_build(latex):
    with pytest.raises(PluginError, match="latex2mathml"):
        mathml(latex, block=True)
