"""The service at half of its highest rate for ten minutes: memory, latency and unexpected answers.

`python -m benchmarks.serve_soak` writes results/serve_soak.json. Callers ask for answers to random
items, for unknown items and with a wrong parameter. The highest rate is measured first, by the same
callers without a pause. `make test-long` asserts what the record shows, over a small shop.
"""

from __future__ import annotations

import asyncio
import random
import re
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import commit, save
from benchmarks.serve_load import ITEMS, big_bundle, cpu_seconds, neatrec_words, server

CALLERS = 16
MINUTES = 10.0
WARM_UP = 0.2
"""Share of the time after which memory is compared with the end: minute 2 of 10."""
SAMPLES = 60
ASKED = (("{item}", 200, 0.8), ("none-{item}", 404, 0.15), ("{item}&k=0", 422, 0.05))
"""Item of a request, the status it must have, the share of the requests."""


@dataclass
class Asked:
    """Results of the callers."""

    statuses: Counter[int] = field(default_factory=Counter)
    unexpected: int = 0
    seconds: list[float] = field(default_factory=list)


async def ask(port: int, items: int, until: float, gap: float, seen: Asked) -> None:
    """Requests of one connection, one every `gap` seconds, until the clock shows `until`."""
    rng = random.Random(id(seen))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    due = time.perf_counter() + gap * rng.random()
    while (began := time.perf_counter()) < until:
        text, wanted, _ = rng.choices(ASKED, [share for *_, share in ASKED])[0]
        path = f"/v1/complements?item={text.format(item=rng.randrange(items))}"
        writer.write(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        await reader.readexactly(int(length[1]) if length else 0)
        status = int(head.split(b" ", 2)[1])
        seen.statuses[status] += 1
        seen.unexpected += status != wanted
        seen.seconds.append(time.perf_counter() - began)
        due += gap
        await asyncio.sleep(max(due - time.perf_counter(), 0))
    writer.close()


async def load(
    port: int, items: int, seconds: float, rate: float | None, pid: int
) -> tuple[Asked, list[float]]:
    """Outcomes at `rate` requests per second (None: without a pause), and the memory."""
    seen, resident = Asked(), []
    began = time.perf_counter()
    gap = CALLERS / rate if rate else 0.0
    asking = [ask(port, items, began + seconds, gap, seen) for _ in range(CALLERS)]
    tasks = [asyncio.create_task(each) for each in asking]
    for number in range(SAMPLES):
        await asyncio.sleep(max(began + seconds * (number + 1) / SAMPLES - time.perf_counter(), 0))
        resident.append(resident_mib(pid))
    await asyncio.gather(*tasks)
    return seen, resident


def resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return round(pages * 4096 / 2**20, 1)


def soak(bundle: Path, items: int, minutes: float = MINUTES) -> dict[str, Any]:
    """One worker over `bundle`, whose ids are 0 to `items` - 1."""
    with server(neatrec_words(bundle)) as (process, port, _):
        first, _ = asyncio.run(load(port, items, 20, None, process.pid))
        highest = first.statuses.total() / 20
        spent = cpu_seconds(process.pid)
        seen, resident = asyncio.run(load(port, items, 60 * minutes, highest / 2, process.pid))
        spent = cpu_seconds(process.pid) - spent
    before = resident[int(WARM_UP * SAMPLES) - 1]
    p50, p99 = np.quantile(seen.seconds, (0.5, 0.99))
    return {
        "minutes": minutes,
        "highest_requests_per_second": round(highest, 1),
        "requests_per_second": round(seen.statuses.total() / (60 * minutes), 1),
        "statuses": {str(status): count for status, count in sorted(seen.statuses.items())},
        "unexpected": seen.unexpected + first.unexpected,
        "p50_ms": round(1000 * float(p50), 2),
        "p99_ms": round(1000 * float(p99), 2),
        "cpu_ms_per_request": round(1000 * spent / seen.statuses.total(), 4),
        "resident_mib": resident,
        "growth_since_minute_2": round(resident[-1] / before - 1, 4),
    }


def main() -> None:
    commit()  # better refused now than when all is measured
    with tempfile.TemporaryDirectory() as folder:
        results = {"items": ITEMS, **soak(big_bundle(Path(folder) / "bundle"), ITEMS)}
    shown = {name: value for name, value in results.items() if name != "resident_mib"}
    print("\n".join(f"{name}: {value}" for name, value in shown.items()))
    print(save("serve_soak", results, ["fastapi", "uvicorn"]))


if __name__ == "__main__":
    main()
