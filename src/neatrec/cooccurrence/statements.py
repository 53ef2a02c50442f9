"""The SQL files and their order: the same on DuckDB, on Spark and in a warehouse.

They read `basket_lines` (basket, position, item), `baskets` (basket, customer), `items` (item, removal, place) and
`settings` (one row: min_basket, reach, recall).
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from neatrec.cooccurrence.counts import Counting


@dataclass(frozen=True)
class Step:
    """A table or view, and the file that says what is in it."""

    name: str
    file: str
    view: bool = False

    @property
    def query(self) -> str:
        return statement(self.file)


def statement(name: str) -> str:
    """The text of one of the SQL files, named for the table it yields."""
    return (files("neatrec.cooccurrence") / "sql" / f"{name}.sql").read_text(encoding="utf-8")


def counting_steps(counting: Counting, *, users_known: bool, narrow: bool = False) -> tuple[Step, ...]:
    """What leads from the lines to `pair_counts` and `pairs`; `narrow`: by stretches as long as the window.

    >>> [step.name for step in counting_steps(Counting(), users_known=False)]
    ['counted_baskets', 'lines', 'records', 'pair_counts', 'pairs']
    """
    with_customers = "pair_counts_once_per_customer" if counting.once_per_customer else "pair_counts_with_customers"
    return (
        Step("counted_baskets", "counted_baskets"),
        Step("lines", "lines"),
        Step("records", "records_in_window" if narrow else "records", view=True),
        *([Step("customer_pairs", "customer_pairs")] if users_known else []),
        Step("pair_counts", with_customers if users_known else "pair_counts"),
        Step("pairs", "directed_pairs" if counting.directed else "undirected_pairs", view=True),
    )


MARGINS = Step("margins", "margins")
RECALL_STEPS = (Step("symmetric_pairs", "symmetric_pairs", view=True), Step("recall_sets", "recall_sets"))
