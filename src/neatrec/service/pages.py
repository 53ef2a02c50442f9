"""The page for people: search, complements, pairs, network, categories, cart, models side by side, how good it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Literal

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import BeforeValidator, Field, StringConstraints

from neatrec._version import __version__
from neatrec.service.answers import completes, explained_by, goes_with
from neatrec.service.api import CheckedRoute, find, snapshot_of
from neatrec.service.editor import EditorSession
from neatrec.service.problems import Problem, bad
from neatrec.service.reference import operations
from neatrec.service.render import pair_filter
from neatrec.service.schemas import (
    CartQuery,
    Filters,
    Goal,
    Id,
    ItemFilters,
    Level,
    Name,
    NoQuery,
    PageNumber,
    PairsQuery,
    RequestModel,
    Sort,
)
from neatrec.service.settings import MAX_CATEGORIES, MAX_ITEMS, MAX_SEARCH, ServiceSettings
from neatrec.service.views import (
    GOAL_NAMES,
    GRADE_NAMES,
    SORT_NAMES,
    address,
    best_sellers,
    cards,
    cart_cards,
    covered,
    drawn,
    grade_name,
    heat_map,
    hidden_answers,
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
PAIRS = 50
"""Pairs on a page."""
RULES = 500
"""Rules on a page."""

Search = Annotated[str, StringConstraints(strip_whitespace=True, max_length=MAX_SEARCH, pattern="^[^\\x00]*$")]
EMPTY_IS_NONE = BeforeValidator(lambda value: value or None)
"""A form sends an empty text for what was not chosen."""
Chosen = Annotated[Level | None, EMPTY_IS_NONE]
ChosenGoal = Annotated[Goal | None, EMPTY_IS_NONE]
ChosenName = Annotated[Name | None, EMPTY_IS_NONE]


class SearchForm(RequestModel):
    q: Search = ""


class PairsForm(RequestModel):
    q: Annotated[Search | None, EMPTY_IS_NONE] = None
    category: ChosenName = None
    with_category: ChosenName = None
    sort: Annotated[Sort | None, EMPTY_IS_NONE] = None
    page: Annotated[PageNumber | None, EMPTY_IS_NONE] = None
    model: ChosenName = None


class ItemForm(RequestModel):
    id: Id
    min_evidence: Chosen = None
    diversify: str | None = None
    model: ChosenName = None
    goal: ChosenGoal = None
    category: list[ChosenName] = Field(default=[], max_length=MAX_CATEGORIES)
    include: Annotated[Literal["explained"] | None, EMPTY_IS_NONE] = None


class CompareForm(RequestModel):
    id: Id
    min_evidence: Chosen = None


class PairForm(RequestModel):
    a: Id
    b: Id
    model: ChosenName = None


class CartForm(RequestModel):
    q: Search = ""
    add: Id | None = None
    diversify: str | None = None
    goal: ChosenGoal = None
    item: list[Id] = Field(default=[], max_length=MAX_ITEMS)


class NetworkForm(RequestModel):
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
        snapshot = snapshot_of(request)
        bundle = snapshot.bundle(form.model)
        given = {name: value for name, value in dict(form).items() if value}
        query = PairsQuery(**{"k": PAIRS, **given})
        skip = (query.page - 1) * PAIRS
        total, rows = bundle.pairs.find(query.sort, pair_filter(bundle, query), skip, PAIRS)
        earlier = bundle.pairs.earlier
        sorts = [(name, label) for name, label in SORT_NAMES.items() if name != "new" or earlier is not None]
        return self.page(
            "pairs.html",
            request,
            "pairs",
            pairs=pair_rows(bundle, rows, self.public),
            total=None if self.public else total,
            first=skip + 1,
            query=query,
            given={name: value for name, value in given.items() if name not in ("page", "sort")},
            sorts=sorts,
            next_page=query.page + 1 if skip + len(rows) < total and len(rows) else None,
            categories=bundle.category_names[:400],
        )

    def item(self, request: Request, form: Annotated[ItemForm, Query()]) -> Response:
        snapshot = snapshot_of(request)
        chosen = [name for name in form.category if name]
        filters = ItemFilters(
            k=SHOWN,
            category=chosen,
            min_evidence=form.min_evidence,
            diversify=form.diversify is not None,
            model=form.model,
            goal=form.goal,
            include=form.include,
        )
        bundle = snapshot.bundle(filters.model)
        code = bundle.known(form.id)
        answered = goes_with(snapshot, bundle, code, filters, exact=True)
        explained = explained_by(bundle, snapshot.rules[bundle.name], code, filters)
        edits = self._session(request) is not None
        hidden = hidden_answers(snapshot, bundle, code, filters) if edits else []
        shown = answered.lines if answered else []
        return self.page(
            "item.html",
            request,
            "lookup",
            item=bundle.brief(code),
            cards=with_hidden(cards(bundle, shown, self.public), hidden, self.public, bundle),
            rules=rules_about(snapshot, bundle, {code}) if edits else [],
            explained=None if explained is None else cards(bundle, explained, self.public),
            has_explained=bundle.index.has_explained(code),
            notes=answered.notes if answered else [],
            filters=filters,
            levels=[(level, GRADE_NAMES[level]) for level in LEVELS],
            categories=bundle.category_names[:400],
            goals=bundle.index.goals,
            goal=form.goal or bundle.index.goal,
            kept={
                name: value for name, value in {**dict(form), "category": chosen}.items() if value and name != "goal"
            },
            popularity=None if self.public else popularity(bundle, code),
            spread=None if self.public else spread(bundle, code),
            is_new=not bundle.count[code],
            within=bundle.index.pairs.words(),
        )

    def compare(self, request: Request, form: Annotated[CompareForm, Query()]) -> Response:
        snapshot = snapshot_of(request)
        code = snapshot.main.known(form.id)
        level = form.min_evidence or "likely"
        columns = []
        for bundle in snapshot.bundles.values():
            here = bundle.code(form.id)
            filters = Filters(k=10, min_evidence=level)
            answered = None if here is None else goes_with(snapshot, bundle, here, filters, exact=True)
            columns.append((bundle, [] if answered is None else cards(bundle, answered.lines, self.public)))
        return self.page(
            "compare.html",
            request,
            "lookup",
            item=snapshot.main.brief(code),
            columns=columns,
            ids_of={bundle.name: {card.id for card in column} for bundle, column in columns},
            level=level,
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
        diversify = form.diversify is not None
        query = CartQuery(items=held, k=SHOWN, diversify=diversify, goal=form.goal) if held else None
        answered = completes(snapshot, bundle, query) if query else None
        codes = answered.cart if answered else []
        found = [bundle.brief(code) for code, _ in find(bundle, form.q, 8)] if form.q else []
        return self.page(
            "cart.html",
            request,
            "cart",
            held=held,
            items=[bundle.brief(code) for code in codes],
            cards=cart_cards(answered, self.public) if answered else [],
            found=[item for item in found if item["id"] not in held],
            text=form.q,
            unknown=len(wanted) > len(held),
            diversify=diversify,
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
    templates.globals |= {"address": address, "grade_names": GRADE_NAMES, "goal_names": GOAL_NAMES}
    templates.filters |= {
        "number": show_number,
        "share": lambda value: unbroken(f"{100 * value:.0f} %"),
        "unbroken": unbroken,
    }
    return templates
