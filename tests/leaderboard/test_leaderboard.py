"""The leaderboard: its shape, what it reuses, what it refuses, models from elsewhere, the export, the real numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.dated_shop import dated_shop
from neatrec.bundle import read_manifest
from neatrec.cli.leaderboard import show_leaderboard
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog
from neatrec.data.splits import Split, half
from neatrec.errors import LeakError, MissingDependencyError, ParameterError, ResourceError, SourceError
from neatrec.labels import make_labels
from neatrec.leaderboard.benchmark import content_hash, export_benchmark
from neatrec.leaderboard.model_specs import default_rows
from neatrec.leaderboard.result_cache import ResultCache
from neatrec.leaderboard.run import LeaderboardOptions, LeaderboardResult, run_leaderboard
from neatrec.models import make_model
from neatrec.models.popularity import PopCo
from neatrec.models.statistics import LLR, Jaccard

NAMES = [f"{name}{i}" for i in range(6) for name in ("bun", "sausage", "tea", "milk")]
QUICK = LeaderboardOptions(protocol="paper", candidates=16, rounds=100, queries=6, carts=10)


def planted(baskets: int = 800) -> Baskets:
    """bun goes with the sausage of its number, tea with the milk of its number; otherwise baskets are random."""
    rng = np.random.default_rng(4)
    catalog = Catalog.from_ids(NAMES, categories=[name.rstrip("0123456789") for name in NAMES])
    lists = []
    for _ in range(baskets):
        number, kinds = rng.integers(6), rng.choice(["bun sausage", "tea milk"]).split()
        chosen = [f"{kind}{number}" for kind in kinds]
        noise = rng.choice([n for n in NAMES if n not in chosen], size=3, replace=False)
        lists.append([*chosen, *noise.tolist()])
    return Baskets.from_lists(lists, catalog=catalog)


@pytest.fixture(scope="module")
def split() -> Split:
    return half(planted())


@pytest.fixture(scope="module")
def leaderboard(split: Split) -> LeaderboardResult:
    models = ["pop", "popco", "shrunk-lift"]
    return run_leaderboard(split.train, split.test, models, QUICK, split={"method": "half"})


class Shuffled(PopCo):
    """A model whose answers depend on the seed."""

    name: ClassVar[str] = "shuffled"
    kind: ClassVar[str] = "hybrid"
    fits: ClassVar[list[int]] = []

    def fit(self, baskets: Any, run: Any = None) -> Any:
        self.fits.append(run.rng)
        self.noise = np.random.default_rng(run.rng).random((len(NAMES), len(NAMES)))
        return super().fit(baskets, run)

    def score(self, queries: Any, items: Any) -> Any:
        return self.noise[queries, items]

    def score_all(self, queries: Any) -> Any:
        return self.noise[queries]


class BareBones:
    """An outside model that keeps only the part of the contract that is used."""

    def fit(self, baskets: Any, run: Any = None) -> BareBones:
        self.count = baskets.item_counts
        return self

    def score(self, queries: Any, items: Any) -> Any:
        return self.count[items].astype(float)

    def score_all(self, queries: Any) -> Any:
        return np.tile(self.count.astype(float), (len(queries), 1))


class NotAModel:
    pass


def misses_a_library(*_: Any) -> None:
    raise MissingDependencyError("the library is not there", hint="Install it.")


def does_not_fit(*_: Any) -> None:
    raise ResourceError("it needs more memory than there is", hint="Buy some.")


def lines_of(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {line["name"]: line for line in answer["models"]}


def test_the_json_has_the_promised_shape(leaderboard: LeaderboardResult) -> None:
    answer = leaderboard.to_json()
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    assert answer["split"] == "half"
    assert answer["protocol"] == "paper"
    assert answer["models"] == answer["results"][0]["models"]
    assert [(r["level"], r["candidates"]) for r in answer["results"]] == [
        (level, name) for level in (0.05, 0.01, 0.001) for name in ("top16", "catalogue")
    ]
    for result in answer["results"]:
        assert set(result) >= {"level", "candidates", "labels", "queries", "ceiling", "models", "tests"}
        assert set(result["ceiling"]) == {"1", "3", "5", "10", "20"}
    for line in answer["models"]:
        assert set(line) >= {
            *("name", "kind", "hr", "ndcg", "ci", "mrr", "macro", "coverage", "popularity"),
            *("train_seconds", "peak_mb", "seeds", "seed_sd", "variance"),
        }
        low, high = line["ci"]["hr"]["10"]
        assert low <= line["hr"]["10"] <= high
        assert line["train_seconds"] >= 0
        assert line["peak_mb"] > 10


def test_the_best_model_comes_first(leaderboard: LeaderboardResult) -> None:
    for result in leaderboard.to_json()["results"]:
        scores = [line["hr"]["10"] for line in result["models"]]
        assert scores == sorted(scores, reverse=True)
    assert leaderboard.to_json()["models"][0]["hr"]["1"] > 0.9
    last = leaderboard.to_json()["models"][-1]
    assert last["name"] == "pop"
    assert "one training seed" in last["variance"]


def test_label_free_measures_and_slices_are_reported(leaderboard: LeaderboardResult) -> None:
    answer = leaderboard.to_json()
    lifts = answer["label_free"]["held_out_lift"]
    assert lifts["shrunk-lift"]["lift"]["1"] > lifts["pop"]["lift"]["1"]
    assert 0 < lifts["pop"]["sales_covered"] <= 1
    assert answer["label_free"]["basket_completion"]["popco"]["carts"] == 10
    assert {cut["by"] for cut in answer["slices"]} >= {"category", "label strength", "times seen in training"}


def test_ranks_and_recommendations_are_written_with_the_json(split: Split, tmp_path: Path) -> None:
    run_leaderboard(split.train, split.test, ["popco"], QUICK, out=tmp_path)
    labels, ranks = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("labels", "ranks"))
    assert ranks.num_rows == 2 * labels.num_rows  # two candidate sets
    assert ranks.column_names == ["candidates", "model", "seed", "query", "item", "higher", "equal"]
    recommended = pq.read_table(tmp_path / "recommended.parquet")
    assert recommended.column_names == ["candidates", "model", "seed", "query", "rank", "item"]
    assert json.loads((tmp_path / "leaderboard.json").read_text())["models"][0]["name"] == "popco"


def test_a_model_that_depends_on_the_seed_is_trained_with_each(split: Split) -> None:
    Shuffled.fits.clear()
    models = ["popco", Shuffled()]
    leaderboard = run_leaderboard(split.train, split.test, models, replace(QUICK, seeds=3, seed=7))
    assert Shuffled.fits == [7, 8, 9]
    lines = lines_of(leaderboard.to_json())
    assert lines["shuffled"]["seeds"] == 3
    assert lines["shuffled"]["seed_sd"]["hr"]["10"] > 0
    assert lines["shuffled"]["variance"] == "the choice of items and training seeds"
    # popco comes out the same: the second training is the last
    assert lines["popco"]["seeds"] == 2
    assert lines["popco"]["seed_sd"]["hr"]["10"] == 0
    assert "does not depend on the seed" in lines["popco"]["variance"]


def test_a_second_run_reuses_what_the_first_left(split: Split, tmp_path: Path) -> None:
    models = ["popco", Shuffled()]
    first = run_leaderboard(split.train, split.test, models, QUICK, out=tmp_path)
    Shuffled.fits.clear()
    second = run_leaderboard(split.train, split.test, [*models, "pop"], QUICK, out=tmp_path)
    assert Shuffled.fits == []
    assert {name: runs[0].reused for name, runs in second.trainings.items()} == {
        "popco": "ranks",
        "shuffled": "ranks",
        "pop": None,
    }
    before, after = lines_of(first.to_json()), lines_of(second.to_json())
    assert {name: after[name] for name in before} == before


def test_a_bundle_is_reused_when_only_the_questions_changed(split: Split, tmp_path: Path) -> None:
    run_leaderboard(split.train, split.test, ["popco"], QUICK, out=tmp_path)
    changed = run_leaderboard(split.train, split.test, ["popco"], replace(QUICK, candidates=5), out=tmp_path)
    assert changed.trainings["popco"][0].reused == "bundle"
    assert changed.trainings["popco"][0].train_seconds is not None


@pytest.mark.parametrize("change", ["data", "parameters", "seed"])
def test_other_data_parameters_or_seed_are_trained_again(split: Split, tmp_path: Path, change: str) -> None:
    run_leaderboard(split.train, split.test, [make_model("shrunk-lift")], QUICK, out=tmp_path)
    train = split.train.select(np.arange(300)) if change == "data" else split.train
    model = make_model("shrunk-lift", k=3.0 if change == "parameters" else 1.0)
    seed = 1 if change == "seed" else 0
    leaderboard = run_leaderboard(train, split.test, [model], replace(QUICK, seed=seed), out=tmp_path)
    assert leaderboard.trainings["shrunk-lift"][0].reused is None


def test_a_training_of_another_device_is_another_training(split: Split, tmp_path: Path, monkeypatch) -> None:
    def reused(candidates: int = 16) -> str | None:
        leaderboard = run_leaderboard(
            split.train, split.test, ["popco"], replace(QUICK, candidates=candidates), out=tmp_path
        )
        return leaderboard.trainings["popco"][0].reused

    def device() -> str | None:
        record = json.loads((tmp_path / "ranks" / "popco-seed0.json").read_text())
        assert read_manifest(tmp_path / "bundles" / "popco-seed0").notes.get("device") == record["key"].get("device")
        found: str | None = record["key"].get("device")
        return found

    assert (reused(), device()) == (None, None)  # trainings of the CPU have the keys that they always had
    with monkeypatch.context() as with_gpu:
        with_gpu.setattr(PopCo, "fit_device", lambda self, run: "gpu")
        assert (reused(), device()) == (None, "gpu")
        assert (reused(), reused(candidates=5)) == ("ranks", "bundle")
    assert (reused(candidates=6), device()) == (None, None)


@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
def test_damaged_ranks_are_computed_again(split: Split, tmp_path: Path, suffix: str) -> None:
    first = run_leaderboard(split.train, split.test, ["popco"], QUICK, out=tmp_path)
    file = tmp_path / "ranks" / f"popco-seed0{suffix}"
    file.write_bytes(file.read_bytes()[:-20])
    second = run_leaderboard(split.train, split.test, ["popco"], QUICK, out=tmp_path)
    assert second.trainings["popco"][0].reused == "bundle"
    assert lines_of(second.to_json()) == lines_of(first.to_json())


def test_a_damaged_bundle_is_trained_again(split: Split, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run_leaderboard(split.train, split.test, ["popco"], QUICK, out=tmp_path)
    (tmp_path / "bundles" / "popco-seed0" / "arrays.safetensors").write_bytes(b"cut off")
    again = run_leaderboard(split.train, split.test, ["popco"], replace(QUICK, candidates=5), out=tmp_path)
    assert again.trainings["popco"][0].reused is None
    assert "training again" in caplog.text


def test_all_models_is_the_default_and_those_that_cannot_learn_are_named(split: Split, monkeypatch) -> None:
    monkeypatch.setattr("neatrec.leaderboard.model_specs.MODEL_NAMES", ("pop", "jaccard", "llr", "popco"))
    monkeypatch.setattr(PopCo, "_fit", does_not_fit)
    monkeypatch.setattr(Jaccard, "needs_users", True)
    monkeypatch.setattr(LLR, "_fit", misses_a_library)
    leaderboard = run_leaderboard(split.train, split.test, options=QUICK)
    assert list(leaderboard.trainings) == ["pop"]
    assert leaderboard.to_json()["skipped"] == {
        "jaccard": "it learns from users, and the users of these baskets are not known",
        "llr": "the library is not there",
        "popco": "it needs more memory than there is",
    }


def test_a_model_that_was_asked_for_is_not_passed_over(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LLR, "_fit", misses_a_library)
    with pytest.raises(MissingDependencyError, match="the library is not there"):
        run_leaderboard(split.train, split.test, ["pop", "llr"], QUICK)


def test_one_model_can_stand_in_several_rows_under_names_of_their_own(split: Split, tmp_path: Path) -> None:
    rows = {"k/1": make_model("shrunk-lift"), "k/9": make_model("shrunk-lift", k=9.0), "counts": "popco"}
    leaderboard = run_leaderboard(split.train, split.test, rows, QUICK, out=tmp_path)
    assert list(leaderboard.trainings) == ["k/1", "k/9", "counts"]
    assert leaderboard.ranks()["model"].unique().to_pylist() == ["k/1", "k/9", "counts"]
    again = run_leaderboard(split.train, split.test, rows, QUICK, out=tmp_path)
    assert {runs[0].reused for runs in again.trainings.values()} == {"ranks"}


def test_models_that_learn_the_same_are_trained_once(split: Split) -> None:
    nearer = make_model("popco", window=2)
    rows = {**{name: name for name in ("jaccard", "llr", "pop", "shrunk-lift", "shrunk-lift-tuned")}, "nearer": nearer}
    leaderboard = run_leaderboard(split.train, split.test, rows, QUICK)
    reused = {name: runs[0].reused for name, runs in leaderboard.trainings.items()}
    assert reused == {**dict.fromkeys(rows), "llr": "arrays", "shrunk-lift": "arrays"}
    alone = run_leaderboard(split.train, split.test, ["llr"], QUICK)
    together, single = lines_of(leaderboard.to_json())["llr"], lines_of(alone.to_json())["llr"]
    assert together["hr"] == single["hr"]
    assert together["train_seconds"] == lines_of(leaderboard.to_json())["jaccard"]["train_seconds"]


def test_each_goal_is_a_row_at_the_cost_of_one_training(split: Split) -> None:
    rows = [row for row in default_rows() if row.partition("@")[0] == "bayes"]
    assert rows == ["bayes", "bayes@lift", "bayes@evidence"]
    leaderboard = run_leaderboard(split.train, split.test, rows, QUICK)
    reused = {name: runs[0].reused for name, runs in leaderboard.trainings.items()}
    assert reused == {"bayes": None, "bayes@lift": "arrays", "bayes@evidence": "arrays"}
    alone = run_leaderboard(split.train, split.test, {"alone": make_model("bayes", goal="evidence")}, QUICK)
    together = lines_of(leaderboard.to_json())["bayes@evidence"]
    assert together["hr"] == lines_of(alone.to_json())["alone"]["hr"]
    assert leaderboard.seconds["training"] == pytest.approx(together["train_seconds"], rel=1e-3)


def test_fits_that_no_later_model_shares_are_dropped() -> None:
    cache = ResultCache(None, "", frozenset({"counts"}), {("counts", 0): (make_model("pop"), {}), ("x", 1): ("", {})})
    cache.keep_only({"counts"})
    assert list(cache.learned) == [("counts", 0)]
    cache.keep_only(set())
    assert not cache.learned


class LearnsItsOwnWay(LLR):
    """Says of itself, by inheritance, that it learns what all counts learn."""

    name = "own-way"
    fits: ClassVar[int] = 0

    def _fit(self, shards: Any, run: Any) -> None:
        type(self).fits += 1
        super()._fit(shards, run)


@pytest.mark.parametrize("first", [True, False])
def test_a_subclass_from_elsewhere_neither_takes_nor_gives_arrays(first: bool, split: Split, monkeypatch) -> None:
    monkeypatch.setattr(LearnsItsOwnWay, "fits", 0)
    own, ours = LearnsItsOwnWay(), ["jaccard", "llr"]
    leaderboard = run_leaderboard(split.train, split.test, [own, *ours] if first else [*ours, own], QUICK)
    reused = {name: runs[0].reused for name, runs in leaderboard.trainings.items()}
    assert reused == {"own-way": None, "jaccard": None, "llr": "arrays"}
    assert LearnsItsOwnWay.fits == 1


def test_steps_are_reported_and_a_device_that_a_model_cannot_use_is_not_forced_on_it(split: Split) -> None:
    steps: list[str] = []
    run_leaderboard(split.train, split.test, ["pop"], replace(QUICK, device="gpu"), progress=steps.append)
    assert {"pop does not learn on device gpu: auto", "pop: seed 0"} <= set(steps)
    assert any("labels from" in step for step in steps)


def test_an_external_class_joins_by_its_address(split: Split) -> None:
    leaderboard = run_leaderboard(split.train, split.test, ["pop", "test_leaderboard:BareBones"], QUICK)
    lines = lines_of(leaderboard.to_json())
    outside = lines["test_leaderboard:BareBones"]
    assert outside["kind"] == "external"
    assert outside["hr"] == lines["pop"]["hr"]
    assert "test_leaderboard:BareBones" not in leaderboard.to_json()["label_free"]["basket_completion"]


def scores_file(
    path: Path, rows: list[tuple[Any, Any, Any]], names: tuple[str, ...] = ("query", "item", "score")
) -> Path:
    columns = list(zip(*rows, strict=True))
    pq.write_table(pa.table({name: list(column) for name, column in zip(names, columns, strict=True)}), path)
    return path


def test_external_scores_get_the_same_ranks_as_the_model_they_came_from(split: Split, tmp_path: Path) -> None:
    model = make_model("shrunk-lift").fit(split.train)
    codes = np.arange(len(NAMES), dtype=np.int32)
    table = model.score_all(codes)
    rows = [(NAMES[q], NAMES[v], float(table[q, v])) for q in codes for v in codes]
    file = scores_file(tmp_path / "s.parquet", rows)
    leaderboard = run_leaderboard(
        split.train, split.test, ["shrunk-lift"], replace(QUICK, seeds=2), scores={"theirs": file}
    )
    for result in leaderboard.to_json()["results"]:
        lines = lines_of(result)
        assert lines["theirs"]["hr"] == lines["shrunk-lift"]["hr"]
        assert lines["theirs"]["seeds"] == 1
        assert result["tests"][0]["p"] == 1.0


def test_pairs_without_a_score_come_last(split: Split, tmp_path: Path) -> None:
    file = scores_file(tmp_path / "s.parquet", [("bun0", "sausage0", -5.0)])
    leaderboard = run_leaderboard(split.train, split.test, [], QUICK, scores={"one": file})
    label_ranks = leaderboard.trainings["one"][0].ranks.label_ranks["catalogue"]
    label_queries = leaderboard.task.label_queries
    code = leaderboard.task.labels.catalog.code_of
    label = np.flatnonzero((label_queries.query == code["bun0"]) & (label_queries.item == code["sausage0"]))
    assert (label_ranks.higher[label], label_ranks.equal[label]) == (0, 1)
    others = np.delete(np.arange(len(label_queries.query)), label)
    assert (label_ranks.equal[others] > 1).all()


BAD_SCORES = {
    "null": ([("bun0", "milk0", None)], "row 1, column 'score': must be a number"),
    "nan": (
        [("bun0", "tea0", 1.0), *[("bun0", "milk0", float("nan"))] * 2],
        r"row 2, .* a number \(the first of 2 such rows\)",
    ),
    "text": ([("bun0", "milk0", "high")], "column 'score': must hold numbers"),
    "unknown item": ([("bun0", "caviar", 1.0)], "row 1, column 'item': 'caviar' is no item of the baskets"),
    "twice": ([("bun0", "milk0", 1.0), ("bun0", "milk0", 2.0)], "the scores of 'x' give the pair bun0, milk0 twice"),
}


@pytest.mark.parametrize("what", BAD_SCORES)
def test_scores_that_cannot_be_used_are_refused_by_name(split: Split, tmp_path: Path, what: str) -> None:
    rows, sentence = BAD_SCORES[what]
    file = scores_file(tmp_path / "s.parquet", rows)
    with pytest.raises(SourceError, match=sentence):
        run_leaderboard(split.train, split.test, [], QUICK, scores={"x": file})


def test_a_score_file_without_its_columns_or_that_is_none_is_refused(split: Split, tmp_path: Path) -> None:
    file = scores_file(tmp_path / "s.parquet", [("bun0", "milk0", 1.0)], ("query", "product", "score"))
    with pytest.raises(SourceError, match=r"it has no item\. Found: query, product, score"):
        run_leaderboard(split.train, split.test, [], QUICK, scores={"x": file})
    file.write_text("query,item,score")
    with pytest.raises(SourceError, match="cannot read scores from"):
        run_leaderboard(split.train, split.test, [], QUICK, scores={"x": file})


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("no_such_package:Model", "cannot import the model no_such_package:Model"),
        ("test_leaderboard:Absent", "module test_leaderboard has no 'Absent'"),
        ("test_leaderboard:NotAModel", "must be a class with fit, score, score_all, it has no fit, score, score_all"),
        ("test_leaderboard:", "`model` must be a model's name or an address pkg.mod:Class"),
        ("popcorn", "`model` must be one of .* Did you mean 'popco'?"),
    ],
)
def test_models_that_are_none_are_refused(split: Split, address: str, sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        run_leaderboard(split.train, split.test, [address], QUICK)


def test_two_rows_of_one_name_and_an_empty_table_are_refused(split: Split) -> None:
    with pytest.raises(ParameterError, match="two models of the leaderboard are called 'pop'"):
        run_leaderboard(split.train, split.test, ["pop", "pop"], QUICK)
    with pytest.raises(ParameterError, match="a leaderboard needs at least one model"):
        run_leaderboard(split.train, split.test, [], QUICK)


def test_training_on_test_baskets_is_refused(split: Split) -> None:
    with pytest.raises(LeakError, match="training and evaluation share"):
        run_leaderboard(split.test, split.test, ["pop"], QUICK)


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("seeds", 0, "`seeds` must be a whole number of at least 1, got 0"),
        ("candidates", 0, "`candidates` must be a whole number of at least 1, got 0"),
        ("rounds", 10, "`rounds` must be a whole number of at least 100, got 10"),
        ("carts", -1, "`carts` must be a whole number of at least 0, got -1"),
        ("seed", True, "`seed` must be a whole number of at least 0, got True"),
        ("levels", (2.0,), "level"),
    ],
)
def test_options_that_make_no_sense_are_refused(split: Split, option: str, value: Any, sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        run_leaderboard(split.train, split.test, ["pop"], replace(QUICK, **{option: value}))


def test_given_labels_are_used(split: Split) -> None:
    labels = make_labels(split.test, protocol="calibrated", levels=(0.01,))
    leaderboard = run_leaderboard(split.train, split.test, ["pop"], QUICK, labels=labels)
    assert leaderboard.to_json()["protocol"] == "calibrated"
    assert [result["level"] for result in leaderboard.to_json()["results"]] == [0.01, 0.01]


def test_the_benchmark_is_exported_with_hashes(leaderboard: LeaderboardResult, split: Split, tmp_path: Path) -> None:
    about = export_benchmark(leaderboard, split.train, split.test, tmp_path, name="planted-half-v1")
    assert json.loads((tmp_path / "benchmark.json").read_text()) == about
    assert about["name"] == "planted-half-v1"
    for name, facts in about["files"].items():
        table = pq.read_table(tmp_path / name)
        assert (table.num_rows, content_hash(table)) == (facts["rows"], facts["content_sha256"])
    parts = pq.read_table(tmp_path / "split.parquet").to_pydict()
    assert all((int(b) % 2 == 0) == (part == "train") for b, part in zip(*parts.values(), strict=True))
    candidates = pq.read_table(tmp_path / "candidates.parquet")
    assert candidates.column_names == ["query", "place", "item", "count"]
    assert max(candidates["place"].to_pylist()) == 16
    with pytest.raises(ParameterError, match="must be the baskets of the leaderboard"):
        export_benchmark(leaderboard, split.test, split.train, tmp_path)


@pytest.mark.parametrize(
    ("options", "trained", "said"),
    [
        ({}, "month,store", "within month, store."),
        ({"strata": ("size", "store")}, "store", "within store."),
        ({"strata": ("none",)}, None, "over all baskets."),
        ({"protocol": "paper"}, None, "over all baskets."),
    ],
)
def test_models_are_trained_within_the_strata_that_train_uses(tmp_path, options, trained, said: str, capsys) -> None:
    parts = half(dated_shop())
    chosen = replace(QUICK, **{"protocol": "calibrated", "min_basket": 2, **options})
    result = run_leaderboard(parts.train, parts.test, ["popco", "shrunk-lift"], chosen, out=tmp_path)
    bundles = {manifest.model: manifest for manifest in map(read_manifest, (tmp_path / "bundles").iterdir())}
    assert bundles["shrunk-lift"].parameters["strata"] == trained
    assert "strata" not in bundles["popco"].parameters
    within = [name for name in result.to_json()["strata"] if name != "basket_size"]
    assert within == (trained.split(",") if trained else [])
    if chosen.protocol == "calibrated":
        show_leaderboard(result)
        assert f"Models compare counts with chance {said}" in " ".join(capsys.readouterr().out.split())


def test_other_list_lengths_are_a_table_too(split: Split) -> None:
    result = run_leaderboard(split.train, split.test, ["popco"], replace(QUICK, ks=(1, 5)))
    row = result.to_arrow().to_pylist()[0]
    assert row["hr@5_low"] <= row["hr@5"] <= row["hr@5_high"]
    assert row["ndcg@5"] == result.to_json()["models"][0]["ndcg"]["5"]
    assert "hr@5" in result._repr_html_()
