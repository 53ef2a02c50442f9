"""What the service says when it cannot answer as asked: one JSON shape, one status a kind."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from neatrec.errors import NeatrecError
from neatrec.service.limits import LONGEST_QUERY_STRING
from neatrec.text import printable


class Problem(NeatrecError):
    """A request that gets no answer: a status, and the error as every part of neatrec says it."""

    def __init__(self, status: int, kind: str, message: str, *, hint: str | None = None, **where: Any) -> None:
        super().__init__(message, hint=hint, **where)
        self.status = status
        self.kind = kind

    def to_dict(self) -> dict[str, Any]:
        return {"error": {"kind": self.kind, "message": self.message, "hint": self.hint, **self.where}}


def bad(argument: str, wanted: str, got: object, *, hint: str | None = None) -> Problem:
    """A parameter that is not what it must be."""
    message = f"`{argument}` must be {wanted}, got {printable(repr(got))}"
    return Problem(422, "ParameterError", message, hint=hint, argument=argument)


def unknown_choice(argument: str, choices: list[str], got: str, *, status: int = 422) -> Problem:
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


def too_large(limit: int) -> Problem:
    return Problem(413, "TooLarge", f"the body must be at most {limit:,} bytes", hint="Ask for fewer items at once.")


def too_long() -> Problem:
    message = f"the query string must be at most {LONGEST_QUERY_STRING:,} bytes"
    return Problem(414, "TooLarge", message, hint="Exclude fewer items at once.")


def too_slow(seconds: float) -> Problem:
    return Problem(408, "TooSlow", f"the body must arrive within {seconds:g} seconds", hint="Send it again at once.")


def gone() -> Problem:
    """The caller went away; nobody reads the answer, but the metrics count it."""
    return Problem(499, "Gone", "the connection was closed before the body was here")


def busy() -> Problem:
    return Problem(503, "Busy", "too many requests at once", hint="Try again in a second.")


def wrong_host() -> Problem:
    hint = "Ask by 127.0.0.1 or localhost, or give the service a key: then any name will do."
    return Problem(421, "WrongHost", "without a key the service answers only to this machine's own names", hint=hint)


def no_key() -> Problem:
    hint = "Send `Authorization: Bearer KEY`, or in a browser the key as the password."
    return Problem(401, "NoKey", "a valid key is needed", hint=hint)
