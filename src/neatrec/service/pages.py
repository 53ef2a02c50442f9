"""The page for people: search, complements, pairs, network, categories, cart, models side by side, how good it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import Field, StringConstraints, model_validator

from neatrec._version import __version__
from neatrec.service.answers import completes, explained_by, goes_with
from neatrec.service.api import CheckedRoute, find, snapshot_of
from neatrec.service.editor import EditorSession
from neatrec.service.problems import Problem, bad
from neatrec.service.reference import operations
from neatrec.service.render import page_of_pairs
from neatrec.service.schemas import (
    CartQuery,
    Count,
    Filters,
    Goal,
    Id,
    ItemFilters,
    Level,
    NoQuery,
    PairQuery,
    PairsQuery,
    RequestModel,
)
from neatrec.service.settings import MAX_ITEMS, MAX_SEARCH, ServiceSettings
from neatrec.service.views import (
    GOAL_NAMES,
    GRADE_NAMES,
    SORT_NAMES,
    address,
    best_sellers,
    cards,
    covered,
    drawn,
    field_values,
    grade_name,
    heat_map,
    network_of,
    pair_rows,
    popularity,
    quality,
    rules_about,
    spread,
    unanswered,
    unbroken,
    with_hidden,
)
from neatrec.serving import FOOTER, GRADES
from neatrec.serving.answers import LEVELS
from neatrec.serving.evidence import coincidence_words
from neatrec.serving.pair_list import PairSelection
from neatrec.text import show_number

SHOWN = 12
"""Answers on a page."""
STRONGEST = 20
"""Pairs on the first page."""
ANY = PairSelection()
RULES = 500
"""Rules on a page."""

Search = Annotated[str, StringConstraints(strip_whitespace=True, max_length=MAX_SEARCH, pattern="^[^\\x00]*$")]


class Form(RequestModel):
    """What a page is asked for: a form sends a blank text for what was not chosen."""

    @model_validator(mode="before")
    @classmethod
    def _without_blanks(cls, values: dict[str, Any]) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for name, value in values.items():
            texts = [text for text in ([value] if isinstance(value, str) else value) if text.strip()]
            if texts:
                kept[name] = value if isinstance(value, str) else texts
        return kept


class SearchForm(Form):
    q: Search = ""


class PairsForm(Form, PairsQuery):
    pass


class ItemForm(Form, ItemFilters):
    id: Id
    k: Count = SHOWN


class CompareForm(Form):
    id: Id
    min_evidence: Level = "likely"


class PairForm(Form, PairQuery):
    pass


class CartForm(Form):
    q: Search = ""
    add: Id | None = None
    diversify: bool = False
    goal: Goal | None = None
    item: list[Id] = Field(default=[], max_length=MAX_ITEMS)


class NetworkForm(Form):
    id: Id


class Pages:
    """Handlers of the page; all work is done beside the event loop."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.public = settings.public
        self.session_of: Callable[[Request], EditorSession | None] | None = None
        """Who edits; None where nobody can."""
        self.addresses = {
            "picture_of": settings.image_url and settings.image_url.of,
            "product_at": settings.link_url and settings.link_url.of,
        }

    def home(self, request: Request, form: Annotated[SearchForm, Query()]) -> Response:
        snapshot = snapshot_of(request)
        bundle = snapshot.main
        if not form.q:
            return self.page(
                "home.html",
                request,
                "lookup",
                best=best_sellers(bundle, 12),
                share=covered(bundle.index.coverage()),
                pairs=pair_rows(bundle, bundle.pairs.find("strength", ANY, 0, STRONGEST)[1], self.public),
                earlier=bundle.pairs.earlier,
                new=0 if bundle.pairs.is_new is None else int(bundle.pairs.is_new.sum()),
                unanswered=unanswered(bundle, 12),
                categories=bundle.catalog.category_names[0][:60] if bundle.catalog.levels else (),
            )
        hits = find(bundle, form.q, 30)
        exact, similar = ([bundle.brief(code) for code, fits in hits if fits is wanted] for wanted in (True, False))
        return self.page("found.html", request, "lookup", exact=exact, similar=similar, text=form.q)

    def pairs(self, request: Request, form: Annotated[PairsForm, Query()]) -> Response:
        bundle = snapshot_of(request).bundle(form.model)
        total, rows, next_page = page_of_pairs(bundle, form)
        sorts = [(name, label) for name, label in SORT_NAMES.items() if name in bundle.pairs.orders]
        return self.page(
            "pairs.html",
            request,
            "pairs",
            pairs=pair_rows(bundle, rows, self.public),
            total=None if self.public else total,
            first=(form.page - 1) * form.k + 1,
            query=form,
            given=form.model_dump(exclude_defaults=True, exclude={"page", "sort"}),
            filters=form.model_dump(exclude_defaults=True, exclude={"page", "sort", "k"}),
            sorts=sorts,
            next_page=next_page,
            categories=bundle.category_names[:400],
        )

    def item(self, request: Request, form: Annotated[ItemForm, Query()]) -> Response:
        snapshot = snapshot_of(request)
        bundle = snapshot.bundle(form.model)
        code = bundle.known(form.id)
        answered = goes_with(snapshot, bundle, code, form)
        explained = explained_by(bundle, snapshot.rules[bundle.name], code, form)
        shown, edits = cards(bundle, answered.lines, self.public), self._session(request) is not None
        return self.page(
            "item.html",
            request,
            "lookup",
            item=bundle.brief(code),
            cards=with_hidden(shown, snapshot, bundle, code, form, self.public) if edits else shown,
            rules=rules_about(snapshot, bundle, {code}) if edits else [],
            explained=None if explained is None else cards(bundle, explained, self.public),
            has_explained=len(bundle.index.explained_with(code)) > 0,
            notes=answered.notes,
            filters=form,
            levels=[(level, GRADE_NAMES[level]) for level in LEVELS],
            categories=bundle.category_names[:400],
            goals=bundle.index.goals,
            goal=form.goal or bundle.index.goal,
            kept=form.model_dump(exclude_defaults=True),
            popularity=None if self.public else popularity(bundle, code),
            spread=None if self.public else spread(bundle, code),
            is_new=not bundle.count[code],
            within=bundle.index.pairs.words(),
        )

    def compare(self, request: Request, form: Annotated[CompareForm, Query()]) -> Response:
        snapshot = snapshot_of(request)
        code = snapshot.main.known(form.id)
        filters = Filters(min_evidence=form.min_evidence)
        columns = []
        for bundle in snapshot.bundles.values():
            here = bundle.code(form.id)
            lines = [] if here is None else goes_with(snapshot, bundle, here, filters).lines
            columns.append((bundle, cards(bundle, lines, self.public)))
        return self.page(
            "compare.html",
            request,
            "lookup",
            item=snapshot.main.brief(code),
            columns=columns,
            ids_of={bundle.name: {card["id"] for card in column} for bundle, column in columns},
            level=form.min_evidence,
            levels=[(name, GRADE_NAMES[name]) for name in LEVELS[:3]],
        )

    def pair(self, request: Request, form: Annotated[PairForm, Query()]) -> Response:
        snapshot = snapshot_of(request)
        bundle = snapshot.bundle(form.model)
        a, b = bundle.known(form.a), bundle.known(form.b)
        evidence = bundle.index.evidence(a, b)
        edits = self._session(request) is not None
        return self.page(
            "pair.html",
            request,
            "lookup",
            a=bundle.brief(a),
            b=bundle.brief(b),
            evidence=evidence,
            words=evidence.words(public=self.public, suggested=False),
            grade_name=grade_name(evidence.grade, evidence.strength),
            coincidence=coincidence_words(evidence.q, bundle.index.pairs.strata) if evidence.q < 1 else None,
            within=bundle.index.pairs.words(),
            ruler=drawn(evidence, self.public),
            rules=rules_about(snapshot, bundle, {a, b}, both=True) if edits else [],
        )

    def cart(self, request: Request, form: Annotated[CartForm, Query()]) -> Response:
        snapshot = snapshot_of(request)
        bundle = snapshot.main
        wanted = [*form.item, *([form.add] if form.add else [])]
        held = [item for item in dict.fromkeys(wanted) if bundle.code(item) is not None]
        if len(held) > MAX_ITEMS:
            raise bad("item", f"given at most {MAX_ITEMS} times", len(held))
        codes, lines = [], []
        if held:
            query = CartQuery(items=held, k=SHOWN, diversify=form.diversify, goal=form.goal)
            answered = completes(snapshot, bundle, query)
            codes, lines = answered.cart, answered.lines
        found = [bundle.brief(code) for code, _ in find(bundle, form.q, 8)] if form.q else []
        return self.page(
            "cart.html",
            request,
            "cart",
            held=held,
            kept=form.model_dump(exclude_defaults=True, include={"diversify", "goal"}),
            items=[bundle.brief(code) for code in codes],
            cards=cards(bundle, lines, self.public),
            found=[item for item in found if item["id"] not in held],
            text=form.q,
            unknown=len(wanted) > len(held),
            goals=() if bundle.index.model.ranks_as_cart(codes) else bundle.index.goals,
            goal=form.goal or bundle.index.goal,
            best=best_sellers(bundle, 8) if not held else [],
        )

    def network(self, request: Request, form: Annotated[NetworkForm, Query()]) -> Response:
        snapshot = snapshot_of(request)
        bundle = snapshot.main
        code = bundle.known(form.id)
        found = network_of(snapshot, bundle, code, self.public)
        return self.page("network.html", request, "lookup", item=bundle.brief(code), network=found)

    def categories(self, request: Request, _: Annotated[NoQuery, Query()]) -> Response:
        snapshot = snapshot_of(request)
        return self.page("categories.html", request, "categories", heat=heat_map(snapshot.main))

    def quality(self, request: Request, _: Annotated[NoQuery, Query()]) -> Response:
        snapshot = snapshot_of(request)
        return self.page("quality.html", request, "quality", **quality(snapshot, self.public))

    def docs(self, request: Request, _: Annotated[NoQuery, Query()]) -> Response:
        """The API reference, made from the OpenAPI document: no script, nothing from outside."""
        document = request.app.openapi()
        values = {"document": document, "operations": operations(document)}
        return self.page("docs.html", request, "docs", **values)

    def rules(self, request: Request) -> Response:
        """All rules, the newest first, for those who edit them."""
        snapshot = snapshot_of(request)
        found = rules_about(snapshot, snapshot.main, None)[::-1]
        return self.page("rules.html", request, "rules", rules=found[:RULES], left_out=max(len(found) - RULES, 0))

    def _session(self, request: Request) -> EditorSession | None:
        return None if self.session_of is None else self.session_of(request)

    def problem(self, request: Request, problem: Problem) -> Response:
        """A problem as a page that helps."""
        return self.page("problem.html", request, "", status=problem.status, problem=problem)

    def page(self, template: str, request: Request, tab: str, *, status: int = 200, **values: Any) -> Response:
        """A page; every text in it is escaped."""
        snapshot = snapshot_of(request)
        shared = {"snapshot": snapshot, "main": snapshot.main, "tab": tab, "public": self.public, "footer": FOOTER}
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        editing = {"can_edit": self.session_of is not None, "editor": self._session(request), "here": here}
        defaults = {"text": "", "version": __version__, "grades": GRADES, **self.addresses, **editing}
        text = _templates().get_template(template).render({**defaults, **shared, **values})
        return HTMLResponse(text, status, headers={"cache-control": "no-store"})


def add_page(app: FastAPI, settings: ServiceSettings) -> Pages:
    """Put the page on `app`. FastAPI runs these handlers, which are no coroutines, in its thread pool."""
    pages = Pages(settings)
    router = APIRouter(route_class=CheckedRoute, include_in_schema=False)
    routes: dict[str, Callable[..., Response]] = {
        "/": pages.home,
        "/item": pages.item,
        "/compare": pages.compare,
        "/pair": pages.pair,
        "/pairs": pages.pairs,
        "/cart": pages.cart,
        "/network": pages.network,
        "/categories": pages.categories,
        "/quality": pages.quality,
        "/docs": pages.docs,
    }
    for path, handler in routes.items():
        router.add_api_route(path, handler, methods=["GET"], response_model=None)
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
    templates.globals |= {
        "address": address,
        "field_values": field_values,
        "grade_names": GRADE_NAMES,
        "goal_names": GOAL_NAMES,
    }
    templates.filters |= {
        "number": show_number,
        "share": lambda value: unbroken(f"{100 * value:.0f} %"),
        "unbroken": unbroken,
    }
    return templates
