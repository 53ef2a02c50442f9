"""The statements for warehouses: parsed back in eight dialects; run where there is an engine at hand, DuckDB."""

from __future__ import annotations

import sys

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import sqlglot

from neatrec.copurchase import Counting, count
from neatrec.copurchase.job import removal_codes
from neatrec.errors import MissingDependencyError, ParameterError
from neatrec.experiments.warehouse import DIALECTS, sql_script
from neatrec.sources.supermarket import supermarket

EIGHT = ("bigquery", "snowflake", "databricks", "redshift", "postgres", "trino", "duckdb", "spark")
TABLES = {"settings", "counted_baskets", "lines", "records", "customer_pairs", "pair_counts", "pairs", "margins"}
TABLES |= {"symmetric_pairs", "recall_sets"}


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("dialect", EIGHT)
def test_statements_parse_in_their_dialect_and_make_every_table(dialect: str, once: bool) -> None:
    script = sql_script(dialect, Counting(once_per_customer=once))
    found = sqlglot.parse(script, read=dialect)
    assert all(isinstance(tree, sqlglot.exp.Create) for tree in found)
    assert {tree.find(sqlglot.exp.Table).name for tree in found} == TABLES
    assert f"not run on {dialect}" in script


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_that_is_offered_can_be_written(dialect: str) -> None:
    assert len(sqlglot.parse(sql_script(dialect, Counting(), users_known=False), read=dialect)) == len(TABLES) - 1


@pytest.mark.parametrize("counting", [Counting(min_basket=5), Counting(directed=False), Counting(window=3)])
def test_the_script_counts_what_neatrec_counts(counting: Counting) -> None:
    baskets = supermarket(baskets=500, items=60, seed=4).baskets
    line = baskets.basket_of_line
    items = np.arange(len(baskets.catalog))
    with duckdb.connect() as con:
        for name, columns in {
            "basket_lines": {
                "basket": line,
                "position": np.arange(len(line)) - baskets.offsets[line],
                "item": baskets.items,
            },
            "baskets": {"basket": np.arange(len(baskets)), "customer": baskets.users},
            "items": {"item": items, "removal": removal_codes(baskets.catalog.category_of()), "place": items},
        }.items():
            con.register(name, pa.table(columns))
        for part in sql_script("duckdb", counting, recall=3).split(";\n"):
            con.execute(part)
        found = con.execute("SELECT query, item, pair_count, customers FROM pairs ORDER BY query, item").fetchnumpy()
        best = con.execute("SELECT MAX(best), COUNT(DISTINCT query) FROM recall_sets").fetchone()
    expected = count(baskets, counting)
    for name, values in zip(found, (expected.query, expected.item, expected.count, expected.customers), strict=True):
        np.testing.assert_array_equal(found[name], values, err_msg=name)
    assert best == (3, len(np.unique([expected.query, expected.item])))


def test_an_unknown_dialect_is_answered_with_the_nearest() -> None:
    with pytest.raises(ParameterError, match="Did you mean 'snowflake'"):
        sql_script("snowflakes", Counting())


def test_without_sqlglot_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    with pytest.raises(
        MissingDependencyError, match=r"translating SQL needs sqlglot\. pip install 'neatrec\[warehouse\]'"
    ):
        sql_script("bigquery", Counting())


def test_the_command_says_that_nothing_was_run(capsys: pytest.CaptureFixture[str]) -> None:
    from neatrec.cli.main import exit_code_of

    assert exit_code_of(["sql", "--dialect", "bigquery"]) == 0
    assert "not run on bigquery" in capsys.readouterr().out
    exit_code_of(["sql", "--help"])
    assert "NOT run there" in " ".join(capsys.readouterr().out.split())
    assert exit_code_of(["sql", "--dialect", "trino", "--no-customers", "--per-customer"]) == 2
    assert "`--per-customer` must be used where customers are known" in capsys.readouterr().err
