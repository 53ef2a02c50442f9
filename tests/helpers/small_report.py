"""A shop small enough to report on in a second, with names that try to break out of the page."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from neatrec import LeaderboardOptions, run_leaderboard
from neatrec.data import Baskets, Catalog, half
from neatrec.leaderboard import Leaderboard

INJECTIONS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "</title><script>alert(3)</script>",
    "</style><script>alert(4)</script>",
    "<svg onload=alert(5)>",
    "javascript:alert(6)",
    "' onmouseover='alert(7)",
    "<iframe src='javascript:alert(8)'></iframe>",
    "{{ 7 * 7 }}{% raw %}",
    "<!--<script>alert(9)</script>-->",
    "<a href='data:text/html,<script>alert(10)</script>'>tea</a>",
    "<math><mi xlink:href='javascript:alert(11)'>",
    "<body onload=alert(12)>",
    "&lt;script&gt;alert(13)&lt;/script&gt;",
    "<meta http-equiv='refresh' content='0;url=https://example.org'>",
    '=HYPERLINK("https://example.org","tea")',
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "tea\x1b[31m\x07\x00red",
    "\u202egnp.ten\u2028new line",
    "\\input{/etc/passwd} $x$ & 50% [a](https://example.org) | `b`",
)
ITEMS = 48
MODELS = ("pop", "popco", "lift", "shrunk-lift", "llr")
QUICK = LeaderboardOptions(rounds=200, queries=20, carts=20)


@cache
def small_baskets(seed: int = 0, baskets: int = 3000) -> Baskets:
    """Item 2i goes with item 2i + 1, for the first half of the items; popular noise beside."""
    rng = np.random.default_rng(seed)
    ids = [f"i{code}" for code in range(ITEMS)]
    names = [
        INJECTIONS[code] if code < len(INJECTIONS) else f"Item {code}" for code in range(ITEMS)
    ]
    catalog = Catalog.from_ids(
        ids, names=names, categories=[f"shelf {code % 12}" for code in range(ITEMS)]
    )
    popularity = 1 / np.arange(1, ITEMS + 1) ** 0.6
    popularity /= popularity.sum()
    lists = []
    for _ in range(baskets):
        noise = rng.choice(ITEMS, size=4, replace=False, p=popularity).tolist()
        pair = int(rng.integers(0, ITEMS // 4))
        planted = [2 * pair, 2 * pair + 1] if rng.random() < 0.7 else []
        lists.append([ids[code] for code in [*planted, *(c for c in noise if c not in planted)]])
    return Baskets.from_lists(
        lists, catalog=catalog, users=[f"u{number % 500}" for number in range(baskets)]
    )


@cache
def small_result() -> Leaderboard:
    split = half(small_baskets())
    return run_leaderboard(split.train, split.test, MODELS, QUICK, split={"method": "half"})


def write_small_report(out: Path) -> Leaderboard:
    """A report in `out`."""
    from neatrec.report.make import write_report
    from neatrec.serving import EvidenceTable

    result = small_result()
    baskets = replace(small_baskets(), source="a small <b>shop</b>")
    write_report(result, baskets, EvidenceTable.of(baskets), out)
    return result
