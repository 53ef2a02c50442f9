"""`SourceOptions`: which column is what, which rows to leave out; the same words on the command line and in TOML."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from neatrec.data.baskets import Baskets
from neatrec.errors import SourceError, must_be, must_be_one_of
from neatrec.text import printable

TEXT_OPTIONS = (
    *("basket", "item", "user", "position", "time", "name", "quantity", "group", "catalog_item", "since", "until"),
    *("delimiter", "encoding"),
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class SourceOptions:
    """What a table of basket lines means. Columns that are not named are not read."""

    basket: str | None = None
    """The order, receipt or transaction a line belongs to."""
    item: str | None = None
    """The item of the line."""
    user: str | None = None
    """The customer; a basket without one counts as a customer of its own."""
    position: str | None = None
    """A number that rises in the order in which lines went into the cart. Without it the order is not known."""
    time: str | None = None
    """When the basket was bought: ISO 8601, YYYYMMDD, or seconds (milli-, microseconds) since 1970."""
    name: str | None = None
    """What to call the item; in the lines or in the catalogue."""
    quantity: str | None = None
    """Lines with zero or less are returns and left out."""
    group: str | None = None
    """Items of one group are variants and count as one item; in the lines or in the catalogue."""
    category: tuple[str, ...] = ()
    """One or more columns, shallow to deep; in the lines or in the catalogue."""
    attributes: tuple[str, ...] = ()
    """Further columns that say something of the whole basket, such as its store."""
    catalog: Any = None
    """A file (or, in Python, a data frame) with one row an item; items that were never bought stay."""
    catalog_item: str | None = None
    """The catalogue's item column, where it is not called as in the lines."""
    since: str | None = None
    """Baskets before this moment are left out."""
    until: str | None = None
    """Baskets from this moment on are left out."""
    exclude_items: Path | None = None
    """A text file with one item id a line: bags, fees, deposits."""
    max_bad_rows: str | int | None = None
    """How many rows that cannot be read are put up with: a number, or a share such as "0.5%"; default: none."""
    rejects: Path | None = None
    """Where those rows are written; default: a file in the working folder, named after the source."""
    delimiter: str | None = None
    """Of CSV; default: found in the header."""
    encoding: str | None = None
    """Of CSV; default: UTF-8, or what a byte order mark says."""

    def __post_init__(self) -> None:
        keep = object.__setattr__
        for name in TEXT_OPTIONS:
            if not isinstance(getattr(self, name), str | None):
                raise must_be(name, "text", getattr(self, name))
        for name in ("category", "attributes"):
            value = getattr(self, name)
            keep(self, name, (value,) if isinstance(value, str) else tuple(value or ()))
        for name in ("catalog", "exclude_items", "rejects"):
            value = getattr(self, name)
            keep(self, name, Path(value) if isinstance(value, str) else value)
        for name in ("category", "attributes"):
            columns = getattr(self, name)
            if len(set(columns)) != len(columns) or not all(isinstance(column, str) for column in columns):
                raise must_be(name, "names of columns that differ", columns)
        if self.max_bad_rows is not None:
            bad_rows_allowed(self.max_bad_rows, 0)
        first, last = self.first_moment, self.end_moment
        if first is not None and last is not None and first >= last:
            raise must_be("since", f"before until ({self.until})", self.since)
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise must_be("delimiter", "one character", self.delimiter)
        if self.encoding is not None:
            _check_encoding(self.encoding)

    @property
    def first_moment(self) -> int | None:
        """`since` as microseconds since 1970."""
        return None if self.since is None else microseconds("since", self.since)

    @property
    def end_moment(self) -> int | None:
        """`until` as microseconds since 1970."""
        return None if self.until is None else microseconds("until", self.until)

    def given(self) -> dict[str, Any]:
        """The options that are not at their defaults."""
        values = {f.name: (getattr(self, f.name), f.default) for f in fields(self)}
        # a catalogue may be a data frame, which compares element by element
        return {n: v for n, (v, default) in values.items() if (v is not None if n == "catalog" else v != default)}


def options_from(options: SourceOptions | None, columns: dict[str, Any]) -> SourceOptions:
    """`options` with keyword arguments laid over them; an unknown keyword is an error with a suggestion."""
    known = [f.name for f in fields(SourceOptions)]
    for name in columns:
        if name not in known:
            raise must_be_one_of("option", known, name)
    return replace(options or SourceOptions(), **columns)


def microseconds(argument: str, text: str) -> int:
    """A date or time in ISO 8601 as microseconds since 1970; without a zone it is UTC.

    >>> microseconds("since", "1970-01-02")
    86400000000
    """
    try:
        moment = datetime.fromisoformat(text)
    except (ValueError, TypeError) as error:
        raise must_be(argument, "a date such as 2024-01-31 or 2024-01-31T12:00", text) from error
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    gap = moment - EPOCH
    return (gap.days * 86_400 + gap.seconds) * 1_000_000 + gap.microseconds


def bad_rows_allowed(limit: str | int, rows: int) -> int:
    """How many bad rows of `rows` the option `max_bad_rows` lets pass.

    >>> bad_rows_allowed("0.5%", 1000), bad_rows_allowed("100", 1000), bad_rows_allowed(3, 5)
    (5, 100, 3)
    """
    wanted = 'a whole number such as 100 or a share such as "0.5%"'
    text = str(limit).strip()
    if re.fullmatch(r"\d+", text):
        return int(text)
    if not re.fullmatch(r"\d+(\.\d+)?\s*%", text) or float(text[:-1]) > 100:
        raise must_be("max_bad_rows", wanted, limit)
    # in thousandths of a percent, so that 0.1% of 1,000 is 1 and not 0.9999
    return round(float(text[:-1]) * 1000) * rows // 100_000


def _check_encoding(name: str) -> None:
    import codecs

    try:
        codecs.lookup(name)
        "".encode(name)
    except (LookupError, ValueError) as error:  # a codec may also refuse all text, or its name hold a NUL
        raise must_be("encoding", "a text encoding such as utf-8, utf-16 or latin-1", name) from error


def refuse_options(source: str, options: SourceOptions, allowed: tuple[str, ...]) -> None:
    """An option that this source cannot honour is an error, not ignored."""
    for name in options.given():
        if name not in allowed:
            raise SourceError(
                f"{printable(source)} knows its own columns: `{name}` does not apply",
                argument=name,
                hint=f"Beside it may stand {', '.join(map(_flag, allowed))}.",
            )


def _flag(option: str) -> str:
    """How an option is said at the prompt."""
    return "--strata" if option == "attributes" else f"--{option.replace('_', '-')}"


def require_attributes(source: str, options: SourceOptions, baskets: Baskets) -> None:
    for name in options.attributes:
        if name not in baskets.attributes:
            found = ", ".join(baskets.attributes) or "none"
            raise SourceError(
                f"{printable(source)} has no attribute {printable(repr(name))}; it has: {found}", column=name
            )
