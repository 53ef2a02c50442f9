"""The service under real load; the record goes to benchmarks/results. Needs wrk."""

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.wrk import read_wrk

from benchmarks import harness, serve_load

READ = """Running 10s test @ http://127.0.0.1:8123
  2 threads and 16 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     5.92ms    1.80ms  40.16ms   90.45%
    Req/Sec     1.36k   143.43     1.59k    79.50%
  Latency Distribution
     50%    5.63ms
     75%    6.38ms
     90%    7.37ms
     99%   12.99ms
  27116 requests in 10.02s, 122.47MB read
  Socket errors: connect 0, read 3, write 0, timeout 1
  Non-2xx or 3xx responses: 12
Requests/sec:   2706.93
"""


def test_the_output_of_wrk_is_read() -> None:
    assert read_wrk(READ) == {
        "requests_per_second": 2706.93,
        "requests": 27116,
        "p50_ms": 5.63,
        "p99_ms": 12.99,
        "not_2xx": 12,
        "socket_errors": 4,
    }


def test_all_rounds_are_kept_not_the_fastest() -> None:
    ours = [
        {"requests_per_second": rate, "p99_ms": 10.0, "memory_mib": {"VmRSS": rate}} for rate in (100.0, 300.0, 200.0)
    ]
    peer = [{"requests_per_second": rate, "p99_ms": 40.0} for rate in (50.0, 50.0, 40.0)]
    found = serve_load.side_by_side(list(zip(ours, peer, strict=True)))
    assert found["neatrec"]["requests_per_second"] == {"median": 200.0, "min": 100.0, "max": 300.0}
    assert found["neatrec"]["memory_mib"]["VmRSS"]["max"] == 300.0
    assert found["requests_ratio"] == {"median": 5.0, "min": 2.0, "max": 6.0}
    assert found["p99_ratio"]["median"] == 4.0
    assert [row["neatrec"] for row in found["rounds"]] == ours


def test_a_peer_stands_beside_us_round_by_round() -> None:
    ours = [{"requests_per_second": 100.0, "p99_ms": 2.0, "cpu_ms_per_request": 1.0}] * 2
    others = [{"requests_per_second": rate, "p99_ms": 4.0, "cpu_ms_per_request": 3.0} for rate in (50.0, 200.0)]
    found = serve_load.beside(ours, others)
    assert found["requests_ratio"] == {"median": 1.25, "min": 0.5, "max": 2.0}
    assert (found["p99_ratio"]["median"], found["cpu_ratio"]["median"]) == (2.0, 3.0)
    assert found["requests_per_second"]["max"] == 200.0


@pytest.mark.slow
def test_a_soak_meets_the_expected_statuses_alone(tmp_path: Path) -> None:
    bundle = serve_load.big_bundle(tmp_path / "bundle", items=300, baskets=900)
    found = serve_load.soak(bundle, 0.04, items=300, rate=150)
    assert found["unexpected"] == found["without_answer"] == 0
    assert set(found["statuses"]) == {"200", "404", "422"}
    assert found["requests_per_second"] > 10


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    results = serve_load.everything()
    harness.save("serve_load", results, ["fastapi", "uvicorn", "gensim"])
    return results


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_one_worker_answers_two_thousand_requests_a_second_over_a_hundred_thousand_items(measured: dict) -> None:
    ours = measured["neatrec"]
    assert ours["not_2xx"]["max"] == 0
    assert ours["requests_per_second"]["median"] >= 2000
    assert ours["p99_ms"]["median"] <= 20
    assert ours["ready_seconds"]["median"] <= 3


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_two_thousand_connections_are_shed_and_it_is_healthy_within_a_second(measured: dict) -> None:
    flood = measured["flood"]
    assert flood["not_2xx"] > 0
    assert flood["healthy_after_seconds"] <= 1
    assert flood["not_2xx_afterwards"] == 0


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_fifty_swaps_and_ten_corrupt_bundles_fail_and_mix_nothing(measured: dict) -> None:
    swaps = measured["swaps"]
    assert (swaps["failed"], swaps["mixed"], swaps["refused"]) == (0, 0, 10)
    assert swaps["requests"] > 100


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_it_is_faster_than_gensim_behind_the_same_framework(measured: dict) -> None:
    assert measured["requests_ratio"]["min"] > 1
    assert measured["p99_ratio"]["min"] > 1
