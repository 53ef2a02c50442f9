"""Which column is which: given, guessed, or wrong with a suggestion."""

import logging
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from neatrec.cooccurrence import default_strata
from neatrec.errors import InputError, ParameterError, SourceError
from neatrec.io import SourceOptions, read_baskets
from neatrec.io.database import open_database


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_columns_with_usual_names_are_found_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(
        tmp_path / "o.csv",
        "InvoiceNo,StockCode,Description,Quantity,InvoiceDate,CustomerID\n"
        "a,tea,Tea,1,2024-01-01 10:00,7\na,milk,Milk,2,2024-01-01 10:00,7\n"
        "b,tea,Tea,-1,2024-01-02 10:00,8\nc,tea,Tea,1,2024-01-03,8\n",
    )
    with caplog.at_level(logging.INFO, "neatrec"):
        baskets = read_baskets(path)
    assert (
        "basket = InvoiceNo, item = StockCode, user = CustomerID, time = InvoiceDate" in caplog.text
    )
    assert baskets.ids.to_pylist() == ["a", "c"]
    assert not baskets.ordered
    assert baskets.dropped == {"returns": 1}
    assert baskets.catalog.name(baskets.catalog.code_of["tea"]) == "Tea"


def test_a_store_is_read_for_the_strata_unless_a_basket_has_two(tmp_path: Path, caplog) -> None:
    lines = "order_id,sku,Store ID\n1,tea,north\n1,milk,north\n2,tea,south\n"
    assert read_baskets(write(tmp_path / "one.csv", lines)).attributes["Store ID"].names == (
        "north",
        "south",
    )
    many = "order_id,sku,Store ID\n" + "".join(f"{n},tea,{n % 2}\n" for n in range(800))
    assert default_strata(read_baskets(write(tmp_path / "many.csv", many))) == (
        "basket_size",
        "Store ID",
    )
    mixed = write(tmp_path / "two.csv", f"{lines}2,milk,north\n")
    assert read_baskets(mixed).attributes == {}
    assert "column 'Store ID' has two values in some baskets: it is not read" in caplog.text
    with pytest.raises(SourceError, match="basket '2' has two values in column 'Store ID'"):
        read_baskets(mixed, attributes=("Store ID",))


def test_naming_some_columns_does_not_end_the_guessing_of_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    header = "order_id,sku,position,quantity,user_id,date,store"
    path = write(
        tmp_path / "o.csv", f"{header}\n1,tea,2,-1,7,2024-01-31,a\n1,milk,1,1,7,2024-01-31,a\n"
    )
    named = {"basket": "order_id", "item": "sku"}
    with caplog.at_level(logging.INFO, "neatrec"):
        baskets = read_baskets(path, **named)
    assert "columns: user = user_id, position = position, time = date" in caplog.text
    assert (baskets.lines, baskets.ordered) == (1, True)
    assert baskets.user_ids.to_pylist() == ["7"]
    assert list(baskets.attributes) == ["store"]
    off = read_baskets(path, **named, quantity="none", position="none", time="none", user="none")
    assert (off.lines, off.ordered, off.users, off.times) == (2, False, None, None)


def test_a_table_of_magento_is_recognised_by_its_header(tmp_path: Path, caplog) -> None:
    text = (
        "item_id,order_id,parent_item_id,created_at,product_id,product_type,sku,name,qty_ordered\n"
        "1,7,,2024-01-31 18:30:00,50,simple,TEA-1,Green Tea,2.0000\n"
        "2,7,,2024-01-31 18:30:00,51,simple,MILK-1,Oat Milk,1.0000\n"
    )
    with caplog.at_level(logging.INFO, "neatrec"):
        baskets = read_baskets(write(tmp_path / "o.csv", text))
    assert "Magento's table of order items, columns: basket = order_id" in caplog.text
    assert baskets.ids.to_pylist() == ["7"]
    assert baskets.catalog.ids.to_pylist() == ["MILK-1", "TEA-1"]
    assert baskets.catalog.name(1) == "Green Tea"


def test_usual_names_in_german(tmp_path: Path) -> None:
    head = (
        "Auftrags-Nr.;Artikel-Nr.;Artikelbezeichnung;Menge;Belegdatum;Kundennummer;Warengruppe;"
        "Position"
    )
    row = "7;t;Tee;1;31.01.2024;3;Heißes;1"
    baskets = read_baskets(write(tmp_path / "o.csv", f"{head}\n{row}\n"))
    assert baskets.ids.to_pylist() == ["7"]
    assert baskets.catalog.ids.to_pylist() == ["t"]
    assert baskets.catalog.name(0) == "Tee"
    assert str(np.datetime64(int(baskets.times[0]), "us"))[:10] == "2024-01-31"
    assert baskets.user_ids is not None
    assert len(baskets.catalog.levels) == 1
    assert not baskets.ordered  # "Position" numbers the lines of a document


