"""The result of `check` as text."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from neatrec.check.power import LEVEL, POWER, Power, PowerTier
from neatrec.check.suspects import FREQUENT, LONG_BASKET
from neatrec.cooccurrence.strata import FEW_BASKETS as FEW_IN_STRATUM
from neatrec.cooccurrence.strata import MONTH, RULED_OUT, strata_words
from neatrec.text import plural, printable

if TYPE_CHECKING:
    from neatrec.check.run import CheckResult

SHOWN = 10
FEW_BASKETS = 1_000


def as_text(check: CheckResult) -> str:
    """About twenty lines for a terminal."""
    parts = (_contents, _suspects, _power)
    lines = [line for part in parts for line in part(check)]
    return "\n".join([*lines, *(f"Note: {sentence}" for sentence in check.warnings)])


def _contents(check: CheckResult) -> Iterator[str]:
    order = "in cart order" if check.ordered else "cart order not known"
    yield f"{plural(check.lines, 'line')} in {plural(check.baskets, 'basket')}, {order}"
    items = plural(check.items.catalogue, "item")
    yield f"{items} in the catalogue, {check.items.bought:,} of them bought"
    if check.users is not None:
        guests = f", {check.guests:,} of them guests" if check.guests else ""
        yield f"{plural(check.users, 'customer')}{guests}"
    if check.categories:
        levels = (f"{printable(name, 40)} ({n:,})" for name, n in check.categories.items())
        yield f"categories: {' > '.join(levels)}"
    if check.period is not None:
        yield f"from {check.period.first} to {check.period.last}"
    sizes = check.sizes
    if sizes.quantiles:
        median, decile, largest = (sizes.quantiles[key] for key in ("0.5", "0.9", "1"))
        yield (
            f"basket sizes: median {median:,}, mean {sizes.mean:.1f}, "
            f"90 % at most {decile:,}, largest {largest:,}"
        )
        yield (
            f"baskets of one: {sizes.ones:,} ({sizes.ones / check.baskets:.1%}), kept; "
            f"of 5 or more: {sizes.counted:,} ({sizes.counted / check.baskets:.1%})"
        )
    reasons = ", ".join(f"{number:,} {reason}" for reason, number in check.dropped.items())
    yield f"left out: {reasons or 'nothing'}"


def _suspects(check: CheckResult) -> Iterator[str]:
    frequent, pairs = check.suspects.frequent, check.suspects.inseparable or ()
    if frequent:
        items = [f"{_named(one.name, one.item)} {one.share:.1%}" for one in frequent[:SHOWN]]
        more = f" and {len(frequent) - SHOWN:,} more" if len(frequent) > SHOWN else ""
        yield f"in over {FREQUENT:.0%} of all baskets: {', '.join(items)}{more}"
    for pair in pairs[:SHOWN]:
        yield (
            f"suspect: {_named(pair.name, pair.item)} is hardly ever bought without "
            f"{_named(pair.partner_name, pair.partner)} "
            f"({pair.share:.0%} of {pair.baskets:,} baskets)"
        )
    if len(pairs) > SHOWN:
        yield f"and {len(pairs) - SHOWN:,} more suspects (--json lists them all)"
    if frequent or pairs:
        yield "Bags, fees and gifts among these are left out with --exclude-item ID."


def _named(name: str, item: str | int) -> str:
    """The name, with the id for --exclude-item if it differs."""
    shown = printable(name, 60)
    return shown if name == str(item) else f"{shown} ({printable(item, 60)})"


def _power(check: CheckResult) -> Iterator[str]:
    power = check.power
    if check.suspects.long_baskets:
        yield (
            f"not counted as evidence: {plural(check.suspects.long_baskets, 'basket')} of over "
            f"{LONG_BASKET:,} lines ({plural(check.suspects.long_lines, 'line')})"
        )
    if power is None:
        yield (
            "evidence: too many pairs to count here; check a part of the data"
            if check.suspects.inseparable is None
            else "evidence: no pair in baskets of 5 or more items"
        )
        return
    # without an order a pair is a label both ways
    pairs = power.labels if check.ordered else power.labels // 2
    yield (
        f"evidence (calibrated, q = {LEVEL}): {plural(pairs, 'pair')}, for "
        f"{power.items_with_evidence:.1%} of the bought items and "
        f"{power.sales_with_evidence:.1%} of the sales"
    )
    if power.same_category >= 0.005:
        yield (
            f"pairs with evidence within one category: {power.same_category:.0%}; "
            "answers list these last (--same-category mix|exclude)"
        )
    yield (
        f"smallest detectable lift, {100 * POWER:.0f} % power, "
        "with a popular partner / with one like itself:"
    )
    for word, tier in _shown(power):
        yield (
            f"  {word} items (about {plural(round(tier.sales), 'sale')}): "
            f"{_times(tier.lift_with_popular)} / {_times(tier.lift_with_like)}"
        )


def _shown(power: Power) -> list[tuple[str, PowerTier]]:
    """A rare, a middling and a popular tenth, and the best sellers."""
    last = len(power.deciles) - 1
    tenths = dict.fromkeys((round(0.2 * last), round(0.6 * last), last))
    names = ("rare", "middling", "popular")[-len(tenths) :]
    tiers = [power.deciles[i] for i in tenths]
    return [*zip(names, tiers, strict=True), ("best-selling", power.best_sellers)]


def _times(lift: float | None) -> str:
    if lift is None:
        return "none"
    return f"{lift:,.0f}x" if lift >= 10 else f"{lift:.1f}x"


def warnings_of(check: CheckResult) -> Iterator[str]:
    """A sentence on each thing that the data lack, or that should be looked at."""
    for item in check.suspects.placeholders:
        yield (
            f"Item {_named(item.name, item.item)!r} is in {item.share:.1%} of the baskets: if it "
            "is not a product, leave it out with --exclude-item "
            f"{shlex.quote(printable(item.item, 60))}."
        )
    if not check.categories:
        yield "There is no category: substitutes cannot be told from complements."
    elif check.uncategorised > 0.05:
        share = f"{check.uncategorised:.0%} of the lines"
        yield f"{share} have no category: their substitutes look like complements."
    if not check.ordered:
        yield "Cart order is not known: pairs have no direction."
    if check.users is None:
        yield "Customers are not known: a pair that one customer buys every week counts every week."
    if RULED_OUT in (within := strata_words(check.strata)):
        advice = "Name a time with --time, and a store or another column with --strata."
        if check.period is not None:  # `--strata COLUMN` alone would give up size and month
            advice = "Name a store or another column: --strata size,month,COLUMN."
            if MONTH not in check.strata:
                advice += f" By default months and stores need {FEW_IN_STRATUM} baskets each."
        yield f"{within} {advice}"
    multiple = check.baskets - check.sizes.ones
    if multiple < FEW_BASKETS:
        yield f"Only {plural(multiple, 'basket')} of more than one item: expect little evidence."
    if long := check.suspects.long_baskets:
        yield (
            f"{plural(long, 'basket has', 'baskets have')} over {LONG_BASKET:,} lines: are these "
            "business orders, or reused ids? `check` leaves them out of the evidence; `labels` "
            "counts them."
        )
    if check.advice:
        yield check.advice
    left_out = sum(check.dropped.values())
    if left_out > 0.1 * (left_out + check.lines):
        yield f"{left_out / (left_out + check.lines):.0%} of the rows were left out."
