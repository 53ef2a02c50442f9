"""The routes of the API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, get_origin
from urllib.parse import unquote_to_bytes, urlencode

from fastapi import APIRouter, FastAPI, Path, Query, Request
from fastapi.responses import Response, StreamingResponse
from fastapi.routing import APIRoute
from pydantic import ValidationError

from neatrec._version import __version__
from neatrec.service import schemas
from neatrec.service.answers import completes, explained_by, for_new_item, goes_with
from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.metrics import Metrics
from neatrec.service.problems import Problem, bad, invalid, refused
from neatrec.service.render import cart_out, complements_out, dumps, pair_filter, pair_out, pairs_out
from neatrec.service.schemas import error_responses
from neatrec.service.settings import MAX_QUERY_STRING
from neatrec.service.snapshot import Rendered, ServingSnapshot
from neatrec.service.views import coverage_of
from neatrec.serving import table_words
from neatrec.serving.answers import TableUsedUp
from neatrec.serving.evidence import CERTAIN, LIKELY

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class CheckedRoute(APIRoute):
    """A route that refuses what FastAPI would accept: long query strings, bytes that are not UTF-8, and a parameter
    given twice of which only the last would count."""

    takes_blanks = True
    """Whether a parameter without a text counts as given."""

    def query_model(self) -> tuple[Any, set[str]]:
        """The model of the query string, and its parameters that may be repeated."""
        models: list[Any] = [field.field_info.annotation for field in self.dependant.query_params]
        fields = models[0].model_fields if models else {}
        return models[0] if models else None, {n for n, info in fields.items() if get_origin(info.annotation) is list}

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        _, repeatable = self.query_model()

        async def checked(request: Request) -> Response:
            check_query_string(request, repeatable)
            return await handle(request if self.takes_blanks else without_blanks(request))

        return checked


class FastRoute(CheckedRoute):
    """A route whose handler takes the request and a query model, validated without FastAPI's dependency solver: that
    takes 0.15 ms per request, a third of an answer. OpenAPI and errors are the same."""

    def get_route_handler(self) -> Handler:
        handle: Any = self.dependant.call
        model, repeatable = self.query_model()

        async def checked(request: Request) -> Response:
            check_query_string(request, repeatable)
            given = request.query_params
            values = {name: given.getlist(name) if name in repeatable else value for name, value in given.items()}
            try:
                query = model.model_validate(values)
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
                raise invalid({**first, "loc": ("query", *first["loc"])}) from error
            answer: Response = await handle(request, query)
            return answer

        return checked


def check_query_string(request: Request, repeatable: set[str]) -> None:
    query_string: bytes = request.scope["query_string"]
    if len(query_string) > MAX_QUERY_STRING:
        raise refused(414)
    try:
        if not query_string.isascii():
            raise ValueError
        if b"%" in query_string:
            unquote_to_bytes(query_string).decode("utf-8")
    except ValueError as error:
        raise Problem(422, "ParameterError", "the query string is not UTF-8") from error
    given = request.query_params
    if len(given) == query_string.count(b"&") + 1:
        return
    for name in given:
        values = given.getlist(name)
        if len(values) > 1 and name not in repeatable:
            raise bad(name, "given once", values[:3])


def without_blanks(request: Request) -> Request:
    kept = [(name, value) for name, value in request.query_params.multi_items() if value.strip()]
    return Request({**request.scope, "query_string": urlencode(kept).encode()}, request.receive)


class Api:
    """Handlers. Each takes the snapshot of its request, so that no answer mixes two versions."""

    def __init__(self, metrics: Metrics, public: bool) -> None:
        self.metrics, self.public = metrics, public

    async def complements(self, request: Request, query: Annotated[schemas.ItemQuery, Query()]) -> Response:
        """What goes with an item, the best first, with the evidence."""
        snapshot, key = snapshot_of(request), request.scope["query_string"]
        answer = snapshot.cache.get(key)
        if answer is None:
            answer = await self._complements(snapshot, query.item, query)
            snapshot.cache.put(key, answer, len(key) + len(answer.body) + 400)  # bytes in memory, about
        return self._send(answer)

    async def complements_of(
        self, request: Request, item: Annotated[schemas.Id, Path()], query: Annotated[schemas.AnyItemFilters, Query()]
    ) -> Response:
        """What goes with the item of the path; a slash in its id needs no escaping."""
        return self._send(await self._complements(snapshot_of(request), item, query))

    async def _complements(self, snapshot: ServingSnapshot, item: str, filters: schemas.AnyItemFilters) -> Rendered:
        bundle = snapshot.bundle(filters.model)
        code = bundle.code(item)
        if code is None and filters.category_of is not None:
            answered = await asyncio.to_thread(for_new_item, snapshot, bundle, filters.category_of, filters)
            query = {"id": item, "name": item, "category": [filters.category_of]}
            return complements_out(answered, query, self.public)
        if code is None:
            self._count_unknown(bundle, [item])
            code = await asyncio.to_thread(bundle.known, item)
        found = None
        if not filters.category:  # looking up a caller's categories takes time: not on the event loop
            with suppress(TableUsedUp):
                found = goes_with(snapshot, bundle, code, filters, exact=False)
        if found is None:
            found = await asyncio.to_thread(goes_with, snapshot, bundle, code, filters)
        if filters.include or filters.month:
            listed = await asyncio.to_thread(explained_by, bundle, snapshot.rules[bundle.name], code, filters)
            found = replace(found, explained=listed)
        return complements_out(found, bundle.brief(code), self.public)

    async def cart(self, request: Request, cart: schemas.CartQuery, _: Annotated[schemas.NoQuery, Query()]) -> Response:
        """What completes a cart. Items of the cart and of its categories are left out."""
        snapshot = snapshot_of(request)
        bundle = snapshot.bundle(cart.model)
        self._count_unknown(bundle, cart.items)
        answered = await asyncio.to_thread(completes, snapshot, bundle, cart)
        return self._send(cart_out(answered, self.public))

    async def pairs(self, request: Request, query: Annotated[schemas.PairsQuery, Query()]) -> Response:
        """All pairs with evidence: sorted, filtered, in pages."""
        bundle = snapshot_of(request).bundle(query.model)
        return Response(await asyncio.to_thread(pairs_out, bundle, query, self.public), media_type="application/json")

    async def pairs_csv(self, request: Request, query: Annotated[schemas.PairFilters, Query()]) -> Response:
        """All pairs that fit, as a CSV file."""
        bundle = snapshot_of(request).bundle(query.model)
        chosen = await asyncio.to_thread(pair_filter, bundle, query)
        pieces = bundle.pairs.csv(query.sort, chosen, self.public)
        headers = {"content-disposition": 'attachment; filename="pairs.csv"'}
        return StreamingResponse(pieces, media_type="text/csv; charset=utf-8", headers=headers)

    async def pair(self, request: Request, query: Annotated[schemas.PairQuery, Query()]) -> Response:
        """The evidence of the training baskets for two items."""
        bundle = snapshot_of(request).bundle(query.model)
        self._count_unknown(bundle, [query.a, query.b])

        def render() -> bytes:
            return pair_out(bundle, bundle.known(query.a), bundle.known(query.b), self.public)

        return Response(await asyncio.to_thread(render), media_type="application/json")

    async def items(self, request: Request, query: Annotated[schemas.SearchQuery, Query()]) -> Response:
        """Items by name; typos are forgiven."""
        bundle = snapshot_of(request).main
        found = await asyncio.to_thread(find, bundle, query.q, query.k)
        items = [{**self._item(bundle, code), "exact": exact} for code, exact in found]
        return json_response({"bundle": bundle.version, "q": query.q, "items": items})

    async def item(
        self, request: Request, item: Annotated[schemas.Id, Path()], _: Annotated[schemas.NoQuery, Query()]
    ) -> Response:
        """One item, and how many pairs with evidence it has."""
        bundle = snapshot_of(request).main
        self._count_unknown(bundle, [item])
        code = await asyncio.to_thread(bundle.known, item)
        certain, likely = (len(bundle.index.evident_with(code, level)) for level in (CERTAIN, LIKELY))
        facts = {
            "variants": bundle.variants_of(code),
            "certain": certain,
            "likely": likely - certain,
            "explained": len(bundle.index.explained_with(code)),
        }
        return json_response({"bundle": bundle.version, **self._item(bundle, code), **facts})

    def _item(self, bundle: LoadedBundle, code: int) -> dict[str, Any]:
        return {**bundle.brief(code), **({} if self.public else {"count": bundle.count[code]})}

    async def model(self, request: Request, _: Annotated[schemas.NoQuery, Query()]) -> Any:
        """Which models answer, from which bundles, and for how much of the shop they have evidence."""
        snapshot = snapshot_of(request)
        models = await asyncio.to_thread(lambda: [served(bundle, self.public) for bundle in snapshot.bundles.values()])
        return {"bundle": snapshot.main.version, "models": models, "version": __version__, "public": self.public}

    async def healthz(self) -> Any:
        """The process answers."""
        return {"status": "ok"}

    async def readyz(self, request: Request) -> Any:
        """A verified bundle is open; `refusal` says why the one that should be live is not."""
        snapshot = snapshot_of(request)
        refusal = {} if snapshot.refusal is None else {"refusal": "damaged" if self.public else snapshot.refusal}
        return {"status": "ok", "bundle": snapshot.main.version, **refusal}

    async def prometheus(self) -> Response:
        """Counters for Prometheus, by bundle version."""
        return Response(await asyncio.to_thread(self.metrics.text), media_type="text/plain; version=0.0.4")

    def _count_unknown(self, bundle: LoadedBundle, items: list[str]) -> None:
        """Each item of a request that the bundle does not hold."""
        if unknown := sum(bundle.code(item) is None for item in set(items)):
            self.metrics.unknown.labels(bundle.short).inc(unknown)

    def _send(self, answer: Rendered) -> Response:
        for grade, count in answer.grades.items():
            self.metrics.answers.labels(grade, answer.version).inc(count)
        if not answer.grades:
            self.metrics.empty.labels(answer.version).inc()
        if answer.is_short:
            self.metrics.short.labels(answer.version).inc()
        for action in answer.rule_hits:
            self.metrics.rule_hits.labels(action, answer.version).inc()
        return Response(answer.body, media_type="application/json")


def add_api(app: FastAPI, metrics: Metrics, *, public: bool) -> None:
    api = Api(metrics, public)
    router = APIRouter(route_class=CheckedRoute, tags=["api"])

    def add(path: str, handler: Any, shape: Any, *errors: int, **options: Any) -> None:
        options = {"methods": ["GET"], "response_model_exclude_unset": True, **options}
        router.add_api_route(path, handler, response_model=shape, responses=error_responses(*errors), **options)

    common = (401, 404, 414, 422, 503)
    add("/v1/complements", api.complements, schemas.Complements, *common, route_class_override=FastRoute)
    add("/v1/items/{item:path}/complements", api.complements_of, schemas.Complements, *common)
    add("/v1/cart/complements", api.cart, schemas.CartComplements, 401, 404, 408, 413, 422, 503, methods=["POST"])
    add("/v1/items/{item:path}", api.item, schemas.ItemOut, *common)
    add("/v1/pair", api.pair, schemas.Pair, *common)
    add("/v1/pairs", api.pairs, schemas.PairsOut, *common)
    file: dict[int | str, Any] = {200: {"content": {"text/csv": {"schema": {"type": "string"}}}}}
    router.add_api_route(
        "/v1/pairs.csv", api.pairs_csv, responses=file | error_responses(*common), response_class=StreamingResponse
    )
    add("/v1/items", api.items, schemas.SearchResults, 401, 414, 422, 503)
    add("/v1/model", api.model, schemas.ModelOut, 401, 422, 503)
    add("/healthz", api.healthz, schemas.Health)
    add("/readyz", api.readyz, schemas.Health)
    router.add_api_route("/metrics", api.prometheus, methods=["GET"], include_in_schema=False)
    app.include_router(router)


def snapshot_of(request: Request) -> ServingSnapshot:
    """What this request answers from."""
    snapshot: ServingSnapshot = request.scope["neatrec"]
    return snapshot


def json_response(answer: Any) -> Response:
    return Response(dumps(answer), media_type="application/json")


def find(bundle: LoadedBundle, text: str, k: int) -> list[tuple[int, bool]]:
    """Codes of items by id or by name, and whether the words stand in it; similar names come last."""
    code = bundle.code(text)
    found = bundle.search.hits(text, k)
    return found if code is None else [(code, True), *(hit for hit in found if hit[0] != code)][:k]


def served(bundle: LoadedBundle, public: bool) -> dict[str, Any]:
    manifest, recall = bundle.index.manifest, bundle.index.recall
    if recall is not None:  # in a small shop the sample would reveal the number of items
        recall = {"first": recall["first"], "all": recall["all"], "sample": None if public else recall["sample"]}
    return {
        "name": bundle.name,
        "kind": manifest.kind,
        "bundle": bundle.version,
        "created": manifest.created,
        "items": None if public else manifest.items,
        "k": bundle.index.k,
        "goals": list(bundle.index.goals),
        "table": table_words(bundle.index.recall, public),
        "recall": recall,
        "strata": list(bundle.index.pairs.strata),
        "evidence": bundle.index.pairs.words(),
        "coverage": coverage_of(bundle, public),
    }
