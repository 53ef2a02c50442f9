"""The report in a real browser: three screens, nothing from outside, readable by everybody."""

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from helpers.browser import chromium


@pytest.fixture(scope="module")
def address(small_report) -> str:
    return (small_report / "index.html").as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_everybody_can_read_it_at_every_width(
    browser: Browser, address: str, width: int, scheme: str
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    screens = page.evaluate("document.documentElement.scrollHeight / innerHeight")
    assert screens <= (3 if width == 1280 else 6)
    for details in page.locator("details").all():
        details.locator("summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    found = Axe().run(page)
    assert not found.response["violations"], found.generate_report()
    assert asked == [address]
    page.close()


def test_a_link_of_the_navigation_opens_what_it_names(browser: Browser, address: str) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(address)
    table = page.locator("#table-tests-0\\.05-top200")
    expect(table).to_be_hidden()
    page.get_by_role("link", name="Which model is better, and how certain").focus()
    page.keyboard.press("Enter")
    expect(table).to_be_visible()
    summary = page.locator("summary", has_text="How this was made")
    summary.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("SHA-256 of the training baskets")).to_be_visible()
    page.close()
