"""Settings of a server, and what one request may ask for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

K = 10
"""Answers when `k` is not given."""
MAX_K = 100
MAX_ITEMS = 100
"""Items in a cart, ids to exclude."""
MAX_CATEGORIES = 20
MAX_NAME = 256
"""Of a category or model. Ids are limited only by the query string or the body."""
MAX_GUESS = 256
"""Of an unknown id for which near names are looked for."""
MAX_SEARCH = 256
MAX_BODY = 1024 * 1024
BODY_SECONDS = 10.0
"""How long a body may take to arrive: a request that waits for it counts as in progress."""
MAX_QUERY_STRING = 32 * 1024
IN_FLIGHT = 64
"""Requests that are worked on at the same time; more are answered with 503 at once."""
CACHE_BYTES = 8 * 1024 * 1024
"""Rendered answers kept in memory: so few that they are all there after some minutes, and memory stays as it is."""
BRIEF_BYTES = 32 * 1024 * 1024
"""Items as JSON kept in memory, per bundle: about 100,000."""
CATEGORY_BYTES = 16 * 1024 * 1024
"""Members of categories kept in memory, per bundle."""
VARIABLE = "NEATREC_SERVE"
"""The environment variable that carries the settings to workers; keys are never in it."""


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
    """Withhold counts and everything that counts can be derived from."""
    in_flight: int = IN_FLIGHT
    host: str | None = None
    """The address it is bound to. Without a key only requests to it or to a loopback name are answered; None: another
    server runs the application and checks host names."""
    interval: float = 1.0
    """Seconds between two checks for changed files."""

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
