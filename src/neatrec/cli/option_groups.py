"""Options that several commands share, written once.

A command names a group by a parameter of the group's type; `with_groups` replaces that parameter by the group's
options on the command line and hands the command one object.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from neatrec.io.options import OptionInfo

COMMAND_LINE_TYPES: dict[str, Any] = {
    "columns": list[str] | None,
    "file": Path | None,
    "query": Path | None,
    "flag": bool,
}
"""What typer parses for an `OptionInfo` of each kind; text for the others."""


def with_groups(command: Callable[..., Any]) -> Callable[..., Any]:
    """`command` with each parameter whose type is a dataclass replaced by an option for each of its fields.

    Fields carry their options as `Annotated[...]`, like any parameter of a typer command, or an `OptionInfo`; a field
    may be a group itself.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if name != "return" and is_dataclass(kind)}
    flat: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            flat += _parameters_of(groups[name])
        else:
            flat.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(command)
    def call(**values: Any) -> Any:
        for name, kind in groups.items():
            values[name] = _built(kind, values)
        return command(**values)

    call.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    del call.__wrapped__  # inspect would look through to the grouped signature
    return call


def _parameters_of(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    found: list[inspect.Parameter] = []
    for field in fields(group):
        hint, default = hints[field.name], field.default
        if is_dataclass(hint):
            found += _parameters_of(hint)
            continue
        info = getattr(hint, "__metadata__", (None,))[0]
        if isinstance(info, OptionInfo):
            if info.panel is None:
                continue
            # `neatrec help data` lists them once; in the help of every command they would hide its own options
            names = [f"--{field.name.replace('_', '-')}"] if info.kind == "flag" else []  # without a --no-... beside it
            # hidden options are not completed either, so a shell that asks gets them all
            hidden = "_NEATREC_COMPLETE" not in os.environ
            option = typer.Option(*names, metavar=info.metavar or None, help=info.help, hidden=hidden)
            hint = Annotated[COMMAND_LINE_TYPES.get(info.kind, str | None), option]
            default = False if info.kind == "flag" else None
        default = inspect.Parameter.empty if default is MISSING else default
        found.append(inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint))
    return found


def _built(group: Any, values: dict[str, Any]) -> Any:
    """The group with its fields taken out of `values`."""
    hints = get_type_hints(group)
    chosen = {}
    for field in fields(group):
        if is_dataclass(hints[field.name]):
            chosen[field.name] = _built(hints[field.name], values)
        elif field.name in values:
            chosen[field.name] = values.pop(field.name)
    return group(**chosen)
