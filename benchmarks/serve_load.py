"""The service under load: 100,000 items, one worker, wrk; overload; swaps; beside gensim behind the same framework.

`python -m benchmarks.serve_load` writes results/serve_load.json. Needs wrk (Debian and Ubuntu: the package `wrk`).

    python -m venv ELSEWHERE && ELSEWHERE/bin/pip install chromadb
    python -m benchmarks.serve_load --chroma ELSEWHERE/bin/python

measures a service that others wrote as well: Chroma, with as many random vectors and its own server, which takes all
cores where ours takes one: compare the CPU time of a request. It answers approximately and without evidence.

    python -m benchmarks.serve_load --soak 30

writes results/serve_soak.json: memory over 30 minutes of valid and invalid requests. It needs no wrk.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from json import dumps, loads
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import chroma_peer
from benchmarks.harness import ROOT, save, spread, table
from benchmarks.mixed_requests import ask_at
from benchmarks.wrk import SECONDS, run_wrk, wrk

ITEMS, BASKETS, LINES, CATEGORIES, DIM = 100_000, 150_000, 6, 400, 100
FLOOD = 2000
"""Connections at once."""
SWAPS, CORRUPT = 50, 10
ROUNDS = 3
SOAK_RATE, SAMPLES = 500, 180
WARM_UP = 1 / 3
"""Share of a soak after which caches are full: memory is judged from there on."""
ASK = "/v1/complements?k=10&min_evidence=guess&item="


def big_bundle(path: Path, *, items: int = ITEMS, baskets: int = BASKETS, seed: int = 0) -> Path:
    """A bundle over random baskets in which each item has a partner; ids are 0 to items - 1."""
    from neatrec.data.baskets import Baskets
    from neatrec.data.catalog import Catalog
    from neatrec.models import Run, make_model
    from neatrec.serving.build import save_indexed

    rng = np.random.default_rng(seed)
    catalog = Catalog.from_ids(
        [str(code) for code in range(items)],
        names=[f"Item number {code}" for code in range(items)],
        categories=[f"category {code % CATEGORIES}" for code in range(items)],
    )
    first = rng.integers(items, size=(baskets, LINES // 2))
    lines = np.concatenate([first, (first + 1) % items], axis=1)  # each line brings its partner
    lines[:, -1] = rng.integers(items, size=baskets)
    lists = [list(dict.fromkeys(map(str, row))) for row in lines.tolist()]
    made = Baskets.from_lists(lists, ids=[str(number) for number in range(baskets)], catalog=catalog)
    model = make_model("shrunk-lift").fit(made, Run(rng=seed))
    save_indexed(model, path, made, seed=seed)
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def server(words: list[str], port: int, probe: str = "/healthz") -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    """A process that answers its probe, and the seconds until it did."""
    # bytecode may be kept as at any shop; a warm start is what a restart is
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(words, cwd=ROOT, env=environment, **quiet)
    try:
        while not healthy(port, probe):
            if process.poll() is not None:
                sys.exit(f"{' '.join(words)} ended")
            time.sleep(0.01)
        yield process, time.perf_counter() - started
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def healthy(port: int, probe: str = "/healthz") -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{probe}", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def neatrec_words(bundle: Path, port: int, *more: str) -> list[str]:
    return [sys.executable, "-m", "neatrec", "serve", str(bundle), "--port", str(port), "--quiet", *more]


def memory(process: subprocess.Popen[bytes]) -> dict[str, float]:
    """Resident MiB of a process: its own, and the mapped files it shares with others."""
    text = Path(f"/proc/{process.pid}/status").read_text()
    kib = {name: int(value) for name, value in re.findall(r"(VmRSS|RssAnon|RssFile):\s+(\d+)", text)}
    return {name: round(value / 1024, 1) for name, value in kib.items()}


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(process: subprocess.Popen[bytes], ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What wrk reports, and the processor time that the server took for a request."""
    before = cpu_seconds(process.pid)
    answer = ask()
    spent = cpu_seconds(process.pid) - before
    return {**answer, "cpu_ms_per_request": round(1000 * spent / max(answer["requests"], 1), 4)}


def steady(bundle: Path, *, items: int = ITEMS, seconds: int = SECONDS) -> dict[str, Any]:
    """One worker, 16 connections, k = 10, items at random; the start and the memory too."""
    port = free_port()
    with server(neatrec_words(bundle, port), port):
        pass  # bytecode and compiled code are on the disk now
    with server(neatrec_words(bundle, port), port) as (process, ready):
        wrk(port, ASK, items, seconds=2)
        answer = measured(process, lambda: wrk(port, ASK, items, seconds=seconds))
        return {**answer, "ready_seconds": round(ready, 2), "memory_mib": memory(process)}


