"""What the names of items say: which words they hold, and which items of one category are called alike."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neatrec.data.catalog import UNKNOWN, Catalog
from neatrec.models.parallel import parallel_slices

MOST_WORDS = 3_000
"""The most frequent words count; a table of word pairs is this number squared."""
FEWEST_ITEMS = 5
"""A word of fewer items says nothing about other items."""
NEIGHBOURS = 20
"""Items of like name that an item borrows from, itself included."""
LIKENESS = 0.25
"""Cosine of the word weights below which two names are not alike."""
ROWS, MOST_COSINES = 512, 2**22
"""Items that a thread compares with all of their category at a time, and the most cosines that makes."""

Places = npt.NDArray[np.int64]
Found = tuple[Places, Places, npt.NDArray[np.float32]]
"""Rows, columns and values of a sparse matrix."""
Near = Callable[[Places, Places], Found]
"""What some items have in common with the members of their category."""


def words_of(name: str | None) -> list[str]:
    """The distinct words of a name, small letters, plural s taken off.

    >>> words_of("Organic Taco Shells, 12 CT Shells")
    ['ct', 'organic', 'shell', 'taco']
    """
    found = re.findall(r"[^\W\d_]{2,}", (name or "").lower())
    return sorted({word[:-1] if len(word) > 3 and word[-1] == "s" != word[-2] else word for word in found})


def word_table(catalog: Catalog) -> sparse.csr_matrix | None:
    """Which item has which word, ones of shape (items, words); None without names."""
    if catalog.names is None:
        return None
    lists = [words_of(name) for name in catalog.names.to_pylist()]
    word_of = {word: code for code, word in enumerate(sorted({word for words in lists for word in words}))}
    if not word_of:
        return None
    codes = np.array([word_of[word] for words in lists for word in words], dtype=np.int32)
    starts = np.concatenate([[0], np.cumsum([len(words) for words in lists])])
    return sparse.csr_matrix((np.ones(len(codes), np.float32), codes, starts), shape=(len(catalog), len(word_of)))


def common_words(table: sparse.csr_matrix) -> sparse.csr_matrix | None:
    """The columns of the most frequent words, each row divided by its number of words; None when no word is common."""
    items = np.asarray(table.sum(axis=0)).ravel()
    order = np.argsort(-items, kind="stable")[:MOST_WORDS]
    kept = np.sort(order[items[order] >= FEWEST_ITEMS])
    if not len(kept):
        return None
    part = table[:, kept]
    size = np.maximum(np.asarray(part.sum(axis=1)).ravel(), 1).astype(np.float32)
    return sparse.csr_matrix(sparse.diags(1 / size) @ part, dtype=np.float32)


def like_names(table: sparse.csr_matrix, category: npt.NDArray[np.int32]) -> sparse.csr_matrix:
    """How much each item borrows from those of its category with like names, shape (items, items), float32.

    The squared cosine of the names' rare words; 1 for the item itself. An item without category borrows from none.
    """
    items = np.asarray(table.sum(axis=0)).ravel()
    weighted = table @ sparse.diags(np.log(table.shape[0] / np.maximum(items, 1)))
    length = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
    unit = sparse.csr_matrix(sparse.diags(1 / np.where(length > 0, length, 1)) @ weighted, dtype=np.float32)

    def near(rows: Places, members: Places) -> Found:
        return nearest((unit[rows] @ unit[members].T).toarray(), rows, members, LIKENESS)

    return within_categories(category, near)


def within_categories(category: npt.NDArray[np.int32], near: Near) -> sparse.csr_matrix:
    """What `near` finds for the items of each category among these, some of them at a time, shape (items, items).

    An item without category has itself alone.
    """
    tasks: list[tuple[Places, Places]] = []
    for code in np.unique(category[category != UNKNOWN]):
        members = np.flatnonzero(category == code)
        size = min(ROWS, max(1, MOST_COSINES // len(members)))
        tasks += [(members[start : start + size], members) for start in range(0, len(members), size)]
    alone = np.flatnonzero(category == UNKNOWN)
    found: list[Found] = [(alone, alone, np.ones(len(alone), dtype=np.float32))] * (len(tasks) + 1)

    def work(part: slice) -> None:
        for number in range(part.start, part.stop):
            found[number + 1] = near(*tasks[number])

    if tasks:
        parallel_slices(len(tasks), work)
    rows, columns, values = (np.concatenate(part) for part in zip(*found, strict=True))
    return sparse.csr_matrix((values, (rows, columns)), shape=(len(category), len(category)))


def nearest(cosine: npt.NDArray[np.float32], rows: Places, members: Places, likeness: float) -> Found:
    """Rows, members and squared cosines of the NEIGHBOURS nearest of each row above `likeness`; 1 for the row itself.

    `cosine` has shape (rows, members) and is written to.
    """
    cosine[rows[:, None] == members] = 1.0
    least = np.full(len(rows), likeness, dtype=np.float32)
    if len(members) > NEIGHBOURS:
        least = np.maximum(least, np.partition(cosine, -NEIGHBOURS, axis=1)[:, -NEIGHBOURS])
    row, column = np.nonzero(cosine >= least[:, None])
    return rows[row], members[column], cosine[row, column].astype(np.float32) ** 2
