"""`neatrec labels --state` from the prompt: day by day from CSV files, against all days in one folder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

from neatrec.baskets import Baskets
from neatrec.cli.main import exit_code_of
from neatrec.sources.supermarket import supermarket

COLUMNS = ("--basket", "order", "--item", "item", "--user", "user", "--position", "position", "--category", "aisle")


@pytest.fixture
def told(monkeypatch, tmp_path: Path, capsys):
    """Runs a command in this process, in an empty folder: its exit code, stdout, stderr. Seven processes take long."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = exit_code_of(list(arguments))
        return code, *capsys.readouterr()

    return run


def answer(done: tuple[int, str, str]) -> dict:
    code, out, err = done
    assert code == 0, err
    return json.loads(out)


def write_lines(baskets: Baskets, path: Path) -> None:
    catalog, line = baskets.catalog, baskets.basket_of_line
    aisle = np.array(catalog.category_names[-1])[catalog.category_of()]
    columns = {
        "order": baskets.ids.take(pa.array(line)),
        "item": catalog.ids.take(pa.array(baskets.items)),
        "user": baskets.user_ids.take(pa.array(baskets.users[line])),
        "position": pa.array(np.arange(baskets.lines) - baskets.offsets[line] + 1),
        "aisle": pa.array(aisle[baskets.items]),
    }
    pacsv.write_csv(pa.table(columns), path)


@pytest.fixture
def days(tmp_path: Path) -> list[str]:
    """Three files that are one shop."""
    shop = supermarket(baskets=3000, items=150, seed=2).baskets
    (tmp_path / "days").mkdir()
    names = [f"days/{number}.csv" for number in range(3)]
    for number, name in enumerate(names):
        write_lines(shop.select(np.arange(len(shop)) % 3 == number), tmp_path / name)
    return names


def test_days_added_one_by_one_give_the_answer_of_the_whole(told, days: list[str]) -> None:
    whole = answer(told("labels", "days", *COLUMNS, "--null", "1", "--json"))
    for day in days:
        got = answer(told("labels", day, *COLUMNS, "--state", "state", "--null", "1", "--json"))
    assert got["state"] == {"added": 1000, "skipped": 0, "baskets": 3000}
    assert got["labels"]["0.05"] > 10
    for key in ("hash", "labels", "threshold", "records", "pairs", "baskets", "baskets_read", "null", "options"):
        assert got[key] == whole[key], key
    # the same counts serve the other protocol, and what is there already changes nothing
    again = answer(told("labels", days[1], *COLUMNS, "--state", "state", "--protocol", "paper", "--json"))
    paper = answer(told("labels", "days", *COLUMNS, "--protocol", "paper", "--json"))
    assert again["state"] == {"added": 0, "skipped": 1000, "baskets": 3000}
    assert again["hash"] == paper["hash"]


def test_other_options_than_the_states_are_a_sentence(told, days: list[str]) -> None:
    answer(told("labels", days[0], *COLUMNS, "--state", "state", "--json"))
    code, _, said = told("labels", days[1], *COLUMNS, "--state", "state", "--min-basket", "3")
    assert code == 2
    assert "the state state was made with a smallest basket of 5, got a smallest basket of 3. Use the same" in said
