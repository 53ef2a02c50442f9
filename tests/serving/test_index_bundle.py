"""The table in its bundle: written with the model, opened where it lies, refused when damaged, rewritten."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from helpers.bayes_cases import random_weights, toy_bayes
from helpers.dated_shop import dated_shop
from helpers.toyshop import code, toy_baskets, toy_catalog
from neatrec.bundle import load_bundle, read_manifest, save_bundle
from neatrec.cooccurrence import counting_engine, disk
from neatrec.errors import BundleError, ParameterError, ResourceError
from neatrec.models import Model, Run, make_model
from neatrec.models.bayes.fit import GOALS, GoalRanking
from neatrec.serving import GRADES, ServingTable, build, files, has_table, pairs, recommend, rewrite_index, save_indexed
from neatrec.serving.column_parts import ColumnParts, write_arrow
from neatrec.serving.evidence import EXPLAINED

ONE = Run(rng=3, threads=1, device="cpu")


@pytest.fixture(scope="module")
def model() -> Model:
    return make_model("shrunk-lift").fit(toy_baskets(), ONE)


@pytest.fixture
def bundle(model: Model, tmp_path: Path) -> Path:
    save_indexed(model, tmp_path / "bundle", toy_baskets(), seed=0, k=4)
    return tmp_path / "bundle"


def test_an_opened_bundle_answers_as_its_model_does(bundle: Path, model: Model) -> None:
    index = ServingTable.open(bundle)
    assert (index.version, index.k) == (read_manifest(bundle).content_hash, 4)
    assert index.catalog.hash == toy_catalog().hash
    assert np.array_equal(index.item_count, model.item_count)
    for item in range(len(toy_catalog())):
        answers, wanted = index.answers(item), model.rank(item, 4)
        assert answers.item.tolist() == wanted.codes.tolist()
        np.testing.assert_allclose(answers.score, wanted.scores, rtol=1e-6)


def test_answers_are_slices_of_the_mapped_file(bundle: Path) -> None:
    index = ServingTable.open(bundle)
    answers = index.answers(code("bread"))
    assert np.shares_memory(answers.item, index.columns["item"])
    with pytest.raises(ValueError, match="read-only"):
        answers.score[0] = 1.0
    with pytest.raises(AttributeError, match="answers have no 'price'"):
        answers.price  # noqa: B018


def test_a_row_of_answers_and_the_pair_itself_have_the_same_evidence(bundle: Path) -> None:
    index = ServingTable.open(bundle)
    bread, butter = code("bread"), code("butter")
    answers = index.answers(bread)
    row = answers.item.tolist().index(butter)
    assert index.evidence(bread, butter).to_dict() == answers.evidence(row).to_dict()
    assert answers.evidence(row).grade == "certain"
    assert (answers.evidence(row).query_count, answers.evidence(row).item_count) == (
        index.item_count[bread],
        index.item_count[butter],
    )
    there, back = index.evidence(bread, butter), index.evidence(butter, bread)
    assert (there.forward, there.backward) == (back.backward, back.forward)
    assert there.forward + there.backward == there.count


def test_a_pair_outside_the_table_has_evidence_too(bundle: Path) -> None:
    index = ServingTable.open(bundle)
    outside = next(v for v in range(len(index)) if v not in index.answers(code("tea")).item and v != code("tea"))
    found = index.evidence(code("tea"), outside)
    assert found.count >= 0
    same = index.evidence(code("bread"), code("biscuits"))
    assert (same.count, same.words()) == (-1, "Items of one category are not counted together.")
    assert same.to_dict()["count"] is None
    assert same.to_dict()["lift"] is None
    with pytest.raises(ParameterError, match="`item` must be a code of the catalogue"):
        index.evidence(0, 10_000)


def test_the_evidence_of_many_pairs_is_that_of_each(bundle: Path, tmp_path: Path) -> None:
    save_indexed(make_model("popco").fit(dated_shop(), ONE), tmp_path / "dated", dated_shop(), seed=0, k=1)
    graded = set()
    for path in (bundle, tmp_path / "dated"):
        index = ServingTable.open(path)
        queries, items = (part.ravel().astype(np.int32) for part in np.indices((len(index), len(index))))
        pairs = list(zip(queries.tolist(), items.tolist(), strict=True))
        together, grades = index.evidence_of(queries, items), index.grades_of(queries, items)
        for pair, found, grade in zip(pairs, together, grades.tolist(), strict=True):
            assert found.to_dict() == index.evidence(*pair).to_dict()
            assert index.grades[grade] == found.grade
        graded |= {found.grade for found in together}
    assert {"certain", "guess", "seasonal"} <= graded


def without(index: ServingTable, query: int, items: np.ndarray) -> np.ndarray:
    """The candidates of an item that are not among `items`."""
    return index.candidates(query) & ~np.isin(np.arange(len(index)), items)


@pytest.mark.parametrize("name", ["shrunk-lift", "pop", "neat"])
def test_beyond_the_table_the_model_goes_on(tmp_path: Path, name: str) -> None:
    settings = {"dim": 8, "epochs": 3} if name == "neat" else {}
    model = make_model(name, **settings).fit(toy_baskets(), ONE)
    save_indexed(model, tmp_path / "bundle", toy_baskets(), seed=0, k=2)
    index = ServingTable.open(tmp_path / "bundle")
    bread = code("bread")
    every = model.rank(bread, 100)
    listed = index.answers(bread)
    beyond = index.beyond(bread, without(index, bread, listed.item), k=100)
    assert sorted([*listed.item.tolist(), *beyond.item.tolist()]) == sorted(every.codes.tolist())
    np.testing.assert_allclose([*listed.score, *beyond.score], every.scores, rtol=1e-5, atol=1e-6)
    assert len(index.beyond(bread, k=1)) == 1
    drinks = np.isin(np.arange(len(index)), [code("cola"), code("juice")])
    assert set(index.beyond(bread, drinks).item.tolist()) <= {code("cola"), code("juice")}
    strong = index.beyond(bread, min_grade=GRADES.index("certain"))
    assert strong.item.tolist() == [code("butter")]
    assert len(index.beyond(bread, np.zeros(len(index), dtype=bool))) == 0


def test_an_item_never_bought_has_no_answers(bundle: Path) -> None:
    index = ServingTable.open(bundle)
    assert len(index.answers(code("saffron"))) == 0
    assert len(index.beyond(code("saffron"))) == 0
    assert index.evidence(code("saffron"), code("bread")).count == 0


def test_coverage_is_the_share_of_items_and_of_sales(bundle: Path) -> None:
    index = ServingTable.open(bundle)
    coverage = index.coverage()
    assert set(coverage) == {*GRADES, "none"}
    for by in ("items", "sales"):
        assert sum(shares[by] for shares in coverage.values()) == pytest.approx(1.0)
    bought = [item for item in range(len(index)) if index.item_count[item]]
    strong = [item for item in bought if (index.answers(item).grade == 0).any()]
    assert coverage["certain"]["items"] == pytest.approx(len(strong) / len(bought))
    assert coverage["certain"]["sales"] == pytest.approx(index.item_count[strong].sum() / index.item_count.sum())


def test_variances_travel_with_the_bundle(tmp_path: Path, bundle: Path) -> None:
    counts = ServingTable.open(bundle)
    assert counts.variance is None
    model = make_model("neat", dim=8, epochs=3).fit(toy_baskets(), ONE)
    save_indexed(model, tmp_path / "neat", toy_baskets(), seed=0)
    index = ServingTable.open(tmp_path / "neat")
    np.testing.assert_allclose(index.variance, np.exp(model.log_variance), rtol=1e-6)
    evidence = index.evidence(code("bread"), code("butter"))
    assert evidence.query_variance == pytest.approx(float(index.variance[code("bread")]))


@pytest.fixture(scope="module")
def goals_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = toy_bayes(4, goal="lift")
    rankings = {goal: GoalRanking("odds", (random_weights(seed)[1],)) for seed, goal in enumerate(GOALS)}
    model._set_fit(model.features, replace(model.summary, rankings=rankings))
    path = tmp_path_factory.mktemp("goals") / "bundle"
    save_indexed(model, path, toy_baskets(), seed=0, k=4)
    return path


@pytest.mark.parametrize("goal", [None, *GOALS])
def test_a_bundle_answers_by_any_goal_of_its_model(goals_bundle: Path, goal: str | None) -> None:
    index = ServingTable.open(goals_bundle)
    assert (index.goal, index.goals) == ("lift", GOALS)
    by_goal, model = index.with_goal(goal), load_bundle(goals_bundle).with_goal(goal or "lift")
    assert by_goal.goal == (goal or "lift")
    for item in range(len(toy_catalog())):
        answers, wanted = by_goal.answers(item), model.rank(item, 4)
        assert answers.item.tolist() == wanted.codes.tolist()
        np.testing.assert_allclose(answers.score, wanted.scores, rtol=1e-5)
        for row, other in enumerate(answers.item.tolist()):
            assert answers.evidence(row).to_dict() == by_goal.evidence(item, other).to_dict()
    bread = code("bread")
    first = by_goal.answers(bread).item
    went_on = by_goal.beyond(bread, without(index, bread, first), k=3).item
    assert [*first.tolist(), *went_on.tolist()] == model.rank(bread, 7).codes.tolist()
    found = [line.answer.id for line in recommend(index, ["Bread"], 4, min_evidence="guess", goal=goal).answers]
    assert found == model.rank("Bread", 4).ids
    assert by_goal.with_goal(None) is index
    assert len(index.columns["item"]) == index.start[-1]


@pytest.mark.parametrize("name", ["popco", "lift", "shrunk-lift", "shrunk-lift-tuned", "llr", "jaccard"])
def test_a_model_of_counts_never_says_that_similar_items_go_together(name: str, tmp_path: Path) -> None:
    save_indexed(make_model(name).fit(toy_baskets(), ONE), tmp_path / "bundle", toy_baskets(), seed=0)
    assert "similar" not in _sentences(ServingTable.open(tmp_path / "bundle"))


def test_a_goal_that_ranks_by_a_statistic_never_says_that_similar_items_go_together(tmp_path: Path) -> None:
    model = toy_bayes(4, goal="lift")
    odds = GoalRanking("odds", (random_weights(1)[1],))
    rankings = {"balanced": GoalRanking("shrunk-lift"), "lift": odds, "evidence": GoalRanking("llr")}
    model._set_fit(model.features, replace(model.summary, rankings=rankings))
    save_indexed(model, tmp_path / "bundle", toy_baskets(), seed=0, k=4)
    index = ServingTable.open(tmp_path / "bundle")
    said = {goal: "similar" in _sentences(index.with_goal(goal)) for goal in GOALS}
    assert said == {"balanced": False, "lift": True, "evidence": False}


def _sentences(index: ServingTable) -> str:
    """Of all answers, guesses too, and of all pairs."""
    found = [index.answers(item) for item in range(len(index))]
    words = [answers.evidence(row).words() for answers in found for row in range(len(answers))]
    words += [index.evidence(a, b).words() for a in range(len(index)) for b in range(len(index))]
    assert any(answers.evidence(row).grade == "guess" for answers in found for row in range(len(answers)))
    return " ".join(words)


def test_what_strata_explain_is_no_answer_beyond_the_table(tmp_path: Path) -> None:
    """Nor is it one in the table, whatever evidence is asked for."""
    save_indexed(make_model("popco").fit(dated_shop(), ONE), tmp_path / "bundle", dated_shop(), seed=0, k=1)
    index = ServingTable.open(tmp_path / "bundle")
    candy, wreath = (index.catalog.code_of[item] for item in ("candy", "wreath"))
    assert index.evidence(candy, wreath).grade == "seasonal"
    assert wreath in index.model.rank("candy", 7).codes
    assert recommend(index, ["candy"], min_evidence="guess").left_out == 0  # no lesser evidence would show it
    beyond = index.beyond(candy, k=7).item.tolist()
    assert len(beyond) > 1
    assert wreath not in beyond


def test_a_table_without_the_other_goals_answers_by_exact_scores(goals_bundle: Path, tmp_path: Path) -> None:
    """As bundles were written before there were goals."""
    model = load_bundle(goals_bundle)
    alone = type(model).goals
    try:
        type(model).goals = ()
        save_indexed(model, tmp_path / "old", toy_baskets(), seed=0, k=4)
    finally:
        type(model).goals = alone
    answers = ServingTable.open(tmp_path / "old").with_goal("evidence").answers(code("bread"))
    assert answers.item.tolist() == model.with_goal("evidence").rank("Bread", 4).codes.tolist()


def test_goals_that_there_are_not_are_refused(bundle: Path, goals_bundle: Path) -> None:
    with pytest.raises(ParameterError, match="`goal` must be one of balanced, lift, evidence, got 'best'"):
        ServingTable.open(goals_bundle).with_goal("best")
    refused = "`goal` must be left out: model 'shrunk-lift' has one ranking, got 'lift'. Train `bayes`"
    with pytest.raises(ParameterError, match=refused):
        ServingTable.open(bundle).with_goal("lift")
    with pytest.raises(ParameterError, match=refused):
        load_bundle(bundle).with_goal("lift")


def test_a_bundle_without_a_table_says_what_to_run(model: Model, tmp_path: Path) -> None:
    save_bundle(model, tmp_path / "old", baskets_hash=toy_baskets().hash, seed=0)
    assert not has_table(read_manifest(tmp_path / "old"))
    assert load_bundle(tmp_path / "old").rank("Bread", 1).names == ["Butter"]
    with pytest.raises(
        BundleError, match=r"has no serving table. Run `neatrec train SOURCE --out .*old --rewrite-table`"
    ):
        ServingTable.open(tmp_path / "old")
    with pytest.raises(BundleError, match="has no serving table"):
        rewrite_index(tmp_path / "old")
    with pytest.raises(BundleError, match="did not learn from these baskets"):
        rewrite_index(tmp_path / "old", baskets=toy_baskets(50, seed=9))
    rewrite_index(tmp_path / "old", baskets=toy_baskets(), k=2)
    assert ServingTable.open(tmp_path / "old").answers(code("bread")).item[0] == code("butter")


def test_the_table_is_written_anew_without_the_baskets(bundle: Path, model: Model) -> None:
    before = ServingTable.open(bundle)
    assert rewrite_index(bundle).content_hash == before.version
    rewrite_index(bundle, k=7, attachment={"source": "orders.csv"})
    after = ServingTable.open(bundle)
    assert (after.k, after.attachment) == (7, {"source": "orders.csv"})
    assert after.version != before.version
    assert after.manifest.created == before.manifest.created
    assert after.answers(code("bread")).item.tolist() == model.rank("Bread", 7).codes.tolist()
    pair = code("bread"), code("butter")
    assert after.evidence(*pair).to_dict() == before.evidence(*pair).to_dict()
    rewrite_index(bundle, k=4)
    assert ServingTable.open(bundle).attachment == {"source": "orders.csv"}


@pytest.mark.parametrize("users", [True, False])
def test_a_table_written_in_blocks_has_the_same_bits(tmp_path: Path, monkeypatch, users: bool) -> None:
    """Items, answers and pairs some at a time, and pairs counted by bands of codes."""
    model = toy_bayes(4)
    rankings = {
        "balanced": GoalRanking("odds", (random_weights(1)[1], random_weights(2)[1])),
        "lift": GoalRanking("posterior-lift"),
    }
    model._set_fit(model.features, replace(model.summary, rankings=rankings | {"evidence": GoalRanking("llr")}))
    whole = toy_baskets() if users else replace(toy_baskets(), users=None, user_ids=None)
    shards = [whole.select(np.arange(len(whole)) % 3 == part) for part in range(3)]
    save_indexed(model, tmp_path / "whole", shards, seed=0, k=5, threads=1, device="cpu")
    for module, name, value in ((build, "ITEMS_PER_BLOCK", 5), (files, "ROWS", 7), (pairs, "CHUNK", 10)):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(disk, "LEAST_BANDS", 4)
    with counting_engine("disk"):
        save_indexed(model, tmp_path / "blocks", shards, seed=0, k=5, threads=1, device="cpu")
    one, other = (read_manifest(tmp_path / name) for name in ("whole", "blocks"))
    assert one.files == other.files
    assert one.notes == other.notes
    assert "topk/answers-lift.arrow" in one.files


def test_a_strata_table_written_in_blocks_has_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    baskets = dated_shop()
    model = make_model("lift").fit(baskets, ONE)
    whole = save_indexed(model, tmp_path / "whole", baskets, seed=0, k=5, threads=1, device="cpu")
    monkeypatch.setattr(pairs, "CHUNK", 10)
    blocks = save_indexed(model, tmp_path / "blocks", baskets, seed=0, k=5, threads=1, device="cpu")
    assert whole.files == blocks.files
    assert any(grade >= EXPLAINED for grade in ServingTable.open(tmp_path / "blocks").columns["grade"])


def test_columns_written_in_parts_are_one_arrow_file(tmp_path: Path) -> None:
    columns = {"item": np.arange(5, dtype=np.int32), "q": np.array([0.5, np.nan, 0, 1, 2], dtype=np.float32)}
    for folder in (None, tmp_path):
        parts = [ColumnParts(folder), ColumnParts(folder)]
        for number, part in ((0, slice(2)), (0, slice(2, 2)), (1, slice(2, 5))):
            parts[number].append({name: values[part] for name, values in columns.items()})
        np.testing.assert_array_equal(parts[1].column("item"), [2, 3, 4])
        write_arrow(tmp_path / "parts.arrow", list(columns), parts)
        batch = pa.record_batch(list(columns.values()), list(columns))
        with pa.OSFile(str(tmp_path / "whole.arrow"), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        assert (tmp_path / "parts.arrow").read_bytes() == (tmp_path / "whole.arrow").read_bytes()
    with pytest.raises(TypeError, match="item holds int32, got int64"):
        parts[0].append({"item": np.arange(2)})


def test_an_open_index_outlives_its_bundle(bundle: Path, model: Model) -> None:
    index = ServingTable.open(bundle)
    wanted = index.answers(code("bread")).item.tolist()
    save_bundle(make_model("pop").fit(toy_baskets(), ONE), bundle, baskets_hash="x", seed=0)
    assert index.answers(code("bread")).item.tolist() == wanted
    assert index.model.name == "shrunk-lift"
    assert index.beyond(code("bread"), k=1).item.tolist() == wanted[:1]


@pytest.mark.parametrize("name", ["answers.arrow", "items.arrow", "pairs.arrow"])
@pytest.mark.parametrize("how", ["flipped", "cut", "gone"])
def test_a_damaged_table_is_refused_by_name(bundle: Path, name: str, how: str) -> None:
    file = bundle / "topk" / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    if how == "gone":
        file.unlink()
    else:
        file.write_bytes(content if how == "flipped" else content[:-9])
    with pytest.raises(BundleError, match=f"topk/{name}"):
        ServingTable.open(bundle)
    with pytest.raises(BundleError, match=f"topk/{name}"):
        load_bundle(bundle)


def test_columns_of_another_version_are_refused(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neatrec.serving.files.COLUMNS_VERSION", 3)
    with pytest.raises(BundleError, match=r"columns of version 2, this version of neatrec reads 1 and 3. Run `neatrec"):
        ServingTable.open(bundle)


def test_the_manifest_states_what_the_evidence_is_made_of(bundle: Path) -> None:
    about = json.loads((bundle / "manifest.json").read_text())["notes"]["topk"]
    assert (about["columns"], about["k"]) == (2, 4)
    assert about["evidence"]["min_count"] == 1
    assert about["evidence"]["by_customer"] is True
    assert about["evidence"]["strata"] == []
    assert about["grades"]["certain"] == {"q": 0.001, "lift_low": 1.0, "times": 3}
    assert about["grades"]["strong"] == {"lift_low": 2.0}
    assert {name for name in read_manifest(bundle).files if name.startswith("topk/")} == {
        "topk/answers.arrow",
        "topk/items.arrow",
        "topk/lift_prior.json",
        "topk/pairs.arrow",
    }


@pytest.mark.parametrize(
    ("number", "kind", "message"),
    [(errno.ENOSPC, ResourceError, "No space left on device"), (errno.EROFS, ParameterError, "Read-only file system")],
)
def test_a_disk_that_takes_no_table_is_a_sentence_and_the_old_one_stays(bundle, monkeypatch, number, kind, message):
    before = ServingTable.open(bundle).version

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("neatrec.serving.files._write", refuse)
    with pytest.raises(kind, match=f"cannot write the bundle .*{message}"):
        rewrite_index(bundle, k=2)
    assert ServingTable.open(bundle).version == before
    assert [file.name for file in bundle.parent.iterdir()] == ["bundle"]
