"""Errors of the service: one JSON shape, one status per kind."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import JSONResponse

from neatrec.errors import NeatrecError
from neatrec.service.settings import BODY_SECONDS, MAX_BODY, MAX_QUERY_STRING
from neatrec.text import printable

UNKNOWN = "UnknownItemError"
"""The kind of the problem with an item that the bundle does not hold."""
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


def invalid(errors: Sequence[Mapping[str, Any]]) -> RequestError:
    """The sentence for what pydantic refused in a query string, body or form."""
    error = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    source, *steps = error["loc"]
    if not steps or not isinstance(steps[0], str):
        hint = (
            'Send JSON such as {"items": ["id"]} as application/json.' if source == "body" else None
        )
        message = f"the {source} is wrong: {error['msg']}"
        return RequestError(422, "ParameterError", message, hint=hint)
    name, got = printable(steps[0]), error.get("input")
    if error["type"] == "extra_forbidden":
        hint = "GET /openapi.json lists the parameters of each address."
        return RequestError(422, "ParameterError", f"there is no parameter {name!r}", hint=hint)
    if error["type"] == "missing":
        return RequestError(422, "ParameterError", f"`{name}` is missing", argument=name)
    shown = got if isinstance(got, str | int | float | None) else type(got).__name__
    wanted = re.sub(r"^[A-Z]\w* should", "must", error["msg"].removeprefix("Value error, "))
    wanted = wanted.partition(", unable to")[0]
    message = f"`{name}` {wanted}, got {printable(repr(shown))}"
    return RequestError(422, "ParameterError", message, argument=name)


def unknown_item(item: str, near: list[dict[str, Any]]) -> RequestError:
    """An item that the bundle does not hold, with near names."""
    names = " or ".join(
        f"{printable(other['name'], 60)!r} (id {printable(other['id'], 60)})" for other in near[:3]
    )
    hint = f"Did you mean {names}?" if near else "GET /v1/items?q= searches by name."
    message = f"no item has the id {printable(item)!r}"
    return RequestError(404, UNKNOWN, message, hint=hint, near=near)


REFUSED: dict[int, tuple[str, str, str | None]] = {
    401: (
        "NoKey",
        "a valid key is needed",
        "Send `Authorization: Bearer KEY`, or in a browser the key as the password.",
    ),
    408: ("TooSlow", f"the body must arrive within {BODY_SECONDS:g} seconds", "Send it again."),
    413: ("TooLarge", f"the body must be at most {MAX_BODY:,} bytes", "Ask for fewer items."),
    414: (
        "TooLarge",
        f"the query string must be at most {MAX_QUERY_STRING:,} bytes",
        "Exclude fewer items.",
    ),
    499: ("Gone", "the connection was closed before the body was complete", None),
    500: ("Fault", "the service failed", "The log of the service says why."),
    503: ("Busy", "too many requests at once", "Try again in a second."),
}
"""Status -> kind, message and hint of errors with fixed words."""


def refused(status: int) -> RequestError:
    """The problem of a status that has the same words every time."""
    kind, message, hint = REFUSED[status]
    return RequestError(status, kind, message, hint=hint)
