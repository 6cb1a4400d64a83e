r"""One unit of work, and what decides whether a finished one may be used again."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any, ClassVar


@dataclass(frozen=True)
class Task(ABC):
    r"""One run: everything that its result depends on.

    Subclasses are frozen dataclasses whose fields are numbers, texts, tuples, or
    frozen dataclasses of these.

    Attributes:
        cosmetic: Names of fields, at any depth, that do not change a run: labels for the
            tables, or how many runs there are besides this one.
    """

    cosmetic: ClassVar[frozenset[str]] = frozenset()

    @property
    @abstractmethod
    def location(self) -> PurePath:
        r"""Where its run lies below the folder of all runs, with suffix ``.json``."""

    def agrees_with(self, settings: Mapping[str, Any]) -> bool:
        r"""Whether a run with these settings (``asdict`` of its task) is a run of this."""
        own = json.loads(json.dumps(asdict(self)))  # tuples are lists on the disk
        return self._dependencies(settings) == self._dependencies(own)

    @classmethod
    def _dependencies(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: cls._dependencies(value) if isinstance(value, Mapping) else value
            for name, value in settings.items()
            if name not in cls.cosmetic
        }
