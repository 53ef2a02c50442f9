"""Scores of queries with everything sold, quickly and nearly: which few of them are worth scoring exactly.

A serving table needs the best hundred of thousands of items. `CoarseScorer` gives the logarithms of all scores in
float32, one product of vectors serving low rank and cosine; the error is some millionths. The exact scores of the
best are then those of pairs (`ranking.rank_pairs`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neatrec import statistics
from neatrec.compiled import compiled
from neatrec.models.bayes.features import LIKE_PSEUDO, PairFeatures
from neatrec.models.bayes.prior import FARTHEST, Weights
from neatrec.models.bayes.ranker import COMPANY_PSEUDO, HINTS, LEAST_CHANCE, Ranking
from neatrec.models.bayes.ranker import FARTHEST as FARTHEST_ODDS
from neatrec.models.bayes.scoring import Codes, csr_parts

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.float32]

CHUNK = 1024
"""Items worked on together, so that what they need stays in the fastest cache."""
POSTERIOR_LIFT = Ranking(0.0, np.eye(len(HINTS))[0])
"""The logarithm of the posterior lift, as a ranking."""
# log(1 + f) = f - f^2 / 2 + f^3 (L0 + L1 f + ...) for f from -1/3 to 1/3, to 1e-8; fitted at Chebyshev points
L0, L1, L2, L3 = (np.float32(x) for x in (0.33333209, -0.25005054, 0.20010972, -0.16452257))
L4, L5, L6 = (np.float32(x) for x in (0.13995448, -0.15238841, 0.14037533))
LOG_2, HALF, ONE = np.float32(np.log(2.0)), np.float32(0.5), np.float32(1.0)
TWO_THIRDS, EXPONENT = np.int32(0x3F2AAAAB), np.int32(23)
"""Bits of the float32 2/3, and the place of the exponent in a float32."""


class QueryNumbers(NamedTuple):
    """What each query brings along, each of shape (queries,), float32."""

    total: Rows
    """Times that of an item: expected times together beyond near pairs' share; `near_total` is that share."""
    near_total: Rows
    like_total: Rows
    bought: Rows
    others: Rows
    """Of its company without itself."""
    level: Rows
    """All that is added for every item."""
    length: Rows
    """Weight of the cosine over the length of the query's vector."""


class ItemNumbers(NamedTuple):
    """What each item sold brings along, each of shape (sold,), float32."""

    total: Rows
    near_total: Rows
    like_total: Rows
    prior: Rows
    """Part of the log-prior: level and how often it is bought."""
    odds: Rows
    """Part of the log-odds: who comes first."""
    length: Rows
    """One over the length of its vector."""


