"""Baskets written out and read back are the same baskets, whatever the format, the row order or the number of files."""

import csv
import random
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neatrec.data import Baskets
from neatrec.errors import SourceError
from neatrec.io import read_baskets
from neatrec.io.rules import MISSING

COLUMNS = {
    "basket": "order_id",
    "item": "sku",
    "position": "pos",
    "user": "who",
    "category": ("dep", "aisle"),
}
# any text but what a CSV cannot hold in an id, and what means "nothing"
ids = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n"), min_size=1, max_size=8
).filter(lambda text: text not in MISSING and text.strip(" \t\u00a0") != "")
shops = st.dictionaries(
    ids,
    st.tuples(
        st.sampled_from(["ann", "bob", "cy"]), st.lists(ids, min_size=1, max_size=6, unique=True)
    ),
    min_size=1,
    max_size=8,
)
Rows = list[dict[str, Any]]


def rows_of(shop: dict[str, tuple[str, list[str]]]) -> Rows:
    return [
        {
            "order_id": basket, "sku": item, "pos": position, "who": who,
            "dep": f"dep {len(item) % 2}", "aisle": f"aisle {len(item) % 4}",
        }
        for basket, (who, items) in shop.items()
        for position, item in enumerate(items, start=1)
    ]  # fmt: skip


def plainly(shop: dict[str, tuple[str, list[str]]]) -> dict[str, tuple[str, list[str]]]:
    return dict(sorted(shop.items()))


def as_shop(baskets: Baskets) -> dict[str, tuple[str, list[str]]]:
    assert baskets.users is not None
    names, users = baskets.catalog.ids.to_pylist(), baskets.user_ids.to_pylist()
    bounds = baskets.offsets.tolist()
    return {
        basket: (
            users[baskets.users[i]],
            [names[code] for code in baskets.items[bounds[i] : bounds[i + 1]]],
        )
        for i, basket in enumerate(baskets.ids.to_pylist())
    }


def frames_of(rows: Rows) -> list[Any]:
    table, polars = pa.Table.from_pylist(rows), pl.DataFrame(rows)
    pandas = pd.DataFrame(rows)
    return [
        *(table, table.to_reader(), table.to_pydict()),
        *(pandas, pandas.astype({"order_id": "category"})),
        *(polars, polars.with_columns(pl.col("sku").cast(pl.Categorical))),
    ]


def write_csv(path: Path, rows: Rows, **dialect: Any) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        out = csv.DictWriter(stream, list(rows[0]), **dialect)
        out.writeheader()
        out.writerows(rows)


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(shops, st.randoms(use_true_random=False))
def test_baskets_survive_files_in_any_order_and_any_number_and_data_frames(
    shop, rng: random.Random
) -> None:
    rows = rows_of(shop)
    shuffled = rng.sample(rows, len(rows))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "parts").mkdir()
        write_csv(folder / "one.csv", rows, quoting=csv.QUOTE_MINIMAL)
        pq.write_table(pa.Table.from_pylist(shuffled), folder / "other.parquet")
        cut = rng.randint(1, len(rows))
        write_csv(folder / "parts" / "a.csv", shuffled[:cut], delimiter=";", quoting=csv.QUOTE_ALL)
        if shuffled[cut:]:
            pq.write_table(pa.Table.from_pylist(shuffled[cut:]), folder / "parts" / "b.parquet")
        read = [
            read_baskets(folder / source, **COLUMNS)
            for source in ("one.csv", "other.parquet", "parts")
        ]
    read += [read_baskets(frame, **COLUMNS) for frame in frames_of(rows)]
    assert as_shop(read[0]) == plainly(shop)
    assert len({baskets.hash for baskets in read}) == 1
    assert all(baskets.ordered and not baskets.dropped for baskets in read)


def test_a_frame_that_is_no_table_is_refused() -> None:
    with pytest.raises(SourceError, match="cannot read list as a table"):
        read_baskets([1, 2, 3])
    with pytest.raises(SourceError, match="cannot read DataFrame as a table"):
        read_baskets(pd.DataFrame({"order_id": [1, "two"], "sku": ["a", "b"]}))
    with pytest.raises(SourceError, match="has no rows"):
        read_baskets(pd.DataFrame({"order_id": [], "sku": []}))


def test_decimals_uuids_and_dates_are_ids_too() -> None:
    from decimal import Decimal

    table = pa.table({
        "order_id": pa.array([Decimal("1.00"), Decimal("1.00"), Decimal("2.50")], pa.decimal128(10, 2)),
        "sku": pa.array([1, 2, 3], pa.date32()),
    })  # fmt: skip
    baskets = read_baskets(table, basket="order_id", item="sku")
    assert baskets.ids.to_pylist() == ["1", "2.50"]
    assert baskets.catalog.ids.to_pylist() == ["1970-01-02", "1970-01-03", "1970-01-04"]
