"""`neatrec sql`."""

from __future__ import annotations

from typing import Annotated

import typer

from neatrec.cli.talk import Talk, print_json


def sql(
    talk: Talk,
    dialect: Annotated[
        str, typer.Option(metavar="NAME", help="bigquery, snowflake, databricks, redshift, postgres, trino, ...")
    ],
    min_basket: Annotated[int, typer.Option(help="Smaller baskets are left out.", min=2)] = 5,
    window: Annotated[int | None, typer.Option(help="Only lines this many positions apart.", min=1)] = None,
    directed: Annotated[
        bool, typer.Option("--directed/--undirected", help="Whether cart order is known and counts.")
    ] = True,
    customers: Annotated[bool, typer.Option("--customers/--no-customers", help="Whether customers are known.")] = True,
    per_customer: Annotated[
        bool, typer.Option("--per-customer/--per-basket", help="Count a pair at most once a customer.")
    ] = False,
    recall: Annotated[int, typer.Option(help="Size of the recall sets.", min=1)] = 200,
) -> None:
    """The counting statements for a warehouse. They are translated and parsed, NOT run there by us: try a small day."""
    from neatrec.copurchase import Counting
    from neatrec.errors import must_be
    from neatrec.experiments.warehouse import sql_script

    if per_customer and not customers:
        raise must_be("--per-customer", "used where customers are known", "--no-customers")
    counting = Counting(window=window, directed=directed, min_basket=min_basket, once_per_customer=per_customer)
    script = sql_script(dialect, counting, users_known=customers, recall=recall)
    if talk.as_json:
        print_json({"format": 1, "dialect": dialect, "was_run": False, "sql": script})
    else:
        print(script, end="")
