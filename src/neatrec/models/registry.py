"""Which models there are: their names, where each lives, what it is and what can be set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

from neatrec.errors import ParameterError, must_be_one_of
from neatrec.models.base import Model
from neatrec.models.parameters import ParameterAbout, describe_parameters, parse_settings

HOMES: Mapping[str, str] = {
    "pop": "neatrec.models.popularity:Pop",
    "popco": "neatrec.models.popco:PopCo",
    "cf": "neatrec.models.factorization:CF",
    "bprmf": "neatrec.models.factorization:BPRMF",
    "item2vec": "neatrec.models.embeddings.item2vec:Item2Vec",
    "item2vec-product": "neatrec.models.embeddings.item2vec:Item2VecProduct",
    "triple2vec": "neatrec.models.embeddings.triple2vec:Triple2Vec",
    "neat": "neatrec.models.embeddings.neat:Neat",
    "neat-likelihood": "neatrec.models.embeddings.neat:NeatLikelihood",
    "neat-bpr": "neatrec.models.embeddings.neat_bpr:NeatBPR",
    "lift": "neatrec.models.statistics:Lift",
    "shrunk-lift": "neatrec.models.statistics:ShrunkLift",
    "shrunk-lift-tuned": "neatrec.models.tuned_lift:ShrunkLiftTuned",
    "llr": "neatrec.models.statistics:LLR",
    "jaccard": "neatrec.models.statistics:Jaccard",
    "bayes": "neatrec.models.bayes:Bayes",
    "bayes-sure": "neatrec.models.bayes:BayesSure",
}
"""Name -> module and class, so that asking for one model imports one."""

MODEL_NAMES: tuple[str, ...] = tuple(HOMES)


@dataclass(frozen=True)
class ModelAbout:
    """What `neatrec show` tells of a model."""

    name: str
    kind: str
    about: str
    needs_users: bool
    parameters: tuple[ParameterAbout, ...]
    presets: dict[str, dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def model_class(name: str) -> type[Model]:
    """The class of a model of ours."""
    if name not in HOMES:
        raise must_be_one_of("model", MODEL_NAMES, name)
    module, _, attribute = HOMES[name].partition(":")
    found: type[Model] = getattr(import_module(module), attribute)
    return found


def make_model(
    name: str, settings: Mapping[str, Any] | Iterable[str] = (), *, preset: str | None = None, **more: Any
) -> Model:
    """A model by name, not yet fitted. Settings are values, or text as a command line gives them.

    >>> make_model("shrunk-lift", k=2).parameters.k, make_model("shrunk-lift", ["k=0.5"]).parameters.k
    (2.0, 0.5)
    """
    kind = model_class(name)
    given = dict(settings) if isinstance(settings, Mapping) else dict(parse_settings(settings))
    if twice := sorted(given.keys() & more.keys()):
        raise ParameterError(f"setting {twice[0]!r} is given twice")
    return kind(kind.Parameters.make({**given, **more}, preset=preset))


def describe(names: Iterable[str] = MODEL_NAMES) -> tuple[ModelAbout, ...]:
    """Names, kinds, parameters, defaults and a sentence about each, in the order of `MODEL_NAMES`."""
    return tuple(_about(model_class(name)) for name in names)


def _about(model: type[Model]) -> ModelAbout:
    parameters = model.Parameters
    presets = {name: dict(settings) for name, settings in parameters.presets.items()}
    return ModelAbout(model.name, model.kind, model.about, model.needs_users, describe_parameters(parameters), presets)
