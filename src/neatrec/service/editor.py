"""Editing the rules on the page: log-in by key, a signed cookie, forms of our own page."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl, urlsplit

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import (
    AfterValidator,
    Field,
    StringConstraints,
    ValidationError,
)

from neatrec.errors import must_be
from neatrec.service.api import snapshot_of
from neatrec.service.metrics import Metrics
from neatrec.service.problems import RequestError, bad, invalid
from neatrec.service.rules import EVERY, Rule, RulesFile
from neatrec.service.schemas import Count, FormModel, Id, NoQuery
from neatrec.service.sessions import (
    HOURS,
    EditorSession,
    end_session,
    has_ended,
    open_session,
    read_session,
)
from neatrec.service.settings import MAX_NOTE
from neatrec.text import printable

log = logging.getLogger(__name__)

COOKIE = "neatrec_editor"
WRONG_KEY_SECONDS = 0.5
"""The delay of the answer to a wrong key, which counts as a request in progress meanwhile."""
WRONG_KEYS = 4
"""Wrong keys of one address that wait for their answer at a time; further ones are refused. All
addresses together never take more than half of the slots. A right key is never refused."""
FORM = "application/x-www-form-urlencoded"


def _one_line(text: str) -> str:
    """Line breaks become blanks; what cannot be printed is refused."""
    line = " ".join(text.split())
    if printable(line, 4 * len(line) + 10) != line:
        raise ValueError("must be plain text")
    return line


ONE_LINE = AfterValidator(_one_line)
Back = Annotated[str, StringConstraints(max_length=8000, pattern=r"^/(?:[!-.0-\[\]-~][!-~]*)?$")]
"""An address of this service to go on with; neither //host nor /\\host."""


class LoginQuery(FormModel):
    """The page to go back to after a log-in."""

    back: Back = "/"


class LoginForm(FormModel):
    """A name and a key."""

    who: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=60), ONE_LINE
    ]
    key: Annotated[str, StringConstraints(strip_whitespace=True)]
    """It may have any form: no message repeats it."""
    back: Back = "/"


class SignedForm(FormModel):
    """A form of somebody who is logged in."""

    version: str = ""
    """Of the rules that the page showed."""
    back: Back = "/rules"


class RuleForm(SignedForm):
    """A new rule."""

    query: Id
    item: Id
    action: Literal["block", "pin", "boost", "note"]
    position: Count | None = None
    until: date | None = None
    note: Annotated[str, StringConstraints(max_length=MAX_NOTE), ONE_LINE] = ""


class UndoForm(SignedForm):
    """The number of a rule in its file."""

    number: Annotated[int, Field(ge=0, le=10**9)]


Form = TypeVar("Form", bound=FormModel)
Signed = TypeVar("Signed", bound=SignedForm)


