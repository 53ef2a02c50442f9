"""A SOURCE as commands take it: the baskets, and the truth where it is known."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neatrec.data.baskets import Baskets
from neatrec.io import SourceOptions
from neatrec.io.read import is_supermarket, read_named, read_supermarket, resolve_options
from neatrec.text import plural

if TYPE_CHECKING:
    from neatrec.simulator import PlantedTruth

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LoadedSource:
    """Baskets, and what really goes with what where they are simulated."""

    baskets: Baskets
    truth: PlantedTruth | None = None


def load(source: str, options: SourceOptions) -> LoadedSource:
    """The baskets of SOURCE with what was left out said in the log."""
    source, options = resolve_options(source, options)
    if is_supermarket(source):
        market = read_supermarket(source, options)
        shop = LoadedSource(market.baskets, market.truth)
    else:
        shop = LoadedSource(read_named(source, options))
    say_what_was_read(shop.baskets)
    return shop


def say_what_was_read(baskets: Baskets) -> None:
    """One line for what was read, one for each reason something was left out."""
    order = "in cart order" if baskets.ordered else "cart order not known"
    log.info(
        "read %s, %s, %s (%s)",
        plural(baskets.lines, "line"),
        plural(len(baskets), "basket"),
        plural(len(baskets.catalog), "item"),
        order,
    )
    say_what_was_left_out(baskets.dropped)


def say_what_was_left_out(dropped: Mapping[str, int]) -> None:
    """One line for each reason something was left out."""
    for reason, count in dropped.items():
        if count:
            log.info("left out: %s (%s)", f"{count:,}", reason)
