"""Requests, looked up in a bundle and answered under the rules of the shop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.service.problems import RequestError
from neatrec.service.schemas import CartQuery, ItemFilters, PairFilters, PairsQuery, RequestFilters
from neatrec.service.snapshot import LoadedBundle, ServingSnapshot
from neatrec.serving import Answers, Evidence, Filters, answers_from_category, answers_to
from neatrec.serving.pair_list import PairSelection
from neatrec.text import printable


def filters_of(bundle: LoadedBundle, request: RequestFilters) -> Filters:
    """The filters of a request in codes of the bundle."""
    among = [bundle.in_category(category) for category in request.category]
    excluded = (bundle.code(item) for item in request.exclude)
    explained = isinstance(request, ItemFilters) and request.include is not None
    return Filters(
        k=request.k,
        min_evidence=request.min_evidence,
        among=np.logical_or.reduce(among) if among else None,
        exclude=tuple(code for code in excluded if code is not None),
        same_category=request.same_category,
        diversify=request.diversify,
        include_explained=explained,
        month=request.month if isinstance(request, ItemFilters) else None,
    )


def goes_with(snapshot: ServingSnapshot, code: int, request: RequestFilters) -> Answers:
    """The answers to an item."""
    bundle = snapshot.bundle
    return answers_to(bundle.index, [code], filters_of(bundle, request), snapshot.rules)


def for_new_item(snapshot: ServingSnapshot, category: str, request: RequestFilters) -> Answers:
    """The answers to an item that the bundle does not hold, from a category."""
    bundle = snapshot.bundle
    members, filters = bundle.in_category(category), filters_of(bundle, request)
    answers = answers_from_category(bundle.index, members, filters, snapshot.rules)
    note = f"A new item: answered from its category, {printable(category)}."
    return replace(answers, notes=(note,))


def completes(snapshot: ServingSnapshot, query: CartQuery) -> tuple[Answers, list[str]]:
    """The answers to a cart, where pins and boosts do not act, and a note for each unknown id."""
    bundle = snapshot.bundle
    codes = {item: bundle.code(item) for item in query.items}
    cart = list(dict.fromkeys(code for code in codes.values() if code is not None))
    if not cart:
        bundle.known(query.items[0])
    unknown = [item for item, code in codes.items() if code is None]
    notes = [
        f"{printable(item, 60)} is not in the bundle and was left out." for item in unknown[:5]
    ]
    rules = snapshot.rules._replace(pinned={}, boosted={})
    return answers_to(bundle.index, cart, filters_of(bundle, query), rules), notes


def pair_out(bundle: LoadedBundle, a: int, b: int, evidence: Evidence) -> dict[str, Any]:
    """The evidence card of two items."""
    return {
        "a": bundle.brief(a),
        "b": bundle.brief(b),
        "grade": evidence.grade,
        "strength": evidence.strength,
        "evidence": {"words": evidence.words(suggested=False), **evidence.to_dict()},
    }


MISSING = {
    "new": (
        "no earlier version is there",
        "Serve a store to which `neatrec publish` has published twice.",
    ),
    "revenue": (
        "no prices are known",
        "Train from orders with times and a column of prices (`--price COLUMN`).",
    ),
}
"""Order of pairs that a bundle may lack -> the missing data, and the remedy."""


def pair_filter(bundle: LoadedBundle, query: PairFilters) -> PairSelection:
    """The filter that a caller asks for, looked up in the bundle."""
    if query.sort not in bundle.pairs.orders:
        missing, hint = MISSING[query.sort]
        message = f"`sort` must be one of {', '.join(bundle.pairs.orders)}: {missing}"
        raise RequestError(404, "ParameterError", message, hint=hint, argument="sort")
    left, right = (
        None if name is None else bundle.in_category(name)
        for name in (query.category, query.with_category)
    )
    return PairSelection(left, right, None if query.q is None else bundle.search.holding(query.q))


def page_of_pairs(
    bundle: LoadedBundle, query: PairsQuery
) -> tuple[int, npt.NDArray[np.int64], int | None]:
    """Number of selected pairs, rows of one page, and the number of the next page if any."""
    skip = (query.page - 1) * query.k
    total, rows = bundle.pairs.find(query.sort, pair_filter(bundle, query), skip, query.k)
    return total, rows, query.page + 1 if skip + len(rows) < total and len(rows) else None
