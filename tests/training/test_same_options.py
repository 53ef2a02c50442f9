"""Which bundles are as the default training makes them, so that `neatrec serve ORDERS` may use them again."""

from dataclasses import replace
from pathlib import Path

import pytest

from helpers.dated_shop import dated_shop
from neatrec.cli.main import exit_code_of
from neatrec.training.train import ModelChoice, TrainOptions, train_bundle, trained_otherwise

LIFT = ModelChoice(model="shrunk-lift")


@pytest.mark.parametrize(
    ("choice", "options", "other"),
    [
        (LIFT, TrainOptions(), None),
        (LIFT, TrainOptions(threads=1), None),
        (ModelChoice(model="llr"), TrainOptions(), "--model llr"),
        (replace(LIFT, parameters={"k": 2.5}), TrainOptions(), "--set k 2.5"),
        (LIFT, TrainOptions(seed=4), "--seed 4"),
        (LIFT, TrainOptions(k=7), "-k 7"),
        (LIFT, TrainOptions(same_category="mix"), "--same-category mix"),
        (LIFT, TrainOptions(strata=("store",)), "--strata store"),
        (LIFT, TrainOptions(strata=()), "--strata none"),
    ],
)
def test_the_first_other_option_is_named(
    tmp_path, choice, options: TrainOptions, other: str | None
) -> None:
    train_bundle(dated_shop, tmp_path / "bundle", choice, options)
    assert trained_otherwise(tmp_path / "bundle", LIFT, TrainOptions()) == other


def test_serve_neither_serves_nor_replaces_a_bundle_of_another_model(
    tmp_path: Path, capsys
) -> None:
    orders, out = tmp_path / "orders.csv", tmp_path / "bundle"
    orders.write_text(
        "order_id,product\n"
        + "".join(f"{n},{item}\n" for n in range(30) for item in ("tea", "milk"))
    )
    words = [str(orders), "--basket", "order_id", "--item", "product", "--out", str(out)]
    assert exit_code_of(["train", *words, "--model", "llr", "--quiet"]) == 0
    before = (out / "manifest.json").read_bytes()
    capsys.readouterr()
    assert exit_code_of(["serve", *words, "--port", "0"]) == 2
    said = capsys.readouterr().err
    assert "`--out` must be a new folder, or a bundle of the same training" in said
    assert "(--model llr)" in said
    assert (out / "manifest.json").read_bytes() == before


def test_a_store_column_with_few_baskets_per_value_is_named(tmp_path: Path, caplog) -> None:
    baskets = dated_shop()
    caplog.set_level("INFO", "neatrec")
    train_bundle(lambda: baskets.select(range(300)), tmp_path / "bundle", LIFT)
    assert "evidence is not measured within store: too few baskets per value" in caplog.text
