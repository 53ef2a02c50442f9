"""Imports again and again into a basket store, printing what it is about to do, until it is killed.

Run as a script it imports everything once and then forks a child for each line "STORE VERSION append|replace" that
comes in; the child prints its process id and the phases it goes through.
"""

import os
from pathlib import Path

from helpers.crash_worker import announce, say, serve
from neatrec.io import basket_store
from neatrec.io.basket_store import import_baskets

PHASES = ("read", "lines", "items", "keep", "manifest", "rename")
HEADER = "order_id,sku,position"


def rows_of(version: int, way: str) -> list[str]:
    """What import number `version` brings: a new basket and, to replace, the one before with a third item."""
    rows = [f"{version},tea,1", f"{version},item {version % 5},2"]
    if way == "replace" and version > 1:
        rows += [*rows_of(version - 1, "append"), f"{version - 1},jam,3"]
    return rows


def rows_after(version: int, way: str) -> list[str]:
    """What the store holds after that many imports."""
    rows = [row for number in range(1, version + 1) for row in rows_of(number, "append")]
    return rows + [f"{number},jam,3" for number in range(1, version) if way == "replace"]


def import_version(store: Path, version: int, way: str) -> None:
    """Import number `version`, from a file beside the store."""
    orders = store.with_name("orders.csv")
    orders.write_text("\n".join([HEADER, *rows_of(version, way), ""]))
    import_baskets(orders, store, replace=way == "replace")


def work(store: Path, version: int, way: str) -> None:
    """Import version after version into `store`."""
    announce(basket_store, "_copy", "lines")
    announce(basket_store, "_write_items", "items")
    announce(basket_store, "_keep", "keep")
    announce(basket_store, "_write_manifest", "manifest")
    announce(os, "replace", "rename")
    while True:
        version += 1
        say(f"read {version}")
        import_version(store, version, way)


if __name__ == "__main__":
    serve(work)
