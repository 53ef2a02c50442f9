"""Which answers a question asks for, the rules of a shop, and the items that both allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neatrec.data.catalog import UNKNOWN, of_categories
from neatrec.errors import must_be_one_of, require_whole
from neatrec.serving.evidence import GRADES, GUESS, LIKELY
from neatrec.serving.files import SAME_CATEGORY
from neatrec.serving.table import PairTable

Mask = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int32]

LEVELS = ("certain", "likely", "guess", "category")
"""Values of `min_evidence`, the strictest first. A rule of the shop needs no evidence."""


@dataclass(frozen=True)
class Filters:
    """Which answers a question asks for."""

    k: int = 10
    min_evidence: str | None = None
    """One of `LEVELS`; None: `likely`, and for an item that nobody has bought its category."""
    among: Mask | None = None
    """The items that may be answers, shape (items,); None: all."""
    exclude: tuple[int, ...] = ()
    """Codes of items that may not."""
    same_category: str | None = None
    """One of `SAME_CATEGORY`; None: as the table was trained."""
    diversify: bool = False
    """At most one answer per category."""
    include_explained: bool = False
    """Also list what season, store or basket size explain."""
    month: int | None = None
    """List only pairs in season in this month, from 1."""

    def __post_init__(self) -> None:
        require_whole("k", self.k)
        if self.month is not None:
            require_whole("month", self.month, 1, 12)
        if self.min_evidence is not None and self.min_evidence not in LEVELS:
            raise must_be_one_of("min_evidence", LEVELS, self.min_evidence)
        if self.same_category not in (None, *SAME_CATEGORY):
            raise must_be_one_of("same_category", SAME_CATEGORY, self.same_category)

    @property
    def level(self) -> int:
        """The number of the grade that a pair must have at least."""
        if self.min_evidence is None:
            return LIKELY
        return min(GRADES.index(self.min_evidence), GUESS)

    @property
    def by_category(self) -> bool:
        """Whether an item that nobody has bought is answered from its category."""
        return self.min_evidence in (None, "category")


EVERY_ITEM = -1
"""Stands for all queries in a rule."""


class ShopRules(NamedTuple):
    """The shop's own rules in the codes of one table."""

    blocked: Mapping[int, frozenset[int]] = {}
    """Query -> items that are never answers."""
    pinned: Mapping[int, tuple[tuple[int, int], ...]] = {}
    """Query -> (position, item), by position."""
    boosted: Mapping[int, Mapping[int, int]] = {}
    """Query -> item -> positions that it moves up."""
    available: Mask | None = None
    """The items that may be answers, shape (items,); None: all."""

    def hidden(self, query: int) -> frozenset[int]:
        """Items that are never answers to `query`."""
        nothing = frozenset[int]()
        return self.blocked.get(EVERY_ITEM, nothing) | self.blocked.get(query, nothing)

    def boosts(self, query: int) -> Mapping[int, int]:
        """Item -> positions that it moves up among the answers to `query`."""
        return {**self.boosted.get(EVERY_ITEM, {}), **self.boosted.get(query, {})}


class Question:
    """The items that may still answer a question, under its filters and the rules of a shop."""

    def __init__(
        self, table: PairTable, cart: Sequence[int], filters: Filters, rules: ShopRules | None
    ) -> None:
        self.table, self.cart, self.filters = table, list(cart), filters
        self.rules = ShopRules() if rules is None else rules
        self.same_category = filters.same_category or table.same_category
        self.category = table.pairs.category
        self.own = self.category[self.cart]
        """The categories of the items asked for."""
        self.allowed, self.blocked = np.ones(len(table), np.bool_), np.zeros(len(table), np.bool_)
        self.allowed[[*self.cart, *filters.exclude]] = False
        for mask in (filters.among, self.rules.available):
            if mask is not None:
                self.allowed &= mask
        for query in cart or [EVERY_ITEM]:
            self.blocked[list(self.rules.hidden(query))] = True
        self.block_hit = False
        """Whether a blocked item would have been an answer."""

    def is_own(self, codes: Codes) -> Mask:
        """Which of some items share a category with the question."""
        category = self.category[codes]
        own: Mask = np.isin(category, self.own) & (category != UNKNOWN)
        return own

    def scorable(self) -> Mask:
        """The bought items of other categories that a model may score, blocked ones too."""
        own = of_categories(self.category, self.own)
        allowed: Mask = self.allowed & ~own & (self.table.item_count > 0)
        return allowed

    def pick(self, codes: Codes, k: int) -> npt.NDArray[np.intp]:
        """The positions of the first `k` items that may be answers; none is picked again."""
        allowed, blocked = self.allowed[codes], self.blocked[codes]
        positions = np.flatnonzero(allowed & ~blocked)
        if self.filters.diversify:
            category = self.category[codes[positions]]
            first = np.zeros(len(positions), dtype=np.bool_)
            first[np.unique(category, return_index=True)[1]] = True
            positions = positions[first | (category == UNKNOWN)]
        positions = positions[: max(k, 0)]
        end = len(codes) if len(positions) < k else positions.max(initial=-1) + 1
        self.block_hit |= bool((allowed & blocked)[:end].any())
        self.allowed[codes[positions]] = False
        if self.filters.diversify:
            self.allowed &= ~of_categories(self.category, self.category[codes[positions]])
        return positions
