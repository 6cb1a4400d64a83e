r"""The inputs of a picture in words."""

from collections.abc import Sequence

from torch import Tensor


def checked_names(names: Sequence[str] | None, dimension: int) -> list[str]:
    r"""The names of ``d`` inputs; ``"input 1"`` and so on where none are given.

    Raises:
        ValueError: If there are more names or fewer.
    """
    if names is None:
        return [f"input {i}" for i in range(1, dimension + 1)]
    if len(names) != dimension:
        raise ValueError(
            f"input_names has {len(names)} entries for {dimension} inputs; give each one a "
            "name."
        )
    return list(names)


def where_fixed(names: Sequence[str], point: Tensor, shown: Sequence[int]) -> str:
    r"""Where the inputs that are not shown stand: ``"at time (h) 3.5"``; may be empty."""
    fixed = [i for i in range(len(names)) if i not in shown]
    if len(fixed) > 3:
        return f"at the point's other {len(fixed)} inputs"
    listed = [f"{names[i]} {float(point[i]):.4g}" for i in fixed]
    return f"at {', '.join(listed)}" if listed else ""
