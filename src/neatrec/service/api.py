"""The routes of the API."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request, Security
from fastapi.responses import Response, StreamingResponse
from fastapi.security import APIKeyHeader, HTTPBearer
from pydantic_core import to_json

from neatrec._version import __version__
from neatrec.service import schemas
from neatrec.service.answers import (
    completes,
    for_new_item,
    goes_with,
    page_of_pairs,
    pair_filter,
    pair_out,
)
from neatrec.service.metrics import Metrics
from neatrec.service.problems import bad
from neatrec.service.schemas import error_responses
from neatrec.service.snapshot import LoadedBundle, ServingSnapshot
from neatrec.serving import FOOTER
from neatrec.serving.evidence import CERTAIN, LIKELY


class Api:
    """Handlers; each answers from the snapshot of its request, so that none mixes two versions."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics

    async def complements(
        self, request: Request, query: Annotated[schemas.ItemQuery, Query()]
    ) -> Response:
        """The complements of an item, the best first, with their evidence."""
        snapshot = snapshot_of(request)
        code = snapshot.bundle.code(query.item)
        if code is not None and query.is_plain:  # by the table alone: a thread would cost as much
            return self._complements(snapshot, code, query)
        return await asyncio.to_thread(self._complements, snapshot, code, query)

    def _complements(
        self, snapshot: ServingSnapshot, code: int | None, query: schemas.ItemQuery
    ) -> Response:
        bundle = snapshot.bundle
        if code is None and query.category_of is not None:
            answers = for_new_item(snapshot, query.category_of, query)
            item = {"id": query.item, "name": query.item, "category": [query.category_of]}
        else:
            code = bundle.known(query.item)
            answers, item = goes_with(snapshot, code, query), bundle.brief(code)
        answer = {
            **head(bundle),
            "query": item,
            "complements": answers.rows(),
            "notes": answers.notes,
            "footer": FOOTER,
        }
        if answers.explained is not None:
            answer["explained"] = answers.explained_rows()
        self.metrics.count(bundle.short, answers)
        return json_response(answer)

    def cart(
        self,
        request: Request,
        cart: schemas.CartQuery,
        query: Annotated[schemas.NoQuery, Query()],
    ) -> Response:
        """The complements of a cart, the best first, each with the items that it goes with."""
        snapshot = snapshot_of(request)
        bundle = snapshot.bundle
        answers, notes = completes(snapshot, cart)
        self.metrics.unknown.labels(bundle.short).inc(len(notes))
        answer = {
            **head(bundle),
            "cart": [bundle.brief(code) for code in answers.cart],
            "complements": answers.rows(),
            "notes": [*notes, *answers.notes],
            "footer": FOOTER,
        }
        self.metrics.count(bundle.short, answers)
        return json_response(answer)

    def pairs(self, request: Request, query: Annotated[schemas.PairsQuery, Query()]) -> Response:
        """All pairs with evidence: sorted, filtered, in pages."""
        bundle = snapshot_of(request).bundle
        total, rows, next_page = page_of_pairs(bundle, query)
        pairs = [pair_out(bundle, *pair) for pair in bundle.pairs.evidence(rows)]
        for row, pair in zip(rows, pairs, strict=True):
            pair["new"] = None if bundle.pairs.is_new is None else bool(bundle.pairs.is_new[row])
        page = {"total": total, "page": query.page, "next_page": next_page}
        return json_response({**head(bundle), **page, "pairs": pairs, "footer": FOOTER})

    def pairs_csv(
        self, request: Request, query: Annotated[schemas.PairFilters, Query()]
    ) -> Response:
        """All pairs that fit, as a CSV file."""
        bundle = snapshot_of(request).bundle
        pieces = bundle.pairs.csv(query.sort, pair_filter(bundle, query))
        headers = {"content-disposition": 'attachment; filename="pairs.csv"'}
        return StreamingResponse(pieces, media_type="text/csv; charset=utf-8", headers=headers)

    def pair(self, request: Request, query: Annotated[schemas.PairQuery, Query()]) -> Response:
        """The evidence of the training baskets for two items."""
        bundle = snapshot_of(request).bundle
        a, b = bundle.known(query.a), bundle.known(query.b)
        pair = pair_out(bundle, a, b, bundle.index.evidence(a, b))
        return json_response({**head(bundle), **pair, "footer": FOOTER})

    def items(self, request: Request, query: Annotated[schemas.SearchQuery, Query()]) -> Response:
        """Items by name; typos are forgiven."""
        bundle = snapshot_of(request).bundle
        items = [
            {**item_out(bundle, code), "exact": exact}
            for code, exact in find(bundle, query.q, query.k)
        ]
        return json_response({"bundle": bundle.version, "q": query.q, "items": items})

    def item(
        self,
        request: Request,
        query: Annotated[schemas.NoQuery, Query()],
        item: Annotated[schemas.Id, Path()],
    ) -> Response:
        """One item, and how many pairs with evidence it has."""
        bundle = snapshot_of(request).bundle
        code = bundle.known(item)
        certain, likely = (len(bundle.index.items_of(code, level)) for level in (CERTAIN, LIKELY))
        facts = {
            "variants": bundle.variants_of(code),
            "certain": certain,
            "likely": likely - certain,
            "explained": len(bundle.index.explained_with(code)),
        }
        return json_response({"bundle": bundle.version, **item_out(bundle, code), **facts})

    def model(self, request: Request, query: Annotated[schemas.NoQuery, Query()]) -> Response:
        """Which model answers, from which bundle, and for how much of the shop it has evidence."""
        bundle = snapshot_of(request).bundle
        manifest = bundle.index.manifest
        facts = {
            "bundle": bundle.version,
            "model": bundle.name,
            "kind": manifest.kind,
            "created": manifest.created,
            "items": manifest.items,
            "k": bundle.index.k,
            "strata": list(bundle.index.pairs.strata),
            "evidence": bundle.index.pairs.words(),
            "coverage": bundle.index.coverage(),
            "version": __version__,
        }
        return json_response(facts)

    async def healthz(self, request: Request) -> Response:
        """The process answers."""
        return json_response({"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """A verified bundle is open; `refusal` says why the one that should be live is not."""
        snapshot = snapshot_of(request)
        refusal = {} if snapshot.refusal is None else {"refusal": snapshot.refusal}
        return json_response({"status": "ok", "bundle": snapshot.bundle.version, **refusal})

    def prometheus(self, request: Request) -> Response:
        """Counters for Prometheus, by bundle version."""
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")


KEY_SCHEMES = (
    HTTPBearer(scheme_name="bearer", auto_error=False),
    APIKeyHeader(name="X-API-Key", scheme_name="header", auto_error=False),
)
"""For OpenAPI: how a key is sent. The middleware checks it."""


REPEATABLE = ("category", "exclude")


async def refuse_repeated(request: Request) -> None:
    """Refuse a parameter that is given twice: FastAPI would read the last one alone."""
    for name in request.query_params:
        texts = request.query_params.getlist(name)
        if len(texts) > 1 and name not in REPEATABLE:
            raise bad(name, "given once", texts[:3])


def add_api(app: FastAPI, metrics: Metrics, *, needs_key: bool) -> None:
    """Add the routes of the API."""
    api = Api(metrics)
    schemes = [Security(each) for each in KEY_SCHEMES] if needs_key else []
    router = APIRouter(tags=["api"], dependencies=[Depends(refuse_repeated), *schemes])
    common, posted = (401, 404, 414, 422, 503), (401, 404, 408, 413, 422, 503)
    for path, handler, shape, errors in (
        ("/v1/complements", api.complements, schemas.Complements, common),
        ("/v1/cart/complements", api.cart, schemas.CartComplements, posted),
        ("/v1/items/{item:path}", api.item, schemas.ItemOut, common),
        ("/v1/pair", api.pair, schemas.Pair, common),
        ("/v1/pairs", api.pairs, schemas.PairsOut, common),
        ("/v1/items", api.items, schemas.SearchResults, (401, 414, 422, 503)),
        ("/v1/model", api.model, schemas.ModelOut, (401, 422, 503)),
    ):
        router.add_api_route(
            path,
            handler,
            methods=["POST" if errors is posted else "GET"],
            response_model=shape,
            responses=error_responses(*errors),
        )
    text: dict[str, Any] = {"content": {"text/csv": {"schema": {"type": "string"}}}}
    router.add_api_route(
        "/v1/pairs.csv",
        api.pairs_csv,
        response_class=StreamingResponse,
        responses={200: text, **error_responses(*common)},
    )
    router.add_api_route("/metrics", api.prometheus, include_in_schema=False)
    app.include_router(router)
    for path, probe in (("/healthz", api.healthz), ("/readyz", api.readyz)):
        app.add_api_route(path, probe, response_model=schemas.Health, tags=["api"])


def snapshot_of(request: Request) -> ServingSnapshot:
    """The snapshot that this request is answered from."""
    snapshot: ServingSnapshot = request.scope["neatrec"]
    return snapshot


def json_response(answer: Any) -> Response:
    """An answer in JSON; non-finite numbers are null."""
    return Response(to_json(answer, inf_nan_mode="null"), media_type="application/json")


def head(bundle: LoadedBundle) -> dict[str, Any]:
    """The beginning of every answer of a model."""
    return {"bundle": bundle.version, "model": bundle.name}


def item_out(bundle: LoadedBundle, code: int) -> dict[str, Any]:
    """An item with its count."""
    return {**bundle.brief(code), "count": bundle.count[code]}


def find(bundle: LoadedBundle, text: str, k: int) -> list[tuple[int, bool]]:
    """Codes of items by id or name, and whether the name holds the words; similar ones are last."""
    code = bundle.code(text)
    found = bundle.search.hits(text, k)
    return found if code is None else [(code, True), *(hit for hit in found if hit[0] != code)][:k]
