"""`neatrec.fit`: a notebook's way from orders to answers."""

import pickle
import re
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from starlette.testclient import TestClient

import neatrec
from neatrec import Shop
from neatrec.errors import ParameterError, SourceError
from neatrec.io import as_baskets
from neatrec.models import Run, rank
from neatrec.service.app import make_app
from neatrec.service.settings import ServiceSettings
from neatrec.simulator import supermarket

MARKET = supermarket(baskets=4_000, items=120, seed=1).baskets


@pytest.fixture(scope="module")
def shop() -> Shop:
    return neatrec.fit(MARKET, model="shrunk-lift")


def lines() -> pa.Table:
    return pa.table({"order_id": [1, 1, 2, 2, 3], "sku": ["tea", "milk", "tea", "milk", "rice"]})


def test_every_kind_of_orders_gives_the_same_baskets() -> None:
    lists = [["milk", "tea"], ["milk", "tea"], ["rice"]]
    frame = polars.from_arrow(lines())
    kinds = [lists, lines(), lines().to_pandas(), frame, frame.lazy(), duckdb.from_arrow(lines())]
    found = [as_baskets(orders) for orders in kinds]
    contents = [
        sorted(
            tuple(sorted(b.catalog.ids.take(pa.array(basket)).to_pylist())) for basket in _rows(b)
        )
        for b in found
    ]
    assert all(content == [("milk", "tea"), ("milk", "tea"), ("rice",)] for content in contents)


def _rows(baskets: neatrec.Baskets) -> list[list[int]]:
    return [
        baskets.items[a:b].tolist()
        for a, b in zip(baskets.offsets[:-1], baskets.offsets[1:], strict=True)
    ]


@pytest.mark.parametrize(
    ("orders", "sentence"),
    [
        ([["tea"], "tea"], r"`orders\[1\]` must be a list of items, got 'tea'"),
        ([["tea"], ["tea", None]], r"`orders\[1\]` must be without missing items"),
        ([["tea"], ["tea", float("nan")]], r"`orders\[1\]` must be without missing items"),
        ([], "`orders` must be at least one basket, got"),
        (7, "cannot read int as a table of orders: .*Pass a path, or a pandas"),
        (
            {"order": [1]},
            "has no column known to be the item; its columns are: order. Name it with",
        ),
        (iter([["tea"]]), "cannot read list_iterator as a table of orders: .*Pass a path, or a p"),
        (pandas.DataFrame({"a": [1]}), "has no column known to be the basket; its columns are: a"),
        ("nowhere.csv", "there is no file or folder nowhere.csv"),
    ],
)
def test_wrong_orders_get_our_own_sentence(orders: Any, sentence: str) -> None:
    with pytest.raises(neatrec.NeatrecError, match=sentence):
        neatrec.fit(orders)


def test_a_model_is_fitted_on_a_data_frame_and_saved_without_further_words(tmp_path: Path) -> None:
    whole = neatrec.make_model("shrunk-lift").fit(MARKET, Run(rng=5))
    frame = polars.from_arrow(MARKET.to_arrow())
    model = neatrec.make_model("shrunk-lift").fit(frame, Run(rng=5))
    assert rank(model, MARKET.catalog.id(3)).ids == rank(whole, MARKET.catalog.id(3)).ids
    columns = neatrec.make_model("pop").fit({"basket": [1, 1, 2], "item": ["tea", "milk", "tea"]})
    assert rank(columns, "milk").ids == ["tea"]
    assert model.parameters.k == neatrec.make_model("shrunk-lift").parameters.k
    manifest = neatrec.save_bundle(whole, tmp_path / "bundle")
    assert (manifest.data_hash, manifest.seed) == (MARKET.hash, 5)
    again = neatrec.save_bundle(neatrec.load_bundle(tmp_path / "bundle"), tmp_path / "copy")
    assert (again.data_hash, again.seed, again.content_hash) == (
        MARKET.hash,
        5,
        manifest.content_hash,
    )
    with pytest.raises(SourceError, match="cannot read int as a table of orders"):
        neatrec.make_model("pop").fit(7)


