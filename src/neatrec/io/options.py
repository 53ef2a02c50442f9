"""`SourceOptions`: roles of columns and rows to leave out, for Python, command line and TOML."""

from __future__ import annotations

import codecs
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from neatrec.errors import (
    InputError,
    ParameterError,
    SourceError,
    bad_file,
    did_you_mean,
    must_be,
    must_be_one_of,
)
from neatrec.io.addresses import holds_password, is_address, is_address_as_path
from neatrec.io.files import text_of
from neatrec.text import parse_moment, printable

if TYPE_CHECKING:
    from neatrec.data.baskets import Baskets

COLUMNS = "Columns of SOURCE (default: by usual names; none: not read)"
ROWS, PLACE = "Rows of SOURCE", "Databases"


class OptionInfo(NamedTuple):
    """A field of `SourceOptions` for the command line, TOML and the check of its value."""

    help: str
    metavar: str
    kind: str
    """"text", "columns" (one or more names), "file", "query", "flag" or "limit"."""
    panel: str | None
    """The heading in `--help`; None: not on the command line."""


def option(
    help: str, metavar: str = "COLUMN", kind: str = "text", panel: str | None = COLUMNS
) -> Any:
    """A field of `SourceOptions`."""
    default: Any = {"columns": (), "flag": False}.get(kind)
    return field(default=default, metadata={"info": OptionInfo(help, metavar, kind, panel)})


