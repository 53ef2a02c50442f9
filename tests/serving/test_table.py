"""The serving table in its bundle: opened, checked, the same until its last user is gone."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from helpers.dated_shop import dated_shop
from helpers.toyshop import PARTNERS, code, toy_baskets, toy_catalog
from neatrec.bundle import load_bundle, read_manifest, save_bundle
from neatrec.errors import BundleError, ParameterError, ResourceError
from neatrec.models import Model, Run, make_model
from neatrec.serving import PairTable, recommend, save_indexed
from neatrec.serving.evidence import GUESS, LIKELY

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


def test_a_row_of_answers_and_the_pair_itself_have_the_same_evidence(bundle: Path) -> None:
    table = PairTable.open(bundle)
    bread, butter = code("bread"), code("butter")
    there, back = table.evidence(bread, butter), table.evidence(butter, bread)
    assert (there.forward, there.backward) == (back.backward, back.forward)
    assert there.forward + there.backward == there.count
    assert (there.query_count, there.item_count) == (
        table.item_count[bread],
        table.item_count[butter],
    )
    assert there.grade == "certain"
    unseen = table.evidence(bread, code("saffron"))
    assert (unseen.count, unseen.grade) == (0, "guess")
    same = table.evidence(code("bread"), code("biscuits"))
    assert same.to_dict()["same_category"] is True


def test_coverage_is_the_share_of_items_and_of_sales(bundle: Path) -> None:
    table = PairTable.open(bundle)
    coverage = table.coverage()
    assert sum(share["items"] for share in coverage.values()) == pytest.approx(1)
    assert sum(share["sales"] for share in coverage.values()) == pytest.approx(1)
    bought = table.item_count > 0
    certain = [len(table.items_of(item, 0)) > 0 for item in np.flatnonzero(bought).tolist()]
    assert coverage["certain"]["items"] == pytest.approx(np.mean(certain))


def test_what_strata_explain_is_no_answer(tmp_path: Path) -> None:
    save_indexed(
        make_model("pop").fit(dated_shop(), ONE), tmp_path / "bundle", dated_shop(), seed=0
    )
    table = PairTable.open(tmp_path / "bundle")
    candy, wreath = (table.catalog.code_of[item] for item in ("candy", "wreath"))
    assert table.evidence(candy, wreath).grade == "seasonal"
    assert wreath not in table.items_of(candy, GUESS)
    assert table.explained_with(candy).tolist() == [wreath]
    guesses = recommend(table, "candy", 10, min_evidence="guess")
    assert wreath not in [line.code for line in guesses.lines]


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


@pytest.mark.parametrize("name", ["answers.arrow", "items.arrow", "pairs.arrow", "lift_prior.json"])
@pytest.mark.parametrize("how", ["flipped", "cut", "gone"])
def test_a_damaged_table_is_refused_by_name(bundle: Path, name: str, how: str) -> None:
    file = bundle / "table" / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    if how == "gone":
        file.unlink()
    else:
        file.write_bytes(content if how == "flipped" else content[:-9])
    for reader in (PairTable.open, load_bundle):
        with pytest.raises(BundleError, match=f"table/{name}"):
            reader(bundle)


@pytest.mark.parametrize(
    ("number", "kind", "message"),
    [
        (errno.ENOSPC, ResourceError, "No space left on device"),
        (errno.EROFS, ParameterError, "Read-only file system"),
    ],
)
def test_a_disk_that_takes_no_table_is_a_sentence_and_the_old_one_stays(
    bundle, model, monkeypatch, number, kind, message
):
    before = PairTable.open(bundle).version

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("neatrec.serving.files.write_columns", refuse)
    with pytest.raises(kind, match=f"cannot write the bundle .*{message}"):
        save_indexed(model, bundle, toy_baskets(), seed=0)
    assert PairTable.open(bundle).version == before
    assert [file.name for file in bundle.parent.iterdir()] == ["bundle"]
