"""The sessions of editors: a signed cookie, and the list of ended sessions."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from neatrec.service.keys import Keys
from neatrec.service.rules import RulesFile

HOURS = 12
"""How long a log-in holds."""
ENDED = ".ended"
"""The file beside the rules that lists sessions which were logged out of."""


@dataclass(frozen=True)
class EditorSession:
    """Somebody who logged in with an editor key."""

    who: str
    ends: int
    """In seconds since 1970."""
    number: str


def open_session(key: bytes, who: str) -> str:
    """The cookie of a new session, signed with the key: taking the key out of its file ends it."""
    content = json.dumps([who, int(time.time()) + HOURS * 3600, secrets.token_hex(16)])
    payload = base64.urlsafe_b64encode(content.encode()).decode()
    return f"{payload}.{_signature(key, payload)}"


def read_session(keys: Keys, cookie: str) -> EditorSession | None:
    """The session of a cookie; None where it is not signed with a valid key, or over."""
    payload, _, signature = cookie.rpartition(".")
    given = signature.encode("utf-8", "replace")
    if not any(hmac.compare_digest(_signature(k, payload).encode(), given) for k in keys.valid):
        return None
    session = EditorSession(*json.loads(base64.urlsafe_b64decode(payload)))
    return session if time.time() < session.ends else None


def _signature(key: bytes, payload: str) -> str:
    content = f"neatrec session {payload}".encode("utf-8", "replace")
    return hmac.new(key, content, hashlib.sha256).hexdigest()


def has_ended(rules: RulesFile, session: EditorSession) -> bool:
    """Whether somebody logged out of the session."""
    return _line(session) in _ended(rules)


def end_session(rules: RulesFile, session: EditorSession) -> None:
    """End a session for all workers, also after a restart; expired ones are forgotten."""
    with rules.locked():
        kept = [line for line in _ended(rules) if int(line.partition(" ")[0]) > time.time()]
        rules.replace_by(_file(rules), "\n".join([*kept, _line(session)]).encode())


def _line(session: EditorSession) -> str:
    return f"{session.ends} {session.number}"


def _file(rules: RulesFile) -> Path:
    return rules.path.with_name(rules.path.name + ENDED)


def _ended(rules: RulesFile) -> list[str]:
    try:
        return _file(rules).read_text().splitlines()
    except FileNotFoundError:
        return []
