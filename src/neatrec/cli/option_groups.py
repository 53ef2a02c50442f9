"""Options that several commands share, written once.

A command names a group by a parameter of the group's type; `with_groups` replaces that parameter by the group's
options on the command line and hands the command one object.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints


def with_groups(command: Callable[..., Any]) -> Callable[..., Any]:
    """`command` with each parameter whose type is a dataclass replaced by an option for each of its fields.

    Fields carry their options as `Annotated[...]`, like any parameter of a typer command.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if name != "return" and is_dataclass(kind)}
    flat: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            flat += _parameters_of(groups[name])  # type: ignore[arg-type]
        else:
            flat.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(command)
    def call(**values: Any) -> Any:
        for name, kind in groups.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})  # type: ignore[operator]
        return command(**values)

    call.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    del call.__wrapped__  # inspect would look through to the grouped signature
    return call


def _parameters_of(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]
