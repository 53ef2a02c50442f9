"""SOURCE as an address: its kind, and the part that may be shown and stored."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from neatrec.errors import SourceError, must_be

ADDRESS = re.compile(r"\s*(?P<scheme>[a-z][a-z0-9+.:-]*)://(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
SECRET = re.compile(
    r"(^|[?&;#,\s])(pass|[\w.-]*(passw(or)?d|passphrase|pwd|secret|token|credential"
    r"|(api|access|private)[_-]?key)[\w.-]*)\s*=",
    re.IGNORECASE,
)
"""A parameter of an address, or of a text such as "host=shop password=...", with a secret value."""
READABLE = ("postgresql",)
WHERE_SECRETS_ARE = {"postgresql": "The password is read from PGPASSWORD or ~/.pgpass."}


@dataclass(frozen=True)
class Address:
    """An address without a password in it."""

    scheme: str
    shown: str
    """Without user and parameters, for messages and records."""
    text: str = field(repr=False)
    """As it was given; it may name a user."""


def is_address(source: str) -> bool:
    """Whether `source` is written like an address rather than a path.

    >>> is_address("postgresql://localhost/shop"), is_address("orders/*.csv")
    (True, False)
    """
    return ADDRESS.match(source) is not None


def holds_password(source: str) -> bool:
    """Whether `source` may hold a password: user:password@, or a parameter such as password=.

    >>> [holds_password(source) for source in ("postgresql;//ann:x@shop/", "pwd=x", "a/o.csv")]
    [True, True, False]
    """
    text = unquote(source)
    return bool(SECRET.search(text) or re.search(":[^@]*@", text))


def is_address_as_path(path: str) -> bool:
    """Whether `path` was an address before it became a path, which has no two slashes in a row.

    >>> [is_address_as_path(path) for path in ("postgresql:/localhost/shop", "C:/shop", "a/b.csv")]
    [True, False, False]
    """
    return re.match(r"\s*(jdbc:|[a-z][a-z0-9+.-]+:/)", path, re.IGNORECASE) is not None


def password_refused(what: str, scheme: str = "") -> SourceError:
    """The error for an address that holds a password, which it does not repeat."""
    hint = WHERE_SECRETS_ARE.get(scheme, "Leave it out.")
    return SourceError(
        f"{what} must not contain a password: others can read it in the process list",
        hint=f"{hint} A character @ elsewhere is written %40.",
    )


def parse_address(source: str, known: Sequence[str] = ()) -> Address:
    """The address `source`, of one of the `known` kinds (none: any).

    One that holds a password is refused without repeating it.

    >>> parse_address("postgres://ann@db.shop:5433/orders?sslmode=require", READABLE).shown
    'postgresql://db.shop:5433/orders'
    """
    source = source.strip()
    found = ADDRESS.fullmatch(source)
    if found is None:
        raise must_be("address", "such as postgresql://host/name", source)
    given = found["scheme"].lower()
    scheme = "postgresql" if given == "postgres" else given
    user, _, host = found["rest"].rpartition("@")
    if SECRET.search(unquote(found["rest"])) or re.search("[:/]", unquote(user)):
        raise password_refused(f"a {scheme}:// address", scheme)
    shown = f"{scheme}://{re.split('[?#;]', host, maxsplit=1)[0]}"
    if known and scheme not in known:
        raise SourceError(
            f"{scheme}:// is not an address that can be read: it must begin with "
            f"{' or '.join(f'{each}://' for each in known)}",
            hint="Download or export the rows as CSV or Parquet, and give the path.",
        )
    return Address(scheme, shown, source)
