"""One process of a job that agrees on a table of which few rows were changed: `torchrun agreeing_member.py FOLDER`.

FOLDER/KIND-RANK.npy is what it came to, by the rows that were changed and by whole tables.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from benchmarks.distributed_training import Everything

from neatrec.models.embeddings.kernels.layout import new_table
from neatrec.models.embeddings.synchronize import Together
from neatrec.training.launch import launched
from neatrec.training.process_group import joined

ROWS, DIM, SOLD, CHANGED = 3000, 20, 300, 200


def main(folder: str) -> None:
    launch = launched()
    if launch is None:
        sys.exit("start me with torchrun")
    with joined(launch) as team:
        for kind in (Together, Everything):
            rng = np.random.default_rng(team.rank)
            table = new_table(ROWS, DIM)
            last = table.copy()
            for _ in range(2):
                rows = 10 * rng.choice(SOLD, CHANGED, replace=False)  # many of them by all processes
                table[rows, :DIM] += rng.standard_normal((CHANGED, DIM), dtype=np.float32)
                sent = kind(team).agree(table, last, DIM, 1)
                if (sent < table.nbytes / 2) != (kind is Together):
                    sys.exit(f"{kind.__name__} sent {sent} bytes")
            np.save(Path(folder) / f"{kind.__name__}-{team.rank}.npy", table)


main(*sys.argv[1:])
