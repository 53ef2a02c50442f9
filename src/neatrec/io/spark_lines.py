"""Basket lines that Spark reads by itself, from folders or tables the driver need not hold: ids, order, customers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from neatrec.cooccurrence import CountOptions
from neatrec.cooccurrence.input_summary import pairs_of_size
from neatrec.cooccurrence.spark.session import connect, told
from neatrec.data.catalog import Catalog, string_array
from neatrec.errors import ResourceError, SourceError, must_be
from neatrec.io import SourceOptions
from neatrec.io.assemble import GUEST
from neatrec.io.columns import missing_column
from neatrec.io.items import build_catalog, describe
from neatrec.io.reading_rules import LARGEST_POSITION, MISSING
from neatrec.text import plural, printable

BLANK = "^[ \\t\\u00A0]+$"
TAKEN = ("basket", "item", "user", "position", "category")
"""Options of a source that are understood here."""
ROLES = {"basket": "basket", "item": "item", "customer": "user", "place": "position"}

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SparkLines:
    """A source that stays on the cluster, looked over once; a `Lines` of the Spark engine."""

    source: str
    options: SourceOptions
    catalog: Catalog
    ordered: bool
    users_known: bool
    customers_return: bool
    baskets: int
    lines: int
    sizes: dict[int, int]
    """Lines of a basket -> how many baskets have so many."""
    longest_basket: str
    code_of: dict[str, int] = field(repr=False)
    counting: CountOptions = field(default_factory=CountOptions)

    @property
    def longest(self) -> int:
        return max(self.sizes, default=1)

    @property
    def counted(self) -> int:
        return sum(count for size, count in self.sizes.items() if size >= self.counting.min_basket)

    def counted_as(self, counting: CountOptions) -> SparkLines:
        """The same lines, to be counted so; a basket with too many pairs is refused by name."""
        _refuse_long(self.longest_basket, self.longest, counting.max_basket_pairs, counting.window)
        return replace(self, counting=counting)

    def put(self, session: Any) -> None:
        """The views `basket_lines` and `baskets`."""
        functions, window = _functions()
        lines = _distinct_lines(session, self.source, self.options)
        numbers = np.fromiter(self.code_of.values(), dtype=np.int32, count=len(self.code_of))
        codes = session.createDataFrame(pa.table({"item": string_array(self.code_of), "code": numbers}))
        coded = lines.join(codes, "item")
        place = functions.row_number().over(window.partitionBy("basket").orderBy("place", "code"))
        chosen = coded.select("basket", place.alias("position"), functions.col("code").alias("item"))
        chosen.createOrReplaceTempView("basket_lines")
        guest = functions.concat(functions.lit(GUEST), functions.col("basket"))
        customer = functions.coalesce(functions.min("customer"), guest) if self.users_known else functions.lit(None)
        lines.groupBy("basket").agg(customer.cast("string").alias("customer")).createOrReplaceTempView("baskets")


def read_cluster_lines(
    source: str, options: SourceOptions, *, max_basket_pairs: int | None = None, threads: int | None = None
) -> SparkLines:
    """One look over `source`: its items and sizes come to the driver, its lines do not.

    `source` is a folder, file or glob of Parquet or CSV that the executors can read (a path or any address Spark
    understands), or `table:NAME` of its catalogue. Ids are text, as everywhere; repeated lines of a basket are one. A
    basket with more than `max_basket_pairs` is refused before anything is done for each item.
    """
    others = [name for name in options.given() if name not in TAKEN]
    if others:
        wanted = "left out where Spark reads: it takes --basket, --item, --user, --position and --category"
        raise must_be(others[0], wanted, getattr(options, others[0]))
    if options.basket is None or options.item is None:
        raise must_be("basket" if options.basket is None else "item", "named where Spark reads", None)
    with _translated_errors():
        session = connect(threads=threads).newSession()
        functions, _ = _functions()
        _refuse_bad_rows(session, source, options)
        lines = _distinct_lines(session, source, options).persist()
        try:
            sizes = lines.groupBy("basket").agg(
                functions.count("*").alias("size"),
                functions.min("customer").alias("one"),
                functions.max("customer").alias("other"),
            )
            _refuse_shared(sizes, options)
            found = {int(row["size"]): int(row["count"]) for row in sizes.groupBy("size").count().collect()}
            if not found:
                raise SourceError(f"no basket lines are left of {printable(source)}", file=source)
            longest = sizes.orderBy(functions.desc("size"), "basket").limit(1).collect()[0]["basket"]
            if max_basket_pairs is not None:
                _refuse_long(longest, max(found), max_basket_pairs)
            known = sizes.where("one IS NOT NULL")
            again = options.user is not None and bool(known.groupBy("one").count().where("count > 1").limit(1).count())
            catalog, code_of = _catalog(session, source, options, lines)
        finally:
            lines.unpersist()
    baskets, total = sum(found.values()), sum(size * count for size, count in found.items())
    log.info("Spark reads %s, %s, %s", plural(total, "line"), plural(baskets, "basket"), plural(len(catalog), "item"))
    return SparkLines(
        source,
        options,
        catalog,
        ordered=options.position is not None,
        users_known=options.user is not None,
        customers_return=again,
        baskets=baskets,
        lines=total,
        sizes=found,
        longest_basket=longest,
        code_of=code_of,
    )


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Spark's errors as ours."""
    try:
        yield
    except Exception as error:
        if (ours := told(error)) is error:
            raise
        raise ours from error


