"""Scores of some queries with every item: row after row, so that what a row needs stays in the cache of a core.

The numbers are those of `scoring` and `ranking` for pairs, but for rounding. NumPy takes the logarithms of whole rows,
many times as fast as one at a time; compiled loops bring together what they are taken of.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neatrec.compiled import compiled
from neatrec.models.bayes.features import LIKE_PSEUDO, PairFeatures
from neatrec.models.bayes.prior import FARTHEST, Weights
from neatrec.models.bayes.ranker import COMPANY_PSEUDO, LEAST_CHANCE, Ranking
from neatrec.models.bayes.ranker import FARTHEST as FARTHEST_ODDS
from neatrec.models.bayes.scoring import Codes, csr_parts, lent, pair_table, sign_factors
from neatrec.models.parallel import parallel_slices
from neatrec.models.vectors import all_products

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.float32]
MIN_ROWS_PER_THREAD = 4
"""Rows for which a thread is worth starting."""


def rank_rows(
    evidence: PairFeatures, weights: Weights, ranking: Ranking | None, queries: Codes, out: Rows | None = None
) -> Rows:
    """What ranks each query with every item: the odds, or the posterior lift without a ranking, (queries, items)."""
    if ranking is None:
        return score_rows(evidence, weights, queries, out)
    lifts, odds = _Lifts(evidence, weights, queries), _Odds(evidence, ranking, queries)
    out = np.empty((len(queries), len(evidence.category)), dtype=np.float32) if out is None else out

    def work(part: slice) -> None:
        lifts.write(part, out[part])
        odds.write(part, out[part])

    parallel_slices(len(queries), work, min_rows=MIN_ROWS_PER_THREAD)
    return out


def score_rows(evidence: PairFeatures, weights: Weights, queries: Codes, out: Rows | None = None) -> Rows:
    """The posterior mean of each query with every item, shape (queries, items)."""
    lifts = _Lifts(evidence, weights, queries)
    out = np.empty((len(queries), len(evidence.category)), dtype=np.float32) if out is None else out
    parallel_slices(len(queries), lambda part: lifts.write(part, out[part]), min_rows=MIN_ROWS_PER_THREAD)
    return out


class _Lifts:
    """Posterior means of some queries: what can be made for all rows at once, and `write` for some of them."""

    def __init__(self, evidence: PairFeatures, weights: Weights, queries: Codes) -> None:
        self.evidence, self.weights, self.queries = evidence, weights, queries
        self.counts, near = evidence.counts, evidence.near
        self.near = self.counts if near is None or not near.records else near
        self.scale = self.counts.records / max(self.near.records, 1)
        self.total, self.near_total = (counts.total.astype(np.float64) for counts in (self.counts, self.near))
        self.place = category_places(evidence)
        factors = sign_factors(evidence, weights, queries)
        self.products: Rows | None = all_products(*factors) if factors else None

    def write(self, part: slice, out: Rows) -> None:
        """The rows of `part` into `out`, (rows, items)."""
        queries = self.queries[part]
        together = _lent_both_ways(self.evidence, queries)
        prior, seen = np.zeros(out.shape[1]), np.zeros(out.shape[1])
        for row, query in enumerate(queries.tolist()):
            if self.products is not None:
                products = self.products[part.start + row]
                self._prior(query, products, None if together is None else together[row], prior)
            self._posterior(query, prior, seen, out[row])

    def _prior(self, query: int, products: Rows, together: Rows | None, out: Floats) -> None:
        """The prior mean of each item times k, into `out`."""
        signs, evidence, records = self.weights.signs, self.evidence, max(self.counts.records, 1)
        if together is None or evidence.like_total is None:
            out[:] = 0.0
        else:
            over_chance(together, evidence.like_total, evidence.like_total[query] / records, LIKE_PSEUDO, out)
            np.log(out, out=out)
        lift_of_category = evidence.category_lift[evidence.category[query]]
        add_signs(products, evidence.popularity, lift_of_category, self.place, signs, FARTHEST, out)
        np.exp(out, out=out)
        out *= self.weights.k

    def _posterior(self, query: int, prior: Floats, seen: Floats, out: Rows) -> None:
        """(C + k m) / (E + k) into `out`; `prior` is k m, `seen` zeros."""
        share, k = self.weights.near, self.weights.k
        shares = (1.0 - share, self.counts, 1.0, self.total), (share, self.near, self.scale, self.near_total)
        for weight, counts, scale, _ in shares:
            items, times = counts.row(query)
            seen[items] += weight * scale * times
        chance = [weight * scale * total[query] / max(counts.records, 1) for weight, counts, scale, total in shares]
        posterior_row(seen, prior, self.total, self.near_total, (chance[0], chance[1], k), out)
        for _, counts, _, _ in shares:
            seen[counts.row(query)[0]] = 0.0


class _Odds:
    """The odds by which some queries rank: as `_Lifts`, whose rows they are made of."""

    def __init__(self, evidence: PairFeatures, ranking: Ranking, queries: Codes) -> None:
        self.evidence, self.ranking, self.queries = evidence, ranking, queries
        self.place = category_places(evidence)
        self.cosine: Rows = all_products((evidence.query_unit(queries), evidence.unit))

    def write(self, part: slice, rows: Rows) -> None:
        """The odds of `part` in place of the posterior lifts in `rows`, (rows, items)."""
        queries, evidence = self.queries[part], self.evidence
        company = np.zeros_like(rows)
        lent_rows(queries, csr_parts(evidence.company), pair_table(evidence.counts), company)
        hints, odds = np.empty(rows.shape[1]), np.empty(rows.shape[1])
        for row, query in enumerate(queries.tolist()):
            self._company(query, company[row], hints)
            np.log(rows[row], out=odds, dtype=np.float64)
            self._add_hints(query, hints, self.cosine[part.start + row], odds)
            rows[row] = np.exp(odds, out=odds)

    def _company(self, query: int, company: Rows, out: Floats) -> None:
        """The logarithm of what those of like company were bought with, the query itself left out."""
        items, times = self.evidence.counts.row(query)
        company[items] -= times
        at_least_none(company, COMPANY_PSEUDO, out)
        np.log(out, out=out)

    def _add_hints(self, query: int, company: Floats, cosine: Rows, odds: Floats) -> None:
        """The logarithm of the odds in place of that of the lift."""
        evidence, order, w = self.evidence, self.evidence.order, self.ranking.weights
        items, times = evidence.counts.row(query)
        of_query = self.ranking.level + w[4] * evidence.popularity[query] + w[5] * order.first[query]
        order_of_category = order.categories[evidence.category[query]]
        by_total, which = of_query + self._by_total(query), evidence.counts.totals[1]
        add_hints(company, cosine, order.first, order_of_category, self.place, by_total, which, w, odds)
        odds[items] += w[2] * np.log1p(times)
        np.clip(odds, -FARTHEST_ODDS, FARTHEST_ODDS, out=odds)

    def _by_total(self, query: int) -> Floats:
        """The hint of chance, and what chance alone gives the query's company, weighted, (totals,).

        It depends on the item's total alone: it is worked out once for each total that there is.
        """
        evidence, w, totals = self.evidence, self.ranking.weights, self.evidence.counts.totals[0]
        total, records = evidence.counts.total[query], float(max(evidence.counts.records, 1))
        others = max(evidence.company_total[query] - total, 0.0) / records
        chance: Floats = w[1] * np.log(evidence.bought[query] * totals / records + LEAST_CHANCE)
        chance -= w[7] * np.log(others * totals / COMPANY_PSEUDO + 1.0)
        return chance


def category_places(evidence: PairFeatures) -> npt.NDArray[np.uint32]:
    """The place of each item's category in tables of categories, whose last one is for the unknown, (items,)."""
    return (evidence.category % len(evidence.category_lift)).astype(np.uint32)


