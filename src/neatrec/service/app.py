"""The application: routes of the API, the page, the gate around both."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.staticfiles import StaticFiles

from neatrec._version import __version__
from neatrec.service.api import add_api
from neatrec.service.metrics import Metrics
from neatrec.service.middleware import App, RequestMiddleware
from neatrec.service.openapi import add_keys
from neatrec.service.pages import add_page, show_problem
from neatrec.service.problems import Problem
from neatrec.service.settings import ServiceSettings
from neatrec.service.watcher import BundleWatcher

ABOUT = (
    "What goes with what, with the evidence. Every answer names the version of the bundle it came from. "
    "Association, not proof of extra sales."
)


def make_app(settings: ServiceSettings, library: BundleWatcher | None = None) -> App:
    """The service as an ASGI application. The bundle is opened and verified here: a bad one does not start."""
    metrics = Metrics() if library is None else library.metrics
    shelves = BundleWatcher(settings, metrics) if library is None else library

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        shelves.start()
        yield
        shelves.stop()

    app = FastAPI(
        title="neatrec", version=__version__, description=ABOUT, lifespan=lifespan, docs_url=None, redoc_url=None
    )
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _fault)
    add_api(app, metrics, public=settings.public)
    add_keys(app, locked=bool(shelves.keys))
    add_page(app, public=settings.public)
    app.mount("/static", StaticFiles(directory=str(files("neatrec.service") / "static")), name="static")
    gate = RequestMiddleware(app, shelves, metrics, settings.in_flight, settings.host)
    if not settings.cors:
        return gate
    # around the gate: a page elsewhere must be able to read a 401 or a 503 too, and what a browser asks beforehand,
    # without a key, is answered here in a word
    return CORSMiddleware(
        gate,
        allow_origins=list(settings.cors),
        allow_methods=["GET", "POST"],
        allow_headers=["authorization", "content-type", "x-api-key"],
        expose_headers=["retry-after"],
        max_age=600,
    )


async def _problem(request: Request, problem: Exception) -> Any:
    if not isinstance(problem, Problem):
        raise problem
    if _wants_page(request):
        return show_problem(request, problem)
    # what is left of a body that came too slowly is not waited for
    headers = {"connection": "close"} if problem.status == 408 else None
    return JSONResponse(problem.to_dict(), problem.status, headers=headers)


async def _fault(request: Request, error: Exception) -> Any:
    """A fault of ours: the gate logs it, the caller learns nothing of the inside."""
    problem = Problem(500, "Fault", "the service failed", hint="The log of the service says why.")
    return show_problem(request, problem) if _wants_page(request) else JSONResponse(problem.to_dict(), 500)


async def _http(request: Request, error: Exception) -> Any:
    """What the framework itself refuses: no such path, no such method."""
    if not isinstance(error, HTTPException):
        raise error
    known = {
        404: ("NotFound", "there is nothing at this address"),
        405: ("Method", "this address takes another method"),
    }
    kind, message = known.get(error.status_code, ("Refused", error.detail))
    problem = Problem(error.status_code, kind, message, hint="GET /openapi.json lists what there is.")
    if _wants_page(request):
        return show_problem(request, problem)
    return JSONResponse(problem.to_dict(), error.status_code, headers=error.headers)


def _wants_page(request: Request) -> bool:
    path = request.url.path
    is_api = path.startswith("/v1/") or path in ("/metrics", "/healthz", "/readyz", "/openapi.json")
    return not is_api and "text/html" in request.headers.get("accept", "")
