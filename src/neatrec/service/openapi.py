"""What the OpenAPI document says beside the routes: errors with their examples, and how a key is sent."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from neatrec.service import schemas as shapes
from neatrec.service.limits import BODY_SECONDS, LARGEST_BODY, MOST_K
from neatrec.service.problems import bad, busy, no_key, too_large, too_long, too_slow, wrong_host

JSON = "application/json"
SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer KEY`."},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "password": {"type": "http", "scheme": "basic", "description": "In a browser: any name, the key as password."},
}
PROBES = ("/healthz", "/readyz")
EXAMPLES: dict[int, Any] = {
    401: no_key().to_dict(),
    404: {"error": shapes.ERROR},
    408: too_slow(BODY_SECONDS).to_dict(),
    413: too_large(LARGEST_BODY).to_dict(),
    414: too_long().to_dict(),
    421: wrong_host().to_dict(),
    422: bad("k", f"a whole number from 1 to {MOST_K}", "101", hint="Ask for fewer.").to_dict(),
    503: busy().to_dict(),
}


def responses(shape: Any, errors: tuple[int, ...]) -> dict[int | str, Any]:
    """The answers of a route: `shape`, and these errors."""
    refused: dict[int | str, Any] = {
        e: {"model": shapes.ErrorOut, "content": {JSON: {"example": EXAMPLES[e]}}} for e in errors
    }
    return {200: {"model": shape}, **refused}


def add_keys(app: FastAPI, *, locked: bool) -> None:
    """The document says how a key is sent, and whether one is needed."""
    made = app.openapi

    def document() -> dict[str, Any]:
        found = made()
        found["components"]["securitySchemes"] = SCHEMES
        found["security"] = [*([] if locked else [{}]), *({name: []} for name in SCHEMES)]
        for probe in PROBES:
            found["paths"][probe]["get"]["security"] = []
        return found

    app.openapi = document  # type: ignore[method-assign]
