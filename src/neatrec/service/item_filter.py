"""Which items may be named to a question."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neatrec.data.catalog import UNKNOWN
from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.query_params import QueryParams
from neatrec.service.snapshot import CompiledRules


class ItemFilter:
    """Lets through what the question, the cart and the shop's rules leave; remembers what it let through.

    `asked` are the codes of the items asked for: they are never named, nor is what shares a category with one of them.
    """

    def __init__(self, shelf: LoadedBundle, decided: CompiledRules, question: QueryParams, asked: list[int]) -> None:
        self.shelf = shelf
        self.available = decided.available
        excluded = (shelf.code(item) for item in question.exclude)  # what is not held is never named anyway
        self.out = {*asked, *(code for code in excluded if code is not None)}
        self.blocked = set(decided.blocked_everywhere).union(*(decided.blocked.get(code, ()) for code in asked))
        self.own = shelf.same_category(asked)
        self.chosen = self._chosen(question)
        self.diversify = question.diversify
        self.seen: set[int] = set()
        self.block_hit = False

    def _chosen(self, question: QueryParams) -> npt.NDArray[np.bool_] | None:
        if not question.category:
            return None
        members: npt.NDArray[np.bool_] = np.logical_or.reduce([self.shelf.in_category(c) for c in question.category])
        return members

    def passes(self, code: int, *, pinned: bool = False) -> bool:
        """Whether `code` may be named next. The shop may pin an item of the same category."""
        category = self.shelf.category[code]
        if code in self.out or (category in self.own and not pinned):
            return False
        if code in self.blocked:
            self.block_hit = True
            return False
        if self.available is not None and not self.available[code]:
            return False
        if self.chosen is not None and not self.chosen[code]:
            return False
        return not (self.diversify and category != UNKNOWN and category in self.seen)

    def take(self, code: int) -> None:
        """`code` is named: it is not named again, and with `diversify` nothing else of its category."""
        self.out.add(code)
        self.seen.add(self.shelf.category[code])

    def mask(self, *, blocked: bool = False) -> npt.NDArray[np.bool_]:
        """Every item that may be named next, shape (items,); with `blocked` also those that only a rule forbids."""
        allowed = np.asarray(self.shelf.index.item_count) > 0
        allowed[list(self.out if blocked else self.out | self.blocked)] = False
        categories = self.own | (self.seen - {UNKNOWN} if self.diversify else set())
        if categories:
            allowed &= ~np.isin(self.shelf.category_codes, list(categories))
        if self.available is not None:
            allowed &= np.frombuffer(self.available, dtype=np.bool_)
        if self.chosen is not None:
            allowed &= self.chosen
        return allowed
