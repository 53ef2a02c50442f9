"""The daemon of Spark's Python workers (`spark.python.daemon.module`): it loads the compiled counter once.

Workers are forked from it. Without it each of them would import neatrec and load the compiled code by itself.
"""

from __future__ import annotations

from neatrec.cooccurrence import CountOptions, Engine, count
from neatrec.data.baskets import Baskets


def load_counter() -> None:
    """Count some baskets in each way that needs other compiled code."""
    for users in (None, ["u", "u"]):
        few = Baskets.from_lists([["a", "b"], ["b", "a"]], users=users)
        for directed in (False, True):
            count(few, CountOptions(directed=directed), Engine(threads=1))


if __name__ == "__main__":
    from pyspark.daemon import manager

    load_counter()
    manager()
