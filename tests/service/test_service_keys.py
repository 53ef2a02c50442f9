"""Who may ask."""

import base64
import logging
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from neatrec.errors import ParameterError
from neatrec.service.app import make_app
from neatrec.service.keys import Keys, read_keys
from neatrec.service.metrics import Metrics
from neatrec.service.run import require_api_key
from neatrec.service.settings import ServiceSettings
from neatrec.service.watcher import BundleWatcher

OLD, NEW = "an-old-key-of-the-shop", "a-new-key-of-the-shop"
PATH = "/v1/complements?item=100"


@pytest.fixture
def locked(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setenv("NEATREC_API_KEY", f"{NEW},{OLD}")
    return TestClient(make_app(ServiceSettings(bundle)))


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"anyone:{password}".encode()).decode()


def test_both_keys_pass_by_bearer_header_and_browser_password(locked: TestClient) -> None:
    for key in (OLD, NEW):
        assert locked.get(PATH, headers={"Authorization": f"Bearer {key}"}).status_code == 200
        assert locked.get(PATH, headers={"X-API-Key": key}).status_code == 200
        assert locked.get("/", headers={"Authorization": basic(key)}).status_code == 200


WRONG = [
    {},
    {"Authorization": "Bearer wrong"},
    {"Authorization": "Basic %%%"},
    {"Authorization": basic("wrong")},
    {"Authorization": f"Digest {NEW}"},
    {"X-API-Key": OLD[:-1]},
    {"X-API-Key": ""},
    {"Authorization": "Bearer \xff\xfe"},
]


@pytest.mark.parametrize("headers", WRONG, ids=range(len(WRONG)))
@pytest.mark.parametrize(
    "path", [PATH, "/", "/metrics", "/openapi.json", "/static/style.css", "/x"]
)
def test_everything_but_probes_needs_a_key(
    locked: TestClient, path: str, headers: dict[str, str]
) -> None:
    raw = {name: value.encode("latin-1") for name, value in headers.items()}
    answer = locked.get(path, headers=raw)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Basic")
    assert answer.headers["connection"] == "close"
    assert answer.json()["error"]["kind"] == "NoKey"


def test_keys_of_a_file_change_while_serving(bundle: Path, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{OLD}\n")
    watcher = BundleWatcher(ServiceSettings(bundle, key_file=file), Metrics())
    asking = TestClient(make_app(watcher.settings, watcher))

    def statuses() -> list[int]:
        return [asking.get(PATH, headers={"X-API-Key": key}).status_code for key in (OLD, NEW)]

    assert statuses() == [200, 401]
    for text in (f"{NEW}\n", "short\n"):  # a bad file leaves the keys as they are
        file.write_text(text)
        watcher.check()
        assert statuses() == [401, 200]
    counted = asking.get("/metrics", headers={"X-API-Key": NEW}).text
    assert 'neatrec_bad_files_total{file="keys"} 1.0' in counted


def test_a_key_is_never_said(
    bundle: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{OLD}\n{NEW}\nthird-key-third-key\n")
    with pytest.raises(ParameterError, match="at most 2 keys, got 3") as found:
        read_keys(file)
    assert OLD not in str(found.value)
    file.write_text("secret")
    with pytest.raises(ParameterError, match="keys of at least 16 characters") as found:
        read_keys(file)
    assert "secret" not in str(found.value)
    assert OLD not in repr(Keys((OLD.encode(),)))
    caplog.set_level(logging.DEBUG)
    file.write_text(OLD)
    asking = TestClient(make_app(ServiceSettings(bundle, key_file=file)))
    asking.get(PATH, headers={"Authorization": f"Bearer {OLD}"})
    asking.get(PATH, headers={"Authorization": "Bearer a-wrong-key-of-the-shop"})
    assert OLD not in caplog.text
    assert "a-wrong-key" not in caplog.text


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "shop.example"])
def test_the_outside_needs_a_key_and_loopback_none(
    bundle: Path, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for inside in ("127.0.0.1", "::1", "localhost", "127.8.8.8"):
        require_api_key(inside, ServiceSettings(bundle))
    with pytest.raises(ParameterError, match="loopback address unless there is an API key"):
        require_api_key(host, ServiceSettings(bundle))
    monkeypatch.setenv("NEATREC_API_KEY", NEW)
    require_api_key(host, ServiceSettings(bundle))


def test_a_page_elsewhere_can_read_a_refusal(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEATREC_API_KEY", NEW)
    settings = ServiceSettings(bundle, cors=("https://shop.example",))
    asking = TestClient(make_app(settings))
    full = TestClient(make_app(replace(settings, in_flight=0)))
    headers = {"Origin": "https://shop.example"}
    keyed = {**headers, "X-API-Key": NEW}
    refused = [
        asking.get(PATH, headers=headers),
        asking.post("/v1/cart/complements", headers=keyed, content=b" " * (1024 * 1024 + 1)),
        full.get(PATH, headers=keyed),
    ]
    assert [answer.status_code for answer in refused] == [401, 413, 503]
    for answer in refused:
        assert answer.headers["access-control-allow-origin"] == "https://shop.example"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    other = asking.get(PATH, headers={**keyed, "Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in other.headers


HOSTS = {
    **dict.fromkeys(["127.0.0.1:8000", "LOCALHOST:1", "[::1]:8000", "box.lan:8000"], 200),
    **dict.fromkeys(["127.0.0.9", "evil.example", "127.0.0.1.evil.example", "[::1", ""], 400),
}


@pytest.mark.parametrize(("host", "status"), HOSTS.items())
def test_without_a_key_only_this_machines_names_are_answered(
    bundle: Path, host: str, status: int
) -> None:
    """A page elsewhere whose name was turned to 127.0.0.1 asks by its own name."""
    asking = TestClient(make_app(ServiceSettings(bundle, host="box.lan")))
    for path in (PATH, "/", "/openapi.json", "/metrics"):
        assert asking.get(path, headers={"host": host}).status_code == status
    assert asking.get("/healthz", headers={"host": host}).status_code == 200
