"""source.toml, the Instacart layout, Complete Journey, the supermarket."""

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from neatrec.data import Baskets
from neatrec.errors import InputError, SourceError
from neatrec.io import SourceOptions, read_baskets, read_source_toml

ORDERS = "order_id,sku,pos\n1,tea,1\n1,milk,2\n"
TOML = """
source = "orders/*.csv"
basket = "order_id"
item = "sku"
position = "pos"
category = ["dep", "aisle"]
catalog = "products.csv"
since = 2024-01-31
max_bad_rows = "0.5%"
"""


def test_a_source_toml_says_it_all_once(tmp_path: Path) -> None:
    (tmp_path / "source.toml").write_text(TOML)
    source, options = read_source_toml(tmp_path / "source.toml")
    assert source == str(tmp_path / "orders" / "*.csv")
    assert options == SourceOptions(
        basket="order_id", item="sku", position="pos", category=("dep", "aisle"), catalog=tmp_path / "products.csv",
        since="2024-01-31", max_bad_rows="0.5%",
    )  # fmt: skip


def test_a_source_toml_is_a_source_and_options_lie_over_it(tmp_path: Path) -> None:
    (tmp_path / "o.csv").write_text(ORDERS)
    (tmp_path / "source.toml").write_text(
        'source = "o.csv"\nbasket = "order_id"\nitem = "sku"\nposition = "pos"\n'
    )
    assert read_baskets(tmp_path / "source.toml").ordered
    with pytest.raises(SourceError, match="no column 'x' for item"):
        read_baskets(tmp_path / "source.toml", item="x")


def test_an_option_wins_over_a_source_toml_though_it_says_the_default(tmp_path: Path) -> None:
    (tmp_path / "o.csv").write_text("order_id,sku\n1,tea\n1\n")
    (tmp_path / "source.toml").write_text('source = "o.csv"\nmax_bad_rows = 1\n')
    assert read_baskets(tmp_path / "source.toml").dropped == {"bad rows": 1}
    for none in (0, "0"):
        with pytest.raises(SourceError, match="the line has fewer fields"):
            read_baskets(tmp_path / "source.toml", max_bad_rows=none)


@pytest.mark.parametrize("kind", [pa.float16(), pa.decimal256(50, 2)])
def test_a_frame_the_database_cannot_take_is_refused(kind: pa.DataType) -> None:
    column = pa.nulls(1, kind)
    with pytest.raises(SourceError, match="cannot read the data frame"):
        read_baskets(pa.table({"order_id": [1], "sku": ["tea"], "price": column}))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('baskt = "a"\nsource = "x"', "has an unknown key 'baskt'. Did you mean 'basket'"),
        ("source = 3", "must have the key 'source' with a text"),
        ('source = "x"\nbasket = 3', "source.toml: `basket` must be text, got 3"),
        ("source = ", "is not TOML"),
    ],
)
def test_a_bad_source_toml_is_explained(tmp_path: Path, text: str, match: str) -> None:
    (tmp_path / "source.toml").write_text(text)
    with pytest.raises(SourceError, match=match):
        read_baskets(tmp_path / "source.toml")


TABLES = {
    "order_products__prior": "order_id,product_id,add_to_cart_order,reordered\n1,10,1,0\n1,20,2,1\n2,20,1,0\n",
    "order_products__train": "order_id,product_id,add_to_cart_order,reordered\n3,30,2,0\n3,10,1,0\n",
    "orders": "order_id,user_id,eval_set,order_number,order_dow,order_hour_of_day,days_since_prior_order\n"
    "1,7,prior,1,0,08,\n2,8,prior,1,3,09,\n3,7,train,2,6,10,5.0\n4,7,test,3,6,10,5.0\n",
    "products": "product_id,product_name,aisle_id,department_id\n"
    '10,Tea,1,1\n20,"Milk, ""whole""",2,2\n30,Jam,3,1\n40,Never bought,1,1\n',
    "aisles": "aisle_id,aisle\n1,hot drinks\n2,milk\n3,spreads\n",
    "departments": "department_id,department\n1,pantry\n2,dairy\n",
}


