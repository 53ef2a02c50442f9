"""Basket lines that Spark reads by itself, from folders or tables the driver need not hold: ids, order, customers."""

from __future__ import annotations

import hashlib
import logging
from typing import Any

import numpy as np

from neatrec.cooccurrence import CountOptions
from neatrec.cooccurrence.count_input import check_basket_size
from neatrec.cooccurrence.counts import MAX_BASKET_PAIRS, Int64
from neatrec.cooccurrence.spark.lines import SparkLines, as_parts, data_frame
from neatrec.cooccurrence.spark.session import connect, translated_errors
from neatrec.data.catalog import Catalog, string_array
from neatrec.errors import SourceError, bad_file, must_be
from neatrec.io import SourceOptions
from neatrec.io.assemble import GUEST, shared_basket
from neatrec.io.columns import missing_column
from neatrec.io.items import ItemTable, ItemTexts, build_catalog
from neatrec.io.read import resolve_options
from neatrec.io.reading_rules import LARGEST_POSITION, MISSING
from neatrec.text import plural, printable

BLANK = "^[ \\t\\u00A0]+$"
TAKEN = ("basket", "item", "user", "position", "category")
"""Options of a source that are understood here."""
ROLES = {"basket": "basket", "item": "item", "customer": "user", "place": "position"}

log = logging.getLogger(__name__)


def read_spark_lines(
    source: str, options: SourceOptions, *, max_basket_pairs: int = MAX_BASKET_PAIRS, threads: int | None = None
) -> SparkLines:
    """One look over `source`: its items and basket sizes come to the driver, its lines do not.

    `source` is a folder, file or glob of Parquet or CSV that the executors can read (a path or any address Spark
    understands), or `table:NAME` of its catalogue. Ids are text, as everywhere; repeated lines of a basket are one. A
    basket with more than `max_basket_pairs` is refused before the items are collected. The hash is of source, columns
    and sizes, not of the lines.
    """
    source, options = resolve_options(source, options)
    others = [name for name in options.given() if name not in TAKEN]
    if others:
        wanted = "left out where Spark reads: it takes --basket, --item, --user, --position and --category"
        raise must_be(others[0], wanted, getattr(options, others[0]))
    if options.basket is None or options.item is None:
        raise must_be("basket" if options.basket is None else "item", "named where Spark reads", None)
    with translated_errors():
        session = connect(threads=threads).newSession()
        functions, _ = _functions()
        _refuse_bad_rows(session, source, options)
        lines = _distinct_lines(session, source, options).persist()
        try:
            by_basket = lines.groupBy("basket").agg(
                functions.count("*").alias("size"),
                functions.min("customer").alias("one"),
                functions.max("customer").alias("other"),
            )
            _refuse_shared(by_basket, options)
            sizes = {int(row["size"]): int(row["count"]) for row in by_basket.groupBy("size").count().collect()}
            if not sizes:
                raise SourceError(f"no basket lines are left of {printable(source)}", file=source)
            longest = by_basket.orderBy(functions.desc("size"), "basket").limit(1).collect()[0]["basket"]
            check_basket_size(longest, max(sizes), CountOptions(max_basket_pairs=max_basket_pairs))
            known = by_basket.where("one IS NOT NULL")
            again = options.user is not None and bool(known.groupBy("one").count().where("count > 1").limit(1).count())
            catalog, code_of, item_counts = _catalog(session, source, options, lines)
        finally:
            lines.unpersist()
    found = SparkLines(
        catalog,
        ordered=options.position is not None,
        users_known=options.user is not None,
        sizes=sizes,
        item_counts=item_counts,
        parts=lambda session, number, chosen=None: as_parts(_lines(session, source, options, code_of, number), chosen),
        longest_basket=longest,
        customers_return=again,
        source=source,
        hash=_hash(source, options, sizes, catalog),
    )
    log.info(
        "Spark reads %s, %s, %s",
        plural(found.lines, "line"),
        plural(len(found), "basket"),
        plural(len(catalog), "item"),
    )
    return found


def _lines(session: Any, source: str, options: SourceOptions, code_of: dict[str, int], number: int) -> Any:
    """The lines in so many partitions, sorted; the baskets of one customer are in one of them."""
    functions, window = _functions()
    codes = np.fromiter(code_of.values(), dtype=np.int32, count=len(code_of))
    lines = _distinct_lines(session, source, options).join(
        data_frame(session, item=string_array(code_of), code=codes), "item"
    )
    guest = functions.concat(functions.lit(GUEST), functions.col("basket"))
    of_basket = functions.min("customer").over(window.partitionBy("basket"))
    customer = functions.lit(None).cast("string") if options.user is None else functions.coalesce(of_basket, guest)
    lines = lines.select("basket", customer.alias("customer"), "place", functions.col("code").alias("item"))
    lines = lines.repartition(number, "basket" if options.user is None else "customer")
    return lines.sortWithinPartitions("customer", "basket", "place", "item")


def _hash(source: str, options: SourceOptions, sizes: dict[int, int], catalog: Catalog) -> str:
    text = f"{source}|{sorted(options.given().items())}|{sorted(sizes.items())}|{catalog.hash}"
    return hashlib.sha256(text.encode()).hexdigest()


