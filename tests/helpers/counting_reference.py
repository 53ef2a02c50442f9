"""Pair counting as its definition reads: plain Python, slow, obvious. And random shops to count."""

from collections import defaultdict
from collections.abc import Mapping
from itertools import combinations

import numpy as np
from hypothesis import strategies as st

from neatrec.cooccurrence import CountOptions, Counts
from neatrec.data import UNKNOWN, Baskets, Catalog, string_array


def count_plainly(
    baskets: Baskets, counting: CountOptions
) -> dict[tuple[int, int], tuple[int, int | None]]:
    """(query, item) -> (records, distinct customers or None)."""
    category = counting.category_of(baskets.catalog)
    records: dict[tuple[int, int], int] = defaultdict(int)
    customers: dict[tuple[int, int], set[int]] = defaultdict(set)
    for number in range(len(baskets)):
        lines = baskets.items[baskets.offsets[number] : baskets.offsets[number + 1]].tolist()
        if len(lines) < counting.min_basket:
            continue
        for a, b in combinations(lines, 2):
            if a == b or (category[a] == category[b] and category[a] != UNKNOWN):
                continue
            pair = (a, b) if counting.directed or a < b else (b, a)
            records[pair] += 1
            if baskets.users is not None:
                customers[pair].add(int(baskets.users[number]))
    known = baskets.users is not None
    return {
        pair: (
            len(customers[pair]) if counting.once_per_customer else n,
            len(customers[pair]) if known else None,
        )
        for pair, n in sorted(records.items())
    }


def margins_of(
    seen: Mapping[tuple[int, int], int], items: int, *, directed: bool
) -> tuple[list[int], list[int]]:
    """How often each item stands first, and second, in the pairs seen; without direction in either
    place."""
    first, second = [0] * items, [0] * items
    for (query, item), n in seen.items():
        first[query] += n
        second[item] += n
    if directed:
        return first, second
    either = [a + b for a, b in zip(first, second, strict=True)]
    return either, either


def margins_plainly(
    baskets: Baskets, counting: CountOptions
) -> tuple[list[int], list[int], int, int, int]:
    """first, second, records, pairs, baskets."""
    seen = {pair: n for pair, (n, _) in count_plainly(baskets, counting).items()}
    first, second = margins_of(seen, len(baskets.catalog), directed=counting.directed)
    return (
        first,
        second,
        sum(seen.values()),
        len(seen),
        int((baskets.sizes >= counting.min_basket).sum()),
    )


def as_dict(found: Counts) -> dict[tuple[int, int], tuple[int, int | None]]:
    known = found.columns.get("customers")
    customers = [None] * len(found) if known is None else known.tolist()
    pairs = zip(found.query.tolist(), found.item.tolist(), strict=True)
    return dict(zip(pairs, zip(found.count.tolist(), customers, strict=True), strict=True))


def assert_counted_right(found: Counts, baskets: Baskets, counting: CountOptions) -> None:
    """Every pair, count, reverse count, customer and margin is what the definition says."""
    plain = count_plainly(baskets, counting)
    assert as_dict(found) == plain
    assert list(as_dict(found)) == sorted(plain)
    if counting.directed:
        assert found.column("reverse").tolist() == [plain.get((v, q), (0, 0))[0] for q, v in plain]
    else:
        assert found.columns.get("reverse") is None
    m = found.margins
    assert (m.first.tolist(), m.second.tolist(), m.records, m.pairs, m.baskets) == margins_plainly(
        baskets, counting
    )


def assert_equal(one: Counts, other: Counts) -> None:
    """Both hold the same pairs, columns and margins, to the bit."""
    np.testing.assert_array_equal(one.query, other.query)
    np.testing.assert_array_equal(one.item, other.item)
    assert one.columns.keys() == other.columns.keys()
    for name, values in one.columns.items():
        np.testing.assert_array_equal(values, other.columns[name], err_msg=name)
    for name in ("first", "second", "category"):
        np.testing.assert_array_equal(
            getattr(one.margins, name), getattr(other.margins, name), err_msg=name
        )
    for name in ("records", "pairs", "baskets"):
        assert getattr(one.margins, name) == getattr(other.margins, name), name


@st.composite
def shops(draw: st.DrawFn, *, ordered: bool | None = None, repeats: bool = True) -> Baskets:
    """A few baskets over a few items, some without category, with or without users."""
    items = draw(st.integers(1, 9))
    code = st.integers(0, items - 1)
    contents = draw(st.lists(st.lists(code, max_size=12, unique=not repeats), max_size=12))
    levels = draw(st.integers(0, 2))
    catalog = Catalog(
        string_array([f"item {i}" for i in range(items)]),
        levels=("department", "aisle")[:levels],
        categories=np.array(
            draw(
                st.lists(
                    st.lists(st.integers(-1, 2), min_size=levels, max_size=levels),
                    min_size=items,
                    max_size=items,
                )
            )
        ).reshape(items, levels),
        category_names=(("x", "y", "z"),) * levels,
    )
    users = draw(
        st.none() | st.lists(st.integers(0, 3), min_size=len(contents), max_size=len(contents))
    )
    if users is not None and draw(st.booleans()):
        users = list(range(len(contents)))  # one basket each
    return Baskets(
        catalog,
        np.array([item for basket in contents for item in basket], dtype=np.int32),
        np.concatenate([[0], np.cumsum([len(basket) for basket in contents])]).astype(np.int64),
        string_array([f"basket {b}" for b in range(len(contents))]),
        ordered=draw(st.booleans()) if ordered is None else ordered,
        users=None if users is None else np.array(users, dtype=np.int32),
        user_ids=None
        if users is None
        else string_array([f"user {u}" for u in range(max([3, *users]) + 1)]),
    )


@st.composite
def count_cases(draw: st.DrawFn) -> tuple[Baskets, CountOptions]:
    """Baskets and any counting that suits them."""
    baskets = draw(shops())
    return baskets, CountOptions(
        directed=draw(st.booleans()) if baskets.ordered else False,
        min_basket=draw(st.integers(1, 5)),
        category_level=draw(st.sampled_from([None, "deepest", *baskets.catalog.levels])),
        once_per_customer=draw(st.booleans()) if baskets.users is not None else False,
    )
