"""The page as it leaves the server: every state, escaped, nothing inline, nothing from outside."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
from starlette.testclient import TestClient

from helpers.dated_shop import dated_shop
from helpers.service_bundle import AWKWARD, INJECTIONS, id_of, shop_catalog, write_bundle
from neatrec.data.catalog import Catalog
from neatrec.models import make_model
from neatrec.service.app import make_app
from neatrec.service.drawings import line_width
from neatrec.service.settings import ServiceSettings
from neatrec.serving import FOOTER, ServingTable, save_indexed
from neatrec.serving.build import rewrite_index

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
    "/compare?id=100",
    "/pair?a=100&b=200",
    "/pair?a=100&b=900",
    "/cart",
    "/cart?item=100&item=101",
    "/cart?item=100&q=tea",
    "/cart?item=gone",
    "/pairs",
    "/pairs?category=snacks&with_category=sauces",
    "/network?id=100",
    "/network?id=900",
    "/categories",
    "/quality",
    "/docs",
    "/nowhere",
]
STATED = ("/", "/categories", "/quality")
"""Pages that say how large the shop is."""


class Tags(HTMLParser):
    """Every tag with its attributes, and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def both(bundle: Path, gaussian_bundle: Path) -> TestClient:
    return TestClient(make_app(ServiceSettings(gaussian_bundle, compare=(bundle,))))


@pytest.mark.parametrize("path", PAGES)
def test_every_state_is_a_whole_page_with_nothing_inline_and_nothing_from_outside(both: TestClient, path: str) -> None:
    answer = both.get(path, headers=HTML)
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
        ("/?q=qqqqqqq", 200, "Nothing is called that"),
        ("/item?id=spagheti", 404, "Did you mean"),
        ("/item?id=901&min_evidence=certain", 200, "An empty list beats a wrong one"),
        ("/item?id=900", 200, "in no training basket"),
        ("/cart?item=gone", 200, "was left out"),
        ("/nowhere", 404, "nothing at this address"),
        ("/item", 422, "This did not work"),
        ("/network?id=900", 200, "there is no network around it"),
        ("/quality", 200, "None is attached"),
    ],
)
def test_empty_and_wrong_states_help(both: TestClient, path: str, status: int, words: str) -> None:
    answer = both.get(path, headers=HTML)
    assert answer.status_code == status
    assert words in answer.text


@pytest.mark.parametrize("name", INJECTIONS)
def test_a_name_that_looks_like_script_is_shown_as_text(both: TestClient, name: str) -> None:
    item = id_of(name)
    for path in (
        f"/item?id={item}",
        f"/pair?a={item}&b=100",
        f"/cart?item={item}",
        f"/network?id={item}",
        f"/pairs?{urlencode({'q': name})}",
    ):
        page = Tags(both.get(path, headers=HTML).text)
        assert name in "".join(page.text)
        assert not [tag for tag, _ in page.tags if tag in ("img", "iframe", "body onload", "math", "style")]
        assert sum(tag == "script" for tag, _ in page.tags) <= 2


def test_what_is_typed_is_shown_as_text(both: TestClient) -> None:
    text = both.get("/", params={"q": "<script>alert(1)</script>\"'"}, headers=HTML).text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


@pytest.mark.parametrize("item", AWKWARD)
def test_links_lead_to_awkward_ids(both: TestClient, item: str) -> None:
    page = Tags(both.get("/", params={"q": item}, headers=HTML).text)
    links = [
        attributes["href"] for tag, attributes in page.tags if tag == "a" and "/item?" in (attributes["href"] or "")
    ]
    assert both.get(links[0], headers=HTML).status_code == 200
    assert f"id {item}" in "".join(Tags(both.get(links[0], headers=HTML).text).text)


def test_an_attached_report_stands_on_the_page_and_the_public_sees_no_count_sales_or_table_of_it(tmp_path) -> None:
    bundle = write_bundle(tmp_path / "bundle")
    line = {"name": "shrunk-lift", "kind": "statistic", "mean": {"hr@10": 0.5}, "low": {"hr@10": 0.4}}
    models = [{**line, "high": {"hr@10": 0.6}}, {"name": "pop", "kind": "paper", "mean": {}, "low": {}, "high": {}}]
    board = {"level": "0.05", "candidates": "top200", "labels": 1234, "queries": 98765, "models": models}
    tables = [{"name": "audit", "caption": "What the audit found <b>", "columns": ["a"], "rows": [["31337 <i>"]]}]
    rewrite_index(bundle, attachment={"format": 1, "source": "x", "leaderboard": board, "tables": tables})
    text = TestClient(make_app(ServiceSettings(bundle))).get("/quality", headers=HTML).text
    for words in ("0.500 (0.400 to 0.600)", "1,234 true pairs of 98,765 items", "What the audit found &lt;b&gt;"):
        assert words in text
    items = len(shop_catalog())
    open_pages, public_pages = (shown(ServiceSettings(bundle, public=public)) for public in (False, True))
    for secret in ("1,234", "98,765", "31337", "audit found", "sales", f" {items} items", f" {items - 1} items"):
        assert not [path for path in STATED if secret in public_pages[path]], secret
    secrets = {"/": ("of sales", f"{items} items"), "/quality": ("1,234", "98,765", "31337", "sales")}
    for path, said in secrets.items():
        assert all(secret in open_pages[path] for secret in said)
    assert "0.500" in public_pages["/quality"]
    assert "tables of the attached report are not shown" in public_pages["/quality"]
    assert not [pages for pages in (open_pages, public_pages) if "None is attached" in pages["/quality"]]