def test_results_are_data_frames_and_html_tables(shop: Shop) -> None:
    labels = neatrec.make_labels(MARKET, levels=0.05)
    assert labels.levels == (0.05,) == neatrec.LeaderboardOptions(levels=0.05).levels
    item = MARKET.catalog.name(labels.query[labels.strongest(1)[0]])
    options = neatrec.LeaderboardOptions(levels=0.05, carts=0)
    parts = neatrec.split_baskets(MARKET, "half")
    board = neatrec.run_leaderboard(parts.train, parts.test, ["popco", "llr"], options)
    results = {
        "Baskets": MARKET,
        "Check": neatrec.check_baskets(MARKET),
        "Labels": labels,
        "Answers for": rank(neatrec.make_model("shrunk-lift").fit(MARKET), item),
        "Goes with": neatrec.recommend(shop.table, item),
        "Leaderboard": board,
    }
    for caption, result in results.items():
        rows = result.to_arrow()
        assert rows.num_rows > 0
        assert result.to_pandas().shape == result.to_polars().shape == rows.shape
        assert pa.table(result).equals(rows)
        shown = result._repr_html_()
        assert re.search(f"<caption>.*{caption}.*row", shown)
        assert 1 < shown.count("<tr>") <= 21
        names = re.findall("<th>(.*?)</th>", shown)
        assert names
        assert set(names) <= set(rows.column_names)
    assert set(board.to_arrow()["model"].to_pylist()) == {"popco", "llr"}
    assert MARKET.to_arrow().num_rows == MARKET.lines


@pytest.mark.parametrize("kind", [pa.table, pandas.DataFrame, polars.DataFrame])
def test_the_catalogue_may_be_any_data_frame(kind: Any) -> None:
    names = kind({"sku": ["milk", "tea"], "name": ["Whole milk", "Green tea"]})
    shop = neatrec.fit(lines(), catalog=names, model="shrunk-lift")
    found = shop.goes_with("Green tea", min_evidence="guess").to_arrow()
    assert found["item"].to_pylist() == ["Whole milk"]


def test_options_of_the_source_hold_beside_named_columns() -> None:
    orders = lines().rename_columns(["o", "sku"])
    options = neatrec.SourceOptions(basket="sku", exclude_item=["rice"])
    shop = neatrec.fit(orders, basket="o", options=options, model="shrunk-lift")
    assert shop.table.catalog.ids.to_pylist() == ["milk", "tea"]
    with pytest.raises(ParameterError, match="`options` must be given with a table of orders"):
        neatrec.fit([["tea", "milk"]], options=options)


def test_integer_ids_stay_integers_in_rankings_checks_and_requests() -> None:
    orders = {"basket": [1, 1, 2, 2, 3, 3, 4], "item": [70, 80, 70, 80, 70, 80, 90]}
    baskets = as_baskets(orders)
    shop = neatrec.fit(baskets, model="shrunk-lift")
    ranking = rank(neatrec.load_bundle(shop.bundle), 70)
    assert ranking.ids == ranking.to_arrow()["id"].to_pylist() == [80]
    check = neatrec.check_baskets(baskets)
    assert {one.item for one in check.suspects.frequent} == {70, 80, 90}
    with TestClient(make_app(ServiceSettings(shop.bundle))) as client:
        asked = {"items": [70, "90"], "exclude": [80]}
        answer = client.post("/v1/cart/complements", json=asked).json()
    assert [item["id"] for item in answer["cart"]] == [70, 90]


def test_what_would_be_ignored_is_refused() -> None:
    for orders in ([["tea"]], MARKET):
        with pytest.raises(ParameterError, match="`basket` must be given with a table of orders"):
            as_baskets(orders, {"basket": "order_id"})


