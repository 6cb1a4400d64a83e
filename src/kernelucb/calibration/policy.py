r"""A loop that can be replayed, its default round, and the functions to replay it on."""

import ast
import hashlib
import inspect
import json
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property, partial
from types import FunctionType
from typing import Any, NamedTuple

import torch
from botorch.exceptions import (
    BotorchTensorDimensionError,
    InputDataError,
    UnsupportedError,
)
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from botorch.models.transforms import Normalize
from botorch.optim import optimize_acqf
from botorch.sampling.pathwise import draw_kernel_feature_paths
from botorch.utils.sampling import draw_sobol_samples, manual_seed
from torch import Tensor

from kernelucb._numerics.checks import finite, nonnegative_scalar, tensor, whole_number
from kernelucb.acquisition import MartingaleMixtureUCB
from kernelucb.acquisition.turns import SEARCH_TURNS, Turn
from kernelucb.certificates.spaces import Region, as_domain
from kernelucb.data import KernelRegression
from kernelucb.data.fitting import fitted

# One round: from `n x d` inputs and `n x 1` outcomes a model and the next input, `1 x d`.
Choose = Callable[[Tensor, Tensor], tuple[Model, Tensor]]
_POINTS = 1024  # Sobol points of a box at which claims are made


def described(part: object) -> str:
    r"""Name, fields and code of a function or an object, for a digest.

    Of a dataclass the fields that ``repr`` shows, of another object its ``repr``; of code
    neither comments nor docstrings. Numbers that a function reads from elsewhere are not
    seen: a dataclass shows them.
    """
    match part:
        case Tensor():
            return str(part.tolist())
        case type():
            return f"{part.__module__}.{part.__qualname__}"
        case None | bool() | int() | float() | str():
            return repr(part)
        case partial():
            return f"{part.args}, {part.keywords} of {described(part.func)}"
        case FunctionType():
            return _source(part.__qualname__, part)
        case _ if is_dataclass(part):
            shown = (field.name for field in fields(part) if field.repr)
            values = (f"{name}={described(vars(part)[name])}" for name in shown)
            return _source(f"{type(part).__qualname__}({', '.join(values)})", type(part))
        case _:
            return _source(repr(part), type(part))


def _source(name: str, code: type | FunctionType) -> str:
    text = ""
    try:
        text = textwrap.dedent(inspect.getsource(code))
        tree = ast.parse(text)
    except (OSError, TypeError, SyntaxError):  # at a prompt; a lambda in an expression
        return f"{name}\n{text}"
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.ClassDef() if ast.get_docstring(node) is not None:
                node.body = node.body[1:] or [ast.Pass()]
            case _:
                pass
    return f"{name}\n{ast.unparse(tree)}"


