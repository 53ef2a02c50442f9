"""Answers as JSON values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.problems import Problem
from neatrec.service.schemas import PairFilters, PairsQuery
from neatrec.serving import Evidence
from neatrec.serving.pair_list import PairSelection


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
"""Order of pairs that a bundle may lack -> what is missing, and what to do about it."""


def pair_filter(bundle: LoadedBundle, query: PairFilters) -> PairSelection:
    """What a caller asked for, looked up in the bundle."""
    if query.sort not in bundle.pairs.orders:
        missing, hint = MISSING[query.sort]
        message = f"`sort` must be one of {', '.join(bundle.pairs.orders)}: {missing}"
        raise Problem(404, "ParameterError", message, hint=hint, argument="sort")
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
