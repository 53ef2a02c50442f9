"""Everything one request answers from, taken once: no answer mixes two versions."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.data.name_search import NameSearch, spelled
from neatrec.errors import did_you_mean
from neatrec.service.problems import RequestError, unknown_item
from neatrec.service.rules import EVERY, Rules
from neatrec.service.settings import MAX_GUESS
from neatrec.serving import PairTable, ShopRules
from neatrec.serving.answers import brief
from neatrec.serving.filters import EVERY_ITEM
from neatrec.serving.pair_list import PairList
from neatrec.text import printable

NEAR = 5
"""Near names in a 404."""
SHORT = 12
"""Characters of a version on pages and in metrics."""


class LoadedBundle:
    """A bundle's serving table and lookups over its catalogue; it never changes."""

    def __init__(self, index: PairTable, old: PairTable | None = None) -> None:
        """`old` is the version before, to compare with; it is not kept."""
        self.index, self.pairs = index, PairList(index, old)
        self.catalog = index.catalog
        self.version = index.version
        self.short = index.version[:SHORT]
        self.name = str(index.manifest.model)
        self.ids: list[str] = self.catalog.ids.to_pylist()
        names = self.ids if self.catalog.names is None else self.catalog.names.to_pylist()
        self.names: list[str] = [name or item for name, item in zip(names, self.ids, strict=True)]
        self.count: list[int] = index.item_count.tolist()

    @cached_property
    def search(self) -> NameSearch:
        """The search by name."""
        return NameSearch(self.names, self.index.item_count)

    def code(self, item: str) -> int | None:
        """The code of an id, a variant's id or a name that only one item has; None if unknown."""
        code = self.catalog.code_of.get(item)
        code = self.catalog.code_of_variant.get(item) if code is None else code
        return self.code_of_name.get(spelled(item)) if code is None else code

    @cached_property
    def code_of_name(self) -> dict[str, int]:
        """Names that exactly one item has, as `spelled`."""
        names = [spelled(name) for name in self.names]
        times = Counter(names)
        return {name: code for code, name in enumerate(names) if times[name] == 1}

    def known(self, item: str) -> int:
        """The code of an item that must be there, else a 404 with near names."""
        code = self.code(item)
        if code is None:
            near = self.search.find(item, NEAR) if len(item) <= MAX_GUESS else []
            raise unknown_item(item, [self.brief(code) for code in near])
        return code

    def brief(self, code: int) -> dict[str, Any]:
        """An item as a list shows it."""
        return brief(self.catalog, code)

    def variants_of(self, code: int) -> list[str]:
        """The ids that are folded into an item."""
        return [variant for variant, owner in self.catalog.code_of_variant.items() if owner == code]

    def in_category(self, name: str) -> npt.NDArray[np.bool_]:
        """Whether each item is in a category, named at any level or by a path "a / b"."""
        steps = self.catalog.category_steps(name)
        if steps is None:
            hint = did_you_mean(name, self.category_names, "GET /v1/items/ID names categories.")
            message = f"there is no `category` {printable(name)!r}"
            raise RequestError(404, "ParameterError", message, hint=hint, argument="category")
        return self.catalog.in_category(steps)

    @cached_property
    def category_names(self) -> list[str]:
        """The names of all categories, sorted."""
        return sorted({name for names in self.catalog.category_names for name in names})


@dataclass(frozen=True, eq=False)
class ServingSnapshot:
    """A bundle and the shop's rules for it."""

    bundle: LoadedBundle
    rules: ShopRules
    written: Rules
    """The rules as they stand in their file."""
    day: date
    refusal: str | None = None
    """Why the bundle that should be live is not: an older one answers."""


def compile_rules(
    bundle: LoadedBundle, rules: Rules, available: frozenset[str] | None, day: date
) -> ShopRules:
    """The rules of `day` in codes; ids that this catalogue does not hold have no effect."""
    blocked: dict[int, set[int]] = defaultdict(set)
    pinned: dict[int, list[tuple[int, int]]] = defaultdict(list)
    boosted: dict[int, dict[int, int]] = defaultdict(dict)
    for rule in rules.today(day):
        item = bundle.code(rule.item)
        query = EVERY_ITEM if rule.query == EVERY else bundle.code(rule.query)
        if item is None or query is None or query == item:
            continue
        if rule.action == "block":
            blocked[query].add(item)
        elif rule.action == "pin":
            pinned[query].append((rule.position, item))
        elif rule.action == "boost":
            boosted[query][item] = rule.position
    mask = None
    if available is not None:
        mask = np.zeros(len(bundle.ids), dtype=np.bool_)
        mask[[code for item in available if (code := bundle.code(item)) is not None]] = True
    return ShopRules(
        {query: frozenset(items) for query, items in blocked.items()},
        {query: tuple(sorted(pins)) for query, pins in pinned.items()},
        boosted,
        mask,
    )
