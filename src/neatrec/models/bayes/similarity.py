"""Which items are alike: by the words of their names, and by low-rank factors of the log-lifts of their pairs."""

from __future__ import annotations

import unicodedata
from array import array
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse

from neatrec.compiled import compiled, offer_best
from neatrec.data.catalog import UNKNOWN
from neatrec.models.counts import PairCounts, frequent_pairs
from neatrec.models.parallel import parallel_slices
from neatrec.statistics.blas import one_blas_thread

PIECE, MAX_ITEMS_PER_PIECE = 3, 2_000
"""Characters of a piece of a name; over the whole catalogue commoner pieces are left out."""
UNSPACED_SCRIPTS = ("CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")
"""How the Unicode names of characters begin whose words no spaces part."""
INVISIBLE = dict.fromkeys([0x00AD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF])
"""Soft hyphens and joiners inside words: removed."""
NEIGHBOURS = 20
"""Similar items per item, itself included."""
MIN_NAME_COSINE, MIN_VECTOR_COSINE = 0.25, 0.2
"""Two items are similar from this cosine on: of the words of their names, of their low-rank vectors."""
ROWS, MAX_COSINES = 512, 2**22
"""Items that one thread compares with their category at a time, and the most cosines of them."""
LIFT_PSEUDO_COUNT = 3.0
"""Added to C and E before the logarithm of the lift."""
EXTRA_DIRECTIONS, ITERATIONS = 20, 3
"""Of the subspace iteration: directions beyond the rank, and rounds."""
BLOCK_PAIRS = 4_000_000
"""Pairs whose log-lifts are computed together."""

Vectors = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]
Found = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], Vectors]
"""Rows, columns and values of a sparse matrix."""


def words_of(name: str | None) -> list[str]:
    """The distinct words of a name in any language, in lower case; pairs of characters where no spaces part words.

    >>> words_of("Organic Taco Shells, 12 CT Shells")
    ['ct', 'organic', 'shells', 'taco']
    >>> words_of("緑茶 Crème")
    ['crème', '緑茶']
    """
    words: set[str] = set()
    for kind, characters in groupby(unicodedata.normalize("NFKC", name or "").casefold(), _kind):
        word = "".join(characters).translate(INVISIBLE)
        if kind == "unspaced":
            words.update(word[place : place + 2] for place in range(max(1, len(word) - 1)))
        elif kind == "word" and len(word) > 1:
            words.add(word)
    return sorted(words)


@cache
def _kind(character: str) -> str:
    """`word` or `unspaced` for what belongs to a word (letters, marks, invisible joiners), else ``."""
    if not (unicodedata.category(character)[0] in "LM" or ord(character) in INVISIBLE):
        return ""
    return "unspaced" if unicodedata.name(character, "").startswith(UNSPACED_SCRIPTS) else "word"


def character_pieces(word: str) -> list[str]:
    """Runs of PIECE characters of a word, whose ends are marked.

    >>> character_pieces("rice")
    ['<ri', 'ric', 'ice', 'ce>']
    """
    marked = f"<{word}>"
    return [marked[place : place + PIECE] for place in range(len(marked) - PIECE + 1)]


def piece_table(names: Iterable[str | None]) -> sparse.csr_matrix | None:
    """Which name has which piece of a word, ones of shape (names, pieces); None without any.

    Columns are in alphabetical order. The pieces of one name at a time are in memory.
    """
    seen: dict[str, int] = {}
    codes, ends = array("i"), array("q", [0])
    for name in names:
        pieces = {piece for word in words_of(name) for piece in character_pieces(word)}
        codes.extend(seen.setdefault(piece, len(seen)) for piece in sorted(pieces))
        ends.append(len(codes))
    if not seen:
        return None
    column = np.empty(len(seen), dtype=np.int32)
    column[[seen[piece] for piece in sorted(seen)]] = np.arange(len(seen))
    cells = np.ones(len(codes), np.float32), column[np.asarray(codes)], np.asarray(ends)
    return sparse.csr_matrix(cells, shape=(len(ends) - 1, len(seen)))


def similar_names(names: Iterable[str | None], category: npt.NDArray[np.int32]) -> sparse.csr_matrix | None:
    """Squared cosine of the names' character pieces, rare ones weighing more, shape (items, items); None without names.

    Pieces find what words cannot: plurals, compounds, typos, in any language. Items are compared with their category,
    those without category with all items; 1 for the item itself.
    """
    table = piece_table(names)
    if table is None:
        return None
    size = len(category)
    items = np.asarray(table.sum(axis=0)).ravel()
    weighted = sparse.csr_matrix(table @ sparse.diags(np.log(size / items)))
    unit = _unit_rows(weighted)
    # over the whole catalogue the commonest pieces tell little and would take most of the time
    rare = _unit_rows(weighted[:, items <= MAX_ITEMS_PER_PIECE]) if (category == UNKNOWN).any() else unit
    each = np.arange(size)
    found: list[Found] = [(each.astype(np.int32), each.astype(np.int32), np.ones(size, dtype=np.float32))]
    for code, rows, members in _groups(category, each, each):
        found.append(_nearest_names(rare if code == UNKNOWN else unit, rows, members))
    row, column, value = (np.concatenate(part) for part in zip(*found, strict=True))
    return sparse.csr_matrix((value, (row, column)), shape=(size, size))


