"""The page for people: search, complements, pairs, cart, how good it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import Field

from neatrec._version import __version__
from neatrec.service import schemas, views
from neatrec.service.answers import completes, goes_with, page_of_pairs
from neatrec.service.api import find, snapshot_of
from neatrec.service.problems import RequestError, bad
from neatrec.service.sessions import EditorSession
from neatrec.service.settings import MAX_ITEMS, ServiceSettings
from neatrec.serving import FOOTER
from neatrec.serving.pair_list import PairSelection

SHOWN = 12
"""Answers on a page."""
STRONGEST = 20
"""Pairs on the first page."""
RULES = 500
"""Rules on a page."""


class SearchForm(schemas.FormModel):
    """A search, or nothing."""

    q: schemas.Words | None = None


class ItemForm(schemas.FormModel, schemas.ItemFilters):
    """An item and its filters."""

    id: schemas.Id
    k: schemas.Count = SHOWN


class PairForm(schemas.FormModel, schemas.PairQuery):
    """Two items."""


class PairsForm(schemas.FormModel, schemas.PairsQuery):
    """A page of pairs."""


class CartForm(SearchForm):
    """A cart, an item to add, and a search for another one."""

    add: schemas.Id | None = None
    diversify: bool = False
    item: list[schemas.Id] = Field(default=[], max_length=MAX_ITEMS)


class Pages:
    """Handlers of the page; all work is done beside the event loop."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.session_of: Callable[[Request], EditorSession | None] | None = None
        """Who edits; None where nobody can."""
        self.addresses = {
            "picture_of": settings.image_url and settings.image_url.of,
            "product_at": settings.link_url and settings.link_url.of,
        }

    def home(self, request: Request, form: Annotated[SearchForm, Query()]) -> Response:
        """The first page, or the results of a search."""
        bundle = snapshot_of(request).bundle
        if form.q:
            hits = find(bundle, form.q, 30)
            exact, similar = (
                [bundle.brief(code) for code, fits in hits if fits is wanted]
                for wanted in (True, False)
            )
            return self.page("found.html", request, form, exact=exact, similar=similar)
        strongest = bundle.pairs.find("beyond", PairSelection(), 0, STRONGEST)[1]
        return self.page(
            "home.html",
            request,
            best=views.best_sellers(bundle, 12),
            share=views.covered(bundle.index.coverage()),
            pairs=views.pair_rows(bundle, strongest),
            unanswered=views.unanswered(bundle, 12),
        )

    def pairs(self, request: Request, form: Annotated[PairsForm, Query()]) -> Response:
        """All pairs with evidence."""
        bundle = snapshot_of(request).bundle
        total, rows, next_page = page_of_pairs(bundle, form)
        pairs = views.pair_rows(bundle, rows)
        return self.page("pairs.html", request, form, pairs=pairs, total=total, next_page=next_page)

    def item(self, request: Request, form: Annotated[ItemForm, Query()]) -> Response:
        """The answers to an item."""
        snapshot = snapshot_of(request)
        bundle = snapshot.bundle
        code = bundle.known(form.id)
        answers = goes_with(snapshot, code, form)
        return self.page(
            "item.html",
            request,
            form,
            item=bundle.brief(code),
            cards=views.cards(bundle, answers.lines),
            rules=views.rules_about(snapshot, {code}) if self._session(request) else [],
            explained=None if answers.explained is None else views.cards(bundle, answers.explained),
            has_explained=len(bundle.index.explained_with(code)) > 0,
            notes=answers.notes,
            count=bundle.count[code],
        )

    def pair(self, request: Request, form: Annotated[PairForm, Query()]) -> Response:
        """The evidence of a pair."""
        snapshot = snapshot_of(request)
        bundle = snapshot.bundle
        a, b = bundle.known(form.a), bundle.known(form.b)
        rules = views.rules_about(snapshot, {a, b}, both=True) if self._session(request) else []
        evidence, (one, other) = bundle.index.evidence(a, b), map(bundle.brief, (a, b))
        return self.page("pair.html", request, form, a=one, b=other, evidence=evidence, rules=rules)

    def cart(self, request: Request, form: Annotated[CartForm, Query()]) -> Response:
        """A cart, and what completes it."""
        snapshot = snapshot_of(request)
        bundle = snapshot.bundle
        wanted = [*form.item, *([form.add] if form.add else [])]
        held = [item for item in dict.fromkeys(wanted) if bundle.code(item) is not None]
        if len(held) > MAX_ITEMS:
            raise bad("item", f"given at most {MAX_ITEMS} times", len(held))
        codes, cards, notes = list[int](), list[views.Card](), tuple[str, ...]()
        if held:
            query = schemas.CartQuery(items=held, k=SHOWN, diversify=form.diversify)
            answers, _ = completes(snapshot, query)
            codes, cards = list(answers.cart), views.cards(bundle, answers.lines)
            notes = answers.notes
        found = [bundle.brief(code) for code, _ in find(bundle, form.q, 8)] if form.q else []
        return self.page(
            "cart.html",
            request,
            form,
            held=held,
            kept=form.model_dump(exclude_defaults=True, include={"diversify"}),
            items=[bundle.brief(code) for code in codes],
            cards=cards,
            notes=notes,
            found=[item for item in found if str(item["id"]) not in held],
            unknown=len(wanted) > len(held),
            best=views.best_sellers(bundle, 8) if not held else [],
        )

    def quality(self, request: Request, _: Annotated[schemas.NoQuery, Query()]) -> Response:
        """The share of the shop with evidence."""
        return self.page("quality.html", request, **views.quality(snapshot_of(request).bundle))

    def rules(self, request: Request) -> Response:
        """All rules, the newest first, for those who edit them."""
        snapshot = snapshot_of(request)
        found = views.rules_about(snapshot, None)[::-1]
        return self.page(
            "rules.html", request, rules=found[:RULES], left_out=max(len(found) - RULES, 0)
        )

    def _session(self, request: Request) -> EditorSession | None:
        return None if self.session_of is None else self.session_of(request)

    def problem(self, request: Request, problem: RequestError) -> Response:
        """An error, for people."""
        return self.page("problem.html", request, status=problem.status, problem=problem)

    def page(
        self,
        template: str,
        request: Request,
        form: schemas.RequestModel | None = None,
        *,
        status: int = 200,
        **values: Any,
    ) -> Response:
        """A page about what `form` asks for; every text in it is escaped."""
        snapshot = snapshot_of(request)
        shared = {
            "form": form,
            "given": {} if form is None else form.model_dump(exclude_defaults=True),
            "text": getattr(form, "q", None) or "",
            "here": request.url.path + (f"?{request.url.query}" if request.url.query else ""),
            "snapshot": snapshot,
            "bundle": snapshot.bundle,
            "can_edit": self.session_of is not None,
            "editor": self._session(request),
        }
        text = _templates().get_template(template).render({**self.addresses, **shared, **values})
        return HTMLResponse(text, status, headers={"cache-control": "no-store"})


def add_page(app: FastAPI, settings: ServiceSettings) -> Pages:
    """Add the page to `app`; its handlers run in threads."""
    pages = Pages(settings)
    router = APIRouter(include_in_schema=False)
    router.add_api_route("/", pages.home, response_model=None)
    for name in ("item", "pair", "pairs", "cart", "quality"):
        router.add_api_route(f"/{name}", getattr(pages, name), response_model=None)
    app.include_router(router)
    app.state.pages = pages
    return pages


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("neatrec", "service/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals |= {"version": __version__, "footer": FOOTER, **views.IN_TEMPLATES}
    templates.filters |= views.FILTERS
    return templates
