"""Both engines count what the definition says, to the bit."""

from __future__ import annotations

import pytest
from counting_reference import assert_counted_right, jobs, margins_plainly
from hypothesis import given, settings
from hypothesis import strategies as st

from neatrec.baskets import Baskets
from neatrec.copurchase import Counting, count, margins

ENGINES = pytest.mark.parametrize("engine", ["memory", "duckdb"])


@ENGINES
@settings(max_examples=150, deadline=None)
@given(job=jobs(), threads=st.integers(1, 3))
def test_counts_are_those_of_the_definition(engine: str, job: tuple[Baskets, Counting], threads: int) -> None:
    baskets, counting = job
    assert_counted_right(count(baskets, counting, engine=engine, threads=threads), baskets, counting)


@ENGINES
@settings(max_examples=60, deadline=None)
@given(job=jobs())
def test_margins_alone_are_those_of_the_pairs(engine: str, job: tuple[Baskets, Counting]) -> None:
    baskets, counting = job
    m = margins(baskets, counting, engine=engine)
    first, second, records, _, counted = margins_plainly(baskets, counting)
    assert (m.first.tolist(), m.second.tolist(), m.records, m.baskets) == (first, second, records, counted)
    assert m.category.tolist() == counting.category_of(baskets.catalog).tolist()
