"""`neatrec labels` on the command line."""

from pathlib import Path

import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

MARKET = "supermarket:baskets=4000,items=200,seed=1"


def test_the_json_has_the_promised_shape(neatrec) -> None:
    levels = ("--level", "0.05", "--level", "0.001")
    got = neatrec("labels", MARKET, "--null-rounds", "2", *levels, "--json").json()
    assert {"baskets", "records", "pairs", "threshold", "null", "hash"} <= got.keys()
    assert (got["protocol"], got["level_kind"]) == ("calibrated", "q")
    assert got["labels"].keys() == got["threshold"].keys() == {"0.05", "0.001"}
    assert got["labels"]["0.05"] >= got["labels"]["0.001"] > 0
    assert got["null"]["rounds"] == 2
    assert all(len(rounds) == 2 for rounds in got["null"]["labels"].values())
    assert got["null"]["fdr"].keys() == got["null"]["rerun"].keys() == {"0.05", "0.001"}
    assert (len(got["hash"]), got["seed"]) == (64, 0)
    one_thread = neatrec("labels", MARKET, *levels, "--threads", "1", "--json").json()
    assert one_thread["hash"] == got["hash"]
    strata = ("--strata", "none")
    assert neatrec("labels", MARKET, *levels, *strata, "--json").json()["hash"] != got["hash"]


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_the_table_is_written_whole(neatrec, tmp_path: Path, ending: str) -> None:
    got = neatrec("labels", MARKET, "--out", f"labels.{ending}", "--json").json()
    file = tmp_path / f"labels.{ending}"
    table = pq.read_table(file) if ending == "parquet" else pacsv.read_csv(file)
    assert table.num_rows == got["labels"]["0.05"]
    columns = {"query", "item", "query_name", "item_name", "count", "expected", "lift"}
    assert columns | {"lift_low", "lift_high"} <= set(table.column_names)
    assert [entry.name for entry in tmp_path.iterdir()] == [file.name]


def test_no_labels_is_an_answer(neatrec, tmp_path: Path) -> None:
    (tmp_path / "few.csv").write_text(
        "order_id,item\n" + "".join(f"{o},{i}\n" for o in range(3) for i in "abcdef")
    )
    done = neatrec("labels", "few.csv", "--basket", "order_id", "--item", "item", "--json")
    got = done.json()
    assert set(got["labels"].values()) == {0}
    assert "warning" in done.stderr


def test_imported_orders_give_the_labels_of_the_files(neatrec, tmp_path: Path) -> None:
    """`neatrec import` appends to a store that is a SOURCE; a basket twice is exit 2, with --replace it is taken."""
    orders, more = tmp_path / "orders.csv", tmp_path / "more.csv"
    lines = [
        f"{order},{item}"
        for order in range(60)
        for item in (("tea", "milk") if order % 3 else ("jam", "bread"))
    ]
    orders.write_text("\n".join(["order_id,sku", *lines[:60], ""]))
    more.write_text("\n".join(["order_id,sku", *lines[60:], ""]))
    store = str(tmp_path / "store")
    assert neatrec("import", orders, "--to", store, "--json").json()["folder_baskets"] == 30
    assert "holds 60 baskets in 2 files" in neatrec("import", more, "--to", store).stdout
    again = neatrec("import", more, "--to", store)
    assert again.returncode == 2
    assert "basket '30' of" in again.stderr
    assert "(the first of 30)" in again.stderr
    assert neatrec("import", more, "--to", store, "--replace", "--json").json()["replaced"] == 30
    (tmp_path / "all.csv").write_text("\n".join(["order_id,sku", *lines, ""]))
    options = ["--protocol", "paper", "--min-basket", "2", "--json"]
    found, expected = (neatrec("labels", source, *options).json() for source in (store, "all.csv"))
    assert found["hash"] == expected["hash"]
    assert found["labels"]["0.05"] == expected["labels"]["0.05"] > 0
