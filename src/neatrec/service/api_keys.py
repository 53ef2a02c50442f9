"""Keys: who may ask. Read from the environment or a file, compared in constant time, never logged."""

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

VARIABLE = "NEATREC_API_KEY"
MOST = 2
"""Keys that are valid at once: the old one and the new one, while callers change over."""
SHORTEST = 16


@dataclass(frozen=True)
class Keys:
    """The valid keys; none of them: everybody may ask."""

    valid: tuple[bytes, ...] = field(default=(), repr=False)

    def __bool__(self) -> bool:
        return bool(self.valid)

    def admit(self, authorization: bytes | None, api_key: bytes | None) -> bool:
        """Whether a request with these two headers may pass."""
        if not self.valid:
            return True
        # a proxy may use Authorization for itself: one header does not hide the other
        offered = (api_key, None if authorization is None else _offered(authorization))
        # every key is compared, whichever fits: the time tells nothing
        fits = [hmac.compare_digest(given or b"", key) for given in offered for key in self.valid]
        return any(fits)


def read_keys(file: Path | None) -> Keys:
    """The keys of `file` (one a line), else those of NEATREC_API_KEY (separated by commas); at most two."""
    if file is None:
        return _checked(re.split(r"[,\s]+", os.environ.get(VARIABLE, "")), VARIABLE)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"cannot read the keys in {printable(file)}", file=str(file)) from error
    keys = _checked(text.split("\n"), "api-key-file")
    if not keys:
        raise SourceError(f"there is no key in {printable(file)}", file=str(file), hint="One key a line, at most two.")
    return keys


def _checked(texts: list[str], argument: str) -> Keys:
    keys = [text.strip().encode() for text in texts if text.strip()]
    if len(keys) > MOST:
        raise must_be(argument, f"at most {MOST} keys", len(keys))
    if any(len(key) < SHORTEST for key in keys):
        # the key itself must not stand in a message
        raise must_be(argument, f"keys of at least {SHORTEST} characters", "a shorter one")
    return Keys(tuple(keys))


def _offered(authorization: bytes) -> bytes | None:
    """The key in an Authorization header: a bearer token, or the password a browser asked for."""
    scheme, _, value = authorization.partition(b" ")
    if scheme.lower() == b"bearer":
        return value.strip()
    if scheme.lower() == b"basic":
        try:
            return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
        except binascii.Error:
            return None
    return None
