"""Files at https:// and s3:// addresses: only when asked for, whole or refused."""

import http.server
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from neatrec.errors import SourceError
from neatrec.io import read_baskets

ORDERS = b"order_id,sku\n1,tea\n1,milk\n2,tea\n"
OBJECTS = {"orders/a.csv": ORDERS, "orders/b.csv": b"order_id,sku\n3,salt\n", "orders/about.txt": b"?"}
OBJECTS |= dict.fromkeys(("orders/_temporary/c.csv", "orders/orders.rejects.csv"), b"order_id,sku\n4,half\n")


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


class FakeWeb(http.server.BaseHTTPRequestHandler):
    """A shop's files, and just enough of S3 to list and read them."""

    def do_GET(self) -> None:
        place = urlsplit(self.path)
        if place.path == "/orders.csv":
            self.answer(200, ORDERS)
        elif place.path == "/cut.csv":
            self.answer(200, ORDERS, length=1000)
        elif place.path == "/chunks.csv":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"40\r\norder_id")
        elif place.path == "/moved.csv":
            self.answer(302, b"", Location="http://127.0.0.1/orders.csv")
        elif "list-type" in place.query:
            self.answer(200, listing(parse_qs(place.query).get("prefix", [""])[0]))
        elif (key := place.path.removeprefix("/bucket/")) in OBJECTS:
            self.answer(200, OBJECTS[key])
        else:
            self.answer(404, b"")

    do_HEAD = do_GET

    def answer(self, code: int, body: bytes, length: int | None = None, **headers: str) -> None:
        first, _, last = self.headers.get("Range", "").removeprefix("bytes=").partition("-")
        if first:  # S3 is read by ranges
            whole, body, code = len(body), body[int(first) : int(last) + 1], 206
            headers["Content-Range"] = f"bytes {first}-{int(first) + len(body) - 1}/{whole}"
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length or len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


def listing(prefix: str) -> bytes:
    keys = "".join(
        f"<Contents><Key>{key}</Key><Size>{len(body)}</Size></Contents>"
        for key, body in OBJECTS.items()
        if key.startswith(prefix)
    )
    return f"<ListBucketResult><IsTruncated>false</IsTruncated>{keys}</ListBucketResult>".encode()


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), FakeWeb)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An https:// server whose certificate this process trusts."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the program openssl, which makes a certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    new = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    more = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run([*new.split(), *more], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with serving(context) as port:
        yield f"https://127.0.0.1:{port}"


def test_a_file_is_downloaded_only_when_asked_for(web: str) -> None:
    with pytest.raises(SourceError, match=r"orders\.csv is not on this machine, .* Say --allow-remote"):
        read_baskets(f"{web}/orders.csv")
    found = read_baskets(f"{web}/orders.csv?signature=secret", allow_remote=True)
    assert (found.lines, found.source) == (3, f"{web}/orders.csv")


@pytest.mark.parametrize(
    ("path", "match"),
    [
        ("gone.csv", r"cannot download https://.*/gone\.csv: 404 Not Found$"),
        ("cut.csv", r"cannot download https://.*/cut\.csv: the connection was lost after 32 of 1,000 bytes$"),
        ("chunks.csv", r"/chunks\.csv: the answer broke off or is no HTTP$"),
        ("my orders.csv", r"/my orders\.csv: it is no address\. A space is written %20\.$"),
        ("moved.csv", "it leads to an address that is not https://"),
    ],
)
def test_what_cannot_be_downloaded_whole_is_refused(web: str, path: str, match: str) -> None:
    with pytest.raises(SourceError, match=match) as caught:
        read_baskets(f"{web}/{path}?signature=secret", allow_remote=True)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["https", "s3"])
def test_a_host_that_does_not_answer_is_one_sentence_in_time(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts and says nothing; the timeout is shortened here, and is for all addresses of a host together."""
    for module in ("addresses", "downloads"):
        monkeypatch.setattr(f"neatrec.io.{module}.ANSWER_SECONDS", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        address = {
            "https": f"https://{place}/o.csv",
            "s3": f"s3://bucket/o.csv?endpoint_override={place}&scheme=http&region=eu-central-1",
        }[scheme]
        started = time.monotonic()
        with pytest.raises(SourceError, match=r"cannot download (https|s3)://.*(no answer within 2 sec|Timeout was)"):
            read_baskets(address, allow_remote=True)
        assert time.monotonic() - started < 8


def test_a_server_without_a_trusted_certificate_is_refused(web: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(SourceError, match=r"cannot download .*certificate verify failed"):
        read_baskets(f"{web}/orders.csv", allow_remote=True)


@pytest.mark.parametrize(("path", "lines"), [("orders/a.csv", 3), ("orders", 4), ("orders/b*", 1)])
def test_an_object_a_folder_and_a_pattern_of_s3(path: str, lines: int) -> None:
    with serving() as port:
        place = f"?endpoint_override=127.0.0.1:{port}&scheme=http&region=eu-central-1"
        found = read_baskets(f"s3://bucket/{path}{place}", allow_remote=True)
        assert (found.lines, found.source) == (lines, f"s3://bucket/{path}")
        with pytest.raises(SourceError, match=r"cannot download s3://bucket/gone: "):
            read_baskets(f"s3://bucket/gone{place}", allow_remote=True)


def test_the_endpoint_of_s3_may_stand_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        assert read_baskets("s3://bucket/orders/a.csv?region=eu-central-1", allow_remote=True).lines == 3
