"""The plain command, with Spark's settings as a user gets them: it counts, and it ends when Java ends."""

import json
import subprocess
import sys

import pytest

from neatrec.cooccurrence.spark import session
from neatrec.errors import MissingDependencyError

COMMANDS = """
import threading, time
from neatrec.cli.main import exit_code_of
from neatrec.cooccurrence.spark import engine

def labels(*words):
    source = "supermarket:baskets=1000,items=100"
    return exit_code_of(["labels", source, "--protocol", "paper", "--json", *words])

codes = [labels(), labels("--engine", "spark")]

from pyspark import SparkContext

def exhaust(context):
    while not context.statusTracker().getActiveJobsIds():
        time.sleep(0.1)
    try:
        context._gateway.new_array(context._jvm.long, 2**31 - 3)
    except Exception:
        pass  # the connection is lost

def wait(*_):
    time.sleep(500)

engine.count_band = wait  # so that Java ends within a job, on the slowest machine too
threading.Thread(target=exhaust, args=(SparkContext._active_spark_context,)).start()
print([*codes, labels("--engine", "spark")])
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
    answers, _, codes = done.stdout.rstrip().rpartition("\n")
    assert codes == "[0, 0, 1]", done.stderr
    memory, spark, failed = (json.loads("{" + text) for text in ("\n" + answers).split("\n{")[1:])
    assert spark == memory
    assert failed["error"]["message"].startswith("the Java process of Spark has ended")
    assert f"error: {failed['error']['message']}" in done.stderr
    assert "Traceback" not in done.stderr
