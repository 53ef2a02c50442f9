"""Which answers a question asks for, the rules of a shop, and the picker that applies both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neatrec.data.catalog import UNKNOWN, of_categories
from neatrec.errors import must_be_one_of, require_whole
from neatrec.serving.evidence import GRADES, GUESS, LIKELY
from neatrec.serving.table import SAME_CATEGORY, PairTable

Mask = npt.NDArray[np.bool_]

LEVELS = ("certain", "likely", "guess", "category")
"""What `min_evidence` may be, the strictest first. A rule of the shop needs no evidence."""


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
    """List of those only what is in season in this month, from 1."""

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
"""In place of a query: a rule for all queries."""


class ShopRules(NamedTuple):
    """The shop's own rules in the codes of one table."""

    blocked: Mapping[int, frozenset[int]] = {}
    """Query -> items that are never answers."""
    pinned: Mapping[int, tuple[tuple[int, int], ...]] = {}
    """Query -> (position, item), by position."""
    boosted: Mapping[int, Mapping[int, int]] = {}
    """Query -> item -> places that it moves up."""
    available: Mask | None = None
    """The items that may be answers, shape (items,); None: all."""

    def hidden(self, query: int) -> frozenset[int]:
        """Items that are never answers to `query`."""
        nothing = frozenset[int]()
        return self.blocked.get(EVERY_ITEM, nothing) | self.blocked.get(query, nothing)

    def boosts(self, query: int) -> Mapping[int, int]:
        """Item -> places that it moves up among the answers to `query`."""
        return {**self.boosted.get(EVERY_ITEM, {}), **self.boosted.get(query, {})}


class Picker:
    """Picks the answers that a request and the rules of a shop allow, and remembers them."""

    def __init__(
        self, table: PairTable, cart: Sequence[int], filters: Filters, rules: ShopRules
    ) -> None:
        self.table, self.filters, self.rules = table, filters, rules
        self.same_category = filters.same_category or table.same_category
        self.out = {*cart, *filters.exclude}
        self.own = {table.category[code] for code in cart} - {UNKNOWN}
        """The categories of what was asked for."""
        self.blocked = frozenset[int]().union(*map(rules.hidden, cart or [EVERY_ITEM]))
        self.taken_categories: set[int] = set()
        self.block_hit = False

    def is_own(self, code: int) -> bool:
        """Whether an item shares a category with what was asked for."""
        return self.table.category[code] in self.own

    def allows(self, code: int) -> bool:
        """Whether an item may be the next answer, of whichever category."""
        if code in self.out:
            return False
        if code in self.blocked:
            self.block_hit = True
            return False
        for mask in (self.filters.among, self.rules.available):
            if mask is not None and not mask[code]:
                return False
        category = self.table.category[code]
        return not (self.filters.diversify and category in self.taken_categories - {UNKNOWN})

    def take(self, codes: Iterable[int], k: int) -> list[int]:
        """The positions of the first `k` codes that are allowed; none is allowed again."""
        positions: list[int] = []
        for position, code in enumerate(codes):
            if len(positions) >= k:
                break
            if self.allows(code):
                self.out.add(code)
                self.taken_categories.add(self.table.category[code])
                positions.append(position)
        return positions

    def mask(self) -> Mask:
        """The bought items of other categories that may be scored, blocked ones too: (items,)."""
        allowed = np.asarray(self.table.item_count) > 0
        allowed[list(self.out)] = False
        closed = self.own | (self.taken_categories if self.filters.diversify else set())
        if closed - {UNKNOWN}:
            allowed &= ~of_categories(self.table.pairs.category, list(closed - {UNKNOWN}))
        for mask in (self.filters.among, self.rules.available):
            if mask is not None:
                allowed &= mask
        return allowed
