"""JSON lines (or a list of objects) as a table: one row per object, one column per key, values as text."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from uuid import uuid4

from neatrec.errors import SourceError, bad_file
from neatrec.io.duckdb_session import DISK_FULL, both_names, session
from neatrec.io.files import SourceFile
from neatrec.io.tables import InputTable, literal, plain_path, quoted
from neatrec.text import printable

SCAN = "read_json(?, format = 'auto', compression = ?, sample_size = -1, maximum_depth = 1)"
GZIP = b"\x1f\x8b"


def json_table(file: SourceFile, folder: Path) -> InputTable | None:
    """The table in `file`, or None when there is nothing in it."""
    import duckdb

    path, target = plain_path(file.path, folder), folder / f"rows-{uuid4().hex}.parquet"
    with session(both_names(path), folder) as connection:
        parameters = [str(path), "gzip" if _is_packed(file.path) else "none"]
        try:
            names = [row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {SCAN}", parameters).fetchall()]
            nested = ", ".join(f"bool_or(json_type({quoted(name)}) IN ('ARRAY', 'OBJECT'))" for name in names)
            rows, *are_nested = connection.execute(
                f"SELECT count(*), {nested} FROM {SCAN}", parameters
            ).fetchall()[0]  # fmt: skip
            chosen = [_text(name, bool(is_nested)) for name, is_nested in zip(names, are_nested, strict=True)]
            if not rows:
                return None
            connection.execute(
                f"COPY (SELECT {', '.join(chosen)} FROM {SCAN}) TO {literal(target)} (FORMAT parquet)", parameters
            )
        except (duckdb.InvalidInputException, duckdb.IOException) as error:
            if re.search(DISK_FULL, str(error)):
                raise  # not the file's fault
            raise _no_json(file, error) from error
    if names == ["json"]:  # what the database calls a row that is no object
        trouble = 'must hold one JSON object per line, such as {"order_id": 1, "sku": "tea"}'
        raise bad_file(file.shown, trouble, hint="`jq -c '.[]'` writes a list so.")
    return InputTable(file.shown, tuple(names), parquet=target)


def _text(name: str, is_nested: bool) -> str:
    """The value of a key as text; a whole number has no decimal point; lists and objects stay what no id can be."""
    value = quoted(name)
    if is_nested:
        return f"[CAST({value} AS VARCHAR)] AS {value}"
    text = f"({value} ->> '$')"
    whole = f"regexp_replace({text}, '\\.0+$', '')"
    return f"CASE WHEN json_type({value}) = 'DOUBLE' THEN {whole} ELSE {text} END AS {value}"


def _is_packed(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(2) == GZIP


def _no_json(file: SourceFile, error: Exception) -> SourceError:
    """The first line that is no JSON: the database counts lines by thread."""
    number = 0
    try:
        with (gzip.open if _is_packed(file.path) else open)(file.path, "rb") as stream:
            for line in stream:
                number += 1
                if line.strip():
                    json.loads(line)
    except (OSError, EOFError) as broken:
        return bad_file(file.shown, f"is damaged or cut off: {printable(broken)}", hint="Copy or export it again.")
    except ValueError as wrong:  # no JSON, or no UTF-8
        hint = "Each line must hold one object; cut-off exports end in the middle of one."
        return bad_file(file.shown, f"is no JSON: {printable(wrong)}", line=number, hint=hint)
    first = str(error).split("\n", 1)[0].removeprefix("Invalid Input Error: ")
    return SourceError(f"cannot read {printable(file.shown)}: {printable(first, 200)}", file=file.shown)
