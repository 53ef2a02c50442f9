"""A basket store: a folder of Parquet parts to which each import adds orders, read like any other SOURCE.

`store.json` names the parts with their sizes and hashes. It is replaced last: an import that is killed or fails leaves
the store as it was, and the files it wrote are removed by the next import.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from neatrec.data.baskets import Baskets
from neatrec.data.catalog import UNKNOWN, string_array
from neatrec.errors import SourceError, bad_file, writing
from neatrec.io.assemble import BasketSink, CollectedLines, Taken, assemble, bought_items
from neatrec.io.columns import Columns
from neatrec.io.duckdb_session import ReadContext, described, in_database, rows_in, workspace
from neatrec.io.files import open_file, unreadable
from neatrec.io.items import ItemTable, ItemTexts, merged
from neatrec.io.options import SourceOptions, refuse_options
from neatrec.io.read import resolve_options, take_source
from neatrec.io.tables import InputTable, literal, open_filled, quoted
from neatrec.io.tabular import read_frame, stage
from neatrec.text import printable

log = logging.getLogger(__name__)
FORMAT_VERSION = 1
MANIFEST, LOCK = "store.json", ".lock"
OUR_FILES = re.compile(r"(lines|items)-\d{6}\.parquet|neatrec-.*|\.lock|\.store\.json\.new")
STORE_OPTIONS = ("attributes", "since", "until", "exclude_items", "exclude_item")
OPTIONAL_ROLES = ("position", "user", "time")


@dataclass(frozen=True)
class StoreSchema:
    """What the lines and items of a store hold; every import must bring the same."""

    roles: tuple[str, ...]
    """Which of position, user and time are known."""
    attributes: tuple[str, ...]
    levels: tuple[str, ...]
    named: bool
    nested: bool

    def columns(self) -> Columns:
        """The columns of the lines as `InputTable` names them: a colon sets ours apart from attributes."""
        optional: dict[str, Any] = {role: f":{role}" for role in self.roles}
        return Columns(":basket", ":item", attributes=self.attributes, **optional)


@dataclass(frozen=True)
class StoreFile:
    """A file of a store as it was written."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class StorePart:
    """The orders of one import."""

    lines_file: StoreFile
    items_file: StoreFile
    baskets: int
    lines: int
    source: str
    dropped: Mapping[str, int]


@dataclass(frozen=True)
class StoreManifest:
    """The content of `store.json`."""

    schema: StoreSchema
    parts: tuple[StorePart, ...]
    next_number: int


@dataclass(frozen=True)
class ImportResult:
    """What an import did, and what the store holds now."""

    baskets: int
    lines: int
    replaced: int
    store_baskets: int
    store_lines: int
    parts: int
    dropped: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def is_store(source: str) -> bool:
    """Whether `neatrec import` wrote the folder `source`."""
    return os.path.isfile(os.path.join(source, MANIFEST))


def import_baskets(
    source: str | Path, folder: str | Path, options: SourceOptions | None = None, *, replace: bool = False
) -> ImportResult:
    """Add the baskets of `source` to the store in `folder`, which is made where there is none.

    A basket id that the store has already is an error that names it, unless `replace`: then the new basket takes the
    place of the old one. Names, groups and categories of items may change: those of the newest import count.
    """
    source, options = resolve_options(str(source), options or SourceOptions())
    folder = Path(folder)
    with writing("the basket store", folder, "The store is as it was before."), _locked(folder):
        before = _read_manifest(folder) if is_store(str(folder)) else None
        _remove_leftovers(folder, before)
        if before is not None and is_store(source) and folder.samefile(source):
            raise bad_file(source, "cannot be imported into itself")
        sink = BasketSink(partial(_write_part, folder=folder, before=before), folder)
        part, schema = take_source(
            source, options, sink, lambda baskets: read_frame(*as_frames(baskets), sink, source, nested=False)
        )
        return _commit(folder, before, part, schema, replace_old=replace)


