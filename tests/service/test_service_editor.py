"""Editing the rules on the page: who may, what forged requests get, what is written, and that nothing is lost."""

import asyncio
import csv
import itertools
import logging
import multiprocessing
import os
import re
import signal
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect
from starlette.testclient import TestClient

from helpers.browser import chromium
from helpers.service_bundle import id_of
from neatrec.service import editor as editor_module
from neatrec.service import rules
from neatrec.service import watcher as watcher_module
from neatrec.service.app import make_app
from neatrec.service.metrics import Metrics
from neatrec.service.problems import RequestError
from neatrec.service.rules import Rule, RulesFile, read_rules
from neatrec.service.settings import ServiceSettings
from neatrec.service.watcher import BundleWatcher

KEY, READER = "the-key-of-the-editors", "the-key-of-the-readers"
HEADER = "query,item,action,position,until,note\n"
CHIPS, SALSA, TEA = id_of("Tortilla Chips"), id_of("Salsa"), id_of("Green Tea")
TODAY = date(2026, 1, 1)
HTML = {"accept": "text/html"}
FORM = {"content-type": "application/x-www-form-urlencoded"}
RULE = {"query": CHIPS, "item": SALSA, "action": "block"}


open_once = cache(watcher_module._open)


@pytest.fixture(autouse=True, scope="module")
def quickly() -> Iterator[None]:
    """A wrong key is answered at once, and all workers share one bundle, which never changes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(editor_module, "WRONG_KEY_SECONDS", 0.0)
        patch.setattr(watcher_module, "_open", open_once)
        yield


class Desk:
    """Rules, and applications over them: each is a worker with a watcher of its own."""

    def __init__(self, bundle: Path, folder: Path, text: str = HEADER) -> None:
        self.rules, self.keys = folder / "rules.csv", folder / "keys"
        self.rules.write_text(text)
        self.keys.write_text(KEY + "\n")
        self.settings = ServiceSettings(bundle, rules=self.rules, editor_key_file=self.keys)

    def worker(self) -> TestClient:
        watcher = BundleWatcher(self.settings, Metrics())
        return TestClient(make_app(self.settings, watcher), follow_redirects=False)

    def editor(self, who: str = "Ann", worker: TestClient | None = None) -> TestClient:
        """Somebody who is logged in."""
        client = worker or self.worker()
        assert client.post("/login", data={"who": who, "key": KEY}).status_code == 303
        return client

    def lines(self) -> list[dict[str, str]]:
        return list(csv.DictReader(self.rules.read_text().splitlines()))


@pytest.fixture
def desk(bundle: Path, tmp_path: Path) -> Desk:
    return Desk(bundle, tmp_path)


@pytest.fixture(scope="module")
def shared(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Desk, TestClient]:
    made = Desk(bundle, tmp_path_factory.mktemp("desk"))
    return made, made.editor()


@pytest.fixture
def quick(shared: tuple[Desk, TestClient]) -> tuple[Desk, TestClient]:
    """A desk that is opened once and has no rules."""
    shared[0].rules.write_text(HEADER)
    return shared


def hidden_fields(client: TestClient, path: str = f"/item?id={CHIPS}") -> dict[str, str]:
    """The version of the rules that the forms of a page carry."""
    return {"version": re.search('name="version" value="([^"]*)"', client.get(path).text)[1]}


def edit(client: TestClient, action: str = "block", **fields: Any) -> Any:
    given = {**hidden_fields(client), "query": CHIPS, "item": SALSA, "action": action, **fields}
    return client.post(
        "/rules", data={name: value for name, value in given.items() if value is not None}
    )


def answers(client: TestClient, item: str = CHIPS, **query: Any) -> list[str]:
    found = client.get(
        "/v1/complements", params={"item": item, "min_evidence": "guess", **query}
    ).json()
    return [line["id"] for line in found["complements"]]


def test_a_hidden_answer_is_gone_at_once_and_back_after_undo(desk: Desk) -> None:
    editor, other = desk.editor(), desk.worker()
    assert answers(other)[0] == SALSA
    back = f"/item?id={CHIPS}#answer-{SALSA}"
    done = edit(editor, note="sold out", back=back)
    assert (done.status_code, done.headers["location"]) == (303, back)
    (line,) = desk.lines()
    wanted = {"query": CHIPS, "item": SALSA, "action": "block", "note": "sold out", "who": "Ann"}
    assert line.items() >= wanted.items()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", line["when"])
    for client in (other, editor):
        assert SALSA not in answers(client)
    shown, public = (client.get(f"/item?id={CHIPS}").text for client in (editor, other))
    assert "Salsa: <b>hidden</b>" in shown
    assert "sold out" in shown
    assert "hidden</b>" not in public
    assert "sold out" not in public
    undone = editor.post("/rules/undo", data={**hidden_fields(editor), "number": "0"})
    assert undone.status_code == 303
    assert desk.lines() == []
    assert answers(other)[0] == SALSA
    assert 'neatrec_rule_edits_total{action="undo"} 1.0' in editor.get("/metrics").text


def test_pin_boost_and_note_do_what_they_say(desk: Desk) -> None:
    editor = desk.editor()
    before = answers(editor, k=8)
    assert edit(editor, "boost", item=before[5], position="2").status_code == 303
    assert answers(editor, k=8) == [*before[:3], before[5], *before[3:5], *before[6:]]
    assert edit(editor, "pin", item=TEA, position="1").status_code == 303
    assert edit(editor, "note", item=before[1], note="check the price").status_code == 303
    assert answers(editor, k=3) == [TEA, *before[:2]]
    assert "check the price" in editor.get(f"/pair?a={CHIPS}&b={before[1]}").text
    assert "2 positions up" in editor.get("/rules").text
    assert edit(editor, "boost", query="*", item=before[2], position="9").status_code == 303
    assert answers(editor, k=3) == [TEA, before[2], before[0]]
    assert 'neatrec_rule_hits_total{action="boost"' in editor.get("/metrics").text


def test_rules_written_by_hand_stay(desk: Desk) -> None:
    quoted = '"a ""good"" reason,\n of two lines"'
    head = "\ufeffitem,Query,action,note"
    desk.rules.write_text(f"{head}\r\n{TEA},{CHIPS},block,{quoted}\r\n\r\n{SALSA},gone,pin,")
    desk.rules.chmod(0o640)
    before = read_rules(desk.rules).rules
    editor = desk.editor()
    assert edit(editor, until="2999-01-31").status_code == 303
    assert read_rules(desk.rules).rules[:2] == before
    assert stat.S_IMODE(desk.rules.stat().st_mode) == 0o640
    undone = editor.post("/rules/undo", data={**hidden_fields(editor), "number": "0"})
    assert undone.status_code == 303
    assert [rule.query for rule in read_rules(desk.rules).rules] == ["gone", CHIPS]
    names = sorted(path.name for path in desk.rules.parent.iterdir())
    assert names == ["keys", "rules.csv", "rules.csv.lock"]


FORGED = {
    "another origin": {"origin": "https://evil.example"},
    "no origin at all": {"origin": "null"},
    "another port": {"origin": "http://testserver:81"},
    "a cross-site form": {"sec-fetch-site": "cross-site"},
    "a sibling site": {"sec-fetch-site": "same-site"},
}


@pytest.mark.parametrize("headers", FORGED.values(), ids=FORGED)
@pytest.mark.parametrize("path", ["/rules", "/rules/undo", "/logout"])
def test_a_forged_form_writes_nothing(
    quick: tuple[Desk, TestClient], headers: dict[str, str], path: str
) -> None:
    desk, editor = quick
    more = {"/rules": RULE, "/rules/undo": {"number": "0"}}.get(path, {})
    given = {**hidden_fields(editor), **more}
    assert editor.post(path, data=given, headers=headers).status_code == 403
    assert desk.rules.read_text() == HEADER
    assert editor.get("/rules").status_code == 200


@pytest.mark.parametrize("cookie", [None, "", ".", "e30=.00", "x" * 5000, "ä.ö", f"{KEY}"])
def test_without_a_session_nothing_is_written(
    quick: tuple[Desk, TestClient], cookie: str | None
) -> None:
    client = TestClient(quick[1].app, follow_redirects=False)
    headers = {} if cookie is None else {"cookie": f"neatrec_editor={cookie}".encode()}
    given = {"version": "", **RULE}
    assert client.post("/rules", data=given, headers=headers).status_code == 403
    assert client.get("/rules", headers=headers).headers["location"] == "/login?back=/rules"
    assert 'action="/rules"' not in client.get(f"/item?id={CHIPS}", headers=headers).text


def test_whoever_logs_out_is_out_in_every_worker(desk: Desk) -> None:
    editor, other, still = desk.editor(), desk.worker(), desk.editor("Bob")
    headers = {"cookie": f"neatrec_editor={editor.cookies['neatrec_editor']}"}
    assert other.get("/rules", headers=headers).status_code == 200
    assert editor.post("/logout", data={}, headers=FORM).status_code == 303
    assert "neatrec_editor" not in editor.cookies
    for worker in (other, desk.worker()):
        assert worker.get("/rules", headers=headers).headers["location"] == "/login?back=/rules"
    assert still.get("/rules").status_code == 200


@pytest.mark.parametrize(("in_flight", "most"), [(64, 4), (3, 1)])
def test_wrong_keys_hold_up_nobody(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, in_flight: int, most: int
) -> None:
    """Further wrong keys are refused at once; the right key and requests are answered."""
    monkeypatch.setattr(editor_module, "WRONG_KEY_SECONDS", 3.0)
    transport = httpx.ASGITransport(make_app(replace(desk.settings, in_flight=in_flight)))
    wrong, right = {"who": "Eve", "key": "x"}, {"who": "Ann", "key": KEY}

    async def ask() -> list[int]:
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
            waiting = [asyncio.create_task(client.post("/login", data=wrong)) for _ in range(most)]
            await asyncio.sleep(0.3)
            found = [await client.post("/login", data=data) for data in (wrong, right)]
            found += [await client.get(f"/v1/complements?item={CHIPS}") for _ in range(5)]
            assert not any(task.done() for task in waiting)
            found += [await task for task in waiting]
        return [answer.status_code for answer in found]

    assert asyncio.run(ask()) == [429, 303, *[200] * 5, *[403] * most]


def test_the_readers_key_reads_and_the_editors_key_edits(desk: Desk, monkeypatch, caplog) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setenv("NEATREC_API_KEY", READER)
    client = desk.worker()
    assert client.get("/login").status_code == 401
    reading, editing = {"x-api-key": READER}, {"x-api-key": KEY}
    refused = client.post("/login", data={"who": "Eve", "key": READER}, headers=reading)
    assert refused.status_code == 403
    assert "set-cookie" not in refused.headers
    given = {"version": "", **RULE}
    for headers in (reading, editing):  # a key is no session
        assert client.get("/v1/complements?item=100", headers=headers).status_code == 200
        assert client.post("/rules", data=given, headers=headers).status_code == 403
    done = client.post("/login", data={"who": "Ann", "key": KEY, "back": "/pairs"}, headers=editing)
    assert (done.status_code, done.headers["location"]) == (303, "/pairs")
    cookie = done.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Secure" not in cookie
    assert "editor logged in: Ann" in caplog.text
    assert "editor key refused: Eve" in caplog.text
    assert KEY not in caplog.text + cookie + done.text


@pytest.mark.parametrize(
    "back", ["https://evil.example", "//evil.example", "/\\evil.example", "evil", "/a\r\nx: y"]
)
def test_a_log_in_leads_nowhere_else(quick: tuple[Desk, TestClient], back: str) -> None:
    client = quick[1]
    assert client.post("/login", data={"who": "Ann", "key": KEY, "back": back}).status_code == 422
    assert client.get("/login", params={"back": back}).status_code == 422
    assert edit(client, back=back).status_code == 422


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"note": "x" * 201}, 422, "`note` must have at most 200 characters"),
        ({"note": "\u202eevil"}, 422, "`note` must be plain text"),
        ({"action": "delete"}, 422, "`action` must be 'block', 'pin', 'boost' or 'note'"),
        ({"item": CHIPS}, 422, "an item is never recommended for itself"),
        ({"until": "2020-12-24"}, 422, "`until` must be today or later"),
        ({"action": "note", "note": " "}, 422, "`note` must be given with this action"),
        ({"item": "nothing like it"}, 404, "no item has the id"),
        ({"query": "nothing like it"}, 404, "no item has the id"),
        ({"colour": "red"}, 422, "there is no parameter 'colour'"),
    ],
)
def test_a_bad_form_is_refused_and_nothing_is_written(
    quick, fields: dict[str, str], status: int, words: str
) -> None:
    desk, editor = quick
    answer = edit(editor, **fields)
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]
    assert desk.rules.read_text() == HEADER


@pytest.mark.parametrize(
    ("note", "written"),
    [
        ('=HYPERLINK("http://evil.example")', '\'=HYPERLINK("http://evil.example")'),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("two\r\nlines\u2028and more", "two lines and more"),
        (f'x\n*,{SALSA},block,,,"', f'x *,{SALSA},block,,,"'),
        ("<script>window.hit=1</script>", "<script>window.hit=1</script>"),
    ],
)
def test_a_note_stays_one_cell_of_one_line_and_no_formula(quick, note: str, written: str) -> None:
    desk, worker = quick[0], TestClient(quick[1].app, follow_redirects=False)
    editor = desk.editor("=Ann", worker)
    assert edit(editor, "note", note=note).status_code == 303
    (rule,) = read_rules(desk.rules).rules
    assert (rule.note, rule.who, rule.action) == (written, "'=Ann", "note")
    assert len(desk.rules.read_text().splitlines()) == 2
    assert "<script>window" not in editor.get("/rules").text


def test_a_place_that_is_taken_and_a_rule_that_is_there_are_refused(desk: Desk) -> None:
    editor = desk.editor()
    assert edit(editor, "pin", position="1").status_code == 303
    before = desk.rules.read_text()
    taken, again = edit(editor, "pin", item=TEA, position="1"), edit(editor, "pin", position="2")
    assert (taken.status_code, again.status_code) == (422, 409)
    assert "two items are pinned to position 1" in taken.json()["error"]["message"]
    assert desk.rules.read_text() == before


def test_an_edit_by_hand_since_the_page_was_shown_is_noticed_and_kept(desk: Desk) -> None:
    editor = desk.editor()
    given = hidden_fields(editor)
    by_hand = HEADER + f"*,{TEA},block,,,by hand\n"
    desk.rules.write_text(by_hand)
    for path, fields in (("/rules/undo", {"number": "0"}), ("/rules", RULE)):
        refused = editor.post(path, data={**given, **fields}, headers=HTML)
        assert refused.status_code == 409
        assert "The rules have changed since this page was shown" in refused.text
    assert desk.rules.read_text() == by_hand
    assert edit(editor, note="late").status_code == 303
    assert [line["note"] for line in desk.lines()] == ["by hand", "late"]


def rule(number: int) -> Rule:
    return Rule("100", f"item {number}", "block", note=f"note {number}")


def version_of(file: Path) -> str:
    return read_rules(file, TODAY).version


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_a_process_killed_while_it_writes_leaves_the_old_or_the_new_file(
    tmp_path: Path, step: str, late: bool
) -> None:
    file = tmp_path / "rules.csv"
    file.write_text(HEADER)
    real = getattr(os, step)

    def dying(*arguments: Any) -> None:
        if late:
            real(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    def write_and_die() -> None:
        setattr(os, step, dying)
        RulesFile(file).add(rule(1), version_of(file), TODAY)

    process = multiprocessing.get_context("fork").Process(target=write_and_die)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    items = [each.item for each in read_rules(file, TODAY).rules]
    assert items == (["item 1"] if step == "replace" and late else [])
    RulesFile(file).add(rule(2), version_of(file), TODAY)  # the lock is free again
    assert [each.item for each in read_rules(file, TODAY).rules] == [*items, "item 2"]


def test_a_writer_waits_for_another_one_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rules.csv"
    file.write_text(HEADER)
    monkeypatch.setattr(rules, "PATIENCE", 0.05)
    with RulesFile(file).locked(), pytest.raises(RequestError, match="somebody else is writing"):
        RulesFile(file).add(rule(1), version_of(file), TODAY)
    full = OSError(28, "No space left on device")
    monkeypatch.setattr(RulesFile, "replace_by", Mock(side_effect=full))
    with pytest.raises(RequestError, match=r"cannot be written: No space left on device"):
        RulesFile(file).add(rule(1), version_of(file), TODAY)
    assert file.read_text() == HEADER


def test_two_workers_lose_no_edit_of_editors_who_write_at_the_same_time(desk: Desk) -> None:
    workers = [desk.editor("Ann"), desk.editor("Bob")]
    items = [id_of(f"Plain {number}") for number in range(12)]

    def write(number: int) -> None:
        statuses = (
            edit(workers[number % 2], "note", item=items[number], note=f"{number}").status_code
            for _ in range(200)
        )
        assert set(itertools.takewhile(lambda status: status != 303, statuses)) <= {409}

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(12)))
    assert sorted(line["item"] for line in desk.lines()) == sorted(items)
    assert {line["who"] for line in desk.lines()} == {"Ann", "Bob"}


def test_nothing_of_it_is_there_by_default(client: TestClient) -> None:
    for path in ("/login", "/rules"):
        assert client.get(path).status_code == 404
    assert client.post("/rules", data={"x": "y"}).status_code == 404
    assert "Log in" not in client.get("/item?id=100").text


def test_an_editor_hides_an_answer_and_takes_it_back_in_a_browser(
    desk: Desk, running: Callable[[Any], str]
) -> None:
    url = running(make_app(desk.settings))
    with chromium() as browser:
        page = browser.new_page(base_url=url)
        page.set_default_timeout(30_000)
        page.goto(f"/item?id={CHIPS}")
        page.get_by_role("link", name="Log in to edit").click()
        page.get_by_label("Your name").fill("Ann")
        page.get_by_label("Editor key").fill(KEY)
        page.keyboard.press("Enter")
        card = page.locator(f"#answer-{SALSA}")
        card.get_by_text("Edit", exact=False).first.focus()
        page.keyboard.press("Enter")
        card.get_by_label("Note").fill("sold out")
        assert Axe().run(page).violations_count == 0
        card.get_by_role("button", name="Hide").focus()
        page.keyboard.press("Enter")
        expect(card).to_have_count(0)
        rule = page.locator(".rule", has_text="Salsa")
        expect(rule).to_contain_text("sold out")
        for path in ("/rules", f"/pair?a={CHIPS}&b={SALSA}", "/login"):
            page.goto(path)
            assert Axe().run(page).violations_count == 0, path
        page.goto(f"/item?id={CHIPS}")
        rule.get_by_role("button", name="Undo").click()
        expect(card).to_have_count(1)
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("link", name="Log in to edit")).to_be_visible()
    assert desk.rules.read_text().splitlines()[1:] == []
