"""`neatrec serve` as a process: it starts, drains, shares work among workers, and keeps its key to itself."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from neatrec.cli.main import exit_code_of

KEY = "a-key-that-nobody-must-see"


@contextmanager
def serving(
    *arguments: object, key: str | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server, and the address that it says once it can be asked."""
    environment = {**os.environ, **({"NEATREC_API_KEY": key} if key else {})}
    words = [sys.executable, "-m", "neatrec", "serve", *map(str, arguments), "--port", "0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            line = ""
            while " on http://" not in line:
                line = process.stderr.readline()
                assert line, "the service did not start"
                assert not key or key not in line
            yield process, line.split(" on ")[1].split()[0].replace("0.0.0.0", "127.0.0.1")
        finally:
            process.terminate()
            process.wait(60)


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def wait_until(true: Callable[[], bool]) -> None:
    for _ in range(1200):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError("waited in vain")


def test_sigterm_lets_requests_in_progress_finish(bundle: Path) -> None:
    """A request whose body is still on its way when SIGTERM arrives is answered; a new connection is not."""
    with serving(bundle) as (process, url):
        host, port = url.removeprefix("http://").split(":")
        body = b'{"items": ["101"], "k": 3}'
        head = (
            f"POST /v1/cart/complements HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(body)}\r\n"
        )
        head = f"{head}expect: 100-continue\r\n\r\n".encode()
        with socket.create_connection((host, int(port))) as line:
            line.sendall(head)
            # the server asks for the body only when the request is in the hands of the application
            assert line.recv(100).startswith(b"HTTP/1.1 100")
            line.sendall(body[:5])
            process.send_signal(signal.SIGTERM)
            wait_until(lambda: not is_ready(url))
            line.sendall(body[5:])
            answer = b""
            while part := line.recv(65536):
                answer += part
        assert answer.startswith(b"HTTP/1.1 200")
        assert b'"complements"' in answer
        assert process.wait(60) == 143


@pytest.mark.long
def test_a_worker_that_finds_no_good_bundle_ends_the_service_with_a_sentence(
    bundle: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(bundle, tmp_path / "bundle"))
    with serving(copy, "--workers", 2) as (process, _):
        (copy / "table" / "pairs.arrow").write_bytes(b"")
        os.kill(children_of(process)[-1], signal.SIGKILL)
        said = process.stderr.read()
        assert process.wait(60) == 1
        assert "a worker cannot start: " in said
        assert "pairs.arrow is damaged" in said
        assert "Traceback" not in said


def test_mistakes_are_said_before_it_starts(bundle: Path, tmp_path: Path, capsys) -> None:
    for words, said in (
        ([bundle, "--host", "0.0.0.0"], "loopback address unless there is an API key"),
        ([tmp_path / "nothing"], "there is no file or folder"),
        ([bundle, "--item", "sku"], "options describe columns"),
        ([bundle, "--rules", tmp_path / "rules.csv"], "cannot read"),
    ):
        assert exit_code_of(["serve", *map(str, words)]) == 2
        assert said in capsys.readouterr().err


def test_orders_are_trained_on_and_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items = [("chips", "salsa", f"item {order % 37}") for order in range(300)]
    lines = [f"{order},{item}\n" for order, names in enumerate(items) for item in names]
    (tmp_path / "orders.csv").write_text("order_id,product\n" + "".join(lines))
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    out = tmp_path / "bundle"
    words = [tmp_path / "orders.csv", "--basket", "order_id", "--item", "product", "--out", out]
    with serving(*words, "--open") as (_, url):
        assert httpx.get(f"{url}/v1/complements?item=chips").status_code == 200
        wait_until(lambda: opened.exists() and opened.read_text().strip() == url)
    written = (out / "manifest.json").stat().st_mtime_ns
    with serving(*words) as (_, url):
        assert httpx.get(f"{url}/v1/model").status_code == 200
    assert (out / "manifest.json").stat().st_mtime_ns == written


def test_the_container_can_be_reached_and_needs_a_key_that_is_never_shown(
    bundle: Path, capsys
) -> None:
    """The command of the Containerfile, with another place for the bundle and any free port."""
    lines = (Path(__file__).parents[2] / "Containerfile").read_text().split("\n")
    command = json.loads(next(line for line in lines if line.startswith("CMD")).removeprefix("CMD"))
    assert command[:2] == ["serve", "/bundle"]
    assert exit_code_of(["serve", str(bundle), *command[2:]]) == 2
    assert "loopback address unless there is an API key" in capsys.readouterr().err
    with serving(bundle, *command[2:], "--verbose", key=KEY) as (process, url):
        assert httpx.get(f"{url}/v1/model", timeout=60).status_code == 401
        asked = httpx.get(f"{url}/v1/model", headers={"X-API-Key": KEY}, timeout=60)
        assert asked.status_code == 200
        listed = Path(f"/proc/{process.pid}/cmdline").read_text()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        log = process.stderr.read()
    assert "serve" in listed
    assert "stopped by the user" in log
    assert KEY not in listed + log


def test_a_port_that_is_taken_is_said(bundle: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = [sys.executable, "-m", "neatrec", "serve", str(bundle), "--port", str(port)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=500)
    assert done.returncode == 2
    assert f"port {port} of 127.0.0.1 cannot be used" in done.stderr


def children_of(process: subprocess.Popen[str]) -> list[int]:
    """The workers of a service."""
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in listed if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]


def test_a_dead_worker_is_replaced_and_a_stopped_one_does_not_hold_up_the_end(bundle: Path) -> None:
    """Until then both share the work and the metrics."""
    with serving(bundle, "--workers", 2) as (process, url):
        with ThreadPoolExecutor(4) as pool:
            asked = [f"{url}/v1/complements?item=100"] * 160
            answers = list(pool.map(lambda path: httpx.get(path, timeout=60), asked))
        assert {answer.status_code for answer in answers} == {200}
        text = httpx.get(f"{url}/metrics", timeout=60).text
        assert re.search(r'route="/v1/complements",status="200".* 160\.0\n', text)
        for _ in range(5):
            killed = children_of(process)[0]
            os.kill(killed, signal.SIGKILL)
            began = time.monotonic()
            wait_until(lambda killed=killed: len({*children_of(process)} - {killed}) == 2)
            assert time.monotonic() - began < 10
            assert httpx.get(f"{url}/v1/complements?item=100", timeout=60).status_code == 200
        stopped = children_of(process)[0]
        os.kill(stopped, signal.SIGSTOP)
        began = time.monotonic()
        process.terminate()
        assert process.wait(60) == 143
        assert time.monotonic() - began < 10
        assert not Path(f"/proc/{stopped}").exists()


CONNECTIONS, AT_ONCE = 150, 2000


@pytest.fixture(scope="module")
def keyed(bundle: Path) -> Iterator[str]:
    """The address of a service with a key."""
    with serving(bundle, key=KEY) as (_, url):
        yield url


@pytest.mark.parametrize("path", ["/v1/model", "/healthz"])
def test_requests_without_a_key_that_nobody_reads_hold_up_no_other(keyed: str, path: str) -> None:
    """Many connections send thousands of requests each, and never read an answer."""
    host, port = keyed.removeprefix("http://").split(":")
    request = f"GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n".encode()
    lines = []
    for _ in range(CONNECTIONS):
        line = socket.create_connection((host, int(port)), timeout=60)
        line.setblocking(False)
        with suppress(BlockingIOError, ConnectionError):
            line.send(request * AT_ONCE)
        lines.append(line)
    for _ in range(20):
        assert httpx.get(f"{keyed}/healthz", timeout=5).status_code == 200
        asked = httpx.get(f"{keyed}/v1/model", headers={"x-api-key": KEY}, timeout=5)
        assert asked.status_code == 200
    for line in lines:
        line.close()


def test_a_refusal_before_the_key_was_seen_closes_its_connection(keyed: str) -> None:
    host, port = keyed.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as line:
        line.sendall(f"GET /v1/model HTTP/1.1\r\nhost: {host}\r\n\r\n".encode() * 2)
        answer = b""
        while part := line.recv(65536):
            answer += part
    assert answer.count(b"HTTP/1.1 401") == 1