def _lent_both_ways(evidence: PairFeatures, queries: Codes) -> Rows | None:
    """Times together of all that is like the query with all that is like the item; None without likeness."""
    if evidence.like is None or evidence.lends is None:
        return None
    out = np.zeros((len(queries), len(evidence.category)), dtype=np.float32)
    start, borrower, likeness = csr_parts(evidence.lends)
    lends = start, borrower.view(np.uint32), likeness  # unsigned: no index is looked at for being negative
    lent_both_ways(queries, csr_parts(evidence.like), lends, pair_table(evidence.counts), out)
    return out


@compiled
def over_chance(together, of_item, of_query, pseudo, out):  # type: ignore[no-untyped-def]
    """Times together over times by chance, both with `pseudo` added; the arrays: (items,)."""
    for v in range(len(out)):
        out[v] = (together[v] + pseudo) / (of_query * of_item[v] + pseudo)


@compiled
def add_signs(products, popularity, lift_of_category, place, signs, farthest, out):  # type: ignore[no-untyped-def]
    """The logarithm of the prior mean in place of the sign of like names; lift_of_category: (categories + 1,)."""
    level, like, of_category, of_item = signs[0], signs[2], signs[3], signs[5]
    for v in range(len(out)):
        mean = level + products[v] + like * out[v]
        mean += of_category * lift_of_category[place[v]] + of_item * popularity[v]
        out[v] = min(max(mean, -farthest), farthest)


