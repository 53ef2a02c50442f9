"""Strings from data, made safe to show."""

from __future__ import annotations

import unicodedata


def printable(text: object, limit: int = 120) -> str:
    r"""`text` on one line, with control characters escaped and at most `limit` characters long.

    Names and ids come from other people's files: an escape sequence in one of them must not reach a terminal or a log.

    >>> printable("tea\x1b[31m\n")
    'tea\\x1b[31m\\n'
    """
    out: list[str] = []
    size = 0
    for character in str(text):
        # Cc control, Cf format (bidi overrides too), Cs lone surrogates, Zl and Zp line separators, Co/Cn unassigned
        if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn"}:
            character = character.encode("unicode_escape").decode("ascii")
        if size + len(character) > limit - 1:
            return "".join(out) + "…"
        out.append(character)
        size += len(character)
    return "".join(out)


def plural(count: int, noun: str, many: str | None = None) -> str:
    """
    >>> plural(1, "basket"), plural(12000, "basket"), plural(2, "category", "categories")
    ('1 basket', '12,000 baskets', '2 categories')
    """
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"
