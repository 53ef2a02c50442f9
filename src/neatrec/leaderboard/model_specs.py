"""Models of a leaderboard: those of neatrec by name, other classes by address."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

from neatrec.data.baskets import Baskets
from neatrec.errors import ParameterError, must_be
from neatrec.models import MODEL_NAMES, Model, make_model
from neatrec.models.counts import ranked_within
from neatrec.text import printable

NEEDED = ("fit", "score", "score_all")
Models = Sequence[str | Model] | Mapping[str, str | Model]
"""Models of a leaderboard, or a mapping of row names to models."""


@dataclass(frozen=True)
class ModelSpec:
    """One row of the table."""

    name: str
    kind: str
    make: Callable[[], Any] = field(compare=False)
    """Makes an unfitted model."""
    devices: tuple[str, ...] = ("cpu", "gpu")
    """Devices on which it can be fitted."""


def model_specs(
    models: Models | None, train: Baskets, strata: Sequence[str] = ()
) -> tuple[tuple[ModelSpec, ...], dict[str, str]]:
    """The rows, and the reason of each skipped model.

    Models that compare counts with chance do so within `strata`. Without `models`: all models of
    neatrec that can learn from the baskets.
    """
    skipped: dict[str, str] = {}
    specs: list[ModelSpec] = []
    rows: Models = MODEL_NAMES if models is None else models
    named = rows.items() if isinstance(rows, Mapping) else ((None, model) for model in rows)
    for name, model in named:
        spec = model_spec(model, strata)
        spec = spec if name is None else replace(spec, name=name)
        if models is None and train.users is None and getattr(spec.make(), "needs_users", False):
            skipped[spec.name] = "it learns from users, and these baskets name none"
        else:
            specs.append(spec)
    names = [spec.name for spec in specs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ParameterError(
            f"two models of the leaderboard are called {printable(twice)!r}",
            hint="Each row needs a name of its own.",
        )
    if not specs:
        raise ParameterError("a leaderboard needs at least one model")
    return tuple(specs), skipped


def model_spec(model: str | Model, strata: Sequence[str] = ()) -> ModelSpec:
    """The row of a model; counts are compared with chance within `strata`."""
    if isinstance(model, str) and ":" in model:
        outside = external_class(model)
        sample = outside()
        name = str(getattr(sample, "name", "") or model)
        kind = str(getattr(sample, "kind", "external"))
        return ModelSpec(name, kind, outside, tuple(getattr(sample, "devices", ("cpu", "gpu"))))
    if isinstance(model, str):
        base, _, preset = model.partition("@")
        name, sample = model, make_model(base, preset=preset or None)
    else:
        name, sample = model.name, model
    fitted, parameters = type(sample), ranked_within(sample.parameters, strata)
    return ModelSpec(name, fitted.kind, lambda: fitted(parameters), tuple(fitted.devices))


def external_class(address: str) -> Callable[[], Any]:
    """The class at `pkg.mod:Class`, which must have the methods NEEDED."""
    module, _, attribute = address.partition(":")
    if not module or not attribute:
        raise must_be("model", "a model's name or an address pkg.mod:Class", address)
    try:
        outside: Any = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ParameterError(
            f"cannot import the model {printable(address)}: {printable(error)}",
            hint="Its package must be installed, or its folder on PYTHONPATH.",
        ) from error
    missing = [name for name in NEEDED if not callable(getattr(outside, name, None))]
    if not isinstance(outside, type) or missing:
        raise ParameterError(
            f"{printable(address)} must be a class with {', '.join(NEEDED)}, "
            f"it has no {', '.join(missing) or 'type'}",
            hint="Derive it from neatrec.models.Model.",
        )
    return outside
