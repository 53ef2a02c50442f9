"""What can be chosen about a simulated supermarket, and the `supermarket:key=value,...` that says so."""

from __future__ import annotations

from typing import Any

from neatrec.errors import must_be, must_be_one_of

BASKETS, ITEMS, STORES = 30_000, 1_000, 6
SMALLEST_SHOP, LARGEST_SHOP, MOST_BASKETS, MOST_STORES = 60, 1_000_000, 200_000_000, 1_000
VISITS = 8
"""Mean baskets of a household, when the number of households is not given."""

WHOLE_NUMBERS = ("baskets", "items", "households", "stores", "seed")
KEYS = (*WHOLE_NUMBERS, "strength")


def parse_supermarket_spec(spec: str) -> dict[str, Any]:
    """The keyword arguments of `supermarket` that a SOURCE such as `supermarket:baskets=5000,seed=3` stands for.

    >>> parse_supermarket_spec("supermarket:baskets=5_000,items=800,seed=3")
    {'baskets': 5000, 'items': 800, 'seed': 3}
    """
    name, _, rest = spec.partition(":")
    if name != "supermarket":
        raise must_be("source", "`supermarket` or `supermarket:key=value,...`", spec)
    options: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in rest.split(","))):
        key, equals, value = (text.strip() for text in part.partition("="))
        if key not in KEYS:
            raise must_be_one_of("supermarket", KEYS, key)
        if not equals or not value:
            raise must_be(f"supermarket:{key}", f"followed by a value, as in {key}=3", part)
        if key in options:
            raise must_be(f"supermarket:{key}", "given once", spec)
        options[key] = _number(key, value)
    check_options(**options)
    return options


def _number(key: str, value: str) -> int | float:
    try:
        return int(value) if key in WHOLE_NUMBERS else float(value)
    except ValueError:
        kind = "a whole number" if key in WHOLE_NUMBERS else "a number"
        raise must_be(f"supermarket:{key}", kind, value) from None


def check_options(
    baskets: int = BASKETS,
    items: int = ITEMS,
    households: int | None = None,
    stores: int = STORES,
    strength: float = 1.0,
    seed: int = 0,
) -> None:
    """Raises where an option is outside its limits."""
    _whole("baskets", baskets, 1, MOST_BASKETS)
    _whole("items", items, SMALLEST_SHOP, LARGEST_SHOP)
    if households is not None:
        _whole("households", households, 1, baskets, hint="There cannot be more households than baskets.")
    _whole("stores", stores, 2, MOST_STORES)
    _whole("seed", seed, 0, 2**63 - 1)
    if isinstance(strength, bool) or not isinstance(strength, int | float) or not 0 <= strength <= 2:
        raise must_be("strength", "a number from 0 (nothing goes together) to 2", strength)


def _whole(name: str, value: Any, low: int, high: int, hint: str | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise must_be(name, f"a whole number from {low:,} to {high:,}", value, hint=hint)
