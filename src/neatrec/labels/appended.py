"""Labels of a state: what `make_labels` says of all baskets that were ever added, without counting them again."""

from __future__ import annotations

from collections.abc import Sequence

from neatrec.copurchase import CoPurchases, Keep
from neatrec.copurchase.state import CountState
from neatrec.labels.make import LEVELS, labels_from, say_what_is_left_out
from neatrec.labels.recipe import MAX_BASKET_PAIRS, Recipe, checked_levels
from neatrec.labels.record import Labels


def labels_of_state(
    state: CountState,
    protocol: str = "calibrated",
    levels: Sequence[float] = LEVELS,
    *,
    expected: str = "quasi",
    strata: Sequence[str] = (),
    once_per_customer: bool | None = None,
    max_basket_pairs: int = MAX_BASKET_PAIRS,
) -> Labels:
    """The labels by `protocol` of all baskets in `state`, equal to those of a recount in every number.

    Counts serve both protocols. `strata` are the one thing that needs the baskets themselves, which are read then.
    `basket_hash` is the state's own.
    """
    if once_per_customer is None:
        once_per_customer = protocol == "calibrated" and state.customers_return
    counting = state.counting
    recipe = Recipe(
        protocol,
        checked_levels(levels),
        counting.directed,
        expected,
        tuple(strata),
        counting.min_basket,
        counting.category_level,
        once_per_customer,
        max_basket_pairs,
    )
    say_what_is_left_out(recipe)

    def counted(keep: Keep) -> CoPurchases:
        return state.count(keep, once_per_customer=recipe.once_per_customer)

    return labels_from(recipe, *recipe.examine_counted(counted, state.baskets), basket_hash=state.about["hash"])
