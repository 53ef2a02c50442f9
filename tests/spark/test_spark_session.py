"""What keeps Spark from starting is reported in a sentence that names it and the next step. No session is made here.

A missing PySpark: tests/cli/test_cli_failures.py."""

import socket
from pathlib import Path

import pytest

from neatrec.cooccurrence.spark import session
from neatrec.errors import MissingDependencyError, ParameterError, ResourceError


def java(folder: Path, said: str) -> Path:
    (folder / "bin").mkdir()
    file = folder / "bin" / "java"
    file.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    file.chmod(0o755)
    return folder


class NoSession:
    """PySpark without an active session, which cannot start one."""

    class SparkSession:
        @staticmethod
        def getActiveSession() -> None:
            return None


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_pyspark", lambda: NoSession)
    for name in ("JAVA_HOME", "SPARK_MASTER"):
        monkeypatch.delenv(name, raising=False)


def test_without_java_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    wanted = r"Java 17 or later: there is no java\. Install it \(Debian, Ubuntu: apt install openjdk-17-jre-headless"
    with pytest.raises(MissingDependencyError, match=wanted):
        session.connect()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(
        MissingDependencyError, match=r"JAVA_HOME is .*, and there is no bin/java in it"
    ):
        session.connect()


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            'openjdk version "11.0.2" 2019-01-15',
            r"needs Java 17 or later, .*java is Java 11\. Install it",
        ),
        ('java version "1.8.0_292"', r"needs Java 17 or later, .*java is Java 8\. Install it"),
        ("hello", "does not report its Java version"),
    ],
)
def test_an_old_java_and_what_is_none_are_named(
    monkeypatch, tmp_path: Path, said: str, sentence: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, said)))
    with pytest.raises(MissingDependencyError, match=sentence):
        session.connect()


def test_a_master_that_does_not_answer_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(
        "JAVA_HOME", str(java(tmp_path, 'openjdk version "21" 2023-09-19'))
    )  # which will do
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can answer there
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        wanted = rf"no Spark master answers at {address} .*Check --spark-master or SPARK"
        with pytest.raises(ResourceError, match=wanted):
            session.connect(f"spark://{address}")
    with pytest.raises(ParameterError, match="`spark_master` must be a Spark URL such as"):
        session.connect("http://host")
    with socket.create_server(("127.0.0.1", 0)) as server:
        session._check_master(f"spark://127.0.0.1:{server.getsockname()[1]}")


class SparkError(Exception):
    """As Spark raises them, by the module's name."""

    __module__ = "pyspark.errors"


@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        ("No module named 'neatrec'", ResourceError, "Spark failed: No module named"),
        ("ModuleNotFoundError: No module named 'x'", MissingDependencyError, "workers has no x"),
        ("IOException: No space left on device", ResourceError, "no disk left for its spill"),
        (
            "Python worker exited unexpectedly (crashed)",
            ResourceError,
            "worker was lost on the way",
        ),
        ("ExecutorLostFailure (executor 3 exited)", ResourceError, "worker was lost on the way"),
        ("java.lang.OutOfMemoryError: heap", ResourceError, "ran out of memory: .* Give executors"),
        ("boom\n at org.apache", ResourceError, "Spark failed: boom. See its log"),
    ],
)
def test_failures_of_spark_become_our_errors(text: str, kind: type, sentence: str) -> None:
    ours = session.as_our_error(SparkError(text))
    assert type(ours) is kind
    with pytest.raises(kind, match=sentence):
        raise ours
    error = ValueError("ours")
    assert session.as_our_error(error) is error


def test_a_master_is_for_spark_alone_and_is_checked_before_anything_is_read(
    capsys, monkeypatch
) -> None:
    from neatrec.cli.main import exit_code_of

    monkeypatch.setattr(session, "_check_java", lambda: None)
    assert exit_code_of(["labels", "no such file", "--spark-master", "local"]) == 2
    assert "must be given with --engine spark, got 'local'" in capsys.readouterr().err
    master = ("--engine", "spark", "--spark-master", "nowhere")
    assert exit_code_of(["labels", "no such file", *master]) == 2
    assert "`spark_master` must be a Spark URL such as local[4]" in capsys.readouterr().err
