"""Files that shop systems import, read again as their importers read them."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from neatrec.data import Baskets, Catalog, string_array
from neatrec.errors import ParameterError, SourceError
from neatrec.models import Run, make_model
from neatrec.release import ExportOptions, export_answers
from neatrec.serving import PairTable, recommend, save_indexed

FIT = ["tee-red", "tee-blue", "cap", "belt", "scarf", "socks", "a/b", "50% off", "Ärmel", "x" * 300]
UNFIT = ["=1+1", "-3", "two,parts", " padded", "line\nbreak"]
COMPLEMENTARY = "Complementary products (product.metafields.shopify--discovery--product_recommendation.complementary_products)"
PRODUCTS = """Handle,Title,Variant SKU,Body (HTML)
the-tee,"The Tee, new",tee-red,"<p>two
lines</p>"
the-tee,,tee-blue,
the-cap,The Cap,cap,
belt,Belt,,
the-scarf,=Scarf(),scarf,
socks,Socks,socks,
socks,,tee-gone,
"""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> PairTable:
    ids = [*FIT, *UNFIT, "bought as a variant"]
    names = [f"Name of {item}" for item in ids]
    catalog = Catalog(
        string_array(ids),
        string_array(names),
        variants=string_array(["tee-gone"]),
        variant_codes=np.array([len(ids) - 1], dtype=np.int32),
    )
    rng = np.random.default_rng(0)
    lists = [[ids[i] for i in rng.choice(len(ids), 4, replace=False)] for _ in range(200)]
    baskets = Baskets.from_lists(lists, catalog=catalog)
    place = tmp_path_factory.mktemp("shops") / "bundle"
    save_indexed(
        make_model("shrunk-lift").fit(baskets, Run(threads=1)), place, baskets, seed=0, k=20
    )
    return PairTable.open(place)


def answers(index: PairTable, item: str, k: int = 10) -> list[str]:
    """Those of the table, as an export has them."""
    rows = index.rows_of(index.catalog.code_of[item])[:k]
    return [index.catalog.id(code) for code in index.answers["item"][rows]]


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def export(index: PairTable, target: str, out: Path, **options: object) -> tuple[str, ...]:
    return export_answers(
        index, ExportOptions(target, out, min_evidence="guess", **options)
    ).left_out


def test_woocommerce_gets_cross_sells_by_sku(index: PairTable, tmp_path: Path) -> None:
    left_out = export(index, "woocommerce", tmp_path / "w.csv")
    assert set(left_out) == set(UNFIT)
    rows = rows_of(tmp_path / "w.csv")
    assert list(rows[0]) == ["SKU", "Cross-sells"]
    cells = [cell for row in rows for cell in row.values()]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r", "'"))]
    held = set(index.catalog.ids.to_pylist()) - set(UNFIT)
    assert {row["SKU"] for row in rows} == held
    for row in rows:
        assert row["Cross-sells"].split(",") == [
            item for item in answers(index, row["SKU"]) if item in held
        ]


def test_woocommerce_finds_products_by_id_or_sku(index: PairTable, tmp_path: Path) -> None:
    (tmp_path / "products.csv").write_text(
        "ID,Type,SKU,Name\n17,simple,cap,Cap\n18,simple,,Belt\nbelt,simple,socks,-\n"
    )
    export(index, "woocommerce", tmp_path / "w.csv", products=tmp_path / "products.csv")
    rows = {row["ID"]: row["Cross-sells"] for row in rows_of(tmp_path / "w.csv")}
    assert rows.keys() == {
        "17",
        "belt",
    }  # "belt" is the item of that id before "socks" is the one of that SKU
    assert rows["17"] == "id:belt"
    assert rows["belt"] == "id:17"


@pytest.mark.parametrize("key", ["Handle", "URL handle"])
def test_shopify_gets_complementary_products_by_handle(
    index: PairTable, tmp_path: Path, key: str
) -> None:
    products = tmp_path / "products_export.csv"
    long = f"other,Other,,{'x' * 200_000}\n"  # descriptions hold pictures
    products.write_text(PRODUCTS.replace("Handle", key, 1) + long, encoding="utf-8-sig")
    limit = csv.field_size_limit()
    left_out = export(index, "shopify", tmp_path / "s.csv", products=products)
    # its title would run in a spreadsheet, and must not change in the shop
    assert "scarf" in left_out
    assert csv.field_size_limit() == limit
    rows = {row[key]: row for row in rows_of(tmp_path / "s.csv")}
    assert list(rows["belt"]) == [key, "Title", COMPLEMENTARY]
    titles = {"the-tee": "The Tee, new", "the-cap": "The Cap", "belt": "Belt", "socks": "Socks"}
    assert {handle: row["Title"] for handle, row in rows.items()} == titles
    handle = {"tee-red": "the-tee", "tee-blue": "the-tee", "cap": "the-cap"}
    handle |= {"belt": "belt", "socks": "socks"}
    handle["bought as a variant"] = "socks"
    by_rank: dict[str, dict[str, int]] = {}
    for item, own in handle.items():
        for rank, other in enumerate(answers(index, item)):
            if handle.get(other, own) != own:
                best = by_rank.setdefault(own, {})
                best[handle[other]] = min(rank, best.get(handle[other], rank))
    for own, best in by_rank.items():
        found = rows[own][COMPLEMENTARY].split("; ")
        assert sorted(found) == sorted(best)
        assert [best[other] for other in found] == sorted(best.values())


def test_a_list_of_shopify_has_at_most_ten(index: PairTable, tmp_path: Path) -> None:
    products = tmp_path / "p.csv"
    items = [item for item in index.catalog.ids.to_pylist() if item not in UNFIT]
    products.write_text(
        "Handle,Title,Variant SKU\n" + "".join(f"h{n},T,{item}\n" for n, item in enumerate(items))
    )
    export(index, "shopify", tmp_path / "s.csv", products=products)
    assert max(row[COMPLEMENTARY].count(";") + 1 for row in rows_of(tmp_path / "s.csv")) <= 10
    with pytest.raises(ParameterError, match="`k` must be at most 10 for Shopify, got 11"):
        export(index, "shopify", tmp_path / "s.csv", products=products, k=11)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "give the product export of your shop in --products"),
        ("Title\nTea\n", "no column Handle or URL handle in .*p.csv"),
        ("Handle\ntea\n", "no column Title in .*p.csv"),
        ("Handle,Title\n", "there is no product in .*p.csv"),
        ("Handle,Title\nother,Other\n", "no answer is for an item whose id is a product of"),
        (b"Handle,Title\n\xff,x\n", "cannot read the products in .*p.csv"),
    ],
)
def test_products_that_do_not_fit_are_refused(
    index: PairTable, tmp_path: Path, text, message: str
) -> None:
    file = tmp_path / "p.csv"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    (tmp_path / "s.csv").write_text("old")
    with pytest.raises((ParameterError, SourceError), match=message):
        export(index, "shopify", tmp_path / "s.csv", products=None if text is None else file)
    assert (tmp_path / "s.csv").read_text() == "old"


ADDRESS = "`out` must be an address such as"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "shopfy"}, "`for` must be one of .*Did you mean 'shopify'"),
        ({"target": "csv", "table": "t"}, "`table` must be left out, except for postgres, redis"),
        ({"target": "postgres"}, f"{ADDRESS} postgresql://host for --for postgres, got None"),
        ({"target": "csv", "out": "redis://host"}, "`out` must be a file for --for csv"),
        ({"target": "csv", "out": "redis://:secret@host"}, r"got 'redis://\.\.\.'"),
        ({"out": "redis://host:port"}, f"{ADDRESS} redis://host:6379/0, got 'redis://host:port'"),
        ({"out": "host=shop password=secret"}, r"got '\.\.\.'"),
        ({"out": "mysql://host/db"}, "`out` must be an address of PostgreSQL or Redis, or a name"),
        ({"target": "csv", "out": "."}, "`out` must be a file or folder with a name, got '.'"),
        ({"out": "postgresql://host", "table": 'a"b'}, "`table` must be letters, digits and under"),
        ({"out": "t.csv", "k": 0}, "`k` must be an integer of at least 1, got 0"),
        ({"out": "t.xlsx"}, r"`out` must be .* a name that ends in .parquet, .csv, .jsonl,"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    index: PairTable, options, message: str, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError, match=message):
        export_answers(index, ExportOptions(**options))
    assert not list(tmp_path.iterdir())


def test_a_json_line_has_the_shape_of_the_service(index: PairTable, tmp_path: Path) -> None:
    export(index, "jsonl", tmp_path / "t.jsonl")
    lines = [
        json.loads(line) for line in (tmp_path / "t.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert {line["query"]["id"] for line in lines} == set(index.catalog.ids.to_pylist())
    for line in lines:
        wanted = recommend(index, line["query"]["id"], 10, min_evidence="guess").rows()
        assert (line["bundle"], line["complements"]) == (index.version, wanted)
