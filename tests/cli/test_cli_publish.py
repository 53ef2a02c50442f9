"""`neatrec publish` and `export`: what they print and their exit codes."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from neatrec.cli.main import exit_code_of

MARKET = "supermarket:baskets=3000,items=120,seed={}"
WIDE = "top10_changed = 1\ncoverage_fall = 1"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two bundles."""
    folder = tmp_path_factory.mktemp("shop")
    for name, seed in (("one", 1), ("two", 2)):
        words = [
            "train",
            MARKET.format(seed),
            "--model",
            "shrunk-lift",
            "--out",
            str(folder / name),
        ]
        assert exit_code_of([*words, "--quiet"]) == 0
    return folder


def test_train_writes_the_table_and_show_says_what_it_covers(neatrec, shop: Path) -> None:
    got = neatrec("show", shop / "one", "--json").json()
    assert sum(shares["sales"] for shares in got["coverage"].values()) == pytest.approx(1.0)
    assert got["notes"]["table"]["k"] == 100
    assert "Best evidence among" in neatrec("show", shop / "one").stdout


def test_show_lists_the_versions_of_a_store(neatrec, shop: Path, tmp_path: Path) -> None:
    for night in ("one", "two"):
        neatrec("publish", shop / night, "store", "--gate", _file(tmp_path, WIDE))
    neatrec("publish", "--rollback", "store")
    newest, oldest = neatrec("show", "store", "--json").json()["store"]
    assert (newest["number"], newest["live"], newest["rolled_back"]) == (2, False, True)
    assert (oldest["number"], oldest["live"], oldest["rolled_back"]) == (1, True, False)
    assert oldest["model"] == "shrunk-lift"
    shown = [line.split() for line in neatrec("show", "store").stdout.splitlines()]
    assert ["1", oldest["version"][:12], "shrunk-lift", oldest["created"], "live"] in shown
    assert [
        "2",
        newest["version"][:12],
        "shrunk-lift",
        newest["created"],
        "rolled",
        "back",
    ] in shown


def test_show_says_which_version_of_a_store_is_damaged(neatrec, shop: Path, tmp_path: Path) -> None:
    for night in ("one", "two"):
        neatrec("publish", shop / night, "store", "--gate", _file(tmp_path, WIDE))
    next(Path("store/versions").glob("1-*/manifest.json")).write_text("{}")
    said = neatrec("show", "store", "--json")
    assert said.json()["store"][1] == {
        "number": 1,
        "version": None,
        "model": None,
        "created": None,
        "live": False,
        "rolled_back": False,
    }
    assert "version 1 is damaged" in said.stderr
    assert ["1", "damaged"] in [
        line.split() for line in neatrec("show", "store").stdout.splitlines()
    ]


def test_a_night_at_the_prompt(neatrec, shop: Path) -> None:
    assert neatrec("publish", shop / "one", "store", "--json").json()["live"] == 1
    refused = neatrec("publish", shop / "two", "store", "--json")
    assert refused.returncode == 3
    error = json.loads(refused.stdout)["error"]
    assert error["kind"] == "GateError"
    assert any("top ten answers changed" in reason for reason in error["reasons"])
    assert "error: not published" in neatrec("publish", shop / "two", "store").stderr
    changed = neatrec("publish", "--diff", "store", shop / "two", "--json", "--list", "2").json()
    assert len(changed["changes"]) == 2
    assert 0.5 < changed["top10_changed"] <= 1
    assert (
        changed["changes"][0]["name"] in neatrec("publish", "--diff", "store", shop / "two").stdout
    )


def test_a_gate_of_ones_own_and_back(neatrec, shop: Path, tmp_path: Path) -> None:
    (tmp_path / "wide.toml").write_text("top10_changed = 1\n")
    neatrec("publish", shop / "one", "store")
    said = neatrec("publish", shop / "two", "store", "--gate", "wide.toml")
    assert (said.stdout + said.stderr).count("version 2") == 1
    assert "version 1" in neatrec("publish", "--rollback", "store").stdout
    states = [(v["number"], v["live"]) for v in neatrec("show", "store", "--json").json()["store"]]
    assert states == [(2, False), (1, True)]
    assert "rolled back" in neatrec("show", "store").stdout
    for words in (
        ["store"],
        ["--rollback", "--diff", "store"],
        ["--to", "1", "store"],
    ):
        assert neatrec("publish", *words).returncode == 2
    assert neatrec("publish", "--rollback", "store").returncode == 2
    assert neatrec("publish", "--rollback", "store", "--to", "2", "--json").json()["live"] == 2
    assert (
        "Did you mean 'top10_changed'?"
        in neatrec(
            "publish", shop / "one", "store", "--gate", _file(tmp_path, "top10_change = 1")
        ).stderr
    )


def test_show_takes_a_store(neatrec, shop: Path) -> None:
    live = neatrec("publish", shop / "one", "store", "--json").json()["version"]
    assert neatrec("show", "store", "--json").json()["content_hash"] == live
    of_store = neatrec("show", "store", "--json").json()
    assert [found["version"] for found in of_store.pop("store")] == [live]
    assert of_store == neatrec("show", shop / "one", "--json").json()


def test_export_from_a_bundle_or_a_store(neatrec, shop: Path, tmp_path: Path) -> None:
    neatrec("publish", shop / "one", "store")
    for source in (shop / "one", "store"):
        got = neatrec("export", source, "--out", "t.parquet", "--json").json()
        assert pq.read_table(tmp_path / "t.parquet").num_rows == got["answers"] > 0
    assert neatrec("export", shop / "one", "--out", "t.doc").returncode == 2


def _file(folder: Path, text: str) -> Path:
    file = folder / "gate.toml"
    file.write_text(text)
    return file
