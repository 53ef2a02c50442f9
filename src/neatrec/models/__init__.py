"""Models of what goes with what, all under one contract."""

from neatrec.models.base import Model
from neatrec.models.items import find_items, near_items
from neatrec.models.parameters import ModelParameters, parameter, parse_settings
from neatrec.models.recommendations import Recommendation, Recommendations
from neatrec.models.registry import MODEL_NAMES, ModelAbout, describe, make_model, model_class
from neatrec.models.run import Run

__all__ = [
    "MODEL_NAMES",
    "Model",
    "ModelAbout",
    "ModelParameters",
    "Recommendation",
    "Recommendations",
    "Run",
    "describe",
    "find_items",
    "make_model",
    "model_class",
    "near_items",
    "parameter",
    "parse_settings",
]
