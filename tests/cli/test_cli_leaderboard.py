"""`neatrec leaderboard` on the command line: JSON, models and external scores, mistakes, resuming after a kill."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from neatrec.io import read_baskets

MARKET = "supermarket:baskets=3000,items=150,seed=1"
LEVEL = ("--level", "0.05")


def test_the_json_is_that_of_the_options(neatrec) -> None:
    """Its whole shape: tests/leaderboard/test_leaderboard.py."""
    words = ["--models", "pop,shrunk-lift", "--models", "popco", "--candidates", "50"]
    got = neatrec("leaderboard", MARKET, *words, "--json").json()
    assert (got["split"], got["protocol"], got["level_kind"], got["seed"]) == ("half", "calibrated", "q", 0)
    assert [result["level"] for result in got["results"]] == [0.05, 0.05, 0.01, 0.01, 0.001, 0.001]
    assert {result["candidates"] for result in got["results"]} == {"top50", "catalogue"}
    assert {line["name"] for line in got["models"]} == {"pop", "popco", "shrunk-lift"}
    assert got["label_free"].keys() == {"held_out_lift", "basket_completion"}
    assert {"better", "worse", "metric", "difference", "ci", "p", "p_holm"} == got["results"][0]["tests"][0].keys()


def test_people_get_a_table_that_says_what_one_training_leaves_out(neatrec) -> None:
    out = " ".join(neatrec("leaderboard", MARKET, "--models", "popco", *LEVEL).stdout.split())
    assert "popco" in out
    assert "best possible HR@10" in out
    assert "the intervals do not cover how trainings differ" in out


def test_the_table_names_what_is_left_out(neatrec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neatrec.leaderboard.model_specs.MODEL_NAMES", ("popco", "ease"))
    monkeypatch.setattr("neatrec.models.ease.available_memory", lambda: 1_000)
    out = " ".join(neatrec("leaderboard", MARKET, *LEVEL, "--device", "cpu", "-q").stdout.split())
    assert re.search(r"ease is left out: model .ease. over \d+ items needs .* of memory, the cpu has .* free\.", out)


def test_the_table_compares_with_the_best_statistic_in_80_columns(neatrec) -> None:
    shown = neatrec("leaderboard", MARKET, "--models", "pop,shrunk-lift-tuned,popco,llr", *LEVEL, "-q").stdout
    table, _, note = shown.rpartition("labels of")
    lines = table.splitlines()[:-1]
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("pop ") and re.search(r"-\d\.\d{3} to -\d\.\d{3}", line) for line in lines), shown
    assert sum("best statistic" in line for line in lines) == 1
    assert "with 0 inside it is a tie" in " ".join(note.split())


def test_each_model_stands_beside_the_best_statistic_in_the_json(neatrec) -> None:
    first = neatrec("leaderboard", MARKET, "--json", "--models", "pop,lift,llr", *LEVEL).json()["results"][0]
    statistic = first["best_statistic"]
    lines = {line["name"]: line for line in first["models"]}
    assert lines[statistic]["over_best_statistic"] is None
    assert lines[statistic]["hr"]["10"] == max(lines[name]["hr"]["10"] for name in ("lift", "llr"))
    found = lines["pop"]["over_best_statistic"]
    assert found["difference"] == pytest.approx(lines["pop"]["hr"]["10"] - lines[statistic]["hr"]["10"], abs=2e-6)
    assert found["ci"][0] < found["difference"] < found["ci"][1] < 0


def bakery(folder: Path) -> Path:
    """2,000 baskets of two to four of 40 items, none of them five; items 0 and 1, 2 and 3, ... go together."""
    rng = np.random.default_rng(0)
    lines = ["basket,item"]
    for number in range(2_000):
        pair = 2 * rng.integers(0, 20)
        items = {pair, pair + int(rng.random() < 0.7), *rng.choice(40, size=rng.integers(0, 3)).tolist()}
        lines += [f"{number},roll {item}" for item in sorted(items)]
    file = folder / "bakery.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_without_labels_it_says_so_and_suggests_smaller_baskets(neatrec, tmp_path: Path) -> None:
    file = bakery(tmp_path)
    run = ["leaderboard", file, "--models", "llr,pop", "-q"]
    shown = neatrec(*run).stdout
    assert "No labels (protocol calibrated, q = 0.05): nothing to compare models by." in shown
    suggested = int(re.search(r"0 labels from baskets of 5 or more items: --min-basket 2 would give (\d+)", shown)[1])
    assert "0.000" not in shown
    got = neatrec(*run, "--json").json()
    assert got["models"][0]["hr"]["10"] is None
    assert got["results"][0]["best_statistic"] is None
    got = neatrec(*run, "--min-basket", "2", "--json").json()
    assert got["results"][0]["labels"] == suggested > 20
    assert (got["options"]["min_basket"], got["advice"]) == (2, "")


@pytest.mark.parametrize("command", ["check", "labels"])
def test_other_commands_suggest_smaller_baskets_too(neatrec, tmp_path: Path, command: str) -> None:
    file = bakery(tmp_path)
    said = neatrec(command, file, "-q").stdout
    found = re.search(r"0 labels from baskets of 5 or more items: --min-basket 2 would give (\d+)", said)
    labels = neatrec("labels", file, "--min-basket", "2", "--json", "-q").json()["labels"]
    assert labels["0.05"] == int(found[1]) > 20


@pytest.mark.parametrize(
    ("arguments", "sentence", "hint"),
    [
        (["--models", "shrunk-lft"], "`model` must be one of pop, popco", "Did you mean 'shrunk-lift'?"),
        (["--models", "popco@papr"], "'papr'", None),
        (["--split", "halves"], "must be one of half, time, random", "Did you mean 'half'?"),
        (["--protocol", "papre", "--models", "pop"], "`protocol` must be", "Did you mean 'paper'?"),
        (["--models", "no_such_module:Model"], "cannot import the model no_such_module:Model", "PYTHONPATH"),
        (["--models", "pop", "--scores", "theirs"], "`scores` must be of the form NAME=FILE.parquet", None),
        (["--split-seed", "3"], "`--split-seed` must be used with --split random", None),
    ],
)
def test_a_mistake_is_a_sentence_with_a_next_step(
    neatrec, arguments: list[str], sentence: str, hint: str | None
) -> None:
    error = neatrec("leaderboard", MARKET, "--json", *arguments).error()
    assert sentence in error["message"]
    if hint:
        assert hint in error["hint"]


def write_scores(file: Path, **columns: list[Any]) -> Path:
    content = {"query": ["1", "2"], "item": ["2", "3"], "score": [1.0, 2.0]} | columns
    pq.write_table(pa.table({name: values for name, values in content.items() if values}), file)
    return file


def item_ids() -> list[str]:
    return read_baskets(MARKET).catalog.ids.to_pylist()


def test_scores_from_elsewhere_stand_beside_ours(neatrec, tmp_path: Path) -> None:
    ids = item_ids()
    pairs = [(q, v, float(len(v))) for q in ids[:40] for v in ids[40:60]]
    query, item, score = map(list, zip(*pairs, strict=True))
    file = write_scores(tmp_path / "theirs.parquet", query=query, item=item, score=score)
    got = neatrec("leaderboard", MARKET, "--json", "--models", "popco", "--scores", f"theirs={file}", *LEVEL).json()
    line = next(line for line in got["models"] if line["name"] == "theirs")
    assert line["kind"] == "external"
    assert line["ci"]["hr"]["10"][0] <= line["hr"]["10"]


def test_a_bad_file_of_scores_is_named_with_its_column_and_row(neatrec, tmp_path: Path) -> None:
    ids = item_ids()
    file = write_scores(tmp_path / "bad.parquet", query=ids[:2], item=[ids[2], "no such"])
    error = neatrec("leaderboard", MARKET, "--json", "--models", "pop", "--scores", f"theirs={file}").error()
    assert "row 2, column 'item': 'no such' is no item of the baskets" in error["message"]
    assert {key: error[key] for key in ("file", "column", "line")} == {"file": str(file), "column": "item", "line": 2}


OUTSIDE = """
import time
from pathlib import Path

