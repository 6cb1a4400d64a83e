r"""Formulas of the site: LaTeX becomes MathML while the site is built.

``$...$``, ``$$...$$`` and ``math`` fences, as GitHub has them, are found by
``pymdownx.arithmatex``; every browser draws MathML by itself, so no script runs.
"""

import html
import re

from latex2mathml.converter import convert

FOUND = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">(?P<latex>.*?)</(?P=tag)>', re.DOTALL
)
DELIMITERS = re.compile(r"^\\[(\[]|\\[)\]]$")


def mathml(latex: str, *, block: bool) -> str:
    r"""MathML of one formula; ``block`` is for one that stands by itself."""
    formula = convert(latex, display="block" if block else "inline")
    return f'<div class="formula">{formula}</div>' if block else formula


def replace(found: re.Match[str]) -> str:
    r"""The formula between arithmatex's delimiters."""
    latex = DELIMITERS.sub("", html.unescape(found["latex"]).strip())
    return mathml(latex.strip(), block=found["tag"] == "div")


def on_page_content(content: str, **_: object) -> str:
    r"""MkDocs: called with the HTML of each page."""
    return FOUND.sub(replace, content)