def flood(bundle: Path, *, items: int = ITEMS, seconds: int = 20) -> dict[str, Any]:
    """2,000 connections: it sheds, and is healthy within a second of their end."""
    port = free_port()
    with server(neatrec_words(bundle, port), port) as (process, _):
        answer = wrk(port, ASK, items, connections=FLOOD, seconds=seconds)
        ended = time.perf_counter()
        while not healthy(port):
            time.sleep(0.01)
        back = time.perf_counter() - ended
        after = wrk(port, ASK, items, seconds=2)
        return {
            **answer,
            "healthy_after_seconds": round(back, 3),
            "not_2xx_afterwards": after["not_2xx"],
            "memory_mib": memory(process),
        }


def swaps(folder: Path, *, count: int = SWAPS, corrupt: int = CORRUPT) -> dict[str, Any]:
    """Swaps and corrupt bundles while four callers check every answer against the version it names."""
    nights = [big_bundle(folder / f"night-{seed}", items=2000, baskets=6000, seed=seed) for seed in (1, 2)]
    expected = dict(map(answers_alone, nights))
    store = folder / "store"
    store.mkdir()
    flip(store, nights[0])
    port = free_port()
    failed: list[Any] = []
    mixed: list[Any] = []
    asked = [0] * 4
    stop = threading.Event()

    def ask(place: int) -> None:
        while not stop.is_set():
            for item in ("0", "7"):
                try:
                    body = get(port, f"{ASK}{item}")
                except (OSError, ValueError) as error:
                    failed.append(repr(error))
                    continue
                asked[place] += 1
                if body["complements"] != expected[body["bundle"]][item]:
                    mixed.append(body["bundle"])

    with server(neatrec_words(store, port), port):
        callers = [threading.Thread(target=ask, args=(place,)) for place in range(4)]
        for caller in callers:
            caller.start()
        try:
            refused = _swap_all(store, nights, list(expected), port, count, corrupt)
        finally:
            stop.set()
            for caller in callers:
                caller.join()
    return {
        "swaps": count,
        "corrupt": corrupt,
        "refused": refused,
        "requests": sum(asked),
        "failed": len(failed),
        "mixed": len(mixed),
    }