def _functions() -> tuple[Any, Any]:
    from pyspark.sql import Window, functions

    return functions, Window


def _rows(session: Any, source: str, options: SourceOptions) -> Any:
    """The columns that are asked for, as text and numbers, with the file of each row."""
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
            option = ROLES.get(role, "category")
            raise missing_column(source, {option: column}, option, tuple(kinds))
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
            raise SourceError(
                f"{printable(row['file'] or source)} has no line with a basket and an item",
                file=row["file"],
                hint=f"Does it have the columns {options.basket} and {options.item}? Leave it out, or fix it.",
            )
        if options.position and row["unplaced"]:
            raise SourceError(
                f"{printable(row['file'] or source)}: column {printable(repr(options.position))} must be a number, is "
                f"none in {plural(int(row['unplaced']), 'row')}",
                file=row["file"],
                column=options.position,
            )
    lost = sum(int(row["rows"]) - int(row["whole"]) for row in files)
    if lost:
        log.info("left out: %s (no basket or item id)", f"{lost:,}")


def _refuse_long(basket: str, size: int, most: int, window: int | None = None) -> None:
    pairs = int(pairs_of_size(np.array([size]), window)[0])
    if pairs > most:
        raise ResourceError(
            f"basket '{printable(basket)}' has {size:,} lines, which make {pairs:,} pairs, "
            f"more than `max_basket_pairs` = {most:,}",
            hint="Raise --max-basket-pairs, or leave the basket out (it may be a whole day's sales or a test).",
            argument="max_basket_pairs",
        )


def _refuse_shared(sizes: Any, options: SourceOptions) -> None:
    mixed = sizes.where("one <> other").orderBy("basket").limit(1).collect() if options.user else []
    if mixed:
        basket, one, other = (printable(repr(mixed[0][name]), 60) for name in ("basket", "one", "other"))
        raise SourceError(
            f"basket {basket} has two values in column {printable(repr(options.user))}: {one} and {other}",
            column=options.user,
            hint="Basket ids must be unique over users, shops and days; or leave the user column out.",
        )


def _catalog(session: Any, source: str, options: SourceOptions, lines: Any) -> tuple[Catalog, dict[str, int]]:
    """Items with the category path that most of their rows say (among equals the first by alphabet)."""
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
    texts = describe([(item, *path) for item, (_, path) in best.items()], levels)
    return build_catalog(bought, texts, options.category, named=False)
