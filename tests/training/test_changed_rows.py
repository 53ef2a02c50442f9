"""Sending only the rows that somebody changed comes to the bits of sending all of them."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from benchmarks.distributed_training import Everything
from hypothesis import given
from hypothesis import strategies as st

from helpers.thread_process_group import ThreadTeam, all_at_once
from neatrec.io import read_baskets
from neatrec.models import Run, make_model
from neatrec.models.base import Model
from neatrec.models.embeddings import synchronize as together
from neatrec.models.embeddings.kernels.layout import VISITOR, Table, new_table, width
from neatrec.models.embeddings.synchronize import Together


@dataclass(frozen=True)
class Case:
    """Who changes which rows of a table before each of two agreements."""

    rows: int = 40
    dim: int = 5
    vectors: int = 1
    processes: int = 2
    rule: str = "sum"
    changed: tuple[tuple[int, ...], ...] = ((),)
    """By process (the last ones may be missing: they change nothing)."""

    def table(self) -> Table:
        rng = np.random.default_rng(7)
        table = new_table(self.rows, self.dim, self.vectors)
        table[:] = rng.standard_normal(table.shape, dtype=np.float32)
        table[:, width(self.dim) * self.vectors + VISITOR] = 0.0
        return table

    def work(self, table: Table, rank: int, time: int) -> None:
        """What a kernel does to a table between two agreements."""
        rows = list(self.changed[rank]) if rank < len(self.changed) else []
        rng = np.random.default_rng([rank, time])
        table[rows] += rng.standard_normal((len(rows), table.shape[1]), dtype=np.float32)
        table[(rank + time) % max(self.rows, 1) :, width(self.dim) * self.vectors + VISITOR] = 9.0

    def agreed(self, kind: type[Together]) -> Sequence[tuple[Table, Table, list[int]]]:
        """Each process's table, last table and bytes sent at each agreement."""

        def one(team: ThreadTeam) -> tuple[Table, Table, list[int]]:
            table = self.table()
            last, sent = table.copy(), []
            for time in range(2):
                self.work(table, team.rank, time)
                sent.append(kind(team, rule=self.rule).agree(table, last, self.dim, self.vectors))
            return table, last, sent

        return all_at_once(self.processes, one)

    def summed(self) -> Table:
        """What a plain sum of all tables' changes comes to."""
        last = self.table()
        for time in range(2):
            tables = [last.copy() for _ in range(self.processes)]
            for rank, table in enumerate(tables):
                self.work(table, rank, time)
                table[:, width(self.dim) * self.vectors + VISITOR] = 0.0
            last = last + sum((table - last for table in tables[1:]), tables[0] - last)
        return last


def bits(table: Table) -> bytes:
    return np.ascontiguousarray(table).tobytes()


def assert_same_bits(case: Case) -> list[int]:
    """Bytes sent at each agreement, the same in all processes."""
    found, expected = case.agreed(Together), case.agreed(Everything)
    for (table, last, sent), (wanted, _, _) in zip(found, expected, strict=True):
        assert bits(table) == bits(last) == bits(wanted)
        assert sent == found[0][2]
        if case.rule == "sum":
            assert bits(table) == bits(case.summed())
    return found[0][2]


ALL = tuple(range(40))


@pytest.mark.parametrize("rule", ["sum", "mean"])
@pytest.mark.parametrize(
    ("changed", "sent"),
    [
        (((), ()), 0),
        (((), (3,)), 1),
        (((3,), (3,)), 1),
        (((3, 5, 39), (0, 3)), 4),
        ((ALL[:15], ALL[15:30]), 30),
        ((ALL[:15], ALL[14:31]), 40),
        ((ALL, ()), 40),
        ((ALL, ALL), 40),
    ],
    ids=["nothing", "one row", "one row twice", "a few", "just few enough", "too many", "all by one", "all"],
)
def test_the_same_bits_by_as_many_rows_as_it_takes(changed: tuple[tuple[int, ...], ...], sent: int, rule: str) -> None:
    case = Case(changed=changed, rule=rule)
    row = 4 * case.table().shape[1] + (4 if rule == "mean" else 0)  # and by how many, for a mean
    assert assert_same_bits(case) == [40 + sent * row] * 2  # a byte a row tells which


