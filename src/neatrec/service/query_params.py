"""What a caller asks, read from a query string and checked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from urllib.parse import parse_qsl

from neatrec.service.limits import (
    LONGEST_NAME,
    LONGEST_QUERY_STRING,
    LONGEST_SEARCH,
    MOST_CATEGORIES,
    MOST_ITEMS,
    MOST_K,
    K,
)
from neatrec.service.problems import Problem, bad, too_long, unknown_choice
from neatrec.text import printable

LEVELS = ("strong", "some", "predicted", "category")
"""What `min_evidence` may be, the strictest first. A rule of the shop needs no evidence."""
FILTERS = ("k", "min_evidence", "diversify", "model", "category_of")
LISTS = ("category", "exclude")
IDS = frozenset({"id", "item", "a", "b", "exclude"})
BOOLEANS = {"true": True, "1": True, "false": False, "0": False}

Fields = dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class QueryParams:
    """Filters of one request, checked; names of items and categories are not yet looked up."""

    k: int = K
    category: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    min_evidence: str | None = None
    """None: `some`, and `category` for a new item, which can have nothing better."""
    diversify: bool = False
    model: str | None = None
    category_of: str | None = None
    """The category of an item that the bundle does not hold."""


def read_fields(query_string: bytes, once: Sequence[str], lists: Sequence[str] = ()) -> Fields:
    """The parameters of a query string by name. Unknown ones, and single ones given twice, are problems."""
    if len(query_string) > LONGEST_QUERY_STRING:
        raise too_long()
    try:
        pairs = parse_qsl(query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=500)
    except ValueError as error:
        raise Problem(422, "ParameterError", "the query string is not UTF-8, or has too many parts") from error
    fields: Fields = {}
    for name, value in pairs:
        if name not in once and name not in lists:
            raise _unknown_parameter(name, [*once, *lists])
        if name in fields and name in once:
            raise bad(name, "given once", [*fields[name], value])
        fields.setdefault(name, []).append(value)
    return fields


def read_question(fields: Fields) -> QueryParams:
    """The filters among `fields`; what is not given keeps its default."""
    return QueryParams(
        k=read_k(fields["k"][0]) if "k" in fields else K,
        category=read_texts("category", fields.get("category", [])),
        exclude=read_texts("exclude", fields.get("exclude", [])),
        min_evidence=read_level(fields["min_evidence"][0]) if "min_evidence" in fields else None,
        diversify=read_boolean("diversify", fields["diversify"][0]) if "diversify" in fields else False,
        model=read_text("model", fields["model"][0]) if "model" in fields else None,
        category_of=read_text("category_of", fields["category_of"][0]) if "category_of" in fields else None,
    )


def read_k(text: str) -> int:
    if not (len(text) <= 4 and text.isascii() and text.isdecimal() and 1 <= int(text) <= MOST_K):
        raise bad("k", f"a whole number from 1 to {MOST_K}", text)
    return int(text)


def read_level(text: str) -> str:
    if text not in LEVELS:
        raise unknown_choice("min_evidence", list(LEVELS), text)
    return text


def read_boolean(name: str, text: str) -> bool:
    if text not in BOOLEANS:
        raise bad(name, "true or false", text)
    return BOOLEANS[text]


def read_texts(name: str, texts: Sequence[str]) -> tuple[str, ...]:
    most = MOST_CATEGORIES if name == "category" else MOST_ITEMS
    if len(texts) > most:
        raise bad(name, f"given at most {most} times", len(texts))
    return tuple(read_text(name, text) for text in texts)


def read_text(name: str, text: str) -> str:
    """An id, as long as it may be, or the name of a category or model, which no limit forbids."""
    if not text or "\0" in text or (len(text) > LONGEST_NAME and name not in IDS):
        length = "at least 1 character" if name in IDS else f"1 to {LONGEST_NAME} characters"
        raise bad(name, f"{length}, none of them NUL", text[: LONGEST_NAME + 1])
    return text


def needed(fields: Fields, name: str) -> str:
    """The id in `name`, which must be there."""
    if name not in fields:
        raise Problem(422, "ParameterError", f"`{name}` is missing", hint="It is the id of an item.", argument=name)
    return read_text(name, fields[name][0])


def read_search(fields: Fields) -> str:
    """The words to search for."""
    text = fields.get("q", [""])[0].strip()
    if not text or len(text) > LONGEST_SEARCH or "\0" in text:
        raise bad("q", f"1 to {LONGEST_SEARCH} characters that are not all blank, none of them NUL", text)
    return text


def _unknown_parameter(name: str, known: Sequence[str]) -> Problem:
    near = get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(known)}."
    return Problem(422, "ParameterError", f"there is no parameter {printable(name)!r}", hint=hint)
