"""Exports as shops have them: decimal commas, cancelled orders, products without a number."""

import logging
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.exports import EXPORTS, write_export
from neatrec import fit, make_labels
from neatrec.data import Baskets
from neatrec.errors import ParameterError, SourceError, UnknownItemError
from neatrec.io import SourceOptions, as_baskets, load, read_baskets
from neatrec.io.orders_folder import import_orders

SHOPIFY = (
    "Name,Email,Financial Status,Created at,Lineitem quantity,Lineitem name,Lineitem sku,"
    "Cancelled at\n"
)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def contents(baskets: Baskets) -> dict[str, list[str]]:
    return {
        str(baskets.ids[b]): sorted(
            baskets.catalog.id(i) for i in baskets.items[slice(*baskets.offsets[b : b + 2])]
        )
        for b in range(len(baskets))
    }


@pytest.mark.parametrize(
    ("numbers", "lines"),
    [
        (["1,00", "2,50", "-1,00", "0,00"], 2),
        (["1.000,00", "12", "-1", "0"], 2),
        (["1,000.50", "1", "0.00", "-2,000"], 2),
        (["1,000", "-1,000", "1,5", ""], 3),
    ],
)
def test_decimal_commas_and_thousands_are_recognised_by_column(
    tmp_path: Path, numbers: list[str], lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [f'1;i{number};"{value}"' for number, value in enumerate(numbers)]
    path = write(tmp_path / "o.csv", "\n".join(["Belegnummer;Artikelnummer;Menge", *rows, ""]))
    with caplog.at_level(logging.INFO, "neatrec"):
        assert read_baskets(path).lines == lines
    assert "numbers of column 'Menge' are written as 1" in caplog.text


def test_one_value_in_no_known_form_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "o.csv", "Belegnummer;Artikelnummer;Menge\n1;a;1,00\n1;b;1,00 St\n")
    with pytest.raises(SourceError, match=r"line \d, column 'Menge': must be a number"):
        read_baskets(path)
    assert read_baskets(path, quantity="none").lines == 2


@pytest.mark.parametrize(
    ("encoding", "name", "shown"),
    [("windows-1252", "Käse „mild“", "Windows-1252"), ("latin-1", "Käse \x81", "Latin-1")],
)
def test_western_text_is_recognised_where_it_is_not_utf8(
    tmp_path: Path, encoding: str, name: str, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    text = f"Bestellnummer;Artikel\n1;Tee\n1;{name}\n"
    (tmp_path / "o.csv").write_bytes(text.encode(encoding))
    with caplog.at_level(logging.INFO, "neatrec"):
        found = read_baskets(tmp_path / "o.csv")
    assert found.catalog.ids.to_pylist() == [name, "Tee"]
    assert f"o.csv is not UTF-8 (line 3): it is read as {shown}" in caplog.text


def test_a_shopify_line_without_sku_is_the_product_of_its_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = (
        "#1,a@x.org,paid,2024-01-31 18:30:00 +0100,1,Green Tea,TEA-1,\n"
        "#1,,,,1,Oat Milk,MILK-1,\n"
        "#2,b@x.org,paid,2024-02-01 18:30:00 +0100,1,Green Tea,,\n"
        "#2,,,,1,Gift Wrap,,\n"
    )
    with caplog.at_level(logging.INFO, "neatrec"):
        baskets = read_baskets(write(tmp_path / "o.csv", SHOPIFY + rows))
    assert contents(baskets) == {"#1": ["MILK-1", "TEA-1"], "#2": ["Gift Wrap", "TEA-1"]}
    assert baskets.catalog.ids.to_pylist() == ["Gift Wrap", "MILK-1", "TEA-1"]
    said = (
        "2 lines without Lineitem sku: 1 take the id of lines with the same name, 1 their own name"
    )
    assert said in caplog.text


def test_shopify_orders_that_were_cancelled_or_refunded_do_not_count(tmp_path: Path) -> None:
    rows = (
        "#1,a@x.org,paid,2024-01-31 18:30:00 +0100,1,Tea,T,\n#1,,,,1,Milk,M,\n"
        "#2,a@x.org,refunded,2024-01-31 18:30:00 +0100,1,Tea,T,\n#2,,,,1,Milk,M,\n"
        "#3,a@x.org,paid,2024-01-31 18:30:00 +0100,1,Tea,T,2024-02-01 08:00:00 +0100\n"
        "#3,,,,1,Milk,M,\n"
        "#4,a@x.org,partially_refunded,2024-01-31 18:30:00 +0100,1,Tea,T,\n"
        "#5,a@x.org,voided,2024-01-31 18:30:00 +0100,1,Salt,S,\n"
    )
    baskets = read_baskets(write(tmp_path / "o.csv", SHOPIFY + rows))
    assert contents(baskets) == {"#1": ["M", "T"], "#4": ["T"]}
    assert baskets.dropped == {"cancelled or refunded": 5}


def test_woocommerce_orders_count_by_their_status(tmp_path: Path) -> None:
    statuses = ("Completed", "Processing", "wc-cancelled", "Refunded", "failed", "On hold")
    rows = "".join(
        f"{number},{status},2024-01-31 18:30,a@x.org,TEA-1,Tea,1\n"
        for number, status in enumerate(statuses)
    )
    header = "Order Number,Order Status,Order Date,Email (Billing),SKU,Item Name,Quantity\n"
    baskets = read_baskets(write(tmp_path / "o.csv", header + rows))
    assert baskets.ids.to_pylist() == ["0", "1", "5"]
    assert baskets.dropped == {"cancelled or refunded": 3}


def test_a_column_that_gives_every_basket_one_item_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "o.csv", "line_id,order_id,sku\n1,7,tea\n2,7,milk\n3,8,tea\n")
    wrong = SourceOptions(basket="line_id")
    message = "gives each of 3 baskets one item, .*Likely meant: --basket order_id"
    with pytest.raises(SourceError, match=f"column 'line_id'.*{message}"):
        load(str(path), wrong)
    with pytest.raises(SourceError, match=message):
        fit(str(path), basket="line_id")
    assert len(read_baskets(path, wrong)) == 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["o.arrow", "o.arrows", "o.parquet"])
