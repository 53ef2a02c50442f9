"""Pictures of the products and links to them, by a template of addresses."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, Route
from starlette.testclient import TestClient

from helpers.browser import chromium
from helpers.service_bundle import AWKWARD, id_of
from neatrec.cli.main import exit_code_of
from neatrec.errors import ParameterError
from neatrec.service.app import make_app
from neatrec.service.settings import AddressTemplate, ServiceSettings

CDN, SHOP = "https://cdn.example:8443/p/{id}.png?size=2", "http://shop.example/item/{id}"
PIXEL = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"
    b"\x00\x00\x00\nIDATx\x9cc\x00\x01\x00\x00\x05\x00\x01\r\n-\xb4\x00\x00\x00\x00IEND\xaeB`\x82"
)


def settings(bundle: Path) -> ServiceSettings:
    image, link = (
        AddressTemplate.parse("--image-url", CDN),
        AddressTemplate.parse("--link-url", SHOP),
    )
    return ServiceSettings(bundle, image_url=image, link_url=link)


@pytest.fixture(scope="module")
def app(bundle: Path) -> Any:
    return make_app(settings(bundle))


BAD = [
    "cdn.example/{id}.jpg",
    "//cdn.example/{id}.jpg",
    "javascript:alert({id})",
    "data:image/png,{id}",
    "file:///{id}.jpg",
    "https:///{id}.jpg",
    "https://{id}.cdn.example/x.jpg",
    "https://cdn.{id}/x.jpg",
    "https://*.example/{id}",
    "https://user@cdn.example/{id}",
    "https://cdn.example; script-src *;/{id}",
    "https://cdn.example/{id} {id}",
    "https://cdn.example/{id}\n",
    "https://cdn.example/{name}.jpg",
    "https://cdn.example/{{id}}.jpg",
    "https://cdn.example/x.jpg",
    "https://cdn.example",
    "",
]


@pytest.mark.parametrize("text", BAD)
def test_a_bad_template_is_refused(text: str) -> None:
    with pytest.raises(
        ParameterError,
        match=r"--image-url.* must be an address that begins with https:// or http://",
    ):
        AddressTemplate.parse("--image-url", text)


@pytest.mark.parametrize("option", ["--image-url", "--link-url"])
def test_the_command_refuses_a_bad_template_with_exit_code_2(
    bundle: Path, option: str, capsys
) -> None:
    assert exit_code_of(["serve", str(bundle), option, "ftp://cdn.example/{id}"]) == 2
    assert option in capsys.readouterr().err


@pytest.mark.parametrize("item", [*AWKWARD, "a b", "#", "{id}", '"><script>', "ä€😀"])
def test_an_id_stays_in_its_place(item: str) -> None:
    made = AddressTemplate.parse("--image-url", CDN).of(item)
    assert made == f"https://cdn.example:8443/p/{quote(item, safe='')}.png?size=2"
    assert re.fullmatch(r"[!-~]+", made)
    assert not set(
        made.removeprefix("https://cdn.example:8443/p/").removesuffix(".png?size=2")
    ) & set('/?#&"<> ')


@pytest.mark.parametrize("path", ["/", "/pairs", "/item?id=101", "/pair?a=101&b=201"])
def test_pages_show_them_and_the_policy_allows_only_this_host(app: Any, path: str) -> None:
    answer = TestClient(app).get(path)
    pictures = re.findall(r"<img [^>]*>", answer.text)
    assert (
        f'src="https://cdn.example:8443/p/{id_of("Salsa")}.png?size=2" alt="Salsa"' in answer.text
    )
    assert all('loading="lazy"' in each and 'width="' in each for each in pictures)
    if path.startswith(("/item", "/pair?")):
        assert f'href="http://shop.example/item/{id_of("Salsa")}" rel="noopener"' in answer.text
    policy = answer.headers["content-security-policy"]
    assert "img-src 'self' https://cdn.example:8443;" in policy
    assert policy.count("example") == 1


def test_without_templates_there_are_none(client: TestClient) -> None:
    answer = client.get("/item?id=101")
    assert "<img" not in answer.text
    assert "In the shop" not in answer.text
    assert "img-src 'self';" in answer.headers["content-security-policy"]


def test_a_browser_loads_them_from_this_host_alone(app: Any, running: Callable[[Any], str]) -> None:
    url = running(app)
    asked = []

    def answer(route: Route) -> None:
        asked.append(route.request)
        route.fulfill(body=PIXEL, content_type="image/png")

    with chromium() as browser:
        page: Page = browser.new_page()
        page.route(lambda address: not address.startswith(url), answer)
        page.goto(f"{url}/item?id=101")
        page.wait_for_function(
            "[...document.images].slice(0, 3).every((each) => each.naturalWidth === 1)"
        )
        with page.expect_console_message(
            lambda message: "elsewhere.example" in message.text
        ) as refused:
            page.evaluate("new Image().src = 'https://elsewhere.example/1.png'")
        reason = refused.value.text
        referrers = [request.headers.get("referer") for request in asked]
    assert {request.url.split("/")[2] for request in asked} == {"cdn.example:8443"}
    assert not any(referrers)
    assert "Content Security Policy" in reason
