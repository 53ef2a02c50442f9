"""A PostgreSQL of the tests' own, in a temporary folder: started once per session, gone
afterwards."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

USER, PASSWORD = "shopkeeper", "correct horse"
CHEAP = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum=off", "jit=off")
SMALL = ("shared_buffers=16MB", "max_connections=20", "listen_addresses=127.0.0.1")


@dataclass(frozen=True)
class PostgresServer:
    """A running server, whose password is in no address: set PGPASSWORD."""

    folder: Path
    port: int

    def address(self, database: str = "postgres", user: str = USER) -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def execute(self, *statements: str, database: str = "postgres") -> None:
        """Run statements that return nothing, by the socket, where no password is asked for."""
        from adbc_driver_postgresql import dbapi

        place = f"postgresql:///{database}?host={self.folder}&port={self.port}&user={USER}"
        with dbapi.connect(place, autocommit=True) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


def programs() -> Path | None:
    """The folder of `initdb` and `postgres`; Debian keeps one per version."""
    found = [Path(path).resolve().parent for path in [shutil.which("initdb")] if path]
    found += sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name)
    )[::-1]
    return next((folder for folder in found if (folder / "postgres").exists()), None)


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """A new server; `programs` must have found one. It refuses to run as root, so there it runs as
    `postgres`."""
    binaries = programs()
    assert binaries is not None
    as_user: dict[str, Any] = {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="neatrec-postgres-"))
    if as_user:
        shutil.chown(folder, **as_user)
    (folder / "password").write_text(PASSWORD)
    (folder / "password").chmod(0o644)
    how = [
        f"--username={USER}",
        f"--pwfile={folder}/password",
        "--auth-host=scram-sha-256",
        "--auth-local=trust",
    ]
    quick = ["--no-sync", "--encoding=UTF8", "--no-locale", f"--pgdata={folder}/data"]
    subprocess.run(
        [binaries / "initdb", *how, *quick], cwd=folder, check=True, capture_output=True, **as_user
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = [word for setting in (*CHEAP, *SMALL) for word in ("-c", setting)]
    command = [
        binaries / "postgres",
        "-D",
        folder / "data",
        "-k",
        folder,
        "-p",
        str(port),
        *settings,
    ]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, **as_user)
    try:
        ready = [binaries / "pg_isready", "--quiet", f"--host={folder}", f"--port={port}"]
        for _ in range(600):
            if server.poll() is not None:
                raise RuntimeError((folder / "log").read_text())
            if subprocess.run(ready).returncode == 0:
                break
            time.sleep(0.05)
        yield PostgresServer(folder, port)
    finally:
        server.send_signal(signal.SIGQUIT)  # at once: its files go anyway
        server.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)
