"""Settings of a server, and what one request may ask for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from neatrec.errors import must_be

__all__ = ["AddressTemplate", "ServiceSettings"]

K = 10
"""Answers when `k` is not given."""
MAX_K = 100
MAX_ITEMS = 100
"""Items in a cart, ids to exclude."""
MAX_CATEGORIES = 20
MAX_NAME = 256
"""Of a category. Ids are limited only by the query string or the body."""
MAX_NOTE = 200
"""Characters of a note to a rule."""
MAX_GUESS = 256
"""Of an unknown id for which near names are looked for."""
MAX_SEARCH = 256
MAX_BODY = 1024 * 1024
BODY_SECONDS = 10.0
"""How long a body may take to arrive: a request that waits for it counts as in progress."""
MAX_QUERY_STRING = 32 * 1024
IN_FLIGHT = 64
"""Largest number of concurrent requests; more are answered with 503 at once."""

ID = "{id}"
ADDRESS = re.compile(
    r"(?P<origin>https?://(?:[a-z0-9-]+(?:\.[a-z0-9-]+)*|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?)"
    r"/(?:[a-z0-9._~:/?#\[\]@!$&'()*+,;=%-]|\{id\})*",
    re.IGNORECASE,
)
"""A template of addresses: the host is literal, {id} stands in what follows."""


@dataclass(frozen=True)
class AddressTemplate:
    """The address of a product or of its picture, with {id} for the item's id."""

    text: str

    @classmethod
    def parse(cls, argument: str, text: str) -> AddressTemplate:
        """The template in `text`, the value of `argument`."""
        if not ADDRESS.fullmatch(text) or ID not in text:
            wanted = (
                "an address that begins with https:// or http:// and a host, with {id} after it"
            )
            raise must_be(argument, wanted, text, hint="For example https://cdn.shop/{id}.jpg.")
        return cls(text)

    def of(self, item: str) -> str:
        """The address of an item; its id is quoted."""
        return self.text.replace(ID, quote(item, safe=""))

    @property
    def origin(self) -> str:
        """The host with its scheme, as a content-security policy names it."""
        found = ADDRESS.fullmatch(self.text)
        return found["origin"] if found else ""


@dataclass(frozen=True)
class ServiceSettings:
    """Everything but the keys."""

    bundle: Path
    """A bundle, or a store whose `current` names one."""
    rules: Path | None = None
    available: Path | None = None
    key_file: Path | None = None
    editor_key_file: Path | None = None
    """Whoever has a key of this file may edit `rules` on the page; None: nobody."""
    cors: tuple[str, ...] = ()
    image_url: AddressTemplate | None = None
    """Where pictures of the items are; the content-security policy allows this host."""
    link_url: AddressTemplate | None = None
    """Where the items are in the shop."""
    in_flight: int = IN_FLIGHT
    host: str | None = None
    """The address it is bound to. Without a key only requests to it or to a loopback name are
    answered; None: another server runs the application and checks host names."""
    interval: float = 1.0
    """Seconds between two checks for changed files."""

    def __post_init__(self) -> None:
        if self.editor_key_file is not None and self.rules is None:
            hint = "Editors write to the file of --rules."
            wanted, given = "left out without --rules", str(self.editor_key_file)
            raise must_be("--editor-key-file", wanted, given, hint=hint)
