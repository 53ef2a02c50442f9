"""The sessions of editors: a signed cookie, and the list of those that were logged out of."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from neatrec.service.keys import Keys
from neatrec.service.rules_file import RulesFile

HOURS = 12
"""How long a log-in holds."""
ENDED = ".ended"
"""The file beside the rules that lists sessions which were logged out of."""


@dataclass(frozen=True)
class EditorSession:
    """Somebody who logged in with an editor key."""

    who: str
    token: str
    """A secret of every form of this session, which no other page can know."""
    number: str
    ends: int
    """In seconds since 1970."""


def open_session(key: bytes, who: str) -> str:
    """The cookie of a new session, signed with the key: taking the key out of its file ends it."""
    content = json.dumps([who, int(time.time()) + HOURS * 3600, secrets.token_hex(16)])
    payload = base64.urlsafe_b64encode(content.encode()).decode()
    return f"{payload}.{_sign(key, 'session', payload)}"


def read_session(keys: Keys, cookie: str) -> EditorSession | None:
    """The session of a cookie; None where it is not signed with a valid key, or over."""
    payload, _, signature = cookie.rpartition(".")
    given = signature.encode("utf-8", "replace")
    signed = [
        key
        for key in keys.valid
        if hmac.compare_digest(_sign(key, "session", payload).encode(), given)
    ]
    if not signed:
        return None
    who, ends, number = json.loads(base64.urlsafe_b64decode(payload))
    if time.time() >= ends:
        return None
    return EditorSession(who, _sign(signed[0], "form", payload), number, ends)


def _sign(key: bytes, purpose: str, text: str) -> str:
    content = f"neatrec {purpose} {text}".encode("utf-8", "replace")
    return hmac.new(key, content, hashlib.sha256).hexdigest()


class EndedSessions:
    """Sessions that were logged out of, one per line, known to all workers and after a restart."""

    def __init__(self, rules: RulesFile) -> None:
        self.rules = rules

    @property
    def path(self) -> Path:
        """The file, beside the rules."""
        return self.rules.path.with_name(self.rules.path.name + ENDED)

    def lines(self) -> list[str]:
        """The number of each session, and when it would have ended."""
        try:
            return self.path.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return []

    def holds(self, session: EditorSession) -> bool:
        """Whether somebody logged out of the session."""
        return f"{session.number} {session.ends}" in self.lines()

    def add(self, session: EditorSession) -> None:
        """End a session; those whose time is over are forgotten."""
        with self.rules.locked():
            ends = [(line, line.partition(" ")[2]) for line in self.lines()]
            kept = [line for line, end in ends if end.isdigit() and int(end) > time.time()]
            writing = self.path.with_name(self.path.name + ".writing")
            text = "\n".join([*kept, f"{session.number} {session.ends}"])
            self.rules.write(writing, text.encode())
            os.replace(writing, self.path)
