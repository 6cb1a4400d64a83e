r"""What several named bands rest on together."""

from collections.abc import Mapping
from typing import Any

from kernelucb.confidence.assumptions import Assumptions


def joined_assumptions(bands: Mapping[str, Any], claim: str) -> Assumptions:
    r"""What several named bands at once rest on; what stands in it twice counts once.

    ``claim`` says what follows. A weighted sum rests on the bands of its terms; one that is
    given under two names, or is a term of several sums, adds its failure probability once.
    """
    names: dict[int, list[str]] = {}
    distinct: dict[int, Any] = {}
    for name, band in bands.items():
        terms = _terms(band)
        for i, term in enumerate(terms, 1):
            own = name if len(terms) == 1 else f"{name} (term {i})"
            names.setdefault(id(term), []).append(own)
            distinct[id(term)] = term
    parts = {", ".join(names[key]): band.assumptions for key, band in distinct.items()}
    return Assumptions.joined(parts, claim)


def _terms(band: Any) -> list[Any]:
    r"""The bands that a weighted sum is made of, at any depth; other bands themselves."""
    terms = getattr(band, "acqfs", None)
    return [band] if terms is None else [each for term in terms for each in _terms(term)]
