"""Which bundles are as the default training makes them, so that `neatrec serve ORDERS` may use them again."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.dated_shop import dated_shop
from neatrec.cli.main import exit_code_of
from neatrec.models import make_model
from neatrec.serving import ServingTable
from neatrec.training.train import ModelChoice, TrainOptions, train_bundle, trained_otherwise

LIFT = ModelChoice(model="shrunk-lift")


@pytest.mark.parametrize(
    ("choice", "options", "other"),
    [
        (LIFT, TrainOptions(), None),
        (LIFT, TrainOptions(threads=1), None),
        (ModelChoice(model="llr"), TrainOptions(), "--model llr"),
        (replace(LIFT, settings=("k=2.5",)), TrainOptions(), "--set k 2.5"),
        (LIFT, TrainOptions(seed=4), "--seed 4"),
        (LIFT, TrainOptions(k=7), "-k 7"),
        (LIFT, TrainOptions(strata=("store",)), "--strata store"),
        (LIFT, TrainOptions(strata=()), "--strata none"),
        (LIFT, TrainOptions(index=False), "serving table none"),
        (LIFT, TrainOptions(half_life="60d"), "--half-life 60d"),
    ],
)
def test_the_first_other_option_is_named(tmp_path, choice, options: TrainOptions, other: str | None) -> None:
    train_bundle(dated_shop, tmp_path / "bundle", choice, options)
    assert trained_otherwise(tmp_path / "bundle", dated_shop(), LIFT, TrainOptions()) == other


def test_other_baskets_alone_are_no_other_options(tmp_path: Path) -> None:
    train_bundle(dated_shop, tmp_path / "bundle", LIFT)
    undated = replace(dated_shop(), times=None)
    assert trained_otherwise(tmp_path / "bundle", undated, LIFT, TrainOptions()) is None


def test_serve_neither_serves_nor_replaces_a_bundle_of_another_model(tmp_path: Path, capsys) -> None:
    orders, out = tmp_path / "orders.csv", tmp_path / "bundle"
    orders.write_text("order_id,product\n" + "".join(f"{n},{item}\n" for n in range(30) for item in ("tea", "milk")))
    words = [str(orders), "--basket", "order_id", "--item", "product", "--out", str(out)]
    assert exit_code_of(["train", *words, "--model", "llr", "--quiet"]) == 0
    before = (out / "manifest.json").read_bytes()
    capsys.readouterr()
    assert exit_code_of(["serve", *words, "--port", "0"]) == 2
    said = capsys.readouterr().err
    assert "`--out` must be a new folder, or a bundle of the same training" in said
    assert "(--model llr)" in said
    assert (out / "manifest.json").read_bytes() == before


def test_serve_trains_with_a_half_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """The model is shrunk lift here, for speed; the second time the bundle is there."""
    orders, out = tmp_path / "orders.csv", tmp_path / "bundle"
    rows = [f"{n},{item},2025-{n % 12 + 1:02}-01\n" for n in range(240) for item in ("tea", "milk")]
    orders.write_text("order_id,product,created_at\n" + "".join(rows))
    monkeypatch.setattr("neatrec.training.train.ModelChoice.make", lambda _: make_model("shrunk-lift"))
    monkeypatch.setattr("neatrec.service.run.serve", lambda settings, **_: None)
    words = ["serve", str(orders), "--out", str(out), "--port", "0"]
    for _ in range(2):
        assert exit_code_of([*words, "--half-life", "60d"]) == 0
    assert ServingTable.open(out).pairs.half_life == 60.0
    assert "trained on the same baskets with the same options" in capsys.readouterr().err
    for other, said in (
        (words, "(--half-life 60d)"),
        ([*words, "--half-life", "30d"], "(--half-life 60d)"),
        ([*words, "--half-life", "soon"], "`half_life` must be days, weeks or years"),
        (["serve", str(out), "--half-life", "30d"], "must be orders where options describe columns, rows or training"),
    ):
        assert exit_code_of(other) == 2
        assert said in capsys.readouterr().err
