"""`neatrec train --warm-start`: the older bundle's model goes on, and the drift is said."""

import json
from pathlib import Path

import pytest

from neatrec.bundle import read_manifest
from neatrec.cli.main import exit_code_of

SOURCE = "supermarket:baskets=800,items=80"
LATER = "supermarket:baskets=900,items=80"


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("old") / "bundle"
    words = ["train", SOURCE, "--out", str(out), "--model", "item2vec", "--set", "dim=8", "--set", "epochs=30", "-q"]
    assert exit_code_of(words) == 0
    return out


def test_the_model_of_the_bundle_goes_on_and_the_drift_is_said(old: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "bundle"
    words = ["train", LATER, "--out", str(out), "--warm-start", str(old), "--set", "epochs=3", "--json"]
    assert exit_code_of(words) == 0
    said = capsys.readouterr()
    answer = json.loads(said.out)
    manifest = read_manifest(out)
    assert (answer["model"], manifest.parameters["dim"]) == ("item2vec", 8)
    started = answer["warm_start"]
    assert started == manifest.notes["warm_start"]
    assert (started["from"], started["epochs"]) == (read_manifest(old).content_hash, 3)
    assert started["drift"]["items"] == 80
    assert 0 < started["drift"]["cosine_aligned"] <= 1
    assert {"id", "name", "sales", "cosine", "changed"} == set(started["drift"]["movers"][0])
    assert "of top-10 answers changed, mean cosine" in said.err
    assert "topk" in manifest.notes


def test_a_bundle_may_be_its_own_start(old: Path, tmp_path: Path) -> None:
    out = tmp_path / "bundle"
    words = ["train", SOURCE, "--out", str(out), "--warm-start", str(old), "--set", "epochs=1", "--no-index", "-q"]
    assert exit_code_of(words) == 0
    before = read_manifest(out).content_hash
    words[words.index(str(old))] = str(out)
    assert exit_code_of(words) == 0
    assert read_manifest(out).notes["warm_start"]["from"] == before


def test_a_preset_keeps_the_model_of_the_bundle(old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", SOURCE, "--out", str(tmp_path / "b"), "--warm-start", str(old), "--preset", "paper", "--no-index"]
    assert exit_code_of([*words, "--set", "dim=8", "--set", "epochs=1"]) == 0
    manifest = read_manifest(tmp_path / "b")
    assert (manifest.model, manifest.parameters["optimizer"]) == ("item2vec", "sgd")
    assert exit_code_of(words) == 2  # the preset has other dimensions
    assert "`warm_start` must be a model with dim 100, got 8" in capsys.readouterr().err


def test_items_that_share_nothing_are_said(old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "other.csv"
    lines = [f"{order},item {item}" for order in range(60) for item in (order % 7, order % 5 + 10)]
    file.write_text("\n".join(["order,product", *lines]) + "\n")
    words = ["train", str(file), "--out", str(tmp_path / "b"), "--warm-start", str(old), "--set", "epochs=1", "--json"]
    assert exit_code_of(words) == 0
    said = capsys.readouterr()
    drift = json.loads(said.out)["warm_start"]["drift"]
    assert (drift["items"], drift["cosine"], drift["top10_changed"]) == (0, None, None)
    assert "no item is in both" in said.err


def test_a_model_of_counts_says_that_it_counts_anew(old: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "bundle"
    assert exit_code_of(["train", SOURCE, "--out", str(out), "--warm-start", str(old), "--model", "shrunk-lift"]) == 0
    assert "ignoring the warm start: model shrunk-lift counts all baskets" in capsys.readouterr().err
    assert "warm_start" not in read_manifest(out).notes


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--model", "neat"], "`warm_start` must be a model with the tables of 'neat', got 'item2vec'"),
        (["--set", "dim=9"], "`warm_start` must be a model with dim 9, got 8"),
        (["--warm-start", "nowhere"], "there is no bundle at"),
    ],
)
def test_what_cannot_go_on_is_refused_before_anything_is_read(options, sentence, old: Path, tmp_path, capsys) -> None:
    words = ["train", "no such file", "--out", str(tmp_path / "bundle"), "--warm-start", str(old), *options]
    assert exit_code_of(words) == 2
    assert sentence in capsys.readouterr().err
    assert not any(tmp_path.iterdir())
