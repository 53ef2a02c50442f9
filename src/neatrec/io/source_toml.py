"""`source.toml`: the source and its options, said once."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from neatrec.errors import InputError, SourceError
from neatrec.io.options import SourceOptions
from neatrec.text import printable

KEYWORD_SOURCES = ("supermarket", "complete-journey")


def is_keyword_source(source: str) -> bool:
    """Whether `source` names a data set rather than a file."""
    return source.split(":", 1)[0] in KEYWORD_SOURCES


def read_source_toml(path: str | Path) -> tuple[str, SourceOptions]:
    """The source and the options of a `source.toml`; its paths are relative to the file."""
    path = Path(path)
    table = _checked(path, _parsed(path))
    source = table.pop("source")
    folder = path.parent
    if not is_keyword_source(source):
        source = str(folder / source)
    for name in ("catalog", "exclude_items", "rejects"):
        if table.get(name) is not None:
            table[name] = folder / table[name]
    try:
        return source, SourceOptions(**{name: value for name, value in table.items() if value is not None})
    except InputError as error:
        raise SourceError(f"{printable(path)}: {error.message}", file=str(path), hint=error.hint) from error


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SourceError(f"cannot read {printable(path)}: {error.strerror}", file=str(path)) from error
    except ValueError as error:  # no TOML, no UTF-8, or a NUL in the path
        raise SourceError(f"{printable(path)} is not TOML: {printable(error)}", file=str(path)) from error


def _checked(path: Path, table: dict[str, Any]) -> dict[str, Any]:
    from pydantic import BaseModel, ConfigDict, ValidationError

    class SourceToml(BaseModel):
        model_config = ConfigDict(extra="forbid", strict=True)
        source: str
        basket: str | None = None
        item: str | None = None
        user: str | None = None
        position: str | None = None
        time: str | None = None
        name: str | None = None
        quantity: str | None = None
        group: str | None = None
        category: str | list[str] = []
        attributes: str | list[str] = []
        catalog: str | None = None
        catalog_item: str | None = None
        since: str | None = None
        until: str | None = None
        exclude_items: str | None = None
        max_bad_rows: str | int | None = None
        rejects: str | None = None
        delimiter: str | None = None
        encoding: str | None = None

    try:
        return SourceToml.model_validate(_with_dates_as_text(table)).model_dump()
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        raise SourceError(
            f"{printable(path)}: key {printable(repr(key))}: {_plain(first)}", file=str(path), hint=_suggestion(key)
        ) from error


def _plain(problem: Any) -> str:
    if problem["type"] == "extra_forbidden":
        return "is not a key of source.toml"
    if problem["type"] == "missing":
        return "is missing"
    return printable(problem["msg"])


def _suggestion(key: str) -> str | None:
    keys = ["source", *(f.name for f in fields(SourceOptions))]
    near = get_close_matches(key, [k for k in keys if k != key], n=1)
    if key in keys:
        return 'Such as: source = "orders.csv"' if key == "source" else None
    return f"Did you mean {near[0]!r}?" if near else f"It may hold {', '.join(keys)}."


def _with_dates_as_text(table: dict[str, Any]) -> dict[str, Any]:
    """TOML has dates of its own: `since = 2024-01-31` means the same as with quotes."""
    return {
        key: value.isoformat() if key in ("since", "until") and hasattr(value, "isoformat") else value
        for key, value in table.items()
    }
