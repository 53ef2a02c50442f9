"""The counting statements for a warehouse: the files that DuckDB and Spark run, written in another dialect."""

from __future__ import annotations

from neatrec._version import __version__
from neatrec.copurchase import Counting
from neatrec.copurchase.statements import MARGINS, RECALL_STEPS, Step, counting_steps
from neatrec.errors import MissingDependencyError, must_be_one_of

DIALECTS = (
    *("athena", "bigquery", "clickhouse", "databricks", "duckdb", "hive", "mysql", "oracle", "postgres", "presto"),
    *("redshift", "snowflake", "spark", "sqlite", "starrocks", "teradata", "trino", "tsql"),
)
NOT_RUN = (
    "These statements were translated and parsed, not run on {dialect}: compare a small day with `neatrec labels`."
)
INPUT = """\
They read four tables, which you make of your own:
  basket_lines (basket, position, item)   one row a line, each item once a basket; position 1, 2, ... in cart order
  baskets (basket, customer)              one row a basket; customer NULL where customers are not known
  items (item, removal, place)            removal: the category whose pairs are left out, or something unlike
                                          all others for an item without one; place: the item's rank by id
  settings (min_basket, reach, recall)    one row, made here
basket and item may be numbers or text; text must compare by its bytes."""


def sql_script(
    dialect: str, counting: Counting, *, users_known: bool = True, recall: int = 200, reach: int = 1_000_000
) -> str:
    """The statements from basket lines to pairs, margins and recall sets, in `dialect`.

    `reach` is the longest basket to expect; a window of `counting` takes its place.
    """
    if dialect not in DIALECTS:
        raise must_be_one_of("dialect", DIALECTS, dialect)
    settings = f"SELECT {counting.min_basket} AS min_basket, {counting.window or reach} AS reach, {recall} AS recall"
    steps = (*counting_steps(counting, users_known=users_known), MARGINS, *RECALL_STEPS)
    parts = [f"CREATE TABLE settings AS {settings}", *(_creation(step) for step in steps)]
    about = f"neatrec {__version__}: pairs, margins and recall sets.\n{NOT_RUN.format(dialect=dialect)}\n{INPUT}"
    head = "\n".join(f"-- {line}" for line in about.splitlines())
    return "\n\n".join([head, *(f"{translated(part, dialect)};" for part in parts)]) + "\n"


def translated(sql: str, dialect: str) -> str:
    """One statement of ours in another dialect."""
    try:
        import sqlglot
    except ImportError as error:
        raise MissingDependencyError(
            "translating SQL needs sqlglot", hint="pip install 'neatrec[warehouse]', or pip install sqlglot"
        ) from error
    (text,) = sqlglot.transpile(sql, read="duckdb", write=dialect, pretty=True)
    return str(text)


def _creation(step: Step) -> str:
    # the comment of the file goes in front: some dialects take none inside CREATE
    lines = step.query.splitlines()
    comment = [line for line in lines if line.startswith("--")]
    query = [line for line in lines if not line.startswith("--")]
    return "\n".join([*comment, f"CREATE {'VIEW' if step.view else 'TABLE'} {step.name} AS", *query])