@compiled
def posterior_row(seen, prior, total, near_total, numbers, out):  # type: ignore[no-untyped-def]
    """(C + k m) / (E + k); numbers: what total and near total are multiplied by for E, and k."""
    of_total, of_near, k = numbers
    for v in range(len(out)):
        out[v] = (seen[v] + prior[v]) / (of_total * total[v] + of_near * near_total[v] + k)


@compiled
def at_least_none(times, pseudo, out):  # type: ignore[no-untyped-def]
    """1 + times / pseudo, and 1 where a rounding error left less than no times."""
    for v in range(len(out)):
        out[v] = max(times[v], 0.0) / pseudo + 1.0


@compiled
def add_hints(company, cosine, first, order_of_category, place, by_total, which, w, out):  # type: ignore[no-untyped-def]
    """All hints but that of times together, weighted, in place of the logarithm of the lift; by_total: (totals,)."""
    for v in range(len(out)):
        hints = w[0] * out[v] + w[3] * cosine[v] + w[7] * company[v] - w[5] * first[v]
        out[v] = hints + w[6] * order_of_category[place[v]] + by_total[which[v]]


@compiled
def lent_rows(queries, like, pairs, out):  # type: ignore[no-untyped-def]
    """`lent` of each query, out: (queries, items), zeros before."""
    for r in range(len(queries)):
        lent(queries[r], like, pairs, out[r])


@compiled
def lent_both_ways(queries, like, lends, pairs, out):  # type: ignore[no-untyped-def]
    """What is like each query lends its counts, what these reach lends them on; out: (queries, items), zeros before.

    `lends` is `like` by the other side: the items that borrow from each one. Most items are not reached at all.
    """
    borrower_start, borrower, likeness = lends
    reached = np.zeros(out.shape[1], dtype=np.float32)
    lenders = np.empty(out.shape[1], dtype=np.uint32)
    for r in range(len(queries)):
        row, count = out[r], 0
        lent(queries[r], like, pairs, reached)
        for item in range(len(reached)):
            lenders[count] = item
            count += reached[item] != 0.0
        for lender in lenders[:count]:
            for place in range(borrower_start[lender], borrower_start[lender + 1]):
                row[borrower[place]] += likeness[place] * reached[lender]
            reached[lender] = 0.0
