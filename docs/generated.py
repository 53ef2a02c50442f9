"""Sphinx extension of `docs/conf.py`: parts of the reference that are generated from the code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import typer

import neatrec
from neatrec.cli.main import PANELS, app
from neatrec.io.options import option_infos
from neatrec.service.app import api_document


def commands() -> str:
    """Every command with its arguments and options, in the panels of `neatrec --help`."""
    group: Any = typer.main.get_command(app)
    panel_of = {name: panel for panel, names in PANELS.items() for name in names}
    lines = []
    for name, command in group.commands.items():
        lines += [f"## `neatrec {name}`", "", command.help, ""]
        lines += [f"Panel *{panel_of[name]}* of `neatrec --help`.", ""]
        lines += _table(("option", "meaning", "default"), _options(command))
    return "\n".join(lines)


def _options(command: Any) -> Iterator[tuple[str, str, str]]:
    for option in command.params:
        if getattr(option, "hidden", False) or option.name == "help":
            continue
        is_argument = option.param_type_name == "argument"
        named = option.metavar or {int: "N", float: "X"}.get(
            type(option.default), option.name.upper()
        )
        words = named if is_argument else ", ".join(option.opts)
        value = "" if is_argument or option.is_flag else f" {named}"
        other = f" / {', '.join(option.secondary_opts)}" if option.secondary_opts else ""
        has_default = option.default not in (None, (), [], False)
        shown = "required" if option.required else f"`{option.default}`" if has_default else ""
        yield f"`{words}{value}{other}`", option.help or "", shown


def source_options() -> str:
    """The options that describe SOURCE, in every command."""
    rows = [
        (f"`--{name.replace('_', '-')} {info.metavar}`".replace(" `", "`"), info.help, info.panel)
        for name, info in option_infos().items()
        if info.panel is not None
    ]
    return "\n".join(_table(("option", "meaning", "group"), rows))


def python() -> str:
    """Every public name, documented by autodoc; the front first."""
    order = sorted(neatrec.__all__, key=lambda name: name not in ("fit", "Shop"))
    kinds = {name: getattr(neatrec, name) for name in order if name != "__version__"}
    lines = []
    for name, kind in kinds.items():
        directive = "autoclass" if isinstance(kind, type) else "autofunction"
        members = ["   :members:"] if isinstance(kind, type) else []
        home = f".. {directive}:: {kind.__module__}.{kind.__qualname__}"
        lines += [f"## `{name}`", "", "```{eval-rst}", home, *members, "```", ""]
    return "\n".join(lines)


def http() -> str:
    """Every request of the API: parameters, bodies, answers, errors."""
    document = api_document()
    requests = [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    lines = []
    for path, method, operation in requests:
        lines += [f"## `{method.upper()} {path}`", "", operation["description"], ""]
        body = _schema(document, operation.get("requestBody", {}))
        rows = [
            _parameter(each["name"], each["in"], each["schema"], each["required"])
            for each in operation.get("parameters", ())
        ]
        rows += [
            _parameter(name, "body", schema, name in body["required"])
            for name, schema in body.get("properties", {}).items()
        ]
        lines += _table(("parameter", "in", "values", "default", "meaning"), rows)
        answer = _schema(document, operation["responses"]["200"])
        for title, schema in (("A body", body), ("An answer", answer)):
            if "example" in schema:
                code = json.dumps(schema["example"], indent=2, ensure_ascii=False)
                lines += [f"{title}:", "", "```json", code, "```", ""]
        errors = [
            f"{status}: {answer['description']}."
            for status, answer in operation["responses"].items()
            if status != "200"
        ]
        lines += [" ".join(errors), ""]
    return "\n".join(lines)


def _schema(document: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """The schema of a JSON body or answer; empty where there is none."""
    schema: dict[str, Any] = part.get("content", {}).get("application/json", {}).get("schema", {})
    name = schema.get("$ref", "").rpartition("/")[2]
    return document["components"]["schemas"][name] if name else schema


def _parameter(
    name: str, location: str, schema: dict[str, Any], required: bool
) -> tuple[str, str, str, str, str]:
    default = schema.get("default")
    shown = "required" if required else "" if default in (None, []) else json.dumps(default)
    return f"`{name}`", location, _values(schema), shown, schema.get("description", "")


def _values(schema: dict[str, Any]) -> str:
    """The values that a parameter takes."""
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return ", ".join(schema["enum"])
    if schema["type"] == "array":
        return f"list of {_values(schema['items'])}"
    limits = f" {schema['minimum']:g} to {schema['maximum']:g}" if "minimum" in schema else ""
    names = {"string": "text", "boolean": "true, false", "integer": "integer"}
    return names[schema["type"]] + limits


def _table(head: tuple[str, ...], rows: Any) -> list[str]:
    cells = [[" ".join(cell.replace("|", "\\|").split()) for cell in row] for row in rows]
    if not cells:
        return []
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *cells)] + [""]


SECTIONS: dict[str, Callable[[], str]] = {
    "commands": commands,
    "source options": source_options,
    "python": python,
    "http": http,
}
"""Name in a page's marker -> function that writes its Markdown."""


def filled(text: str) -> str:
    """A page with each marker `generated: NAME` replaced by its section."""
    for name, section in SECTIONS.items():
        marker = f"<!-- generated: {name} -->"
        if marker in text:
            text = text.replace(marker, section())
    return text


def setup(app: Any) -> dict[str, bool]:
    """Register the replacement of markers with Sphinx."""

    def fill_in(app: Any, page: str, source: list[str]) -> None:
        source[0] = filled(source[0])

    app.connect("source-read", fill_in)
    return {"parallel_read_safe": True}