def test_a_file_with_one_basket_per_line_is_read_as_such(tmp_path: Path) -> None:
    path = write(
        tmp_path / "o.csv",
        "citrus fruit,bread\nyogurt\nmilk,bread,yogurt,milk\n\nsalt,bread,oil,tea\n",
    )
    with pytest.raises(
        SourceError, match=r"If each line is one basket, a list of items, use --basket-per-line"
    ):
        read_baskets(path)
    baskets = read_baskets(path, basket_per_line=True)
    assert baskets.ids.to_pylist() == ["o.csv:1", "o.csv:2", "o.csv:3", "o.csv:5"]
    assert baskets.sizes.tolist() == [2, 1, 3, 4]
    assert not baskets.ordered
    write(tmp_path / "retail.dat", "30 31 32\n33 34\n")
    assert read_baskets(tmp_path / "retail.dat", basket_per_line=True).catalog.ids.to_pylist() == [
        *["30", "31", "32", "33", "34"]
    ]
    write(tmp_path / "p.csv", "salt;tea\n")
    both = read_baskets(str(tmp_path / "*.csv"), basket_per_line=True)
    assert both.ids.to_pylist() == ["o.csv:1", "o.csv:2", "o.csv:3", "o.csv:5", "p.csv:1"]
    with pytest.raises(
        ParameterError, match="`basket_per_line` must be given without `basket` and `item`"
    ):
        read_baskets(path, basket_per_line=True, item="x")


def test_a_table_of_too_many_columns_is_refused_by_its_header(tmp_path: Path) -> None:
    path = write(tmp_path / "o.csv", ",".join(f"column {i}" for i in range(100_000)) + "\n1,2\n")
    started = time.process_time()
    with pytest.raises(SourceError, match="has more than 2,000 columns"):
        read_baskets(path)
    assert time.process_time() - started < 5
    wide = ["order_id", "sku", *(f"c{i}" for i in range(1_998))]
    write(path, ",".join(wide) + "\n" + ",".join(["1"] * 2_000) + "\n")
    assert read_baskets(path).lines == 1


def test_an_unknown_option_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(
        ParameterError, match=r"`keyword argument` must be one of .*got 'baskets'.*mean 'basket'"
    ):
        read_baskets("x.csv", baskets="order_id")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"encoding": "latin-17"}, "`encoding` must be a text encoding"),
        ({"encoding": "a\0b"}, "`encoding` must be a text encoding"),
        ({"max_bad_rows": "many"}, "`max_bad_rows` must be an integer"),
        ({"until": "2024-13-01"}, "`until` must be a date"),
        ({"category": ("a", "a")}, "`category` must be names of columns that differ"),
        ({"basket": 0}, "`basket` must be text, got 0"),
    ],
)
def test_options_are_checked_at_once(options: dict[str, object], match: str) -> None:
    with pytest.raises(InputError, match=match):
        SourceOptions(**options)


def test_names_from_data_never_become_sql(tmp_path: Path) -> None:
    for name in ('a"b', "a''b", 'x" AS y, "z', "naïve \U0001f600", " ", "SELECT", "lambda"):
        table = pa.table({"order_id": [1, 1], name: ["tea", "milk"]})
        pq.write_table(table, tmp_path / "o.parquet")
        assert read_baskets(tmp_path / "o.parquet", item=name).lines == 2
    nasty = '"); DROP TABLE line; --'
    path = tmp_path / "o.csv"
    path.write_text(
        'order_id,"""); DROP TABLE line; --",store\n1,\'; DROP TABLE line; --,"x\'y"\n1,tea,"x\'y"\n'
    )
    baskets = read_baskets(path, basket="order_id", item=nasty, attributes=("store",))
    assert baskets.catalog.ids.to_pylist() == ["'; DROP TABLE line; --", "tea"]
    assert baskets.attributes["store"].names == ("x'y",)


def test_file_names_are_taken_literally(tmp_path: Path) -> None:
    text = "order_id,sku\n1,tea\n1,milk\n"
    for name in ("a*.csv", "a[1].csv", "it's.csv", "a?b {c}.csv", "ünï.csv"):
        write(tmp_path / name, text)
        write(tmp_path / "a1.csv", "order_id,sku\n9,salt\n")
        assert read_baskets(tmp_path / name).ids.to_pylist() == ["1"]


def test_a_glob_takes_what_it_matches_and_a_folder_its_parts(tmp_path: Path) -> None:
    (tmp_path / "year=2024").mkdir()
    write(tmp_path / "year=2024" / "a.csv", "order_id,sku\n1,tea\n")
    write(tmp_path / "b.csv", "order_id,sku\n1,milk\n")
    write(tmp_path / "_SUCCESS.csv", "nonsense")
    write(tmp_path / "c.txt", "nonsense")
    assert read_baskets(str(tmp_path / "**/*a.csv")).lines == 1
    assert read_baskets(tmp_path).lines == 2


def test_no_other_file_can_be_read_by_the_database(tmp_path: Path) -> None:
    secret = write(tmp_path / "secret.csv", "a\n1\n")
    with open_database([], "orders") as database:
        with pytest.raises(SourceError, match="Cannot access file"):
            database.execute("SELECT * FROM read_csv(?)", [str(secret)])
        with pytest.raises(SourceError, match="Cannot enable external access"):
            database.execute("SET enable_external_access = true")