class Editor:
    """The routes of those who edit. They exist only where there is a file of editor keys."""

    def __init__(self, rules: Path, watcher: Any, pages: Any, metrics: Metrics) -> None:
        """A folder that cannot be written, and a key that readers have too, are refused at once."""
        self.watcher, self.pages, self.metrics = watcher, pages, metrics
        self.file = RulesFile(rules)
        self.wrong_keys: Counter[str] = Counter()
        """Wrong keys that wait for their answer, by address."""
        if not os.access(self.file.path.parent, os.W_OK):
            hint = "The new file is written beside the old one."
            raise must_be("--rules", "in a folder that can be written", str(rules), hint=hint)
        if any(watcher.keys.find(key) is not None for key in watcher.editor_keys.valid):
            raise must_be("--editor-key-file", "other keys than those of readers", "one of theirs")

    def session(self, request: Request) -> EditorSession | None:
        """Who sent the request, if they are logged in."""
        cookie = request.cookies.get(COOKIE)
        found = None if cookie is None else read_session(self.watcher.editor_keys, cookie)
        return None if found is None or has_ended(self.file, found) else found

    def login_page(self, request: Request, query: Annotated[LoginQuery, Query()]) -> Response:
        """The form for a name and a key."""
        return self._login_page(request, query.back)

    def _login_page(self, request: Request, back: str, status: int = 200) -> Response:
        page: Response = self.pages.page(
            "login.html", request, status=status, back=back, wrong=status != 200
        )
        return page

    async def login(self, request: Request, _: Annotated[NoQuery, Query()]) -> Response:
        """A key becomes a session; the key itself is kept nowhere."""
        check_same_site(request)
        form = await read_form(request, LoginForm)
        key = self.watcher.editor_keys.find(form.key.encode("utf-8", "replace"))
        if key is None:
            log.warning("editor key refused: %s", printable(form.who))
            await self._wait(request.client.host if request.client else "")
            return await asyncio.to_thread(self._login_page, request, form.back, 403)
        log.info("editor logged in: %s", printable(form.who))
        answer = RedirectResponse(form.back, 303)
        secure = request.url.scheme == "https"
        cookie, seconds = open_session(key, form.who), HOURS * 3600
        answer.set_cookie(
            COOKIE, cookie, max_age=seconds, httponly=True, samesite="strict", secure=secure
        )
        return answer

    async def _wait(self, address: str) -> None:
        """Hold back the answer to a wrong key; refuse at once what would hold up others."""
        half = self.watcher.settings.in_flight // 2
        if self.wrong_keys[address] >= WRONG_KEYS or self.wrong_keys.total() >= max(half, 1):
            raise RequestError(
                429, "Busy", "too many wrong keys at once", hint="Try again in a second."
            )
        self.wrong_keys[address] += 1
        try:
            await asyncio.sleep(WRONG_KEY_SECONDS)
        finally:
            self.wrong_keys[address] -= 1
            self.wrong_keys += Counter()  # forgets the addresses of which none waits

    async def logout(self, request: Request, _: Annotated[NoQuery, Query()]) -> Response:
        """The session ends for every worker, whoever has a copy of its cookie."""
        session, _form = await self._signed(request, SignedForm)
        await asyncio.to_thread(end_session, self.file, session)
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer

    def rules_page(self, request: Request, _: Annotated[NoQuery, Query()]) -> Response:
        """All rules, for those who are logged in."""
        if self.session(request) is None:
            return RedirectResponse("/login?back=/rules", 303)
        page: Response = self.pages.rules(request)
        return page

    async def add(self, request: Request, _: Annotated[NoQuery, Query()]) -> Response:
        """Write a rule."""
        session, form = await self._signed(request, RuleForm)
        now = datetime.now(UTC)
        if form.until is not None and form.until < now.date():
            raise bad("until", "today or later", form.until.isoformat())
        if form.action == "note" and not form.note:
            raise bad("note", "given with this action", form.note)
        return await asyncio.to_thread(self._write, request, session, form, now)

    def _write(
        self, request: Request, session: EditorSession, form: RuleForm, now: datetime
    ) -> Response:
        bundle = snapshot_of(request).bundle
        item = bundle.ids[bundle.known(form.item)]
        query = EVERY if form.query == EVERY else bundle.ids[bundle.known(form.query)]
        position = form.position or 1 if form.action in ("pin", "boost") else 1
        when = now.isoformat(timespec="seconds")
        rule = Rule(query, item, form.action, position, form.until, form.note, session.who, when)
        self.file.add(rule, form.version, now.date())
        self._count(rule, "rule written", session)
        return RedirectResponse(form.back, 303)

    async def undo(self, request: Request, _: Annotated[NoQuery, Query()]) -> Response:
        """Take a rule back: it leaves the file, and the log keeps it."""
        session, form = await self._signed(request, UndoForm)
        today = datetime.now(UTC).date()
        rule = await asyncio.to_thread(self.file.remove, form.number, form.version, today)
        self._count(rule, "rule undone", session)
        return RedirectResponse(form.back, 303)

    def _count(self, rule: Rule, event: str, session: EditorSession) -> None:
        self.metrics.rule_edits.labels("undo" if event == "rule undone" else rule.action).inc()
        fields = {name: value for name, value in vars(rule).items() if value}
        text = printable(json.dumps(fields, default=str), 2000)
        log.info("%s by %s: %s", event, printable(session.who), text)

    async def _signed(self, request: Request, shape: type[Signed]) -> tuple[EditorSession, Signed]:
        """The session and the form of a request that our own page sent."""
        check_same_site(request)
        session = self.session(request)
        if session is None:
            hint = "Log in at /login with an editor key."
            raise RequestError(403, "NoEditor", "only an editor may do this", hint=hint)
        return session, await read_form(request, shape)


def check_same_site(request: Request) -> None:
    """Refuse a form that a page of another origin sends; browsers say where it comes from."""
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    same = origin is None or urlsplit(origin).netloc == request.headers.get("host")
    if not same or site not in (None, "same-origin", "none"):
        hint = "Behind a proxy, pass on the header Host."
        raise RequestError(403, "OtherOrigin", "a form from another origin is refused", hint=hint)


async def read_form(request: Request, shape: type[Form]) -> Form:
    """The fields of a form, each given once."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise RequestError(415, "ParameterError", f"the body must be {FORM}")
    try:
        text = (await request.body()).decode("utf-8")
        fields = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=20)
    except ValueError as error:
        raise RequestError(422, "ParameterError", "the body is not a form in UTF-8") from error
    try:
        return shape.model_validate(dict(fields))
    except ValidationError as error:
        raise invalid(
            [{**each, "loc": ("form", *each["loc"])} for each in error.errors()]
        ) from None


def add_editor(app: FastAPI, editor: Editor) -> None:
    """Add the routes of those who edit."""
    router = APIRouter(include_in_schema=False)
    for path, method, handler in (
        ("/login", "GET", editor.login_page),
        ("/login", "POST", editor.login),
        ("/logout", "POST", editor.logout),
        ("/rules", "GET", editor.rules_page),
        ("/rules", "POST", editor.add),
        ("/rules/undo", "POST", editor.undo),
    ):
        router.add_api_route(path, handler, methods=[method], response_model=None)
    app.include_router(router)
