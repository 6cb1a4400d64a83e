r"""Processes from first principles: functions on the unit cube that no kernel made.

Each takes ``n x d`` settings in ``[0, 1]`` and returns ``n`` outcomes in the unit of its
docstring, large ones being good. The constants are of ordinary size, none is fitted.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_GAS = 8.314  # J / (mol K)


class Simulator(NamedTuple):
    r"""A process.

    Attributes:
        function: From ``n x d`` settings in the unit cube to ``n`` outcomes.
        names: Of the inputs.
        outcome_range: Least and largest outcome that is possible, where that is known.
    """

    function: Callable[[Array], Array]
    names: tuple[str, ...]
    outcome_range: tuple[float, float] | None = None

    @property
    def dimension(self) -> int:
        return len(self.names)

    def __call__(self, X: Array) -> Array:
        r"""Outcomes at ``n x d`` settings."""
        return self.function(np.atleast_2d(X))


def _scaled(X: Array, *ends: tuple[float, float], log: tuple[int, ...] = ()) -> list[Array]:
    r"""Columns between their ends, some of them in equal ratios."""
    columns = zip(X.T, ends, strict=True)
    return [
        a * (b / a) ** x if i in log else a + (b - a) * x
        for i, (x, (a, b)) in enumerate(columns)
    ]


def _arrhenius(rate: float, energy: float, temperature: Array, at: float = 350.0) -> Array:
    r"""Rate constant, from its value at a temperature (K) and the energy (J/mol)."""
    return rate * np.exp(-energy / _GAS * (1.0 / temperature - 1.0 / at))


def batch_reaction(
    X: Array,
    first: tuple[float, float] = (0.35, 7e4),
    second: tuple[float, float] = (0.04, 1.05e5),
) -> Array:
    r"""Yield (%) of B in A -> B -> C: temperature, time, catalyst.

    Rates (1/h at 350 K) and energies (J/mol) of the two steps may be other ones.
    """
    T, t, c = _scaled(X, (310.0, 390.0), (0.2, 20.0), (0.5, 2.0), log=(1,))
    k1, k2 = c * _arrhenius(*first, T), np.sqrt(c) * _arrhenius(*second, T)
    k2 = np.where(np.abs(k1 - k2) < 1e-9 * k1, k2 * (1.0 + 1e-6), k2)
    return 100.0 * k1 / (k2 - k1) * (np.exp(-k1 * t) - np.exp(-k2 * t))


def stirred_tank(X: Array) -> Array:
    r"""Yield (%) of B in van de Vusse's tank, A -> B -> C and 2 A -> D."""
    T, flow, feed = _scaled(X, (340.0, 420.0), (2.0, 60.0), (1.0, 8.0), log=(1,))
    k1, k2 = _arrhenius(9.0, 8.1e4, T, 380.0), _arrhenius(9.0, 8.1e4, T, 380.0)
    k3 = _arrhenius(1.3, 7.1e4, T, 380.0)
    b = flow + k1
    a = (-b + np.sqrt(b * b + 4.0 * k3 * flow * feed)) / (2.0 * k3)
    return 100.0 * k1 * a / (flow + k2) / feed


def enzyme(X: Array) -> Array:
    r"""Product (g/l) of an enzyme that substrate inhibits and heat destroys."""
    T, acidity, S, t = _scaled(X, (295.0, 340.0), (4.5, 9.0), (1.0, 60.0), (0.5, 12.0))
    rate = _arrhenius(4.0, 4.5e4, T, 310.0)
    rate = rate / (1.0 + 10.0 ** (5.9 - acidity) + 10.0 ** (acidity - 7.8))
    rate = rate * S / (6.0 + S + S * S / 45.0)
    decay = _arrhenius(0.02, 2.3e5, T, 310.0)
    made = rate * -np.expm1(-decay * t) / decay
    return S * -np.expm1(-made / S)


def beam(X: Array) -> Array:
    r"""Minus the mass (kg) of an I-beam, and what bending and stress above limits cost."""
    height, width, web, flange = _scaled(
        X, (0.1, 0.4), (0.05, 0.25), (0.004, 0.02), (0.005, 0.03)
    )
    inner = height - 2.0 * flange
    area = 2.0 * width * flange + inner * web
    inertia = (width * height**3 - (width - web) * inner**3) / 12.0
    deflection = 2e4 * 6.0**3 / (48.0 * 2.1e11 * inertia)  # m, 20 kN on 6 m of steel
    stress = 2e4 * 6.0 / 4.0 * height / (2.0 * inertia) / 1e6  # MPa
    cost = 40.0 * np.log1p((deflection / 0.012) ** 4) + 0.5 * np.maximum(
        stress - 160.0, 0.0
    )
    return -(7850.0 * 6.0 * area / 10.0 + cost)


