"""What is fitted to measured runs: exponents and bytes come back from made data, and predictions are checked."""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.scaling_model import (
    Cluster,
    Point,
    Target,
    check,
    fit_bytes,
    fit_seconds,
    on_cores,
    on_gpus,
    synchronizations,
    table_bytes,
    within,
)

from benchmarks import scaling

SIZES = [(1e5, 5e4), (3e5, 5e4), (1e6, 5e4), (3e6, 5e4), (1e6, 1e4), (1e6, 2e5)]
CLUSTER = Cluster(workers=10, cores=4, gpus=2, efficiency=0.5, network=1e9, core_price=0.1, gpu_price=3.0)


def made(exponent: float, of_items: float, noise: float = 0.0) -> list[Point]:
    rng = np.random.default_rng(0)
    return [
        Point(
            7 * n, items, n, 2e-6 * (7 * n) ** exponent * items**of_items * np.exp(rng.normal(0, noise)), 3e8 + 24 * n
        )
        for n, items in SIZES
    ]


@pytest.mark.parametrize(("exponent", "of_items"), [(1.0, 0.0), (1.3, 0.2), (0.8, -0.1)])
def test_exponents_come_back(exponent: float, of_items: float) -> None:
    law = fit_seconds(made(exponent, of_items))
    assert law.exponent == pytest.approx(exponent)
    assert law.item_exponent == pytest.approx(of_items)
    assert law.seconds(7e6, 5e4) == pytest.approx(2e-6 * 7e6**exponent * 5e4**of_items)


def test_items_that_are_the_work_count_once() -> None:
    law = fit_seconds([Point(n, n, 0.0, 1e-9 * n**2, 1e8) for n in (1e4, 2e4, 4e4)])
    assert (law.exponent, law.item_exponent) == (pytest.approx(2.0), 0.0)


def test_beyond_what_was_measured_nothing_becomes_cheaper_by_the_piece() -> None:
    law = fit_seconds(made(0.8, -0.1))
    edge = law.seconds(21e6, 2e5)
    assert law.seconds(210e6, 2e5) == pytest.approx(10 * edge)
    assert law.seconds(21e6, 2e8) == pytest.approx(edge)
    steep = fit_seconds(made(1.3, 0.2))
    assert steep.seconds(210e6, 2e6) == pytest.approx(10**1.3 * 10**0.2 * steep.seconds(21e6, 2e5))


def test_bytes_come_back_and_are_never_negative() -> None:
    points = [replace(p, bytes=2e8 + 24 * p.lines + 900 * p.items) for p in made(1.0, 0.0)]
    line = fit_bytes(points)
    assert (line.fixed, line.by_line, line.by_item) == (pytest.approx(2e8), pytest.approx(24), pytest.approx(900))
    falling = fit_bytes([replace(p, bytes=5e8 - 10 * p.lines) for p in made(1.0, 0.0)])
    assert min(falling.fixed, falling.by_line, falling.by_item) == 0


def test_a_held_out_run_is_compared_with_what_was_predicted() -> None:
    far = Point(7e7, 5e4, 1e7, 2e-6 * 7e7, 3e8 + 24e7)
    good, slow, large = check(
        {"count": made(1.0, 0.0, noise=0.05)},
        {"count": [far, replace(far, seconds=2 * far.seconds), replace(far, bytes=2 * far.bytes)]},
    )
    assert good["within"]
    assert abs(good["seconds_error"]) < 0.3
    assert not slow["within"]
    assert slow["seconds_error"] == pytest.approx(-0.5, abs=0.1)
    assert not large["within"]
    assert (within(13.0, 10.0), within(13.1, 10.0), within(6.9, 10.0)) == (True, False, False)


def test_work_is_divided_and_paid() -> None:
    assert on_cores(3600 * 40, CLUSTER) == pytest.approx({"core_hours": 80, "hours": 2, "money": 8})
    assert on_gpus(3600e9, 1e9, CLUSTER) == pytest.approx({"gpu_hours": 2, "hours": 1, "money": 6})


