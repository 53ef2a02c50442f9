"""`SourceOptions`: which column is what, which rows to leave out. The command line and TOML read this definition."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from neatrec.errors import InputError, ParameterError, SourceError, bad_file, did_you_mean, must_be, must_be_one_of
from neatrec.io.addresses import is_address, is_address_as_path
from neatrec.text import parse_moment, printable

if TYPE_CHECKING:
    from neatrec.data.baskets import Baskets

COLUMNS, ROWS, PLACE = "Columns of SOURCE", "Rows of SOURCE", "Databases and addresses"


class OptionInfo(NamedTuple):
    """What a field of `SourceOptions` carries for the command line, TOML and the check of its value."""

    help: str
    metavar: str
    kind: str
    """"text", "columns" (one or more names), "file", "query", "flag" or "limit" (a number or a share)."""
    panel: str | None
    """The heading in `--help`; None: not on the command line."""


def option(help: str, metavar: str = "COLUMN", kind: str = "text", panel: str | None = COLUMNS) -> Any:
    """A field of `SourceOptions`."""
    default: Any = {"columns": (), "flag": False}.get(kind)
    return field(default=default, metadata={"info": OptionInfo(help, metavar, kind, panel)})


@dataclass(frozen=True)
class SourceOptions:
    """What a table of basket lines means. Columns that are not named are not read."""

    basket: str | None = option("Take this column for the order, receipt or transaction of a line.")
    item: str | None = option("Take this column for the item of a line.")
    user: str | None = option(
        "Take this column for the customer; a basket without one counts as a customer of its own."
    )
    position: str | None = option(
        "Take this column for the order in which lines went into the cart: a number that rises. Default: order not "
        "known."
    )
    time: str | None = option(
        "Take this column for when the basket was bought: ISO 8601, 31.01.2024, or a count since 1970."
    )
    time_of_day: str | None = option("Take this column for the time of day, where --time holds dates alone.")
    time_format: str | None = option(
        "Read times that are written so, in the signs of strptime, such as %d.%m.%Y %H:%M.", "FORMAT"
    )
    name: str | None = option("Take this column for the item's name; in the lines or in the catalogue.")
    category: tuple[str, ...] = option(
        "Take this column for the item's category, in the lines or in the catalogue; give it again for each deeper "
        "level.",
        kind="columns",
    )
    group: str | None = option("Count items with the same value of this column as one item: variants of one product.")
    quantity: str | None = option("Leave out lines with a quantity of zero or less in this column: they are returns.")
    attributes: tuple[str, ...] = option("Columns that describe the whole basket.", kind="columns", panel=None)
    catalog: Any = option(
        "Read items, bought or not, from this file (in Python also a data frame): one row per item.",
        "FILE",
        kind="file",
    )
    catalog_item: str | None = option(
        "Take this column of the catalogue for the item, if its name differs from that in the lines."
    )
    since: str | None = option("Leave out baskets before this date.", "DATE", panel=ROWS)
    until: str | None = option("Leave out baskets from this date on.", "DATE", panel=ROWS)
    exclude_items: Path | None = option(
        "Leave out the items whose ids stand in this text file, one per line.", "FILE", "file", ROWS
    )
    exclude_item: tuple[str, ...] = option("Leave out the item with this id; may be repeated.", "ID", "columns", ROWS)
    max_bad_rows: str | int | None = option(
        "Allow so many unreadable rows: a number or a share. Default: none.", "N|%", "limit", ROWS
    )
    rejects: Path | None = option(
        "Write unreadable rows into this file. Default: named after the source.", "FILE", "file", ROWS
    )
    basket_per_line: bool = option(
        "Read each line of the file as one basket, a list of its items; there is no header.", "", "flag", ROWS
    )
    delimiter: str | None = option(
        "Split the fields of CSV at this character. Default: taken from the header.", "CHARACTER", panel=ROWS
    )
    encoding: str | None = option(
        "Decode CSV by this encoding. Default: UTF-8, or what a byte order mark says.", "NAME", panel=ROWS
    )
    query: str | Path | None = option(
        "Read what the SELECT in this file gives (in Python also the text of one), from a database.",
        "FILE.sql",
        "query",
        PLACE,
    )
    table: str | None = option("Read this table or view of a database. Default: the only one.", "NAME", panel=PLACE)
    allow_remote: bool = option("Download SOURCE from its https:// or s3:// address.", "", "flag", PLACE)

    def __post_init__(self) -> None:
        for name, info in option_infos().items():
            value = getattr(self, name)
            if info.kind == "text" and not isinstance(value, str | None):
                raise must_be(name, "text", value)
            if info.kind == "flag" and not isinstance(value, bool | None):
                raise must_be(name, "true or false", value)
            if info.kind in ("file", "query") and isinstance(value, str | Path):
                if is_address_as_path(str(value)):  # not repeated: it may hold a password
                    raise ParameterError(f"`{name}` must be a file on this machine, not an address", argument=name)
                if info.kind == "file" or str(value).endswith(".sql"):
                    object.__setattr__(self, name, Path(value))
            if info.kind == "columns":
                several = isinstance(value, Iterable | None) and not isinstance(value, str | Mapping)
                columns = tuple(value or ()) if several else (value,)
                object.__setattr__(self, name, columns)
                if not all(isinstance(column, str) for column in columns) or len(set(columns)) != len(columns):
                    what = "ids" if info.metavar == "ID" else "names of columns"
                    raise must_be(name, f"{what} that differ", columns)
        if self.query is not None and self.table is not None:
            raise must_be("table", "left out where `query` says what to read", self.table)
        if self.max_bad_rows is not None:
            bad_rows_allowed(self.max_bad_rows, 0)
        first, last = self.first_moment, self.end_moment
        if first is not None and last is not None and first >= last:
            raise must_be("since", f"before until ({self.until})", self.since)
        if self.time_format is not None:
            _check_time_format(self.time_format)
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


@cache
def option_infos() -> dict[str, OptionInfo]:
    """Name -> description of each option."""
    return {each.name: each.metadata["info"] for each in fields(SourceOptions)}


def options_from(options: SourceOptions | None, columns: dict[str, Any]) -> SourceOptions:
    """`options` with keyword arguments laid over them; an unknown keyword is an error with a suggestion."""
    known = list(option_infos())
    for name in columns:
        if name not in known:
            raise must_be_one_of("keyword argument", known, name)
    return replace(options or SourceOptions(), **columns)


def microseconds(argument: str, text: str) -> int:
    """`text` as microseconds since 1970."""
    try:
        return parse_moment(text)
    except (ValueError, TypeError) as error:
        raise must_be(argument, "a date such as 2024-01-31 or 2024-01-31T12:00", text) from error


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


def _check_time_format(text: str) -> None:
    noon = datetime(2024, 1, 31, 12, tzinfo=UTC)
    try:
        whole = datetime.strptime(noon.strftime(text), text).date() == noon.date()
    except ValueError:
        whole = False
    if not whole:
        raise must_be("time_format", "the signs of a whole date, such as %d.%m.%Y %H:%M or %m/%d/%y", text)


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
            flags = [f"--{'strata' if each == 'attributes' else each.replace('_', '-')}" for each in allowed]
            trouble = f"knows its own columns: `{name}` does not apply"
            raise bad_file(source, trouble, argument=name, hint=f"It takes only {', '.join(flags)}.")


def require_attributes(source: str, options: SourceOptions, baskets: Baskets) -> None:
    """An error for an attribute that the baskets of `source` do not have."""
    for name in options.attributes:
        if name not in baskets.attributes:
            found = ", ".join(baskets.attributes) or "none"
            raise SourceError(
                f"{printable(source)} has no attribute {printable(repr(name))}; it has: {found}", column=name
            )


KEYWORD_SOURCES = ("supermarket", "complete-journey")


def is_keyword_source(source: str) -> bool:
    """Whether `source` names a data set rather than a file."""
    return source.split(":", 1)[0] in KEYWORD_SOURCES


def read_source_toml(path: str | Path) -> tuple[str, SourceOptions]:
    """The source and the options of a `source.toml`; its paths are relative to the file."""
    path, keys = Path(path), ["source", *option_infos()]
    table = read_toml(path)
    for key in ["source", *table]:
        trouble = "is not a key of source.toml" if key not in keys else "is missing" if key not in table else None
        if trouble or not isinstance(table["source"], str):
            hint = did_you_mean(key, keys, f"It may hold {', '.join(keys)}.")
            hint = 'Such as: source = "orders.csv"' if key == "source" else hint
            raise bad_file(path, f"has a wrong key {printable(repr(key))}: {trouble or 'must be text'}", hint=hint)
    source, folder = table.pop("source"), path.parent
    if not is_keyword_source(source) and not is_address(source):
        source = str(folder / source)
    try:
        for name, value in table.items():
            if option_infos()[name].kind in ("file", "query"):
                if not isinstance(value, str):
                    raise must_be(name, "the name of a file", value)
                table[name] = folder / value
            elif name in ("since", "until") and isinstance(value, date):  # TOML has dates of its own
                table[name] = value.isoformat()
        return source, SourceOptions(**table)
    except InputError as error:
        raise SourceError(f"{printable(path)}: {error.message}", file=str(path), hint=error.hint) from error


def read_toml(path: Path) -> dict[str, Any]:
    """What a TOML file holds."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SourceError(f"cannot read {printable(path)}: {error.strerror}", file=str(path)) from error
    except ValueError as error:  # no TOML, no UTF-8, or a NUL in the path
        raise bad_file(path, f"is not TOML: {printable(error)}") from error
