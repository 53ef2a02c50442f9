"""The result of `check` as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from neatrec.check.power import LEVEL, POWER, Power, PowerTier
from neatrec.check.suspects import FREQUENT
from neatrec.text import plural, printable

if TYPE_CHECKING:
    from neatrec.check.run import CheckResult

SHOWN = 10


def as_text(found: CheckResult) -> str:
    """About twenty lines for a terminal."""
    parts = (_contents, _left_out, _suspects, _power, _repeats)
    lines = [line for part in parts for line in part(found)]
    lines += [f"Note: {sentence}" for sentence in found.warnings]
    return "\n".join(lines)


def _contents(found: CheckResult) -> Iterator[str]:
    order = "in cart order" if found.ordered else "cart order not known"
    yield f"{plural(found.lines, 'line')} in {plural(found.baskets, 'basket')}, {order}"
    items = plural(found.catalogue_items, "item")
    yield f"{items} in the catalogue, {found.bought_items:,} of them bought"
    if found.users is not None:
        guests = f", {found.guests:,} of them guests" if found.guests else ""
        yield f"{plural(found.users, 'customer')}{guests}"
    if found.categories:
        levels = " > ".join(
            f"{printable(level, 40)} ({count:,})" for level, count in found.categories.items()
        )
        yield f"categories: {levels}"
    if found.period is not None:
        yield f"from {found.period[0]} to {found.period[1]}"
    sizes = found.sizes
    if sizes.quantiles:
        median, decile, largest = (sizes.quantiles[key] for key in ("0.5", "0.9", "1"))
        yield (
            f"basket sizes: median {median:,}, mean {sizes.mean:.1f}, "
            f"90 % at most {decile:,}, largest {largest:,}"
        )
        yield (
            f"baskets of one: {sizes.ones:,} ({sizes.ones / found.baskets:.1%}), kept; "
            f"of 5 or more: {sizes.counted:,} ({sizes.counted / found.baskets:.1%})"
        )


def _left_out(found: CheckResult) -> Iterator[str]:
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in found.dropped.items())
    yield f"left out: {reasons or 'nothing'}"


def _suspects(found: CheckResult) -> Iterator[str]:
    if found.frequent:
        items = [f"{_named(one.name, one.item)} {one.share:.1%}" for one in found.frequent[:SHOWN]]
        more = f" and {len(found.frequent) - SHOWN:,} more" if len(found.frequent) > SHOWN else ""
        yield f"in over {FREQUENT:.0%} of all baskets: {', '.join(items)}{more}"
    pairs = found.inseparable or ()
    for pair in pairs[:SHOWN]:
        yield (
            f"suspect: {_named(pair.name, pair.item)} is hardly ever bought without "
            f"{_named(pair.partner_name, pair.partner)} "
            f"({pair.share:.0%} of {pair.baskets:,} baskets)"
        )
    if len(pairs) > SHOWN:
        yield f"and {len(pairs) - SHOWN:,} more suspects (--json lists them all)"
    if found.frequent or pairs:
        yield (
            "Bags, fees and gifts among these are left out with --exclude-item ID or "
            "--exclude-items FILE."
        )


def _named(name: str, item: str | int) -> str:
    """The name, with the id for --exclude-items if it differs."""
    shown = printable(name, 60)
    return shown if name == str(item) else f"{shown} ({printable(item, 60)})"


def _power(found: CheckResult) -> Iterator[str]:
    power = found.power
    if found.long_baskets:
        yield (
            f"not counted as evidence: {plural(found.long_baskets, 'basket')} "
            f"of over 2,000 lines ({plural(found.long_lines, 'line')})"
        )
    if power is None:
        yield (
            "evidence: no pair in baskets of 5 or more items"
            if found.inseparable is not None
            else "evidence: too many pairs to count here; check a part of the data"
        )
        return
    # without an order a pair is a label both ways
    pairs = power.labels if found.ordered else power.labels // 2
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


def _repeats(found: CheckResult) -> Iterator[str]:
    shares = []
    for repeat in found.repeats:
        names = ", ".join(printable(name.replace("_", " "), 40) for name in repeat.strata)
        within = f"within {names}" if names else "of the first half without strata"
        if repeat.labels:
            share = repeat.repeated / repeat.labels
            shares.append(f"{share:.0%} of {plural(repeat.labels, 'label')} {within}")
    if shares:
        yield f"above chance again in the second half of the period: {', '.join(shares)}"


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
