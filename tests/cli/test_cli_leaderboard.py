"""`neatrec leaderboard` on the command line: JSON, table, mistakes, a model from elsewhere."""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

MARKET = "supermarket:baskets=3000,items=150,seed=1"
LEVEL = ("--level", "0.05")


def test_the_json_is_that_of_the_options(neatrec) -> None:
    """Its whole shape: tests/leaderboard/test_leaderboard.py."""
    words = ["--models", "pop,shrunk-lift", "--models", "popco,llr", "--candidates", "50"]
    got = neatrec("leaderboard", MARKET, *words, "--json").json()
    facts = (got["split"], got["protocol"], got["level_kind"], got["options"]["seed"])
    assert facts == ({"method": "half"}, "calibrated", "q", 0)
    assert {row["level"] for row in got["results"]} == {0.05, 0.01, 0.001}
    assert {row["candidates"] for row in got["results"]} == {"top50", "catalogue"}
    rows = {row["model"]: row for row in got["results"][:4]}
    assert rows.keys() == {"pop", "popco", "shrunk-lift", "llr"}
    pop, best = rows["pop"], rows[rows["pop"]["best_statistic"]]
    assert best["over_statistic"] is None
    assert best["hr@10"] == max(rows[name]["hr@10"] for name in ("shrunk-lift", "llr"))
    assert pop["over_statistic"] == pytest.approx(pop["hr@10"] - best["hr@10"])
    assert pop["over_statistic_low"] < pop["over_statistic"] < pop["over_statistic_high"] < 0


def test_the_table_compares_with_the_best_statistic_in_80_columns(neatrec, monkeypatch) -> None:
    names = ("pop", "shrunk-lift-tuned", "popco", "llr", "ease")
    monkeypatch.setattr("neatrec.leaderboard.model_specs.MODEL_NAMES", names)
    monkeypatch.setattr("neatrec.models.ease.available_memory", lambda: 1_000)
    shown = neatrec("leaderboard", MARKET, *LEVEL, "--device", "cpu", "-q").stdout
    table, _, note = shown.rpartition("labels of")
    lines = table.splitlines()[:-1]
    assert max(map(len, lines)) <= 80
    pop = next(line for line in lines if line.startswith("pop "))
    assert re.search(r"-\d\.\d{3} to -\d\.\d{3}", pop), shown
    assert sum("best statistic" in line for line in lines) == 1
    words = " ".join(note.split())
    assert "best possible HR@10" in words
    assert "with 0 inside it is a tie" in words
    assert "the intervals leave out how trainings differ" in words
    assert re.search(r"ease is left out: model .ease. over \d+ items needs .* of memory", words)


def bakery(folder: Path) -> Path:
    """2,000 baskets of two to four of 40 items, none of them five; items 0 and 1, 2 and 3, ... go together."""
    rng = np.random.default_rng(0)
    lines = ["basket,item"]
    for number in range(2_000):
        pair = 2 * rng.integers(0, 20)
        others = rng.choice(40, size=rng.integers(0, 3)).tolist()
        items = {pair, pair + int(rng.random() < 0.7), *others}
        lines += [f"{number},roll {item}" for item in sorted(items)]
    file = folder / "bakery.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def suggested_labels(said: str) -> int:
    words = r"0 labels from baskets of 5 or more items: --min-basket 2 would give (\d+)"
    return int(re.search(words, said)[1])


def test_without_labels_it_says_so_and_suggests_smaller_baskets(neatrec, tmp_path: Path) -> None:
    file = bakery(tmp_path)
    run = ["leaderboard", file, "--models", "llr,pop", "-q"]
    shown = neatrec(*run).stdout
    assert "No labels (protocol calibrated, q = 0.05): nothing to compare models by." in shown
    suggested = suggested_labels(shown)
    assert "0.000" not in shown
    got = neatrec(*run, "--json").json()
    assert got["results"][0]["hr@10"] is None
    assert got["results"][0]["best_statistic"] is None
    got = neatrec(*run, "--min-basket", "2", "--json").json()
    assert got["results"][0]["labels"] == suggested > 20
    assert (got["options"]["min_basket"], got["advice"]) == (2, "")


@pytest.mark.parametrize("command", ["check", "labels"])
def test_other_commands_suggest_smaller_baskets_too(neatrec, tmp_path: Path, command: str) -> None:
    file = bakery(tmp_path)
    said = neatrec(command, file, "-q").stdout
    labels = neatrec("labels", file, "--min-basket", "2", "--json", "-q").json()["labels"]
    assert labels["0.05"] == suggested_labels(said) > 20


OUTSIDE = """
from neatrec.models.statistics import PopCo


class Theirs(PopCo):
    name = "theirs"
"""


def test_a_class_from_elsewhere_takes_part(process, tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text(OUTSIDE)
    words = ["--models", "popco,outside:Theirs", "--out", "results.parquet", *LEVEL, "--json"]
    done = process("leaderboard", MARKET, *words)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["results"]
    assert {row["model"] for row in rows} == {"popco", "theirs"}
    assert len({row["hr@10"] for row in rows[:2]}) == 1
    assert pq.read_table(tmp_path / "results.parquet").to_pylist() == rows
