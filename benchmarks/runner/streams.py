r"""Random streams that do not depend on what else is drawn."""

import zlib

import numpy as np


def stream(seed: int, *names: str | int) -> np.random.Generator:
    r"""A generator of its own for every list of names.

    Problems, arms and noise do not share a stream, so that a run's first rounds are the
    same however many rounds follow, and a problem the same whoever plays it.
    """
    words = [n if isinstance(n, int) else zlib.crc32(n.encode()) for n in names]
    return np.random.default_rng([seed, *words])
