"""The API keys: read from a file or the environment, and compared in constant time."""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from neatrec.errors import SourceError, must_be
from neatrec.text import printable

__all__ = ["Keys", "read_keys"]

KEY_VARIABLE = "NEATREC_API_KEY"
MAX_KEYS = 2
"""Keys that are valid at once: the old one and the new one, while callers change over."""
MIN_KEY = 16
"""Characters of a key."""


@dataclass(frozen=True)
class Keys:
    """The valid API keys; without any, every request is allowed."""

    valid: tuple[bytes, ...] = field(default=(), repr=False)

    def __bool__(self) -> bool:
        return bool(self.valid)

    def admit(self, headers: dict[bytes, bytes]) -> bool:
        """Whether a header holds a key: a proxy may use Authorization for itself."""
        offered = (headers.get(b"x-api-key", b""), _offered(headers.get(b"authorization", b"")))
        matches = [self.find(each) for each in offered]  # both are compared
        return any(match is not None for match in matches)

    def find(self, offered: bytes) -> bytes | None:
        """The valid key that equals `offered`; all are compared: the time reveals nothing."""
        matches = [key for key in self.valid if hmac.compare_digest(offered, key)]
        return matches[0] if matches else None


def _offered(authorization: bytes) -> bytes:
    """The key in an Authorization header: a bearer token, or the password a browser asked for."""
    scheme, _, value = authorization.partition(b" ")
    if scheme.lower() == b"bearer":
        return value.strip()
    if scheme.lower() != b"basic":
        return b""
    try:
        return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
    except binascii.Error:
        return b""


def read_keys(file: Path | None, argument: str = "api-key-file") -> Keys:
    """The keys of `file`, one per line, else those of NEATREC_API_KEY, separated by commas."""
    if file is None:
        return _checked(re.split(r"[,\s]+", os.environ.get(KEY_VARIABLE, "")), KEY_VARIABLE)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        hint = f"One key of at least {MIN_KEY} characters per line, as from `openssl rand -hex 24`."
        message = f"cannot read the keys in {printable(file)}: {why}"
        raise SourceError(message, file=str(file), hint=hint) from error
    keys = _checked(text.split("\n"), argument)
    if not keys:
        hint = "One key per line, at most two."
        raise SourceError(f"there is no key in {printable(file)}", file=str(file), hint=hint)
    return keys


def read_editor_keys(file: Path | None) -> Keys:
    """The keys of those who edit rules; none without a file."""
    return Keys() if file is None else read_keys(file, "editor-key-file")


def _checked(texts: list[str], argument: str) -> Keys:
    keys = [text.strip().encode() for text in texts if text.strip()]
    if len(keys) > MAX_KEYS:
        raise must_be(argument, f"at most {MAX_KEYS} keys", len(keys))
    if any(len(key) < MIN_KEY for key in keys):
        # the key itself must not be in a message
        raise must_be(argument, f"keys of at least {MIN_KEY} characters", min(map(len, keys)))
    return Keys(tuple(keys))
