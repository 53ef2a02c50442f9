"""The service under load, beside gensim behind the same framework: 100,000 items, one worker, wrk.

`python -m benchmarks.serve_load` writes results/serve_load.json. Needs wrk (Debian and Ubuntu: the
package `wrk`). The two services answer in turn, so that a busy moment of the machine hits both.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import ROOT, commit, save, spread, table

ITEMS, BASKETS, LINES, CATEGORIES, DIM = 100_000, 150_000, 6, 400, 100
CONNECTIONS, SECONDS, ROUNDS = 16, 10, 3
ASK = "/v1/complements?k=10&min_evidence=guess&item="
LUA = """
math.randomseed(os.time())
request = function()
  return wrk.format("GET", "%s" .. math.random(0, %d))
end
"""


def big_bundle(path: Path) -> Path:
    """A bundle over random baskets in which each item has a partner; ids are 0 to ITEMS - 1."""
    from neatrec.data.baskets import Baskets
    from neatrec.data.catalog import Catalog
    from neatrec.models import Run, make_model
    from neatrec.serving.build import save_indexed

    rng = np.random.default_rng(0)
    catalog = Catalog.from_ids(
        [str(code) for code in range(ITEMS)],
        names=[f"Item number {code}" for code in range(ITEMS)],
        categories=[f"category {code % CATEGORIES}" for code in range(ITEMS)],
    )
    first = rng.integers(ITEMS, size=(BASKETS, LINES // 2))
    lines = np.concatenate([first, (first + 1) % ITEMS], axis=1)  # each line brings its partner
    lines[:, -1] = rng.integers(ITEMS, size=BASKETS)
    lists = [list(dict.fromkeys(map(str, row))) for row in lines.tolist()]
    ids = [str(number) for number in range(BASKETS)]
    baskets = Baskets.from_lists(lists, ids=ids, catalog=catalog)
    save_indexed(make_model("shrunk-lift").fit(baskets, Run(rng=0)), path, baskets, seed=0)
    return path


def gensim_app() -> Any:
    """gensim's `most_similar` behind FastAPI, as small as it can be."""
    from fastapi import FastAPI
    from gensim.models import KeyedVectors

    drawn = np.random.default_rng(0).standard_normal((ITEMS, DIM), dtype=np.float32)
    vectors = KeyedVectors(DIM)
    vectors.add_vectors([str(code) for code in range(ITEMS)], drawn)
    vectors.fill_norms()
    app = FastAPI()

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/similar")
    async def similar(item: str, k: int = 10) -> list[tuple[str, float]]:
        return [(name, float(score)) for name, score in vectors.most_similar(item, topn=k)]

    return app


def neatrec_words(bundle: Path) -> list[str]:
    """The command that serves a bundle."""
    return [sys.executable, "-m", "neatrec", "serve", str(bundle), "--quiet"]


@contextmanager
def server(words: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], int, float]]:
    """A service, its port, and the seconds until it answered."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    started = time.perf_counter()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([*words, "--port", str(port)], cwd=ROOT, **quiet)
    try:
        while not healthy(port):
            if process.poll() is not None:
                sys.exit(f"{' '.join(words)} ended")
            time.sleep(0.01)
        yield process, port, time.perf_counter() - started
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def wrk(port: int, path: str, seconds: int) -> dict[str, Any]:
    """Requests per second, latencies and failures, asking for random items."""
    tool = shutil.which("wrk")
    if tool is None:
        sys.exit("This benchmark needs wrk: install the package `wrk`.")
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(LUA % (path, ITEMS - 1))
        script.flush()
        options = ["-t2", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", "-s", script.name]
        words = [tool, *options, f"http://127.0.0.1:{port}"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    return read_wrk(done.stdout)


def read_wrk(text: str) -> dict[str, Any]:
    """
    >>> read_wrk("50% 5.63ms\\n99% 13.00ms\\n27 requests in 10.02s\\nRequests/sec: 2.69")
    {'requests_per_second': 2.69, 'requests': 27, 'p50_ms': 5.63, 'p99_ms': 13.0, 'not_2xx': 0}
    """

    def number(pattern: str) -> float:
        match = re.search(pattern, text)
        return float(match[1]) if match else 0.0

    scale = {"us": 1e-3, "ms": 1.0, "s": 1e3}
    latencies = re.findall(r"(50|99)%\s+([\d.]+)(us|ms|s)\b", text)
    by_share = {share: float(value) * scale[unit] for share, value, unit in latencies}
    return {
        "requests_per_second": number(r"Requests/sec:\s+([\d.]+)"),
        "requests": int(number(r"(\d+) requests in")),
        "p50_ms": by_share.get("50"),
        "p99_ms": by_share.get("99"),
        "not_2xx": int(number(r"Non-2xx or 3xx responses: (\d+)")),
    }


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(words: list[str], path: str) -> dict[str, Any]:
    """Load on a service after a warm-up: what wrk reports, CPU time per request, memory."""
    with server(words) as (process, port, ready):
        wrk(port, path, 2)
        before = cpu_seconds(process.pid)
        answer = wrk(port, path, SECONDS)
        spent = cpu_seconds(process.pid) - before
        status = Path(f"/proc/{process.pid}/status").read_text()
    resident = re.search(r"VmRSS:\s+(\d+)", status)
    return {
        **answer,
        "cpu_ms_per_request": round(1000 * spent / max(answer["requests"], 1), 4),
        "ready_seconds": round(ready, 2),
        "resident_mib": round(int(resident[1]) / 1024) if resident else 0,
    }


def spreads(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """
    >>> spreads([{"p99_ms": 3.0}, {"p99_ms": 1.0}])
    {'p99_ms': {'median': 2.0, 'min': 1.0, 'max': 3.0}}
    """
    return {key: spread([row[key] for row in rows]) for key in rows[0]}


def main() -> None:
    commit()  # better refused now than when all is measured
    gensim = [sys.executable, "-m", "uvicorn", "benchmarks.serve_load:gensim_app", "--factory"]
    rounds: dict[str, list[dict[str, Any]]] = {"neatrec": [], "gensim_most_similar": []}
    with tempfile.TemporaryDirectory() as folder:
        bundle = big_bundle(Path(folder) / "bundle")
        ours = neatrec_words(bundle)
        for _ in range(ROUNDS):
            rounds["neatrec"].append(measured(ours, ASK))
            rounds["gensim_most_similar"].append(
                measured([*gensim, "--no-access-log"], "/similar?k=10&item=")
            )
    results = {"items": ITEMS, **{name: spreads(rows) for name, rows in rounds.items()}}
    keys = ("requests_per_second", "p50_ms", "p99_ms", "not_2xx", "cpu_ms_per_request")
    rows = [[name, *(f"{results[name][key]['median']:,.2f}" for key in keys)] for name in rounds]
    print(table([["service", *keys], *rows]))
    print(save("serve_load", results, ["fastapi", "uvicorn", "gensim"]))


if __name__ == "__main__":
    main()
