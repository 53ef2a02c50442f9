"""Both protocols as their definitions read: plain Python over dictionaries, slow, obvious. And
random shops."""

from collections import Counter

import numpy as np
from hypothesis import strategies as st
from scipy import stats

from helpers.counting_reference import count_plainly, margins_of
from neatrec.cooccurrence import CountOptions
from neatrec.data import Baskets, Catalog

TABLE = {0.05: 3.84, 0.01: 6.64, 0.001: 10.83}
Pair = tuple[int, int]


def differ(category, q, v) -> bool:
    return q != v and (category[q] != category[v] or category[q] < 0)


def records_plainly(baskets: Baskets, min_basket: int, *, once: bool = False) -> Counter[Pair]:
    """How often each pair was seen; unordered pairs as (smaller, larger)."""
    counting = CountOptions(directed=baskets.ordered, min_basket=min_basket, once_per_customer=once)
    return Counter({pair: n for pair, (n, _) in count_plainly(baskets, counting).items()})


def both_ways(pairs: set[Pair], directed: bool) -> set[Pair]:
    return pairs if directed else pairs | {(v, q) for q, v in pairs}


def paper_plainly(baskets: Baskets, level: float, min_basket: int) -> set[Pair]:
    """Pearson's chi-squared of each 2x2 table, cell by cell; the item counts in either position."""
    seen = records_plainly(baskets, min_basket)
    first, second = margins_of(seen, len(baskets.catalog), directed=baskets.ordered)
    total = [a + b for a, b in zip(first, second, strict=True)] if baskets.ordered else first
    n = sum(seen.values())
    labels = set()
    for (q, v), o in seen.items():
        e = total[q] * total[v] / n
        cells = [
            (o, e),
            (total[v] - o, (n - total[q]) * total[v] / n),
            (total[q] - o, total[q] * (n - total[v]) / n),
            (n - total[q] - total[v] + o, (n - total[q]) * (n - total[v]) / n),
        ]
        if any(x == 0 for _, x in cells):
            continue
        statistic = sum((a - x) ** 2 / x for a, x in cells)
        threshold = TABLE.get(level, stats.chi2.isf(level, 1))
        if o >= 5 and o > e and statistic > threshold:
            labels.add((q, v))
    return both_ways(labels, baskets.ordered)


def expected_plainly(seen: Counter[Pair], baskets: Baskets, kind: str) -> np.ndarray:
    """Expected counts of all pairs, shape (items, items): a dense proportional fit, or the product
    of the margins."""
    items, category = len(baskets.catalog), baskets.catalog.category_of()
    first, second = (np.array(m, float) for m in margins_of(seen, items, directed=baskets.ordered))
    if kind == "product":
        return np.outer(first, second) / max(first.sum(), 1)
    table = np.array([[float(differ(category, q, v)) for v in range(items)] for q in range(items)])
    with np.errstate(all="ignore"):
        for _ in range(3_000):
            table *= np.nan_to_num(first / table.sum(1), posinf=0)[:, None]
            table *= np.nan_to_num(second / table.sum(0), posinf=0)[None, :]
            if np.abs(table.sum(1) - first).max() <= 1e-12 * first.sum():
                break
    return table


def tests_plainly(seen: Counter[Pair], baskets: Baskets) -> int:
    items, category = len(baskets.catalog), baskets.catalog.category_of()
    first, second = margins_of(seen, items, directed=baskets.ordered)
    pairs = [
        (q, v)
        for q in range(items)
        for v in range(items)
        if first[q] and second[v] and differ(category, q, v)
    ]
    return len(pairs) if baskets.ordered else len(pairs) // 2


def discoveries_plainly(p: dict[Pair, float], tests: int, level: float) -> set[Pair]:
    """Step up: the largest k with p_(k) <= q k / M, and all p up to it."""
    ranked = sorted(p.values())
    passing = [value for k, value in enumerate(ranked, 1) if value <= level * k / tests]
    return {pair for pair, value in p.items() if passing and value <= passing[-1]}


def calibrated_plainly(
    baskets: Baskets, level: float, min_basket: int, kind: str = "quasi", *, once: bool = False
) -> set[Pair]:
    seen = records_plainly(baskets, min_basket, once=once)
    expected = expected_plainly(seen, baskets, kind)
    p = {pair: float(stats.poisson.sf(n - 1, expected[pair])) for pair, n in seen.items()}
    return both_ways(
        discoveries_plainly(p, max(tests_plainly(seen, baskets), 1), level), baskets.ordered
    )


@st.composite
def shops(draw: st.DrawFn, *, users: bool = False) -> Baskets:
    """Some baskets, some of them many times over, so that there is something to find."""
    items = draw(st.integers(2, 8))
    kinds = draw(
        st.lists(
            st.tuples(
                st.lists(st.integers(0, items - 1), max_size=5, unique=True), st.integers(1, 30)
            ),
            max_size=7,
        )
    )
    contents = [[str(code) for code in basket] for basket, times in kinds for _ in range(times)]
    categories = draw(
        st.lists(st.sampled_from(["x", "y", "z", None]), min_size=items, max_size=items)
    )
    catalog = Catalog.from_ids([str(code) for code in range(items)], categories=categories)
    who = (
        draw(st.lists(st.sampled_from("abcdefgh"), min_size=len(contents), max_size=len(contents)))
        if users
        else None
    )
    return Baskets.from_lists(contents, ordered=draw(st.booleans()), catalog=catalog, users=who)


def pairs_of(labels, mask=slice(None)) -> set[Pair]:
    return set(zip(labels.query[mask].tolist(), labels.item[mask].tolist(), strict=True))
