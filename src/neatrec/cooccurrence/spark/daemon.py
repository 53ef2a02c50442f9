"""The daemon of Spark's Python workers (`spark.python.daemon.module`): loads the counter once.

Workers are forked from it, and need not import neatrec and the compiled code by themselves.
"""

from __future__ import annotations

from neatrec.cooccurrence import CountOptions, Engine, count
from neatrec.data.baskets import Baskets


def load_counter() -> None:
    """Count some baskets in each way that has its own compiled code."""
    for users in (None, ["u", "u"]):
        baskets = Baskets.from_lists([["a", "b"], ["b", "a"]], users=users)
        for directed in (False, True):
            count(baskets, CountOptions(directed=directed), Engine(threads=1))


if __name__ == "__main__":
    from pyspark.daemon import manager

    load_counter()
    manager()