def test_pairs_are_listed_once_and_those_with_most_orders_beyond_chance_first(shop: Shop) -> None:
    found = shop.pairs().to_arrow()
    pairs = list(
        map(frozenset, zip(found["item"].to_pylist(), found["other"].to_pylist(), strict=True))
    )
    beyond = found["beyond"].to_pylist()
    assert len(pairs) == len(set(pairs)) > 5
    assert beyond == sorted(beyond, reverse=True)
    low = shop.pairs(sort="strength").to_arrow()["lift_low"].to_pylist()
    assert low == sorted(low, reverse=True)
    assert set(found["grade"].to_pylist()) <= {"certain", "likely"}
    assert len(shop.pairs(3)) == 3
    for wrong in ("5", -1, 0):
        with pytest.raises(ParameterError, match="`k` must be"):
            shop.pairs(wrong)


def test_answers_carry_evidence_and_are_tables(shop: Shop) -> None:
    name = shop.pairs(1).to_arrow()["item"][0].as_py()
    found = shop.goes_with(name, 5)
    assert 0 < len(found) <= 5
    assert found.to_arrow()["words"][0].as_py().startswith("Bought together")
    assert found.to_pandas().shape == found.to_polars().shape == found.to_arrow().shape
    assert pa.table(found).equals(found.to_arrow())
    assert repr(found).startswith(f"Goes with {name} (")
    assert "<table>" in found._repr_html_()
    assert len(shop.complete([name, shop.pairs(2).to_arrow()["item"][1].as_py()])) > 0
    with pytest.raises(ParameterError, match="`cart` must be a list of items"):
        shop.complete(name)


def test_all_answers_are_one_table_as_the_export_writes_it(shop: Shop) -> None:
    found = shop.all(3).to_arrow()
    assert max(found["rank"].to_pylist()) <= 3
    first = found.filter(pc.equal(found["rank"], 1)).to_pylist()
    assert len(first) > 5
    for row in first[:5]:
        assert shop.goes_with(row["query"], 1).to_arrow()["id"].to_pylist() == [row["item"]]


def test_a_shop_is_pickled_and_loaded(shop: Shop, tmp_path: Path) -> None:
    name = shop.pairs(1).to_arrow()["item"][0].as_py()
    wanted = shop.goes_with(name).to_arrow()
    assert pickle.loads(pickle.dumps(shop)).goes_with(name).to_arrow().equals(wanted)
    loaded = neatrec.load(shop.save(tmp_path / "bundle"))
    assert loaded.goes_with(name).to_arrow().equals(wanted)
    with pytest.raises(ParameterError, match="made by `fit`: a bundle holds no baskets"):
        loaded.evaluate()


def test_a_wrong_keyword_is_a_sentence_with_the_nearest_name(shop: Shop) -> None:
    with pytest.raises(ParameterError, match="Did you mean 'min_evidence'"):
        shop.goes_with("x", min_evidense="guess")  # type: ignore[call-arg]
    with pytest.raises(ParameterError, match="Did you mean 'user'"):
        neatrec.fit("orders.csv", usr="customer")  # type: ignore[call-arg]
    with pytest.raises(ParameterError, match="Did you mean 'split'"):
        shop.evaluate(spliit="half")  # type: ignore[call-arg]


def test_names_are_escaped_in_a_notebook() -> None:
    shop = neatrec.fit(
        [["<b>tea</b>", "milk"], ["<b>tea</b>", "milk"], ["rice", "soap"]], model="shrunk-lift"
    )
    shown = shop.goes_with("milk", min_evidence="guess")._repr_html_()
    assert "<b>" not in shown
    assert "&lt;b&gt;tea" in shown


def test_a_shop_is_evaluated_and_saved(tmp_path: Path) -> None:
    shop = neatrec.fit(MARKET, model="llr")
    board = shop.evaluate()
    assert max(map(len, repr(board).splitlines())) < 200
    assert {"shrunk-lift-tuned", "llr", "pop"} <= set(board.models)
    assert board.models.count("llr") == 1
    assert neatrec.load_bundle(shop.save(tmp_path / "bundle")).name == "llr"
    with pytest.raises(ParameterError, match="a new folder"):
        shop.save(tmp_path / "bundle")
