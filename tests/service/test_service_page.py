"""The page as it leaves the server: every state, escaped, nothing inline, nothing from outside."""

import re
from pathlib import Path
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

from helpers.page_tags import Tags
from helpers.service_bundle import INJECTIONS, id_of
from neatrec.errors import ParameterError
from neatrec.service.app import make_app
from neatrec.service.settings import AddressTemplate, ServiceSettings

HTML = {"accept": "text/html"}
PAGES = [
    "/",
    "/?q=tortila",
    "/?q=qqqqqqq",
    "/item?id=100",
    "/item?id=100&min_evidence=guess&diversify=1&category=sauces",
    "/item?id=900",
    "/item?id=901",
    "/item?id=spagheti",
    "/pair?a=100&b=200",
    "/pair?a=100&b=900",
    "/cart",
    "/cart?item=100&item=101",
    "/cart?item=100&q=tea",
    "/cart?item=gone",
    "/pairs",
    "/pairs?category=snacks&with_category=sauces",
    "/quality",
    "/nowhere",
]
"""Pages that say how large the shop is."""


@pytest.fixture(scope="module")
def pages(gaussian_bundle: Path) -> TestClient:
    return TestClient(make_app(ServiceSettings(gaussian_bundle)))


@pytest.mark.parametrize("path", PAGES)
def test_every_state_is_a_whole_page_with_nothing_inline_and_nothing_from_outside(
    pages: TestClient, path: str
) -> None:
    answer = pages.get(path, headers=HTML)
    page = Tags(answer.text)
    assert answer.headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert sum(tag == "h1" for tag, _ in page.tags) == 1
    assert sum(tag == "title" for tag, _ in page.tags) == 1
    for tag, attributes in page.tags:
        assert tag not in ("style", "iframe", "object", "embed", "base")
        assert tag != "script" or (attributes.get("src") or "").startswith("/static/")
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name != "style"
            if name in ("href", "src", "action"):
                assert re.match(r"/(?!/)|#", value or ""), (tag, name, value)


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/?q=qqqqqqq", 200, "No item has this name"),
        ("/item?id=spagheti", 404, "Did you mean"),
        ("/item?id=qqqqqqqq", 404, "Try its name"),
        ("/cart?item=101&item=201", 200, "No other item has enough evidence"),
        ("/item?id=901&min_evidence=certain", 200, "An empty list is better than a wrong one"),
        ("/item?id=900", 200, "in no training basket"),
        ("/cart?item=gone", 200, "was left out"),
        ("/nowhere", 404, "nothing at this address"),
        ("/item", 422, "This did not work"),
    ],
)
def test_empty_and_wrong_states_help(pages: TestClient, path: str, status: int, words: str) -> None:
    answer = pages.get(path, headers=HTML)
    assert answer.status_code == status
    assert words in answer.text
    assert "GET /" not in answer.text


@pytest.mark.parametrize("name", INJECTIONS)
def test_a_name_that_looks_like_script_is_shown_as_text(pages: TestClient, name: str) -> None:
    item = id_of(name)
    for path in (
        f"/item?id={item}",
        f"/pair?a={item}&b=100",
        f"/cart?item={item}",
        f"/pairs?{urlencode({'q': name})}",
    ):
        page = Tags(pages.get(path, headers=HTML).text)
        assert name in "".join(page.text)
        assert not [
            tag for tag, _ in page.tags if tag in ("img", "iframe", "body onload", "math", "style")
        ]
        assert sum(tag == "script" for tag, _ in page.tags) <= 2


CDN, SHOP = "https://cdn.example:8443/p/{id}.png?size=2", "http://shop.example/item/{id}"


@pytest.fixture(scope="module")
def pictured(bundle: Path) -> TestClient:
    image = AddressTemplate.parse("--image-url", CDN)
    link = AddressTemplate.parse("--link-url", SHOP)
    return TestClient(make_app(ServiceSettings(bundle, image_url=image, link_url=link)))


BAD = [
    *("cdn.example/{id}.jpg", "//cdn.example/{id}.jpg", "https:///{id}.jpg", ""),
    *("javascript:alert({id})", "data:image/png,{id}", "file:///{id}.jpg"),
    *("https://{id}.cdn.example/x", "https://*.example/{id}", "https://user@cdn.example/{id}"),
    *("https://cdn.example; script-src *;/{id}", "https://cdn.example/{id} {id}"),
    *("https://cdn.example/{id}\n", "https://cdn.example/{name}.jpg", "https://cdn.example"),
]


@pytest.mark.parametrize("text", BAD)
def test_a_bad_template_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match=r"--image-url.* must be an address that begins with"):
        AddressTemplate.parse("--image-url", text)


@pytest.mark.parametrize("path", ["/", "/pairs", "/item?id=101", "/pair?a=101&b=201"])
def test_pages_show_pictures_and_the_policy_allows_only_their_host(
    pictured: TestClient, client: TestClient, path: str
) -> None:
    answer, salsa = pictured.get(path), id_of("Salsa")
    assert f'src="https://cdn.example:8443/p/{salsa}.png?size=2" alt="Salsa"' in answer.text
    pictures = re.findall(r"<img [^>]*>", answer.text)
    assert all('loading="lazy"' in each and 'width="' in each for each in pictures)
    if path.startswith(("/item", "/pair?")):
        assert f'href="http://shop.example/item/{salsa}" rel="noopener"' in answer.text
    policy = answer.headers["content-security-policy"]
    assert "img-src 'self' https://cdn.example:8443;" in policy
    assert policy.count("example") == 1
    plain = client.get(path)
    assert "<img" not in plain.text
    assert "img-src 'self';" in plain.headers["content-security-policy"]
