"""`PairTable`: how often two items were bought together, and the evidence; small enough to travel with a bundle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.cooccurrence import (
    CooccurrenceCounts,
    CountOptions,
    FilteredPairs,
    Margins,
    PairFilter,
    PairPart,
    count,
    count_parts,
    forecast,
    margins,
)
from neatrec.cooccurrence.count_kernels import find_pairs
from neatrec.cooccurrence.expected_counts import StratifiedExpected
from neatrec.cooccurrence.lift_prior import LEAST_COUNT, RepeatedPairs, coverage_words
from neatrec.cooccurrence.recency import half_life_words
from neatrec.cooccurrence.strata import strata_words, usable_strata
from neatrec.data.baskets import BasketStream, as_shards, customers_return
from neatrec.serving.column_parts import ColumnParts, release_pages
from neatrec.serving.evidence import CERTAIN, EXPLAINED, GUESS, LIKELY, LIKELY_Q, grade_pairs
from neatrec.statistics import (
    LiftPrior,
    RankedTests,
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
OPTIONAL_COLUMNS = ("customers", "forward", "expected", "explained", "season", "weighted")
CHUNK = 1 << 22
"""Pairs that are tested at a time."""
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
        folder: Path | None = None,
    ) -> PairTable:
        """The pairs of all baskets of two lines and more. A `min_count` of None: 1, or 2 where there are very many.

        `strata` are those of calibrated labels; None: basket size, month and store, as far as they are known.
        `half_life`: days after which a basket counts half as evidence. The columns are mapped from files without a name
        in `folder`; None: they are in memory.
        """
        shards = as_shards(baskets)
        names, whole = usable_strata(shards, strata)
        counting = CountOptions(directed=False, category_level=category_level or "deepest")
        if min_count is None:
            min_count = 1 if forecast(shards, counting, threads=threads).pairs <= MAX_PAIRS else 2
        keep = FilteredPairs(lambda _: PairFilter(min_count=min_count), lambda block, _: block.count >= min_count)
        by_customer = customers_return(shards)
        tested = replace(counting, once_per_customer=by_customer, half_life=half_life)
        within = None if whole is None else StratifiedExpected.fit(whole, names, tested, "quasi")
        ordered = all(shard.ordered for shard in shards)
        counted, parts = count_parts(shards, counting, keep=keep, order=ordered, threads=threads)
        weighted = None if half_life is None else count(shards, tested, threads=threads)
        if weighted is not None:
            totals = weighted.margins
        else:
            totals = margins(shards, tested, threads=threads) if by_customer else counted
        found = _Pairs(totals, by_customer, within, weighted, folder)
        for part in parts:
            found.add(part)
        seen = replace(totals, pairs=found.seen if weighted is None else weighted.margins.pairs)
        if min_count <= LEAST_COUNT:
            repeated = RepeatedPairs.among(found.chunks(), tested, seen)
        else:
            repeated = RepeatedPairs.of(shards, tested, seen.pairs, "quasi", threads=threads)
        return cls(
            **found.columns(names),
            query_factor=found.fit.query_factor,
            item_factor=found.fit.item_factor,
            category=totals.category,
            strata=names,
            by_customer=by_customer,
            min_count=min_count,
            half_life=half_life,
            baskets=counted.baskets,
            records=counted.records,
            prior=repeated.lift_prior(shards, threads=threads),
        )

    def release(self) -> None:
        """Let go of what mapped columns hold in memory."""
        for column in (self.item, self.count, self.customers, self.forward, self.q, self.expected, self.weighted):
            release_pages(column)

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

    def columns(self, queries: npt.ArrayLike, items: npt.ArrayLike) -> dict[str, npt.NDArray[Any]]:
        """The evidence of aligned pairs: a column for each number of `PairEvidence` from counts, and `grade`."""
        one, other = np.asarray(queries, dtype=np.int32), np.asarray(items, dtype=np.int32)
        place = self.find(one, other)
        uncounted = (self.category[one] == self.category[other]) & (self.category[one] >= 0) | (one == other)
        unseen = 0 if self.min_count == 1 else -1
        number = np.where(uncounted, -1, _at(self.count, place, unseen)).astype(np.int32)
        people = np.where(uncounted, -1, _at(self.customers, place, -1 if self.customers is None else unseen))
        overall = np.where(uncounted, np.nan, self.query_factor[one] * self.item_factor[other])
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


class _Pairs:
    """The pairs of a count as they come, part by part, and what can be tested once all are there."""

    def __init__(
        self,
        totals: Margins,
        by_customer: bool,
        within: StratifiedExpected | None,
        weighted: CooccurrenceCounts | None,
        folder: Path | None,
    ) -> None:
        """`weighted`: the weighted counts of all pairs, where old baskets count less."""
        self.totals, self.by_customer, self.within, self.weighted = totals, by_customer, within, weighted
        self.fit = quasi_independence(totals.first, totals.second, totals.category)
        self.parts = ColumnParts(folder)
        self.tests = ColumnParts(folder)
        self.in_row = np.zeros(len(totals.first), dtype=np.int64)
        self.seen = 0

    def add(self, part: PairPart) -> None:
        """The pairs of the next queries."""
        pairs = part.pairs
        times: Any = pairs.customers if self.by_customer else pairs.count
        if self.weighted is not None:
            place = find_pairs(self.weighted.indptr, self.weighted.item, pairs.query, pairs.item)
            times = np.asarray(_at(self.weighted.count, place, 0), dtype=np.int32)
            self.parts.append({"weighted": times})
        overall = self.fit.expected(pairs.query, pairs.item)
        expected = overall if self.within is None else self.within.of(pairs.query, pairs.item)
        known = {"count": pairs.count, "customers": pairs.customers, "forward": part.forward}
        columns = {name: values.astype(np.int32) for name, values in known.items() if values is not None}
        self.parts.append({"item": pairs.item, **columns})
        self.tests.append({"p": poisson_tail(times, expected)})
        if self.within is not None:
            self.parts.append({"expected": expected})
            self.tests.append({"overall": overall, "overall_p": poisson_tail(times, overall)})
        self.in_row += np.bincount(pairs.query, minlength=len(self.in_row))
        self.seen += part.seen

    @cached_property
    def start(self) -> npt.NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum(self.in_row)]).astype(np.int64)

    @cached_property
    def _mapped(self) -> dict[str, npt.NDArray[Any]]:
        return {name: self.parts.column(name) for name in self.parts.types}

    @property
    def times(self) -> npt.NDArray[Any]:
        if self.weighted is not None:
            return self._mapped["weighted"]
        return self._mapped["customers" if self.by_customer else "count"]

    def chunks(self) -> Iterator[tuple[Codes, Codes, npt.NDArray[Any]]]:
        """Query, item and times of some pairs after the other."""
        item, times = self._mapped["item"], self.times
        for rows in _slices(len(item)):
            query = np.searchsorted(self.start, np.arange(rows.start, rows.stop), side="right") - 1
            yield query.astype(np.int32), item[rows], times[rows]

    def columns(self, strata: tuple[str, ...]) -> dict[str, Any]:
        """The columns of the table."""
        pairs, totals = len(self._mapped["item"]), self.totals
        tests = max(possible_pairs(totals.first, totals.second, totals.category, directed=False), pairs)
        ranked, p = self._ranked("p", tests)
        found: dict[str, Any] = dict.fromkeys(OPTIONAL_COLUMNS) | self._mapped
        lost = []
        if self.within is not None:
            overall_ranked, overall_p = self._ranked("overall_p", tests)
            overall = self.tests.column("overall")
        for rows in _slices(pairs):
            q = ranked.q_of(p[rows])
            self.parts.append({"q": np.maximum(q, SMALLEST_Q).astype(np.float32)})
            if self.within is not None:
                cases = ((overall[rows], overall_ranked.q_of(overall_p[rows])), (found["expected"][rows], q))
                times = self.times[rows]
                grades = [grade_pairs(times, exact_estimate(times, e).low, rate) for e, rate in cases]
                lost.append(rows.start + np.flatnonzero((grades[0] == CERTAIN) & (grades[1] == GUESS)))
        if self.within is not None:
            places = np.concatenate([np.zeros(0, dtype=np.int64), *lost])
            query = (np.searchsorted(self.start, places, side="right") - 1).astype(np.int32)
            found["explained"], found["season"] = np.zeros(pairs, np.uint8), np.zeros(pairs, np.uint16)
            why = self.within.explain(strata, query, found["item"][places])
            found["explained"][places], found["season"][places] = why
        if not pairs:
            self.parts.append({"q": np.zeros(0, dtype=np.float32)})
        return {**found, "start": self.start, "q": self.parts.column("q")}

    def _ranked(self, name: str, tests: int) -> tuple[RankedTests, Floats]:
        p = self.tests.column(name)
        return RankedTests(p, tests), p


def _slices(rows: int) -> Iterator[slice]:
    return (slice(first, min(first + CHUNK, rows)) for first in range(0, rows, CHUNK))


def _at(values: npt.NDArray[Any] | None, place: npt.NDArray[np.int64], missing: float) -> npt.NDArray[Any]:
    """`values` at `place`, `missing` where that is -1 or there are no values."""
    if values is None or not len(values):
        return np.full(len(place), missing)
    return np.where(place < 0, missing, values[np.maximum(place, 0)])