@dataclass(frozen=True)
class SourceOptions:
    """The meaning of a table of basket lines.

    Unnamed roles use columns with usual names; `none` leaves a role out.
    """

    basket: str | None = option("Column of the order, receipt or transaction.")
    item: str | None = option("Column of the item.")
    user: str | None = option(
        "Column of the customer; a basket without one counts as a customer of its own."
    )
    position: str | None = option("Column of the position in the cart, an increasing number.")
    time: str | None = option("Column of the time: ISO 8601, 31.01.2024, or a count since 1970.")
    time_format: str | None = option(
        "Format of the times, as for strptime, such as %d.%m.%Y %H:%M.", "FORMAT"
    )
    name: str | None = option("Column of the item's name, in the lines or in the catalogue.")
    category: tuple[str, ...] = option(
        "Column of the item's category, in the lines or in the catalogue; repeatable for deeper "
        "levels.",
        kind="columns",
    )
    group: str | None = option("Column of the product, whose variants count as one item.")
    quantity: str | None = option(
        "Column of the quantity; lines of zero or less are returns and left out."
    )
    price: str | None = option("Column of the price of one item, in the lines or in the catalogue.")
    attributes: tuple[str, ...] = option(
        "Columns that describe a basket.", kind="columns", panel=None
    )
    catalog: Any = option(
        "File of the items, bought or not, one row per item (in Python also a data frame).",
        "FILE",
        kind="file",
    )
    catalog_item: str | None = option(
        "Column of the item in the catalogue, if named differently there."
    )
    since: str | None = option("Date of the first baskets.", "DATE", panel=ROWS)
    until: str | None = option("Date from which baskets are left out.", "DATE", panel=ROWS)
    exclude_item: tuple[str, ...] = option(
        "Id of an item to leave out; repeatable.", "ID", "columns", ROWS
    )
    max_bad_rows: str | int | None = option(
        "Number or share of unreadable rows to accept. Default: none.", "N|%", "limit", ROWS
    )
    basket_per_line: bool = option(
        "One basket per line, a list of its items, without a header.", "", "flag", ROWS
    )
    delimiter: str | None = option(
        "Separator of CSV. Default: that of the header.", "CHARACTER", panel=ROWS
    )
    encoding: str | None = option(
        "Encoding of CSV. Default: that of the byte order mark, UTF-8, or Windows-1252.",
        "NAME",
        panel=ROWS,
    )
    query: str | Path | None = option(
        "File with a SELECT for a database (in Python also its text).", "FILE.sql", "query", PLACE
    )
    table: str | None = option(
        "Table or view of a database. Default: the only one.", "NAME", panel=PLACE
    )

    def __post_init__(self) -> None:
        for name, info in option_infos().items():
            object.__setattr__(self, name, _checked(name, info, getattr(self, name)))
        if self.query is not None and self.table is not None:
            raise must_be("table", "left out with `query`", self.table)
        if self.basket_per_line and (self.basket or self.item):
            wanted = "given without `basket` and `item`: its lines have no columns"
            raise must_be("basket_per_line", wanted, True)
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
        return _microseconds("since", self.since)

    @property
    def end_moment(self) -> int | None:
        """`until` as microseconds since 1970."""
        return _microseconds("until", self.until)

    def given(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        values = {f.name: (getattr(self, f.name), f.default) for f in fields(self)}
        # a catalogue may be a data frame, which compares element by element
        return {
            n: v
            for n, (v, default) in values.items()
            if (v is not None if n == "catalog" else v != default)
        }


def _checked(name: str, info: OptionInfo, value: Any) -> Any:
    """The value of an option: names of columns as a tuple, names of files as a path."""
    if info.kind == "text" and not isinstance(value, str | None):
        raise must_be(name, "text", value)
    if info.kind == "flag" and not isinstance(value, bool | None):
        raise must_be(name, "true or false", value)
    if info.kind in ("file", "query") and isinstance(value, str | Path):
        if is_address_as_path(str(value)) or holds_password(str(value)):  # not repeated
            message = f"`{name}` must be a file on this machine, not an address"
            raise ParameterError(message, argument=name)
        return Path(value) if info.kind == "file" or str(value).endswith(".sql") else value
    if info.kind == "columns":
        is_one = isinstance(value, str | Mapping) or not isinstance(value, Iterable | None)
        columns = (value,) if is_one else tuple(value or ())
        if not all(isinstance(each, str) for each in columns) or len(set(columns)) < len(columns):
            what = "ids" if info.metavar == "ID" else "names of columns"
            raise must_be(name, f"{what} that differ", columns)
        return columns
    return value


@cache
def option_infos() -> dict[str, OptionInfo]:
    """Name -> description of each option."""
    return {each.name: each.metadata["info"] for each in fields(SourceOptions)}


def options_from(options: SourceOptions | None, columns: dict[str, Any]) -> SourceOptions:
    """`options` with keyword arguments laid over them; an unknown keyword is an error."""
    known = list(option_infos())
    for name in columns:
        if name not in known:
            raise must_be_one_of("keyword argument", known, name)
    return replace(options or SourceOptions(), **columns)


def _microseconds(argument: str, text: str | None) -> int | None:
    try:
        return None if text is None else parse_moment(text)
    except ValueError as error:
        raise must_be(argument, "a date such as 2024-01-31 or 2024-01-31T12:00", text) from error


def bad_rows_allowed(limit: str | int, rows: int) -> int:
    """The number of bad rows among `rows` that the option `max_bad_rows` accepts.

    >>> bad_rows_allowed("0.5%", 1000), bad_rows_allowed("100", 1000), bad_rows_allowed(3, 5)
    (5, 100, 3)
    """
    wanted = 'an integer such as 100 or a share such as "0.5%"'
    text = str(limit).strip()
    if re.fullmatch(r"\d+", text):
        return int(text)
    if not re.fullmatch(r"\d+(\.\d+)?\s*%", text) or float(text[:-1]) > 100:
        raise must_be("max_bad_rows", wanted, limit)
    # in thousandths of a percent, so that 0.1% of 1,000 is 1 and not 0.9999
    return round(float(text[:-1]) * 1000) * rows // 100_000


def _check_encoding(name: str) -> None:
    try:
        codecs.lookup(name)
        "".encode(name)
    except (LookupError, ValueError) as error:  # a codec may refuse all text, or its name hold NUL
        wanted = "a text encoding such as utf-8, utf-16 or latin-1"
        raise must_be("encoding", wanted, name) from error


def refuse_options(source: str, options: SourceOptions, allowed: tuple[str, ...]) -> None:
    """An option that this source cannot honour is an error, not ignored."""
    flags = ["strata" if name == "attributes" else name.replace("_", "-") for name in allowed]
    hint = f"It takes only {', '.join(f'--{flag}' for flag in flags)}."
    for name in options.given():
        if name not in allowed:
            trouble = f"knows its own columns: `{name}` does not apply"
            raise bad_file(source, trouble, argument=name, hint=hint)


def require_attributes(source: str, options: SourceOptions, baskets: Baskets) -> None:
    """An error for an attribute that the baskets of `source` do not have."""
    for name in options.attributes:
        if name not in baskets.attributes:
            found = ", ".join(baskets.attributes) or "none"
            raise SourceError(
                f"{printable(source)} has no attribute {printable(repr(name))}; it has: {found}",
                column=name,
            )


DATA_SETS = ("supermarket", "complete-journey")
"""Sources that are no files."""


def read_source_toml(path: str | Path) -> tuple[str, SourceOptions]:
    """The source and the options of a `source.toml`; its paths are relative to the file."""
    path, table = Path(path), read_toml(Path(path))
    known = ["source", *option_infos()]
    for key in table:
        if key not in known:
            hint = did_you_mean(key, known, f"It may hold {', '.join(known)}.")
            raise bad_file(path, f"has an unknown key {printable(repr(key))}", hint=hint)
    source, folder = table.pop("source", None), path.parent
    if not isinstance(source, str):
        hint = 'Such as: source = "orders.csv"'
        raise bad_file(path, "must have the key 'source' with a text", hint=hint)
    if source.split(":", 1)[0] not in DATA_SETS and not is_address(source):
        source = str(folder / source)
    try:
        for name, value in table.items():
            if option_infos()[name].kind in ("file", "query") and isinstance(value, str):
                table[name] = folder / value
            elif name in ("since", "until") and isinstance(value, date):  # a date of TOML
                table[name] = value.isoformat()
        return source, SourceOptions(**table)
    except InputError as error:
        message = f"{printable(path)}: {error.message}"
        raise SourceError(message, file=str(path), hint=error.hint) from error


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file."""
    try:
        return tomllib.loads(text_of(path))
    except ValueError as error:
        raise bad_file(path, f"is not TOML: {printable(error)}") from error
