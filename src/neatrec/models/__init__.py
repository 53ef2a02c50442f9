"""Models of complementary items, all with one interface."""

from neatrec.models.base import Model
from neatrec.models.items import find_items, suggest_items
from neatrec.models.parameters import ModelParameters, parameter, parse_settings
from neatrec.models.ranking import Ranking, rank, rank_carts
from neatrec.models.registry import MODEL_NAMES, ModelInfo, describe, make_model, model_class
from neatrec.models.run import Run

__all__ = [
    "MODEL_NAMES",
    "Model",
    "ModelInfo",
    "ModelParameters",
    "Ranking",
    "Run",
    "describe",
    "find_items",
    "make_model",
    "model_class",
    "parameter",
    "parse_settings",
    "rank",
    "rank_carts",
    "suggest_items",
]