def write_instacart(folder: Path, ending: str) -> Path:
    folder.mkdir()
    for name, text in TABLES.items():
        if ending == ".csv":
            (folder / f"{name}.csv").write_text(text)
        elif ending == ".csv.gz":
            (folder / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
        else:
            from pyarrow import csv

            pq.write_table(csv.read_csv(pa.BufferReader(text.encode())), folder / f"{name}.parquet")
    return folder


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet"])
def test_the_instacart_layout_is_known(tmp_path: Path, ending: str) -> None:
    baskets = read_baskets(write_instacart(tmp_path / "shop", ending))
    assert baskets.ordered
    assert baskets.ids.to_pylist() == ["1", "2", "3"]
    assert baskets.catalog.ids.to_pylist() == ["10", "20", "30", "40"]
    assert baskets.items.tolist() == [0, 1, 1, 0, 2]
    assert baskets.users.tolist() == [0, 1, 0]
    assert baskets.catalog.levels == ("department", "aisle")
    assert baskets.catalog.category_path(1) == ("dairy", "milk")
    assert baskets.catalog.name(1) == 'Milk, "whole"'
    assert [baskets.attributes["eval_set"].names[c] for c in baskets.attributes["eval_set"].codes] == [
        "prior", "prior", "train",
    ]  # fmt: skip


def test_the_instacart_layout_with_one_of_its_line_tables(tmp_path: Path) -> None:
    folder = write_instacart(tmp_path / "shop", ".csv")
    (folder / "order_products__prior.csv").unlink()
    assert read_baskets(folder).ids.to_pylist() == ["3"]
    (folder / "aisles.csv").unlink()
    with pytest.raises(SourceError, match="looks like the Instacart tables but has no aisles"):
        read_baskets(folder)


def test_the_instacart_layout_refuses_what_it_cannot_honour(tmp_path: Path) -> None:
    folder = write_instacart(tmp_path / "shop", ".csv")
    with pytest.raises(
        SourceError, match=r"`basket` does not apply\. It takes only --strata, --exclude-item,"
    ):
        read_baskets(folder, basket="order_id")
    with pytest.raises(SourceError, match="has no attribute 'store'; it has: eval_set, order_dow"):
        read_baskets(folder, attributes="store")
    (folder / "orders.csv").write_text(TABLES["orders"] + "1,9,prior,1,0,08,\n")
    with pytest.raises(SourceError, match="column 'order_id': '1' occurs twice"):
        read_baskets(folder)
    (folder / "orders.csv").write_text("order_id,customer\n1,9\n")
    with pytest.raises(SourceError, match=r"orders\.csv has no column 'user_id' for user"):
        read_baskets(folder)


@pytest.mark.real
def test_the_instacart_train_orders(instacart: Baskets) -> None:
    parts = instacart.attributes["eval_set"]
    train = instacart.select(parts.codes == parts.names.index("train"))
    assert (len(train), train.lines, len(train.catalog)) == (131_209, 1_384_617, 49_688)
    assert train.ordered
    assert [len(names) for names in train.catalog.category_names] == [21, 134]


def test_complete_journey_is_read_and_named_for_what_it_is() -> None:
    baskets = read_baskets("complete-journey")
    assert (len(baskets), baskets.lines) == (155_848, 1_469_307)
    assert int((baskets.item_counts > 0).sum()) == 68_509
    assert len(baskets.catalog) == 92_348
    assert len(baskets.user_ids) == 2_469
    assert not baskets.ordered
    assert not baskets.dropped
    assert baskets.source == "complete-journey (simulated from real shopping patterns)"
    assert baskets.catalog.levels == ("department", "product_category")
    assert len(baskets.catalog.category_names[1]) == 303
    assert "week" in baskets.attributes


def test_the_supermarket_is_a_source() -> None:
    baskets = read_baskets("supermarket:baskets=500")
    assert len(baskets) == 500
    with pytest.raises(SourceError, match="`basket` does not apply"):
        read_baskets("supermarket", basket="order_id")
    with pytest.raises(InputError, match="baskets"):
        read_baskets("supermarket:baskts=500")
