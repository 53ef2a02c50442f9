"""Adding a day to kept counts, beside counting everything again: `python -m benchmarks.appending [--baskets N]`.

Both give the labels of all baskets, calibrated; the hashes must be equal. The day is the 365th part of the
baskets, with customers who were there before.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import save, table


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    wall, cpu = time.perf_counter(), time.process_time()
    answer = work()
    return answer, {"wall": round(time.perf_counter() - wall, 2), "cpu": round(time.process_time() - cpu, 2)}


def main(baskets: int, items: int) -> None:
    from neatrec.copurchase import Counting
    from neatrec.copurchase.state import append
    from neatrec.labels import make_labels
    from neatrec.labels.appended import labels_of_state
    from neatrec.sources.supermarket import supermarket

    counting = Counting(min_basket=5, category_level="aisle")
    small = supermarket(baskets=2000, items=100).baskets  # compiles what is timed
    with tempfile.TemporaryDirectory() as folder:
        for part in (0, 1):
            append(folder, small.select(np.arange(len(small)) % 2 == part), counting)
    make_labels(small)

    shop = supermarket(baskets=baskets, items=items).baskets
    today = np.arange(len(shop)) % 365 == 364
    with tempfile.TemporaryDirectory() as folder:
        _, first = timed(lambda: append(folder, shop.select(~today), counting))
        day = shop.select(today)
        (state, added), adding = timed(lambda: append(folder, day, counting))
        labels, asking = timed(lambda: labels_of_state(state))
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
    recount, counting_again = timed(lambda: make_labels(shop))
    if labels.hash != recount.hash:
        sys.exit("the labels of the state are not those of the recount")
    rows = {"first call": first, "adding a day": adding, "labels of the state": asking, "recount": counting_again}
    print(
        table([["", "wall s", "CPU s"], *([name, f"{t['wall']:.1f}", f"{t['cpu']:.1f}"] for name, t in rows.items())])
    )
    about = {
        "baskets": len(shop),
        "lines": shop.lines,
        "day": added.baskets,
        "pairs": labels.pairs,
        "state_bytes": size,
    }
    save("appending", {"about": about, "seconds": rows}, ("numpy", "numba", "pyarrow"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--baskets", type=int, default=3_200_000)
    parser.add_argument("--items", type=int, default=50_000)
    main(**vars(parser.parse_args()))
