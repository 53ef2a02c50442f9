"""`PairTable`: how often two items were bought together, and the evidence; small enough to travel with a bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.cooccurrence import (
    CooccurrenceCounts,
    CountOptions,
    FilteredPairs,
    Margins,
    PairFilter,
    count,
    forecast,
    margins,
)
from neatrec.cooccurrence.count_kernels import find_pairs
from neatrec.cooccurrence.expected_counts import StratifiedExpected
from neatrec.cooccurrence.lift_prior import LEAST_COUNT, RepeatedPairs, coverage_words
from neatrec.cooccurrence.recency import half_life_words
from neatrec.cooccurrence.strata import strata_words, usable_strata
from neatrec.data.baskets import BasketStream, as_shards, customers_return
from neatrec.serving.evidence import CERTAIN, EXPLAINED, GUESS, LIKELY, LIKELY_Q, grade_pairs
from neatrec.statistics import (
    LiftPrior,
    benjamini_hochberg,
    estimate_lifts,
    exact_estimate,
    poisson_tail,
    possible_pairs,
    quasi_independence,
)

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

MAX_PAIRS = 25_000_000
"""Where more pairs than this are to be expected, those seen once are not kept."""
SMALLEST_Q = 1e-37
"""Smaller q-values are given as this one: float32 holds no less with all its digits."""


@dataclass(frozen=True, eq=False)
class PairTable:
    """Each pair of different categories once, the smaller code first, sorted."""

    start: npt.NDArray[np.int64]
    """Where the pairs of each smaller code start, shape (items + 1,)."""
    item: Codes
    """The larger code, shape (pairs,)."""
    count: Codes
    """Baskets that hold both."""
    customers: Codes | None
    """Distinct customers, where users are known."""
    forward: Codes | None
    """Baskets in which the smaller code came first, where cart order is known."""
    q: npt.NDArray[np.float32]
    query_factor: Floats
    item_factor: Floats
    """a and b, shape (items,): a[q] b[v] is the expected count of a pair."""
    category: Codes
    """The codes at which pairs of one category are not counted, shape (items,); negative: unknown."""
    strata: tuple[str, ...]
    """Columns within which the evidence is measured."""
    expected: Floats | None
    """The expected count of each pair within strata; None without strata: the product of the factors."""
    explained: npt.NDArray[np.uint8] | None
    """The number (from 1) of the column of `strata` that explains a pair which is certain over all baskets; 0: none."""
    season: npt.NDArray[np.uint16] | None
    """Of a pair that its months explain: a bit for each month of its season, the first for January."""
    by_customer: bool
    """Whether a customer counts once in `expected` and `q`."""
    min_count: int
    """Pairs seen fewer times are not kept."""
    baskets: int
    records: int
    half_life: float | None
    """Days after which a basket counts half in `weighted`, expected counts and `q`; None: all count the same."""
    weighted: Codes | None
    """Where baskets have weights: what is compared with what was expected. `count`, `customers` and `forward` are of
    all baskets."""
    prior: LiftPrior | None
    """What lifts over all baskets are estimated under, as those of labels; None where there are too few pairs, and in
    older tables: lifts are as counted."""

    @classmethod
    def of(
        cls,
        baskets: BasketStream,
        category_level: str | None = None,
        *,
        strata: Sequence[str] | None = None,
        half_life: float | None = None,
        min_count: int | None = None,
        threads: int | None = None,
    ) -> PairTable:
        """The pairs of all baskets of two lines and more. A `min_count` of None: 1, or 2 where there are very many.

        `strata` are those of calibrated labels; None: basket size, month and store, as far as they are known.
        `half_life`: days after which a basket counts half as evidence.
        """
        shards = as_shards(baskets)
        names, whole = usable_strata(shards, strata)
        counting = CountOptions(directed=False, category_level=category_level or "deepest")
        if min_count is None:
            min_count = 1 if forecast(shards, counting, threads=threads).pairs <= MAX_PAIRS else 2
        keep = FilteredPairs(lambda _: PairFilter(min_count=min_count), lambda block, _: block.count >= min_count)
        pairs = count(shards, counting, keep=keep, threads=threads)
        by_customer = pairs.customers is not None and customers_return(shards)
        tested = replace(counting, once_per_customer=by_customer, half_life=half_life)
        weighted = None
        if half_life is not None:
            found = count(shards, tested, threads=threads)
            totals, seen_pairs = found.margins, found.margins.pairs
            place = find_pairs(found.indptr, found.item, pairs.query, pairs.item)
            weighted = np.asarray(_at(found.count, place, 0), dtype=np.int32)
        else:
            totals = margins(shards, tested, threads=threads) if by_customer else pairs.margins
            seen_pairs = pairs.margins.pairs
        within = None if whole is None else StratifiedExpected.fit(whole, names, tested, "quasi")
        first = _first_ways(shards, pairs, threads)
        table = _tested(pairs, totals, by_customer, min_count, first, (names, within), weighted)
        table = replace(table, half_life=half_life)
        seen = replace(totals, pairs=seen_pairs)
        if min_count <= LEAST_COUNT:
            repeated = RepeatedPairs.among(pairs.query, pairs.item, table.times.astype(np.int64), tested, seen)
        else:
            repeated = RepeatedPairs.of(shards, tested, seen.pairs, "quasi", threads=threads)
        return replace(table, prior=repeated.lift_prior(shards, threads=threads))

    @property
    def times(self) -> Codes:
        """What is compared with what was expected: customers where they count once, baskets otherwise."""
        if self.weighted is not None:
            return self.weighted
        return self.customers if self.by_customer and self.customers is not None else self.count

    def find(self, queries: npt.ArrayLike, items: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Where each pair stands, -1 where it is not kept; aligned codes in any order."""
        one, other = np.asarray(queries, dtype=np.int32), np.asarray(items, dtype=np.int32)
        found: npt.NDArray[np.int64] = find_pairs(self.start, self.item, np.minimum(one, other), np.maximum(one, other))
        return found

    def overall_expected(self, query: Codes, item: Codes) -> Floats:
        """The expected counts of pairs over all baskets."""
        return self.query_factor[query] * self.item_factor[item]

    def columns(self, queries: npt.ArrayLike, items: npt.ArrayLike) -> dict[str, npt.NDArray[Any]]:
        """The evidence of aligned pairs: a column for each number of `PairEvidence` from counts, and `grade`."""
        one, other = np.asarray(queries, dtype=np.int32), np.asarray(items, dtype=np.int32)
        place = self.find(one, other)
        uncounted = (self.category[one] == self.category[other]) & (self.category[one] >= 0) | (one == other)
        unseen = 0 if self.min_count == 1 else -1
        number = np.where(uncounted, -1, _at(self.count, place, unseen)).astype(np.int32)
        people = np.where(uncounted, -1, _at(self.customers, place, -1 if self.customers is None else unseen))
        overall = np.where(uncounted, np.nan, self.overall_expected(one, other))
        expected = overall if self.expected is None else np.where(place < 0, overall, _at(self.expected, place, np.nan))
        times = people if self.by_customer else number
        if self.weighted is not None:
            times = np.where(uncounted, -1, _at(self.weighted, place, unseen))
        found = estimate_lifts(self.prior, times, overall)
        within = found.within(overall, expected)
        grade = grade_pairs(times, within.low, q := np.where(times < 0, np.nan, _at(self.q, place, 1.0)))
        explained = _at(self.explained, place, 0).astype(np.uint8)
        first = _at(self.forward, place, -1 if self.forward is None else unseen)
        first = np.where(uncounted, -1, first)
        turned = np.where((one < other) | (first < 0), first, number - first)
        return {
            "grade": np.where(explained > 0, EXPLAINED - 1 + explained, grade).astype(np.uint8),
            "count": number,
            "expected": expected.astype(np.float32),
            "lift": within.lift.astype(np.float32),
            "lift_low": within.low.astype(np.float32),
            "lift_high": within.high.astype(np.float32),
            "q": q.astype(np.float32),
            "customers": people.astype(np.int32),
            "forward": turned.astype(np.int32),
            "backward": np.where(turned < 0, -1, number - turned).astype(np.int32),
            "overall_lift": found.lift.astype(np.float32),
            "season": _at(self.season, place, 0).astype(np.int32),
            "weighted": (np.full(len(one), -1) if self.weighted is None else times).astype(np.int32),
        }

    def with_evidence(self) -> tuple[Codes, Codes, dict[str, npt.NDArray[Any]]]:
        """All certain and likely pairs, each once, by the lower end of their lift, strongest first: the smaller code,
        the larger code, and the columns of their evidence. Pairs that strata explain are not among them."""
        place = np.flatnonzero(np.asarray(self.q) <= LIKELY_Q)  # the others are graded lower whatever their lift
        one = (np.searchsorted(self.start, place, side="right") - 1).astype(np.int32)
        other = np.asarray(self.item)[place]
        columns = self.columns(one, other)
        kept = np.flatnonzero(columns["grade"] <= LIKELY)
        kept = kept[np.argsort(-columns["lift_low"][kept], kind="stable")]
        return one[kept], other[kept], {name: values[kept] for name, values in columns.items()}

    def words(self) -> str:
        """Within what the evidence is measured, what it cannot rule out, and whether its intervals hold."""
        within = f"{strata_words(self.strata)} {half_life_words(self.half_life)}".strip()
        if self.prior is None or self.prior.describes_the_data:
            return within
        return f"{within} {coverage_words(self.prior.coverage)}".lstrip()

    def about(self) -> Mapping[str, Any]:
        """What was counted, for the manifest."""
        return {
            "min_count": self.min_count,
            "pairs": len(self.item),
            "baskets": self.baskets,
            "records": self.records,
            "by_customer": self.by_customer,
            "strata": list(self.strata),
            **({} if self.half_life is None else {"half_life": self.half_life}),
            "lift_coverage": None if self.prior is None or np.isnan(self.prior.coverage) else self.prior.coverage,
        }


