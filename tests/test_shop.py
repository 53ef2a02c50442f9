"""`neatrec.fit`: a notebook's way from orders to answers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pytest
from scipy import sparse

import neatrec
from neatrec.errors import ParameterError
from neatrec.shop import Shop, as_baskets
from neatrec.simulator import supermarket

MARKET = supermarket(baskets=4_000, items=120, seed=1).baskets


@pytest.fixture(scope="module")
def shop() -> Shop:
    return neatrec.fit(MARKET, model="shrunk-lift")


def lines() -> pa.Table:
    return pa.table({"order_id": [1, 1, 2, 2, 3], "sku": ["tea", "milk", "tea", "milk", "rice"]})


def test_every_kind_of_orders_gives_the_same_baskets() -> None:
    lists = [["milk", "tea"], ["milk", "tea"], ["rice"]]
    matrix = sparse.csr_matrix([[1, 0, 2], [3, 0, 1], [0, 1, 0]])
    frame = polars.from_arrow(lines())
    kinds = [lists, lines(), lines().to_pandas(), frame, frame.lazy(), duckdb.from_arrow(lines())]
    found = [as_baskets(orders, None, {}) for orders in kinds]
    found.append(as_baskets(matrix, ["milk", "rice", "tea"], {}))
    contents = [
        sorted(tuple(sorted(b.catalog.ids.take(pa.array(basket)).to_pylist())) for basket in _rows(b)) for b in found
    ]
    assert all(content == [("milk", "tea"), ("milk", "tea"), ("rice",)] for content in contents)


def _rows(baskets: neatrec.Baskets) -> list[list[int]]:
    return [baskets.items[a:b].tolist() for a, b in zip(baskets.offsets[:-1], baskets.offsets[1:], strict=True)]


def test_wrong_orders_get_our_own_sentence() -> None:
    with pytest.raises(ParameterError, match=r"`orders\[1\]` must be a list of items, got 'tea'"):
        neatrec.fit([["tea"], "tea"])
    with pytest.raises(ParameterError, match="`items` must be 3 names"):
        neatrec.fit(sparse.csr_matrix((2, 3)))
    with pytest.raises(neatrec.NeatrecError):
        neatrec.fit(7)


def test_a_matrix_is_left_as_it_is_and_counts_an_item_once() -> None:
    matrix = sparse.csr_matrix(([1, 1, 0, 1], [0, 0, 1, 2], [0, 4]), shape=(1, 3))
    assert _rows(as_baskets(matrix, ["milk", "rice", "tea"], {})) == [[0, 2]]
    assert matrix.nnz == 4


def test_what_would_be_ignored_is_refused() -> None:
    with pytest.raises(ParameterError, match="`items` must be given with a sparse matrix"):
        as_baskets([["tea", "milk"]], ["tea"], {})
    for orders in ([["tea"]], MARKET, sparse.csr_matrix([[1]])):
        items = ["tea"] if sparse.issparse(orders) else None
        with pytest.raises(ParameterError, match="`basket` must be given with a table of orders"):
            as_baskets(orders, items, {"basket": "order_id"})


def test_a_statistic_is_compared_with_the_others_and_names_are_no_formulas(tmp_path: Path) -> None:
    odd = "two $\\odd$ signs"
    shop = neatrec.fit([["tea", odd]] * 20 + [["rice", "soap"]] * 20, model="llr")
    shop.plot("tea").savefig(tmp_path / "plot.svg")
    shop.plot(odd).savefig(tmp_path / "plot.svg")
    assert list(shop.evaluate().trainings).count("llr") == 1


def test_pairs_are_listed_once_and_the_strongest_first(shop: Shop) -> None:
    found = shop.pairs().to_arrow()
    pairs = list(map(frozenset, zip(found["query_name"].to_pylist(), found["item_name"].to_pylist(), strict=True)))
    low = found["lift_low"].to_pylist()
    assert len(pairs) == len(set(pairs)) > 5
    assert low == sorted(low, reverse=True)
    assert set(found["grade"].to_pylist()) <= {"certain", "likely"}
    assert len(shop.pairs(3)) == 3


def test_answers_carry_evidence_and_are_tables(shop: Shop) -> None:
    name = shop.pairs(1).to_arrow()["query_name"][0].as_py()
    found = shop.goes_with(name, 5)
    assert 0 < len(found) <= 5
    assert found.to_arrow()["evidence"][0].as_py().startswith("Bought together")
    assert found.to_pandas().shape == found.to_polars().shape == (len(found), 9)
    assert pa.table(found).equals(found.to_arrow())
    assert name in repr(found)
    assert "<table>" in found._repr_html_()
    assert len(shop.complete([name, shop.pairs(2).to_arrow()["query_name"][1].as_py()])) > 0
    with pytest.raises(ParameterError, match="`cart` must be a list of items"):
        shop.complete(name)


def test_names_are_escaped_in_a_notebook() -> None:
    shop = neatrec.fit([["<b>tea</b>", "milk"], ["<b>tea</b>", "milk"], ["rice", "soap"]], model="shrunk-lift")
    shown = shop.goes_with("milk", min_evidence="guess")._repr_html_()
    assert "<b>" not in shown
    assert "&lt;b&gt;tea" in shown


def test_a_shop_is_evaluated_plotted_and_saved(shop: Shop, tmp_path: Path) -> None:
    board = shop.evaluate()
    assert {"shrunk-lift", "llr", "pop"} <= set(board.trainings)
    pairs = shop.pairs().to_arrow()
    name = Counter([*pairs["query_name"].to_pylist(), *pairs["item_name"].to_pylist()]).most_common(1)[0][0]
    shop.plot(name).savefig(tmp_path / "plot.svg")
    assert "<svg" in (tmp_path / "plot.svg").read_text()
    assert len(shop.plot(name).axes[0].get_yticks()) == len(shop.goes_with(name)) > 1
    assert len(shop.plot(name, 1).axes[0].get_yticks()) == 1
    assert neatrec.load_bundle(shop.save(tmp_path / "bundle")).name == "shrunk-lift"
    with pytest.raises(ParameterError, match="a new folder"):
        shop.save(tmp_path / "bundle")
