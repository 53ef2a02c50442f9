"""The plain command, with Spark's settings as a user gets them: it counts, and it ends when Java ends."""

import json
import subprocess
import sys

import pytest

from neatrec.cooccurrence.spark import session
from neatrec.errors import MissingDependencyError

COMMANDS = """
import sys, threading, time
from neatrec.cli.main import exit_code_of
from neatrec.cooccurrence.spark import engine

def labels(baskets, *words):
    source = f"supermarket:baskets={baskets},items=200"
    return exit_code_of(["labels", source, "--protocol", "paper", "--json", *words])

codes = [labels(2000), labels(2000, "--engine", "spark")]

from pyspark import SparkContext

def exhaust(context):
    tracker = context.statusTracker()
    while not tracker.getActiveJobsIds():
        time.sleep(0.1)
    try:
        context._gateway.new_array(context._jvm.long, 2**31 - 3)
    except Exception as error:
        print(type(error).__name__, file=sys.stderr)

def wait_for_the_end(*arguments):
    time.sleep(120)

engine.count_band = wait_for_the_end  # so that Java ends within a job, on the slowest machine too
thread = threading.Thread(target=exhaust, args=(SparkContext._active_spark_context,))
thread.start()
codes.append(labels(1000, "--engine", "spark"))
thread.join()
print(codes)
"""


def test_the_plain_command_counts_and_ends_with_a_sentence_when_java_runs_out_of_memory() -> None:
    try:
        session._pyspark()
        session._check_java()
    except MissingDependencyError as error:
        pytest.skip(str(error))
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS], capture_output=True, text=True, timeout=540, check=False
    )
    assert done.stdout.endswith("\n[0, 0, 1]\n"), done.stderr
    memory, spark, failed = (
        json.loads("{" + text) for text in ("\n" + done.stdout[:-11]).split("\n{")[1:]
    )
    assert spark == memory
    assert failed["error"]["message"].startswith("the Java process of Spark has ended")
    assert "name a cluster with --spark-master" in done.stderr
    assert "Traceback" not in done.stderr
