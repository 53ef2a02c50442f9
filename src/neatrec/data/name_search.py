"""Search by name that forgives typos: by byte trigrams, then by similarity."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

import numpy as np
import numpy.typing as npt

try:
    from rapidfuzz.fuzz import ratio  # compiled; it comes with the extra `serve`
except ImportError:

    def ratio(one: str, other: str) -> float:  # type: ignore[no-redef]
        """How alike two texts are, 0 to 100."""
        return 100 * SequenceMatcher(None, one, other, autojunk=False).ratio()


COMPARED = 120
"""Names that share most trigrams with the words are compared one by one."""
NEAR = 0.55
"""Smallest similarity of a match, 0 to 1."""
EXACT = 1.3
"""The similarity of a name with all the words; it is more where they stand together."""
LONGEST = 120
"""Bytes of a name that are looked at."""
BUCKETS = 1 << 18


class NameSearch:
    """Search of items by words, beginnings of words, or similar names."""

    def __init__(self, names: Sequence[str], popularity: npt.NDArray[np.int64]) -> None:
        self.names = [folded(name) for name in names]
        self.popularity = popularity
        trigrams, self.owners = _trigrams_of(self.names)
        # names with trigram p: owners[start[p]:start[p + 1]]
        self.start = np.searchsorted(trigrams, np.arange(BUCKETS + 1))
        self.size = np.maximum(np.bincount(self.owners, minlength=len(names)), 1)

    def find(self, text: str, count: int) -> list[int]:
        """Codes of the items whose name fits `text`, best first, best sellers first in ties."""
        return [code for code, _ in self.hits(text, count)]

    def hits(self, text: str, count: int) -> list[tuple[int, bool]]:
        """The same, each with whether its name holds the words; those only similar come last."""
        words = folded(text)
        if not words:
            return []
        wanted = _trigrams_of([words])[0]
        shared = np.zeros(len(self.names), dtype=np.int32)
        for trigram in wanted.tolist():
            shared[self._owners(trigram)] += 1
        likely = np.flatnonzero(shared)
        if len(likely) > COMPARED:
            # a short name that shares as many trigrams is nearer than a long one
            merit = shared[likely] / len(wanted) + 0.1 * shared[likely] / self.size[likely]
            likely = likely[np.lexsort((-self.popularity[likely], -np.round(merit, 2)))[:COMPARED]]
        compared = [
            (self._similarity(words, int(code)), int(self.popularity[code]), int(code))
            for code in likely
        ]
        compared.sort(key=lambda hit: (-round(20 * hit[0]), -hit[1], hit[2]))
        return [
            (code, similarity >= EXACT) for similarity, _, code in compared if similarity >= NEAR
        ][:count]

    def holding(self, text: str) -> npt.NDArray[np.bool_]:
        """Which names have every word of `text` somewhere in them, shape (items,)."""
        words = folded(text).split()
        # only names with the rarest trigram of the words can have them all; a shorter word has none
        trigrams = [
            int(code)
            for word in words
            for code in _buckets(np.frombuffer(word.encode("utf-8", "replace"), np.uint8))
        ]
        rarest = min(
            trigrams, key=lambda code: self.start[code + 1] - self.start[code], default=None
        )
        able = list(range(len(self.names)) if rarest is None else self._owners(rarest).tolist())
        for word in words:
            able = [code for code in able if word in self.names[code]]
        found = np.zeros(len(self.names), dtype=np.bool_)
        found[able] = True
        return found

    def _owners(self, trigram: int) -> npt.NDArray[np.int32]:
        return self.owners[self.start[trigram] : self.start[trigram + 1]]

    def _similarity(self, words: str, code: int) -> float:
        name = self.names[code]
        if name == words:
            return 2.0
        if f" {name}".find(f" {words}") >= 0:  # the words begin a word of the name
            return 1.5
        parts, typed = name.split(), words.split()
        if all(any(part.startswith(word) for part in parts) for word in typed):
            return EXACT
        nearest = [max((ratio(word, part) for part in parts), default=0.0) for word in typed]
        by_word = sum(nearest) / len(typed)
        return max(ratio(words, name), 0.95 * by_word if by_word > 70 else 0.0) / 100


def folded(text: str) -> str:
    """The compared part of a name: lower case, one blank between words."""
    return spelled(text)[:LONGEST]


def spelled(text: str) -> str:
    """The complete name: lower case, one blank between words."""
    return " ".join(text.casefold().split())


def _trigrams_of(names: Sequence[str]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """The bucket of every trigram of bytes, ascending, and the name it is from, (trigrams,)."""
    texts = [f" {name} ".encode("utf-8", "replace") for name in names]
    length = np.fromiter((len(text) for text in texts), dtype=np.int64, count=len(texts))
    owner = np.repeat(np.arange(len(texts)), length)
    inside = owner[:-2] == owner[2:]
    buckets = _buckets(np.frombuffer(b"".join(texts), dtype=np.uint8))
    key = np.sort(buckets[inside] * len(texts) + owner[:-2][inside])
    key = key[np.diff(key, prepend=-1) > 0]  # a trigram that a name has twice counts once
    return key // len(texts), (key % len(texts)).astype(np.int32)


def _buckets(letters: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    codes = letters.astype(np.int64)
    return (codes[:-2] * 40503 + codes[1:-1] * 9973 + codes[2:]) % BUCKETS
