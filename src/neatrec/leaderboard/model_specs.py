"""Models of a leaderboard: ours by name, external classes by address, external scores by file."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from neatrec.bundle.manifest import file_record
from neatrec.data.baskets import Baskets
from neatrec.errors import ParameterError
from neatrec.leaderboard.external import KIND, ExternalScores, outside_class
from neatrec.models import MODEL_NAMES, Model, make_model
from neatrec.text import printable

Models = Sequence[str | Model] | Mapping[str, str | Model]
"""Models of a leaderboard, by the name of their row where given as a mapping."""


@dataclass(frozen=True)
class ModelSpec:
    """One row of the table."""

    name: str
    kind: str
    make: Callable[[], Any] = field(compare=False)
    """A model that has not learned yet; scores are there at once."""
    identity: str
    """What makes it this model: two specs with the same identity, data and seed give the same ranks."""
    learning: str = ""
    """What decides its fit: of models that share it one is trained, and the others take its arrays."""
    devices: tuple[str, ...] = ("cpu", "gpu")
    """Where it can learn."""
    learns: bool = True
    """Whether it is trained, and so may come out differently for another seed."""
    ours: bool = True
    """Whether a bundle can hold it."""


def model_specs(
    models: Models | None, scores: Mapping[str, str | Path], train: Baskets
) -> tuple[tuple[ModelSpec, ...], dict[str, str]]:
    """The specs, and the models left out with the reason.

    A model is a name, `name@preset`, an address `pkg.mod:Class`, or a `Model` (its parameters count, not what it may
    have learned); in a mapping, rows have names of their own. Without any: all of ours that can learn from the baskets.
    """
    skipped: dict[str, str] = {}
    chosen: list[ModelSpec] = []
    wanted: Models = MODEL_NAMES if models is None else models
    named = wanted.items() if isinstance(wanted, Mapping) else ((None, model) for model in wanted)
    for name, model in named:
        spec = _model_spec(model)
        spec = spec if name is None else replace(spec, name=name)
        if models is None and train.users is None and getattr(spec.make(), "needs_users", False):
            skipped[spec.name] = "it learns from users, and the users of these baskets are not known"
        else:
            chosen.append(spec)
    chosen += [_scores(name, file, train) for name, file in scores.items()]
    names = [spec.name for spec in chosen]
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(
                f"two models of the leaderboard are called {printable(name)!r}",
                hint="Each row needs a name of its own.",
            )
    if not chosen:
        raise ParameterError("a leaderboard needs at least one model")
    return tuple(chosen), skipped


def _model_spec(model: str | Model) -> ModelSpec:
    if isinstance(model, Model):
        kind, parameters = type(model), model.parameters
        return _ours_or_outside(model.name, lambda: kind(parameters))
    if ":" in model:
        return _outside(model)
    name, _, preset = model.partition("@")
    return _ours_or_outside(model, lambda: make_model(name, preset=preset or None))


def _ours_or_outside(name: str, make: Callable[[], Model]) -> ModelSpec:
    sample = make()
    ours = type(sample).__module__.startswith("neatrec.models")
    code = [] if ours else [_source(type(sample))]
    parameters = sample.parameters.to_dict()
    learning = _identity(*sample.fit_key())
    identity = _identity(sample.name, parameters, *code)
    return ModelSpec(name, sample.kind, make, identity, learning, tuple(sample.devices), ours=ours)


def _outside(address: str) -> ModelSpec:
    found = outside_class(address)
    sample = found()
    name = str(getattr(sample, "name", "") or address)
    parameters: Any = getattr(sample, "parameters", None)
    described = parameters.to_dict() if hasattr(parameters, "to_dict") else repr(parameters)
    identity = _identity(address, described, _source(found))
    devices = tuple(getattr(sample, "devices", ("cpu", "gpu")))
    return ModelSpec(name, str(getattr(sample, "kind", KIND)), found, identity, devices=devices, ours=False)


def _scores(name: str, file: str | Path, train: Baskets) -> ModelSpec:
    scores = ExternalScores.read(name, file, train.catalog)
    identity = _identity("scores", file_record(Path(file)).sha256)
    return ModelSpec(name, KIND, lambda: scores, identity, learns=False, ours=False)


def _source(kind: Any) -> str:
    """The source of a class: an edited class is another model."""
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        return ""


def _identity(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=repr).encode()).hexdigest()