class CoarseScorer:
    """The tables of a fitted model for the items `codes` (ascending): `rows` are near logarithms of its scores.

    They hold every item that was ever bought with another; those that never were may be among them.

    `sureness` is what log(1 + G^2) of a pair weighs (`bayes-sure`).
    """

    def __init__(
        self, evidence: PairFeatures, weights: Weights, ranking: Ranking | None, codes: Codes, sureness: float = 0.0
    ) -> None:
        if weights.signs is None:
            raise ValueError("shrunk lift has nothing to screen: only pairs that were seen score at all")
        self.evidence, self.weights, self.codes, self.sureness = evidence, weights, codes, sureness
        self.signs: Floats = weights.signs
        self.ranking = POSTERIOR_LIFT if ranking is None else ranking
        counts = evidence.counts
        self.near = evidence.near if evidence.near is not None and evidence.near.records else counts
        if np.any(np.delete(counts.total, codes)):
            raise ValueError("`codes` must hold every item that was bought with another: their counts lend to the rest")
        place = np.zeros(len(evidence.category), dtype=np.int32)
        place[codes] = np.arange(len(codes), dtype=np.int32)
        self.counts = _pairs(counts.matrix, place)
        self.near_counts = self.counts if self.near is counts else _pairs(self.near.matrix, place)
        self.like = None if evidence.like is None else csr_parts(evidence.like)
        sold_like = None if evidence.like is None else evidence.like[codes][:, codes]
        self.lends = None if sold_like is None else csr_parts(sold_like.T.tocsr())
        self.company = csr_parts(evidence.company)
        self.numbers = self._item_numbers()
        self.category = evidence.category[codes]
        scaled = evidence.vectors[codes] * np.sqrt(np.abs(evidence.values))
        self.above, self.below = (np.ascontiguousarray(scaled[:, part]) for part in self._parts())
        self.words = np.ascontiguousarray(evidence.word_vectors[codes])

    def _parts(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Factors of values above 0, and below: their products' difference is the low-rank part, their sum a cosine."""
        return self.evidence.values > 0, self.evidence.values < 0

    def _item_numbers(self) -> ItemNumbers:
        evidence, codes, w = self.evidence, self.codes, self.ranking.weights
        like = np.zeros(len(codes)) if evidence.like_total is None else evidence.like_total[codes]
        length = np.linalg.norm(evidence.vectors[codes] * np.sqrt(np.abs(evidence.values)), axis=1)
        columns = (
            evidence.counts.total[codes],
            self.near.total[codes],
            like,
            self.signs[0] + self.signs[5] * evidence.popularity[codes],
            -w[5] * evidence.order.first[codes],
            1.0 / np.where(length > 0, length, 1.0),
        )
        return ItemNumbers(*(np.asarray(column, dtype=np.float32) for column in columns))

    def query_numbers(self, queries: Codes) -> QueryNumbers:
        evidence, near, w, share = self.evidence, self.near, self.ranking.weights, self.weights.near
        counts = evidence.counts
        records, near_records = max(counts.records, 1), max(near.records, 1)
        scale = counts.records / near_records
        like = np.zeros(len(queries)) if evidence.like_total is None else evidence.like_total[queries]
        own = evidence.query_vectors(queries) * np.sqrt(np.abs(evidence.values))
        length = np.linalg.norm(own, axis=1)
        columns = (
            (1 - share) * counts.total[queries] / records,
            share * near.total[queries] * scale / near_records,
            like / (records * LIKE_PSEUDO),
            evidence.bought[queries] / records,
            np.maximum(evidence.company_total[queries] - counts.total[queries], 0.0) / (records * COMPANY_PSEUDO),
            self.ranking.level + w[4] * evidence.popularity[queries] + w[5] * evidence.order.first[queries],
            w[3] / np.where(length > 0, length, 1.0),
        )
        return QueryNumbers(*(np.asarray(column, dtype=np.float32) for column in columns))

    def of_categories(self, queries: Codes) -> tuple[Rows, Rows]:
        """What the query's category adds to the log-prior and to the log-odds of each category: (queries, table)."""
        evidence, mine = self.evidence, self.evidence.category[queries]
        prior = self.signs[3] * evidence.category_lift[mine]
        odds = self.ranking.weights[6] * evidence.order.categories[mine]
        return prior.astype(np.float32), odds.astype(np.float32)

    def left(self, queries: Codes) -> tuple[Rows, Rows, Rows]:
        """The queries' sides of the products with `above`, `below` and `words`."""
        evidence = self.evidence
        own = evidence.query_vectors(queries) * np.sqrt(np.abs(evidence.values))
        above, below = (np.ascontiguousarray(own[:, part]) for part in self._parts())
        words = evidence.word_vectors[queries] * (evidence.word_values * self.signs[4])
        return above, below, words.astype(np.float32)

    @property
    def settings(self) -> tuple[Any, ...]:
        """k, share and scale of near pairs, weights of low rank and like names, of the ranking."""
        w = [np.float32(x) for x in self.ranking.weights]
        scale = self.evidence.counts.records / max(self.near.records, 1)
        signs = [np.float32(self.signs[sign]) for sign in (1, 2)]
        return (
            np.float32(self.weights.k),
            np.float32(self.weights.near),
            np.float32(scale),
            *signs,
            w[0],
            w[1],
            w[2],
            w[7],
        )

    def sureness_of(self, queries: Codes) -> tuple[npt.NDArray[np.int64], Rows]:
        """What G^2 adds to each pair that was seen: where each query's pairs start, and the numbers."""
        start = self.counts[0]
        offsets = np.concatenate([[0], np.cumsum(start[queries + 1] - start[queries])]).astype(np.int64)
        if not self.sureness:
            return offsets, np.zeros(0, dtype=np.float32)
        matrix, total = self.evidence.counts.matrix[queries], self.evidence.counts.total
        query = np.repeat(queries, np.diff(offsets))
        g2 = statistics.signed_llr(matrix.data, total[query], total[matrix.indices], self.evidence.counts.records)
        return offsets, (self.sureness * np.log1p(np.maximum(g2, 0.0))).astype(np.float32)

    def rows(self, queries: Codes) -> Rows:
        """Logarithms of the scores of `queries` with the items sold, within some millionths: (queries, sold)."""
        above, below, words = self.left(queries)
        plus, minus = above @ self.above.T, below @ self.below.T
        words = words @ self.words.T
        out = np.zeros_like(words)
        nothing = (np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))
        screen_rows(
            queries,
            (plus, minus, words),
            self.query_numbers(queries),
            self.numbers,
            (self.category, *self.of_categories(queries)),
            (self.counts, self.near_counts),
            (self.like or nothing, self.lends or nothing, self.company),
            self.sureness_of(queries),
            self.settings,
            out,
        )
        return out


