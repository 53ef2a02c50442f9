"""neatrec finds the products that are bought together, and states how certain each pair is.

The names below are the public front; each is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from neatrec._version import __version__ as __version__

if TYPE_CHECKING:
    from neatrec.bundle import load_bundle as load_bundle
    from neatrec.bundle import save_bundle as save_bundle
    from neatrec.check.run import check_baskets as check_baskets
    from neatrec.cooccurrence import CountOptions as CountOptions
    from neatrec.cooccurrence import Counts as Counts
    from neatrec.cooccurrence import count as count
    from neatrec.data.baskets import Baskets as Baskets
    from neatrec.data.catalog import Catalog as Catalog
    from neatrec.data.splits import split_baskets as split_baskets
    from neatrec.errors import InputError as InputError
    from neatrec.errors import NeatrecError as NeatrecError
    from neatrec.io import SourceOptions as SourceOptions
    from neatrec.io import read_baskets as read_baskets
    from neatrec.labels import Labels as Labels
    from neatrec.labels import make_labels as make_labels
    from neatrec.labels import shuffle_null as shuffle_null
    from neatrec.leaderboard.run import LeaderboardOptions as LeaderboardOptions
    from neatrec.leaderboard.run import run_leaderboard as run_leaderboard
    from neatrec.models import Model as Model
    from neatrec.models import make_model as make_model
    from neatrec.serving.recommend import recommend as recommend
    from neatrec.shop import Shop as Shop
    from neatrec.shop import fit as fit
    from neatrec.shop import load as load
    from neatrec.simulator import supermarket as supermarket

_NAMES = {
    "bundle": "load_bundle save_bundle",
    "check.run": "check_baskets",
    "cooccurrence": "CountOptions Counts count",
    "data.baskets": "Baskets",
    "data.catalog": "Catalog",
    "data.splits": "split_baskets",
    "errors": "InputError NeatrecError",
    "io": "SourceOptions read_baskets",
    "labels": "Labels make_labels shuffle_null",
    "leaderboard": "LeaderboardOptions run_leaderboard",
    "models": "Model make_model",
    "serving": "recommend",
    "shop": "Shop fit load",
    "simulator": "supermarket",
}
_HOMES = {name: f"neatrec.{home}" for home, names in _NAMES.items() for name in names.split()}
__all__ = sorted((*_HOMES, "__version__"))


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'neatrec' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
