"""SOURCE as an address: what it names, and what of it may be shown and kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Thread
from typing import TypeVar
from urllib.parse import unquote

from neatrec.errors import SourceError

T = TypeVar("T")
ADDRESS = re.compile(
    r"\s*(?P<jdbc>jdbc:)?(?P<scheme>[a-z][a-z0-9+.-]*):(?(jdbc)((thin|oci8?):)?(//)?|//)(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
PASSWORD = r"[\w.-]*(passw(or)?d|passphrase|pwd)[\w.-]*|pass"
SECRET = rf"{PASSWORD}|[\w.-]*(secret|token|credential|(api|access|private)[_-]?key)[\w.-]*"
PARAMETER = r"(^|[?&;#,\s])({})\s*="
"""How a parameter is set in an address, or in a text such as "host=shop password=..."."""
ANSWER_SECONDS = 10.0
"""For a host to answer at all, whatever addresses its name has."""
DATABASES = ("postgresql", "snowflake", "bigquery")
DATABASE_FILES = ("sqlite", "duckdb")
REMOTE = ("https", "s3")
SYNONYMS = {"postgres": "postgresql"}
READABLE = (*DATABASES, *DATABASE_FILES, *REMOTE)
WHERE_SECRETS_ARE = {
    "postgresql": "The password is read from PGPASSWORD or ~/.pgpass.",
    "snowflake": "The password is read from SNOWFLAKE_PASSWORD.",
    "bigquery": "Google's default credentials are used.",
    "s3": "Keys are read from the environment or ~/.aws.",
}
INSTEAD = {
    "http": "Give an https:// address, or download it.",
    "gs": "Copy it with `gcloud storage cp` and give the folder.",
    "file": "Give the path alone.",
}


@dataclass(frozen=True)
class Address:
    """An address without a password in it."""

    scheme: str
    shown: str
    """Without user and parameters: what messages say and what is kept."""
    text: str = field(repr=False)
    """As it was given; it may name a user, and its parameters may be signatures."""


def is_address(source: str) -> bool:
    """Whether `source` is written like an address rather than a path.

    >>> is_address("postgresql://localhost/shop"), is_address("orders/*.csv"), is_address("supermarket:baskets=10")
    (True, False, False)
    """
    return ADDRESS.match(source) is not None


def in_time(work: Callable[[], T]) -> T:
    """What `work` returns; TimeoutError where a host that does not answer holds it longer.

    Its thread is then left to itself: names are looked up, and drivers connect, without a limit of their own.
    """
    found: Future[T] = Future()

    def run() -> None:
        try:
            found.set_result(work())
        except BaseException as error:  # noqa: BLE001 (whatever it is, who waits for the result gets it)
            found.set_exception(error)

    Thread(target=run, daemon=True).start()
    try:
        return found.result(ANSWER_SECONDS)
    except TimeoutError as error:
        if found.done():
            raise
        raise TimeoutError(f"no answer within {ANSWER_SECONDS:g} seconds") from error


def holds_password(source: str) -> bool:
    """Whether `source`, which is no address, looks like one with a password, or like the settings of a connection.

    >>> holds_password("host=shop password=x"), holds_password("'mysql://ann:x@shop/'"), holds_password("a/orders.csv")
    (True, True, False)
    """
    text = unquote(source)
    return bool(re.search(PARAMETER.format(SECRET), text, re.IGNORECASE) or re.search(":/+[^@]*:[^@]*@", text))


def is_address_as_path(path: str) -> bool:
    """Whether `path` was an address before it became a path, which has no two slashes in a row.

    >>> is_address_as_path("postgresql:/localhost/shop"), is_address_as_path("C:/shop"), is_address_as_path("a/b.csv")
    (True, False, False)
    """
    return re.match(r"\s*(jdbc:|[a-z][a-z0-9+.-]+:/)", path, re.IGNORECASE) is not None


def password_refused(what: str, scheme: str = "") -> SourceError:
    """The error for an address that holds a password, which it does not repeat."""
    return SourceError(
        f"{what} must hold no password: others can read it in the list of processes",
        hint=WHERE_SECRETS_ARE.get(scheme, "Leave it out.") + " A character @ elsewhere is written %40.",
    )


def parse_address(source: str, known: Sequence[str] | None = None) -> Address:
    """The address `source`; one that holds a password is refused without repeating it, and so is one that is of none of
    the `known` kinds (None: any; Spark reads kinds of its own).

    >>> parse_address("postgres://ann@db.shop:5433/orders?sslmode=require").shown
    'postgresql://db.shop:5433/orders'
    """
    source = source.strip()
    found = ADDRESS.fullmatch(source)
    if found is None:
        raise ValueError("no address")
    given = found["scheme"].lower()
    scheme, rest = SYNONYMS.get(given, given), found["rest"]
    user, _, place = rest.rpartition("@")
    if scheme in REMOTE and re.match(r"[^/?#@:]*(:\d+)?[/?#]", rest):  # no user: the @ stands in the path
        user, place = "", rest
    # the parameters of a file may be its signature
    secret = re.search(PARAMETER.format(PASSWORD if scheme == "https" else SECRET), unquote(rest), re.IGNORECASE)
    if secret or ":" in unquote(user) or (scheme.startswith("oracle") and "/" in user):
        raise password_refused(f"a {scheme}:// address", scheme)
    shown = f"{scheme}://{re.split('[?#;]', place, maxsplit=1)[0]}"
    if known is not None and (found["jdbc"] or scheme not in known):
        example = f"Write {shown}." if scheme in known else INSTEAD.get(scheme, "Export the rows as CSV or Parquet.")
        raise SourceError(
            f"{'jdbc:' if found['jdbc'] else ''}{scheme}:// is no kind of address that can be read: it must begin with "
            f"one of {', '.join(f'{each}://' for each in known)}",
            hint=example,
        )
    return Address(scheme, shown, source)
