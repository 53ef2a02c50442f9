"""Labels on Spark beside the memory engine: the same hash, and where Spark's time goes.

    python -m benchmarks.spark_counting [PART ...] [--baskets N] [--long N]

`paper`, `calibrated`: labels of the Instacart orders, sent from the driver. `candidates`: their candidate sets.
`simulated`: paper labels of 3.2 million simulated baskets. `skew`: simulated baskets with one item in a third of them
and one basket of `--long` lines, written as Parquet and read by Spark itself. `window`: pairs at most five places
apart, one basket of a million lines among the others. `refused`: all pairs of such a basket. CPU seconds are those of
this process, Java and its Python workers after the session's start. What a worker's first task loads is no skew, so a
part that is counted again has the stages of the second time: tasks, and the longest task beside the median one, in CPU
seconds of the Python worker and, by Spark's own status store, in run time, which includes the wait for a core.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._spark_daemon import FOLDER
from benchmarks.harness import data_folder, save, table

MILLION = 1_000_000
MANY = 4
"""Stages that are shown: those with the longest tasks."""


def stages_since(session: Any, known: set[int]) -> list[dict[str, Any]]:
    """Stages that ended since, with the run times and CPU seconds of their tasks, longest task first."""
    context, cpu = session.sparkContext, cpu_of_tasks()
    store = context._jsc.sc().statusStore()
    found = []
    for number in range(10_000):
        if number in known:
            continue
        try:
            attempt = store.lastStageAttempt(number)
        except Exception as error:  # of py4j: stages are numbered without gaps, so this was the last
            if "NoSuchElement" not in str(error):
                raise
            break
        known.add(number)
        if str(attempt.status()) != "COMPLETE":
            continue
        tasks = store.taskList(number, attempt.attemptId(), 100_000)
        times = [
            tasks.apply(i).taskMetrics().get().executorRunTime() / 1000
            for i in range(tasks.size())
            if tasks.apply(i).taskMetrics().isDefined()
        ]
        if times:
            run = {"longest": round(max(times), 2), "median": round(float(np.median(times)), 2)}
            used = {"cpu_longest": round(max(cpu[number]), 3), "cpu_median": round(float(np.median(cpu[number])), 3)}
            found.append({"tasks": len(times), **run, **used})
    return sorted(found, key=lambda stage: -float(stage["longest"]))


def cpu_of_tasks() -> dict[int, list[float]]:
    """Stage -> CPU seconds of each of its tasks in the Python worker, as `_spark_daemon` writes them down."""
    found: dict[int, list[float]] = defaultdict(list)
    for file in Path(os.environ[FOLDER]).iterdir():
        for line in file.read_text().splitlines():
            stage, seconds = line.split()
            found[int(stage)].append(float(seconds))
    return found


def cpu_seconds() -> float:
    """CPU seconds so far of this process and of everything below it (of what has ended: where it was waited for)."""
    below, used = {os.getpid()}, 0.0
    for _ in range(5):  # this process, Java, its daemon, the workers
        below |= {int(pid) for pid, stat in _processes() if int(stat[1]) in below}
    for pid, stat in _processes():
        if int(pid) in below:
            used += sum(int(ticks) for ticks in stat[11:15]) / os.sysconf("SC_CLK_TCK")
    return used


def _processes() -> Iterator[tuple[str, list[str]]]:
    """Process ids, and the fields of /proc of each from its state on."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            yield file.parent.name, file.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            continue