def _tested(
    pairs: CooccurrenceCounts,
    totals: Margins,
    by_customer: bool,
    min_count: int,
    forward: npt.NDArray[np.int64] | None,
    stratified: tuple[tuple[str, ...], StratifiedExpected | None],
    weighted: Codes | None,
) -> PairTable:
    strata, within = stratified
    fit = quasi_independence(totals.first, totals.second, totals.category)
    times: npt.NDArray[Any] = pairs.customers if by_customer and pairs.customers is not None else pairs.count
    if weighted is not None:
        times = weighted
    tests = max(possible_pairs(totals.first, totals.second, totals.category, directed=False), len(times))
    overall = fit.expected(pairs.query, pairs.item)
    expected = overall if within is None else within.of(pairs.query, pairs.item)
    q = benjamini_hochberg(poisson_tail(times, expected), tests).q
    explained, season = None, None
    if within is not None:
        by_overall = benjamini_hochberg(poisson_tail(times, overall), tests).q
        tests_of = ((overall, by_overall), (expected, q))
        grades = [grade_pairs(times, exact_estimate(times, e).low, rate) for e, rate in tests_of]
        lost = np.flatnonzero((grades[0] == CERTAIN) & (grades[1] == GUESS))
        explained, season = np.zeros(len(times), np.uint8), np.zeros(len(times), np.uint16)
        explained[lost], season[lost] = within.explain(strata, pairs.query[lost], pairs.item[lost])
    return PairTable(
        start=pairs.indptr,
        item=pairs.item,
        count=pairs.count.astype(np.int32),
        customers=None if pairs.customers is None else pairs.customers.astype(np.int32),
        forward=None if forward is None else forward.astype(np.int32),
        q=np.maximum(q, SMALLEST_Q).astype(np.float32),
        query_factor=fit.query_factor,
        item_factor=fit.item_factor,
        category=totals.category,
        strata=strata,
        expected=None if within is None else expected,
        explained=explained,
        season=season,
        by_customer=by_customer,
        min_count=min_count,
        baskets=pairs.margins.baskets,
        records=pairs.margins.records,
        half_life=None,
        weighted=weighted,
        prior=None,
    )


def _first_ways(shards: BasketStream, pairs: CooccurrenceCounts, threads: int | None) -> npt.NDArray[np.int64] | None:
    """For each undirected pair, in how many baskets the smaller code came first; None where order is not known."""
    if not all(shard.ordered for shard in as_shards(shards)):
        return None
    # a pair once each way would be lost to a filter on one direction's count, so all directed pairs are looked at
    directed = count(
        shards,
        replace(pairs.counting, directed=True),
        keep=lambda block, _: block.query < block.item,
        threads=threads,
    )
    place = find_pairs(directed.indptr, directed.item, pairs.query, pairs.item)
    return np.asarray(_at(directed.count, place, 0), dtype=np.int64)


def _at(values: npt.NDArray[Any] | None, place: npt.NDArray[np.int64], missing: float) -> npt.NDArray[Any]:
    """`values` at `place`, `missing` where that is -1 or there are no values."""
    if values is None or not len(values):
        return np.full(len(place), missing)
    return np.where(place < 0, missing, values[np.maximum(place, 0)])