def _pairs(matrix: Any, place: npt.NDArray[np.int32]) -> tuple[Any, Any, Any]:
    """Rows, places among the items sold, and counts of all pairs."""
    start, item = matrix.indptr.astype(np.int64, copy=False), place[matrix.indices]
    return start, item, matrix.data.astype(np.float32)


@compiled
def fast_log(x):  # type: ignore[no-untyped-def]
    """log of a normal float32 above 0, to a few units in the last place; loops of it are done eight at a time."""
    bits = np.float32(x).view(np.int32)
    power = (bits - TWO_THIRDS) >> EXPONENT
    f = np.int32(bits - (power << EXPONENT)).view(np.float32) - ONE
    tail = L0 + f * (L1 + f * (L2 + f * (L3 + f * (L4 + f * (L5 + f * L6)))))
    return np.float32(power) * LOG_2 + (f - f * f * (HALF - f * tail))


@compiled
def add_lent(query, like, pairs, reached):  # type: ignore[no-untyped-def]
    """Adds to `reached` (sold,) what the items like the query were bought with, by how alike they are."""
    like_start, like_item, likeness = like
    start, item, count = pairs
    for near in range(like_start[query], like_start[query + 1]):
        other, share = like_item[near], likeness[near]
        for place in range(start[other], start[other + 1]):
            reached[item[place]] += share * count[place]


@compiled
def lend_on(lends, reached, together):  # type: ignore[no-untyped-def]
    """Adds to `together` (sold,) what the items reached lend to those like them; `reached` is emptied."""
    start, borrower, likeness = lends
    for item in range(len(reached)):
        if reached[item] != 0.0:
            much = reached[item]
            for place in range(start[item], start[item + 1]):
                together[borrower[place]] += likeness[place] * much
            reached[item] = 0.0