def digest_of(settings: object) -> str:
    r"""Twelve hexadecimal digits of settings that survive JSON."""
    text = json.dumps(settings, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class DefaultPolicy:
    r"""One round: ``MartingaleMixtureUCB`` of BoTorch's default model, fitted anew.

    Inputs are normalized: in another box, and with the other sign, it is the same policy.

    Attributes:
        bounds: ``2 x d`` limits of the inputs; the unit cube when absent.
        maximize: Whether large outcomes are sought.
        num_restarts, raw_samples: As in ``optimize_acqf``.
        turns: Of ``MartingaleMixtureUCB``.
    """

    bounds: Tensor | None = field(default=None, repr=False)
    maximize: bool = field(default=True, repr=False)
    num_restarts: int = 8
    raw_samples: int = 256
    turns: tuple[Turn, ...] = SEARCH_TURNS

    def __call__(self, X: Tensor, Y: Tensor) -> tuple[Model, Tensor]:
        r"""The fitted model of ``n x d`` inputs and ``n x 1`` outcomes; the next input."""
        box = self.bounds
        unit = None if box is None else Normalize(X.shape[1], bounds=box)
        model = fitted(SingleTaskGP(X, Y, input_transform=unit))
        if box is None:
            box = torch.stack([torch.zeros_like(X[0]), torch.ones_like(X[0])])
        acqf = MartingaleMixtureUCB(model, maximize=self.maximize, turns=self.turns)
        sizes = self.num_restarts, self.raw_samples
        candidate, _ = optimize_acqf(acqf, box, 1, *sizes)
        return model, candidate


@dataclass(frozen=True)
class Loop:
    r"""Everything that decides a search: its round, its domain, its starts, its end.

    Attributes:
        choose: One round, a function of ``n x d`` inputs and ``n x 1`` outcomes that
            returns a model of these, in outcome units, and the next input, ``1 x d``. It
            draws random numbers from torch alone, and to run in several processes it stands
            in a module.
        bounds: ``2 x d`` limits of a box, with Sobol starts. Exactly one of ``bounds`` and
            ``candidates``.
        candidates: ``n x d`` points, the whole domain; the starts are drawn among them.
        starts: Number of inputs before the first round.
        rounds: Number of outcomes after which the search ends, the starts among them.
        maximize: Whether large outcomes are sought.
        scale_free: Whether ``choose`` does the same in another box and with the other sign
            (a model that normalizes its inputs): then these are no part of the policy.

    Raises:
        ValueError: If not exactly one domain is given, or a number is out of its range.
        InputDataError: If the domain is not finite or empty.
    """

    choose: Choose
    bounds: Tensor | None = None
    candidates: Tensor | None = None
    starts: int = 5
    rounds: int = 40
    maximize: bool = True
    scale_free: bool = False

    def __post_init__(self) -> None:
        if whole_number("starts", self.starts) > whole_number("rounds", self.rounds):
            raise ValueError(f"starts is {self.starts}, above rounds = {self.rounds}.")
        if self.region.is_finite and len(self.points) < self.starts:
            raise ValueError(f"starts is {self.starts}; there are {len(self.points)}.")

    @classmethod
    def default(cls, bounds: Tensor, *, rounds: int = 40, maximize: bool = True) -> "Loop":
        r"""The default policy in a box with ``2 x d`` limits, from five Sobol points."""
        policy = DefaultPolicy(bounds, maximize)
        return cls(policy, bounds, rounds=rounds, maximize=maximize, scale_free=True)

    @cached_property
    def region(self) -> Region:
        r"""The domain as searches take it."""
        domain = as_domain(bounds=self.bounds, candidates=self.candidates)
        given = self.bounds if self.candidates is None else self.candidates
        return domain.region(tensor("domain", given).shape[-1])

    @cached_property
    def points(self) -> Tensor:
        r"""``N x d`` points at which claims are made: all candidates, or Sobol points."""
        return self.region.sample(_POINTS)

    @property
    def settings(self) -> dict[str, object]:
        r"""All that decides a search, as numbers and texts."""
        numbers = {"starts": self.starts, "rounds": self.rounds}
        settings: dict[str, object] = {"choose": described(self.choose), **numbers}
        if self.scale_free:
            return settings | {"inputs": self.points.shape[1], "points": len(self.points)}
        domain = self.region.lower.tolist(), self.region.upper.tolist(), len(self.points)
        return settings | {"domain": domain, "maximize": self.maximize}

    @cached_property
    def digest(self) -> str:
        r"""Of all settings: two loops of one digest are the same policy."""
        return digest_of(self.settings)

    def first_inputs(self, seed: int) -> Tensor:
        r"""``starts x d`` inputs, by a seed."""
        if self.region.is_finite:
            random = torch.Generator().manual_seed(seed)
            order = torch.randperm(len(self.points), generator=random)
            return self.points[order[: self.starts]]
        box = torch.stack([self.region.lower[0], self.region.upper[0]])
        return draw_sobol_samples(box, n=self.starts, q=1, seed=seed).squeeze(-2)

    def round(self, X: Tensor, Y: Tensor) -> tuple[Model, Tensor]:
        r"""The model and the next input, ``1 x d``, from copies of the data.

        Raises:
            TypeError: If ``choose`` returns anything but a model and an input.
            BotorchTensorDimensionError: If the input is not one point of ``d`` columns.
            InputDataError: If it is not finite, or lies outside the domain.
        """
        found: object = self.choose(X.clone(), Y.clone())
        match found:
            case (Model() as model, Tensor() as chosen):
                pass
            case _:
                raise TypeError(
                    "choose must return a model and the next input, got "
                    f"{type(found).__name__}: return model, candidate."
                )
        if model.num_outputs != 1:
            raise UnsupportedError(
                f"The model of choose has {model.num_outputs} outcomes; claims are about "
                "one: return a model of that outcome."
            )
        candidate = chosen.detach().reshape(-1, chosen.shape[-1] if chosen.dim() else 1)
        if candidate.shape != (1, X.shape[1]):
            raise BotorchTensorDimensionError(
                f"choose must return one input, `1 x {X.shape[1]}`, got shape "
                f"{tuple(chosen.shape)}."
            )
        candidate = finite("the input that choose returns", candidate.to(X))
        near = self.region.nearest(candidate[0])
        if near is None:
            raise InputDataError(
                f"choose returns {candidate[0].tolist()}, outside the domain of the loop."
            )
        return model, near.unsqueeze(0)


class Problem(NamedTuple):
    r"""A function to search, and the standard deviation of its noise."""

    function: Callable[[Tensor], Tensor]  # of `n x d` points, `n` values
    noise_std: float

    def values(self, X: Tensor) -> Tensor:
        r"""``n`` values at ``n x d`` points.

        Raises:
            BotorchTensorDimensionError: If the function returns another number of values.
            InputDataError: If a value is not finite.
        """
        found = tensor("values of the function", self.function(X)).detach().double()
        if found.numel() != len(X):
            raise BotorchTensorDimensionError(
                f"The function must return {len(X)} values at {len(X)} points, got shape "
                f"{tuple(found.shape)}."
            )
        return finite("values of the function", found.reshape(-1))


class Functions(ABC):
    r"""Functions like the one of the run.

    Attributes:
        statement: What the run's function is assumed to be.
    """

    statement: str

    @property
    def most(self) -> int | None:
        r"""How many there are; None for as many as wanted."""
        return None

    @property
    def settings(self) -> object:
        r"""What decides the functions, as numbers and texts."""
        return described(self)

    @abstractmethod
    def draw(self, number: int, generator: torch.Generator) -> Problem:
        r"""The function of a replay, by its number or by random numbers of its own."""


@dataclass(frozen=True)
class Tables(Functions):
    r"""Tables of earlier tasks, at the candidates of the loop.

    Attributes:
        tasks: Points, ``n x d``, and values of each, ``n`` or ``n x 1``, without noise.
        noise_std: Standard deviation of the noise of a run, outcome units.
    """

    tasks: Sequence[tuple[Tensor, Tensor]]
    noise_std: float

    statement = "the function is exchangeable with those of the earlier tasks"

    @property
    def most(self) -> int | None:
        return len(self.tasks)

    @property
    def settings(self) -> object:
        return [self.noise_std, *([X.tolist(), Y.tolist()] for X, Y in self.tasks)]

    def draw(self, number: int, generator: torch.Generator) -> Problem:
        rows, values = self.tasks[number]

        def function(X: Tensor) -> Tensor:
            far, index = torch.cdist(X, rows.to(X)).min(-1)
            if bool((rows.to(X)[index] != X).any()):
                missing = X[far.argmax()].tolist()
                raise InputDataError(
                    f"Table {number} has no value at {missing}; give the candidates of the "
                    "loop, and return one of them from choose."
                )
            return values.reshape(-1)[index]

        return Problem(function, nonnegative_scalar("noise_std", self.noise_std))


@dataclass(frozen=True)
class Simulator(Functions):
    r"""Draws of a simulator whose unknown constants are drawn from what is believed.

    Attributes:
        simulate: From a ``torch.Generator`` a function of ``n x d`` points, which returns
            ``n`` values, and the standard deviation of its noise.
    """

    simulate: Callable[[torch.Generator], tuple[Callable[[Tensor], Tensor], float]]

    statement = "the function is a draw of this simulator"

    @property
    def settings(self) -> object:
        return described(self.simulate)

    def draw(self, number: int, generator: torch.Generator) -> Problem:
        function, noise_std = self.simulate(generator)
        return Problem(function, nonnegative_scalar("noise_std", noise_std))


@dataclass(frozen=True)
class PriorDraws(Functions):
    r"""Draws of a model's prior, by default of BoTorch's default model, in the unit cube.

    Hyper-parameters and noise from their priors, then the function, by random Fourier
    features.

    Attributes:
        inputs: Number of columns ``d``.
        build: A model of ``n x d`` inputs and ``n x 1`` outcomes, not fitted, without an
            outcome transform.
        features: Number of random Fourier features.
    """

    inputs: int
    build: Callable[[Tensor, Tensor], SingleTaskGP] | None = None
    features: int = 1024

    statement = "the function and its noise are a draw of the model's prior"

    def draw(self, number: int, generator: torch.Generator) -> Problem:
        seed = int(torch.randint(2**31, (), generator=generator))
        build = self.build or partial(SingleTaskGP, outcome_transform=None)
        # A model needs data; its prior reads none.
        rows, sides = torch.zeros(2, self.inputs).double(), torch.tensor([[-1.0], [1.0]])
        model: Any = build(rows, sides.double() / 2**0.5).eval()
        with manual_seed(seed):
            while True:
                for _, module, prior, value, assign in model.named_priors():
                    assign(module, prior.sample(value(module).shape))
                limited = model.named_parameters_and_constraints()
                if all(c is None or bool(c.check_raw(p)) for _, p, c in limited):
                    break
            model.requires_grad_(False)
            path: Any = draw_kernel_feature_paths(
                model, torch.Size(), num_features=self.features
            )
        noise_std = float(KernelRegression.from_model(model).noise_scales[0])
        return Problem(path, noise_std)
