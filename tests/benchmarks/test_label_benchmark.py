"""The peers of the speed benchmark do the same task as neatrec: on random orders all find the same labels."""

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
