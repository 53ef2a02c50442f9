"""What a server is told when it starts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neatrec.service.limits import IN_FLIGHT

VARIABLE = "NEATREC_SERVE"
"""Through which workers learn the settings; keys are never in it."""


@dataclass(frozen=True)
class ServiceSettings:
    """Everything but the keys."""

    bundle: Path
    """A bundle, or a store whose `current` names one."""
    compare: tuple[Path, ...] = ()
    rules: Path | None = None
    available: Path | None = None
    key_file: Path | None = None
    cors: tuple[str, ...] = ()
    public: bool = False
    """Counts and what tells of them are withheld."""
    in_flight: int = IN_FLIGHT
    host: str | None = None
    """The address it is bound to. Without a key only who calls it by that or by a loopback name is answered; None:
    somebody else runs the application and sees to it."""
    interval: float = 1.0
    """Seconds between two looks for something new."""

    def to_json(self) -> str:
        return json.dumps({name: _plain(value) for name, value in self.__dict__.items()})

    @classmethod
    def from_json(cls, text: str) -> ServiceSettings:
        entries: dict[str, Any] = json.loads(text)
        paths = {name: Path(entries[name]) for name in ("bundle", "rules", "available", "key_file") if entries[name]}
        compare = tuple(Path(path) for path in entries["compare"])
        return cls(**{**entries, **paths, "compare": compare, "cors": tuple(entries["cors"])})


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, Path) else value
