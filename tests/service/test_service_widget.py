"""The widget on the page of a mock shop whose content-security policy allows nothing inline and nothing foreign."""

from collections.abc import Callable, Iterator
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.testclient import TestClient

from helpers.browser import chromium
from helpers.service_bundle import INJECTIONS, id_of
from neatrec.release.export import ExportOptions, export_answers
from neatrec.service.app import make_app
from neatrec.service.settings import ServiceSettings
from neatrec.serving import ServingTable, recommend

POLICY = "default-src 'none'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'"
API = "/v1/complements?item={id}&k=3"
STATIC = "/goes-with/{shard}.json"
SHOP_JS = """
addEventListener("neatrec:add", (event) => {
  const line = document.createElement("li");
  line.textContent = `${event.detail.name} (${event.detail.id}, beside ${event.detail.beside})`;
  document.querySelector("#cart").append(line);
});
"""


async def product(request: Request) -> HTMLResponse:
    """A product page: its query names the widget's attributes."""
    data = "".join(f' data-{name}="{escape(value)}"' for name, value in request.query_params.items())
    return HTMLResponse(
        f"""<!doctype html><html lang="en"><head><title>Shop</title><script src="/widget.js" defer></script>
<script src="/shop.js" defer></script></head><body><main><h1>Product</h1><div id="beside"{data}></div>
<h2>Cart</h2><ul id="cart"><li>empty</li></ul><form id="buy" action="/buy"><input type="hidden" name="sku"></form>
</main></body></html>""",
        headers={"content-security-policy": POLICY},
    )


async def buy(request: Request) -> HTMLResponse:
    return HTMLResponse(f"<!doctype html><title>Cart</title><p>bought {escape(request.query_params['sku'])}")


async def shop_js(_: Request) -> Response:
    return Response(SHOP_JS, media_type="text/javascript")


@pytest.fixture(scope="module")
def url(bundle: Path, running: Callable[[Any], str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The shop: its own pages, the static export, and the service behind the same name."""
    folder = tmp_path_factory.mktemp("site") / "goes-with"
    export_answers(ServingTable.open(bundle), ExportOptions("json", folder))
    routes = [
        Route("/product", product),
        Route("/buy", buy),
        Route("/shop.js", shop_js),
        Mount("/goes-with", StaticFiles(directory=folder)),
        Mount("/", make_app(ServiceSettings(bundle))),
    ]
    return running(Starlette(routes=routes))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    """A page; in the end it asked for nothing from elsewhere, and the policy and the console had nothing to say."""
    context = browser.new_context(base_url=url)
    context.set_default_timeout(30_000)
    made = context.new_page()
    asked: list[str] = []
    said: list[str] = []
    made.on("request", lambda request: asked.append(request.url))
    made.on("console", lambda message: said.append(message.text))
    made.on("pageerror", lambda error: said.append(str(error)))
    yield made
    assert all(address.startswith(url) for address in asked)
    assert not [text for text in said if "404" not in text]
    assert made.evaluate("window.hit") is None
    context.close()


def visit(page: Page, item: str, source: str, **data: str) -> None:
    page.goto("/product?" + urlencode({"neatrec": item, "source": source, **data}))


@pytest.mark.parametrize("source", [API, STATIC], ids=["api", "static"])
def test_it_shows_what_goes_with_a_product_and_adds_it_by_keyboard(page: Page, bundle: Path, source: str) -> None:
    chips = id_of("Tortilla Chips")
    visit(page, chips, source, link="/product?neatrec={id}", title="Goes well with")
    expect(page.get_by_role("region", name="Goes well with").get_by_role("heading")).to_have_text("Goes well with")
    wanted = recommend(ServingTable.open(bundle), [chips], 3).answers
    names = [line.answer.name for line in wanted]
    assert "Salsa" in names
    expect(page.locator(".neatrec-name")).to_have_text(names)
    expect(page.get_by_role("link", name="Salsa")).to_have_attribute("href", f"/product?neatrec={id_of('Salsa')}")
    page.keyboard.press("Tab")
    expect(page.locator(".neatrec-name").first).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name=f"Add to cart: {names[0]}")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#cart li").last).to_have_text(f"{names[0]} ({wanted[0].answer.id}, beside {chips})")
    expect(page.get_by_role("status")).to_have_text(f"{names[0]}: added")
    assert not Axe().run(page).response["violations"]


def test_a_form_of_the_shop_is_submitted(page: Page) -> None:
    visit(page, id_of("Tortilla Chips"), API, form="#buy", field="sku", add="Buy")
    page.get_by_role("button", name="Buy: Salsa").click()
    expect(page.get_by_text(f"bought {id_of('Salsa')}")).to_be_visible()


def test_a_late_answer_of_the_product_before_is_not_shown(page: Page, bundle: Path) -> None:
    chips, salsa = id_of("Tortilla Chips"), id_of("Salsa")
    visit(page, chips, API)
    expect(page.get_by_role("region")).to_be_visible()
    page.evaluate(
        """async ([before, now]) => {
          const place = document.querySelector("#beside"), real = window.fetch;
          let go;
          const held = new Promise((done) => { go = done; });
          window.fetch = (...words) => { window.fetch = real; return held.then(() => real(...words)); };
          place.dataset.neatrec = before;
          const late = neatrecLoad(place);
          place.dataset.neatrec = now;
          await neatrecLoad(place);
          go();
          await late;
        }""",
        [chips, salsa],
    )
    wanted = [line.answer.name for line in recommend(ServingTable.open(bundle), [salsa], 3).answers]
    assert page.locator(".neatrec-name").all_inner_texts() == wanted


@pytest.mark.parametrize("source", [API, STATIC], ids=["api", "static"])
def test_names_and_ids_stay_text(page: Page, source: str) -> None:
    visit(page, "../../etc/passwd", source, link="/item?id={id}", k="9")
    expect(page.get_by_role("region")).to_be_visible()
    names = page.locator(".neatrec-name").all_inner_texts()
    assert names
    assert set(names) <= set(INJECTIONS)


@pytest.mark.parametrize("source", [API, STATIC, "/shop.js?{id}"], ids=["api", "static", "no JSON"])
def test_without_an_answer_nothing_is_shown(browser: Browser, url: str, source: str) -> None:
    with browser.new_context(base_url=url) as context:
        page = context.new_page()
        visit(page, "no such item", source)
        expect(page.locator("#beside")).to_have_attribute("hidden", "")
        expect(page.locator("#beside")).to_be_empty()
        expect(page.get_by_role("heading", name="Cart")).to_be_visible()


def test_the_service_gives_the_widget_of_the_package(client: TestClient) -> None:
    answer = client.get("/widget.js")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/javascript")
    text = (files("neatrec.serving") / "widget.js").read_bytes()
    assert answer.content == text
    assert len(text) <= 4096