def lines_with_a_long_basket(baskets: int, long: int, folder: Path) -> Path:
    """Simulated lines with a head item in a third of the baskets, and one long basket."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from neatrec.io import read_baskets

    market = read_baskets(f"supermarket:baskets={baskets},items={min(max(2000, 2 * long), 20_000)}")
    basket, item = market.basket_of_line, market.items.astype(np.int64)
    head = np.arange(0, baskets, 3)
    basket = np.concatenate([basket, head, np.full(long, baskets)])
    item = np.concatenate([item, np.full(len(head), 10**9), np.arange(long)])
    aisle = np.append(market.catalog.category_of(None), -1)[np.minimum(item, len(market.catalog))]
    for number, rows in enumerate(np.array_split(np.random.default_rng(0).permutation(len(basket)), 4)):
        columns = {"order": basket[rows], "sku": item[rows], "aisle": aisle[rows], "place": rows}
        pq.write_table(pa.table(columns), folder / f"{number}.parquet")
    return folder


Summarize = Callable[[Any], dict[str, Any]]


def both(session: Any, name: str, make: Callable[[str], Any], summarize: Summarize) -> dict[str, Any]:
    """The cost and summary of Spark's result; the memory engine's summary must be the same."""
    known: set[int] = set()
    stages_since(session, known)
    found, took = measured(make, "spark")
    stages_since(session, known)
    took["cpu_again"] = measured(make, "spark")[1]["cpu"]
    stages = stages_since(session, known)[:MANY]
    expected, memory = measured(make, "memory")
    if summarize(found) != summarize(expected):
        sys.exit(f"{name}: Spark's answer differs")
    return {**took, "cpu_memory": memory["cpu"], **summarize(found), "stages": stages}


def measured(make: Callable[[str], Any], engine: str) -> tuple[Any, dict[str, float]]:
    began, cpu = time.perf_counter(), cpu_seconds()
    found = make(engine)
    return found, {"wall": round(time.perf_counter() - began, 1), "cpu": round(cpu_seconds() - cpu, 1)}


def label_summary(found: Any) -> dict[str, Any]:
    return {"records": found.records, "pairs": found.pairs, "labels": found.label_counts, "hash": found.hash}


def instacart(session: Any, threads: int, protocol: str) -> Iterator[tuple[str, dict[str, Any]]]:
    from neatrec.io import read_baskets
    from neatrec.labels import make_labels

    baskets = read_baskets(str(data_folder("instacart", [])))
    make = partial(_labels, make_labels, baskets, protocol, threads)
    yield f"instacart, {protocol}", both(session, protocol, make, label_summary)


def simulated(session: Any, threads: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Paper labels of what `benchmarks.out_of_core` counts."""
    from neatrec.io import read_baskets
    from neatrec.labels import make_labels

    baskets = read_baskets("supermarket:baskets=3200000,items=50000")
    baskets = replace(baskets, times=None, attributes={}, users=None, user_ids=None)
    make = partial(_labels, make_labels, baskets, "paper", threads)
    yield "simulated, paper", both(session, "simulated", make, label_summary)


def _labels(make_labels: Any, baskets: Any, protocol: str, threads: int, engine: str) -> Any:
    return make_labels(baskets, protocol=protocol, engine=engine, threads=threads)