def _swap_all(store: Path, nights: list[Path], versions: list[str], port: int, count: int, corrupt: int) -> int:
    """All swaps and corruptions, each waited for; how many corrupt bundles were refused."""
    every = max(count // corrupt, 1)
    broken = 0
    for number in range(count):
        target = (number + 1) % 2
        flip(store, nights[target])
        wait_until(lambda target=target: get(port, "/readyz")["bundle"] == versions[target])
        if number % every == 0 and broken < corrupt:
            flip(store, damaged_copy(nights[1 - target], store, broken))
            broken += 1
            wait_until(lambda broken=broken: refused_by(port) >= broken)
    return refused_by(port)


def answers_alone(bundle: Path) -> tuple[str, dict[str, Any]]:
    """The version of a bundle, and what a server over it alone says."""
    port = free_port()
    with server(neatrec_words(bundle, port), port):
        answers = {item: get(port, f"{ASK}{item}") for item in ("0", "7")}
    return answers["0"]["bundle"], {item: answer["complements"] for item, answer in answers.items()}


def get(port: int, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return loads(answer.read())


def refused_by(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        found = re.search(r"neatrec_refused_bundles_total (\d+)", answer.read().decode())
    return int(found[1]) if found else 0


def flip(store: Path, bundle: Path) -> None:
    """`current` names another bundle in one step."""
    link = store / ".next"
    link.symlink_to(bundle)
    os.replace(link, store / "current")


def damaged_copy(bundle: Path, folder: Path, number: int) -> Path:
    """A copy of a bundle with one flipped byte in one of its files."""
    copy = folder / f"damaged-{number}"
    shutil.copytree(bundle, copy)
    files = sorted(file for file in copy.rglob("*") if file.is_file())
    file = files[number % len(files)]
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    return copy


def wait_until(true: Callable[[], bool]) -> None:
    for _ in range(6000):
        if true():
            return
        time.sleep(0.02)
    sys.exit("the server did not take notice")


def soak(bundle: Path, minutes: float, *, items: int = ITEMS, rate: float = SOAK_RATE) -> dict[str, Any]:
    """One worker at a fixed rate of valid and invalid requests: its memory, threads and open files over time."""
    port = free_port()
    with server(neatrec_words(bundle, port), port) as (process, _):
        started = time.perf_counter()
        samples: list[tuple[float, float, int, int]] = []

        def is_over() -> bool:
            passed = time.perf_counter() - started
            if passed >= len(samples) * 60 * minutes / SAMPLES:
                place = Path(f"/proc/{process.pid}")
                counts = (len(list((place / name).iterdir())) for name in ("task", "fd"))
                samples.append((passed / 60, memory(process)["VmRSS"], *counts))
            return passed > 60 * minutes

        asked = asyncio.run(ask_at(port, rate, items, is_over))
        passed, spent = time.perf_counter() - started, cpu_seconds(process.pid)
    judged = [sample for sample in samples if sample[0] >= WARM_UP * minutes]
    requests = asked.statuses.total()
    return {
        "minutes": round(passed / 60, 1),
        "asked_per_second": rate,
        "requests_per_second": round(requests / passed, 1),
        "statuses": {str(status): count for status, count in sorted(asked.statuses.items())},
        "unexpected": len(asked.wrong),
        "without_answer": asked.broken,
        "p50_ms": round(1000 * float(np.quantile(asked.latencies, 0.5)), 2),
        "p99_ms": round(1000 * float(np.quantile(asked.latencies, 0.99)), 2),
        "cpu_ms_per_request": round(1000 * spent / requests, 4),
        "judged_from_minute": round(WARM_UP * minutes, 1),
        "mib_per_minute": slope([(minute, resident) for minute, resident, _, _ in judged]),
        "threads": spread([threads for _, _, threads, _ in judged]),
        "open_files": spread([files for _, _, _, files in judged]),
        "resident_mib": [[round(minute, 1), resident] for minute, resident, _, _ in samples[::6]],
    }


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Of the least-squares line.

    >>> slope([(0, 5.0), (1, 7.0), (2, 9.0)])
    2.0
    """
    return round(float(np.polyfit(*np.array(points).T, 1)[0]), 4)


def killed_worker(bundle: Path, *, items: int = ITEMS, rate: float = 100, seconds: float = 60) -> dict[str, Any]:
    """Two workers under load, one killed: requests that failed, and the seconds until there are two again."""
    port = free_port()
    with server(neatrec_words(bundle, port, "--workers", "2"), port) as (process, _):
        wait_until(lambda: len(workers_of(process)) == 2 and are_idle(workers_of(process)))
        started = time.perf_counter()
        before: set[int] = set()
        back: list[float] = []

        def is_over() -> bool:
            passed = time.perf_counter() - started
            if passed > seconds / 3 and not before:
                before.update(workers_of(process))
                os.kill(min(before), signal.SIGKILL)
            elif before and not back and len(workers_of(process) - {min(before)}) == 2:
                back.append(passed - seconds / 3)
            return passed > seconds

        asked = asyncio.run(ask_at(port, rate, items, is_over))
    return {
        "requests": asked.statuses.total(),
        "without_answer": asked.broken,
        "unexpected": len(asked.wrong),
        "replaced_after_seconds": round(back[0], 2) if back else None,
    }


def are_idle(processes: set[int]) -> bool:
    """Whether they have started: a worker that still opens its bundle is busy."""
    before = sum(map(cpu_seconds, processes))
    time.sleep(2)
    return sum(map(cpu_seconds, processes)) - before < 0.2


def workers_of(process: subprocess.Popen[bytes]) -> set[int]:
    """The workers of a service, by their process number."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return {int(child) for child in children if b"spawn_main" in command_line(child)}


def command_line(process: str) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:  # it has just ended
        return b""


def gensim_app() -> Any:
    """gensim's `most_similar` behind FastAPI, as small as it can be."""
    from fastapi import FastAPI
    from gensim.models import KeyedVectors

    rng = np.random.default_rng(0)
    vectors = KeyedVectors(DIM)
    vectors.add_vectors([str(code) for code in range(ITEMS)], rng.standard_normal((ITEMS, DIM), dtype=np.float32))
    vectors.fill_norms()
    app = FastAPI()

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/similar")
    async def similar(item: str, k: int = 10) -> list[tuple[str, float]]:
        return [(name, float(score)) for name, score in vectors.most_similar(item, topn=k)]

    return app


def gensim(*, seconds: int = SECONDS) -> dict[str, Any]:
    """The same question of gensim behind the same framework and server."""
    port = free_port()
    words = [
        sys.executable,
        "-m",
        "uvicorn",
        "benchmarks.serve_load:gensim_app",
        "--factory",
        "--port",
        str(port),
        "--no-access-log",
    ]
    with server(words, port) as (process, _):
        return measured(process, lambda: wrk(port, "/similar?k=10&item=", ITEMS, seconds=seconds))


def chroma(python: str, folder: Path, *, items: int = ITEMS, seconds: int = SECONDS) -> dict[str, Any]:
    """The items nearest to one, of Chroma's own server over as many random vectors; filled at the first call."""
    port = free_port()
    with server(chroma_peer.words(python, folder, port), port, chroma_peer.HEALTHY) as (process, _):
        kept = folder / "path-of-the-question"
        if not kept.exists():
            kept.write_text(chroma_peer.filled(python, port, items, DIM, ROOT))
        with chroma_peer.script(kept.read_text(), items, DIM, 10) as script:
            run_wrk(port, script, seconds=2)
            answer = measured(process, lambda: run_wrk(port, script, seconds=seconds))
        return {**answer, "memory_mib": memory(process)}


def everything(chroma_python: str | None = None) -> dict[str, Any]:
    """All measurements; the services in turn, so that a busy moment of the machine hits them all."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        bundle = big_bundle(folder / "bundle")
        rounds, others = [], []
        for _ in range(ROUNDS):
            rounds.append((steady(bundle), gensim()))
            if chroma_python is not None:
                others.append(chroma(chroma_python, folder / "chroma"))
        return {
            "items": ITEMS,
            **side_by_side(rounds),
            **({"chroma": beside([ours for ours, _ in rounds], others)} if others else {}),
            "flood": flood(bundle),
            "swaps": swaps(folder),
            "killed_worker": killed_worker(bundle),
            "load_average": round(os.getloadavg()[0], 1),
        }


def side_by_side(rounds: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> dict[str, Any]:
    """Every round of ours and of the peer's, their medians and spreads, and the ratios round by round."""
    ours, peer = zip(*rounds, strict=True)
    return {
        "neatrec": spreads(ours),
        "gensim_most_similar": spreads(peer),
        "requests_ratio": spread([one["requests_per_second"] / other["requests_per_second"] for one, other in rounds]),
        "p99_ratio": spread([other["p99_ms"] / one["p99_ms"] for one, other in rounds]),
        "rounds": [{"neatrec": one, "gensim_most_similar": other} for one, other in rounds],
    }


def beside(ours: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A peer's rounds, and the ratios round by round: more than 1 where ours is better."""

    def ratio(key: str) -> dict[str, float]:
        return spread([other[key] / one[key] for one, other in zip(ours, others, strict=True)])

    rates = [one["requests_per_second"] / other["requests_per_second"] for one, other in zip(ours, others, strict=True)]
    ratios = {"requests_ratio": spread(rates), "p99_ratio": ratio("p99_ms"), "cpu_ratio": ratio("cpu_ms_per_request")}
    return {**spreads(others), **ratios, "rounds": list(others)}


def spreads(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Median, least and most of every number of some rounds.

    >>> spreads([{"p99_ms": 3.0}, {"p99_ms": 1.0}])["p99_ms"]
    {'median': 2.0, 'min': 1.0, 'max': 3.0}
    """
    return {
        key: spreads([row[key] for row in rows]) if isinstance(value, Mapping) else spread([row[key] for row in rows])
        for key, value in rows[0].items()
    }


def show(results: Mapping[str, Any]) -> None:
    rows = [["service", "requests/s", "p50 ms", "p99 ms", "not 2xx", "CPU ms"]]
    for name in ("neatrec", "gensim_most_similar", *(["chroma"] if "chroma" in results else [])):
        row = results[name]
        keys = ("requests_per_second", "p50_ms", "p99_ms", "not_2xx", "cpu_ms_per_request")
        rows.append([name, *(f"{row[key]['median']:,.2f}" for key in keys)])
    print(table(rows))
    ours = results["neatrec"]
    resident = {name: value["median"] for name, value in ours["memory_mib"].items()}
    print(f"ready after {ours['ready_seconds']['median']} s; MiB {resident}")
    print(f"flood: {results['flood']}")
    print(f"swaps: {results['swaps']}")
    print(f"killed worker: {results['killed_worker']}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chroma", metavar="PYTHON", help="an interpreter that has chromadb; default: no such peer")
    parser.add_argument("--soak", metavar="MINUTES", type=float, help="memory under load instead")
    given = parser.parse_args()
    if given.soak:
        with tempfile.TemporaryDirectory() as place:
            bundle = big_bundle(Path(place) / "bundle")
            results = {"items": ITEMS, "soak": soak(bundle, given.soak)}
        print(dumps(results))
        options = f"--soak {given.soak:g}"
        print(save("serve_load", results, ["fastapi", "uvicorn"], file="serve_soak", options=options))
        sys.exit()
    python = given.chroma
    results = everything(python)
    show(results)
    options = "--chroma PYTHON" if python else ""
    print(save("serve_load", results, ["fastapi", "uvicorn", "gensim"], options=options))
