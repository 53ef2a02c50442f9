"""The routes of the API."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import ValidationError
from starlette.requests import ClientDisconnect

from neatrec._version import __version__
from neatrec.service import schemas as shapes
from neatrec.service.answers import for_new_item, goes_with
from neatrec.service.cart import completes
from neatrec.service.limits import BODY_SECONDS, LARGEST_BODY, LONGEST_SEARCH, MOST_K
from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.metrics import Metrics
from neatrec.service.openapi import JSON, responses
from neatrec.service.problems import Problem, gone, too_large, too_slow
from neatrec.service.quality import coverage_of
from neatrec.service.query_params import (
    FILTERS,
    LISTS,
    QueryParams,
    needed,
    read_fields,
    read_k,
    read_question,
    read_search,
    read_text,
)
from neatrec.service.render import cart_out, complements_out, dumps, evidence_out, number
from neatrec.service.snapshot import Rendered, ServingSnapshot
from neatrec.serving import FOOTER, table_words


class Api:
    """Handlers. Each takes the edition of its request, so that nothing it says mixes two versions."""

    def __init__(self, metrics: Metrics, public: bool) -> None:
        self.metrics, self.public = metrics, public

    async def complements(self, request: Request) -> Response:
        """What goes with an item, the best first, with the evidence."""
        edition, query_string = edition_of(request), request.scope["query_string"]
        kept = edition.cache.get(query_string)
        if kept is None:
            fields = read_fields(query_string, ("item", *FILTERS), LISTS)
            kept = await self._complements(edition, needed(fields, "item"), read_question(fields))
            edition.cache.put(query_string, kept)
        return self._sent(kept)

    async def complements_of(self, request: Request) -> Response:
        """What goes with the item of the path; a slash in its id needs no care."""
        edition, item = edition_of(request), read_text("item", request.path_params["item"])
        question = read_question(read_fields(request.scope["query_string"], FILTERS, LISTS))
        return self._sent(await self._complements(edition, item, question))

    async def _complements(self, edition: ServingSnapshot, item: str, question: QueryParams) -> Rendered:
        shelf = edition.shelf(question.model)
        code = shelf.code(item)
        if code is None and question.category_of is not None:
            answered = await asyncio.to_thread(for_new_item, edition, shelf, question)
            query = {"id": item, "name": item, "category": [question.category_of]}
            return complements_out(answered, query, self.public)
        if code is None:
            self._count_unknown(shelf, [item])
            code = await asyncio.to_thread(shelf.known, item)
        # categories are looked up by what the caller calls them: not on the event loop
        found = None if question.category else goes_with(edition, shelf, code, question, exact=False)
        if found is None:
            found = await asyncio.to_thread(goes_with, edition, shelf, code, question, exact=True)
        if found is None:
            raise Problem(500, "Fault", "no answer was found")
        return complements_out(found, shelf.brief(code), self.public)

    async def cart(self, request: Request) -> Response:
        """What completes a cart. Items of the cart and of its categories are not named."""
        edition = edition_of(request)
        read_fields(request.scope["query_string"], ())
        asked = read_cart(await body_of(request))
        question = QueryParams(
            asked.k, tuple(asked.category), tuple(asked.exclude), asked.min_evidence, asked.diversify, asked.model
        )
        shelf = edition.shelf(question.model)
        self._count_unknown(shelf, asked.items)
        answered = await asyncio.to_thread(completes, edition, shelf, asked.items, question)
        return self._sent(cart_out(answered, self.public))

    async def pairs(self, request: Request) -> Response:
        """What the training baskets say about two items."""
        fields = read_fields(request.scope["query_string"], ("a", "b", "model"))
        shelf = edition_of(request).shelf(read_text("model", fields["model"][0]) if "model" in fields else None)
        asked = [needed(fields, name) for name in ("a", "b")]
        self._count_unknown(shelf, asked)
        return json_response(await asyncio.to_thread(self._pair, shelf, *asked))

    def _pair(self, shelf: LoadedBundle, one: str, other: str) -> dict[str, Any]:
        a, b = shelf.known(one), shelf.known(other)
        evidence = shelf.index.evidence(a, b)
        score = None if self.public else number(float(shelf.index.model.score([a], [b])[0]))
        return {
            "bundle": shelf.version,
            "model": shelf.name,
            "a": shelf.brief(a),
            "b": shelf.brief(b),
            "score": score,
            "grade": evidence.grade,
            "evidence": evidence_out(evidence, self.public),
            "footer": FOOTER,
        }

    async def items(self, request: Request) -> Response:
        """Items by name; typos are forgiven."""
        fields = read_fields(request.scope["query_string"], ("q", "k"))
        text, k = read_search(fields), read_k(fields["k"][0]) if "k" in fields else 10
        shelf = edition_of(request).main
        found = await asyncio.to_thread(find, shelf, text, k)
        counts = [{} if self.public else {"count": shelf.count[code]} for code in found]
        items = [{**shelf.brief(code), **count} for code, count in zip(found, counts, strict=True)]
        return json_response({"bundle": shelf.version, "q": text, "items": items})

    async def model(self, request: Request) -> Response:
        """Which models answer, from which bundles, and for how much of the shop they have evidence."""
        read_fields(request.scope["query_string"], ())
        edition = edition_of(request)
        models = await asyncio.to_thread(lambda: [served(shelf, self.public) for shelf in edition.shelves.values()])
        answer = {"bundle": edition.main.version, "models": models, "version": __version__, "public": self.public}
        return json_response(answer)

    async def healthz(self) -> Response:
        """The process answers."""
        return json_response({"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """A verified bundle is open."""
        return json_response({"status": "ok", "bundle": edition_of(request).main.version})

    async def prometheus(self) -> Response:
        """Counters for Prometheus, by bundle version."""
        return Response(await asyncio.to_thread(self.metrics.text), media_type="text/plain; version=0.0.4")

    def _count_unknown(self, shelf: LoadedBundle, items: list[str]) -> None:
        """Each item of a request that the bundle does not hold."""
        if unknown := sum(shelf.code(item) is None for item in set(items)):
            self.metrics.unknown.labels(shelf.short).inc(unknown)

    def _sent(self, answer: Rendered) -> Response:
        for grade, count in answer.grades:
            self.metrics.answers.labels(grade, answer.version).inc(count)
        if answer.empty:
            self.metrics.empty.labels(answer.version).inc()
        if answer.short:
            self.metrics.short.labels(answer.version).inc()
        for action in answer.rules:
            self.metrics.rule_hits.labels(action, answer.version).inc()
        return Response(answer.body, media_type=JSON)


def add_api(app: FastAPI, metrics: Metrics, *, public: bool) -> None:
    """Put the routes on `app`."""
    api = Api(metrics, public)
    filters = shapes.FILTERS
    item = shapes.parameter("item", shapes.ID, "Id of the item, or of one of its variants.", required=True)
    pair = [shapes.parameter(name, shapes.ID, "Id of an item.", required=True) for name in ("a", "b")]
    search = {"type": "string", "minLength": 1, "maxLength": LONGEST_SEARCH, "pattern": r"^[^\x00]*[^\s\x00][^\x00]*$"}
    q = shapes.parameter("q", search, "What people call it.", required=True)
    k = shapes.parameter("k", {"type": "integer", "minimum": 1, "maximum": MOST_K, "default": 10}, "How many.")
    path_item = {"name": "item", "in": "path", "required": True, "schema": shapes.ID}
    body = {"required": True, "content": {JSON: {"schema": shapes.Cart.model_json_schema()}}}

    def get(path: str, handler: Any, shape: Any, parameters: list[dict[str, Any]], errors: tuple[int, ...]) -> None:
        extra = {"parameters": parameters} if parameters else {}
        said = responses(shape, errors)
        app.add_api_route(path, handler, methods=["GET"], responses=said, openapi_extra=extra, tags=["api"])

    common = (401, 404, 414, 421, 422, 503)
    get("/v1/complements", api.complements, shapes.Complements, [item, *filters], common)
    get("/v1/items/{item:path}/complements", api.complements_of, shapes.Complements, [path_item, *filters], common)
    get("/v1/pairs", api.pairs, shapes.Pair, [*pair, shapes.MODEL], common)
    get("/v1/items", api.items, shapes.SearchResults, [q, k], (401, 414, 421, 422, 503))
    get("/v1/model", api.model, shapes.ModelOut, [], (401, 421, 422, 503))
    get("/healthz", api.healthz, shapes.Health, [], ())
    get("/readyz", api.readyz, shapes.Health, [], ())
    app.add_api_route(
        "/v1/cart/complements",
        api.cart,
        methods=["POST"],
        responses=responses(shapes.CartComplements, (401, 404, 408, 413, 421, 422, 503)),
        openapi_extra={"requestBody": body},
        tags=["api"],
    )
    app.add_api_route("/metrics", api.prometheus, methods=["GET"], include_in_schema=False)


def edition_of(request: Request) -> ServingSnapshot:
    """What this request answers from."""
    edition: ServingSnapshot = request.scope["neatrec"]
    return edition


def json_response(answer: Any) -> Response:
    return Response(dumps(answer), media_type=JSON)


def find(shelf: LoadedBundle, text: str, k: int) -> list[int]:
    """Codes of items by id or by name."""
    code = shelf.code(text)
    found = shelf.search.find(text, k)
    return found if code is None else [code, *(other for other in found if other != code)][:k]


def recall_out(recall: dict[str, Any] | None, public: bool) -> dict[str, Any] | None:
    """What an approximate table has of the exact one; in a small shop the sample would tell the number of items."""
    if recall is None:
        return None
    return {"first": recall["first"], "all": recall["all"], "sample": None if public else recall["sample"]}


def served(shelf: LoadedBundle, public: bool) -> dict[str, Any]:
    manifest = shelf.index.manifest
    return {
        "name": shelf.name,
        "kind": manifest.kind,
        "bundle": shelf.version,
        "created": manifest.created,
        "items": None if public else manifest.items,
        "k": shelf.index.k,
        "table": table_words(shelf.index.recall, public),
        "recall": recall_out(shelf.index.recall, public),
        "coverage": coverage_of(shelf, public),
    }


async def body_of(request: Request) -> bytes:
    """The body, as long as it is neither too large nor too slow; a length that was not told is counted."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _read_body(request)
    except TimeoutError as error:
        raise too_slow(BODY_SECONDS) from error
    except ClientDisconnect as error:
        raise gone() from error


async def _read_body(request: Request) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > LARGEST_BODY:
            raise too_large(LARGEST_BODY)
        parts.append(part)
    return b"".join(parts)


def read_cart(body: bytes) -> shapes.Cart:
    """The cart in a body, or a problem that says which entry is wrong."""
    try:
        return shapes.Cart.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        message = f"`{where}` is wrong: {first['msg']}" if where else f"the body is wrong: {first['msg']}"
        raise Problem(422, "ParameterError", message[:300], hint='For example {"items": ["id"], "k": 5}.') from error