def _groups(category: npt.NDArray[np.int32], rows: Places, members: Places) -> Iterator[tuple[int, Places, Places]]:
    """The rows of each category, and the members they are compared with: all where the category is not known."""
    for code in np.unique(category[rows]).tolist():
        theirs = members if code == UNKNOWN else members[category[members] == code]
        yield code, rows[category[rows] == code], theirs


def _unit_rows(table: sparse.csr_matrix) -> sparse.csr_matrix:
    length = np.sqrt(np.asarray(table.multiply(table).sum(axis=1)).ravel())
    return sparse.csr_matrix(sparse.diags(1 / np.where(length > 0, length, 1)) @ table, dtype=np.float32)


class NearestHeaps(NamedTuple):
    """Heaps of the best members of each row, the first `filled` places in use."""

    cosine: Vectors
    """(rows, places)."""
    item: npt.NDArray[np.int32]
    """Their places among the members, of the same shape."""
    filled: Places
    """(rows,)."""

    @classmethod
    def empty(cls, rows: int, places: int) -> NearestHeaps:
        shape = rows, places
        return cls(np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=np.int32), np.zeros(rows, dtype=np.int64))

    def of_rows(self, part: slice) -> NearestHeaps:
        return NearestHeaps(self.cosine[part], self.item[part], self.filled[part])

    def found(self, rows: Places, members: Places) -> Found:
        """Row, member and squared cosine of each place in use."""
        row, place = np.nonzero(np.arange(self.cosine.shape[1]) < self.filled[:, None])
        cells = rows[row].astype(np.int32), members[self.item[row, place]].astype(np.int32)
        return *cells, self.cosine[row, place] ** 2


def _nearest_names(unit: sparse.csr_matrix, rows: Places, members: Places) -> Found:
    """The members most similar to each row, itself left out."""
    mine, theirs = unit[rows], unit[members].T.tocsr()
    best, myself = NearestHeaps.empty(len(rows), NEIGHBOURS - 1), np.searchsorted(members, rows)

    def work(part: slice) -> None:
        own = mine[part]
        tables = own.indptr, own.indices, own.data, theirs.indptr, theirs.indices, theirs.data
        nearest_names(tables, len(members), myself[part], best.of_rows(part))

    parallel_slices(len(rows), work, min_rows=ROWS)
    return best.found(rows, members)


@compiled
def nearest_names(tables, size, myself, best):  # type: ignore[no-untyped-def]
    """Fill the heaps of each row with the columns of the highest products, from MIN_NAME_COSINE on.

    tables: start, piece and value of the rows, then the same of the pieces (start, column, value).
    """
    start, piece, value, piece_start, column, other_value = tables
    product, reached = np.zeros(size, np.float32), np.empty(size, np.int32)
    for row in range(len(myself)):
        count = 0
        for place in range(start[row], start[row + 1]):
            for other in range(piece_start[piece[place]], piece_start[piece[place] + 1]):
                v = column[other]
                if product[v] == 0:
                    reached[count] = v
                    count += 1
                product[v] += value[place] * other_value[other]
        for number in range(count):
            v = reached[number]
            if product[v] >= MIN_NAME_COSINE and v != myself[row]:
                best.filled[row] = offer_best(best.cosine[row], best.item[row], best.filled[row], product[v], v)
            product[v] = 0


def vector_neighbours(unit: Vectors, category: npt.NDArray[np.int32]) -> sparse.csr_matrix:
    """Squared cosine of the low-rank vectors of length 1, within categories, shape (items, items).

    An item without category has itself alone.
    """
    known = np.flatnonzero(category != UNKNOWN)
    itself = sparse.identity(len(category), dtype=np.float32)
    return sparse.csr_matrix(_nearest_vectors(unit, category, known, known) + itself)


def similar_vectors(
    vectors: Vectors, category: npt.NDArray[np.int32], rows: Places, members: Places
) -> sparse.csr_matrix:
    """Squared cosine of the vectors (items, dim) of `rows` with those of the nearest `members`, shape (items, items).

    Members of the row's category, all where it is not known. Items whose vector is NaN have none. The mean vector is
    subtracted: encoders give all texts a common direction.
    """
    given: npt.NDArray[np.bool_] = np.asarray(np.isfinite(vectors).all(axis=1))
    unit = np.zeros_like(vectors, dtype=np.float32)
    unit[given] = unit_vectors(vectors[given] - vectors[given].mean(axis=0))
    return _nearest_vectors(unit, category, rows[given[rows]], members[given[members]])