@compiled
def screen_rows(  # type: ignore[no-untyped-def]
    queries, products, of_query, of_item, categories, pairs, lenders, sureness, settings, out
):
    """Log-scores of each query with the items sold, out: (queries, sold)."""
    plus, minus, words = products
    category, category_prior, category_odds = categories
    counts, near = pairs
    like, lends, company = lenders
    sold = out.shape[1]
    reached, together, others = np.zeros(sold, np.float32), np.zeros(sold, np.float32), np.zeros(sold, np.float32)
    prior, odds = np.empty(sold, np.float32), np.empty(sold, np.float32)
    for r in range(len(queries)):
        q = queries[r]
        if len(like[0]):
            add_lent(q, like, counts, reached)
            lend_on(lends, reached, together)
        add_lent(q, company, counts, others)
        for place in range(counts[0][q], counts[0][q + 1]):
            others[counts[1][place]] -= counts[2][place]
        for v in range(sold):
            prior[v], odds[v] = category_prior[r, category[v]], category_odds[r, category[v]]
        for first in range(0, sold, CHUNK):
            part = slice(first, min(first + CHUNK, sold))
            mine = (plus[r, part], minus[r, part], words[r, part], together[part], others[part], prior[part])
            _unseen(r, mine, of_query, of_item, odds[part], part, settings, out[r, part])
        _seen(q, r, counts, near, sureness, settings, prior, out[r])
        for v in range(sold):
            out[r, v] = min(max(out[r, v], np.float32(-FARTHEST_ODDS)), np.float32(FARTHEST_ODDS))
            together[v] = 0.0
            others[v] = 0.0


@compiled
def _unseen(r, mine, of_query, of_item, odds, part, settings, out):  # type: ignore[no-untyped-def]
    """Log-scores of a query with some items as if no pair had been seen; `prior` becomes their whole log-prior."""
    plus, minus, words, together, others, prior = mine
    k, _, _, low_rank, like_names, w_lift, w_chance, _, w_company = settings
    total, near_total, like_total = of_item.total[part], of_item.near_total[part], of_item.like_total[part]
    item_prior, item_odds, length = of_item.prior[part], of_item.odds[part], of_item.length[part]
    a, b, c = of_query.total[r], of_query.near_total[r], of_query.like_total[r]
    bought, company, level, cosine = of_query.bought[r], of_query.others[r], of_query.level[r], of_query.length[r]
    log_k, farthest = np.float32(np.log(k)), np.float32(FARTHEST)
    third, least, per = np.float32(1.0 / LIKE_PSEUDO), np.float32(LEAST_CHANCE), np.float32(1.0 / COMPANY_PSEUDO)
    for v in range(len(out)):
        like = fast_log((together[v] * third + ONE) / (c * like_total[v] + ONE))
        mean = item_prior[v] + prior[v] + low_rank * (plus[v] - minus[v]) + words[v] + like_names * like
        mean = min(max(mean, -farthest), farthest)
        prior[v] = mean
        score = level + item_odds[v] + odds[v] + cosine * length[v] * (plus[v] + minus[v])
        score += w_lift * (mean + log_k - fast_log(k + a * total[v] + b * near_total[v]))
        score += w_chance * fast_log(bought * total[v] + least)
        kept = max(others[v], np.float32(0.0))
        score += w_company * fast_log((kept * per + ONE) / (company * total[v] + ONE))
        out[v] = score


@compiled
def _seen(q, r, counts, near, sureness, settings, prior, out):  # type: ignore[no-untyped-def]
    """Adds what the counts of a query's pairs say, near ones by their share."""
    start, item, count = counts
    near_start, near_item, near_count = near
    offsets, sure = sureness
    k, share, scale, _, _, w_lift, _, w_times, _ = settings
    close = near_start[q]
    for place in range(start[q], start[q + 1]):
        v, times = item[place], count[place]
        # near pairs are some of all pairs, in the same order
        together = times - share * times
        if close < near_start[q + 1] and near_item[close] == v:
            together += share * scale * near_count[close]
            close += 1
        out[v] += w_lift * np.log1p(together / (k * np.exp(prior[v]))) + w_times * np.log1p(times)
        if len(sure):
            out[v] += sure[offsets[r] + place - start[q]]
