"""A half-life from `fit` and `train` to the bundle, its evidence in numbers and words, and the leaderboard."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.dated_shop import dated_shop
from neatrec import fit
from neatrec.bundle import read_manifest
from neatrec.check.run import check_baskets
from neatrec.data.baskets import Baskets
from neatrec.errors import ParameterError
from neatrec.leaderboard.run import LeaderboardOptions, run_leaderboard
from neatrec.service.render import evidence_json
from neatrec.serving import recommend
from neatrec.serving.pair_list import PairList, PairSelection
from neatrec.shop import Shop
from neatrec.simulator import supermarket
from neatrec.training.train import ModelChoice, TrainOptions, train_bundle


@pytest.fixture(scope="module")
def baskets() -> Baskets:
    return dated_shop()


@pytest.fixture(scope="module")
def shops(baskets: Baskets) -> tuple[Shop, Shop]:
    """Without and with a half-life."""
    return fit(baskets, model="shrunk-lift"), fit(baskets, model="shrunk-lift", half_life="60d")


def test_shown_counts_are_real_and_the_weighted_one_stands_beside_them(shops: tuple[Shop, Shop]) -> None:
    plain, weighted = (recommend(shop.index, ["bun"], 1).answers[0].evidence for shop in shops)
    assert (weighted.count, weighted.customers) == (plain.count, plain.customers)
    assert 0 < weighted.weighted < plain.customers
    assert weighted.expected < plain.expected / 2
    assert weighted.lift == pytest.approx(plain.lift, rel=0.3)
    assert weighted.lift_high / weighted.lift_low > plain.lift_high / plain.lift_low
    assert f"{plain.customers} customers (weighted: {weighted.weighted})," in weighted.words()
    assert weighted.words(public=True).startswith("Bought together 2.5x")
    assert json.loads(evidence_json(weighted, False))["weighted"] == weighted.weighted
    assert "weighted" not in json.loads(evidence_json(plain, False))
    assert plain.weighted == -1
    files = ["".join(PairList(shop.index).csv("strength", PairSelection(), False)) for shop in shops]
    assert ["weighted" in file.splitlines()[0].split(",") for file in files] == [False, True]
    row = next(row for row in csv.DictReader(io.StringIO(files[1])) if {row["a_id"], row["b_id"]} == {"bun", "sausage"})
    assert row["weighted"] == str(weighted.weighted)
    assert plain.to_dict()["weighted"] is None


def test_the_bundle_says_how_old_baskets_count(shops: tuple[Shop, Shop]) -> None:
    plain, weighted = (shop.index for shop in shops)
    assert "Weighted: half-life 60 days." in weighted.pairs.words()
    assert "Weighted" not in plain.pairs.words()
    about = weighted.manifest.notes["topk"]["evidence"]
    assert (about["half_life"], weighted.manifest.parameters["half_life"]) == (60.0, 60.0)
    assert "half_life" not in plain.manifest.notes["topk"]["evidence"]
    assert plain.pairs.weighted is None
    np.testing.assert_array_equal(plain.pairs.count, weighted.pairs.count)


@pytest.mark.parametrize("infinite", ["none", "inf", float("inf")])
def test_an_infinite_half_life_gives_the_same_bits_as_none(shops, baskets: Baskets, infinite: str | float) -> None:
    found = fit(baskets, model="shrunk-lift", half_life=infinite).index.manifest
    assert found.content_hash == shops[0].index.manifest.content_hash != shops[1].index.manifest.content_hash


def test_an_old_season_is_forgotten(baskets: Baskets) -> None:
    """Buns went with rice until June, and have gone with pens since."""
    item = baskets.catalog.code_of
    old = np.asarray(baskets.times) < np.datetime64("2025-07-01", "us").astype(np.int64)
    lists = [["bun", "rice" if early else "pen"] if number % 3 else ["ice"] for number, early in enumerate(old)]
    shop = replace(Baskets.from_lists(lists, catalog=baskets.catalog, ordered=False), times=baskets.times)
    bun, rice, pen = (np.array([item[name]], np.int32) for name in ("bun", "rice", "pen"))
    plain, counts = (fit(shop, model="popco", half_life=days).index.model.counts for days in (None, "30d"))
    assert plain.of_pairs(bun, pen)[0] < 2 * plain.of_pairs(bun, rice)[0]
    assert counts.of_pairs(bun, pen)[0] > 10 * counts.of_pairs(bun, rice)[0]


def test_models_that_cannot_weigh_baskets_are_refused_or_left_out(baskets: Baskets, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"`half_life` must be none for model 'item2vec'.*Use a model that counts"):
        train_bundle(lambda: baskets, tmp_path / "b", ModelChoice("item2vec"), TrainOptions(half_life="60d"))
    on_spark = TrainOptions(half_life="60d", engine="spark")
    with pytest.raises(ParameterError, match="`half_life` must be none where Spark counts"):
        train_bundle(lambda: baskets, tmp_path / "b", ModelChoice("lift"), on_spark)
    untimed = replace(baskets, times=None)
    with pytest.raises(ParameterError, match="these baskets have no times"):
        train_bundle(lambda: untimed, tmp_path / "b", ModelChoice("lift"), TrainOptions(half_life="60d"))
    assert not (tmp_path / "b").exists()
    late = np.asarray(baskets.times) >= np.sort(baskets.times)[-1000]
    options = LeaderboardOptions(half_life="60d", min_basket=2, queries=0, carts=0, rounds=100)
    board = run_leaderboard(baskets.select(~late), baskets.select(late), ["lift", "pop"], options)
    assert board.skipped == {"pop": "it cannot weigh baskets by their age"}
    assert board.to_json()["half_life"] == 60.0
    with pytest.raises(ParameterError, match=r"at least one model. pop is left out: it cannot weigh baskets by their"):
        run_leaderboard(baskets.select(~late), baskets.select(late), ["pop"], options)


def test_bayes_weighs_baskets_to_the_same_bits(tmp_path: Path) -> None:
    baskets = supermarket(2_000, 80, seed=2, threads=1).baskets
    hashes = []
    for name, engine in (("one", "memory"), ("two", "disk")):
        options = TrainOptions(half_life=120, engine=engine, index=False)
        train_bundle(lambda: baskets, tmp_path / name, ModelChoice("bayes"), options)
        hashes.append(read_manifest(tmp_path / name).content_hash)
    assert hashes[0] == hashes[1]


def test_check_shows_how_much_less_old_baskets_leave(baskets: Baskets) -> None:
    found = check_baskets(baskets, half_life="14d")
    assert found.to_json()["half_life"] == 14.0
    assert found.power
    assert 0 < found.power.records < check_baskets(baskets).power.records