def shown(settings: ServiceSettings) -> dict[str, str]:
    """The text of the pages that say how large the shop is, without the footer's."""
    asking = TestClient(make_app(settings))
    texts = {path: " ".join(Tags(asking.get(path, headers=HTML).text).text) for path in STATED}
    return {path: text.replace(FOOTER, "") for path, text in texts.items()}


@pytest.mark.parametrize(
    "path", ["/", "/item?id=100", "/pair?a=101&b=201", "/cart?item=100&item=101", "/quality", "/compare?id=100"]
)
def test_no_line_ends_between_a_number_and_its_per_cent_sign(both: TestClient, path: str) -> None:
    text = " ".join(Tags(both.get(path, headers=HTML).text).text)
    assert not re.findall(r"\d\s*[ \n]%", text)
    assert ("\N{NO-BREAK SPACE}%" in text) == (path not in ("/compare?id=100", "/cart?item=100&item=101"))


def test_a_pair_that_nobody_suggests_is_not_said_to_be_suggested(both: TestClient) -> None:
    ids = {"a": id_of("Tortilla Chips"), "b": id_of("Spaghetti")}
    words = both.get("/v1/pair", params=ids).json()["evidence"]["words"]
    assert "suggested" not in words
    page = both.get("/pair", params=ids, headers=HTML).text
    assert "suggested because" not in page


def test_the_details_of_a_pair_are_for_people(both: TestClient) -> None:
    page = both.get("/pair?a=101&b=201", headers=HTML).text
    assert "Coincidences among pairs with evidence this strong" in page
    assert "fewer than 1 in 1,000<" in page
    assert "Seasons and stores could not be ruled out" in page
    assert not re.search(r"\de-\d", " ".join(Tags(page).text))


def test_the_heat_map_counts_pairs_of_categories(both: TestClient) -> None:
    page = both.get("/categories").text
    cells = re.findall(r'href="(/pairs\?category=[^"]*)" aria-label="([^"]*): (\d+) pairs?"', page)
    assert cells
    for path, _, pairs in cells:
        found = both.get("/v1" + path.replace("&amp;", "&")).json()
        assert found["total"] == int(pairs)


def test_a_shop_whose_items_have_no_known_category_has_no_heat_map(tmp_path: Path) -> None:
    shop = dated_shop()
    unknown = np.full((len(shop.catalog), 1), -1, dtype=np.int32)
    baskets = replace(shop, catalog=Catalog(shop.catalog.ids, None, ("aisle",), unknown, ((),)))
    save_indexed(make_model("shrunk-lift").fit(baskets), tmp_path / "bundle", baskets, seed=0)
    answer = TestClient(make_app(ServiceSettings(tmp_path / "bundle"))).get("/categories", headers=HTML)
    assert answer.status_code == 200
    assert "The items have no categories" in answer.text


def test_a_line_of_the_network_has_a_width_whatever_the_evidence(bundle: Path) -> None:
    evidence = ServingTable.open(bundle).evidence(0, 1)
    for low, width in ((float("nan"), 1.0), (0.0, 1.0), (4.0, 4.0), (float("inf"), 9.0)):
        assert line_width(replace(evidence, lift_low=low), public=False) == width


def test_the_first_page_shows_pairs_categories_and_what_has_no_answer(both: TestClient) -> None:
    page = both.get("/").text
    assert page.count("<li>\n<span><a") == min(20, both.get("/v1/pairs").json()["total"])
    assert "Without an answer" in page
    assert "Browse a category" in page
    assert "Since the version before" not in page


def test_a_model_with_variances_shows_them_among_peers(both: TestClient) -> None:
    text = both.get("/item?id=100", headers=HTML).text
    assert "How varied its complements are" in text
    assert "How often it is bought" in text


def test_static_files_are_ours_alone() -> None:
    folder = Path(__file__).parents[2] / "src" / "neatrec" / "service" / "static"
    for file in folder.iterdir():
        assert not re.search(r"https?://(?!www\.w3\.org)", file.read_text()), file


def test_the_api_reference_shows_every_request_with_its_parameters(both: TestClient) -> None:
    text, document = both.get("/docs", headers=HTML).text, both.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert f"{method.upper()} {path}" in text
            section = text.split(f"{method.upper()} {path}</code></h2>")[1].split("</section>")[0]
            assert operation["description"].partition("`")[0] in section
            for parameter in operation.get("parameters", ()):
                assert f"<code>{parameter['name']}</code></th><td>{parameter['in']}</td>" in section
    cart = text.split("POST /v1/cart/complements</code></h2>")[1].split("</section>")[0]
    assert "<code>items</code></th><td>body</td><td>list of text</td><td>required</td>" in cart
