"""The page for people: search, complements, cart, models side by side, map, how good it is."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined

from neatrec._version import __version__
from neatrec.service.answers import goes_with
from neatrec.service.api import edition_of, find, json_response
from neatrec.service.cart import completes
from neatrec.service.item_map import MOST, ItemMap
from neatrec.service.limits import LONGEST_SEARCH, MOST_ITEMS
from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.problems import Problem, bad
from neatrec.service.quality import quality
from neatrec.service.query_params import LEVELS, QueryParams, read_fields, read_level, read_text, read_texts
from neatrec.service.snapshot import ServingSnapshot
from neatrec.service.svg import dots
from neatrec.service.views import (
    GRADE_NAMES,
    address,
    best_sellers,
    cards,
    cart_cards,
    covered,
    drawn,
    popularity,
    spread,
    unbroken,
)
from neatrec.serving import FOOTER, GRADES

SHOWN = 12
"""Answers on a page."""


class Pages:
    """Handlers of the page; all work is done beside the event loop."""

    def __init__(self, public: bool) -> None:
        self.public = public
        # a map must not hold its shelf, else no old bundle would ever be let go
        self.maps: WeakKeyDictionary[LoadedBundle, ItemMap] = WeakKeyDictionary()

    async def home(self, request: Request) -> Response:
        fields = read_fields(request.scope["query_string"], ("q",))
        return await asyncio.to_thread(self._home, edition_of(request), _searched(fields))

    def _home(self, edition: ServingSnapshot, text: str) -> Response:
        shelf = edition.main
        if not text:
            share = covered(shelf.index.coverage())
            return self._page("home.html", edition, "lookup", best=best_sellers(shelf, 12), share=share, text="")
        found = [shelf.brief(code) for code in find(shelf, text, 30)]
        return self._page("found.html", edition, "lookup", found=found, text=text)

    async def item(self, request: Request) -> Response:
        fields = read_fields(request.scope["query_string"], ("id", "min_evidence", "diversify", "model"), ("category",))
        return await asyncio.to_thread(self._item, edition_of(request), fields)

    def _item(self, edition: ServingSnapshot, fields: dict[str, list[str]]) -> Response:
        question = QueryParams(
            k=SHOWN,
            category=read_texts("category", [name for name in fields.get("category", []) if name]),
            min_evidence=read_level(fields["min_evidence"][0]) if fields.get("min_evidence", [""])[0] else None,
            diversify="diversify" in fields,
            model=fields["model"][0] if fields.get("model", [""])[0] else None,
        )
        shelf = edition.shelf(question.model)
        code = shelf.known(read_text("id", fields.get("id", [""])[0]))
        answered = goes_with(edition, shelf, code, question, exact=True)
        return self._page(
            "item.html",
            edition,
            "lookup",
            item=shelf.brief(code),
            cards=cards(answered, self.public) if answered else [],
            notes=answered.notes if answered else [],
            question=question,
            levels=[(level, GRADE_NAMES[level]) for level in LEVELS],
            categories=shelf.category_names[:400],
            popularity=None if self.public else popularity(shelf, code),
            spread=None if self.public else spread(shelf, code),
            is_new=not shelf.count[code],
            on_map=self._map_of(edition.main).there,
        )

    async def compare(self, request: Request) -> Response:
        fields = read_fields(request.scope["query_string"], ("id", "min_evidence"))
        return await asyncio.to_thread(self._compare, edition_of(request), fields)

    def _compare(self, edition: ServingSnapshot, fields: dict[str, list[str]]) -> Response:
        item = read_text("id", fields.get("id", [""])[0])
        level = read_level(fields["min_evidence"][0]) if fields.get("min_evidence", [""])[0] else "predicted"
        code = edition.main.known(item)
        columns = []
        for shelf in edition.shelves.values():
            here = shelf.code(item)
            question = QueryParams(k=10, min_evidence=level)
            answered = None if here is None else goes_with(edition, shelf, here, question, exact=True)
            columns.append((shelf, [] if answered is None else cards(answered, self.public)))
        named = {shelf.name: {card.id for card in column} for shelf, column in columns}
        return self._page(
            "compare.html",
            edition,
            "lookup",
            item=edition.main.brief(code),
            columns=columns,
            named=named,
            level=level,
            levels=[(name, GRADE_NAMES[name]) for name in LEVELS[:3]],
        )

    async def pair(self, request: Request) -> Response:
        fields = read_fields(request.scope["query_string"], ("a", "b", "model"))
        return await asyncio.to_thread(self._pair, edition_of(request), fields)

    def _pair(self, edition: ServingSnapshot, fields: dict[str, list[str]]) -> Response:
        shelf = edition.shelf(fields["model"][0] if fields.get("model", [""])[0] else None)
        a, b = (shelf.known(read_text(name, fields.get(name, [""])[0])) for name in ("a", "b"))
        evidence = shelf.index.evidence(a, b)
        return self._page(
            "pair.html",
            edition,
            "lookup",
            a=shelf.brief(a),
            b=shelf.brief(b),
            evidence=evidence,
            words=evidence.words(public=self.public),
            grade_name=GRADE_NAMES[evidence.grade],
            ruler=drawn(evidence, self.public),
        )

    async def cart(self, request: Request) -> Response:
        fields = read_fields(request.scope["query_string"], ("q", "add", "diversify"), ("item",))
        return await asyncio.to_thread(self._cart, edition_of(request), fields)

    def _cart(self, edition: ServingSnapshot, fields: dict[str, list[str]]) -> Response:
        shelf, text = edition.main, _searched(fields)
        wanted = [*fields.get("item", []), *fields.get("add", [])]
        held = [item for item in read_texts("item", list(dict.fromkeys(wanted))) if shelf.code(item) is not None]
        if len(held) > MOST_ITEMS:
            raise bad("item", f"given at most {MOST_ITEMS} times", len(held))
        question = QueryParams(k=SHOWN, diversify="diversify" in fields)
        answered = completes(edition, shelf, held, question) if held else None
        found = [shelf.brief(code) for code in find(shelf, text, 8)] if text else []
        return self._page(
            "cart.html",
            edition,
            "cart",
            held=held,
            items=[shelf.brief(code) for code in (answered.cart if answered else [])],
            cards=cart_cards(answered, self.public) if answered else [],
            found=[item for item in found if item["id"] not in held],
            text=text,
            unknown=len(wanted) > len(held),
            diversify=question.diversify,
            best=best_sellers(shelf, 8) if not held else [],
        )

    async def map(self, request: Request) -> Response:
        fields = read_fields(request.scope["query_string"], ("id",))
        return await asyncio.to_thread(self._map, edition_of(request), fields)

    def _map(self, edition: ServingSnapshot, fields: dict[str, list[str]]) -> Response:
        drawing = self._map_of(edition.main)
        item = fields.get("id", [""])[0]
        code = edition.main.known(read_text("id", item)) if item else None
        points = drawing.points()
        asked = None if code is None else edition.main.ids[code]
        if code is not None and asked not in {point[5] for point in points}:
            points += [point for point in drawing.points(_around(drawing, code)) if point[5] == asked]
        return self._page(
            "map.html",
            edition,
            "map",
            there=drawing.there,
            points=points,
            ellipses=dots(points, asked),
            legend=drawing.legend,
            item=None if code is None else edition.main.brief(code),
            total=len(drawing.order),
            has_variance=edition.main.index.variance is not None,
        )

    async def points(self, request: Request) -> Response:
        """More items of the part of the map that is in view."""
        fields = read_fields(request.scope["query_string"], ("box",))
        box = _box(fields.get("box", [""])[0])
        drawing = self._map_of(edition_of(request).main)
        return json_response({"points": await asyncio.to_thread(drawing.points, box, MOST)})

    async def quality(self, request: Request) -> Response:
        read_fields(request.scope["query_string"], ())
        return await asyncio.to_thread(self._quality, edition_of(request))

    def _quality(self, edition: ServingSnapshot) -> Response:
        return self._page("quality.html", edition, "quality", **quality(edition, self.public))

    def _map_of(self, shelf: LoadedBundle) -> ItemMap:
        if shelf not in self.maps:
            self.maps[shelf] = ItemMap(shelf)
        return self.maps[shelf]

    def _page(self, template: str, edition: ServingSnapshot, tab: str, **values: Any) -> Response:
        return render(template, edition, tab, self.public, **values)


def add_page(app: FastAPI, *, public: bool) -> None:
    """Put the page on `app`."""
    pages = Pages(public)
    routes = {
        "/": pages.home,
        "/item": pages.item,
        "/compare": pages.compare,
        "/pair": pages.pair,
        "/cart": pages.cart,
        "/map": pages.map,
        "/map/points": pages.points,
        "/quality": pages.quality,
    }
    for path, handler in routes.items():
        app.add_api_route(path, handler, methods=["GET"], include_in_schema=False)


def show_problem(request: Request, problem: Problem) -> Response:
    """A problem as a page that helps."""
    edition = edition_of(request)
    return render("problem.html", edition, "", False, status=problem.status, problem=problem, text="")


def render(
    template: str, edition: ServingSnapshot, tab: str, public: bool, *, status: int = 200, **values: Any
) -> Response:
    """A page; every text in it is escaped."""
    shared = {"edition": edition, "main": edition.main, "tab": tab, "public": public, "footer": FOOTER}
    defaults = {"text": "", "version": __version__, "grades": GRADES}
    text = _templates().get_template(template).render({**defaults, **shared, **values})
    return HTMLResponse(text, status, headers={"cache-control": "no-store"})


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("neatrec", "service/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals |= {"address": address, "grade_names": GRADE_NAMES}
    templates.filters |= {"share": lambda value: unbroken(f"{100 * value:.0f} %"), "unbroken": unbroken}
    return templates


def _searched(fields: dict[str, list[str]]) -> str:
    text = fields.get("q", [""])[0].strip()
    if len(text) > LONGEST_SEARCH or "\0" in text:
        raise bad("q", f"at most {LONGEST_SEARCH} characters, none of them NUL", text)
    return text


def _around(drawing: ItemMap, code: int) -> tuple[float, float, float, float]:
    x, y = drawing.place[code].tolist()
    return x - 0.1, y - 0.1, x + 0.1, y + 0.1


def _box(text: str) -> tuple[float, float, float, float]:
    try:
        left, top, right, bottom = (float(part) for part in text.split(","))
    except ValueError as error:
        raise bad("box", "four numbers: left, top, right, bottom", text) from error
    return left, top, right, bottom
