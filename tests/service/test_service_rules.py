"""Decisions of the shop: rules and available items, read again when they change."""

from datetime import date, timedelta
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from helpers.service_bundle import id_of
from neatrec.errors import SourceError
from neatrec.service import watcher as watcher_module
from neatrec.service.app import make_app
from neatrec.service.metrics import Metrics
from neatrec.service.rules import read_available, read_rules
from neatrec.service.settings import ServiceSettings
from neatrec.service.watcher import BundleWatcher

HEADER = "query,item,action,position,until,note\n"
CHIPS, SALSA, TEA = id_of("Tortilla Chips"), id_of("Salsa"), id_of("Green Tea")


class Shop:
    """A client over a watcher whose files can be changed."""

    def __init__(self, bundle: Path, folder: Path, **files: str) -> None:
        self.paths = {name: folder / name for name in files}
        for name, text in files.items():
            self.paths[name].write_text(text)
        self.watcher = BundleWatcher(ServiceSettings(bundle, **self.paths), Metrics())
        self.client = TestClient(make_app(self.watcher.settings, self.watcher))

    def change(self, **files: str) -> None:
        for name, text in files.items():
            self.paths[name].write_text(text)
        self.watcher.check()

    def ask(self, item: str, **parameters: object) -> list[dict]:
        answer = self.client.get("/v1/complements", params={"item": item, **parameters})
        assert answer.status_code == 200, answer.text
        return answer.json()["complements"]


def test_a_block_takes_an_item_out_and_a_pin_puts_one_in(bundle: Path, tmp_path: Path) -> None:
    shop = Shop(bundle, tmp_path, rules=HEADER)
    before = shop.ask(CHIPS, min_evidence="guess")
    assert before[0]["id"] == SALSA
    shop.change(
        rules=HEADER + f"{CHIPS},{SALSA},block,,,sold out\n{CHIPS},{TEA},pin,2,,from the buyer\n"
    )
    lines = shop.ask(CHIPS, min_evidence="guess")
    assert SALSA not in [line["id"] for line in lines]
    assert lines[0]["id"] == before[1]["id"]
    assert (lines[1]["id"], lines[1]["grade"], lines[1]["rank"]) == (TEA, "rule", 2)
    assert lines[1]["evidence"]["words"] == "Placed here by a rule of the shop."
    assert len(lines) == len(before)
    metrics = shop.client.get("/metrics").text
    assert 'neatrec_rule_hits_total{action="pin"' in metrics
    assert 'neatrec_rule_hits_total{action="block"' in metrics


def test_a_block_in_a_cart_is_counted_and_its_place_filled(bundle: Path, tmp_path: Path) -> None:
    shop = Shop(bundle, tmp_path, rules=HEADER)
    asked = {"items": [CHIPS, TEA], "k": 3, "min_evidence": "guess"}
    before = shop.client.post("/v1/cart/complements", json={**asked, "k": 4}).json()["complements"]
    shop.change(rules=HEADER + f"{CHIPS},{before[1]['id']},block,,,\n")
    after = shop.client.post("/v1/cart/complements", json=asked).json()["complements"]
    assert [line["id"] for line in after] == [before[place]["id"] for place in (0, 2, 3)]
    assert 'neatrec_rule_hits_total{action="block"' in shop.client.get("/metrics").text


def test_a_rule_ends_after_its_last_day(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    today = date(2026, 12, 24)
    monkeypatch.setattr(watcher_module, "_today", lambda: today)
    shop = Shop(bundle, tmp_path, rules=HEADER + f"{CHIPS},{SALSA},block,,2026-12-24,\n")
    assert SALSA not in [line["id"] for line in shop.ask(CHIPS, k=50)]
    monkeypatch.setattr(watcher_module, "_today", lambda: today + timedelta(days=1))
    shop.watcher.check()
    assert shop.ask(CHIPS, k=1)[0]["id"] == SALSA


def test_only_what_is_available_is_named(bundle: Path, tmp_path: Path) -> None:
    everything = Shop(bundle, tmp_path, available="\n".join([SALSA, TEA, "303", "unknown id"]))
    lines = everything.ask(CHIPS, k=100, min_evidence="guess")
    assert {SALSA} <= {line["id"] for line in lines} <= {SALSA, TEA, "303"}
    for text in ("# only tea today\n" + TEA, "# nothing\n"):  # an empty list is refused
        everything.change(available=text)
        assert {line["id"] for line in everything.ask(CHIPS, k=100, min_evidence="guess")} <= {TEA}
    with pytest.raises(SourceError, match="names no item"):
        read_available(everything.paths["available"])


BAD = [
    ("100,200,block,,,\n", "line 1: the column 'query' is missing"),
    ("query,item,action,colour\n", "there is no column 'colour'"),
    (
        HEADER + "100,200,hide,,,\n",
        "line 2: `action` must be block, pin, boost or note, got 'hide'",
    ),
    (HEADER + "100,200,pin,0,,\n", "`position` must be an integer from 1 to 100, got '0'"),
    (HEADER + "100,200,pin,1,24.12.2026,\n", "`until` must be a day such as 2026-12-24"),
    (HEADER + "100,,block,,,\n", "`query` and `item` must be ids"),
    (HEADER + "100,100,pin,1,,\n", "an item is never recommended for itself"),
    (HEADER + "*,100,pin,1,,\n", "a pin needs a query of its own"),
    (HEADER + "100,200,block,,,a, b\n", "line 2: 7 cells for 6 columns"),
    (HEADER + '100,"200,block,,,\n', "it is not CSV"),
    (
        HEADER + "1,2,pin,1,2020-01-01,\n1,3,pin,1,2999-01-01,\n1,4,pin,1,,\n",
        "line 4: two items are pinned to position 1 of '1' .see line 3",
    ),
]


@pytest.mark.parametrize(("text", "match"), BAD, ids=range(len(BAD)))
def test_bad_rules_are_refused_by_line_and_the_old_ones_stay(
    bundle, tmp_path, text, match: str, caplog
) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(text)
    with pytest.raises(SourceError, match=match):
        read_rules(file)
    shop = Shop(bundle, tmp_path, rules=HEADER + f"{CHIPS},{SALSA},block,,,\n")
    shop.change(rules=text)
    assert SALSA not in [line["id"] for line in shop.ask(CHIPS, k=50)]
    assert "rules refused, the old one stays" in caplog.text
    assert 'neatrec_bad_files_total{file="rules"} 1.0' in shop.client.get("/metrics").text


def test_rules_that_name_unknown_ids_are_said(
    bundle: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = f"gone,{SALSA},block,,,\n{CHIPS},gone,pin,1,,\n*,gone,block,,,\n*,{SALSA},block,,,\n"
    shop = Shop(bundle, tmp_path, rules=HEADER + lines + "gone,gone too,block,,2020-01-01,ended\n")
    assert "rules: 3 of 4 name an id that the bundle does not hold" in caplog.text
    caplog.clear()
    shop.change(rules=HEADER + f"*,{SALSA},block,,,\n")
    assert "does not hold" not in caplog.text
    shop.change(rules=HEADER + f"gone,{SALSA},block,,,\n{CHIPS},gone,pin,1,,\n")
    assert shop.ask(CHIPS, k=1)[0]["id"] == SALSA  # items that the catalogue lost are no fault