def take_store(source: str, options: SourceOptions, sink: BasketSink[Taken]) -> Taken:
    """What `sink` makes of the orders in a store."""
    refuse_options(source, options, STORE_OPTIONS)
    folder, manifest = Path(source), _read_manifest(Path(source))
    columns = manifest.schema.columns()
    for part in manifest.parts:
        _verify(folder, part.lines_file)
        _verify(folder, part.items_file)

    def opened(work: Path) -> list[InputTable]:
        return [_lines_table(folder, part.lines_file, manifest.schema, work) for part in manifest.parts]

    def collect(context: ReadContext, tables: Sequence[InputTable]) -> CollectedLines:
        stage(context, [described(context.connection, table) for table in tables], columns)
        collected = assemble(context, columns, _read_items(folder, manifest, bought_items(context.connection)))
        dropped = Counter(collected.dropped)
        for part in manifest.parts:
            dropped.update(part.dropped)
        return replace(collected, dropped=dict(dropped))

    return sink.read(source, options, opened, collect)


def as_frames(baskets: Baskets) -> tuple[pa.Table, SourceOptions]:
    """Baskets that are in memory as a table of lines, and options that name its columns and hold the catalogue."""
    catalog, basket = baskets.catalog, baskets.basket_of_line
    lines = {":basket": baskets.ids.take(pa.array(basket)), ":item": catalog.ids.take(pa.array(baskets.items))}
    if baskets.ordered:
        lines[":position"] = pa.array(np.arange(baskets.lines) - baskets.offsets[basket])
    if baskets.users is not None and baskets.user_ids is not None:
        lines[":user"] = baskets.user_ids.take(pa.array(baskets.users[basket]))
    if baskets.times is not None:
        lines[":time"] = pa.array(baskets.times[basket], pa.timestamp("us"))
    for name, attribute in baskets.attributes.items():
        lines[name] = string_array(attribute.names).take(pa.array(attribute.codes[basket]))
    variants = catalog.code_of_variant
    none: list[str | None] = [None] * len(variants)
    items = {":item": string_array([*catalog.ids.to_pylist(), *variants])}
    if catalog.names is not None:
        items[":name"] = string_array([*catalog.names.to_pylist(), *none])
    if variants:
        items[":group"] = string_array([*[None] * len(catalog), *map(catalog.id, variants.values())])
    for level, names in zip(catalog.levels, catalog.category_names, strict=True):
        codes = catalog.category_of(level).tolist()
        items[level] = string_array([*(None if code == UNKNOWN else names[code] for code in codes), *none])
    roles: dict[str, Any] = {name[1:]: name for name in (*lines, *items) if name.startswith(":")}
    attributes = tuple(baskets.attributes)
    options = SourceOptions(**roles, category=catalog.levels, attributes=attributes, catalog=pa.table(items))
    return pa.table(lines), options


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """`folder`, made where it is not there, for this import alone."""
    if folder.exists() and not is_store(str(folder)):
        others = sorted(file.name for file in folder.iterdir() if not OUR_FILES.fullmatch(file.name))
        if others:
            trouble = f"is not a basket store: it holds {printable(others[0])}"
            raise bad_file(folder, trouble, hint="Name a new or empty folder.")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SourceError(
                f"another import is writing to {printable(folder)}",
                file=str(folder),
                hint="Run this one again when the other has ended.",
            ) from error
        yield


def _remove_leftovers(folder: Path, manifest: StoreManifest | None) -> None:
    """Remove what a killed import wrote, and files that the last import replaced (readers may have needed them)."""
    parts = manifest.parts if manifest else ()
    known = {LOCK, *(file.name for part in parts for file in (part.lines_file, part.items_file))}
    for file in folder.iterdir():
        if OUR_FILES.fullmatch(file.name) and file.name not in known:
            shutil.rmtree(file) if file.is_dir() else file.unlink()


