"""The peers of the speed benchmark do the same task as neatrec: on random orders all find the same labels."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def benchmark_modules(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    monkeypatch.syspath_prepend(str(ROOT))
    peers, ours, data = (import_module(f"benchmarks.{name}") for name in ("label_peers", "label_speed", "label_data"))
    orders = random_orders(data.Orders)
    monkeypatch.setattr(peers, "read_orders", lambda: orders)
    monkeypatch.setattr(ours, "read_orders", lambda: orders)
    return ours, peers


def random_orders(make: Any) -> Any:
    """Popular items, and the pairs (0, 1), (2, 3), ... bought together more often than not."""
    rng = np.random.default_rng(11)
    items, baskets = 60, []
    for _ in range(1500):
        chosen = set((items * rng.random(rng.integers(1, 9)) ** 3).astype(int).tolist())
        chosen |= {item ^ 1 for item in chosen if rng.random() < 0.3}
        baskets.append(rng.permutation(sorted(chosen)))
    sizes = np.array([len(basket) for basket in baskets])
    item, aisle = np.concatenate(baskets), np.arange(items) % 7
    position = np.concatenate([np.arange(size) for size in sizes])
    return make(np.repeat(np.arange(len(sizes)), sizes), item, position, aisle[item], sizes, aisle)


def test_all_contenders_find_the_same_labels(benchmark_modules: tuple[Any, Any]) -> None:
    ours, peers = benchmark_modules
    for mine, theirs in (
        ("neatrec_all_pairs", ("scipy_all_pairs", "pandas_all_pairs", "polars_all_pairs", "duckdb_all_pairs")),
        ("neatrec_window", ("polars_window", "polars_window_join", "duckdb_window")),
    ):
        labels = getattr(ours, mine)()()
        assert labels > 10
        assert {name: getattr(peers, name)()() for name in theirs} == dict.fromkeys(theirs, labels)


def test_a_record_tells_the_machine_and_not_whose_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import platform

    monkeypatch.syspath_prepend(str(ROOT))
    harness = import_module("benchmarks.harness")
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    run = {"wall": 2.0, "cpu": 1.0, "peak_mib": 5.0, "before_mib": 4.0, "answer": 7}
    path = harness.save(
        "some", {"a table": [harness.summary("a job", [run, {**run, "cpu": 3.0}])]}, ["numpy", "no-such"]
    )
    record = json.loads(path.read_text())
    assert record["results"]["a table"][0]["cpu"] == {"median": 2.0, "min": 1.0, "max": 3.0}
    assert record["versions"]["numpy"] == np.__version__
    assert record["versions"]["no-such"] == "not installed"
    assert record["machine"]["cores"] >= 1
    for private in (platform.node(), str(ROOT), str(Path.home())):
        assert private not in path.read_text()


def test_missing_data_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setenv("NEATREC_DATA", str(tmp_path))
    harness = import_module("benchmarks.harness")
    with pytest.raises(SystemExit, match=r"needs orders\.parquet in instacart/ under NEATREC_DATA: set NEATREC_DATA"):
        harness.data_folder("instacart", ["orders.parquet"])


def test_a_job_is_measured_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    harness = import_module("benchmarks.harness")
    run = harness.measure("benchmarks.harness", "machine_as_job")
    assert run["answer"] == harness.machine()
    assert 0 <= run["cpu"] < 5
    assert 0 < run["wall"] < 60
    assert run["peak_mib"] >= run["before_mib"] > 1
    with pytest.raises(SystemExit, match="no_such_job failed:"):
        harness.measure("benchmarks.harness", "no_such_job")