def _nearest_vectors(
    unit: Vectors, category: npt.NDArray[np.int32], rows: Places, members: Places
) -> sparse.csr_matrix:
    """The nearest others of each row among the members of its category, among all where it is not known."""
    tasks: list[tuple[Places, Places]] = []
    for _, mine, theirs in _groups(category, rows, members):
        size = min(ROWS, max(1, MAX_COSINES // max(len(theirs), 1)))
        tasks += [(mine[start : start + size], theirs) for start in range(0, len(mine), size)]
    none = np.zeros(0, dtype=np.int32)
    found: list[Found] = [(none, none, np.zeros(0, dtype=np.float32))] * (len(tasks) + 1)

    def work(part: slice) -> None:
        for number in range(part.start, part.stop):
            mine, theirs = tasks[number]
            best = NearestHeaps.empty(len(mine), NEIGHBOURS - 1)
            nearest_vectors(unit[mine] @ unit[theirs].T, mine, theirs, best)
            found[number] = best.found(mine, theirs)

    with one_blas_thread():
        parallel_slices(len(tasks), work)
    row, column, value = (np.concatenate(part) for part in zip(*found, strict=True))
    return sparse.csr_matrix((value, (row, column)), shape=(len(category), len(category)))


@compiled
def nearest_vectors(cosine, rows, members, best):  # type: ignore[no-untyped-def]
    """Fill the heaps of each row with the members of the highest cosines (rows, members), from MIN_VECTOR_COSINE on.

    An item itself is left out: others of the same direction must not take its place.
    """
    for row in range(len(rows)):
        bound = np.float32(MIN_VECTOR_COSINE)
        for place in range(len(members)):
            if cosine[row, place] >= bound and members[place] != rows[row]:
                value = cosine[row, place]
                best.filled[row] = offer_best(best.cosine[row], best.item[row], best.filled[row], value, place)
                if best.filled[row] == best.cosine.shape[1]:
                    bound = best.cosine[row, 0]


def log_lifts(counts: PairCounts, min_pair_count: int) -> sparse.csr_matrix:
    """log((C + 3) / (E + 3)) of pairs seen at least `min_pair_count` times and more often than expected, float32."""
    values, items, in_row = [], [], []
    for first, end in row_blocks(counts.matrix.indptr, BLOCK_PAIRS):
        query, item, count = frequent_pairs(counts.matrix[first:end], min_pair_count)
        expected = counts.expected(counts.total[first:end][query], counts.total[item])
        value = np.log((count + LIFT_PSEUDO_COUNT) / (expected + LIFT_PSEUDO_COUNT))
        more = value > 0
        values.append(value[more].astype(np.float32))
        items.append(item[more])
        in_row.append(np.bincount(query[more], minlength=end - first))
    start = np.concatenate([[0], np.cumsum(np.concatenate(in_row))])
    return sparse.csr_matrix((np.concatenate(values), np.concatenate(items), start), shape=counts.matrix.shape)


def row_blocks(start: npt.NDArray[Any], size: int) -> list[tuple[int, int]]:
    """First row and end of blocks of about `size` entries, at least one row each; `start`: where rows begin."""
    ends = np.searchsorted(start, np.arange(size, int(start[-1]) + size, size), side="left")
    cuts = np.unique(np.concatenate([[0], np.minimum(ends, len(start) - 1), [len(start) - 1]]))
    return [(int(first), int(end)) for first, end in pairwise(cuts)]


def low_rank_factors(matrix: Any, rank: int, rng: np.random.Generator) -> tuple[Vectors, Vectors]:
    """U (items, rank) and w (rank,) such that U diag(w) U' approximates the symmetric `matrix`.

    Randomised subspace iteration, on one BLAS thread so that the bits do not depend on the cores. Rows without values
    are zeros.
    """
    used = np.flatnonzero(np.diff(matrix.indptr) if sparse.issparse(matrix) else np.abs(matrix).sum(axis=1))
    vectors, values = np.zeros((matrix.shape[0], rank), dtype=np.float32), np.zeros(rank, dtype=np.float32)
    if not len(used):
        return vectors, values
    inner = matrix[used][:, used]
    basis = rng.standard_normal((len(used), min(rank + EXTRA_DIRECTIONS, len(used)))).astype(np.float32)
    with one_blas_thread():
        for _ in range(ITERATIONS):
            # in float32 and in place: NumPy's would take two copies in float64
            basis = linalg.qr(inner @ basis, mode="economic", overwrite_a=True, check_finite=False)[0]
        small = basis.T @ (inner @ basis)
        found, rotation = np.linalg.eigh((small + small.T) / 2)
        largest = np.argsort(-np.abs(found), kind="stable")[:rank]
        vectors[used, : len(largest)] = basis @ rotation[:, largest]
    values[: len(largest)] = found[largest]
    return vectors, values


def scaled_vectors(vectors: Vectors, values: Vectors) -> Vectors:
    """Vectors times the root of their factors' absolute values, (items, rank)."""
    return np.asarray(vectors * np.sqrt(np.abs(values)), dtype=np.float32)


def unit_vectors(scaled: Vectors) -> Vectors:
    """The vectors at length 1, zeros where there are none."""
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.asarray(scaled / np.where(length > 0, length, 1), dtype=np.float32)
