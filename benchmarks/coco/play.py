r"""One run: COCO's functions and the rivals play by the rules of ``practical``."""

from typing import Any

from benchmarks.coco.problems import Coco
from benchmarks.coco.rivals import INSTALLED, RIVALS
from benchmarks.practical import play as practical
from benchmarks.practical.learners import METHODS
from benchmarks.practical.problems import FAMILIES

FAMILIES["coco"] = Coco
METHODS.update({name: RIVALS[name] for name in INSTALLED})


def play(settings: dict[str, Any]) -> dict[str, Any]:
    r"""As ``benchmarks.practical.play``, in whose processes these methods are known."""
    return practical.play(settings)
