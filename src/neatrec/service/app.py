"""The application: routes of the API, the page, the middleware around both."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from neatrec._version import __version__
from neatrec.service.api import add_api, snapshot_of
from neatrec.service.editor import Editor, add_editor
from neatrec.service.metrics import Metrics
from neatrec.service.middleware import PROBES, RequestMiddleware
from neatrec.service.pages import add_page
from neatrec.service.problems import UNKNOWN, RequestError, invalid, refused
from neatrec.service.settings import ServiceSettings
from neatrec.service.watcher import BundleWatcher

__all__ = ["api_document", "make_app"]

ABOUT = (
    "What goes with what, with the evidence. Every answer names the version of the bundle that it "
    "came from. Association, not proof of extra sales."
)


def make_app(settings: ServiceSettings, watcher: BundleWatcher | None = None) -> ASGIApp:
    """The service as an ASGI application; a bundle that does not verify is refused here."""
    live = watcher or BundleWatcher(settings, Metrics())

    app = FastAPI(
        title="neatrec",
        version=__version__,
        description=ABOUT,
        lifespan=live.running,
        docs_url=None,
        redoc_url=None,
        strict_content_type=False,  # a cart without a content type is JSON
    )
    for kind in (RequestError, RequestValidationError, HTTPException, ClientDisconnect, Exception):
        app.add_exception_handler(kind, _on_error)
    add_api(app, live.metrics, needs_key=bool(live.keys))
    app.state.metrics = live.metrics
    pages = add_page(app, settings)
    if settings.editor_key_file is not None and settings.rules is not None:
        editor = Editor(settings.rules, live, pages, live.metrics)
        pages.session_of = editor.session
        add_editor(app, editor)
    app.mount(
        "/static", StaticFiles(directory=str(files("neatrec.service") / "static")), name="static"
    )
    outer = RequestMiddleware(app, live, settings)
    if not settings.cors:
        return outer
    # outermost: a page of another origin must be able to read a 401, and a preflight has no key
    return CORSMiddleware(
        outer,
        allow_origins=list(settings.cors),
        allow_methods=["GET", "POST"],
        allow_headers=["authorization", "content-type", "x-api-key"],
        expose_headers=["retry-after"],
        max_age=600,
    )


def api_document() -> dict[str, Any]:
    """The OpenAPI document of the service, without a bundle to serve."""
    app = FastAPI(title="neatrec", version=__version__, description=ABOUT)
    add_api(app, Metrics(), needs_key=True)
    return app.openapi()


async def _on_error(request: Request, error: Exception) -> Response:
    problem = _problem_of(error)
    if problem.kind == UNKNOWN:
        request.app.state.metrics.unknown.labels(snapshot_of(request).bundle.short).inc()
    if _wants_page(request):
        page: Response = request.app.state.pages.problem(request, problem)
        return page
    response = problem.response()
    response.headers.update(getattr(error, "headers", None) or {})
    return response


def _problem_of(error: Exception) -> RequestError:
    """The error as the caller sees it; the middleware logs a fault of ours."""
    if isinstance(error.__cause__, RequestError | ClientDisconnect):  # while a body was read
        error = error.__cause__
    if isinstance(error, RequestError):
        return error
    if isinstance(error, RequestValidationError):
        return invalid(error.errors())
    if isinstance(error, ClientDisconnect):
        return refused(499)
    if not isinstance(error, HTTPException):
        return refused(500)
    known = {  # what the framework itself refuses
        400: (422, "ParameterError", "the body is not JSON in UTF-8"),
        404: (404, "NotFound", "there is nothing at this address"),
        405: (405, "Method", "this address takes another method"),
    }
    words = known.get(error.status_code, (error.status_code, "Refused", error.detail))
    return RequestError(*words, hint="GET /openapi.json lists what there is.")


def _wants_page(request: Request) -> bool:
    path = request.url.path
    is_api = path.startswith("/v1/") or path in PROBES or path in ("/metrics", "/openapi.json")
    return not is_api and "text/html" in request.headers.get("accept", "")