def candidates(session: Any, threads: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """The candidate sets of 200 of all Instacart items."""
    from neatrec.cooccurrence import counting_engine
    from neatrec.evaluation.candidates import candidate_set, partners
    from neatrec.io import read_baskets

    baskets = read_baskets(str(data_folder("instacart", [])))
    queries = np.arange(len(baskets.catalog), dtype=np.int32)

    def sets(engine: str) -> Any:
        with counting_engine(engine):
            return candidate_set(partners(baskets, queries), 200)

    def summarize(found: Any) -> dict[str, Any]:
        columns = (found.offsets.astype("<i8"), found.items.astype("<i4"), found.counts.astype("<i8"))
        return {"pairs": len(found.items), "hash": hashlib.sha256(b"".join(c.tobytes() for c in columns)).hexdigest()}

    yield "instacart, candidate sets", both(session, "candidate sets", sets, summarize)


def skew(session: Any, threads: int, baskets: int, long: int) -> dict[str, Any]:
    from neatrec.io import SourceOptions, read_baskets
    from neatrec.io.spark_lines import read_spark_lines
    from neatrec.labels import make_labels

    options = SourceOptions(basket="order", item="sku", category=("aisle",))
    known: set[int] = set()
    stages_since(session, known)
    with tempfile.TemporaryDirectory(prefix="neatrec-bench-") as name:
        folder = lines_with_a_long_basket(baskets, long, Path(name))
        began, cpu = time.perf_counter(), cpu_seconds()
        found = make_labels(read_spark_lines(str(folder), options, threads=threads), threads=threads)
        took = {"wall": round(time.perf_counter() - began, 1), "cpu": round(cpu_seconds() - cpu, 1)}
        expected = make_labels(read_baskets(str(folder), options), engine="memory", threads=threads)
    if found.hash != expected.hash:
        sys.exit("skew: Spark's labels differ")
    stages = stages_since(session, known)[:MANY]
    about = {"baskets": baskets, "long": long, "records": found.records, "pairs": found.pairs}
    return {"skew": {**about, **took, "labels": found.label_counts, "stages": stages}}


def window(session: Any, threads: int, baskets: int, long: int = MILLION) -> dict[str, Any]:
    """Pairs at most five places apart, a basket of a million lines and a head item among them."""
    from neatrec.cooccurrence import CountOptions, count
    from neatrec.io import SourceOptions, read_baskets

    with tempfile.TemporaryDirectory(prefix="neatrec-bench-") as name:
        folder = lines_with_a_long_basket(baskets, long, Path(name))
        lines = read_baskets(str(folder), SourceOptions(basket="order", item="sku", position="place"))

    def counted(engine: str) -> Any:
        return count(lines, CountOptions(window=5), engine=engine, threads=threads)

    def summarize(found: Any) -> dict[str, Any]:
        columns = (found.query.astype("<i4"), found.item.astype("<i4"), found.count.astype("<i8"))
        order = np.lexsort(columns[:2])
        hashed = hashlib.sha256(b"".join(column[order].tobytes() for column in columns)).hexdigest()
        return {"pairs": len(found.query), "records": int(found.count.sum()), "hash": hashed}

    about = {"baskets": baskets, "long": long, "lines": lines.lines}
    return {"window": {**about, **both(session, "window", counted, summarize)}}


def refused(session: Any, threads: int, long: int = MILLION) -> dict[str, Any]:
    """A basket of a million lines among a thousand others: what is said, and how soon."""
    from neatrec.errors import ResourceError
    from neatrec.io import SourceOptions
    from neatrec.io.spark_lines import read_spark_lines

    options = SourceOptions(basket="order", item="sku", category=("aisle",))
    known: set[int] = set()
    stages_since(session, known)
    with tempfile.TemporaryDirectory(prefix="neatrec-bench-") as name:
        folder = lines_with_a_long_basket(1000, long, Path(name))
        began, cpu = time.perf_counter(), cpu_seconds()
        try:
            read_spark_lines(str(folder), options, threads=threads)
        except ResourceError as error:
            said = str(error)
        else:
            sys.exit("a basket of a million lines was counted")
    took = {"wall": round(time.perf_counter() - began, 1), "cpu": round(cpu_seconds() - cpu, 1), "said": said}
    return {"refused": {"baskets": 1000, "long": long, **took, "stages": stages_since(session, known)[:MANY]}}


def main(parts: list[str], baskets: int, long: int, threads: int, memory: str | None) -> None:
    from neatrec.cooccurrence.spark import session as spark
    from neatrec.text import parse_size

    plain = spark._settings
    spark._settings = lambda *how: {**plain(*how), "spark.python.daemon.module": "benchmarks._spark_daemon"}
    session = spark.connect(f"local[{threads}]", threads=threads, memory=parse_size(memory) if memory else None)
    options = f"{' '.join(parts)} --baskets {baskets} --long {long} --threads {threads}"
    options += f" --memory {memory}" if memory else ""
    file = f"spark_counting_{parts[0]}" if len(parts) == 1 else None
    runs: dict[str, Any] = {}
    if "skew" in parts:
        runs |= skew(session, threads, baskets, long)
    if "window" in parts:
        runs |= window(session, threads, baskets)
    if "refused" in parts:
        runs |= refused(session, threads)
    orders = {protocol: partial(instacart, protocol=protocol) for protocol in ("paper", "calibrated")}
    for part, answers in {**orders, "candidates": candidates, "simulated": simulated}.items():
        for name, run in answers(session, threads) if part in parts else ():
            runs[name] = run
            print(name, run, flush=True)
            save("spark_counting", {"runs": runs}, ("pyspark", "pyarrow"), options=options, file=file)
    rows = [["run", "wall", "tasks", "longest", "median"]]
    for name, run in runs.items():
        for stage in run["stages"]:
            rows.append([name, str(run["wall"]), *(str(stage[key]) for key in ("tasks", "longest", "median"))])
    print(table(rows))
    save("spark_counting", {"runs": runs}, ("pyspark", "pyarrow"), options=options, file=file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "parts", nargs="*", default=["skew", "window", "refused", "paper", "calibrated", "candidates", "simulated"]
    )
    parser.add_argument("--baskets", type=int, default=20_000)
    parser.add_argument("--long", type=int, default=1500)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory", help="of the Java process; default: as the command line has it")
    with tempfile.TemporaryDirectory(prefix="neatrec-tasks-") as folder:
        os.environ[FOLDER] = folder
        main(**vars(parser.parse_args()))
