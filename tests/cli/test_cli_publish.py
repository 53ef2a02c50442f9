"""`neatrec publish`, `show` and `export`: what they print and their exit codes."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from neatrec.cli.main import exit_code_of

MARKET = "supermarket:baskets=3000,items=120,seed={}"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two bundles, and a file of limits that lets everything through."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "wide.toml").write_text("top10_changed = 1\ncoverage_fall = 1\n")
    for seed, name in enumerate(("one", "two"), 1):
        words = ["train", MARKET.format(seed), "--model", "shrunk-lift", "--quiet"]
        assert exit_code_of([*words, "--out", str(folder / name)]) == 0
    return folder


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_show_lists_the_versions_of_a_store_first(neatrec, shop: Path) -> None:
    live = neatrec("publish", shop / "one", "store", "--json").json()["version"]
    of_store = neatrec("show", "store", "--json").json()
    assert [found["version"] for found in of_store.pop("store")] == [live]
    assert of_store == neatrec("show", shop / "one", "--json").json()
    said = neatrec("publish", shop / "two", "store", "--gate", shop / "wide.toml")
    assert (said.stdout + said.stderr).count("version 2") == 1
    assert "version 1" in neatrec("publish", "--rollback", "store").stdout
    newest, oldest = neatrec("show", "store", "--json").json()["store"]
    assert (newest["number"], newest["live"], newest["rolled_back"]) == (2, False, True)
    assert (oldest["number"], oldest["live"], oldest["rolled_back"]) == (1, True, False)
    shown = neatrec("show", "store").stdout
    assert shown.startswith("Versions")
    facts = [[f["version"][:12], "shrunk-lift", f["created"]] for f in (oldest, newest)]
    assert ["1", *facts[0], "live"] in lines(shown)
    assert ["2", *facts[1], "rolled", "back"] in lines(shown)
    assert neatrec("publish", "--rollback", "store").returncode == 2
    assert neatrec("publish", "--rollback", "store", "--to", "2", "--json").json()["live"] == 2
    next(Path("store/versions").glob("1-*/manifest.json")).write_text("{}")
    damaged = neatrec("show", "store", "--json")
    assert damaged.json()["store"][1] == {
        **dict.fromkeys(("version", "model", "created")),
        **{"number": 1, "live": False, "rolled_back": False},
    }
    assert "version 1 is damaged" in damaged.stderr
    assert ["1", "damaged"] in lines(neatrec("show", "store").stdout)


def test_a_night_at_the_prompt(neatrec, shop: Path) -> None:
    assert neatrec("publish", shop / "one", "store", "--json").json()["live"] == 1
    assert "version 1" in neatrec("publish", shop / "one", "store").stdout
    refused = neatrec("publish", shop / "two", "store", "--json").error(3)
    assert refused["kind"] == "GateError"
    assert any("top ten answers changed" in reason for reason in refused["reasons"])
    words = ["publish", "--diff", "store", shop / "two"]
    changed = neatrec(*words, "--json").json()
    assert len(changed["changes"]) == 20
    assert 0.5 < changed["top10_changed"] <= 1
    assert changed["changes"][0]["name"] in neatrec(*words).stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["store"], "given BUNDLE and STORE"),
        (["--rollback", "--diff", "store"], "given one of --diff and --rollback"),
        (["--to", "1", "store"], "given with --rollback"),
        (["one", "store", "--gate", "gate.toml"], "Did you mean 'top10_changed'?"),
        (["one", "store", "--gate", "less.toml"], "`rows_fall` must be a number of at least 0"),
        (["one", "store", "--gate", "odd.toml"], "is not TOML"),
        (["one", "store", "--gate", "none.toml"], "cannot read none.toml"),
        (["none", "store"], "there is no bundle at"),
        (["--rollback", "none"], "a store that `neatrec publish` made"),
    ],
)
def test_mistakes_are_refused(neatrec, shop: Path, tmp_path, words, said: str) -> None:
    for name, text in {"gate": "top10_change = 1", "less": "rows_fall = -1", "odd": "= 1"}.items():
        (tmp_path / f"{name}.toml").write_text(text)
    done = neatrec("publish", *(shop / word if word == "one" else word for word in words))
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_export_from_a_bundle_or_a_store(neatrec, shop: Path, tmp_path: Path) -> None:
    neatrec("publish", shop / "one", "store")
    for source in (shop / "one", "store"):
        got = neatrec("export", source, "--out", "t.parquet", "--json").json()
        assert pq.read_table(tmp_path / "t.parquet").num_rows == got["answers"] > 0
    assert neatrec("export", shop / "one", "--out", "t.doc").returncode == 2
    assert json.loads(neatrec("export", "none", "--json").stdout)["error"]["kind"] == "BundleError"
