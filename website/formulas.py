r"""Formulas of the site: LaTeX becomes MathML while the site is built.

``$...$`` and ``math`` fences, as GitHub has them, are found by ``pymdownx.arithmatex`` and
rendered by ``latex2mathml``; every browser draws MathML by itself, so no script runs. What
browsers draw otherwise than TeX is put right here, and nowhere else.
"""

import html
import re
from importlib.util import find_spec
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

FOUND = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">(?P<latex>.*?)</(?P=tag)>', re.DOTALL
)
DELIMITERS = re.compile(r"^\\[(\[]|\\[)\]]$")

NAME = r'<mi(?: mathvariant="normal")?>([A-Za-z]{2,})</mi>'
BRACKET = r"(?=(?:</m\w+>)*<mo[^>]*>(?:\(|\[|&#x00028;|&#x0005B;))"
# What latex2mathml reads otherwise than TeX.
LATEX = {
    r"\\(mathbb|mathcal|mathrm)\s+(\w)": r"\\\1{\2}",
    r"\\lbrace(?![a-z])": r"\\{",
    r"\\rbrace(?![a-z])": r"\\}",
    r"\\arg(?![a-z])": r"\\operatorname{arg}",
}
# What browsers space otherwise than TeX: names of functions, bars, slashes and braces.
MATHML = {
    r'(?<=\w)</mi><mi mathvariant="normal">': "",  # one word, not letters
    NAME + BRACKET: r'<mo lspace="0.167em" rspace="0">\1</mo>',
    NAME: r'<mo lspace="0.167em" rspace="0.167em">\1</mo>',
    r'<mo( movablelimits="true")?>([a-z]{3,})</mo>': (
        r'<mo\1 lspace="0.167em" rspace="0.167em">\2</mo>'
    ),
    r'<m[io](?: \w+="[^"]*")*>(&#x0007[BCD];|&#x0002F;|&#x02016;)</m[io]>': (
        r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>'
    ),
    r"<mi>&#x0007E;</mi>": "<mo>&#x0223C;</mo>",
    r">\\([{}])<": r">\1<",
}
FONT = "STIXTwoMath-Regular.ttf"
FONT_FACE = f'@font-face {{ font-family: "Shipped Math"; src: url("{FONT}"); }}'
NOT_RENDERED = re.compile(r">[^<]*(?:\\|&<)")


def mathml(latex: str, *, block: bool) -> str:
    r"""MathML of one formula; ``block`` is for one that stands by itself."""
    for pattern, replacement in LATEX.items():
        latex = re.sub(pattern, replacement, latex)
    formula = convert(latex, display="block" if block else "inline")
    for pattern, replacement in MATHML.items():
        formula = re.sub(pattern, replacement, formula)
    if NOT_RENDERED.search(formula):
        raise PluginError(f"latex2mathml does not know a command in: {latex}")
    return f'<div class="formula">{formula}</div>' if block else formula


def replace(found: re.Match[str]) -> str:
    r"""The formula between arithmatex's delimiters, which escapes some of them twice."""
    latex = DELIMITERS.sub("", html.unescape(html.unescape(found["latex"])).strip())
    return mathml(latex.strip(), block=found["tag"] == "div")


def on_page_content(content: str, **_: object) -> str:
    r"""MkDocs: called with the HTML of each page."""
    return FOUND.sub(replace, content)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    r"""MkDocs: ships ``ziamath``'s font, for readers who have none for mathematics."""
    package = find_spec("ziamath")
    if package and package.origin:
        font = str(Path(package.origin).parent / "fonts" / FONT)
        files.append(File.generated(config, f"stylesheets/{FONT}", abs_src_path=font))
        style = "stylesheets/formulas.css"
        files.append(File.generated(config, style, content=FONT_FACE))
        config.extra_css.append(style)
    return files
