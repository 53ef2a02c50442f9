"""Sending only the rows that somebody changed comes to the bits of sending all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from benchmarks.distributed_training import ChangedRows
from thread_team import ThreadTeam, all_at_once

from neatrec.kernels.layout import VISITOR, Table, new_table, width
from neatrec.models.together import Together

ROWS, DIM = 40, 5


def agreed(kind: type[Together]) -> Sequence[tuple[Table, Table]]:
    """Both processes' table and last table, after two agreements over changes of a few rows."""

    def work(team: ThreadTeam) -> tuple[Table, Table]:
        rng = np.random.default_rng(team.rank)
        table, last = new_table(ROWS, DIM), new_table(ROWS, DIM)
        for _ in range(2):
            changed = rng.permutation(ROWS)[:7]
            table[changed] += rng.standard_normal((7, table.shape[1]), dtype=np.float32)
            table[changed, width(DIM) + VISITOR] = 9.0
            kind(team).agree(table, last, DIM, 1)
        return table, last

    return all_at_once(2, work)


def test_the_same_bits_as_the_sum_and_fewer_bytes() -> None:
    ChangedRows.sent.clear()
    found, expected = agreed(ChangedRows), agreed(Together)
    for ours, theirs in zip(found, expected, strict=True):
        for mine, wanted in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(mine, wanted)
    whole = new_table(ROWS, DIM).nbytes
    assert max(ChangedRows.sent) < whole