def _write_part(
    collected: CollectedLines, *, folder: Path, before: StoreManifest | None
) -> tuple[StorePart, StoreSchema]:
    """Write the lines and items that were found; no manifest names them yet."""
    columns, items, context = collected.columns, collected.items, collected.context
    roles = tuple(role for role in OPTIONAL_ROLES if getattr(columns, role) is not None)
    schema = StoreSchema(roles, columns.attributes, items.levels, items.named, items.nested)
    if before is not None:
        _require_same(schema, before.schema, context.source, folder)
    number = before.next_number if before else 1
    value = {"position": "kept.position", "user": "basket.customer", "time": "make_timestamp(basket.moment)"}
    chosen = [f"{value[role]} AS {quoted(role)}" for role in roles]
    chosen += [f"basket.a{i} AS {quoted(f'attribute:{name}')}" for i, name in enumerate(columns.attributes)]
    select = f"SELECT {', '.join(['kept.basket', 'kept.item', *chosen])} FROM kept JOIN basket USING (basket)"
    target = context.folder / f"lines-{number:06d}.parquet"
    _copy(context.connection, select, [], target)
    lines_file = _keep(target, folder)
    baskets = rows_in(context.connection, "basket")
    items_file = _write_items(collected, folder, f"items-{number:06d}.parquet")
    return StorePart(lines_file, items_file, baskets, collected.lines, context.source, collected.dropped), schema


def _require_same(schema: StoreSchema, known: StoreSchema, source: str, folder: Path) -> None:
    for name, there in asdict(known).items():
        here = getattr(schema, name)
        if here != there:
            shown = [", ".join(v) or "none" if isinstance(v, tuple) else "yes" if v else "no" for v in (here, there)]
            what = {"roles": "columns", "named": "item names", "nested": "nested category names"}.get(name, name)
            raise bad_file(
                source,
                f"does not fit the store {printable(folder)}: its {what} are {printable(shown[0])}, those of the store "
                f"{printable(shown[1])}",
                hint="Name the same columns in every import.",
            )


def _copy(connection: Any, select: str, parameters: list[Any], target: Path) -> None:
    """The rows of `select` as a Parquet file, sorted by basket."""
    copied = f"COPY ({select} ORDER BY ALL) TO {literal(target)} (FORMAT parquet, COMPRESSION zstd)"
    connection.execute(copied, parameters)


def _keep(written: Path, folder: Path) -> StoreFile:
    """A file that was written beside, renamed into the store once it is safe on disk."""
    with written.open("rb") as stream:
        os.fsync(stream.fileno())
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    size = written.stat().st_size
    os.replace(written, folder / written.name)
    return StoreFile(written.name, size, digest)


def _write_items(collected: CollectedLines, folder: Path, name: str) -> StoreFile:
    """Every item of the import with its texts; `listed` where it stays even if no line holds it any more."""
    items, ids, context = collected.items, sorted(collected.code_of), collected.context
    in_lines = context.connection.execute("SELECT DISTINCT kept.item FROM kept JOIN basket USING (basket)").fetchall()
    only_in_lines = {item for (item,) in in_lines} - items.listed
    texts = [items.texts.get(item, ItemTexts()) for item in ids]
    columns = {
        "item": string_array(ids),
        "listed": pa.array([item not in only_in_lines for item in ids]),
        "name": string_array([about.name for about in texts]),
        "group": string_array([about.group for about in texts]),
    }
    for i, level in enumerate(items.levels):
        columns[f"category:{level}"] = string_array([about.path[i] if about.path else None for about in texts])
    pq.write_table(pa.table(columns), context.folder / name, compression="zstd")
    return _keep(context.folder / name, folder)


def _read_items(folder: Path, manifest: StoreManifest, bought: Mapping[str, int]) -> ItemTable:
    """The items of all parts: the newest import says what an item is called and where it belongs."""
    texts: dict[str, ItemTexts] = {}
    listed: set[str] = set()
    levels = manifest.schema.levels
    for part in manifest.parts:
        table = pq.read_table(folder / part.items_file.name).to_pydict()
        none = [()] * len(table["item"])
        paths = zip(*(table[f"category:{level}"] for level in levels), strict=True) if levels else none
        rows = zip(table["item"], table["name"], table["group"], paths, strict=True)
        newer = {item: ItemTexts(name, group, tuple(path)) for item, name, group, path in rows}
        texts = merged(newer, texts)
        listed |= {item for item, stays in zip(table["item"], table["listed"], strict=True) if stays}
    kept = {item: about for item, about in texts.items() if item in listed or item in bought}
    return ItemTable(kept, levels, manifest.schema.named, manifest.schema.nested, frozenset(listed))


def _lines_table(folder: Path, file: StoreFile, schema: StoreSchema, work: Path) -> InputTable:
    table = open_filled(open_file(folder / file.name), work)
    return replace(table, columns=(":basket", ":item", *(f":{role}" for role in schema.roles), *schema.attributes))


