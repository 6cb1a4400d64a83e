r"""Settings of the demo, and what it reports."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Settings:
    r"""What the demo does; see ``--help``."""

    rounds: int = 40
    initial: int | None = None
    noise_std: float | None = None
    delta: float = 0.05
    norm_bound: float | None = None
    estimate: bool = False
    covariance_scale: float = 1.0
    form: str = "dual"
    seed: int = 0


@dataclass(frozen=True)
class Round:
    r"""One row of the table; the band is the one before ``y`` was seen.

    Attributes:
        number: Counted from one.
        x: ``d`` inputs.
        y: Noisy outcome.
        best: Smallest outcome so far.
        width: Width of the band at ``x``.
        gap: Largest regret, on the candidates, of the recommended point.
        regret: Its true regret on the candidates.
        covered: Share of the candidates at which the band held the true function.
    """

    number: int
    x: Tensor
    y: float
    best: float
    width: float
    gap: float
    regret: float
    covered: float