def test_processes_send_what_was_changed_there_and_back_each_time_they_synchronize() -> None:
    target = Target(lines=1e7, baskets=1e6, items=5e7, epochs=4, dim=100, sync_every=10_000, negatives=5)
    sums = synchronizations(target, 10, 2, CLUSTER, gpus=False)
    assert sums["times"] == pytest.approx(40)
    assert sums["rows"] == pytest.approx(10 * 10_000 * 10 * 6)  # processes, baskets, lines, a line and its negatives
    assert sums["bytes_each"] == pytest.approx(4 * (table_bytes(6e6, 100) + 5e7))
    assert sums["hours"] == pytest.approx(40 * sums["bytes_each"] / 1e9 / 3600)
    assert synchronizations(target, 1, 2, CLUSTER, gpus=False)["times"] == 0
    assert synchronizations(target, 10, 2, CLUSTER, gpus=True)["bytes_each"] == pytest.approx(4 * table_bytes(5e7, 100))


@pytest.mark.parametrize(("items", "rows"), [(5e4, 5e4), (7.9e6, 7.9e6), (8e6, 6e6), (1e9, 6e6)])
def test_never_more_than_all_rows_are_sent_and_fewer_where_it_pays(items: float, rows: float) -> None:
    target = Target(lines=1e7, baskets=1e6, items=items, epochs=4, dim=100, sync_every=10_000, negatives=5)
    assert synchronizations(target, 10, 2, CLUSTER, gpus=False)["rows"] == pytest.approx(rows)


def runs() -> list[dict[str, Any]]:
    """What the benchmark would have measured where everything costs a microsecond a piece."""
    return [
        {**run, "work": 7.0 * work, "cpu": 7e-6 * work, "wall": 1.0, "peak_mib": 300.0 + work / 1e5}
        for run in scaling.plan([1000, 3000, 10_000, 30_000], [100_000])
        for work in [run["baskets"] or run["items"]]
    ]


def test_nothing_held_out_is_in_the_fit_and_every_stage_is_checked() -> None:
    found = runs()
    fitted, held_out = (scaling.points(found, held_out=held) for held in (False, True))
    assert fitted.keys() == held_out.keys() == {"read", *scaling.BY_BASKETS, *scaling.TABLES}
    for stage, of_stage in held_out.items():
        assert min(point.work for point in of_stage) > max(point.work for point in fitted[stage]), stage
    assert all(row["within"] for row in check(fitted, held_out))


def test_the_tables_are_printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["scaling"])
    monkeypatch.setattr(scaling, "recorded_gpu_speed", lambda: 1e9)
    monkeypatch.setattr(scaling, "recorded_spark_seconds", lambda: 1e-5)
    options: argparse.Namespace = scaling.parsed()
    record = scaling.show(runs(), options)
    said = capsys.readouterr().out
    assert "100 processes on CPUs synchronize" in said
    assert "8 processes on GPUs synchronize" in said
    assert record["laws"]["training"]["exponent"] == pytest.approx(1.0)
    training = next(row for row in record["forecast"]["stages"] if row["stage"] == "training")
    assert training["core_hours"] * 0.7 * 3600 == pytest.approx(5 * 1e-6 * training["work"] / 5, rel=0.01)
    spark, own = (
        next(row for row in record["forecast"]["stages"] if row["stage"] == name)
        for name in ("labels_paper, Spark", "labels_paper")
    )
    assert spark["core_hours"] == pytest.approx(10 * own["core_hours"])
    json.dumps(record)


def test_a_folder_that_knows_a_run_is_believed(tmp_path: Path) -> None:
    known = runs()
    (tmp_path / "runs.jsonl").write_text("".join(json.dumps(run) + "\n" for run in known))
    plan = scaling.plan([1000, 3000, 10_000, 30_000], [100_000])
    assert scaling.measure_all(plan, tmp_path) == known
