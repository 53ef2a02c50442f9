"""The daemon of Spark's Python workers, which also writes down the CPU seconds of each task.

Run times of tasks include the wait for a core: where other processes use the machine, equal tasks differ by a factor.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyspark.worker
from pyspark import TaskContext
from pyspark.daemon import manager

from neatrec.cooccurrence.spark.daemon import load_counter

FOLDER = "NEATREC_BENCH_TASKS"
"""The variable that names the folder: a file for each worker, a line "stage seconds" for each of its tasks."""
run_task, set_context = pyspark.worker.main, TaskContext._setTaskContext
stages: list[int] = []


def noted_context(context: Any) -> None:
    """Spark forgets the context at the end of a task."""
    if context is not None:
        stages.append(context.stageId())
    set_context(context)


def timed_task(infile: Any, outfile: Any) -> None:
    began = time.process_time()
    run_task(infile, outfile)
    with Path(os.environ[FOLDER], str(os.getpid())).open("a") as out:
        out.write(f"{stages[-1]} {time.process_time() - began}\n")


if __name__ == "__main__":
    load_counter()
    pyspark.worker.main, TaskContext._setTaskContext = timed_task, noted_context
    manager()