def test_a_damaged_file_is_an_error_and_never_a_crash(tmp_path: Path, kind: str) -> None:
    """Arrow files are not mapped: one that says it is longer than it is ended the process."""
    rows = pa.table({"order_id": range(500), "sku": [f"item {i % 50}" for i in range(500)]})
    path, rng = tmp_path / kind, np.random.default_rng(0)
    if kind == "o.parquet":
        pq.write_table(rows, path)
    else:
        opened = pa.ipc.new_file if kind == "o.arrow" else pa.ipc.new_stream
        with opened(path, rows.schema) as writer:
            writer.write_table(rows)
    good = path.read_bytes()
    outcomes = set()
    for place in rng.integers(0, len(good), 60).tolist():
        damaged = bytearray(good)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            outcomes.add(read_baskets(path).lines)
        except SourceError:
            outcomes.add("refused")
    assert "refused" in outcomes


LOGINS = ("postgresql;//u:secret@h/x", "postgresql//u:secret@h/x", "u:secret@h/x")


def test_an_option_or_folder_like_a_login_is_not_repeated() -> None:
    for source in LOGINS:
        with pytest.raises(SourceError, match="orders must not contain a password") as refused:
            import_orders("orders.csv", source)
        assert "secret" not in str(refused.value)
        for option in ("catalog", "query"):
            for given in (source, Path(source)):
                wanted = f"`{option}` must be a file on this machine, not an address"
                with pytest.raises(ParameterError, match=wanted) as refused:
                    SourceOptions(**{option: given})
                assert "secret" not in str(refused.value)


def test_integer_ids_stay_integers_and_text_stays_text(tmp_path: Path) -> None:
    rows = {"order_id": [1, 1, 20], "sku": [449, 7, 449]}
    whole = pa.table(rows)
    pq.write_table(whole, tmp_path / "o.parquet")
    (tmp_path / "o.jsonl").write_text(
        "".join(
            f'{{"order_id": {order}, "sku": {sku}}}\n'
            for order, sku in zip(*rows.values(), strict=True)
        )
    )
    import_orders(tmp_path / "o.parquet", tmp_path / "orders")
    for source in ("o.parquet", "o.jsonl", "orders"):
        table = read_baskets(tmp_path / source).to_arrow()
        assert table["basket"].to_pylist() == [1, 1, 20], source
        assert sorted(table["item"].to_pylist()) == [7, 449, 449], source
        assert read_baskets(tmp_path / source).hash == read_baskets(whole).hash
    lists = as_baskets([[449, 7], [449]])
    assert lists.to_arrow()["item"].to_pylist() == [449, 7, 449]
    texts = [rows | {"sku": ["449", "007", "449"]}, rows | {"sku": [449.0, 7.0, None]}]
    for text in texts:
        assert pa.types.is_large_string(read_baskets(pa.table(text)).to_arrow()["item"].type)
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    write(mixed / "a.csv", "order_id,sku\n2,00\n")
    pq.write_table(whole, mixed / "b.parquet")
    assert pa.types.is_large_string(read_baskets(mixed).to_arrow()["basket"].type)


def test_an_integer_given_to_python_is_an_id(tmp_path: Path) -> None:
    rows = [(order, item) for order in range(400) for item in (7, 8 + order % 3 // 2, 20)]
    order, item = (list(column) for column in zip(*rows, strict=True))
    shop = fit(pa.table({"order_id": order, "sku": item}), model="popco")
    names = shop.goes_with(20, min_evidence="guess").to_arrow()["item"].to_pylist()
    assert {str(name) for name in names} <= {"7", "8", "9"}
    assert pa.types.is_integer(shop.goes_with(20, min_evidence="guess").to_arrow()["id"].type)
    assert pa.types.is_integer(make_labels(shop.baskets, levels=(0.5,)).to_arrow()["item"].type)
    with pytest.raises(UnknownItemError, match="no item has the id or name '0'"):
        shop.goes_with(0)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_is_read_and_answered_without_any_option(name: str, tmp_path: Path) -> None:
    shop = fit(str(write_export(name, tmp_path, baskets=1_500, items=300)), model="shrunk-lift")
    assert len(shop.baskets) == 1_500
    assert len(set(shop.baskets.users.tolist())) < 1_500
    assert shop.baskets.times is not None
    answers = shop.goes_with("Tortilla Chips", min_evidence="guess").to_arrow()
    assert {"Salsa Roja", "Guacamole"} & set(answers["item"].to_pylist()[:5])
