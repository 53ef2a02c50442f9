"""JSON lines (or a list of objects) as a table: one row per object, one column per key."""

from __future__ import annotations

import gzip
import json

from neatrec.errors import SourceError, bad_file
from neatrec.io.database import Database
from neatrec.io.files import SourceFile
from neatrec.io.tables import InputTable, plain_path, quoted, spooled
from neatrec.text import printable

SCAN = "read_json(?, format = 'auto', compression = ?, sample_size = -1, maximum_depth = 1)"
GZIP = b"\x1f\x8b"
FLAGS = (
    "bool_or(json_type({0}) IN ('ARRAY', 'OBJECT')), "
    "bool_and(({0} ->> '$') IS NULL OR (json_type({0}) IN ('BIGINT', 'UBIGINT') "
    "AND TRY_CAST({0} ->> '$' AS BIGINT) IS NOT NULL))"
)
"""Of a column: whether some value is a list or object, and whether all are integers."""


def json_table(database: Database, file: SourceFile) -> InputTable | None:
    """The table in `file`, or None when there is nothing in it."""
    with file.path.open("rb") as stream:
        is_packed = stream.read(2) == GZIP
    parameters = [str(plain_path(file.path, database.folder)), "gzip" if is_packed else "none"]
    described = InputTable(file.shown, ())
    try:
        rows = database.rows(f"DESCRIBE SELECT * FROM {SCAN}", parameters, described)
        names = [row[0] for row in rows]
        kinds = ", ".join(FLAGS.format(quoted(name)) for name in names)
        found = database.rows(f"SELECT count(*), {kinds} FROM {SCAN}", parameters, described)
    except SourceError as error:
        raise _no_json(file, is_packed) or error from error
    count, *flags = found[0]
    if not count:
        return None
    if names == ["json"]:  # what the database calls a row that is no object
        trouble = 'must hold one JSON object per line, such as {"order_id": 1, "sku": "tea"}'
        raise bad_file(file.shown, trouble, hint="`jq -c '.[]'` writes a list so.")
    values = zip(names, flags[::2], flags[1::2], strict=True)
    columns = ", ".join(_value(name, bool(nested), bool(whole)) for name, nested, whole in values)
    texts = database.connection.sql(f"SELECT {columns} FROM {SCAN}", params=parameters)
    return spooled(file.shown, texts.to_arrow_reader(), database.folder)[1]


def _value(name: str, is_nested: bool, is_integer: bool) -> str:
    """The value of a key as text, or as the integers that all its values are.

    An integer has no decimal point; lists and objects stay what no id can be.
    """
    value = quoted(name)
    if is_nested:
        return f"[CAST({value} AS VARCHAR)] AS {value}"
    text = f"({value} ->> '$')"
    if is_integer:
        return f"CAST({text} AS BIGINT) AS {value}"
    whole = f"regexp_replace({text}, '\\.0+$', '')"
    return f"CASE WHEN json_type({value}) = 'DOUBLE' THEN {whole} ELSE {text} END AS {value}"


def _no_json(file: SourceFile, is_packed: bool) -> SourceError | None:
    """The first line that is not JSON: the database counts lines by thread."""
    number = 0
    try:
        with (gzip.open if is_packed else open)(file.path, "rb") as stream:
            for line in stream:
                number += 1
                if line.strip():
                    json.loads(line)
    except (OSError, EOFError) as broken:
        trouble = f"is damaged or cut off: {printable(broken)}"
        return bad_file(file.shown, trouble, hint="Copy or export it again.")
    except ValueError as wrong:  # no JSON, or no UTF-8
        hint = "Each line must hold one object; cut-off exports end in the middle of one."
        return bad_file(file.shown, f"is not JSON: {printable(wrong)}", line=number, hint=hint)
    return None
