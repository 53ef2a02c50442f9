"""Imports again and again into a folder of orders, printing what it is about to do, until it is
killed.

Run as a script it imports everything once and then forks a child for each line "STORE VERSION
append|replace" that comes in; the child prints its process id and the phases it goes through.
"""

import os
from pathlib import Path

from helpers.crash_worker import announce, say, serve
from neatrec.io import orders_folder
from neatrec.io.orders_folder import import_orders

PHASES = {
    "append": ("read", "part", "sync", "rename"),
    "replace": ("read", "link", "part", "sync", "rename", "exchange", "remove"),
}
"""Effect of an import, by the way in which it adds orders."""
HEADER = "order_id,sku,position"


def rows_of(version: int, way: str) -> list[str]:
    """Orders of import number `version`: a new basket and, to replace, the one before with a
    third item."""
    rows = [f"{version},tea,1", f"{version},item {version % 5},2"]
    if way == "replace" and version > 1:
        rows += [*rows_of(version - 1, "append"), f"{version - 1},jam,3"]
    return rows


def rows_after(version: int, way: str) -> list[str]:
    """Content of the folder after that number of imports."""
    rows = [row for number in range(1, version + 1) for row in rows_of(number, "append")]
    return rows + [f"{number},jam,3" for number in range(1, version) if way == "replace"]


def import_version(store: Path, version: int, way: str) -> None:
    """Import number `version`, from a file beside the store."""
    orders = store.with_name("orders.csv")
    orders.write_text("\n".join([HEADER, *rows_of(version, way), ""]))
    import_orders(orders, store, replace=way == "replace")


def work(store: Path, version: int, way: str) -> None:
    """Import version after version into `store`."""
    announce(orders_folder, "_write_part", "part")
    announce(orders_folder, "sync_file", "sync")
    announce(orders_folder, "exchange", "exchange")
    announce(orders_folder, "remove", "remove")
    announce(os, "link", "link")
    announce(os, "rename", "rename")
    while True:
        version += 1
        say(f"read {version}")
        import_version(store, version, way)


if __name__ == "__main__":
    serve(work)