def band_pass(X: Array) -> Array:
    r"""Minus the error (dB) of a band-pass of two coupled resonant circuits."""
    L, C, R, coupling = _scaled(
        X, (5e-6, 4e-5), (1e-10, 1e-9), (20.0, 400.0), (0.01, 0.3), log=(0, 1, 2)
    )
    frequency = np.linspace(0.6e6, 3.0e6, 61)
    w = 2.0 * np.pi * frequency[None]
    own = R[:, None] + 1j * (w * L[:, None] - 1.0 / (w * C[:, None]))
    mutual = 1j * w * (coupling * L)[:, None]
    gain = np.abs(2.0 * mutual * R[:, None] / (own**2 - mutual**2))
    wanted = np.where(np.abs(frequency - 1.5e6) < 0.25e6, 0.0, -30.0)
    decibel = 20.0 * np.log10(gain + 1e-3)
    short = np.where(wanted == 0.0, np.minimum(decibel, 0.0), np.maximum(decibel, -30.0))
    return -np.sqrt(np.mean((short - wanted) ** 2, -1))


def heat_exchanger(X: Array) -> Array:
    r"""Net gain (kW) of a counter-current heat exchanger after pumping."""
    hot, cold, tubes, diameter = _scaled(
        X, (0.2, 3.0), (0.2, 3.0), (10.0, 120.0), (0.008, 0.03), log=(0, 1)
    )
    area = np.pi * diameter * 4.0 * tubes
    speed = hot / (1000.0 * np.pi / 4.0 * diameter**2 * tubes)
    inside = 1500.0 * speed**0.8 / diameter**0.2
    outside = 900.0 * cold**0.6
    conductance = area / (1.0 / inside + 1.0 / outside + 2e-4)
    low, high = np.minimum(hot, cold) * 4180.0, np.maximum(hot, cold) * 4180.0
    ratio, units = low / high, conductance / low
    power = np.exp(-units * (1.0 - ratio))
    near = np.abs(1.0 - ratio) < 1e-6
    share = np.where(
        near,
        units / (1.0 + units),
        (1.0 - power) / np.where(near, 1.0, 1.0 - ratio * power),
    )
    pumping = 2.5 * 4.0 / diameter * speed**2 * hot * 0.03 * 20.0 + 120.0 * cold**3
    return (share * low * 40.0 - 6.0 * pumping - 400.0 * area) / 1000.0


def epidemic(X: Array) -> Array:
    r"""Minus the cost of an epidemic: beginning, strength and length of restrictions."""
    begin, strength, length = _scaled(X, (5.0, 80.0), (0.0, 0.8), (5.0, 120.0))
    S, inf, worst = np.full(len(X), 0.999), np.full(len(X), 0.001), np.zeros(len(X))
    for day in np.arange(0.0, 250.0, 0.5):
        active = _step((day - begin) / 3.0) * _step((begin + length - day) / 3.0)
        new = 0.3 * (1.0 - strength * active) * S * inf * 0.5
        S, inf = S - new, inf + new - 0.05 * inf
        worst = np.maximum(worst, inf)
    total = 1.0 - S
    return -(60.0 * total + 100.0 * np.maximum(worst - 0.1, 0.0) + 0.5 * strength * length)


def _step(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-np.clip(x, -40.0, 40.0)))


def pendulum(X: Array) -> Array:
    r"""Minus the cost of bringing an inverted pendulum to rest by a filtered PD rule."""
    kp, kd, lag = _scaled(X, (12.0, 80.0), (0.5, 20.0), (0.01, 0.25), log=(0, 1, 2))
    angle, speed, force = np.full(len(X), 0.5), np.zeros(len(X)), np.zeros(len(X))
    cost, step = np.zeros(len(X)), 0.005
    for _ in range(800):
        force = force + step / lag * (-kp * angle - kd * speed - force)
        force = np.clip(force, -60.0, 60.0)
        speed = speed + step * (9.81 * np.sin(angle) + force - 0.1 * speed)
        angle = np.clip(angle + step * speed, -np.pi, np.pi)
        cost = cost + step * (angle**2 + 1e-4 * force**2)
    return -10.0 * np.log1p(cost)


