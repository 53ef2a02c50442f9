"""The built-in models: their names, classes and parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

from neatrec.errors import ParameterError, must_be_one_of
from neatrec.models.base import Model
from neatrec.models.parameters import ParameterInfo, describe_parameters, parse_settings

MODEL_CLASSES: Mapping[str, str] = {
    "pop": "neatrec.models.statistics:Pop",
    "popco": "neatrec.models.statistics:PopCo",
    "cf": "neatrec.models.factorization:CF",
    "bprmf": "neatrec.models.factorization:BPRMF",
    "ease": "neatrec.models.ease:Ease",
    "item2vec": "neatrec.models.embeddings.models:Item2Vec",
    "triple2vec": "neatrec.models.embeddings.models:Triple2Vec",
    "neat": "neatrec.models.embeddings.models:Neat",
    "neat-bpr": "neatrec.models.embeddings.models:NeatBPR",
    "lift": "neatrec.models.statistics:Lift",
    "shrunk-lift": "neatrec.models.statistics:ShrunkLift",
    "shrunk-lift-tuned": "neatrec.models.statistics:ShrunkLiftTuned",
    "llr": "neatrec.models.statistics:LLR",
    "jaccard": "neatrec.models.statistics:Jaccard",
    "odds": "neatrec.models.odds:Odds",
}
"""Name -> module:class. Only the selected model is imported."""

MODEL_NAMES: tuple[str, ...] = tuple(MODEL_CLASSES)


@dataclass(frozen=True)
class ModelInfo:
    """Facts about a model that `neatrec show` prints."""

    name: str
    kind: str
    description: str
    needs_users: bool
    parameters: tuple[ParameterInfo, ...]
    presets: dict[str, dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """The description as `neatrec show --json` prints it."""
        return asdict(self)


def model_class(name: str) -> type[Model]:
    """The class of a built-in model."""
    if name not in MODEL_CLASSES:
        raise must_be_one_of("model", MODEL_NAMES, name)
    module, _, attribute = MODEL_CLASSES[name].partition(":")
    found: type[Model] = getattr(import_module(module), attribute)
    return found


def make_model(
    name: str,
    settings: Mapping[str, Any] | Iterable[str] = (),
    *,
    preset: str | None = None,
    **more: Any,
) -> Model:
    """Make a model by name, not yet fitted.

    Parameters
    ----------
    name
        Name of the model; `neatrec show` lists them.
    settings
        Parameters as a mapping, or as KEY=VALUE texts.
    preset
        Name of a set of parameters, such as `paper`.
    **more
        Further parameters.

    Examples
    --------
    >>> make_model("shrunk-lift", ["k=0.5"]).parameters.k
    0.5
    """
    kind = model_class(name)
    given = dict(settings) if isinstance(settings, Mapping) else dict(parse_settings(settings))
    if twice := sorted(given.keys() & more.keys()):
        raise ParameterError(f"setting {twice[0]!r} is given twice")
    return kind(kind.Parameters.make({**given, **more}, preset=preset))


def describe(names: Iterable[str] = MODEL_NAMES) -> tuple[ModelInfo, ...]:
    """The names, kinds, descriptions and parameters of models."""
    return tuple(
        ModelInfo(
            model.name,
            model.kind,
            model.description,
            model.needs_users,
            describe_parameters(model.Parameters),
            {name: dict(settings) for name, settings in model.Parameters.presets.items()},
        )
        for model in map(model_class, names)
    )
