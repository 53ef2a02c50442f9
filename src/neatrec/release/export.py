"""`neatrec export`: the answers as a file, as a shop system imports them, or in a database."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from neatrec.bundle.folder import replacing
from neatrec.errors import must_be, must_be_one_of
from neatrec.io.addresses import holds_password, is_address, parse_address
from neatrec.release.export_databases import KEY, TABLE, write_postgres, write_redis
from neatrec.release.export_rows import AllAnswers, write_csv, write_parquet
from neatrec.release.export_shops import SHOPS, shop_table
from neatrec.serving import Filters, PairTable
from neatrec.text import plural, printable

__all__ = ["ExportOptions", "export_answers"]

log = logging.getLogger(__name__)

FILES = ("parquet", "csv", "jsonl")
"""Targets that the ending of a file names."""
SERVERS = {"postgresql": "postgres", "postgres": "postgres", "redis": "redis", "rediss": "redis"}
"""The scheme of an address -> the target."""
DATABASES = ("postgres", "redis")
TARGETS = (*FILES, *SHOPS, *DATABASES)


@dataclass(frozen=True)
class ExportOptions:
    """Target and contents of an export."""

    target: str | None = None
    """One of `TARGETS`; None: by the address, or the ending of the file."""
    out: str | Path | None = None
    """A file, or the address of a server; None: named after the target."""
    k: int = 10
    min_evidence: str | None = None
    """None: likely; for items that nobody has bought, the answers of their category."""
    same_category: str | None = None
    """Position of answers from the item's own category: last, exclude, mix; None: as trained."""
    products: Path | None = None
    """The product export of a shop system."""
    table: str | None = None
    """The table in PostgreSQL, or the key in Redis."""


class Exported(NamedTuple):
    """A finished export."""

    target: str
    out: str
    """A path, or an address without user and parameters."""
    answers: int
    left_out: tuple[str, ...] = ()
    """Items that the target cannot hold."""


def export_answers(index: PairTable, options: ExportOptions) -> Exported:
    """Write the first `k` answers with enough evidence of each item, as `recommend` gives them."""
    target = options.target or _target_of(options.out)
    out = _checked_out(target, options)
    filters = Filters(options.k, options.min_evidence, same_category=options.same_category)
    answers, left_out = AllAnswers(index, filters), list[str]()
    if target == "postgres":
        write_postgres(answers.tables(), out, options.table or TABLE)
    elif target == "redis":
        write_redis(answers.documents(evidence=False), out, options.table or KEY)
    else:
        with replacing(Path(out)) as unfinished:
            if target in SHOPS:
                rows, left_out = shop_table(answers, SHOPS[target], options.products)
                write_csv([rows], unfinished)
            elif target == "jsonl":
                lines = (f"{document}\n" for _, document in answers.documents())
                with unfinished.open("w", encoding="utf-8", newline="\n") as stream:
                    stream.writelines(lines)
            else:
                write = write_csv if target == "csv" else write_parquet
                write(answers.tables(), unfinished)
    if left_out:
        items, example = plural(len(left_out), "item"), printable(left_out[0])
        log.warning("left out %s that %s cannot hold, such as %s", items, target, example)
    shown = parse_address(out).shown if is_address(out) else out
    return Exported(target, shown, answers.count, tuple(left_out))


def _target_of(out: str | Path | None) -> str:
    if out is None:
        return "parquet"
    scheme, address, _ = str(out).partition("://")
    found = SERVERS.get(scheme) if address else Path(out).suffix.removeprefix(".")
    if found not in (*FILES, *DATABASES):
        endings = ", ".join(f".{ending}" for ending in FILES)
        wanted = f"an address of PostgreSQL or Redis, or a name that ends in {endings}"
        hint = f"Or choose --for: {', '.join(TARGETS)}."
        raise must_be("out", wanted, _shown(out), hint=hint)
    return found


def _shown(out: str | Path | None) -> str | None:
    """For a message: of an address only its scheme, because it may hold a password."""
    scheme, address, _ = str(out).partition("://")
    if address:
        return f"{scheme}://..."
    if is_address(str(out)) or holds_password(str(out)):
        return "..."
    return None if out is None else str(out)


def _checked_out(target: str, options: ExportOptions) -> str:
    """The file or address, once the options are known to fit the target."""
    if target not in TARGETS:
        raise must_be_one_of("for", TARGETS, target)
    if options.products is not None and target not in SHOPS:
        raise must_be("products", f"left out, except for {', '.join(SHOPS)}", str(options.products))
    if options.table is not None and target not in DATABASES:
        raise must_be("table", f"left out, except for {', '.join(DATABASES)}", options.table)
    most = SHOPS[target].most if target in SHOPS else None
    if most is not None and options.k > most:
        raise must_be("k", f"at most {most} for {SHOPS[target].name}", options.k)
    scheme, address, _ = str(options.out).partition("://")
    if target in DATABASES and not (address and SERVERS.get(scheme) == target):
        example = next(name for name, server in SERVERS.items() if server == target)
        wanted = f"an address such as {example}://host for --for {target}"
        raise must_be("out", wanted, _shown(options.out))
    if address and target not in DATABASES:
        raise must_be("out", f"a file for --for {target}", _shown(options.out))
    default = f"neatrec-answers.{target}" if target in FILES else f"neatrec-{target}.csv"
    return str(options.out or default)