def _functions() -> tuple[Any, Any]:
    from pyspark.sql import Window, functions

    return functions, Window


def _rows(session: Any, source: str, options: SourceOptions) -> Any:
    """The chosen columns, as text and numbers, with the file of each row."""
    functions, _ = _functions()
    if source.startswith("table:"):
        frame = session.table(source.removeprefix("table:"))
    elif source.rstrip("/*").endswith(("csv", "csv.gz")) or "csv" in source.rsplit("/", 1)[-1]:
        frame = session.read.option("header", True).option("mode", "FAILFAST").csv(source)
    else:
        frame = session.read.parquet(source)
    kinds = dict(frame.dtypes)
    named = {"basket": options.basket, "item": options.item, "customer": options.user, "place": options.position}
    named |= {f"k{level}": column for level, column in enumerate(options.category)}
    for role, column in named.items():
        if column is not None and column not in kinds:
            named_as = ROLES.get(role, "category")
            raise missing_column(source, {named_as: column}, named_as, tuple(kinds))
    chosen = [
        (functions.lit(None).cast("string") if column is None else _text(functions, column, kinds[column])).alias(role)
        for role, column in named.items()
    ]
    return frame.select(*chosen, functions.input_file_name().alias("file"))


def _text(functions: Any, name: str, kind: str) -> Any:
    """A column as text, null where it is missing; a whole number has no decimal point, whatever its type."""
    column = functions.col(f"`{name.replace('`', '``')}`")
    plain = column.cast("string")
    if kind == "string":
        missing = column.isin(*MISSING) | column.rlike(BLANK)
        return functions.when(missing, None).otherwise(plain)
    if kind in ("float", "double"):
        whole = (column == functions.floor(column)) & (functions.abs(column) <= LARGEST_POSITION)
        found = functions.when(whole, column.cast("bigint").cast("string")).otherwise(plain)
        return functions.when(functions.isnan(column), None).otherwise(found)
    return plain


def _distinct_lines(session: Any, source: str, options: SourceOptions) -> Any:
    """basket, item, place (its first) and customer: one row for each item of a basket."""
    functions, _ = _functions()
    rows = _rows(session, source, options).where("basket IS NOT NULL AND item IS NOT NULL")
    place = functions.min(functions.expr("try_cast(place AS double)")).alias("place")
    return rows.groupBy("basket", "item").agg(place, functions.min("customer").alias("customer"))


def _refuse_bad_rows(session: Any, source: str, options: SourceOptions) -> None:
    """A file without a single id has other columns; a position must be a number."""
    functions, _ = _functions()
    rows = _rows(session, source, options)
    by_file = rows.groupBy("file").agg(
        functions.count("*").alias("rows"),
        functions.count(functions.expr("CASE WHEN basket IS NOT NULL AND item IS NOT NULL THEN 1 END")).alias("whole"),
        functions.count(functions.expr("CASE WHEN try_cast(place AS double) IS NULL THEN 1 END")).alias("unplaced"),
    )
    files = sorted(by_file.collect(), key=lambda row: str(row["file"]))
    for row in files:
        if not row["whole"]:
            hint = f"Does it have the columns {options.basket} and {options.item}? Leave it out, or correct it."
            raise bad_file(row["file"] or source, "has no line with a basket and an item", hint=hint)
        if options.position and row["unplaced"]:
            trouble = f"must be a number, is none in {plural(int(row['unplaced']), 'row')}"
            raise bad_file(row["file"] or source, trouble, column=options.position)
    lost = sum(int(row["rows"]) - int(row["whole"]) for row in files)
    if lost:
        log.info("left out: %s (no basket or item id)", f"{lost:,}")


def _refuse_shared(sizes: Any, options: SourceOptions) -> None:
    mixed = sizes.where("one <> other").orderBy("basket").limit(1).collect() if options.user else []
    if mixed:
        raise shared_basket((mixed[0][name] for name in ("basket", "one", "other")), "user", options.user)


def _catalog(session: Any, source: str, options: SourceOptions, lines: Any) -> tuple[Catalog, dict[str, int], Int64]:
    """Items with the category path of most of their rows (among equals the first by alphabet), and their lines."""
    bought = {row["item"]: int(row["count"]) for row in lines.groupBy("item").count().collect()}
    levels = [f"k{level}" for level in range(len(options.category))]
    paths_of: dict[str, list[tuple[int, tuple[str | None, ...]]]] = {}
    if levels:
        rows = _rows(session, source, options).where("basket IS NOT NULL AND item IS NOT NULL")
        for row in rows.groupBy("item", *levels).count().collect():
            path = tuple(row[level] for level in levels)
            if any(path):
                paths_of.setdefault(row["item"], []).append((int(row["count"]), path))
    best = {
        item: min(paths, key=lambda p: (-p[0], tuple(part or "" for part in p[1]))) for item, paths in paths_of.items()
    }
    texts = {item: ItemTexts(path=path) for item, (_, path) in best.items()}
    catalog, code_of = build_catalog(bought, ItemTable(texts, options.category, named=False))
    item_counts = np.zeros(len(catalog), dtype=np.int64)
    for item, count in bought.items():
        item_counts[code_of[item]] += count
    return catalog, code_of, item_counts