def _commit(
    folder: Path, before: StoreManifest | None, part: StorePart, schema: StoreSchema, *, replace_old: bool
) -> ImportResult:
    """Add `part` to the manifest: from here on the store holds it."""
    old, replaced, number = ((), 0, 2) if before is None else _without(folder, before, part, replace_old)
    manifest = StoreManifest(schema, (*old, part), number)
    _write_manifest(folder, manifest)
    return ImportResult(
        part.baskets,
        part.lines,
        replaced,
        sum(each.baskets for each in manifest.parts),
        sum(each.lines for each in manifest.parts),
        len(manifest.parts),
        part.dropped,
    )


def _without(
    folder: Path, before: StoreManifest, part: StorePart, replace_old: bool
) -> tuple[tuple[StorePart, ...], int, int]:
    """The older parts without the baskets of `part`, how many those were, and the next free number."""
    with workspace(folder) as work:
        new = _lines_table(folder, part.lines_file, before.schema, work)
        tables = [_lines_table(folder, each.lines_file, before.schema, work) for each in before.parts]
        (theirs, ours) = new.scan()

        def without(connection: Any) -> tuple[tuple[StorePart, ...], int, int]:
            rows = []
            for table in tables:
                scan, parameters = table.scan()
                select = f"SELECT count(DISTINCT basket), count(*), min(basket) FROM {scan}"
                query = f"{select} WHERE basket IN (SELECT basket FROM {theirs})"
                rows += connection.execute(query, [*parameters, *ours]).fetchall()
            shared = sum(baskets for baskets, _, _ in rows)
            if shared and not replace_old:
                first = min(basket for _, _, basket in rows if basket is not None)
                more = "" if shared == 1 else f" (the first of {shared:,})"
                raise SourceError(
                    f"basket {printable(repr(first))} of {printable(part.source)} is in the store already{more}",
                    file=part.source,
                    hint="Leave it out, or give --replace to replace what the store has.",
                )
            parts, number = [], before.next_number + 1
            for each, table, (baskets, lines, _) in zip(before.parts, tables, rows, strict=True):
                if baskets:
                    scan, parameters = table.scan()
                    select = f"SELECT * FROM {scan} WHERE basket NOT IN (SELECT basket FROM {theirs})"
                    target = work / f"lines-{number:06d}.parquet"
                    _copy(connection, select, [*parameters, *ours], target)
                    number += 1
                    left = (each.baskets - baskets, each.lines - lines)
                    each = replace(each, lines_file=_keep(target, folder), baskets=left[0], lines=left[1])
                parts.append(each)
            return tuple(parts), shared, number

        return in_database([new, *tables], work, without, source=str(folder))


def _write_manifest(folder: Path, manifest: StoreManifest) -> None:
    beside = folder / f".{MANIFEST}.new"
    with beside.open("w") as stream:
        json.dump({"format": FORMAT_VERSION, **asdict(manifest)}, stream, indent=1)
        stream.flush()
        os.fsync(stream.fileno())
    _sync_folder(folder)  # the parts must be there before they are named
    os.replace(beside, folder / MANIFEST)
    _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read_manifest(folder: Path) -> StoreManifest:
    file = folder / MANIFEST
    try:
        about = json.loads(file.read_text())
        if about["format"] != FORMAT_VERSION:
            found = printable(repr(about["format"]))
            raise bad_file(folder, f"has store format {found}, this version reads {FORMAT_VERSION}")
        schema: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in about["schema"].items()}
        parts = [
            StorePart(
                **{**part, "lines_file": StoreFile(**part["lines_file"]), "items_file": StoreFile(**part["items_file"])}
            )
            for part in about["parts"]
        ]
        return StoreManifest(StoreSchema(**schema), tuple(parts), int(about["next_number"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(f"cannot read {printable(file)}: {printable(error)}", file=str(file)) from error


def _verify(folder: Path, file: StoreFile) -> None:
    """An error where a file is not the one that was written."""
    path = folder / file.name
    try:
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise unreadable(path, error) from error
    if digest != file.sha256:
        hint = "Restore it from a copy, or import the orders into a new folder."
        raise bad_file(path, f"is damaged: its hash is not the one in {MANIFEST}", hint=hint)