def dosing(X: Array) -> Array:
    r"""Share (%) of two days in which a drug's level is right: dose, interval, release."""
    dose, interval, release = _scaled(X, (20.0, 400.0), (3.0, 24.0), (0.08, 2.5), log=(2,))
    t = np.linspace(0.0, 48.0, 193)[None]
    level, out = np.zeros((len(X), t.size)), 0.17
    release = np.where(np.abs(release - out) < 1e-6, out + 1e-6, release)[:, None]
    for k in range(16):
        since = t - k * interval[:, None]
        own = np.exp(-out * np.maximum(since, 0)) - np.exp(-release * np.maximum(since, 0))
        level += np.where(since > 0, own, 0.0)
    level *= (dose / 40.0)[:, None] * release / (release - out)
    inside = _step((level - 3.0) / 0.3) * _step((7.0 - level) / 0.3)
    return 100.0 * inside.mean(-1)


def optical_stack(X: Array) -> Array:
    r"""Minus the mean reflectance (%) of a four-layer coating on glass, 450 to 650 nm."""
    thickness = np.stack(_scaled(X, *[(20.0, 160.0)] * 4), -1)
    wave = np.linspace(450.0, 650.0, 21)[None]
    index = (1.38, 2.1, 1.46, 2.1)
    m11 = np.ones((len(X), wave.size), complex)
    m12, m21, m22 = np.zeros_like(m11), np.zeros_like(m11), np.ones_like(m11)
    for n, d in zip(index, thickness.T, strict=True):
        phase = 2.0 * np.pi * n * d[:, None] / wave
        c, s = np.cos(phase), 1j * np.sin(phase)
        m11, m12 = m11 * c + m12 * s * n, m11 * s / n + m12 * c
        m21, m22 = m21 * c + m22 * s * n, m21 * s / n + m22 * c
    b, c = m11 + 1.52 * m12, m21 + 1.52 * m22
    return -100.0 * (np.abs((b - c) / (b + c)) ** 2).mean(-1)


def throw(X: Array) -> Array:
    r"""Distance (m) of a ball with drag and lift: angle and spin."""
    angle, spin = _scaled(X, (5.0, 65.0), (0.0, 300.0))
    u, v = 60.0 * np.cos(np.radians(angle)), 60.0 * np.sin(np.radians(angle))
    x, y, dt = np.zeros(len(X)), np.zeros(len(X)), 0.01
    for _ in range(1500):
        flying = _step(20.0 * (y + 0.2))
        speed = np.hypot(u, v) + 1e-9
        lift = 0.006 * np.tanh(2.0 * 0.021 * spin / speed)
        ax, ay = (
            -0.0045 * speed * u - lift * speed * v,
            -0.0045 * speed * v + lift * speed * u,
        )
        u, v = u + dt * ax, v + dt * (ay - 9.81)
        x, y = x + dt * u * flying, y + dt * v
    return x


def suspension(X: Array) -> Array:
    r"""Minus the cost of ride and road holding of a quarter car: five of its numbers."""
    spring, damper, tyre, mass, inerter = _scaled(
        X, (8e3, 6e4), (300.0, 6e3), (1.2e5, 2.6e5), (25.0, 60.0), (0.0, 80.0), log=(0, 1)
    )
    w = 2.0 * np.pi * np.geomspace(0.5, 25.0, 80)[None]
    s = 1j * w
    link = spring[:, None] + s * damper[:, None] + s * s * inerter[:, None]
    body, wheel = 320.0 * s * s + link, mass[:, None] * s * s + link + tyre[:, None]
    determinant = body * wheel - link**2
    xs, xu = link * tyre[:, None] / determinant, body * tyre[:, None] / determinant
    road = 1.0 / w
    comfort = np.sqrt(np.mean(np.abs(s * s * xs * road) ** 2, -1))
    holding = np.sqrt(np.mean(np.abs((xu - 1.0) * tyre[:, None] * road) ** 2, -1))
    return -(0.6 * comfort + holding / 900.0)


def chemostat(X: Array) -> Array:
    r"""Cells (g/(l h)) of a tank with product inhibition and a costly feed."""
    dilution, feed, T = _scaled(X, (0.03, 0.6), (2.0, 60.0), (295.0, 318.0))
    growth = 0.75 * np.exp(-(((T - 308.0) / 9.0) ** 2)) / (1.0 + np.exp((T - 314.0) / 1.2))
    cells = np.full(len(X), 0.5)
    for _ in range(400):
        rest = np.maximum(feed - cells / 0.45, 0.0)
        mu = growth * rest / (1.5 + rest + rest**2 / 40.0) * np.exp(-cells / 14.0)
        cells = np.maximum(cells + 0.25 * cells * (mu - dilution), 1e-6)
    return 10.0 * dilution * cells - 0.25 * dilution * feed


