r"""What Griffe is told of our docstrings."""

import re

import griffe


class ExampleSections(griffe.Extension):
    r"""``Example:``, as in BoTorch, is what Griffe reads under ``Examples:``."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        r"""Griffe: called with everything that has a docstring."""
        if obj.docstring:
            obj.docstring.value = re.sub(
                r"^( *)Example:$", r"\1Examples:", obj.docstring.value, flags=re.MULTILINE
            )
