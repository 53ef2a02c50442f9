"""Errors of the service: one JSON shape, one status per kind."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from starlette.responses import JSONResponse

from neatrec.errors import NeatrecError
from neatrec.service.settings import MAX_K, MAX_NAME, MAX_NOTE, MAX_QUERY_STRING
from neatrec.text import printable

NAMES = frozenset({"category", "category_of", "with_category", "model", "q"})
"""Parameters of limited length; ids are limited only by the request."""
WANTED = {
    "page": "a whole number from 1 to 10,000,000",
    "month": "a whole number from 1 to 12",
    "note": f"at most {MAX_NOTE} characters that can be printed",
    "who": "a name of 1 to 60 characters that can be printed",
    "until": "a day such as 2026-12-24",
    "back": "an address of this service",
    "line": "a line of the rules",
}
"""What some parameters must be."""
HEADERS = {
    401: {"www-authenticate": 'Basic realm="neatrec", charset="UTF-8"'},
    408: {"connection": "close"},  # the rest of a body that came too slowly is not waited for
    503: {"retry-after": "1"},
}
"""Of the answers with some statuses."""


class Problem(NeatrecError):
    """A request that gets no answer: a status, and an error as everywhere in neatrec."""

    def __init__(self, status: int, kind: str, message: str, *, hint: str | None = None, **where: Any) -> None:
        super().__init__(message, hint=hint, **where)
        self.status = status
        self.kind = kind

    def to_dict(self) -> dict[str, Any]:
        return {"error": {"kind": self.kind, "message": self.message, "hint": self.hint, **self.where}}

    def response(self) -> JSONResponse:
        return JSONResponse(self.to_dict(), self.status, headers=HEADERS.get(self.status))


def bad(argument: str, wanted: str, got: object, *, hint: str | None = None) -> Problem:
    """A parameter that is not what it must be."""
    message = f"`{argument}` must be {wanted}, got {printable(repr(got))}"
    return Problem(422, "ParameterError", message, hint=hint, argument=argument)


def invalid(error: Mapping[str, Any]) -> Problem:
    """What pydantic found wrong with a request, as a sentence."""
    source, *loc = error["loc"]
    kind, context, got = error["type"], error.get("ctx", {}), error.get("input")
    hint = 'For example {"items": ["id"], "k": 5}.' if source == "body" else None
    if kind == "unknown_parameter":
        given, known = context["name"], context["known"]
        near = get_close_matches(given, known, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(known)}." if known else None
        return Problem(422, "ParameterError", f"there is no parameter {printable(given)!r}", hint=hint)
    if not loc or kind == "json_invalid":
        return Problem(422, "ParameterError", f"the {source} is wrong: {error['msg']}", hint=hint)
    name = str(loc[0])
    if kind == "missing":
        return Problem(422, "ParameterError", f"`{name}` is missing", hint=hint, argument=name)
    choices = re.findall(r"'([^']*)'", str(context.get("expected", ""))) if kind == "literal_error" else []
    if choices and isinstance(got, str):
        return unknown_choice(name, choices, got)
    if kind == "too_long":
        return bad(name, f"given at most {context['max_length']} times", context["actual_length"], hint=hint)
    shown = got if isinstance(got, str | int | float | None) else type(got).__name__
    return bad(name, f"one of {', '.join(choices)}" if choices else _wanted(name, kind), shown, hint=hint)


def _wanted(name: str, kind: str) -> str:
    if name in ("k", "position"):
        return f"a whole number from 1 to {MAX_K}"
    if name in WANTED:
        return WANTED[name]
    if kind.startswith("bool"):
        return "true or false"
    if kind.startswith("string"):
        length = f"1 to {MAX_NAME} characters" if name in NAMES else "at least 1 character"
        return f"{length}, none of them NUL" + (" and not all blank" if name == "q" else "")
    return "a list of ids or names"


def unknown_choice(argument: str, choices: Sequence[str], got: str, *, status: int = 422) -> Problem:
    """A choice that there is not, with the nearest one as the next step."""
    near = get_close_matches(got, choices, n=1)
    hint = (
        f"Did you mean {printable(near[0])!r}?" if near else f"Choose one of {', '.join(map(printable, choices[:12]))}."
    )
    return Problem(
        status, "ParameterError", f"there is no `{argument}` {printable(got)!r}", hint=hint, argument=argument
    )


def unknown_item(item: str, near: list[dict[str, Any]]) -> Problem:
    """An item that the bundle does not hold, with near names."""
    names = " or ".join(f"{printable(other['name'], 60)!r} (id {printable(other['id'], 60)})" for other in near[:3])
    hint = f"Did you mean {names}?" if near else "GET /v1/items?q= searches by name."
    return Problem(404, "UnknownItemError", f"no item has the id {printable(item)!r}", hint=hint, near=near)


REFUSED: dict[int, tuple[str, str, str | None]] = {
    401: (
        "NoKey",
        "a valid key is needed",
        "Send `Authorization: Bearer KEY`, or in a browser the key as the password.",
    ),
    408: ("TooSlow", "the body must arrive within {:g} seconds", "Send it again at once."),
    413: ("TooLarge", "the body must be at most {:,} bytes", "Ask for fewer items at once."),
    414: ("TooLarge", f"the query string must be at most {MAX_QUERY_STRING:,} bytes", "Exclude fewer items at once."),
    499: ("Gone", "the connection was closed before the whole body arrived", None),  # for the metrics: nobody reads it
    500: ("Fault", "the service failed", "The log of the service says why."),  # nothing of the inside is shown
    503: ("Busy", "too many requests at once", "Try again in a second."),
}
"""Status -> kind, message and hint of what has the same words every time."""


def refused(status: int, limit: float = 0) -> Problem:
    kind, message, hint = REFUSED[status]
    return Problem(status, kind, message.format(limit), hint=hint)
