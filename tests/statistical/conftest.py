r"""The verdict on a count of failures."""

from collections.abc import Iterable

import pytest
from simulation import Claim


@pytest.fixture
def stands(request):
    r"""Whether a claim stands after so many failures.

    A test that asks must state sequences, delta, false alarm and power in its docstring, in
    the words of ``str(claim)``.
    """

    def verdict(claim: Claim, failures: int | Iterable[bool]) -> bool:
        stated = " ".join((request.function.__doc__ or "").split())
        assert str(claim) in stated, f"state in the docstring: {claim}"
        return claim.stands(failures)

    return verdict
