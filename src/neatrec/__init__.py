"""neatrec finds what goes with what from shopping baskets, and proves how far its answers can be trusted.

The names below are the public front; each is imported when it is first used, so `import neatrec` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from neatrec._version import __version__

if TYPE_CHECKING:
    from neatrec.baskets import Baskets
    from neatrec.bundle import load_bundle, save_bundle
    from neatrec.catalog import Catalog
    from neatrec.copurchase import CoPurchases, Counting, count
    from neatrec.errors import InputError, NeatrecError
    from neatrec.experiments.check import check
    from neatrec.experiments.leaderboard import run_leaderboard
    from neatrec.labels import Labels, make_labels, shuffle_null
    from neatrec.models import Model, make_model
    from neatrec.sources import SourceOptions, read_baskets
    from neatrec.sources.supermarket import supermarket
    from neatrec.splits import split_baskets

_HOMES = {
    "Baskets": "neatrec.baskets",
    "Catalog": "neatrec.catalog",
    "CoPurchases": "neatrec.copurchase",
    "Counting": "neatrec.copurchase",
    "InputError": "neatrec.errors",
    "Labels": "neatrec.labels",
    "Model": "neatrec.models",
    "NeatrecError": "neatrec.errors",
    "SourceOptions": "neatrec.sources",
    "check": "neatrec.experiments.check",
    "count": "neatrec.copurchase",
    "load_bundle": "neatrec.bundle",
    "make_labels": "neatrec.labels",
    "make_model": "neatrec.models",
    "read_baskets": "neatrec.sources",
    "run_leaderboard": "neatrec.experiments.leaderboard",
    "save_bundle": "neatrec.bundle",
    "shuffle_null": "neatrec.labels",
    "split_baskets": "neatrec.splits",
    "supermarket": "neatrec.sources.supermarket",
}

__all__ = [
    "Baskets",
    "Catalog",
    "CoPurchases",
    "Counting",
    "InputError",
    "Labels",
    "Model",
    "NeatrecError",
    "SourceOptions",
    "__version__",
    "check",
    "count",
    "load_bundle",
    "make_labels",
    "make_model",
    "read_baskets",
    "run_leaderboard",
    "save_bundle",
    "shuffle_null",
    "split_baskets",
    "supermarket",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'neatrec' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
