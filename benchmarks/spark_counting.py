"""Labels on Spark in local mode beside the memory engine: the same hash, and what Spark costs.

    python -m benchmarks.spark_counting {paper,calibrated,simulated} [--threads 2]

`paper`, `calibrated`: labels of the Instacart orders. `simulated`: paper labels of 3.2 million
simulated baskets. CPU seconds are those of this process, Java and its Python workers after the
session's start; `again` is a second count in the same session.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.harness import argument_parser, commit, data_folder, save, table

SIMULATED = "supermarket:baskets=3200000,items=50000"


def cpu_seconds() -> float:
    """CPU seconds so far of this process and its descendants."""
    family, used = {os.getpid()}, 0.0
    for _ in range(5):  # this process, Java, its daemon, the workers
        family |= {pid for pid, fields in _processes() if int(fields[1]) in family}
    for pid, fields in _processes():
        if pid in family:
            used += sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    return used


def _processes() -> Iterator[tuple[int, list[str]]]:
    """Process ids, and the fields of /proc/PID/stat from the state on."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            yield int(file.parent.name), file.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            continue


def labels_of(
    baskets: Any, protocol: str, engine: str, threads: int
) -> tuple[Any, dict[str, float]]:
    from neatrec.cooccurrence import Engine
    from neatrec.labels import make_labels

    began, cpu = time.perf_counter(), cpu_seconds()
    labels = make_labels(baskets, protocol=protocol, engine=Engine(engine, threads))
    took = {"wall": time.perf_counter() - began, "cpu": cpu_seconds() - cpu}
    return labels, {key: round(value, 1) for key, value in took.items()}


def main(part: str, threads: int) -> None:
    from neatrec.cooccurrence.spark import session as spark
    from neatrec.io import read_baskets

    commit()  # better refused now than when all is measured
    spark.connect(f"local[{threads}]", threads=threads)
    protocol = "paper" if part == "simulated" else part
    if part == "simulated":
        baskets = replace(
            read_baskets(SIMULATED), times=None, attributes={}, users=None, user_ids=None
        )
    else:
        baskets = read_baskets(str(data_folder("instacart", [])))
    labels, first = labels_of(baskets, protocol, "spark", threads)
    _, again = labels_of(baskets, protocol, "spark", threads)
    expected, memory = labels_of(baskets, protocol, "memory", threads)
    if labels.hash != expected.hash:
        sys.exit("Spark's labels differ from those of the memory engine")
    source = "simulated" if part == "simulated" else "instacart"
    run = {**first, "cpu_again": again["cpu"], "cpu_memory": memory["cpu"]}
    run |= {
        "records": labels.records,
        "pairs": labels.pairs,
        "labels": labels.label_counts,
        "hash": labels.hash,
    }
    head = ["", "wall", "CPU", "again", "memory engine"]
    print(table([head, [part, *(str(value) for value in list(run.values())[:4])]]))
    results = {"runs": {f"{source}, {protocol}": run}}
    name, options = f"spark_counting_{part}", f"{part} --threads {threads}"
    save("spark_counting", results, ("pyspark", "pyarrow"), options=options, file=name)


if __name__ == "__main__":
    parser = argument_parser(__doc__)
    parser.add_argument("part", choices=["paper", "calibrated", "simulated"])
    parser.add_argument("--threads", type=int, default=2)
    main(**vars(parser.parse_args()))
