"""The page in a real browser: by mouse, by keyboard alone, for everybody, with nothing from outside."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from helpers.browser import chromium
from helpers.service_bundle import INJECTIONS, id_of
from neatrec.service.app import make_app
from neatrec.service.settings import ServiceSettings

STATES = (
    "/",
    "/?q=tea",
    "/?q=qqqqqq",
    "/item?id=101",
    "/item?id=901&min_evidence=certain",
    "/pair?a=101&b=201",
    "/cart",
    "/cart?item=100&item=101",
    "/pairs",
    "/pairs?q=tea&sort=sure",
    "/quality",
    "/item?id=spagheti",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def url(gaussian_bundle: Path, running: Callable[[Any], str]) -> str:
    return running(make_app(ServiceSettings(gaussian_bundle)))


class Watching:
    """A page that remembers what it asked for and what its console said."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.asked: list[str] = []
        self.said: list[str] = []
        page.on("request", lambda request: self.asked.append(request.url))
        page.on(
            "console",
            lambda message: self.said.append(message.text) if message.type == "error" else None,
        )
        page.on("pageerror", lambda error: self.said.append(str(error)))


@pytest.fixture
def watching(browser: Browser, url: str) -> Iterator[Watching]:
    """A page; in the end nothing came from outside and the console is clean."""
    context = browser.new_context(base_url=url, viewport={"width": 1280, "height": 800})
    context.set_default_timeout(30_000)
    found = Watching(context.new_page())
    yield found
    context.close()
    assert all(address.startswith(url) for address in found.asked), found.asked
    assert not [text for text in found.said if "404" not in text], found.said


@pytest.fixture
def page(watching: Watching) -> Page:
    return watching.page


def test_search_suggests_and_a_click_opens_the_item_and_its_evidence(page: Page) -> None:
    page.goto("/")
    page.get_by_label("Search an item").press_sequentially("tortila chp")
    page.get_by_role("option", name="Tortilla Chips").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Tortilla Chips")
    expect(page.locator(".card").first).to_contain_text("Salsa")
    expect(page.locator(".card").first).to_contain_text("as often as by chance")
    expect(page.get_by_text("Association, not proof of extra sales.").first).to_be_visible()
    page.locator(".card").first.get_by_role("link", name="The evidence").click()
    expect(page.get_by_role("heading", name="The numbers")).to_be_visible()


@pytest.mark.parametrize(
    "path",
    [
        "/item?id=101&k=3&exclude=200&exclude=201&month=12&include=explained&min_evidence=guess&category=first+half",
        "/item?id=101&k=4&category=snacks&category=second+half+%2F+sauces&diversify=1",
        "/pairs?k=7&q=tea&sort=sure&with_category=second+half+%2F+sauces",
        "/cart?item=100&item=101&diversify=1",
    ],
)
def test_a_form_sends_what_the_address_asked_for(page: Page, path: str) -> None:
    page.goto(path)
    for closed in page.locator("details:not([open]) summary", has_text="Filters").all():
        closed.click()
    with page.expect_navigation():
        page.get_by_role("button", name="Apply").or_(
            page.get_by_role("button", name="Find")
        ).click()
    sent = parse_qs(urlsplit(page.url).query)
    assert parse_qs(urlsplit(path).query) == sent


def test_everything_can_be_done_by_keyboard_alone(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Search an item")).to_be_focused()
    page.keyboard.type("green tea")
    expect(page.get_by_role("option", name="Green Tea")).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Green Tea")
    press_until(page, "Start a cart with it")
    page.keyboard.press("Enter")
    page.wait_for_url("**/cart?item=*")
    expect(page.locator(".cart-list")).to_contain_text("Green Tea")
    press_until(page, "Add to cart: Butter Biscuits")
    page.keyboard.press("Enter")
    expect(page.locator(".cart-list li")).to_have_count(2)
    press_until(page, "Pairs")
    page.keyboard.press("Enter")
    page.wait_for_url("**/pairs")
    expect(page.get_by_role("heading", level=1)).to_have_text("Pairs with evidence")


def press_until(page: Page, name: str) -> None:
    """Press Tab until what has the focus is called `name` (or begins so)."""
    called = (
        "document.activeElement.getAttribute('aria-label') || document.activeElement.textContent"
    )
    for _ in range(120):
        page.keyboard.press("Tab")
        if page.evaluate(called).strip().startswith(name):
            return
    raise AssertionError(f"no Tab leads to {name}")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark"), (360, "light")])
def test_everybody_can_read_every_page_at_every_width(
    browser: Browser, url: str, width: int, scheme: str
) -> None:
    view = {"width": width, "height": 800}
    page = browser.new_page(base_url=url, color_scheme=scheme, viewport=view)
    for path in (*STATES, f"/item?id={id_of(INJECTIONS[10])}"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert page.evaluate("document.querySelector('header').offsetHeight") <= 100, path
        results = Axe().run(page).response["violations"] if width != 360 else []
        serious = [each["id"] for each in results if each["impact"] in ("serious", "critical")]
        assert not serious, (path, results)
    page.goto("/cart?item=100&item=101")
    link = page.get_by_role("link", name="Remove Spaghetti")
    assert link.evaluate("each => each.getClientRects().length") == 1
    page.context.close()
