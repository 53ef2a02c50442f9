"""Errors of the service: one JSON shape, one status per kind."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel
from starlette.responses import JSONResponse

from neatrec.errors import NeatrecError
from neatrec.service.settings import MAX_QUERY_STRING
from neatrec.text import printable

CLOSE = {"connection": "close"}
HEADERS = {
    401: {"www-authenticate": 'Basic realm="neatrec", charset="UTF-8"', **CLOSE},
    408: CLOSE,  # the rest of a body that came too slowly is not waited for
    413: CLOSE,
    503: {"retry-after": "1"},
}
"""Of the answers with some statuses."""


class RequestError(NeatrecError):
    """A request that gets no answer: a status, and an error as everywhere in neatrec."""

    def __init__(
        self, status: int, kind: str, message: str, *, hint: str | None = None, **where: Any
    ) -> None:
        super().__init__(message, hint=hint, **where)
        self.status = status
        self.kind = kind

    def to_dict(self) -> dict[str, Any]:
        """The error as JSON holds it."""
        return {
            "error": {"kind": self.kind, "message": self.message, "hint": self.hint, **self.where}
        }

    def response(self) -> JSONResponse:
        """The answer that says it."""
        return JSONResponse(self.to_dict(), self.status, headers=HEADERS.get(self.status))


def bad(argument: str, wanted: str, got: object, *, hint: str | None = None) -> RequestError:
    """A parameter with a wrong value."""
    message = f"`{argument}` must be {wanted}, got {printable(repr(got))}"
    return RequestError(422, "ParameterError", message, hint=hint, argument=argument)


def invalid(error: Mapping[str, Any], model: type[BaseModel], source: str) -> RequestError:
    """The sentence for what pydantic refused in a query string, body or form."""
    loc, kind, context, got = error["loc"], error["type"], error.get("ctx", {}), error.get("input")
    hint = 'For example {"items": ["id"], "k": 5}.' if source == "body" else None
    if not loc:
        return RequestError(
            422, "ParameterError", f"the {source} is wrong: {error['msg']}", hint=hint
        )
    name = str(loc[0])
    if kind == "extra_forbidden":
        message = f"there is no parameter {printable(name)!r}"
        return RequestError(
            422, "ParameterError", message, hint=_nearest(name, list(model.model_fields))
        )
    if kind == "missing":
        return RequestError(422, "ParameterError", f"`{name}` is missing", hint=hint, argument=name)
    if kind == "literal_error" and isinstance(got, str):
        return unknown_choice(name, re.findall(r"'([^']*)'", context["expected"]), got)
    if kind == "too_long":
        most, count = context["max_length"], context["actual_length"]
        return bad(name, f"given at most {most} times", count, hint=hint)
    shown = got if isinstance(got, str | int | float | None) else type(got).__name__
    schema = model.model_json_schema()["properties"][name]
    return bad(name, wanted(schema), shown, hint=hint)


def wanted(schema: Mapping[str, Any]) -> str:
    """The values that a parameter of this JSON schema may have.

    >>> wanted({"type": "integer", "minimum": 1, "maximum": 100})
    'a whole number from 1 to 100'
    """
    schema = schema.get("anyOf", [schema])[0]
    least, most = (schema.get(name) for name in ("minLength", "maxLength"))
    words = {
        "integer": "a whole number from {minimum:,} to {maximum:,}".format_map(
            {"minimum": 0, "maximum": 0, **schema}
        ),
        "boolean": "true or false",
        "array": "a list of ids or names",
        "string": f"{f'{least} to' if least else 'at most'} {most} characters that can be printed",
    }
    if "enum" in schema or "const" in schema:
        return f"one of {', '.join(schema.get('enum') or [schema['const']])}"
    if schema.get("format") == "date":
        return "a day such as 2026-12-24"
    if schema["type"] == "string" and most is None:
        return "at least 1 character, none of them NUL"
    return words[schema["type"]]


def _nearest(given: str, known: Sequence[str]) -> str | None:
    near = get_close_matches(given, known, n=1)
    if near:
        return f"Did you mean {printable(near[0])!r}?"
    return f"Choose one of {', '.join(map(printable, known[:12]))}." if known else None


def unknown_choice(
    argument: str, choices: Sequence[str], got: str, *, status: int = 422
) -> RequestError:
    """A choice that there is not, with the nearest one as the next step."""
    message = f"there is no `{argument}` {printable(got)!r}"
    hint = _nearest(got, choices)
    return RequestError(status, "ParameterError", message, hint=hint, argument=argument)


def unknown_item(item: str, near: list[dict[str, Any]]) -> RequestError:
    """An item that the bundle does not hold, with near names."""
    names = " or ".join(
        f"{printable(other['name'], 60)!r} (id {printable(other['id'], 60)})" for other in near[:3]
    )
    hint = f"Did you mean {names}?" if near else "GET /v1/items?q= searches by name."
    message = f"no item has the id {printable(item)!r}"
    return RequestError(404, "UnknownItemError", message, hint=hint, near=near)


REFUSED: dict[int, tuple[str, str, str | None]] = {
    401: (
        "NoKey",
        "a valid key is needed",
        "Send `Authorization: Bearer KEY`, or in a browser the key as the password.",
    ),
    408: ("TooSlow", "the body must arrive within {:g} seconds", "Send it again at once."),
    413: ("TooLarge", "the body must be at most {:,} bytes", "Ask for fewer items at once."),
    414: (
        "TooLarge",
        f"the query string must be at most {MAX_QUERY_STRING:,} bytes",
        "Exclude fewer items at once.",
    ),
    499: ("Gone", "the connection was closed before the whole body arrived", None),
    500: ("Fault", "the service failed", "The log of the service says why."),
    503: ("Busy", "too many requests at once", "Try again in a second."),
}
"""Status -> kind, message and hint of what has the same words every time."""


def refused(status: int, limit: float = 0) -> RequestError:
    """The problem of a status that has the same words every time."""
    kind, message, hint = REFUSED[status]
    return RequestError(status, kind, message.format(limit), hint=hint)
