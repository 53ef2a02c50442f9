"""The Spark session, active or new, and its errors in one sentence each."""

from __future__ import annotations

import importlib
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from neatrec.errors import MissingDependencyError, NeatrecError, ResourceError, must_be
from neatrec.memory import available_memory
from neatrec.text import printable

JAVA = 17
"""The oldest Java that runs all supported versions of Spark."""
JAVA_END = 60.0
"""Seconds that Java may take to end after a lost connection, on a busy machine."""
MASTER_TIMEOUT = 5.0
"""Seconds to wait for a master to answer."""
ONE_DAY = 24 * 3600
"""Seconds that the processes of a local Spark wait for each other: a slow answer means a busy
machine, never a lost one."""
HEAP_SHARE = 0.25
"""Share of the available memory for Java: Python workers need the rest. Spark's default: 1 GiB."""
LEAST_HEAP = 1 << 30
GET_JAVA = f"Install it (Debian, Ubuntu: apt install openjdk-{JAVA}-jre-headless) or set JAVA_HOME."
FAILURES = (
    (
        r"ModuleNotFoundError: No module named '(\w+)'",
        MissingDependencyError,
        "the Python of the Spark workers has no {0}",
        "Install neatrec there too, or name a Python that has it with PYSPARK_PYTHON.",
    ),
    (
        "No space left on device",
        ResourceError,
        "a Spark worker has no disk left for its spill",
        "Set SPARK_LOCAL_DIRS to a larger disk.",
    ),
    (
        "Python worker exited unexpectedly|ExecutorLostFailure|Executor heartbeat timed out",
        ResourceError,
        "a Spark worker was lost on the way, as often as Spark tries again; nothing was written",
        "See its log; mostly memory: raise spark.executor.memoryOverhead or use more partitions.",
    ),
    (
        "OutOfMemoryError|OUT_OF_MEMORY",
        ResourceError,
        "Spark ran out of memory: {line}",
        "Give executors more (spark.executor.memory).",
    ),
)
"""What Spark's message holds, and our error for it."""

log = logging.getLogger(__name__)


def connect(master: str | None = None, *, threads: int | None = None) -> Any:
    """The active session of this process, else a new one at `master`.

    `master` is a Spark URL; default: SPARK_MASTER, else this machine. `threads` are for this
    machine only. Spark keeps one session per process and ends it with the process.
    """
    sql = _pyspark()
    active = sql.SparkSession.getActiveSession()
    if active is not None:
        return active
    master = master or os.environ.get("SPARK_MASTER") or f"local[{threads or '*'}]"
    _check_java()
    _check_master(master)
    logging.getLogger().addFilter(lambda record: not _is_of_spark(record.pathname))
    sys.unraisablehook = _report_unraisable
    builder = sql.SparkSession.builder.appName("neatrec").master(master)
    for key, value in _settings(master, threads).items():
        builder = builder.config(key, value)
    with translated_errors():
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    # its thread would print a traceback when Java ends; `translated_errors` reports that
    session.sparkContext._accumulatorServer.handle_error = lambda *_: None
    if master.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        # otherwise workers on this machine would run the `python3` of the path
        session.sparkContext.pythonExec = sys.executable
    log.info("counting on Spark %s at %s", session.version, printable(master))
    return session


def _is_of_spark(file: str) -> bool:
    """Whether a file is PySpark's: of lost connections it prints tracebacks, we one sentence."""
    return not {"py4j", "pyspark"}.isdisjoint(Path(file).parts)


def _report_unraisable(error: Any) -> None:
    """Print an error of a cleanup as Python does, unless it is PySpark's."""
    frames = traceback.extract_tb(error.exc_traceback)
    if not any(_is_of_spark(frame.filename) for frame in frames):
        sys.__unraisablehook__(error)


def _pyspark() -> Any:
    try:
        return importlib.import_module("pyspark.sql")
    except ImportError as error:
        raise MissingDependencyError(
            "the spark engine needs PySpark",
            hint="pip install 'neatrec[spark]', or pip install 'pyspark>=3.5,<5' pandas",
        ) from error