def column(X: Array) -> Array:
    r"""Resolution less cost of time of a chromatography column: six settings."""
    flow, length, particle, gradient, T, share = _scaled(
        X, (0.2, 3.0), (3.0, 25.0), (1.5, 8.0), (0.5, 6.0), (293.0, 343.0), (0.1, 0.6),
        log=(0, 1, 2),
    )  # fmt: skip
    viscosity = np.exp(1700.0 * (1.0 / T - 1.0 / 298.0))
    plate = (
        1.2 * particle + 9.0 / (flow * viscosity) + 0.045 * particle**2 * flow * viscosity
    )
    plates = 1e4 * length / plate
    first = 12.0 * np.exp(-6.0 * share) * np.exp(900.0 * (1.0 / T - 1.0 / 298.0))
    ratio = 1.08 + 0.08 * np.exp(-(((share - 0.35) / 0.15) ** 2))
    kept = first / (1.0 + 0.15 * gradient * first)
    resolution = np.sqrt(plates) / 4.0 * (ratio - 1.0) * kept / (1.0 + kept)
    pressure = 40.0 * viscosity * flow * length / particle**2
    time = length / flow * (1.0 + kept)
    return (
        3.0 * np.tanh(resolution / 3.0)
        - 0.012 * time
        - 0.3 * _step((pressure - 250.0) / 30.0)
    )


def sallen_key(X: Array) -> Array:
    r"""Minus the error (dB) of a Sallen-Key low-pass against Butterworth's of 10 kHz.

    Node equations of resistors R1 and R2 in series, C1 from between them to the output and
    C2 from behind them to ground, with a follower of finite gain and 10 MHz bandwidth. The
    error is a root mean square over 61 log-spaced frequencies, 100 Hz to 1 MHz.
    """
    R, C = (1e3, 1e5), (1e-10, 1e-7)  # ohm, farad
    columns = _scaled(X, R, R, C, C, log=(0, 1, 2, 3))
    R1, R2, C1, C2 = (column[:, None] for column in columns)
    frequency = np.geomspace(1e2, 1e6, 61)
    s = 2j * np.pi * frequency
    # For an output of 1: voltages behind R2, between the resistors, and at the input.
    behind = 1.0 + 1e-5 + s / (2.0 * np.pi * 1e7)
    between = behind * (1.0 + s * R2 * C2)
    source = between + R1 * (s * C2 * behind + s * C1 * (between - 1.0))
    wanted = -10.0 * np.log10(1.0 + (frequency / 1e4) ** 4)
    gain = -20.0 * np.log10(np.abs(source))
    return -np.sqrt(np.mean((gain - wanted) ** 2, -1))


SIMULATORS = {
    "batch reaction": Simulator(
        batch_reaction, ("temperature", "time", "catalyst"), (0.0, 100.0)
    ),
    "stirred tank": Simulator(stirred_tank, ("temperature", "flow", "feed"), (0.0, 100.0)),
    "enzyme": Simulator(enzyme, ("temperature", "acidity", "substrate", "time")),
    "beam": Simulator(beam, ("height", "width", "web", "flange")),
    "band pass": Simulator(band_pass, ("inductance", "capacity", "resistance", "coupling")),
    "heat exchanger": Simulator(heat_exchanger, ("hot", "cold", "tubes", "diameter")),
    "epidemic": Simulator(epidemic, ("begin", "strength", "length")),
    "pendulum": Simulator(pendulum, ("position gain", "speed gain", "lag")),
    "dosing": Simulator(dosing, ("dose", "interval", "release"), (0.0, 100.0)),
    "optical stack": Simulator(
        optical_stack, ("first", "second", "third", "fourth"), (-100.0, 0.0)
    ),
    "throw": Simulator(throw, ("angle", "spin")),
    "suspension": Simulator(suspension, ("spring", "damper", "tyre", "wheel", "inerter")),
    "chemostat": Simulator(chemostat, ("dilution", "feed", "temperature")),
    "column": Simulator(
        column, ("flow", "length", "particle", "gradient", "temperature", "share")
    ),
}
# Not among those above, of which other studies take all.
SALLEN_KEY = Simulator(sallen_key, ("R1", "R2", "C1", "C2"))
