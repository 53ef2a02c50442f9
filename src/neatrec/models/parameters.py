"""Parameters of models: frozen dataclasses whose fields carry a description and bounds."""

from __future__ import annotations

import dataclasses
import math
import operator
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from neatrec.errors import must_be, must_be_one_of

NONE_WORDS = frozenset({"none", "null", ""})
TRUE_WORDS = frozenset({"true", "yes", "on", "1"})
FALSE_WORDS = frozenset({"false", "no", "off", "0"})
TYPE_WORDS: Mapping[Any, str] = {
    int: "integer",
    float: "number",
    bool: "true or false",
    str: "text",
    type(None): "none",
}
BOUNDS: Mapping[str, tuple[Callable[[Any, Any], bool], str]] = {
    "above": (operator.gt, "above"),
    "low": (operator.ge, "at least"),
    "high": (operator.le, "at most"),
}


def parameter(
    default: Any,
    description: str,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    choices: Iterable[str] | None = None,
) -> Any:
    """A dataclass field with a default, a description and bounds.

    `low` and `high` are inclusive, `above` is exclusive.
    """
    metadata = {"description": description, "low": low, "high": high, "above": above}
    return field(
        default=default, metadata={**metadata, "choices": tuple(choices) if choices else None}
    )


def with_default(parameters: type[ModelParameters], name: str, default: Any) -> Any:
    """The field `name` of `parameters` with another default."""
    return field(default=default, metadata=parameters.__dataclass_fields__[name].metadata)


@dataclass(frozen=True)
class ModelParameters:
    """The hyperparameters of a model, checked on construction and saved with the model."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Named settings that differ from the defaults: {"paper": {...}}."""

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(type(self))
        for spec in dataclasses.fields(self):
            value = _checked(spec, hints[spec.name], getattr(self, spec.name))
            object.__setattr__(self, spec.name, value)

    @classmethod
    def make(cls, settings: Mapping[str, Any] | None = None, *, preset: str | None = None) -> Self:
        """Parameters from settings by name (values may be text), on top of a preset.

        A model that has no settings of its own under `preset="paper"` takes its defaults.
        """
        values = dict(cls._preset(preset))
        hints = typing.get_type_hints(cls)
        known = [spec.name for spec in dataclasses.fields(cls)]
        for name, value in (settings or {}).items():
            if name not in known:
                raise (
                    must_be_one_of("set", known, name)
                    if known
                    else must_be("set", "left out: no parameters", name)
                )
            values[name] = _parsed(name, hints[name], value) if isinstance(value, str) else value
        return cls(**values)

    @classmethod
    def _preset(cls, preset: str | None) -> Mapping[str, Any]:
        if preset in (None, "default"):
            return {}
        if preset not in {"paper", *cls.presets}:
            raise must_be_one_of("preset", sorted({"default", "paper", *cls.presets}), preset)
        return cls.presets.get(str(preset), {})

    def to_dict(self) -> dict[str, Any]:
        """The parameters as JSON holds them."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class ParameterInfo:
    """One line of `neatrec show`: a parameter with its type, default and description."""

    name: str
    type: str
    default: Any
    description: str
    choices: tuple[str, ...] | None = None


def describe_parameters(parameters: type[ModelParameters]) -> tuple[ParameterInfo, ...]:
    """Each field of `parameters`."""
    hints = typing.get_type_hints(parameters)
    return tuple(
        ParameterInfo(
            name=spec.name,
            type=_type_name(hints[spec.name]),
            default=spec.default,
            description=spec.metadata.get("description", ""),
            choices=spec.metadata.get("choices"),
        )
        for spec in dataclasses.fields(parameters)
    )


def parse_settings(settings: Iterable[str]) -> dict[str, str]:
    """`["dim=64", "epochs=5"]` as a mapping; a repeated key is an error.

    >>> parse_settings(["dim=64", "weight-by=count"])
    {'dim': '64', 'weight_by': 'count'}
    """
    out: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key:
            raise must_be("set", "of the form key=value", setting)
        if key in out:
            raise must_be("set", f"given once for each key, {key} comes twice", setting)
        out[key] = value.strip()
    return out


def _members(hint: Any) -> tuple[Any, ...]:
    """The plain types of `hint`: (int, NoneType) for `int | None`."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return tuple(typing.get_args(hint))
    return (hint,)


def _type_name(hint: Any) -> str:
    return " or ".join(TYPE_WORDS.get(member, str(member)) for member in _members(hint))


def _type_phrase(hint: Any) -> str:
    """The type in an error message: "an integer or none"."""
    articles = {int: "an ", float: "a "}
    return articles.get(_members(hint)[0], "") + _type_name(hint)


def _parsed(name: str, hint: Any, text: str) -> Any:
    """`text` as a value of the first type of `hint` that accepts it."""
    members = _members(hint)
    if type(None) in members and text.lower() in NONE_WORDS:
        return None
    if bool in members and text.lower() in TRUE_WORDS | FALSE_WORDS:
        return text.lower() in TRUE_WORDS
    for kind in (int, float):
        if kind in members:
            try:
                return kind(text)
            except ValueError:
                continue
    if str in members:
        return text
    raise must_be(name, _type_phrase(hint), text)


def _checked(spec: dataclasses.Field[Any], hint: Any, value: Any) -> Any:
    members = _members(hint)
    if type(value) is int and float in members and int not in members:
        value = float(value)
    kinds = tuple(member for member in members if isinstance(member, type))
    wrong_bool = isinstance(value, bool) and bool not in kinds
    if wrong_bool or not isinstance(value, kinds):
        raise must_be(spec.name, _type_phrase(hint), value)
    if spec.metadata.get("choices") and value is not None and value not in spec.metadata["choices"]:
        raise must_be_one_of(spec.name, spec.metadata["choices"], value)
    if isinstance(value, float) and not math.isfinite(value):
        raise must_be(spec.name, "a finite number", value)
    for name, (within, words) in BOUNDS.items():
        bound = spec.metadata.get(name)
        if bound is not None and value is not None and not within(value, bound):
            raise must_be(spec.name, f"{words} {bound}", value)
    return value