def _check_java() -> None:
    """Refuse a missing or old Java, with which Spark ends in a page of stack."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    needed = f"the spark engine needs Java {JAVA} or later"
    if java is None or not os.access(java, os.X_OK):
        where = "there is no java"
        if home:
            where = f"JAVA_HOME is {printable(home)}, and there is no bin/java in it"
        raise MissingDependencyError(f"{needed}: {where}", hint=GET_JAVA)
    answer = subprocess.run(
        [java, "-version"], capture_output=True, text=True, check=False, timeout=60
    )
    number = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if number is None:
        raise MissingDependencyError(
            f"{printable(java)} does not report its Java version", hint=GET_JAVA
        )
    if int(number[1]) < JAVA:
        raise MissingDependencyError(
            f"{needed}, {printable(java)} is Java {number[1]}", hint=GET_JAVA
        )


def _check_master(master: str) -> None:
    """Refuse a standalone master that does not answer: Spark itself would try for a minute."""
    if not re.match(r"local(\[|$)|spark://|yarn|k8s://|mesos://", master):
        wanted = "a Spark URL such as local[4], spark://host:7077, yarn or k8s://https://host"
        raise must_be("spark_master", wanted, master)
    if not master.startswith("spark://"):
        return
    failures = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=MASTER_TIMEOUT).close()
            return
        except (OSError, ValueError) as error:
            failures.append(f"{printable(address)} ({printable(error)})")
    raise ResourceError(
        f"no Spark master answers at {', '.join(failures)}",
        hint="Check --spark-master or SPARK_MASTER, and that the master runs.",
    )


def _settings(master: str, threads: int | None) -> dict[str, str]:
    settings = {"spark.python.daemon.module": "neatrec.cooccurrence.spark.daemon"}
    if master.startswith("local"):
        heap = max(HEAP_SHARE * available_memory(), LEAST_HEAP)
        settings |= {
            "spark.driver.memory": f"{int(heap) >> 20}m",
            # a Spark that lost one of its threads would wait for ever
            "spark.driver.defaultJavaOptions": "-XX:+ExitOnOutOfMemoryError "
            "-XX:+DisplayVMOutputToStderr",
            "spark.driver.maxResultSize": "0",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.network.timeout": f"{ONE_DAY}s",
            "spark.python.authenticate.socketTimeout": f"{ONE_DAY}s",
        }
    return settings


def first_line(error: BaseException) -> str:
    """The message of Spark without its stack."""
    text = str(getattr(error, "java_exception", None) or error)
    lines = [line for line in text.splitlines() if line.strip()]
    return printable(lines[0] if lines else type(error).__name__, 300).rstrip(".")


@contextmanager
def translated_errors() -> Iterator[None]:
    """Raise Spark's errors as ours."""
    try:
        yield
    except NeatrecError:
        raise
    except Exception as error:
        if "Java gateway process exited" in str(error) or _java_has_ended(error):
            raise NeatrecError(
                "the Java process of Spark has ended, most likely because it ran out of memory; "
                "nothing was written",
                hint="Free memory on this machine, or name a cluster with --spark-master.",
            ) from error
        if (ours := as_our_error(error)) is error:
            raise
        raise ours from error


def _java_has_ended(error: Exception) -> bool:
    """Whether Java has ended; after a lost connection it may take some seconds to end."""
    from pyspark import SparkContext

    java = getattr(SparkContext._gateway, "proc", None)
    if java is None:
        return False
    # a lost connection has many faces, some of them errors of PySpark's own cleanup
    from_java = type(error).__name__ == "Py4JJavaError"
    try:
        java.wait(0 if from_java else JAVA_END)
    except subprocess.TimeoutExpired:
        return False
    return True


def as_our_error(error: Exception) -> Exception:
    """A failure of Spark as one of our errors with a next step; other errors as they are."""
    if type(error).__module__.split(".")[0] not in ("py4j", "pyspark"):
        return error
    text = str(error)
    for pattern, kind, message, hint in FAILURES:
        if found := re.search(pattern, text):
            said = message.format(*found.groups(), line=first_line(error))
            return kind(said, hint=hint)
    return ResourceError(f"Spark failed: {first_line(error)}", hint="See its log.")
