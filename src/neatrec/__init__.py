"""neatrec finds what goes with what from shopping baskets, and proves how far its answers can be trusted.

The names below are the public front; each is imported when it is first used, so `import neatrec` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from neatrec._version import __version__

if TYPE_CHECKING:
    from neatrec.baskets import Baskets
    from neatrec.catalog import Catalog
    from neatrec.copurchase import CoPurchases, Counting, count
    from neatrec.errors import InputError, NeatrecError
    from neatrec.experiments.check import check
    from neatrec.labels import Labels, make_labels, shuffle_null
    from neatrec.sources import SourceOptions, read_baskets
    from neatrec.sources.supermarket import supermarket

_HOMES = {
    "Baskets": "neatrec.baskets",
    "Catalog": "neatrec.catalog",
    "CoPurchases": "neatrec.copurchase",
    "Counting": "neatrec.copurchase",
    "InputError": "neatrec.errors",
    "Labels": "neatrec.labels",
    "NeatrecError": "neatrec.errors",
    "SourceOptions": "neatrec.sources",
    "check": "neatrec.experiments.check",
    "count": "neatrec.copurchase",
    "make_labels": "neatrec.labels",
    "read_baskets": "neatrec.sources",
    "shuffle_null": "neatrec.labels",
    "supermarket": "neatrec.sources.supermarket",
}

__all__ = [
    "Baskets",
    "Catalog",
    "CoPurchases",
    "Counting",
    "InputError",
    "Labels",
    "NeatrecError",
    "SourceOptions",
    "__version__",
    "check",
    "count",
    "make_labels",
    "read_baskets",
    "shuffle_null",
    "supermarket",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'neatrec' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
