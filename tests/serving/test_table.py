"""The serving table in its bundle: opened, checked, the same until its last user is gone."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from helpers.toyshop import PARTNERS, code, toy_baskets, toy_catalog
from neatrec.bundle import read_manifest, save_bundle
from neatrec.cooccurrence import expected_counts
from neatrec.errors import BundleError
from neatrec.memory import blocks
from neatrec.models import Model, Run, counts, make_model
from neatrec.models.odds import features
from neatrec.models.odds import model as odds
from neatrec.serving import PairTable, build, counted, save_indexed
from neatrec.serving.evidence import GUESS, LIKELY
from neatrec.simulator import supermarket

ONE = Run(rng=3, threads=1, device="cpu")


@pytest.fixture(scope="module")
def model() -> Model:
    return make_model("shrunk-lift").fit(toy_baskets(), ONE)


@pytest.fixture
def bundle(model: Model, tmp_path: Path) -> Path:
    save_indexed(model, tmp_path / "bundle", toy_baskets(), seed=0, k=4)
    return tmp_path / "bundle"


def test_a_table_holds_all_pairs_with_evidence_best_first(bundle: Path, model: Model) -> None:
    table = PairTable.open(bundle)
    assert (table.version, table.k) == (read_manifest(bundle).content_hash, 4)
    assert table.catalog.hash == toy_catalog().hash
    every = np.arange(len(table), dtype=np.int32)
    for item in every.tolist():
        grades = table.pairs.of_pairs(np.full(len(table), item, dtype=np.int32), every)["grade"]
        assert set(table.items_of(item).tolist()) == set(np.flatnonzero(grades <= LIKELY).tolist())
        rows = table.rows_of(item)
        assert len(rows) <= max(4, len(table.items_of(item)))
        found, pairs = table.answers["item"][rows], table.answers["pair"][rows]
        other = table.pairs.columns["same_category"][pairs] == 0
        scores = model.score(np.full(len(found), item), found)
        np.testing.assert_allclose(table.answers["score"][rows][other], scores[other], rtol=1e-6)
    one, partner = next(iter(PARTNERS.items()))
    assert table.items_of(code(one))[0] == code(partner)


def test_guesses_are_the_best_of_the_candidates(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "BY_COUNT", 1)
    monkeypatch.setattr(counts, "BY_LIFT", 1)
    save_indexed(model, tmp_path / "few", toy_baskets(), seed=0, k=2)
    table = PairTable.open(tmp_path / "few")
    columns, fewer = table.pairs.columns, 0
    for item in range(len(table)):
        pairs = np.flatnonzero((table.pairs.one == item) | (table.pairs.other == item))
        guess = (columns["grade"][pairs] == GUESS) & (columns["same_category"][pairs] == 0)
        evident = columns["grade"][pairs] <= LIKELY
        partner = table.pairs.one[pairs] + table.pairs.other[pairs] - item
        open_ = np.lexsort((partner, ~(evident | guess)))[: np.count_nonzero(evident | guess)]
        pairs, partner, evident = pairs[open_], partner[open_], evident[open_]
        times = columns["customers" if table.pairs.by_customer else "count"][pairs]
        lift = times / (table.pairs.query_factor[item] * table.pairs.item_factor[partner] + 1)
        frequent = np.argsort(-times, kind="stable")[:2]
        candidates = {*frequent.tolist(), *np.argsort(-lift, kind="stable")[:1].tolist()}
        score = model.score(np.full(len(partner), item), partner)
        guesses = [index for index in candidates if not evident[index] and score[index] > 0]
        guesses = sorted(guesses, key=lambda index: (-score[index], partner[index]))
        room = max(2 - np.count_nonzero(evident), 0)
        wanted = {*partner[evident].tolist(), *partner[guesses[:room]].tolist()}
        assert set(table.answers["item"][table.rows_of(item)].tolist()) == wanted
        fewer += len(candidates) < len(partner)
    assert fewer


def test_a_training_in_small_blocks_gives_the_same_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    baskets = supermarket(baskets=1_500, items=80, seed=2).baskets
    tables = []
    for name in ("at once", "blocks"):
        if name == "blocks":
            small = partial(blocks, size=7)
            for module in (counted, expected_counts, features):
                monkeypatch.setattr(module, "blocks", small)
            monkeypatch.setattr(build, "BLOCK_PAIRS", 11)
            monkeypatch.setattr(odds, "BLOCK", 13)
            monkeypatch.setattr(odds, "MIXED", 17)
        strata = ("basket_size", "month")
        fitted = make_model("odds", rank=8, strata="month").fit(baskets, ONE)
        save_indexed(fitted, tmp_path / name, baskets, seed=0, k=5, strata=strata)
        tables.append(PairTable.open(tmp_path / name))
    one, other = tables
    for column, values in one.pairs.columns.items():
        np.testing.assert_allclose(other.pairs.columns[column], values, rtol=1e-6)
    for column, values in one.answers.items():
        np.testing.assert_allclose(other.answers[column], values, rtol=1e-5)


def test_coverage_is_the_share_of_items_and_of_sales(bundle: Path) -> None:
    table = PairTable.open(bundle)
    coverage = table.coverage()
    assert sum(share["items"] for share in coverage.values()) == pytest.approx(1)
    assert sum(share["sales"] for share in coverage.values()) == pytest.approx(1)
    bought = table.item_count > 0
    certain = [len(table.items_of(item, 0)) > 0 for item in np.flatnonzero(bought).tolist()]
    assert coverage["certain"]["items"] == pytest.approx(np.mean(certain))


def test_columns_are_read_only_and_the_model_is_read_at_its_first_use(bundle: Path) -> None:
    table = PairTable.open(bundle)
    for columns in (table.answers, table.pairs.columns):
        for values in columns.values():
            with pytest.raises(ValueError, match="read-only"):
                values[0] = 0
    assert "model" not in vars(table)
    assert table.model.name == "shrunk-lift"


def test_an_open_table_outlives_its_bundle(bundle: Path) -> None:
    table = PairTable.open(bundle)
    wanted = table.items_of(code("bread")).tolist()
    save_bundle(make_model("pop").fit(toy_baskets(), ONE), bundle, seed=0)
    assert table.items_of(code("bread")).tolist() == wanted
    assert table.model.name == "shrunk-lift"
    with pytest.raises(BundleError, match="has no serving table"):
        PairTable.open(bundle)