from neatrec.models.popularity import PopCo


class Slow(PopCo):
    name = "slow"
    kind = "hybrid"

    def fit(self, baskets, run=None):
        while not Path("go").exists():
            time.sleep(0.05)
        return super().fit(baskets, run)
"""


def times_of(folder: Path) -> dict[str, int]:
    return {str(file.relative_to(folder)): file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()}


def test_a_class_from_elsewhere_takes_part_and_a_killed_run_goes_on(process, tmp_path: Path) -> None:
    """The first run is killed while the second model learns; the next one takes up what the first has done."""
    (tmp_path / "theirs.py").write_text(OUTSIDE)
    words = ["leaderboard", MARKET, "--models", "popco,theirs:Slow", "--out", "board", *LEVEL, "--json"]
    first = subprocess.Popen([sys.executable, "-m", "neatrec", *words], cwd=tmp_path, stdout=subprocess.DEVNULL)
    record = tmp_path / "board" / "ranks" / "popco-seed0.json"
    patience = time.monotonic() + 240
    while not record.exists():
        assert first.poll() is None
        assert time.monotonic() < patience
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    assert first.wait(timeout=60) == -signal.SIGKILL
    assert not (tmp_path / "board" / "leaderboard.json").exists()
    before = times_of(tmp_path / "board")

    (tmp_path / "go").touch()
    done = process(*words)
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    assert {line["name"] for line in got["models"]} == {"popco", "slow"}
    assert len({line["hr"]["10"] for line in got["models"]}) == 1
    after = times_of(tmp_path / "board")
    assert {name: after[name] for name in before} == before

    again = process(*words)
    assert again.returncode == 0, again.stderr
    kept = {
        name: when for name, when in times_of(tmp_path / "board").items() if name.startswith(("ranks/", "bundles/"))
    }
    assert kept.items() <= after.items()
    assert json.loads(again.stdout)["results"] == got["results"]
