"""The SQL files and their order: the same on DuckDB and on Spark.

They read `basket_lines` (basket, position, item), `baskets` (basket, customer), `items` (item, removal, place) and
`settings` (one row: min_basket, reach, candidates).
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from neatrec.cooccurrence.counts import CountOptions


@dataclass(frozen=True)
class SqlStep:
    """A table or view, and the file with its query."""

    name: str
    file: str
    view: bool = False

    @property
    def query(self) -> str:
        return statement(self.file)


def statement(name: str) -> str:
    """The text of one of the SQL files, named for the table it yields."""
    return (files("neatrec.cooccurrence.sql") / f"{name}.sql").read_text(encoding="utf-8")


def counting_steps(counting: CountOptions, *, users_known: bool, narrow: bool = False) -> tuple[SqlStep, ...]:
    """What leads from the lines to `pair_counts` and `pairs`; `narrow`: by stretches as long as the window.

    >>> [step.name for step in counting_steps(CountOptions(), users_known=False)]
    ['counted_baskets', 'lines', 'records', 'pair_counts', 'pairs']
    """
    with_customers = "pair_counts_once_per_customer" if counting.once_per_customer else "pair_counts_with_customers"
    return (
        SqlStep("counted_baskets", "counted_baskets"),
        SqlStep("lines", "lines"),
        SqlStep("records", "records_in_window" if narrow else "records", view=True),
        *([SqlStep("customer_pairs", "customer_pairs")] if users_known else []),
        SqlStep("pair_counts", with_customers if users_known else "pair_counts"),
        SqlStep("pairs", "directed_pairs" if counting.directed else "undirected_pairs", view=True),
    )


MARGINS = SqlStep("margins", "margins")
CANDIDATE_STEPS = (
    SqlStep("symmetric_pairs", "symmetric_pairs", view=True),
    SqlStep("candidate_sets", "candidate_sets"),
)
