"""neatrec finds what goes with what from shopping baskets, and measures how far its answers can be trusted.

The names below are the public front; each is imported when it is first used, so `import neatrec` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from neatrec._version import __version__

if TYPE_CHECKING:
    from neatrec.bundle import load_bundle, save_bundle
    from neatrec.check.run import check_baskets
    from neatrec.cooccurrence import CooccurrenceCounts, CountOptions, count
    from neatrec.data.baskets import Baskets
    from neatrec.data.catalog import Catalog
    from neatrec.data.splits import split_baskets
    from neatrec.errors import InputError, NeatrecError
    from neatrec.io import SourceOptions, read_baskets
    from neatrec.labels import Labels, make_labels, shuffle_null
    from neatrec.leaderboard.run import LeaderboardOptions, run_leaderboard
    from neatrec.models import Model, make_model
    from neatrec.serving.query import recommend
    from neatrec.shop import Shop, fit
    from neatrec.simulator import supermarket

_HOMES = {
    "Baskets": "neatrec.data.baskets",
    "Catalog": "neatrec.data.catalog",
    "CooccurrenceCounts": "neatrec.cooccurrence",
    "CountOptions": "neatrec.cooccurrence",
    "InputError": "neatrec.errors",
    "Labels": "neatrec.labels",
    "LeaderboardOptions": "neatrec.leaderboard.run",
    "Model": "neatrec.models",
    "NeatrecError": "neatrec.errors",
    "Shop": "neatrec.shop",
    "SourceOptions": "neatrec.io",
    "check_baskets": "neatrec.check.run",
    "count": "neatrec.cooccurrence",
    "fit": "neatrec.shop",
    "load_bundle": "neatrec.bundle",
    "make_labels": "neatrec.labels",
    "make_model": "neatrec.models",
    "read_baskets": "neatrec.io",
    "recommend": "neatrec.serving.query",
    "run_leaderboard": "neatrec.leaderboard.run",
    "save_bundle": "neatrec.bundle",
    "shuffle_null": "neatrec.labels",
    "split_baskets": "neatrec.data.splits",
    "supermarket": "neatrec.simulator",
}

__all__ = [
    "Baskets",
    "Catalog",
    "CooccurrenceCounts",
    "CountOptions",
    "InputError",
    "Labels",
    "LeaderboardOptions",
    "Model",
    "NeatrecError",
    "Shop",
    "SourceOptions",
    "__version__",
    "check_baskets",
    "count",
    "fit",
    "load_bundle",
    "make_labels",
    "make_model",
    "read_baskets",
    "recommend",
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