def test_a_large_table_of_users_of_whom_few_bought() -> None:
    buyers = np.random.default_rng(1).choice(20_000, (3, 50), replace=False)
    case = Case(rows=20_000, dim=8, processes=3, changed=tuple(tuple(map(int, mine)) for mine in buyers))
    assert max(assert_same_bits(case)) < 0.03 * case.table().nbytes


def test_rows_travel_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(changed=(ALL[:11], ALL[5:20]))
    whole = assert_same_bits(case)
    monkeypatch.setattr(together, "PIECE", 3 * 4 * case.table().shape[1])
    monkeypatch.setattr(together, "LOOKED_AT", 7)
    assert assert_same_bits(case) == whole


def test_a_table_without_rows() -> None:
    assert assert_same_bits(Case(rows=0)) == [0, 0]


@given(
    case=st.builds(
        Case,
        rows=st.just(12),
        dim=st.integers(1, 9),
        vectors=st.integers(1, 2),
        processes=st.just(3),
        rule=st.sampled_from(Together.rules),
        changed=st.lists(st.lists(st.integers(0, 11), unique=True).map(tuple), max_size=3).map(tuple),
    )
)
def test_any_rows_of_any_process(case: Case) -> None:
    assert_same_bits(case)


def test_a_zero_that_loses_its_sign_in_one_process_is_the_same_zero_in_all() -> None:
    def one(team: ThreadTeam) -> bytes:
        table = new_table(10, 3)
        last = table.copy()
        table[4, 0] = -0.0 if team.rank else 0.0
        Together(team).agree(table, last, 3, 1)
        return bits(table)

    assert set(all_at_once(2, one)) == {bits(new_table(10, 3))}


def test_so_many_processes_that_a_byte_cannot_count_them() -> None:
    """A row that all of 256 changed is no row that nobody did."""

    class Many(ThreadTeam):
        def add(self, array: np.ndarray) -> None:
            array *= np.array(256).astype(array.dtype)  # all bring the same

    table = new_table(10, 3)
    last = table.copy()
    table[2, 0] = 1.0
    team = Many.__new__(Many)
    team.rank, team.size = 0, 256
    Together(team).agree(table, last, 3, 1)
    assert table[2, 0] == last[2, 0] == 256.0


@pytest.mark.parametrize("name", ["neat", "triple2vec"])
def test_a_fit_has_the_bits_of_one_that_sends_everything(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Agreements after a few baskets, of which each changes a few rows of items and of users."""
    baskets = read_baskets("supermarket:baskets=200,items=800")
    shards = [baskets.select(part) for part in np.array_split(np.arange(len(baskets)), 4)]

    def fitted(kind: type[Together]) -> Model:
        def one(team: ThreadTeam) -> Model:
            run = Run(rng=5, threads=1, reproducible=True, together=kind(team, 4))
            return make_model(name, dim=8, epochs=2).fit(shards, run)

        return all_at_once(2, one)[0]

    expected = fitted(Everything)
    caplog.clear()
    with caplog.at_level(logging.DEBUG, logger="neatrec.models.embeddings.trainer"):
        found = fitted(Together)
    for key, array in expected.arrays(users=True).items():
        assert bits(found.arrays(users=True)[key]) == bits(array), key
    said = [re.fullmatch(r"agreed (\d+) times: (.+) MB sent, tables of (.+) MB", line) for line in caplog.messages]
    sent = [match for match in said if match]
    assert len(sent) == 4  # two processes, two epochs
    for match in sent:
        assert float(match[2]) < 0.7 * float(match[3])
