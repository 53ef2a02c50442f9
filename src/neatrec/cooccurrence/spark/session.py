"""The Spark session, found or made, and its errors in one sentence each."""

from __future__ import annotations

import importlib
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from neatrec.errors import MissingDependencyError, NeatrecError, ResourceError, must_be
from neatrec.memory import available_memory
from neatrec.text import printable

JAVA = 17
"""The oldest Java that runs every Spark we take."""
JAVA_END = 10.0
"""Seconds that Java may take to end after its connections."""
MASTER_TIMEOUT = 5.0
"""Seconds to wait for a master to answer."""
ONE_DAY = 24 * 3600
"""Seconds that the parts of a Spark on this machine wait for each other: where all are in one process tree a slow
answer means a busy machine, never a lost one."""
HEAP_SHARE = 0.25
"""Of the available memory, for Java here: Python workers need the rest. Spark's own default is 1 GiB."""
LEAST_HEAP = 1 << 30
GET_JAVA = f"Install it (Debian, Ubuntu: apt install openjdk-{JAVA}-jre-headless) or set JAVA_HOME."

log = logging.getLogger(__name__)


def connect(master: str | None = None, *, threads: int | None = None) -> Any:
    """The session of this process: the one that is active, else a new one at `master`.

    `master` is a Spark URL; default: the environment's SPARK_MASTER, else this machine. `threads` are for this
    machine only. Spark keeps one session per process and ends it with the process.
    """
    sql = _pyspark()
    active = sql.SparkSession.getActiveSession()
    if active is not None:
        return active
    master = master or os.environ.get("SPARK_MASTER") or f"local[{threads or '*'}]"
    _check_java()
    _check_master(master)
    builder = sql.SparkSession.builder.appName("neatrec").master(master)
    for key, value in _settings(master, threads).items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        if type(error).__module__.split(".")[0] not in ("py4j", "pyspark"):
            raise
        raise ResourceError(
            f"cannot start Spark at {printable(master)}: {first_line(error)}",
            hint="Check the master's address and its log.",
        ) from error
    session.sparkContext.setLogLevel("ERROR")
    # its thread would print a traceback when Java ends; we report that ourselves
    session.sparkContext._accumulatorServer.handle_error = lambda *_: None
    if master.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        # workers on this machine would otherwise run whatever `python3` is
        session.sparkContext.pythonExec = sys.executable
    log.info("counting on Spark %s at %s", session.version, printable(master))
    return session


def _pyspark() -> Any:
    try:
        return importlib.import_module("pyspark.sql")
    except ImportError as error:
        raise MissingDependencyError(
            "the spark engine needs PySpark",
            hint="pip install 'neatrec[spark]', or pip install 'pyspark>=3.5,<5' pandas",
        ) from error


def _check_java() -> None:
    """Spark without Java, or with an old one, would end in a page of stack."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not os.access(java, os.X_OK):
        where = (
            f"JAVA_HOME is {printable(home)}, and there is no bin/java in it"
            if home
            else "there is no java"
        )
        raise MissingDependencyError(
            f"the spark engine needs Java {JAVA} or later: {where}", hint=GET_JAVA
        )
    said = subprocess.run(
        [java, "-version"], capture_output=True, text=True, check=False, timeout=60
    )
    found = re.search(r'version "(\d+)(?:\.(\d+))?', said.stderr + said.stdout)
    if found is None:
        raise MissingDependencyError(
            f"{printable(java)} does not report its Java version", hint=GET_JAVA
        )
    version = int(found[2] or 0) if found[1] == "1" else int(found[1])
    if version < JAVA:
        raise MissingDependencyError(
            f"the spark engine needs Java {JAVA} or later, {printable(java)} is Java {version}",
            hint=GET_JAVA,
        )


def _check_master(master: str) -> None:
    """Ask a standalone master whether it is there: Spark itself would try for a minute."""
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
    settings = {
        "spark.python.daemon.module": "neatrec.cooccurrence.spark.daemon",
    }
    if master.startswith("local"):
        heap = max(HEAP_SHARE * available_memory(), LEAST_HEAP)
        settings |= {
            "spark.driver.memory": f"{int(heap) >> 20}m",
            # without one of its threads Spark would wait for ever
            "spark.driver.defaultJavaOptions": "-XX:+ExitOnOutOfMemoryError -XX:+DisplayVMOutputToStderr",
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
    """What Spark said, without its stack."""
    text = str(getattr(error, "java_exception", None) or error)
    said = [line for line in text.splitlines() if line.strip()]
    return printable(said[0] if said else type(error).__name__, 300)


@contextmanager
def translated_errors() -> Iterator[None]:
    """Raise Spark's errors as ours."""
    try:
        yield
    except Exception as error:
        if _java_has_ended(error):
            raise NeatrecError(
                "the Java process of Spark has ended, mostly because its memory was too small; nothing was written",
                hint="Free memory on this machine, or name a cluster with --spark-master.",
            ) from error
        if (ours := as_our_error(error)) is error:
            raise
        raise ours from error


def _java_has_ended(error: Exception) -> bool:
    """Whether Java is gone; after a lost connection it is given some seconds to go."""
    from pyspark import SparkContext

    java = getattr(SparkContext._gateway, "proc", None)
    if java is None:
        return False
    # an error in PySpark's own cleanup hides the lost connection behind another one
    lost = isinstance(error, OSError | EOFError) or isinstance(error.__context__, OSError)
    lost |= type(error).__module__.startswith("py4j") and type(error).__name__ != "Py4JJavaError"
    try:
        java.wait(JAVA_END if lost else 0)
    except subprocess.TimeoutExpired:
        return False
    return True


def as_our_error(error: Exception) -> Exception:
    """A failure of Spark as one of ours: which thing, what to do; an unknown one as it is."""
    if type(error).__module__.split(".")[0] not in ("py4j", "pyspark"):
        return error
    text = str(error)
    if found := re.search(r"ModuleNotFoundError: No module named '(\w+)'", text):
        return MissingDependencyError(
            f"the Python of the Spark workers has no {found[1]}",
            hint="Install neatrec there too, or name a Python that has it with PYSPARK_PYTHON.",
        )
    if "No space left on device" in text:
        return ResourceError(
            "a Spark worker has no disk left for its spill",
            hint="Set SPARK_LOCAL_DIRS to a larger disk.",
        )
    if re.search(
        r"Python worker exited unexpectedly|ExecutorLostFailure|Executor heartbeat timed out", text
    ):
        return ResourceError(
            "a Spark worker was lost on the way, as often as Spark tries again; nothing was written",
            hint="See its log; mostly memory: raise spark.executor.memoryOverhead or use more partitions.",
        )
    if "OutOfMemoryError" in text or "OUT_OF_MEMORY" in text:
        return ResourceError(
            f"Spark ran out of memory: {first_line(error)}",
            hint="Give executors more (spark.executor.memory).",
        )
    return ResourceError(f"Spark failed: {first_line(error)}", hint="See its log.")
